"""Message passing on a CPU without gradients: the same functions as `reference`, in blocks that stay in fast memory.

With gradients everything in between has to be kept; without, the edges of a few thousand rows are gathered, carried through all layers and averaged before the
next ones are, in place where nothing is lost by it. Edges that are padding alone are left out. What that and oneDNN's products give is in docs/performance.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from itertools import repeat
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from outgrow.kernels import reference
from outgrow.kernels.neighbors import Neighbors
from outgrow.kernels.reference import Layer, Norm
from outgrow.kernels.roster import Board, Roster

__all__ = ["advance", "average_messages", "exchange", "project", "strongest_messages"]

_EDGES = 1 << 13  # in a block: 3 MB of 96 floats
_NODES = 1 << 10  # in a block of the update: 1.5 MB of 4 * 96 floats
_SMALL = 1 << 19  # numbers of all members of a board's groups
# Products of fewer multiplications are not worth preparing for oneDNN, which takes AVX-512 where MKL does not (on AMD): up to twice as fast.
_LARGE = 2 << 20
_ONEDNN = torch.backends.mkldnn.is_available() and hasattr(torch.ops.mkldnn, "_linear_pointwise")
# glibc gives memory back whenever some megabytes are free at the end, and asks for it anew for the next tensor: every page of it is a fault, and what is
# written into new memory takes ten times as long. What was freed once in a large piece tells it to keep up to twice as much.
torch.empty(31 << 20, dtype=torch.uint8)


def project(x: Tensor, weight: Tensor, bias: Tensor | None = None, relu: bool = False) -> Tensor:
    """x (N, F) -> (N, G): `functional.linear`, and with `relu` that of it."""
    if _ONEDNN and len(x) * weight.numel() >= _LARGE:
        # A part of the columns of a weight would take oneDNN a thousand times as long.
        return torch.ops.mkldnn._linear_pointwise(
            x.contiguous(), weight.contiguous(), bias, "relu" if relu else "none", [], ""
        )
    y = functional.linear(x, weight, bias)
    return y.relu_() if relu else y


def average_messages(
    source: Tensor,
    destination: Tensor,
    neighbors: Neighbors,
    layers: Sequence[Layer],
    *,
    logits: tuple[Tensor, Tensor] | None = None,
    sharpen: bool = False,
) -> Tensor:
    """See `reference.average_messages`."""
    *middle, last = layers or (None,)
    if not neighbors.degree:
        return reference.average_messages(source, destination, neighbors, layers, logits=logits, sharpen=sharpen)
    weight = None
    if neighbors.degree > 1 or neighbors.mask is not None:
        weight = neighbors.share if logits is None else reference.weigh_edges(*logits, neighbors, sharpen)
        weight = weight.to(source.dtype)
    heard = source.new_empty(len(destination), source.shape[1])
    blocks = neighbors.blocks(_EDGES)
    for block in blocks:
        whole = len(blocks) == 1
        out = heard if whole else heard[block.first : block.stop]
        x = source.index_select(0, block.sources)
        if block.packed is not None:
            assert weight is not None
            entries, rows, starts, numbers = block.packed
            x += destination.index_select(0, rows)
            x = _carry(x.relu_(), middle)
            share = weight.view(-1).index_select(0, entries)
            out.copy_(functional.embedding_bag(numbers, x, starts, mode="sum", per_sample_weights=share))
            continue
        mine = destination if whole else destination[block.first : block.stop]
        x.view(-1, neighbors.degree, x.shape[1]).add_(mine.unsqueeze(1))
        x = _carry(x.relu_(), middle)
        if weight is None:
            out.copy_(x)
        else:
            share = weight if whole else weight[block.first : block.stop]
            torch.bmm(share.unsqueeze(1), x.view(-1, neighbors.degree, x.shape[1]), out=out.unsqueeze(1))
    if last is None:
        return heard
    heard = project(heard, *last)
    return heard if neighbors.present is None else heard.mul_(neighbors.present)


def strongest_messages(source: Tensor, destination: Tensor, neighbors: Neighbors) -> Tensor:
    """See `reference.strongest_messages`."""
    if not neighbors.degree:
        return reference.strongest_messages(source, destination, neighbors)
    heard = source.new_empty(len(destination), source.shape[1])
    for block in neighbors.filled.blocks(_EDGES):
        x = source.index_select(0, block.sources).view(-1, neighbors.degree, source.shape[1])
        out = torch.amax(x, 1, out=heard[block.first : block.stop])
        out.add_(destination[block.first : block.stop]).relu_()
    return heard if neighbors.present is None else heard.mul_(neighbors.present)


def _carry(x: Tensor, layers: Sequence[Layer | None]) -> Tensor:
    for layer in layers:
        assert layer is not None
        x = project(x, *layer, relu=True)
    return x


def exchange(states: Tensor, projected: Tensor, layers: Sequence[Layer], roster: Roster, rest: Tensor) -> Tensor:
    """See `reference.exchange`."""
    types, width = len(layers), states.shape[1]
    heads = (projected.shape[1] - types * width) // types
    heard = states.new_empty(len(states), types * width + rest.shape[1])
    heard[:, types * width :] = rest
    board = roster.board
    if board is not None and board.members.numel() * width <= _SMALL:
        # All types together: on a small board it is the calls that take time.
        pooled = _pool_board(states, projected[:, types * width :].reshape(-1, heads), board)
        said = torch.cat(
            [project(part, *layer) for part, layer in zip(pooled.split(board.groups), layers, strict=True)]
        )
        told = said.index_select(0, board.of_node).view(len(states), types * width)
        torch.add(told, projected[:, : types * width], out=heard[:, : types * width]).relu_()
        return heard
    for number, ((members, memberships), layer) in enumerate(zip(roster.types, layers, strict=True)):
        logits = projected[:, types * width + number * heads :][:, :heads]
        said = project(reference.pool_members(states, logits, members), *layer)
        mine = projected[:, number * width :][:, :width]
        place = heard[:, number * width :][:, :width]
        if memberships.degree == 1 and memberships.mask is None:
            torch.add(said.index_select(0, memberships.source.flatten()), mine, out=place).relu_()
        else:
            place.copy_(average_messages(said, mine.contiguous(), memberships, ()))
    return heard


def _pool_board(states: Tensor, logits: Tensor, board: Board) -> Tensor:
    """`reference.pool_members` of all types, (T * G, A * H); logits (N * T, A)."""
    rows = states.index_select(0, board.members).view(-1, board.size, states.shape[1])
    weight = logits.index_select(0, board.places).view(-1, board.size, logits.shape[1])
    weight = weight.mul_(math.log(board.size)).softmax(1)
    return torch.bmm(weight.transpose(1, 2), rows).flatten(1)


def advance(
    heard: Tensor,
    weight: Tensor,
    state: Tensor,
    recall: Tensor,
    cell: Tensor,
    norms: Sequence[Norm],
    eps: float,
    remembered: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """See `dispatch.advance`."""
    (first, second, third), width = norms, cell.shape[1]
    hidden, kept = torch.empty_like(cell), torch.empty_like(cell)
    for part, said, old, after, out, known in _parts(heard, state, cell, kept, hidden, remembered):
        entering = project(part, weight)
        if known is not None:
            entering += known
        gates = functional.layer_norm(entering, first[0].shape, *first, eps)
        gates += functional.layer_norm(project(said, recall), second[0].shape, *second, eps)
        enter, forget, emit, new = gates.split(width, 1)
        new.mul_(2)
        gates.sigmoid_()
        torch.mul(forget, old, out=after).addcmul_(enter, new.mul_(2).sub_(1))
        emitted = functional.layer_norm(after, third[0].shape, *third, eps)
        # tanh(x) = 2 sigmoid(2x) - 1, which takes an eighth of the time.
        torch.mul(emit, emitted.mul_(2).sigmoid_().mul_(2).sub_(1), out=out)
    return hidden, kept


def _parts(*tensors: Tensor | None) -> Iterable[tuple[Any, ...]]:
    """Some rows of each at a time."""
    if any(t is not None and len(t) <= _NODES for t in tensors):
        return [tensors]
    return zip(*(repeat(None) if t is None else t.split(_NODES) for t in tensors), strict=False)
