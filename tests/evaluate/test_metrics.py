"""Accuracy is what the verdict and the nearest valid solution say, and a bound says that it is one."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence
from functools import cache
from itertools import product

import numpy as np
import pytest

import outgrow.csp.exact
from outgrow.csp.exact import ExactSolver, Nearest, TooLarge
from outgrow.data import Dataset, Record
from outgrow.data.generate import default_settings, make_chunk
from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate import Predictions, check_flag, flags_of, mean_std, score, wilson
from outgrow.evaluate.metrics import QUANTILES, step_quantiles

Ints = np.ndarray


def predict(dataset: Dataset, outputs: Sequence[Ints | list[int]], indices: Sequence[int] | None = None) -> Predictions:
    chosen = np.array(range(len(outputs)) if indices is None else indices, dtype=np.int64)
    return Predictions("some-set", dataset.sha256, 32, chosen, [np.array(o, dtype=np.int16) for o in outputs])


def graph(
    edges: list[tuple[int, int]],
    solution: list[int],
    given: list[int],
    size: int,
    unique: int | None = None,
) -> Dataset:
    """One graph to color."""
    flags = {} if unique is None else {"unique": unique}
    record = Record(np.array(solution), np.isin(np.arange(len(solution)), given), np.array(edges).reshape(-1, 2), flags)
    return Dataset.of([record], puzzle="coloring", size=size, shape=())


PATH = [(0, 1), (1, 2), (2, 3)]


# ---- by enumeration


def colorings(record: Record, size: int) -> Ints:
    """Every valid coloring that keeps the givens: (S, V)."""
    every = np.array(list(product(range(1, size + 1), repeat=len(record.solution))))
    good = np.ones(len(every), dtype=bool)
    for x, y in record.pairs.tolist():
        good &= every[:, x] != every[:, y]
    for i in np.flatnonzero(record.given).tolist():
        good &= every[:, i] == record.solution[i]
    return every[good]


@cache
def boards() -> Ints:
    """The 288 Sudokus of size 4: (288, 16)."""
    rows = [np.array(r) for r in product(range(1, 5), repeat=4) if len(set(r)) == 4]
    found = []
    for four in product(rows, repeat=2):
        top = np.stack(four)
        if any(len(set(top[:, c : c + 2].ravel().tolist())) < 4 for c in (0, 2)):
            continue
        for rest in product(rows, repeat=2):
            board = np.concatenate([top, np.stack(rest)])
            if all(len(set(board[:, c].tolist())) == 4 for c in range(4)) and all(
                len(set(board[2:, c : c + 2].ravel().tolist())) == 4 for c in (0, 2)
            ):
                found.append(board.ravel())
    assert len(found) == 288
    return np.stack(found)


def disturb(rng: np.random.Generator, solution: Ints, size: int) -> Ints:
    """An output like a model's: some values wrong or missing, givens among them."""
    output = solution.copy().astype(np.int64)
    wrong = rng.random(len(output)) < rng.choice([0.1, 0.3, 0.9])
    output[wrong] = rng.integers(0 if rng.random() < 0.3 else 1, size + 1, int(wrong.sum()))
    return output


def test_pointwise_is_the_agreement_with_the_nearest_coloring_of_all() -> None:
    rng = np.random.default_rng(0)
    records, outputs, expected, solved = [], [], [], []
    while len(records) < 150:
        variables, size = int(rng.integers(3, 7)), 3
        solution = rng.integers(1, size + 1, variables)
        pairs = np.array([(x, y) for x in range(variables) for y in range(x) if solution[x] != solution[y]])
        pairs = pairs.reshape(-1, 2)[rng.random(len(pairs)) < 0.7]
        record = Record(solution, rng.random(variables) < 0.3, pairs)
        output = disturb(rng, solution, size)
        agreement = (colorings(record, size) == output).sum(axis=1).max()
        records.append(record)
        outputs.append(output)
        expected.append(agreement / variables)
        solved.append(agreement == variables)
    dataset = Dataset.of(records, puzzle="coloring", size=3, shape=())
    result = score(dataset, predict(dataset, outputs))
    np.testing.assert_allclose(result.right, expected)
    assert result.solved.tolist() == solved
    assert not result.pointwise_bound
    assert result.board == np.mean(solved)
    assert result.pointwise == pytest.approx(np.mean(expected))
    stored = [np.mean(o == r.solution) for o, r in zip(outputs, records, strict=True)]
    assert sum(e > s for e, s in zip(expected, stored, strict=True)) > 20  # the nearest is often not the stored one
    assert 20 < sum(solved) < 130


def test_puzzles_that_share_a_csp_are_scored_one_by_one() -> None:
    rng = np.random.default_rng(1)
    records, outputs, expected = [], [], []
    for _ in range(40):
        solution = boards()[rng.integers(288)]
        given = rng.random(16) < 0.2
        output = disturb(rng, solution, 4)
        fitting = boards()[(boards()[:, given] == solution[given]).all(axis=1)]
        records.append(Record(solution, given))
        outputs.append(output)
        expected.append((fitting == output).mean(axis=1).max())
    dataset = Dataset.of(records, puzzle="sudoku", size=4, shape=(2, 2))
    order = rng.permutation(40)[:30].tolist()
    seen: list[int] = []
    result = score(dataset, predict(dataset, [outputs[i] for i in order], order), progress=seen.append)
    np.testing.assert_allclose(result.right, [expected[i] for i in order])
    assert (result.count, result.puzzle, result.size, result.steps) == (30, "sudoku", 4, 32)
    assert (result.dataset, result.sha256) == ("some-set", dataset.sha256)
    assert seen == list(range(1, 31))


def test_blocks_are_scored_as_one(monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(2)
    records = [Record(boards()[i], rng.random(16) < 0.4) for i in range(20)]
    dataset = Dataset.of(records, puzzle="sudoku", size=4, shape=(2, 2))
    predictions = predict(dataset, [disturb(rng, r.solution, 4) for r in records])
    whole = score(dataset, predictions)
    monkeypatch.setattr("outgrow.evaluate.metrics._BLOCK", 7)
    parts = score(dataset, predictions)
    assert np.array_equal(whole.right, parts.right)
    assert np.array_equal(whole.solved, parts.solved)
    assert 0 < whole.pointwise < 1


# ---- the verdict decides


def test_a_valid_answer_that_is_not_the_label_is_solved() -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    result = score(dataset, predict(dataset, [[2, 1, 2, 1]]))
    assert result.solved.tolist() == [True]
    assert result.right.tolist() == [1.0]


def test_even_a_puzzle_flagged_unique_is_judged_by_its_rules() -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [], 2, unique=1)
    assert score(dataset, predict(dataset, [[2, 1, 2, 1]])).board == 1


def test_a_changed_given_is_not_solved_and_the_nearest_solution_keeps_it() -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [0], 2)
    result = score(dataset, predict(dataset, [[2, 1, 2, 1]]))
    assert not result.solved[0]
    assert result.right[0] == 0  # the only coloring that keeps the given is 1 2 1 2


def test_nothing_said_is_nothing_right() -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    result = score(dataset, predict(dataset, [[0, 0, 0, 0]]))
    assert (result.board, result.pointwise) == (0, 0)
    result = score(dataset, predict(dataset, [[0, 1, 2, 1]]))
    assert (result.board, result.pointwise) == (0, 0.75)


def test_a_unique_puzzle_is_matched_with_its_solution_and_nothing_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outgrow.csp.exact, "ExactSolver", None)
    dataset = graph(PATH, [1, 2, 1, 2], [3], 2, unique=1)
    result = score(dataset, predict(dataset, [[2, 2, 1, 2]]))
    assert result.right.tolist() == [0.75]
    assert not result.pointwise_bound


def test_flags_belong_to_the_puzzle_and_not_to_the_place_in_the_predictions() -> None:
    one = graph(PATH, [1, 2, 1, 2], [], 2, unique=1).record(0)
    other = graph(PATH, [1, 2, 1, 2], [], 2, unique=0).record(0)
    dataset = Dataset.of([one, other], puzzle="coloring", size=2, shape=())
    result = score(dataset, predict(dataset, [[2, 1, 2, 2], [2, 1, 2, 2]], [1, 0]))
    assert result.right.tolist() == [0.75, 0.25]


def test_a_flag_of_zero_is_no_proof() -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [], 2, unique=0)
    assert score(dataset, predict(dataset, [[2, 1, 2, 2]])).pointwise == 0.75


# ---- bounds


@pytest.fixture(scope="module")
def large() -> tuple[Dataset, Predictions]:
    """Graphs of 60 nodes, and outputs that are far off."""
    chosen = default_settings("coloring", 5, 8, nodes=(60, 60))
    dataset = Dataset.of(make_chunk(chosen, 0), puzzle="coloring", size=5, shape=())
    rng = np.random.default_rng(3)
    return dataset, predict(dataset, [rng.integers(1, 6, 60) for _ in range(8)])


@pytest.mark.parametrize("seconds", [0, 1e-9])
def test_out_of_time_it_is_a_bound_no_lower_than_the_stored_solution(
    large: tuple[Dataset, Predictions], seconds: float
) -> None:
    dataset, predictions = large
    bound = score(dataset, predictions, nearest_seconds=seconds)
    assert bound.pointwise_bound
    stored = [float(np.mean(dataset.solution(i) == a)) for i, a in enumerate(predictions.assignments)]
    assert bound.right.tolist() == stored
    exact = score(dataset, predictions)
    assert not exact.pointwise_bound
    assert (exact.right >= bound.right).all()
    assert exact.pointwise > bound.pointwise
    assert exact.board == bound.board == 0


def test_solved_and_unique_puzzles_need_no_search() -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [3], 2, unique=1)
    assert not score(dataset, predict(dataset, [[1, 1, 1, 2]]), nearest_seconds=0).pointwise_bound
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    assert not score(dataset, predict(dataset, [[1, 2, 1, 2]]), nearest_seconds=0).pointwise_bound


@pytest.mark.parametrize("seconds", [0, 10])
def test_one_variable_off_needs_no_search(monkeypatch: pytest.MonkeyPatch, seconds: float) -> None:
    monkeypatch.setattr(outgrow.csp.exact, "ExactSolver", None)
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    result = score(dataset, predict(dataset, [[1, 2, 1, 1]]), nearest_seconds=seconds)
    assert result.right.tolist() == [0.75]
    assert not result.pointwise_bound


@pytest.mark.parametrize(
    ("found", "right", "bound"),
    [
        (Nearest("optimal", np.array([2, 1, 2, 1]), 3, 3, 0.0), 0.75, False),
        (Nearest("ran_out", np.array([2, 1, 2, 1]), 2, 3, 0.0), 0.5, True),
        (Nearest("ran_out", np.array([1, 2, 1, 2]), 0, 3, 0.0), 0.25, True),  # the stored solution is nearer
        (Nearest("ran_out", None, 0, 4, 0.0), 0.25, True),
        (Nearest("ran_out", None, 0, 1, 0.0), 0.25, False),  # none agrees on more than the stored one
        (Nearest("ran_out", np.array([2, 1, 2, 1]), 3, 4, 0.0), 0.75, False),  # on 4 only if it were solved
    ],
)
def test_what_the_search_says_is_taken_with_the_stored_solution(
    monkeypatch: pytest.MonkeyPatch, found: Nearest, right: float, bound: bool
) -> None:
    monkeypatch.setattr(ExactSolver, "nearest", lambda *_, **__: found)
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    result = score(dataset, predict(dataset, [[2, 1, 2, 2]]))
    assert (result.right.tolist(), result.pointwise_bound) == ([right], bound)


def test_a_csp_too_large_for_the_solver_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise TooLarge("20,000,001 clauses")

    monkeypatch.setattr(outgrow.csp.exact, "ExactSolver", refuse)
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    result = score(dataset, predict(dataset, [[2, 1, 2, 2]]))
    assert (result.right.tolist(), result.pointwise_bound) == ([0.25], True)


# ---- by flag


def graded(*flags: dict[str, int]) -> Dataset:
    """As many paths to color, with these flags."""
    solution = np.array([1, 2, 1, 2])
    records = [Record(solution, np.zeros(4, dtype=bool), np.array(PATH), f) for f in flags]
    return Dataset.of(records, puzzle="coloring", size=2, shape=())


GOOD, BAD = [2, 1, 2, 1], [2, 1, 2, 2]


def test_puzzles_with_and_without_a_flag_are_counted_apart() -> None:
    dataset = graded(*({"singles": int(i in (1, 4, 5))} for i in range(6)))
    result = score(dataset, predict(dataset, [GOOD, GOOD, BAD, GOOD, BAD, GOOD]))
    assert result.by_flag == {"singles=1": {"count": 3, "solved": 2}, "singles=0": {"count": 3, "solved": 2}}
    # Of the puzzles asked for alone, and by their numbers in the set.
    result = score(dataset, predict(dataset, [BAD, GOOD, GOOD], [5, 1, 3]))
    assert result.by_flag == {"singles=1": {"count": 2, "solved": 1}, "singles=0": {"count": 1, "solved": 1}}
    result = score(dataset, predict(dataset, [BAD, GOOD], [0, 2]))
    assert result.by_flag == {"singles=0": {"count": 2, "solved": 1}}


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ({"singles": (0, 1), "unique": (1, 1)}, ["singles"]),
        ({"singles": (0, 0), "unique": (1, 0)}, ["singles", "unique"]),
        ({"level": (0, 1), "chromatic": (2, 2)}, []),
        ({"grade": (0, 2)}, []),
        ({"grade": (1, 2)}, []),
        ({}, []),
    ],
)
def test_flags_that_tell_puzzles_apart(values: dict[str, tuple[int, int]], found: list[str]) -> None:
    dataset = graded(*({name: v[i] for name, v in values.items()} for i in range(2)))
    assert sorted(flags_of(dataset)) == found
    assert sorted({name.split("=")[0] for name in score(dataset, predict(dataset, [GOOD, BAD])).by_flag}) == found
    for flag in (*values, "nothing", ""):
        if flag in found:
            check_flag(flag, {"a": graded({}), "b": dataset})
        else:
            words = f"no flag {flag!r} tells puzzles of these sets apart; "
            words += f"there is {', '.join(found)}" if found else "they have none that does"
            with pytest.raises(OutgrowError, match=f"^{words}$"):
                check_flag(flag, {"a": graded({}), "b": dataset})
    check_flag(None, {"b": dataset})


def test_the_hard_sets_are_told_apart_by_singles() -> None:
    from outgrow.data import find_dataset

    assert [flags_of(find_dataset(f"sudoku-{size}-hard")) for size in (9, 12, 16)] == [["singles"]] * 3
    assert flags_of(find_dataset("sudoku-9-test")) == []


# ---- the first step


@pytest.mark.parametrize("count", [1, 2, 9, 10, 11, 99, 100, 101, 250])
def test_quantiles_are_the_first_step_by_which_so_many_were_solved(count: int) -> None:
    rng = np.random.default_rng(count)
    first = rng.integers(1, 60, count)
    found = step_quantiles(rng.permutation(np.concatenate([first, np.zeros(7, dtype=np.int64)])))
    assert found.pop("solved") == count
    assert found == {f"{q}%": next(n for n in range(1, 61) if 100 * (first <= n).sum() >= q * count) for q in QUANTILES}
    assert list(found) == ["10%", "50%", "90%", "99%", "100%"]


def test_nothing_solved_has_no_quantiles() -> None:
    assert step_quantiles(np.zeros(5, dtype=np.int64)) == {"solved": 0}


# ---- what is refused


def test_another_data_set_is_refused() -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    other = graph(PATH, [2, 1, 2, 1], [], 2)
    with pytest.raises(OutgrowError, match="some-set: predictions for another data set"):
        score(other, predict(dataset, [[1, 2, 1, 2]]))


@pytest.mark.parametrize(
    ("outputs", "indices", "message"),
    [
        ([], [], "no predictions"),
        ([[1, 2, 1, 2]], [1], r"puzzle 1; there are 0\.\.0"),
        ([[1, 2, 1]], [0], "puzzle 0 is none .*4 entries, not 3"),
        ([[1, 2, 1, 3]], [0], "puzzle 0 is none .*value 3"),
    ],
)
def test_predictions_that_do_not_fit_are_refused(outputs: list[list[int]], indices: list[int], message: str) -> None:
    dataset = graph(PATH, [1, 2, 1, 2], [], 2)
    with pytest.raises(OutgrowError, match=message) as caught:
        score(dataset, predict(dataset, outputs, indices))
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("output", "unique"), [([1, 1, 1, 2], 0), ([1, 1, 1, 2], 1), ([1, 1, 2, 1], 0)])
def test_a_stored_solution_that_breaks_a_rule_is_seen(output: list[int], unique: int) -> None:
    dataset = graph(PATH, [1, 1, 1, 2], [0, 1], 2, unique=unique)  # no coloring keeps these givens
    with pytest.raises(DamagedFile, match="some-set: the stored solution of puzzle 0 is none"):
        score(dataset, predict(dataset, [output]))


SCRIPT = """
import sys
for name in ("pysat", "torch", "click", "rich"):
    sys.modules[name] = None
import numpy as np
import outgrow.evaluate
from outgrow.evaluate import Predictions, score
from outgrow.provenance import provenance
from outgrow.data import Dataset, Record
from outgrow.errors import OutgrowError
record = Record(np.array([1, 2, 1, 2]), np.zeros(4, dtype=bool), np.array([(0, 1), (1, 2), (2, 3)]))
data = Dataset.of([record], puzzle="coloring", size=2, shape=())
wrong = Predictions("a", data.sha256, 1, np.array([0]), [np.array([2, 1, 2, 2])])
assert score(data, wrong, nearest_seconds=0).pointwise_bound
assert provenance()["python"]
try:
    score(data, wrong)
except OutgrowError as error:
    assert "pip install python-sat" in str(error)
else:
    raise AssertionError
"""


def test_a_bare_machine_can_score() -> None:
    subprocess.run([sys.executable, "-c", SCRIPT], check=True)


# ---- statistics


@pytest.mark.parametrize(
    ("successes", "total", "low", "high"),
    [  # the first four from Newcombe (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0, 0.1611),
        (1, 29, 0.0061, 0.1718),
        (20, 20, 0.8389, 1.0),
        (0, 0, 0.0, 1.0),
    ],
)
def test_wilson_against_published_values(successes: int, total: int, low: float, high: float) -> None:
    assert wilson(successes, total) == pytest.approx((low, high), abs=6e-5)


def test_wilson_ends_are_exact() -> None:
    for total in range(1, 200):
        assert wilson(0, total)[0] == 0
        assert wilson(total, total)[1] == 1
    with pytest.raises(ValueError):
        wilson(3, 2)


def test_a_score_carries_the_interval() -> None:
    records = [graph(PATH, [1, 2, 1, 2], [], 2).record(0)] * 4
    dataset = Dataset.of(records, puzzle="coloring", size=2, shape=())
    result = score(dataset, predict(dataset, [[1, 2, 1, 2], [2, 1, 2, 1], [1, 2, 1, 2], [1, 1, 1, 2]]))
    assert result.board == 0.75
    assert (result.board_low, result.board_high) == wilson(3, 4)


def test_mean_and_deviation_of_seeds() -> None:
    assert mean_std([3.0]) == (3.0, 0.0)
    assert mean_std([1.0, 3.0]) == pytest.approx((2.0, 2**0.5))
    assert mean_std(np.array([2.0, 4.0, 9.0])) == pytest.approx((5.0, 13**0.5))
    with pytest.raises(ValueError):
        mean_std([])
