"""Several runs at once, stopped and gone on with, and what is put together of their evaluations."""

from __future__ import annotations

import json
import re
import time
from pathlib import Path

import pytest
from benchmark_files import load_benchmark

from outgrow.data import find_datasets
from outgrow.evaluate import read_results
from outgrow.evaluate.run import evaluate
from outgrow.train.curves import read_log

campaign = load_benchmark("campaign")

RECIPE = """
name = "tiny"
task = "sudoku"
[model]
kind = "grouped"
width = 8
steps = 2
marks = 2
[data]
train = ["sudoku-4-train"]
valid = ["sudoku-4-valid"]
valid_limit = 4
[train]
updates = {updates}
batch = 4
steps = 1
validate_every = 1000
"""
PLAN = """
[[runs]]
recipe = "{recipe}"
seeds = [3, 5]
set = ["train.lr=0.001"]
steps = [2, 4]
restart = 2
test = ["sudoku-6-test", "sudoku-9-hard sudoku-4-test"]
"""


def write(folder: Path, updates: int = 2) -> Path:
    """A plan of two runs of so many updates."""
    (folder / "tiny.toml").write_text(RECIPE.format(updates=updates))
    (folder / "plan.toml").write_text(PLAN.format(recipe=folder / "tiny.toml"))
    return folder / "plan.toml"


def test_runs_are_trained_and_evaluated_and_put_together(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan, out = write(tmp_path), tmp_path / "out"
    assert campaign.main(["train", str(plan), str(out), "--device", "cpu"]) == 0
    weights = {seed: out / f"tiny-{seed}" / "weights.safetensors" for seed in (3, 5)}
    before = {path: path.stat().st_mtime_ns for path in weights.values()}
    assert campaign.main(["train", str(plan), str(out), "--device", "cpu"]) == 0
    assert {path: path.stat().st_mtime_ns for path in weights.values()} == before
    assert campaign.main(["test", str(plan), str(out), "--device", "cpu", "--limit", "3"]) == 0
    found = read_results(out / "tiny.json")
    assert [(e.recipe, e.seed, e.task) for e in found] == [("tiny", 3, "sudoku"), ("tiny", 5, "sudoku")]
    expected = [(name, steps) for name in ("sudoku-4-test", "sudoku-6-test", "sudoku-9-hard") for steps in (2, 4)]
    sets = find_datasets(["sudoku-4-test", "sudoku-6-test", "sudoku-9-hard"])
    for e in found:
        assert [(s.dataset, s.steps) for s in e.scores] == expected
        assert e.provenance["recipe"]["train"]["lr"] == 0.001
        assert e.seed is not None
        alone = evaluate(weights[e.seed], sets, steps=[2, 4], restart=2, limit=3, first_steps=True)
        assert e.as_json()["scores"] == json.loads(json.dumps(alone.as_json()["scores"]))
    # A part that is there is not evaluated again; one that is gone is.
    first, second = campaign._parts(*campaign.read_plans(plan), out / "tiny-5", 3)
    second.unlink()
    kept = first.stat().st_mtime_ns
    capsys.readouterr()
    assert campaign.main(["test", str(plan), str(out), "--device", "cpu", "--limit", "3"]) == 0
    said = capsys.readouterr().out
    assert said.count("ended") == 1
    assert "tiny-5 sudoku-9-hard sudoku-4-test: ended" in said
    assert first.stat().st_mtime_ns == kept
    again = read_results(out / "tiny.json")
    assert [e.as_json()["scores"] for e in again] == [e.as_json()["scores"] for e in found]


def test_what_was_evaluated_otherwise_is_evaluated_again(tmp_path: Path) -> None:
    """With another limit or other steps; nobody gets a results file of the first few puzzles for one of all."""
    plan, out = write(tmp_path), tmp_path / "out"
    plan.write_text(plan.read_text().replace("[3, 5]", "[3]").replace(', "sudoku-9-hard sudoku-4-test"', ""))
    assert campaign.main(["train", str(plan), str(out), "--device", "cpu"]) == 0
    for limit in (2, 3):
        assert campaign.main(["test", str(plan), str(out), "--device", "cpu", "--limit", str(limit)]) == 0
        [found] = read_results(out / "tiny.json")
        assert {s.count for s in found.scores} == {limit}
    plan.write_text(plan.read_text().replace("steps = [2, 4]", "steps = [3]"))
    assert campaign.main(["test", str(plan), str(out), "--device", "cpu", "--limit", "3"]) == 0
    assert [s.steps for s in read_results(out / "tiny.json")[0].scores] == [3]


@pytest.mark.parametrize("options", [["--jobs", "0"], ["--seconds", "-1"], ["--limit", "0"]])
def test_numbers_that_make_no_sense_are_refused(
    options: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert campaign.main(["test", str(write(tmp_path)), str(tmp_path / "out"), *options]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert options[0] in line
    assert not (tmp_path / "out").exists()


def test_a_plan_without_sets_has_nothing_to_test(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(tmp_path)
    plan.write_text("".join(line for line in plan.read_text().splitlines(True) if not line.startswith("test")))
    assert campaign.main(["test", str(plan), str(tmp_path / "out")]) == 2
    assert "names no sets" in capsys.readouterr().err


def test_a_person_may_stop_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def pressed(*_: object, **__: object) -> list[str]:
        raise KeyboardInterrupt

    monkeypatch.setattr(campaign, "run_all", pressed)
    assert campaign.main(["train", str(write(tmp_path)), str(tmp_path / "out")]) == 130


def test_runs_that_time_stops_go_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    plan, out = write(tmp_path, updates=1_000_000), tmp_path / "out"
    logs = [out / f"tiny-{seed}" / "log.jsonl" for seed in (3, 5)]
    clock, patience = time.monotonic, time.monotonic() + 120

    def until_both_learn() -> float:
        """Time stands still until both runs have begun."""
        learn = all(log.is_file() and '"update"' in log.read_text() for log in logs)
        return clock() + (1e6 if learn or clock() > patience else 0)

    monkeypatch.setattr(campaign.time, "monotonic", until_both_learn)
    assert campaign.main(["train", str(plan), str(out), "--device", "cpu", "--seconds", "1000"]) == 0
    monkeypatch.undo()
    done = [json.loads(log.read_text().splitlines()[-1]) for log in logs]
    assert [(event["event"], event["reason"]) for event in done] == [("end", "interrupted")] * 2
    few = max(event["update"] for event in done) + 5
    plan.write_text(plan.read_text().replace("train.lr=0.001", f'train.lr=0.001", "train.updates={few}'))
    assert campaign.main(["train", str(plan), str(out), "--device", "cpu"]) == 1  # another recipe is not gone on with
    for log in logs:
        recipe = log.with_name("recipe.json")
        recipe.write_text(recipe.read_text().replace('"updates": 1000000', f'"updates": {few}'))
    assert campaign.main(["train", str(plan), str(out), "--device", "cpu"]) == 0
    assert [read_log(log.parent).as_json()["updates"] for log in logs] == [few, few]


@pytest.mark.parametrize(
    ("plan", "said"),
    [
        ("", r"tables \[\[runs\]\]"),
        ("[[runs]]\nseeds = [1]\n", "no recipe ''"),
        ('[[runs]]\nrecipe = "nothing"\n', "no recipe 'nothing'"),
        ('[[runs]]\nrecipe = "smoke"\nseeds = []\n', "smoke has no seeds"),
        ('[[runs]]\nrecipe = "smoke"\nsteps = [1.5]\n', "steps"),
        ('[[runs]]\nrecipe = "smoke"\nstep = [1]\n', "step: no such key"),
        ('[[runs]]\nrecipe = "smoke"\n[[runs]]\nrecipe = "smoke"\n', "named twice"),
        ("[[runs]", "not a plan"),
        ('title = "x"\n[[runs]]\nrecipe = "smoke"\n', r"tables \[\[runs\]\]"),
    ],
)
def test_plans_that_are_refused(plan: str, said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "plan.toml"
    path.write_text(plan)
    assert campaign.main(["train", str(path), str(tmp_path / "out")]) == 2
    [line] = capsys.readouterr().err.splitlines()
    assert re.search(said, line), line
    assert not (tmp_path / "out").exists()


def test_a_run_that_fails_is_named(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    plan = write(tmp_path)
    plan.write_text(plan.read_text().replace("train.lr=0.001", "train.lr=-1"))
    assert campaign.main(["train", str(plan), str(tmp_path / "out"), "--device", "cpu"]) == 1
    assert "tiny-3: exit code 2  outgrow: " in capsys.readouterr().out
    assert campaign.main(["test", str(plan), str(tmp_path / "out"), "--device", "cpu"]) == 2
    assert "train first" in capsys.readouterr().err


def test_the_plan_of_what_is_shipped_names_sets_that_are_there() -> None:
    plans = campaign.read_plans(campaign.ROOT / "benchmarks" / "grouped.toml")
    assert [plan.name for plan in plans] == [
        "sudoku-grouped",
        "sudoku-6-grouped",
        "futoshiki-grouped",
        "futoshiki-9-grouped",
        "coloring-grouped",
    ]
    for plan in plans:
        measured = read_results(campaign.ROOT / "results" / f"{plan.name}.json")
        assert [e.seed for e in measured] == list(plan.seeds)
        assert {name for part in plan.test for name in part.split()} == {s.dataset for s in measured[0].scores}
        assert {s.restart for e in measured for s in e.scores} == {0, plan.restart}
        assert set(plan.steps) <= {s.steps for s in measured[0].scores}
