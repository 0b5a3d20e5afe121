"""Messages over edges with layers between the first and the last: the same function as `reference.average_messages`.

Node i hears sum_j w_ij x_L of the edge from j, where x_0 = relu(s_j + d_i), x_l = relu(W_l x_(l-1) + b_l), and w_ij is the softmax over its in-neighbors j of
l_ij = c_i leaky_relu(a_j + b_i), or equal shares. A last, linear layer stays behind the average, where it costs a product a node; with dropout, which acts on
messages, it is one of the chain, without relu.

Forward nothing of the size of all edges is written but the shares w, a number an edge, and they are not kept. The way back works out the chain anew, layer after
layer from the last, for a part of the table at a time:

    dz_L = w_ij g_i,  dW_l += dz_l x_(l-1)^T,  dz_(l-1) = W_l^T dz_l where x_(l-1) > 0

Each layer has a pass of its own over the part's dz, in place: the sums of dW_l and everything else that a tile of edges needs fit into registers for one layer, for three
they do not. The gradient of a share is g . x_L, and with p_ij = w_ij g . x_L that of a logit p_ij - w_ij sum_j p_ij. Those of s and a are sums of dz_0 over readers, in
a fixed order and without atomics.

What dropout keeps is a hash of a seed, the entry of the table and the column: the way back draws the same without having kept it.
"""

# Triton's launches are beyond what a type checker can follow.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportArgumentType=false
# pyright: reportCallIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
from torch import Tensor
from torch.nn import functional

from outgrow.kernels import reference
from outgrow.kernels.fused import chain
from outgrow.kernels.fused.blocks import power
from outgrow.kernels.neighbors import Neighbors
from outgrow.kernels.reference import Layer

__all__ = ["average_layered", "kept", "layers_misfit"]

_MAX_LAYERS = 3  # in the chain: their weights are held at once
_MAX_WIDTH = 128
_PART = 1 << 21  # entries of a table whose dz is written at a time: 0.4 GB of 96 numbers in half precision
_READERS = 8
_SHARES = 1 << 10  # of a program
# Rows of a tile, warps that work on it, and how many loads are under way: forward and back. Half precision; then single precision, which fits into fast memory with
# fewer rows: products of full precision, for checking, want few to compile in reasonable time.
_HALF = {"N": 64, "num_warps": 4, "num_stages": 2}, {"M": 128, "num_warps": 8, "num_stages": 1}
_SINGLE = {"N": 64, "num_warps": 4, "num_stages": 1}, {"M": 64, "num_warps": 4, "num_stages": 1}
_CHECKED = {"N": 16, "num_warps": 4, "num_stages": 1}, {"M": 16, "num_warps": 4, "num_stages": 1}


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
        *layers: Tensor,
    ) -> Tensor:
        source, destination = _in_rows(source), _in_rows(destination)
        layers = tuple(t.contiguous() for t in layers)
        nodes, width = destination.shape
        ctx.how = {
            "width": width,
            "depth": len(layers) // 2,
            "dropped": seed is not None,
            "precision": _precision(),
            **_blocks(width),
        }
        ctx.drop = _odds(dropout)
        ctx.logits = (source_logit, logit, scale)
        ctx.neighbors = neighbors
        heard = source.new_empty(nodes, width)
        if nodes:
            shares = _share(ctx.logits, neighbors)
            tile, _ = _tiles(source.dtype, width)
            chain.forward_kernel[(triton.cdiv(nodes, tile["N"]),)](
                source, destination, neighbors.source, shares, *_padded(layers), seed, heard, nodes, *ctx.drop, neighbors.degree, source.stride(0),
                destination.stride(0), most=neighbors.degree if chain.INTERPRETED else 0, **ctx.how, **tile,
            )  # fmt: skip
        ctx.save_for_backward(source, destination, *ctx.logits, seed, *layers)
        del ctx.logits
        return heard

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        source, destination, source_logit, logit, scale, seed, *layers = ctx.saved_tensors
        neighbors: Neighbors = ctx.neighbors
        how: dict[str, Any] = ctx.how
        width, depth = how["width"], how["depth"]
        attend, degree, nodes = logit is not None, neighbors.degree, len(destination)
        logits = (source_logit, logit, scale)
        d_heard = grads[0].contiguous()
        d_source = source.new_zeros(source.shape, dtype=torch.float32)
        d_destination = source.new_empty(destination.shape)
        d_layers = d_source.new_zeros(depth, width * width + width)
        d_source_logit = d_source.new_zeros(len(source)) if attend else None
        d_logit = d_source.new_empty(nodes) if attend else None
        shares = _share(logits, neighbors)
        _, tile = _tiles(source.dtype, width)
        strides = (degree, source.stride(0), destination.stride(0))
        common = {key: how[key] for key in ("width", "precision", "A", "B")} | tile
        rows = max(1, _PART // degree)
        room, turns = _room(min(rows, nodes) * degree, tile["M"], source.device)
        # Whole tiles: rows behind the last entry are written, and read, as zeros.
        d = source.new_empty(room, width)
        along = d_source.new_empty(min(rows, nodes) * degree) if attend else None
        for first, part in neighbors.parts(rows):
            last = min(first + rows, nodes)
            entries = (last - first) * degree
            programs = triton.cdiv(entries, tile["M"] * turns)
            mine, table = destination[first:last], part.source
            if not how["dropped"]:
                chain.output_kernel[(programs * turns,)](
                    source, mine, table, shares[first:last], *_padded(layers), d_heard[first:last], d, along, entries, *strides, depth=depth, attend=attend,
                    **common,
                )  # fmt: skip
            for layer in reversed(range(depth)):
                fresh = how["dropped"] and layer == depth - 1
                partial = d_source.new_empty(programs, width * width + width)
                chain.layer_kernel[(programs,)](
                    source, mine, table, *_padded(layers[: 2 * layer])[:4], *layers[2 * layer : 2 * layer + 2], d, along, partial, entries, 0, *strides,
                    shares[first:last], d_heard[first:last], seed, first * degree, *ctx.drop, fresh=fresh, below=layer, attend=attend and fresh, turns=turns,
                    **common,
                )  # fmt: skip
                d_layers[layer] += partial.sum(0)
            if logit is not None and scale is not None and d_logit is not None:
                share_tile = _share_tile(degree)
                chain.share_back_kernel[(triton.cdiv(last - first, share_tile["N"]),)](
                    source_logit, logit[first:last], scale[first:last], table, part.mask, shares[first:last], along, d_logit[first:last], last - first,
                    degree, masked=part.mask is not None, **share_tile,
                )  # fmt: skip
            sums = {"width": width, "R": _READERS, "H": power(width), "num_warps": 1}
            readers, starts = part.readers
            chain.sum_kernel[(len(source),)](
                d, readers, starts, along, d_source, d_source_logit, len(readers), len(source), degree, reads=True, attend=attend, **sums
            )  # fmt: skip
            chain.sum_kernel[(last - first,)](
                d, None, None, None, d_destination[first:last], None, entries, last - first, degree, reads=False, attend=False, **sums
            )  # fmt: skip
        given: list[Tensor] = []
        for weights in d_layers:
            given += [weights[: width * width].view(width, width), weights[width * width :]]
        d_given = [t.to(layer.dtype) for t, layer in zip(given, layers, strict=True)]
        d_logits = [t if t is None else t.to(source_logit.dtype) for t in (d_source_logit, d_logit)]
        return d_source.to(source.dtype), d_destination, *d_logits, None, None, None, None, *d_given


def layers_misfit(width: int, layers: int, dropout: float) -> str:
    """Why messages of that width and with so many layers behind the first cannot be computed here; '' if they can."""
    if width > _MAX_WIDTH:
        return f"messages of {width} numbers with layers are too wide for them, which take {_MAX_WIDTH}"
    among = layers - (not dropout)  # without dropout the last one is behind the average
    if not 1 <= among <= _MAX_LAYERS:
        return f"they compute 1 to {_MAX_LAYERS} layers an edge behind the first, not {among}"
    return ""


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
    among = layers if dropout else layers[:-1]
    if not neighbors.degree or not len(source):
        return reference.average_messages(source, destination, neighbors, layers, logits=logits, sharpen=sharpen)
    sent, own = (None, None) if logits is None else (t.contiguous() for t in logits)
    scale = None
    if own is not None:
        scale = neighbors.log_degree.flatten() if sharpen else torch.ones_like(own)
        scale = scale.to(torch.float32).contiguous()
    if dropout and seed is None:
        seed = torch.randint(1 << 31, (1,), device=source.device)
    dtype = source.dtype
    flat = [t.to(dtype) for layer in among for t in layer]
    heard = _Chain.apply(
        source, destination.to(dtype), sent, own, scale, seed if dropout else None, neighbors, dropout, *flat
    )
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


def _share(logits: Sequence[Tensor | None], neighbors: Neighbors) -> Tensor:
    """How much of each edge a node hears, (N, D), 0 where there is none."""
    source_logit, logit, scale = logits
    if logit is None:
        return neighbors.share.to(torch.float32)
    nodes, degree = neighbors.source.shape
    shares = logit.new_empty(nodes, degree, dtype=torch.float32)
    tile = _share_tile(degree)
    chain.share_kernel[(triton.cdiv(nodes, tile["N"]),)](
        source_logit, logit, scale, neighbors.source, neighbors.mask, shares, nodes, degree, masked=neighbors.mask is not None, **tile
    )  # fmt: skip
    return shares


def _share_tile(degree: int) -> dict[str, int]:
    most = power(degree)
    return {"most": most, "N": max(1, _SHARES // most)}


def _tiles(dtype: torch.dtype, width: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """Forward and back; in the interpreter, the smallest that a matrix product takes."""
    if chain.INTERPRETED:
        return _CHECKED
    if dtype == torch.bfloat16:
        return _HALF
    return _SINGLE if _precision() == "tf32" and width <= 96 else _CHECKED


def _room(entries: int, rows: int, device: torch.device) -> tuple[int, int]:
    """How many rows the tiles of so many entries have, and how many tiles a program works on: a power of two, so that few programs are compiled and few
    sums are added, with some programs for every processor."""
    tiles = triton.cdiv(entries, rows)
    processors = torch.cuda.get_device_properties(device).multi_processor_count if device.type == "cuda" else 2
    turns = power(int(triton.cdiv(tiles, 4 * processors)))
    return int(triton.cdiv(tiles, turns)) * turns * rows, turns


def _in_rows(x: Tensor) -> Tensor:
    """Rows that lie apart will do, if their elements lie together."""
    return x if x.stride(1) == 1 else x.contiguous()


def _blocks(width: int) -> dict[str, int]:
    """Rows in blocks of columns that Triton knows, powers of two: 96 is 64 and 32, where 128 would be half as many again to compute. One block where
    that is no more."""
    a = max(16, power(width + 1) // 2)
    b = max(16, power(width - a)) if width > a else 0
    return {"A": a, "B": b} if a + b < power(width) else {"A": max(16, power(width)), "B": 0}


def _padded(layers: Sequence[Tensor]) -> list[Tensor | None]:
    """Weights and biases of as many layers as kernels have room for."""
    return [*layers, *([None] * (2 * _MAX_LAYERS - len(layers)))]


def _precision() -> str:
    """Of products in single precision; operands in half precision have no choice."""
    return "ieee" if torch.get_float32_matmul_precision() == "highest" else "tf32"
