"""Messages over edges without layers between the first and the last: the same functions as `reference.average_messages` and
`reference.strongest_messages`.

Node i hears sum_j w_ij relu(s_j + d_i), with w_ij the softmax over its in-neighbors j of l_ij = c_i leaky_relu(a_j + b_i), or equal shares. No
tensor of the size of all edges is written: weights are worked out anew from a, b and the log of the sum of exponentials of each node (lse).

With g the gradient of what i heard, y_i, that of l_ij is w_ij (g . relu(s_j + d_i) - g . y_i). Gradients of destinations are summed over
in-neighbors, those of sources over the nodes that read them.

Of the strongest, i hears relu(t_i + d_i) with t_i the largest s_j in each channel, and in-neighbors that are equally large share its gradient.
"""

# Triton's own language inside kernels is beyond what a type checker can follow.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from outgrow.kernels import reference
from outgrow.kernels.fused.blocks import power
from outgrow.kernels.neighbors import Neighbors

__all__ = ["average_messages", "strongest_messages"]

_LOW = tl.constexpr(-1e30)  # below every logit, and finite: differences of two stay numbers
_SLOPE = tl.constexpr(0.01)  # of leaky_relu below zero
_ROWS = 8


@triton.jit
def _neighbor(table, there, node, valid, slot, degree, masked: tl.constexpr):
    """The so-manieth in-neighbor of each node, and whether it has one."""
    place = node * degree + slot
    real = valid & (slot < degree)
    if masked:
        real = real & (tl.load(there + place, mask=real, other=0) != 0)
    return tl.load(table + place, mask=real, other=0), real


@triton.jit
def _hear_kernel(
    source,
    destination,
    source_logit,
    logit,
    scale,
    table,
    there,
    heard,
    lse,
    nodes,
    degree,
    most: tl.constexpr,
    width: tl.constexpr,
    attend: tl.constexpr,
    masked: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    valid = node < nodes
    inside = (column < width)[None, :]
    mine = tl.load(destination + node[:, None] * width + column[None, :], mask=valid[:, None] & inside, other=0.0).to(
        tl.float32
    )
    own = tl.zeros([N], tl.float32)
    sharpness = tl.zeros([N], tl.float32)
    if attend:
        own = tl.load(logit + node, mask=valid, other=0.0).to(tl.float32)
        sharpness = tl.load(scale + node, mask=valid, other=0.0)
    top = tl.full([N], _LOW, tl.float32)
    total = tl.zeros([N], tl.float32)
    sums = tl.zeros([N, H], tl.float32)
    for slot in range(most):
        j, real = _neighbor(table, there, node, valid, slot, degree, masked)
        x = tl.load(source + j[:, None] * width + column[None, :], mask=real[:, None] & inside, other=0.0)
        x = tl.maximum(x.to(tl.float32) + mine, 0.0)
        if attend:
            raw = tl.load(source_logit + j, mask=real, other=0.0).to(tl.float32) + own
            raw = tl.where(raw < 0, raw * _SLOPE, raw) * sharpness
            above = tl.maximum(top, tl.where(real, raw, _LOW))
            weight = tl.exp(tl.where(real, raw - above, _LOW))
            faded = tl.exp(top - above)
            sums = sums * faded[:, None] + weight[:, None] * x
            total = total * faded + weight
            top = above
        else:
            sums += tl.where(real[:, None], x, 0.0)
            total += tl.where(real, 1.0, 0.0)
    some = tl.where(total > 0, total, 1.0)
    tl.store(heard + node[:, None] * width + column[None, :], sums / some[:, None], mask=valid[:, None] & inside)
    # For equal shares: the log of how many there are, with logits of zero.
    tl.store(lse + node, tl.where(total > 0, top, 0.0) + tl.log(some) if attend else tl.log(some), mask=valid)


@triton.jit
def _destination_kernel(
    source,
    destination,
    source_logit,
    logit,
    scale,
    table,
    there,
    lse,
    d_heard,
    d_destination,
    d_logit,
    dots,
    nodes,
    degree,
    most: tl.constexpr,
    width: tl.constexpr,
    attend: tl.constexpr,
    masked: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    """The gradients of each destination's part and logit; `dots` is g . y, for the sources."""
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    valid = node < nodes
    inside = (column < width)[None, :]
    place = node[:, None] * width + column[None, :]
    mine = tl.load(destination + place, mask=valid[:, None] & inside, other=0.0).to(tl.float32)
    d = tl.load(d_heard + place, mask=valid[:, None] & inside, other=0.0).to(tl.float32)
    level = tl.load(lse + node, mask=valid, other=0.0)
    own = tl.zeros([N], tl.float32)
    sharpness = tl.zeros([N], tl.float32)
    if attend:
        own = tl.load(logit + node, mask=valid, other=0.0).to(tl.float32)
        sharpness = tl.load(scale + node, mask=valid, other=0.0)
    on = tl.zeros([N, H], tl.float32)
    dot = tl.zeros([N], tl.float32)
    steep = tl.zeros([N], tl.float32)
    d_own = tl.zeros([N], tl.float32)
    for slot in range(most):
        j, real = _neighbor(table, there, node, valid, slot, degree, masked)
        x = tl.load(source + j[:, None] * width + column[None, :], mask=real[:, None] & inside, other=0.0)
        x = tl.maximum(x.to(tl.float32) + mine, 0.0)
        raw = tl.zeros([N], tl.float32)
        slope = sharpness
        if attend:
            raw = tl.load(source_logit + j, mask=real, other=0.0).to(tl.float32) + own
            slope = tl.where(raw < 0, sharpness * _SLOPE, sharpness)
            raw = raw * slope
        weight = tl.exp(tl.where(real, raw - level, _LOW))
        on += tl.where(x > 0, weight[:, None], 0.0)
        if attend:
            along = weight * tl.sum(d * x, 1)
            dot += along
            d_own += slope * along
            steep += weight * slope
    tl.store(d_destination + place, on * d, mask=valid[:, None] & inside)
    if attend:
        tl.store(d_logit + node, d_own - dot * steep, mask=valid)
        tl.store(dots + node, dot, mask=valid)


@triton.jit
def _source_kernel(
    source,
    destination,
    source_logit,
    logit,
    scale,
    readers,
    starts,
    there,
    lse,
    d_heard,
    dots,
    d_source,
    d_source_logit,
    entries,
    sources,
    degree,
    width: tl.constexpr,
    attend: tl.constexpr,
    masked: tl.constexpr,
    H: tl.constexpr,
):
    """The gradients of one source's part and logit, reader after reader."""
    j = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, H)
    inside = column < width
    x = tl.load(source + j * width + column, mask=inside, other=0.0).to(tl.float32)
    sent = 0.0
    if attend:
        sent = tl.load(source_logit + j).to(tl.float32)
    total = tl.zeros([H], tl.float32)
    d_sent = tl.zeros([H], tl.float32)  # summed over columns at the end
    at = tl.load(starts + j)
    stop = tl.load(starts + j + 1, mask=j + 1 < sources, other=entries)
    while at < stop:
        entry = tl.load(readers + at)
        node = entry // degree
        mine = tl.load(destination + node * width + column, mask=inside, other=0.0).to(tl.float32)
        d = tl.load(d_heard + node * width + column, mask=inside, other=0.0).to(tl.float32)
        y = tl.maximum(x + mine, 0.0)
        level = tl.load(lse + node)
        if attend:
            sharpness = tl.load(scale + node)
            raw = sent + tl.load(logit + node).to(tl.float32)
            slope = tl.where(raw < 0, sharpness * _SLOPE, sharpness)
            weight = tl.exp(tl.minimum(raw * slope - level, 0.0))
            if masked:
                weight = tl.where(tl.load(there + entry) != 0, weight, 0.0)
            d_sent += weight * slope * (d * y - tl.load(dots + node) / width)
        else:
            weight = tl.exp(-level)
            if masked:
                weight = tl.where(tl.load(there + entry) != 0, weight, 0.0)
        total += tl.where(y > 0, weight * d, 0.0)
        at += 1
    tl.store(d_source + j * width + column, total, mask=inside)
    if attend:
        tl.store(d_source_logit + j, tl.sum(tl.where(inside, d_sent, 0.0), 0))


class _Hear(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        source: Tensor,
        destination: Tensor,
        source_logit: Tensor | None,
        logit: Tensor | None,
        scale: Tensor | None,
        neighbors: Neighbors,
    ) -> Tensor:
        source, destination = source.contiguous(), destination.contiguous()
        nodes, width = destination.shape
        heard = torch.empty_like(destination)
        lse = destination.new_empty(nodes, dtype=torch.float32)
        logits = (source_logit, logit, scale)
        if nodes:
            _hear_kernel[(triton.cdiv(nodes, _ROWS),)](
                source, destination, *logits, neighbors.source, neighbors.mask, heard, lse, nodes, neighbors.degree,
                power(neighbors.degree), width, attend=logit is not None,
                masked=neighbors.mask is not None, N=_ROWS, H=power(width),
            )  # fmt: skip
        ctx.save_for_backward(source, destination, *logits, lse)
        ctx.neighbors = neighbors
        return heard

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        source, destination, source_logit, logit, scale, lse = ctx.saved_tensors
        neighbors: Neighbors = ctx.neighbors
        nodes, width = destination.shape
        d_heard = grads[0].contiguous()
        attend, masked = logit is not None, neighbors.mask is not None
        d_source, d_destination = torch.empty_like(source), torch.empty_like(destination)
        d_source_logit = d_logit = dots = None
        if attend:
            d_source_logit, d_logit, dots = (
                torch.empty_like(source_logit),
                torch.empty_like(logit),
                torch.empty_like(lse),
            )
        logits = (source_logit, logit, scale)
        how: dict[str, Any] = {"width": width, "attend": attend, "masked": masked, "H": power(width)}
        if nodes:
            _destination_kernel[(triton.cdiv(nodes, _ROWS),)](
                source, destination, *logits, neighbors.source, neighbors.mask, lse, d_heard, d_destination, d_logit,
                dots, nodes, neighbors.degree, power(neighbors.degree), N=_ROWS, **how,
            )  # fmt: skip
        if len(source):
            readers, starts = neighbors.readers
            _source_kernel[(len(source),)](
                source, destination, *logits, readers, starts, neighbors.mask, lse, d_heard, dots, d_source, d_source_logit,
                len(readers), len(source), neighbors.degree, num_warps=1, **how,
            )  # fmt: skip
        return d_source, d_destination, d_source_logit, d_logit, None, None


def average_messages(
    source: Tensor,
    destination: Tensor,
    neighbors: Neighbors,
    *,
    logits: tuple[Tensor, Tensor] | None = None,
    sharpen: bool = False,
) -> Tensor:
    """See `reference.average_messages`; without layers and dropout."""
    if not neighbors.degree:
        return reference.average_messages(source, destination, neighbors, (), logits=logits, sharpen=sharpen)
    sent, own = logits or (None, None)
    scale = None
    if own is not None:
        scale = neighbors.log_degree.flatten() if sharpen else torch.ones_like(own)
        scale = scale.to(torch.float32).contiguous()
    return _Hear.apply(source, destination.to(source.dtype), _row(sent), _row(own), scale, neighbors)  # pyright: ignore[reportReturnType]


def _row(logits: Tensor | None) -> Tensor | None:
    return None if logits is None else logits.contiguous()


@triton.jit
def _strongest_kernel(
    source,
    destination,
    table,
    there,
    heard,
    top,
    ties,
    nodes,
    degree,
    most: tl.constexpr,
    width: tl.constexpr,
    masked: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    valid = node < nodes
    inside = (column < width)[None, :]
    place = node[:, None] * width + column[None, :]
    mine = tl.load(destination + place, mask=valid[:, None] & inside, other=0.0).to(tl.float32)
    largest = tl.full([N, H], float("-inf"), tl.float32)
    equal = tl.zeros([N, H], tl.float32)
    for slot in range(most):
        j, real = _neighbor(table, there, node, valid, slot, degree, masked)
        x = tl.load(source + j[:, None] * width + column[None, :], mask=real[:, None] & inside, other=float("-inf"))
        x = x.to(tl.float32)
        equal = tl.where(x > largest, 1.0, equal + tl.where(real[:, None] & (x == largest), 1.0, 0.0))
        largest = tl.maximum(largest, x)
    tl.store(heard + place, tl.maximum(largest + mine, 0.0), mask=valid[:, None] & inside)
    tl.store(top + place, largest, mask=valid[:, None] & inside)
    tl.store(ties + place, equal, mask=valid[:, None] & inside)


@triton.jit
def _strongest_source_kernel(
    source,
    readers,
    starts,
    there,
    top,
    d_top,
    d_source,
    entries,
    sources,
    degree,
    width: tl.constexpr,
    masked: tl.constexpr,
    H: tl.constexpr,
):
    """The gradient of one source's part, reader after reader: of those that heard it."""
    j = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, H)
    inside = column < width
    x = tl.load(source + j * width + column, mask=inside, other=0.0).to(tl.float32)
    total = tl.zeros([H], tl.float32)
    at = tl.load(starts + j)
    stop = tl.load(starts + j + 1, mask=j + 1 < sources, other=entries)
    while at < stop:
        entry = tl.load(readers + at)
        node = entry // degree
        largest = tl.load(top + node * width + column, mask=inside, other=0.0).to(tl.float32)
        d = tl.load(d_top + node * width + column, mask=inside, other=0.0)
        if masked:
            d = tl.where(tl.load(there + entry) != 0, d, 0.0)
        total += tl.where(x == largest, d, 0.0)
        at += 1
    tl.store(d_source + j * width + column, total, mask=inside)


class _Strongest(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, source: Tensor, destination: Tensor, neighbors: Neighbors) -> Tensor:
        source, destination = source.contiguous(), destination.contiguous()
        nodes, width = destination.shape
        heard, top, ties = (torch.empty_like(destination) for _ in range(3))
        if nodes:
            _strongest_kernel[(triton.cdiv(nodes, _ROWS),)](
                source, destination, neighbors.source, neighbors.mask, heard, top, ties, nodes, neighbors.degree,
                power(neighbors.degree), width, masked=neighbors.mask is not None, N=_ROWS, H=power(width),
            )  # fmt: skip
        ctx.save_for_backward(source, heard, top, ties)
        ctx.neighbors = neighbors
        return heard

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        source, heard, top, ties = ctx.saved_tensors
        neighbors: Neighbors = ctx.neighbors
        width = source.shape[1]
        d_destination = torch.where(heard > 0, grads[0].contiguous(), 0)
        d_top = d_destination.float() / ties.clamp(min=1)  # no ties: nobody was heard
        d_source = torch.empty_like(source)
        if len(source):
            readers, starts = neighbors.readers
            _strongest_source_kernel[(len(source),)](
                source, readers, starts, neighbors.mask, top, d_top, d_source, len(readers), len(source), neighbors.degree, width,
                masked=neighbors.mask is not None, H=power(width), num_warps=1,
            )  # fmt: skip
        return d_source, d_destination, None


def strongest_messages(source: Tensor, destination: Tensor, neighbors: Neighbors) -> Tensor:
    """See `reference.strongest_messages`; without dropout."""
    if not neighbors.degree:
        return reference.strongest_messages(source, destination, neighbors)
    return _Strongest.apply(source, destination.to(source.dtype), neighbors)  # pyright: ignore[reportReturnType]
