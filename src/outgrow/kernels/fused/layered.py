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
_ENTRIES = 16 if _INTERPRETED.value else 64  # of a tile of edges whose share of a weight's gradient is one product
_READERS = 8
_FORWARD: dict[str, Any] = {"num_warps": 4, "num_stages": 2}
_EDGE: dict[str, Any] = {"num_warps": 4, "num_stages": 1}
_WEIGHT: dict[str, Any] = {"num_warps": 8, "num_stages": 3}
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
    """Which elements of the messages of these entries stay: of two hashes of an entry, one meets the column, and the product with the other decides."""
    row = _mix(_mix(entry.to(tl.uint32)) ^ seed)
    odd = _mix(row + 0x9E3779B9) | 1
    return (row[:, None] ^ (column.to(tl.uint32) * 0x9E3779B1)[None, :]) * odd[:, None] >= threshold.to(tl.uint32)


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
def _drop(x, seed, entry, threshold, still, rows: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """What dropout leaves of messages, or of their gradients, before it makes up for the others. `still` is 0, which the compiler must not know: it would keep
    hashes of columns in registers."""
    first = tl.arange(0, A) + still
    none = _narrow(tl.zeros([rows, A], tl.float32), x[0].dtype)
    a = tl.where(_keep(seed, entry, first, threshold), x[0], none)
    if B:
        second = A + tl.arange(0, B) + still
        none = _narrow(tl.zeros([rows, B], tl.float32), x[1].dtype)
        return a, tl.where(_keep(seed, entry, second, threshold), x[1], none)
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
            x = _drop(x, seed, node * degree + slot, threshold, 0, N, A, B)
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
    share = rescale / some
    _store_tile(heard, node, valid, (sums[0] * share[:, None], sums[1] * share[:, None]), width, dtype, A, B)
    # For equal shares: the log of how many there are, with logits of zero.
    tl.store(lse + node, tl.where(total > 0, top, 0.0) + tl.log(some) if attend else tl.log(some), mask=valid)


@triton.jit
def _bias(bias, width: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """A layer's bias as a row of a tile."""
    first = tl.arange(0, A)
    a = tl.load(bias + first, mask=first < width, other=0.0).to(tl.float32)[None, :]
    if B:
        second = A + tl.arange(0, B)
        return a, tl.load(bias + second, mask=second < width, other=0.0).to(tl.float32)[None, :]
    else:
        return a, a


@triton.jit
def _along(x, y, B: tl.constexpr):
    """The product of each row with the other's."""
    found = tl.sum(x[0].to(tl.float32) * y[0], 1)
    if B:
        found += tl.sum(x[1].to(tl.float32) * y[1], 1)
    return found


@triton.jit
def _through(dz, w, precision: tl.constexpr, B: tl.constexpr):
    """The gradient at a layer's input, before its relu, from that at its output."""
    a = _multiply(dz[0], w[0], precision)
    if B:
        a += _multiply(dz[1], w[2], precision)
        return a, _multiply(dz[0], w[1], precision) + _multiply(dz[1], w[3], precision)
    else:
        return a, a


@triton.jit
def _alive(dx, x, dtype: tl.constexpr, B: tl.constexpr):
    """What of it gets through the relu whose output is `x`."""
    a = _narrow(tl.where(x[0] > 0, dx[0], 0.0), dtype)
    if B:
        return a, _narrow(tl.where(x[1] > 0, dx[1], 0.0), dtype)
    else:
        return a, a


@triton.jit
def _edge_kernel(
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
    factors,
    d_edges,
    saved,
    first,
    last,
    room,
    zero,
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
    """Gradients of destinations `first` to `last` and their logits; for the sum over readers, of each edge's s_j + d_i (`d_edges`), its weight's (`along`) and
    g . y of each node (`dots`); and for those of weights, x_l and dz_l of each edge (`saved`, `room` entries each)."""
    tile = tl.program_id(0).to(tl.int64)
    dtype = source.dtype.element_ty
    node = first + tile * N + tl.arange(0, N)
    valid = node < last
    w1 = _weight(weight1, dtype, width, A, B)
    if depth > 1:
        w2 = _weight(weight2, dtype, width, A, B)
    if depth > 2:
        w3 = _weight(weight3, dtype, width, A, B)
    if dropped:
        seed = tl.load(seeds).to(tl.uint32)
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
    size = room.to(tl.int64) * width
    for slot in range(degree):
        still = slot * zero
        j, real = _neighbor(table, there, node, valid, slot, degree, masked)
        entry = (node - first) * degree + slot
        mine = _tile(destination, node, valid, width, A, B)
        x0 = _begin(_tile(source, j, real, width, A, B), mine, dtype, B)
        x = x0
        if depth > 1:
            x1 = _half(_layer(x0, w1, bias1 + still, False, precision, width, A, B), dtype, B)
            _store_tile(saved, entry, valid, x1, width, dtype, A, B)
            x = x1
        if depth > 2:
            x2 = _half(_layer(x1, w2, bias2 + still, False, precision, width, A, B), dtype, B)
            _store_tile(saved + size, entry, valid, x2, width, dtype, A, B)
            x = x2
        raw = tl.zeros([N], tl.float32)
        slope = sharpness
        if attend:
            raw = tl.load(source_logit + j, mask=real, other=0.0).to(tl.float32) + own
            slope = tl.where(raw < 0, sharpness * _SLOPE, sharpness)
            raw = raw * slope
        weight = tl.exp(tl.where(real, raw - level, _LOW))
        g = _tile(d_heard, node, valid, width, A, B)
        share = tl.zeros([N], tl.float32)
        if dropped:
            g = _drop(g, seed, node * degree + slot, threshold, still, N, A, B)
        if depth == 1:
            w, bias = w1, bias1 + still
        elif depth == 2:
            w, bias = w2, bias2 + still
        else:
            w, bias = w3, bias3 + still
        if straight:
            dz = _through(g, w, precision, B)
            if attend:
                share = _along(dz, x, B) + _along(g, _bias(bias, width, A, B), B)
                share *= rescale
            factor = weight * rescale
            tl.store(factors + entry, factor, mask=valid)
            dz = dz[0] * factor[:, None], dz[1] * factor[:, None]
        else:
            y = _layer(x, w, bias, False, precision, width, A, B)
            if attend:
                share = _along(g, y, B)
            dz = weight[:, None] * g[0].to(tl.float32), weight[:, None] * g[1].to(tl.float32)
            dz = _alive(dz, y, dtype, B)
            _store_tile(saved + (2 * depth - 2) * size, entry, valid, dz, width, dtype, A, B)
            dz = _through(dz, w, precision, B)
        if attend:
            tl.store(along + entry, share, mask=valid)
            share = weight * share
            dot += share
            d_own += slope * share
            steep += weight * slope
        if depth > 2:
            dz = _alive(dz, x2, dtype, B)
            _store_tile(saved + 3 * size, entry, valid, dz, width, dtype, A, B)
            dz = _through(dz, w2, precision, B)
        if depth > 1:
            dz = _alive(dz, x1, dtype, B)
            _store_tile(saved + (depth - 1) * size, entry, valid, dz, width, dtype, A, B)
            dz = _through(dz, w1, precision, B)
        dz = _alive(dz, x0, dtype, B)
        d_mine = d_mine[0] + dz[0].to(tl.float32), d_mine[1] + dz[1].to(tl.float32)
        _store_tile(d_edges, entry, valid, dz, width, dtype, A, B)
    _store_tile(d_destination, node, valid, d_mine, width, dtype, A, B)
    if attend:
        tl.store(d_logit + node, d_own - dot * steep, mask=valid)
        tl.store(dots + node, dot, mask=valid)


@triton.jit
def _add_tile(
    total,
    bias,
    tile,
    source,
    destination,
    table,
    seed,
    d_heard,
    factors,
    x,
    dz,
    first,
    entries,
    threshold,
    degree: tl.constexpr,
    width: tl.constexpr,
    begins: tl.constexpr,
    ends: tl.constexpr,
    precision: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    """A tile of edges more in the sums of `_weight_kernel`."""
    dtype = source.dtype.element_ty
    column = tl.arange(0, H)
    entry = tile.to(tl.int64) * N + tl.arange(0, N)
    mask = (entry < entries)[:, None] & (column < width)[None, :]
    place = entry[:, None] * width + column[None, :]
    mine = (first + entry // degree)[:, None] * width + column[None, :]
    if begins:
        j = tl.load(table + first * degree + entry, mask=entry < entries, other=0)
        sent = tl.load(source + j[:, None] * width + column[None, :], mask=mask, other=0.0).to(tl.float32)
        sent += tl.load(destination + mine, mask=mask, other=0.0).to(tl.float32)
        told = _narrow(tl.maximum(sent, 0.0), dtype)
    else:
        told = tl.load(x + place, mask=mask, other=0.0)
    if ends:
        factor = tl.load(factors + entry, mask=entry < entries, other=0.0)
        d = tl.load(d_heard + mine, mask=mask, other=0.0).to(tl.float32) * factor[:, None]
        d = _narrow(tl.where(_keep(seed, first * degree + entry, column, threshold), d, 0.0), dtype)
    else:
        d = tl.load(dz + place, mask=mask, other=0.0)
    total += _multiply(tl.trans(d), told, precision)
    bias += _multiply(tl.full([16, N], 1.0, tl.float32).to(dtype), d, precision)
    return total, bias


@triton.jit
def _weight_kernel(
    source,
    destination,
    table,
    seeds,
    d_heard,
    factors,
    x,
    dz,
    sums,
    first,
    entries,
    threshold,
    degree: tl.constexpr,
    width: tl.constexpr,
    begins: tl.constexpr,
    ends: tl.constexpr,
    precision: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    """The gradient of a layer's weight and bias over this program's share of a part of the table, which begins with destination `first`: of what went in, `x`, and
    the gradient of what came out, `dz`. The first layer's input (`begins`) and the gradient behind the last, linear one (`ends`) are worked out anew."""
    total = tl.zeros([H, H], tl.float32)
    bias = tl.zeros([16, H], tl.float32)
    seed = 0
    if ends:
        seed = tl.load(seeds).to(tl.uint32)
    tile = tl.program_id(0)
    if _INTERPRETED:  # which knows no range that ends where a number read says
        while tile < tl.cdiv(entries, N):
            total, bias = _add_tile(
                total, bias, tile, source, destination, table, seed, d_heard, factors, x, dz, first, entries, threshold,
                degree, width, begins, ends, precision, N, H,
            )  # fmt: skip
            tile += tl.num_programs(0)
    else:
        for turn in range(tile, tl.cdiv(entries, N), tl.num_programs(0)):
            total, bias = _add_tile(
                total, bias, turn, source, destination, table, seed, d_heard, factors, x, dz, first, entries, threshold,
                degree, width, begins, ends, precision, N, H,
            )  # fmt: skip
    column = tl.arange(0, H)
    inside = (column < width)[None, :]
    row = tl.arange(0, H)[:, None]
    one = tl.arange(0, 16)[:, None]
    out = sums + tl.program_id(0).to(tl.int64) * (width * width + width)
    tl.store(out + row * width + column[None, :], total, mask=(row < width) & inside)
    tl.store(
        out + width * width + one * width + column[None, :], bias, mask=(one == 0) & inside
    )  # all rows are the same


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
    R: tl.constexpr,
    H: tl.constexpr,
):
    """Adds to the gradients of one source's part and logit those of the edges to its readers, in a fixed order, in a part of the table that begins with
    destination `first`."""
    j = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, H)
    inside = column < width
    total = tl.zeros([R, H], tl.float32)
    d_sent = tl.zeros([R], tl.float32)
    if attend:
        sent = tl.load(source_logit + j).to(tl.float32)
    begin = tl.load(starts + j)
    stop = tl.load(starts + j + 1, mask=j + 1 < sources, other=entries)
    while begin < stop:
        place = begin + tl.arange(0, R)
        real = place < stop
        entry = tl.load(readers + place, mask=real, other=0)
        d = tl.load(d_edges + entry[:, None] * width + column[None, :], mask=real[:, None] & inside[None, :], other=0.0)
        total += d.to(tl.float32)
        if attend:
            node = first + entry // degree
            sharpness = tl.load(scale + node, mask=real, other=0.0)
            raw = sent + tl.load(logit + node, mask=real, other=0.0).to(tl.float32)
            slope = tl.where(raw < 0, sharpness * _SLOPE, sharpness)
            weight = tl.exp(tl.minimum(raw * slope - tl.load(lse + node, mask=real, other=0.0), 0.0))
            share = tl.load(along + entry, mask=real, other=0.0) - tl.load(dots + node, mask=real, other=0.0)
            share = weight * slope * share
            if masked:
                real = real & (tl.load(there + first * degree + entry, mask=real, other=0) != 0)
            d_sent += tl.where(real, share, 0.0)
        begin += R
    d = tl.load(d_source + j * width + column, mask=inside, other=0.0) + tl.sum(total, 0)
    tl.store(d_source + j * width + column, d, mask=inside)
    if attend:
        tl.store(d_source_logit + j, tl.load(d_source_logit + j) + tl.sum(d_sent, 0))


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
                N=_ROWS, **ctx.how, **_FORWARD,
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
        straight = how["straight"]
        factors = lse.new_empty(entries) if straight else None
        d_edges = source.new_empty(entries, width)
        saved = source.new_empty(2 * depth - 1 - straight, entries, width)
        d_layers = lse.new_zeros(depth, width * width + width)
        logits = (source_logit, logit, scale)
        for first, part in neighbors.parts(rows):
            last = min(first + rows, nodes)
            _edge_kernel[(triton.cdiv(last - first, _ROWS),)](
                source, destination, *logits, *_padded(layers), neighbors.source, neighbors.mask, seed, lse, d_heard, d_destination, d_logit,
                dots, along, factors, d_edges, saved, first, last, entries, 0, *ctx.drop, N=_ROWS, **how, **_EDGE,
            )  # fmt: skip
            inside = (last - first) * degree
            programs = min(triton.cdiv(inside, 8 * _ENTRIES), _processors(source.device))
            for layer in range(depth):
                ends = straight and layer == depth - 1
                partial = lse.new_empty(programs, width * width + width)
                _weight_kernel[(programs,)](
                    source, destination, neighbors.source, seed, d_heard, factors, saved[layer - 1] if layer else None,
                    None if ends else saved[depth - 1 + layer], partial, first, inside, ctx.drop[0], degree, width, layer == 0, ends,
                    precision=how["precision"], N=_ENTRIES, H=max(16, power(width)), **_WEIGHT,
                )  # fmt: skip
                d_layers[layer] += partial.sum(0)
            readers, starts = part.readers
            _reader_kernel[(len(source),)](
                *logits, readers, starts, neighbors.mask, lse, dots, along, d_edges, d_source, d_source_logit, first, len(readers),
                len(source), degree, width, attend=attend, masked=how["masked"], R=_READERS, H=power(width), num_warps=1,
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

    row = mix(mix(torch.arange(entries, device=seed.device)) ^ seed).unsqueeze(1)
    odd = mix((row + 0x9E3779B9) & whole) | 1
    column = (torch.arange(width, device=seed.device) * 0x9E3779B1) & whole
    return (((row ^ column) * odd) & whole) >= _odds(dropout)[0]


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
