"""A run that was killed anywhere, even while it wrote a checkpoint, ends bit for bit like one that was not."""

from __future__ import annotations

import itertools
import json
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tiny import FORKED, about, assert_same_end, events, grade_generously, read, rich, tiny

from outgrow.errors import OutgrowError
from outgrow.graphs import Puzzles
from outgrow.models import Model
from outgrow.train import Recipe, Validation, loop, train
from outgrow.train.state import State
from outgrow.weights.file import write_tensors

# Dropout, draws, warm-up, decay, both averages, the best and the optimizer: everything that has to go on.
HOW: dict[str, Any] = {
    "updates": 7,
    "warmup": 3,
    "decay": "cosine",
    "ema": 0.7,
    "flat_window": 1,
    "flat_gain": 0.5,
    "seed": 3,
}
RECIPES = {
    "binarized": tiny(model={"dropout": 0.2}, **HOW),
    "multivalued": tiny("multivalued", model={"dropout": 0.2, "max_values": 6}, **HOW),
    # Sets, givens, free steps and noise as well.
    "rich": rich(**HOW),
    "carried": rich("multivalued", data={"valid": ["sudoku-4-valid"]}, **{**HOW, "free_steps": [0, 0], "carry": 3}),
}
NAMES = list(RECIPES)


def grade_alike(model: Model, puzzles: Puzzles, device: object = "cpu", steps: int | None = None) -> Validation:
    return Validation(0.5, 0.5, 1.0)


GRADES: dict[str, Callable[..., Validation]] = {"generously": grade_generously, "alike": grade_alike}


def train_until(place: str, nth: int, recipe: dict[str, Any], run: str, resume: bool, grade: str) -> None:
    """Trains until it gets to that place for the nth time, and dies there as by `kill -9`."""
    times = itertools.count(1)

    def die_in_time() -> None:
        if next(times) == nth:
            os.kill(os.getpid(), signal.SIGKILL)

    step, fsync, replace = State.step, os.fsync, os.replace

    def step_and_die(self: State) -> None:
        step(self)
        die_in_time()

    def replace_and_die(source: str, target: str) -> None:
        if str(target).endswith(".safetensors") and place == "before a rename":
            die_in_time()
        replace(source, target)
        if str(target).endswith(".safetensors") and place == "after a rename":
            die_in_time()

    def write_and_die(descriptor: int) -> None:
        if next(times) == nth:
            os.ftruncate(descriptor, os.fstat(descriptor).st_size // 2)
            os.kill(os.getpid(), signal.SIGKILL)
        fsync(descriptor)

    if place == "after an update":
        State.step = step_and_die
    elif place == "in a write":
        os.fsync = write_and_die
    else:
        os.replace = replace_and_die
    loop.validate = GRADES[grade]  # pyright: ignore[reportAttributeAccessIssue]
    train(Recipe.from_json(recipe), run, device="cpu", resume=resume)


def kill(place: str, nth: int, recipe: Recipe, run: Path, resume: bool = False, grade: str = "generously") -> None:
    child = FORKED.Process(target=train_until, args=(place, nth, recipe.as_json(), str(run), resume, grade))
    child.start()
    child.join(60)
    assert child.exitcode == -signal.SIGKILL


@pytest.fixture(autouse=True)
def generous(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "validate", grade_generously)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Runs that nothing happened to."""
    folder = tmp_path_factory.mktemp("whole")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(loop, "validate", grade_generously)
        for name, recipe in RECIPES.items():
            train(recipe, folder / name, device="cpu")
            tensors = read(folder / name / "checkpoint.safetensors")
            parts = {key.split("/")[0] for key in tensors}
            assert parts - {"carried"} == {"weights", "ema", "average", "best", "optimizer"}
            assert ("carried" in parts) == (recipe.train.carry > 0)
            assert {n.split("/")[1] for n in tensors if n.startswith("optimizer/")} == {"step", "exp_avg", "exp_avg_sq"}
            boards = about(folder / name / "checkpoint.safetensors")["progress"]["boards"]
            assert len(set(boards)) == len(boards) == 4
    return {name: folder / name for name in RECIPES}


# The recipe is written first. Each validation writes weights (they get better every time), then a checkpoint; at the end a checkpoint, then weights.
PLACES = [
    ("after an update", 3),
    ("after an update", 6),
    ("in a write", 4),  # weights, between two checkpoints
    ("in a write", 5),  # the second checkpoint
    ("before a rename", 6),
    ("after a rename", 5),  # the third weights, without their checkpoint
    ("after a rename", 8),  # the last checkpoint
    ("in a write", 10),  # the checkpoint at the end
    ("in a write", 11),  # the chosen weights
]


@pytest.mark.parametrize(("place", "nth"), PLACES, ids=[f"{place} {nth}" for place, nth in PLACES])
def test_a_killed_run_ends_like_one_that_was_not(tmp_path: Path, whole: dict[str, Path], place: str, nth: int) -> None:
    name = NAMES[nth % 3]
    kill(place, nth, RECIPES[name], tmp_path)
    assert events(tmp_path)[-1]["event"] != "end"
    train(RECIPES[name], tmp_path, device="cpu", resume=True)
    assert_same_end(tmp_path, whole[name])


@pytest.mark.parametrize("name", NAMES)
def test_a_run_killed_again_and_again_ends_like_one_that_was_not(
    tmp_path: Path, whole: dict[str, Path], name: str
) -> None:
    kill("in a write", 5, RECIPES[name], tmp_path)  # at update 4: back to 2
    kill("after an update", 3, RECIPES[name], tmp_path, resume=True)  # at update 5: back to 4
    kill("before a rename", 2, RECIPES[name], tmp_path, resume=True)  # at update 6: back to 4
    kill("after a rename", 2, RECIPES[name], tmp_path, resume=True)  # at update 6, which stays
    train(RECIPES[name], tmp_path, device="cpu", resume=True)
    assert_same_end(tmp_path, whole[name])
    starts = [e["update"] for e in events(tmp_path, "start")]
    assert starts == [0, 2, 4, 4, 6]


def test_a_run_killed_when_its_patience_was_out_learns_no_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "validate", grade_alike)
    recipe = RECIPES["binarized"].changed(patience=1)
    train(recipe, tmp_path / "whole", device="cpu")
    kill("after a rename", 3, recipe, tmp_path / "killed", grade="alike")  # weights, checkpoint, checkpoint
    done = train(recipe, tmp_path / "killed", device="cpu", resume=True)
    assert done.stopped == "patience"
    assert_same_end(tmp_path / "whole", tmp_path / "killed")
    assert about(done.weights)["info"]["update"] == 4


@pytest.mark.parametrize("update", [1, 4, 5])
def test_an_interrupted_run_ends_like_one_that_was_not(tmp_path: Path, whole: dict[str, Path], update: int) -> None:
    name = NAMES[update % 3]

    def press(event: Any) -> None:
        if event["event"] == "update" and event["update"] == update:
            os.kill(os.getpid(), signal.SIGINT)

    assert train(RECIPES[name], tmp_path, device="cpu", watch=press).stopped == "interrupted"
    assert train(RECIPES[name], tmp_path, device="cpu", resume=True).stopped == "done"
    assert_same_end(tmp_path, whole[name])


def test_resuming_a_run_that_ended_changes_nothing(tmp_path: Path, whole: dict[str, Path]) -> None:
    train(RECIPES["binarized"], tmp_path, device="cpu")
    first = about(tmp_path / "checkpoint.safetensors")["progress"]["seconds"]
    train(RECIPES["binarized"], tmp_path, device="cpu", resume=True)
    assert_same_end(tmp_path, whole["binarized"])
    assert not [e for e in events(tmp_path, "update") if e["update"] > 7]
    assert len(events(tmp_path, "update")) == 7
    assert about(tmp_path / "checkpoint.safetensors")["progress"]["seconds"] >= first


def test_seconds_are_counted_over_all_restarts(tmp_path: Path) -> None:
    recipe = RECIPES["binarized"]

    def fail(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 3:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(recipe, tmp_path, device="cpu", watch=fail)
    file = tmp_path / "checkpoint.safetensors"
    told = about(file)
    told["progress"]["seconds"] = 1000.0
    write_tensors(file, read(file), told)
    done = train(recipe, tmp_path, device="cpu", resume=True)
    assert 1000 < done.seconds < 1060
    assert events(tmp_path)[-1]["seconds"] > 1000


@pytest.mark.parametrize("keep", [0.0, 0.1, 0.9, 0.999])
def test_a_cut_checkpoint_is_refused_in_a_line(tmp_path: Path, keep: float, whole: dict[str, Path]) -> None:
    for file in whole["binarized"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    file = tmp_path / "checkpoint.safetensors"
    content = file.read_bytes()
    file.write_bytes(content[: int(len(content) * keep)])
    weights = (tmp_path / "weights.safetensors").read_bytes()
    with pytest.raises(OutgrowError) as caught:
        train(RECIPES["binarized"], tmp_path, device="cpu", resume=True)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)
    assert (tmp_path / "weights.safetensors").read_bytes() == weights


def test_a_checkpoint_of_other_shapes_is_refused_in_a_line(tmp_path: Path, whole: dict[str, Path]) -> None:
    for file in whole["binarized"].iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    file = tmp_path / "checkpoint.safetensors"
    file.write_bytes((whole["multivalued"] / file.name).read_bytes())
    with pytest.raises(OutgrowError, match="not a checkpoint of this recipe") as caught:
        train(RECIPES["binarized"], tmp_path, device="cpu", resume=True)
    assert "\n" not in str(caught.value)
    plain = json.loads((tmp_path / "recipe.json").read_text())
    assert Recipe.from_json(plain) == RECIPES["binarized"]
