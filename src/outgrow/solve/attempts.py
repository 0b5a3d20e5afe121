"""Attempts at a puzzle: a model that starts over comes another way."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from outgrow.errors import OutgrowError
from outgrow.graphs import Batch
from outgrow.models import Model, Multivalued

__all__ = ["attempt", "check_restart"]

_MAX_STEPS = 100_000


def attempt(model: Model, batch: Batch, number: int, steps: int) -> Iterator[Tensor]:
    """The scores of an attempt, step after step. The first one, 0, is what a model does by default.

    The others have other marks, if the model has any; else a multi-valued one has other embeddings for the values, and any other one
    starts from noise. What a puzzle gets depends on the number and on the puzzle, not on those it shares a batch with.
    """
    if not number:
        return model.run(model.prepare(batch), steps)  # pyright: ignore[reportArgumentType]
    if isinstance(model, Multivalued):
        generator = torch.Generator().manual_seed(number)
        drawn = torch.randperm(model.max_values, generator=generator)[: batch.max_values]
        return model.run(model.prepare(batch, drawn.to(batch.puzzle.device).repeat(len(batch), 1)), steps)
    if model.marked:
        draw = torch.full((len(batch), 1), number, dtype=torch.int64, device=batch.puzzle.device)
        return model.run(model.prepare(batch, draw), steps)  # pyright: ignore[reportArgumentType]
    graph = model.prepare(batch)
    return model.run(graph, steps, model.shake(graph, number))  # pyright: ignore[reportArgumentType]


def check_restart(restart: int, steps: int | None = None) -> None:
    """Refuses to start over where, of so many `steps`, there would be one attempt only."""
    if not 0 <= restart <= _MAX_STEPS:
        raise OutgrowError(f"a restart after {restart} steps; 1 to {_MAX_STEPS:,} are possible, or 0 for none")
    if restart and steps is not None and restart >= steps:
        raise OutgrowError(
            f"a restart after {restart} steps, and {steps} in all: nothing would start over; ask for more steps"
        )
