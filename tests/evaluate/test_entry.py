"""An entry of the catalog repeats what the weights file and the results file say, and none is made of a seed that was picked."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch

from outgrow.data import Dataset, find_dataset
from outgrow.errors import OutgrowError
from outgrow.evaluate import Evaluation, read_results, write_results
from outgrow.evaluate.entry import add_entry, make_entry
from outgrow.evaluate.run import evaluate
from outgrow.graphs import Schema
from outgrow.models import BinarizedConfig, build_model
from outgrow.weights import Measured, open_entry, read_catalog, save_weights

VALID = {0: 0.8, 1: 0.7, 2: 0.9}  # seed 0 is the median
SETS = ("sudoku-4-test", "sudoku-4-valid", "sudoku-6-test")


@cache
def data(name: str) -> Dataset:
    return find_dataset(name)


@cache
def sha256(name: str) -> str:
    return data(name).sha256


def info(seed: int, **changes: Any) -> dict[str, Any]:
    """What training writes beside weights."""
    recipe = {
        "name": "tiny",
        "data": {"train": ["sudoku-4-train", "sudoku-6-train"], "valid": ["sudoku-4-valid"]},
        "train": {"seed": seed, "start": "", "lr": 1e-7, "choose": "valid"},
    }
    return {
        "recipe": recipe,
        "seed": seed,
        "seconds": 1.5,
        "data": {n: {"sha256": sha256(n), "count": len(data(n))} for n in ("sudoku-4-train", "sudoku-6-train")},
        "chosen": "ema",
        "chosen_on": ["sudoku-4-valid"],
        "validation": {"board": VALID.get(seed, 0.5), "pointwise": 0.123456789, "loss": 0.5},
        **changes,
    }


def save(path: Path, about: dict[str, Any]) -> Path:
    torch.manual_seed(about["seed"])
    schema = Schema.of(data("sudoku-4-test").instance(0).csp)
    save_weights(path, build_model(schema, BinarizedConfig(width=4, steps=2)), about)
    return path


Made = tuple[Path, Path]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Made]:
    """Weights of the first seed named, and a results file of them all."""
    monkeypatch.chdir(tmp_path)

    def call(
        *seeds: int,
        steps: tuple[int, ...] = (),
        edit: Callable[[int, dict[str, Any]], None] = lambda seed, about: None,
        scores: Callable[[list[Evaluation]], None] = lambda found: None,
    ) -> Made:
        found: list[Evaluation] = []
        for seed in seeds:
            about = info(seed)
            edit(seed, about)
            path = save(tmp_path / f"seed-{seed}.safetensors", about)
            sets = {name: data(name) for name in SETS}
            found.append(evaluate(path, sets, steps=steps, limit=2, nearest_seconds=0))
        scores(found)
        results = tmp_path / "results" / "tiny.json"
        write_results(results, found)
        return tmp_path / f"seed-{seeds[0]}.safetensors", results

    return call


def refusal(weights: Path, results: Path, **more: Any) -> str:
    with pytest.raises(OutgrowError) as caught:
        make_entry(weights, results, name="tiny", **more)
    assert len(str(caught.value).splitlines()) == 1
    return str(caught.value)


def test_an_entry_repeats_its_files(make: Callable[..., Made], tmp_path: Path) -> None:
    weights, results = make(0, 1, 2)
    made = add_entry(weights, results, name="tiny", default=True, folder=tmp_path / "catalog")
    assert read_catalog(tmp_path / "catalog") == {"tiny": made}
    model = open_entry(made, tmp_path / "catalog").model
    assert (tmp_path / "catalog" / made.file).read_bytes() == weights.read_bytes()
    assert made.parameters == sum(p.numel() for p in model.parameters())
    assert (made.puzzle, made.model, made.recipe, made.seed, made.default) == ("sudoku", "binarized", "tiny", 0, True)
    assert made.trained_on == ("sudoku-4-train", "sudoku-6-train")
    assert made.max_trained_values == 6
    assert made.results == "results/tiny.json"
    assert made.steps == ((6, 2),)
    own = read_results(results)[0]
    assert made.scores == tuple(Measured(s.dataset, s.size, s.steps, s.count, s.board) for s in own.scores)
    assert [s.dataset for s in made.scores] == list(SETS)
    assert made.chosen_how == (
        "The median of three seeds by board accuracy on sudoku-4-valid; sudoku-4-valid chose its weights."
    )


def test_an_entry_starts_over_as_its_figures_did(make: Callable[..., Made]) -> None:
    def restarted(*counts: int) -> Callable[[list[Evaluation]], None]:
        def edit(found: list[Evaluation]) -> None:
            for e in found:
                listed = [replace(s, restart=n) for s, n in zip(e.scores, counts, strict=True)]
                object.__setattr__(e, "scores", listed)

        return edit

    sets = len(SETS)
    assert make_entry(*make(0, steps=(8,)), name="tiny").restart == 0
    assert make_entry(*make(0, steps=(8,), scores=restarted(*[2] * sets)), name="tiny").restart == 2
    # Those after no more steps than that have not started over.
    mixed = make(0, steps=(2, 8), scores=restarted(*[0, 2] * sets))
    assert make_entry(*mixed, name="tiny", steps=[(6, 8)]).restart == 2
    wrong = make(0, steps=(8,), scores=restarted(*[2] * (sets - 1), 0))
    assert "with a restart and some without" in refusal(*wrong)
    wrong = make(0, steps=(8,), scores=restarted(*[2] * (sets - 1), 4))
    assert "with a restart and some without" in refusal(*wrong)


def test_a_name_is_taken_once_or_replaced(make: Callable[..., Made], tmp_path: Path) -> None:
    weights, results = make(0)
    add_entry(weights, results, name="tiny", folder=tmp_path)
    with pytest.raises(OutgrowError, match="has 'tiny' already"):
        add_entry(weights, results, name="tiny", folder=tmp_path, default=True)
    assert not read_catalog(tmp_path)["tiny"].default
    add_entry(weights, results, name="tiny", folder=tmp_path, default=True, replace=True)
    assert read_catalog(tmp_path)["tiny"].default
    with pytest.raises(OutgrowError, match="name is 'Tiny'"):
        add_entry(weights, results, name="Tiny", folder=tmp_path)


# ---- the seeds


def test_no_seed_but_the_median_is_taken(make: Callable[..., Made]) -> None:
    weights, results = make(2, 0, 1)
    assert "seed 2 is not the median of 3 on sudoku-4-valid; seed 0 is" in refusal(weights, results)
    assert "seed 1 is not the median" in refusal(weights.with_name("seed-1.safetensors"), results)
    assert make_entry(weights.with_name("seed-0.safetensors"), results, name="tiny").seed == 0


def test_where_boards_are_the_same_the_loss_decides(make: Callable[..., Made]) -> None:
    def edit(seed: int, about: dict[str, Any]) -> None:
        about["validation"] = {"board": 1.0, "pointwise": 1.0, "loss": (0.1, 0.3, 0.2, 0.4)[seed]}

    weights, results = make(0, 1, 2, 3, edit=edit)
    assert "seed 1 is" in refusal(weights, results)  # the second largest loss
    assert make_entry(weights.with_name("seed-1.safetensors"), results, name="tiny").seed == 1


def test_seeds_that_are_the_same_in_all_are_all_the_median(make: Callable[..., Made]) -> None:
    def edit(seed: int, about: dict[str, Any]) -> None:
        about["validation"] = {"board": 1.0, "pointwise": 1.0, "loss": 0.0}

    weights, results = make(0, 1, 2, edit=edit)
    for seed in range(3):
        assert make_entry(weights.with_name(f"seed-{seed}.safetensors"), results, name="tiny").seed == seed


def test_of_four_seeds_the_lower_median_is_taken(make: Callable[..., Made]) -> None:
    weights, results = make(0, 1, 2, 3)  # 0.8 0.7 0.9 0.5
    assert "seed 1 is" in refusal(weights, results)
    made = make_entry(weights.with_name("seed-1.safetensors"), results, name="tiny")
    assert made.chosen_how.startswith("The median of four seeds by board accuracy on sudoku-4-valid; ")


def test_one_seed_is_said_to_be_one(make: Callable[..., Made]) -> None:
    weights, results = make(2)
    made = make_entry(weights, results, name="tiny")
    assert made.chosen_how == "The only seed that was measured; sudoku-4-valid chose its weights."


def test_weights_that_no_set_chose_are_said_to_be_so(make: Callable[..., Made]) -> None:
    def last(seed: int, about: dict[str, Any]) -> None:
        about["recipe"]["train"]["choose"] = about["chosen"] = "last"

    assert make_entry(*make(0, edit=last), name="tiny").chosen_how == (
        "The only seed that was measured; its weights are the last ones."
    )

    def unvalidated(seed: int, about: dict[str, Any]) -> None:
        about.update(chosen_on=[], validation=None)

    assert make_entry(*make(0, edit=unvalidated), name="tiny").chosen_how.endswith("its weights are the ema ones.")
    assert "name one with --chosen-on" in refusal(*make(0, 1, edit=unvalidated))
    assert "never validated" in refusal(*make(0, 1, edit=lambda seed, about: about.update(validation=None)))


def set_board(*boards: float, dataset: str = "sudoku-4-valid", steps: int = 2) -> Callable[[list[Evaluation]], None]:
    """Other scores than measured, as an evaluation would have them."""

    def edit(found: list[Evaluation]) -> None:
        for i, board in enumerate(boards):
            about = found[i].as_json()
            for score in about["scores"]:
                if score["dataset"] == dataset and score["steps"] == steps:
                    score["board"] = board
            Path("one.json").write_text(json.dumps({"format": 1, "evaluations": [about]}))
            [found[i]] = read_results("one.json")

    return edit


def test_a_set_of_the_results_may_choose_among_seeds(make: Callable[..., Made]) -> None:
    weights, results = make(0, 1, 2, scores=set_board(0.9, 0.1, 0.5))
    assert "seed 0 is not the median of 3 on sudoku-4-valid; seed 2 is" in refusal(
        weights, results, chosen_on="sudoku-4-valid"
    )
    made = make_entry(weights.with_name("seed-2.safetensors"), results, name="tiny", chosen_on="sudoku-4-valid")
    assert made.chosen_how.startswith("The median of three seeds by board accuracy on sudoku-4-valid; ")
    assert "no score on sudoku-9-valid" in refusal(weights, results, chosen_on="sudoku-9-valid")


def test_the_set_that_chooses_is_read_after_as_many_steps_as_solving_takes(make: Callable[..., Made]) -> None:
    def edit(found: list[Evaluation]) -> None:
        set_board(0.1, 0.5, 0.9, steps=1)(found)
        set_board(0.5, 0.1, 0.9, steps=3)(found)

    weights, results = make(0, 1, 2, steps=(1, 3), scores=edit)
    assert make_entry(weights, results, name="tiny", chosen_on="sudoku-4-valid", steps=[(9, 3)]).seed == 0
    assert "seed 1 is" in refusal(weights, results, chosen_on="sudoku-4-valid", steps=[(9, 1)])


@pytest.mark.parametrize("name", ["sudoku-4-test", "sudoku-9-hard"])
def test_a_test_set_chooses_nothing(make: Callable[..., Made], name: str) -> None:
    assert f"{name}: a set to test on chooses nothing" in refusal(*make(0, 1, 2), chosen_on=name)


def test_seeds_of_recipes_that_differ_in_more_are_no_seeds_of_one(make: Callable[..., Made]) -> None:
    def edit(seed: int, about: dict[str, Any]) -> None:
        about["recipe"]["train"]["lr"] = 0.1 * (1 + (seed == 2))

    assert "tiny stands for different recipes" in refusal(*make(0, 1, 2, edit=edit))
    make_entry(*make(1, 0), name="tiny")


# ---- whose figures


def test_figures_of_other_weights_are_not_taken(make: Callable[..., Made], tmp_path: Path) -> None:
    _, results = make(0, 1, 2)
    for changes in (
        {"seconds": 1.6},
        {"validation": {"board": 0.8, "pointwise": 0.123456789, "loss": 0.6}},
        {"more": 1},
    ):
        assert "0 times" in refusal(save(tmp_path / "other.safetensors", info(0, **changes)), results)
    other = info(0)["recipe"]
    other["train"]["clip"] = 9.0
    assert "0 times" in refusal(save(tmp_path / "other.safetensors", info(0, recipe=other)), results)
    assert make_entry(save(tmp_path / "same.safetensors", info(0)), results, name="tiny").seed == 0


def test_figures_twice_are_refused(make: Callable[..., Made]) -> None:
    weights, results = make(0)
    write_results(results, read_results(results) * 2)
    assert "2 times" in refusal(weights, results)


def test_numbers_that_are_none_are_compared_as_results_files_keep_them(make: Callable[..., Made]) -> None:
    weights, results = make(0, edit=lambda seed, about: about.update(worst=math.inf, least=1e-9))
    assert make_entry(weights, results, name="tiny").seed == 0


@pytest.mark.parametrize("missing", ["recipe", "data"])
def test_weights_that_do_not_say_where_they_come_from_are_refused(make: Callable[..., Made], missing: str) -> None:
    weights, results = make(0, edit=lambda seed, about: about.update({missing: None}))
    assert "does not say" in refusal(weights, results)


def test_files_that_are_not_there_are_refused(make: Callable[..., Made], tmp_path: Path) -> None:
    weights, results = make(0)
    assert "no such file" in refusal(tmp_path / "none.safetensors", results)
    assert "no such file" in refusal(weights, tmp_path / "none.json")


# ---- what it was trained on


def test_training_sets_must_be_those_of_today(make: Callable[..., Made]) -> None:
    def edit(seed: int, about: dict[str, Any]) -> None:
        about["data"]["sudoku-6-train"]["sha256"] = "0" * 64

    assert "was trained on another sudoku-6-train" in refusal(*make(0, edit=edit))


def test_weights_that_were_fine_tuned_were_trained_on_both(make: Callable[..., Made], tmp_path: Path) -> None:
    def tuned(seed: int, about: dict[str, Any]) -> None:
        about["recipe"]["train"]["start"] = "first.safetensors"
        about["recipe"]["data"]["train"] = ["sudoku-4-train"]

    weights, results = make(0, edit=tuned)
    assert "fine-tuned from first.safetensors, which is not here" in refusal(weights, results)
    save(tmp_path / "first.safetensors", info(5))
    made = make_entry(weights, results, name="tiny")
    assert set(made.trained_on) == {"sudoku-4-train", "sudoku-6-train"}
    assert made.max_trained_values == 6
    about = info(0)
    tuned(0, about)
    save(tmp_path / "first.safetensors", about)  # tuned from itself
    assert "fine-tuned from first.safetensors" in refusal(weights, results)


# ---- steps


def test_steps_by_size_are_those_measured(make: Callable[..., Made]) -> None:
    weights, results = make(0)
    evaluations = json.loads(results.read_text())
    for score, size, steps in zip(evaluations["evaluations"][0]["scores"], (4, 9, 16), (8, 8, 20), strict=True):
        score.update(size=size, steps=steps)
    results.write_text(json.dumps(evaluations))
    assert make_entry(weights, results, name="tiny").steps == ((9, 8), (16, 20))


def test_of_several_numbers_of_steps_one_must_be_named(make: Callable[..., Made]) -> None:
    weights, results = make(0, steps=(1, 3))
    assert "several numbers of steps at size 4" in refusal(weights, results)
    made = make_entry(weights, results, name="tiny", steps=[(4, 1), (6, 3)])
    assert made.steps == ((4, 1), (6, 3))
    assert len(made.scores) == 6
    assert [(m.dataset, m.steps) for m in made.measured()] == [
        ("sudoku-4-test", 1),
        ("sudoku-4-valid", 1),
        ("sudoku-6-test", 3),
    ]
    assert "sudoku-6-test was not measured after 2 steps" in refusal(weights, results, steps=[(4, 1), (6, 2)])
