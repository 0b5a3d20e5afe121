"""`outgrow plot`: what it writes, what it prints, what it refuses; of runs and of results."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from outgrow.cli.plot import command
from outgrow.errors import OutgrowError


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Two runs, `a` and `b`, in the current folder."""
    monkeypatch.chdir(tmp_path)
    for name in "ab":
        lines = [{"event": "start", "update": 0, "recipe": {"name": f"recipe-{name}"}, "parameters": 5}]
        lines += [
            {
                "event": "update",
                "update": u,
                "loss": 30 / u,
                "accuracy": u / 50,
                "lr": 0.001,
                "puzzles_per_second": 9.0,
                "seconds": u,
            }
            for u in (10, 20, 30)
        ]
        lines += [{"event": "validate", "update": u, "weights": "ema", "board": u / 40} for u in (10, 30, 20)]
        (tmp_path / name).mkdir()
        (tmp_path / name / "log.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return tmp_path


def plot(*arguments: str) -> Result:
    return CliRunner().invoke(command, list(arguments))


def test_a_run_is_drawn_beside_its_log(runs: Path) -> None:
    for argument, other in (("a", "b"), ("b/log.jsonl", "a")):
        result = plot(argument)
        assert result.exit_code == 0, result.output
        picture = runs / argument[0] / "curves.svg"
        assert result.stdout == f"{argument[0]}/curves.svg\n"
        assert f"recipe-{argument[0]}" in picture.read_text()
        assert f"recipe-{other}" not in picture.read_text()


def test_several_runs_make_one_picture(runs: Path) -> None:
    assert plot("a", "b", "--out", "both.svg").stdout == "both.svg\n"
    assert "recipe-a  75.0%" in (runs / "both.svg").read_text()
    assert "recipe-b  75.0%" in (runs / "both.svg").read_text()
    assert plot("a", "--out", "one.PNG").exit_code == 0
    assert (runs / "one.PNG").read_bytes().startswith(b"\x89PNG")


def test_json_is_a_line_a_run_and_draws_only_when_asked(runs: Path) -> None:
    lines = [json.loads(line) for line in plot("a", "b", "--json").stdout.splitlines()]
    assert [line["recipe"] for line in lines] == ["recipe-a", "recipe-b"]
    assert {
        k: lines[0][k]
        for k in ("run", "updates", "seconds", "best_board", "best_update", "final_board", "puzzles_per_second")
    } == {
        "run": "a",
        "updates": 30,
        "seconds": 30.0,
        "best_board": 0.75,
        "best_update": 30,
        "final_board": 0.75,
        "puzzles_per_second": 9.0,
    }
    assert not list(runs.rglob("*.svg"))
    assert len(plot("a", "--json", "--out", "a.svg").stdout.splitlines()) == 1
    assert (runs / "a.svg").exists()


# ---- results files


def score(size: int, steps: int, board: float) -> dict[str, Any]:
    head = {"dataset": f"sudoku-{size}-test", "sha256": "0" * 64, "puzzle": "sudoku", "size": size, "count": 9}
    return {**head, "steps": steps, "board": board, "board_low": 0.0, "board_high": 1.0, "pointwise": 0.9, "pointwise_bound": False}  # fmt: skip


@pytest.fixture
def results(runs: Path) -> Path:
    """`first.json` with two seeds of a recipe after 16 and 32 steps, `second.json` with another recipe."""
    for name, recipe, seeds in (("first", "one", 2), ("second", "two", 1)):
        found = [
            {
                "weights": f"w{seed}",
                "model": "binarized",
                "recipe": recipe,
                "seed": seed,
                "task": "",
                "provenance": {"recipe": {"data": {"train": ["sudoku-9-train"]}}},
                "scores": [score(k, t, 0.5 + 0.25 * seed + t / 1000) for k in (12, 16) for t in (16, 32)],
            }
            for seed in range(seeds)
        ]
        (runs / f"{name}.json").write_text(json.dumps({"format": 1, "evaluations": found}))
    return runs


def test_results_are_drawn_beside_their_file_or_where_they_are_told(results: Path) -> None:
    assert plot("first.json").stdout == "first.svg\n"
    text = (results / "first.svg").read_text()
    assert "one (binarized) · 2 seeds · 32 steps" in text
    assert "paper, binarized" in text
    assert plot("first.json", "second.json", "--out", "both.svg").stdout == "both.svg\n"
    assert "two (binarized) · 32 steps" in (results / "both.svg").read_text()
    assert plot("first.json", "--by", "size", "--out", "same.svg").exit_code == 0
    assert (results / "same.svg").read_text() == text
    assert plot("first.json", "--steps", "16", "--out", "less.svg").exit_code == 0
    assert "2 seeds · 16 steps" in (results / "less.svg").read_text()
    assert plot("first.json", "--by", "steps", "--out", "steps.png").stdout == "steps.png\n"
    assert (results / "steps.png").read_bytes().startswith(b"\x89PNG")


def test_json_of_results_is_a_line_of_the_picture_each(results: Path) -> None:
    one, two = (json.loads(line) for line in plot("first.json", "second.json", "--json").stdout.splitlines())
    assert one == {
        "puzzle": "sudoku",
        "recipe": "one",
        "model": "binarized",
        "kind": "test",
        "largest_size_in_training": 9,
        "x": [12, 16],
        "set": ["sudoku-12-test", "sudoku-16-test"],
        "steps": [32, 32],
        "seeds": [2, 2],
        "board": [0.657, 0.657],
        "low": [0.532, 0.532],
        "high": [0.782, 0.782],
    }
    assert (two["recipe"], two["seeds"]) == ("two", [1, 1])
    assert not list(results.rglob("*.svg"))
    lines = plot("second.json", "--by", "steps", "--json", "--out", "a.svg").stdout.splitlines()
    assert [(json.loads(line)["x"], json.loads(line)["board"]) for line in lines] == [([16, 32], [0.516, 0.532])] * 2
    assert (results / "a.svg").exists()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.json"], "none.json: no such file"),
        (["bad.json"], "bad.json: not a results file"),
        (["first.json", "bad.json", "--json"], "bad.json: not a results file"),
        (["first.json", "a", "--out", "x.svg"], "runs and results make different pictures"),
        (["first.json", "second.json"], "--out FILE"),
        (["a", "--by", "size"], "--by and --steps are for results files"),
        (["a", "--steps", "3"], "--by and --steps are for results files"),
        (["first.json", "--by", "steps", "--steps", "3"], "--by steps draws them all"),
        (["first.json", "--by", "color"], "--by"),
        (["first.json", "--steps", "0"], "--steps"),
        (["first.json", "--steps", "7"], "nothing was measured after 7 steps; there is 16, 32"),
        (["first.json", "first.json", "--out", "x.svg"], "one seed twice"),
        (["first.json", "--out", "x.gif"], "must end in .svg, .png or .pdf"),
        (["first.json", "--out", "none/x.svg"], "the folder does not exist"),
    ],
)
def test_mistakes_with_results_are_one_line(results: Path, arguments: list[str], words: str) -> None:
    (results / "bad.json").write_text('{"event": "start"}')
    result = plot(*arguments)
    assert result.exit_code
    said = str(result.exception) if isinstance(result.exception, OutgrowError) else result.stderr.splitlines()[-1]
    assert words in said
    assert "\n" not in said
    assert not result.stdout
    assert not [p for p in results.rglob("*") if p.suffix in (".svg", ".gif")]


def test_a_folder_that_ends_like_results_is_a_run(runs: Path) -> None:
    (runs / "a").rename(runs / "run.json")
    assert plot("run.json").stdout == "run.json/curves.svg\n"


# ---- mistakes


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["nothing"], "nothing: no such folder or log"),
        (["."], "no log.jsonl in it"),
        (["a", "--out", "picture.gif"], "must end in .svg, .png or .pdf"),
        (["a", "--out", "none/picture.svg"], "the folder does not exist"),
        (["damaged"], "damaged/log.jsonl:2: not JSON"),
        (["a", "damaged", "--json"], "damaged/log.jsonl:2: not JSON"),
    ],
)
def test_mistakes_are_named(runs: Path, arguments: list[str], words: str) -> None:
    (runs / "damaged").mkdir()
    (runs / "damaged" / "log.jsonl").write_bytes((runs / "a" / "log.jsonl").read_bytes().replace(b"\n", b"\n\x80\n", 1))
    result = plot(*arguments)
    assert isinstance(result.exception, OutgrowError)
    assert words in str(result.exception)
    assert not result.stdout
    assert not list(runs.rglob("*.svg"))


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "Missing argument"),
        (["a", "b"], "--out FILE"),
        (["nothing"], "nothing: no such folder or log"),
        (["a/log.jsonl", "--out", "picture"], "must end in"),
        (["no.json"], "no.json: no such file"),
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(runs: Path, arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outgrow", "plot", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


@pytest.mark.parametrize(("argument", "out"), [("a", "a/curves.svg"), ("first.json", "first.svg")])
def test_it_needs_no_torch_and_no_display(results: Path, argument: str, out: str) -> None:
    script = "import sys\nsys.modules['torch'] = None\nfrom outgrow.cli.main import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, "plot", argument],
        env={"PATH": "", "HOME": str(results)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, f"{out}\n"), done.stderr


def test_help_has_examples() -> None:
    text = plot("--help").stdout
    assert "outgrow plot runs/smoke" in text
    assert "outgrow plot results/a.json results/b.json --out sizes.svg" in text
    assert "--json" in text
