"""Message passing in plain PyTorch: the specification of every faster version.

A message over an edge of type z is an MLP of both ends' states, f_z(h_src, h_dst) = L_n(relu(... relu(L_1 [h_src; h_dst]))), and a node
receives the weighted average of its messages. Two exact rearrangements save most of the work per edge:

- L_1 [h_src; h_dst] = A h_src + (B h_dst + b): one product a node, added per edge. The callers do this.
- L_n is linear, so the average of L_n x_e is L_n of the average of x_e (the weights add up to 1, so the bias stays). Dropout acts on
  messages, behind L_n, and keeps it on the edges while training.

Only the layers in between are computed per edge.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from outgrow.kernels.neighbors import Neighbors, gather
from outgrow.kernels.roster import Roster

__all__ = [
    "Layer",
    "Norm",
    "average_messages",
    "exchange",
    "pool_members",
    "share_strongest",
    "strongest_messages",
    "update_states",
    "weigh_edges",
    "weigh_members",
]

Layer = tuple[Tensor, Tensor]  # weight (out, in), bias (out,)
Norm = tuple[Tensor, Tensor]  # of a layer norm: scale and shift

# Without gradients nothing has to be kept, so edges are processed in blocks: an edge-sized tensor of 2^13 rows of 96 floats is
# 3 MB of 2^13 on a CPU, whatever the size of the puzzle.
_BLOCK = {"cpu": 1 << 13, "cuda": 1 << 22}


def average_messages(
    source: Tensor,
    destination: Tensor,
    neighbors: Neighbors,
    layers: Sequence[Layer],
    *,
    logits: tuple[Tensor, Tensor] | None = None,
    sharpen: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """What each destination hears: (N, H), zero for one without edges.

    Args:
        source: (S, H), the first layer's product with the states of sources.
        destination: (N, H), the same of destinations, bias added.
        layers: the layers after the first; the last one is linear. None for messages that are the first layer's activations: then
            whoever hears them begins with a linear layer.
        logits: attention, (S,) and (N,): the logit of an edge is leaky_relu(of its source + of its destination), with a softmax
            over the edges into a node. None for a plain mean.
        sharpen: multiply attention logits by the log of the destination's in-degree.
        dropout: share of message elements to drop.
    """
    block = max(1, _BLOCK.get(source.device.type, 1 << 20) // max(neighbors.degree, 1))
    if torch.is_grad_enabled() or len(destination) <= block:
        return _average(source, destination, neighbors, layers, logits, sharpen, dropout)
    parts = []
    for start in range(0, len(destination), block):
        stop = start + block
        part_logits = None if logits is None else (logits[0], logits[1][start:stop])
        part = neighbors.rows(start, stop)
        parts.append(_average(source, destination[start:stop], part, layers, part_logits, sharpen, dropout))
    return torch.cat(parts)


def _average(
    source: Tensor,
    destination: Tensor,
    neighbors: Neighbors,
    layers: Sequence[Layer],
    logits: tuple[Tensor, Tensor] | None,
    sharpen: bool,
    dropout: float,
) -> Tensor:
    *middle, last = layers or (None,)
    x = functional.relu(gather(source, neighbors) + destination.unsqueeze(1))  # (N, D, H)
    for layer in middle:
        assert layer is not None
        x = functional.relu(functional.linear(x, *layer))
    if dropout:
        x = functional.dropout(x if last is None else functional.linear(x, *last), dropout)
    # The logit of a single edge is of no account, but parameters behind it want a gradient, if one of zeros.
    if neighbors.degree == 1 and neighbors.mask is None and logits is None:
        averaged = x.squeeze(1)
    else:
        weight = neighbors.share if logits is None else weigh_edges(*logits, neighbors, sharpen)
        averaged = (x * weight.to(x.dtype).unsqueeze(2)).sum(1)
    if not dropout and last is not None:
        averaged = functional.linear(averaged, *last)
        if neighbors.present is not None:  # no edges, no message: not even the bias
            averaged = averaged * neighbors.present
    return averaged


def strongest_messages(source: Tensor, destination: Tensor, neighbors: Neighbors, dropout: float = 0.0) -> Tensor:
    """What each destination hears if in every channel the largest message counts: (N, H), zero for one without edges.

    Messages are the first layer's activations, relu(of the source + of the destination), and the largest of them is relu(the largest of the
    sources + of the destination). Arguments as for `average_messages`.
    """
    block = max(1, _BLOCK.get(source.device.type, 1 << 20) // max(neighbors.degree, 1))
    if torch.is_grad_enabled() or len(destination) <= block:
        return _strongest(source, destination, neighbors, dropout)
    starts = range(0, len(destination), block)
    parts = [_strongest(source, destination[i : i + block], neighbors.rows(i, i + block), dropout) for i in starts]
    return torch.cat(parts)


def _strongest(source: Tensor, destination: Tensor, neighbors: Neighbors, dropout: float) -> Tensor:
    x = gather(source, neighbors)  # (N, D, H)
    if not neighbors.degree:  # zeros, with a gradient of zeros
        return (x + destination.unsqueeze(1)).sum(1)
    if neighbors.mask is not None:
        x = x.masked_fill(~neighbors.mask.unsqueeze(2), -math.inf)
    x = functional.relu(_largest(x) + destination)
    return functional.dropout(x, dropout) if dropout else x


class _Largest(torch.autograd.Function):
    """x.amax(1); those that are equally large share the gradient, as there. PyTorch counts them in integers, by a copy eight times as
    large as their flags: half of the time of an update on a CPU."""

    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        largest = x.amax(1)
        ctx.save_for_backward(x, largest)
        return largest

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        x, largest = ctx.saved_tensors
        hit = (x == largest.unsqueeze(1)).to(grads[0].dtype)
        return hit * (grads[0] / hit.sum(1)).unsqueeze(1)


def _largest(x: Tensor) -> Tensor:
    """(N, D, H) -> (N, H)."""
    if torch.is_grad_enabled() and x.requires_grad:
        return _Largest.apply(x)  # pyright: ignore[reportReturnType]
    return x.amax(1)


def share_strongest(source: Tensor, destination: Tensor, neighbors: Neighbors) -> Tensor:
    """Of `strongest_messages`, the share of channels in which each message is the largest: (N, D), summing to 1 over the edges into each
    node. Those that are equally large share a channel; so do all where none is above 0."""
    x = functional.relu(gather(source, neighbors) + destination.unsqueeze(1))  # (N, D, H)
    if neighbors.mask is not None:
        x = x.masked_fill(~neighbors.mask.unsqueeze(2), -1.0)
    hit = x == x.amax(1, keepdim=True) if neighbors.degree else x > 0
    if neighbors.mask is not None:
        hit = hit & neighbors.mask.unsqueeze(2)
    return (hit / hit.sum(1, keepdim=True).clamp(min=1)).mean(2)


def weigh_edges(source: Tensor, destination: Tensor, neighbors: Neighbors, sharpen: bool) -> Tensor:
    """Attention, of logits as `average_messages` takes them: (N, D), summing to 1 over the edges into each node."""
    logits = gather(source.unsqueeze(1), neighbors).squeeze(2) + destination.unsqueeze(1)
    logits = functional.leaky_relu(logits.to(torch.promote_types(logits.dtype, torch.float32)))
    if sharpen:
        logits = logits * neighbors.log_degree
    if neighbors.mask is None:
        return logits.softmax(1)
    # A node without edges has only masked entries: their softmax is even, and masked away.
    return logits.masked_fill(~neighbors.mask, -1e9).softmax(1) * neighbors.mask


def pool_members(states: Tensor, logits: Tensor, members: Neighbors) -> Tensor:
    """Each group's view of its members: (G, A * H), zero for a group without any.

    Each of A heads averages the members' states by a softmax over them. Its logits are multiplied by the log of the group's size: a
    group of 25 then has a member as far above the others as one of 9 with the same states.

    Args:
        states: (N, H), of all nodes.
        logits: (N, A), how much each head looks at them.
        members: (G, n), the members of each group.
    """
    heads = logits.shape[1]
    if not members.degree:  # no room for any member
        return states.new_zeros(len(members.source), heads * states.shape[1])
    rows = gather(states, members)  # (G, n, H)
    if members.mask is not None:
        rows = rows.masked_fill(~members.mask.unsqueeze(2), 0.0)  # whatever stands there, NaN included
    weight = weigh_members(logits, members).to(rows.dtype)
    if torch.compiler.is_compiling():  # one pass over the rows; in small products they are read and written once more
        return (weight.unsqueeze(3) * rows.unsqueeze(2)).sum(1).flatten(1)
    return torch.bmm(weight.transpose(1, 2), rows).flatten(1)


def weigh_members(logits: Tensor, members: Neighbors) -> Tensor:
    """How much each head of `pool_members` takes of each member: (G, n, A), summing to 1 over the members of a group; even in one without any."""
    weight = gather(logits, members)
    weight = weight.to(torch.promote_types(weight.dtype, torch.float32)) * members.log_degree.unsqueeze(2)
    if members.mask is not None:
        weight = weight.masked_fill(~members.mask.unsqueeze(2), -1e9)
    return weight.softmax(1)


def exchange(
    states: Tensor,
    projected: Tensor,
    layers: Sequence[Layer],
    roster: Roster,
    rest: Tensor,
    dropout: float = 0.0,
) -> Tensor:
    """What nodes hear from their groups, type after type, and behind it `rest`: (N, T * H + R).

    A group pools its members by A heads, and each member hears relu(P pooled + b + own), averaged over its groups of a type; zero for none.

    Args:
        states: (N, H).
        projected: (N, T * H + T * A), each node's own part for every type, and behind all of them the heads' logits.
        layers: P (H, A * H) and b (H,) of every type.
        rest: (N, R), what else nodes hear.
        dropout: share of message elements to drop.
    """
    types, width = len(layers), states.shape[1]
    own, logits = projected.split([types * width, projected.shape[1] - types * width], dim=1)
    heard: list[Tensor] = []
    parts = zip(roster.types, layers, own.split(width, 1), logits.chunk(types, 1), strict=True)
    for (members, memberships), layer, mine, logit in parts:
        said = functional.linear(pool_members(states, logit, members), *layer)
        heard.append(average_messages(said, mine, memberships, (), dropout=dropout))
    return torch.cat([*heard, rest.to(heard[0].dtype)], dim=1)


def update_states(
    entering: Tensor, recalled: Tensor, cell: Tensor, norms: Sequence[Norm], eps: float
) -> tuple[Tensor, Tensor]:
    """An LSTM's next state and cell (N, H), with layer norms on the gates' input part, their recurrent part, and the cell.

    Args:
        entering: (N, 4H), what the gates make of what is heard: to enter, to forget, to emit, the new content.
        recalled: (N, 4H), what they make of the state.
        cell: (N, H).
        norms: scale and shift for `entering`, `recalled` and the new cell.
        eps: added to every variance.
    """
    first, second, third = norms
    gates = functional.layer_norm(entering, first[0].shape, *first, eps)
    gates = gates + functional.layer_norm(recalled, second[0].shape, *second, eps)
    enter, forget, emit, new = gates.chunk(4, dim=1)
    cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
    return torch.sigmoid(emit) * torch.tanh(functional.layer_norm(cell, third[0].shape, *third, eps)), cell
