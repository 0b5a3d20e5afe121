"""What models over nodes (variable, value) have in common: inputs, steps, scores and loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from outgrow.graphs import BinarizedGraph
from outgrow.graphs.binarized import RULED_OUT, UNASSIGNED
from outgrow.models.layers import LayerNormLSTM, States, add_noise, mean_by_puzzle

__all__ = ["NodeModel"]

# Kinds of inputs, padded to what matrix products like.
_INPUTS = 8
Graph = TypeVar("Graph", bound=BinarizedGraph)


def _alike(states: States) -> States:
    """States as a step leaves them, which all have gradients or none: so a compiled step serves the first one as well."""
    if not torch.is_grad_enabled():
        return states
    return States(*(t if t.requires_grad else t.detach().requires_grad_() for t in states))


class NodeModel(nn.Module, ABC, Generic[Graph]):
    """Every node learns whether its variable has its value. What it hears of others is the model's own."""

    def __init__(self, types: int, width: int, steps: int, messages: nn.Module | None = None) -> None:
        super().__init__()
        self._steps = steps
        if messages is not None:
            self.messages = messages
        self.inputs = nn.Embedding(3, width)  # u[-1], u[0], u[1]: unassigned, ruled out, assigned
        self.update = LayerNormLSTM(types, width)
        self.score = nn.Linear(width, 1)

    @property
    def max_values(self) -> int | None:
        """The largest K it can take: any."""
        return None

    @abstractmethod
    def hear(self, graph: Graph, told: Tensor, which: Tensor) -> Tensor:
        """One round of messages between nodes that tell (N, H): what each hears, (N, H) for each type of edge or group, and behind that
        `which` (N, I), as it is."""

    def start(self, graph: Graph, noise: float = 0.0) -> States:
        """The states before the first step: the first messages tell the inputs."""
        unassigned, ruled_out, assigned = self.inputs.weight
        known = graph.known.unsqueeze(1)
        told = torch.where(known == UNASSIGNED, unassigned, torch.where(known == RULED_OUT, ruled_out, assigned))
        return add_noise(States(told, torch.zeros_like(told), torch.zeros_like(told)), noise)

    def walk(
        self, graph: Graph, steps: int | None = None, start: States | None = None, noise: float = 0.0
    ) -> Iterator[tuple[States, Tensor]]:
        """Step after step, the states and the scores (V, K): logits of 'this variable has this value'. With `noise`, a step leaves
        hidden states with so much of it."""
        told, hidden, cell = _alike(start or self.start(graph))
        which = functional.one_hot(graph.known, _INPUTS).to(told.dtype)
        weight = self.update.recognize(functional.pad(self.inputs.weight, (0, 0, 0, _INPUTS - 3)))
        for _ in range(self._steps if steps is None else steps):
            hidden, cell = self.step(graph, which, weight, told, hidden, cell)
            scores = graph.by_variable(self.score(hidden).squeeze(1))
            if noise:
                hidden = hidden + noise * torch.randn_like(hidden)
            told = hidden.view_as(hidden)
            yield States(told, hidden, cell), scores

    def run(self, graph: Graph, steps: int | None = None, start: States | None = None) -> Iterator[Tensor]:
        """Step after step, the scores (V, K)."""
        return (scores for _, scores in self.walk(graph, steps, start))

    def forward(self, graph: Graph, steps: int | None = None, start: States | None = None) -> Tensor:
        """The scores after every step: (T, V, K)."""
        return torch.stack(list(self.run(graph, steps, start)))

    def step(
        self, graph: Graph, which: Tensor, weight: Tensor, told: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One round of messages, and the update: the next hidden state and cell, each (N, H).

        `which` (N, I) marks the input of each node, and `weight` is what the update's gates make of it (`LayerNormLSTM.recognize`).
        """
        if torch.is_autocast_enabled(told.device.type):  # once, not in every product
            told = told.to(torch.get_autocast_dtype(told.device.type))
        return self.update(self.hear(graph, told, which), None, hidden, cell, weight)

    def loss(self, scores: Tensor, graph: Graph, target: Tensor) -> Tensor:
        """Binary cross-entropy at every step, averaged over the nodes of a puzzle: scores (T, V, K), target (V,) -> (T, B)."""
        batch = graph.batch
        counted = torch.arange(1, batch.max_values + 1, device=target.device)
        wanted = (target.unsqueeze(1) == counted).to(scores.dtype).expand_as(scores)
        # A value that a variable does not have is no node: it counts for nothing.
        scores = scores.masked_fill(~batch.allowed, 0.0)
        losses = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * batch.allowed
        return mean_by_puzzle(losses.sum(2) / batch.num_values[batch.puzzle], batch)

    def penalty(self, graph: Graph) -> Tensor | None:
        """No loss but that of the scores."""
        return None

    def guessing(self, values: int) -> float:
        """The loss of a step for tossing a coin at every node."""
        return math.log(2)
