from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from plain_rules import Pair, PlainCSP, plain_csps

from outgrow.csp import EdgeType, Groups, LiftedCSP, TypedGraph, constraint_graph, relation_graph

ORDER = {"lt": lambda a, b: a < b}


def edge_sets(graph: TypedGraph) -> dict[EdgeType, set[Pair]]:
    """Type -> edges (source, destination); also checks that none is stated twice."""
    found: dict[EdgeType, set[Pair]] = {}
    for kind, edges in graph.edges.items():
        found[kind] = {(int(a), int(b)) for a, b in edges.T}
        assert edges.shape == (2, len(found[kind]))
    return found


def flip(edges: set[Pair]) -> set[Pair]:
    return {(b, a) for a, b in edges}


def conflicts(plain: PlainCSP) -> set[Pair]:
    """Variables (x, y), in either order, with a pair of values that some constraint between them forbids."""
    values = range(1, plain.values + 1)
    return {
        edge
        for c in plain.constraints
        for x, y in plain.facts(c[0])
        if any(not plain.allows(c, a, b) for a in values for b in values)
        for edge in ((x, y), (y, x))
    }


@settings(deadline=None)
@given(plain_csps())
def test_constraint_edges_join_exactly_the_variables_that_can_conflict(plain: PlainCSP) -> None:
    graph = constraint_graph(plain.ground())
    assert graph.num_nodes == plain.variables
    assert set().union(*edge_sets(graph).values()) == conflicts(plain)


@settings(deadline=None)
@given(plain_csps(swaps=False))
def test_constraint_edges_of_each_type_follow_the_facts(plain: PlainCSP) -> None:
    expected: dict[EdgeType, set[Pair]] = {}
    for predicate, relation, _ in plain.constraints:
        facts = plain.facts(predicate)
        if plain.symmetric(relation):
            expected[EdgeType(predicate, relation)] = facts | flip(facts)
        else:
            expected[EdgeType(predicate, relation)] = facts
            expected[EdgeType(predicate, relation, reverse=True)] = flip(facts)
    graph = constraint_graph(plain.ground())
    assert edge_sets(graph) == expected
    assert set(graph.types) == set(expected)
    assert graph.num_edges == sum(map(len, expected.values()))


@settings(deadline=None)
@given(plain_csps())
def test_relation_edges_are_the_truth_table_between_different_values(plain: PlainCSP) -> None:
    expected: dict[EdgeType, set[Pair]] = {}
    for name, table in plain.tables.items():
        holds = {(a, b) for a in range(plain.values) for b in range(plain.values) if a != b and table[a][b]}
        expected[EdgeType(name, name)] = holds
        if not plain.symmetric(name):
            expected[EdgeType(name, name, reverse=True)] = flip(holds)
    graph = relation_graph(plain.ground())
    assert graph.num_nodes == plain.values
    assert edge_sets(graph) == expected


def test_an_order_gives_a_forward_and_a_reversed_type() -> None:
    csp = LiftedCSP(["less(2)"], ORDER, ["less(x, y) -> lt(x, y)"]).ground(4, 3, {"less": [(0, 1), (3, 1)]})
    forward, reverse = EdgeType("less", "lt"), EdgeType("less", "lt", reverse=True)
    assert edge_sets(constraint_graph(csp)) == {forward: {(0, 1), (3, 1)}, reverse: {(1, 0), (1, 3)}}
    assert (str(forward), str(reverse)) == ("less", "less reversed")
    # Node l is value l + 1: 1 < 2 is the edge (0, 1).
    forward, reverse = EdgeType("lt", "lt"), EdgeType("lt", "lt", reverse=True)
    assert edge_sets(relation_graph(csp)) == {forward: {(0, 1), (0, 2), (1, 2)}, reverse: {(1, 0), (2, 0), (2, 1)}}


def test_the_types_of_a_problem_do_not_depend_on_its_instance() -> None:
    """A model has weights by type: an instance without facts, or with too few values to tell an order, has them all."""
    lifted = LiftedCSP(
        ["nbr(2)", "less(2)"],
        {"neq": lambda a, b: a != b, **ORDER},
        ["nbr(x, y) -> neq(x, y)", "less(x, y) -> lt(x, y)"],
    )
    large = lifted.ground(3, 5, {"nbr": [(0, 1)], "less": [(1, 2)]})
    for small in (lifted.ground(3, 5, {}), lifted.ground(2, 1, {"less": [(0, 1)]}), lifted.ground(0, 1, {})):
        assert constraint_graph(small).types == constraint_graph(large).types
        assert relation_graph(small).types == relation_graph(large).types


def test_variables_that_meet_in_several_groups_share_one_edge_a_type() -> None:
    lifted = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])
    graph = constraint_graph(lifted.ground(3, 3, {"nbr": Groups([[0, 1, 2], [1, 0]])}))
    assert graph.edges[EdgeType("nbr", "neq")].tolist() == [[0, 0, 1, 1, 2, 2], [1, 2, 0, 2, 0, 1]]


def test_edges_are_32_bit_integers() -> None:
    csp = LiftedCSP(["less(2)"], ORDER, ["less(x, y) -> lt(x, y)"]).ground(2, 2, {"less": [(0, 1)]})
    for graph in (constraint_graph(csp), relation_graph(csp)):
        assert {edges.dtype for edges in graph.edges.values()} == {np.dtype(np.int32)}


def test_swapped_arguments_turn_the_edges_around() -> None:
    """`p(x, y) -> lt(y, x)` says of a fact (0, 1) that the value of 1 is the smaller one: the edge of `lt` runs from 1 to 0."""
    for text, edge in (("p(x, y) -> lt(x, y)", [[0], [1]]), ("p(x, y) -> lt(y, x)", [[1], [0]])):
        lifted = LiftedCSP(["p(2)"], {"lt": lambda a, b: a < b}, [text])
        graph = constraint_graph(lifted.ground(2, 3, {"p": [(0, 1)]}))
        assert graph.edges[EdgeType("p", "lt")].tolist() == edge
        assert graph.edges[EdgeType("p", "lt", reverse=True)].tolist() == edge[::-1]
