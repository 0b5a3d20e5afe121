"""Outgrow: neural constraint solvers that learn from small puzzles and solve bigger ones.

>>> import outgrow
>>> puzzle = outgrow.parse_one("1.....3..4.....2")
>>> answer = outgrow.Solver().solve(puzzle)
>>> answer.solved, answer.source
(True, 'neural')
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

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
    from outgrow.csp.exact import Answer, Budget, ExactSolver
    from outgrow.data import Dataset, load_dataset
    from outgrow.data.generate import sample_puzzles
    from outgrow.solve import Solver

__all__ = [
    "Budget",
    "DamagedFile",
    "Dataset",
    "ExactSolver",
    "GroundCSP",
    "Groups",
    "InputError",
    "Instance",
    "LiftedCSP",
    "OutgrowError",
    "Solver",
    "Verdict",
    "__version__",
    "constraint_graph",
    "judge",
    "judge_batch",
    "load_dataset",
    "parse",
    "parse_one",
    "relation_graph",
    "render",
    "sample_puzzles",
    "solve_exact",
]

# Imported when they are first asked for: they need python-sat or torch, or are not needed to read a puzzle.
_LATER = {
    "Budget": "outgrow.csp.exact",
    "Dataset": "outgrow.data",
    "ExactSolver": "outgrow.csp.exact",
    "load_dataset": "outgrow.data",
    "Solver": "outgrow.solve",
    "sample_puzzles": "outgrow.data.generate",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'outgrow' has no attribute {name!r}")


def solve_exact(puzzle: Instance, budget: Budget | None = None) -> Answer:
    """A solution, or the proof that there is none, by the exact solver (`ExactSolver` has more)."""
    from outgrow.csp.exact import ExactSolver

    with ExactSolver(puzzle.csp) as solver:
        return solver.solve(puzzle.givens, budget=budget)
