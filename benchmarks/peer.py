"""The three models as one writes them with PyTorch Geometric: what their speed is measured against.

The same functions with the same weights (`tests/test_peer.py`), in the usual way: a graph is a list of edges for each type, a message is the whole
MLP of both ends' states, computed per edge, and messages are gathered and scattered by the library. There is no table of neighbors, no product moved
from edges to nodes, and no kernel of one's own. What the library's own layers do, these do as well: attention logits are summed from a
number for each node, as in `GATConv`, and edges are sorted by their receiver.

    peer = PygBinarized.of(model)
    graph = peer.prepare(batch)
    loss = peer.loss(peer(graph, steps), graph, batch.solutions)
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import deepcopy
from dataclasses import dataclass
from typing import Self

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import MessagePassing
from torch_geometric.utils import degree, scatter, softmax

from outgrow.graphs import Batch, binarize, multivalue
from outgrow.kernels import Neighbors
from outgrow.models import Binarized, Grouped, Multivalued
from outgrow.models.layers import LayerNormLSTM, MessageFunction, MessageFunctions, Use

__all__ = ["PEERS", "Edges", "NodeGraph", "PygBinarized", "PygGrouped", "PygMultivalued", "ValueGraph"]

_KINDS = 3  # of inputs: unassigned, ruled out, assigned


# ---- Graphs: COO, made once a batch


@dataclass(frozen=True, eq=False)
class Edges:
    """Edges of one type between S senders and N receivers.

    Attributes:
        index: (2, E), the sender and the receiver of each.
        size: S and N.
        log_degree: (E,), the log of the number of edges into the receiver.
    """

    index: Tensor
    size: tuple[int, int]
    log_degree: Tensor

    @classmethod
    def of(cls, neighbors: Neighbors) -> Edges:
        """The entries of a table, padding dropped."""
        mask = torch.ones_like(neighbors.source, dtype=torch.bool) if neighbors.mask is None else neighbors.mask
        receiver = mask.nonzero()[:, 0]
        count = degree(receiver, len(mask), torch.get_default_dtype())
        index = torch.stack([neighbors.source[mask], receiver])
        return cls(index, (neighbors.num_sources, len(mask)), count.log()[receiver])


@dataclass(frozen=True, eq=False)
class NodeGraph:
    """N nodes (variable, value), ordered by puzzle, variable and value.

    Attributes:
        batch: the puzzles.
        known: (N,) which of the inputs a node has.
        places: (N,) where each node is among all V * K variables and values; None if they are simply counted up.
        edges: between nodes, one for each type.
        groups: for each type, the edges from nodes to their groups, and those from groups to their nodes.
        marks: (N, C) numbers by which nodes can be told apart, if the model has some.
        crowd: (N, 1) what is added to the logits of nodes in their groups, if anything.
    """

    batch: Batch
    known: Tensor
    places: Tensor | None
    edges: tuple[Edges, ...]
    groups: tuple[tuple[Edges, Edges], ...] = ()
    marks: Tensor | None = None
    crowd: Tensor | None = None


@dataclass(frozen=True, eq=False)
class ValueGraph:
    """V variables and, for each of B puzzles, K values.

    Attributes:
        batch: the puzzles.
        draw: (B * K,) the embedding of each value.
        given: (V,) the value of an assigned variable, any where there is none.
        every: (V, K) all values of a variable's puzzle.
        constraint: between variables, one for each type.
        assigned: from the value of each assigned variable to it.
        unassigned: from every value to each unassigned variable.
        relation: between values, one for each type.
    """

    batch: Batch
    draw: Tensor
    given: Tensor
    every: Tensor
    constraint: tuple[Edges, ...]
    assigned: Edges
    unassigned: Edges
    relation: tuple[Edges, ...]


def find_places(batch: Batch) -> Tensor | None:
    """Where each node is in a table (V, K) of scores; looked up now, since it makes a GPU wait."""
    return None if batch.same_size else batch.allowed.flatten().nonzero().squeeze(1)


# ---- Layers


class MeanConv(MessagePassing):
    """The mean over the edges into a node of an MLP of both ends."""

    def __init__(self, mlp: nn.Module, dropout: float) -> None:
        super().__init__(aggr="mean", node_dim=0)
        self.mlp = mlp
        self.dropout = dropout

    def forward(self, x: tuple[Tensor, Tensor], edges: Edges) -> Tensor:
        return self.propagate(edges.index, x=x, size=edges.size)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return functional.dropout(self.mlp(torch.cat([x_j, x_i], dim=1)), self.dropout, self.training)


class MaxConv(MessagePassing):
    """The largest message in each channel. Dropout is for what is heard: dropped before, the next largest would take its place."""

    def __init__(self, mlp: nn.Module, dropout: float) -> None:
        super().__init__(aggr="max", node_dim=0)
        self.mlp = mlp
        self.dropout = dropout

    def forward(self, x: tuple[Tensor, Tensor], edges: Edges) -> Tensor:
        heard = self.propagate(edges.index, x=x, size=edges.size)
        return functional.dropout(heard, self.dropout, self.training)

    def message(self, x_i: Tensor, x_j: Tensor) -> Tensor:
        return self.mlp(torch.cat([x_j, x_i], dim=1))


class Attention(nn.Module):
    """a . [W h_sender; W h_receiver] in two halves, a number for each node, as in `GATConv`."""

    def __init__(self, function: MessageFunction) -> None:
        super().__init__()
        assert function.project is not None
        assert function.attend is not None
        self.project = deepcopy(function.project)
        self.sender, self.receiver = map(make_linear, function.attend.weight.chunk(2, dim=1))

    def forward(self, x: tuple[Tensor, Tensor]) -> tuple[Tensor, Tensor]:
        sender = self.project(x[0])
        receiver = sender if x[1] is x[0] else self.project(x[1])
        return self.sender(sender).squeeze(1), self.receiver(receiver).squeeze(1)


class AttentionConv(MessagePassing):
    """The average by attention; `sharpen` multiplies its logits by the log of the number of edges into the node."""

    def __init__(self, mlp: nn.Module, attention: nn.Module, dropout: float, sharpen: bool) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.mlp = mlp
        self.attention = attention
        self.dropout = dropout
        self.sharpen = sharpen

    def forward(self, x: tuple[Tensor, Tensor], edges: Edges) -> Tensor:
        logit = self.attention(x)
        return self.propagate(edges.index, x=x, logit=logit, log_degree=edges.log_degree, size=edges.size)

    def message(
        self,
        x_i: Tensor,
        x_j: Tensor,
        logit_i: Tensor,
        logit_j: Tensor,
        log_degree: Tensor,
        index: Tensor,
        size_i: int,
    ) -> Tensor:
        logit = functional.leaky_relu(logit_j + logit_i)
        if self.sharpen:
            logit = logit * log_degree
        weight = softmax(logit, index, num_nodes=size_i)
        message = functional.dropout(self.mlp(torch.cat([x_j, x_i], dim=1)), self.dropout, self.training)
        return weight.unsqueeze(1) * message


class PoolConv(MessagePassing):
    """From nodes to groups: every head's average of the members' states, its logits multiplied by the log of the group's size."""

    def __init__(self, look: nn.Linear) -> None:
        super().__init__(aggr="add", node_dim=0)
        self.look = look

    def forward(self, x: Tensor, members: Edges, crowd: Tensor | None) -> Tensor:
        logit = self.look(x)
        if crowd is not None:
            logit = logit + crowd
        pooled = self.propagate(members.index, x=x, logit=logit, log_size=members.log_degree, size=members.size)
        return pooled.flatten(1)

    def message(self, x_j: Tensor, logit_j: Tensor, log_size: Tensor, index: Tensor, size_i: int) -> Tensor:
        weight = softmax(logit_j * log_size.unsqueeze(1), index, num_nodes=size_i)
        return weight.unsqueeze(2) * x_j.unsqueeze(1)


class LSTM(nn.Module):
    """The update: an LSTM cell with layer norms on the gates' input part, their recurrent part, and the cell before the output."""

    def __init__(self, update: LayerNormLSTM) -> None:
        super().__init__()
        self.hear, self.recall = deepcopy(update.hear), deepcopy(update.recall)
        self.hear_norm, self.recall_norm = deepcopy(update.hear_norm), deepcopy(update.recall_norm)
        self.cell_norm = deepcopy(update.cell_norm)

    def forward(self, heard: Sequence[Tensor], inputs: Tensor, hidden: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        entering = self.hear(torch.cat([*heard, inputs], dim=1))
        gates = self.hear_norm(entering) + self.recall_norm(self.recall(hidden))
        enter, forget, emit, new = gates.chunk(4, dim=1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(enter) * torch.tanh(new)
        return torch.sigmoid(emit) * torch.tanh(self.cell_norm(cell)), cell


def make_linear(weight: Tensor, bias: Tensor | None = None) -> nn.Linear:
    """A layer of its own with these weights."""
    layer = nn.Linear(weight.shape[1], weight.shape[0], bias is not None)
    layer.weight = nn.Parameter(weight.detach().clone(memory_format=torch.contiguous_format))
    if bias is not None:
        layer.bias = nn.Parameter(bias.detach().clone())
    return layer


def make_mlp(function: MessageFunction) -> nn.Sequential:
    """The whole MLP of [h_sender; h_receiver]; one of a single layer ends with its ReLU."""
    layers: list[nn.Module] = [deepcopy(function.first)]
    for layer in function.rest:
        layers += [nn.ReLU(), deepcopy(layer)]
    if not function.rest:
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


def make_convs(
    functions: MessageFunctions, uses: Sequence[Use], dropout: float, *, sharpen: bool = False, largest: bool = False
) -> nn.ModuleList:
    """One for each edge type, by attention or plain (the mean, or the largest); types that share a function share its parameters."""
    mlps = {use.function: make_mlp(functions.of(use)) for use in uses}
    attentions = {use.function: Attention(functions.of(use)) for use in uses if use.attend}
    plain = MaxConv if largest else MeanConv
    return nn.ModuleList(
        AttentionConv(mlps[use.function], attentions[use.function], dropout, sharpen)
        if use.attend
        else plain(mlps[use.function], dropout)
        for use in uses
    )


# ---- Models


class NodePeer(nn.Module, ABC):
    """What models over nodes (variable, value) have in common."""

    def __init__(self, model: Binarized | Grouped, convs: nn.ModuleList) -> None:
        super().__init__()
        kinds, directions = model.inputs.weight.detach().tensor_split([_KINDS])
        self.inputs = nn.Embedding.from_pretrained(kinds.clone(), freeze=False)
        self.marks = make_linear(directions.T) if model.marked else None
        self.convs = convs
        self.update = LSTM(model.update)
        self.score = deepcopy(model.score)
        self.train(model.training)

    @abstractmethod
    def prepare(self, batch: Batch, draw: Tensor | None = None) -> NodeGraph:
        """The graph of a batch."""

    def hear(self, graph: NodeGraph, state: Tensor) -> list[Tensor]:
        """One round of messages: what nodes hear of each type."""
        return [conv((state, state), edges) for conv, edges in zip(self.convs, graph.edges, strict=True)]

    def forward(self, graph: NodeGraph, steps: int) -> Tensor:
        """The scores after every step: (T, V, K)."""
        inputs = self.inputs(graph.known)
        if self.marks is not None:
            assert graph.marks is not None
            inputs = inputs + self.marks(graph.marks.to(inputs.dtype))
        state = inputs
        hidden = cell = torch.zeros_like(inputs)
        scores: list[Tensor] = []
        for _ in range(steps):
            hidden, cell = self.update(self.hear(graph, state), inputs, hidden, cell)
            state = hidden
            scores.append(self.score(hidden).squeeze(1))
        found, shape = torch.stack(scores), graph.batch.allowed.shape
        if graph.places is not None:
            found = found.new_full((steps, shape.numel()), float("-inf")).index_copy(1, graph.places, found)
        return found.view(steps, *shape)

    def loss(self, scores: Tensor, graph: NodeGraph, target: Tensor) -> Tensor:
        """What training minimizes: binary cross-entropy, averaged over the nodes of a puzzle, summed over steps, averaged over puzzles."""
        batch = graph.batch
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32)).masked_fill(~batch.allowed, 0.0)
        counted = torch.arange(1, batch.max_values + 1, device=target.device)
        wanted = (target.unsqueeze(1) == counted).to(scores.dtype).expand_as(scores)
        losses = functional.binary_cross_entropy_with_logits(scores, wanted, reduction="none") * batch.allowed
        return sum_steps(losses.sum(2) / batch.num_values[batch.puzzle], batch)


class PygBinarized(NodePeer):
    """The binarized model."""

    def __init__(self, model: Binarized) -> None:
        uses = model._uses
        config = model.config
        super().__init__(model, make_convs(model.messages, uses, config.dropout, sharpen=config.sharpen))

    @classmethod
    def of(cls, model: Binarized) -> Self:
        """With a copy of its weights, in its mode."""
        return cls(model)

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> NodeGraph:
        graph = binarize(batch)
        edges = tuple(map(Edges.of, (*graph.constraint, *graph.relation)))
        return NodeGraph(batch, graph.known, find_places(batch), edges)


class PygGrouped(NodePeer):
    """The grouped model: between nodes and groups there are two bipartite convolutions for each type of groups."""

    def __init__(self, model: Grouped) -> None:
        config = model.config
        largest = config.edges == "max"
        super().__init__(model, make_convs(model.messages, model._edges, config.dropout, sharpen=True, largest=largest))
        types, width = len(model.pooled), config.width
        own, looks = model.members.weight.split([types * width, types * config.heads])
        self.pools = nn.ModuleList(PoolConv(make_linear(look)) for look in looks.chunk(types))
        self.answers = nn.ModuleList()
        for layer, mine in zip(model.pooled.values(), own.chunk(types), strict=True):
            assert isinstance(layer, nn.Linear)
            mlp = nn.Sequential(make_linear(torch.cat([layer.weight, mine], dim=1), layer.bias), nn.ReLU())
            self.answers.append(MeanConv(mlp, config.dropout))
        self._prepare = model.prepare  # marks and crowds are its own; as a method it brings no parameters along
        self.train(model.training)

    @classmethod
    def of(cls, model: Grouped) -> Self:
        """With a copy of its weights, in its mode."""
        return cls(model)

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> NodeGraph:
        """The marks, and in training the crowd, are those that the model itself gets for `draw`."""
        graph = self._prepare(batch, draw)
        return NodeGraph(
            batch,
            graph.known,
            find_places(batch),
            tuple(map(Edges.of, (*graph.constraint, *graph.relation))),
            tuple((Edges.of(members), Edges.of(memberships)) for members, memberships in graph.roster.types),
            graph.marks,
            graph.crowd,
        )

    def hear(self, graph: NodeGraph, state: Tensor) -> list[Tensor]:
        """One round of messages: what nodes hear of their groups of each type, and over the edges of each type."""
        answers = [
            answer((pool(state, members, graph.crowd), state), memberships)
            for pool, answer, (members, memberships) in zip(self.pools, self.answers, graph.groups, strict=True)
        ]
        return [*answers, *super().hear(graph, state)]


class PygMultivalued(nn.Module):
    """The multi-valued model."""

    def __init__(self, model: Multivalued) -> None:
        super().__init__()
        self.relation_steps, self.orthogonality = model.config.relation_steps, model.config.orthogonality
        uses = [*model._constraint, model._assigned, model._unassigned, *model._relation]
        convs = make_convs(model.messages, uses, model.config.dropout)
        self.constraint = convs[: len(model._constraint)]
        self.assigned, self.unassigned = convs[len(model._constraint) : len(model._constraint) + 2]
        self.relation = convs[len(model._constraint) + 2 :]
        for conv in self.relation:
            assert isinstance(conv, MeanConv | AttentionConv)
            conv.dropout = 0.0  # it is for messages to variables
        self.embeddings = deepcopy(model.embeddings)
        self.relation_update, self.update = LSTM(model.relation_update), LSTM(model.update)
        self.score = deepcopy(model.score)
        self.train(model.training)

    @classmethod
    def of(cls, model: Multivalued) -> Self:
        """With a copy of its weights, in its mode."""
        return cls(model)

    def prepare(self, batch: Batch, draw: Tensor | None = None) -> ValueGraph:
        """The graph of a batch; `draw` (B, K) names the embeddings of each puzzle's values, by default the first K."""
        graph = multivalue(batch)
        if draw is None:
            draw = torch.arange(batch.max_values, device=batch.puzzle.device).repeat(len(batch), 1)
        return ValueGraph(
            batch,
            torch.where(batch.exists, draw, draw[:, :1]).flatten(),
            graph.assigned.source.squeeze(1),
            graph.unassigned.source,
            tuple(map(Edges.of, graph.constraint)),
            Edges.of(graph.assigned),
            Edges.of(graph.unassigned),
            tuple(map(Edges.of, graph.relation)),
        )

    def embed(self, graph: ValueGraph) -> Tensor:
        """Message passing between values: their embeddings, (B * K, H)."""
        state = inputs = self.embeddings(graph.draw)
        hidden = cell = torch.zeros_like(inputs)
        for _ in range(self.relation_steps):
            heard = [conv((state, state), edges) for conv, edges in zip(self.relation, graph.relation, strict=True)]
            hidden, cell = self.relation_update(heard, inputs, hidden, cell)
            state = hidden
        return hidden

    def forward(self, graph: ValueGraph, steps: int) -> Tensor:
        """The scores after every step: (T, V, K)."""
        batch = graph.batch
        values = self.embed(graph)
        held = values.view(len(batch), batch.max_values, -1) * batch.exists.unsqueeze(2)
        average = held.sum(1) / batch.num_values.unsqueeze(1)
        known = (batch.givens > 0).unsqueeze(1)
        state = inputs = torch.where(known, values.index_select(0, graph.given), average[batch.puzzle])
        targets = self.score(values).index_select(0, graph.every.flatten()).view(*graph.every.shape, -1)
        hidden = cell = torch.zeros_like(inputs)
        scores: list[Tensor] = []
        for _ in range(steps):
            heard = [conv((state, state), edges) for conv, edges in zip(self.constraint, graph.constraint, strict=True)]
            heard.append(self.assigned((values, state), graph.assigned))
            heard.append(self.unassigned((values, state), graph.unassigned))
            hidden, cell = self.update(heard, inputs, hidden, cell)
            state = hidden
            scores.append(torch.einsum("vkh,vh->vk", targets, hidden))
        found = torch.stack(scores)
        return found if batch.same_size else found.masked_fill(~batch.allowed, float("-inf"))

    def loss(self, scores: Tensor, graph: ValueGraph, target: Tensor) -> Tensor:
        """What training minimizes: cross-entropy, averaged over the variables of a puzzle, and summed over steps, and the penalty that keeps
        embeddings apart; averaged over puzzles."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        wanted = (target - 1).expand(len(scores), -1)
        losses = functional.cross_entropy(scores.flatten(0, 1), wanted.flatten(), reduction="none")
        return sum_steps(losses.view_as(wanted), graph.batch) + self.penalty(graph)

    def penalty(self, graph: ValueGraph) -> Tensor:
        """The total |cosine| of any two embeddings of a puzzle, before and after messages, weighted and averaged over puzzles."""
        batch = graph.batch
        pairs = torch.triu(batch.exists.unsqueeze(1) & batch.exists.unsqueeze(2), diagonal=1)
        total = pairs.new_zeros((), dtype=torch.get_default_dtype())
        for embeddings in (self.embeddings(graph.draw), self.embed(graph)):
            unit = functional.normalize(embeddings, dim=1).view(len(batch), batch.max_values, -1)
            total = total + ((unit @ unit.transpose(1, 2)).abs() * pairs).sum()
        return self.orthogonality * total / len(batch)


def sum_steps(losses: Tensor, batch: Batch) -> Tensor:
    """(T, V), averaged over the variables of a puzzle, summed over steps, averaged over puzzles: one number."""
    return scatter(losses, batch.puzzle, dim=1, dim_size=len(batch), reduce="mean").sum(0).mean()


PEERS = {"binarized": PygBinarized, "multivalued": PygMultivalued, "grouped": PygGrouped}
