"""The kernels of `layered`: rows of width H as two blocks of columns, A and B, powers of two as Triton wants them (96 is 64 + 32; B is 0 where one block will do).

Forward a program takes a tile of nodes and goes through their in-neighbors, one slot after another: a tile of edges is a product a layer. Backward it takes tiles of
entries of the table as they lie, which are whole: rows that are read for an entry too many are some other ones, and its share is 0. On a GPU pairs of bf16 are
added, cut off at 0 and narrowed by one instruction each (`_begin`, `_finish`, `_alive`): without those, arithmetic on single elements takes longer than the products.
"""

# Triton's own language inside kernels is beyond what a type checker can follow.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false, reportPossiblyUnboundVariable=false

from __future__ import annotations

import os

import torch
import triton
import triton.language as tl

from outgrow.kernels.fused.edges import _LOW, _SLOPE

__all__ = [
    "INTERPRETED",
    "forward_kernel",
    "layer_kernel",
    "output_kernel",
    "share_back_kernel",
    "share_kernel",
    "sum_kernel",
]

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
_INTERPRETED = tl.constexpr(INTERPRETED)
_PAIRS = tl.constexpr(not INTERPRETED and torch.version.hip is None)


# ---- Pieces


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
def _multiply(a, b, total, precision: tl.constexpr):
    """total + a b, summed in single precision; the interpreter knows no products of bf16."""
    if _INTERPRETED:
        a = a.to(tl.float32)
        b = b.to(tl.float32)
    return tl.dot(a, b, total, input_precision=precision)


@triton.jit
def _columns(source, row, stride, at: tl.constexpr, width: tl.constexpr, C: tl.constexpr):
    """A block of columns of some rows. Without a mask where all columns are there: with one, every pair of bf16 is put together from halves."""
    column = at + tl.arange(0, C)
    place = source + row.to(tl.int64)[:, None] * stride + column[None, :]
    if at + C > width:
        return tl.load(place, mask=(column < width)[None, :], other=0.0)
    else:
        return tl.load(place)


@triton.jit
def _rows(source, row, stride, width: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    a = _columns(source, row, stride, 0, width, A)
    if B:
        return a, _columns(source, row, stride, A, width, B)
    else:
        return a, a


@triton.jit
def _store(target, row, real, x, at: tl.constexpr, width: tl.constexpr, C: tl.constexpr, dtype: tl.constexpr):
    column = at + tl.arange(0, C)
    mask = real[:, None] & (column < width)[None, :]
    tl.store(target + row.to(tl.int64)[:, None] * width + column[None, :], _narrow(x, dtype), mask=mask)


@triton.jit
def _store_rows(target, row, real, x, width: tl.constexpr, dtype: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    _store(target, row, real, x[0], 0, width, A, dtype)
    if B:
        _store(target, row, real, x[1], A, width, B, dtype)


@triton.jit
def _block(matrix, row, column, width: tl.constexpr):
    return tl.load(
        matrix + row[:, None] * width + column[None, :],
        mask=(row < width)[:, None] & (column < width)[None, :],
        other=0.0,
    )


@triton.jit
def _weight(weight, width: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """A layer's weight (out, in) in four blocks, zero beyond its width."""
    first = tl.arange(0, A)
    aa = _block(weight, first, first, width)
    if B:
        second = A + tl.arange(0, B)
        ab = _block(weight, first, second, width)
        ba = _block(weight, second, first, width)
        return aa, ab, ba, _block(weight, second, second, width)
    else:
        return aa, aa, aa, aa


@triton.jit
def _bias(bias, at: tl.constexpr, width: tl.constexpr, C: tl.constexpr):
    column = at + tl.arange(0, C)
    return tl.load(bias + column, mask=column < width, other=0.0).to(tl.float32)[None, :]


@triton.jit
def _upright(bias, at: tl.constexpr, width: tl.constexpr, C: tl.constexpr):
    """A part of a bias as the first of sixteen columns, the others of zeros: the narrowest matrix to multiply with."""
    row = at + tl.arange(0, C)
    first = (tl.arange(0, 16) == 0)[None, :]
    return tl.load(bias + row[:, None] + tl.zeros([1, 16], tl.int32), mask=(row < width)[:, None] & first, other=0.0)


@triton.jit
def _zeros(rows: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    a = tl.zeros([rows, A], tl.float32)
    if B:
        return a, tl.zeros([rows, B], tl.float32)
    else:
        return a, a


@triton.jit
def _begin_block(s, d, dtype: tl.constexpr):
    if _PAIRS and dtype == tl.bfloat16:
        return tl.inline_asm_elementwise(
            "{ .reg .b32 one; mov.b32 one, 0x3f803f80; fma.rn.relu.bf16x2 $0, $1, one, $2; }",
            "=r,r,r",
            [s, d],
            dtype=tl.bfloat16,
            is_pure=True,
            pack=2,
        )
    else:
        return _narrow(tl.maximum(s.to(tl.float32) + d.to(tl.float32), 0.0), dtype)


@triton.jit
def _begin(s, d, dtype: tl.constexpr, B: tl.constexpr):
    """x_0 = relu(s + d)."""
    a = _begin_block(s[0], d[0], dtype)
    if B:
        return a, _begin_block(s[1], d[1], dtype)
    else:
        return a, a


@triton.jit
def _finish(y, bias, dtype: tl.constexpr):
    """relu(y + bias), narrow."""
    y, bias = tl.broadcast(y, bias)
    if _PAIRS and dtype == tl.bfloat16:
        return tl.inline_asm_elementwise(
            "{ .reg .f32 a, b; add.f32 a, $1, $3; add.f32 b, $2, $4; cvt.rn.relu.bf16x2.f32 $0, b, a; }",
            "=r,f,f,f,f",
            [y, bias],
            dtype=tl.bfloat16,
            is_pure=True,
            pack=2,
        )
    else:
        return _narrow(tl.maximum(y + bias, 0.0), dtype)


@triton.jit
def _alive_block(u, x, dtype: tl.constexpr):
    if _PAIRS and dtype == tl.bfloat16:
        # x has no sign: x + 0x7fff has the highest bit if x is not zero, and prmt spreads it over all sixteen.
        return tl.inline_asm_elementwise(
            "{ .reg .b32 m, t; cvt.rn.bf16x2.f32 t, $2, $1; add.u32 m, $3, 0x7fff7fff;"
            " prmt.b32 m, m, 0, 0xbb99; and.b32 $0, t, m; }",
            "=r,f,f,r",
            [u, x],
            dtype=tl.bfloat16,
            is_pure=True,
            pack=2,
        )
    else:
        return _narrow(tl.where(x > 0, u, 0.0), dtype)


@triton.jit
def _alive(u, x, dtype: tl.constexpr, B: tl.constexpr):
    """What of a gradient gets through the relu whose output is `x`, narrow."""
    a = _alive_block(u[0], x[0], dtype)
    if B:
        return a, _alive_block(u[1], x[1], dtype)
    else:
        return a, a


@triton.jit
def _product(x, w, precision: tl.constexpr, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """W x for each row x, in single precision."""
    ya, yb = _zeros(N, A, B)
    ya = _multiply(x[0], tl.trans(w[0]), ya, precision)
    if B:
        ya = _multiply(x[1], tl.trans(w[1]), ya, precision)
        yb = _multiply(x[0], tl.trans(w[2]), yb, precision)
        return ya, _multiply(x[1], tl.trans(w[3]), yb, precision)
    else:
        return ya, ya


@triton.jit
def _layer(x, w, bias, precision: tl.constexpr, width: tl.constexpr, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr):
    """relu(W x + b), as narrow as x."""
    dtype: tl.constexpr = x[0].dtype
    y = _product(x, w, precision, N, A, B)
    a = _finish(y[0], _bias(bias, 0, width, A), dtype)
    if B:
        return a, _finish(y[1], _bias(bias, A, width, B), dtype)
    else:
        return a, a


@triton.jit
def _chain(
    x, w1, bias1, w2, bias2, below: tl.constexpr, precision: tl.constexpr, width: tl.constexpr, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr
):  # fmt: skip
    """The first layers, of which at most two are not the last one."""
    if below > 0:
        x = _layer(x, w1, bias1, precision, width, N, A, B)
    if below > 1:
        x = _layer(x, w2, bias2, precision, width, N, A, B)
    return x


@triton.jit
def _along(x, y, B: tl.constexpr):
    """The product of each row with the other's."""
    found = tl.sum(x[0].to(tl.float32) * y[0].to(tl.float32), 1)
    if B:
        found += tl.sum(x[1].to(tl.float32) * y[1].to(tl.float32), 1)
    return found


# ---- Shares: how much of each edge a node hears


@triton.jit
def _logits(source_logit, logit, scale, table, there, node, slot, nodes, degree, masked: tl.constexpr):
    """The logits of some nodes' edges; where they stand, which of them there are, and by how much they grow."""
    place = node.to(tl.int64)[:, None] * degree + slot[None, :]
    inside = (node < nodes)[:, None] & (slot < degree)[None, :]
    real = inside
    if masked:
        real = real & (tl.load(there + place, mask=inside, other=0) != 0)
    j = tl.load(table + place, mask=inside, other=0)
    raw = tl.load(source_logit + j, mask=real, other=0.0).to(tl.float32)
    raw += tl.load(logit + node, mask=node < nodes, other=0.0).to(tl.float32)[:, None]
    slope = tl.load(scale + node, mask=node < nodes, other=0.0)[:, None] * tl.where(raw < 0, _SLOPE, 1.0)
    return place, inside, real, raw, slope


@triton.jit
def share_kernel(
    source_logit, logit, scale, table, there, shares, nodes, degree, most: tl.constexpr, masked: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    """The softmax of every node's logits; 0 where there is no edge."""
    node, slot = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, most)
    place, inside, real, raw, slope = _logits(
        source_logit, logit, scale, table, there, node, slot, nodes, degree, masked
    )
    raw = tl.where(real, raw * slope, _LOW)
    share = tl.where(real, tl.exp(raw - tl.max(raw, 1)[:, None]), 0.0)
    total = tl.sum(share, 1)
    tl.store(shares + place, share / tl.where(total > 0, total, 1.0)[:, None], mask=inside)


@triton.jit
def share_back_kernel(
    source_logit, logit, scale, table, there, shares, along, d_logit, nodes, degree, most: tl.constexpr, masked: tl.constexpr, N: tl.constexpr
):  # fmt: skip
    """From `along`, every share times its gradient, the gradient of a_j + b_i in its place, and its sum for each node."""
    node, slot = tl.program_id(0) * N + tl.arange(0, N), tl.arange(0, most)
    place, inside, real, _, slope = _logits(source_logit, logit, scale, table, there, node, slot, nodes, degree, masked)
    share = tl.load(shares + place, mask=inside, other=0.0)
    d = tl.where(real, tl.load(along + place, mask=inside, other=0.0), 0.0)
    d = tl.where(real, (d - share * tl.sum(d, 1)[:, None]) * slope, 0.0)
    tl.store(along + place, d, mask=inside)
    tl.store(d_logit + node, tl.sum(d, 1), mask=node < nodes)


# ---- Messages


@triton.jit
def _hear(
    sums, slot, source, table, shares, seed, mine, w1, bias1, w2, bias2, w3, bias3, node, valid, threshold, degree, stride, width: tl.constexpr,
    depth: tl.constexpr, dropped: tl.constexpr, precision: tl.constexpr, N: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """What the nodes heard and hear of one more slot."""
    dtype: tl.constexpr = source.dtype.element_ty
    entry = node.to(tl.int64) * degree + slot
    j = tl.load(table + entry, mask=valid, other=0)
    share = tl.load(shares + entry, mask=valid, other=0.0)
    x = _begin(_rows(source, j, stride, width, A, B), mine, dtype, B)
    x = _chain(x, w1, bias1, w2, bias2, depth - 1, precision, width, N, A, B)
    if depth == 1:
        w, bias = w1, bias1
    elif depth == 2:
        w, bias = w2, bias2
    else:
        w, bias = w3, bias3
    y = _product(x, w, precision, N, A, B)
    ya = y[0] + _bias(bias, 0, width, A)
    if dropped:
        ya = tl.where(_keep(seed, entry, tl.arange(0, A), threshold), ya, 0.0)
    else:
        ya = tl.maximum(ya, 0.0)
    a = sums[0] + share[:, None] * ya
    if B:
        yb = y[1] + _bias(bias, A, width, B)
        if dropped:
            yb = tl.where(_keep(seed, entry, A + tl.arange(0, B), threshold), yb, 0.0)
        else:
            yb = tl.maximum(yb, 0.0)
        return a, sums[1] + share[:, None] * yb
    else:
        return a, a


@triton.jit
def forward_kernel(
    source, destination, table, shares, weight1, bias1, weight2, bias2, weight3, bias3, seeds, heard, nodes, threshold, rescale, degree, stride, own_stride,
    most: tl.constexpr, width: tl.constexpr, depth: tl.constexpr, dropped: tl.constexpr, precision: tl.constexpr, N: tl.constexpr, A: tl.constexpr,
    B: tl.constexpr,
):  # fmt: skip
    """What each node hears: the sum of its messages by their shares. With dropout the last layer is without relu."""
    node = tl.program_id(0) * N + tl.arange(0, N)
    valid = node < nodes
    node = tl.minimum(node, nodes - 1)
    w1 = _weight(weight1, width, A, B)
    w2, w3 = w1, w1
    if depth > 1:
        w2 = _weight(weight2, width, A, B)
    if depth > 2:
        w3 = _weight(weight3, width, A, B)
    seed = 0
    if dropped:
        seed = tl.load(seeds).to(tl.uint32)
    mine = _rows(destination, node, own_stride, width, A, B)
    sums = _zeros(N, A, B)
    if _INTERPRETED:  # which knows no range that ends where a number says
        for slot in range(most):
            sums = _hear(
                sums, slot, source, table, shares, seed, mine, w1, bias1, w2, bias2, w3, bias3, node, valid, threshold, degree, stride, width, depth, dropped,
                precision, N, A, B,
            )  # fmt: skip
    else:
        for turn in range(degree):
            sums = _hear(
                sums, turn, source, table, shares, seed, mine, w1, bias1, w2, bias2, w3, bias3, node, valid, threshold, degree, stride, width, depth, dropped,
                precision, N, A, B,
            )  # fmt: skip
    dtype: tl.constexpr = source.dtype.element_ty
    _store_rows(heard, node, valid, (sums[0] * rescale, sums[1] * rescale), width, dtype, A, B)


@triton.jit
def _entries(table, tile, entries, degree, M: tl.constexpr):
    """A tile of entries: their numbers, which of them there are, and their sources and destinations."""
    entry = tile * M + tl.arange(0, M)
    at = tl.minimum(entry, entries - 1)
    return entry, entry < entries, tl.load(table + at), at // degree


@triton.jit
def output_kernel(
    source, destination, table, shares, weight1, bias1, weight2, bias2, weight3, bias3, d_heard, d, along, entries, degree, stride, own_stride,
    width: tl.constexpr, depth: tl.constexpr, attend: tl.constexpr, precision: tl.constexpr, M: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """dz_L of a tile of edges where the last layer has a relu: what gets through it of their share of what a node heard; and with `attend` also `along`."""
    dtype: tl.constexpr = source.dtype.element_ty
    entry, real, j, i = _entries(table, tl.program_id(0), entries, degree, M)
    share = tl.load(shares + entry, mask=real, other=0.0)
    g = _rows(d_heard, i, width, width, A, B)
    ga = share[:, None] * g[0].to(tl.float32)
    gb = ga
    if B:
        gb = share[:, None] * g[1].to(tl.float32)
    w1 = _weight(weight1, width, A, B)
    w2, w3 = w1, w1
    if depth > 1:
        w2 = _weight(weight2, width, A, B)
    if depth > 2:
        w3 = _weight(weight3, width, A, B)
    x = _begin(_rows(source, j, stride, width, A, B), _rows(destination, i, own_stride, width, A, B), dtype, B)
    x = _chain(x, w1, bias1, w2, bias2, depth, precision, width, M, A, B)
    if depth > 2:
        x = _layer(x, w3, bias3, precision, width, M, A, B)
    if attend:
        tl.store(along + entry, _along((ga, gb), x, B), mask=real)
    ga = tl.where(x[0] > 0, ga, 0.0)
    if B:
        gb = tl.where(x[1] > 0, gb, 0.0)
    _store_rows(d, entry, entry >= 0, (ga, gb), width, dtype, A, B)


@triton.jit
def _dropped(
    d_heard, row, share, seed, place, threshold, at: tl.constexpr, width: tl.constexpr, C: tl.constexpr, dtype: tl.constexpr, still
):  # fmt: skip
    """What dropout leaves of some edges' shares of what nodes heard: a block of columns."""
    g = share[:, None] * _columns(d_heard, row, width, at, width, C).to(tl.float32)
    return _narrow(tl.where(_keep(seed, place, at + tl.arange(0, C) + still, threshold), g, 0.0), dtype)


@triton.jit
def _step_back(
    sums, tile, source, destination, table, v1, bias1, v2, bias2, w, bias, d, along, entries, still, degree, stride, own_stride, shares, d_heard, seed, offset, threshold, rescale, fresh: tl.constexpr,
    below: tl.constexpr, attend: tl.constexpr, width: tl.constexpr, precision: tl.constexpr, M: tl.constexpr, A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """A tile of edges more in the sums of `layer_kernel`, and its dz."""
    dtype: tl.constexpr = source.dtype.element_ty
    entry, real, j, i = _entries(table, tile, entries, degree, M)
    x = _begin(_rows(source, j, stride, width, A, B), _rows(destination, i, own_stride, width, A, B), dtype, B)
    if below > 0:
        x = _layer(x, v1, bias1 + still, precision, width, M, A, B)
    if below > 1:
        x = _layer(x, v2, bias2 + still, precision, width, M, A, B)
    share = 0.0
    if fresh:
        share = tl.load(shares + entry, mask=real, other=0.0) * rescale
        da = _dropped(d_heard, i, share, seed, offset + entry, threshold, 0, width, A, dtype, still)
    else:
        da = _columns(d, entry, width, 0, width, A)
    aa, ab, ba, bb, bias_a, bias_b = sums
    aa = _multiply(tl.trans(da), x[0], aa, precision)
    one = tl.full([M, 16], 1.0, tl.float32).to(dtype)
    bias_a = _multiply(tl.trans(da), one, bias_a, precision)
    ua, ub = _zeros(M, A, B)
    ua = _multiply(da, w[0], ua, precision)
    if attend:
        known = _multiply(da, bias[0], tl.zeros([M, 16], tl.float32), precision)
    if B:
        # As wide as the first block: a product of fewer than 64 rows is one for slower instructions.
        if fresh:
            db = _dropped(d_heard, i, share, seed, offset + entry, threshold, A, width, A, dtype, still)
        else:
            db = _columns(d, entry, width, A, width, A)
        ab = _multiply(tl.trans(da), x[1], ab, precision)
        ba = _multiply(tl.trans(db), x[0], ba, precision)
        bb = _multiply(tl.trans(db), x[1], bb, precision)
        bias_b = _multiply(tl.trans(db), one, bias_b, precision)
        ua = _multiply(db, w[2], ua, precision)
        ub = _multiply(da, w[1], ub, precision)
        ub = _multiply(db, w[3], ub, precision)
        if attend:
            known = _multiply(db, bias[1], known, precision)
    if attend:
        tl.store(along + entry, tl.sum(known, 1) + _along((ua, ub), x, B), mask=real)
    _store_rows(d, entry, entry >= 0, _alive((ua, ub), x, dtype, B), width, dtype, A, B)
    return aa, ab, ba, bb, bias_a, bias_b


@triton.jit
def layer_kernel(
    source, destination, table, below1, below_bias1, below2, below_bias2, weight, bias, d, along, sums, entries, zero, degree, stride,
    own_stride, shares, d_heard, seeds, offset, threshold, rescale, fresh: tl.constexpr, below: tl.constexpr, attend: tl.constexpr, width: tl.constexpr, turns: tl.constexpr, precision: tl.constexpr, M: tl.constexpr,
    A: tl.constexpr, B: tl.constexpr,
):  # fmt: skip
    """One layer back: in place of dz_l of every edge dz_(l-1), and the gradients of the layer's weight and bias over this program's tiles. `below` layers are
    worked out anew for what went in. With `fresh`, for a last layer with dropout behind it, dz_l is what that keeps of an edge's share of what a node heard (`offset` is where this part of
    the table begins), and with `attend` there is `along`: the edge's share times the share's gradient, dz . (W x + b). `zero` is 0, which the compiler must not know:
    it would keep biases in registers."""
    program = tl.program_id(0)
    seed = 0
    if fresh:
        seed = tl.load(seeds).to(tl.uint32)
    w = _weight(weight, width, A, B)
    v1, v2 = w, w
    if B:
        row = tl.arange(0, A)
        w = w[0], w[1], _block(weight, A + row, row, width), _block(weight, A + row, A + tl.arange(0, B), width)
    if below > 0:
        v1 = _weight(below1, width, A, B)
    if below > 1:
        v2 = _weight(below2, width, A, B)
    own = w[0], w[0]
    if attend:
        own = _upright(bias, 0, width, A), w[0]
        if B:
            own = own[0], _upright(bias, A, width, A)
    aa = tl.zeros([A, A], tl.float32)
    bias_a = tl.zeros([A, 16], tl.float32)
    if B:
        kept = (
            aa,
            tl.zeros([A, B], tl.float32),
            tl.zeros([A, A], tl.float32),
            tl.zeros([A, B], tl.float32),
            bias_a,
            bias_a,
        )
    else:
        kept = aa, aa, aa, aa, bias_a, bias_a
    for turn in range(turns):
        kept = _step_back(
            kept, program * turns + turn, source, destination, table, v1, below_bias1, v2, below_bias2, w, own, d, along, entries,
            turn * zero, degree, stride, own_stride, shares, d_heard, seed, offset, threshold, rescale, fresh, below, attend, width, precision, M, A, B,
        )  # fmt: skip
    aa, ab, ba, bb, bias_a, bias_b = kept
    out = sums + program.to(tl.int64) * (width * width + width)
    row = tl.arange(0, A)
    _store(out, row, row < width, aa, 0, width, A, tl.float32)
    behind = out + width * width
    tl.store(behind + row, tl.sum(bias_a, 1) / 16, mask=row < width)
    if B:
        _store(out, row, row < width, ab, A, width, B, tl.float32)
        row = A + tl.arange(0, A)
        _store(out, row, row < width, ba, 0, width, A, tl.float32)
        _store(out, row, row < width, bb, A, width, B, tl.float32)
        tl.store(behind + row, tl.sum(bias_b, 1) / 16, mask=row < width)


# ---- Sums of edges by node


@triton.jit
def sum_kernel(
    d, listed, starts, along, d_rows, d_logit, entries, nodes, degree, width: tl.constexpr, reads: tl.constexpr, attend: tl.constexpr, R: tl.constexpr,
    H: tl.constexpr,
):  # fmt: skip
    """Adds to each node's gradient those of some edges, in a fixed order: of those it sends, which are `listed` from where it `starts` (`reads`), or of the `degree` it
    hears, which lie side by side. With `attend` those of logits too."""
    node = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, H)
    inside = column < width
    if reads:
        begin = tl.load(starts + node)
        stop = tl.load(starts + node + 1, mask=node + 1 < nodes, other=entries)
    else:
        begin = node * degree
        stop = begin + degree
    total = tl.zeros([R, H], tl.float32)
    logit = tl.zeros([R], tl.float32)
    while begin < stop:
        entry = begin + tl.arange(0, R)
        real = entry < stop
        if reads:
            entry = tl.load(listed + entry, mask=real, other=0)
        place = d + entry[:, None] * width + column[None, :]
        total += tl.load(place, mask=real[:, None] & inside[None, :], other=0.0).to(tl.float32)
        if attend:
            logit += tl.load(along + entry, mask=real, other=0.0)
        begin += R
    found = tl.sum(total, 0)
    if reads:  # on top of those of other parts of the table
        found += tl.load(d_rows + node * width + column, mask=inside, other=0.0)
        if attend:
            tl.store(d_logit + node, tl.load(d_logit + node) + tl.sum(logit, 0))
    tl.store(d_rows + node * width + column, found.to(d_rows.dtype.element_ty), mask=inside)
