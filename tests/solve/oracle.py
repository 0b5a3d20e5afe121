"""A model that says what it was told to say, step by step: so it is known what solving has to make of it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from outgrow.graphs import Batch, Schema
from outgrow.models.layers import States
from outgrow.puzzles import Instance

SURE = 5.0
NOTHING = States(*(torch.zeros(0, 0) for _ in range(3)))


def key(givens: Any) -> tuple[int, ...]:
    return tuple(int(v) for v in givens)


class Oracle:
    """For each puzzle (known by its givens) the assignments it says after step 1, 2, ...; the last one ever after.

    A value it says has the score SURE, every other one 0.
    """

    def __init__(self, schema: Schema, plan: Mapping[tuple[int, ...], Sequence[Any]], max_values: int | None = None):
        self.schema, self.max_values = schema, max_values
        self.plan = plan
        self.batches: list[tuple[int, int]] = []  # puzzles of each batch, and steps it was run for
        self.modes: list[Any] = []

    def to(self, device: Any) -> Oracle:
        self.modes.append(str(device))
        return self

    def eval(self) -> Oracle:
        self.modes.append("eval")
        return self

    def prepare(self, batch: Batch, draw: None = None) -> Batch:
        assert not torch.is_grad_enabled()
        assert draw is None
        self.batches.append((len(batch), 0))
        return batch

    def start(self, batch: Batch) -> States:
        return NOTHING

    def walk(self, batch: Batch, steps: int, start: States) -> Iterator[tuple[States, Tensor]]:
        said = [self.plan[key(givens)] for givens in batch.split(batch.givens.numpy())]
        for step in range(steps):
            self.batches[-1] = (len(batch), step + 1)
            values = np.concatenate([plan[min(step, len(plan) - 1)] for plan in said])
            scores = torch.zeros(batch.num_variables, batch.max_values)
            scores[torch.arange(len(values)), torch.from_numpy(values.astype(np.int64)) - 1] = SURE
            yield start, scores.masked_fill(~batch.allowed, float("-inf"))


def plan_of(*said: tuple[Instance, Sequence[Any]]) -> dict[tuple[int, ...], Sequence[Any]]:
    return {key(instance.givens): [np.asarray(a) for a in plan] for instance, plan in said}
