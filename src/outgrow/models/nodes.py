"""What models over nodes (variable, value) have in common: inputs, steps, scores and loss."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from typing import Generic, TypeVar

import torch
from torch import Tensor, nn
from torch.nn import functional

from outgrow.graphs import Batch, BinarizedGraph
from outgrow.graphs.binarized import RULED_OUT, UNASSIGNED
from outgrow.models.layers import Heard, LayerNormLSTM, Stack, States, add_noise, mean_by_puzzle

__all__ = ["NodeModel", "draw_uniform", "mix"]

# Kinds of inputs: unassigned, ruled out, assigned. They are padded to a number that matrix products like.
_KINDS = 3
_MULTIPLE = 8
Graph = TypeVar("Graph", bound=BinarizedGraph)


def mix(number: Tensor) -> Tensor:
    """Integers (int64) that look random for integers in a row: the finalizer of SplitMix64."""
    number = number * -7046029254386353131
    for shift, factor in ((30, -4658895280553007687), (27, -7723592293110705685), (31, 1)):
        # A shift of signed numbers drags the sign along; these bits are to be zeros.
        number = (number ^ ((number >> shift) & ((1 << (64 - shift)) - 1))) * factor
    return number


def draw_uniform(batch: Batch, draw: Tensor) -> Tensor:
    """A number from 0 to 1 for every node, (N,): a function of its puzzle's seed (B, 1) and its place in the puzzle, other than the marks."""
    bits = mix(mix(~draw[:, 0][batch.node_puzzle]) + _places(batch))
    return (bits >> 40).to(torch.get_default_dtype()) / (1 << 24) + 0.5


def _places(batch: Batch) -> Tensor:
    """(N,) where each node is in its puzzle, from 0."""
    nodes, puzzle = batch.counts * batch.num_values, batch.node_puzzle
    return torch.arange(len(puzzle), device=puzzle.device) - (nodes.cumsum(0) - nodes)[puzzle]


def _alike(states: States) -> States:
    """States as a step leaves them, which all have gradients or none: so a compiled step serves the first one as well."""
    if not torch.is_grad_enabled():
        return states
    return States(*(t if t.requires_grad else t.detach().requires_grad_() for t in states))


class NodeModel(nn.Module, ABC, Generic[Graph]):
    """Every node learns whether its variable has its value. What it hears of others is the model's own."""

    def __init__(self, types: int, width: int, steps: int, messages: nn.Module | None = None, marks: int = 0) -> None:
        super().__init__()
        self._steps = steps
        if messages is not None:
            self.messages = messages
        self.inputs = nn.Embedding(_KINDS + marks, width)  # u[-1], u[0], u[1], and a direction for each mark
        if marks:
            with torch.no_grad():
                self.inputs.weight[_KINDS:] /= marks**0.5  # all of them together are as large as another input
        self.update = LayerNormLSTM(types, width)
        self.score = nn.Linear(width, 1)

    @property
    def marked(self) -> bool:
        """Whether nodes have random marks: then `prepare` takes a draw of them."""
        return self.inputs.num_embeddings > _KINDS

    def mark(self, batch: Batch, draw: Tensor | None) -> Tensor | None:
        """The marks of all nodes (N, C): uniform, of mean 0 and variance 1, a function of a puzzle's seed and the place of a node in it.

        `draw` has a seed for each puzzle, (B, 1), or says the marks themselves, (N, C); by default all seeds are 0.
        """
        if not self.marked:
            return None
        if draw is not None and draw.is_floating_point():
            return draw
        puzzle = batch.node_puzzle
        seeds = torch.zeros_like(puzzle) if draw is None else draw[:, 0][puzzle]
        columns = torch.arange(self.inputs.num_embeddings - _KINDS, device=puzzle.device)
        bits = mix(mix(mix(seeds) + _places(batch)).unsqueeze(1) + columns)
        return ((bits >> 40).to(torch.get_default_dtype()) / (1 << 23)) * 3**0.5

    def shake(self, graph: Graph, number: int) -> States:
        """The states before the first step of another attempt: with normal noise on the hidden ones, which is a function of `number` and
        the place of a node in its puzzle."""
        batch = graph.batch
        told, hidden, cell = self.start(graph)
        seed = torch.tensor(number, device=told.device)
        columns = torch.arange(hidden.shape[1], device=told.device)
        bits = mix(mix(mix(~seed) + _places(batch)).unsqueeze(1) + columns)
        uniform = (bits >> 40).to(hidden.dtype) / (1 << 24) + 0.5
        return States(told, hidden + torch.special.ndtri(uniform.clamp(1e-6, 1 - 1e-6)), cell)

    @property
    def max_values(self) -> int | None:
        """The largest K it can take: any."""
        return None

    @abstractmethod
    def prepare(self, batch: Batch, draw: Tensor | None = None) -> Graph:
        """The graph this model passes messages on; `draw` is of marks, if it has any."""

    @abstractmethod
    def stack(self) -> Stack | None:
        """What messages over edges begin with, the same for all steps; None if there are no edges."""

    @abstractmethod
    def hear(self, graph: Graph, stack: Stack | None, told: Tensor, which: Tensor) -> Tensor:
        """One round of messages between nodes that tell (N, H): what each hears, (N, H) for each type of edge or group, and behind that
        `which` (N, I), as it is."""

    @abstractmethod
    def listen(self, graph: Graph, told: Tensor, node: int) -> list[Heard]:
        """Whom a node hears in the round of messages in which nodes tell (N, H)."""

    def start(self, graph: Graph, noise: float = 0.0) -> States:
        """The states before the first step: the first messages tell the inputs."""
        unassigned, ruled_out, assigned = self.inputs.weight[:_KINDS]
        known = graph.known.unsqueeze(1)
        if graph.soft is None:
            told = torch.where(known == UNASSIGNED, unassigned, torch.where(known == RULED_OUT, ruled_out, assigned))
        else:
            told = graph.soft.to(unassigned.dtype) @ self.inputs.weight[:_KINDS]
        if graph.marks is not None:
            told = told + graph.marks.to(told.dtype) @ self.inputs.weight[_KINDS:]
        return add_noise(States(told, torch.zeros_like(told), torch.zeros_like(told)), noise)

    def walk(
        self, graph: Graph, steps: int | None = None, start: States | None = None, noise: float = 0.0
    ) -> Iterator[tuple[States, Tensor]]:
        """Step after step, the states and the scores (V, K): logits of 'this variable has this value'. With `noise`, a step leaves
        hidden states with so much of it."""
        told, hidden, cell = _alike(start or self.start(graph))
        which = functional.one_hot(graph.known, _KINDS) if graph.soft is None else graph.soft
        which = which.to(told.dtype)
        if graph.marks is not None:
            which = torch.cat([which, graph.marks.to(told.dtype)], dim=1)
        spare = -which.shape[1] % _MULTIPLE
        which = functional.pad(which, (0, spare))
        weight = self.update.recognize(functional.pad(self.inputs.weight, (0, 0, 0, spare)))
        stack = self.stack()
        for _ in range(self._steps if steps is None else steps):
            hidden, cell = self.step(graph, which, weight, stack, told, hidden, cell)
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
        self,
        graph: Graph,
        which: Tensor,
        weight: Tensor,
        stack: Stack | None,
        told: Tensor,
        hidden: Tensor,
        cell: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """One round of messages, and the update: the next hidden state and cell, each (N, H).

        `which` (N, I) says the input of each node, and `weight` is what the update's gates make of it (`LayerNormLSTM.recognize`).
        """
        if torch.is_autocast_enabled(told.device.type):  # once, not in every product
            told = told.to(torch.get_autocast_dtype(told.device.type))
        return self.update(self.hear(graph, stack, told, which), None, hidden, cell, weight)

    def certainty(self, scores: Tensor) -> Tensor:
        """Of scores (V, K), the log of the probability of each variable's best value: that it is so and no other is, (V,)."""
        # log sigmoid(x) is log sigmoid(-x) + x; values that a variable does not have are minus infinity, and certainly not so.
        return functional.logsigmoid(-scores.float()).sum(1) + scores.float().max(1).values

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
