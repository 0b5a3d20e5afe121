"""The binarized graph: one node for each variable and value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from outgrow.graphs.batch import Batch
from outgrow.kernels import Neighbors

__all__ = ["ASSIGNED", "RULED_OUT", "UNASSIGNED", "BinarizedGraph", "binarize"]

# What is known of a node (variable, value): nothing, that it is not so, or that it is.
UNASSIGNED, RULED_OUT, ASSIGNED = 0, 1, 2
# Tables over variables (or values) -> V, K and the table over nodes made of it last.
_COPIES: WeakKeyDictionary[Neighbors, tuple[tuple[int, int], Neighbors]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class BinarizedGraph:
    """N nodes (variable, value), ordered by puzzle, variable and value.

    Attributes:
        batch: the puzzles.
        known: (N,) UNASSIGNED, RULED_OUT or ASSIGNED.
        constraint: every constraint edge (j, j'), once for each value: (j, l) - (j', l).
        relation: every relation edge (l, l'), once for each variable: (j, l) - (j, l').
        node: (V, K) the node of each variable and value, any node where a variable has fewer values than K; None if they are
            simply counted up.
        marks: (N, C) numbers by which nodes can be told apart, if the model asks for them.
        soft: (N, 3) in place of `known`, how far each node is UNASSIGNED, RULED_OUT and ASSIGNED; they sum to 1.
    """

    batch: Batch
    known: Tensor
    constraint: tuple[Neighbors, ...]
    relation: tuple[Neighbors, ...]
    node: Tensor | None
    marks: Tensor | None = field(default=None, kw_only=True)
    soft: Tensor | None = field(default=None, kw_only=True)

    def by_variable(self, scores: Tensor) -> Tensor:
        """Scores (N,) as (V, K), minus infinity for values a variable does not have."""
        if self.node is None:
            return scores.view(self.batch.num_variables, self.batch.max_values)
        return scores[self.node].masked_fill(~self.batch.allowed, float("-inf"))


def binarize(
    batch: Batch, constraint_types: Iterable[int] | None = None, relation_types: Iterable[int] | None = None
) -> BinarizedGraph:
    """Copies of the constraint graph for each value and of the relation graph for each variable; of all types of edges or of these."""
    device = batch.puzzle.device
    values = batch.num_values[batch.puzzle]  # (V,)
    first = values.cumsum(0) - values  # (V,) the first node of each variable
    if batch.same_size:
        count = batch.max_values
        variable = torch.arange(batch.num_variables, device=device).repeat_interleave(count)
        value = torch.arange(count, device=device).repeat(batch.num_variables)
        node = None
    else:
        variable = torch.arange(batch.num_variables, device=device).repeat_interleave(values)
        value = torch.arange(len(variable), device=device) - first[variable]
        node = (first.unsqueeze(1) + torch.arange(batch.max_values, device=device)).clamp(max=len(variable) - 1)
    given = batch.givens[variable]
    known = torch.where(given == value + 1, ASSIGNED, RULED_OUT).masked_fill(given == 0, UNASSIGNED)

    def copied(edges: Neighbors, copy: Callable[[Neighbors], Neighbors]) -> Neighbors:
        # Fixed boards come with the same tables batch after batch: so do their copies.
        shape = (batch.num_variables, batch.max_values)
        if not batch.same_size:
            return copy(edges)
        if edges not in _COPIES or _COPIES[edges][0] != shape:
            _COPIES[edges] = (shape, copy(edges))
        return _COPIES[edges][1]

    def constraint(edges: Neighbors) -> Neighbors:
        # Both ends of a constraint edge belong to one puzzle, so the value exists at either.
        source = first[edges.source[variable]] + value.unsqueeze(1)
        mask = None if edges.mask is None else edges.mask[variable]
        return Neighbors(source, mask, len(variable), edges.constant)

    def relation(edges: Neighbors) -> Neighbors:
        sender = edges.source[value]  # (N, D)
        mask = None if edges.mask is None else edges.mask[value]
        if not batch.same_size:
            exists = sender < values[variable].unsqueeze(1)
            mask = exists if mask is None else exists & mask
            sender = torch.where(exists, sender, value.unsqueeze(1))
        return Neighbors(first[variable].unsqueeze(1) + sender, mask, len(variable), edges.constant)

    return BinarizedGraph(
        batch,
        known,
        tuple(copied(edges, constraint) for edges in _chosen(batch.constraint, constraint_types)),
        tuple(copied(edges, relation) for edges in _chosen(batch.relation, relation_types)),
        node,
    )


def _chosen(edges: tuple[Neighbors, ...], types: Iterable[int] | None) -> tuple[Neighbors, ...]:
    return edges if types is None else tuple(edges[i] for i in types)
