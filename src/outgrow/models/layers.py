"""The parts models are made of: message functions and the state update."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from outgrow.graphs import Batch, Schema
from outgrow.kernels import (
    Neighbors,
    advance,
    average_messages,
    project,
    share_strongest,
    strongest_messages,
    weigh_edges,
)

__all__ = [
    "Aggregation",
    "End",
    "Heard",
    "LayerNormLSTM",
    "MessageFunction",
    "MessageFunctions",
    "Stack",
    "States",
    "Use",
    "add_noise",
    "check_config",
    "mean_by_puzzle",
    "name_kinds",
    "select_row",
    "share_functions",
]

Aggregation = Literal["attention", "mean"]
_MULTIPLE = 16  # of columns: rows of as many halves lie where the widest loads can begin


class End(NamedTuple):
    """What a message function needs of the nodes at one end of its edges: the first layer's product (N, H) and attention logits (N,)."""

    rows: Tensor
    logits: Tensor | None


class Stack(NamedTuple):
    """The weights of several products of the same states: (F, H) and (F,)."""

    weight: Tensor
    bias: Tensor


class States(NamedTuple):
    """Where message passing stands: what the next messages tell (the inputs at first, then the hidden states), hidden states, cells."""

    told: Tensor
    hidden: Tensor
    cell: Tensor


@dataclass(frozen=True, eq=False)
class Heard:
    """Whom a node hears in a round of messages, over its edges of one type or in its groups of one type.

    Attributes:
        kind: the type, by a name of the problem's: of a predicate ('row', 'less reversed') or of a relation between values ('lt'); or 'values', those
            of its variable.
        of: what the sources are.
        sources: (M,) int64, nodes (variable, value), variables, or the values of all puzzles (B * K).
        weights: (M,) how much each counts; they sum to 1, unless there is nobody to hear.
    """

    kind: str
    of: Literal["nodes", "variables", "values"]
    sources: Tensor
    weights: Tensor


def select_row(neighbors: Neighbors, destination: int) -> tuple[Tensor, Neighbors]:
    """Who sends to one destination, (M,), and a table of that one row (1, M) among them alone."""
    row = neighbors.rows(destination, destination + 1)
    sources = row.source[0] if row.mask is None else row.source[row.mask]
    places = torch.arange(len(sources), device=sources.device)
    return sources, Neighbors(places.unsqueeze(0), None, len(sources))


def add_noise(states: States, scale: float | Tensor) -> States:
    """The same with normal noise on hidden states and cells; `scale` for all, or (N, 1) for each."""
    if isinstance(scale, float | int) and not scale:
        return states
    hidden, cell = (t + scale * torch.randn_like(t) for t in (states.hidden, states.cell))
    return States(states.told, hidden, cell)


class MessageFunction(nn.Module):
    """f_z: an MLP of the states at both ends of an edge, averaged over the edges into a node, plainly or by attention.

    2H -> H -> ... -> H with `layers` hidden layers and ReLU after each. The attention logit of an edge is
    leaky_relu(a . [W h_src; W h_dst]); `sharpen` multiplies it by the log of the number of edges into the node, so that attention is
    not diluted where there are more of them than in training.
    """

    def __init__(self, width: int, layers: int, attention: bool, sharpen: bool = False) -> None:
        super().__init__()
        self._sharpen = sharpen
        self.first = nn.Linear(2 * width, width)
        self.rest = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))
        self.project = nn.Linear(width, width, bias=False) if attention else None
        self.attend = nn.Linear(2 * width, 1, bias=False) if attention else None

    def weigh(self, end: int, attend: bool) -> list[Tensor]:
        """What makes of states an end's part (0: of the sender, 1: of the receiver): weights (H, H) and, with attention, (1, H) for the logit, a's half through W."""
        width = self.first.out_features
        rows = self.first.weight[:, end * width :][:, :width]
        if not attend:
            return [rows]
        assert self.project is not None
        assert self.attend is not None
        return [rows, self.attend.weight[:, end * width :][:, :width] @ self.project.weight]

    def forward(self, sent: End, own: End, neighbors: Neighbors, dropout: float = 0.0) -> Tensor:
        """The average message to each destination: (N, H)."""
        logits = None if sent.logits is None or own.logits is None else (sent.logits, own.logits)
        layers = [(layer.weight, layer.bias) for layer in self.rest if isinstance(layer, nn.Linear)]
        return average_messages(
            sent.rows,
            own.rows,
            neighbors,
            layers,
            logits=logits,
            sharpen=self._sharpen,
            dropout=dropout if self.training else 0.0,
        )

    def strongest(self, sent: End, own: End, neighbors: Neighbors, dropout: float = 0.0) -> Tensor:
        """In place of the average, the largest message in each channel; of a function without hidden layers."""
        return strongest_messages(sent.rows, own.rows, neighbors, dropout if self.training else 0.0)

    def weigh_senders(self, sent: Tensor, own: Tensor, neighbors: Neighbors, attend: bool) -> Tensor:
        """How much each message counts in the average, of those that states (M, H) send to states (N, H): (N, D)."""
        if not attend:
            return neighbors.share
        source, destination = (told @ self.weigh(end, True)[1].squeeze(0) for end, told in enumerate((sent, own)))
        return weigh_edges(source, destination, neighbors, self._sharpen)

    def share_strongest(self, sent: Tensor, own: Tensor, neighbors: Neighbors) -> Tensor:
        """In how many of the channels each message is the `strongest`, as a share: (N, D)."""
        source, destination = (told @ self.weigh(end, False)[0].T for end, told in enumerate((sent, own)))
        return share_strongest(source, destination + self.first.bias, neighbors)


class LayerNormLSTM(nn.Module):
    """g: an LSTM cell with layer norms on the gates' input part, their recurrent part, and the cell before the output (Ba et al. 2016).

    No biases but those of the norms. It hears the messages of every type and, last, the node's input.
    """

    def __init__(self, types: int, width: int) -> None:
        super().__init__()
        self.hear = nn.Linear((types + 1) * width, 4 * width, bias=False)
        self.recall = nn.Linear(width, 4 * width, bias=False)
        self.hear_norm = nn.LayerNorm(4 * width)
        self.recall_norm = nn.LayerNorm(4 * width)
        self.cell_norm = nn.LayerNorm(width)

    def remember(self, inputs: Tensor) -> Tensor:
        """The gates' share of the inputs (N, H), which stay the same at every step: (N, 4H)."""
        return functional.linear(inputs, self.hear.weight[:, -inputs.shape[1] :])

    def recognize(self, inputs: Tensor) -> Tensor:
        """The gates' weights for what is heard and for which of a few inputs (I, H) a node has: (4H, types * H + I)."""
        return torch.cat([self.hear.weight[:, : -inputs.shape[1]], self.remember(inputs).T], dim=1)

    def forward(
        self, heard: Tensor, remembered: Tensor | None, state: Tensor, cell: Tensor, weight: Tensor | None = None
    ) -> tuple[Tensor, Tensor]:
        """Messages (N, types * H), `remember`ed inputs, state and cell (N, H) -> the next state and cell.

        Or, with the `weight` that `recognize` gives, messages and behind them which input a node has (N, types * H + I): one product
        instead of a sum that every step would read and write anew.
        """
        if weight is None:
            weight = self.hear.weight[:, : heard.shape[1]]
        norms = [(norm.weight, norm.bias) for norm in (self.hear_norm, self.recall_norm, self.cell_norm)]
        return advance(heard, weight, state, self.recall.weight, cell, norms, self.cell_norm.eps, remembered)


# The largest values a configuration may have: more is a mistake.
_LIMITS = {"width": 4096, "steps": 100_000, "relation_steps": 1_000, "layers": 64, "max_values": 4096, "heads": 256}
_MOST_MARKS = 256


def check_config(config: Any) -> None:
    """Refuses values no model can be built with."""
    for name, most in _LIMITS.items():
        value = getattr(config, name, 1)
        if not 1 <= value <= most:
            raise ValueError(f"{name} is {value}; it goes from 1 to {most}")
    if not 0 <= getattr(config, "marks", 0) <= _MOST_MARKS:
        raise ValueError(f"marks is {config.marks}; it goes from 0 to {_MOST_MARKS}")
    if not 0 <= config.dropout < 1:
        raise ValueError(f"dropout is {config.dropout}; it is a share from 0 to below 1")


class Use(NamedTuple):
    """An edge type's message function, and whether its messages are averaged by attention."""

    function: str
    attend: bool


def name_kinds(schema: Schema) -> tuple[list[str], list[str], str]:
    """What to call each type of constraint edges, each type of relation edges, and what a node hears of the values of its variable: no two alike."""
    # A predicate that implies two relations has two types of edges of one name.
    names = [str(t) for t in schema.constraint]
    constraint = [
        name if names.count(name) == 1 else f"{name} to {t.relation}"
        for name, t in zip(names, schema.constraint, strict=True)
    ]
    relation = [f"{t} between values" if str(t) in names else str(t) for t in schema.relation]
    return constraint, relation, "values" if "values" not in {*names, *relation} else "values of a variable"


def share_functions(
    schema: Schema,
    constraint: Callable[[bool], Aggregation],
    relation: Aggregation,
    shared: Callable[[bool], bool],
) -> tuple[list[Use], list[Use]]:
    """Which function each type of constraint edge and of relation edge uses.

    `constraint` gives the aggregation of constraint edges, `shared` whether relation edges use the function of the constraint edges
    with their relation; both by whether the relation has a direction. Where several types of constraint edges have the relation there
    is none to share, and relation edges have a function of their own.
    """
    directed = {t.relation for t in (*schema.constraint, *schema.relation) if t.reverse}
    kinds, _, _ = name_kinds(schema)
    constraints = [
        Use(f"constraint {kind}", constraint(t.relation in directed) == "attention")
        for kind, t in zip(kinds, schema.constraint, strict=True)
    ]
    relations: list[Use] = []
    for kind in schema.relation:
        twins = [
            use.function
            for use, t in zip(constraints, schema.constraint, strict=True)
            if (t.relation, t.reverse) == (kind.relation, kind.reverse)
        ]
        own = len(twins) != 1 or not shared(kind.relation in directed)
        relations.append(Use(f"relation {kind}" if own else twins[0], relation == "attention"))
    return constraints, relations


def _ends(sending: Iterable[Use], hearing: Iterable[Use]) -> list[tuple[Use, int]]:
    """Every use once at each end, those that send first."""
    return [*((use, 0) for use in dict.fromkeys(sending)), *((use, 1) for use in dict.fromkeys(hearing))]


class MessageFunctions(nn.ModuleDict):
    """Every function named in `uses`, with attention where one of its uses asks for it."""

    def __init__(self, uses: Sequence[Use], width: int, layers: int, sharpen: bool = False) -> None:
        attending = {use.function for use in uses if use.attend}
        names = dict.fromkeys(use.function for use in uses)
        super().__init__({name: MessageFunction(width, layers, name in attending, sharpen) for name in names})

    def of(self, use: Use) -> MessageFunction:
        """The function of an edge type."""
        found = self[use.function]
        assert isinstance(found, MessageFunction)
        return found

    def stack(self, sending: Iterable[Use], hearing: Iterable[Use]) -> Stack:
        """The first layers of what is sent and of what is heard, one below the other."""
        ends = _ends(sending, hearing)
        parts = [self.of(use).weigh(end, use.attend) for use, end in ends]
        rows, logits = [part[0] for part in parts], [logit for part in parts for logit in part[1:]]
        weight = torch.cat([*rows, *logits])
        weight = functional.pad(weight, (0, 0, 0, -len(weight) % _MULTIPLE))
        silent = weight.new_zeros(weight.shape[1])
        bias = torch.cat([self.of(use).first.bias if end else silent for use, end in ends])
        return Stack(weight, functional.pad(bias, (0, len(weight) - len(bias))))

    def project(
        self, states: Tensor, stack: Stack, sending: Iterable[Use], hearing: Iterable[Use]
    ) -> tuple[dict[Use, End], dict[Use, End]]:
        """The parts that nodes with these states (N, H) have in the messages they send and in those they hear, in one product.

        `stack` is of the same uses.
        """
        ends = _ends(sending, hearing)
        product, width = project(states, *stack), states.shape[1]
        rows = product[:, : len(ends) * width].split(width, dim=1)
        columns = iter(product[:, len(ends) * width :].unbind(1))
        found: tuple[dict[Use, End], dict[Use, End]] = {}, {}
        for (use, end), row in zip(ends, rows, strict=True):
            found[end][use] = End(row, next(columns) if use.attend else None)
        return found


def mean_by_puzzle(values: Tensor, batch: Batch) -> Tensor:
    """(T, V) averaged over the variables of each puzzle: (T, B)."""
    return values.new_zeros(len(values), len(batch)).index_add(1, batch.puzzle, values) / batch.counts
