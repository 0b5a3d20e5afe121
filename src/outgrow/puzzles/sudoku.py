"""Sudoku with boxes of any shape, up to 36 values."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import takewhile
from typing import Any

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, Groups, LiftedCSP
from outgrow.errors import InputError
from outgrow.puzzles.drawing import CELL, MARGIN, cell_roles, grid_places
from outgrow.puzzles.instance import Format, Instance, Layout, Puzzle, Span, Values, neq
from outgrow.puzzles.reading import MAX_LINE, Reader, Text, shorten

__all__ = ["FORMS", "MAX_SIZE", "PUZZLE", "SYMBOLS", "box_shape", "build", "from_array", "name_cell", "read_board"]

MAX_SIZE = 36

FORMS = {
    "units": LiftedCSP(
        predicates=["row(2)", "col(2)", "box(2)"],
        relations={"neq": neq},
        constraints=["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)", "box(x, y) -> neq(x, y)"],
    ),
    # As the paper has it: one predicate, so that a cell cannot tell a row from a box.
    "nbr": LiftedCSP(predicates=["nbr(2)"], relations={"neq": neq}, constraints=["nbr(x, y) -> neq(x, y)"]),
}


def box_shape(size: int) -> tuple[int, int] | None:
    """The box (rows, columns) assumed where a text does not say: the paper's (2x6 at 12, where many
    draw 3x4), elsewhere the most square one that is not taller than wide. None if there is only a single row.

    >>> box_shape(9), box_shape(12), box_shape(20), box_shape(7)
    ((3, 3), (2, 6), (4, 5), None)
    """
    if size == 12:
        return (2, 6)
    for rows in range(int(size**0.5), 1, -1):
        if size % rows == 0:
            return (rows, size // rows)
    return None


@lru_cache(maxsize=64)
def _ground(rows: int, columns: int, form: str) -> GroundCSP:
    size = rows * columns
    cells = np.arange(size * size).reshape(size, size)
    boxes = (
        cells.reshape(columns, rows, rows, columns).transpose(0, 2, 1, 3).reshape(size, size)
    )  # band, row in band, stack, column in stack -> one box a row
    row, col, box = (Groups(units.tolist()) for units in (cells, cells.T, boxes))
    if form == "units":
        facts = {"row": row, "col": col, "box": box}
    else:
        facts = {"nbr": Groups([*row.members, *col.members, *box.members])}
    return FORMS[form].ground(variables=size * size, values=size, facts=facts)


def build(
    rows: int,
    columns: int,
    givens: npt.NDArray[np.integer],
    *,
    form: str = "units",
    notation: str = "1",
    notes: tuple[str, ...] = (),
) -> Instance:
    """A Sudoku of boxes `rows` x `columns`; `givens` (K * K,) by rows, 0 for an empty cell."""
    if rows < 1 or columns < 1 or not 1 <= rows * columns <= MAX_SIZE:
        raise ValueError(f"boxes of {rows}x{columns}: a Sudoku has 1 to {MAX_SIZE} values")
    csp = _ground(rows, columns, form)
    return Instance("sudoku", csp, csp.assignment(givens), (rows, columns), notation, notes)


def from_array(board: npt.ArrayLike, box: tuple[int, int] | None = None) -> Instance:
    """A Sudoku from an array (K, K), 0 for an empty cell; boxes of `box` rows and columns, by default those that a text without boxes is read with (`box_shape`).

    >>> from_array([[1, 0, 0, 0], [0, 0, 3, 0], [0, 4, 0, 0], [0, 0, 0, 2]]).shape
    (2, 2)
    """
    cells = np.asarray(board)
    if cells.ndim != 2 or cells.shape[0] != cells.shape[1] or not 1 <= len(cells) <= MAX_SIZE:
        raise ValueError(f"a board is (K, K) with K from 1 to {MAX_SIZE}, not {cells.shape}")
    size = len(cells)
    shape = box_shape(size) if box is None else box
    if shape is None:
        raise ValueError(f"a board of size {size} has no boxes of its own; name them")
    rows, columns = shape
    if rows * columns != size:
        raise ValueError(f"boxes of {rows}x{columns} do not make a board of size {size}")
    if not np.issubdtype(cells.dtype, np.integer) or cells.min() < 0 or cells.max() > size:
        raise ValueError(f"values are whole numbers from 0 to {size}")
    return build(rows, columns, cells.astype(np.int64).ravel())


SYMBOLS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_EMPTY = {".", "_", "0", "-1"}
_LETTERS = 26
_SAMPLE = 5  # rows to look at to tell rows from boards
_TOO_LARGE = 10_000  # stands for any number of five digits and more
_DRAWN = str.maketrans(
    dict.fromkeys("│┃║┆┊┇┋╎╏", "|")
    | dict.fromkeys("─━═┄┈┅┉╌╍", "-")
    | dict.fromkeys("┼╋╬┬┴├┤┌┐└┘╔╗╚╝╠╣╦╩┏┓┗┛┣┫┳┻╂┿╪╫╟╢╤╧╭╮╰╯┠┨┯┷┝┥┰┸┞┟┡┢┦┧┩┪╀╁╄╅╆╇╈╉╊╃┽┾╞╡╥╨", "+")
)
_SOLO = re.compile(r"\s*([0-9]{1,4})(?:x([0-9]{1,4}))?((?:[a-z][0-9]*)*)\s*([:#])(.*)")
_SOLO_RUN = re.compile(r"[a-z]|_|[0-9]+")


def _restore(
    *,
    size: int,
    shape: tuple[int, ...],
    pairs: npt.NDArray[np.integer],
    givens: npt.NDArray[np.integer],
    form: str,
) -> Instance:
    rows, columns = shape
    if rows * columns != size:
        raise ValueError(f"boxes of {rows}x{columns} do not hold {size} cells")
    return build(rows, columns, givens, form=form)


# ---- reading


def _claims(text: Text) -> bool:
    return True


def _read(text: Text) -> Instance:
    match = _SOLO.fullmatch(text.current)
    if match:
        return _read_solo(text, match)
    sample = _rows_ahead(text, _SAMPLE)
    if not sample:
        raise text.error("a Sudoku expected, found only rules")
    single = _read_line(text, sample)
    return single if single is not None else _read_grid(text, _rows_ahead(text, MAX_SIZE))


@dataclass(frozen=True)
class _Row:
    """A line of cells, which can be cut in two ways: into tokens and into characters."""

    line: int  # number in the file, from 1
    parts: list[list[str]]  # the tokens between two bars
    bars: bool
    rule: bool  # a rule stands above it
    blank: bool  # an empty line stands above it

    @cached_property
    def tokens(self) -> list[str]:
        return [token for part in self.parts for token in part]

    def cells(self, by_token: bool) -> list[str]:
        return self.tokens if by_token else list("".join(self.tokens))

    def count(self, by_token: bool) -> int:
        return len(self.tokens) if by_token else sum(map(len, self.tokens))

    def widths(self, by_token: bool) -> tuple[int, ...]:
        """How many cells there are between bars."""
        return tuple(len(part) if by_token else sum(map(len, part)) for part in self.parts)


def _rows_ahead(text: Text, limit: int) -> list[_Row]:
    """The next row, and where it may begin a grid, the rows of that grid, up to `limit` of them."""
    rows: list[_Row] = []
    wanted = 1
    rule = blank = False
    for offset, raw in enumerate(text.ahead(4 * MAX_SIZE)):
        if len(raw) > MAX_LINE:
            break
        line = (raw if raw.isascii() else raw.translate(_DRAWN)).strip()
        if not line or line[0] == "#":
            blank = blank or not line
            continue
        if line[0] in "{[" or _SOLO.fullmatch(line):
            break
        if _is_rule(line):
            rule = True
            continue
        parts = [tokens for part in line.split("|") if (tokens := part.split())]
        row = _Row(text.line + offset, parts, "|" in line, rule, blank)
        rows.append(row)
        if len(rows) == 1:
            wanted = max((n for n in (row.count(True), row.count(False)) if n <= MAX_SIZE), default=1)
        if len(rows) == min(wanted, limit):
            break
        rule = blank = False
    return rows


def _is_rule(line: str) -> bool:
    """A line drawn with | - + = alone, or dashes between the * . : ' that some programs put at the corners."""
    if not line.strip("|+=- \t"):
        return any(c in line for c in "-+=")
    return "---" in line and not line.strip("|+=-*.:'` \t")


def _side(cells: int) -> int | None:
    """K if a board of K x K has that many cells."""
    side = math.isqrt(cells)
    return side if side * side == cells and 1 <= side <= MAX_SIZE else None


def _read_line(text: Text, rows: list[_Row]) -> Instance | None:
    """A board on a line of its own; None if the line is the first row of a grid, or nothing."""
    first = rows[0]
    # '53..7.... 6..195... ' and so on: the rows of a board side by side.
    rows_abreast = len(first.tokens) >= 4 and {len(token) for token in first.tokens} == {len(first.tokens)}
    by_token = len(first.tokens) > 1 and not rows_abreast
    count = first.count(by_token)
    side = _side(count)
    if first.bars or first.rule or side is None:
        return None
    if count <= MAX_SIZE:  # it may be a row as well
        box = text.options.box
        fits = box[0] * box[1] == side if box else box_shape(side) and not _are_rows(rows, count, by_token)
        if not fits:
            return None
    text.at = first.line
    return _finish(text, first.cells(by_token), side, None, [first])


def _are_rows(rows: list[_Row], count: int, by_token: bool) -> bool:
    """Whether lines of 16 (or 36) cells are rows of one board and not boards of 4 x 4 (6 x 6).

    They are if most of the first few hold symbols that the small board does not have; a single one may be a slip.
    """
    if len(rows) < 2 or rows[1].count(by_token) != count:
        return False
    block = list(takewhile(lambda row: row is rows[0] or not row.blank, rows))
    block = list(takewhile(lambda row: row.count(by_token) == count, block))
    shown = [[cell for cell in row.cells(by_token) if cell not in _EMPTY] for row in block]
    letters = not any(cell.isdigit() for cells in shown for cell in cells)
    side = math.isqrt(count)
    high = sum(any(_rank(cell, letters) > side for cell in cells) for cells in shown)
    return 2 * high > sum(map(bool, shown))


def _rank(cell: str, letters: bool = False) -> int:
    """How large a value the cell means at least."""
    if cell in _EMPTY:
        return 0
    if not (cell.isascii() and cell.isalnum()):
        return _TOO_LARGE
    if cell.isdigit():
        return _number(cell)
    return SYMBOLS.find(cell.upper()) + (1 if not letters else -8) if len(cell) == 1 else _TOO_LARGE


def _read_grid(text: Text, rows: list[_Row]) -> Instance:
    first = rows[0]
    fits = [by_token for by_token in (True, False) if _is_grid(rows, first.count(by_token), by_token)]
    if len(fits) == 2 and first.count(True) != first.count(False):
        # '12 34' is two cells of a 4x4 board each, not the numbers 12 and 34.
        side = first.count(True)
        if any(_rank(cell) > side for row in rows[:side] for cell in row.tokens):
            fits = [False]
    if fits == [True] and first.count(True) < 4 and text.options.box is None:
        fits = []
    if not fits:
        raise _explain(text, rows)
    by_token = fits[0]
    side = first.count(by_token)
    block = rows[:side]
    box = _drawn_box(text, block, side, by_token)
    text.at = block[-1].line
    while text.at < len(text.lines) and _is_rule(text.current.translate(_DRAWN).strip()):
        text.at += 1  # the rule that closes the drawing
    return _finish(text, [cell for row in block for cell in row.cells(by_token)], side, box, block)


def _is_grid(rows: list[_Row], side: int, by_token: bool) -> bool:
    """Whether the next `side` rows all have `side` cells."""
    if not 2 <= side <= MAX_SIZE or len(rows) < side:
        return False
    block = rows[:side]
    return all(row.count(by_token) == side for row in block) and not _torn(block, side)


def _torn(block: list[_Row], side: int) -> int:
    """After how many rows an empty line ends the grid too early, 0 if none does.

    Empty lines may stand between rows at equal distances, as between boxes, or where rules do.
    """
    blank = [i for i, row in enumerate(block) if i and row.blank and not row.rule]
    if not blank or (side % blank[0] == 0 and blank == list(range(blank[0], len(block), blank[0]))):
        return 0
    return blank[0]


def _explain(text: Text, rows: list[_Row]) -> InputError:
    """What is wrong with rows that form neither a line nor a grid."""
    first = rows[0]
    numbers = len(first.tokens) >= 4 and all(_rank(token) < 100 for token in first.tokens)
    by_token = numbers or all(len(token) == 1 for token in first.tokens)
    count = first.count(by_token)
    found = 1 if count > MAX_SIZE else _torn(rows, count) or len(rows)
    for row in rows[:found]:
        strange = next((c for c in "".join(row.tokens) if not (c.isascii() and c.isalnum()) and c not in "._-"), None)
        if strange is not None:
            return text.error(f"{strange!r} is no cell of a Sudoku; write 1-9 and A-Z, or . for an empty one", row.line)
        if row.count(by_token) != count:
            return text.error(f"this row has {row.count(by_token)} cells, the first has {count}", row.line)
    if count == 1:
        return text.error(f"no puzzle: {shorten(text.lines[first.line - 1], 60)!r}", first.line)
    if count <= MAX_SIZE:
        return text.error(f"{count} rows of {count} cells expected, found {found}", rows[found - 1].line)
    if first.bars:
        return text.error(f"{count} cells in the row; a Sudoku has up to {MAX_SIZE}", first.line)
    side = min(MAX_SIZE, round(math.sqrt(count)))
    return text.error(f"{count} cells on the line; a Sudoku of size {side} has {side * side}", first.line)


def _drawn_box(text: Text, block: list[_Row], side: int, by_token: bool) -> tuple[int, int] | None:
    """The box shape that bars and rules draw; None if they draw none."""
    patterns = {row.widths(by_token) for row in block if row.bars}
    columns = {width for pattern in patterns for width in pattern if len(pattern) > 1}
    starts = [i for i, row in enumerate(block) if i and row.rule] or [
        i for i, row in enumerate(block) if i and row.blank
    ]
    heights = {b - a for a, b in zip([0, *starts], [*starts, side], strict=True)} if starts else set()
    # Lines around every cell say nothing.
    columns, heights = (set() if sides == {1} else sides for sides in (columns, heights))
    if len(patterns) > 1 or len(columns) > 1 or len(heights) > 1:
        raise text.error("the drawn boxes are not all of one shape", block[0].line)
    if not columns and not heights:
        return None
    width = columns.pop() if columns else side // max(heights)
    height = heights.pop() if heights else side // width
    if width * height != side:
        raise text.error(f"boxes are drawn as {height}x{width}, which do not hold {side} cells", block[0].line)
    return height, width


def _finish(text: Text, cells: list[str], side: int, drawn: tuple[int, int] | None, rows: list[_Row]) -> Instance:
    """Values, notation and box shape of a board of `side` x `side` cells, which `rows` are the lines of."""
    line = rows[0].line
    try:
        values, notation, notes = _read_symbols(cells, side)
    except _BadCell as error:
        raise text.error(str(error), rows[error.cell // side].line if len(rows) > 1 else line) from None
    box = text.options.box or drawn or box_shape(side)
    if box is None:
        raise text.error(f"a Sudoku of size {side} has no usual boxes; name their shape, as in --box 1x{side}", line)
    if min(box) < 1 or box[0] * box[1] != side:
        raise text.error(f"boxes of {box[0]}x{box[1]} do not fit a Sudoku of size {side}", line)
    if box[0] != box[1] and not (text.options.box or drawn):
        notes += (f"boxes of {box[0]} rows and {box[1]} columns assumed; --box names another shape",)
    return build(*box, np.array(values, dtype=np.int16), notation=notation, notes=notes)


class _BadCell(ValueError):
    """A symbol that stands for no value, and the number of its cell."""

    def __init__(self, cell: int, reason: str) -> None:
        super().__init__(reason)
        self.cell = cell


def _read_symbols(cells: list[str], side: int) -> tuple[list[int], str, tuple[str, ...]]:
    """Values, the notation ('1': 1-9A-Z, '0': from 0, 'A': letters alone), and what was assumed."""
    shown = dict.fromkeys(cell for cell in cells if cell not in _EMPTY)  # in order, so that the first bad one is named
    for cell in shown:
        if not (cell.isascii() and cell.isalnum()):
            raise _BadCell(
                cells.index(cell),
                f"{shorten(cell, 20)!r} is no cell of a Sudoku; write 1-9 and A-Z, or . for an empty one",
            )
    if any(len(cell) > 1 for cell in shown):
        for cell in shown:
            if not cell.isdigit():
                raise _BadCell(cells.index(cell), f"{shorten(cell, 20)!r} stands among numbers")
        meaning = {cell: _number(cell) for cell in shown}
        mixed = "0" in cells and not {".", "_", "-1"}.isdisjoint(cells)
        return _values(cells, meaning, side), "1", ("0 read as an empty cell",) if mixed else ()
    if shown and side <= _LETTERS and not any(cell.isdigit() for cell in shown) and "0" not in cells:
        meaning = {cell: ord(cell.upper()) - ord("A") + 1 for cell in shown}
        return _values(cells, meaning, side), "A", (f"letters read as A-{chr(ord('A') + side - 1)}",)
    if side > 9 and _looks_zero_based(cells, side):
        meaning = {cell: SYMBOLS.index(cell.upper()) + 2 for cell in shown} | {"0": 1}
        return _values(cells, meaning, side), "0", (f"symbols read as 0-{SYMBOLS[side - 2]}",)
    meaning = {cell: SYMBOLS.index(cell.upper()) + 1 for cell in shown}
    notes = (f"symbols read as 1-{SYMBOLS[side - 1]}",) if shown and 9 < side <= len(SYMBOLS) else ()
    return _values(cells, meaning, side), "1", notes


def _looks_zero_based(cells: list[str], side: int) -> bool:
    """Whether 0 is a value: there is another sign for empty cells, or a full board has one 0 in every row and column."""
    if "0" not in cells or side > len(SYMBOLS) or not {SYMBOLS[side - 1], SYMBOLS[side - 1].lower()}.isdisjoint(cells):
        return False
    if any(cell in {".", "_", "-1"} for cell in cells):
        return True
    zeros = [divmod(i, side) for i, cell in enumerate(cells) if cell == "0"]
    return len(zeros) == side == len({r for r, _ in zeros}) == len({c for _, c in zeros})


def _number(digits: str) -> int:
    return int(digits) if len(digits) < 5 else _TOO_LARGE


def _values(cells: list[str], meaning: dict[str, int], side: int) -> list[int]:
    for cell, value in meaning.items():
        if value > side:
            at = cells.index(cell)
            raise _BadCell(
                at,
                f"row {at // side + 1} column {at % side + 1} holds {shorten(cell, 20)}; a Sudoku of size {side} has {side} values",
            )
    return [meaning.get(cell, 0) for cell in cells]


def _read_solo(text: Text, match: re.Match[str]) -> Instance:
    """A game id of Simon Tatham's Solo: `2x3:a6a5b...`, letters for runs of empty cells."""
    rows, columns, extra, mark, body = match.groups()
    line = text.line
    variants = re.sub(r"d[a-z]|[rm]\d+d?|a", "", extra)
    if columns is None or variants:
        kind = {"x": "diagonals", "j": "jigsaw boxes", "k": "killer cages"}
        named = ", ".join(kind[v] for v in variants if v in kind)
        what = f"with {named}" if named else f"of the kind {variants!r}" if variants else "without a box shape"
        raise text.error(f"a Solo game {what}; only plain Sudoku is read", line)
    if mark == "#":
        raise text.error("a random seed of Solo, not a board; use the id with a colon", line)
    height, width = int(rows), int(columns)
    side = height * width
    if not 1 <= side <= MAX_SIZE:
        raise text.error(f"boxes of {height}x{width}; Sudoku goes up to {MAX_SIZE} values", line)
    if text.options.box not in (None, (height, width)):
        raise text.error(f"the id says boxes of {height}x{width}, --box another shape", line)
    body = body.strip()
    values: list[int] = []
    at = 0
    for run in _SOLO_RUN.finditer(body):
        if run.start() != at:
            break
        at = run.end()
        token = run.group()
        if token.isdigit():
            values.append(_number(token))
            if not 1 <= values[-1] <= side:
                raise text.error(f"value {shorten(token, 20)}; a Sudoku of size {side} has 1 to {side}", line)
        elif token != "_":
            values += [0] * (ord(token) - ord("a") + 1)
    if at != len(body):
        raise text.error(f"{body[at]!r} in a Solo id", line)
    if len(values) != side * side:
        raise text.error(f"the id has {len(values)} cells; a Sudoku of size {side} has {side * side}", line)
    text.at += 1
    return build(height, width, np.array(values, dtype=np.int16))


def _from_json(item: dict[str, Any]) -> Instance:
    box, givens = item["box"], item["givens"]
    if not (isinstance(box, list) and len(box) == 2 and all(type(n) is int for n in box)):
        raise ValueError('"box" is [rows, columns]')
    if min(box) < 1 or max(box) > MAX_SIZE or box[0] * box[1] > MAX_SIZE:
        raise ValueError(f'"box" is [rows, columns] of a Sudoku of 1 to {MAX_SIZE} values')
    return build(box[0], box[1], read_board(givens, box[0] * box[1]))


def read_board(givens: Any, size: int) -> npt.NDArray[np.int64]:
    """The "givens" of a JSON form, for any puzzle on a square grid."""
    if not isinstance(givens, list) or not all(type(v) is int for v in givens):
        raise ValueError('"givens" is a list of whole numbers, 0 for an empty cell')
    if len(givens) != size * size:
        raise ValueError(f'"givens" has {len(givens)} numbers; a board of size {size} has {size * size}')
    for i, value in enumerate(givens):
        if not 0 <= value <= size:
            raise ValueError(
                f'"givens": row {i // size + 1} column {i % size + 1} holds {shorten(str(value), 20)}; values are 1 to {size}, 0 for none'
            )
    return np.array(givens, dtype=np.int64)


# ---- writing


def _symbol(value: int, size: int, notation: str) -> str:
    if not value:
        return "."
    if notation == "A" and size <= _LETTERS:
        return chr(ord("A") + value - 1)
    if notation == "0" and size <= len(SYMBOLS):
        return "0" if value == 1 else SYMBOLS[value - 2]
    return SYMBOLS[value - 1] if size <= len(SYMBOLS) else str(value)


def _symbols(instance: Instance, values: Values) -> list[str]:
    """A symbol a cell, in the notation the board came in where that reads back as the same values.

    It does not where 0-F holds no 0 so far, or 1-G nothing but letters.
    """
    size, numbers = instance.size, values.tolist()
    for notation in dict.fromkeys((instance.notation, "1", "A")):
        cells = [_symbol(v, size, notation) for v in numbers]
        if size > len(SYMBOLS) or _read_symbols(cells, size)[0] == numbers:
            return cells
    raise AssertionError("digits, or else letters alone, can always be read")


def _line(instance: Instance, values: Values) -> str:
    return "".join(_symbols(instance, values))


def _no_line(instance: Instance) -> str:
    if instance.size > len(SYMBOLS):
        return f"size {instance.size} has more values than symbols; use another format, such as ints"
    return ""


def _ints(instance: Instance, values: Values) -> str:
    width = len(str(instance.size))
    board = values.reshape(instance.size, -1)
    return "\n".join(" ".join(f"{v:>{width}}" for v in row) for row in board.tolist())


def _grid(instance: Instance, values: Values) -> str:
    """Drawn with | - + between boxes."""
    return "\n".join("".join(span for span, _ in row) for row in _draw(instance, values, plain=True))


def _no_grid(instance: Instance) -> str:
    if 1 in instance.shape:
        return f"boxes of {instance.shape[0]}x{instance.shape[1]} look like lines around every cell; use json or sgt"
    return ""


def _solo(instance: Instance, values: Values) -> str:
    rows, columns = instance.shape
    out: list[str] = []
    run = 0
    for v in [*values.tolist(), None]:
        if v == 0:
            run += 1
            continue
        while run:
            out.append(chr(ord("a") + min(run, 26) - 1))
            run -= min(run, 26)
        if v is not None:
            if out and out[-1].isdigit():
                out.append("_")
            out.append(str(v))
    return f"{rows}x{columns}:{''.join(out)}"


def _to_json(instance: Instance, values: Values) -> str:
    return json.dumps({"puzzle": "sudoku", "box": list(instance.shape), "givens": values.tolist()})


def _draw(instance: Instance, values: Values, plain: bool = False) -> list[list[Span]]:
    """The board with rules between boxes."""
    size, (height, width) = instance.size, instance.shape
    symbols = _symbols(instance, values)
    roles = [""] * len(symbols) if plain else cell_roles(instance, values)
    pad = max(map(len, symbols)) if size > len(SYMBOLS) else 1
    bar, cross, dash = ("|", "+", "-") if plain else ("│", "┼", "─")
    rule = cross.join(dash * ((pad + 1) * width + 1) for _ in range(size // width))
    lines: list[list[Span]] = []
    for row in range(size):
        if row and row % height == 0:
            lines.append([(rule, "rule")])
        spans: list[Span] = [(" ", "rule")]
        for column in range(size):
            if column and column % width == 0:
                spans.append((f"{bar} ", "rule"))
            i = row * size + column
            spans.append((f"{symbols[i]:>{pad}} ", roles[i]))
        lines.append(spans)
    return lines


def _layout(instance: Instance) -> Layout:
    size, (height, width) = instance.size, instance.shape
    edge = MARGIN + size * CELL
    lines: list[tuple[float, float, float, float, float]] = []
    for i in range(size + 1):
        at = MARGIN + i * CELL
        lines.append((MARGIN, at, edge, at, 2.5 if i % height == 0 else 0.7))
        lines.append((at, MARGIN, at, edge, 2.5 if i % width == 0 else 0.7))
    return Layout(
        width=edge + MARGIN,
        height=edge + MARGIN,
        places=grid_places(size, CELL),
        shape="cell",
        side=CELL,
        lines=tuple(lines),
        links=np.zeros((0, 2), dtype=np.int64),
        symbols=tuple(_symbol(v, size, instance.notation) for v in range(1, size + 1)),
    )


def name_cell(instance: Instance, variable: int) -> str:
    """'row 1 column 4', for any puzzle on a square grid."""
    row, column = divmod(variable, instance.size)
    return f"row {row + 1} column {column + 1}"


PUZZLE = Puzzle(
    name="sudoku",
    forms=FORMS,
    restore=_restore,
    varying=None,
    reader=Reader("sudoku", _claims, _read),
    read_json=_from_json,
    formats=(
        Format("line", _line, _no_line),
        Format("ints", _ints),
        Format("grid", _grid, _no_grid),
        Format("json", _to_json),
        Format("sgt", _solo),
    ),
    examples=(
        "1.....3..4.....2",
        "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79",
        "2x3:a6a5b5c3_4c3d6c6_2c3b3a2a",
    ),
    name_variable=name_cell,
    draw=_draw,
    layout=_layout,
)
