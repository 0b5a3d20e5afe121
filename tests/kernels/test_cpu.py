"""In blocks on a CPU, without gradients: against the reference in double precision."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from test_fused import EDGES, Groups, board, make_neighbors, make_roster
from torch import Tensor

from outgrow.kernels import advance, average_messages, cpu, exchange, project, reference, strongest_messages, use_engine
from outgrow.kernels.reference import Layer

CPU = torch.device("cpu")
BLOCKS = pytest.mark.parametrize("block", [1, 3, 7, 1 << 13])


@pytest.fixture(autouse=True)
def on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("test_fused.DEVICE", "cpu")
    torch.manual_seed(0)


@pytest.fixture(autouse=True, params=["products of oneDNN", "products of PyTorch"])
def products(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "products of PyTorch":
        monkeypatch.setattr(cpu, "_ONEDNN", False)
    elif not cpu._ONEDNN:
        pytest.skip("this build of PyTorch has no oneDNN")
    monkeypatch.setattr(cpu, "_LARGE", 0)


def assert_close(mine: Tensor, exact: Tensor) -> None:
    torch.testing.assert_close(mine.double(), exact, rtol=1e-5, atol=1e-5)


def numbers(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(shape) for shape in shapes]


def double(leaves: Sequence[Tensor]) -> list[Tensor]:
    return [t.double() for t in leaves]


def in_pairs(flat: Sequence[Tensor]) -> list[Layer]:
    return list(zip(flat[::2], flat[1::2], strict=True))


@BLOCKS
@pytest.mark.parametrize("depth", [0, 1, 3])
@pytest.mark.parametrize("how", ["mean", "attention", "sharpened"])
@pytest.mark.parametrize("name", EDGES)
def test_messages(name: str, how: str, depth: int, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_EDGES", block)
    sources, rows = EDGES[name]
    neighbors = make_neighbors(rows, sources, spare=2 if name == "any degree" else 0)
    leaves = numbers((sources, 8), (len(rows), 8), (sources,), (len(rows),), *[(8, 8), (8,)] * depth)

    def call(function: Callable[..., Tensor], given: Sequence[Tensor]) -> Tensor:
        logits = None if how == "mean" else (given[2], given[3])
        layers = in_pairs(given[4:])
        return function(given[0], given[1], neighbors, layers, logits=logits, sharpen=how == "sharpened")

    with torch.no_grad():
        assert_close(call(cpu.average_messages, leaves), call(reference.average_messages, double(leaves)))


@BLOCKS
@pytest.mark.parametrize("name", EDGES)
def test_the_strongest(name: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_EDGES", block)
    sources, rows = EDGES[name]
    neighbors = make_neighbors(rows, sources, spare=2)
    leaves = numbers((sources, 8), (len(rows), 8))
    with torch.no_grad():
        exact = reference.strongest_messages(*double(leaves), neighbors)
        assert_close(cpu.strongest_messages(*leaves, neighbors), exact)


def test_padding_is_not_read() -> None:
    """Whatever stands there."""
    neighbors = make_neighbors([[0, 1], [2], []], 4, spare=1)
    assert neighbors.mask is not None
    neighbors.source[~neighbors.mask] = 3
    source, destination, *layer = numbers((4, 5), (3, 5), (5, 5), (5,))
    source[3] = float("nan")
    with torch.no_grad():
        assert cpu.average_messages(source, destination, neighbors, [(layer[0], layer[1])] * 2).isfinite().all()
        assert cpu.strongest_messages(source, destination, neighbors)[:2].isfinite().all()


@pytest.mark.parametrize(
    ("nodes", "types"),
    [
        pytest.param(36, board(6), id="a board"),
        pytest.param(6, [[[0, 1], [2, 3], [4, 5]], [[0, 2, 4], [1, 3, 5]]], id="an oblong board"),
        pytest.param(3, [[[0], [1], [2]]], id="everyone alone"),
        pytest.param(20, [[[0, 1, 2], [2, 3], [4]], [list(range(19)), [0, 19]], [[5]]], id="any sizes"),
        pytest.param(3, [[[0, 1, 2]], []], id="a type without groups"),
        pytest.param(5, [[[0], [], [1, 2]], [[4, 3, 2, 1, 0]]], id="a group without members"),
    ],
)
@pytest.mark.parametrize("heads", [1, 3])
@pytest.mark.parametrize("small", [0, 1 << 19])
def test_groups(nodes: int, types: Sequence[Groups], heads: int, small: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_SMALL", small)
    roster, count = make_roster(nodes, types), len(types)
    leaves = numbers((nodes, 8), (nodes, count * (8 + heads)), (nodes, 3), *[(8, heads * 8), (8,)] * count)
    given = [[*leaves[:2], in_pairs(leaves[3:]), roster, leaves[2]] for leaves in (leaves, double(leaves))]
    with torch.no_grad():
        assert_close(cpu.exchange(*given[0]), reference.exchange(*given[1]))


@BLOCKS
@pytest.mark.parametrize("remembers", [False, True])
def test_updates(remembers: bool, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu, "_NODES", block)
    heard, weight, state, recall, cell, remembered = numbers((9, 7), (24, 7), (9, 6), (24, 6), (9, 6), (9, 24))
    norms = numbers((24,), (24,), (24,), (24,), (6,), (6,))
    given = [heard, weight, state, recall, 3 * cell]
    before = [t.clone() for t in (*given, remembered)]

    def call(function: Callable[..., Any], kind: Callable[[Tensor], Tensor]) -> tuple[Tensor, Tensor]:
        last = kind(remembered) if remembers else None
        return function(*map(kind, given), in_pairs([kind(t) for t in norms]), 1e-5, last)

    with torch.no_grad():
        found = call(cpu.advance, lambda t: t)
        exact = call(advance, lambda t: t.double())
    for mine, wanted in zip(found, exact, strict=True):
        assert_close(mine, wanted)
    assert all(torch.equal(now, then) for now, then in zip((*given, remembered), before, strict=True))


def test_products_of_parts_of_tensors() -> None:
    wide, weight, bias = numbers((6, 12), (5, 12), (5,))
    for x, w in ((wide, weight), (wide[:, 3:9], weight[:, 6:]), (wide[::2], weight)):
        for b in (None, bias):
            with torch.no_grad():
                assert_close(
                    cpu.project(x, w, b), torch.nn.functional.linear(*double([x, w]), b if b is None else b.double())
                )
                assert_close(cpu.project(x, w, b, relu=True), cpu.project(x, w, b).double().relu())


def test_where_they_run(monkeypatch: pytest.MonkeyPatch) -> None:
    """In single precision without gradients, unless another engine was asked for."""
    called: list[str] = []
    for name in ("average_messages", "strongest_messages", "exchange", "advance", "project"):
        monkeypatch.setattr(cpu, name, lambda *a, name=name, **k: called.append(name))
    neighbors, roster = make_neighbors([[0, 1], [1]], 2), make_roster(2, [[[0, 1]]])

    def call(kind: torch.dtype = torch.float32, dropout: float = 0.0) -> list[str]:
        called.clear()
        one, many, gates, logits = (torch.randn(2, n).to(kind) for n in (4, 16, 16, 5))
        norms = in_pairs([torch.randn(n).to(kind) for n in (16, 16, 16, 16, 4, 4)])
        square = torch.randn(4, 4).to(kind)
        average_messages(one, one, neighbors, [(square, square[0])], dropout=dropout)
        strongest_messages(one, one, neighbors, dropout)
        exchange(one, logits, [(square, square[0])], roster, one, dropout)
        advance(one, gates.new_ones(16, 4), one, many.new_ones(16, 4), one, norms, 1e-5)
        project(one, square)
        return called

    with torch.no_grad():
        assert call() == ["average_messages", "strongest_messages", "exchange", "advance", "project"]
        assert call(dropout=0.5) == ["advance", "project"]
        assert call(torch.float64) == []
        with use_engine("reference"):
            assert call() == []
    assert call() == []
