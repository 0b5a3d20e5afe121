"""Outgrow: neural constraint solvers that learn from small puzzles and solve bigger ones.

>>> import outgrow
>>> puzzle = outgrow.parse_one("1.....3..4.....2")
>>> answer = outgrow.solve_exact(puzzle)
>>> puzzle.judge(answer.assignment).solved
True
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from outgrow.csp import (
    GroundCSP,
    Groups,
    LiftedCSP,
    Verdict,
    constraint_graph,
    judge,
    judge_batch,
    relation_graph,
)
from outgrow.errors import DamagedFile, InputError, OutgrowError
from outgrow.puzzles import Instance, parse, parse_one, render
from outgrow.version import __version__

if TYPE_CHECKING:
    from outgrow.csp.exact import Answer, Budget

__all__ = [
    "DamagedFile",
    "GroundCSP",
    "Groups",
    "InputError",
    "Instance",
    "LiftedCSP",
    "OutgrowError",
    "Verdict",
    "__version__",
    "constraint_graph",
    "judge",
    "judge_batch",
    "parse",
    "parse_one",
    "relation_graph",
    "render",
    "solve_exact",
]


def solve_exact(puzzle: Instance | GroundCSP, budget: Budget | None = None) -> Answer:
    """A solution, or the proof that there is none, by the exact solver (`outgrow.csp.exact` has more)."""
    from outgrow.csp.exact import ExactSolver

    csp, givens = (puzzle.csp, puzzle.givens) if isinstance(puzzle, Instance) else (puzzle, None)
    with ExactSolver(csp) as solver:
        return solver.solve(givens, budget=budget)
