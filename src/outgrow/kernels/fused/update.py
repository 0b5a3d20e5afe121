"""The layer-normalised LSTM's update in one pass each way: the same function as `reference.update_states`.

The way back begins with the inputs and works out everything in between anew: nothing but they is kept. Gradients of the norms are summed
by each program over its rows, and then over programs, in a fixed order.
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

from outgrow.kernels.fused.blocks import power
from outgrow.kernels.reference import Norm

__all__ = ["update_states"]

_ROWS = 4  # that a program works on at a time
_PROGRAMS = 1024  # that share the rows where sums over all of them are wanted


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
        block = _ROWS
        if nodes:
            _update_kernel[(triton.cdiv(nodes, block),)](
                entering, recalled, cell, *norms, new_hidden, new_cell, nodes, width, eps, N=block, H=power(width)
            )
        ctx.save_for_backward(entering, recalled, cell, *norms)
        ctx.eps = eps
        return new_hidden, new_cell

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        entering, recalled, cell, *norms = ctx.saved_tensors
        nodes, width = cell.shape
        d_entering, d_recalled, d_cell = (torch.empty_like(t) for t in (entering, recalled, cell))
        block = _ROWS
        rounds = power(triton.cdiv(nodes, block * _PROGRAMS))
        programs = triton.cdiv(nodes, block * rounds)
        sums = cell.new_empty(programs, 14, width, dtype=torch.float32)
        if nodes:
            _update_back_kernel[(programs,)](
                entering, recalled, cell, *norms, grads[0].contiguous(), grads[1].contiguous(),
                d_entering, d_recalled, d_cell, sums, nodes, rounds, width, ctx.eps, N=block, H=power(width),
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
