"""Message passing in plain PyTorch: the specification of every faster version.

A message over an edge of type z is an MLP of both ends' states, f_z(h_src, h_dst) = L_n(relu(... relu(L_1 [h_src; h_dst]))), and a node
receives the weighted average of its messages. Two exact rearrangements save most of the work per edge:

- L_1 [h_src; h_dst] = A h_src + (B h_dst + b): one product a node, added per edge. The callers do this.
- L_n is linear, so the average of L_n x_e is L_n of the average of x_e (the weights add up to 1, so the bias stays). Dropout acts on
  messages, behind L_n, and keeps it on the edges while training.

Only the layers in between are computed per edge.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from outgrow.kernels.neighbors import Neighbors, gather

__all__ = ["Layer", "Pooling", "average_messages", "pool_members"]

Pooling = Literal["attention", "max", "mean", "logsumexp"]

Layer = tuple[Tensor, Tensor]  # weight (out, in), bias (out,)

# Without gradients nothing has to be kept, so edges are processed in blocks: an edge-sized tensor of 2^16 rows of 96 floats is
# 25 MB on a CPU, whatever the size of the puzzle.
_BLOCK = {"cpu": 1 << 16, "cuda": 1 << 22}


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
        layers: the layers after the first; the last one is linear.
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
    *middle, last = layers
    x = functional.relu(gather(source, neighbors) + destination.unsqueeze(1))  # (N, D, H)
    for layer in middle:
        x = functional.relu(functional.linear(x, *layer))
    if dropout:
        x = functional.dropout(functional.linear(x, *last), dropout)
    weight = neighbors.share if logits is None else _attention(*logits, neighbors, sharpen)
    averaged = (x * weight.to(x.dtype).unsqueeze(2)).sum(1)
    if not dropout:
        averaged = functional.linear(averaged, *last)
        if neighbors.present is not None:  # no edges, no message: not even the bias
            averaged = averaged * neighbors.present
    return averaged


def _attention(source: Tensor, destination: Tensor, neighbors: Neighbors, sharpen: bool) -> Tensor:
    """(N, D), summing to 1 over the edges into each node."""
    logits = gather(source.unsqueeze(1), neighbors).squeeze(2) + destination.unsqueeze(1)
    logits = functional.leaky_relu(logits.to(torch.promote_types(logits.dtype, torch.float32)))
    if sharpen:
        logits = logits * neighbors.log_degree
    if neighbors.mask is None:
        return logits.softmax(1)
    # A node without edges has only masked entries: their softmax is even, and masked away.
    return logits.masked_fill(~neighbors.mask, -1e9).softmax(1) * neighbors.mask


def pool_members(values: Tensor, logits: Tensor, members: Neighbors, pooling: Pooling = "attention") -> Tensor:
    """Each group's view of its members: (G, H), zero for a group without any.

    Attention has a softmax over the members for each of A heads, which owns H / A columns. Its logits are multiplied by the log of the
    group's size: a group of 25 then has a member as far above the others as one of 9 with the same states.

    Args:
        values: (N, H), what the members have to say.
        logits: (N, A), how much each head looks at them; not used by other ways of pooling.
        members: (G, n), the members of each group.
    """
    heads = logits.shape[1]
    rows = gather(values, members)  # (G, n, H)
    missing = None if members.mask is None else ~members.mask.unsqueeze(2)
    if pooling == "attention":
        weight = gather(logits, members)
        weight = weight.to(torch.promote_types(weight.dtype, torch.float32)) * members.log_degree.unsqueeze(2)
        if missing is not None:
            weight = weight.masked_fill(missing, -1e9)
        weight = weight.softmax(1)  # (G, n, A)
        if missing is not None:  # a group without members
            weight = weight.masked_fill(missing, 0.0)
        shape = (*rows.shape[:2], heads, -1)
        return (rows.view(shape) * weight.to(rows.dtype).unsqueeze(3)).sum(1).flatten(1)
    if pooling == "mean":
        return (rows * members.share.to(rows.dtype).unsqueeze(2)).sum(1)
    if missing is not None:
        rows = rows.masked_fill(missing, -1e4)
    pooled = rows.amax(1) if pooling == "max" else rows.logsumexp(1)
    return pooled if members.present is None else pooled * members.present
