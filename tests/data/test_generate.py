"""Generators: the settings are met, and a seed decides everything, whatever happens on the way."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from itertools import groupby, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outgrow.csp import find_singles
from outgrow.csp.exact import ExactSolver
from outgrow.csp.probing import Prober
from outgrow.data import generate as generating
from outgrow.data import load_dataset
from outgrow.data.file import Dataset, Record
from outgrow.data.generate import (
    CHUNK,
    EDGE_PROBABILITY,
    MASKS,
    MAX_TRIES,
    WALK,
    Settings,
    default_settings,
    generate,
    make_chunk,
    sample_puzzles,
)
from outgrow.data.sample import fold_of
from outgrow.errors import OutgrowError
from outgrow.puzzles import Instance, coloring, futoshiki, sudoku

CASES = [
    default_settings("sudoku", 4, 20),
    default_settings("sudoku", 6, 20),
    default_settings("sudoku", 9, 26),
    default_settings("sudoku", 9, 5, style="minimal", levels=(0, 0)),
    default_settings("sudoku", 12, 10, box=(3, 4), levels=(40, 50)),
    default_settings("sudoku", 16, 5),
    default_settings("futoshiki", 5, 20, levels=(30, 60)),
    default_settings("futoshiki", 9, 5, style="minimal", levels=(0, 0)),
    default_settings("sudoku", 9, 5, style="chained", levels=(0, 0)),
    default_settings("futoshiki", 6, 12, style="chained", levels=(0, 0)),
    default_settings("futoshiki", 5, 12, style="chained", levels=(0, 0), signs=(0, 20)),
    default_settings("coloring", 4, 10, nodes=(40, 60)),
    default_settings("coloring", 8, 4, nodes=(40, 49)),
    default_settings("coloring", 12, 4, nodes=(40, 45)),
    default_settings("sudoku", 25, 1, levels=(40, 40)),
]


@pytest.mark.parametrize("settings", CASES, ids=lambda s: f"{s.puzzle}-{s.size}-{s.style}")
def test_puzzles_are_what_the_settings_say(settings: Settings, tmp_path: Path) -> None:
    dataset = generate(settings, tmp_path / "a.npz")
    assert len(dataset) == settings.count
    low, high = settings.levels
    for i in range(len(dataset)):
        record, instance = dataset.record(i), dataset[i]
        assert instance.judge(dataset.solution(i)).solved
        variables = len(record.solution)
        if settings.style == "masked":
            level = low + i % (high - low + 1)
            assert variables - record.given.sum() == variables * level // 100
        if settings.style == "extra":
            assert record.given.sum() == low + i % (high - low + 1)
        if settings.puzzle == "futoshiki" and settings.style != "chained":
            assert len(record.pairs) == 2 * settings.size
        if settings.style == "chained":
            assert_chained(instance)
        with ExactSolver(instance.csp) as solver:
            if settings.puzzle != "coloring":
                assert solver.count(instance.givens, limit=2).count == 1
            if settings.style == "minimal":
                for spared in np.flatnonzero(record.given):
                    fewer = instance.givens.copy()
                    fewer[spared] = 0
                    assert solver.count(fewer, limit=2).count == 2
        if settings.puzzle == "coloring":
            fewer_colors = coloring.build(record.pairs, np.zeros(variables, dtype=np.int16), settings.size - 1)
            with ExactSolver(fewer_colors.csp) as solver:
                assert solver.solve(break_symmetry=True).status == "unsatisfiable"


def assert_chained(instance: Instance) -> None:
    """Against singles counted in another way: they solve it, and not with a given or a sign less."""
    signs = instance.csp.pairs.get("lt", np.zeros((0, 2), dtype=np.int64))
    found = find_singles(instance.csp, instance.givens)
    assert found is not None
    assert (found > 0).all()
    for spared in np.flatnonzero(instance.givens):
        fewer = instance.givens.copy()
        fewer[spared] = 0
        found = find_singles(instance.csp, fewer)
        assert found is None or not (found > 0).all()
    for spared in range(len(signs)):
        less = futoshiki.build(instance.size, np.delete(signs, spared, axis=0), instance.givens)
        found = find_singles(less.csp, less.givens)
        assert found is None or not (found > 0).all()


def test_chains_have_few_givens_on_some_boards_and_many_on_others() -> None:
    settings = default_settings("futoshiki", 6, 40, style="chained", levels=(0, 0))
    givens = sorted(int(record.given.sum()) for record in make_chunk(settings, 0))
    assert givens[0] <= 4
    assert givens[-1] >= 8
    with pytest.raises(OutgrowError, match="Sudokus and Futoshikis"):
        default_settings("coloring", 4, 1, style="chained", levels=(0, 0))


def test_grades_say_whether_singles_suffice() -> None:
    """Against naked and hidden singles written out by hand."""
    settings = default_settings("sudoku", 9, 30, style="minimal", levels=(0, 0), seed=4)
    csp = sudoku.build(3, 3, np.zeros(81, dtype=np.int16)).csp
    groups = [g.tolist() for name in ("row", "col", "box") for g in csp.groups[name]]
    peers = [{j for g in groups if i in g for j in g} - {i} for i in range(81)]
    grades = Counter()
    for record in make_chunk(settings, 0):
        board = np.where(record.given, record.solution, 0).tolist()
        changed = True
        while changed:
            changed = False
            options = [{board[i]} if board[i] else set(range(1, 10)) - {board[j] for j in peers[i]} for i in range(81)]
            for i in range(81):
                if not board[i] and len(options[i]) == 1:
                    board[i] = options[i].pop()
                    changed = True
                    break
            else:
                for group in groups:
                    for value in range(1, 10):
                        places = [i for i in group if value in options[i]]
                        if len(places) == 1 and not board[places[0]]:
                            board[places[0]] = value
                            changed = True
                            break
                    if changed:
                        break
        assert record.flags["singles"] == int(all(board))
        grades[record.flags["singles"]] += 1
    assert set(grades) == {0, 1}


def test_levels_are_spread_evenly_and_reproduce_the_papers_counts() -> None:
    """Table 'Test Data statistics': the numbers of missing variables, from whole percentages rounded down."""
    table = {
        ("futoshiki", 6): (10, 25),
        ("futoshiki", 7): (14, 34),
        ("futoshiki", 8): (19, 44),
        ("futoshiki", 9): (24, 56),
        ("futoshiki", 10): (30, 66),
        ("futoshiki", 11): (36, 82),
        ("futoshiki", 12): (43, 93),
        ("sudoku", 10): (30, 62),
        ("sudoku", 12): (43, 84),
        ("sudoku", 15): (67, 128),
        ("sudoku", 16): (76, 148),
    }
    for (puzzle, size), missing in table.items():
        low, high = MASKS[puzzle][size]
        assert (size**2 * low // 100, size**2 * high // 100) == missing
    settings = default_settings("futoshiki", 4, 2 * 41, levels=(20, 60))
    levels = Counter(r.flags["level"] for r in make_chunk(settings, 0))
    assert set(levels.values()) == {2}
    assert set(levels) == set(range(20, 61))


def test_the_number_of_processes_changes_nothing(tmp_path: Path) -> None:
    settings = default_settings("sudoku", 4, 2 * CHUNK + 30, seed=9)
    generate(settings, tmp_path / "one.npz", jobs=1)
    generate(settings, tmp_path / "two.npz", jobs=2)
    assert (tmp_path / "one.npz").read_bytes() == (tmp_path / "two.npz").read_bytes()


def test_seeds_matter(tmp_path: Path) -> None:
    digests = {generate(default_settings("sudoku", 6, 10, seed=s), tmp_path / f"{s}.npz").sha256 for s in range(4)}
    assert len(digests) == 4


def test_a_killed_run_started_again_yields_the_same_file(tmp_path: Path) -> None:
    """SIGKILL, twice, in the middle of the work."""
    command = [sys.executable, "-m", "outgrow", "generate", "futoshiki", "--size", "6", "--count", str(12 * CHUNK)]
    whole = tmp_path / "whole.npz"
    subprocess.run([*command, "--out", str(whole)], check=True, capture_output=True)
    killed = tmp_path / "killed.npz"
    parts = tmp_path / "killed.npz.parts"
    for chunks in (1, 5):
        process = subprocess.Popen(
            [*command, "--out", str(killed), "--jobs", "2"], start_new_session=True, stderr=subprocess.DEVNULL
        )
        deadline = time.monotonic() + 60
        while len(list(parts.glob("0*.npz"))) < chunks:
            assert process.poll() is None, "finished before it could be killed"
            assert time.monotonic() < deadline
            time.sleep(0.005)
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        assert not killed.exists()
    (parts / "00000.npz").write_bytes(b"cut")  # as after a power cut
    subprocess.run([*command, "--out", str(killed)], check=True, capture_output=True)
    assert killed.read_bytes() == whole.read_bytes()
    assert not parts.exists()
    assert len(load_dataset(killed)) == 12 * CHUNK


def test_an_unfinished_run_with_other_settings_is_not_mixed_in(tmp_path: Path) -> None:
    parts = tmp_path / "a.npz.parts"
    parts.mkdir()
    (parts / "settings.json").write_text('{"puzzle": "sudoku"}')
    (parts / "00000.npz").write_bytes(b"")
    with pytest.raises(OutgrowError, match="other settings"):
        generate(default_settings("sudoku", 4, 1), tmp_path / "a.npz")


def test_bands_of_edge_probabilities_leave_no_order_out() -> None:
    for colors, bands in EDGE_PROBABILITY.items():
        for first, last, low, high in bands:
            assert first <= last
            assert 0 < low < high < 1
        for (_, last, *before), (first, _, *after) in pairwise(bands):
            assert first == last + 1
            if colors not in range(4, 8):  # ours: a larger graph needs fewer edges to need as many colors
                assert after[0] < before[0]
                assert after[1] < before[1]
        settings = default_settings("coloring", colors, 1)
        assert (settings.nodes, settings.levels) == ((bands[0][0], bands[-1][1]), (30, 70))
    assert list(EDGE_PROBABILITY) == [3, 4, 5, 6, 7, 8, 10, 12]


@pytest.mark.parametrize(
    ("puzzle", "size", "changes", "message"),
    [
        ("sudoku", 7, {}, "no boxes"),
        ("sudoku", 9, {"box": (2, 3)}, "do not hold"),
        ("sudoku", 49, {}, "up to 36"),
        ("sudoku", 9, {"style": "masked", "levels": (60, 50)}, "percentages"),
        ("futoshiki", 1, {}, "2 to 36"),
        ("coloring", 9, {}, "edge probabilities"),
        ("coloring", 4, {"nodes": (10, 20)}, "edge probabilities"),
        ("coloring", 4, {"style": "minimal"}, "masked"),
        ("sudoku", 4, {"count": 0}, "at least 1"),
        ("sudoku", 9, {"style": "minimal", "unique": "free"}, "unique ones"),
        ("sudoku", 9, {"style": "extra", "levels": (80, 90)}, "1 to 81"),
        ("futoshiki", 5, {"box": (1, 5)}, "no boxes"),
        ("futoshiki", 5, {"fold": (0, 0, 2)}, "no folds"),
        ("coloring", 3, {"style": "minimal", "search": True}, "minimal Sudokus and Futoshikis alone"),
        ("sudoku", 6, {"style": "masked", "search": True}, "minimal Sudokus and Futoshikis alone"),
        ("coloring", 3, {"rounds": 2}, "minimal Sudokus and Futoshikis alone"),
        ("sudoku", 6, {"style": "masked", "rounds": 2}, "minimal Sudokus and Futoshikis alone"),
        ("sudoku", 9, {"style": "minimal", "rounds": 0}, "1 to 254"),
        ("sudoku", 9, {"style": "minimal", "rounds": 255}, "1 to 254"),
        ("sudoku", 9, {"signs": (0, 4)}, "no signs"),
        ("futoshiki", 5, {"signs": (4, 3)}, "signs 4-3"),
        ("futoshiki", 5, {"signs": (-1, 3)}, "0 to 40"),
        ("futoshiki", 5, {"signs": (0, 41)}, "0 to 40"),
        ("futoshiki", 5, {"degrees": (4, 8)}, "no degrees"),
        ("coloring", 9, {"degrees": (8, 9)}, "range of nodes"),
        ("coloring", 4, {"degrees": (9, 8)}, "degrees 9-8"),
        ("coloring", 4, {"degrees": (0, 8)}, "from 1 on"),
        ("coloring", 4, {"degrees": (4, 8), "nodes": (7, 20)}, "from 8 to 1,000"),
        ("coloring", 4, {"degrees": (4, 8), "nodes": (20, 1_001)}, "from 8 to 1,000"),
        ("sudoku", 4, {"fold": (1, 0, 2)}, "folds 1-0 of 2"),
        ("sudoku", 4, {"fold": (0, 2, 2)}, "0 to 1"),
        ("sudoku", 4, {"fold": (-1, 0, 2)}, "0 to 1"),
    ],
)
def test_settings_that_cannot_be_met_are_refused(
    puzzle: str, size: int, changes: dict[str, object], message: str
) -> None:
    with pytest.raises(OutgrowError, match=message):
        default_settings(puzzle, size, **{"count": 1, **changes})  # type: ignore[arg-type]


def test_puzzles_that_need_search_are_the_minimal_ones_that_singles_do_not_solve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    every = make_chunk(default_settings("sudoku", 8, 40, style="minimal", levels=(0, 0), seed=3), 0)
    settings = default_settings("sudoku", 8, 8, style="minimal", levels=(0, 0), seed=3, search=True)
    found = make_chunk(settings, 0)
    expected = [r for r in every if not r.flags["singles"]][:8]  # of one random stream
    assert len(found) == len(expected) == 8
    for one, other in zip(found, expected, strict=True):
        assert one.flags == other.flags == {"unique": 1, "minimal": 1, "singles": 0}
        assert (one.solution == other.solution).all()
        assert (one.given == other.given).all()
    monkeypatch.setitem(MAX_TRIES, "search", 20)
    with pytest.raises(
        OutgrowError, match="no unique sudoku of size 4 in 20 boards with more than singles to solve it"
    ):
        make_chunk(default_settings("sudoku", 4, 1, style="minimal", levels=(0, 0), search=True), 0)


@pytest.mark.parametrize(
    ("puzzle", "size", "more", "rounds"),
    [("futoshiki", 5, {"signs": (6, 20)}, 1), ("sudoku", 8, {}, 1), ("futoshiki", 4, {"signs": (4, 9)}, 1)],
)
def test_deep_puzzles_take_as_many_rounds_of_probing(puzzle: str, size: int, more: dict[str, Any], rounds: int) -> None:
    """And are minimal, unique, no two the same."""
    records = make_chunk(default_settings(puzzle, size, 60, style="minimal", levels=(0, 0), rounds=rounds, **more), 0)
    dataset = Dataset.of(records, puzzle=puzzle, size=size, shape={"sudoku": (2, 4)}.get(puzzle, (size,)))
    for i, record in enumerate(records):
        givens = dataset[i].givens
        with Prober(dataset[i].csp) as prober:
            assert prober.count_rounds(givens) == record.flags["rounds"] >= rounds
        with ExactSolver(dataset[i].csp) as solver:
            assert solver.count(givens, limit=2).count == 1
            for spared in np.flatnonzero(record.given):
                fewer = givens.copy()
                fewer[spared] = 0
                assert solver.count(fewer, limit=2).count == 2
        assert {name: record.flags[name] for name in ("unique", "minimal", "singles")} == {
            "unique": 1,
            "minimal": 1,
            "singles": 0,
        }
    assert len({r.solution.tobytes() + r.given.tobytes() + r.pairs.tobytes() for r in records}) == len(records)


def test_deep_puzzles_lead_to_others(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a walk share a solution; a walk ends when it is long enough, or nothing new is near."""
    grades = np.random.default_rng(0)
    monkeypatch.setattr(generating._Boards, "probe", lambda *_: int(grades.integers(1, 4)))
    settings = default_settings("sudoku", 9, 60, style="minimal", levels=(0, 0), rounds=2)

    def walks() -> list[int]:
        return [len(list(group)) for _, group in groupby(r.solution.tobytes() for r in make_chunk(settings, 0))]

    assert walks() == [WALK, WALK, 60 - 2 * WALK]
    monkeypatch.setattr(generating, "LOOSEN", 0)  # the same board again and again
    assert walks() == [1] * 60


def test_rounds_that_no_puzzle_takes_are_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAX_TRIES, "rounds", 20)
    with pytest.raises(OutgrowError, match="no sudoku of size 4 in 20 boards that takes 3 rounds"):
        make_chunk(default_settings("sudoku", 4, 1, style="minimal", levels=(0, 0), rounds=3), 0)


def test_futoshikis_have_as_many_signs_as_asked_for() -> None:
    def made(**changes: object) -> list[Record]:
        return list(make_chunk(default_settings("futoshiki", 5, 60, style="minimal", levels=(0, 0), **changes), 0))  # type: ignore[arg-type]

    assert {len(r.pairs) for r in made()} == {10}
    assert {len(r.pairs) for r in made(signs=(0, 3))} == {0, 1, 2, 3}
    every = made(signs=(10, 10))
    assert all((a.solution == b.solution).all() for a, b in zip(every, made(), strict=True))  # no draw is spent on it
    for record in made(signs=(40, 40))[:3]:  # all there are
        assert len({tuple(sorted(pair)) for pair in record.pairs.tolist()}) == 40
        assert (record.solution[record.pairs[:, 0]] < record.solution[record.pairs[:, 1]]).all()


def test_graphs_around_a_coloring_have_the_degrees_asked_for() -> None:
    settings = default_settings("coloring", 3, 200, nodes=(30, 60), degrees=(8, 24), seed=5)
    found = make_chunk(settings, 0)
    degrees = np.array([2 * len(r.pairs) / len(r.solution) for r in found])
    assert degrees.min() > 5
    assert degrees.max() < 28
    assert 12 < np.median(degrees) < 16  # evenly by their logarithms: about the root of 8 * 24
    for record in found[:20]:
        assert (record.solution[record.pairs[:, 0]] != record.solution[record.pairs[:, 1]]).all()
        assert record.flags["chromatic"] == 3
    # More than the classes can have between them: all there are.
    full = make_chunk(default_settings("coloring", 3, 4, nodes=(9, 9), degrees=(50, 60)), 0)
    for record in full:
        classes = np.bincount(record.solution, minlength=4)[1:]
        assert len(record.pairs) == (9 * 9 - (classes**2).sum()) // 2


def test_what_cannot_be_made_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAX_TRIES, "search", 20)
    with pytest.raises(OutgrowError, match="no unique sudoku of size 4"):
        generate(default_settings("sudoku", 4, 1, style="minimal", levels=(0, 0), search=True), tmp_path / "a.npz")
    assert not list(tmp_path.iterdir())


def test_a_level_out_of_reach_is_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAX_TRIES, "masked", 3)
    monkeypatch.setattr("outgrow.data.generate.EXCHANGES", 10)
    with pytest.raises(OutgrowError, match="90% masked; ask for less"):
        make_chunk(default_settings("sudoku", 9, 1, style="masked", levels=(90, 90)), 0)


def test_folds_take_their_boards_and_no_puzzle_comes_twice(tmp_path: Path) -> None:
    """41 boards: without the rule 8 of these 250 puzzles come again, in the same chunk or in another."""
    settings = default_settings("sudoku", 4, 2 * CHUNK + 50, style="minimal", levels=(0, 0), fold=(2, 3, 16))
    free = default_settings("sudoku", 4, 2 * CHUNK + 50, style="minimal", levels=(0, 0))
    dataset = generate(settings, tmp_path / "a.npz")
    records = [dataset.record(i) for i in range(len(dataset))]
    assert {fold_of(r.solution, 16) for r in records} == {2, 3}
    assert len({np.where(r.given, r.solution, 0).tobytes() for r in records}) == len(records) == 2 * CHUNK + 50
    assert dataset.settings["fold"] == [2, 3, 16]
    assert "fold" not in free.as_json()
    assert {fold_of(r.solution, 16) for r in make_chunk(free, 0)} > {2, 3}


def test_folds_are_decided_by_the_board_alone() -> None:
    """sha256 of the values, a byte each, whatever they are kept in: a set made today and one made in a year stay apart."""
    board = np.array([1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1])
    number = int(hashlib.sha256(bytes(board.tolist())).hexdigest(), 16)
    for kind in (np.uint8, np.int16, np.int64):
        assert [fold_of(board.astype(kind), n) for n in (1, 7, 8)] == [0, number % 7, number % 8]


def test_a_fold_without_boards_or_with_too_few_is_an_error_and_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(MAX_TRIES, "fold", 500)
    with pytest.raises(OutgrowError, match="no board of folds 0-0 of 1000000000"):
        make_chunk(default_settings("sudoku", 4, 1, fold=(0, 0, 10**9)), 0)
    with pytest.raises(OutgrowError, match="no new puzzle of size 4 at level 0"):
        make_chunk(default_settings("sudoku", 4, 20, levels=(0, 0), fold=(0, 0, 40)), 0)


def test_puzzles_of_any_csp(tmp_path: Path) -> None:
    csp = futoshiki.build(4, np.array([[0, 1], [5, 4]]), np.zeros(16, dtype=np.int16)).csp
    with ExactSolver(csp) as solver:
        for givens, solution in sample_puzzles(csp, 6, (40, 60), seed=2):
            assert ((givens == 0) | (givens == solution)).all()
            assert solver.count(givens, limit=2).count == 1
