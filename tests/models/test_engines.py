"""Models are the same functions with fused kernels as with the reference: scores, and the gradient of every parameter."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from problems import GROUPED, PROBLEMS, Problem
from test_against_slow import make_draw, make_model
from torch import Tensor

from outgrow.kernels import Engine, use_engine
from outgrow.models import BinarizedConfig, GroupedConfig, MultivaluedConfig
from outgrow.models.layers import States

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
CONFIGS = {
    "grouped": GroupedConfig(width=6, steps=2, heads=3),
    "binarized": BinarizedConfig(width=6, steps=2),
    "multivalued": MultivaluedConfig(width=6, steps=2, max_values=7),
}
SOME = ("sudoku units", "futoshiki units", "coloring", "coloring 2, 4, 1 and 3", "double", "several", "twofold")
EVERY = {**{name: PROBLEMS[name] for name in SOME}, **GROUPED}


def compute(problem: Problem, kind: str, engine: Engine) -> dict[str, Tensor | None]:
    model = make_model(problem, CONFIGS[kind]).to(DEVICE)
    draw = make_draw(problem, 7).to(DEVICE) if kind == "multivalued" else None
    batch = problem.puzzles().batch(range(len(problem.csps)), DEVICE)
    assert batch.solutions is not None
    with use_engine(engine):
        graph: Any = model.prepare(batch, draw)
        scores = model(graph)
        model.loss(scores, graph, batch.solutions).sum().backward()
    return {"scores": scores.detach(), **{name: p.grad for name, p in model.named_parameters()}}


def assert_same(one: dict[str, Tensor | None], other: dict[str, Tensor | None]) -> None:
    assert one.keys() == other.keys()
    for name, tensor in one.items():
        if tensor is None:  # not part of this problem: the fused engine may as well say zero
            assert other[name] is None or not other[name].any(), name
        else:
            torch.testing.assert_close(other[name], tensor, rtol=1e-3, atol=1e-4, msg=lambda m, n=name: f"{n}: {m}")


@pytest.mark.parametrize("name", EVERY)
def test_the_grouped_model_is_the_same_on_both_engines(name: str) -> None:
    try:
        expected = compute(EVERY[name], "grouped", "reference")
    except ValueError as error:  # facts it would not hear
        pytest.skip(str(error))
    assert_same(expected, compute(EVERY[name], "grouped", "fused"))


@pytest.mark.parametrize("name", ["sudoku units", "futoshiki units", "coloring 2, 4, 1 and 3", "several"])
@pytest.mark.parametrize("kind", ["binarized", "multivalued"])
def test_other_models_are_the_same_on_both_engines(name: str, kind: str) -> None:
    assert_same(compute(EVERY[name], kind, "reference"), compute(EVERY[name], kind, "fused"))


def test_a_step_from_any_states_is_the_same_on_both_engines() -> None:
    problem = PROBLEMS["futoshiki units"]
    model = make_model(problem, CONFIGS["grouped"]).to(DEVICE)
    graph: Any = model.prepare(problem.puzzles().batch([0], DEVICE))
    start = States(*torch.randn(3, len(graph.known), 6, device=DEVICE).unbind())
    one, other = ({}, {})
    for engine, found in (("reference", one), ("fused", other)):
        with use_engine(engine), torch.no_grad():
            for states, _ in model.walk(graph, 2, start):
                found.update(states._asdict())
    assert_same(one, other)
