"""What groups pool and answer, in few passes over memory: the same function as `reference.exchange`.

Sums run in single precision whatever the states' type, in a fixed order and without atomics. Nothing of the size of all memberships
is written: the way back works out weights anew from the logits and, for each group and head, the log of the sum of exponentials (lse).

With w_i the weights of a head in a group, p = sum_i w_i h_i and d the gradient of p, the gradient of the logit of member i is

    log(size) w_i (d . h_i - sum_j w_j d . h_j) = log(size) w_i (d . h_i - d . p)

so a node needs of its groups d, d . p and lse alone, and gradients are gathered by nodes, as states are.
"""

# Triton's own language inside kernels is beyond what a type checker can follow.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false, reportOperatorIssue=false
# pyright: reportArgumentType=false, reportCallIssue=false, reportIndexIssue=false, reportAttributeAccessIssue=false
# pyright: reportGeneralTypeIssues=false

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor
from torch.nn import functional

from outgrow.kernels.fused.blocks import power
from outgrow.kernels.reference import Layer
from outgrow.kernels.roster import Roster

__all__ = ["exchange"]

_LOW = tl.constexpr(-1e30)  # below every logit, and finite: differences of two stay numbers
_ROWS, _GROUPS = 8, 2  # how many nodes, and groups with all their heads, a program works on


@triton.jit
def _pool_kernel(
    states,
    logits,
    members,
    kind,
    log_size,
    pooled,
    lse,
    total_groups,
    row: tl.constexpr,
    logit_row: tl.constexpr,
    n: tl.constexpr,
    width: tl.constexpr,
    heads: tl.constexpr,
    G: tl.constexpr,
    A: tl.constexpr,
    H: tl.constexpr,
):
    """What each group pools, member after member: first the largest logits, then the sums."""
    group = tl.program_id(0).to(tl.int64) * G + tl.arange(0, G)
    head = tl.arange(0, A)
    column = tl.arange(0, H)
    valid = group < total_groups
    scale = tl.load(log_size + group, mask=valid, other=0.0)[:, None]
    own = logits + tl.load(kind + group, mask=valid, other=0)[:, None] * heads + head[None, :]
    top = tl.full([G, A], _LOW, tl.float32)
    for at in range(n):
        node = tl.load(members + group * n + at, mask=valid, other=-1).to(tl.int64)
        there = (node >= 0)[:, None] & (head < heads)[None, :]
        logit = tl.load(own + node[:, None] * logit_row, mask=there, other=0.0).to(tl.float32)
        top = tl.maximum(top, tl.where(there, logit * scale, _LOW))
    total = tl.zeros([G, A], tl.float32)
    sums = tl.zeros([G, A, H], tl.float32)
    for at in range(n):
        node = tl.load(members + group * n + at, mask=valid, other=-1).to(tl.int64)
        there = (node >= 0)[:, None] & (head < heads)[None, :]
        logit = tl.load(own + node[:, None] * logit_row, mask=there, other=0.0).to(tl.float32)
        weight = tl.exp(tl.where(there, logit * scale - top, _LOW))
        x = tl.load(
            states + node[:, None, None] * row + column[None, None, :],
            mask=(node >= 0)[:, None, None] & (column < width)[None, None, :],
            other=0.0,
        ).to(tl.float32)
        sums += weight[:, :, None] * x
        total += weight
    some = tl.where(total > 0, total, 1.0)
    real = valid[:, None] & (head < heads)[None, :]
    tl.store(
        pooled + (group[:, None] * heads + head[None, :])[:, :, None] * width + column[None, None, :],
        sums / some[:, :, None],
        mask=real[:, :, None] & (column < width)[None, None, :],
    )
    tl.store(lse + group[:, None] * heads + head[None, :], top + tl.log(some), mask=real)


@triton.jit
def _group_of(groups, slots, node, nodes, kind, slot, slots_row: tl.constexpr):
    """The so-manieth group of that type of each node; -1 for none."""
    place = tl.load(slots + kind) + slot
    there = (node < nodes) & (place < tl.load(slots + kind + 1))
    return tl.load(groups + node * slots_row + place, mask=there, other=-1).to(tl.int64)


@triton.jit
def _answer_kernel(
    said,
    own,
    groups,
    share,
    slots,
    heard,
    nodes,
    slots_row: tl.constexpr,
    most: tl.constexpr,
    own_row: tl.constexpr,
    heard_row: tl.constexpr,
    types: tl.constexpr,
    width: tl.constexpr,
    single: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    real = (node < nodes)[:, None] & (column < width)[None, :]
    for kind in range(types):
        mine = tl.load(own + node[:, None] * own_row + kind * width + column[None, :], mask=real, other=0.0)
        mine = mine.to(tl.float32)
        if single:
            group = tl.load(groups + node * slots_row + kind, mask=node < nodes, other=0).to(tl.int64)
            other = tl.load(said + group[:, None] * width + column[None, :], mask=real, other=0.0).to(tl.float32)
            answer = tl.maximum(mine + other, 0.0)
        else:
            answer = tl.zeros([N, H], tl.float32)
            for slot in range(most):
                group = _group_of(groups, slots, node, nodes, kind, slot, slots_row)
                there = real & (group >= 0)[:, None]
                other = tl.load(said + group[:, None] * width + column[None, :], mask=there, other=0.0).to(tl.float32)
                answer += tl.where(there, tl.maximum(mine + other, 0.0), 0.0)
            answer *= tl.load(share + node * types + kind, mask=node < nodes, other=0.0)[:, None]
        tl.store(heard + node[:, None] * heard_row + kind * width + column[None, :], answer, mask=real)


@triton.jit
def _answer_back_kernel(
    said,
    own,
    members,
    kind,
    share,
    d_heard,
    d_said,
    d_own,
    total_groups,
    n: tl.constexpr,
    own_row: tl.constexpr,
    heard_row: tl.constexpr,
    d_own_row: tl.constexpr,
    types: tl.constexpr,
    width: tl.constexpr,
    single: tl.constexpr,
    G: tl.constexpr,
    H: tl.constexpr,
):
    """Of each group: the gradient of what it said, and, where nobody is in two groups of a type, that of its members' own part."""
    group = tl.program_id(0).to(tl.int64) * G + tl.arange(0, G)
    column = tl.arange(0, H)
    valid = group < total_groups
    real = valid[:, None] & (column < width)[None, :]
    which = tl.load(kind + group, mask=valid, other=0)
    place = which[:, None] * width + column[None, :]
    other = tl.load(said + group[:, None] * width + column[None, :], mask=real, other=0.0).to(tl.float32)
    total = tl.zeros([G, H], tl.float32)
    for at in range(n):
        node = tl.load(members + group * n + at, mask=valid, other=-1).to(tl.int64)
        there = real & (node >= 0)[:, None]
        mine = tl.load(own + node[:, None] * own_row + place, mask=there, other=0.0).to(tl.float32)
        d = tl.load(d_heard + node[:, None] * heard_row + place, mask=there, other=0.0).to(tl.float32)
        d = tl.where(mine + other > 0, d, 0.0)
        if single:
            tl.store(d_own + node[:, None] * d_own_row + place, d, mask=there)
        else:
            d *= tl.load(share + node * types + which, mask=node >= 0, other=0.0)[:, None]
        total += d
    tl.store(d_said + group[:, None] * width + column[None, :], total, mask=real)


@triton.jit
def _own_back_kernel(
    said,
    own,
    groups,
    share,
    slots,
    d_heard,
    d_own,
    nodes,
    slots_row: tl.constexpr,
    most: tl.constexpr,
    own_row: tl.constexpr,
    heard_row: tl.constexpr,
    d_own_row: tl.constexpr,
    types: tl.constexpr,
    width: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    """The gradient of each node's own part, where it may be in any number of groups."""
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    real = (node < nodes)[:, None] & (column < width)[None, :]
    for kind in range(types):
        place = kind * width + column[None, :]
        mine = tl.load(own + node[:, None] * own_row + place, mask=real, other=0.0).to(tl.float32)
        on = tl.zeros([N, H], tl.float32)
        for slot in range(most):
            group = _group_of(groups, slots, node, nodes, kind, slot, slots_row)
            there = real & (group >= 0)[:, None]
            other = tl.load(said + group[:, None] * width + column[None, :], mask=there, other=0.0).to(tl.float32)
            on += tl.where(there & (mine + other > 0), 1.0, 0.0)
        on *= tl.load(share + node * types + kind, mask=node < nodes, other=0.0)[:, None]
        d = tl.load(d_heard + node[:, None] * heard_row + place, mask=real, other=0.0).to(tl.float32)
        tl.store(d_own + node[:, None] * d_own_row + place, d * on, mask=real)


@triton.jit
def _dot_kernel(one, other, dots, width: tl.constexpr, heads: tl.constexpr, A: tl.constexpr, H: tl.constexpr):
    """For each group and head, the product of two of its rows."""
    group = tl.program_id(0).to(tl.int64)
    head = tl.arange(0, A)
    column = tl.arange(0, H)
    place = group * heads * width + head[:, None] * width + column[None, :]
    real = (head < heads)[:, None] & (column < width)[None, :]
    x = tl.load(one + place, mask=real, other=0.0).to(tl.float32)
    y = tl.load(other + place, mask=real, other=0.0).to(tl.float32)
    tl.store(dots + group * heads + head, tl.sum(x * y, 1), mask=head < heads)


@triton.jit
def _pool_back_kernel(
    states,
    logits,
    groups,
    slots,
    log_size,
    lse,
    d_pooled,
    dots,
    d_states,
    d_logits,
    nodes,
    slots_row: tl.constexpr,
    most: tl.constexpr,
    row: tl.constexpr,
    logit_row: tl.constexpr,
    d_logit_row: tl.constexpr,
    types: tl.constexpr,
    width: tl.constexpr,
    heads: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    """Of each node: the gradients of its state and of its logits, from all groups it is in."""
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    valid = node < nodes
    real = valid[:, None] & (column < width)[None, :]
    x = tl.load(states + node[:, None] * row + column[None, :], mask=real, other=0.0).to(tl.float32)
    total = tl.zeros([N, H], tl.float32)
    for kind in range(types):
        for head in tl.static_range(heads):
            place = kind * heads + head
            logit = tl.load(logits + node * logit_row + place, mask=valid, other=0.0).to(tl.float32)
            d_logit = tl.zeros([N], tl.float32)
            for slot in range(most):
                group = _group_of(groups, slots, node, nodes, kind, slot, slots_row)
                there = group >= 0
                scale = tl.load(log_size + group, mask=there, other=0.0)
                level = tl.load(lse + group * heads + head, mask=there, other=0.0)
                weight = tl.exp(tl.where(there, logit * scale - level, _LOW))
                d = tl.load(
                    d_pooled + (group * heads + head)[:, None] * width + column[None, :],
                    mask=real & there[:, None],
                    other=0.0,
                ).to(tl.float32)
                total += weight[:, None] * d
                dot = tl.load(dots + group * heads + head, mask=there, other=0.0)
                d_logit += scale * weight * (tl.sum(d * x, 1) - dot)
            tl.store(d_logits + node * d_logit_row + place, d_logit, mask=valid)
    tl.store(d_states + node[:, None] * width + column[None, :], total, mask=real)


class _Exchange(torch.autograd.Function):
    """See `reference.exchange`; weights and biases behind the others, for each may have a gradient."""

    @staticmethod
    def forward(ctx: Any, states: Tensor, projected: Tensor, rest: Tensor, roster: Roster, *layers: Tensor) -> Tensor:
        nodes, width = states.shape
        weights, biases = layers[::2], layers[1::2]
        types, heads = len(weights), weights[0].shape[1] // width
        states, projected = states.contiguous(), projected.contiguous()
        tables = roster.tables
        logits = projected[:, types * width :]
        total, n = tables.members.shape
        pooled = states.new_empty(total, heads * width)
        lse = states.new_empty(total, heads, dtype=torch.float32)
        sizes = {"width": width, "H": power(width)}
        if total:
            _pool_kernel[(triton.cdiv(total, _GROUPS),)](
                states, logits, tables.members, tables.kind, tables.log_size, pooled, lse, total,
                width, projected.shape[1], n, heads=heads, G=_GROUPS, A=power(heads), num_warps=1, **sizes,
            )  # fmt: skip
        parts = zip(pooled.split(roster.counts), weights, biases, strict=True)
        said = torch.cat([functional.linear(*part) for part in parts])
        heard = states.new_empty(nodes, types * width + rest.shape[1])
        heard[:, types * width :] = rest
        if nodes:
            _answer_kernel[(triton.cdiv(nodes, _ROWS),)](
                said, projected, tables.groups, tables.share, tables.slots, heard, nodes, tables.groups.shape[1], roster.most,
                projected.shape[1], heard.shape[1], types, single=roster.single, N=_ROWS, **sizes,
            )  # fmt: skip
        ctx.save_for_backward(states, projected, pooled, lse, said, *weights)
        ctx.roster = roster
        return heard

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        states, projected, pooled, lse, said, *weights = ctx.saved_tensors
        roster: Roster = ctx.roster
        nodes, width = states.shape
        types, heads = len(weights), weights[0].shape[1] // width
        tables = roster.tables
        d_heard = grads[0].contiguous()
        d_said, d_pooled = torch.empty_like(said), torch.empty_like(pooled)
        d_projected, d_states = torch.empty_like(projected), torch.empty_like(states)
        total, n = tables.members.shape
        sizes = {"width": width, "H": power(width)}
        columns = projected.shape[1]
        grid = (triton.cdiv(nodes, _ROWS),)
        if total:
            _answer_back_kernel[(triton.cdiv(total, _ROWS),)](
                said, projected, tables.members, tables.kind, tables.share, d_heard, d_said, d_projected, total, n,
                columns, d_heard.shape[1], columns, types, single=roster.single, G=_ROWS, **sizes,
            )  # fmt: skip
        if nodes and not roster.single:
            _own_back_kernel[grid](
                said, projected, tables.groups, tables.share, tables.slots, d_heard, d_projected, nodes,
                tables.groups.shape[1], roster.most, columns, d_heard.shape[1], columns, types, N=_ROWS, **sizes,
            )  # fmt: skip
        d_layers = []
        parts = (t.split(roster.counts) for t in (d_said, pooled, d_pooled))
        for d_part, part, out, weight in zip(*parts, weights, strict=True):
            torch.mm(d_part, weight, out=out)
            d_layers += [d_part.T @ part, d_part.sum(0)]
        dots = torch.empty_like(lse)
        if total:
            _dot_kernel[(total,)](d_pooled, pooled, dots, heads=heads, A=power(heads), **sizes)
        if nodes:
            _pool_back_kernel[grid](
                states, projected[:, types * width :], tables.groups, tables.slots, tables.log_size, lse, d_pooled, dots,
                d_states, d_projected[:, types * width :], nodes, tables.groups.shape[1], roster.most, width, columns, columns, types,
                heads=heads, N=_ROWS, num_warps=2, **sizes,
            )  # fmt: skip
        return d_states, d_projected, d_heard[:, types * width :], None, *d_layers


def exchange(states: Tensor, projected: Tensor, layers: Sequence[Layer], roster: Roster, rest: Tensor) -> Tensor:
    """See `reference.exchange`; without dropout."""
    kind = states.dtype
    flat = (t.to(kind) for layer in layers for t in layer)
    return _Exchange.apply(states, projected.to(kind), rest.to(kind), roster, *flat)  # pyright: ignore[reportReturnType]
