"""A compiled step gives what a plain one gives, and is compiled once for gradients and once without, whatever the sizes of puzzles."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.fx.experimental._config as shapes
from problems import LONELY, Problem, coloring_csp, sudoku_csp
from torch import Tensor
from torch._dynamo.testing import CompileCounterWithBackend

from outgrow.graphs import Batch
from outgrow.models import Grouped, GroupedConfig
from outgrow.models.layers import States

pytestmark = [
    pytest.mark.usefixtures("double"),
    pytest.mark.filterwarnings("ignore"),  # the compiler looks at things that it warns of itself
]
STEPS = 3
# Boards, whose tables come again and again; and graphs with facts in pairs, each with its own, of several sizes in a batch.
SUDOKU = Problem.of([sudoku_csp("nbr"), sudoku_csp("nbr", 2, 3)])
GRAPHS = Problem.of(
    [coloring_csp(5, LONELY, 4), coloring_csp(4, [(0, 1), (1, 2), (2, 3)], 2), coloring_csp(5, [(0, 4), (1, 4)], 3)]
)


@pytest.fixture(autouse=True)
def open_shapes() -> Iterator[None]:
    """Sizes that happen to be equal are not taken to be so for ever; and no second look at numbers that never change."""
    torch.compiler.reset()
    config: Any = shapes
    with config.patch(use_duck_shape=False), torch._dynamo.config.patch(specialize_float=True):
        yield
    torch.compiler.reset()


@dataclass(frozen=True)
class Found:
    """Losses (T, B), the states at the end, the gradients of the losses' sum; and how much had been compiled after every step."""

    losses: Tensor
    states: States
    gradients: list[Tensor]
    counts: list[int]


def run(model: Grouped, batch: Batch, gradients: bool, counter: CompileCounterWithBackend) -> Found:
    counts: list[int] = []
    walked: list[tuple[States, Tensor]] = []
    with torch.set_grad_enabled(gradients):
        graph = model.prepare(batch)
        for found in model.walk(graph, STEPS):
            walked.append(found)
            counts.append(counter.frame_count)
        assert batch.solutions is not None
        losses = model.loss(torch.stack([scores for _, scores in walked]), graph, batch.solutions)
        derived = torch.autograd.grad(losses.sum(), list(model.parameters())) if gradients else ()
    return Found(losses, walked[-1][0], list(derived), counts)


@pytest.mark.parametrize(
    ("problem", "batches"),
    [(SUDOKU, ([0, 0], [1, 1, 1])), (GRAPHS, ([0, 1], [1, 2, 1]))],
    ids=["boards", "graphs of several sizes"],
)
def test_a_compiled_step_is_a_step_and_serves_every_size(problem: Problem, batches: tuple[list[int], ...]) -> None:
    puzzles = problem.puzzles()
    model = Grouped(puzzles.schema, GroupedConfig(width=4, heads=2))
    plain = model.step
    counter = CompileCounterWithBackend("aot_eager")
    step: Any = torch.compile(plain, dynamic=True, backend=counter, fullgraph=True)
    counts: list[list[int]] = []
    for chosen in batches:
        for gradients in (True, False):
            model.step = step
            compiled = run(model, puzzles.batch(chosen), gradients, counter)
            model.step = plain
            expected = run(model, puzzles.batch(chosen), gradients, counter)
            torch.testing.assert_close(compiled.losses, expected.losses, rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(list(compiled.states), list(expected.states), rtol=1e-10, atol=1e-10)
            torch.testing.assert_close(compiled.gradients, expected.gradients, rtol=1e-10, atol=1e-10)
            counts.append(compiled.counts)
    # With gradients, without; then for other sizes. What serves the first step serves all.
    assert counts == [[1] * STEPS, [2] * STEPS, [2] * STEPS, [2] * STEPS]
