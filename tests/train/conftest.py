from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any

import pytest
import torch
from tiny import flatten
from torch import Tensor

from outgrow.train.replay import Replay


@pytest.fixture(scope="module", autouse=True)
def known_commit() -> Iterator[None]:
    """Each file of weights names the commit: asking git for it takes longer than learning them."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OUTGROW_COMMIT", "tested")
        yield


@pytest.fixture(autouse=True)
def seed() -> None:
    """Models made outside of a run are the same every time."""
    torch.manual_seed(0)


ON = [
    "cpu",
    pytest.param("cuda", marks=pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")),
]


class Recorded:
    """Stands in for a CUDA graph: work that can be done again, with its results in the tensors of the first time."""

    def __init__(self, work: Callable[[], Any], weights: Sequence[Tensor]) -> None:
        self._work, self._weights = work, weights
        self.result = work()
        self._gradients = [weight.grad for weight in weights]

    def replay(self) -> None:
        held = [weight.grad for weight in self._weights]
        again = self._work()
        for old, new in zip(flatten(self.result), flatten(again), strict=True):
            old.data.copy_(new.data)
        for old, before, weight in zip(self._gradients, held, self._weights, strict=True):
            if old is not None:
                assert weight.grad is not None
                old.copy_(weight.grad)
            weight.grad = before  # a graph writes where it wrote before, and knows of no weights


@pytest.fixture(params=ON)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Where updates are recorded: without a GPU, by a stand-in."""

    def capture(self: Replay, work: Callable[[], Any]) -> tuple[Recorded, Any]:
        work()
        self._clear()
        graph = Recorded(work, self._weights)
        return graph, graph.result

    if request.param == "cpu":
        monkeypatch.setattr(Replay, "_capture", capture)
    return request.param
