"""`outgrow evaluate`: what it prints, what it writes, and that a mistake is one line and changes nothing."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import Done, Run, run_command

from outgrow.csp.exact import ExactSolver
from outgrow.data import Dataset, find_dataset
from outgrow.evaluate import (
    Predictions,
    load_predictions,
    paper_figure,
    read_results,
    render_table,
    save_predictions,
    table,
    wilson,
)
from outgrow.evaluate.run import evaluate
from outgrow.graphs import Schema
from outgrow.models import BinarizedConfig, MultivaluedConfig, build_model
from outgrow.weights import save_weights


@cache
def data(name: str) -> Dataset:
    return find_dataset(name)


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Run:
    """The command in this process: torch is loaded once."""

    def call(*arguments: object, code: int = 0) -> Done:
        done = run_command(monkeypatch, capsys, "evaluate", *arguments, code=code)
        if code == 0:
            assert done.err == ""
        return done

    return call


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder to work in, with runs beside it: of binarized models by two seeds, a multi-valued one, one of graphs."""
    here = tmp_path / "here"
    here.mkdir()
    monkeypatch.chdir(here)
    for name, kind, known, seed in (
        ("boards-1", "binarized", "sudoku-4-test", 1),
        ("boards-2", "binarized", "sudoku-4-test", 2),
        ("values-1", "multivalued", "sudoku-4-test", 1),
        ("graphs-1", "binarized", "coloring-4-test", 1),
    ):
        torch.manual_seed(seed)
        form = "nbr" if known.startswith("sudoku") else "units"
        schema = Schema.of(data(known).instance(0, form=form).csp)
        config = (
            BinarizedConfig(width=8, steps=2)
            if kind == "binarized"
            else MultivaluedConfig(width=8, steps=2, max_values=4)
        )
        info = {"recipe": {"name": name.split("-")[0]}, "seed": seed}
        save_weights(tmp_path / name / "weights.safetensors", build_model(schema, config), info)
    return here


BOARDS, SECOND, VALUES, GRAPHS = (
    f"../{n}/weights.safetensors" for n in ("boards-1", "boards-2", "values-1", "graphs-1")
)


def plain(out: str) -> list[dict[str, Any]]:
    """The JSON, without what differs from run to run."""
    found = json.loads(out, parse_constant=pytest.fail)
    for e in found:
        for key in ("seconds", "date"):
            e["provenance"].pop(key, None)
    return found


# ---- figures


def test_a_table_beside_the_papers_figures(folder: Path, run: Run) -> None:
    out = run(BOARDS, "sudoku-4-test", "sudoku-6-test", "--limit", 40).out
    expected = evaluate(BOARDS, {n: data(n) for n in ("sudoku-4-test", "sudoku-6-test")}, limit=40)
    assert out == render_table(table([expected]))
    head, first, second = out.splitlines()
    assert head.split("  ")[0] == "set"
    assert first.split()[:4] == ["sudoku-4-test", "4", "40", "2"]
    assert second.split()[:4] == ["sudoku-6-test", "6", "40", "2"]
    solved = round(expected.scores[0].board * 40)
    assert 0 < solved < 40
    low, high = wilson(solved, 40)
    assert f"{solved / 0.4:.2f} [{100 * low:.2f}, {100 * high:.2f}]" in first
    assert not list(folder.iterdir())
    out = run(GRAPHS, "coloring-4-test", "--limit", 2).out
    assert out.splitlines()[1].endswith(str(paper_figure("coloring", "binarized", 4)))


def test_several_numbers_of_steps_and_the_models_own(folder: Path, run: Run) -> None:
    two = run(BOARDS, "sudoku-4-test", "--limit", 40, "--steps", "4,1").out.splitlines()
    assert [line.split()[3] for line in two] == ["steps", "1", "4"]
    for steps, line in (("1", two[1]), ("4", two[2])):
        assert run(BOARDS, "sudoku-4-test", "--limit", 40, "--steps", steps).out.splitlines()[1].split() == line.split()
    own = run(BOARDS, "sudoku-4-test", "--limit", 40).out
    assert own == run(BOARDS, "sudoku-4-test", "--limit", 40, "--steps", "2").out
    assert len({*two[1:], own.splitlines()[1]}) == 3


def test_a_set_by_name_or_by_file(folder: Path, run: Run) -> None:
    data("sudoku-4-test").save("sudoku-4-test.npz")
    data("sudoku-4-test").save("mine.npz")
    by_name = run(BOARDS, "sudoku-4-test", "--limit", 5).out
    assert run(BOARDS, "sudoku-4-test.npz", "--limit", 5).out == by_name
    assert run(folder / "sudoku-4-test.npz", Path(BOARDS).resolve(), "--limit", 5).out == by_name
    (found,) = plain(run(BOARDS, "mine.npz", "--limit", 5, "--json").out)
    assert found["scores"][0]["dataset"] == "mine"


def test_every_puzzle_is_scored_without_a_limit(folder: Path, run: Run) -> None:
    (found,) = plain(run(BOARDS, "sudoku-4-test", "--json").out)
    assert [s["count"] for s in found["scores"]] == [500]
    (few,) = plain(run(BOARDS, "sudoku-4-test", "--json", "--limit", 10**9).out)
    assert few["scores"] == found["scores"]


def test_json_is_what_the_results_file_holds(folder: Path, run: Run) -> None:
    arguments = (BOARDS, SECOND, VALUES, "sudoku-4-test", "--limit", 20, "--steps", "2,3", "--out", "new/results.json")
    shown = json.loads(run(*arguments, "--json").out)
    assert [e.as_json() for e in read_results("new/results.json")] == shown
    assert [(e["weights"], e["model"], e["recipe"], e["seed"]) for e in shown] == [
        ("boards-1/weights.safetensors", "binarized", "boards", 1),
        ("boards-2/weights.safetensors", "binarized", "boards", 2),
        ("values-1/weights.safetensors", "multivalued", "values", 1),
    ]
    assert [s["steps"] for e in shown for s in e["scores"]] == [2, 3] * 3
    # The table is that of the file.
    assert run(*arguments).out == render_table(table(read_results("new/results.json")))
    assert [p.name for p in folder.rglob("*")] == ["new", "results.json"]


def test_seeds_of_a_recipe_share_a_row(folder: Path, run: Run) -> None:
    boards = [
        json.loads(run(weights, "sudoku-4-test", "--json").out)[0]["scores"][0]["board"] for weights in (BOARDS, SECOND)
    ]
    head, line = run(BOARDS, SECOND, "sudoku-4-test").out.splitlines()
    assert head.split()[:5] == ["set", "size", "count", "steps", "seeds"]
    assert line.split()[4] == "2"
    assert f"{100 * statistics.mean(boards):.2f} ± {100 * statistics.stdev(boards):.2f}" in line
    head, *lines = run(BOARDS, VALUES, SECOND, "sudoku-4-test", "--limit", 5).out.splitlines()
    assert head.split()[0] == "recipe"
    assert [line.split()[0] for line in lines] == ["boards", "values"]


def test_the_same_input_gives_the_same_output(folder: Path, run: Run) -> None:
    for arguments in (
        [BOARDS, SECOND, "sudoku-4-test", "sudoku-6-test", "--limit", 50, "--steps", "1,4"],
        [GRAPHS, "coloring-4-test", "--limit", 6],
    ):
        first, second = (run(*arguments, "--json", "--out", name).out for name in ("a.json", "b.json"))
        assert plain(first) == plain(second)
        assert run(*arguments).out == run(*arguments).out


def test_by_singles(folder: Path, run: Run) -> None:
    options = (BOARDS, "sudoku-9-hard", "sudoku-4-test", "--limit", 12)
    head, hard, four = run(*options, "--by", "singles").out.splitlines()
    assert head.endswith("board %, singles=1  board %, singles=0")
    flags = data("sudoku-9-hard").flags["singles"][:12]
    assert f"of {int(flags.sum())} " in hard
    assert hard.endswith(f"of {12 - int(flags.sum())}")
    assert four.split()[-2:] == ["-", "-"]
    # In the JSON they are without being asked for.
    scores = json.loads(run(*options, "--json").out)[0]["scores"]
    assert {name: c["count"] for name, c in scores[0]["by_flag"].items()} == {
        "singles=1": int(flags.sum()),
        "singles=0": 12 - int(flags.sum()),
    }
    assert "by_flag" not in scores[1]
    run(BOARDS, "sudoku-9-hard", "--limit", 12, "--save", "answers.jsonl")
    again = run("--predictions", "answers.jsonl", "sudoku-9-hard", "--by", "singles").out
    assert again.splitlines()[1].split()[-3:] == hard.split()[-3:]


def test_first_steps(folder: Path, run: Run) -> None:
    options = (BOARDS, "sudoku-4-test", "--limit", 40, "--steps", "2,6", "--first-steps")
    two, six = json.loads(run(*options, "--json", "--out", "results.json").out)[0]["scores"]
    assert "first_steps" not in two
    assert list(six["first_steps"]) == ["solved", "10%", "50%", "90%", "99%", "100%"]
    assert six["first_steps"]["solved"] >= six["board"] * 40 > 0
    out = run(*options).out
    assert out == render_table(table(read_results("results.json")))
    shown = ", ".join(str(n) for n in list(six["first_steps"].values())[1:])
    assert out.splitlines()[2].endswith(f"{shown} of {six['first_steps']['solved']}")


# ---- predictions


@pytest.mark.parametrize(
    ("weights", "names"), [(BOARDS, ["sudoku-4-test", "sudoku-6-test"]), (GRAPHS, ["coloring-4-test"])]
)
def test_saved_predictions_have_the_same_scores(folder: Path, run: Run, weights: str, names: list[str]) -> None:
    options = ["--limit", 5, "--steps", "2,3"]
    (first,) = json.loads(run(weights, *names, *options, "--save", "answers.jsonl", "--json").out)
    (second,) = json.loads(run("--predictions", "answers.jsonl", *names, "--json", "--out", "again.json").out)
    assert second["scores"] == first["scores"]
    assert (second["weights"], second["model"], second["recipe"]) == ("answers.jsonl", "", "")
    assert [e.as_json() for e in read_results("again.json")] == [second]
    lines = [run(weights, *names, *options).out, run("--predictions", "answers.jsonl", *reversed(names)).out]
    # The paper has no figure for a model that is not named.
    cut = [[line.rsplit("  ", 1)[0].split() for line in text.splitlines()] for text in lines]
    assert cut[0] == cut[1]
    found = load_predictions("answers.jsonl")
    assert [(p.dataset, p.steps, len(p.indices)) for p in found] == [(n, t, 5) for n in names for t in (2, 3)]


def test_predictions_made_elsewhere_are_scored_by_the_verdict(folder: Path, run: Run) -> None:
    """Another valid coloring than the stored one is right, and one a node away from it is nearly."""
    colors, outputs, expected = data("coloring-4-test"), [], []
    for index in (10, 13, 29):
        instance, stored = colors[index], colors.solution(index)
        with ExactSolver(instance.csp) as solver:
            far = solver.nearest(stored % 4 + 1, instance.givens).assignment
        assert far is not None
        assert (far == stored).mean() < 0.8
        if outputs:
            node = int(np.flatnonzero(instance.givens == 0)[0])
            far = next(
                near
                for color in (1, 2, 3, 4)
                if not instance.judge(near := np.where(np.arange(len(far)) == node, color, far)).solved
            )
        expected.append(1 - 1 / len(far) if outputs else 1.0)
        outputs.append(far)
    save_predictions("far.jsonl", [Predictions("coloring-4-test", colors.sha256, 32, np.array([10, 13, 29]), outputs)])
    (found,) = json.loads(run("--predictions", "far.jsonl", "coloring-4-test", "--json").out)
    assert found["scores"][0]["board"] == pytest.approx(1 / 3, abs=1e-6)
    assert found["scores"][0]["pointwise"] == pytest.approx(np.mean(expected), abs=1e-6)
    assert found["scores"][0]["pointwise_bound"] is False
    assert ">=" not in run("--predictions", "far.jsonl", "coloring-4-test").out
    (found,) = json.loads(run("--predictions", "far.jsonl", "coloring-4-test", "--json", "--nearest", 0).out)
    assert found["scores"][0]["pointwise_bound"] is True
    assert found["scores"][0]["pointwise"] < np.mean(expected) - 0.1


def test_without_a_search_pointwise_accuracy_is_marked_as_a_bound(folder: Path, run: Run) -> None:
    exact, bound = (
        run(GRAPHS, "coloring-4-test", "--limit", 4, "--nearest", seconds).out.splitlines()[1] for seconds in (10, 0)
    )
    assert ">=" not in exact
    assert bound.count(">=") == 1
    # Where the only solution is known there is nothing to look for.
    assert ">=" not in run(BOARDS, "sudoku-4-test", "--limit", 4, "--nearest", 0).out


def test_predictions_need_no_torch(folder: Path, run: Run) -> None:
    shown = run(BOARDS, "sudoku-4-test", "--limit", 9, "--save", "answers.jsonl").out
    script = "import sys\nsys.modules['torch'] = None\nfrom outgrow.cli.main import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, "evaluate", "--predictions", "answers.jsonl", "sudoku-4-test"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split() == shown.split()


# ---- mistakes

MISTAKES: dict[str, tuple[list[object], str]] = {
    "nothing": ([], "Missing argument 'WEIGHTS... DATASET...'"),
    "no data set": ([BOARDS], "no data set named; 'outgrow data list' shows them"),
    "no weights": (["sudoku-4-test"], "no weights named: files that end in .safetensors"),
    "unknown data set": ([BOARDS, "sudoku-5-test"], "sudoku-5-test.npz: no such data set"),
    "unknown file of a set": ([BOARDS, "none.npz"], "none.npz: no such file"),
    "unknown weights": (["none.safetensors", "sudoku-4-test"], "none.safetensors: no such file"),
    "unknown weights, second": ([BOARDS, "none.safetensors", "sudoku-4-test"], "none.safetensors: no such file"),
    "damaged weights": (["damaged.safetensors", "sudoku-4-test"], "damaged.safetensors: not a safetensors file"),
    "damaged set": ([BOARDS, "damaged.npz"], "damaged.npz: not a dataset file"),
    "a folder of weights": (["folder.safetensors", "sudoku-4-test"], "folder.safetensors: not a file"),
    "weights that lead to themselves": (["loop.safetensors", "sudoku-4-test"], "loop.safetensors: not a safetensors file"),
    "a set twice": ([BOARDS, "sudoku-4-test", "sudoku-4-test"], "sudoku-4-test is named twice"),
    "a set twice, once as a file": ([BOARDS, "sudoku-4-test", "sub/sudoku-4-test.npz"], "sudoku-4-test is named twice"),
    "weights twice": ([BOARDS, BOARDS, "sudoku-4-test"], "a weights file is named twice"),
    "weights twice, in other words": ([BOARDS, f"./{BOARDS}", "sudoku-4-test"], "a weights file is named twice"),
    "a seed twice": ([BOARDS, "copy.safetensors", "sudoku-4-test"], "boards on sudoku-4-test: one seed twice"),
    "another puzzle": ([BOARDS, "coloring-4-test"], "on coloring-4-test: the model was built for"),
    "too many values": ([VALUES, "sudoku-4-test", "sudoku-6-test"], "on sudoku-6-test: puzzles with 6 values"),
    "too many values, second": ([BOARDS, VALUES, "sudoku-6-test"], "values-1/weights.safetensors on sudoku-6-test"),
    "steps: a word": ([BOARDS, "sudoku-4-test", "--steps", "many"], "--steps many: whole numbers from 1 to 100,000"),
    "steps: none": ([BOARDS, "sudoku-4-test", "--steps", "0"], "--steps 0: whole numbers"),
    "steps: less than none": ([BOARDS, "sudoku-4-test", "--steps", "2,-4"], "--steps 2,-4: whole numbers"),
    "steps: too many": ([BOARDS, "sudoku-4-test", "--steps", "100001"], "--steps 100001"),
    "steps: a part": ([BOARDS, "sudoku-4-test", "--steps", "2.5"], "--steps 2.5"),
    "steps: a comma too many": ([BOARDS, "sudoku-4-test", "--steps", "2,"], "--steps 2,"),
    "steps: empty": ([BOARDS, "sudoku-4-test", "--steps", ""], "--steps :"),
    "limit: none": ([BOARDS, "sudoku-4-test", "--limit", "0"], "--limit"),
    "limit: a word": ([BOARDS, "sudoku-4-test", "--limit", "few"], "--limit"),
    "nearest: before now": ([BOARDS, "sudoku-4-test", "--nearest", "-1"], "--nearest -1.0: 0 to 86,400 seconds"),
    "nearest: no number": ([BOARDS, "sudoku-4-test", "--nearest", "nan"], "--nearest nan"),
    "nearest: for ever": ([GRAPHS, "coloring-4-test", "--nearest", "inf"], "--nearest inf"),
    "nearest: a word": ([BOARDS, "sudoku-4-test", "--nearest", "soon"], "--nearest"),
    "device": ([BOARDS, "sudoku-4-test", "--device", "toaster"], "device 'toaster' cannot be used here"),
    "option": ([BOARDS, "sudoku-4-test", "--step", "2"], "No such option"),
    "by no flag": ([BOARDS, "sudoku-4-test", "--by", "singles"], "no flag 'singles' tells puzzles of these sets apart"),
    "by another flag": ([BOARDS, "sudoku-9-hard", "--by", "level"], "no flag 'level' tells puzzles of these sets apart; there is singles"),
    "save of two": ([BOARDS, SECOND, "sudoku-4-test", "--save", "a.jsonl"], "--save keeps the predictions of one"),
    "out is a folder": ([BOARDS, "sudoku-4-test", "--out", "sub"], "'sub' is a directory"),
    "save is a folder": ([BOARDS, "sudoku-4-test", "--save", "sub"], "'sub' is a directory"),
    "out over the weights": (["copy.safetensors", "sudoku-4-test", "--out", "copy.safetensors"], "files of their own"),
    "save over the set": ([BOARDS, "sub/sudoku-4-test.npz", "--save", "./sub/sudoku-4-test.npz"], "files of their own"),
    "out over save": ([BOARDS, "sudoku-4-test", "--out", "a", "--save", "a"], "--save and --out need files of their own"),
    "out over predictions": (["--predictions", "a.jsonl", "sudoku-4-test", "--out", "a.jsonl"], "files of their own"),
    "predictions: none": (["--predictions", "none.jsonl", "sudoku-4-test"], "none.jsonl: no such file"),
    "predictions: damaged": (["--predictions", "damaged.npz", "sudoku-4-test"], "damaged.npz:1: not a line of JSON"),
    "predictions: no set": (["--predictions", "a.jsonl"], "Missing argument"),
    "predictions: another set": (["--predictions", "a.jsonl", "sudoku-6-test"], "predictions for sudoku-4-test; name that"),
    "predictions: a set twice": (["--predictions", "twice.jsonl", "sudoku-4-test"], "two answers to one set"),
    "predictions and weights": (["--predictions", "a.jsonl", BOARDS, "sudoku-4-test"], "scored as they are"),
    "predictions and steps": (["--predictions", "a.jsonl", "sudoku-4-test", "--steps", "2"], "without weights, --steps"),
    "predictions and no steps": (["--predictions", "a.jsonl", "sudoku-4-test", "--steps", ""], "without weights, --steps"),
    "predictions and limit": (["--predictions", "a.jsonl", "sudoku-4-test", "--limit", "2"], "--limit"),
    "predictions and device": (["--predictions", "a.jsonl", "sudoku-4-test", "--device", "cpu"], "--device"),
    "predictions and a restart": (["--predictions", "a.jsonl", "sudoku-4-test", "--restart", "4"], "--restart"),
    "a restart at the end": ([BOARDS, "sudoku-4-test", "--steps", "4", "--restart", "4"], "nothing would start over"),
    "predictions and first steps": (["--predictions", "a.jsonl", "sudoku-4-test", "--first-steps"], "--first-steps or --save"),
    "predictions and save": (["--predictions", "a.jsonl", "sudoku-4-test", "--save", "b.jsonl"], "or --save"),
}  # fmt: skip


@pytest.fixture
def cluttered(folder: Path, run: Run) -> dict[Path, bytes]:
    """Files that are there before a mistake, with their content."""
    Path("folder.safetensors").mkdir()
    Path("sub").mkdir()
    Path("loop.safetensors").symlink_to("loop.safetensors")
    data("sudoku-4-test").save("sub/sudoku-4-test.npz")
    Path("damaged.npz").write_bytes(b"\xff\xfe")
    Path("damaged.safetensors").write_bytes(Path(BOARDS).read_bytes()[:-1])
    Path("copy.safetensors").write_bytes(Path(BOARDS).read_bytes())
    run(BOARDS, "sudoku-4-test", "--limit", 2, "--save", "a.jsonl")
    Path("twice.jsonl").write_bytes(Path("a.jsonl").read_bytes() * 2)
    return {p: p.read_bytes() for p in folder.parent.rglob("*") if p.is_file()}


def test_a_mistake_is_one_line_and_changes_nothing(folder: Path, run: Run, cluttered: dict[Path, bytes]) -> None:
    for name, (arguments, words) in MISTAKES.items():
        extra = [] if "--out" in arguments else ["--out", "results.json"]
        limit = [] if "--predictions" in arguments or "--limit" in arguments else ["--limit", 2]
        done = run(*arguments, *extra, *limit, code=2)
        assert done.out == "", name
        assert done.err.startswith("outgrow: "), name
        assert done.err.count("\n") == 1, done.err
        assert words in done.err, (name, done.err)
        assert {p: p.read_bytes() for p in folder.parent.rglob("*") if p.is_file()} == cluttered, name


def test_figures_are_shown_even_if_they_cannot_be_written(folder: Path, run: Run) -> None:
    Path("file").write_text("")
    done = run(BOARDS, "sudoku-4-test", "--limit", 2, "--out", "file/results.json", code=2)
    assert done.err.count("\n") == 1
    assert "file/results.json: cannot be written" in done.err
    assert done.out == run(BOARDS, "sudoku-4-test", "--limit", 2).out


def test_every_file_is_looked_at_before_any_work(
    folder: Path, run: Run, monkeypatch: pytest.MonkeyPatch, cluttered: dict[Path, bytes]
) -> None:
    monkeypatch.setattr("outgrow.evaluate.run.predict", lambda *a, **k: pytest.fail("worked"))
    for arguments in (
        [BOARDS, "none.safetensors", "sudoku-4-test"],
        [BOARDS, "damaged.safetensors", "sudoku-4-test"],
        [BOARDS, VALUES, "sudoku-4-test", "sudoku-6-test"],
        [BOARDS, "sudoku-4-test", "damaged.npz"],
        [BOARDS, "sudoku-4-test", "--nearest", "nan"],
        [BOARDS, "sudoku-4-test", "--by", "singles"],
    ):
        run(*arguments, code=2)


# ---- help


def test_help_says_what_to_give_it(run: Run) -> None:
    text = run("--help").out
    for words in (
        "Usage: outgrow evaluate [OPTIONS] WEIGHTS... DATASET...",
        "end in .safetensors",
        "outgrow data list",
        "'>=' marks a",
        "outgrow evaluate runs/smoke-0/weights.safetensors sudoku-4-test sudoku-6-test",
        "--predictions answers.jsonl sudoku-9-test",
    ):
        assert words in text
    for option in (
        "--steps",
        "--limit",
        "--device",
        "--nearest",
        "--by",
        "--first-steps",
        "--save",
        "--predictions",
        "--out",
        "--json",
    ):
        assert f"\n  {option} " in text
    assert max(map(len, text.splitlines())) <= 100


def test_as_a_process(folder: Path) -> None:
    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-W", "error", "-m", "outgrow", "evaluate", *arguments],
            capture_output=True,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            check=False,
        )

    done = call(BOARDS, "sudoku-4-test", "--limit", "3", "--json")
    assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)[0]["scores"][0]["count"] == 3
    done = call(BOARDS, "sudoku-5-test")
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (2, "", 1)
