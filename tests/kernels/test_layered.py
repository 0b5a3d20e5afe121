"""Fused messages with layers against the reference in double precision, as in test_fused.py; with dropout, against the reference with the same elements dropped."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from test_fused import EDGES, TYPES, assert_exact, make_neighbors, numbers
from torch import Tensor
from torch.nn import functional

from outgrow.kernels import Neighbors, reference
from outgrow.kernels.fused import layered
from outgrow.kernels.reference import Layer

SEED = 20_240_601


def in_pairs(flat: Sequence[Tensor]) -> list[Layer]:
    return list(zip(flat[::2], flat[1::2], strict=True))


def drop_the_same(
    source: Tensor,
    destination: Tensor,
    neighbors: Neighbors,
    layers: Sequence[Layer],
    dropout: float,
    logits: tuple[Tensor, Tensor] | None,
    sharpen: bool,
) -> Tensor:
    """The reference's definition, edge by edge, with what the kernels keep."""
    x = functional.relu(source[neighbors.source] + destination.unsqueeze(1))
    for layer in layers[:-1]:
        x = functional.relu(functional.linear(x, *layer))
    x = functional.linear(x, *layers[-1])
    seed = torch.tensor([SEED], device=x.device)
    keep = layered.kept(seed, neighbors.source.numel(), x.shape[2], dropout).view(x.shape)
    x = x * keep / (1 - dropout)
    weight = neighbors.share if logits is None else reference.weigh_edges(*logits, neighbors, sharpen)
    return (x * weight.to(x.dtype).unsqueeze(2)).sum(1)


# Layers behind the first, their width and dropout; wide ones take the interpreter long.
SHAPES = {
    "two": (2, 32, 0.0),
    "three": (3, 7, 0.0),
    "one, dropout": (1, 32, 0.3),
    "three, dropout": (3, 32, 0.3),
}
WIDE = {"three, wide": (3, 96, 0.0), "four, wide": (4, 128, 0.0), "two, wide, dropout": (2, 96, 0.1)}
CASES = [
    *((name, how, *shape) for name in EDGES for how in ("attention", "mean") for shape in SHAPES.values()),
    *(("any degree", "sharpened", *shape) for shape in (*SHAPES.values(), *WIDE.values())),
]


@TYPES
@pytest.mark.parametrize(("name", "how", "depth", "width", "dropout"), CASES)
def test_layers(name: str, how: str, depth: int, width: int, dropout: float, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    sources, rows = EDGES[name]
    neighbors = make_neighbors(rows, sources, spare=2 if name == "any degree" else 0)

    def split(leaves: Sequence[Tensor]) -> tuple[tuple[Tensor, Tensor] | None, list[Layer]]:
        if how == "mean":
            return None, in_pairs(leaves)
        return (leaves[0], leaves[1]), in_pairs(leaves[2:])

    def fused(source: Tensor, destination: Tensor, *leaves: Tensor) -> Tensor:
        logits, layers = split(leaves)
        seed = torch.tensor([SEED], device=source.device)
        return layered.average_layered(
            source,
            destination,
            neighbors,
            layers,
            logits=logits,
            sharpen=how == "sharpened",
            dropout=dropout,
            seed=seed,
        )

    def exact(source: Tensor, destination: Tensor, *leaves: Tensor) -> Tensor:
        logits, layers = split(leaves)
        if dropout:
            return drop_the_same(source, destination, neighbors, layers, dropout, logits, how == "sharpened")
        return reference.average_messages(
            source, destination, neighbors, layers, logits=logits, sharpen=how == "sharpened"
        )

    leaves = numbers((sources, width), (len(rows), width))
    leaves += [] if how == "mean" else numbers((sources,), (len(rows),))
    for weight, bias in (numbers((width, width), (width,)) for _ in range(depth)):
        leaves += [weight * (2 / width) ** 0.5, bias]
    assert_exact(fused, exact, leaves, dtype, small=1e-5)  # gradients of logits are small differences of large sums


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_a_table_in_parts_has_the_same_gradients(dropout: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where it is too long to write the gradients of all edges at once. Rows of 40 are two blocks of columns."""
    torch.manual_seed(0)
    sources, rows = EDGES["any degree"]
    neighbors = make_neighbors(rows, sources, spare=2)
    leaves = numbers((sources, 40), (len(rows), 40), (sources,), (len(rows),))
    layers = in_pairs([t for _ in range(3) for t in numbers((40, 40), (40,))])

    def run() -> tuple[Tensor, ...]:
        given = [t.requires_grad_() for t in leaves]
        logits, seed = (given[2], given[3]), torch.tensor([SEED], device=leaves[0].device)
        heard = layered.average_layered(*given[:2], neighbors, layers, logits=logits, dropout=dropout, seed=seed)
        return torch.autograd.grad(heard.square().sum(), given)

    whole = run()
    monkeypatch.setattr(layered, "_PART", 3 * neighbors.degree)
    for part, gradient in zip(run(), whole, strict=True):
        torch.testing.assert_close(part, gradient, rtol=1e-5, atol=1e-5 * float(gradient.abs().max()))


def test_dropout_keeps_the_right_share_and_another_one_with_another_seed() -> None:
    one, other = (layered.kept(torch.tensor([seed]), 1000, 96, 0.1) for seed in (1, 2))
    for kept in (one, other):
        assert abs(float(kept.float().mean()) - 0.9) < 0.004
        assert float(kept.float().mean(0).std()) < 0.015  # every column, and every row
        assert float(kept.float().mean(1).std()) < 0.045
    assert abs(float((one == other).float().mean()) - 0.82) < 0.006


@TYPES
def test_nothing_is_computed_with_that_was_not_written(monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
    """Fresh memory may hold anything, signaling NaN included: arithmetic with those warns in the interpreter, even where it is masked away."""
    signaling = {torch.float32: (torch.int32, 0x7F800001), torch.bfloat16: (torch.int16, 0x7F81)}

    def poison(tensor: Tensor) -> Tensor:
        if tensor.dtype in signaling:
            kind, bits = signaling[tensor.dtype]
            tensor.view(kind).fill_(bits)
        return tensor

    new_empty, empty_like = Tensor.new_empty, torch.empty_like
    monkeypatch.setattr(Tensor, "new_empty", lambda self, *shape, **more: poison(new_empty(self, *shape, **more)))
    monkeypatch.setattr(torch, "empty_like", lambda tensor, **more: poison(empty_like(tensor, **more)))
    torch.manual_seed(0)
    sources, rows = EDGES["any degree"]
    neighbors = make_neighbors(rows, sources, spare=2)
    leaves = [t.to(dtype).requires_grad_() for t in numbers((sources, 8), (len(rows), 8), (sources,), (len(rows),))]
    layers = in_pairs([t.to(dtype) for _ in range(3) for t in numbers((8, 8), (8,))])
    heard = layered.average_layered(*leaves[:2], neighbors, layers, logits=(leaves[2], leaves[3]))
    for gradient in (heard, *torch.autograd.grad(heard.float().square().sum(), leaves)):
        assert gradient.isfinite().all()
