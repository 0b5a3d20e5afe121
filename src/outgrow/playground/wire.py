"""Puzzles as the page and the server tell them to each other, and the limits on what is taken."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import numpy.typing as npt

from outgrow.errors import OutgrowError
from outgrow.puzzles import PUZZLES, Instance, get_puzzle, name_variable, write_line

__all__ = [
    "LIMITS",
    "BadRequest",
    "check_size",
    "describe",
    "field",
    "from_wire",
    "name_formats",
    "parse_json",
    "read_values",
    "to_wire",
    "whole",
]

# What is taken; more is refused with a sentence. docs/guide/play.md has the same numbers, and a test compares them.
LIMITS = {
    "body_bytes": 1 << 20,
    "body_seconds": 10,
    "variables": 1_296,  # a board of 36x36, or so many nodes of a graph
    "values": 36,
    "pairs": 20_000,  # order signs, or edges
    "runs": 4,  # networks side by side
    "steps": 2_048,  # of all attempts of a run
    "solve_seconds": 120,
    "job_seconds": 30,  # generating, reading, the exact solver, a moving picture
    "solving": 8,  # solves that take turns; others wait
    "waiting": 256,
}
_MAX_SHAPE = 4


class BadRequest(OutgrowError):
    """What a request says is not as it should be: the answer is 400 and one sentence."""


def parse_json(body: bytes) -> dict[str, Any]:
    """A request's body: an object."""
    try:
        content = json.loads(body, parse_constant=_refuse)
    except RecursionError:
        raise BadRequest("the body is nested too deeply") from None
    except ValueError as error:  # not JSON, not UTF-8, numbers of thousands of digits
        raise BadRequest(f"the body is no JSON ({str(error).splitlines()[0][:100]})") from None
    if not isinstance(content, dict):
        raise BadRequest("the body is a JSON object")
    return content


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is no number of JSON")


def field(content: dict[str, Any], name: str, kind: type[Any], default: Any = ...) -> Any:
    """A field of that type; True is no number. Without a default it must be there."""
    if name not in content:
        if default is ...:
            raise BadRequest(f'"{name}" is missing')
        return default
    value = content[name]
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is not bool):
        words = {str: "text", int: "a whole number", bool: "true or false", list: "a list", dict: "an object"}
        raise BadRequest(f'"{name}" is {words.get(kind, kind.__name__)}')
    return value


def whole(content: dict[str, Any], name: str, least: int, most: int, default: Any = ...) -> Any:
    """A whole number from `least` to `most`."""
    value = field(content, name, int, default)
    if name in content and not least <= value <= most:
        raise BadRequest(f'"{name}" goes from {least:,} to {most:,}')
    return value


def from_wire(content: Any) -> Instance:
    """A puzzle: {"puzzle": name, "size": K, "shape": [...], "pairs": [[x, y], ...], "givens": [...]}, variables counted from 0 and 0 for no given."""
    if not isinstance(content, dict):
        raise BadRequest('"puzzle" is an object')
    name = field(content, "puzzle", str)
    if name not in PUZZLES:
        raise BadRequest(f"no puzzle {name[:40]!r}; there is {', '.join(PUZZLES)}")
    size = whole(content, "size", 1, LIMITS["values"])
    shape = field(content, "shape", list)
    if not (len(shape) <= _MAX_SHAPE and all(_is_whole(n, LIMITS["variables"]) for n in shape)):
        raise BadRequest('"shape" is a list of a few whole numbers')
    givens = read_values(content, "givens", size)
    pairs = field(content, "pairs", list, [])
    if len(pairs) > LIMITS["pairs"]:
        raise BadRequest(f"{len(pairs):,} pairs; up to {LIMITS['pairs']:,} are possible")
    if not all(isinstance(p, list) and len(p) == 2 and all(_is_whole(n, len(givens) - 1) for n in p) for p in pairs):
        raise BadRequest(f'"pairs" holds pairs of variables from 0 to {len(givens) - 1}')
    puzzle = PUZZLES[name]
    if pairs and puzzle.varying is None:
        raise BadRequest(f"a {name} has no pairs")
    try:
        instance = puzzle.restore(
            size=size,
            shape=tuple(shape),
            pairs=np.array(pairs, dtype=np.int64).reshape(-1, 2),
            givens=givens,
            form="units",
        )
    except (OutgrowError, ValueError, IndexError, TypeError) as error:
        raise BadRequest(f"no {name} of that size and shape ({_sentence(error)})") from None
    if instance.size != size or instance.csp.num_variables != len(givens) or list(instance.shape) != shape:
        raise BadRequest(f"no {name} of that size and shape")
    return instance


def read_values(content: dict[str, Any], name: str, size: int) -> npt.NDArray[np.int16]:
    """A list of values 0..size, one for each variable."""
    values = field(content, name, list)
    if not 1 <= len(values) <= LIMITS["variables"]:
        raise BadRequest(f'"{name}" has {len(values):,} values; 1 to {LIMITS["variables"]:,} are possible')
    if not all(_is_whole(v, size) for v in values):
        raise BadRequest(f'"{name}" holds whole numbers from 0 to {size}')
    return np.array(values, dtype=np.int16)


def _is_whole(value: object, most: int) -> bool:
    return type(value) is int and 0 <= value <= most


def _sentence(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


def check_size(instance: Instance) -> None:
    """Refuses what is too large for the page."""
    variables, pairs = instance.csp.num_variables, _pairs(instance)
    if variables > LIMITS["variables"] or instance.size > LIMITS["values"] or len(pairs) > LIMITS["pairs"]:
        raise BadRequest(
            f"{variables:,} variables, {instance.size:,} values and {len(pairs):,} pairs; the page takes "
            f"{LIMITS['variables']:,}, {LIMITS['values']} and {LIMITS['pairs']:,}"
        )


def _pairs(instance: Instance) -> list[list[int]]:
    """The facts that differ between instances of a shape; of symmetric ones, one of the two."""
    puzzle = get_puzzle(instance.puzzle)
    if puzzle.varying is None:
        return []
    pairs = instance.csp.pairs[puzzle.varying]
    there = {(x, y) for x, y in pairs.tolist()}
    return sorted([x, y] for x, y in there if x < y or (y, x) not in there)


def to_wire(instance: Instance) -> dict[str, Any]:
    """What `from_wire` reads."""
    return {
        "puzzle": instance.puzzle,
        "size": instance.size,
        "shape": list(instance.shape),
        "pairs": _pairs(instance),
        "givens": instance.givens.tolist(),
    }


def name_formats(instance: Instance) -> dict[str, Any]:
    """How the puzzle is written: the line that a link holds, and the formats that can say it."""
    formats = [f.name for f in get_puzzle(instance.puzzle).formats if not f.refuses(instance)]
    return {"line": write_line(instance), "formats": formats}


def describe(instance: Instance) -> dict[str, Any]:
    """The puzzle, and all the page needs to draw and name it."""
    layout = get_puzzle(instance.puzzle).layout(instance)
    return {
        **to_wire(instance),
        **name_formats(instance),
        "names": [name_variable(instance, i) for i in range(instance.csp.num_variables)],
        "notes": list(instance.notes),
        "layout": {
            "width": round(layout.width, 2),
            "height": round(layout.height, 2),
            "shape": layout.shape,
            "side": layout.side,
            "places": np.round(layout.places, 2).tolist(),
            "lines": [[round(float(n), 2) for n in line] for line in layout.lines],
            "links": np.asarray(layout.links).tolist(),
            "symbols": list(layout.symbols),
            "colored": layout.colored,
        },
    }
