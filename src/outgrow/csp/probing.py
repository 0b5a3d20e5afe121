"""How deep a puzzle is: rounds of trying values and ruling out those that lead nowhere by singles."""

from __future__ import annotations

from collections.abc import Iterator
from types import TracebackType
from typing import Any

import numpy as np
import numpy.typing as npt
from pysat.solvers import Solver

from outgrow.csp.exact import encode
from outgrow.csp.ground import GroundCSP

__all__ = ["Prober"]


class Prober:
    """Probes puzzles of one ground CSP, by unit propagation: naked and hidden singles, and values that nothing at the other end of a pair goes with.

    >>> from outgrow.puzzles import parse_one
    >>> puzzle = parse_one("1.....3..4.....2")
    >>> with Prober(puzzle.csp) as prober:
    ...     prober.count_rounds(puzzle.givens)
    0
    """

    def __init__(self, csp: GroundCSP) -> None:
        self.csp = csp
        self._solver: Any = Solver(name="minisat22")
        for block in encode(csp):
            self._solver.append_formula(block)
        # What follows from clauses alone the solver does not tell: those of supports hold while this is assumed.
        self._switch = csp.num_variables * csp.num_values + 1
        self._solver.append_formula([[-self._switch, *clause] for clause in _supports(csp)])

    def __enter__(self) -> Prober:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Frees the solver's memory."""
        self._solver.delete()

    def count_rounds(self, givens: npt.NDArray[np.integer], most: int = 100) -> int | None:
        """After how many rounds of probing every variable has a value.

        A round tries each value that is left to a variable, and rules out all those that singles refute. 0 if singles alone find everything; None if a round
        refutes nothing and values are left, if it takes more than `most`, or if the givens contradict each other.
        """
        start = self.csp.assignment(np.asarray(givens))
        literals = range(1, self._switch) if self.csp.num_values > 1 else ()
        known: list[int] = [self._switch, *(np.flatnonzero(start) * self.csp.num_values + start[start > 0]).tolist()]
        for rounds in range(most + 1):
            consistent, found = self._solver.propagate(assumptions=known)
            if not consistent:
                return None
            settled = {*found, *known}
            left = [literal for literal in literals if literal not in settled and -literal not in settled]
            if not left:
                return rounds
            refuted = [-literal for literal in left if not self._solver.propagate(assumptions=[*known, literal])[0]]
            if not refuted:
                return None
            known += refuted
        return None


def _supports(csp: GroundCSP) -> Iterator[list[int]]:
    """A value needs one that goes with it at the other end. Of 'not equal' the clauses of conflicts say as much."""
    values = csp.num_values
    for c in csp.constraints:
        table = csp.table(c)
        if np.array_equal(table, ~np.eye(values, dtype=np.bool_)):
            continue
        for x, y in csp.pairs[c.predicate].tolist():
            for v in range(values):
                yield [-(x * values + v + 1), *(y * values + np.flatnonzero(table[v]) + 1).tolist()]
                yield [-(y * values + v + 1), *(x * values + np.flatnonzero(table[:, v]) + 1).tolist()]
