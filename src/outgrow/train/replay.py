"""Updates recorded as CUDA graphs: 32 steps of small kernels take longer to launch from Python than to run (docs/experiments.md)."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor

from outgrow.graphs import Batch
from outgrow.kernels import Neighbors
from outgrow.train.objective import Losses, Objective

__all__ = ["Replay"]

_WARM_UP = 3


@dataclasses.dataclass(frozen=True, eq=False)
class _Recording:
    graph: torch.cuda.CUDAGraph
    inputs: Sequence[Tensor]
    losses: Losses
    gradients: Sequence[Tensor]


class Replay:
    """The loss and its gradients for batches of a shape seen before: their numbers are copied into the recording's, which runs again."""

    def __init__(self, objective: Objective) -> None:
        self._objective = objective
        self._weights = list(objective.parameters())
        self._recordings: dict[tuple[object, ...], _Recording] = {}

    def backward(self, batch: Batch, draw: Tensor | None) -> Losses:
        """Sets the gradients of all weights."""
        inputs = [*_tensors(batch), *([] if draw is None else [draw])]
        shape = tuple((tuple(t.shape), t.dtype) for t in inputs)
        if shape not in self._recordings:
            self._recordings[shape] = self._record(batch, draw)
        recording = self._recordings[shape]
        for static, tensor in zip(recording.inputs, inputs, strict=True):
            static.copy_(tensor)
        recording.graph.replay()
        for weight, gradient in zip(self._weights, recording.gradients, strict=True):
            weight.grad = gradient
        return recording.losses

    def _record(self, batch: Batch, draw: Tensor | None) -> _Recording:
        static = _copy(batch)
        drawn = None if draw is None else draw.clone()
        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):  # libraries set themselves up here, outside of the recording
            for _ in range(_WARM_UP):
                self._clear()
                self._objective(_alias(static), (), drawn).total.backward()
        torch.cuda.current_stream().wait_stream(side)
        self._clear()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            # Tables are worked out from the batch inside the recording: nothing of the first batch stays.
            losses = self._objective(_alias(static), (), drawn)
            losses.total.backward()
        gradients = [weight.grad for weight in self._weights if weight.grad is not None]
        inputs = [*_tensors(static), *([] if drawn is None else [drawn])]
        return _Recording(graph, inputs, Losses(losses.total.detach(), losses.final, losses.output), gradients)

    def _clear(self) -> None:
        for weight in self._weights:
            weight.grad = None


def _tensors(batch: Batch) -> list[Tensor]:
    """Everything of a batch that differs from one of the same shape."""
    found = [batch.puzzle, batch.counts, batch.num_values, batch.givens, batch.solutions]
    for neighbors in (*batch.constraint, *batch.relation):
        found += [neighbors.source, neighbors.mask]
    return [t for t in found if t is not None]


def _copy(batch: Batch) -> Batch:
    def copies(edges: Iterable[Neighbors]) -> tuple[Neighbors, ...]:
        return tuple(
            Neighbors(n.source.clone(), None if n.mask is None else n.mask.clone(), n.num_sources) for n in edges
        )

    return dataclasses.replace(
        batch,
        puzzle=batch.puzzle.clone(),
        counts=batch.counts.clone(),
        num_values=batch.num_values.clone(),
        givens=batch.givens.clone(),
        solutions=None if batch.solutions is None else batch.solutions.clone(),
        constraint=copies(batch.constraint),
        relation=copies(batch.relation),
    )


def _alias(batch: Batch) -> Batch:
    """The same tensors without anything worked out from them."""

    def fresh(edges: Iterable[Neighbors]) -> tuple[Neighbors, ...]:
        return tuple(Neighbors(n.source, n.mask, n.num_sources) for n in edges)

    return dataclasses.replace(batch, constraint=fresh(batch.constraint), relation=fresh(batch.relation))
