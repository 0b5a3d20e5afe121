"""Reading proposed solutions back, in whatever form they were written."""

from __future__ import annotations

import json

import numpy as np

from outgrow.errors import InputError
from outgrow.puzzles.instance import Instance, Values
from outgrow.puzzles.reading import Options, shorten
from outgrow.puzzles.registry import parse

__all__ = ["parse_solutions"]


def parse_solutions(text: str, instances: list[Instance], *, source: str = "text") -> list[Values]:
    """One assignment for each instance, from

    - JSON lines with an "assignment" (as `outgrow solve --json` writes them; null is no assignment at all),
    - plain whole numbers, one for each variable in order, or
    - boards in any format of the puzzle.
    """
    stripped = text.strip()
    if not stripped:
        raise InputError("holds no solution", source=source)
    if stripped[0] == "{" and '"assignment"' in text:
        found = _from_json(text, instances, source)
    elif (numbers := _from_numbers(text, instances, source)) is not None:
        found = numbers
    else:
        found = _from_boards(text, instances, source)
    if len(found) != len(instances):
        raise InputError(f"{len(instances)} solutions expected, found {len(found)}", source=source)
    return found


def _from_json(text: str, instances: list[Instance], source: str) -> list[Values]:
    found: list[Values] = []
    for number, line in enumerate(text.split("\n"), start=1):
        if not line.strip():
            continue
        try:
            values = json.loads(line)["assignment"]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError('a JSON object with an "assignment" expected', source=source, line=number) from None
        instance = instances[min(len(found), len(instances) - 1)]
        if values is None:
            values = [0] * instance.csp.num_variables
        if not isinstance(values, list) or not all(type(v) is int for v in values):
            raise InputError('"assignment" is a list of whole numbers', source=source, line=number)
        found.append(_fit(instance, values, source, number))
    return found


def _from_numbers(text: str, instances: list[Instance], source: str) -> list[Values] | None:
    words = [w for line in text.split("\n") if not line.lstrip().startswith("#") for w in line.split()]
    total = sum(i.csp.num_variables for i in instances)
    if len(words) != total or not all(w.isascii() and w.isdigit() and len(w) < 10 for w in words):
        return None
    if total == 1 and instances[0].csp.num_variables != 1:
        return None
    found: list[Values] = []
    at = 0
    for instance in instances:
        count = instance.csp.num_variables
        found.append(_fit(instance, [int(w) for w in words[at : at + count]], source, None))
        at += count
    return found


def _from_boards(text: str, instances: list[Instance], source: str) -> list[Values]:
    first = instances[0]
    box = (first.shape[0], first.shape[1]) if len(first.shape) == 2 else None
    same = all(i.shape == first.shape for i in instances)
    colors = first.size if first.puzzle == "coloring" else None
    boards = parse(text, source=source, options=Options(box=box if same else None, colors=colors))
    for board, instance in zip(boards, instances, strict=False):
        if board.puzzle != instance.puzzle or board.shape != instance.shape:
            raise InputError(
                f"a {board.puzzle} of size {board.size}, the puzzle is a {instance.puzzle} of size {instance.size}",
                source=board.source,
            )
    return [board.givens for board in boards]


def _fit(instance: Instance, values: list[int], source: str, line: int | None) -> Values:
    try:
        return instance.csp.assignment(np.array(values, dtype=np.int64))
    except (ValueError, OverflowError) as error:
        raise InputError(shorten(str(error)), source=source, line=line) from None
