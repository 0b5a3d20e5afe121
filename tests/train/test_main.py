"""`python -m outgrow.train`: training where only torch, numpy and safetensors are."""

from __future__ import annotations

import os
import runpy
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tiny import about, as_toml, assert_same_end, events, tiny

from outgrow.data import find_dataset
from outgrow.train import loop, train

ROOT = Path(__file__).resolve().parents[2]
# As on a machine that has none of these: importing one fails.
BARE = """
import runpy, sys
for name in ("pysat", "click", "rich", "matplotlib", "tensorboard", "ortools", "hypothesis", "pytest"):
    sys.modules[name] = None
sys.argv[0] = "outgrow.train"
runpy.run_module("outgrow.train", run_name="__main__", alter_sys=True)
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "tiny.toml").write_text(as_toml(tiny()))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def call(monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    monkeypatch.setattr(sys, "argv", ["outgrow.train", *arguments])
    monkeypatch.delitem(sys.modules, "outgrow.train.__main__", raising=False)
    with pytest.raises(SystemExit) as caught:
        runpy.run_module("outgrow.train", run_name="__main__")
    assert isinstance(caught.value.code, int)
    return caught.value.code


def test_it_trains_on_a_bare_machine(folder: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", BARE, "tiny.toml", "--out", "run", "--set", "updates=2", "--device", "cpu"],
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    assert "2/2  end: chosen" in done.stdout
    assert about(folder / "run" / "weights.safetensors")["info"]["update"] == 2


def test_it_prints_what_happens(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert call(monkeypatch, "tiny.toml", "--out", "run", "--device", "cpu", "--set", "seed=2") == 0
    lines = capsys.readouterr().out.splitlines()
    kinds = [line.split()[3] for line in lines]
    assert kinds[0] == "start:"
    assert kinds.count("validate:") == 3
    assert kinds.count("update:") == 1  # one every ten seconds
    assert kinds[-1] == "end:"
    assert events(folder / "run", "start")[0]["recipe"]["train"]["seed"] == 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.toml", "--out", "run"], "none.toml: not a recipe"),
        (["tiny.toml", "--out", "run", "--set", "lrr=1"], "did you mean"),
        (["tiny.toml", "--out", "run", "--resume"], "nothing to resume"),
        (["tiny.toml", "--out", "tiny.toml/run"], "tiny.toml/run"),
        (["tiny.toml", "--out", "run", "--set", "lr=1e20", "--set", "recoveries=0"], "training diverges"),
    ],
)
def test_a_mistake_is_a_line_and_exit_code_2(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    words: str,
) -> None:
    assert call(monkeypatch, *arguments, "--device", "cpu") == 2
    said = capsys.readouterr().err
    assert said.startswith("outgrow: ")
    assert words in said
    assert said.count("\n") == 1


def test_an_interrupted_run_exits_with_130_and_can_be_resumed(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tell, pressed = loop._Trainer.tell, []

    def press(self: Any, event: str, **values: Any) -> None:
        tell(self, event, **values)
        if event == "update" and self.state.progress.update == 3 and not pressed:
            pressed.append(1)
            os.kill(os.getpid(), signal.SIGINT)

    monkeypatch.setattr(loop._Trainer, "tell", press)
    assert call(monkeypatch, "tiny.toml", "--out", "run", "--device", "cpu") == 130
    assert call(monkeypatch, "tiny.toml", "--out", "run", "--device", "cpu", "--resume") == 0
    train(tiny(), folder / "whole", device="cpu")
    assert_same_end(folder / "run", folder / "whole")


def test_ctrl_c_before_the_first_update_leaves_without_a_word(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def press(name: str) -> Any:
        raise KeyboardInterrupt

    monkeypatch.setattr(loop, "find_dataset", press)
    assert call(monkeypatch, "tiny.toml", "--out", "run", "--device", "cpu") == 130
    assert find_dataset("sudoku-4-train")
