"""Steps of message passing -> assignments, by the verdict."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from outgrow.solve.answer import Answer
from outgrow.solve.frame import Frame
from outgrow.solve.solver import Solver

if TYPE_CHECKING:
    from outgrow.solve.listening import Listening, listen
    from outgrow.solve.neural import Proposal, restate, solve_batch
    from outgrow.solve.soft import SoftSolver

__all__ = ["Answer", "Frame", "Listening", "Proposal", "SoftSolver", "Solver", "listen", "restate", "solve_batch"]

# Imported when they are first asked for: they need torch, and the exact solver does not.
_LATER = {
    "Listening": "outgrow.solve.listening",
    "Proposal": "outgrow.solve.neural",
    "SoftSolver": "outgrow.solve.soft",
    "listen": "outgrow.solve.listening",
    "restate": "outgrow.solve.neural",
    "solve_batch": "outgrow.solve.neural",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'outgrow.solve' has no attribute {name!r}")
