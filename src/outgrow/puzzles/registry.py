"""The puzzles there are. To add one: a file beside this one, and a line in `PUZZLES`."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outgrow.csp import judge
from outgrow.errors import InputError
from outgrow.puzzles import coloring, futoshiki, sudoku
from outgrow.puzzles.drawing import svg_picture
from outgrow.puzzles.instance import Confidence, Instance, Puzzle
from outgrow.puzzles.reading import MAX_LINE, MAX_LINES, Options, Text, read_json

__all__ = [
    "PUZZLES",
    "draw_svg",
    "find_conflict",
    "get_puzzle",
    "name_variable",
    "parse",
    "parse_one",
    "render",
    "write_line",
]

# Sudoku comes last: it takes any text that nothing else claims.
PUZZLES: dict[str, Puzzle] = {p.name: p for p in (coloring.PUZZLE, futoshiki.PUZZLE, sudoku.PUZZLE)}


def get_puzzle(name: str) -> Puzzle:
    """The puzzle of that name."""
    if name not in PUZZLES:
        raise InputError(f"no puzzle {name!r}; there is {', '.join(PUZZLES)}")
    return PUZZLES[name]


def parse(text: str, *, source: str = "text", options: Options | None = None) -> list[Instance]:
    """All puzzles in a text, in any mix of formats; InputError names the line it fails on.

    >>> [i.puzzle for i in parse("1234" + "." * 12)]
    ['sudoku']
    """
    options = options or Options()
    text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.count("\n") > MAX_LINES:
        raise InputError(f"more than {MAX_LINES:,} lines; split it", source=source, line=MAX_LINES + 1)
    body = Text(text.split("\n"), source, options)
    candidates = [get_puzzle(options.puzzle)] if options.puzzle else list(PUZZLES.values())
    found: list[Instance] = []
    while body.skip_blank():
        if body.current.lstrip()[0] in "{[":
            found += read_json(body, {p.name: p.read_json for p in candidates})
            continue
        line = body.line
        if len(body.current) > MAX_LINE:
            raise body.error(f"a line of {len(body.current):,} characters is no puzzle")
        reader = next((p.reader for p in candidates if p.reader.claims(body)), candidates[-1].reader)
        found.append(body.place(reader.read(body), line))
    if not found:
        raise InputError("holds no puzzle", source=source)
    return found


def parse_one(text: str, *, source: str = "text", options: Options | None = None) -> Instance:
    """The only puzzle in a text."""
    found = parse(text, source=source, options=options)
    if len(found) != 1:
        raise InputError(f"one puzzle expected, found {len(found)}", source=source)
    return found[0]


def render(
    instance: Instance,
    assignment: npt.NDArray[np.integer] | None = None,
    format: str | None = None,
) -> str:
    """The instance as text, with the values of `assignment` in place of the givens if there is one."""
    puzzle = get_puzzle(instance.puzzle)
    values = instance.givens if assignment is None else instance.csp.assignment(assignment)
    if format is not None and format not in {f.name for f in puzzle.formats}:
        names = ", ".join(f.name for f in puzzle.formats)
        raise InputError(f"{puzzle.name} has no format {format!r}; there is {names}")
    chosen = puzzle.formats[0] if format is None else puzzle.format(format)
    reason = chosen.refuses(instance)
    if reason:
        raise InputError(reason, source=instance.source)
    return chosen.render(instance, values)


def draw_svg(instance: Instance, assignment: npt.NDArray[np.integer], confidence: Confidence | None = None) -> str:
    """An assignment as an SVG file: given and found values differ, and what breaks a rule is red.

    With `confidence` (V,), how sure each value is, it is drawn so strongly.

    >>> puzzle = parse_one("1.....3..4.....2")
    >>> draw_svg(puzzle, puzzle.givens).startswith("<svg ")
    True
    """
    layout = get_puzzle(instance.puzzle).layout(instance)
    return svg_picture(instance, layout, instance.csp.assignment(assignment), confidence)


def write_line(instance: Instance, assignment: npt.NDArray[np.integer] | None = None) -> str:
    """As `render`, as a single line that is read as the same puzzle again, without options.

    >>> write_line(parse_one("1.....3..4.....2"))
    '1.....3..4.....2'
    """
    # A line of symbols does not say its boxes, nor have all sizes symbols enough: then the next format does.
    for name in ("line", "sgt", "json"):
        chosen = next((f for f in get_puzzle(instance.puzzle).formats if f.name == name), None)
        if chosen is None or chosen.refuses(instance):
            continue
        text = render(instance, assignment, name)
        if name == "json" or _reads_as(text, instance):
            return text
    raise InputError(f"{instance.puzzle} has no format of one line", source=instance.source)


def _reads_as(text: str, instance: Instance) -> bool:
    """Whether a line is read as a puzzle of the same kind and shape."""
    try:
        found = parse_one(text)
    except InputError:
        return False
    return (found.puzzle, found.shape) == (instance.puzzle, instance.shape)


def name_variable(instance: Instance, variable: int) -> str:
    """What people call a variable of a puzzle; in a problem of one's own, its number from 0.

    >>> name_variable(parse_one("1.....3..4.....2"), 5)
    'row 2 column 2'
    """
    if instance.puzzle not in PUZZLES:
        return f"variable {variable}"
    return PUZZLES[instance.puzzle].name_variable(instance, variable)


def find_conflict(instance: Instance) -> str | None:
    """Why the givens cannot all be right: two of them that break a rule between them."""
    verdict = judge(instance.csp, instance.givens)
    if not verdict.broken:
        return None
    first = verdict.broken[0]
    predicate = first.constraint.split("(", 1)[0]
    x, y = int(instance.givens[first.x]), int(instance.givens[first.y])
    more = f" (and {len(verdict.broken) - 1} more)" if len(verdict.broken) > 1 else ""
    return (
        f"a given breaks a rule: {name_variable(instance, first.x)} is {x} and {name_variable(instance, first.y)} is {y}, "
        f"against '{predicate}'{more}"
    )
