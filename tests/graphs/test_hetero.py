"""A puzzle as a graph of PyTorch Geometric: nodes, edges and givens are those of the puzzle."""

from __future__ import annotations

import sys
import warnings

import numpy as np
import pytest
import torch

from outgrow import Instance, OutgrowError, constraint_graph, parse_one, relation_graph
from outgrow.data import find_dataset
from outgrow.graphs import to_hetero

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torch_geometric")

GRAPH = "c k 3\nc given 1 1\np edge 5 6\ne 1 2\ne 2 3\ne 3 4\ne 4 5\ne 5 1\ne 1 3"
PUZZLES = [parse_one("1.....3..4.....2"), find_dataset("futoshiki-6-valid")[0], parse_one(GRAPH)]


@pytest.mark.parametrize("puzzle", PUZZLES, ids=lambda p: p.puzzle)
def test_it_holds_what_the_puzzle_holds(puzzle: Instance) -> None:
    data = to_hetero(puzzle)
    data.validate()
    csp = puzzle.csp
    assert data["variable"].num_nodes == csp.num_variables
    assert data["value"].num_nodes == csp.num_values
    assert data["variable"].given.tolist() == puzzle.givens.tolist()
    for nodes, graph in (("variable", constraint_graph(csp)), ("value", relation_graph(csp))):
        for kind, edges in graph.edges.items():
            stored = data[nodes, str(kind).replace(" ", "_"), nodes].edge_index
            assert stored.tolist() == edges.tolist()
    known = data["value", "assigned", "variable"].edge_index
    assert {(v + 1, i) for v, i in known.T.tolist()} == {(v, i) for i, v in enumerate(puzzle.givens.tolist()) if v}
    possible = data["value", "possible", "variable"].edge_index
    assert {(v, i) for v, i in possible.T.tolist()} == {
        (v, i) for i, given in enumerate(puzzle.givens.tolist()) if not given for v in range(csp.num_values)
    }


def test_with_its_solution() -> None:
    data = find_dataset("futoshiki-6-valid")
    graph = to_hetero(data[0], data.solution(0))
    assert (graph["variable"].y + 1).tolist() == data.solution(0).tolist()
    assert graph["variable"].y.dtype == torch.int64
    with pytest.raises(ValueError):
        to_hetero(data[0], np.zeros(3, dtype=int))


def test_without_pytorch_geometric_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [n for n in sys.modules if n.split(".")[0] == "torch_geometric"]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "torch_geometric", None)
    monkeypatch.setitem(sys.modules, "torch_geometric.data", None)
    with pytest.raises(OutgrowError, match="pip install torch_geometric"):
        to_hetero(PUZZLES[0])
