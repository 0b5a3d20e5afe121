"""Updates recorded as CUDA graphs: 32 steps of small kernels take longer to launch from Python than to run (docs/experiments.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import torch
from torch import Tensor

from outgrow.graphs import Batch, GroupTables
from outgrow.kernels import Neighbors
from outgrow.models.layers import States
from outgrow.train.objective import Losses, Objective

__all__ = ["Replay"]

Result = TypeVar("Result")

_WARM_UP = 3


@dataclasses.dataclass(frozen=True, eq=False)
class _Recording:
    """What was recorded for one shape: the beginning of `states`, where they are `new`, a step from them to themselves, and the graded steps
    with their gradients.

    `tables` is what the model made of the batch: a recording reads the memory of tables that stay the same, so it has to keep them.
    """

    batch: Batch
    tables: object
    inputs: Sequence[Tensor]
    states: States | None
    new: Tensor
    begin: torch.cuda.CUDAGraph | None
    free: torch.cuda.CUDAGraph | None
    graph: torch.cuda.CUDAGraph
    losses: Losses
    gradients: Sequence[Tensor | None]


class Replay:
    """The loss and its gradients for batches of a shape seen before: their numbers are copied into the recording's, which runs again."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._weights = list(objective.parameters())
        self._recordings: dict[tuple[object, ...], _Recording] = {}
        self._pool: Any = None

    def backward(
        self, batch: Batch, draw: Tensor | None, free: int = 0, carried: tuple[States | None, Tensor] | None = None
    ) -> Losses:
        """Sets the gradients of all weights. With `carried`, goes on from those states but for puzzles (B,) that are new."""
        inputs = [*_tensors(batch), *([] if draw is None else [draw])]
        # Tables that stay the same are no inputs: the sizes of the puzzles say which those are.
        walks = free > 0 or carried is not None
        shape = (walks, batch.sizes, *((tuple(t.shape), t.dtype) for t in inputs))
        if shape not in self._recordings:
            self._recordings[shape] = self._record(batch, draw, walks)
        recording = self._recordings[shape]
        for static, tensor in zip(recording.inputs, inputs, strict=True):
            static.copy_(tensor)
        if recording.begin is not None and recording.free is not None and recording.states is not None:
            states, new = carried or (None, None)
            recording.new.fill_(True) if new is None else recording.new.copy_(new)
            if states is not None:
                _set(recording.states, states)
            recording.begin.replay()
            for _ in range(free):
                recording.free.replay()
        recording.graph.replay()
        for weight, gradient in zip(self._weights, recording.gradients, strict=True):
            weight.grad = gradient
        return recording.losses

    def _record(self, batch: Batch, draw: Tensor | None, walks: bool) -> _Recording:
        static = _copy(batch)
        drawn = None if draw is None else draw.clone()
        states = begin = step = None
        new = torch.ones(len(batch), dtype=torch.bool, device=batch.puzzle.device)
        if walks:
            states = States(*(t.clone() for t in self._objective.walk(_alias(static), drawn, 1)))
            begin, _ = self._capture(lambda: _renew(states, self._objective.begin(_alias(static), drawn), new))
            step, _ = self._capture(lambda: _set(states, self._objective.walk(_alias(static), drawn, 1, states)))

        def grade() -> Losses:
            self._clear()
            # Tables are worked out from the batch inside the recording: nothing of the first batch stays.
            losses = self._objective(_alias(static), (), drawn, 0, states)
            losses.total.backward()
            return losses

        graph, losses = self._capture(grade)
        gradients = [weight.grad for weight in self._weights]
        inputs = [*_tensors(static), *([] if drawn is None else [drawn])]
        with torch.no_grad():
            tables = self._objective.model.prepare(static, drawn)
        return _Recording(
            static,
            tables,
            inputs,
            states,
            new,
            begin,
            step,
            graph,
            losses._replace(total=losses.total.detach()),
            gradients,
        )

    def _capture(self, work: Callable[[], Result]) -> tuple[torch.cuda.CUDAGraph, Result]:
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries set themselves up here, outside of the recording
            for _ in range(_WARM_UP):
                work()
        torch.cuda.current_stream().wait_stream(side)
        self._clear()
        graph = torch.cuda.CUDAGraph()
        # One memory for all: recordings never run at the same time. The same stream as before: gradients are gathered where they first were.
        with torch.cuda.graph(graph, pool=self._pool, stream=side):
            result = work()
        self._pool = graph.pool()
        return graph, result

    def _clear(self) -> None:
        for weight in self._weights:
            weight.grad = None


def _renew(states: States, begun: States, new: Tensor) -> None:
    """The beginning for puzzles (B,) that are new; all have as many nodes."""
    for old, tensor in zip(states, begun, strict=True):
        chosen = new.repeat_interleave(len(old) // len(new), output_size=len(old)).unsqueeze(1)
        old.copy_(torch.where(chosen, tensor.to(old.dtype), old))


def _set(states: States, new: States) -> None:
    for old, tensor in zip(states, new, strict=True):
        old.copy_(tensor)


def _tensors(batch: Batch) -> list[Tensor]:
    """Everything of a batch that differs from one of the same shape."""
    found = [batch.puzzle, batch.counts, batch.num_values, batch.givens, batch.solutions]
    for neighbors in _tables(batch):
        if not neighbors.constant:
            found += [neighbors.source, neighbors.mask]
    return [t for t in found if t is not None]


def _tables(batch: Batch) -> Iterator[Neighbors]:
    yield from (*batch.constraint, *batch.relation)
    for group in batch.groups:
        yield from (group.members, group.memberships)


def _replace_tables(batch: Batch, new: Callable[[Neighbors], Neighbors]) -> Batch:
    """With other tables in place of those that differ from batch to batch."""

    def put(neighbors: Neighbors) -> Neighbors:
        return neighbors if neighbors.constant else new(neighbors)

    return dataclasses.replace(
        batch,
        constraint=tuple(map(put, batch.constraint)),
        relation=tuple(map(put, batch.relation)),
        groups=tuple(GroupTables(put(g.members), put(g.memberships), g.puzzle) for g in batch.groups),
    )


def _copy(batch: Batch) -> Batch:
    def clone(neighbors: Neighbors) -> Neighbors:
        mask = None if neighbors.mask is None else neighbors.mask.clone()
        return Neighbors(neighbors.source.clone(), mask, neighbors.num_sources)

    return dataclasses.replace(
        _replace_tables(batch, clone),
        puzzle=batch.puzzle.clone(),
        counts=batch.counts.clone(),
        num_values=batch.num_values.clone(),
        givens=batch.givens.clone(),
        solutions=None if batch.solutions is None else batch.solutions.clone(),
    )


def _alias(batch: Batch) -> Batch:
    """The same tensors without anything worked out from those that differ from batch to batch."""
    return _replace_tables(batch, lambda n: Neighbors(n.source, n.mask, n.num_sources))
