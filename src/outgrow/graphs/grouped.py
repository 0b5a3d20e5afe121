"""The grouped graph: nodes (variable, value) as in the binarized one, and groups of nodes between them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from weakref import WeakKeyDictionary

import torch
from torch import Tensor

from outgrow.errors import OutgrowError
from outgrow.graphs.batch import Batch, GroupTables
from outgrow.graphs.binarized import BinarizedGraph, binarize
from outgrow.kernels import Neighbors, Roster

__all__ = ["GroupedGraph", "NodeGroups", "group_nodes"]

# Groups of variables -> V, K and the groups of nodes made of them last.
_COPIES: WeakKeyDictionary[Neighbors, tuple[tuple[int, int], NodeGroups]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class NodeGroups:
    """Groups of one type: who their members are (G, n), and the groups of each node (N, D)."""

    members: Neighbors
    memberships: Neighbors

    @property
    def count(self) -> int:
        """G."""
        return len(self.members.source)


# A variable's values -> the groups they were last seen with, and the roster made of both.
_ROSTERS: WeakKeyDictionary[NodeGroups, tuple[tuple[NodeGroups, ...], Roster]] = WeakKeyDictionary()


@dataclass(frozen=True, eq=False)
class GroupedGraph(BinarizedGraph):
    """The binarized graph without those edges that groups stand for.

    Attributes:
        groups: every group of variables, once for each value: {(j, l), (j', l), ...}.
        values: every variable's own group: {(j, l), (j, l'), ...}.
        crowd: (N, 1) what is added to logits of nodes, where they are to count for more or less than one.
    """

    groups: tuple[NodeGroups, ...]
    values: NodeGroups
    crowd: Tensor | None = field(default=None, kw_only=True)

    @cached_property
    def roster(self) -> Roster:
        """The groups of all types, variables' values last."""
        # Fixed boards come with the same groups batch after batch.
        groups, roster = _ROSTERS.get(self.values, (None, None))
        if roster is None or groups is None or [id(g) for g in groups] != [id(g) for g in self.groups]:
            roster = Roster([(g.members, g.memberships) for g in (*self.groups, self.values)])
            _ROSTERS[self.values] = (self.groups, roster)
        return roster


@lru_cache(maxsize=16)
def _group_values(variables: int, values: int, device: torch.device, dtype: torch.dtype) -> NodeGroups:
    """Each variable's values, where all have as many; `dtype` is what tables work out their weights in."""
    nodes = torch.arange(variables * values, device=device)
    return NodeGroups(
        Neighbors(nodes.view(variables, values), None, len(nodes), constant=True),
        Neighbors((nodes // values).unsqueeze(1), None, variables, constant=True),
    )


def group_nodes(
    batch: Batch, predicates: Iterable[str], constraint_types: Iterable[int], relation_types: Iterable[int]
) -> GroupedGraph:
    """The graph of a batch, with the groups of these predicates and edges of these types."""
    predicates = tuple(predicates)
    for name in predicates:
        if name in batch.paired:  # its edges are left out: without groups nobody would hear of these facts
            raise OutgrowError(f"{name} is stated in pairs, and the model knows it in groups; state it as Groups(...)")
    edges = binarize(batch, constraint_types, relation_types)
    device = batch.puzzle.device
    values = batch.num_values[batch.puzzle]  # (V,)
    first = values.cumsum(0) - values  # (V,) the first node of each variable
    nodes = len(edges.known)
    if batch.same_size:
        variable = torch.arange(batch.num_variables, device=device).repeat_interleave(batch.max_values)
    else:
        variable = torch.arange(batch.num_variables, device=device).repeat_interleave(values)
    value = torch.arange(nodes, device=device) - first[variable]
    none = NodeGroups(
        Neighbors(variable.new_zeros(0, 1), None, nodes, True), Neighbors(variable.new_zeros(nodes, 0), None, 0, True)
    )

    def copy(tables: GroupTables) -> NodeGroups:
        if not len(tables.puzzle):
            return none
        sizes = batch.num_values[tables.puzzle]  # (G,)
        start = sizes.cumsum(0) - sizes
        if batch.same_size:
            group = torch.arange(len(sizes), device=device).repeat_interleave(batch.max_values)
        else:
            group = torch.arange(len(sizes), device=device).repeat_interleave(sizes)
        of_group = torch.arange(len(group), device=device) - start[group]
        members, memberships = tables.members, tables.memberships
        # Padding of a puzzle without groups (or variables) names those of another, with fewer values: they must be there.
        return NodeGroups(
            Neighbors(
                (first[members.source[group]] + of_group.unsqueeze(1)).clamp(max=nodes - 1),
                None if members.mask is None else members.mask[group],
                nodes,
                members.constant,
            ),
            Neighbors(
                (start[memberships.source[variable]] + value.unsqueeze(1)).clamp(max=len(group) - 1),
                None if memberships.mask is None else memberships.mask[variable],
                len(group),
                memberships.constant,
            ),
        )

    def copied(tables: GroupTables) -> NodeGroups:
        # Fixed boards come with the same tables batch after batch: so do their copies.
        shape = (batch.num_variables, batch.max_values)
        if not batch.same_size:
            return copy(tables)
        if tables.members not in _COPIES or _COPIES[tables.members][0] != shape:
            _COPIES[tables.members] = (shape, copy(tables))
        return _COPIES[tables.members][1]

    if batch.same_size:
        own = _group_values(batch.num_variables, batch.max_values, device, torch.get_default_dtype())
    else:
        slots = torch.arange(batch.max_values, device=device) * batch.allowed  # padding names the first value
        own = NodeGroups(
            Neighbors(first.unsqueeze(1) + slots, batch.allowed, nodes),
            Neighbors(variable.unsqueeze(1), None, batch.num_variables),
        )
    stated = dict(zip(batch.grouped, batch.groups, strict=True))
    return GroupedGraph(
        batch,
        edges.known,
        edges.constraint,
        edges.relation,
        edges.node,
        tuple(copied(stated[name]) if name in stated else none for name in predicates),
        own,
    )
