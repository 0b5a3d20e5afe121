"""Futoshiki: a Latin square with order signs between neighboring cells."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, Groups, LiftedCSP
from outgrow.puzzles.drawing import CELL, MARGIN, cell_roles, grid_places
from outgrow.puzzles.instance import Format, Instance, Layout, Puzzle, Span, Values, neq
from outgrow.puzzles.reading import MAX_LINE, Reader, Text, shorten
from outgrow.puzzles.sudoku import name_cell, read_board

__all__ = ["FORMS", "MAX_SIZE", "PUZZLE", "adjacent_pairs", "build"]

MAX_SIZE = 36


def lt(a: int, b: int) -> bool:
    """The first value is the smaller one."""
    return a < b


FORMS = {
    "units": LiftedCSP(
        predicates=["row(2)", "col(2)", "less(2)"],
        relations={"neq": neq, "lt": lt},
        constraints=["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)", "less(x, y) -> lt(x, y)"],
    ),
    # As the paper has it: one predicate for rows and columns alike.
    "nbr": LiftedCSP(
        predicates=["nbr(2)", "less(2)"],
        relations={"neq": neq, "lt": lt},
        constraints=["nbr(x, y) -> neq(x, y)", "less(x, y) -> lt(x, y)"],
    ),
}


_SIGNS = LiftedCSP(predicates=["less(2)"], relations={"lt": lt}, constraints=["less(x, y) -> lt(x, y)"])


@lru_cache(maxsize=64)
def _square(size: int, form: str) -> GroundCSP:
    """The Latin square without signs, which all instances of a size share: 720 KB of pairs at size 36."""
    cells = np.arange(size * size).reshape(size, size)
    row, col = cells.tolist(), cells.T.tolist()
    facts = {"row": Groups(row), "col": Groups(col)} if form == "units" else {"nbr": Groups([*row, *col])}
    return FORMS[form].ground(variables=size * size, values=size, facts=facts)


@lru_cache(maxsize=64)
def adjacent_pairs(size: int) -> npt.NDArray[np.int32]:
    """Neighboring cells of the grid: (2 * size * (size - 1), 2), upper or left one first."""
    cells = np.arange(size * size, dtype=np.int32).reshape(size, size)
    across = np.stack([cells[:, :-1].ravel(), cells[:, 1:].ravel()], axis=1)
    down = np.stack([cells[:-1].ravel(), cells[1:].ravel()], axis=1)
    return np.concatenate([across, down])


def build(
    size: int,
    less: npt.NDArray[np.integer],
    givens: npt.NDArray[np.integer],
    *,
    form: str = "units",
    notes: tuple[str, ...] = (),
) -> Instance:
    """A Futoshiki; `less` (P, 2) holds pairs of neighboring cells, the smaller one first."""
    if not 1 <= size <= MAX_SIZE:
        raise ValueError(f"a Futoshiki of side {size}: the side is 1 to {MAX_SIZE}")
    less = np.asarray(less, dtype=np.int64).reshape(-1, 2)
    gap = np.abs(less[:, 0] - less[:, 1])
    same_row = less[:, 0] // size == less[:, 1] // size
    far = np.flatnonzero(~(((gap == 1) & same_row) | (gap == size)))
    if len(far):
        x, y = (divmod(int(i), size) for i in less[far[0]])
        raise ValueError(
            f"a sign between cells that do not touch: row {x[0] + 1} column {x[1] + 1} and row {y[0] + 1} column {y[1] + 1}"
        )
    edges = np.sort(less, axis=1) @ (size * size, 1)
    if len(np.unique(edges)) != len(edges):
        raise ValueError("two signs between the same two cells")
    square = _square(size, form)
    signs = _SIGNS.ground(variables=size * size, values=size, facts={"less": less})
    csp = replace(square, pairs={**square.pairs, "less": signs.pairs["less"]})
    return Instance("futoshiki", csp, csp.assignment(givens), (size,), notes=notes)


def _restore(
    *,
    size: int,
    shape: tuple[int, ...],
    pairs: npt.NDArray[np.integer],
    givens: npt.NDArray[np.integer],
    form: str,
) -> Instance:
    return build(size, pairs, givens, form=form)


# ---- reading

_UNEQUAL = re.compile(r"\s*([0-9]{1,4})((?:a|d[a-z])*)\s*([:#])(.*)")
_UNEQUAL_CELL = re.compile(r"([0-9]{1,4})([URDL]*)")
_ROW = re.compile(r"[\s<>]*[0-9._][\s0-9._<>]*")
_PIECE = re.compile(r"[0-9]+|[._<>]")
_CELL = re.compile(r"[0-9]+|[._]")
_SMALLEST_LINE = 16  # cells of the smallest Sudoku that is written on one line
_UP = "^∧"
_SIGN_ROW = re.compile(r"\s*[\^∧vV∨][\s\^∧vV∨]*")


def _is_row(line: str) -> bool:
    """Cells, with or without signs between them."""
    return len(line) <= MAX_LINE and _ROW.fullmatch(line) is not None


def _is_sign_row(line: str) -> bool:
    return len(line) <= MAX_LINE and _SIGN_ROW.fullmatch(line) is not None


def _claims(text: Text) -> bool:
    """Whether there is a sign in what looks like a square of cells from here on."""
    if text.options.puzzle == "futoshiki" or _UNEQUAL.fullmatch(text.current):
        return True
    first = text.current
    if "<" in first or ">" in first or _is_sign_row(first):
        return True
    if not _is_row(first):
        return False
    cells = _CELL.findall(first)
    size, words = len(cells), first.split()
    if size > MAX_SIZE or any(len(cell) > 2 for cell in cells):
        return False
    if len(words) == 1 and len(words[0]) >= _SMALLEST_LINE:
        return False
    rows = 0
    for line in text.ahead(4 * MAX_SIZE):
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if _is_sign_row(line):
            return True
        if rows == size or not _is_row(line):
            return False
        if "<" in line or ">" in line:
            # A board on a line of its own is a Sudoku, and what follows it another puzzle.
            return len(_CELL.findall(line)) == size or size < _SMALLEST_LINE
        rows += 1
    return False


def _read(text: Text) -> Instance:
    match = _UNEQUAL.fullmatch(text.current)
    return _read_unequal(text, match) if match else _read_grid(text)


def _read_grid(text: Text) -> Instance:
    """Rows of cells with < and > between them; ^ and v on lines of their own, under the cell above."""
    start = text.line
    values: list[int] = []
    less: list[tuple[int, int]] = []
    size = 0
    above: list[tuple[int, int]] = []  # first and last column of each cell in the row above
    words: list[str] = []  # and what stands in them
    signed: set[int] = set()  # columns with a sign under the row above
    rows = 0
    end = start
    while text.skip_blank():
        line = text.current if len(text.current) > MAX_LINE else text.current.expandtabs()
        if _is_sign_row(line):
            if not rows:
                raise text.error("a row of cells must come before the signs ^ and v")
            if rows == size:
                raise text.error(f"signs under the last of {size} rows")
            for match in re.finditer(r"\S", line):
                column = _nearest(above, match.start())
                if column is None:
                    raise text.error(f"the sign in column {match.start() + 1} stands under no cell")
                if column in signed:
                    raise text.error(f"two signs under row {rows} column {column + 1}")
                signed.add(column)
                upper, lower = (rows - 1) * size + column, rows * size + column
                less.append((upper, lower) if match.group() in _UP else (lower, upper))
            text.at += 1
            continue
        if rows and rows == size:
            break
        if not _is_row(line):
            where = f"; {size} rows of {size} cells expected, found {rows}" if rows else ""
            raise text.error(f"no row of a Futoshiki: {shorten(line, 60)!r}{where}")
        above, words, signed = [], [], set()
        sign = None
        for piece in _PIECE.finditer(line):
            if piece.group() in "<>":
                if not above or sign:
                    raise text.error(f"the sign in column {piece.start() + 1} has no cell on its left")
                sign = piece.group()
                continue
            if sign:
                left = rows * (size or 0) + len(above) - 1
                less.append((left, left + 1) if sign == "<" else (left + 1, left))
                sign = None
            above.append((piece.start(), piece.end() - 1))
            words.append(piece.group())
        if sign:
            raise text.error(f"nothing follows the sign {sign!r} at the end of the row")
        if not size:
            size = len(above)
            if size > MAX_SIZE:
                raise text.error(f"{size} cells in the row; a Futoshiki has 1 to {MAX_SIZE}")
        if len(above) != size:
            raise text.error(f"this row has {len(above)} cells, the first has {size}")
        for column, word in enumerate(words, start=1):
            values.append(0 if word in "._" else int(word[:5]))
            if values[-1] > size:
                raise text.error(
                    f"row {rows + 1} column {column} holds {shorten(word, 20)}; a Futoshiki of size {size} has 1 to {size}"
                )
        rows += 1
        end = text.line
        text.at += 1
    if rows < size:
        raise text.error(f"{size} rows of {size} cells expected, found {rows}", end)
    return _build(text, size, less, values, start)


def _nearest(spans: list[tuple[int, int]], at: int) -> int | None:
    """The cell that covers a column of the text, or else the only one right beside it."""
    inside = [i for i, (first, last) in enumerate(spans) if first <= at <= last]
    beside = [i for i, (first, last) in enumerate(spans) if first - 1 <= at <= last + 1]
    return inside[0] if inside else beside[0] if len(beside) == 1 else None


def _build(text: Text, size: int, less: list[tuple[int, int]], values: list[int], line: int) -> Instance:
    try:
        return build(size, np.array(less, dtype=np.int64).reshape(-1, 2), np.array(values, dtype=np.int64))
    except ValueError as error:
        raise text.error(str(error), line) from None


def _read_unequal(text: Text, match: re.Match[str]) -> Instance:
    """A game id of Simon Tatham's Unequal: `4:0,2R,...`, a letter for each neighbor the cell is greater than."""
    digits, extra, mark, body = match.groups()
    line = text.line
    if "a" in re.sub("d[a-z]", "", extra):
        raise text.error("an Unequal game with adjacency signs; only plain Futoshiki is read", line)
    if mark == "#":
        raise text.error("a random seed of Unequal, not a board; use the id with a colon", line)
    size = int(digits)
    if not 1 <= size <= MAX_SIZE:
        raise text.error(f"size {size}; a Futoshiki has 1 to {MAX_SIZE}", line)
    cells = body.strip().removesuffix(",").split(",")
    if len(cells) != size * size:
        raise text.error(f"the id has {len(cells)} cells; a Futoshiki of size {size} has {size * size}", line)
    values: list[int] = []
    less: set[tuple[int, int]] = set()
    for i, cell in enumerate(cells):
        part = _UNEQUAL_CELL.fullmatch(cell.strip())
        if part is None:
            raise text.error(f"{shorten(cell, 20)!r} is no cell of an Unequal id", line)
        values.append(int(part.group(1)))
        if values[-1] > size:
            raise text.error(f"value {values[-1]}; a Futoshiki of size {size} has 1 to {size}", line)
        row, column = divmod(i, size)
        for flag in part.group(2):
            r, c = row + {"U": -1, "D": 1}.get(flag, 0), column + {"L": -1, "R": 1}.get(flag, 0)
            if not (0 <= r < size and 0 <= c < size):
                raise text.error(f"the sign {flag} at row {row + 1} column {column + 1} points off the board", line)
            less.add((r * size + c, i))
    instance = _build(text, size, sorted(less), values, line)
    text.at += 1
    return instance


def _from_json(item: dict[str, Any]) -> Instance:
    size, givens, signs = item["size"], item["givens"], item.get("less", [])
    if type(size) is not int or not 1 <= size <= MAX_SIZE:
        raise ValueError(f'"size" is a number from 1 to {MAX_SIZE}')
    less: list[tuple[int, int]] = []
    for sign in signs if isinstance(signs, list) else [signs]:
        try:
            (r1, c1), (r2, c2) = sign
            if not all(type(n) is int and 1 <= n <= size for n in (r1, c1, r2, c2)):
                raise ValueError
        except (TypeError, ValueError):
            raise ValueError(
                f'"less" holds pairs of cells, the smaller first: [[row, column], [row, column]], from 1 to {size}'
            ) from None
        less.append(((r1 - 1) * size + c1 - 1, (r2 - 1) * size + c2 - 1))
    return build(size, np.array(less, dtype=np.int64).reshape(-1, 2), read_board(givens, size))


# ---- writing


def _less(instance: Instance) -> set[tuple[int, int]]:
    return {(x, y) for x, y in instance.csp.pairs["less"].tolist()}


def _grid(instance: Instance, values: Values) -> str:
    rows = ("".join(text for text, _ in row).rstrip() for row in _draw(instance, values, plain=True))
    return "\n".join(row for row in rows if row)


def _no_grid(instance: Instance) -> str:
    return "" if _less(instance) else "a Futoshiki without signs looks like a Sudoku; use json or sgt"


def _draw(instance: Instance, values: Values, plain: bool = False) -> list[list[Span]]:
    size, less = instance.size, _less(instance)
    roles = [""] * len(values) if plain else cell_roles(instance, values)
    pad = len(str(size))
    lines: list[list[Span]] = []
    for row in range(size):
        cells: list[Span] = []
        below: list[Span] = []
        for column in range(size):
            i = row * size + column
            text = str(values[i]) if values[i] else "."
            cells.append((f"{text:>{pad}}", roles[i]))
            sign = "^" if (i, i + size) in less else "v" if (i + size, i) in less else " "
            below.append((f"{sign:>{pad}}", "sign"))
            if column + 1 < size:
                sign = "<" if (i, i + 1) in less else ">" if (i + 1, i) in less else " "
                cells.append((f" {sign} ", "sign"))
                below.append(("   ", "sign"))
        lines.append(cells)
        if row + 1 < size:
            lines.append(below)
    return lines


def _unequal(instance: Instance, values: Values) -> str:
    size, less = instance.size, _less(instance)
    cells: list[str] = []
    for i, v in enumerate(values.tolist()):
        row, column = divmod(i, size)
        steps = {"U": (row > 0, -size), "R": (column + 1 < size, 1), "D": (row + 1 < size, size), "L": (column > 0, -1)}
        flags = "".join(f for f, (inside, step) in steps.items() if inside and (i + step, i) in less)
        cells.append(f"{v}{flags},")
    return f"{size}:{''.join(cells)}"


def _to_json(instance: Instance, values: Values) -> str:
    size = instance.size
    less = [[[i // size + 1, i % size + 1] for i in pair] for pair in instance.csp.pairs["less"].tolist()]
    return json.dumps({"puzzle": "futoshiki", "size": size, "givens": values.tolist(), "less": less})


def _layout(instance: Instance) -> Layout:
    size, step = instance.size, CELL * 1.5
    places = grid_places(size, step)
    lines: list[tuple[float, float, float, float, float]] = []
    for low, high in sorted(_less(instance)):
        dx, dy = np.sign(places[high] - places[low]).tolist()
        x, y = ((places[low] + places[high]) / 2).tolist()
        for side in (-1, 1):  # the tip points to the smaller cell
            lines.append((x - 4 * dx, y - 4 * dy, x + 4 * dx + 6 * side * dy, y + 4 * dy + 6 * side * dx, 1.8))
    edge = 2 * MARGIN + CELL + (size - 1) * step
    return Layout(
        width=edge,
        height=edge,
        places=places,
        shape="box",
        side=CELL,
        lines=tuple(lines),
        links=np.zeros((0, 2), dtype=np.int64),
        symbols=tuple(map(str, range(1, size + 1))),
    )


PUZZLE = Puzzle(
    name="futoshiki",
    forms=FORMS,
    restore=_restore,
    varying="less",
    reader=Reader("futoshiki", _claims, _read),
    read_json=_from_json,
    formats=(Format("grid", _grid, _no_grid), Format("json", _to_json), Format("sgt", _unequal)),
    examples=(
        ". < . . .\n        ^\n. . . .\n  \n4 . > . .\nv\n. . . 2",
        "4:3,0,0D,0,0,0,0D,0,0,0,0,3,0,0,0U,2,",
        '{"puzzle": "futoshiki", "size": 3, "givens": [0, 0, 0, 0, 2, 0, 0, 0, 0], "less": [[[1, 1], [1, 2]]]}',
    ),
    name_variable=name_cell,
    draw=_draw,
    layout=_layout,
)
