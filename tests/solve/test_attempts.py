"""A model that is not sure starts over with other marks; evaluation keeps what it is surest of, solving what the verdict calls solved."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from oracle import NOTHING
from torch import Tensor

import outgrow.evaluate.run as running
import outgrow.solve.neural as neural
from outgrow.data import Dataset, find_dataset
from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate import (
    load_predictions,
    read_results,
    render_table,
    save_predictions,
    score,
    table,
    write_results,
)
from outgrow.evaluate.figures import by_steps
from outgrow.evaluate.run import FirstSteps, evaluate, predict
from outgrow.graphs import Batch, Puzzles, Schema
from outgrow.models import MODELS, Grouped, Model, build_model
from outgrow.models.layers import States
from outgrow.solve import solve_batch
from outgrow.solve.attempts import attempt, guess
from outgrow.weights import save_weights

SURE, UNSURE, VAGUE = 9.0, 0.5, 0.1
# What is said of a puzzle: for each attempt, step after step, whether the answer is right and how sure; the last one stays.
Said = Sequence[Sequence[tuple[bool, float]]]


@cache
def data(name: str = "sudoku-4-test") -> Dataset:
    return find_dataset(name)


def build(kind: str = "grouped", name: str = "sudoku-4-test", marks: int = 2, seed: int = 1) -> Model:
    torch.manual_seed(seed)
    extra = {"grouped": {"marks": marks}, "multivalued": {"max_values": 6}}.get(kind, {})
    schema = Schema.of(data(name)[0].csp)
    return build_model(schema, MODELS[kind][1](**{"width": 8, "steps": 2, **extra}))


class Scripted:
    """A marked model that says what it was told to of the first puzzles of a set, attempt by attempt."""

    def __init__(self, plans: Sequence[Said], name: str = "sudoku-4-test") -> None:
        self.model = build(name=name)
        self.asked: list[tuple[int, list[int], int]] = []  # attempt, puzzles, steps run
        self.extra: list[int] = []  # of every attempt, how many variables were given that the puzzles do not give
        self._plans, self._data = plans, data(name)
        setattr(self.model, "prepare", self._prepare)  # noqa: B010
        setattr(self.model, "start", lambda prepared: NOTHING)  # noqa: B010
        setattr(self.model, "walk", self._walk)  # noqa: B010

    def _prepare(self, batch: Batch, draw: Tensor | None = None) -> Any:
        number = 0 if draw is None else int(draw[0, 0])
        assert draw is None or (draw == number).all()
        return batch, number

    def _walk(self, prepared: Any, steps: int, start: States) -> Iterator[tuple[States, Tensor]]:
        batch, number = prepared
        puzzles = batch.indices.tolist()
        givens = np.concatenate([self._data[i].givens for i in puzzles])
        given = batch.givens.numpy()
        assert (given[givens > 0] == givens[givens > 0]).all()
        self.extra.append(int((given[givens == 0] > 0).sum()))
        for step in range(steps):
            if not step:
                self.asked.append((number, puzzles, 0))
            self.asked[-1] = (number, puzzles, step + 1)
            yield start, torch.cat([self._scores(i, number, step) for i in puzzles])

    def _scores(self, i: int, number: int, step: int) -> Tensor:
        said = self._plans[i][number]
        right, sure = said[min(step, len(said) - 1)]
        answer = self._data.solution(i).astype(np.int64)
        if not right:
            answer = answer % self._data.size + 1  # changes givens
        return sure * (2.0 * torch.nn.functional.one_hot(torch.from_numpy(answer) - 1, self._data.size) - 1)

    def predict(self, steps: Sequence[int], restart: int, **more: Any) -> list[list[bool]]:
        found = predict(self.model, self._data, "x", steps=steps, restart=restart, limit=len(self._plans), **more)
        return [score(self._data, p).solved.tolist() for p in found]


ALWAYS: Said = [[(True, SURE)]]


def test_those_it_is_not_sure_of_start_over() -> None:
    late: Said = [[(False, UNSURE)], [(False, UNSURE), (True, SURE)]]
    model = Scripted([ALWAYS, late, ALWAYS])
    assert model.predict([3, 4, 6], restart=3) == [[True, False, True], [True, False, True], [True, True, True]]
    assert model.asked == [(0, [0, 1, 2], 3), (1, [1], 3)]
    assert model.extra == [0, 1]  # a guess


def test_nobody_starts_over_where_all_are_sure() -> None:
    model = Scripted([ALWAYS, ALWAYS])
    assert model.predict([2, 50], restart=2) == [[True, True], [True, True]]
    assert model.asked == [(0, [0, 1], 2)]


def test_the_answer_it_was_surest_of_counts_and_not_the_last() -> None:
    best_first: Said = [[(True, UNSURE)], [(False, VAGUE)], [(False, VAGUE)]]
    best_second: Said = [[(False, VAGUE)], [(True, UNSURE)], [(False, VAGUE)]]
    model = Scripted([best_first, best_second])
    assert model.predict([2, 4, 5, 6], restart=2) == [[True, False], [True, True], [True, True], [True, True]]
    assert [number for number, _, _ in model.asked] == [0, 1, 2]


def test_no_verdict_is_asked() -> None:
    """A wrong answer that it is surer of counts, and one that it is sure of ends the attempts."""
    surer: Said = [[(True, VAGUE)], [(False, UNSURE)]]
    sure: Said = [[(False, SURE)], [(True, SURE)]]
    model = Scripted([surer, sure])
    assert model.predict([1, 2], restart=1) == [[True, False], [False, False]]
    assert model.asked == [(0, [0, 1], 1), (1, [0], 1)]


def test_one_variable_it_is_not_sure_of_is_enough_to_start_over(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted([[[(True, SURE)], [(True, SURE)]]])
    plain = model._scores

    def all_but_one(i: int, number: int, step: int) -> Tensor:
        scores = plain(i, number, step).clone()
        if not number:
            scores[3] = torch.tensor([0.3, 0.2, -5, -5])
        return scores

    monkeypatch.setattr(model, "_scores", all_but_one)
    model.predict([2], restart=1)
    assert [number for number, _, _ in model.asked] == [0, 1]


@pytest.mark.parametrize(("score", "attempts"), [(1.5, 2), (2.1, 1)])
def test_more_likely_than_not_of_each_variable_is_sure(score: float, attempts: int) -> None:
    """Four values with a score of 1.5 or 2.1 up or down: all are right with 0.45 and 0.62."""
    model = Scripted([[[(True, score)]] * 2])
    model.predict([2], restart=1)
    assert len(model.asked) == attempts


def test_scores_that_are_no_numbers_are_an_answer_too(monkeypatch: pytest.MonkeyPatch) -> None:
    model = Scripted([[[(True, SURE)]] * 2])
    monkeypatch.setattr(model, "_scores", lambda i, number, step: torch.full((16, 4), float("nan")))
    assert model.predict([2], restart=1) == [[False]]


def test_an_attempt_is_no_longer_than_the_steps_that_are_left() -> None:
    never: Said = [[(False, VAGUE)]] * 4
    model = Scripted([never])
    model.predict([10], restart=4)
    assert model.asked == [(0, [0], 4), (1, [0], 4), (2, [0], 2)]
    assert model.predict([10], restart=0) == [[False]]
    assert model.asked[3:] == [(0, [0], 10)]


def test_answers_on_the_way_are_the_best_so_far() -> None:
    """In the middle of an attempt too: what it says then, or what it was surer of before."""
    said: Said = [[(False, VAGUE), (True, UNSURE)], [(False, VAGUE), (False, VAGUE), (False, SURE)]]
    assert Scripted([said]).predict([1, 2, 3, 4], restart=2) == [[False], [True], [True], [True]]
    assert Scripted([said]).predict([3, 5, 6], restart=3) == [[True], [True], [False]]


def test_first_steps_count_through_all_attempts() -> None:
    late: Said = [[(False, UNSURE)], [(False, UNSURE), (True, SURE)]]
    first = FirstSteps()
    Scripted([late, ALWAYS]).predict([6], restart=3, first_steps=first)
    assert first.steps.tolist() == [5, 1]


def test_progress_only_rises_and_ends_with_all() -> None:
    never: Said = [[(False, VAGUE)]] * 3
    told: list[int] = []
    Scripted([ALWAYS, never, ALWAYS, never]).predict([3], restart=1, progress=told.append)
    assert told == [2, 2, 4]


@pytest.mark.parametrize("nodes", [1, 200, 1 << 15])
@pytest.mark.parametrize("name", ["sudoku-4-test", "coloring-4-test"])
def test_a_model_says_in_each_attempt_what_it_says_of_a_puzzle_alone(
    monkeypatch: pytest.MonkeyPatch, name: str, nodes: int
) -> None:
    monkeypatch.setattr(running, "_NODES", {"cpu": nodes})
    model = build(name=name)
    assert isinstance(model, Grouped)
    [found] = predict(model, data(name), name, steps=[6], restart=2, limit=6)
    for i, answer in enumerate(found.assignments):
        tried: list[tuple[float, np.ndarray]] = []
        with torch.no_grad():
            instance = data(name)[i]
            batch = Puzzles([instance.csp], [instance.givens]).batch([0])
            trying = batch
            for number in range(3):
                *_, (_, _, scores) = attempt(model, trying, number, 2)
                trying = guess(model, batch, scores, number + 1)
                chance = scores.sigmoid()
                wanted = torch.nn.functional.one_hot(scores.argmax(1), scores.shape[1]).bool()
                log = torch.where(wanted, chance, 1 - chance).log().sum(1)
                torch.testing.assert_close(model.certainty(scores), log)
                tried.append((float(log.sum()), scores.argmax(1).numpy() + 1))
                assert (log < np.log(0.5)).any()
        best = max(tried, key=lambda t: t[0])
        close = [a for chance, a in tried if chance > best[0] - 1e-4]
        assert any(np.array_equal(answer, a) for a in close)
    plain = predict(model, data(name), name, steps=[2], limit=6)[0]
    same = predict(model, data(name), name, steps=[2], restart=2, limit=6)[0]
    assert all(np.array_equal(a, b) for a, b in zip(plain.assignments, same.assignments, strict=True))


def test_attempts_differ_by_their_marks_alone() -> None:
    model = build()
    batch = Puzzles([data()[0].csp], [data()[0].givens]).batch([0])
    with torch.no_grad():
        first, again, second = (list(attempt(model, batch, number, 2))[-1].scores for number in (0, 0, 1))
        zero = list(model.run(model.prepare(batch, torch.zeros(1, 1, dtype=torch.int64)), 2))[-1]  # pyright: ignore[reportArgumentType]
    assert torch.equal(first, again)
    assert torch.equal(first, zero)
    assert not torch.allclose(first, second, atol=1e-3)


# ---- guesses


def certain(batch: Batch, sure: Sequence[int] = ()) -> Tensor:
    """Scores that are sure of these variables and of no other; the best value is 2, 3 or 4."""
    scores = torch.full((batch.num_variables, batch.max_values), -0.5)
    variables = torch.arange(batch.num_variables)
    scores[variables, 1 + variables % 3] = 0.5
    scores[list(sure)] *= 40
    return scores


def test_a_guess_is_the_best_value_of_one_open_variable() -> None:
    batch = Puzzles.of_instances([data()[k] for k in range(6)]).batch(range(6), "cpu")
    opened = (batch.givens == 0).nonzero().flatten().tolist()
    sure = opened[::2]
    scores = certain(batch, sure)
    chosen: set[int] = set()
    for number in range(1, 40):
        guessed = guess(build(), batch, scores, number).givens
        for k, (before, after) in enumerate(
            zip(batch.split(batch.givens.numpy()), batch.split(guessed.numpy()), strict=True)
        ):
            [changed] = np.flatnonzero(before != after).tolist()
            variable = 16 * k + changed
            assert before[changed] == 0
            assert variable not in sure
            assert after[changed] == int(scores[variable].argmax()) + 1
            chosen.add(variable)
        assert torch.equal(guessed, guess(build(), batch, scores, number).givens)
    assert chosen == set(opened) - set(sure)  # any of them, sooner or later


def test_nothing_is_guessed_where_the_model_is_sure_of_everything() -> None:
    batch = Puzzles.of_instances([data()[k] for k in range(2)]).batch(range(2), "cpu")
    scores = certain(batch, range(16))  # of the first puzzle
    changed = guess(build(), batch, scores, 1).givens != batch.givens
    assert changed.view(2, 16).sum(1).tolist() == [0, 1]
    assert torch.equal(guess(build(), batch, certain(batch, range(32)), 1).givens, batch.givens)


def test_scores_that_are_no_numbers_leave_variables_open() -> None:
    batch = Puzzles.of_instances([data()[0]]).batch([0], "cpu")
    guessed = guess(build(), batch, torch.full((16, 4), torch.nan), 1).givens
    assert (guessed != batch.givens).sum() == 1
    assert guessed.max() <= 4


def test_a_guess_does_not_depend_on_the_puzzles_beside_it() -> None:
    """Of other sizes too."""
    instances = [data("sudoku-6-test")[0], data()[1], data()[2]]
    puzzles = Puzzles.of_instances(instances)
    alone, beside = puzzles.batch([2], "cpu"), puzzles.batch([0, 1, 2], "cpu")
    for number in range(1, 10):
        one = guess(build(), alone, certain(alone), number).givens
        scores = certain(beside)
        scores[:36, 4:] = -0.5
        scores[-16:] = torch.nn.functional.pad(certain(alone), (0, 2), value=-torch.inf)
        assert torch.equal(guess(build(), beside, scores, number).givens[-16:], one)


def test_a_solution_by_a_guess_is_told_as_any_other() -> None:
    """The guess is no given: how sure the model is of it is its own matter."""
    late: Said = [[(False, UNSURE)], [(True, UNSURE)]]
    model = Scripted([late])
    [answer] = solve_batch(model.model, [data()[0]], 4, restart=2)
    assert model.extra == [0, 1]
    assert answer.solved
    assert ((answer.confidence == 1) == (data()[0].givens > 0)).all()


# ---- what is written of it


def test_scores_say_after_how_many_steps_puzzles_started_over(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, build(), {"seed": 0, "recipe": {"name": "tiny"}})
    found = evaluate(path, {"sudoku-4-test": data()}, steps=[2, 4, 6], restart=4, limit=5)
    assert [s.restart for s in found.scores] == [0, 0, 4]
    assert ["restart" in s for s in found.as_json()["scores"]] == [False, False, True]
    write_results(tmp_path / "r.json", [found])
    [back] = read_results(tmp_path / "r.json")
    assert back.as_json() == found.as_json()
    saved = predict(build(), data(), "sudoku-4-test", steps=[2, 4, 6], restart=4, limit=5)
    save_predictions(tmp_path / "p.jsonl", saved)
    again = [score(data(), p) for p in load_predictions(tmp_path / "p.jsonl")]
    assert [(s.restart, s.board) for s in again] == [(s.restart, s.board) for s in found.scores]
    told = (tmp_path / "p.jsonl").read_text()
    for wrong in ("6", "-1", "true", '"4"'):
        (tmp_path / "bad.jsonl").write_text(told.replace('"restart": 4', f'"restart": {wrong}'))
        with pytest.raises(DamagedFile, match="restart is no number"):
            load_predictions(tmp_path / "bad.jsonl")
    shown = render_table(table([found])).splitlines()
    assert "4 each" not in shown[2]
    assert "6 (4 each)" in shown[3]
    text = (tmp_path / "r.json").read_text()
    for wrong in ("6", "-1", "true"):
        (tmp_path / "bad.json").write_text(text.replace('"restart": 4', f'"restart": {wrong}'))
        with pytest.raises(DamagedFile, match="restart"):
            read_results(tmp_path / "bad.json")


def test_figures_with_and_without_starting_over_are_rows_of_their_own(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, build(), {"seed": 0, "recipe": {"name": "tiny"}})
    both = [evaluate(path, {"sudoku-4-test": data()}, steps=[6], restart=n, limit=5) for n in (0, 3)]
    assert [(row.restart, row.seeds) for row in table(both)] == [(0, 1), (3, 1)]
    with pytest.raises(OutgrowError, match="draw them apart"):
        by_steps(both)


def test_a_restart_that_never_comes_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, build(), {"seed": 0, "recipe": {"name": "tiny"}})
    for steps in ([4, 2], []):
        with pytest.raises(OutgrowError, match="nothing would start over"):
            evaluate(path, {"sudoku-4-test": data()}, steps=steps, restart=4, limit=1)


@pytest.mark.parametrize(("kind", "marks"), [("binarized", 0), ("multivalued", 0), ("grouped", 0), ("grouped", 3)])
def test_every_model_comes_another_way_and_the_same_one_each_time(kind: str, marks: int) -> None:
    model = build(kind, marks=marks).eval()
    alone, beside = (Puzzles.of_instances([data()[k] for k in range(3)]).batch(i, "cpu") for i in ([2], [0, 2, 1]))

    def said(batch: Batch, number: int) -> Tensor:
        return list(attempt(model, batch, number, 3))[-1].scores

    with torch.no_grad():
        first, second = said(alone, 1), said(alone, 2)
        assert not torch.allclose(said(alone, 0), first, atol=1e-4)
        assert not torch.allclose(first, second, atol=1e-4)
        torch.manual_seed(7)
        assert torch.equal(said(alone, 1), first)
        torch.testing.assert_close(said(beside, 1)[16:32], first, atol=1e-5, rtol=0)  # whoever is beside it
    [answer] = solve_batch(model, [data()[0]], 4, restart=2)
    assert answer.steps == 4 or answer.solved
    predict(model, data(), "x", steps=[4], restart=2, limit=1)


@pytest.mark.parametrize("restart", [-1, 100_001])
def test_restarts_that_are_refused(restart: int) -> None:
    with pytest.raises(OutgrowError, match="restart"):
        predict(build(), data(), "x", steps=[4], restart=restart, limit=1)
    with pytest.raises(OutgrowError, match="restart"):
        solve_batch(build(), [data()[0]], 4, restart=restart)


# ---- solving


def test_solving_goes_on_with_those_that_are_not_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = itertools.count()
    monkeypatch.setattr(neural.time, "perf_counter", lambda: 3.0 * next(clock))
    late: Said = [[(False, SURE)], [(False, VAGUE), (True, VAGUE)]]
    never: Said = [[(False, SURE)]] * 3
    model = Scripted([ALWAYS, late, never])
    answers = solve_batch(model.model, [data()[i] for i in range(3)], 6, restart=3)
    assert [(a.solved, a.steps) for a in answers] == [(True, 1), (True, 5), (False, 6)]
    assert model.asked == [(0, [0, 1, 2], 3), (1, [1, 2], 3)]
    # Each step takes a second, shared by those that are left: 3 / 3 for all, and for two of them 3 / 2 more.
    assert [a.seconds for a in answers] == pytest.approx([1.0, 2.5, 2.5])
    for i, answer in enumerate(answers[:2]):
        assert answer.assignment.tolist() == data().solution(i).tolist()


def test_solving_uses_up_its_steps_and_no_more() -> None:
    never: Said = [[(False, SURE)]] * 4
    model = Scripted([never])
    [answer] = solve_batch(model.model, [data()[0]], 7, restart=3)
    assert (answer.solved, answer.steps) == (False, 7)
    assert model.asked == [(0, [0], 3), (1, [0], 3), (2, [0], 1)]
