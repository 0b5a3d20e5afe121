"""Against the programs of Simon Tatham's Portable Puzzle Collection (Debian: sgt-puzzles)."""

from __future__ import annotations

import os
import shutil
import subprocess
from functools import cache

import numpy as np
import pytest
from comparing import assert_same, read, refuse

from outgrow.csp.exact import Budget, ExactSolver
from outgrow.puzzles import Instance, futoshiki, parse, render, sudoku


def find(program: str) -> str | None:
    """Debian keeps games in /usr/games, which not every PATH names."""
    return shutil.which(program, path=os.pathsep.join([os.environ.get("PATH", ""), "/usr/games"]))


needs_solo = pytest.mark.skipif(find("sgt-solo") is None, reason="sgt-solo is not installed (package sgt-puzzles)")
needs_unequal = pytest.mark.skipif(
    find("sgt-unequal") is None, reason="sgt-unequal is not installed (package sgt-puzzles)"
)


@cache
def ids(program: str, count: int, kind: str) -> list[str]:
    path = find(program)
    assert path is not None
    # The seed makes one version of the program print the same ids every time.
    done = subprocess.run(
        [path, "--generate", str(count), f"{kind}#7"], capture_output=True, text=True, timeout=60, check=True
    )
    lines = done.stdout.split("\n")
    assert len(lines) == count + 1
    return lines[:-1]


def count_solutions(instance: Instance) -> int:
    with ExactSolver(instance.csp) as solver:
        count = solver.count(instance.givens, limit=2, budget=Budget(seconds=30))
    assert count.status != "ran_out"
    return count.count


@needs_solo
@pytest.mark.parametrize(
    ("kind", "shape"),
    [("2x2", (2, 2)), ("2x3", (2, 3)), ("3x2", (3, 2)), ("3x3", (3, 3)), ("3x4", (3, 4)), ("4x4db", (4, 4))],
)
def test_solo(kind: str, shape: tuple[int, int]) -> None:
    found = ids("sgt-solo", 3, kind)
    for text in found:
        instance = read(text)
        assert instance.puzzle == "sudoku"
        assert instance.shape == shape
        assert count_solutions(instance) == 1
        assert render(instance, format="sgt") == text
    assert [render(i, format="sgt") for i in parse("\n".join(found))] == found


@needs_solo
@pytest.mark.parametrize("kind", ["2x3", "3x2", "3x4", "4x3"])
def test_boxes_of_solo_are_rows_by_columns(kind: str) -> None:
    """`3x4` has boxes of 3 rows and 4 columns: the other way around the puzzles do not come out."""
    rows, columns = map(int, kind.split("x"))
    swapped = []
    for text in ids("sgt-solo", 6, kind):
        instance = read(text)
        assert instance.shape == (rows, columns)
        assert count_solutions(instance) == 1
        swapped.append(count_solutions(sudoku.build(columns, rows, instance.givens)))
    assert swapped.count(1) < 3  # by chance, at 6 x 6


def test_long_runs_and_numbers_side_by_side() -> None:
    empty = read("6x6:" + "z" * 49 + "v")
    assert not empty.givens.any()
    assert render(empty, format="sgt") == "6x6:" + "z" * 49 + "v"
    full = np.array([1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1])
    assert render(sudoku.build(2, 2, full), format="sgt") == "2x2:" + "_".join(map(str, full))


@needs_solo
@pytest.mark.parametrize(
    ("kind", "reason"),
    [
        ("3x3x", "a Solo game with diagonals; only plain Sudoku is read"),
        ("2x3x", "a Solo game with diagonals; only plain Sudoku is read"),
        ("9j", "a Solo game with jigsaw boxes; only plain Sudoku is read"),
        ("9jx", "a Solo game with jigsaw boxes, diagonals; only plain Sudoku is read"),
        ("3x3k", "a Solo game with killer cages; only plain Sudoku is read"),
        ("2x2kx", "a Solo game with diagonals, killer cages; only plain Sudoku is read"),
    ],
)
def test_variants_of_solo_are_refused(kind: str, reason: str) -> None:
    (text,) = ids("sgt-solo", 1, kind)
    refuse(text, reason, 1)
    refuse(f"# a variant\n\n{text}\n", reason, 3, puzzle="sudoku")


@needs_unequal
@pytest.mark.parametrize(
    ("kind", "size"), [("3", 3), ("4", 4), ("5", 5), ("5de", 5), ("6dt", 6), ("9dx", 9), ("11de", 11)]
)
def test_unequal(kind: str, size: int) -> None:
    found = ids("sgt-unequal", 3, kind)
    for text in found:
        instance = read(text)
        assert instance.puzzle == "futoshiki"
        assert instance.shape == (size,)
        assert count_solutions(instance) == 1
        assert render(instance, format="sgt") == text
    assert [render(i, format="sgt") for i in parse("\n".join(found))] == found


@needs_unequal
def test_signs_of_unequal_are_not_the_other_way_around() -> None:
    """With every sign turned the puzzles do not come out (with digits given: without, it would be a mirror image)."""
    turned = []
    for text in ids("sgt-unequal", 3, "9dx"):
        instance = read(text)
        less = instance.csp.pairs["less"]
        assert len(less) > 10
        assert instance.givens.any()
        turned.append(count_solutions(futoshiki.build(9, less[:, ::-1], instance.givens)))
    assert 1 not in turned


@needs_unequal
@pytest.mark.parametrize("kind", ["5a", "5adk", "4a"])
def test_adjacency_of_unequal_is_refused(kind: str) -> None:
    (text,) = ids("sgt-unequal", 1, kind)
    reason = "an Unequal game with adjacency signs; only plain Futoshiki is read"
    refuse(text, reason, 1)
    refuse(f"\n{text}\n", reason, 2, puzzle="futoshiki")


@needs_solo
@needs_unequal
def test_both_in_one_file() -> None:
    texts = ids("sgt-solo", 3, "4x4db") + ids("sgt-unequal", 3, "5") + ids("sgt-solo", 3, "2x3")
    found = parse("\n".join(texts), source="games.txt")
    assert [i.puzzle for i in found] == ["sudoku"] * 3 + ["futoshiki"] * 3 + ["sudoku"] * 3
    assert [i.source for i in found] == [f"games.txt:{line}" for line in range(1, 10)]
    for text, instance in zip(texts, found, strict=True):
        assert_same(read(text), instance)
