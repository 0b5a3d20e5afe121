from __future__ import annotations

import json
import random

import numpy as np
import pytest
from comparing import Pair, assert_round_trip, assert_same, facts, read, refuse
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from outgrow import InputError
from outgrow.puzzles import Instance, find_conflict, futoshiki, parse, render
from outgrow.puzzles.futoshiki import adjacent_pairs, build
from outgrow.puzzles.instance import Format

#   1 < 2   3
#       ^
#   .   .   .
#   v
#   .   . > .
SIGNS = {(0, 1), (1, 4), (6, 3), (8, 7)}
GIVENS = [1, 2, 3, 0, 0, 0, 0, 0, 0]
THREES = {
    "as it is written": "1 < 2   3\n    ^\n.   .   .\nv\n.   . > .",
    "cells close together": "1<2 3\n  ^\n. . .\nv\n. .>.",
    "no spaces but where two numbers meet": "1<2 3\n  ^\n...\nv\n..>.",
    "zeros": "1 < 2   3\n    ^\n0   0   0\nv\n0   0 > 0",
    "underscores": "1 < 2   3\n    ^\n_   _   _\nv\n_   _ > _",
    "other signs": "1 < 2   3\n    ∧\n.   .   .\n∨\n.   . > .",
    "capital V": "1 < 2   3\n    ^\n.   .   .\nV\n.   . > .",
    "an empty line where there is no sign": "1 < 2   3\n    ^\n.   .   .\nv\n.   . > .\n\n",
    "two lines of signs": "1 < 2   3\n\n    ^\n\n.   .   .\n\nv\n\n.   . > .",
    "moved to the right": "   1 < 2   3\n       ^\n   .   .   .\n   v\n   .   . > .",
    "tabs": "1\t<\t2\t\t3\n\t\t^\n.\t\t.\t\t.\nv\n.\t\t.\t>\t.",
    "a sign right beside its cell": "1 < 2   3\n     ^\n.   .   .\n v\n.   . > .",
    "comments": "# one\n1 < 2   3\n# two\n    ^\n.   .   .\nv\n# three\n.   . > .\n# four",
    "as on Windows": "1 < 2   3\r\n    ^\r\n.   .   .\r\nv\r\n.   . > .\r\n",
    "JSON": json.dumps(
        {
            "puzzle": "futoshiki",
            "size": 3,
            "givens": GIVENS,
            "less": [[[1, 1], [1, 2]], [[1, 2], [2, 2]], [[3, 1], [2, 1]], [[3, 3], [3, 2]]],
        }
    ),
    "Unequal": "3:1,2L,3,0D,0U,0,0,0R,0,",
    "Unequal without the last comma": "3:1,2L,3,0D,0U,0,0,0R,0",
    "Unequal with a difficulty": "3de:1,2L,3,0D,0U,0,0,0R,0,",
}


@pytest.mark.parametrize("name", THREES)
def test_one_board_in_many_ways(name: str) -> None:
    instance = read(THREES[name])
    assert instance.puzzle == "futoshiki"
    assert instance.shape == (3,)
    assert instance.size == 3
    assert instance.givens.tolist() == GIVENS
    assert facts(instance)["less"] == SIGNS
    assert_same(read(THREES[name], puzzle="futoshiki"), instance)


def test_all_of_them_in_one_file() -> None:
    texts = [text for text in THREES.values() if "\r" not in text]
    wanted = read(THREES["JSON"])
    for gap in ("\n", "\n\n", "\n# next\n"):
        found = parse(gap.join(texts), source="boards.txt")
        assert len(found) == len(texts)
        for instance in found:
            assert_same(instance, wanted)
    assert found[1].source == "boards.txt:7"


def rules(size: int, signs: set[Pair]) -> dict[str, set[Pair]]:
    cells = [(r, c) for r in range(size) for c in range(size)]
    pairs = [(i, j) for i in range(size * size) for j in range(size * size) if i != j]
    return {
        "row": {(i, j) for i, j in pairs if cells[i][0] == cells[j][0]},
        "col": {(i, j) for i, j in pairs if cells[i][1] == cells[j][1]},
        "less": signs,
    }


@pytest.mark.parametrize("size", [1, 2, 3, 5, 9])
def test_the_facts_are_rows_columns_and_signs(size: int) -> None:
    signs = {(y, x) if (x + y) % 3 else (x, y) for x, y in adjacent_pairs(size).tolist()}
    empty = np.zeros(size * size, dtype=np.int16)
    less = np.array(sorted(signs), dtype=np.int64).reshape(-1, 2)
    wanted = rules(size, signs)
    assert facts(build(size, less, empty)) == wanted
    assert facts(build(size, less, empty, form="nbr")) == {"nbr": wanted["row"] | wanted["col"], "less": signs}
    groups = build(size, less, empty).csp.groups
    assert {name: len(members) for name, members in groups.items()} == {"row": size, "col": size, "less": 0}


def test_instances_of_one_size_share_the_square_but_not_the_signs() -> None:
    one, two = read(". < .\n. ."), read(". .\n. < .")
    assert one.csp.pairs["row"] is two.csp.pairs["row"]
    assert (facts(one)["less"], facts(two)["less"]) == ({(0, 1)}, {(2, 3)})
    plain = build(2, np.zeros((0, 2)), np.zeros(4, dtype=int)).csp
    assert plain.value_symmetric
    assert not one.csp.value_symmetric
    assert len(plain.pairs["less"]) == 0


@pytest.mark.parametrize("sign", ["<", ">", "^", "v"])
def test_every_sign_points_at_the_smaller_cell(sign: str) -> None:
    text = f". {sign} .\n.   ." if sign in "<>" else f".   .\n{sign}\n.   ."
    instance = read(text)
    small, large = {"<": (0, 1), ">": (1, 0), "^": (0, 2), "v": (2, 0)}[sign]
    assert facts(instance)["less"] == {(small, large)}
    solved = [b for b in ([1, 2, 2, 1], [2, 1, 1, 2]) if instance.judge(np.array(b)).solved]
    assert [(b[small], b[large]) for b in solved] == [(1, 2)]


def test_signs_belong_to_the_cell_above_them_where_cells_are_wide() -> None:
    size = 12
    givens = np.arange(1, 13)[None].repeat(12, axis=0).ravel()
    for column in range(size):
        board = build(size, np.array([(column, column + size)]), givens)
        lines = render(board, format="grid").split("\n")
        assert lines[1].rstrip() == f"{'^':>{2 + 5 * column}}"
        assert_same(read("\n".join(lines)), board)
        moved = [lines[0], lines[1][1:] if column else lines[1], *lines[2:]]  # under the other digit, or beside
        assert_same(read("\n".join(moved)), board)


@pytest.mark.parametrize("size", [10, 16, 25, 36])
def test_sizes_above_nine(size: int) -> None:
    board = random_board(size, 0.5, 0.5, size)
    for format in ("grid", "json", "sgt"):
        assert_round_trip(board, format)


def random_board(size: int, sign_share: float, given_share: float, seed: int) -> Instance:
    rng = random.Random(seed)
    pairs = [tuple(rng.sample(p, 2)) for p in adjacent_pairs(size).tolist() if rng.random() < sign_share]
    givens = [rng.randint(1, size) if rng.random() < given_share else 0 for _ in range(size * size)]
    return build(size, np.array(pairs, dtype=np.int64).reshape(-1, 2), np.array(givens))


@st.composite
def boards(draw: st.DrawFn) -> Instance:
    shares = st.sampled_from([0.0, 0.02, 0.3, 0.9, 1.0])
    return random_board(draw(st.integers(1, 36)), draw(shares), draw(shares), draw(st.integers(0, 2**32)))


@settings(deadline=None, max_examples=200)
@given(boards(), st.sampled_from(futoshiki.PUZZLE.formats))
def test_random_boards_round_trip(board: Instance, format: Format) -> None:
    assume(not format.refuses(board))
    assert_round_trip(board, format.name)
    assert_round_trip(board, format.name, puzzle="futoshiki")


@settings(deadline=None, max_examples=40)
@given(st.lists(boards(), min_size=1, max_size=4), st.sampled_from(["\n", "\n\n"]), st.randoms())
def test_random_boards_in_one_file(several: list[Instance], gap: str, rng: random.Random) -> None:
    formats = futoshiki.PUZZLE.formats
    texts = [render(b, format=rng.choice([f.name for f in formats if not f.refuses(b)])) for b in several]
    found = parse(gap.join(texts))
    assert len(found) == len(several)
    for instance, board in zip(found, several, strict=True):
        assert_same(instance, board)


def test_a_board_without_signs_is_not_drawn() -> None:
    board = random_board(4, 0, 0.5, 1)
    with pytest.raises(InputError, match="without signs looks like a Sudoku; use json or sgt"):
        render(board, format="grid")
    text = "1 2 3\n2 . .\n. . ."
    assert read(text, puzzle="futoshiki").givens.tolist() == [1, 2, 3, 2, 0, 0, 0, 0, 0]
    assert read("1 2 3 4\n" * 4).puzzle == "sudoku"


def test_beside_other_puzzles() -> None:
    board = THREES["as it is written"]
    nine = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
    four, row = "1.....3..4.....2", "1234341221434321"
    graph = "c k 2\np edge 2 1\ne 1 2"
    for above in (nine, four, row, " ".join(four), "12.34.12.34.12.3", ". . 1 .\n. . . .\n. . . .\n4 . . .", "2x2:a1n"):
        for gap in ("\n", "\n\n"):
            kinds = [i.puzzle for i in parse(gap.join((above, board, above, board, graph)))]
            assert kinds == ["sudoku", "futoshiki", "sudoku", "futoshiki", "coloring"]


# ---- refusals

BOARD = THREES["as it is written"]
REFUSED = {
    "cut after a row": ("1 < 2   3\n    ^\n.   .   .\n\n\n", "3 rows of 3 cells expected, found 2", 3),
    "cut after signs": ("1 < 2   3\n    ^\n.   .   .\nv\n", "3 rows of 3 cells expected, found 2", 3),
    "cut before another": (f"1 < 2   3\n    ^\n.   .   .\n{THREES['JSON']}", "no row of a Futoshiki: '{", 4),
    "short row": (". < .   .\n.   .\n.   .   .", "this row has 2 cells, the first has 3", 2),
    "short first row": (".   .\n. < .   .\n.   .   .", "this row has 3 cells, the first has 2", 2),
    "long row": (". < .   .\n.   .   .\n.   .   .   .", "this row has 4 cells, the first has 3", 3),
    "value out of range": (
        ". < .   .\n# note\n.   .   4\n.   .   .",
        "row 2 column 3 holds 4; a Futoshiki of size 3 has 1 to 3",
        3,
    ),
    "huge value": (
        f". < .   .\n.   .   {'9' * 400}\n.   .   .",
        "row 2 column 3 holds 99999999999999999...; a Futoshiki of size 3 has 1 to 3",
        2,
    ),
    "letter": (". < .   A\n.   .   .\n.   .   .", "no row of a Futoshiki: '. < . A'", 1),
    "letter further down": (". < .   .\n.   x   .\n.   .   .", "no row of a Futoshiki: '. x .'", 2),
    "sign at the start": (". < .   .\n< .   .   .\n.   .   .", "the sign in column 1 has no cell on its left", 2),
    "sign at the end": (". < .   .\n.   .   . >\n.   .   .", "nothing follows the sign '>' at the end of the row", 2),
    "two signs in a row": (". < < . .\n. . .\n. . .", "the sign in column 5 has no cell on its left", 1),
    "two signs under a cell": (". < .   .\n^\nv\n. . .\n. . .", "two signs under row 1 column 1", 3),
    "two signs under a number": ("12 < 2" + " ." * 10 + "\n^v\n", "two signs under row 1 column 1", 2),
    "signs above the board": (
        "^\n.   .   .\n.   .   .\n.   .   .",
        "a row of cells must come before the signs ^ and v",
        1,
    ),
    "signs below the board": (f"{BOARD}\n\nv", "signs under the last of 3 rows", 7),
    "sign under no cell": (". < .   .\n  ^\n. . .\n. . .", "the sign in column 3 stands under no cell", 2),
    "sign far off": (". < .   .\n            ^\n. . .\n. . .", "the sign in column 13 stands under no cell", 2),
    "sign between two cells": (".<..\n ^\n...\n", "the sign in column 2 stands under no cell", 2),
    "wide row": (". < ." + " ." * 40, "42 cells in the row; a Futoshiki has 1 to 36", 1),
    "Unequal cut": ("3:1,2L,3,0D", "the id has 4 cells; a Futoshiki of size 3 has 9", 1),
    "Unequal too long": ("2:0,0,0,0,0,", "the id has 5 cells; a Futoshiki of size 2 has 4", 1),
    "Unequal letter": ("\n2:0,0x,0,0,", "'0x' is no cell of an Unequal id", 2),
    "Unequal empty cell": ("2:0,,0,0,", "'' is no cell of an Unequal id", 1),
    "Unequal value": ("2:0,3,0,0,", "value 3; a Futoshiki of size 2 has 1 to 2", 1),
    "Unequal off the board": ("2:0U,0,0,0,", "the sign U at row 1 column 1 points off the board", 1),
    "Unequal off the right": ("2:0,0R,0,0,", "the sign R at row 1 column 2 points off the board", 1),
    "Unequal both ways": ("2:0R,0L,0,0,", "two signs between the same two cells", 1),
    "Unequal size": ("40:" + "0," * 1600, "size 40; a Futoshiki has 1 to 36", 1),
    "Unequal size 0": ("0:", "size 0; a Futoshiki has 1 to 36", 1),
    "Unequal adjacency": ("3a:0,0,0,0,0,0,0,0,0,", "an Unequal game with adjacency signs; only plain Futoshiki", 1),
    "Unequal seed": ("5de#12345", "a random seed of Unequal, not a board; use the id with a colon", 1),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_reason(name: str) -> None:
    text, reason, line = REFUSED[name]
    refuse(text, reason, line)
    if name != "signs above the board":  # those would stand below one
        refuse(f"# first\n{BOARD}\n\n{text}", reason, line + 7)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("^\n.   .", "a row of cells must come before the signs ^ and v"),
        ("hello", "no row of a Futoshiki: 'hello'"),
        ("53..7", "row 1 column 1 holds 53; a Futoshiki of size 4 has 1 to 4"),
        ("p edge 3 2", "no row of a Futoshiki: 'p edge 3 2'"),
        ("2x2:a1n", "no row of a Futoshiki: '2x2:a1n'"),
        ("\0" * 100, r"no row of a Futoshiki: '\x00"),
    ],
)
def test_refused_where_a_futoshiki_is_asked_for(text: str, reason: str) -> None:
    refuse(text, reason, 1, puzzle="futoshiki")


CELLS = '"less" holds pairs of cells, the smaller first: [[row, column], [row, column]], from 1 to 2'


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"size": None}, '"size" is a number from 1 to 36'),
        ({"size": "2"}, '"size" is a number from 1 to 36'),
        ({"size": 2.0}, '"size" is a number from 1 to 36'),
        ({"size": True}, '"size" is a number from 1 to 36'),
        ({"size": 0}, '"size" is a number from 1 to 36'),
        ({"size": 37}, '"size" is a number from 1 to 36'),
        ({"size": 10**4000}, '"size" is a number from 1 to 36'),
        ({"givens": {}}, '"givens" is a list of whole numbers'),
        ({"givens": [0, 0, 0, "1"]}, '"givens" is a list of whole numbers'),
        ({"givens": [0, 0, 0, False]}, '"givens" is a list of whole numbers'),
        ({"givens": [0, 0, 0]}, '"givens" has 3 numbers; a board of size 2 has 4'),
        ({"givens": [0, 0, 3, 0]}, '"givens": row 2 column 1 holds 3; values are 1 to 2'),
        ({"givens": [0, 0, -(10**4000), 0]}, '"givens": row 2 column 1 holds -1000'),
        ({"less": None}, CELLS),
        ({"less": 3}, CELLS),
        ({"less": "less"}, CELLS),
        ({"less": [[1, 2]]}, CELLS),
        ({"less": [[[1, 1], [1, 2], [2, 1]]]}, CELLS),
        ({"less": [[[1, 1], [1, "2"]]]}, CELLS),
        ({"less": [[[1, 1], [1, 2.0]]]}, CELLS),
        ({"less": [[[1, True], [1, 2]]]}, CELLS),
        ({"less": [[[1, 0], [1, 1]]]}, CELLS),
        ({"less": [[[1, 2], [1, 3]]]}, CELLS),
        ({"less": [[[1, 10**30], [1, 2]]]}, CELLS),
        ({"less": [[[1, 1], [2, 2]]]}, "cells that do not touch: row 1 column 1 and row 2 column 2"),
        ({"less": [[[1, 2], [2, 1]]]}, "cells that do not touch: row 1 column 2 and row 2 column 1"),
        ({"less": [[[1, 1], [1, 1]]]}, "cells that do not touch: row 1 column 1 and row 1 column 1"),
        ({"less": [[[1, 1], [1, 2]], [[1, 2], [1, 1]]]}, "two signs between the same two cells"),
        ({"less": [[[1, 1], [1, 2]], [[1, 1], [1, 2]]]}, "two signs between the same two cells"),
    ],
)
def test_refused_json(change: dict[str, object], reason: str) -> None:
    item = {"puzzle": "futoshiki", "size": 2, "givens": [0] * 4, "less": [[[1, 1], [1, 2]]]} | change
    refuse(json.dumps(item), reason, 1)


def test_json_without_signs_and_without_the_rest() -> None:
    item = {"puzzle": "futoshiki", "size": 2, "givens": [0] * 4}
    assert facts(read(json.dumps(item)))["less"] == set()
    assert read(json.dumps(item | {"less": []})).shape == (2,)
    refuse('{"puzzle": "futoshiki", "size": 2}', "no 'givens'", 1)
    refuse('{"puzzle": "futoshiki", "givens": [0]}', "no 'size'", 1)


def test_a_given_that_breaks_a_rule_is_named() -> None:
    assert find_conflict(read("2 < 1   .\n.   .   .\n.   .   .")) == (
        "a given breaks a rule: row 1 column 1 is 2 and row 1 column 2 is 1, against 'less'"
    )
    assert find_conflict(read("3 . < .\n. . .\n3 . .")) == (
        "a given breaks a rule: row 1 column 1 is 3 and row 3 column 1 is 3, against 'col'"
    )
    assert find_conflict(read("1 < 2   .\n.   .   .\n.   .   .")) is None
