"""Examples of one's own: checked as they come, and trained on like a data set."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from outgrow import Groups, Instance, LiftedCSP, OutgrowError, Solver, sample_puzzles
from outgrow.csp import GroundCSP
from outgrow.data import Examples
from outgrow.models import GroupedConfig
from outgrow.train import DataRecipe, Recipe, TrainRecipe, train

LATIN = LiftedCSP(
    ["row(2)", "col(2)"], {"neq": lambda a, b: a != b}, ["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)"]
)


def ground(n: int) -> GroundCSP:
    rows = [range(i * n, (i + 1) * n) for i in range(n)]
    return LATIN.ground(n * n, n, {"row": Groups(rows), "col": Groups(zip(*rows, strict=True))})


def examples(n: int, count: int, seed: int = 0) -> Examples:
    csp = ground(n)
    return Examples.of((csp, givens, solution) for givens, solution in sample_puzzles(csp, count, (30, 50), seed=seed))


def test_they_are_kept_as_they_came() -> None:
    found = examples(3, 5)
    assert (len(found), found.size, found.puzzle) == (5, 3, "")
    assert all(found[i].judge(found.solution(i)).solved for i in range(5))
    assert found.sha256 == examples(3, 5).sha256
    assert len({found.sha256, examples(3, 4).sha256, examples(3, 5, seed=1).sha256, examples(4, 5).sha256}) == 4


@pytest.mark.parametrize(
    ("givens", "solution", "reason"),
    [
        ([0] * 4, [1, 2, 1, 2], "example 1: its solution breaks a rule"),
        ([2, 0, 0, 0], [1, 2, 2, 1], "example 1: its solution breaks a rule or changes a given"),
        ([0] * 4, [1, 2, 2, 0], "example 1: its solution"),
        ([0] * 3, [1, 2, 2, 1], "example 1: "),
        ([0] * 4, [1, 2, 2, 3], "example 1: "),
    ],
)
def test_wrong_ones_are_refused(givens: list[int], solution: list[int], reason: str) -> None:
    csp = ground(2)
    with pytest.raises(OutgrowError, match=reason):
        Examples.of([(csp, [1, 0, 0, 0], [1, 2, 2, 1]), (csp, givens, solution)])


def test_other_problems_are_refused() -> None:
    other = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])
    csp = other.ground(2, 2, {"nbr": [(0, 1)]})
    with pytest.raises(OutgrowError, match="example 1: of another LiftedCSP"):
        Examples.of([(ground(2), [0] * 4, [1, 2, 2, 1]), (csp, [0, 0], [1, 2])])
    with pytest.raises(OutgrowError, match="no examples"):
        Examples.of([])


def test_a_model_learns_from_them(tmp_path: Path) -> None:
    recipe = Recipe(
        "latin",
        model=GroupedConfig(width=16, steps=12, marks=2),
        data=DataRecipe(train=("two", "three"), valid=("two",)),
        train=TrainRecipe(updates=60, batch=16, lr=5e-3, steps=6, ema=0.9),
    )
    given = {"two": examples(2, 30), "three": examples(3, 60)}
    trained = train(recipe, tmp_path / "run", datasets=given, device="cpu")
    assert trained.validation is not None
    assert trained.validation.board > 0.9
    puzzles = [examples(3, 10, seed=5)[i] for i in range(10)]
    answers = list(Solver(trained.weights, guarantee=False).solve_all(puzzles))
    assert sum(a.solved for a in answers) >= 8
    larger = Instance.of(ground(4), np.zeros(16, dtype=int))
    assert Solver(trained.weights).solve(larger).solved
