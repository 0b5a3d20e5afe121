"""benchmarks/published.py: boards of another program, with a stand-in for it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from benchmark_files import load_benchmark


def test_what_is_solved_is_counted_and_the_boards_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = tmp_path / "sgt-solo"
    # The second one has no solution: the end of its first row has nothing left.
    program.write_text("#!/bin/sh\necho '2x2:1e3b4e2'\necho '2x2:1_2_3d4h'\necho \"$*\" > \"$0.asked\"\n")
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    published = load_benchmark("published")
    assert published.main(["solo-2x2dt", "--count", "2", "--json", str(tmp_path / "out.json")]) == 0
    assert (tmp_path / "sgt-solo.asked").read_text() == "--generate 2 2x2dt\n"
    report = json.loads((tmp_path / "out.json").read_text())
    level = report["levels"]["solo-2x2dt"]
    assert (level["count"], level["solved"], level["weights"]) == (2, 1, "sudoku-grouped")
    assert level["boards"] == ["2x2:1e3b4e2", "2x2:1_2_3d4h"]
    assert level["median_steps"] >= 1
    assert "commit" in report
    monkeypatch.setenv("PATH", "")
    assert published.main(["nothing-3x3"]) == 2
    assert "sgt-nothing is not installed" in capsys.readouterr().err
