"""Who belongs to which group: groups of several types among the same nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import torch
from torch import Tensor
from torch.nn import functional

from outgrow.kernels.neighbors import Neighbors

__all__ = ["Roster"]


@dataclass(frozen=True, eq=False)
class Roster:
    """The groups of N nodes, of T types.

    Attributes:
        types: for each type the members of its groups (G_t, n_t), and the groups of each node (N, D_t): the same said twice.
    """

    types: Sequence[tuple[Neighbors, Neighbors]]

    @property
    def counts(self) -> list[int]:
        """G_t, how many groups there are of each type."""
        return [len(members.source) for members, _ in self.types]

    @property
    def most(self) -> int:
        """The largest number of groups of one type that a node is in, padding included."""
        return max((at.degree for _, at in self.types), default=0)

    @property
    def single(self) -> bool:
        """Every node is in one group of each type, as on a board."""
        return all(at.degree == 1 and at.mask is None for _, at in self.types)

    @cached_property
    def board(self) -> Board | None:
        """Of groups that are all of one size, each node in one of every type: all types in one table. None for others."""
        sizes = {members.source.shape for members, _ in self.types}
        whole = all(members.degree and members.mask is None for members, _ in self.types)
        if not (self.single and whole and len(sizes) == 1):
            return None
        count, kinds = len(self.types), range(len(self.types))
        members = torch.cat([members.source.flatten() for members, _ in self.types])
        each = members.numel() // count
        kind = torch.arange(count, device=members.device).repeat_interleave(each)
        (groups, size) = sizes.pop()
        of_node = torch.cat([self.types[k][1].source + k * groups for k in kinds], dim=1)
        return Board(groups, size, members, members * count + kind, of_node.flatten())

    def prepare(self) -> Roster:
        """Works out now, outside of compiled or recorded code, what messages and their gradients need."""
        for members, at in self.types:
            members.prepare()
            at.prepare()
        if self.types and self.types[0][0].source.is_cuda:
            _ = self.tables
        return self

    @cached_property
    def tables(self) -> Tables:
        """All types in one: what a kernel reads in a single launch."""
        longest = max((members.degree for members, _ in self.types), default=0)
        device = self.types[0][0].source.device
        members, groups, kinds, first, shares = [], [], [], 0, []
        for kind, (inside, at) in enumerate(self.types):
            count = len(inside.source)
            members.append(functional.pad(_marked(inside, 0), (0, longest - inside.degree), value=-1))
            groups.append(_marked(at, first))
            kinds.append(torch.full((count,), kind, dtype=torch.int32, device=device))
            degree = (groups[-1] >= 0).sum(1)
            shares.append(torch.where(degree > 0, 1.0 / degree.clamp(min=1), 0.0).to(torch.float32))
            first += count
        table = torch.cat(members)
        sizes = (table >= 0).sum(1).clamp(min=1)
        slots = [0]
        for _, at in self.types:
            slots.append(slots[-1] + at.degree)
        return Tables(
            members=table,
            kind=torch.cat(kinds),
            log_size=sizes.to(torch.float32).log(),
            groups=torch.cat(groups, dim=1).contiguous(),
            share=torch.stack(shares, dim=1).contiguous(),
            # Filled in there: a recording allows no copies from the host.
            slots=torch.cat([torch.full((1,), slot, dtype=torch.int32, device=device) for slot in slots]),
        )


@dataclass(frozen=True, eq=False)
class Board:
    """Members and groups of T types with G groups of n members each, type after type.

    Attributes:
        groups: G.
        size: n.
        members: (T * G * n,), the nodes of each group.
        places: (T * G * n,), the same where every node has a row for each type.
        of_node: (N * T,), the groups of each node.
    """

    groups: int
    size: int
    members: Tensor
    places: Tensor
    of_node: Tensor


@dataclass(frozen=True, eq=False)
class Tables:
    """Members and groups of all types side by side; int32, -1 where there is none.

    Attributes:
        members: (G, n), the nodes of each group, one type after the other.
        kind: (G,), the type of each group.
        log_size: (G,), the log of how many members it has; 0 for one or none.
        groups: (N, D), the groups of each node, one type after the other.
        share: (N, T), one over the number of a node's groups of that type, 0 for none.
        slots: (T + 1,), the columns of `groups` where each type begins, and where the last one ends.
    """

    members: Tensor
    kind: Tensor
    log_size: Tensor
    groups: Tensor
    share: Tensor
    slots: Tensor


def _marked(neighbors: Neighbors, first: int) -> Tensor:
    table = (neighbors.source + first).to(torch.int32)
    return table if neighbors.mask is None else table.masked_fill(~neighbors.mask, -1)
