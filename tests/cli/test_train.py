"""`outgrow train`: what it writes, what it prints, what it refuses, and how it is stopped."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from safetensors import safe_open
from safetensors.torch import load_file

from outgrow.cli.main import main

RECIPE = """
name = "tiny"
[model]
width = 8
steps = 2
layers = 1
dropout = 0.1
[data]
train = ["sudoku-4-train"]
valid = ["sudoku-4-valid"]
form = "nbr"
limit = 40
valid_limit = 12
[train]
updates = 6
batch = 8
lr = 0.01
validate_every = 2
log_every = 1
"""


class Said(NamedTuple):
    code: int
    out: str
    err: str


Call = Callable[..., Said]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder, with a recipe in it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OUTGROW_COMMIT", "tested")
    (tmp_path / "tiny.toml").write_text(RECIPE)
    return tmp_path


@pytest.fixture
def call(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Call:
    """The whole command, in this process: torch takes seconds to load."""

    def run(*arguments: str, code: int = 0) -> Said:
        monkeypatch.setattr(sys, "argv", ["outgrow", "train", *arguments])
        with pytest.raises(SystemExit) as caught:
            main()
        printed = capsys.readouterr()
        said = Said(int(caught.value.code or 0), printed.out, printed.err)
        assert said.code == code, said.err
        return said

    return run


def refusal(call: Call, *arguments: str) -> str:
    said = call(*arguments, code=2)
    assert said.err.startswith("outgrow: ")
    assert said.err.count("\n") == 1, said.err
    return said.err


def about(file: Path) -> dict[str, Any]:
    with safe_open(file, framework="pt") as stored:
        return json.loads(stored.metadata()["outgrow"])


def assert_same_tensors(one: Path, other: Path) -> None:
    for name in ("weights.safetensors", "checkpoint.safetensors"):
        a, b = load_file(one / name), load_file(other / name)
        assert a.keys() == b.keys()
        assert [key for key in a if not a[key].equal(b[key])] == []


def test_a_recipe_becomes_weights(folder: Path, call: Call) -> None:
    said = call("tiny.toml", "--device", "cpu")
    run = folder / "runs" / "tiny-0"
    assert {file.name for file in run.iterdir()} == {
        "recipe.json",
        "log.jsonl",
        "checkpoint.safetensors",
        "weights.safetensors",
    }
    chosen = about(run / "weights.safetensors")["info"]["chosen"]
    assert said.out.startswith(f"runs/tiny-0/weights.safetensors: the {chosen} weights, ")
    assert "of the boards of sudoku-4-valid solved" in said.out
    lines = said.err.splitlines()
    assert lines[0].startswith("update 0: tiny, ")
    assert "sudoku-4-train (2,000), sudoku-4-valid (200)" in lines[0]
    assert [line.split(":")[0] for line in lines[1:]] == ["update 2", "update 4", "update 6", "update 6"]


def test_without_a_validation_set_nothing_is_said_of_it(folder: Path, call: Call) -> None:
    said = call("tiny.toml", "--device", "cpu", "--set", "valid=[]")
    assert said.out.startswith("runs/tiny-0/weights.safetensors: the ema weights; ")


def test_set_and_out(folder: Path, call: Call) -> None:
    call("tiny.toml", "--device", "cpu", "--set", "lr=0.5", "--set", "train.seed=7", "--set", "kind=multivalued")
    written = json.loads((folder / "runs" / "tiny-7" / "recipe.json").read_text())
    assert (written["train"]["lr"], written["train"]["seed"]) == (0.5, 7)
    assert about(folder / "runs" / "tiny-7" / "weights.safetensors")["kind"] == "multivalued"
    lists = ("--set", "more_givens=[0.1, 0.5]", "--set", "free_steps=[0,2]", "--set", "data.shares=[3]")
    (folder / "grouped.toml").write_text(RECIPE.replace("layers = 1", "kind = 'grouped'"))
    call("grouped.toml", "--device", "cpu", "--out", "some/grouped one", *lists)
    written = json.loads((folder / "some" / "grouped one" / "recipe.json").read_text())
    assert (written["data"]["more_givens"], written["data"]["shares"]) == ([0.1, 0.5], [3.0])
    assert written["train"]["free_steps"] == [0, 2]
    call("tiny.toml", "--device", "cpu", "--out", "some/where else", "--set", "updates=2")
    assert (folder / "some" / "where else" / "weights.safetensors").exists()


def test_json_is_the_log_and_nothing_else(folder: Path, call: Call) -> None:
    said = call("tiny.toml", "--device", "cpu", "--json", "--out", "run")
    events = [json.loads(line) for line in said.out.splitlines()]
    assert events == [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    assert [e["event"] for e in events] == ["start", *(["update", "update", "validate"] * 3), "end"]
    assert said.err == ""


def test_names_are_printed_as_they_are(folder: Path, call: Call) -> None:
    said = call("tiny.toml", "--set", 'name="a[red]c :cat: [b"', "--out", "y", "--set", "updates=2", "--device", "cpu")
    assert "update 0: a[red]c :cat: [b, " in said.err


def test_tensorboard_gets_event_files(folder: Path, call: Call) -> None:
    pytest.importorskip("tensorboard")
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    call("tiny.toml", "--device", "cpu", "--tensorboard", "--out", "run")
    board = folder / "run" / "tensorboard"
    assert [file.name.startswith("events.out.tfevents") for file in board.iterdir()] == [True]
    read = EventAccumulator(str(board))
    read.Reload()
    assert {"update/loss", "update/lr", "update/accuracy", "validate/board", "validate/loss"} <= set(
        read.Tags()["scalars"]
    )
    logged = [json.loads(line) for line in (folder / "run" / "log.jsonl").read_text().splitlines()]
    losses = {e["update"]: e["loss"] for e in logged if e["event"] == "update"}
    assert {e.step: e.value for e in read.Scalars("update/loss")} == pytest.approx(losses, rel=1e-6)
    # A command that is refused leaves no trace.
    refusal(call, "tiny.toml", "--device", "cpu", "--tensorboard", "--out", "run")
    refusal(call, "tiny.toml", "--device", "cpu", "--tensorboard", "--out", "other", "--resume")
    assert len(list(board.iterdir())) == 1
    assert not (folder / "other").exists()


def test_tensorboard_that_is_not_installed_is_asked_for(
    folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "torch.utils.tensorboard", None)
    assert "pip install 'outgrow[tensorboard]'" in refusal(call, "tiny.toml", "--tensorboard", "--out", "run")
    assert not (folder / "run").exists()


def test_a_folder_that_holds_a_run_is_refused(folder: Path, call: Call) -> None:
    call("tiny.toml", "--device", "cpu", "--out", "run")
    before = {file.name: file.read_bytes() for file in (folder / "run").iterdir()}
    said = refusal(call, "tiny.toml", "--device", "cpu", "--out", "run")
    assert "run: holds a run; go on with it (--resume), or name another folder (--out)" in said
    assert "another train.lr" in refusal(call, "tiny.toml", "--out", "run", "--resume", "--set", "lr=0.5")
    assert {file.name: file.read_bytes() for file in (folder / "run").iterdir()} == before


def test_a_cut_checkpoint_is_refused(folder: Path, call: Call) -> None:
    call("tiny.toml", "--device", "cpu", "--out", "run")
    file = folder / "run" / "checkpoint.safetensors"
    content = file.read_bytes()
    for length in (0, 7, 200, len(content) // 2, len(content) - 1):
        file.write_bytes(content[:length])
        assert "run/checkpoint.safetensors: " in refusal(
            call, "tiny.toml", "--device", "cpu", "--out", "run", "--resume"
        )
    file.write_bytes(content)
    call("tiny.toml", "--device", "cpu", "--out", "run", "--resume")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["none.toml"], "none.toml: not a recipe (No such file"),
        (["."], "not a recipe (Is a directory"),
        (["tiny.toml", "--set", "lr"], "write KEY=VALUE"),
        (["tiny.toml", "--set", "updats=3"], "did you mean 'train.updates'?"),
        (["tiny.toml", "--set", "lr=fast"], "a number is expected"),
        (["tiny.toml", "--set", "train=['none']", "--device", "cpu"], "no such data set"),
        (["tiny.toml", "--set", "form=circles", "--device", "cpu"], "data.form is 'circles'"),
        (["tiny.toml", "--device", "abacus"], "device 'abacus' cannot be used here"),
        (["tiny.toml", "--resume"], "nothing to resume here"),
        (["tiny.toml", "--out", "tiny.toml", "--device", "cpu"], "tiny.toml"),
        (["tiny.toml", "--out", "tiny.toml/run", "--device", "cpu"], "tiny.toml/run"),
        (["tiny.toml", "--nonsense"], "--nonsense"),
        ([], "RECIPE"),
    ],
    ids=lambda value: " ".join(value)[:40] if isinstance(value, list) else "",
)
def test_a_mistake_is_a_line_and_exit_code_2(call: Call, arguments: list[str], words: str) -> None:
    assert words in refusal(call, *arguments)


def test_a_run_that_diverges_says_so_and_exits_with_2(folder: Path, call: Call) -> None:
    said = call("tiny.toml", "--device", "cpu", "--out", "run", "--set", "lr=1e10", code=2)
    *before, last = said.err.splitlines()
    assert last.startswith("outgrow: run: training diverges (")
    assert "lower train.lr (now 1e+10)" in last
    assert sum("with half the learning rate" in line for line in before) == 4
    assert said.out == ""
    assert "Traceback" not in said.err


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "outgrow", "train", *arguments],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )


def test_ctrl_c_stops_the_run_and_resume_goes_on_as_if_nothing_had_happened(folder: Path, call: Call) -> None:
    many = ["--set", "updates=50", "--set", "validate_every=20", "--device", "cpu"]
    process = start("tiny.toml", "--out", "run", "--json", *many)
    assert process.stdout is not None
    for line in process.stdout:
        if json.loads(line)["update"] == 3:
            process.send_signal(signal.SIGINT)
            break
    rest, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "Traceback" not in err
    assert json.loads(rest.splitlines()[-1])["reason"] == "interrupted"
    progress = about(folder / "run" / "checkpoint.safetensors")["progress"]
    assert 3 <= progress["update"] < 50
    call("tiny.toml", "--out", "run", "--resume", *many)
    call("tiny.toml", "--out", "whole", *many)
    assert_same_tensors(folder / "run", folder / "whole")


def test_ctrl_c_says_how_to_go_on(folder: Path, call: Call, monkeypatch: pytest.MonkeyPatch) -> None:
    from outgrow.train.state import State

    step = State.step

    def press(self: State) -> None:
        step(self)
        if self.progress.update == 3:
            os.kill(os.getpid(), signal.SIGINT)

    with monkeypatch.context() as patch:
        patch.setattr(State, "step", press)
        said = call("tiny.toml", "--device", "cpu", "--out", "a run", code=130)
    assert said.err.splitlines()[-1] == "outgrow: stopped; go on with outgrow train tiny.toml --out 'a run' --resume"
    assert said.out == ""
    assert call("tiny.toml", "--device", "cpu", "--out", "a run", "--resume").out.startswith(
        "a run/weights.safetensors"
    )


def test_help_names_every_option_with_examples(call: Call) -> None:
    said = call("--help").out
    for word in ("--out", "--set", "--resume", "--device", "--tensorboard", "--json", "torchrun --nproc-per-node"):
        assert word in said
