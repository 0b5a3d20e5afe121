"""Puzzles of long chains: singles solve them, and would not with any given or sign less.

Where no given can be spared by proof (`dig`), values have to be tried out sooner or later. Here every step follows from those before by
plain rules, and there are many of them: most puzzles that people publish are so.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from pysat.solvers import Solver

from outgrow.csp.exact import encode
from outgrow.csp.ground import GroundCSP

__all__ = ["Chains"]

_FIRST = 16  # clues taken away at a time, to begin with
# Clues go in the order of random numbers from 0 to 1. To those of givens a number from this range is added, one for each board: so boards of 9x9 have
# from 4 givens and 45 signs to 27 and 7. Those of Unequal, a program that makes boards of this kind, lie between (some 10 and 36).
_LATE = (-1.0, 0.25)


class Chains:
    """Takes clues of solved boards away for as long as unit propagation finds everything: naked and hidden singles, and the bounds that signs give.

    A clue is a given, or a fact about one of `pairs` (P, 2) of variables, that they stand in the relation in this order or in the other.
    """

    def __init__(self, csp: GroundCSP, pairs: npt.NDArray[np.integer] | None = None, relation: str = "lt") -> None:
        self._size, self._values = csp.num_variables, csp.num_values
        self._solver: Any = Solver(name="minisat22")
        for block in encode(csp):
            self._solver.append_formula(block)
        self._switches: dict[tuple[int, int], int] = {}
        if pairs is None:
            return
        table = csp.lifted.table(relation, self._values)
        switch = self._size * self._values
        for x, y in np.concatenate([pairs, pairs[:, ::-1]]).tolist():
            switch += 1
            self._switches[x, y] = switch
            for v in range(self._values):  # a value needs one at the other end that goes with it
                ends = ((x, y, np.flatnonzero(table[v])), (y, x, np.flatnonzero(table[:, v])))
                for here, there, support in ends:
                    needed = (there * self._values + support + 1).tolist()
                    self._solver.add_clause([-switch, -(here * self._values + v + 1), *needed])

    def close(self) -> None:
        """Frees the solver's memory."""
        self._solver.delete()

    def clues(self, solution: npt.NDArray[np.integer], facts: npt.NDArray[np.integer] | None) -> list[int]:
        """The literals of all givens (V,) there could be, and those of the facts (P, 2)."""
        literals = (np.arange(self._size) * self._values + solution).tolist()
        return literals + ([] if facts is None else [self._switches[x, y] for x, y in facts.tolist()])

    def solves(self, clues: list[int]) -> bool:
        """Whether these literals (of givens and switches) are enough for singles."""
        consistent, found = self._solver.propagate(assumptions=clues)
        last = self._size * self._values
        return consistent and len({lit for lit in (*found, *clues) if 0 < lit <= last}) == self._size

    def dig(
        self, solution: npt.NDArray[np.integer], facts: npt.NDArray[np.integer] | None, rng: np.random.Generator
    ) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.integer] | None]:
        """Which variables stay given (V,), and which of the facts (P, 2) stay; in random order, some boards with more givens, some with more
        facts."""
        literals = self.clues(solution, facts)
        late = np.where(np.arange(len(literals)) < self._size, rng.uniform(*_LATE), 0.0)
        order = np.argsort(rng.random(len(literals)) + late).tolist()
        kept = set(range(len(literals)))
        at, step = 0, _FIRST
        while at < len(order):
            fewer = kept - set(order[at : at + step])
            if self.solves([literals[i] for i in fewer]):
                kept, at, step = fewer, at + step, step * 2
            elif step == 1:
                at += 1
            else:
                step = max(1, step // 4)
        stays = np.zeros(len(literals), dtype=np.bool_)
        stays[list(kept)] = True
        return stays[: self._size], None if facts is None else facts[stays[self._size :]]
