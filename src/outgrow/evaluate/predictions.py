"""What a model answered, as a file that any program can write or read.

JSON lines. A header opens each set of predictions, and as many lines as its `count` says follow, one for each puzzle:

    {"format": 1, "dataset": "sudoku-4-test", "sha256": "9f...", "steps": 32, "count": 2}
    {"index": 0, "assignment": [1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1]}
    {"index": 7, "assignment": [2, 1, 3, 4, 3, 4, 1, 2, 1, 2, 4, 3, 4, 3, 2, 1]}

`sha256` is that of the data set (`Dataset.sha256`, 'sha256' in its manifest), `index` counts its puzzles from 0, and an assignment
is what the model said, right or wrong: values 1..K, 0 where it said nothing. A header may say `"restart"` as well: after how many steps puzzles
started over. Files may be joined end to end.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.writing import write_whole

__all__ = ["FORMAT", "Predictions", "load_predictions", "save_predictions"]

FORMAT = 1
_MAX_BYTES = 1 << 27  # every set of the project at four numbers of steps is half of that
_MAX_LINE = 1 << 20
_MAX_VALUE = 255  # a data set keeps a value in one byte
_MAX_NUMBER = 2**31 - 1
_HEADER = {"format", "dataset", "sha256", "steps", "count"}
_RESTART = "restart"  # where there was none, headers have no word of it
_PUZZLE = {"index", "assignment"}


@dataclass(frozen=True, eq=False)
class Predictions:
    """A model's answers to puzzles of one data set, after `steps` steps.

    Attributes:
        dataset: the name of the set.
        sha256: `Dataset.sha256` of the set: scoring against any other is refused.
        steps: T.
        indices: (N,) which puzzles of the set, each once.
        assignments: N arrays (V,) of values 1..K, 0 for none; a model may have changed givens.
        restart: if not 0, puzzles started over whenever the model was not sure after so many steps.
    """

    dataset: str
    sha256: str
    steps: int
    indices: npt.NDArray[np.integer]
    assignments: Sequence[npt.NDArray[np.integer]]
    restart: int = 0

    def __post_init__(self) -> None:
        if self.indices.shape != (len(self.assignments),) or not np.issubdtype(self.indices.dtype, np.integer):
            raise ValueError(
                f"indices {self.indices.shape} {self.indices.dtype} for {len(self.assignments)} assignments"
            )
        if len(np.unique(self.indices)) != len(self.indices) or (self.indices < 0).any():
            raise ValueError("indices count puzzles from 0, each once")
        reason = _wrong_header(self.dataset, self.sha256, self.steps, self.restart)
        if reason:
            raise ValueError(reason)
        for a in self.assignments:
            if a.ndim != 1 or not np.issubdtype(a.dtype, np.integer):
                raise ValueError(f"an assignment is (V,) whole numbers, not {a.shape} {a.dtype}")
            if a.size and not 0 <= a.min() <= a.max() <= _MAX_VALUE:
                raise ValueError(f"values are 1..{_MAX_VALUE}, 0 for none")


def save_predictions(path: str | Path, predictions: Sequence[Predictions]) -> None:
    """Writes the file whole or not at all, and none that `load_predictions` would refuse."""
    if not predictions:
        raise ValueError("nothing to save")
    write_whole(path, _within_limits(path, _lines(predictions)))


def _lines(predictions: Sequence[Predictions]) -> Iterator[str]:
    for p in predictions:
        header = {"format": FORMAT, "dataset": p.dataset, "sha256": p.sha256, "steps": p.steps, "count": len(p.indices)}
        header |= {_RESTART: p.restart} if p.restart else {}
        yield json.dumps(header) + "\n"
        for index, assignment in zip(p.indices.tolist(), p.assignments, strict=True):
            yield json.dumps({"index": index, "assignment": assignment.tolist()}, separators=(",", ":")) + "\n"


def _within_limits(path: str | Path, lines: Iterator[str]) -> Iterator[str]:
    total = 0
    for line in lines:
        total += len(line)
        if len(line) > _MAX_LINE or total > _MAX_BYTES:
            raise OutgrowError(
                f"{path}: too much for one file of predictions (limits: {_MAX_LINE:,} bytes a puzzle, {_MAX_BYTES:,} in all)"
            )
        yield line


def load_predictions(path: str | Path) -> list[Predictions]:
    """Reads a file of predictions; anything odd in it is refused with its line."""
    path = Path(path)
    found: list[Predictions] = []
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise DamagedFile(f"{path}: {path.stat().st_size:,} bytes of predictions; the limit is {_MAX_BYTES:,}")
        lines = _read_lines(path)
        for number, header in lines:
            found.append(_read_set(path, number, header, lines))
    except FileNotFoundError:
        raise DamagedFile(f"{path}: no such file") from None
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read ({error.strerror or error})") from None
    if not found:
        raise DamagedFile(f"{path}: holds no predictions")
    return found


def _read_lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    """Line number and object of every line."""
    with open(path, "rb") as stream:
        number = 0
        while raw := stream.readline(_MAX_LINE + 1):
            number += 1
            if len(raw) > _MAX_LINE:
                raise DamagedFile(f"{path}:{number}: a line of more than {_MAX_LINE:,} bytes")
            try:
                content = json.loads(raw.decode(), object_pairs_hook=_no_key_twice)
            except (ValueError, RecursionError) as error:
                reason = str(error).splitlines()[0][:200]
                raise DamagedFile(f"{path}:{number}: not a line of JSON ({reason})") from None
            if not isinstance(content, dict):
                raise DamagedFile(f"{path}:{number}: a JSON object expected, as in {{...}}")
            yield number, content


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        raise ValueError("a key twice")
    return content


def _read_set(
    path: Path, number: int, header: dict[str, Any], lines: Iterator[tuple[int, dict[str, Any]]]
) -> Predictions:
    """The predictions that `header` announces."""

    def refuse(reason: str) -> DamagedFile:
        return DamagedFile(f"{path}:{number}: {reason}")

    if set(header) == _PUZZLE:
        raise refuse("a puzzle where a header was expected; does the header above it count too few?")
    if set(header) - {_RESTART} != _HEADER:
        raise refuse(
            f"a header has {', '.join(sorted(_HEADER))}, and {_RESTART} where puzzles started over; no more and no less"
        )
    if type(header["format"]) is not int or header["format"] != FORMAT:
        raise refuse(f"another format; this version reads format {FORMAT}")
    restart = header.get(_RESTART, 0)
    reason = _wrong_header(header["dataset"], header["sha256"], header["steps"], restart)
    if reason:
        raise refuse(reason)
    count = header["count"]
    if not _is_whole(count, _MAX_NUMBER):
        raise refuse("count is no number of puzzles")
    seen: dict[int, None] = {}  # in their order
    assignments: list[npt.NDArray[np.int16]] = []
    while len(assignments) < count:
        number, content = next(lines, (number, None))
        if content is None:
            raise refuse(f"{count:,} puzzles expected, the file ends after {len(assignments):,}")
        if set(content) != _PUZZLE:
            raise refuse(
                f"a puzzle has index and assignment; {count:,} expected, this would be number {len(seen) + 1:,}"
            )
        index, values = content["index"], content["assignment"]
        if not _is_whole(index, _MAX_NUMBER):
            raise refuse("index is no number of a puzzle")
        if index in seen:
            raise refuse(f"puzzle {index} twice")
        if not isinstance(values, list) or not all(_is_whole(v, _MAX_VALUE) for v in values):
            raise refuse(f"an assignment is a list of whole numbers 1..{_MAX_VALUE}, 0 for none")
        seen[index] = None
        assignments.append(np.array(values, dtype=np.int16))
    indices = np.array(list(seen), dtype=np.int64)
    return Predictions(header["dataset"], header["sha256"], header["steps"], indices, assignments, restart)


def _wrong_header(dataset: Any, sha256: Any, steps: Any, restart: Any) -> str:
    """Why these cannot be; '' if they can."""
    if not isinstance(dataset, str) or not (0 < len(dataset) <= 200 and dataset.isprintable()):
        return "dataset is no name of up to 200 characters"
    if not isinstance(sha256, str) or not re.fullmatch("[0-9a-f]{64}", sha256):
        return "sha256 is not 64 hexadecimal digits in lower case"
    if not _is_whole(steps, _MAX_NUMBER):
        return "steps is no number of steps"
    if not _is_whole(restart, max(steps - 1, 0)):
        return "restart is no number of steps below all of them"
    return ""


def _is_whole(value: Any, most: int) -> bool:
    return type(value) is int and 0 <= value <= most  # True is an int, and 1.0 is none
