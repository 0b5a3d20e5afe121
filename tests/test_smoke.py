"""The smoke recipe, as its reader runs it: small boards are learnt in a minute or two, and bigger ones are solved."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def outgrow(*arguments: object) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "outgrow", *map(str, arguments)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_small_boards_are_learnt_in_two_minutes_and_bigger_ones_are_solved(tmp_path: Path) -> None:
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    outgrow("train", "recipes/smoke.toml", "--device", "cpu", "--out", tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    # Seconds of one core: other tests beside this one do not count.
    assert after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 120
    weights = tmp_path / "weights.safetensors"
    (found,) = json.loads(outgrow("evaluate", weights, "sudoku-4-test", "sudoku-6-test", "--device", "cpu", "--json"))
    boards = {score["dataset"]: score["board"] for score in found["scores"]}
    assert {score["count"] for score in found["scores"]} == {500}
    assert boards["sudoku-4-test"] >= 0.95
    assert boards["sudoku-6-test"] > 0.5  # of two more values than it ever saw; guessing solves none
