"""The grouped model: nodes (variable, value) hear each other through the groups they belong to.

'Exactly one of these' is a statement about a group, and a group of 25 says it as one of 9 does. So every group, such as the nodes of
a row for one value, pools its members' states, and each member hears an MLP of the pooled states and its own. The K values of a variable are a
group as well. Facts about pairs keep messages over edges. The work is linear in memberships and edges, where the binarized model has an edge
for any two members.

With h the states, p_g the heads' averages over the members of group g side by side, and for each type of groups weights P, Q, b of its own, node i
hears of it

    m_i = mean over its groups g of relu(P p_g + b + Q h_i)

The last, linear layer of that MLP is the first one of the update, which begins with a product of its own.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor, nn

from outgrow.graphs import Batch, GroupedGraph, Schema, group_nodes
from outgrow.kernels import exchange, project, weigh_members
from outgrow.models.layers import Heard, MessageFunctions, Stack, Use, check_config, name_kinds, select_row
from outgrow.models.nodes import NodeModel, draw_uniform

__all__ = ["Grouped", "GroupedConfig"]

_VALUES = "values"
_MOST_CROWDED = 4


@dataclass(frozen=True)
class GroupedConfig:
    """A grouped model's size and parts.

    Attributes:
        width: H, of states and messages.
        steps: T, of message passing in solving.
        heads: A, of the attention by which a group pools its members.
        dropout: share of message elements dropped in training.
        marks: C, random numbers by which nodes can be told apart; other ones for every puzzle of every update in training. Without any,
            nodes that hear the same are the same.
        crowd: in training, members of a group count for more or less than one: the standard deviation of the logarithm. So an average
            over a group does not say how many there are. For models with marks.
        edges: how a node hears the messages over its edges of a type: averaged by attention, or the largest, channel by channel. That one
            says 'there is one' of many edges as it does of few.
    """

    width: int = 96
    steps: int = 64
    heads: int = 4
    dropout: float = 0.0
    marks: int = 0
    crowd: float = 0.0
    edges: Literal["attention", "max"] = "attention"

    def __post_init__(self) -> None:
        check_config(self)
        if not 0 <= self.crowd <= _MOST_CROWDED:
            raise ValueError(f"crowd is {self.crowd}; it goes from 0 to {_MOST_CROWDED}")
        if self.crowd and not self.marks:
            raise ValueError("crowd is drawn with the marks; have some")


class Grouped(NodeModel[GroupedGraph]):
    """Scores of every variable's values, step after step."""

    kind: Literal["grouped"] = "grouped"

    def __init__(self, schema: Schema, config: GroupedConfig) -> None:
        own = _VALUES if _VALUES not in schema.groups else f"{_VALUES} of a variable"  # a predicate may be called that
        groups = [f"group {name}" for name in (*schema.groups, own)]
        # Edges that groups stand for are left out: those of predicates stated in groups, and of values that just differ.
        constraint = [i for i, t in enumerate(schema.constraint) if t.name not in schema.groups]
        relation = [i for i, t in enumerate(schema.relation) if t.relation not in schema.complete]
        attend = config.edges == "attention"
        edges = [
            *(Use(f"constraint {schema.constraint[i]} to {schema.constraint[i].relation}", attend) for i in constraint),
            *(Use(f"relation {schema.relation[i]}", attend) for i in relation),
        ]
        width = config.width
        super().__init__(len(groups) + len(edges), width, config.steps, marks=config.marks)
        self.schema, self.config = schema, config
        self._groups, self._edges, self._constraint, self._relation = groups, edges, constraint, relation
        # Q and the heads' logits of all types of groups: one product.
        self.members = nn.Linear(width, len(groups) * (width + config.heads), bias=False)
        self.pooled = nn.ModuleDict({name: nn.Linear(config.heads * width, width) for name in groups})  # P, b
        self.messages = MessageFunctions(edges, width, layers=0, sharpen=True)

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> GroupedGraph:
        """The graph this model passes messages on; `draw` is of marks, if it has any."""
        graph = group_nodes(batch, self.schema.groups, self._constraint, self._relation)
        if self.marked:
            graph = replace(graph, marks=self.mark(batch, draw))
            if self.training and self.config.crowd and draw is not None and not draw.is_floating_point():
                graph = replace(graph, crowd=self._crowd(batch, draw))
        for part in (*graph.constraint, *graph.relation, graph.roster):
            part.prepare()
        return graph

    def stack(self) -> Stack | None:
        """The first layers of messages over edges, if there are any."""
        return self.messages.stack(self._edges, self._edges) if self._edges else None

    def hear(self, graph: GroupedGraph, stack: Stack | None, told: Tensor, which: Tensor) -> Tensor:
        """The answer of a node's groups of each type, the average message over the edges of each type, and `which`."""
        dropout = self.config.dropout if self.training else 0.0
        rest: list[Tensor] = []
        if stack is not None:
            sent, own = self.messages.project(told, stack, self._edges, self._edges)
            for use, neighbors in zip(self._edges, (*graph.constraint, *graph.relation), strict=True):
                function = self.messages.of(use)
                hear = function if use.attend else function.strongest
                rest.append(hear(sent[use], own[use], neighbors, dropout))
        layers = [(layer.weight, layer.bias) for layer in self.pooled.values() if isinstance(layer, nn.Linear)]
        behind = torch.cat([*rest, which.to(rest[0].dtype)], dim=1) if rest else which
        projected = project(told, self.members.weight)
        if graph.crowd is not None:
            heads = self.config.heads * len(layers)
            projected = torch.cat([projected[:, :-heads], projected[:, -heads:] + graph.crowd], dim=1)
        return exchange(told, projected, layers, graph.roster, behind, dropout)

    def listen(self, graph: GroupedGraph, told: Tensor, node: int) -> list[Heard]:
        """In its groups of each type, how much the members, itself among them, count in what a group pools, averaged over heads and groups; over its edges of each type,
        the weights of the average, or in how many of the channels a message is the largest."""
        constraint, relation, values = name_kinds(self.schema)
        looks = self.members.weight[len(self._groups) * self.config.width :].split(self.config.heads)
        heard: list[Heard] = []
        for kind, look, (members, memberships) in zip(
            (*self.schema.groups, values), looks, graph.roster.types, strict=True
        ):
            groups, _ = select_row(memberships, node)  # one on a board; of a problem of one's own several, or none
            found: list[tuple[Tensor, Tensor]] = []
            for group in groups.tolist():
                sources, row = select_row(members, group)
                logits = told[sources] @ look.T
                if graph.crowd is not None:
                    logits = logits + graph.crowd[sources]
                found.append((sources, weigh_members(logits, row)[0].mean(1) / len(groups)))
            everyone = torch.cat([groups[:0], *(sources for sources, _ in found)])
            weights = torch.cat([told[0, :0], *(weights for _, weights in found)])
            sources, places = everyone.unique(return_inverse=True)
            heard.append(Heard(kind, "nodes", sources, weights.new_zeros(len(sources)).index_add(0, places, weights)))
        kinds = (*(constraint[i] for i in self._constraint), *(relation[i] for i in self._relation))
        edges = (*graph.constraint, *graph.relation)
        for kind, use, neighbors in zip(kinds, self._edges, edges, strict=True):
            sources, row = select_row(neighbors, node)
            function, sent, own = self.messages.of(use), told[sources], told[[node]]
            weights = (
                function.weigh_senders(sent, own, row, True) if use.attend else function.share_strongest(sent, own, row)
            )
            heard.append(Heard(kind, "nodes", sources, weights[0]))
        return heard

    def _crowd(self, batch: Batch, draw: Tensor) -> Tensor:
        """What is added to the logits of each node, (N, 1): it counts exp(`crowd` z) times in its groups, z normal."""
        # Logits are multiplied by the logarithm of the group's size, which is K in puzzles that fill their groups.
        size = batch.num_values.clamp(min=2).to(torch.get_default_dtype()).log()[batch.node_puzzle]
        normal = torch.special.ndtri(draw_uniform(batch, draw).clamp(1e-6, 1 - 1e-6))
        return (self.config.crowd * normal / size).unsqueeze(1)
