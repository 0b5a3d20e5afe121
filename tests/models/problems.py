"""Small problems to try models on: puzzles of the library and lifted CSPs of one's own, with random givens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, LiftedCSP
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

PROBLEMS: dict[str, Problem] = {
    "sudoku nbr": Problem.of([sudoku_csp("nbr")]),
    "sudoku units": Problem.of([sudoku_csp("units")]),
    "futoshiki nbr": Problem.of([futoshiki_csp(3, SIGNS_3, "nbr"), futoshiki_csp(3, SIGNS_3[:1], "nbr")]),
    "futoshiki units": Problem.of([futoshiki_csp(3, SIGNS_3, "units")]),
    "futoshiki 3 and 4": Problem.of([futoshiki_csp(3, SIGNS_3, "units"), futoshiki_csp(4, SIGNS_4, "units")]),
    "futoshiki without signs": Problem.of([futoshiki_csp(3, [], "nbr")]),
    "coloring": Problem.of([coloring_csp(5, LONELY, 3)]),
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
