"""Whom a node hears, and how much: the weights that the equations have, one edge, group and vector at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import log
from typing import Any

import pytest
import torch
from problems import GROUPED, PROBLEMS, Problem
from slow import (
    Channel,
    Groups,
    Node,
    Parameters,
    SlowMultivalued,
    attention_logit,
    constraint_function,
    constraint_types,
    f,
    is_symmetric,
)
from test_against_slow import make_draw, make_model, make_slow, make_start, split_start
from torch import Tensor

from outgrow.csp import GroundCSP, LiftedCSP
from outgrow.models import BinarizedConfig, Config, GroupedConfig, MultivaluedConfig, build_model
from outgrow.models.layers import name_kinds

WIDTH = 6
Weights = dict[Node, float]

CONFIGS: dict[str, Any] = {
    "binarized": BinarizedConfig(width=WIDTH, layers=1),
    "binarized, all mean": BinarizedConfig(width=WIDTH, layers=1, constraint="mean", order="mean"),
    "binarized, sharpened": BinarizedConfig(width=WIDTH, layers=1, relation="attention", sharpen=True),
    "grouped": GroupedConfig(width=WIDTH, heads=2),
    "grouped, largest": GroupedConfig(width=WIDTH, heads=3, edges="max"),
    "multivalued": MultivaluedConfig(7, width=WIDTH, layers=1),
    "multivalued, all attention": MultivaluedConfig(7, width=WIDTH, layers=1, order="attention"),
    "multivalued, all mean": MultivaluedConfig(7, width=WIDTH, layers=1, constraint="mean", unassigned="mean"),
}


def normalize(powers: Sequence[Tensor]) -> list[float]:
    return [float(power / torch.stack(list(powers)).sum()) for power in powers]


def weigh_channel(p: Parameters, channel: Channel, node: Node, senders: Mapping[Node, Tensor], h: Tensor) -> Weights:
    """What `slow.average` weighs messages with; where the largest counts, one channel after the other."""
    found = channel.senders.get(node, [])
    if not found:
        return {}
    if channel.largest:
        messages = [f(p, channel.function, senders[sender], h).tolist() for sender in found]
        weights = dict.fromkeys(found, 0.0)
        for column in zip(*messages, strict=True):
            first = [sender for sender, x in zip(found, column, strict=True) if x == max(column)]
            for sender in first:
                weights[sender] += 1 / len(first) / len(h)
        return weights
    if not channel.attention:
        return dict.fromkeys(found, 1 / len(found))
    sharper = log(len(found)) if channel.sharpen else 1.0
    powers = [(sharper * attention_logit(p, channel.function, senders[sender], h)).exp() for sender in found]
    return dict(zip(found, normalize(powers), strict=True))


def weigh_groups(p: Parameters, groups: Groups, node: Node, states: Mapping[Node, Tensor]) -> Weights:
    """What `slow.pool` weighs members with, of every head and every group of the node."""
    mine = groups.groups.get(node, [])
    weights: Weights = {}
    for group in mine:
        members = groups.members[group]
        for head in range(groups.heads):
            look = p["members.weight"][groups.count * WIDTH + groups.index * groups.heads + head]
            shares = normalize([(log(len(members)) * (look @ states[member])).exp() for member in members])
            for member, share in zip(members, shares, strict=True):
                weights[member] = weights.get(member, 0.0) + share / groups.heads / len(mine)
    return weights


def weigh_values(
    slow: SlowMultivalued, csp: GroundCSP, given: int, draw: Sequence[int], node: Node, told: Mapping[Node, Tensor]
) -> list[Weights]:
    """For a variable of the multi-valued model: over every type of constraint edges, and of the values."""
    constraints = constraint_types(csp)
    channels: list[Channel] = []
    for q in constraints:
        rule = slow.constraint if is_symmetric(csp, q.relation) else slow.order
        edges = {(("variable", j), ("variable", k)) for j, k in q.edges}
        channels.append(Channel(constraint_function(q, constraints), rule == "attention", edges))
    if given:
        channels.append(Channel("assigned", False, {(("value", given), node)}))
    else:
        every = {(("value", v), node) for v in range(1, csp.num_values + 1)}
        channels.append(Channel("unassigned", slow.unassigned == "attention", every))
    senders = {**told, **slow.embed(csp, draw)}
    return [weigh_channel(slow.p, channel, node, senders, told[node]) for channel in channels]


def expect(problem: Problem, model: Any, config: Config, start: Any, draw: Tensor | None) -> list[list[Weights]]:
    """Of every node of all puzzles in turn, the weights of each kind; senders are (puzzle, node)."""
    slow = make_slow(model, problem)
    found: list[list[Weights]] = []
    for i, (csp, givens) in enumerate(zip(problem.csps, problem.givens, strict=True)):
        told, _, _ = split_start(start, problem, config)[i]
        channels = [] if isinstance(slow, SlowMultivalued) else slow.channels(csp)
        for node, h in told.items():
            if isinstance(slow, SlowMultivalued):
                assert draw is not None
                given = int(givens[node[1]])  # type: ignore[index]
                kinds = weigh_values(slow, csp, given, draw[i].tolist(), node, told)
            else:
                kinds = [
                    weigh_groups(slow.p, c, node, told)
                    if isinstance(c, Groups)
                    else weigh_channel(slow.p, c, node, told, h)
                    for c in channels
                ]
            found.append([{(i, sender): weight for sender, weight in kind.items()} for kind in kinds])
    return found


def names_of(problem: Problem, of: str) -> list[Node]:
    """What every index stands for."""
    found: list[Node] = []
    for i, csp in enumerate(problem.csps):
        variables, values = range(csp.num_variables), range(1, csp.num_values + 1)
        if of == "nodes":
            found += [(i, (j, v)) for j in variables for v in values]
        elif of == "variables":
            found += [(i, ("variable", j)) for j in variables]
        else:  # as many for every puzzle as the largest has
            found += [(i, ("value", v)) for v in range(1, problem.max_values + 1)]
    return found


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", [*PROBLEMS, *GROUPED])
@pytest.mark.parametrize("setting", CONFIGS)
def test_weights_are_those_of_the_equations(setting: str, name: str) -> None:
    problem, config = (PROBLEMS | GROUPED)[name], CONFIGS[setting]
    model: Any = make_model(problem, config)
    draw = make_draw(problem, 7) if isinstance(config, MultivaluedConfig) else None
    start = make_start(problem, config)
    graph = model.prepare(problem.puzzles().batch(range(len(problem.csps))), draw)
    with torch.no_grad():
        expected = expect(problem, model, config, start, draw)
        for node, kinds in enumerate(expected):
            found = model.listen(graph, start.told, node)
            assert len(found) == len(kinds) == len({heard.kind for heard in found})
            for heard, weights in zip(found, kinds, strict=True):
                who = names_of(problem, heard.of)
                assert heard.sources.dtype == torch.int64
                said = dict(zip([who[i] for i in heard.sources.tolist()], heard.weights.tolist(), strict=True))
                assert len(said) == len(heard.sources)
                assert said == pytest.approx(weights, rel=1e-9, abs=1e-12), heard.kind
                assert sum(said.values()) == pytest.approx(1.0 if weights else 0.0)


@pytest.mark.parametrize(
    ("setting", "name", "kinds"),
    [
        ("binarized", "futoshiki units", "row, col, less, less reversed, neq, lt, lt reversed"),
        ("binarized", "twofold", "tied to neq, tied to lt, tied reversed, neq, lt, lt reversed"),
        ("grouped", "futoshiki units", "row, col, values, less, less reversed, lt, lt reversed"),
        ("grouped", "called values", "values, values of a variable"),
        ("multivalued", "futoshiki units", "row, col, less, less reversed, values"),
        ("multivalued", "called values", "values, values of a variable"),
    ],
)
def test_kinds_have_the_names_of_the_problem(setting: str, name: str, kinds: str) -> None:
    problem = (PROBLEMS | GROUPED)[name]
    model: Any = build_model(problem.puzzles().schema, CONFIGS[setting])
    graph = model.prepare(problem.puzzles().batch([0]))
    with torch.no_grad():
        found = model.listen(graph, model.start(graph).told, 0)
    assert ", ".join(heard.kind for heard in found) == kinds


def test_relations_and_predicates_of_one_name_are_told_apart() -> None:
    lifted = LiftedCSP(["less(2)"], {"less": lambda a, b: a < b}, ["less(x, y) -> less(x, y)"])
    schema = Problem.of([lifted.ground(3, 3, {"less": [(0, 1)]})]).puzzles().schema
    assert name_kinds(schema) == (
        ["less", "less reversed"],
        ["less between values", "less reversed between values"],
        "values",
    )


def test_a_node_in_groups_is_among_those_it_hears() -> None:
    problem = PROBLEMS["sudoku units"]
    model: Any = make_model(problem, CONFIGS["grouped"])
    graph = model.prepare(problem.puzzles().batch([0]))
    with torch.no_grad():
        for heard in model.listen(graph, model.start(graph).told, 22):
            assert 22 in heard.sources.tolist()
            assert len(heard.sources) == 4


def test_members_that_are_crowded_count_as_in_training() -> None:
    """What is added to their logits in training is heard as well."""
    problem = PROBLEMS["sudoku units"]
    model: Any = make_model(problem, GroupedConfig(width=WIDTH, heads=1, marks=2, crowd=1.0)).train()
    batch = problem.puzzles().batch([0])
    graph = model.prepare(batch, torch.zeros(1, 1, dtype=torch.int64))
    assert graph.crowd is not None
    with torch.no_grad():
        told = torch.zeros_like(model.start(graph).told)  # so that crowds are all there is
        heard = model.listen(graph, told, 22)[0]
        expected = (log(4) * graph.crowd[heard.sources, 0]).softmax(0)
    torch.testing.assert_close(heard.weights, expected)
