"""The binarized model (section 4.1 of the paper): every (variable, value) is a node that learns whether it holds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from outgrow.graphs import Batch, BinarizedGraph, Schema, binarize
from outgrow.models.layers import (
    Aggregation,
    Heard,
    MessageFunctions,
    Stack,
    check_config,
    name_kinds,
    select_row,
    share_functions,
)
from outgrow.models.nodes import NodeModel

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
        sharpen: multiply attention logits by the log of the degree (not in the paper): see `MessageFunction`.
    """

    width: int = 96
    steps: int = 32
    layers: int = 3
    dropout: float = 0.1
    constraint: Aggregation = "attention"
    order: Aggregation = "attention"
    relation: Aggregation = "mean"
    share_order: bool = True
    sharpen: bool = False

    def __post_init__(self) -> None:
        check_config(self)


class Binarized(NodeModel[BinarizedGraph]):
    """Scores of every variable's values, step after step."""

    kind: Literal["binarized"] = "binarized"
    messages: MessageFunctions

    def __init__(self, schema: Schema, config: BinarizedConfig) -> None:
        constraint, relation = share_functions(
            schema,
            lambda directed: config.order if directed else config.constraint,
            config.relation,
            lambda directed: directed and config.share_order,
        )
        uses = [*constraint, *relation]
        messages = MessageFunctions(uses, config.width, config.layers, config.sharpen)
        super().__init__(len(uses), config.width, config.steps, messages)
        self.schema, self.config, self._uses = schema, config, uses

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> BinarizedGraph:
        """The graph this model passes messages on; there are no value embeddings to draw."""
        graph = binarize(batch)
        for neighbors in (*graph.constraint, *graph.relation):
            neighbors.prepare()
        return graph

    def stack(self) -> Stack:
        """The first layers of all messages."""
        return self.messages.stack(self._uses, self._uses)

    def hear(self, graph: BinarizedGraph, stack: Stack | None, told: Tensor, which: Tensor) -> Tensor:
        """The average message over the edges of each type into a node, and `which`."""
        assert stack is not None
        sent, own = self.messages.project(told, stack, self._uses, self._uses)
        heard = [
            self.messages.of(use)(sent[use], own[use], neighbors, self.config.dropout)
            for use, neighbors in zip(self._uses, (*graph.constraint, *graph.relation), strict=True)
        ]
        return torch.cat([*heard, which.to(heard[0].dtype)], dim=1)

    def listen(self, graph: BinarizedGraph, told: Tensor, node: int) -> list[Heard]:
        """Over the edges of each type into a node, the weights of the average."""
        constraint, relation, _ = name_kinds(self.schema)
        heard: list[Heard] = []
        edges = (*graph.constraint, *graph.relation)
        for kind, use, neighbors in zip((*constraint, *relation), self._uses, edges, strict=True):
            sources, row = select_row(neighbors, node)
            weights = self.messages.of(use).weigh_senders(told[sources], told[[node]], row, use.attend)
            heard.append(Heard(kind, "nodes", sources, weights[0]))
        return heard
