"""The benchmark of what a step costs: it counts what the models really work on, and says what it left out."""

from __future__ import annotations

import json
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path
from types import ModuleType

import pytest
from benchmark_files import load_benchmark

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def cost() -> ModuleType:
    return load_benchmark("cost")


@pytest.mark.parametrize("size", [4, 6, 9])
def test_work_is_counted_as_the_models_do_it(cost: ModuleType, size: int) -> None:
    """Entries of the tables that a step reads, padding aside."""
    from outgrow.graphs import Puzzles
    from outgrow.models import MODELS, build_model

    for name in ("grouped", "binarized"):
        puzzles = Puzzles.of_instances([cost.build(name, size)])
        model = build_model(puzzles.schema, MODELS[name][1](width=4))
        graph = model.prepare(puzzles.batch([0]))

        def entries(*tables: object) -> int:
            return sum(t.source.numel() if t.mask is None else int(t.mask.sum()) for t in tables)  # type: ignore[attr-defined]

        edges = entries(*graph.constraint, *graph.relation)
        groups = (*graph.groups, graph.values) if name == "grouped" else ()
        assert cost.count_work(name, size) == {
            "nodes": size**3,
            "memberships": entries(*(g.memberships for g in groups)),
            "edges": edges,
        }


def test_work_by_hand(cost: ModuleType) -> None:
    # A cell of 9x9 is in a row, a column and a box, and has 20 neighbors; a digit has 8 others.
    assert cost.count_work("grouped", 9) == {"nodes": 729, "memberships": 729 * 4, "edges": 0}
    assert cost.count_work("binarized", 9) == {"nodes": 729, "memberships": 0, "edges": 729 * 28}


def test_slopes_are_exponents(cost: ModuleType) -> None:
    figures = [
        {"model": "grouped", "size": k, "nodes": k**3, "seconds_a_step": 1e-3 * (k**3) ** 1.5 if k > 6 else 9.0}
        for k in (4, 6, 9, 16, 25)
    ]
    figures.append({"model": "grouped", "size": 36, "nodes": 36**3, "left_out": "too slow"})
    figures.append({"model": "binarized", "size": 9, "nodes": 729, "seconds_a_step": 1.0})
    assert cost.slope(figures, "grouped", "seconds_a_step") == 1.5
    assert cost.slope(figures, "binarized", "seconds_a_step") is None


def test_a_case_is_a_process(cost: ModuleType) -> None:
    found = cost._run_process("grouped", 4, 0.0, {})
    assert set(found) == {"steps", "seconds_a_step", "peak_mib", "parameters"}
    assert 0 < found["seconds_a_step"] < 10


def test_it_runs_and_draws(
    cost: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = [tmp_path / "cost.json", tmp_path / "cost.svg"]
    times = {"grouped": 0.002, "binarized": 0.005}
    monkeypatch.setattr(cost, "run_case", lambda m, k, s: {"steps": 9, "seconds_a_step": times[m], "peak_mib": 1.5})
    monkeypatch.setattr(sys, "argv", ["cost.py", "--sizes", "4", "--json", str(out[0]), "--svg", str(out[1])])
    cost.main()
    assert "4x4: a step of the binarized model takes 2.5 times as long" in capsys.readouterr().out
    report = json.loads(out[0].read_text())
    assert {"commit", "hardware", "date", "torch", "slopes", "figures"} <= set(report)
    assert (report["benchmark"], report["threads"]) == ("benchmarks/cost.py", 1)
    grouped, binarized = report["figures"]
    for figure, edges, memberships in ((grouped, 0, 256), (binarized, 64 * 10, 0)):
        assert (figure["nodes"], figure["edges"], figure["memberships"]) == (64, edges, memberships)
        assert figure["seconds_a_node"] == pytest.approx(times[figure["model"]] / 64, rel=1e-3)
        assert figure["kib_a_node"] == 24
    ids = {element.attrib.get("id") for element in ET.parse(out[1]).iter()}
    assert {"grouped", "binarized"} <= ids


def test_what_does_not_fit_is_left_out_and_said(cost: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(*codes: int) -> None:
        left = list(codes)

        def run(*arguments: object, env: dict[str, str], **options: object) -> subprocess.CompletedProcess[str]:
            # The time of a run as it is, the peak of one that gives memory back at once.
            found = {"seconds_a_step": 2, "peak_mib": 3} if "MALLOC_MMAP_THRESHOLD_" in env else {"seconds_a_step": 1}
            assert env["OMP_NUM_THREADS"] == "1"
            return subprocess.CompletedProcess("", left.pop(0), json.dumps(found), "why")

        monkeypatch.setattr(cost.subprocess, "run", run)

    answer(0, 0)
    assert cost.run_case("binarized", 36, 1) == {"seconds_a_step": 1, "peak_mib": 3}
    for codes in ([3], [0, 3]):
        answer(*codes)
        assert cost.run_case("binarized", 36, 1) == {"left_out": "more than 12 GiB of memory"}
    answer(1)
    with pytest.raises(SystemExit, match="binarized 36: why"):
        cost.run_case("binarized", 36, 1)

    def tarry(*arguments: object, **options: object) -> None:
        raise subprocess.TimeoutExpired("python", 600)

    monkeypatch.setattr(cost.subprocess, "run", tarry)
    assert cost.run_case("binarized", 36, 1) == {"left_out": "more than 600 seconds"}


def test_out_of_memory_is_exit_code_3(cost: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    from outgrow.errors import OutgrowError

    def full(*arguments: object) -> None:
        raise OutgrowError("out of memory; try a machine with more")

    monkeypatch.setattr(cost, "measure", full)
    monkeypatch.setattr(cost.resource, "setrlimit", lambda *a: None)
    with pytest.raises(SystemExit) as caught:
        cost.case_main("binarized", 36, 1.0)
    assert caught.value.code == 3
