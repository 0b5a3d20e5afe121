from __future__ import annotations

import json
import random

import numpy as np
import pytest
from comparing import Pair, assert_round_trip, assert_same, facts, read, refuse
from hypothesis import given, settings
from hypothesis import strategies as st

from outgrow.puzzles import Instance, Options, coloring, find_conflict, parse, render
from outgrow.puzzles.coloring import MAX_COLORS, MAX_NODES, build
from outgrow.puzzles.instance import Format

EDGES = [(1, 2), (2, 3), (3, 4), (4, 5), (5, 1), (1, 3)]
LINES = "\n".join(f"e {x} {y}" for x, y in EDGES)
BACK = "\n".join(f"e {y} {x}" for x, y in EDGES)


def graph(edges: list[Pair], nodes: int, colors: int, givens: dict[int, int] | None = None) -> Instance:
    values = np.zeros(nodes, dtype=np.int64)
    for node, color in (givens or {}).items():
        values[node - 1] = color
    return build(np.array(edges, dtype=np.int64).reshape(-1, 2) - 1, values, colors)


FIVE = graph(EDGES, 5, 3, {1: 1, 4: 2})
SIDE = "c k 3\nc given 1 1\nc given 4 2\n"
FIVES = {
    "k and givens first": f"{SIDE}p edge 5 6\n{LINES}",
    "k and givens last": f"p edge 5 6\n{LINES}\n{SIDE}",
    "p col": f"{SIDE}p col 5 6\n{LINES}",
    "p edges": f"{SIDE}p edges 5 6\n{LINES}",
    "comments": f"c FILE: five.col\nc\nc given by nobody\nc k is 3\nc  two   spaces\n{SIDE}c\np edge 5 6\nc here\n{LINES}\nc end",
    "hash comments and empty lines": f"# a graph\n\n{SIDE}\n\np edge 5 6\n\n{LINES}\n\n# end\n",
    "many spaces": f"{SIDE}p   edge\t5   6\n" + LINES.replace(" ", "  \t "),
    "indented": "\n".join(f"  {line}" for line in f"{SIDE}p edge 5 6\n{LINES}".split("\n")),
    "as on Windows": f"{SIDE}p edge 5 6\n{LINES}\n".replace("\n", "\r\n"),
    "weights of nodes": f"{SIDE}p edge 5 6\nn 1 7\n{LINES}\nn 2 -3",
    "both directions, counted once": f"{SIDE}p edge 5 6\n{LINES}\n{BACK}",
    "both directions, counted twice": f"{SIDE}p edge 5 12\n{LINES}\n{BACK}",
    "one direction, counted twice": f"{SIDE}p edge 5 12\n{LINES}",
    "an edge twice": f"{SIDE}p edge 5 7\n{LINES}\ne 1 2",
    "an edge twice, counted once": f"{SIDE}p edge 5 6\n{LINES}\ne 2 1",
    "a given twice": f"{SIDE}c given 1 1\np edge 5 6\n{LINES}",
    "JSON": json.dumps({"puzzle": "coloring", "colors": 3, "nodes": 5, "edges": EDGES, "givens": {"1": 1, "4": 2}}),
    "JSON with edges both ways": json.dumps(
        {
            "puzzle": "coloring",
            "colors": 3,
            "nodes": 5,
            "edges": EDGES + [(y, x) for x, y in EDGES],
            "givens": {"1": 1, "4": 2},
        },
        indent=1,
    ),
}


@pytest.mark.parametrize("name", FIVES)
def test_one_graph_in_many_ways(name: str) -> None:
    instance = read(FIVES[name])
    assert_same(instance, FIVE)
    assert_same(read(FIVES[name], puzzle="coloring"), FIVE)
    assert facts(instance)["edge"] == {(x - 1, y - 1) for x, y in [*EDGES, *((y, x) for x, y in EDGES)]}


@pytest.mark.parametrize(
    ("head", "options"),
    [
        ("", {"colors": 3, "side": "given 1 1\ngiven 4 2"}),
        ("", {"side": "k 3\ngiven 1 1\ngiven 4 2\n"}),
        ("", {"side": "# side file\r\n\r\nk 3\r\n given\t1  1 \r\ngiven 4 2"}),
        ("", {"side": "c the same as in the graph's own file\nc k 3\nc given 1 1\nc given 4 2"}),
        ("c k 3\nc given 1 1\n", {"side": "given 4 2"}),
        ("c k 7\n", {"side": "k 3\ngiven 1 1\ngiven 4 2"}),
        (SIDE.replace("k 3", "k 9"), {"colors": 3}),
        (SIDE, {"side": "k 9", "colors": 3}),
        (SIDE.replace("4 2", "4 1"), {"side": "given 4 2"}),
        (SIDE, {"side": ""}),
    ],
)
def test_colors_and_givens_from_outside(head: str, options: dict[str, object]) -> None:
    """--colors has the last word, then the side file, then the graph's own."""
    assert_same(read(f"{head}p edge 5 6\n{LINES}", **options), FIVE)


def test_no_edges_and_one_node() -> None:
    assert read("p edge 1 0", colors=1).csp.num_variables == 1
    assert read("c k 2\np edge 3 0\n").shape == (3,)
    assert read(f"p edge {MAX_NODES} 0", colors=MAX_COLORS).csp.num_variables == MAX_NODES


def test_many_givens_before_the_header() -> None:
    """All of them comments, and nothing but comments for thousands of lines."""
    board = graph([(1, 2)], 5_000, 2, {node: 1 + node % 2 for node in range(1, 5_001)})
    assert_round_trip(board, "col")
    comments = "c just words\n" * 500
    assert_same(read(comments + render(board)), board)


@st.composite
def graphs(draw: st.DrawFn) -> Instance:
    nodes = draw(st.integers(1, 60))
    colors = draw(st.integers(1, 1000))
    rng = random.Random(draw(st.integers(0, 2**32)))
    share, given_share = draw(st.sampled_from([0.0, 0.05, 0.5, 1.0])), draw(st.sampled_from([0.0, 0.1, 1.0]))
    edges = [tuple(rng.sample((x, y), 2)) for x in range(1, nodes + 1) for y in range(1, x) if rng.random() < share]
    givens = {n: rng.randint(1, colors) for n in range(1, nodes + 1) if rng.random() < given_share}
    return graph(edges, nodes, colors, givens)


@settings(deadline=None, max_examples=150)
@given(graphs(), st.sampled_from(coloring.PUZZLE.formats))
def test_random_graphs_round_trip(board: Instance, format: Format) -> None:
    assert_round_trip(board, format.name)


@settings(deadline=None, max_examples=30)
@given(st.lists(graphs(), min_size=1, max_size=3))
def test_many_json_graphs_in_one_file(several: list[Instance]) -> None:
    texts = [render(board, format="json") for board in several]
    for text in ("\n".join(texts), f"[{','.join(texts)}]", "[\n" + ",\n".join(texts) + "\n]\n"):
        found = parse(text)
        assert len(found) == len(several)
        for instance, board in zip(found, several, strict=True):
            assert_same(instance, board)


def test_beside_other_puzzles() -> None:
    found = parse(f"1.....3..4.....2\n. < .\n. .\n{FIVES['JSON']}\n\n{FIVES['comments']}")
    assert [i.puzzle for i in found] == ["sudoku", "futoshiki", "coloring", "coloring"]
    assert found[-1].source == "text:6"


def test_rows_of_small_letters_are_no_graph() -> None:
    letters = "abcdefghijklmnop"
    rows = [" ".join(letters[(4 * (r % 4) + r // 4 + c) % 16] for c in range(16)) for r in range(16)]
    assert rows[8].startswith("c ")
    for first in range(16):
        assert read("\n".join(rows[first:] + rows[:first])).puzzle == "sudoku"
    assert read("c a . .\n. . . .\n. . . .\n. . . .").puzzle == "sudoku"
    assert read("e 1 . .\n. . . .\n. . . .\n. . . f".replace("f", "2").replace("e", "4")).puzzle == "sudoku"


# ---- refusals

HEAD = "c k 3\np edge 5 6\n"
REFUSED = {
    "no header": ("e 1 2\ne 2 3", "no header 'p edge NODES EDGES' before the first edge", 1),
    "only comments of a graph": ("c k 3\nc given 1 1\n", "no header 'p edge NODES EDGES'", 1),
    "second header": (f"{HEAD}{LINES}\np edge 5 6", "a second header 'p', the first is on line 2; one graph a file", 9),
    "two graphs": (f"{HEAD}{LINES}\n\n{HEAD}{LINES}", "a second header 'p', the first is on line 2", 11),
    "short header": ("c k 3\np edge 5\n", "the header is 'p edge NODES EDGES'", 2),
    "long header": ("p edge 5 6 7\n", "the header is 'p edge NODES EDGES'", 1),
    "header with words": ("p edge five six\n", "'five' is no number", 1),
    "header below zero": ("p edge -5 6\n", "'-5' is no number", 1),
    "header with a fraction": ("p edge 5 6.0\n", "'6.0' is no number", 1),
    "other script": ("p edge ٣ 6\n", "'٣' is no number", 1),
    "no nodes": ("p edge 0 0\n", "0 nodes; a graph has 1 to 100,000", 1),
    "too many nodes": ("p edge 100001 0\n", "100001 nodes; a graph has 1 to 100,000", 1),
    "huge number of nodes": (f"p edge {'9' * 5000} 0\n", "'99999999999999999...' is no number", 1),
    "edge out of range": (f"{HEAD}e 1 2\ne 2 6", "edge 2 6: nodes are 1 to 5", 4),
    "edge from zero": (f"{HEAD}e 0 1", "edge 0 1: nodes are 1 to 5", 3),
    "self-loop": (f"{HEAD}e 1 2\n\nc here\ne 3 3", "a self-loop at node 3: no color is right for it", 6),
    "edge of three": (f"{HEAD}e 1 2 3", "an edge is 'e NODE NODE'", 3),
    "edge of one": (f"{HEAD}{LINES[:-3]}", "an edge is 'e NODE NODE'", 8),
    "edge with letters": (f"{HEAD}e 1 b", "'b' is no number", 3),
    "edges missing": (f"{HEAD}{LINES[:-6]}", "the header says 6 edges, the text has 5; is it cut off?", 2),
    "edges left over": (f"{HEAD}{LINES}\ne 2 5", "the header says 6 edges, the text has 7; is it cut off?", 2),
    "no number of colors": (f"p edge 5 6\n{LINES}", "how many colors? Name them with --colors K, or a line 'c k K'", 1),
    "k twice": (f"{HEAD}{LINES}\nc k 3", "the number of colors is named twice", 9),
    "k of zero": ("c k 0\np edge 1 0", "0 colors; there may be 1 to 1,000", 1),
    "k too large": ("c k 1001\np edge 1 0", "1001 colors; there may be 1 to 1,000", 1),
    "k below zero": ("c k -3\np edge 1 0", "'-3' is no number", 1),
    "k of two numbers": ("c k 3 4\np edge 1 0", "'k COLORS' or 'given NODE COLOR' expected", 1),
    "given of one number": (f"{HEAD}{LINES}\nc given 1", "'k COLORS' or 'given NODE COLOR' expected", 9),
    "given off the graph": (f"c given 6 1\n{HEAD}{LINES}", "given node 6; nodes are 1 to 5", 1),
    "given without color": (f"c given 5 0\n{HEAD}{LINES}", "given color 0; colors are 1 to 1,000", 1),
    "given above k": (f"{HEAD}{LINES}\nc given 2 4", "node 2 is given color 4; there are 3", 9),
    "given two colors": (f"{HEAD}{LINES}\nc given 2 1\nc given 2 3", "node 2 is given twice, as 1 and 3", 10),
    "given with a letter": (f"{HEAD}{LINES}\nc given 2 b", "'b' is no number", 9),
    "prose": (f"{HEAD}{LINES}\nThat is all.", "no line of a DIMACS graph: 'That is all.'", 9),
    "a Sudoku below": (f"{HEAD}{LINES}\n{'.' * 81}", "no line of a DIMACS graph: '....", 9),
    "NUL": (f"{HEAD}{LINES}\n\0\0", r"no line of a DIMACS graph: '\x00\x00'", 9),
    "escape": (f"{HEAD}{LINES}\n\x1b[2J", r"no line of a DIMACS graph: '\x1b[2J'", 9),
    "long line": (f"{HEAD}e {'1 ' * 1_000_000}", "an edge is 'e NODE NODE'", 3),
    "long word": (f"{HEAD}e 1 {'1' * 1_000_000}", "'11111111111111111...' is no number", 3),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refused_with_line_and_reason(name: str) -> None:
    text, reason, line = REFUSED[name]
    refuse(text, reason, line)
    refuse(text, reason, line, puzzle="coloring")
    if "first is on" not in reason:
        refuse(f"1.....3..4.....2\r\n\r\n{text}", reason, line + 2)


@pytest.mark.parametrize(
    ("side", "reason", "line"),
    [
        ("k 3\nk 3", "the number of colors is named twice", 2),
        ("k three", "'three' is no number", 1),
        ("k", "'k COLORS' or 'given NODE COLOR' expected: 'k'", 1),
        ("\n\ncolors 4", "'k COLORS' or 'given NODE COLOR' expected: 'colors 4'", 3),
        ("k 3\ngiven 6 1", "given node 6; nodes are 1 to 5", 2),
        ("k 3\n# here\ngiven 1 4", "node 1 is given color 4; there are 3", 3),
        ("k 3\ngiven 1 1\ngiven 1 2", "node 1 is given twice, as 1 and 2", 3),
        ("k 3\ngiven 1", "'k COLORS' or 'given NODE COLOR' expected: 'given 1'", 2),
        ("e 1 2", "'k COLORS' or 'given NODE COLOR' expected: 'e 1 2'", 1),
        ("\0", r"'k COLORS' or 'given NODE COLOR' expected: '\x00'", 1),
    ],
)
def test_refused_side_file(side: str, reason: str, line: int) -> None:
    refuse(f"p edge 5 6\n{LINES}", reason, line, source="five.givens", side=side, side_name="five.givens")
    refuse(f"p edge 5 6\n{LINES}", reason, line, source="side file", side=side)


@pytest.mark.parametrize("colors", [0, -1, 1001, 10**9])
def test_refused_number_of_colors(colors: int) -> None:
    refuse(f"p edge 5 6\n{LINES}", f"{colors} colors; there may be 1 to 1,000", 1, colors=colors)


PAIRS, MAPS = '"edges" holds pairs of nodes from 1 to 3', '"givens" maps nodes to colors: {"3": 1}'


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        *(
            ({"nodes": n}, '"nodes" is a number from 1 to 100,000')
            for n in (None, "3", 3.0, True, 0, -1, 10**6, 10**4000)
        ),
        *(
            ({"colors": k}, '"colors" is a number from 1 to 1,000')
            for k in (None, "2", 2.0, True, 0, -1, 1001, 10**4000)
        ),
        *(({"edges": e}, PAIRS) for e in (None, 7, "12", {}, [1, 2], [[1]], [[1, 2, 3]], [["1", 2]], [[1.0, 2]])),
        *(({"edges": e}, PAIRS) for e in ([[True, 2]], [[0, 1]], [[1, 4]], [[1, 10**4000]], [[1, None]], [None])),
        ({"edges": [[1, 2], [3, 3]]}, "a self-loop at node 3: no color is right for it"),
        *(({"givens": g}, MAPS) for g in (None, [], [1, 2, 0], "1", 3)),
        ({"givens": {"4": 1}}, "\"givens\" names node '4'; nodes are 1 to 3"),
        ({"givens": {"0": 1}}, "\"givens\" names node '0'; nodes are 1 to 3"),
        ({"givens": {"one": 1}}, "\"givens\" names node 'one'; nodes are 1 to 3"),
        ({"givens": {"²": 1}}, "\"givens\" names node '²'; nodes are 1 to 3"),
        ({"givens": {"\x1b[2J": 1}}, "\"givens\" names node '\\x1b[2J'; nodes are 1 to 3"),
        ({"givens": {"9" * 5000: 1}}, "\"givens\" names node '99999999999999999...'; nodes are 1 to 3"),
        *(
            ({"givens": {"1": g}}, '"givens" holds colors from 1 to 2')
            for g in (None, "1", 1.0, True, 0, 3, -1, 10**4000)
        ),
        ({"givens": {"1": 1, "01": 2}}, "node 1 is given twice, as 1 and 2"),
    ],
)
def test_refused_json(change: dict[str, object], reason: str) -> None:
    item = {"puzzle": "coloring", "colors": 2, "nodes": 3, "edges": [[1, 2]], "givens": {"1": 1}} | change
    refuse(json.dumps(item), reason, 1)


@pytest.mark.parametrize("key", ["colors", "nodes", "edges"])
def test_refused_json_without_a_part(key: str) -> None:
    item = {"puzzle": "coloring", "colors": 2, "nodes": 3, "edges": [[1, 2]]}
    assert parse(json.dumps(item))[0].shape == (3,)
    del item[key]
    refuse(json.dumps(item), f"no '{key}'", 1)


def test_a_given_that_breaks_a_rule_is_named() -> None:
    text = f"c given 1 2\nc given 5 2\n{HEAD}{LINES}"
    assert find_conflict(read(text)) == "a given breaks a rule: node 1 is 2 and node 5 is 2, against 'edge'"
    assert find_conflict(read(text.replace("5 2", "4 2"))) is None


def test_each_edge_breaks_when_its_ends_agree() -> None:
    instance = parse(f"p edge 5 6\n{LINES}", options=Options(colors=5))[0]
    for x in range(1, 6):
        for y in range(x + 1, 6):
            values = np.arange(1, 6)
            values[y - 1] = values[x - 1]
            assert instance.judge(values).solved == ((x, y) not in EDGES and (y, x) not in EDGES)
