"""Sudoku with boxes of any shape, up to 36 values."""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, Groups, LiftedCSP
from outgrow.errors import InputError
from outgrow.puzzles.drawing import CELL, cell_role, svg_document, svg_line, svg_text
from outgrow.puzzles.instance import Format, Instance, Puzzle, Span, Values, neq
from outgrow.puzzles.reading import MAX_LINE, Reader, Text, shorten

__all__ = ["FORMS", "MAX_SIZE", "PUZZLE", "SYMBOLS", "box_shape", "build", "name_cell"]

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


SYMBOLS = "123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"
_EMPTY = {".", "_", "0", "-1"}
_DRAWN = str.maketrans(
    dict.fromkeys("│┃║┆┊", "|")
    | dict.fromkeys("─━═┄┈", "-")
    | dict.fromkeys("┼╋╬┬┴├┤┌┐└┘╔╗╚╝╠╣╦╩┏┓┗┛┣┫┳┻╂┿╪╫╟╢╤╧", "+")
)
_SOLO = re.compile(r"\s*(\d{1,4})(?:x(\d{1,4}))?((?:[a-z]\d*)*)\s*([:#])(.*)")
_SOLO_RUN = re.compile(r"[a-z]|_|\d+")


def _restore(
    *,
    size: int,
    shape: tuple[int, ...],
    pairs: npt.NDArray[np.integer],
    givens: npt.NDArray[np.integer],
    form: str,
) -> Instance:
    rows, columns = shape
    return build(rows, columns, givens, form=form)


# ---- reading


def _claims(text: Text) -> bool:
    return True


def _read(text: Text) -> Instance:
    match = _SOLO.fullmatch(text.current)
    if match:
        return _read_solo(text, match)
    rows = _rows_ahead(text)
    if not rows:
        raise text.error("a Sudoku expected, found only rules")
    single = _read_line(text, rows)
    return single if single is not None else _read_grid(text, rows)


@dataclass(frozen=True)
class _Row:
    """A line of cells, cut both ways: into tokens and into characters, with the cells between bars."""

    line: int  # number in the file, from 1
    tokens: list[str]
    characters: str
    bars: bool
    parts: list[tuple[int, int]]  # tokens and characters between two bars
    gap: bool  # a rule stands above it


def _rows_ahead(text: Text) -> list[_Row]:
    """The rows from here on, to what is clearly no longer this puzzle; at most one board's worth."""
    rows: list[_Row] = []
    gap = False
    for offset, raw in enumerate(text.ahead(3 * MAX_SIZE + 3)):
        line = raw.translate(_DRAWN).strip()
        if not line or line.startswith("#"):
            continue
        if len(line) > MAX_LINE or line[0] in "{[" or _SOLO.fullmatch(line):
            break
        if _is_rule(line):
            gap = True
            continue
        cut = [part.split() for part in line.split("|")]
        cut = [part for part in cut if part]
        tokens = [token for part in cut for token in part]
        rows.append(
            _Row(
                line=text.line + offset,
                tokens=tokens,
                characters="".join(tokens),
                bars="|" in line,
                parts=[(len(part), sum(map(len, part))) for part in cut],
                gap=gap,
            )
        )
        gap = False
    return rows


def _is_rule(line: str) -> bool:
    """A line drawn with | - + = alone."""
    return not line.strip("|+=- \t") and any(c in line for c in "-+=")


def _side(cells: int) -> int | None:
    """K if a board of K x K has that many cells."""
    side = math.isqrt(cells)
    return side if side * side == cells and 1 <= side <= MAX_SIZE else None


def _read_line(text: Text, rows: list[_Row]) -> Instance | None:
    """A board on a line of its own; None if the line is the first row of a grid."""
    first = rows[0]
    if first.bars or first.gap:
        return None
    for by_token in (True, False):
        cells = first.tokens if by_token else list(first.characters)
        if not by_token and len(first.tokens) > 1:
            continue
        side = _side(len(cells))
        if side is None or side < 2:
            continue
        if _grid_ahead(rows, len(cells), by_token):
            # A row of a K*K board, or a whole board of side K? The second if no symbol is above K.
            block = [c for row in rows[: len(cells)] for c in (row.tokens if by_token else row.characters)]
            if any(_rank(cell) > side for cell in block):
                continue
        elif text.options.box is None and box_shape(side) is None and side > 3:
            continue
        text.at = first.line
        return _finish(text, cells, side, None, first.line)
    return None


def _rank(cell: str) -> int:
    """How large a value the cell means at least."""
    if cell in _EMPTY:
        return 0
    if cell.isdigit():
        return int(cell) if len(cell) < 5 else 10_000
    return SYMBOLS.find(cell.upper()) + 1 or 10_000


def _grid_ahead(rows: list[_Row], side: int, by_token: bool) -> bool:
    """Whether the next `side` rows all have `side` cells."""
    if not 2 <= side <= MAX_SIZE or len(rows) < side:
        return False
    return all(len(row.tokens if by_token else row.characters) == side for row in rows[:side])


def _read_grid(text: Text, rows: list[_Row]) -> Instance:
    first = rows[0]
    for by_token in (True, False):
        side = len(first.tokens if by_token else first.characters)
        if not _grid_ahead(rows, side, by_token):
            continue
        block = rows[:side]
        cells = [c for row in block for c in (row.tokens if by_token else row.characters)]
        if by_token and len(first.characters) > side and any(_rank(c) > side for c in cells):
            continue  # '12 34' is two cells of a 4x4 board each, not the numbers 12 and 34
        box = _drawn_box(text, block, side, by_token)
        text.at = block[-1].line
        while text.at < len(text.lines):  # the rule that closes the drawing
            below = text.current.translate(_DRAWN).strip()
            if not _is_rule(below):
                break
            text.at += 1
        return _finish(text, cells, side, box, first.line)
    raise _explain(text, rows)


def _explain(text: Text, rows: list[_Row]) -> InputError:
    """What is wrong with rows that form neither a line nor a grid."""
    first = rows[0]
    for row in rows:
        strange = next((c for c in row.characters if not (c.isascii() and c.isalnum()) and c not in "._-"), None)
        if strange is not None:
            return text.error(f"{strange!r} is no cell of a Sudoku; write 1-9 and A-Z, or . for an empty one", row.line)
    count = len(first.tokens) if len(first.tokens) > 1 else len(first.characters)
    if not first.bars and (len(rows) == 1 or count > MAX_SIZE):
        side = max(2, min(MAX_SIZE, round(math.sqrt(count))))
        return text.error(f"{count} cells on the line; a Sudoku of size {side} has {side * side}", first.line)
    for row in rows[1:count]:
        cells = len(row.tokens) if len(first.tokens) > 1 else len(row.characters)
        if cells != count:
            return text.error(f"this row has {cells} cells, the first has {count}", row.line)
    return text.error(f"{count} rows of {count} cells expected, found {min(len(rows), count)} rows", rows[-1].line)


def _drawn_box(text: Text, block: list[_Row], side: int, by_token: bool) -> tuple[int, int] | None:
    """The box shape that bars and rules draw; None if they draw none."""
    widths = {tuple(part[0 if by_token else 1] for part in row.parts) for row in block if row.bars}
    starts = [i for i, row in enumerate(block) if row.gap and i > 0]
    heights = {b - a for a, b in zip([0, *starts], [*starts, side], strict=True)} if starts else set()
    columns = {w for parts in widths for w in parts if len(parts) > 1}
    if columns == {1} or heights == {1}:  # lines around every cell say nothing
        return None
    if len(widths) > 1 or len(columns) > 1 or len(heights) > 1:
        raise text.error("the drawn boxes are not all of one shape", block[0].line)
    if not columns and not heights:
        return None
    width = columns.pop() if columns else side // heights.copy().pop()
    height = heights.pop() if heights else side // width
    if width * height != side:
        raise text.error(f"boxes are drawn as {height}x{width}, which do not hold {side} cells", block[0].line)
    return height, width


def _finish(text: Text, cells: list[str], side: int, drawn: tuple[int, int] | None, line: int) -> Instance:
    """Values, notation and box shape of a board of `side` x `side` cells."""
    try:
        values, notation, notes = _read_symbols(cells, side)
    except ValueError as error:
        raise text.error(str(error), line) from None
    box = text.options.box or drawn or box_shape(side)
    if box is None:
        raise text.error(f"a Sudoku of size {side} has no usual boxes; name their shape, as in --box 1x{side}", line)
    if box[0] * box[1] != side:
        raise text.error(f"boxes of {box[0]}x{box[1]} do not fit a Sudoku of size {side}", line)
    if box[0] != box[1] and not (text.options.box or drawn):
        notes += (f"boxes of {box[0]} rows and {box[1]} columns assumed; --box names another shape",)
    return build(*box, np.array(values, dtype=np.int16), notation=notation, notes=notes)


def _read_symbols(cells: list[str], side: int) -> tuple[list[int], str, tuple[str, ...]]:
    """Values, the notation ('1': 1-9A-Z, '0': from 0, 'A': letters alone), and what was assumed."""
    for cell in cells:
        if cell not in _EMPTY and not (cell.isascii() and cell.isalnum()):
            raise ValueError(f"{shorten(cell, 20)!r} is no cell of a Sudoku; write 1-9 and A-Z, or . for an empty one")
    if any(len(cell) > 1 and cell != "-1" for cell in cells):
        values = [0 if cell in _EMPTY else _number(cell) for cell in cells]
        return _in_range(values, cells, side), "1", ()
    upper = [cell.upper() for cell in cells]
    shown = {cell for cell in upper if cell not in _EMPTY}
    if shown and not any(cell.isdigit() for cell in shown) and "0" not in upper:
        values = [0 if cell in _EMPTY else ord(cell) - ord("A") + 1 for cell in upper]
        last = chr(ord("A") + side - 1) if side <= 26 else "Z"
        return _in_range(values, cells, side), "A", (f"letters read as A-{last}",)
    if side > 9 and _looks_zero_based(upper, side):
        values = [0 if cell in {".", "_", "-1"} else SYMBOLS.find(cell) + 2 for cell in upper]
        return _in_range(values, cells, side), "0", (f"symbols read as 0-{SYMBOLS[side - 2]}",)
    values = [0 if cell in _EMPTY else SYMBOLS.index(cell) + 1 for cell in upper]
    notes = (f"symbols read as 1-{SYMBOLS[side - 1]}",) if 9 < side <= len(SYMBOLS) else ()
    return _in_range(values, cells, side), "1", notes


def _looks_zero_based(cells: list[str], side: int) -> bool:
    """Whether 0 is a value: there is another sign for empty cells, or a full board has one 0 in every row and column."""
    if "0" not in cells or side > len(SYMBOLS) or SYMBOLS[side - 1] in cells:
        return False
    if any(cell in {".", "_", "-1"} for cell in cells):
        return True
    zeros = [divmod(i, side) for i, cell in enumerate(cells) if cell == "0"]
    return len(zeros) == side == len({r for r, _ in zeros}) == len({c for _, c in zeros})


def _number(cell: str) -> int:
    if not cell.isdigit():
        raise ValueError(f"{shorten(cell, 20)!r} stands among numbers")
    return int(cell) if len(cell) < 5 else 10_000


def _in_range(values: list[int], cells: list[str], side: int) -> list[int]:
    for i, value in enumerate(values):
        if not 0 <= value <= side:
            row, column = divmod(i, side)
            raise ValueError(
                f"row {row + 1} column {column + 1} holds {shorten(cells[i], 20)}; a Sudoku of size {side} has {side} values"
            )
    return values


def _read_solo(text: Text, match: re.Match[str]) -> Instance:
    """A game id of Simon Tatham's Solo: `2x3:a6a5b...`, letters for runs of empty cells."""
    rows, columns, extra, mark, body = match.groups()
    line = text.line
    variants = re.sub(r"d[a-z]|[rm]\d+d?|a", "", extra)
    if columns is None or variants:
        kind = {"x": "diagonals", "j": "jigsaw boxes", "k": "killer cages"}
        named = ", ".join(kind[v] for v in variants if v in kind) or "no box shape"
        raise text.error(f"a Solo game with {named}; only plain Sudoku is read", line)
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
            values.append(int(token) if len(token) < 5 else 10_000)
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
    if not isinstance(givens, list) or not all(type(v) is int for v in givens):
        raise ValueError('"givens" is a list of numbers, 0 for an empty cell')
    return build(box[0], box[1], np.array(givens, dtype=np.int64))


# ---- writing


def _symbol(value: int, size: int, notation: str) -> str:
    if not value:
        return "."
    if notation == "A" and size <= 26:
        return chr(ord("A") + value - 1)
    if notation == "0" and size <= len(SYMBOLS):
        return "0" if value == 1 else SYMBOLS[value - 2]
    return SYMBOLS[value - 1] if size <= len(SYMBOLS) else str(value)


def _line(instance: Instance, values: Values) -> str:
    return "".join(_symbol(int(v), instance.size, instance.notation) for v in values)


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
    symbols = [_symbol(int(v), size, instance.notation) for v in values]
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
            spans.append((f"{symbols[i]:>{pad}} ", cell_role(instance.givens, values, i)))
        lines.append(spans)
    return lines


def _draw_svg(instance: Instance, values: Values) -> str:
    size, (height, width) = instance.size, instance.shape
    edge = size * CELL
    parts: list[str] = []
    for i in range(size + 1):
        at = 10 + i * CELL
        parts.append(svg_line((10, at), (10 + edge, at), 2.5 if i % height == 0 else 0.7))
        parts.append(svg_line((at, 10), (at, 10 + edge), 2.5 if i % width == 0 else 0.7))
    for i, v in enumerate(values.tolist()):
        if v:
            row, column = divmod(i, size)
            x, y = 10 + (column + 0.5) * CELL, 10 + (row + 0.5) * CELL
            parts.append(svg_text(x, y, _symbol(v, size, instance.notation), cell_role(instance.givens, values, i)))
    return svg_document(edge + 20, edge + 20, parts)


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
        Format("grid", _grid),
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
    draw_svg=_draw_svg,
)
