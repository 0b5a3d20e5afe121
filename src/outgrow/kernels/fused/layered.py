"""Messages over edges with layers between the first and the last: the same function as `reference.average_messages`.

Node i hears sum_j w_ij x_L of the edge from j, where x_0 = relu(s_j + d_i), x_l = relu(W_l x_(l-1) + b_l), and w_ij is the softmax over its in-neighbors j of
l_ij = c_i leaky_relu(a_j + b_i), or equal shares. A last, linear layer stays behind the average, where it costs a product a node; with dropout, which acts on
messages, it is one of the chain, without relu.

A program takes a tile of nodes and goes through their in-neighbors one after another, so that a tile of edges is one matrix product a layer, with the weights
in fast memory all along. Forward nothing of the size of all edges is written. The way back works out the chain anew, edge by edge:

    dx_L = w_ij g_i,  dW_l += dz_l x_(l-1)^T,  dx_(l-1) = W_l^T dz_l,  dl_ij = w_ij (g_i . x_L - g_i . y_i)

Gradients of weights are summed in registers over all the tiles of a program, and then over programs. Those of sources need a sum over readers: dz_0 of every edge is
written for a part of the table at a time, and read once, in a fixed order and without atomics.

What dropout keeps is a hash of a seed, the entry of the table and the column: the way back draws the same without having kept it.
"""

# Triton's own language inside kernels is beyond what a type checker can follow.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from outgrow.kernels import reference
from outgrow.kernels.fused.blocks import power
from outgrow.kernels.fused.edges import _LOW, _SLOPE, _neighbor, _row
from outgrow.kernels.neighbors import Neighbors
from outgrow.kernels.reference import Layer

__all__ = ["average_layered", "kept", "layers_fit"]

_MAX_LAYERS = 3  # in the chain: their weights, and the gradients of these, are held at once
_MAX_WIDTH = 128
_INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")
_ROWS = 16 if _INTERPRETED.value else 64  # nodes of a tile: at least what a matrix product takes
_PART = 1 << 21  # entries of a table whose dz_0 is written at a time: 0.4 GB of 96 numbers in half precision


@triton.jit
def _mix(bits):
    """32 bits that look random for numbers in a row (the constants are those of Chris Wellons' lowbias32)."""
    bits = bits ^ (bits >> 16)
    bits = bits * 0x7FEB352D
    bits = bits ^ (bits >> 15)
    bits = bits * 0x846CA68B
    return bits ^ (bits >> 16)


@triton.jit
def _keep(seed, entry, column, threshold):
    """Which elements of the messages of these entries stay."""
    row = _mix(entry.to(tl.uint32) ^ seed)
    return _mix(row[:, None] ^ (column.to(tl.uint32) * 0x9E3779B1)[None, :]) >= threshold.to(tl.uint32)


@triton.jit
def _narrow(x, dtype: tl.constexpr):
    """In another type, to the nearest; the interpreter would cut off."""
    if _INTERPRETED and dtype == tl.bfloat16:
        bits = x.to(tl.float32).to(tl.uint32, bitcast=True)
        x = ((bits + 0x7FFF + ((bits >> 16) & 1)) & 0xFFFF0000).to(tl.float32, bitcast=True)
    return x.to(dtype)


@triton.jit
def _multiply(a, b, precision: tl.constexpr):
    """A matrix product, summed in single precision; the interpreter knows none of bf16."""
    if _INTERPRETED:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, input_precision=precision)


@triton.jit
def _tile(source, row, real, width: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """Rows of a matrix as they lie there, in the two blocks of columns."""
    first = tl.arange(0, A)
    a = tl.load(
        source + row[:, None] * width + first[None, :], mask=real[:, None] & (first < width)[None, :], other=0.0
    )
    if B:
        second = A + tl.arange(0, B)
        mask = real[:, None] & (second < width)[None, :]
        return a, tl.load(source + row[:, None] * width + second[None, :], mask=mask, other=0.0)
    else:
        return a, a


@triton.jit
def _store_tile(target, row, real, x, width: tl.constexpr, dtype: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    first = tl.arange(0, A)
    mask = real[:, None] & (first < width)[None, :]
    tl.store(target + row[:, None] * width + first[None, :], _narrow(x[0], dtype), mask=mask)
    if B:
        second = A + tl.arange(0, B)
        mask = real[:, None] & (second < width)[None, :]
        tl.store(target + row[:, None] * width + second[None, :], _narrow(x[1], dtype), mask=mask)


@triton.jit
def _block(matrix, row, column, width: tl.constexpr):
    return tl.load(
        matrix + row[:, None] * width + column[None, :],
        mask=(row < width)[:, None] & (column < width)[None, :],
        other=0.0,
    )


@triton.jit
def _weight(weight, dtype: tl.constexpr, width: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """A layer's weight (out, in) in four blocks, zero beyond its width."""
    first = tl.arange(0, A)
    aa = _block(weight, first, first, width).to(dtype)
    if B:
        second = A + tl.arange(0, B)
        ab = _block(weight, first, second, width).to(dtype)
        ba = _block(weight, second, first, width).to(dtype)
        return aa, ab, ba, _block(weight, second, second, width).to(dtype)
    else:
        return aa, aa, aa, aa


@triton.jit
def _zeros(rows: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    a = tl.zeros([rows, A], tl.float32)
    if B:
        return a, tl.zeros([rows, B], tl.float32)
    else:
        return a, a


@triton.jit
def _no_weight(A: tl.constexpr, B: tl.constexpr):
    """What gradients of a weight and a bias begin with."""
    aa = tl.zeros([A, A], tl.float32)
    a = tl.zeros([A], tl.float32)
    if B:
        ab = tl.zeros([A, B], tl.float32)
        return aa, ab, tl.zeros([B, A], tl.float32), tl.zeros([B, B], tl.float32), a, tl.zeros([B], tl.float32)
    else:
        return aa, aa, aa, aa, a, a


@triton.jit
def _begin(s, mine, dtype: tl.constexpr, B: tl.constexpr):
    """x_0 = relu(s + d)."""
    a = _narrow(tl.maximum(s[0].to(tl.float32) + mine[0].to(tl.float32), 0.0), dtype)
    if B:
        return a, _narrow(tl.maximum(s[1].to(tl.float32) + mine[1].to(tl.float32), 0.0), dtype)
    else:
        return a, a


@triton.jit
def _layer(
    x, w, bias, straight: tl.constexpr, precision: tl.constexpr, width: tl.constexpr, A: tl.constexpr, B: tl.constexpr
):
    """The next layer, in single precision."""
    first = tl.arange(0, A)
    a = _multiply(x[0], tl.trans(w[0]), precision)
    if B:
        a += _multiply(x[1], tl.trans(w[1]), precision)
    a += tl.load(bias + first, mask=first < width, other=0.0).to(tl.float32)[None, :]
    if not straight:
        a = tl.maximum(a, 0.0)
    if B:
        second = A + tl.arange(0, B)
        b = _multiply(x[0], tl.trans(w[2]), precision) + _multiply(x[1], tl.trans(w[3]), precision)
        b += tl.load(bias + second, mask=second < width, other=0.0).to(tl.float32)[None, :]
        if not straight:
            b = tl.maximum(b, 0.0)
        return a, b
    else:
        return a, a


@triton.jit
def _half(x, dtype: tl.constexpr, B: tl.constexpr):
    a = _narrow(x[0], dtype)
    if B:
        return a, _narrow(x[1], dtype)
    else:
        return a, a


@triton.jit
def _drop(x, seed, entry, threshold, rescale, A: tl.constexpr, B: tl.constexpr):
    """What dropout leaves of messages, or of their gradients."""
    a = tl.where(_keep(seed, entry, tl.arange(0, A), threshold), x[0] * rescale, 0.0)
    if B:
        return a, tl.where(_keep(seed, entry, A + tl.arange(0, B), threshold), x[1] * rescale, 0.0)
    else:
        return a, a


@triton.jit
def _forward_kernel(
    source,
    destination,
    source_logit,
    logit,
    scale,
    weight1,
    bias1,
    weight2,
    bias2,
    weight3,
    bias3,
    table,
    there,
    seeds,
    heard,
    lse,
    nodes,
    threshold,
    rescale,
    degree: tl.constexpr,
    width: tl.constexpr,
    depth: tl.constexpr,
    straight: tl.constexpr,
    attend: tl.constexpr,
    masked: tl.constexpr,
    dropped: tl.constexpr,
    precision: tl.constexpr,
    N: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    valid = node < nodes
    dtype = source.dtype.element_ty
    w1 = _weight(weight1, dtype, width, A, B)
    if depth > 1:
        w2 = _weight(weight2, dtype, width, A, B)
    if depth > 2:
        w3 = _weight(weight3, dtype, width, A, B)
    mine = _tile(destination, node, valid, width, A, B)
    own = tl.zeros([N], tl.float32)
    sharpness = tl.zeros([N], tl.float32)
    if attend:
        own = tl.load(logit + node, mask=valid, other=0.0).to(tl.float32)
        sharpness = tl.load(scale + node, mask=valid, other=0.0)
    if dropped:
        seed = tl.load(seeds).to(tl.uint32)
    top = tl.full([N], _LOW, tl.float32)
    total = tl.zeros([N], tl.float32)
    sums = _zeros(N, A, B)
    for slot in range(degree):
        j, real = _neighbor(table, there, node, valid, slot, degree, masked)
        x = _begin(_tile(source, j, real, width, A, B), mine, dtype, B)
        x = _layer(x, w1, bias1, straight and depth == 1, precision, width, A, B)
        if depth > 1:
            x = _layer(_half(x, dtype, B), w2, bias2, straight and depth == 2, precision, width, A, B)
        if depth > 2:
            x = _layer(_half(x, dtype, B), w3, bias3, straight, precision, width, A, B)
        if dropped:
            x = _drop(x, seed, node * degree + slot, threshold, rescale, A, B)
        if attend:
            raw = tl.load(source_logit + j, mask=real, other=0.0).to(tl.float32) + own
            raw = tl.where(raw < 0, raw * _SLOPE, raw) * sharpness
            above = tl.maximum(top, tl.where(real, raw, _LOW))
            weight = tl.exp(tl.where(real, raw - above, _LOW))
            faded = tl.exp(top - above)
            sums = (
                sums[0] * faded[:, None] + weight[:, None] * x[0],
                sums[1] * faded[:, None] + weight[:, None] * x[1],
            )
            total = total * faded + weight
            top = above
        else:
            weight = tl.where(real, 1.0, 0.0)
            sums = sums[0] + weight[:, None] * x[0], sums[1] + weight[:, None] * x[1]
            total += weight
    some = tl.where(total > 0, total, 1.0)
    _store_tile(heard, node, valid, (sums[0] / some[:, None], sums[1] / some[:, None]), width, dtype, A, B)
    # For equal shares: the log of how many there are, with logits of zero.
    tl.store(lse + node, tl.where(total > 0, top, 0.0) + tl.log(some) if attend else tl.log(some), mask=valid)


@triton.jit
def _back(dz, x, w, sums, dtype: tl.constexpr, precision: tl.constexpr, B: tl.constexpr):
    """One layer back, from the gradient at its output: that at its input `x`, which is a relu's output, and the sums so far of the gradients of its weight and
    bias."""
    aa = sums[0] + _multiply(tl.trans(dz[0]), x[0], precision)
    bias = sums[4] + tl.sum(dz[0].to(tl.float32), 0)
    dx = _multiply(dz[0], w[0], precision)
    if B:
        ab = sums[1] + _multiply(tl.trans(dz[0]), x[1], precision)
        ba = sums[2] + _multiply(tl.trans(dz[1]), x[0], precision)
        bb = sums[3] + _multiply(tl.trans(dz[1]), x[1], precision)
        dx += _multiply(dz[1], w[2], precision)
        other = _multiply(dz[0], w[1], precision) + _multiply(dz[1], w[3], precision)
        before = (
            _narrow(tl.where(x[0] > 0, dx, 0.0), dtype),
            _narrow(tl.where(x[1] > 0, other, 0.0), dtype),
        )
        return before, (aa, ab, ba, bb, bias, sums[5] + tl.sum(dz[1].to(tl.float32), 0))
    else:
        before = _narrow(tl.where(x[0] > 0, dx, 0.0), dtype)
        return (before, before), (aa, aa, aa, aa, bias, bias)


@triton.jit
def _store_weight(target, sums, width: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """The gradient of a weight, and behind it that of its bias."""
    first = tl.arange(0, A)
    in_a = first < width
    behind = target + width * width
    tl.store(target + first[:, None] * width + first[None, :], sums[0], mask=in_a[:, None] & in_a[None, :])
    tl.store(behind + first, sums[4], mask=in_a)
    if B:
        second = A + tl.arange(0, B)
        in_b = second < width
        tl.store(target + first[:, None] * width + second[None, :], sums[1], mask=in_a[:, None] & in_b[None, :])
        tl.store(target + second[:, None] * width + first[None, :], sums[2], mask=in_b[:, None] & in_a[None, :])
        tl.store(target + second[:, None] * width + second[None, :], sums[3], mask=in_b[:, None] & in_b[None, :])
        tl.store(behind + second, sums[5], mask=in_b)


@triton.jit
def _backward_kernel(
    source,
    destination,
    source_logit,
    logit,
    scale,
    weight1,
    bias1,
    weight2,
    bias2,
    weight3,
    bias3,
    table,
    there,
    seeds,
    lse,
    d_heard,
    d_destination,
    d_logit,
    dots,
    along,
    d_edges,
    d_weights,
    first,
    last,
    tiles,
    programs,
    threshold,
    rescale,
    degree: tl.constexpr,
    width: tl.constexpr,
    depth: tl.constexpr,
    straight: tl.constexpr,
    attend: tl.constexpr,
    masked: tl.constexpr,
    dropped: tl.constexpr,
    precision: tl.constexpr,
    N: tl.constexpr,
    A: tl.constexpr,
    B: tl.constexpr,
):
    """Gradients of weights, summed over the program's tiles of nodes `first` to `last`; of destinations and their logits; and, for the sum over readers, of each
    edge's s_j + d_i (`d_edges`) and g . x_L (`along`), with g . y of each node (`dots`)."""
    program = tl.program_id(0).to(tl.int64)
    dtype = source.dtype.element_ty
    w1 = _weight(weight1, dtype, width, A, B)
    sums1 = _no_weight(A, B)
    if depth > 1:
        w2 = _weight(weight2, dtype, width, A, B)
        sums2 = _no_weight(A, B)
    if depth > 2:
        w3 = _weight(weight3, dtype, width, A, B)
        sums3 = _no_weight(A, B)
    if dropped:
        seed = tl.load(seeds).to(tl.uint32)
    tile = program
    while tile < tiles:
        node = first + tile * N + tl.arange(0, N)
        valid = node < last
        level = tl.load(lse + node, mask=valid, other=0.0)
        own = tl.zeros([N], tl.float32)
        sharpness = tl.zeros([N], tl.float32)
        if attend:
            own = tl.load(logit + node, mask=valid, other=0.0).to(tl.float32)
            sharpness = tl.load(scale + node, mask=valid, other=0.0)
        d_mine = _zeros(N, A, B)
        dot = tl.zeros([N], tl.float32)
        steep = tl.zeros([N], tl.float32)
        d_own = tl.zeros([N], tl.float32)
        for slot in range(degree):
            j, real = _neighbor(table, there, node, valid, slot, degree, masked)
            entry = node * degree + slot
            # What stays the same for all slots is read anew all the same: registers are scarce here.
            mine = _tile(destination, node, valid, width, A, B)
            x0 = _begin(_tile(source, j, real, width, A, B), mine, dtype, B)
            x = _layer(x0, w1, bias1, straight and depth == 1, precision, width, A, B)
            if depth > 1:
                x1 = _half(x, dtype, B)
                x = _layer(x1, w2, bias2, straight and depth == 2, precision, width, A, B)
            if depth > 2:
                x2 = _half(x, dtype, B)
                x = _layer(x2, w3, bias3, straight, precision, width, A, B)
            raw = tl.zeros([N], tl.float32)
            slope = sharpness
            if attend:
                raw = tl.load(source_logit + j, mask=real, other=0.0).to(tl.float32) + own
                slope = tl.where(raw < 0, sharpness * _SLOPE, sharpness)
                raw = raw * slope
            weight = tl.exp(tl.where(real, raw - level, _LOW))
            g = _tile(d_heard, node, valid, width, A, B)
            g = g[0].to(tl.float32), g[1].to(tl.float32)
            if dropped:
                g = _drop(g, seed, entry, threshold, rescale, A, B)
            if attend:
                share = tl.sum(g[0] * x[0], 1)
                if B:
                    share += tl.sum(g[1] * x[1], 1)
                tl.store(along + entry - first * degree, share, mask=valid)
                share = weight * share
                dot += share
                d_own += slope * share
                steep += weight * slope
            dz = weight[:, None] * g[0], weight[:, None] * g[1]
            if not straight:
                dz = tl.where(x[0] > 0, dz[0], 0.0), tl.where(x[1] > 0, dz[1], 0.0)
            dz = _half(dz, dtype, B)
            if depth > 2:
                dz, sums3 = _back(dz, x2, w3, sums3, dtype, precision, B)
            if depth > 1:
                dz, sums2 = _back(dz, x1, w2, sums2, dtype, precision, B)
            dz, sums1 = _back(dz, x0, w1, sums1, dtype, precision, B)
            d_mine = d_mine[0] + dz[0].to(tl.float32), d_mine[1] + dz[1].to(tl.float32)
            _store_tile(d_edges, entry - first * degree, valid, dz, width, dtype, A, B)
        _store_tile(d_destination, node, valid, d_mine, width, dtype, A, B)
        if attend:
            tl.store(d_logit + node, d_own - dot * steep, mask=valid)
            tl.store(dots + node, dot, mask=valid)
        tile += programs
    size: tl.constexpr = width * width + width
    target = d_weights + program * depth * size
    _store_weight(target, sums1, width, A, B)
    if depth > 1:
        _store_weight(target + size, sums2, width, A, B)
    if depth > 2:
        _store_weight(target + 2 * size, sums3, width, A, B)


@triton.jit
def _reader_kernel(
    source_logit,
    logit,
    scale,
    readers,
    starts,
    there,
    lse,
    dots,
    along,
    d_edges,
    d_source,
    d_source_logit,
    first,
    entries,
    sources,
    degree: tl.constexpr,
    width: tl.constexpr,
    attend: tl.constexpr,
    masked: tl.constexpr,
    H: tl.constexpr,
):
    """Adds to the gradients of one source's part and logit those of the edges to its readers, one after another, in a part of the table that begins with
    destination `first`."""
    j = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, H)
    inside = column < width
    total = tl.load(d_source + j * width + column, mask=inside, other=0.0)
    sent = 0.0
    d_sent = 0.0
    if attend:
        sent = tl.load(source_logit + j).to(tl.float32)
        d_sent = tl.load(d_source_logit + j)
    at = tl.load(starts + j)
    stop = tl.load(starts + j + 1, mask=j + 1 < sources, other=entries)
    while at < stop:
        entry = tl.load(readers + at)
        total += tl.load(d_edges + entry * width + column, mask=inside, other=0.0).to(tl.float32)
        if attend:
            node = first + entry // degree
            sharpness = tl.load(scale + node)
            raw = sent + tl.load(logit + node).to(tl.float32)
            slope = tl.where(raw < 0, sharpness * _SLOPE, sharpness)
            weight = tl.exp(tl.minimum(raw * slope - tl.load(lse + node), 0.0))
            share = weight * slope * (tl.load(along + entry) - tl.load(dots + node))
            if masked:
                share = tl.where(tl.load(there + first * degree + entry) != 0, share, 0.0)
            d_sent += share
        at += 1
    tl.store(d_source + j * width + column, total, mask=inside)
    if attend:
        tl.store(d_source_logit + j, d_sent)


class _Chain(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        source: Tensor,
        destination: Tensor,
        source_logit: Tensor | None,
        logit: Tensor | None,
        scale: Tensor | None,
        seed: Tensor | None,
        neighbors: Neighbors,
        dropout: float,
        straight: bool,
        *layers: Tensor,
    ) -> Tensor:
        source, destination = source.contiguous(), destination.contiguous()
        layers = tuple(t.contiguous() for t in layers)
        nodes, width = destination.shape
        heard = torch.empty_like(destination)
        lse = destination.new_empty(nodes, dtype=torch.float32)
        logits = (source_logit, logit, scale)
        ctx.how = {
            "degree": neighbors.degree,
            "width": width,
            "depth": len(layers) // 2,
            "straight": straight,
            "attend": logit is not None,
            "masked": neighbors.mask is not None,
            "dropped": seed is not None,
            "precision": _precision(),
            **_blocks(width),
        }
        ctx.drop = _odds(dropout)
        if nodes:
            _forward_kernel[(triton.cdiv(nodes, _ROWS),)](
                source, destination, *logits, *_padded(layers), neighbors.source, neighbors.mask, seed, heard, lse, nodes, *ctx.drop,
                N=_ROWS, **ctx.how,
            )  # fmt: skip
        ctx.save_for_backward(source, destination, *logits, seed, lse, *layers)
        ctx.neighbors = neighbors
        return heard

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        source, destination, source_logit, logit, scale, seed, lse, *layers = ctx.saved_tensors
        neighbors: Neighbors = ctx.neighbors
        how: dict[str, Any] = ctx.how
        nodes, width = destination.shape
        degree, depth, attend = how["degree"], how["depth"], how["attend"]
        d_heard = grads[0].contiguous()
        d_source = source.new_zeros(source.shape, dtype=torch.float32)
        d_destination = torch.empty_like(destination)
        d_source_logit = d_logit = dots = along = None
        rows = max(1, _PART // degree)
        entries = min(rows, nodes) * degree
        if attend:
            d_source_logit = source.new_zeros(len(source), dtype=torch.float32)
            d_logit, dots = torch.empty_like(logit), torch.empty_like(lse)
            along = lse.new_empty(entries)
        d_edges = source.new_empty(entries, width)
        d_layers = lse.new_zeros(depth, width * width + width)
        logits = (source_logit, logit, scale)
        for first, part in neighbors.parts(rows):
            last = min(first + rows, nodes)
            tiles = triton.cdiv(last - first, _ROWS)
            programs = min(tiles, _processors(source.device))
            partial = lse.new_empty(programs, depth, width * width + width)
            _backward_kernel[(programs,)](
                source, destination, *logits, *_padded(layers), neighbors.source, neighbors.mask, seed, lse, d_heard, d_destination, d_logit,
                dots, along, d_edges, partial, first, last, tiles, programs, *ctx.drop, N=_ROWS, num_warps=8, **how,
            )  # fmt: skip
            d_layers += partial.sum(0)
            readers, starts = part.readers
            _reader_kernel[(len(source),)](
                *logits, readers, starts, neighbors.mask, lse, dots, along, d_edges, d_source, d_source_logit, first, len(readers),
                len(source), degree, width, attend=attend, masked=how["masked"], H=power(width), num_warps=1,
            )  # fmt: skip
        given: list[Tensor] = []
        for weights in d_layers:
            given += [weights[: width * width].view(width, width), weights[width * width :]]
        d_given = [t.to(layer.dtype) for t, layer in zip(given, layers, strict=True)]
        if d_source_logit is not None:
            d_source_logit = d_source_logit.to(source_logit.dtype)
        return d_source.to(source.dtype), d_destination, d_source_logit, d_logit, None, None, None, None, None, *d_given


def layers_fit(width: int, layers: int, dropout: float) -> bool:
    """Whether messages of that width and with so many layers behind the first can be computed here."""
    return width <= _MAX_WIDTH and 1 <= layers - (not dropout) <= _MAX_LAYERS


def average_layered(
    source: Tensor,
    destination: Tensor,
    neighbors: Neighbors,
    layers: Sequence[Layer],
    *,
    logits: tuple[Tensor, Tensor] | None = None,
    sharpen: bool = False,
    dropout: float = 0.0,
    seed: Tensor | None = None,
) -> Tensor:
    """See `reference.average_messages`; with layers. `seed` (1,) of an integer says what dropout keeps; drawn if it is None."""
    behind = None if dropout else layers[-1]
    chain = layers if dropout else layers[:-1]
    if not neighbors.degree or not len(source):
        return reference.average_messages(source, destination, neighbors, layers, logits=logits, sharpen=sharpen)
    sent, own = logits or (None, None)
    scale = None
    if own is not None:
        scale = neighbors.log_degree.flatten() if sharpen else torch.ones_like(own)
        scale = scale.to(torch.float32).contiguous()
    if dropout and seed is None:
        seed = torch.randint(1 << 31, (1,), device=source.device)
    dtype = source.dtype
    flat = [t for weight, bias in chain for t in (weight.to(dtype), bias)]
    heard = _Chain.apply(
        source, destination.to(dtype), _row(sent), _row(own), scale, seed if dropout else None, neighbors, dropout, bool(dropout), *flat
    )  # fmt: skip
    assert isinstance(heard, Tensor)
    if behind is None:
        return heard
    heard = functional.linear(heard, behind[0].to(dtype), behind[1].to(dtype))
    return heard if neighbors.present is None else heard * neighbors.present


def kept(seed: Tensor, entries: int, width: int, dropout: float) -> Tensor:
    """What dropout keeps of the messages of a table's entries, (entries, width) bool: as the kernels draw it."""
    whole = 0xFFFFFFFF

    def mix(bits: Tensor) -> Tensor:
        bits = bits ^ (bits >> 16)
        bits = (bits * 0x7FEB352D) & whole
        bits = bits ^ (bits >> 15)
        bits = (bits * 0x846CA68B) & whole
        return bits ^ (bits >> 16)

    row = mix(torch.arange(entries, device=seed.device) ^ seed)
    column = (torch.arange(width, device=seed.device) * 0x9E3779B1) & whole
    return mix(row.unsqueeze(1) ^ column) >= _odds(dropout)[0]


def _odds(dropout: float) -> tuple[int, float]:
    """The threshold below which 32 random bits say that an element is dropped, and by how much the others grow."""
    return round(dropout * (1 << 32)), 1 / (1 - dropout)


def _blocks(width: int) -> dict[str, int]:
    """Rows in blocks of columns that Triton knows, powers of two: 96 is 64 and 32, where 128 would be half as many again to compute. One block where
    that is no more."""
    a = max(16, power(width + 1) // 2)
    b = max(16, power(width - a)) if width > a else 0
    return {"A": a, "B": b} if a + b < power(width) else {"A": max(16, power(width)), "B": 0}


def _processors(device: torch.device) -> int:
    """How many programs run at the same time, each with a processor of its own."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def _padded(layers: Sequence[Tensor]) -> list[Tensor | None]:
    """Weights and biases of as many layers as kernels have room for."""
    return [*layers, *([None] * (2 * _MAX_LAYERS - len(layers)))]


def _precision() -> str:
    """Of products in single precision; operands in half precision have no choice."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
