"""What the tests of the formats share: when two instances are the same, and what a refusal looks like."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outgrow import InputError
from outgrow.puzzles import Instance, Options, parse, render
from outgrow.puzzles.instance import Values

Pair = tuple[int, int]


def facts(instance: Instance) -> dict[str, set[Pair]]:
    """Predicate -> the ordered pairs it holds for."""
    return {name: {(x, y) for x, y in pairs.tolist()} for name, pairs in instance.csp.pairs.items()}


def assert_same(found: Instance, wanted: Instance) -> None:
    """The same puzzle, shape, facts and givens."""
    assert found.puzzle == wanted.puzzle
    assert found.size == wanted.size
    assert found.shape == wanted.shape
    assert found.givens.tolist() == wanted.givens.tolist()
    assert found.csp.pairs.keys() == wanted.csp.pairs.keys()
    for name, pairs in wanted.csp.pairs.items():  # sorted, each once
        assert np.array_equal(found.csp.pairs[name], pairs)


def read(text: str, **options: Any) -> Instance:
    """The only puzzle in a text."""
    (instance,) = parse(text, options=Options(**options))
    return instance


def assert_round_trip(instance: Instance, format: str, values: Values | None = None, **options: Any) -> None:
    """Written and read again it is the same, with `values` for givens if there are some."""
    wanted = instance if values is None else instance.with_givens(values)
    assert_same(read(render(instance, values, format), **options), wanted)


def refuse(text: str, reason: str, line: int | None, source: str = "file.txt", **options: Any) -> InputError:
    """The error for a text: one line that names the file, the line in it and the reason."""
    with pytest.raises(InputError) as caught:
        parse(text, source="file.txt", options=Options(**options))
    error = caught.value
    assert reason in error.reason, str(error)
    assert (error.source, error.line) == (source, line), str(error)
    assert_one_line(error)
    return error


def assert_one_line(error: InputError) -> None:
    place = error.source if error.line is None else f"{error.source}:{error.line}"
    assert str(error) == f"{place}: {error.reason}"
    assert len(str(error).splitlines()) == 1
    assert str(error).isprintable(), ascii(str(error))
    assert len(error.reason) < 400
