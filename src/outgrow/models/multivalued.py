"""The multi-valued model (section 4.2 of the paper): variables and values are nodes, and values have learnt embeddings."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn
from torch.nn import functional

from outgrow.errors import OutgrowError
from outgrow.graphs import Batch, MultivaluedGraph, Schema, multivalue
from outgrow.kernels import Neighbors, gather
from outgrow.models.layers import (
    Aggregation,
    End,
    Heard,
    LayerNormLSTM,
    MessageFunctions,
    Stack,
    States,
    Use,
    add_noise,
    check_config,
    mean_by_puzzle,
    name_kinds,
    select_row,
    share_functions,
)

__all__ = ["Multivalued", "MultivaluedConfig", "Prepared"]


@dataclass(frozen=True)
class MultivaluedConfig:
    """What the paper leaves to choose; the defaults are its choices.

    Attributes:
        max_values: k_max, how many value embeddings there are, and so the largest K it can solve.
        width: H, of states, messages and embeddings.
        steps: T, of message passing on the CMPG.
        relation_steps: steps on the RMPG.
        layers: hidden layers of the message MLPs.
        dropout: share of the CMPG's message elements dropped in training.
        constraint: how messages over constraint edges of a symmetric relation (neq) are averaged.
        order: the same for those of any other relation (less-than, in both directions).
        relation: the same for relation edges.
        unassigned: the same for the edges from all values to an unassigned variable.
        share_neq: relation edges of a symmetric relation use the message MLP of the constraint edges with it.
        share_order: the same for any other relation.
        orthogonality: weight of the loss that keeps embeddings apart.
    """

    max_values: int = 16
    width: int = 96
    steps: int = 32
    relation_steps: int = 1
    layers: int = 3
    dropout: float = 0.1
    constraint: Aggregation = "attention"
    order: Aggregation = "mean"
    relation: Aggregation = "mean"
    unassigned: Aggregation = "attention"
    share_neq: bool = True
    share_order: bool = False
    orthogonality: float = 0.01

    def __post_init__(self) -> None:
        check_config(self)


@dataclass(frozen=True, eq=False)
class Prepared:
    """The graphs of a batch and the embeddings of its values.

    Attributes:
        graph: CMPG and RMPG.
        every: from all values of a puzzle to each of its variables, (V, K).
        drawn: (B * K, H) the embeddings its values were given.
        values: (B * K, H) the relationship-aware embeddings that message passing on the RMPG made of them.
    """

    graph: MultivaluedGraph
    every: Neighbors
    drawn: Tensor
    values: Tensor

    @property
    def batch(self) -> Batch:
        return self.graph.batch


class Multivalued(nn.Module):
    """Scores of every variable's values, step after step."""

    kind: Literal["multivalued"] = "multivalued"

    def __init__(self, schema: Schema, config: MultivaluedConfig) -> None:
        super().__init__()
        self.schema = schema
        self.config = config
        self._constraint, self._relation = share_functions(
            schema,
            lambda directed: config.order if directed else config.constraint,
            config.relation,
            lambda directed: config.share_order if directed else config.share_neq,
        )
        self._assigned = Use("assigned", attend=False)  # a single edge each
        self._unassigned = Use("unassigned", attend=config.unassigned == "attention")
        self._uses = [*self._constraint, self._assigned, self._unassigned]
        self.messages = MessageFunctions([*self._uses, *self._relation], config.width, config.layers)
        self.embeddings = nn.Embedding(config.max_values, config.width)
        self.relation_update = LayerNormLSTM(len(self._relation), config.width)
        self.update = LayerNormLSTM(len(self._constraint) + 2, config.width)
        self.score = nn.Linear(config.width, config.width)

    @property
    def max_values(self) -> int:
        """The largest K it can take."""
        return self.config.max_values

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> Prepared:
        """The graphs this model passes messages on, and its values.

        `draw` (B, K) names the embeddings of each puzzle's values, a k-permutation of max_values; without it they are the first K.
        """
        if batch.max_values > self.max_values:
            raise OutgrowError(
                f"a puzzle with {batch.max_values} values, but the model has embeddings for {self.max_values}; "
                f"train one with model.max_values = {batch.max_values}, or use a binarized model"
            )
        graph = multivalue(batch)
        if draw is None:
            draw = torch.arange(batch.max_values, device=batch.puzzle.device).repeat(len(batch), 1)
        if not batch.same_size:  # values that a puzzle does not have stand for its first one: nothing else gets in
            draw = torch.where(batch.exists, draw, draw[:, :1])
        every = Neighbors(graph.unassigned.source, None, graph.unassigned.num_sources)
        for neighbors in (*graph.constraint, graph.assigned, graph.unassigned, *graph.relation, every):
            neighbors.prepare()
        drawn = gather(self.embeddings.weight, Neighbors(draw.reshape(-1, 1), None, self.max_values)).squeeze(1)
        return Prepared(graph, every, drawn, self.embed(graph, drawn))

    def embed(self, graph: MultivaluedGraph, drawn: Tensor) -> Tensor:
        """Message passing on the RMPG: relationship-aware embeddings, (B * K, H)."""
        state = drawn
        remembered = self.relation_update.remember(drawn)
        stack = self.messages.stack(self._relation, self._relation)
        hidden = cell = torch.zeros_like(drawn)
        for _ in range(self.config.relation_steps):
            sent, own = self.messages.project(state, stack, self._relation, self._relation)
            heard = [
                self.messages.of(use)(sent[use], own[use], neighbors)
                for use, neighbors in zip(self._relation, graph.relation, strict=True)
            ]
            hidden, cell = self.relation_update(torch.cat(heard, dim=1), remembered, hidden, cell)
            state = hidden
        return hidden

    def start(self, prepared: Prepared, noise: float = 0.0) -> States:
        """The states before the first step: the first messages tell the inputs, which are the embedding of a given value and the
        average of all otherwise."""
        batch, values = prepared.batch, prepared.values
        held = batch.allowed.unsqueeze(2) * gather(values, prepared.every)  # (V, K, H)
        average = held.sum(1) / batch.num_values[batch.puzzle].unsqueeze(1)
        own = gather(values, prepared.graph.assigned).squeeze(1)
        told = torch.where(batch.givens.unsqueeze(1) > 0, own, average)
        return add_noise(States(told, torch.zeros_like(told), torch.zeros_like(told)), noise)

    def walk(
        self, prepared: Prepared, steps: int | None = None, start: States | None = None, noise: float = 0.0
    ) -> Iterator[tuple[States, Tensor]]:
        """Step after step, the states and the scores (V, K): logits of a softmax over values. With `noise`, a step leaves hidden states
        with so much of it."""
        batch, values = prepared.batch, prepared.values
        fresh = self.start(prepared)
        remembered = self.update.remember(fresh.told)
        state, hidden, cell = start or fresh
        fixed = (self._assigned, self._unassigned)
        told, _ = self.messages.project(values, self.messages.stack(fixed, ()), fixed, ())
        stack = self.messages.stack(self._constraint, self._uses)
        weight = self.update.hear.weight[:, : -self.config.width].contiguous()
        targets = gather(self.score(values), prepared.every)
        for _ in range(self.config.steps if steps is None else steps):
            hidden, cell = self.step(prepared, told, stack, weight, remembered, state, hidden, cell)
            scores = torch.bmm(targets, hidden.to(targets.dtype).unsqueeze(2)).squeeze(2)
            if noise:
                hidden = hidden + noise * torch.randn_like(hidden)
            state = hidden
            yield (
                States(state, hidden, cell),
                scores if batch.same_size else scores.masked_fill(~batch.allowed, float("-inf")),
            )

    def run(self, prepared: Prepared, steps: int | None = None, start: States | None = None) -> Iterator[Tensor]:
        """Step after step, the scores (V, K)."""
        return (scores for _, scores in self.walk(prepared, steps, start))

    def forward(self, prepared: Prepared, steps: int | None = None, start: States | None = None) -> Tensor:
        """The scores after every step: (T, V, K)."""
        return torch.stack(list(self.run(prepared, steps, start)))

    def step(
        self,
        prepared: Prepared,
        told: Mapping[Use, End],
        stack: Stack,
        weight: Tensor,
        remembered: Tensor,
        state: Tensor,
        hidden: Tensor,
        cell: Tensor,
    ) -> tuple[Tensor, Tensor]:
        """One round of messages to the variables and their update: the next hidden state and cell, each (V, H).

        `told` is what the values send: they do not change. `stack` is what messages of variables begin with, `weight` what the update's gates make of what is heard.
        """
        graph = prepared.graph
        sent, own = self.messages.project(state, stack, self._constraint, self._uses)
        heard = [
            self.messages.of(use)((sent if use in sent else told)[use], own[use], neighbors, self.config.dropout)
            for use, neighbors in zip(self._uses, (*graph.constraint, graph.assigned, graph.unassigned), strict=True)
        ]
        return self.update(torch.cat(heard, dim=1), remembered, hidden, cell, weight)

    def listen(self, prepared: Prepared, told: Tensor, node: int) -> list[Heard]:
        """Whom a variable hears in the round of messages in which variables tell (V, H): over its edges of each type and of the values, its own or all, the weights
        of the average."""
        graph, own = prepared.graph, told[[node]]
        constraint, _, values = name_kinds(self.schema)
        heard: list[Heard] = []
        for kind, use, neighbors in zip(constraint, self._constraint, graph.constraint, strict=True):
            sources, row = select_row(neighbors, node)
            weights = self.messages.of(use).weigh_senders(told[sources], own, row, use.attend)
            heard.append(Heard(kind, "variables", sources, weights[0]))
        given = bool(prepared.batch.givens[node] > 0)
        use, neighbors = (self._assigned, graph.assigned) if given else (self._unassigned, graph.unassigned)
        sources, row = select_row(neighbors, node)
        weights = self.messages.of(use).weigh_senders(prepared.values[sources], own, row, use.attend)
        return [*heard, Heard(values, "values", sources, weights[0])]

    def loss(self, scores: Tensor, prepared: Prepared, target: Tensor) -> Tensor:
        """Cross-entropy at every step, averaged over the variables of a puzzle: scores (T, V, K), target (V,) -> (T, B)."""
        wanted = (target - 1).expand(len(scores), -1)
        losses = functional.cross_entropy(
            scores.to(torch.promote_types(scores.dtype, torch.float32)).flatten(0, 1),
            wanted.flatten(),
            reduction="none",
        )
        return mean_by_puzzle(losses.view(len(scores), -1), prepared.batch)

    def certainty(self, scores: Tensor) -> Tensor:
        """Of scores (V, K), the log of the probability of each variable's best value, (V,)."""
        return scores.float().log_softmax(1).max(1).values

    def penalty(self, prepared: Prepared) -> Tensor:
        """Orthogonality loss, weighted: the total |cosine| of any two embeddings of a puzzle, before and after the RMPG: (B,)."""
        batch = prepared.batch
        pairs = torch.triu(batch.exists.unsqueeze(1) & batch.exists.unsqueeze(2), diagonal=1)
        total = torch.zeros(len(batch), device=batch.puzzle.device)
        for embeddings in (prepared.drawn, prepared.values):
            unit = functional.normalize(
                embeddings.to(torch.promote_types(embeddings.dtype, torch.float32)), dim=1
            ).view(len(batch), batch.max_values, -1)
            total = total + ((unit @ unit.transpose(1, 2)).abs() * pairs).sum((1, 2))
        return self.config.orthogonality * total

    def guessing(self, values: int) -> float:
        """The loss of a step for drawing every variable's value by lot."""
        return math.log(values)
