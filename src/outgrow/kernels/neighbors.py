"""Who sends to whom: padded tables of in-neighbors, and the gather through them."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

__all__ = ["Block", "Neighbors", "gather"]


@dataclass(frozen=True, eq=False)
class Block:
    """The E edges into some rows of a table, one after another.

    Attributes:
        first, stop: the rows.
        sources: (E,).
        packed: where the table is padded, which of its entries they are (E,), their destinations (E,), where those of each row begin, and 0, 1, 2, ...
            (E,); None where it is not, so that all rows have as many.
    """

    first: int
    stop: int
    sources: Tensor
    packed: tuple[Tensor, Tensor, Tensor, Tensor] | None


@dataclass(frozen=True, eq=False)
class Neighbors:
    """Edges of one type between S sources and N destinations, by destination and padded to the largest in-degree D.

    A table read by rows needs no scatter: its sums run in a fixed order, so the same input gives the same output, and
    `torch.compile` fuses them.

    Attributes:
        source: (N, D) int64, the sources that send to each destination; any valid row where padded.
        mask: (N, D) bool, which entries are edges; None if all are.
        num_sources: S.
        constant: every batch of as many puzzles has the very same table (boards do, graphs differ).
    """

    source: Tensor
    mask: Tensor | None
    num_sources: int
    constant: bool = False

    @property
    def degree(self) -> int:
        """D, padding included."""
        return self.source.shape[1]

    @cached_property
    def share(self) -> Tensor:
        """The weight of each entry in a plain mean: (N, D), one over the in-degree, 0 where padded."""
        if self.mask is None:
            return torch.full_like(self.source, 1.0 / max(self.degree, 1), dtype=torch.get_default_dtype())
        return self.mask / self.mask.sum(1, keepdim=True).clamp(min=1)

    @cached_property
    def log_degree(self) -> Tensor:
        """The log of the in-degree: (N, 1), 0 for one edge or none."""
        if self.mask is None:
            return torch.full_like(self.source[:, :1], math.log(max(self.degree, 1)), dtype=torch.get_default_dtype())
        return self.mask.sum(1, keepdim=True).clamp(min=1).to(torch.get_default_dtype()).log()

    @cached_property
    def present(self) -> Tensor | None:
        """(N, 1) bool, destinations with at least one edge; None if all have one."""
        if self.mask is None and self.degree:
            return None
        return (self.source >= 0 if self.mask is None else self.mask).any(1, keepdim=True)

    @cached_property
    def filled(self) -> Neighbors:
        """The same with an edge in place of padding, another time one of the row's own: what is largest of a row is so of that. Rows without any get any."""
        if self.mask is None:
            return self
        first = self.mask.to(torch.uint8).argmax(1, keepdim=True)
        return Neighbors(torch.where(self.mask, self.source, self.source.gather(1, first)), None, self.num_sources)

    @cached_property
    def readers(self) -> tuple[Tensor, Tensor]:
        """The table read the other way, for gradients: (N * D,) entries of it grouped by source, and (S,) where each group begins.

        Padding is among them: its weight is 0, and so is its gradient.
        """
        sources = self.source.flatten()
        count = torch.zeros(self.num_sources, dtype=torch.int64, device=sources.device)
        count = count.index_add(0, sources, torch.ones_like(sources))
        return torch.argsort(sources, stable=True), count.cumsum(0) - count

    @cached_property
    def returns(self) -> tuple[Tensor, Tensor | None] | None:
        """The same as a padded table, (S, R) entries and their mask, for tables that come again and again: on a board all are of one length,
        1 or n, and need no groups of any length. None where it would be mostly padding."""
        if not self.constant or self.source.numel() == 0:
            return None
        sources = self.source.flatten() if self.mask is None else self.source[self.mask]
        entries = torch.arange(self.source.numel(), device=sources.device)
        entries = entries if self.mask is None else entries[self.mask.flatten()]
        count = torch.bincount(sources, minlength=self.num_sources)
        longest = int(count.max())
        if longest * self.num_sources > 4 * self.source.numel():
            return None
        mask = torch.arange(longest, device=sources.device) < count.unsqueeze(1)
        table = torch.zeros_like(mask, dtype=torch.int64)
        table[mask] = entries[torch.argsort(sources, stable=True)]
        return table, None if bool(mask.all()) else mask

    def prepare(self) -> Neighbors:
        """Works out now, outside of compiled code, what messages need and, where gradients are on, their way back."""
        _ = self.share, self.log_degree, self.present
        if torch.is_grad_enabled() and (self.source.is_cuda or self.returns is None):
            _ = self.readers
        return self

    def parts(self, rows: int) -> list[tuple[int, Neighbors]]:
        """The edges into so many destinations at a time: the first destination of each part, and its table. They are kept, with what is worked out of them."""
        if len(self.source) <= rows:
            return [(0, self)] if len(self.source) else []
        known = self.__dict__.setdefault("_parts", {})
        if rows not in known:
            known[rows] = [(first, self.rows(first, first + rows)) for first in range(0, len(self.source), rows)]
        return known[rows]

    def blocks(self, edges: int) -> list[Block]:
        """The edges without padding, in blocks of about so many. They are kept."""
        known = self.__dict__.setdefault("_blocks", {})
        if edges not in known:
            known[edges] = list(self._split(edges) if self.mask is None else self._pack(edges, self.mask))
        return known[edges]

    def _split(self, edges: int) -> Iterator[Block]:
        rows = max(1, edges // max(self.degree, 1))
        for first, part in enumerate(self.source.split(rows)):
            yield Block(first * rows, first * rows + len(part), part.flatten(), None)

    def _pack(self, edges: int, mask: Tensor) -> Iterator[Block]:
        entries, ends = mask.flatten().nonzero().squeeze(1), mask.sum(1).cumsum(0)
        starts = functional.pad(ends, (1, -1))
        first = begin = 0
        for row, end in enumerate(ends.tolist(), start=1):
            if end - begin >= edges or row == len(ends):
                part = entries[begin:end]
                numbers = torch.arange(end - begin, device=part.device)
                packed = part, part // max(self.degree, 1), starts[first:row] - begin, numbers
                yield Block(first, row, self.source.flatten()[part], packed)
                first, begin = row, end

    def rows(self, start: int, stop: int) -> Neighbors:
        """The edges into destinations start..stop alone."""
        return Neighbors(
            self.source[start:stop], None if self.mask is None else self.mask[start:stop], self.num_sources
        )


class _Gather(torch.autograd.Function):
    """rows[source]; its gradient sums over readers through their own table, in a fixed order and without atomics."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, source: Tensor, entries: Tensor, starts: Tensor) -> Tensor:
        ctx.save_for_backward(entries, starts)
        return rows.index_select(0, source.flatten()).view(*source.shape, rows.shape[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        entries, starts = ctx.saved_tensors
        # A sum of whole rows without an edge-sized copy of them.
        summed = functional.embedding_bag(entries, grads[0].flatten(0, 1), starts, mode="sum")
        return summed, None, None, None


class _GatherBoard(torch.autograd.Function):
    """The same where readers come as a padded table."""

    @staticmethod
    def forward(ctx: Any, rows: Tensor, source: Tensor, returns: Tensor, mask: Tensor | None) -> Tensor:
        ctx.save_for_backward(returns, mask)
        return rows.index_select(0, source.flatten()).view(*source.shape, rows.shape[1])

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        returns, mask = ctx.saved_tensors
        found = grads[0].flatten(0, 1).index_select(0, returns.flatten())
        if returns.shape[1] == 1 and mask is None:
            return found, None, None, None
        found = found.view(*returns.shape, found.shape[1])
        if mask is not None:
            found = found * mask.unsqueeze(2)
        return found.sum(1), None, None, None


def gather(rows: Tensor, neighbors: Neighbors) -> Tensor:
    """The rows (S, F) of every neighbor: (N, D, F)."""
    if torch.is_grad_enabled() and rows.requires_grad:
        if neighbors.returns is not None:
            return _GatherBoard.apply(rows, neighbors.source, *neighbors.returns)  # pyright: ignore[reportReturnType]
        return _Gather.apply(rows, neighbors.source, *neighbors.readers)  # pyright: ignore[reportReturnType]
    return rows.index_select(0, neighbors.source.flatten()).view(*neighbors.source.shape, rows.shape[1])
