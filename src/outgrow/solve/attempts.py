"""Attempts at a puzzle: a model that starts over comes another way, and takes a guess for given."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from outgrow.errors import OutgrowError
from outgrow.graphs import Batch
from outgrow.models import Model, Multivalued
from outgrow.models.layers import States
from outgrow.models.nodes import mix
from outgrow.solve.notes import Moment, Notes, take_notes

__all__ = ["Moment", "attempt", "check_restart", "guess"]

_MAX_STEPS = 100_000
_OPEN = math.log(0.9)  # a variable is open to guesses if the model's best value for it is less likely than that


def attempt(model: Model, batch: Batch, number: int, steps: int, notes: Notes | None = None) -> Iterator[Moment]:
    """An attempt, step after step. The first one, 0, is what a model does by default.

    The others have other marks, if the model has any; else a multi-valued one has other embeddings for the values, and any other one
    starts from noise. What a puzzle gets depends on the number and on the puzzle, not on those it shares a batch with. With `notes`, it goes
    on from what they say and adds to them.
    """
    if notes is not None:
        return take_notes(model, batch, number, steps, notes)
    draw = None
    if number and isinstance(model, Multivalued):
        drawn = torch.randperm(model.max_values, generator=torch.Generator().manual_seed(number))[: batch.max_values]
        draw = drawn.to(batch.puzzle.device).repeat(len(batch), 1)
    elif number and model.marked:
        draw = torch.full((len(batch), 1), number, dtype=torch.int64, device=batch.puzzle.device)
    graph: Any = model.prepare(batch, draw)
    shaken = number and draw is None
    states = model.shake(graph, number) if shaken else model.start(graph)  # pyright: ignore[reportCallIssue]
    return _go(model, graph, states, steps)


def _go(model: Model, graph: Any, states: States, steps: int) -> Iterator[Moment]:
    for reached, scores in model.walk(graph, steps, states):
        yield Moment(graph, states.told, scores)
        states = reached


def guess(model: Model, batch: Batch, scores: Tensor, number: int) -> Batch:
    """The puzzles of `batch` for the attempt of that number: in each, the value that the model likes best for one of the variables it
    is not sure of is taken for given, by the scores (V, K) of the attempt before.

    Which variable it is looks random, and depends on the number and on the puzzle alone. What is open shrinks with it: where the guess is
    right, the puzzle has become an easier one; where it is wrong, the next attempt makes another.
    """
    device = batch.puzzle.device
    first = batch.counts.cumsum(0) - batch.counts
    place = torch.arange(batch.num_variables, device=device) - first[batch.puzzle]
    order = mix(mix(torch.tensor(number, device=device)) + place) >> 1  # the largest number is kept for the others
    free = (batch.givens == 0) & ~(model.certainty(scores) >= _OPEN)
    order = order.masked_fill(~free, torch.iinfo(torch.int64).max)
    least = torch.full((len(batch),), torch.iinfo(torch.int64).max, device=device)
    least.scatter_reduce_(0, batch.puzzle, order, "amin")
    chosen = free & (order == least[batch.puzzle])
    return replace(batch, givens=torch.where(chosen, scores.argmax(1) + 1, batch.givens))


def check_restart(restart: int, steps: int | None = None) -> None:
    """Refuses to start over where, of so many `steps`, there would be one attempt only."""
    if not 0 <= restart <= _MAX_STEPS:
        raise OutgrowError(f"a restart after {restart} steps; 1 to {_MAX_STEPS:,} are possible, or 0 for none")
    if restart and steps is not None and restart >= steps:
        raise OutgrowError(
            f"a restart after {restart} steps, and {steps} in all: nothing would start over; ask for more steps"
        )
