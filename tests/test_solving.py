"""benchmarks/solving.py, with few puzzles."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmark_files import load_benchmark

from outgrow.data import find_dataset


def test_damage_changes_givens_and_nothing_else() -> None:
    solving = load_benchmark("solving")
    rng = np.random.default_rng(1)
    puzzle = find_dataset("futoshiki-6-test")[0]
    before = np.array(puzzle.givens)
    found = [solving.damage(puzzle, rng) for _ in range(40)]
    assert any((p.givens != before).any() for p in found)
    assert all(p.csp is puzzle.csp and p.givens.max() <= 6 and p.givens.min() >= 0 for p in found)
    assert np.array_equal(puzzle.givens, before)


def test_every_answer_to_a_damaged_puzzle_is_judged_anew(monkeypatch: pytest.MonkeyPatch) -> None:
    solving = load_benchmark("solving")
    found = solving.damaged(20)
    assert found["wrong"] == 0
    assert sum(found["answers"].values()) == found["count"] == 20

    class Liar:
        """Calls a board solved that has a given changed."""

        def solve_all(self, puzzles: list) -> list:
            from types import SimpleNamespace

            return [
                SimpleNamespace(status="solved", source="neural", solved=True, assignment=np.ones_like(p.givens))
                for p in puzzles
            ]

    monkeypatch.setattr(solving, "Solver", Liar)
    assert solving.damaged(20)["wrong"] == 20


def test_graphs_have_the_sizes_that_are_published() -> None:
    solving = load_benchmark("solving")
    sizes = {name: (g.number_of_nodes(), g.number_of_edges()) for name, g, _ in solving.published_graphs()}
    # DIMACS counts edges of the queens' graphs in both directions.
    assert sizes["queen5_5"] == (25, 160)
    assert sizes["queen8_8"] == (64, 728)
    assert sizes["queen8_12"] == (96, 1368)
    assert sizes["myciel3"] == (11, 20)
    assert sizes["myciel6"] == (95, 755)


def test_a_report_is_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    solving = load_benchmark("solving")
    clues = tmp_path / "clues.txt"
    clues.write_text("000000010400000000020000000000050407008000300001090000300400200050100000000806000\n")
    out = tmp_path / "out.json"
    assert solving.main(["seventeen", "--clues", str(clues), "--json", str(out)]) == 0
    report = json.loads(out.read_text())
    assert report["seventeen"]["solved"] == report["seventeen"]["count"] == 1
    assert "commit" in report
    assert solving.main(["seventeen", "--clues", str(tmp_path / "none.txt")]) == 2
    assert "none.txt" in capsys.readouterr().err
