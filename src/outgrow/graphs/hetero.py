"""A puzzle as PyTorch Geometric knows graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outgrow.csp import constraint_graph, relation_graph
from outgrow.errors import OutgrowError
from outgrow.puzzles import Instance

__all__ = ["to_hetero"]


def to_hetero(puzzle: Instance, solution: npt.NDArray[np.integer] | None = None) -> Any:
    """The paper's graph over variables and values, as a `torch_geometric.data.HeteroData`.

    Nodes `variable`: `given` (V,) the value 1..K or 0, and with a solution `y` (V,) from 0; nodes `value`: `x` (K, 1), their numbers from 0.
    Edges: between variables, one type for each predicate, and between values, one for each relation; where the relation is not symmetric,
    one more against its direction, `less_reversed`; `assigned` from the value of a given variable, and `possible` from every value to an open one.
    """
    try:
        from torch_geometric.data import HeteroData
    except ImportError:
        raise OutgrowError("PyTorch Geometric is not installed; pip install torch_geometric") from None
    csp = puzzle.csp
    data = HeteroData()
    givens = torch.from_numpy(puzzle.givens.astype(np.int64))
    data["variable"].given = givens
    data["variable"].num_nodes = csp.num_variables
    if solution is not None:
        data["variable"].y = torch.from_numpy(csp.assignment(np.asarray(solution)).astype(np.int64)) - 1
    data["value"].x = torch.arange(csp.num_values).unsqueeze(1)
    for nodes, graph in (("variable", constraint_graph(csp)), ("value", relation_graph(csp))):
        for kind, edges in graph.edges.items():
            name = str(kind).replace(" ", "_")
            data[nodes, name, nodes].edge_index = torch.from_numpy(np.ascontiguousarray(edges, dtype=np.int64))
    known = (givens > 0).nonzero().squeeze(1)
    data["value", "assigned", "variable"].edge_index = torch.stack([givens[known] - 1, known])
    unknown = (givens == 0).nonzero().squeeze(1)
    every = torch.arange(csp.num_values)
    data["value", "possible", "variable"].edge_index = torch.stack(
        [every.repeat(len(unknown)), unknown.repeat_interleave(csp.num_values)]
    )
    return data
