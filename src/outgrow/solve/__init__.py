"""Steps of message passing -> assignments, by the verdict."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from outgrow.solve.answer import Answer
from outgrow.solve.solver import Solver

if TYPE_CHECKING:
    from outgrow.solve.neural import Frame, Proposal, restate, solve_batch
    from outgrow.solve.soft import SoftSolver

__all__ = ["Answer", "Frame", "Proposal", "SoftSolver", "Solver", "restate", "solve_batch"]

# Imported when they are first asked for: they need torch, and the exact solver does not.
_LATER = {
    "Frame": "outgrow.solve.neural",
    "Proposal": "outgrow.solve.neural",
    "SoftSolver": "outgrow.solve.soft",
    "restate": "outgrow.solve.neural",
    "solve_batch": "outgrow.solve.neural",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'outgrow.solve' has no attribute {name!r}")
