"""Puzzles by how hard they are: settings for people who want a puzzle and not a data set."""

from __future__ import annotations

from typing import Any

from outgrow.data.generate import Settings, default_settings
from outgrow.errors import OutgrowError

__all__ = ["difficulties", "settings_for", "sizes"]

_SIZES: dict[str, tuple[int, ...]] = {
    "sudoku": (4, 6, 8, 9, 10, 12, 15, 16, 20, 24, 25),
    "futoshiki": tuple(range(4, 13)),
    "coloring": tuple(range(4, 11)),
}
_EASY, _MEDIUM, _HARD, _VERY_HARD = "easy", "medium", "hard", "very hard"
# Edges to a node, on average, of graphs with 9 colors, for which the paper's table has no probabilities: between those of 8 and of 10.
_DEGREES_OF_NINE = {_EASY: (20, 21), _MEDIUM: (24, 25), _HARD: (26, 27)}


def sizes(puzzle: str) -> tuple[int, ...]:
    """The sizes there are puzzles of by difficulty, each made at once or in a second or two.

    >>> sizes("futoshiki")[-1]
    12
    """
    return _SIZES.get(puzzle, ())


def difficulties(puzzle: str, size: int) -> tuple[str, ...]:
    """What there is to choose from, easiest first.

    >>> difficulties("sudoku", 9), difficulties("sudoku", 25)
    (('easy', 'medium', 'hard', 'very hard'), ('easy', 'medium'))
    """
    if size not in sizes(puzzle):
        return ()
    if puzzle == "sudoku":
        if size > 16:  # nobody proves that a board with fewer givens has one solution
            return (_EASY, _MEDIUM)
        return (_EASY, _MEDIUM, _HARD, _VERY_HARD) if size >= 6 else (_EASY, _MEDIUM, _HARD)
    if puzzle == "futoshiki":
        return (_EASY, _MEDIUM, _HARD, _VERY_HARD) if 6 <= size <= 9 else (_EASY, _MEDIUM, _HARD)
    return (_EASY, _MEDIUM, _HARD)


def settings_for(puzzle: str, size: int, difficulty: str, seed: int = 0) -> Settings:
    """One puzzle of that kind; the same seed, the same puzzle.

    Easy and medium ones have a third and a half of their variables open or somewhat more. Of hard Sudokus and Futoshikis no given could be
    spared for one who takes the only value a cell has left, or the only cell of a value; very hard ones have no given to spare at all, and up to
    9 values do not yield to that alone. Graphs grow, and have fewer colors given.

    >>> settings_for("sudoku", 9, "hard").style
    'chained'
    """
    known = difficulties(puzzle, size)
    if difficulty not in known:
        if not known:
            there = ", ".join(map(str, sizes(puzzle))) or "none"
            raise OutgrowError(f"no {puzzle} of size {size} is made by difficulty; sizes are: {there}")
        raise OutgrowError(f"no {puzzle} of size {size} is {difficulty!r}; there are: {', '.join(known)}")
    # One puzzle has the first level of a range, so the seed chooses among them.
    changes: dict[str, Any] = {}
    if puzzle == "coloring":
        nodes = {_EASY: (40, 44), _MEDIUM: (50, 55), _HARD: (56, 60)}[difficulty]
        count = nodes[0] + seed % (nodes[1] - nodes[0] + 1)
        changes = {"nodes": (count, count), "levels": _level(seed, {_EASY: 30, _MEDIUM: 50, _HARD: 70}[difficulty])}
        if size == 9:
            changes["degrees"] = _DEGREES_OF_NINE[difficulty]
    elif difficulty in (_EASY, _MEDIUM):
        few = {_EASY: 30, _MEDIUM: 45 if puzzle == "sudoku" else 55}[difficulty]
        changes = {"style": "masked", "levels": _level(seed, few, 6)}
    elif difficulty == _HARD:
        changes = {"style": "chained", "levels": (0, 0)}
    else:
        changes = {"style": "minimal", "levels": (0, 0), "search": size <= 9}
    return default_settings(puzzle, size, 1, seed, **changes)


def _level(seed: int, first: int, count: int = 11) -> tuple[int, int]:
    level = first + seed % count
    return level, level
