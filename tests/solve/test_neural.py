"""A puzzle is solved when the verdict says so, at the first step it does; whatever a model says, and whoever shares its batch."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle import SURE, Oracle, plan_of

import outgrow.solve.neural as neural
from outgrow.csp import Groups, LiftedCSP
from outgrow.csp.exact import ExactSolver
from outgrow.data import Dataset, find_dataset
from outgrow.errors import OutgrowError
from outgrow.graphs import Puzzles, Schema
from outgrow.models import MODELS, Model, build_model
from outgrow.puzzles import PUZZLES, Instance, coloring, futoshiki, parse, parse_one, sudoku
from outgrow.solve import Proposal, restate, solve_batch
from outgrow.solve.attempts import attempt
from outgrow.weights import load_weights, open_entry, read_catalog

ROOT = Path(__file__).resolve().parents[2]
SMALL = parse("1.....3..4.....2\n.2....1..4....3.")
SIX = parse_one("1.....2.....3.....4.....5.....6.....")
TERNARY = "4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,"


@cache
def data(name: str) -> Dataset:
    return find_dataset(name)


def solution(instance: Instance) -> np.ndarray:
    with ExactSolver(instance.csp) as solver:
        found = solver.solve(instance.givens).assignment
    assert found is not None
    return found


def wrong(instance: Instance) -> np.ndarray:
    """The solution with one open variable changed: no solution of any kind."""
    answer = solution(instance).copy()
    i = int(np.flatnonzero(instance.givens == 0)[-1])
    answer[i] = answer[i] % instance.size + 1
    assert not instance.judge(answer).solved
    return answer


def solve(model: Oracle | Model, instances: Sequence[Instance], steps: int, **more: Any) -> list[Proposal]:
    return solve_batch(model, instances, steps, **more)  # type: ignore[arg-type]


def oracle(*said: tuple[Instance, Sequence[Any]], **more: Any) -> Oracle:
    return Oracle(Schema.of(said[0][0].csp), plan_of(*said), **more)


def refusal(model: Oracle | Model, instances: Sequence[Instance], steps: int = 1) -> str:
    with pytest.raises(OutgrowError) as caught:
        solve(model, instances, steps)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


# ---- when it stops, and with what


def test_an_answer_is_the_first_that_the_verdict_calls_solved() -> None:
    first, second = SMALL
    right, never = solution(first), wrong(second)
    model = oracle((first, [wrong(first), wrong(first), right]), (second, [never]))
    found = solve(model, [first, second], 7)
    assert [(a.solved, a.steps) for a in found] == [(True, 3), (False, 7)]
    assert found[0].assignment.tolist() == right.tolist()
    assert found[1].assignment.tolist() == never.tolist()
    assert model.batches == [(2, 7)]
    assert model.modes == ["cpu", "eval"]


def test_a_solution_that_the_model_leaves_again_is_kept() -> None:
    first, second = SMALL
    right = solution(first)
    model = oracle((first, [wrong(first), right, wrong(first)]), (second, [wrong(second)]))
    found = solve(model, [first, second], 5)[0]
    assert (found.solved, found.steps, found.assignment.tolist()) == (True, 2, right.tolist())


def test_a_solution_found_again_is_no_later_one() -> None:
    first, second = SMALL
    model = oracle((first, [wrong(first), solution(first)] * 2), (second, [wrong(second)]))
    assert [a.steps for a in solve(model, [first, second], 6)] == [2, 6]


def test_each_puzzle_is_judged_by_what_it_was_before_itself() -> None:
    """Two puzzles with one solution between them: the second one says what the first one said a step before."""
    answer = solution(SMALL[0])
    one, other = (SMALL[0].with_givens(np.where(np.arange(16) % 2 == odd, answer, 0)) for odd in (0, 1))
    model = oracle((one, [answer]), (other, [wrong(other), answer]))
    assert [(a.solved, a.steps) for a in solve(model, [one, other], 4)] == [(True, 1), (True, 2)]


def test_a_batch_stops_when_all_are_solved() -> None:
    first, second = SMALL
    model = oracle(
        (first, [solution(first)]), (second, [wrong(second), wrong(second), wrong(second), solution(second)])
    )
    assert [a.steps for a in solve(model, [first, second], 100)] == [1, 4]
    assert model.batches == [(2, 4)]
    assert [a.steps for a in solve(model, [first, second], 100, nodes=1)] == [1, 4]
    assert model.batches[1:] == [(1, 1), (1, 4)]


def test_an_answer_that_stays_wrong_for_some_steps_is_judged_again_once_it_changes() -> None:
    [first, _] = SMALL
    model = oracle((first, [wrong(first)] * 4 + [solution(first)]))
    assert [(a.solved, a.steps) for a in solve(model, [first], 9)] == [(True, 5)]


def test_the_last_step_counts() -> None:
    [first, _] = SMALL
    plan = [wrong(first), wrong(first), solution(first)]
    assert [(a.solved, a.steps) for a in solve(oracle((first, plan)), [first], 3)] == [(True, 3)]
    assert [(a.solved, a.steps) for a in solve(oracle((first, plan)), [first], 2)] == [(False, 2)]


def test_any_solution_counts_and_not_a_stored_one() -> None:
    empty = parse_one("." * 16)
    one = solution(empty)
    other = np.array([v % 4 + 1 for v in one])
    assert all(solve(oracle((empty, [said])), [empty], 1)[0].solved for said in (one, other))


# ---- givens, confidence, time


def test_a_given_is_never_changed() -> None:
    [first, _] = SMALL
    right = solution(first)
    off = np.where(first.givens > 0, first.givens % 4 + 1, right)  # wrong at every given, right elsewhere
    assert not first.judge(off).solved
    found = solve(oracle((first, [off])), [first], 1)[0]
    assert found.solved
    assert found.assignment.tolist() == right.tolist()
    backwards = np.where(first.givens > 0, first.givens % 4 + 1, wrong(first))
    found = solve(oracle((first, [backwards])), [first], 1)[0]
    assert not found.solved
    assert (found.assignment[first.givens > 0] == first.givens[first.givens > 0]).all()


def test_givens_that_break_a_rule_are_never_solved() -> None:
    broken = parse_one("11" + "." * 14)
    said = solution(parse_one("12" + "." * 14))
    found = solve(oracle((broken, [said])), [broken], 2)[0]
    assert (found.solved, found.assignment[:2].tolist()) == (False, [1, 1])


def test_confidence_is_the_probability_of_each_value_among_those_there_are() -> None:
    [first, _] = SMALL
    model = oracle((first, [solution(first)]), (SIX, [wrong(SIX)]))
    small, six = solve(model, [first, SIX], 2)
    assert model.batches == [(2, 2)]
    for answer, instance in ((small, first), (six, SIX)):
        # The six values of the board beside it take nothing away from the four.
        sure = np.exp(SURE) / (np.exp(SURE) + instance.size - 1)
        assert answer.confidence.shape == instance.givens.shape
        assert answer.confidence == pytest.approx(np.where(instance.givens > 0, 1, sure), abs=1e-6)


def test_confidence_is_that_of_the_step_it_was_solved_at() -> None:
    [first, second] = SMALL

    class Wavering(Oracle):
        def walk(self, batch: Any, steps: int, start: Any) -> Any:
            said = enumerate(super().walk(batch, steps, start), start=1)
            return ((states, scores * step / 10) for step, (states, scores) in said)

    plan = plan_of((first, [wrong(first), solution(first)]), (second, [wrong(second)]))
    found = solve(Wavering(Schema.of(first.csp), plan), [first, second], 6)
    for answer, step in zip(found, (2, 6), strict=True):
        score = np.exp(SURE * step / 10)
        assert answer.confidence.min() == pytest.approx(score / (score + 3), abs=1e-6)


def test_seconds_are_shares_of_the_time_it_took() -> None:
    began = time.perf_counter()
    model = oracle(*((p, [wrong(p)]) for p in (*SMALL, SIX)))
    found = solve(model, [*SMALL, SIX], 50)
    took = time.perf_counter() - began
    assert all(a.seconds > 0 for a in found)
    assert sum(a.seconds for a in found) <= took
    assert found[2].seconds == pytest.approx(found[0].seconds * 6**3 / 4**3)


# ---- many at a time


def test_answers_come_in_order_whatever_the_batches() -> None:
    boards = [data(name)[i] for i in range(5) for name in ("sudoku-4-test", "sudoku-9-test", "sudoku-6-test")]
    assert len({i.size for i in boards}) == 3
    plan = [(b, [wrong(b)] * (n % 4) + [solution(b)]) for n, b in enumerate(boards)]
    for nodes in (1, 300, 1_000, 1 << 15):
        model = oracle(*plan)
        done: list[int] = []
        found = solve(model, boards, 9, nodes=nodes, progress=done.append)
        assert [(a.solved, a.steps) for a in found] == [(True, n % 4 + 1) for n in range(len(boards))]
        for answer, board in zip(found, boards, strict=True):
            assert answer.assignment.tolist() == solution(board).tolist()
        assert done == np.cumsum([count for count, _ in model.batches]).tolist()
        assert done[-1] == len(boards)
        assert (len(model.batches) == 1) == (nodes == 1 << 15)
        assert (len(model.batches) == len(boards)) == (nodes == 1)


def test_batches_keep_to_the_nodes_asked_for() -> None:
    boards = [data("sudoku-4-test")[i] for i in range(10)]
    model = oracle(*((b, [solution(b)]) for b in boards))
    solve(model, boards, 1, nodes=3 * 64)
    assert [count for count, _ in model.batches] == [3, 3, 3, 1]
    model.batches.clear()
    solve(model, boards, 1, nodes=3 * 64 - 1)
    assert [count for count, _ in model.batches] == [2] * 5


def star(nodes: int, colors: int = 2) -> Instance:
    edges = np.array([(0, i) for i in range(1, nodes)])
    return coloring.build(edges, np.array([1] + [0] * (nodes - 1)), colors)


def test_one_hub_does_not_pad_a_whole_batch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(neural, "_MOST", 40 * 2 * 39)
    path = coloring.build(np.array([(i, i + 1) for i in range(39)]), np.array([1] + [0] * 39), 2)
    graphs = [path, path, star(40), path, path]
    model = oracle((path, [solution(path)]), (star(40), [solution(star(40))]))
    # Puzzles are known by their givens here, so the star and the path say the same, which is right for the star alone.
    found = solve(model, graphs, 1)
    assert [a.solved for a in found] == [False, False, True, False, False]
    assert [count for count, _ in model.batches] == [2, 1, 2]


def test_a_puzzle_that_would_take_all_memory_is_refused() -> None:
    graph = replace(star(20_000), source="hub.col:1")
    reason = refusal(Oracle(Schema.of(graph.csp), {}), [star(10), graph])
    assert reason.startswith("hub.col:1: ")
    assert "20,000 variables, 2 values and up to 19,999 neighbors" in reason
    assert "exact solver" in reason
    wide = coloring.build(np.array([(0, 1)]), np.zeros(1_000, dtype=np.int64), 300)
    assert "300 values" in refusal(Oracle(Schema.of(wide.csp), {}), [wide])


def test_nothing_asked_is_nothing_answered() -> None:
    assert solve(oracle((SMALL[0], [])), [], 3) == []


@pytest.mark.parametrize("steps", [0, -1, 100_001])
def test_numbers_of_steps_that_cannot_be_are_refused(steps: int) -> None:
    assert str(steps) in refusal(oracle((SMALL[0], [])), SMALL, steps)


# ---- real models


def build(kind: str, instance: Instance, **changes: Any) -> Model:
    torch.manual_seed(1)
    extra = {"max_values": 9} if kind == "multivalued" else {}
    return build_model(Schema.of(instance.csp), MODELS[kind][1](**{"width": 8, "steps": 2, **extra, **changes}))


def by_hand(model: Model, instance: Instance, form: str, steps: int) -> list[np.ndarray]:
    """The scores (V, K) of a puzzle by itself after every step."""
    stated = restate(instance, form)
    with torch.no_grad():
        batch = Puzzles([stated.csp], [stated.givens]).batch([0])
        return [scores.numpy() for scores in model.run(model.prepare(batch), steps)]  # pyright: ignore[reportArgumentType]


def with_holes(name: str, index: int, holes: int) -> Instance:
    """A puzzle of a set with so many open variables: with none every model is right, and with all open none that was not trained."""
    instance, givens = data(name)[index], data(name).solution(index)
    givens[np.random.default_rng(index).permutation(len(givens))[:holes]] = 0
    return instance.with_givens(givens)


@pytest.mark.parametrize("kind", list(MODELS))
@pytest.mark.parametrize(
    ("names", "form"),
    [
        (("sudoku-4-test", "sudoku-6-test"), "nbr"),
        (("sudoku-4-test", "sudoku-6-test"), "units"),
        (("coloring-4-test", "coloring-5-test"), "units"),
    ],
)
def test_models_are_run_as_by_hand(kind: str, names: tuple[str, str], form: str) -> None:
    boards = [with_holes(name, i, (0, 1, 3, 10**6)[i % 4]) for i in range(8) for name in names]
    model = build(kind, restate(boards[0], form))
    found = solve(model, boards, 4, nodes=1_000)
    assert {a.solved for a in found} == {True, False}
    for answer, board in zip(found, boards, strict=True):
        assert answer.solved == board.judge(answer.assignment).solved
        assert answer.solved or answer.steps == 4
        given = board.givens > 0
        assert (answer.assignment == board.givens)[given].all()
        scores = by_hand(model, board, form, answer.steps)
        chosen = scores[-1][np.arange(len(given)), answer.assignment - 1]
        # Of two values whose scores differ by a rounding error either will do.
        assert (given | (chosen >= scores[-1].max(1) - 1e-5)).all()
        odds = np.exp(scores[-1] - scores[-1].max(1, keepdims=True)).sum(1)
        assert answer.confidence == pytest.approx(
            np.where(given, 1, np.exp(chosen - scores[-1].max(1)) / odds), abs=1e-4
        )
        for earlier in scores[:-1]:
            ranked = np.sort(earlier, axis=1)
            if (given | (ranked[:, -2] < ranked[:, -1] - 1e-5)).all():
                assert not board.judge(np.where(given, board.givens, earlier.argmax(1) + 1)).solved


def test_the_same_puzzles_get_the_same_answers() -> None:
    boards = [data("sudoku-4-test")[i] for i in range(8)]
    model = build("grouped", boards[0], dropout=0.5)
    model.train()
    torch.manual_seed(3)
    once, twice = solve(model, boards, 3), solve(model, boards, 3)
    for a, b in zip(once, twice, strict=True):
        assert (a.assignment.tolist(), a.solved, a.steps) == (b.assignment.tolist(), b.solved, b.steps)
        assert a.confidence.tobytes() == b.confidence.tobytes()


def test_trained_weights_solve_boards_as_large_as_theirs_and_larger() -> None:
    model = load_weights(ROOT / "src" / "outgrow" / "weights" / "futoshiki-binarized.safetensors").model
    boards = [data("futoshiki-6-test")[0], data("futoshiki-6-test")[1], data("futoshiki-7-test")[0]]
    found = solve(model, boards, 16)
    assert all(a.solved for a in found)
    assert all(b.judge(a.assignment).solved for a, b in zip(found, boards, strict=True))


# ---- forms


@pytest.mark.parametrize("text", [example for puzzle in PUZZLES.values() for example in puzzle.examples] + [TERNARY])
def test_a_puzzle_restated_is_the_same_puzzle(text: str) -> None:
    instance = replace(parse_one(text), notation="A", notes=("assumed",), source="here:3")
    lifted = PUZZLES[instance.puzzle].forms
    for form in lifted:
        other = restate(instance, form)
        assert other.csp.lifted is lifted[form]
        assert other.givens.tolist() == instance.givens.tolist()
        for name in ("puzzle", "shape", "size", "notation", "notes", "source"):
            assert getattr(other, name) == getattr(instance, name)
        assert rules(other) == rules(instance)
        assert rules(restate(other, "units")) == rules(instance)


def rules(instance: Instance) -> set[tuple[str, int, int]]:
    csp = instance.csp
    found = {(c.relation, x, y) for c in csp.constraints for x, y in csp.pairs[c.predicate].tolist()}
    assert found
    return found


def test_a_puzzle_is_judged_as_it_was_stated_and_not_as_the_model_sees_it(monkeypatch: pytest.MonkeyPatch) -> None:
    [first, _] = SMALL
    nbr = restate(first, "nbr")
    without = nbr.csp.lifted.ground(16, 4, {"nbr": Groups([])})
    # An encoding that lost every fact: any answer would solve it.
    monkeypatch.setattr(neural, "restate", lambda instance, form: replace(nbr, csp=without))
    model = Oracle(Schema.of(nbr.csp), plan_of((first, [wrong(first)])))
    assert not solve(model, [first], 2)[0].solved


def test_a_problem_of_ones_own_needs_no_registry() -> None:
    latin = LiftedCSP(
        predicates=["row(2)", "col(2)"],
        relations={"neq": lambda a, b: a != b},
        constraints=["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)"],
    )
    rows = [range(i * 3, i * 3 + 3) for i in range(3)]
    csp = latin.ground(9, 3, {"row": Groups(rows), "col": Groups(zip(*rows, strict=True))})
    own = Instance("latin", csp, csp.assignment([1, 0, 0, 0, 0, 0, 0, 0, 0]), (3,))
    answer = [1, 2, 3, 2, 3, 1, 3, 1, 2]
    assert solve(oracle((own, [answer])), [own], 1)[0].assignment.tolist() == answer
    reason = refusal(Oracle(Schema.of(SMALL[0].csp), {}), [own])
    assert reason == (
        "latin: the model was built for (constraint edges row, col, box; relation edges neq), "
        "and a latin has (constraint edges row, col; relation edges neq)"
    )


def test_weights_that_do_not_fit_are_refused_with_the_puzzle_they_do_not_fit() -> None:
    graph = replace(star(3), source="g.col:1")
    reason = refusal(Oracle(Schema.of(SMALL[0].csp), {}), [SMALL[0], graph])
    assert reason == (
        "g.col:1: the model was built for (constraint edges row, col, box; relation edges neq), "
        "and a coloring has (constraint edges edge; relation edges neq)"
    )
    board = sudoku.build(2, 2, np.zeros(16, dtype=np.int16))
    reason = refusal(Oracle(Schema.of(parse_one(TERNARY).csp), {}), [board])
    assert reason.startswith("sudoku: the model was built for (constraint edges row, col, less")
    assert "a sudoku has (constraint edges row, col, box; relation edges neq) or (constraint edges nbr;" in reason


def test_more_values_than_a_model_has_embeddings_for_are_refused() -> None:
    model = build("multivalued", SMALL[0], max_values=4)
    assert len(solve(model, SMALL, 1)) == 2
    reason = refusal(model, [*SMALL, replace(SIX, source="six.txt:1")])
    assert reason == "six.txt:1: a puzzle with 6 values, but the model has embeddings for 4"


def test_different_puzzles_are_not_taken_for_one_another() -> None:
    """Two sizes of one puzzle fit one model; a Futoshiki beside them does not."""
    model = oracle(*((p, [solution(p)]) for p in (SMALL[0], SIX)))
    assert all(a.solved for a in solve(model, [SMALL[0], SIX], 1))
    other = futoshiki.build(4, np.array([(0, 1)]), np.zeros(16, dtype=np.int16))
    assert "futoshiki" in refusal(model, [SMALL[0], other, SIX])


# ---- step by step


@pytest.mark.parametrize(
    ("weights", "name", "places"),
    [
        ("sudoku-grouped", "sudoku-9-test", [0, 17, 3]),
        ("futoshiki-grouped", "futoshiki-11-test", [-2, -1]),
        ("coloring-grouped", "coloring-12-test", [-1, -2, -3]),
    ],
)
@pytest.mark.parametrize(("restart", "notes"), [(16, True), (16, False), (0, False)])
def test_a_trace_goes_the_way_of_the_answer(
    weights: str, name: str, places: list[int], restart: int, notes: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Through all attempts, with what is guessed in them."""
    model, boards = open_entry(read_catalog()[weights]).model, data(name)
    tried: list[Any] = []

    def keep(model: Model, batch: Any, *more: Any) -> Any:
        tried.append(batch.givens.numpy())
        return attempt(model, batch, *more)

    monkeypatch.setattr(neural, "attempt", keep)
    attempts: set[int] = set()
    guessing: set[bool] = set()
    for puzzle in (boards[place % len(boards)] for place in places):
        tried.clear()
        [answer] = solve_batch(model, [puzzle], 56, restart=restart, notes=notes)
        guesses = [np.flatnonzero(givens != puzzle.givens).tolist() for givens in tried]
        frames = list(neural.trace(model, puzzle, 56, restart=restart, notes=notes))
        assert [frame.step for frame in frames] == list(range(1, answer.steps + 1))
        assert [frame.solved for frame in frames] == [False] * (answer.steps - 1) + [answer.solved]
        assert [frame.attempt for frame in frames] == [n // (restart or 56) for n in range(answer.steps)]
        for frame in frames:
            assert ([] if frame.guess is None else [frame.guess]) == guesses[frame.attempt]
            assert bool(puzzle.judge(frame.assignment).solved) == frame.solved
        assert frames[-1].assignment.tolist() == answer.assignment.tolist()
        likely = frames[-1].beliefs[np.arange(len(puzzle.givens)), answer.assignment - 1]
        assert likely.tolist() == answer.confidence.tolist()
        attempts.add(frames[-1].attempt)
        guessing |= {frame.guess is None for frame in frames if frame.attempt}
    assert max(attempts) == (3 if restart else 0)
    # Where notes are taken, the second attempt is at the puzzle as it was stated.
    assert (True in guessing) == notes
    assert bool(guessing) == bool(restart)


def test_a_frame_that_is_written_into_changes_no_other() -> None:
    [first, _] = SMALL
    model = oracle((first, [wrong(first), wrong(first), solution(first)]))
    solved = []
    for frame in neural.trace(model, first, 9):  # type: ignore[arg-type]
        frame.assignment[:] = solution(first)
        frame.beliefs[:] = 0
        solved.append(frame.solved)
    assert solved == [False, False, True]


def test_what_comes_between_steps_is_the_callers() -> None:
    torch.manual_seed(0)
    model = build_model(Schema.of(SMALL[0].csp), MODELS["grouped"][1](width=8))
    for _ in neural.trace(model, SMALL[0], 40, restart=16, notes=True):
        assert torch.is_grad_enabled()
    for steps, restart, notes in ((0, 0, False), (100_001, 0, False), (9, -1, False), (9, 0, True), (9, 3, True)):
        with pytest.raises(OutgrowError):  # at once
            neural.trace(model, SMALL[0], steps, restart=restart, notes=notes)


def test_memory_that_is_missing_on_the_way_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def out_of_memory(*arguments: Any) -> Any:
        raise RuntimeError("CUDA out of memory. Tried to allocate 2 GiB")

    monkeypatch.setattr(neural, "attempt", out_of_memory)
    with pytest.raises(OutgrowError, match="out of memory; puzzles of this size"):
        next(neural.trace(oracle((SMALL[0], [])), SMALL[0], 3))  # type: ignore[arg-type]
