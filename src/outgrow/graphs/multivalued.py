"""The multi-valued model's two graphs: CMPG over variables and values, RMPG over values."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from outgrow.graphs.batch import Batch
from outgrow.kernels import Neighbors

__all__ = ["MultivaluedGraph", "multivalue"]


@dataclass(frozen=True, eq=False)
class MultivaluedGraph:
    """V variable nodes and, for each of B puzzles, K value nodes: B * K in all, those beyond a puzzle's own K without edges.

    Attributes:
        batch: the puzzles.
        constraint: CMPG, constraint edges between variables.
        assigned: CMPG, from the value of each assigned variable to it (D = 1).
        unassigned: CMPG, from every value to each unassigned variable (D = K).
        relation: RMPG, relation edges between the values of each puzzle.
    """

    batch: Batch
    constraint: tuple[Neighbors, ...]
    assigned: Neighbors
    unassigned: Neighbors
    relation: tuple[Neighbors, ...]


def multivalue(batch: Batch) -> MultivaluedGraph:
    """CMPG and RMPG of the puzzles."""
    device = batch.puzzle.device
    count = batch.max_values
    base = batch.puzzle.unsqueeze(1) * count  # (V, 1) the first value node of each variable's puzzle
    given = batch.givens.unsqueeze(1)
    assigned = Neighbors(base + (given - 1).clamp(min=0), given > 0, len(batch) * count)
    every = base + torch.arange(count, device=device)
    unassigned = Neighbors(every, batch.allowed & (given == 0), len(batch) * count)

    def relation(edges: Neighbors) -> Neighbors:
        start = torch.arange(len(batch), device=device).view(-1, 1, 1) * count
        source = (start + edges.source).flatten(0, 1)
        mask = None if edges.mask is None else edges.mask.repeat(len(batch), 1)
        if not batch.same_size:
            held: Tensor = batch.num_values.view(-1, 1, 1)
            value = torch.arange(count, device=device).view(1, -1, 1)
            exists = ((edges.source < held) & (value < held)).flatten(0, 1)
            mask = exists if mask is None else exists & mask
        return Neighbors(source, mask, len(batch) * count)

    return MultivaluedGraph(
        batch,
        batch.constraint,
        assigned,
        unassigned,
        tuple(relation(edges) for edges in batch.relation),
    )
