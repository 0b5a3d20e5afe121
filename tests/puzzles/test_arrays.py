"""Puzzles from what other libraries hold: arrays and networkx graphs."""

from __future__ import annotations

import networkx
import numpy as np
import pytest

from outgrow import Solver, parse_one
from outgrow.data import find_dataset
from outgrow.puzzles.coloring import from_networkx
from outgrow.puzzles.sudoku import from_array


@pytest.mark.parametrize("name", ["sudoku-4-test", "sudoku-6-test", "sudoku-9-test", "sudoku-16-test"])
def test_a_board_from_an_array(name: str) -> None:
    puzzle = find_dataset(name)[0]
    made = from_array(puzzle.givens.reshape(puzzle.size, puzzle.size))
    assert (made.shape, made.givens.tolist(), made.csp) == (puzzle.shape, puzzle.givens.tolist(), puzzle.csp)


def test_boxes_may_be_named() -> None:
    assert from_array(np.zeros((6, 6), dtype=int), box=(3, 2)).shape == (3, 2)


@pytest.mark.parametrize(
    ("board", "box"),
    [
        (np.zeros((4, 5), dtype=int), None),
        (np.zeros(16, dtype=int), None),
        (np.full((4, 4), 5), None),
        (np.full((4, 4), -1), None),
        (np.full((4, 4), 0.5), None),
        (np.zeros((6, 6), dtype=int), (2, 2)),
        (np.zeros((0, 0), dtype=int), None),
    ],
)
def test_what_is_no_board(board: np.ndarray, box: tuple[int, int] | None) -> None:
    with pytest.raises(ValueError):
        from_array(board, box)


def test_a_graph_from_networkx() -> None:
    graph = networkx.Graph([("a", "b"), ("b", "c"), ("c", "a"), ("c", "d")])
    graph.nodes["d"]["color"] = 2
    puzzle = from_networkx(graph, 3)
    assert puzzle.givens.tolist() == [0, 0, 0, 2]
    answer = Solver(network=False).solve(puzzle)
    assert answer.assignment is not None
    colors = dict(zip(graph.nodes, answer.assignment.tolist(), strict=True))
    assert colors["d"] == 2
    assert all(colors[x] != colors[y] for x, y in graph.edges)
    assert Solver(network=False).solve(from_networkx(graph, 2)).status == "unsatisfiable"
    for kind in (np.int8, np.uint8, np.int64):  # NumPy's numbers are numbers
        numbered = from_networkx(graph, kind(3))
        assert type(numbered.size) is int
        assert Solver(network=False).solve(numbered).text == Solver(network=False).solve(puzzle).text


def test_direction_and_number_of_edges_make_no_difference() -> None:
    plain = networkx.Graph([(0, 1), (1, 2)])
    many = networkx.MultiDiGraph([(0, 1), (1, 0), (1, 2), (1, 2)])
    assert from_networkx(plain, 2).csp.pairs["edge"].tolist() == from_networkx(many, 2).csp.pairs["edge"].tolist()
    text = "c k 2\np edge 3 2\ne 1 2\ne 2 3\n"
    assert sorted(from_networkx(plain, 2).csp.pairs["edge"].tolist()) == sorted(
        parse_one(text).csp.pairs["edge"].tolist()
    )


@pytest.mark.parametrize("color", [0, 4, 1.5, True, "red"])
def test_colors_that_are_none(color: object) -> None:
    graph = networkx.path_graph(3)
    graph.nodes[1]["color"] = color
    with pytest.raises(ValueError, match="node 1 is given"):
        from_networkx(graph, 3)


def test_graphs_that_cannot_be_colored() -> None:
    with pytest.raises(ValueError, match="edge to itself"):
        from_networkx(networkx.Graph([("x", "x")]), 3)
    with pytest.raises(ValueError, match="without nodes"):
        from_networkx(networkx.Graph(), 3)
    with pytest.raises(ValueError, match="0 colors"):
        from_networkx(networkx.path_graph(2), 0)
