"""The models, slowly: one node, one edge, one group and one vector at a time, as the equations have them.

Nothing is shared with the library but the parameters, read by name, and the statement of the CSP (its facts and relations). Every message
is the whole MLP of both ends' states, put together by `torch.cat`; a graph is a set of (sender, receiver).
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations, count
from math import log

import torch
from torch import Tensor

from outgrow.csp import GroundCSP

Parameters = Mapping[str, Tensor]
Node = Hashable
Edges = set[tuple[Node, Node]]  # (sender, receiver)
States = Mapping[Node, Tensor]
Start = tuple[States, States, States]  # what the first messages tell, h and c
Scores = dict[tuple[int, int], Tensor]


@dataclass(frozen=True)
class EdgeType:
    """A type of edges between variables or between values, before a model makes nodes of them."""

    name: str
    relation: str
    reverse: bool
    edges: frozenset[tuple[int, int]]

    @property
    def text(self) -> str:
        return self.name + (" reversed" if self.reverse else "")


@dataclass(frozen=True)
class Channel:
    """Edges of one type in a message passing graph: z, its function f_z, whether a_t is attention or plain, whether attention
    grows sharper with the number of edges, and whether in place of an average the largest message counts, channel by channel."""

    function: str
    attention: bool
    edges: Edges
    sharpen: bool = False
    largest: bool = False

    @cached_property
    def senders(self) -> dict[Node, list[Node]]:
        """Who sends to each node."""
        found: dict[Node, list[Node]] = {}
        for sender, receiver in sorted(self.edges, key=repr):
            found.setdefault(receiver, []).append(sender)
        return found


@dataclass(frozen=True)
class Groups:
    """Groups of nodes of one type, the `index`th of `count` types: each pools what its members tell, and tells every member something."""

    function: str
    index: int
    count: int
    heads: int
    members: Mapping[Node, Sequence[Node]]

    @cached_property
    def groups(self) -> dict[Node, list[Node]]:
        """The groups of each node."""
        found: dict[Node, list[Node]] = {}
        for group, members in self.members.items():
            for member in members:
                found.setdefault(member, []).append(group)
        return found


# ---- Section 3: the two graphs


def is_complete(csp: GroundCSP, relation: str) -> bool:
    holds = csp.lifted.relations[relation]
    values = range(1, max(csp.num_values, 16) + 1)
    return all(holds(a, b) for a in values for b in values if a != b)


def is_symmetric(csp: GroundCSP, relation: str) -> bool:
    holds = csp.lifted.relations[relation]
    values = range(1, max(csp.num_values, 16) + 1)
    return all(bool(holds(a, b)) == bool(holds(b, a)) for a in values for b in values)


def collect(csp: GroundCSP, found: list[tuple[str, str, Edges]]) -> list[EdgeType]:
    """Edges by type in order of appearance; a relation with a direction has a second type, against it."""
    edges: dict[tuple[str, str, bool], set] = {}
    for name, relation, forward in found:
        backward = {(b, a) for a, b in forward}
        if is_symmetric(csp, relation):
            edges.setdefault((name, relation, False), set()).update(forward | backward)
        else:
            edges.setdefault((name, relation, False), set()).update(forward)
            edges.setdefault((name, relation, True), set()).update(backward)
    return [EdgeType(*key, frozenset(found)) for key, found in edges.items()]


def constraint_types(csp: GroundCSP) -> list[EdgeType]:
    """Between variables 0..V-1: from a to b where the relation is to hold for the values of a and b."""
    found: list[tuple[str, str, Edges]] = []
    for constraint in csp.lifted.parsed_constraints:
        facts: Edges = {(int(x), int(y)) for x, y in csp.pairs[constraint.predicate]}
        if constraint.swapped:
            facts = {(y, x) for x, y in facts}
        found.append((constraint.predicate, constraint.relation, facts))
    return collect(csp, found)


def relation_types(csp: GroundCSP) -> list[EdgeType]:
    """Between values 1..K: from a to b where the relation holds for a and b."""
    values = range(1, csp.num_values + 1)
    return collect(
        csp,
        [
            (name, name, {(a, b) for a in values for b in values if a != b and holds(a, b)})
            for name, holds in csp.lifted.relations.items()
        ],
    )


def constraint_function(kind: EdgeType, constraints: Sequence[EdgeType]) -> str:
    """A constraint edge's function; it names the relation where its predicate implies more than one."""
    alike = [z for z in constraints if z.text == kind.text]
    return f"constraint {kind.text}" + (f" to {kind.relation}" if len(alike) > 1 else "")


def relation_function(kind: EdgeType, constraints: Sequence[EdgeType], share: bool) -> str:
    """A relation edge's function: that of the only type of constraint edge with its relation and direction, or one of its own."""
    same = [z for z in constraints if z.relation == kind.relation and z.reverse == kind.reverse]
    if share and len(same) == 1:
        return constraint_function(same[0], constraints)
    return f"relation {kind.text}"


# ---- Appendix: messages, their averages, the update


def linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    y = p[f"{name}.weight"] @ x
    return y + p[f"{name}.bias"] if f"{name}.bias" in p else y


def f(p: Parameters, z: str, h_sender: Tensor, h_receiver: Tensor) -> Tensor:
    """m_t[e] = f_z(h_t(sender), h_t(receiver)). The last layer is linear; where the first is the only one, the update has the linear one."""
    x = linear(p, f"messages.{z}.first", torch.cat([h_sender, h_receiver]))
    for n in count():
        if f"messages.{z}.rest.{n}.weight" not in p:
            return x if n else x.clamp(min=0)
        x = linear(p, f"messages.{z}.rest.{n}", x.clamp(min=0))
    raise AssertionError


def attention_logit(p: Parameters, z: str, h_sender: Tensor, h_receiver: Tensor) -> Tensor:
    """leaky_relu(a . [W h_sender; W h_receiver])."""
    w = p[f"messages.{z}.project.weight"]
    a = p[f"messages.{z}.attend.weight"].squeeze(0)
    x = a @ torch.cat([w @ h_sender, w @ h_receiver])
    return torch.where(x > 0, x, 0.01 * x)


def average(p: Parameters, channel: Channel, node: Node, senders: States, receivers: States) -> Tensor:
    """m_{t,z}[node], the weighted average of its messages of one type, or the largest; nothing where there are none."""
    h = receivers[node]
    told = [senders[sender] for sender in channel.senders.get(node, [])]
    if not told:
        return torch.zeros_like(h)
    messages = [f(p, channel.function, other, h) for other in told]
    if channel.largest:
        return torch.stack(messages).amax(0)
    if not channel.attention:
        return torch.stack(messages).sum(0) / len(messages)
    sharper = log(len(told)) if channel.sharpen else 1.0
    powers = [(sharper * attention_logit(p, channel.function, other, h)).exp() for other in told]
    total = torch.stack(powers).sum()
    return torch.stack([power / total * message for power, message in zip(powers, messages, strict=True)]).sum(0)


def pool(p: Parameters, groups: Groups, told: Sequence[Tensor]) -> Tensor:
    """p_g: every head's average of the members' states, side by side. A head's logits are multiplied by log n."""
    width = len(told[0])
    pooled: list[Tensor] = []
    for head in range(groups.heads):
        # Of the layer that all types of groups share, their logits are the last rows.
        row = groups.count * width + groups.index * groups.heads + head
        look = p["members.weight"][row]
        powers = [(log(len(told)) * (look @ h)).exp() for h in told]
        total = torch.stack(powers).sum()
        pooled.append(torch.stack([power / total * h for power, h in zip(powers, told, strict=True)]).sum(0))
    return torch.cat(pooled)


def hear_groups(p: Parameters, groups: Groups, node: Node, pooled: States, states: States) -> Tensor:
    """m_i = mean over its groups g of relu(P p_g + b + Q h_i); nothing where it has none."""
    h = states[node]
    rows = slice(groups.index * len(h), (groups.index + 1) * len(h))
    own = p["members.weight"][rows] @ h
    answers = [
        (linear(p, f"pooled.{groups.function}", pooled[group]) + own).clamp(min=0)
        for group in groups.groups.get(node, [])
    ]
    return torch.stack(answers).sum(0) / len(answers) if answers else torch.zeros_like(h)


def layer_norm(p: Parameters, name: str, x: Tensor) -> Tensor:
    centered = x - x.mean()
    return centered / ((centered**2).mean() + 1e-5).sqrt() * p[f"{name}.weight"] + p[f"{name}.bias"]


def g(p: Parameters, name: str, h: Tensor, c: Tensor, m: Tensor, u: Tensor) -> tuple[Tensor, Tensor]:
    """h_{t+1} = g(h_t, m_t, u): an LSTM cell with layer norms; the cell that is carried on is not normalized."""
    entering = layer_norm(p, f"{name}.hear_norm", linear(p, f"{name}.hear", torch.cat([m, u])))
    recalled = layer_norm(p, f"{name}.recall_norm", linear(p, f"{name}.recall", h))
    enter, forget, emit, new = (entering + recalled).split(len(h))
    c = forget.sigmoid() * c + enter.sigmoid() * new.tanh()
    return emit.sigmoid() * layer_norm(p, f"{name}.cell_norm", c).tanh(), c


def pass_messages(
    p: Parameters,
    update: str,
    channels: Sequence[Channel | Groups],
    inputs: States,
    steps: int,
    still: States | None = None,
    start: Start | None = None,
) -> list[dict[Node, Tensor]]:
    """The states of the nodes after every step; `still` are nodes that send and never change."""
    zeros = {node: torch.zeros_like(u) for node, u in inputs.items()}
    states, h, c = (inputs, zeros, zeros) if start is None else start  # the first messages tell the inputs
    history: list[dict[Node, Tensor]] = []
    for _ in range(steps):
        senders = {**states, **(still or {})}
        heard: list[dict[Node, Tensor]] = []
        for z in channels:
            if isinstance(z, Channel):
                heard.append({node: average(p, z, node, senders, states) for node in inputs})
            else:
                told = {g: [states[member] for member in members] for g, members in z.members.items() if members}
                pooled = {g: pool(p, z, members) for g, members in told.items()}
                heard.append({node: hear_groups(p, z, node, pooled, states) for node in inputs})
        m = {node: torch.cat([each[node] for each in heard]) for node in inputs}
        new = {node: g(p, update, h[node], c[node], m[node], u) for node, u in inputs.items()}
        h = {node: pair[0] for node, pair in new.items()}
        c = {node: pair[1] for node, pair in new.items()}
        states = dict(h)
        history.append(states)
    return history


# ---- Nodes (variable, value)


def score_nodes(
    p: Parameters,
    channels: Sequence[Channel | Groups],
    csp: GroundCSP,
    givens: Sequence[int],
    steps: int,
    start: Start | None,
    marks: Mapping[Node, Tensor] | None = None,
) -> list[Scores]:
    """s(h_t(j, l)) at every step. Marks add to the inputs, each along a direction of its own."""
    u = {-1: p["inputs.weight"][0], 0: p["inputs.weight"][1], 1: p["inputs.weight"][2]}
    nodes = [(j, v) for j in range(csp.num_variables) for v in range(1, csp.num_values + 1)]
    inputs: dict[Node, Tensor] = {
        (j, v): u[-1] if givens[j] == 0 else u[1] if givens[j] == v else u[0] for j, v in nodes
    }
    for node, numbers in (marks or {}).items():
        for number, direction in zip(numbers, p["inputs.weight"][3:], strict=True):
            inputs[node] = inputs[node] + number * direction
    history = pass_messages(p, "update", channels, inputs, steps, start=start)
    return [{node: linear(p, "score", states[node]).squeeze() for node in nodes} for states in history]


def average_loss(scores: Scores, target: Sequence[int]) -> Tensor:
    """Binary cross-entropy, averaged over all nodes."""
    terms: list[Tensor] = []
    for (j, v), s in scores.items():
        probability = s.sigmoid()
        terms.append(-(probability if target[j] == v else 1 - probability).log())
    return torch.stack(terms).sum() / len(terms)


# ---- Section 4.1


@dataclass(frozen=True)
class SlowBinarized:
    """The binarized model: a node (j, l) for variable j and value l."""

    p: Parameters
    constraint: str
    order: str
    relation: str
    share_order: bool
    sharpen: bool

    def channels(self, csp: GroundCSP) -> list[Channel]:
        constraints = constraint_types(csp)
        variables, values = range(csp.num_variables), range(1, csp.num_values + 1)
        found: list[Channel] = []
        for q in constraints:
            rule = self.constraint if is_symmetric(csp, q.relation) else self.order
            edges: Edges = {((j, v), (k, v)) for j, k in q.edges for v in values}
            found.append(Channel(constraint_function(q, constraints), rule == "attention", edges, self.sharpen))
        for r in relation_types(csp):
            share = self.share_order and not is_symmetric(csp, r.relation)
            edges = {((j, v), (j, w)) for v, w in r.edges for j in variables}
            function = relation_function(r, constraints, share)
            found.append(Channel(function, self.relation == "attention", edges, self.sharpen))
        return found

    def scores(self, csp: GroundCSP, givens: Sequence[int], steps: int, start: Start | None = None) -> list[Scores]:
        return score_nodes(self.p, self.channels(csp), csp, givens, steps, start)

    def loss(self, scores: Scores, target: Sequence[int]) -> Tensor:
        return average_loss(scores, target)


# ---- The grouped model


@dataclass(frozen=True)
class SlowGrouped:
    """The grouped model; `predicates` are those whose facts come in groups."""

    p: Parameters
    heads: int
    predicates: Sequence[str]
    largest: bool = False

    def channels(self, csp: GroundCSP) -> list[Channel | Groups]:
        variables, values = range(csp.num_variables), range(1, csp.num_values + 1)
        members: dict[str, dict[Node, list[Node]]] = {}
        for name in self.predicates:  # every group of variables, once for each value
            members[f"group {name}"] = {
                (g, v): [(int(j), v) for j in group] for g, group in enumerate(csp.groups[name]) for v in values
            }
        own = "group values of a variable" if "values" in self.predicates else "group values"
        members[own] = {j: [(j, v) for v in values] for j in variables}
        groups = [
            Groups(name, index, len(members), self.heads, copies)
            for index, (name, copies) in enumerate(members.items())
        ]
        found: list[Channel | Groups] = [*groups]
        for q in constraint_types(csp):
            if q.name not in self.predicates:
                edges: Edges = {((j, v), (k, v)) for j, k in q.edges for v in values}
                name = f"constraint {q.text} to {q.relation}"
                found.append(Channel(name, not self.largest, edges, True, self.largest))
        for r in relation_types(csp):
            if not is_complete(csp, r.relation):
                edges = {((j, v), (j, w)) for v, w in r.edges for j in variables}
                found.append(Channel(f"relation {r.text}", not self.largest, edges, True, self.largest))
        return found

    def scores(
        self,
        csp: GroundCSP,
        givens: Sequence[int],
        steps: int,
        start: Start | None = None,
        marks: Mapping[Node, Tensor] | None = None,
    ) -> list[Scores]:
        return score_nodes(self.p, self.channels(csp), csp, givens, steps, start, marks)

    def loss(self, scores: Scores, target: Sequence[int]) -> Tensor:
        return average_loss(scores, target)


# ---- Section 4.2


@dataclass(frozen=True)
class SlowMultivalued:
    """The multi-valued model: nodes ("variable", j) and ("value", l)."""

    p: Parameters
    constraint: str
    order: str
    relation: str
    unassigned: str
    share_neq: bool
    share_order: bool
    relation_steps: int
    orthogonality: float

    def drawn(self, csp: GroundCSP, draw: Sequence[int]) -> dict[Node, Tensor]:
        return {("value", v): self.p["embeddings.weight"][draw[v - 1]] for v in range(1, csp.num_values + 1)}

    def embed(self, csp: GroundCSP, draw: Sequence[int]) -> dict[Node, Tensor]:
        """RMPG: the relationship-aware embeddings."""
        constraints = constraint_types(csp)
        channels: list[Channel] = []
        for r in relation_types(csp):
            share = self.share_neq if is_symmetric(csp, r.relation) else self.share_order
            edges: Edges = {(("value", v), ("value", w)) for v, w in r.edges}
            channels.append(Channel(relation_function(r, constraints, share), self.relation == "attention", edges))
        return pass_messages(self.p, "relation_update", channels, self.drawn(csp, draw), self.relation_steps)[-1]

    def scores(
        self, csp: GroundCSP, givens: Sequence[int], steps: int, draw: Sequence[int], start: Start | None = None
    ) -> list[Scores]:
        """CMPG: s(h_t(j), embedding of l) at every step."""
        variables, values = range(csp.num_variables), range(1, csp.num_values + 1)
        embedding = self.embed(csp, draw)
        mean = torch.stack([embedding["value", v] for v in values]).sum(0) / csp.num_values
        inputs: dict[Node, Tensor] = {}
        assigned: Edges = set()
        unassigned: Edges = set()
        for j in variables:
            node = ("variable", j)
            if givens[j]:
                inputs[node] = embedding["value", givens[j]]
                assigned.add((("value", givens[j]), node))
            else:
                inputs[node] = mean
                unassigned |= {(("value", v), node) for v in values}
        channels: list[Channel] = []
        constraints = constraint_types(csp)
        for q in constraints:
            rule = self.constraint if is_symmetric(csp, q.relation) else self.order
            edges: Edges = {(("variable", j), ("variable", k)) for j, k in q.edges}
            channels.append(Channel(constraint_function(q, constraints), rule == "attention", edges))
        channels.append(Channel("assigned", False, assigned))
        channels.append(Channel("unassigned", self.unassigned == "attention", unassigned))
        history = pass_messages(self.p, "update", channels, inputs, steps, still=embedding, start=start)
        keys = {v: linear(self.p, "score", embedding["value", v]) for v in values}
        return [{(j, v): states["variable", j] @ keys[v] for j in variables for v in values} for states in history]

    def loss(self, scores: Scores, target: Sequence[int]) -> Tensor:
        """Cross-entropy, averaged over variables."""
        terms: list[Tensor] = []
        for j in sorted({j for j, _ in scores}):
            powers = {v: s.exp() for (i, v), s in scores.items() if i == j}
            terms.append(-(powers[target[j]] / torch.stack(list(powers.values())).sum()).log())
        return torch.stack(terms).sum() / len(terms)

    def penalty(self, csp: GroundCSP, draw: Sequence[int]) -> Tensor:
        """Orthogonality loss: |cosine| of every two embeddings, before and after the RMPG."""
        total = self.p["embeddings.weight"].new_zeros(())
        for vectors in (self.drawn(csp, draw), self.embed(csp, draw)):
            for x, y in combinations(vectors.values(), 2):
                total = total + ((x @ y) / (x.norm() * y.norm())).abs()
        return self.orthogonality * total
