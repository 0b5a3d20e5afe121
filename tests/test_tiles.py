"""The benchmark of tiles: what it times is the function it should be, and what cannot be compiled is said."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from benchmark_files import load_benchmark


@pytest.mark.skipif(torch.cuda.is_available(), reason="for Triton's interpreter")
def test_messages_are_those_of_plain_pytorch(monkeypatch: pytest.MonkeyPatch) -> None:
    tiles = load_benchmark("tiles")
    monkeypatch.setattr(tiles, "DEVICE", "cpu")
    monkeypatch.setattr(tiles, "NODES", 12)
    ran: list[Any] = []

    def clock(work: Callable[[], Any]) -> float:
        ran.append(work())
        return 2.0

    monkeypatch.setattr(tiles, "clock", clock)
    ways = tiles.FORWARD[0], tiles.BACKWARD[0]
    assert tiles.compile_kernels(ways, 8) == ""
    assert "ValueError" in tiles.compile_kernels(ways, 4096)
    for how in tiles.DEGREES:
        case = tiles.Case(how, 2, 8)
        row = tiles.measure(case, ways, 100.0)
        assert row["backward_of_peak"] == 2 * row["forward_of_peak"] == pytest.approx(case.flops / 1e11)
        assert ran[-2].shape == (24, 8)
        assert [t.shape for t in ran[-1]] == [case.product.shape, *(t.shape for t in case.layers)]
        assert 0 < tiles.difference(case, ways) < 0.05
