"""`outgrow export`: what other programs read is what the data set holds."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pytest
from command import Done, run_command

from outgrow.data import find_dataset
from outgrow.puzzles import parse, parse_one

SETS = ["sudoku-4-test", "sudoku-36-test", "futoshiki-6-valid", "coloring-4-valid", "sudoku-9-hard"]


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    def call(*arguments: object, code: int = 0) -> Done:
        return run_command(monkeypatch, capsys, "export", *arguments, code=code)

    return call


@pytest.mark.parametrize("name", SETS)
def test_csv_holds_puzzles_and_solutions(name: str, run, tmp_path: Path) -> None:
    data = find_dataset(name)
    rows = list(csv.DictReader(run(name, "--limit", 4).out.splitlines(keepends=True)))
    assert len(rows) == 4
    for i, row in enumerate(rows):
        assert (row["number"], row["puzzle"], row["size"]) == (str(i + 1), data.puzzle, str(data.size))
        puzzle = parse_one(row["givens"])
        assert puzzle.givens.tolist() == data[i].givens.tolist()
        words = row["solution"].split() if " " in row["solution"] else list(row["solution"])
        assert len(words) == len(puzzle.givens)
        if words[0].isdigit() and data.size < 10:
            assert [int(w) for w in words] == data.solution(i).tolist()
        for flag, values in data.flags.items():
            assert row[flag] == str(values[i])


@pytest.mark.parametrize("name", SETS)
def test_json_lines_are_read_again(name: str, run, tmp_path: Path) -> None:
    data = find_dataset(name)
    run(name, "--limit", 3, "--out", tmp_path / "a.jsonl")
    text = (tmp_path / "a.jsonl").read_text()
    puzzles = parse(text)
    lines = [json.loads(line) for line in text.splitlines()]
    assert len(puzzles) == len(lines) == 3
    for i, (puzzle, line) in enumerate(zip(puzzles, lines, strict=True)):
        assert puzzle.givens.tolist() == data[i].givens.tolist()
        assert puzzle.judge(np.array(line["assignment"])).solved


def test_the_ending_says_the_format_and_mistakes_are_one_line(run, tmp_path: Path) -> None:
    run("sudoku-4-test", "--limit", 1, "--out", tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().startswith("number,puzzle,size,givens,solution")
    assert run("sudoku-4-test", "--limit", 1, "--to", "jsonl").out.startswith("{")
    for arguments in (
        ["nothing"],
        ["sudoku-4-test", "--out", tmp_path / "none" / "a.csv"],
        ["sudoku-4-test", "--limit", 0],
    ):
        shown = run(*arguments, code=2)
        assert len(shown.err.splitlines()) == 1
