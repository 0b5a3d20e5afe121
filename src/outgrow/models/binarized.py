"""The binarized model (section 4.1 of the paper): every (variable, value) is a node that learns whether it holds."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from outgrow.graphs import Batch, BinarizedGraph, Schema, binarize
from outgrow.graphs.binarized import RULED_OUT, UNASSIGNED
from outgrow.models.layers import (
    Aggregation,
    LayerNormLSTM,
    MessageFunctions,
    Sent,
    Use,
    check_config,
    mean_by_puzzle,
    share_functions,
)

__all__ = ["Binarized", "BinarizedConfig"]


@dataclass(frozen=True)
class BinarizedConfig:
    """What the paper leaves to choose; the defaults are its choices.

    Attributes:
        width: H, of states and messages.
        steps: T, of message passing in training and, unless asked otherwise, in solving.
        layers: hidden layers of the message MLPs.
        dropout: share of message elements dropped in training.
        constraint: how messages over constraint edges of a symmetric relation (neq) are averaged.
        order: the same for those of any other relation (less-than, in both directions).
        relation: the same for relation edges.
        share_order: relation edges of such an order use the message MLP of the constraint edges with the same relation.
    """

    width: int = 96
    steps: int = 32
    layers: int = 3
    dropout: float = 0.1
    constraint: Aggregation = "attention"
    order: Aggregation = "attention"
    relation: Aggregation = "mean"
    share_order: bool = True

    def __post_init__(self) -> None:
        check_config(self)


class Binarized(nn.Module):
    """Scores of every variable's values, step after step."""

    kind: Literal["binarized"] = "binarized"

    def __init__(self, schema: Schema, config: BinarizedConfig) -> None:
        super().__init__()
        self.schema = schema
        self.config = config
        self._constraint, self._relation = share_functions(
            schema,
            lambda directed: config.order if directed else config.constraint,
            config.relation,
            lambda directed: directed and config.share_order,
        )
        self.messages = MessageFunctions([*self._constraint, *self._relation], config.width, config.layers)
        self.inputs = nn.Embedding(3, config.width)  # u[-1], u[0], u[1]: unassigned, ruled out, assigned
        self.update = LayerNormLSTM(len(self._constraint) + len(self._relation), config.width)
        self.score = nn.Linear(config.width, 1)

    @property
    def max_values(self) -> int | None:
        """The largest K it can take: any."""
        return None

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> BinarizedGraph:
        """The graph this model passes messages on; there are no value embeddings to draw."""
        graph = binarize(batch)
        if torch.is_grad_enabled():
            for neighbors in (*graph.constraint, *graph.relation):
                neighbors.prepare()
        return graph

    def forward(self, graph: BinarizedGraph, steps: int | None = None) -> Tensor:
        """The scores after every step: (T, V, K)."""
        return torch.stack(list(self.run(graph, steps)))

    def run(self, graph: BinarizedGraph, steps: int | None = None) -> Iterator[Tensor]:
        """Step after step, the scores (V, K): logits of 'this variable has this value'."""
        unassigned, ruled_out, assigned = self.inputs.weight
        known = graph.known.unsqueeze(1)
        state = torch.where(known == UNASSIGNED, unassigned, torch.where(known == RULED_OUT, ruled_out, assigned))
        # The first messages tell the inputs.
        remembered = self.update.remember(state)
        hidden = cell = torch.zeros_like(state)
        for _ in range(self.config.steps if steps is None else steps):
            hidden, cell = self.step(graph, remembered, state, hidden, cell)
            state = hidden
            yield graph.by_variable(self.score(hidden).squeeze(1))

    def step(
        self, graph: BinarizedGraph, remembered: Tensor, state: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One round of messages between states, and the update: the next hidden state and cell, each (N, H)."""
        heard: list[Tensor] = []
        sent: dict[Use, Sent] = {}
        for uses, edges in ((self._constraint, graph.constraint), (self._relation, graph.relation)):
            for use, neighbors in zip(uses, edges, strict=True):
                function = self.messages.of(use)
                if use not in sent:
                    sent[use] = function.send(state, use.attend)
                heard.append(function(sent[use], state, neighbors, self.config.dropout))
        return self.update(torch.cat(heard, dim=1), remembered, hidden, cell)

    def loss(self, scores: Tensor, graph: BinarizedGraph, target: Tensor) -> Tensor:
        """Binary cross-entropy at every step, averaged over the nodes of a puzzle: scores (T, V, K), target (V,) -> (T, B)."""
        batch = graph.batch
        counted = torch.arange(1, batch.max_values + 1, device=target.device)
        wanted = (target.unsqueeze(1) == counted).to(scores.dtype).expand_as(scores)
        # A value that a variable does not have is no node: it counts for nothing.
        scores = scores.masked_fill(~batch.allowed, 0.0)
        losses = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * batch.allowed
        return mean_by_puzzle(losses.sum(2) / batch.num_values[batch.puzzle], batch)

    def penalty(self, graph: BinarizedGraph) -> Tensor | None:
        """No loss but that of the scores."""
        return None

    def guessing(self, values: int) -> float:
        """The loss of a step for tossing a coin at every node."""
        return math.log(2)
