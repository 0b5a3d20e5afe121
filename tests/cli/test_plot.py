"""`outgrow plot`: what it writes, what it prints, what it refuses."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

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
    ],
)
def test_mistakes_are_one_line_and_exit_code_2(runs: Path, arguments: list[str], words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "outgrow", "plot", *arguments], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert len(done.stderr.splitlines()) == 1
    assert words in done.stderr


def test_it_needs_no_torch_and_no_display(runs: Path) -> None:
    script = "import sys\nsys.modules['torch'] = None\nfrom outgrow.cli.main import main\nmain()"
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", script, "plot", "a"],
        env={"PATH": "", "HOME": str(runs)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "a/curves.svg\n"), done.stderr


def test_help_has_examples() -> None:
    text = plot("--help").stdout
    assert "outgrow plot runs/smoke" in text
    assert "--json" in text
