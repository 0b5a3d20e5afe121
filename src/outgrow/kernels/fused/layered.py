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
from outgrow.kernels.neighbors import Neighbors
from outgrow.kernels.reference import Layer

__all__ = ["average_layered", "kept", "layers_fit"]

_MAX_LAYERS = 3  # in the chain: their weights, and the gradients of these, are held at once
_MAX_WIDTH = 128
_LOW = tl.constexpr(-1e30)  # below every logit, and finite: differences of two stay numbers
_SLOPE = tl.constexpr(0.01)  # of leaky_relu below zero
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
def _weights(weight, bias, column, width: tl.constexpr, H: tl.constexpr, dtype: tl.constexpr):
    """A layer's weight (out, in) and bias, zero beyond its width."""
    inside = column < width
    both = inside[:, None] & inside[None, :]
    w = tl.load(weight + column[:, None] * width + column[None, :], mask=both, other=0.0).to(dtype)
    return w, tl.load(bias + column, mask=inside, other=0.0).to(tl.float32)


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
def _layer(x, w, b, straight: tl.constexpr, precision: tl.constexpr):
    y = _multiply(x, tl.trans(w), precision) + b[None, :]
    if not straight:
        y = tl.maximum(y, 0.0)
    return y


@triton.jit
def _neighbor(table, there, node, valid, slot, degree, masked: tl.constexpr):
    """The so-manieth in-neighbor of each node, and whether it has one."""
    place = node * degree + slot
    real = valid
    if masked:
        real = real & (tl.load(there + place, mask=real, other=0) != 0)
    return tl.load(table + place, mask=real, other=0), real


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
    H: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    valid = node < nodes
    inside = (column < width)[None, :]
    dtype = source.dtype.element_ty
    w1, b1 = _weights(weight1, bias1, column, width, H, dtype)
    if depth > 1:
        w2, b2 = _weights(weight2, bias2, column, width, H, dtype)
    if depth > 2:
        w3, b3 = _weights(weight3, bias3, column, width, H, dtype)
    mine = tl.load(destination + node[:, None] * width + column[None, :], mask=valid[:, None] & inside, other=0.0).to(
        tl.float32
    )
    own = tl.zeros([N], tl.float32)
    sharpness = tl.zeros([N], tl.float32)
    if attend:
        own = tl.load(logit + node, mask=valid, other=0.0).to(tl.float32)
        sharpness = tl.load(scale + node, mask=valid, other=0.0)
    if dropped:
        seed = tl.load(seeds).to(tl.uint32)
    top = tl.full([N], _LOW, tl.float32)
    total = tl.zeros([N], tl.float32)
    sums = tl.zeros([N, H], tl.float32)
    for slot in range(degree):
        j, real = _neighbor(table, there, node, valid, slot, degree, masked)
        s = tl.load(source + j[:, None] * width + column[None, :], mask=real[:, None] & inside, other=0.0)
        x = _narrow(tl.maximum(s.to(tl.float32) + mine, 0.0), dtype)
        x = _layer(x, w1, b1, straight and depth == 1, precision)
        if depth > 1:
            x = _layer(_narrow(x, dtype), w2, b2, straight and depth == 2, precision)
        if depth > 2:
            x = _layer(_narrow(x, dtype), w3, b3, straight, precision)
        if dropped:
            x = tl.where(_keep(seed, node * degree + slot, column, threshold), x * rescale, 0.0)
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
    tl.store(
        heard + node[:, None] * width + column[None, :],
        _narrow(sums / some[:, None], dtype),
        mask=valid[:, None] & inside,
    )
    # For equal shares: the log of how many there are, with logits of zero.
    tl.store(lse + node, tl.where(total > 0, top, 0.0) + tl.log(some) if attend else tl.log(some), mask=valid)


@triton.jit
def _back(dz, x, w, d_w, d_b, dtype: tl.constexpr, precision: tl.constexpr):
    """One layer back: of the gradient at its output, its weights' gradients so far and the gradient at its input `x`, which is a relu's output."""
    d_w += _multiply(tl.trans(dz), x, precision)
    d_b += tl.sum(dz.to(tl.float32), 0)
    dx = _multiply(dz, w, precision)
    return _narrow(tl.where(x > 0, dx, 0.0), dtype), d_w, d_b


@triton.jit
def _store_weights(target, d_w, d_b, column, width: tl.constexpr):
    inside = column < width
    both = inside[:, None] & inside[None, :]
    tl.store(target + column[:, None] * width + column[None, :], d_w, mask=both)
    tl.store(target + width * width + column, d_b, mask=inside)


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
    H: tl.constexpr,
):
    """Gradients of weights, summed over the program's tiles of nodes `first` to `last`; of destinations and their logits; and, for the sum over readers, of each
    edge's s_j + d_i (`d_edges`) and g . x_L (`along`), with g . y of each node (`dots`)."""
    program = tl.program_id(0).to(tl.int64)
    column = tl.arange(0, H)
    inside = (column < width)[None, :]
    dtype = source.dtype.element_ty
    w1, b1 = _weights(weight1, bias1, column, width, H, dtype)
    d_w1 = tl.zeros([H, H], tl.float32)
    d_b1 = tl.zeros([H], tl.float32)
    if depth > 1:
        w2, b2 = _weights(weight2, bias2, column, width, H, dtype)
        d_w2 = tl.zeros([H, H], tl.float32)
        d_b2 = tl.zeros([H], tl.float32)
    if depth > 2:
        w3, b3 = _weights(weight3, bias3, column, width, H, dtype)
        d_w3 = tl.zeros([H, H], tl.float32)
        d_b3 = tl.zeros([H], tl.float32)
    if dropped:
        seed = tl.load(seeds).to(tl.uint32)
    tile = program
    while tile < tiles:
        node = first + tile * N + tl.arange(0, N)
        valid = node < last
        place = node[:, None] * width + column[None, :]
        mine = tl.load(destination + place, mask=valid[:, None] & inside, other=0.0).to(tl.float32)
        d = tl.load(d_heard + place, mask=valid[:, None] & inside, other=0.0).to(tl.float32)
        level = tl.load(lse + node, mask=valid, other=0.0)
        own = tl.zeros([N], tl.float32)
        sharpness = tl.zeros([N], tl.float32)
        if attend:
            own = tl.load(logit + node, mask=valid, other=0.0).to(tl.float32)
            sharpness = tl.load(scale + node, mask=valid, other=0.0)
        d_mine = tl.zeros([N, H], tl.float32)
        dot = tl.zeros([N], tl.float32)
        steep = tl.zeros([N], tl.float32)
        d_own = tl.zeros([N], tl.float32)
        for slot in range(degree):
            j, real = _neighbor(table, there, node, valid, slot, degree, masked)
            s = tl.load(source + j[:, None] * width + column[None, :], mask=real[:, None] & inside, other=0.0)
            x0 = _narrow(tl.maximum(s.to(tl.float32) + mine, 0.0), dtype)
            x = _layer(x0, w1, b1, straight and depth == 1, precision)
            if depth > 1:
                x1 = _narrow(x, dtype)
                x = _layer(x1, w2, b2, straight and depth == 2, precision)
            if depth > 2:
                x2 = _narrow(x, dtype)
                x = _layer(x2, w3, b3, straight, precision)
            raw = tl.zeros([N], tl.float32)
            slope = sharpness
            if attend:
                raw = tl.load(source_logit + j, mask=real, other=0.0).to(tl.float32) + own
                slope = tl.where(raw < 0, sharpness * _SLOPE, sharpness)
                raw = raw * slope
            weight = tl.exp(tl.where(real, raw - level, _LOW))
            entry = node * degree + slot
            g = d
            if dropped:
                g = tl.where(_keep(seed, entry, column, threshold), d * rescale, 0.0)
            if attend:
                share = tl.sum(g * x, 1)
                tl.store(along + entry - first * degree, share, mask=real)
                share = weight * share
                dot += share
                d_own += slope * share
                steep += weight * slope
            dz = weight[:, None] * g
            if not straight:
                dz = tl.where(x > 0, dz, 0.0)
            dz = _narrow(dz, dtype)
            if depth > 2:
                dz, d_w3, d_b3 = _back(dz, x2, w3, d_w3, d_b3, dtype, precision)
            if depth > 1:
                dz, d_w2, d_b2 = _back(dz, x1, w2, d_w2, d_b2, dtype, precision)
            dz, d_w1, d_b1 = _back(dz, x0, w1, d_w1, d_b1, dtype, precision)
            d_mine += dz.to(tl.float32)
            tl.store(
                d_edges + (entry - first * degree)[:, None] * width + column[None, :], dz, mask=valid[:, None] & inside
            )
        tl.store(d_destination + place, _narrow(d_mine, dtype), mask=valid[:, None] & inside)
        if attend:
            tl.store(d_logit + node, d_own - dot * steep, mask=valid)
            tl.store(dots + node, dot, mask=valid)
        tile += programs
    size: tl.constexpr = width * width + width
    target = d_weights + program * depth * size
    _store_weights(target, d_w1, d_b1, column, width)
    if depth > 1:
        _store_weights(target + size, d_w2, d_b2, column, width)
    if depth > 2:
        _store_weights(target + 2 * size, d_w3, d_b3, column, width)


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
            "H": max(16, power(width)),
        }
        ctx.drop = _drop(dropout)
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
                len(source), degree, width, attend=attend, masked=how["masked"], H=how["H"], num_warps=1,
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
    return mix(row.unsqueeze(1) ^ column) >= _drop(dropout)[0]


def _drop(dropout: float) -> tuple[int, float]:
    """The threshold below which 32 random bits say that an element is dropped, and by how much the others grow."""
    return round(dropout * (1 << 32)), 1 / (1 - dropout)


def _processors(device: torch.device) -> int:
    """How many programs run at the same time, each with a processor of its own."""
    return torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2


def _padded(layers: Sequence[Tensor]) -> list[Tensor | None]:
    """Weights and biases of as many layers as kernels have room for."""
    return [*layers, *([None] * (2 * _MAX_LAYERS - len(layers)))]


def _precision() -> str:
    """Of products in single precision; operands in half precision have no choice."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"


def _row(logits: Tensor | None) -> Tensor | None:
    return None if logits is None else logits.contiguous()
