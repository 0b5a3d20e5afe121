"""Board and pointwise accuracy, by the verdict on each output: never by a match of labels alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from outgrow.csp.ground import GroundCSP
from outgrow.csp.verdict import judge_each
from outgrow.data import Dataset
from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate.predictions import Predictions
from outgrow.puzzles import Instance

if TYPE_CHECKING:
    from outgrow.csp.exact import ExactSolver

__all__ = ["QUANTILES", "Score", "check_flag", "flags_of", "mean_std", "score", "step_quantiles", "wilson"]

Progress = Callable[[int], None]
_BLOCK = 256  # puzzles judged together: the pairs of as many 25x25 Sudokus take 70 MB
QUANTILES = (10, 50, 90, 99, 100)  # in percent


def _no_progress(done: int) -> None:
    """For callers that do not watch."""


@dataclass(frozen=True, eq=False)
class Score:
    """How good the predictions for one set are; fractions of 1.

    Attributes:
        dataset: the name of the set, and `sha256` its content's.
        puzzle, size, steps: 'sudoku', K, T.
        count: N, the puzzles predicted.
        board: fraction of outputs that solve their puzzle; 95% Wilson interval `board_low` to `board_high`.
        pointwise: mean fraction of variables right, against the valid solution nearest to the output.
        pointwise_bound: it is a lower bound: for some puzzle no solution was proven to be the nearest.
        by_flag: the puzzles with and without each flag of the set (`flags_of`): {'singles=1': {'count': 9, 'solved': 8}, ...}.
        first_steps: of the first step after which the answer was right, if it was asked for: how many puzzles were 'solved' after any
            step up to `steps`, and when, for these shares of them: '10%', '50%', ... (`step_quantiles`).
        restart: if not 0, puzzles started over whenever the model was not sure after so many steps, fewer than `steps`, and the answer that it
            was surest of counts.
        solved: (N,) the verdicts; empty in a score read from a results file, and `right` too.
        right: (N,) the fractions that `pointwise` is the mean of.
    """

    dataset: str
    sha256: str
    puzzle: str
    size: int
    count: int
    steps: int
    board: float
    board_low: float
    board_high: float
    pointwise: float
    pointwise_bound: bool
    by_flag: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    first_steps: Mapping[str, int] = field(default_factory=dict)
    restart: int = 0
    solved: npt.NDArray[np.bool_] = field(default_factory=lambda: np.zeros(0, dtype=np.bool_))
    right: npt.NDArray[np.float64] = field(default_factory=lambda: np.zeros(0))


def wilson(successes: int, total: int, z: float = 1.96) -> tuple[float, float]:
    """The Wilson interval of a fraction: 95% with z = 1.96. Of nothing it is (0, 1).

    >>> [round(end, 4) for end in wilson(9, 10)]
    [0.5958, 0.9821]
    """
    if not 0 <= successes <= total:
        raise ValueError(f"{successes} of {total}")
    if total == 0:
        return 0.0, 1.0
    fraction, square = successes / total, z * z / total
    middle = fraction + square / 2
    reach = z * math.sqrt(fraction * (1 - fraction) / total + square / (4 * total))
    # The ends are exact, not a rounding error away.
    low = (middle - reach) / (1 + square) if successes else 0.0
    high = (middle + reach) / (1 + square) if successes < total else 1.0
    return low, high


def mean_std(values: Sequence[float] | npt.NDArray[np.floating]) -> tuple[float, float]:
    """Mean and sample standard deviation (over n - 1; 0 for one value).

    >>> mean_std([1.0, 2.0, 3.0])
    (2.0, 1.0)
    """
    array = np.asarray(values, dtype=np.float64)
    if not array.size:
        raise ValueError("the mean of nothing")
    return float(array.mean()), float(array.std(ddof=1)) if array.size > 1 else 0.0


def flags_of(dataset: Dataset) -> list[str]:
    """The flags that tell its puzzles apart: those of 0 and 1 which not every puzzle has."""
    # A level is an amount, whatever its values.
    return [name for name, values in dataset.flags.items() if name != "level" and 0 in values and values.max() <= 1]


def check_flag(flag: str | None, datasets: Mapping[str, Dataset]) -> None:
    """Refuses a flag by which no set can be told apart, before hours of work."""
    known = sorted({name for dataset in datasets.values() for name in flags_of(dataset)})
    if flag is not None and flag not in known:
        has = f"there is {', '.join(known)}" if known else "they have none that does"
        raise OutgrowError(f"no flag {flag!r} tells puzzles of these sets apart; {has}")


def step_quantiles(first: npt.NDArray[np.integer]) -> dict[str, int]:
    """How many puzzles were solved, and the step by which at least so many percent of those were; `first` (N,) is 0 for the others.

    >>> step_quantiles(np.array([4, 0, 2, 3, 9]))
    {'solved': 4, '10%': 2, '50%': 3, '90%': 9, '99%': 9, '100%': 9}
    """
    found = np.sort(first[first > 0])
    places = {q: -(-q * len(found) // 100) - 1 for q in QUANTILES} if len(found) else {}
    return {"solved": len(found), **{f"{q}%": int(found[place]) for q, place in places.items()}}


def _count_by_flag(
    dataset: Dataset, indices: Sequence[int], solved: npt.NDArray[np.bool_]
) -> dict[str, dict[str, int]]:
    counts: dict[str, dict[str, int]] = {}
    for flag in flags_of(dataset):
        values = dataset.flags[flag][indices]
        for value in (1, 0):
            those = values == value
            if those.any():
                counts[f"{flag}={value}"] = {"count": int(those.sum()), "solved": int(solved[those].sum())}
    return counts


def score(
    dataset: Dataset,
    predictions: Predictions,
    *,
    nearest_seconds: float = 10.0,
    progress: Progress = _no_progress,
) -> Score:
    """Board and pointwise accuracy of predictions for `dataset`.

    A puzzle's variables right are all of them where the output solves it; where its solution is known to be the only one
    (flag `unique`), those that match it; else those that match the valid solution nearest to the output, which the exact solver looks for within
    `nearest_seconds` a puzzle. What it cannot prove in that time is a lower bound, never below the match with the stored solution. With 0 seconds
    nothing is looked for, and python-sat is not needed.
    """
    _check(dataset, predictions)
    indices = predictions.indices.tolist()
    unique = dataset.flags.get("unique", np.zeros(len(dataset), dtype=np.uint8))
    solved = np.zeros(len(indices), dtype=np.bool_)
    right = np.ones(len(indices))
    proven = np.ones(len(indices), dtype=np.bool_)
    search = _Search(nearest_seconds)
    try:
        for start in range(0, len(indices), _BLOCK):
            block = range(start, min(start + _BLOCK, len(indices)))
            instances = [dataset[indices[n]] for n in block]
            outputs = [_output(predictions, n, instance) for n, instance in zip(block, instances, strict=True)]
            solved[block] = judge_each([i.csp for i in instances], outputs, [i.givens for i in instances])
            for n, instance, output in zip(block, instances, outputs, strict=True):
                if not solved[n]:
                    least = most = match = int((output == dataset.solution(indices[n])).sum())
                    if unique[indices[n]] != 1:
                        least, most = search.run(instance, output, match)
                    # An output that is no solution differs from every solution somewhere.
                    if min(most, len(output) - 1) < match:
                        raise DamagedFile(f"{predictions.dataset}: the stored solution of puzzle {indices[n]} is none")
                    right[n], proven[n] = least / len(output), least == most
                progress(n + 1)
    finally:
        search.close()
    low, high = wilson(int(solved.sum()), len(solved))
    return Score(
        dataset=predictions.dataset,
        sha256=predictions.sha256,
        puzzle=dataset.puzzle,
        size=dataset.size,
        count=len(solved),
        steps=predictions.steps,
        board=float(solved.mean()),
        board_low=low,
        board_high=high,
        pointwise=float(right.mean()),
        pointwise_bound=not proven.all(),
        by_flag=_count_by_flag(dataset, indices, solved),
        restart=predictions.restart,
        solved=solved,
        right=right,
    )


def _check(dataset: Dataset, predictions: Predictions) -> None:
    name = predictions.dataset
    if predictions.sha256 != dataset.sha256:
        raise OutgrowError(
            f"{name}: predictions for another data set (sha256 {predictions.sha256[:12]}..., this one has {dataset.sha256[:12]}...); predict again"
        )
    if not len(predictions.indices):
        raise OutgrowError(f"{name}: no predictions to score")
    if predictions.indices.max() >= len(dataset):
        raise OutgrowError(
            f"{name}: a prediction for puzzle {predictions.indices.max()}; there are 0..{len(dataset) - 1}"
        )


def _output(predictions: Predictions, n: int, instance: Instance) -> npt.NDArray[np.int16]:
    try:
        return instance.csp.assignment(predictions.assignments[n])
    except ValueError as error:
        raise OutgrowError(
            f"{predictions.dataset}: the prediction for puzzle {predictions.indices[n]} is none ({error})"
        ) from None


class _Search:
    """Looks for the valid solution nearest to an output; one solver serves puzzles in a row that share a CSP."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.solver: ExactSolver | None = None

    def run(self, instance: Instance, output: npt.NDArray[np.int16], match: int) -> tuple[int, int]:
        """On how many variables the nearest solution agrees with an output that is no solution: at least and at most.

        `match`: the stored solution agrees on so many.
        """
        most = len(output) - 1
        if match == most or self.seconds <= 0:
            return match, most
        try:
            from outgrow.csp.exact import Budget, TooLarge
        except ImportError:
            raise OutgrowError(
                "pointwise accuracy where several solutions are right needs python-sat: pip install python-sat, or allow it 0 seconds"
            ) from None
        try:
            found = self._solver_of(instance.csp).nearest(output, instance.givens, budget=Budget(seconds=self.seconds))
        except TooLarge:
            return match, most
        if found.status == "unsatisfiable":
            return -1, -1
        return max(match, found.agreement), min(most, found.bound)

    def _solver_of(self, csp: GroundCSP) -> ExactSolver:
        from outgrow.csp.exact import ExactSolver

        if self.solver is None or self.solver.csp is not csp:
            self.close()
            self.solver = ExactSolver(csp)
        return self.solver

    def close(self) -> None:
        if self.solver is not None:
            self.solver.close()
            self.solver = None
