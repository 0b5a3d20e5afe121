"""Attempts at a puzzle: a model with marks that starts over with other ones comes another way."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from outgrow.errors import OutgrowError
from outgrow.graphs import Batch
from outgrow.models import Model
from outgrow.models.nodes import NodeModel

__all__ = ["attempt", "check_restart"]

_MAX_STEPS = 100_000


def attempt(model: Model, batch: Batch, number: int, steps: int) -> Iterator[Tensor]:
    """The scores of an attempt, step after step. The first one, 0, is made with the marks that puzzles have by default."""
    if not number:
        return model.run(model.prepare(batch), steps)  # pyright: ignore[reportArgumentType]
    draw = torch.full((len(batch), 1), number, dtype=torch.int64, device=batch.puzzle.device)
    return model.run(model.prepare(batch, draw), steps)  # pyright: ignore[reportArgumentType]


def check_restart(model: Model, restart: int, steps: int | None = None) -> None:
    """Refuses to start over where every attempt would be the same, or, of so many `steps`, there would be only one."""
    if not 0 <= restart <= _MAX_STEPS:
        raise OutgrowError(f"a restart after {restart} steps; 1 to {_MAX_STEPS:,} are possible, or 0 for none")
    if restart and not (isinstance(model, NodeModel) and model.marked):
        raise OutgrowError(
            f"a {model.kind} model without marks does the same when it starts over; leave out the restart"
        )
    if restart and steps is not None and restart >= steps:
        raise OutgrowError(
            f"a restart after {restart} steps, and {steps} in all: nothing would start over; ask for more steps"
        )
