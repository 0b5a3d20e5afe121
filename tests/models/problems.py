"""Small problems to try models on: puzzles of the library and lifted CSPs of one's own, with random givens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, Groups, LiftedCSP
from outgrow.graphs import Puzzles
from outgrow.puzzles import coloring, futoshiki, sudoku

Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Problem:
    """Puzzles of one lifted CSP. Givens and solutions are random: a model does not ask whether they are right."""

    csps: tuple[GroundCSP, ...]
    givens: tuple[Ints, ...]
    solutions: tuple[Ints, ...]

    @classmethod
    def of(cls, csps: Sequence[GroundCSP], seed: int = 0) -> Problem:
        random = np.random.default_rng(seed)
        solutions = [random.integers(1, c.num_values + 1, c.num_variables) for c in csps]
        givens = [np.where(random.random(len(s)) < 0.4, s, 0) for s in solutions]
        return cls(tuple(csps), tuple(givens), tuple(solutions))

    @property
    def max_values(self) -> int:
        return max(c.num_values for c in self.csps)

    def puzzles(self) -> Puzzles:
        return Puzzles(self.csps, self.givens, self.solutions)


def sudoku_csp(form: str, rows: int = 2, columns: int = 2) -> GroundCSP:
    return sudoku.build(rows, columns, np.zeros((rows * columns) ** 2, dtype=int), form=form).csp


def futoshiki_csp(size: int, signs: Sequence[tuple[int, int]], form: str) -> GroundCSP:
    return futoshiki.build(size, np.array(signs).reshape(-1, 2), np.zeros(size * size, dtype=int), form=form).csp


def coloring_csp(nodes: int, edges: Sequence[tuple[int, int]], colors: int) -> GroundCSP:
    return coloring.build(np.array(edges).reshape(-1, 2), np.zeros(nodes, dtype=int), colors).csp


SIGNS_3 = [(0, 1), (4, 1), (0, 3)]  # the larger end of two signs, and the smaller end of two
SIGNS_4 = [(1, 0), (0, 4), (5, 6), (14, 10), (15, 14)]
LONELY = [(0, 1), (1, 2), (2, 0), (3, 2)]  # a triangle with a tail; node 4 is alone

# A relation with a direction that is not an order, stated both ways round.
DOUBLE = LiftedCSP(
    predicates=["twice(2)", "half(2)"],
    relations={"double": lambda a, b: a == 2 * b},
    constraints=["twice(x, y) -> double(x, y)", "half(x, y) -> double(y, x)"],
)
SWAPPED = LiftedCSP(["after(2)"], {"lt": lambda a, b: a < b}, ["after(x, y) -> lt(y, x)"])
# Two predicates over two relations, and a third relation that no constraint uses.
SEVERAL = LiftedCSP(
    predicates=["less(2)", "apart(2)"],
    relations={"next": lambda a, b: a + 1 == b, "lt": lambda a, b: a < b, "far": lambda a, b: abs(a - b) > 1},
    constraints=["less(x, y) -> lt(x, y)", "apart(x, y) -> far(x, y)"],
)
# One predicate that asks for two relations at once: two types of edges between the same variables.
TWOFOLD = LiftedCSP(
    predicates=["tied(2)"],
    relations={"neq": lambda a, b: a != b, "lt": lambda a, b: a < b},
    constraints=["tied(x, y) -> neq(x, y)", "tied(x, y) -> lt(x, y)"],
)
# Two predicates to state in groups, and one between them to state in pairs.
UNITS = LiftedCSP(
    predicates=["team(2)", "less(2)", "club(2)"],
    relations={"neq": lambda a, b: a != b, "lt": lambda a, b: a < b},
    constraints=["team(x, y) -> neq(x, y)", "less(x, y) -> lt(x, y)", "club(x, y) -> neq(x, y)"],
)
FAR = LiftedCSP(["set(2)"], {"far": lambda a, b: abs(a - b) > 1}, ["set(x, y) -> far(x, y)"])
NAMED = LiftedCSP(["values(2)"], {"neq": lambda a, b: a != b}, ["values(x, y) -> neq(x, y)"])

PROBLEMS: dict[str, Problem] = {
    "sudoku nbr": Problem.of([sudoku_csp("nbr")]),
    "sudoku units": Problem.of([sudoku_csp("units")]),
    "futoshiki nbr": Problem.of([futoshiki_csp(3, SIGNS_3, "nbr"), futoshiki_csp(3, SIGNS_3[:1], "nbr")]),
    "futoshiki units": Problem.of([futoshiki_csp(3, SIGNS_3, "units")]),
    "futoshiki 3 and 4": Problem.of([futoshiki_csp(3, SIGNS_3, "units"), futoshiki_csp(4, SIGNS_4, "units")]),
    "futoshiki without signs": Problem.of([futoshiki_csp(3, [], "nbr")]),
    "coloring": Problem.of([coloring_csp(5, LONELY, 3)]),
    "coloring of couples": Problem.of(
        [coloring_csp(4, [(0, 1), (2, 3)], 2)]
    ),  # one edge into each node, of either kind
    "coloring 2, 4, 1 and 3": Problem.of(
        [
            coloring_csp(4, [(0, 1), (1, 2), (2, 3)], 2),
            coloring_csp(5, LONELY, 4),
            coloring_csp(2, [], 1),
            coloring_csp(6, [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)], 3),
        ]
    ),
    "double": Problem.of(
        [
            DOUBLE.ground(4, 4, {"twice": [(0, 1), (2, 1)], "half": [(3, 0), (2, 0)]}),
            DOUBLE.ground(3, 5, {"twice": [(2, 0)]}),
        ]
    ),
    "swapped": Problem.of([SWAPPED.ground(4, 3, {"after": [(0, 1), (1, 2), (0, 3)]})]),
    "several": Problem.of(
        [
            SEVERAL.ground(5, 4, {"less": [(0, 1), (1, 2), (3, 1)], "apart": [(0, 2), (4, 3)]}),
            SEVERAL.ground(3, 3, {"apart": [(0, 1)]}),
        ]
    ),
    "twofold": Problem.of([TWOFOLD.ground(3, 3, {"tied": [(0, 1), (2, 1)]})]),
}

# Variable 5 is in no group, 2 in three of one type; groups of one, and one of nobody.
ODD = UNITS.ground(
    6,
    3,
    {
        "team": Groups([[2, 0, 1], [], [2, 3], [4]]),
        "less": [(0, 5), (1, 5)],
        "club": Groups([[1, 2], [0, 2, 3, 1], [2]]),
    },
)
# Puzzles that state their facts in groups, each of them in its own way.
GROUPED: dict[str, Problem] = {
    "odd groups": Problem.of([ODD]),
    "groups of mixed sizes": Problem.of(
        [
            UNITS.ground(3, 5, {"team": Groups([[0, 1]]), "club": Groups([[2, 1], [2, 0]])}),
            ODD,
            UNITS.ground(4, 1, {"team": Groups([[3, 1, 0, 2]]), "club": Groups([[3]])}),
            UNITS.ground(3, 4, {"less": [(2, 0), (2, 1)], "club": Groups([[0, 1, 2]])}),
        ]
    ),
    "groups of one size": Problem.of(
        [UNITS.ground(4, 3, {"team": Groups([[0, 1, 3]]), "club": Groups([[3, 2], [0, 2], [1, 2]])}), ODD]
    ),
    # A predicate without facts in the first puzzle, or in the last, and a puzzle without any at all.
    "silent first": Problem.of([UNITS.ground(2, 3, {}), UNITS.ground(3, 2, {"club": Groups([[0, 1, 2]])})]),
    "silent last": Problem.of([ODD, UNITS.ground(3, 3, {"team": Groups([[0, 2]])}), UNITS.ground(2, 4, {})]),
    "groups alone": Problem.of([FAR.ground(4, 4, {"set": Groups([[0, 1], [1, 2, 3]])})]),
    # As many groups as variables: rows of a table are no sources for all that.
    "as many groups as variables": Problem.of(
        [FAR.ground(2, 5, {"set": Groups([[0, 1], [0], [1]])}), FAR.ground(2, 1, {"set": Groups([[1, 0]])})]
    ),
    # The same memberships, and not as many groups.
    "an empty group at the end": Problem.of(
        [
            FAR.ground(2, 3, {"set": Groups([[0, 1], [0], []])}),
            FAR.ground(2, 3, {"set": Groups([[0, 1], [0]])}),
            FAR.ground(2, 3, {"set": Groups([[0, 1]])}),
        ]
    ),
    "groups of nobody": Problem.of([FAR.ground(2, 3, {"set": Groups([[], []])}), FAR.ground(2, 2, {})]),
    "groups and many pairs": Problem.of(
        [
            UNITS.ground(
                5,
                4,
                {
                    "team": Groups([[0, 1, 2], [3, 4]]),
                    "less": [(i, j) for i in range(5) for j in range(i)],
                    "club": Groups([[0, 3, 4]]),
                },
            )
        ]
    ),
    "called values": Problem.of([NAMED.ground(4, 3, {"values": Groups([[0, 1, 2], [2, 3]])})]),
}
