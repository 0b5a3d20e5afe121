"""Results files and tables say what was measured."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate import (
    Evaluation,
    Figure,
    Score,
    cells,
    read_results,
    render_table,
    table,
    wilson,
    write_results,
)


def scored(dataset: str = "sudoku-16-test", good: int = 3, count: int = 4, **changes: Any) -> Score:
    low, high = wilson(good, count)
    fields = {
        "dataset": dataset,
        "sha256": "0" * 64,
        "puzzle": dataset.split("-")[0],
        "size": int(dataset.split("-")[1]),
        "count": count,
        "steps": 32,
        "board": good / count,
        "board_low": low,
        "board_high": high,
        "pointwise": 0.9,
        "pointwise_bound": False,
        "solved": np.arange(count) < good,
        "right": np.full(count, 0.9),
    }
    return Score(**{**fields, **changes})


def evaluation(*scores: Score, **changes: Any) -> Evaluation:
    fields = {"weights": "w0", "model": "binarized", "recipe": "sudoku-9-binarized", "seed": 0, "scores": scores}
    return Evaluation(**{**fields, **changes})


# ---- results files


def test_results_come_back(tmp_path: Path) -> None:
    path = tmp_path / "results" / "a.json"
    done = [
        evaluation(scored(), scored(steps=64, pointwise_bound=True), provenance={"seconds": 1.5, "commit": None}),
        evaluation(seed=None, task="sudoku-24"),
    ]
    write_results(path, done)
    again = read_results(path)
    assert [e.as_json() for e in again] == [e.as_json() for e in done]
    assert cells(table(again)) == cells(table(done))
    assert [p.name for p in path.parent.iterdir()] == ["a.json"]


def test_the_file_is_the_same_every_time_and_short(tmp_path: Path) -> None:
    score = scored(pointwise=1 / 3, count=3000, good=1000)
    first = evaluation(score, provenance={"b": {"x": 2 / 3}, "a": (1 / 3,)})
    second = evaluation(score, provenance={"a": (1 / 3,), "b": {"x": 2 / 3}})
    write_results(tmp_path / "a.json", [first])
    write_results(tmp_path / "b.json", [second])
    text = (tmp_path / "a.json").read_text()
    assert text == (tmp_path / "b.json").read_text()
    assert len(text) < 2000
    content = json.loads(text)
    assert list(content) == ["format", "evaluations"]
    (e,) = content["evaluations"]
    assert list(e) == ["weights", "model", "recipe", "seed", "task", "provenance", "scores"]
    assert e["provenance"] == {"a": [0.333333], "b": {"x": 0.666667}}
    assert e["scores"][0] == {
        "dataset": "sudoku-16-test",
        "sha256": "0" * 64,
        "puzzle": "sudoku",
        "size": 16,
        "count": 3000,
        "steps": 32,
        "board": 0.333333,
        "board_low": round(score.board_low, 6),
        "board_high": round(score.board_high, 6),
        "pointwise": 0.333333,
        "pointwise_bound": False,
    }


FLAGS = {"singles=1": {"count": 3, "solved": 3}, "singles=0": {"count": 1, "solved": 0}}
FIRST = {"solved": 4, "10%": 2, "50%": 3, "90%": 9, "99%": 9, "100%": 32}


def test_counts_by_flag_and_first_steps_come_back(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    done = [evaluation(scored(by_flag=FLAGS, first_steps=FIRST), scored("sudoku-12-test", first_steps={"solved": 0}))]
    write_results(path, done)
    first, second = json.loads(path.read_text())["evaluations"][0]["scores"]
    assert (first["by_flag"], first["first_steps"]) == (FLAGS, FIRST)
    assert ("by_flag" in second, second["first_steps"]) == (False, {"solved": 0})
    (again,) = read_results(path)
    assert again.as_json() == done[0].as_json()
    assert (again.scores[0].by_flag, again.scores[0].first_steps) == (FLAGS, FIRST)


def test_results_from_before_there_were_flags_are_read() -> None:
    for path in (Path(__file__).resolve().parents[2] / "results").glob("futoshiki-[bm]*.json"):
        content = json.loads(path.read_text())
        assert [e.as_json() for e in read_results(path)] == content["evaluations"]
        assert all(s.by_flag == s.first_steps == {} for e in read_results(path) for s in e.scores)


def test_what_is_no_number_is_never_written(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_results(path, [evaluation()])
    before = path.read_bytes()
    with pytest.raises(ValueError):
        write_results(path, [evaluation(scored(board=math.nan))])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.json"]


def damage(content: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """With entries of the evaluation or of its score changed; ... takes one away."""
    e = content["evaluations"][0]
    for name, value in changes.items():
        where = e["scores"][0] if name in e["scores"][0] or name in ("solved", "by_flag", "first_steps") else e
        where[name] = value
        if value is ...:
            del where[name]
    return content


@pytest.mark.parametrize(
    "changes",
    [
        {"seed": "0"},
        {"weights": ...},
        {"scores": {}},
        {"scores": [1]},
        {"provenance": []},
        {"more": 1},
        {"board": "1"},
        {"board": math.nan},
        {"board": math.inf},
        {"count": 1.5},
        {"count": True},
        {"pointwise_bound": 1},
        {"steps": ...},
        {"solved": [True]},
        {"by_flag": []},
        {"by_flag": {"singles": {"count": 1, "solved": 1}}},
        {"by_flag": {"singles=2": {"count": 1, "solved": 1}}},
        {"by_flag": {"singles=1": [1, 1]}},
        {"by_flag": {"singles=1": {"count": 1}}},
        {"by_flag": {"singles=1": {"count": 1, "solved": 1, "more": 1}}},
        {"by_flag": {"singles=1": {"count": 1, "solved": True}}},
        {"by_flag": {"singles=1": {"count": 1, "solved": 2}}},
        {"by_flag": {"singles=1": {"count": 1, "solved": -1}}},
        {"by_flag": {"singles=1": {"count": 5, "solved": 1}}},
        {"by_flag": {"singles=1": {"count": 0, "solved": 0}}},
        {"first_steps": None},
        {"first_steps": {"10%": 1}},
        {"first_steps": {"solved": 1}},
        {"first_steps": {"solved": 0, "10%": 1}},
        {"first_steps": {**FIRST, "75%": 9}},
        {"first_steps": {**FIRST, "solved": 5}},
        {"first_steps": {**FIRST, "solved": -1}},
        {"first_steps": {**FIRST, "50%": 1}},
        {"first_steps": {**FIRST, "10%": 0}},
        {"first_steps": {**FIRST, "100%": 33}},
        {"first_steps": {**FIRST, "99%": 9.0}},
        {"first_steps": {**FIRST, "solved": "4"}},
    ],
)
def test_results_that_lie_are_refused(tmp_path: Path, changes: dict[str, Any]) -> None:
    path = tmp_path / "a.json"
    write_results(path, [evaluation(scored())])
    path.write_text(json.dumps(damage(json.loads(path.read_text()), **changes)))
    with pytest.raises(DamagedFile, match="not a results file") as caught:
        read_results(path)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"format": 2, "evaluations": []}', "[" * 100_000, "7", "\0"])
def test_files_that_are_none_are_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a.json"
    path.write_text(text)
    with pytest.raises(DamagedFile, match="not a results file"):
        read_results(path)
    with pytest.raises(DamagedFile, match="no such file"):
        read_results(tmp_path / "nowhere.json")
    path.write_bytes(b"\xff")
    with pytest.raises(DamagedFile):
        read_results(path)


# ---- tables


def test_one_seed_has_its_interval_and_the_papers_figure() -> None:
    (row,) = table([evaluation(scored(good=950, count=1000, pointwise=0.98765))])
    assert row.board_interval == wilson(950, 1000)
    assert row.paper == Figure(27.31, 23.81)
    assert cells([row]) == [
        ["set", "size", "count", "steps", "board %", "pointwise %", "paper, board %"],
        ["sudoku-16-test", "16", "1000", "32", "95.00 [93.47, 96.19]", "98.77", "27.31 (23.81)"],
    ]


def test_seeds_are_averaged() -> None:
    boards = [80, 90, 97]
    done = [
        evaluation(scored(good=g, count=100, pointwise=p, pointwise_bound=b), scored("sudoku-12-test"), seed=s)
        for s, (g, p, b) in enumerate(zip(boards, [0.9, 0.95, 0.97], [False, True, False], strict=True))
    ]
    first, second = table(done)
    assert (first.dataset, second.dataset, first.seeds) == ("sudoku-16-test", "sudoku-12-test", 3)
    assert first.board_interval is None
    assert first.board == pytest.approx(np.mean(boards) / 100)
    assert first.board_std == pytest.approx(np.std(boards, ddof=1) / 100)
    head, line, _ = cells([first, second])
    assert head[:6] == ["set", "size", "count", "steps", "seeds", "board %"]
    assert line == ["sudoku-16-test", "16", "100", "32", "3", "89.00 ± 8.54", ">=94.00 ± 3.61", "27.31 (23.81)"]
    assert not second.pointwise_bound


def test_other_recipes_steps_and_sets_have_rows_of_their_own() -> None:
    done = [
        evaluation(scored(), scored(steps=64)),
        evaluation(scored(count=8), scored(sha256="1" * 64), seed=1),
        evaluation(scored(), recipe="sudoku-9-grouped", model="grouped"),
    ]
    rows = table(done)
    assert [r.seeds for r in rows] == [1] * 5
    assert [r.steps for r in rows] == [32, 64, 32, 32, 32]
    assert [line[0] for line in cells(rows)] == ["recipe", *["sudoku-9-binarized"] * 4, "sudoku-9-grouped"]
    assert rows[-1].paper is None
    assert cells(rows)[-1][-1] == "-"


def test_a_table_by_flag() -> None:
    many = {"singles=1": {"count": 8, "solved": 8}, "singles=0": {"count": 2, "solved": 1}}
    done = [
        evaluation(scored("sudoku-9-hard", count=10, by_flag=many), scored("sudoku-16-hard"), scored("sudoku-9-test")),
        evaluation(scored("sudoku-12-hard", by_flag={"singles=0": {"count": 4, "solved": 3}}), seed=1),
    ]
    head, nine, sixteen, _, twelve = cells(table(done), "singles")
    assert head[-3:] == ["paper, board %", "board %, singles=1", "board %, singles=0"]
    assert nine[-2:] == ["100.00 of 8", "50.00 of 2"]
    assert sixteen[-2:] == ["-", "-"]
    assert twelve[-2:] == ["-", "75.00 of 4"]
    assert cells(table(done))[0][-1] == "paper, board %"
    assert cells(table(done), "other")[1][-2:] == ["-", "-"]
    assert "100.00 of 8" in render_table(table(done), by="singles")
    assert "of 8" not in render_table(table(done))


def test_a_table_by_flag_averages_seeds() -> None:
    counts = [{"singles=1": {"count": 4, "solved": n}} for n in (4, 2)]
    done = [evaluation(scored(by_flag=c), seed=i) for i, c in enumerate(counts)]
    (row,) = table(done)
    assert row.by_flag["singles=1"] == (0.75, pytest.approx(0.5**0.5 / 2), 4)
    assert cells([row], "singles")[1][-2] == "75.00 ± 35.36 of 4"
    # A file from before there were flags says nothing of them.
    assert table([*done, evaluation(scored(), seed=2)])[0].by_flag == {}


def test_first_steps_have_a_column_where_they_are_known() -> None:
    done = [evaluation(scored(first_steps=FIRST), scored(steps=16), scored(steps=8, first_steps={"solved": 0}))]
    head, *lines = cells(table(done))
    assert head[-1] == "first solved after steps (10%, 50%, 90%, 99%, 100%)"
    assert [line[-1] for line in lines] == ["2, 3, 9, 9, 32 of 4", "-", "-"]
    slower = {"solved": 3, "10%": 1, "50%": 5, "90%": 6, "99%": 6, "100%": 6}
    (row,) = table([evaluation(scored(first_steps=FIRST)), evaluation(scored(first_steps=slower), seed=1)])
    assert row.first_steps == {"solved": 3, "10%": 2, "50%": 5, "90%": 9, "99%": 9, "100%": 32}
    assert cells([row])[1][-1] == "2, 5, 9, 9, 32 of 3"


def test_one_seed_twice_is_no_mean() -> None:
    with pytest.raises(OutgrowError, match="one seed twice \\(w0, w1\\)"):
        table([evaluation(scored()), evaluation(scored(), weights="w1")])
    with pytest.raises(OutgrowError, match="one seed twice"):
        table([evaluation(scored(), scored())])


@pytest.mark.parametrize(
    ("dataset", "model", "task", "mean"),
    [
        ("sudoku-16-test", "binarized", "", 27.31),
        ("sudoku-16-test", "multivalued", "sudoku", 19.70),
        ("sudoku-16-test", "multivalued", "sudoku-24", 90.39),
        ("sudoku-25-test", "multivalued", "sudoku-24", 43.77),
        ("sudoku-25-test", "multivalued", "", None),
        ("futoshiki-12-test", "binarized", "", 68.15),
        ("coloring-7-test", "binarized", "", 94.35),
        ("coloring-7-test", "binarized", "sudoku", None),
        ("sudoku-16-hard", "binarized", "", None),  # another distribution
        ("sudoku-9-test", "binarized", "", None),  # the paper's has 17 to 34 givens
        ("sudoku-9-17-test", "binarized", "", 99.13),
        ("sudoku-16-test", "grouped", "", None),
    ],
)
def test_the_papers_figure_is_there_where_it_compares(dataset: str, model: str, task: str, mean: float | None) -> None:
    done = evaluation(scored(dataset), model=model, task=task)
    (row,) = table([done])
    assert (row.paper and row.paper.mean) == mean


@pytest.mark.parametrize(
    ("fraction", "shown"), [(1.0, "100.00"), (0.999999, "99.99"), (0.99994, "99.99"), (0.5, "50.00"), (0.0, "0.00")]
)
def test_all_is_all(fraction: float, shown: str) -> None:
    assert cells(table([evaluation(scored(pointwise=fraction))]))[1][5] == shown


def test_rendering() -> None:
    rows = table([evaluation(scored(), scored("mine|yours-4", good=4, pointwise=1.0))])
    assert render_table(rows) == (
        "set             size  count  steps  board %                 pointwise %  paper, board %\n"
        "sudoku-16-test  16    4      32     75.00 [30.06, 95.44]    90.00        27.31 (23.81)\n"
        "mine|yours-4    4     4      32     100.00 [51.01, 100.00]  100.00       -\n"
    )
    assert render_table(rows, markdown=True) == (
        "| set | size | count | steps | board % | pointwise % | paper, board % |\n"
        "|---|---|---|---|---|---|---|\n"
        "| sudoku-16-test | 16 | 4 | 32 | 75.00 [30.06, 95.44] | 90.00 | 27.31 (23.81) |\n"
        "| mine\\|yours-4 | 4 | 4 | 32 | 100.00 [51.01, 100.00] | 100.00 | - |\n"
    )
    assert render_table([]).startswith("set")
