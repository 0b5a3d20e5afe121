"""From text to instances: which puzzle, which format, where one puzzle ends and the next begins."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from outgrow.errors import InputError
from outgrow.puzzles.instance import Instance

__all__ = [
    "MAX_BYTES",
    "MAX_LINE",
    "MAX_LINES",
    "MAX_VARIABLES",
    "Options",
    "Reader",
    "Text",
    "name_of",
    "read_bytes",
    "read_json",
    "read_text",
    "shorten",
]

# Larger inputs are refused: 49,151 one-line Sudokus are 4 MB.
MAX_BYTES = 32 << 20
# The longest line that is not JSON: a 36x36 board in integers takes under 4,000 characters.
MAX_LINE = 20_000
# A graph of 2,000 nodes and nine in ten of their edges has 1.8 million lines.
MAX_LINES = 4_000_000
# Cells and nodes of all puzzles of a text together: 100 MB of givens. Short texts may stand for large
# boards (`6x6:` and 50 letters for 1,296 cells), so the limit on bytes does not bound them.
MAX_VARIABLES = 50_000_000


@dataclass(frozen=True)
class Options:
    """What the text itself may leave open.

    Attributes:
        puzzle: read it as this puzzle only.
        box: Sudoku: box rows and columns.
        colors: coloring: the number of colors.
        side: coloring: the text of a side file with `k` and `given` lines.
        side_name: what messages call that file.
    """

    puzzle: str | None = None
    box: tuple[int, int] | None = None
    colors: int | None = None
    side: str | None = None
    side_name: str = "side file"


@dataclass
class Text:
    """Lines, and how far they were read. `line` is the number of the next one, from 1."""

    lines: list[str]
    source: str = ""
    options: Options = field(default_factory=Options)
    at: int = 0
    room: int = MAX_VARIABLES

    @property
    def line(self) -> int:
        return self.at + 1

    @property
    def current(self) -> str:
        return self.lines[self.at]

    def ahead(self, count: int) -> Iterator[str]:
        """The next lines, up to `count`, without moving on."""
        for i in range(self.at, min(self.at + count, len(self.lines))):
            yield self.lines[i]

    def skip_blank(self) -> bool:
        """Passes over empty lines and # comments; whether anything is left."""
        while self.at < len(self.lines):
            stripped = self.lines[self.at].strip()
            if stripped and not stripped.startswith("#"):
                return True
            self.at += 1
        return False

    def place(self, instance: Instance, line: int) -> Instance:
        """The instance with the line it came from; counts it against the limit of all together."""
        self.room -= instance.csp.num_variables
        if self.room < 0:
            raise self.error(f"more than {MAX_VARIABLES:,} cells and nodes in one text; split it", line)
        return replace(instance, source=f"{self.source}:{line}")

    def error(self, reason: str, line: int | None = None) -> InputError:
        return InputError(reason, source=self.source, line=self.line if line is None else line)


@dataclass(frozen=True)
class Reader:
    """How a puzzle gets its instances out of a text.

    Attributes:
        claims: whether what stands at the text's next line is this puzzle's.
        read: reads one instance and moves on behind it; raises InputError.
    """

    puzzle: str
    claims: Callable[[Text], bool]
    read: Callable[[Text], Instance]


def read_bytes(path: str) -> bytes:
    """A file's content, or standard input's for '-', within the size limit."""
    try:
        if path == "-" and sys.stdin is None:
            raise InputError("is closed", source=name_of(path))
        if path == "-":
            data = sys.stdin.buffer.read(MAX_BYTES + 1)
        else:
            with open(path, "rb") as stream:
                data = stream.read(MAX_BYTES + 1)
    except (OSError, ValueError) as error:  # ValueError: a name with a NUL in it
        reason = error.strerror if isinstance(error, OSError) and error.strerror else error
        raise InputError(f"cannot be read ({reason})", source=name_of(path)) from None
    if len(data) > MAX_BYTES:
        raise InputError(f"larger than {MAX_BYTES >> 20} MiB; split it", source=name_of(path))
    return data


def read_text(path: str) -> str:
    """The same as text."""
    data = read_bytes(path)
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = data.count(b"\n", 0, error.start) + 1
        raise InputError("not a text file", source=name_of(path), line=line) from None


def name_of(path: str) -> str:
    """What messages call a file."""
    return "standard input" if path == "-" else str(Path(path))


def read_json(text: Text, readers: dict[str, Callable[[dict[str, Any]], Instance]]) -> list[Instance]:
    """The JSON object that begins on the next line, or the list of them; moves on behind it."""
    start = text.line
    value, body, end = _decode(text)
    text.at += body.count("\n", 0, end) + 1
    newline = body.find("\n", end)
    rest = body[end : newline if newline >= 0 else len(body)].strip()
    if rest:
        raise text.error(f"something follows the JSON: {shorten(rest, 60)!r}", line=text.at)
    objects = value if isinstance(value, list) else [value]
    found: list[Instance] = []
    for number, item in enumerate(objects, start=1):
        where = f"puzzle {number}: " if isinstance(value, list) else ""
        if not isinstance(item, dict):
            raise text.error(f"{where}a JSON object expected", line=start)
        name = item.get("puzzle", text.options.puzzle)
        if not isinstance(name, str) or name not in readers:
            raise text.error(f'{where}"puzzle" must be one of {", ".join(readers)}', line=start)
        try:
            instance = readers[name](item)
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            missing = f"no {error}" if isinstance(error, KeyError) else str(error)
            raise text.error(f"{where}{shorten(missing)}", line=start) from None
        found.append(text.place(instance, start))
    return found


def _decode(text: Text) -> tuple[Any, str, int]:
    """A JSON value, the lines it was read from and where in them it ends."""
    decoder = json.JSONDecoder()
    count = 1
    while True:  # twice as many lines each time: joining all that are left for every value takes quadratic time
        body = "\n".join(text.lines[text.at : text.at + count]).strip()
        try:
            value, end = decoder.raw_decode(body)
            return value, body, end
        except json.JSONDecodeError as error:
            if text.at + count < len(text.lines):
                count *= 2
                continue
            begins = f"; it begins on line {text.line}" if error.lineno > 1 else ""
            raise text.error(f"not JSON ({error.msg}){begins}", line=text.at + error.lineno) from None
        except RecursionError:
            raise text.error("not JSON (nested too deep)") from None
        except ValueError:  # Python converts no more than 4,300 digits
            raise text.error("not JSON (a number of too many digits)") from None


def shorten(text: str, limit: int = 120) -> str:
    """One line, cut where it is too long to read."""
    line = " ".join(text[: 4 * limit].split())
    return line if len(text) <= 4 * limit and len(line) <= limit else line[: limit - 3] + "..."
