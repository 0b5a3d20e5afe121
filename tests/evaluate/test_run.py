"""What `predict` says is what the model says of each puzzle by itself; `evaluate` adds nothing but the score and where it comes from."""

from __future__ import annotations

import json
import math
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import outgrow.evaluate.run as running
from outgrow.csp.exact import ExactSolver
from outgrow.csp.verdict import judge_each
from outgrow.data import Dataset, find_dataset, find_datasets
from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate import Evaluation, Predictions, read_results, score, table, write_results
from outgrow.evaluate.metrics import step_quantiles
from outgrow.evaluate.run import FirstSteps, evaluate, form_for, open_weights, predict
from outgrow.graphs import Puzzles, Schema
from outgrow.models import MODELS, Model, build_model
from outgrow.models.layers import States
from outgrow.weights import save_weights

# A set and the form its model sees it in; in the last one puzzles have different numbers of variables.
SEEN = [
    ("sudoku-4-test", "nbr"),
    ("sudoku-4-test", "units"),
    ("futoshiki-6-test", "units"),
    ("coloring-4-test", "units"),
]
KINDS = ["binarized", "multivalued", "grouped"]


@cache
def data(name: str) -> Dataset:
    return find_dataset(name)


def build(kind: str, name: str = "sudoku-4-test", form: str = "units", seed: int = 1, **changes: Any) -> Model:
    torch.manual_seed(seed)
    schema = Schema.of(data(name).instance(0, form=form).csp)
    extra = {"max_values": 6} if kind == "multivalued" else {}
    return build_model(schema, MODELS[kind][1](**{"width": 8, "steps": 2, **extra, **changes}))


def by_hand(model: Model, dataset: Dataset, index: int, form: str, steps: int) -> np.ndarray:
    """The scores (V, K) of a puzzle by itself."""
    instance = dataset.instance(index, form=form)
    with torch.no_grad():
        batch = Puzzles([instance.csp], [instance.givens]).batch([0])
        return list(model.run(model.prepare(batch), steps))[-1].numpy()  # pyright: ignore[reportArgumentType]


def assert_agrees(found: Predictions, model: Model, dataset: Dataset, form: str) -> None:
    """Each answer has the best score; of two that differ by a rounding error either will do."""
    clear = 0
    for index, answer in zip(found.indices.tolist(), found.assignments, strict=True):
        scores = by_hand(model, dataset, index, form, found.steps)
        assert answer.shape == (len(scores),)
        assert answer.min() >= 1
        best = scores.max(1)
        assert (scores[np.arange(len(scores)), answer - 1] >= best - 1e-5).all(), index
        clear += int((np.sort(scores, axis=1)[:, -2] < best - 1e-5).sum())
    assert clear > 0.2 * sum(len(a) for a in found.assignments)


def answers(found: Predictions) -> list[list[int]]:
    return [a.tolist() for a in found.assignments]


# ---- predict


@pytest.mark.parametrize("nodes", [1, 150, 1000, 1 << 15])
@pytest.mark.parametrize(("name", "form"), SEEN)
@pytest.mark.parametrize("kind", KINDS)
def test_batches_do_not_matter(monkeypatch: pytest.MonkeyPatch, kind: str, name: str, form: str, nodes: int) -> None:
    monkeypatch.setattr(running, "_NODES", {"cpu": nodes})
    model = build(kind, name, form)
    (found,) = predict(model, data(name), name, limit=9)
    assert (found.dataset, found.sha256, found.steps) == (name, data(name).sha256, 2)
    assert found.indices.tolist() == list(range(9))
    assert_agrees(found, model, data(name), form)
    if name.startswith("coloring"):
        assert len({len(a) for a in found.assignments}) > 3


@pytest.mark.parametrize(("name", "form"), [SEEN[0], SEEN[3]])
@pytest.mark.parametrize("kind", KINDS)
def test_several_numbers_of_steps_are_as_many_runs(kind: str, name: str, form: str) -> None:
    model = build(kind, name, form)
    together = predict(model, data(name), name, steps=[5, 1, 3, 5], limit=12)
    assert [p.steps for p in together] == [1, 3, 5]
    for found in together:
        (alone,) = predict(model, data(name), name, steps=[found.steps], limit=12)
        assert (alone.steps, answers(alone)) == (found.steps, answers(found))
        assert_agrees(found, model, data(name), form)
    assert answers(together[0]) != answers(together[2])
    (own,) = predict(build(kind, name, form, steps=3), data(name), name, limit=12)
    assert (own.steps, answers(own)) == (3, answers(together[1]))


def test_the_limit_takes_the_first_puzzles() -> None:
    model = build("binarized")
    (every,) = predict(model, data("sudoku-4-test"), "x")
    assert every.indices.tolist() == list(range(500))
    for limit in (1, 7, 499, 500, 501, 10**12):
        (found,) = predict(model, data("sudoku-4-test"), "x", limit=limit)
        assert len(found.indices) == min(limit, 500)
        assert answers(found) == answers(every)[:limit]
    assert len({tuple(a) for a in answers(every)}) > 100  # or there would be nothing to mix up


def test_nothing_is_dropped_out() -> None:
    model = build("binarized", dropout=0.9).train()
    (first,) = predict(model, data("sudoku-4-test"), "x", limit=20)
    (second,) = predict(build("binarized", dropout=0.0), data("sudoku-4-test"), "x", limit=20)
    assert answers(first) == answers(second)
    assert all(p.grad is None for p in model.parameters())


def test_progress_counts_puzzles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(running, "_NODES", {"cpu": 64 * 4})
    seen: list[int] = []
    predict(build("binarized"), data("sudoku-4-test"), "x", limit=10, progress=seen.append)
    assert seen == [4, 8, 10]


@pytest.mark.parametrize("nodes", [1, 200, 333, 5000, 10**9])
def test_portions_are_all_puzzles_once_in_order(nodes: int) -> None:
    puzzles = Puzzles.of_datasets([data("coloring-4-test")], "units", 30)
    costs = (puzzles.num_variables * puzzles.num_values).tolist()
    portions = list(puzzles.portions(nodes))
    assert [i for portion in portions for i in portion] == list(range(30))
    for portion in portions:
        assert len(portion) == 1 or sum(costs[i] for i in portion) <= nodes
    for portion, following in pairwise(portions):
        assert sum(costs[i] for i in [*portion, following[0]]) > nodes  # none is smaller than it need be


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"steps": [0]}, "steps 0: 1 to 100,000 are possible"),
        ({"steps": [4, -1]}, "steps 4, -1"),
        ({"steps": [100_001]}, "steps 100001"),
        ({"limit": 0}, "a limit of 0 puzzles; at least 1"),
        ({"limit": -3}, "a limit of -3"),
    ],
)
def test_what_cannot_be_asked_for(weights: Callable[..., Path], options: dict[str, Any], words: str) -> None:
    with pytest.raises(OutgrowError, match=words):
        predict(build("binarized"), data("sudoku-4-test"), "x", **options)
    with pytest.raises(OutgrowError, match=words):
        evaluate(weights("binarized"), {"x": data("sudoku-4-test")}, **options)


# ---- the first step at which an answer is right


class Scripted:
    """Stands for a model like a known one: its answer to puzzle i is right after the steps right[i], and else wrong."""

    def __init__(self, known: Model, dataset: Dataset, right: list[set[int]]) -> None:
        self.schema, self.max_values, self.config = known.schema, None, known.config
        self.dataset, self.right = dataset, right

    def to(self, device: object = None) -> Scripted:
        return self

    eval = to

    def prepare(self, batch: Any, draw: None = None) -> Any:
        return batch

    def start(self, batch: Any) -> States:
        return States(*(torch.zeros(0, 0) for _ in range(3)))

    def walk(self, batch: Any, steps: int, start: States) -> Iterator[tuple[States, torch.Tensor]]:
        for n in range(1, steps + 1):
            answers = []
            for i in batch.indices.tolist():
                answer = self.dataset.solution(i).astype(np.int64)
                if n not in self.right[i] and i % 2:
                    answer[np.flatnonzero(answer == 1)[0]] = 2  # breaks a rule
                elif n not in self.right[i]:
                    answer = np.array([0, 2, 1, 3, 4])[answer]  # breaks none, but changes givens
                answers.append(answer)
            said = torch.from_numpy(np.concatenate(answers)) - 1
            yield start, torch.nn.functional.one_hot(said, self.dataset.size).float()


@pytest.mark.parametrize("nodes", [1, 200, 1 << 15])
@pytest.mark.parametrize("name", ["sudoku-4-test", "coloring-4-test"])
def test_the_first_step_is_the_first_at_which_the_verdict_holds(
    monkeypatch: pytest.MonkeyPatch, name: str, nodes: int
) -> None:
    monkeypatch.setattr(running, "_NODES", {"cpu": nodes})
    # One is right at once, one later, one now and then, one at the last step, one after it, one never.
    right = [{1, 2, 3, 4, 5, 6}, {4, 5, 6}, {3, 5}, {6}, {7}, set()]
    model: Any = Scripted(build("binarized", name), data(name), right)
    first = FirstSteps()
    found = predict(model, data(name), name, steps=[2, 6], limit=6, first_steps=first)
    assert first.steps.tolist() == [1, 4, 3, 6, 0, 0]
    assert [score(data(name), p).solved.tolist() for p in found] == [
        [True, False, False, False, False, False],
        [True, True, False, True, False, False],
    ]
    assert step_quantiles(first.steps) == {"solved": 4, "10%": 1, "50%": 3, "90%": 6, "99%": 6, "100%": 6}


def test_a_puzzle_found_solved_is_not_judged_again(monkeypatch: pytest.MonkeyPatch) -> None:
    judged: list[int] = []

    def judge(csps: Any, answers: Any, givens: Any) -> Any:
        judged.append(len(csps))
        return judge_each(csps, answers, givens)

    monkeypatch.setattr(running, "judge_each", judge)
    model: Any = Scripted(build("binarized"), data("sudoku-4-test"), [{2, 3}, {1}, {4}])
    predict(model, data("sudoku-4-test"), "x", steps=[6], limit=3, first_steps=FirstSteps())
    assert judged == [3, 2, 1, 1]  # and nobody is left for steps 5 and 6
    predict(model, data("sudoku-4-test"), "x", steps=[6], limit=3)
    assert len(judged) == 4


def test_first_steps_agree_with_a_verdict_on_every_step() -> None:
    model, boards = build("binarized", form="nbr"), data("sudoku-4-test")
    first = FirstSteps()
    predict(model, boards, "x", steps=[8], limit=120, first_steps=first)
    every = predict(model, boards, "x", steps=range(1, 9), limit=120)
    solved = np.stack([score(boards, p).solved for p in every])  # (8, 120)
    assert first.steps.tolist() == np.where(solved.any(0), solved.argmax(0) + 1, 0).tolist()
    assert 0 < solved.any(0).sum() < 120


def test_the_score_after_most_steps_has_the_first_ones(weights: Callable[..., Path], tmp_path: Path) -> None:
    path = weights("binarized", form="nbr")
    sets = {"sudoku-4-test": data("sudoku-4-test"), "sixes": data("sudoku-6-test")}
    found = evaluate(path, sets, steps=[8, 2], limit=30, first_steps=True)
    assert [bool(s.first_steps) for s in found.scores] == [False, True, False, True]
    for name, s in zip(sets, found.scores[1::2], strict=True):
        first = FirstSteps()
        predict(build("binarized", form="nbr"), sets[name], name, steps=[8], limit=30, first_steps=first)
        assert s.first_steps == step_quantiles(first.steps)
        assert s.first_steps["solved"] >= s.board * 30
    assert found.scores[1].first_steps["solved"] > 0
    plain_scores = evaluate(path, sets, steps=[8, 2], limit=30).scores
    assert [s.board for s in plain_scores] == [s.board for s in found.scores]
    assert not any(s.first_steps for s in plain_scores)
    write_results(tmp_path / "results.json", [found])
    assert read_results(tmp_path / "results.json")[0].as_json() == found.as_json()


# ---- which puzzles a model takes


@pytest.mark.parametrize("form", ["nbr", "units"])
@pytest.mark.parametrize("kind", KINDS)
def test_the_form_is_the_one_the_model_was_built_for(kind: str, form: str) -> None:
    for name in ("sudoku-4-test", "futoshiki-6-test"):
        model = build(kind, name, form)
        assert form_for(model, data(name)) == form
        # It belongs to the puzzle, not to its size.
        assert form_for(model, data(name.replace("4", "6"))) == form
    with pytest.raises(OutgrowError):
        form_for(build(kind, "sudoku-4-test", form), data("futoshiki-6-test"))


def one_line(call: Callable[[], Any], *words: str) -> str:
    with pytest.raises(OutgrowError) as caught:
        call()
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    for word in words:
        assert word in line
    return line


def test_another_puzzle_is_refused() -> None:
    model = build("binarized", form="nbr")
    for name in ("futoshiki-6-test", "coloring-4-test"):
        one_line(
            lambda name=name: predict(model, data(name), name),
            "the model was built for (constraint edges nbr; relation edges neq)",
            f"a {name.split('-')[0]} has (constraint edges",
        )
    one_line(
        lambda: form_for(build("binarized", "coloring-4-test"), data("sudoku-4-test")),
        "a sudoku has (constraint edges row, col, box; relation edges neq) or (constraint edges nbr; relation edges neq)",
    )


def test_more_values_than_embeddings_are_refused() -> None:
    model = build("multivalued", max_values=4)
    assert form_for(model, data("sudoku-4-test")) == "units"
    one_line(
        lambda: predict(model, data("sudoku-6-test"), "x"),
        "puzzles with 6 values",
        "embeddings for 4",
        "model.max_values = 6",
    )
    assert form_for(build("multivalued", max_values=6), data("sudoku-6-test")) == "units"
    assert form_for(build("binarized"), data("sudoku-6-test")) == "units"


def test_a_set_without_puzzles_is_refused() -> None:
    empty = Dataset.of([], puzzle="sudoku", size=4, shape=(2, 2))
    one_line(lambda: predict(build("binarized"), empty, "x"), "no puzzles")


# ---- sets by name


def test_sets_go_by_name_or_by_file(tmp_path: Path) -> None:
    mine = tmp_path / "mine.npz"
    data("sudoku-4-test").save(mine)
    found = find_datasets([str(mine), "sudoku-6-test"])
    assert list(found) == ["mine", "sudoku-6-test"]
    assert found["mine"].sha256 == data("sudoku-4-test").sha256
    one_line(lambda: find_datasets(["mine", str(mine)]), "mine is named twice")
    one_line(lambda: find_datasets(["sudoku-4-test", "sudoku-6-test", "sudoku-4-test"]), "sudoku-4-test is named twice")
    one_line(lambda: find_datasets(["sudoku-3-test"]), "sudoku-3-test", "no such data set")
    for name in ("two\nlines.npz", "x" * 201 + ".npz"):
        data("sudoku-4-test").save(tmp_path / name)
        one_line(lambda name=name: find_datasets([str(tmp_path / name)]), "200 printable characters")


# ---- evaluate

RECIPE = {"name": "tiny", "task": "sudoku", "model": {"width": 8}}


@pytest.fixture
def weights(tmp_path: Path) -> Callable[..., Path]:
    def save(kind: str, *arguments: Any, info: Any = None, at: str = "tiny.safetensors", **changes: Any) -> Path:
        save_weights(
            tmp_path / at,
            build(kind, *arguments, **changes),
            {"recipe": RECIPE, "seed": 3, "chosen": "ema"} if info is None else info,
        )
        return tmp_path / at

    return save


def plain(found: Evaluation) -> dict[str, Any]:
    """Without what differs from run to run."""
    content = found.as_json()
    for key in ("seconds", "date"):
        del content["provenance"][key]
    return content


def test_scores_are_those_of_the_predictions(weights: Callable[..., Path]) -> None:
    path = weights("binarized", "sudoku-4-test", "nbr")
    sets = {"sudoku-4-test": data("sudoku-4-test"), "sixes": data("sudoku-6-test")}
    kept: list[list[Predictions]] = []
    seen: list[int] = []
    found = evaluate(path, sets, steps=[2, 4], limit=40, keep=lambda p: kept.append(list(p)), progress=seen.append)
    assert [(s.dataset, s.steps, s.count) for s in found.scores] == [
        ("sudoku-4-test", 2, 40),
        ("sudoku-4-test", 4, 40),
        ("sixes", 2, 40),
        ("sixes", 4, 40),
    ]
    model = build("binarized", "sudoku-4-test", "nbr")
    expected = [p for name, d in sets.items() for p in predict(model, d, name, steps=[2, 4], limit=40)]
    assert [answers(p) for part in kept for p in part] == [answers(p) for p in expected]
    for s, p in zip(found.scores, expected, strict=True):
        again = score(sets[p.dataset], p)
        assert (s.board, s.pointwise, s.sha256) == (again.board, again.pointwise, again.sha256)
        assert (s.solved == again.solved).all()
        assert (s.right == again.right).all()
    assert 0 < found.scores[1].board < 1
    # Every puzzle is predicted once and scored twice.
    assert seen == sorted(seen)
    assert seen[-1] == 40 * 3 * 2
    assert set(range(81, 121)) <= set(seen)


def test_the_source_of_figures_is_kept(weights: Callable[..., Path], tmp_path: Path) -> None:
    found = evaluate(weights("multivalued"), {"sudoku-4-test": data("sudoku-4-test")}, limit=3)
    assert (found.weights, found.model, found.recipe, found.seed, found.task) == (
        "tiny.safetensors",
        "multivalued",
        "tiny",
        3,
        "sudoku",
    )
    assert found.provenance["trained"] == {"seed": 3, "chosen": "ema"}
    assert found.provenance["recipe"] == RECIPE
    assert {"commit", "hardware", "torch", "date", "seconds"} <= set(found.provenance)
    assert "curve" not in found.provenance
    write_results(tmp_path / "results.json", [found])
    assert read_results(tmp_path / "results.json")[0].as_json() == found.as_json()


def test_two_runs_say_the_same(weights: Callable[..., Path]) -> None:
    sets = {name: data(name) for name in ("coloring-4-test", "coloring-5-test")}
    path = weights("binarized", "coloring-4-test")
    first, second = (plain(evaluate(path, sets, steps=[1, 2], limit=4)) for _ in range(2))
    assert json.dumps(first) == json.dumps(second)


@pytest.mark.parametrize(
    ("info", "recipe", "seed"),
    [
        ({}, "tiny.safetensors", None),
        ({"recipe": None, "seed": None}, "tiny.safetensors", None),
        ({"recipe": "text", "seed": "0"}, "tiny.safetensors", None),
        ({"recipe": {"name": ""}, "seed": 1.0}, "tiny.safetensors", None),
        ({"recipe": {"name": 5, "task": None}, "seed": True}, "5", None),
        ({"recipe": {"name": "a"}, "seed": 7, "validation": {"loss": math.nan, "board": [math.inf]}}, "a", 7),
    ],
)
def test_whatever_weights_say_of_themselves_makes_a_results_file(
    weights: Callable[..., Path], tmp_path: Path, info: dict[str, Any], recipe: str, seed: int | None
) -> None:
    found = evaluate(weights("binarized", info=info), {"sudoku-4-test": data("sudoku-4-test")}, limit=2)
    assert (found.recipe, found.seed, found.task) == (recipe, seed, "")
    if "validation" in info:
        assert found.provenance["trained"]["validation"] == {"loss": None, "board": [None]}
    write_results(tmp_path / "results.json", [found])
    assert len(read_results(tmp_path / "results.json")) == 1
    json.loads(json.dumps(found.as_json()), parse_constant=pytest.fail)


def test_files_that_do_not_say_their_recipe_are_not_seeds_of_one(weights: Callable[..., Path]) -> None:
    sets = {"sudoku-4-test": data("sudoku-4-test")}
    done = [evaluate(weights("binarized", info={}, at=f"{n}/weights.safetensors"), sets, limit=2) for n in "ab"]
    assert [e.weights for e in done] == ["a/weights.safetensors", "b/weights.safetensors"]
    assert [row.recipe for row in table(done)] == ["a/weights.safetensors", "b/weights.safetensors"]


def test_the_curve_of_the_run_comes_along(weights: Callable[..., Path], tmp_path: Path) -> None:
    sets = {"sudoku-4-test": data("sudoku-4-test")}
    path = weights("binarized", at="run/weights.safetensors")
    log = tmp_path / "run" / "log.jsonl"
    lines = [
        {"event": "start", "update": 0, "recipe": {"name": "tiny"}, "parameters": 5},
        {"event": "validate", "update": 10, "weights": "ema", "board": 0.75},  # no loss: NaN in the curve
    ]
    log.write_text("".join(json.dumps(line) + "\n" for line in lines))
    found = evaluate(path, sets, limit=2)
    assert found.provenance["curve"]["best_board"] == 0.75
    assert found.provenance["curve"]["validations"]["loss"] == [None]
    write_results(tmp_path / "results.json", [found])
    log.write_bytes(b"something else\n\n\n")
    assert "curve" not in evaluate(path, sets, limit=2).provenance


def test_weights_that_cannot_take_a_set_are_refused_before_any_work(
    weights: Callable[..., Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "predict", lambda *a, **k: pytest.fail("worked"))
    path = weights("multivalued", max_values=4)
    for name in ("sudoku-6-test", "coloring-4-test"):
        sets = {"sudoku-4-test": data("sudoku-4-test"), "mine": data(name)}
        line = one_line(lambda sets=sets: evaluate(path, sets), "mine")
        assert line.startswith(f"{path} on mine: ")
        assert line == one_line(lambda sets=sets: open_weights(path, sets))
    one_line(
        lambda: evaluate(path, {"none": Dataset.of([], puzzle="sudoku", size=4, shape=(2, 2))}), "none: no puzzles"
    )
    with pytest.raises(DamagedFile, match="no such file"):
        evaluate(path.with_name("nowhere"), {})


@pytest.mark.parametrize("seconds", [math.nan, math.inf, -1.0, 1e9])
def test_time_is_a_number(weights: Callable[..., Path], seconds: float) -> None:
    sets = {"coloring-4-test": data("coloring-4-test")}
    one_line(
        lambda: evaluate(weights("binarized", "coloring-4-test"), sets, limit=1, nearest_seconds=seconds), "seconds"
    )


def test_where_solutions_are_many_the_nearest_counts(weights: Callable[..., Path]) -> None:
    colors = data("coloring-4-test")
    path = weights("binarized", "coloring-4-test")
    kept: list[Predictions] = []
    exact = evaluate(path, {"coloring-4-test": colors}, limit=4, keep=kept.extend).scores[0]
    bound = evaluate(path, {"coloring-4-test": colors}, limit=4, nearest_seconds=0).scores[0]
    assert not exact.pointwise_bound
    assert bound.pointwise_bound
    stored, nearest = [], []
    for index, output in zip(kept[0].indices.tolist(), kept[0].assignments, strict=True):
        instance = colors[index]
        stored.append((output == colors.solution(index)).mean())
        with ExactSolver(instance.csp) as solver:
            found = solver.nearest(output, instance.givens)
        assert found.status == "optimal"
        assert found.assignment is not None
        assert instance.judge(found.assignment).solved
        nearest.append((output == found.assignment).mean())
    assert bound.right.tolist() == stored
    assert exact.right.tolist() == nearest
    assert exact.pointwise >= bound.pointwise


# ---- where click, rich, python-sat and matplotlib are missing

BARE = """
import json, sys
for name in ("pysat", "click", "rich", "matplotlib"):
    sys.modules[name] = None
from outgrow.evaluate.__main__ import main
for arguments in json.load(sys.stdin):
    sys.argv[1:] = arguments
    code = main()
    print(f"exit code {code}", flush=True)
    print(f"exit code {code}", file=sys.stderr, flush=True)
"""


def test_a_bare_machine_evaluates(weights: Callable[..., Path], tmp_path: Path) -> None:
    boards = weights("binarized", "sudoku-4-test", "nbr", at="boards.safetensors")
    graphs = weights("binarized", "coloring-4-test", at="graphs.safetensors")
    common = ["--device", "cpu", "--limit", "30", "--out"]
    calls = [
        [str(boards), "sudoku-4-test", "--steps", "2", "4", "--first-steps", *common, "boards.json"],
        [str(graphs), "coloring-4-test", *common, "exact.json"],
        [str(graphs), "coloring-4-test", *common, "bound.json", "--nearest-seconds", "0"],
        ["none.safetensors", "sudoku-4-test", *common, "none.json"],
        [str(boards), "sudoku-4-test", "sudoku-4-test", *common, "none.json"],
        [str(boards), "sudoku-4-test", "--steps", "0", *common, "none.json"],
        [str(boards), "sudoku-4-test", "--device", "toaster"],
        [str(boards), "sudoku-9-hard", "--by", "singles", *common, "hard.json", "--limit", "5"],
        [str(boards), "sudoku-4-test", "--by", "singles", *common, "none.json"],
    ]
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", BARE],
        input=json.dumps(calls),
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        check=True,
    )
    printed = [part.splitlines() for part in re.split("exit code .\n", done.stdout)]
    errors = [part.splitlines() for part in re.split("exit code .\n", done.stderr)]
    assert re.findall("exit code (.)", done.stdout) == list("020222202")
    # Boards: as anywhere else.
    head, *lines = printed[0]
    assert head.split()[:4] == ["set", "size", "count", "steps"]
    assert [line.split()[:4] for line in lines] == [["sudoku-4-test", "4", "30", steps] for steps in "24"]
    (stored,) = read_results(tmp_path / "boards.json")
    here = evaluate(boards, {"sudoku-4-test": data("sudoku-4-test")}, steps=[2, 4], limit=30, first_steps=True)
    assert here.scores[1].first_steps["solved"]
    assert "first solved after steps" in head
    assert stored.as_json()["scores"] == here.as_json()["scores"]
    # The nearest solution needs python-sat, a bound does not.
    assert "pip install python-sat" in errors[1][0]
    assert ">=" in printed[2][1]
    assert read_results(tmp_path / "bound.json")[0].scores[0].pointwise_bound
    # Mistakes are one line, and nothing is printed or written.
    assert [len(lines) for lines in errors] == [0, 1, 0, 1, 1, 1, 1, 0, 1, 0]
    assert [len(lines) for lines in printed] == [3, 0, 2, 0, 0, 0, 0, 2, 0, 0]
    assert errors[3] == ["outgrow: none.safetensors: no such file"]
    for number, words in ((4, "named twice"), (5, "steps 0"), (6, "toaster"), (8, "no flag 'singles'")):
        assert words in errors[number][0]
    assert {p.name for p in tmp_path.glob("*.json")} == {"boards.json", "bound.json", "hard.json"}
    # With and without a flag.
    assert "board %, singles=1" in printed[7][0]
    counts = read_results(tmp_path / "hard.json")[0].scores[0].by_flag
    assert sum(c["count"] for c in counts.values()) == 5


def test_products_are_exact_on_a_cpu_whatever_was_set(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    save_weights(tmp_path / "w.safetensors", build("grouped"), {})
    seen: list[str] = []
    during = running.predict

    def watch(*arguments: Any, **options: Any) -> Any:
        seen.append(torch.get_float32_matmul_precision())
        return during(*arguments, **options)

    monkeypatch.setattr(running, "predict", watch)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        found = evaluate(tmp_path / "w.safetensors", {"sudoku-4-test": data("sudoku-4-test")}, steps=[1], limit=1)
        assert (seen, found.provenance["precision"]) == (["highest"], "fp32")
        assert torch.get_float32_matmul_precision() == "medium"
    finally:
        torch.set_float32_matmul_precision(before)
