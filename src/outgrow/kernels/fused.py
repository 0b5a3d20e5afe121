"""The grouped exchange and the LSTM's update as Triton kernels: few passes over memory, the same function as `reference`.

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

from outgrow.kernels.reference import Layer, Norm
from outgrow.kernels.roster import Roster

__all__ = ["exchange", "update_states"]

_LOW = tl.constexpr(-1e30)  # below every logit, and finite: differences of two stay numbers
# How many rows, and groups with all their heads, a program works on.
_ROWS, _GROUPS, _UPDATE_ROWS = 8, 2, 4
_PROGRAMS = 1024  # that share the rows where sums over all of them are wanted


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


def _power(n: int) -> int:
    return int(triton.next_power_of_2(max(n, 1)))


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
        sizes = {"width": width, "H": _power(width)}
        if total:
            _pool_kernel[(triton.cdiv(total, _GROUPS),)](
                states, logits, tables.members, tables.kind, tables.log_size, pooled, lse, total,
                width, projected.shape[1], n, heads=heads, G=_GROUPS, A=_power(heads), num_warps=1, **sizes,
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
        sizes = {"width": width, "H": _power(width)}
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
            _dot_kernel[(total,)](d_pooled, pooled, dots, heads=heads, A=_power(heads), **sizes)
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


@triton.jit
def _four(source, node, column, real, row: tl.constexpr, width: tl.constexpr):
    """A row of four gates, gate by gate."""
    place = source + node[:, None] * row + column[None, :]
    return (
        tl.load(place, mask=real, other=0.0).to(tl.float32),
        tl.load(place + width, mask=real, other=0.0).to(tl.float32),
        tl.load(place + 2 * width, mask=real, other=0.0).to(tl.float32),
        tl.load(place + 3 * width, mask=real, other=0.0).to(tl.float32),
    )


@triton.jit
def _four_of(source, column, inside, width: tl.constexpr):
    """A vector over four gates, gate by gate."""
    return (
        tl.load(source + column, mask=inside, other=0.0),
        tl.load(source + width + column, mask=inside, other=0.0),
        tl.load(source + 2 * width + column, mask=inside, other=0.0),
        tl.load(source + 3 * width + column, mask=inside, other=0.0),
    )


@triton.jit
def _normalize_four(a, b, c, d, real, width: tl.constexpr, eps: tl.constexpr):
    """Each row of four gates with mean 0 and variance 1, and one over its standard deviation."""
    mean = tl.sum(a + b + c + d, 1) / (4 * width)
    a = tl.where(real, a - mean[:, None], 0.0)
    b = tl.where(real, b - mean[:, None], 0.0)
    c = tl.where(real, c - mean[:, None], 0.0)
    d = tl.where(real, d - mean[:, None], 0.0)
    var = tl.sum(a * a + b * b + c * c + d * d, 1) / (4 * width)
    scale = 1.0 / tl.sqrt(var + eps)
    return a * scale[:, None], b * scale[:, None], c * scale[:, None], d * scale[:, None], scale


@triton.jit
def _normalize_four_back(a, b, c, d, xa, xb, xc, xd, scale, width: tl.constexpr):
    """The gradient of what was normalized to (xa, xb, xc, xd), of that of the result."""
    mean = tl.sum(a + b + c + d, 1) / (4 * width)
    along = tl.sum(a * xa + b * xb + c * xc + d * xd, 1) / (4 * width)
    return (
        (a - mean[:, None] - xa * along[:, None]) * scale[:, None],
        (b - mean[:, None] - xb * along[:, None]) * scale[:, None],
        (c - mean[:, None] - xc * along[:, None]) * scale[:, None],
        (d - mean[:, None] - xd * along[:, None]) * scale[:, None],
    )


@triton.jit
def _tanh(x):
    e = tl.exp(-2.0 * tl.abs(x))
    y = (1.0 - e) / (1.0 + e)
    return tl.where(x < 0, -y, y)


@triton.jit
def _update_kernel(
    entering,
    recalled,
    cell,
    enter_scale,
    enter_shift,
    recall_scale,
    recall_shift,
    cell_scale,
    cell_shift,
    new_hidden,
    new_cell,
    nodes,
    width: tl.constexpr,
    eps: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    node = tl.program_id(0).to(tl.int64) * N + tl.arange(0, N)
    column = tl.arange(0, H)
    inside = column < width
    real = (node < nodes)[:, None] & inside[None, :]
    ea, eb, ec, ed = _four(entering, node, column, real, 4 * width, width)
    ea, eb, ec, ed, _ = _normalize_four(ea, eb, ec, ed, real, width, eps)
    ra, rb, rc, rd = _four(recalled, node, column, real, 4 * width, width)
    ra, rb, rc, rd, _ = _normalize_four(ra, rb, rc, rd, real, width, eps)
    ka, kb, kc, kd = _four_of(enter_scale, column, inside, width)
    la, lb, lc, ld = _four_of(recall_scale, column, inside, width)
    ba, bb, bc, bd = _four_of(enter_shift, column, inside, width)
    ca, cb, cc, cd = _four_of(recall_shift, column, inside, width)
    i = tl.sigmoid(ea * ka[None, :] + ra * la[None, :] + (ba + ca)[None, :])
    f = tl.sigmoid(eb * kb[None, :] + rb * lb[None, :] + (bb + cb)[None, :])
    o = tl.sigmoid(ec * kc[None, :] + rc * lc[None, :] + (bc + cc)[None, :])
    new = _tanh(ed * kd[None, :] + rd * ld[None, :] + (bd + cd)[None, :])
    place = node[:, None] * width + column[None, :]
    c = f * tl.load(cell + place, mask=real, other=0.0).to(tl.float32) + i * new
    c = tl.where(real, c, 0.0)
    tl.store(new_cell + place, c, mask=real)
    mean = tl.sum(c, 1) / width
    x = tl.where(real, c - mean[:, None], 0.0)
    x = x / tl.sqrt(tl.sum(x * x, 1) / width + eps)[:, None]
    u = x * tl.load(cell_scale + column, mask=inside, other=0.0)[None, :]
    u += tl.load(cell_shift + column, mask=inside, other=0.0)[None, :]
    tl.store(new_hidden + place, o * _tanh(u), mask=real)


@triton.jit
def _update_back_kernel(
    entering,
    recalled,
    cell,
    enter_scale,
    enter_shift,
    recall_scale,
    recall_shift,
    cell_scale,
    cell_shift,
    d_new_hidden,
    d_new_cell,
    d_entering,
    d_recalled,
    d_cell,
    sums,
    nodes,
    rounds: tl.constexpr,
    width: tl.constexpr,
    eps: tl.constexpr,
    N: tl.constexpr,
    H: tl.constexpr,
):
    """The way back, from the inputs alone. `sums` (programs, 14, width): this program's share of the norms' gradients, in the order
    of four gates each the entering scale, the recalled scale and the (one) shift, then the cell's scale and shift."""
    program = tl.program_id(0)
    column = tl.arange(0, H)
    inside = column < width
    ka, kb, kc, kd = _four_of(enter_scale, column, inside, width)
    la, lb, lc, ld = _four_of(recall_scale, column, inside, width)
    ba, bb, bc, bd = _four_of(enter_shift, column, inside, width)
    ca, cb, cc, cd = _four_of(recall_shift, column, inside, width)
    cell_k = tl.load(cell_scale + column, mask=inside, other=0.0)
    cell_b = tl.load(cell_shift + column, mask=inside, other=0.0)
    zero = tl.zeros([N, H], tl.float32)
    s_ka, s_kb, s_kc, s_kd = zero, zero, zero, zero
    s_la, s_lb, s_lc, s_ld = zero, zero, zero, zero
    s_a, s_b, s_c, s_d = zero, zero, zero, zero
    s_k, s_s = zero, zero
    for turn in range(rounds):
        node = (program * rounds + turn).to(tl.int64) * N + tl.arange(0, N)
        real = (node < nodes)[:, None] & inside[None, :]
        ea, eb, ec, ed = _four(entering, node, column, real, 4 * width, width)
        ea, eb, ec, ed, e_scale = _normalize_four(ea, eb, ec, ed, real, width, eps)
        ra, rb, rc, rd = _four(recalled, node, column, real, 4 * width, width)
        ra, rb, rc, rd, r_scale = _normalize_four(ra, rb, rc, rd, real, width, eps)
        i = tl.sigmoid(ea * ka[None, :] + ra * la[None, :] + (ba + ca)[None, :])
        f = tl.sigmoid(eb * kb[None, :] + rb * lb[None, :] + (bb + cb)[None, :])
        o = tl.sigmoid(ec * kc[None, :] + rc * lc[None, :] + (bc + cc)[None, :])
        new = _tanh(ed * kd[None, :] + rd * ld[None, :] + (bd + cd)[None, :])
        place = node[:, None] * width + column[None, :]
        old = tl.load(cell + place, mask=real, other=0.0).to(tl.float32)
        c = tl.where(real, f * old + i * new, 0.0)
        mean = tl.sum(c, 1) / width
        x = tl.where(real, c - mean[:, None], 0.0)
        scale = 1.0 / tl.sqrt(tl.sum(x * x, 1) / width + eps)
        x = x * scale[:, None]
        y = _tanh(x * cell_k[None, :] + cell_b[None, :])
        dh = tl.load(d_new_hidden + place, mask=real, other=0.0).to(tl.float32)
        du = dh * o * (1.0 - y * y)
        s_k += du * x
        s_s += du
        du = du * cell_k[None, :]
        dc = du - (tl.sum(du, 1) / width)[:, None] - x * (tl.sum(du * x, 1) / width)[:, None]
        dc = dc * scale[:, None] + tl.load(d_new_cell + place, mask=real, other=0.0).to(tl.float32)
        dc = tl.where(real, dc, 0.0)
        tl.store(d_cell + place, dc * f, mask=real)
        da = dc * new * i * (1.0 - i)
        db = dc * old * f * (1.0 - f)
        do = dh * y * o * (1.0 - o)
        dd = dc * i * (1.0 - new * new)
        s_a += da
        s_b += db
        s_c += do
        s_d += dd
        s_ka += da * ea
        s_kb += db * eb
        s_kc += do * ec
        s_kd += dd * ed
        s_la += da * ra
        s_lb += db * rb
        s_lc += do * rc
        s_ld += dd * rd
        ga, gb, gc, gd = _normalize_four_back(
            da * ka[None, :], db * kb[None, :], do * kc[None, :], dd * kd[None, :], ea, eb, ec, ed, e_scale, width
        )
        place = node[:, None] * (4 * width) + column[None, :]
        tl.store(d_entering + place, ga, mask=real)
        tl.store(d_entering + place + width, gb, mask=real)
        tl.store(d_entering + place + 2 * width, gc, mask=real)
        tl.store(d_entering + place + 3 * width, gd, mask=real)
        ga, gb, gc, gd = _normalize_four_back(
            da * la[None, :], db * lb[None, :], do * lc[None, :], dd * ld[None, :], ra, rb, rc, rd, r_scale, width
        )
        tl.store(d_recalled + place, ga, mask=real)
        tl.store(d_recalled + place + width, gb, mask=real)
        tl.store(d_recalled + place + 2 * width, gc, mask=real)
        tl.store(d_recalled + place + 3 * width, gd, mask=real)
    out = sums + program * 14 * width + column
    tl.store(out, tl.sum(s_ka, 0), mask=inside)
    tl.store(out + width, tl.sum(s_kb, 0), mask=inside)
    tl.store(out + 2 * width, tl.sum(s_kc, 0), mask=inside)
    tl.store(out + 3 * width, tl.sum(s_kd, 0), mask=inside)
    tl.store(out + 4 * width, tl.sum(s_la, 0), mask=inside)
    tl.store(out + 5 * width, tl.sum(s_lb, 0), mask=inside)
    tl.store(out + 6 * width, tl.sum(s_lc, 0), mask=inside)
    tl.store(out + 7 * width, tl.sum(s_ld, 0), mask=inside)
    tl.store(out + 8 * width, tl.sum(s_a, 0), mask=inside)
    tl.store(out + 9 * width, tl.sum(s_b, 0), mask=inside)
    tl.store(out + 10 * width, tl.sum(s_c, 0), mask=inside)
    tl.store(out + 11 * width, tl.sum(s_d, 0), mask=inside)
    tl.store(out + 12 * width, tl.sum(s_k, 0), mask=inside)
    tl.store(out + 13 * width, tl.sum(s_s, 0), mask=inside)


class _Update(torch.autograd.Function):
    """See `reference.update_states`."""

    @staticmethod
    def forward(
        ctx: Any, eps: float, entering: Tensor, recalled: Tensor, cell: Tensor, *norms: Tensor
    ) -> tuple[Tensor, Tensor]:
        entering, recalled, cell = entering.contiguous(), recalled.contiguous(), cell.contiguous()
        nodes, width = cell.shape
        new_hidden, new_cell = torch.empty_like(cell, dtype=recalled.dtype), torch.empty_like(cell)
        block = _UPDATE_ROWS
        if nodes:
            _update_kernel[(triton.cdiv(nodes, block),)](
                entering, recalled, cell, *norms, new_hidden, new_cell, nodes, width, eps, N=block, H=_power(width)
            )
        ctx.save_for_backward(entering, recalled, cell, *norms)
        ctx.eps = eps
        return new_hidden, new_cell

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        entering, recalled, cell, *norms = ctx.saved_tensors
        nodes, width = cell.shape
        d_entering, d_recalled, d_cell = (torch.empty_like(t) for t in (entering, recalled, cell))
        block = _UPDATE_ROWS
        rounds = _power(triton.cdiv(nodes, block * _PROGRAMS))
        programs = triton.cdiv(nodes, block * rounds)
        sums = cell.new_empty(programs, 14, width, dtype=torch.float32)
        if nodes:
            _update_back_kernel[(programs,)](
                entering, recalled, cell, *norms, grads[0].contiguous(), grads[1].contiguous(),
                d_entering, d_recalled, d_cell, sums, nodes, rounds, width, ctx.eps, N=block, H=_power(width),
            )  # fmt: skip
        total = sums.sum(0)
        shift = total[8:12].flatten()
        scales = total[:4].flatten(), shift, total[4:8].flatten(), shift, total[12], total[13]
        return None, d_entering, d_recalled, d_cell, *scales


def update_states(
    entering: Tensor, recalled: Tensor, cell: Tensor, norms: Sequence[Norm], eps: float
) -> tuple[Tensor, Tensor]:
    """See `reference.update_states`; the new state has the type of `recalled`, the cell keeps its own."""
    return _Update.apply(eps, entering, recalled, cell, *(t for norm in norms for t in norm))  # pyright: ignore[reportReturnType]
