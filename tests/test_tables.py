"""The tables about the weights that come with outgrow say what the results files say."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from benchmark_files import load_benchmark

from outgrow.errors import OutgrowError
from outgrow.evaluate import Evaluation
from outgrow.evaluate.metrics import Score
from outgrow.weights import Entry


@pytest.fixture(scope="module")
def tables() -> ModuleType:
    return load_benchmark("tables")


def score(dataset: str, size: int, steps: int, board: float, **more: Any) -> Score:
    return Score(dataset, "0" * 64, dataset.split("-")[0], size, 100, steps, board, 0.0, 1.0, board, False, **more)


def measured() -> list[tuple[Entry, list[Evaluation]]]:
    entry = Entry(
        "big",
        "big.safetensors",
        "0" * 64,
        "sudoku",
        "grouped",
        "sudoku-grouped",
        1,
        9,
        ("sudoku-9-train",),
        9,
        "by nobody",
        True,
        ((16, 64), (25, 128)),
        64,
        False,
        (),
        "results/big.json",
    )
    evaluations = []
    for seed, lost in enumerate((0.0, 0.1, 0.2)):
        flags = {"singles=1": {"count": 60, "solved": 60}, "singles=0": {"count": 40, "solved": 20 + 2 * seed}}
        when = {"solved": 90 - seed, "10%": 2, "50%": 5 + seed, "90%": 20, "99%": 30, "100%": 60}
        scores = [
            score("sudoku-9-17-test", 9, 64, 1.0 - lost, first_steps=when),
            score("sudoku-16-test", 16, 64, 0.9 - lost),
            score("sudoku-16-test", 16, 128, 0.95, restart=64),
            score("sudoku-25-test", 25, 64, 0.1),
            score("sudoku-25-test", 25, 128, 0.5 - lost, restart=64),
            score("sudoku-16-hard", 16, 128, 0.4, by_flag=flags, restart=64),
        ]
        evaluations.append(Evaluation(f"{seed}.safetensors", "grouped", "sudoku-grouped", seed, scores))
    return [(entry, evaluations)]


def test_every_test_set_stands_beside_the_paper_after_the_steps_that_solving_takes(tables: ModuleType) -> None:
    head, rule, *rows = tables.beyond(measured()).splitlines()
    assert head == "| trained on | solves | steps | first attempt | board accuracy % | worst seed | the paper's best |"
    assert rule == "|---|---|---|---|---|---|---|"
    start = "| sudoku, up to 9 values |"
    assert rows == [
        f"{start} `sudoku-9-17-test` | 64 | 90.0 ± 10.0 | 90.0 ± 10.0 | 80.0 | 99.1 ± 0.1, binarized |",
        f"{start} `sudoku-16-test` | 64 | 80.0 ± 10.0 | 80.0 ± 10.0 | 70.0 | 27.3 ± 23.8, binarized; 90.4 ± 3.5, fine-tuned on 24x24 |",
        f"{start} `sudoku-25-test` | 128 (64 each) | 10.0 ± 0.0 | 40.0 ± 10.0 | 30.0 | 43.8 ± 14.4, fine-tuned on 24x24 |",
    ]


def test_no_figure_of_the_paper_stands_beside_weights_that_saw_more_values(tables: ModuleType) -> None:
    assert tables.paper("futoshiki", "futoshiki-12-test", 12, 6) == "68.2 ± 22.1, binarized"
    assert tables.paper("futoshiki", "futoshiki-12-test", 12, 7) == "-"


def test_steps_hard_sets_and_first_steps(tables: ModuleType) -> None:
    rows = tables.steps(measured()).splitlines()
    assert rows[0] == "| weights | set | 64 steps | 128 steps |"
    assert rows[3] == "| big | `sudoku-16-test` | 80.0 ± 10.0 | 95.0 ± 0.0 |"
    assert rows[2] == "| big | `sudoku-9-17-test` | 90.0 ± 10.0 | - |"
    assert len(rows) == 6
    *_, row = tables.hard(measured()).splitlines()
    assert row == "| big | `sudoku-16-hard` | 128 (64 each) | 40.0 ± 0.0 | 100.0 ± 0.0 of 60 | 55.0 ± 5.0 of 40 |"
    *_, row = tables.first(measured()).splitlines()
    assert row == "| big | `sudoku-9-17-test` | 88 of 100 | 7 | 20 | 30 | 60 |"  # the worst of the seeds


def test_the_papers_models_have_a_table_of_their_own(tables: ModuleType) -> None:
    [(entry, evaluations)] = measured()
    small = replace(entry, name="small", model="binarized", max_trained_values=6)
    both = [(small, evaluations[:1]), (entry, evaluations)]
    assert tables.beyond(both) == tables.beyond(both[1:])
    assert tables.steps(both) == tables.steps(both[1:])
    head, _, *rows = tables.two(both).splitlines()
    assert head == "| weights | values in training | set | steps | board accuracy % |"
    assert rows[0] == "| small | 6 | `sudoku-9-17-test` | 64 | 100.0 |"
    assert len(rows) == 3
    assert tables.two(both[1:]).count("\n") == 2


def test_one_seed_has_no_spread(tables: ModuleType) -> None:
    [(entry, evaluations)] = measured()
    assert "| 64 | 100.0 | 100.0 | 100.0 | 99.1 ± 0.1, binarized |" in tables.beyond([(entry, evaluations[:1])])


def test_nothing_is_rounded_up_to_all(tables: ModuleType) -> None:
    assert tables.percent(1.0, 0.0, 3) == "100.0 ± 0.0"
    assert tables.percent(0.9997, 0.0006, 3) == "99.9 ± 0.1"
    assert tables.percent(0.99944, 0.0, 1) == "99.9"


def test_a_table_is_written_between_its_marks(tables: ModuleType) -> None:
    text = "a\n<!-- x -->\nold\n<!-- /x -->\nb\n"
    assert tables.replace(text, "x", "new\n") == "a\n<!-- x -->\nnew\n<!-- /x -->\nb\n"
    for broken in ("a", "<!-- x -->\n", "<!-- /x -->"):
        with pytest.raises(OutgrowError, match="no marks <!-- x --> and <!-- /x -->"):
            tables.replace(broken, "x", "new")


def test_documents_that_differ_are_found_and_written(
    tables: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tables, "ROOT", tmp_path)
    monkeypatch.setattr(tables, "read_measured", measured)
    (tmp_path / "docs" / "guide").mkdir(parents=True)
    (tmp_path / "results").mkdir()
    (tmp_path / "results" / "probing.json").write_text('{"sets": {"a": {"0": 5, "4": 2, "never": 1}, "b": {"9": 3}}}')
    figure = {
        "target": "grouped-sudoku-9",
        "mode": "infer",
        "fixed": 1,
        "device": "cpu",
        "mib_per_puzzle": 1,
        "peak_gib": 0.5,
    }
    figures = [
        {**figure, "way": way, "seconds": seconds, "puzzles_per_second": 1 / seconds, "startup_seconds": 7}
        for way, seconds in (("blocks", 0.5), ("pyg-fp32", 2.0), ("compiled-fp32", 1.0))
    ]
    ratio = {"target": "grouped-sudoku-9", "mode": "infer", "fixed": 1, "way": "blocks", "times_as_fast": 4.0}
    engine = {"figures": figures, "ratios": [{**ratio, "times_less_memory": None}]}
    (tmp_path / "results" / "engine-cpu.json").write_text(json.dumps(engine))
    counts = dict.fromkeys(("registers", "spilled_bytes", "shared_bytes", "instructions", "products", "cycles"), 1234)
    kernel = {"kernel": "forward", "N": 64, "num_warps": 4, **counts}
    (tmp_path / "results" / "registers.json").write_text(json.dumps({"kernels": [kernel]}))
    level = {"weights": "w", "count": 4, "solved": 3, "median_steps": 7, "seconds": 2.0}
    (tmp_path / "results" / "published.json").write_text(json.dumps({"levels": {"solo-3x3db": level}}))
    for name, parts in tables.PLACES.items():
        (tmp_path / name).write_text("".join(f"<!-- {mark} -->\nold\n<!-- /{mark} -->\n" for mark, _ in parts))
    assert tables.main(["--check"]) == 1
    assert "old" in (tmp_path / "README.md").read_text()
    assert tables.main([]) == 0
    assert "| 90.0 ± 10.0 | 80.0 |" in (tmp_path / "README.md").read_text()
    guide = (tmp_path / "docs" / "guide" / "grouped.md").read_text()
    assert "| `a` | 8 | 62.5 | - | - | 25.0 | - | 12.5 |\n| `b` | 3 | - | - | - | - | 100.0 | - |\n" in guide
    guide = (tmp_path / "docs" / "guide" / "solve.md").read_text()
    assert "| `sgt-solo --generate N 3x3db` | w | 3 of 4 | 7 | 0.5 |\n" in guide
    performance = (tmp_path / "docs" / "performance.md").read_text()
    assert "| grouped sudoku 9 | 2 | - | 0.5 | 4.0x | 512 | - | 512 | - |\n" in performance
    assert "| grouped sudoku 9 | 0.5 | 1 | 7 | 7 |\n" in performance
    assert "| forward | 64 | 4 | 1,234 |" in performance
    assert tables.main(["--check"]) == 0
    (tmp_path / "README.md").write_text((tmp_path / "README.md").read_text().replace("90.0", "99.0"))
    assert tables.main(["--check"]) == 1
    (tmp_path / "README.md").write_text("no marks")
    assert tables.main([]) == 2
    (tmp_path / "README.md").write_text("<!-- beyond -->\n<!-- /beyond -->")
    (tmp_path / "results" / "probing.json").write_text("{")
    assert tables.main([]) == 2


def test_the_documents_show_what_was_measured(tables: ModuleType) -> None:
    assert tables.main(["--check"]) == 0
