"""Steps of message passing -> assignments, by the verdict."""

from outgrow.solve.neural import Answer, restate, solve_batch

__all__ = ["Answer", "restate", "solve_batch"]
