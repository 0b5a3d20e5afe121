"""What the page and the server tell each other: every puzzle there and back, and what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from outgrow.data.difficulty import difficulties, settings_for, sizes
from outgrow.data.generate import make_chunks
from outgrow.errors import OutgrowError
from outgrow.playground.wire import LIMITS, BadRequest, check_size, describe, from_wire, parse_json, to_wire
from outgrow.puzzles import PUZZLES, Instance, parse_one

EXAMPLES = [(name, text) for name, puzzle in PUZZLES.items() for text in puzzle.examples]
FOUR = to_wire(parse_one("1.....3..4.....2"))


def alike(a: Instance, b: Instance) -> bool:
    """The same problem: kind, shape, facts and givens."""
    same = (a.puzzle, a.shape, a.size) == (b.puzzle, b.shape, b.size) and np.array_equal(a.givens, b.givens)
    facts = {name: set(map(tuple, pairs.tolist())) for name, pairs in a.csp.pairs.items()}
    return same and facts == {name: set(map(tuple, pairs.tolist())) for name, pairs in b.csp.pairs.items()}


@pytest.mark.parametrize(("name", "text"), EXAMPLES)
def test_examples_come_back(name: str, text: str) -> None:
    instance = parse_one(text)
    told = json.loads(json.dumps(describe(instance)))
    assert alike(from_wire(told), instance)
    assert alike(parse_one(told["line"]), instance)
    assert len(told["names"]) == len(told["layout"]["places"]) == instance.csp.num_variables
    assert len(told["layout"]["symbols"]) == instance.size


@pytest.mark.parametrize("kind", sorted(PUZZLES))
def test_made_puzzles_come_back_and_are_as_hard_as_they_say(kind: str) -> None:
    few = (sizes(kind)[0], *(s for s in sizes(kind) if s in (6, 9)))
    for size in few:
        open_share = []
        for difficulty in difficulties(kind, size):
            settings = settings_for(kind, size, difficulty, seed=7)
            instance = next(iter(make_chunks(settings, range(1), 1)))[1][0]
            assert alike(from_wire(json.loads(json.dumps(to_wire(instance)))), instance)
            assert instance.size == size
            open_share.append(float((instance.givens == 0).mean()))
        assert open_share == sorted(open_share) or open_share[-1] > open_share[0] + 0.1


def test_what_is_not_made_by_difficulty_is_refused() -> None:
    with pytest.raises(OutgrowError, match="no sudoku of size 7"):
        settings_for("sudoku", 7, "easy")
    with pytest.raises(OutgrowError, match="'hopeless'; there are: easy"):
        settings_for("sudoku", 9, "hopeless")
    with pytest.raises(OutgrowError, match="no mosaic"):
        settings_for("mosaic", 9, "easy")


@given(st.integers(0, 2**31 - 1))
def test_a_seed_says_the_puzzle(seed: int) -> None:
    first, second = (settings_for("futoshiki", 4, "easy", seed) for _ in range(2))
    assert first == second


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"puzzle": "mosaic"}, "no puzzle 'mosaic'"),
    ({"puzzle": 3}, '"puzzle" is text'),
    ({"size": 37}, '"size" goes from 1 to 36'),
    ({"size": True}, '"size" is a whole number'),
    ({"size": 4.0}, '"size" is a whole number'),
    ({"size": 9}, "no sudoku of that size and shape"),
    ({"shape": [3, 3]}, "no sudoku of that size and shape"),
    ({"shape": []}, "no sudoku of that size and shape"),
    ({"shape": [2, 2, 2]}, "no sudoku of that size and shape"),
    ({"shape": [0, 0]}, "no sudoku of that size and shape"),
    ({"shape": "2x2"}, '"shape" is a list'),
    ({"shape": [-2, -2]}, '"shape" is a list of a few whole numbers'),
    ({"givens": [0] * 15}, "no sudoku of that size and shape"),
    ({"givens": []}, '"givens" has 0 values'),
    ({"givens": [0] * 10_000}, '"givens" has 10,000 values; 1 to 1,296'),
    ({"givens": [5] + [0] * 15}, '"givens" holds whole numbers from 0 to 4'),
    ({"givens": [-1] + [0] * 15}, '"givens" holds whole numbers from 0 to 4'),
    ({"givens": [None] * 16}, '"givens" holds whole numbers'),
    ({"givens": {"0": 1}}, '"givens" is a list'),
    ({"pairs": [[0, 1]]}, "a sudoku has no pairs"),
    ({"pairs": [[0, 16]]}, '"pairs" holds pairs of variables from 0 to 15'),
    ({"pairs": [[0]]}, '"pairs" holds pairs'),
    ({"pairs": [[0, 1]] * 20_001}, "20,001 pairs; up to 20,000"),
]


@pytest.mark.parametrize(("change", "words"), WRONG, ids=[words for _, words in WRONG])
def test_wrong_puzzles_are_refused_in_a_sentence(change: dict[str, Any], words: str) -> None:
    with pytest.raises(BadRequest, match=re.escape(words)) as caught:
        from_wire({**FOUR, **change})
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("name", sorted(FOUR))
def test_missing_fields_are_named(name: str) -> None:
    content = {key: value for key, value in FOUR.items() if key != name}
    if name == "pairs":  # not every puzzle has some
        assert from_wire(content).size == 4
        return
    with pytest.raises(BadRequest, match=f'"{name}" is missing'):
        from_wire(content)


@pytest.mark.parametrize(
    ("pairs", "words"),
    [([[0, 0]], "no coloring"), ([[0, 5]], "pairs of variables from 0 to 4")],
)
def test_wrong_graphs_are_refused(pairs: list[list[int]], words: str) -> None:
    graph = {"puzzle": "coloring", "size": 3, "shape": [5], "pairs": pairs, "givens": [0] * 5}
    assert from_wire({**graph, "pairs": [[0, 1]]}).size == 3
    with pytest.raises(BadRequest, match=words):
        from_wire(graph)


def test_signs_between_cells_that_do_not_touch_are_refused() -> None:
    with pytest.raises(BadRequest, match="do not touch"):
        from_wire({"puzzle": "futoshiki", "size": 3, "shape": [3], "pairs": [[0, 8]], "givens": [0] * 9})


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 50) | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=8,
)


@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.sampled_from([name for name, _ in EXAMPLES]), st.dictionaries(st.sampled_from(sorted(FOUR)), json_values))
def test_whatever_is_sent_it_is_a_puzzle_or_refused(name: str, change: dict[str, Any]) -> None:
    base = to_wire(parse_one(PUZZLES[name].examples[0]))
    try:
        instance = from_wire({**base, **change})
    except BadRequest as error:
        assert str(error)
    else:
        assert alike(from_wire(to_wire(instance)), instance)


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (b"", "no JSON"),
        (b"{", "no JSON"),
        (b"[]", "a JSON object"),
        (b'"text"', "a JSON object"),
        (b'{"a": NaN}', "no number of JSON"),
        (b"\xff\xfe{}", "no JSON"),
        (b'{"a": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "nested too deeply"),
        (b'{"a": ' + b"9" * 5_000 + b"}", "no JSON"),
    ],
    ids=["empty", "cut", "list", "text", "NaN", "no UTF-8", "deep", "digits"],
)
def test_bodies_that_are_no_object_are_refused(body: bytes, words: str) -> None:
    with pytest.raises(BadRequest, match=words):
        parse_json(body)


def test_large_puzzles_are_refused() -> None:
    check_size(parse_one("c k 3\np edge 1296 1\ne 1 2"))
    with pytest.raises(BadRequest, match="10,000 variables, 3 values and 1 pairs; the page takes 1,296, 36 and 20,000"):
        check_size(parse_one("c k 3\np edge 10000 1\ne 1 2"))


def test_the_limits_are_in_the_documents() -> None:
    text = (Path(__file__).resolve().parents[2] / "docs" / "guide" / "play.md").read_text()
    found = dict(re.findall(r"^\| `(\w+)` \| ([\d,]+) \|", text, re.MULTILINE))
    assert {name: int(value.replace(",", "")) for name, value in found.items()} == LIMITS
