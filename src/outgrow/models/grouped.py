"""The grouped model: nodes (variable, value) hear each other through the groups they belong to.

'Exactly one of these' is a statement about a group, and a group of 25 says it as one of 9 does. So every group, such as the nodes of
a row for one value, pools its members' states, and each member hears an MLP of the pooled states and its own. The K values of a variable are a
group as well. Facts about pairs keep messages over edges. The work is linear in memberships and edges, where the binarized model has an edge
for any two members.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

from outgrow.graphs import Batch, GroupedGraph, NodeGroups, Schema, group_nodes
from outgrow.kernels import Pooling, pool_members
from outgrow.models.layers import MessageFunctions, Use, check_config
from outgrow.models.nodes import NodeModel

__all__ = ["Grouped", "GroupedConfig"]

_VALUES = "values"


@dataclass(frozen=True)
class GroupedConfig:
    """A grouped model's size and parts.

    Attributes:
        width: H, of states and messages.
        steps: T, of message passing in solving.
        heads: of the attention by which a group pools its members.
        layers: hidden layers of the MLPs that answer members, and of the messages over edges.
        pooling: how a group sees its members: by 'attention', or their 'max', 'mean' or 'logsumexp'.
        dropout: share of message elements dropped in training.
    """

    width: int = 96
    steps: int = 64
    heads: int = 4
    layers: int = 1
    pooling: Pooling = "attention"
    dropout: float = 0.0

    def __post_init__(self) -> None:
        check_config(self)
        if self.width % self.heads:
            raise ValueError(f"width is {self.width}, which {self.heads} heads cannot share evenly")


class Pool(nn.Module):
    """What a group makes of its members' states."""

    def __init__(self, width: int, heads: int, pooling: Pooling) -> None:
        super().__init__()
        self._pooling: Pooling = pooling
        self.value = nn.Linear(width, width, bias=False)
        self.logit = nn.Linear(width, heads, bias=False)

    def forward(self, states: Tensor, members: NodeGroups) -> Tensor:
        """States of nodes (N, H) -> of groups (G, H)."""
        return pool_members(self.value(states), self.logit(states), members.members, self._pooling)


class Grouped(NodeModel[GroupedGraph]):
    """Scores of every variable's values, step after step."""

    kind: Literal["grouped"] = "grouped"
    messages: MessageFunctions

    def __init__(self, schema: Schema, config: GroupedConfig) -> None:
        groups = [Use(f"group {name}", attend=False) for name in (*schema.groups, _VALUES)]
        # Edges that groups stand for are left out: those of predicates stated in groups, and of values that just differ.
        constraint = [i for i, t in enumerate(schema.constraint) if t.name not in schema.groups]
        relation = [i for i, t in enumerate(schema.relation) if t.relation not in schema.complete]
        edges = [
            *(Use(f"constraint {schema.constraint[i]} to {schema.constraint[i].relation}", True) for i in constraint),
            *(Use(f"relation {schema.relation[i]}", True) for i in relation),
        ]
        uses = [*groups, *edges]
        messages = MessageFunctions(uses, config.width, config.layers, sharpen=True)
        super().__init__(messages, len(uses), config.width, config.steps)
        self.schema, self.config = schema, config
        self._groups, self._edges, self._constraint, self._relation = groups, edges, constraint, relation
        self.pools = nn.ModuleDict({use.function: Pool(config.width, config.heads, config.pooling) for use in groups})

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> GroupedGraph:
        """The graph this model passes messages on; there are no value embeddings to draw."""
        graph = group_nodes(batch, self._constraint, self._relation)
        if torch.is_grad_enabled():
            for part in (*graph.constraint, *graph.relation, *graph.groups, graph.values):
                part.prepare()
        return graph

    def hear(self, graph: GroupedGraph, told: Tensor) -> Tensor:
        """The answer of a node's groups of each type, and the average message over the edges of each type."""
        heard: list[Tensor] = []
        dropout = self.config.dropout
        for use, groups in zip(self._groups, (*graph.groups, graph.values), strict=True):
            if not groups.count:
                heard.append(torch.zeros_like(told))
                continue
            function = self.messages.of(use)
            pooled = self.pools[use.function](told, groups)
            heard.append(function(function.send(pooled, attend=False), told, groups.memberships, dropout))
        for use, neighbors in zip(self._edges, (*graph.constraint, *graph.relation), strict=True):
            function = self.messages.of(use)
            heard.append(function(function.send(told, use.attend), told, neighbors, dropout))
        return torch.cat(heard, dim=1)
