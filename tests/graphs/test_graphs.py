"""What models see is what the CSP says: every edge of every table, against loops over its facts and relations."""

from __future__ import annotations

import dataclasses
import gc
import json
from collections.abc import Sequence
from itertools import pairwise

import numpy as np
import pytest
import torch

from outgrow.csp import EdgeType, GroundCSP, Groups, LiftedCSP, constraint_graph, relation_graph
from outgrow.errors import OutgrowError
from outgrow.graphs import Batch, GroupedGraph, NodeGroups, Puzzles, Schema, binarize, group_nodes, multivalue
from outgrow.graphs.batch import _RECENT
from outgrow.graphs.binarized import ASSIGNED, RULED_OUT, UNASSIGNED, BinarizedGraph
from outgrow.kernels import Neighbors
from outgrow.puzzles import coloring, futoshiki, parse, parse_one, sudoku
from outgrow.puzzles.instance import Instance

Edge = tuple[int, int]  # (sender, receiver)


def edges_of(neighbors: Neighbors) -> set[Edge]:
    """The edges a table holds; none twice."""
    found: list[Edge] = []
    for receiver, senders in enumerate(neighbors.source.tolist()):
        for d, sender in enumerate(senders):
            if neighbors.mask is None or bool(neighbors.mask[receiver, d]):
                found.append((sender, receiver))
    assert len(set(found)) == len(found)
    if neighbors.source.numel() and neighbors.num_sources:
        assert 0 <= int(neighbors.source.min()) <= int(neighbors.source.max()) < neighbors.num_sources
    assert neighbors.num_sources or not found
    return set(found)


def count_edges(tables: Sequence[Neighbors]) -> int:
    return sum(len(edges_of(t)) for t in tables)


def color(nodes: int, edges: Sequence[Edge], colors: int, givens: Sequence[int] | None = None) -> Instance:
    return coloring.build(np.array(edges).reshape(-1, 2), np.array(givens or [0] * nodes), colors)


def random_coloring(random: np.random.Generator, nodes: int, colors: int, density: float = 0.4) -> Instance:
    pairs = [(i, j) for i in range(nodes) for j in range(i) if random.random() < density]
    return color(nodes, pairs, colors, [int(v) for v in random.integers(0, colors + 1, nodes)])


def fill_random(instance: Instance, random: np.random.Generator) -> Instance:
    size = instance.csp.num_variables
    givens = np.where(random.random(size) < 0.4, random.integers(1, instance.size + 1, size), 0)
    return dataclasses.replace(instance, givens=instance.csp.assignment(givens))


LIFTED = LiftedCSP(
    predicates=["less(2)", "tied(2)"],
    relations={"lt": lambda a, b: a < b, "far": lambda a, b: abs(a - b) > 1},
    constraints=["tied(x, y) -> far(x, y)", "less(x, y) -> lt(y, x)"],
)

UNITS = LiftedCSP(
    predicates=["team(2)", "less(2)", "club(2)"],
    relations={"neq": lambda a, b: a != b, "lt": lambda a, b: a < b},
    constraints=["team(x, y) -> neq(x, y)", "less(x, y) -> lt(x, y)", "club(x, y) -> neq(x, y)"],
)


def collections() -> dict[str, Puzzles]:
    random = np.random.default_rng(0)
    futoshikis = [
        futoshiki.build(3, np.array([(0, 1), (4, 1), (8, 5)]), np.zeros(9, dtype=int)),
        futoshiki.build(4, np.array([(1, 0), (5, 6)]), np.zeros(16, dtype=int)),
        futoshiki.build(3, np.zeros((0, 2), dtype=int), np.zeros(9, dtype=int)),
    ]
    sudokus = [
        sudoku.build(2, 2, np.zeros(16, dtype=int), form="nbr"),
        sudoku.build(2, 3, np.zeros(36, dtype=int), form="nbr"),
        sudoku.build(2, 2, np.zeros(16, dtype=int), form="nbr"),
        sudoku.build(3, 2, np.zeros(36, dtype=int), form="nbr"),
    ]
    own = [
        LIFTED.ground(4, 4, {"tied": [(0, 1), (2, 1)], "less": [(3, 0), (2, 3)]}),
        LIFTED.ground(3, 1, {"tied": [(2, 0)]}),
        LIFTED.ground(5, 3, {"less": [(0, 1), (1, 2), (0, 2)]}),
    ]
    # Variables in no group and in several; groups of one, of nobody, none at all; as many groups as variables; empty ones at the end.
    grouped = [
        UNITS.ground(2, 3, {"less": [(0, 1)]}),
        UNITS.ground(5, 3, {"team": Groups([[2, 0, 1], [], [2, 3]]), "club": Groups([[1, 2], [0, 2, 3, 1], [2], [2]])}),
        UNITS.ground(3, 5, {"team": Groups([[1, 0], [2], [0]]), "club": Groups([[2, 1], [0, 2]])}),
        UNITS.ground(3, 5, {"team": Groups([[1, 0], [2], [0], []]), "club": Groups([[2, 1]])}),
        UNITS.ground(4, 1, {"team": Groups([[3, 1, 0, 2], [1], [0]])}),
    ]
    return {
        "coloring": Puzzles.of_instances([random_coloring(random, n, k) for n, k in ((6, 3), (3, 4), (7, 3), (1, 2))]),
        "same size": Puzzles.of_instances([random_coloring(random, n, 3) for n in (4, 6, 4)]),
        "futoshiki": Puzzles.of_instances([fill_random(i, random) for i in futoshikis]),
        "sudoku": Puzzles.of_instances([fill_random(i, random) for i in sudokus]),
        "own": Puzzles(own, [random.integers(0, c.num_values + 1, c.num_variables) for c in own]),
        "groups": Puzzles(grouped, [random.integers(0, c.num_values + 1, c.num_variables) for c in grouped]),
    }


COLLECTIONS = collections()
each_collection = pytest.mark.parametrize("name", COLLECTIONS)


def every_batch(puzzles: Puzzles) -> list[list[int]]:
    """Single ones, all, in other orders, some twice, the last two, and the last before the first."""
    count = len(puzzles)
    return [
        *([i] for i in range(count)),
        list(range(count)),
        list(range(count))[::-1],
        [0, 0],
        [1, 0, 1, count - 1, 1],
        [count - 2, count - 1],
        [count - 1, 0],
    ]


def symmetric(csp: GroundCSP, relation: str) -> bool:
    holds = csp.lifted.relations[relation]
    return all(bool(holds(a, b)) == bool(holds(b, a)) for a in range(1, 17) for b in range(1, 17))


def stated(csp: GroundCSP, kind: EdgeType) -> set[Edge]:
    """Edges between variables of one type, read off the facts."""
    found: set[Edge] = set()
    for c in csp.constraints:
        if (c.predicate, c.relation) != (kind.name, kind.relation):
            continue
        for x, y in csp.pairs[c.predicate].tolist():
            forward = (y, x) if c.swapped else (x, y)
            if symmetric(csp, c.relation):
                found |= {(x, y), (y, x)}
            else:
                found.add(forward[::-1] if kind.reverse else forward)
    return found


def held(csp: GroundCSP, kind: EdgeType) -> set[Edge]:
    """Edges between values (from 0) of one type."""
    holds = csp.lifted.relations[kind.relation]
    values = range(csp.num_values)
    pairs = {(a, b) for a in values for b in values if a != b and holds(a + 1, b + 1)}
    return {(b, a) for a, b in pairs} if kind.reverse else pairs


def first_variables(batch: Batch) -> list[int]:
    return [sum(v for v, _ in batch.sizes[:i]) for i in range(len(batch))]


# ---- batches


@each_collection
def test_a_batch_holds_its_puzzles_one_after_the_other(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        csps = [puzzles.csps[i] for i in chosen]
        assert batch.indices.tolist() == chosen
        assert batch.sizes == tuple((c.num_variables, c.num_values) for c in csps)
        assert batch.puzzle.tolist() == [b for b, c in enumerate(csps) for _ in range(c.num_variables)]
        assert batch.counts.tolist() == [c.num_variables for c in csps]
        assert batch.num_values.tolist() == [c.num_values for c in csps]
        assert batch.num_variables == sum(c.num_variables for c in csps)
        assert batch.max_values == max(c.num_values for c in csps)
        assert batch.same_size == (len({c.num_values for c in csps}) == 1)
        assert batch.grouped == puzzles.schema.groups
        assert batch.paired == {
            name for c in csps for name, pairs in c.pairs.items() if len(pairs) and not c.groups[name]
        }
        assert batch.allowed.tolist() == [
            [v < c.num_values for v in range(batch.max_values)] for c in csps for _ in range(c.num_variables)
        ]
        for part, c in zip(batch.split(np.arange(batch.num_variables)), csps, strict=True):
            assert len(part) == c.num_variables


def test_givens_and_solutions_go_with_their_puzzle() -> None:
    csps = [color(n, [], 9).csp for n in (2, 3, 1)]
    givens = [np.array(g) for g in ([1, 0], [0, 2, 3], [4])]
    solutions = [np.array(s) for s in ([1, 5], [6, 2, 3], [4])]
    batch = Puzzles(csps, givens, solutions).batch([2, 0, 1, 2])
    assert batch.givens.tolist() == [4, 1, 0, 0, 2, 3, 4]
    assert batch.solutions is not None
    assert batch.solutions.tolist() == [4, 1, 5, 6, 2, 3, 4]
    assert Puzzles(csps, givens).batch([0]).solutions is None


@each_collection
def test_every_constraint_edge_of_a_batch_is_a_fact(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        assert len(batch.constraint) == len(puzzles.schema.constraint)
        for kind, table in zip(puzzles.schema.constraint, batch.constraint, strict=True):
            assert table.num_sources == len(table.source) == batch.num_variables
            expected: set[Edge] = set()
            for first, i in zip(first_variables(batch), chosen, strict=True):
                expected |= {(first + x, first + y) for x, y in stated(puzzles.csps[i], kind)}
            assert edges_of(table) == expected


@each_collection
def test_every_relation_edge_of_a_batch_holds(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        largest = max((puzzles.csps[i] for i in chosen), key=lambda c: c.num_values)
        for kind, table in zip(puzzles.schema.relation, batch.relation, strict=True):
            assert table.num_sources == len(table.source) == batch.max_values
            assert edges_of(table) == held(largest, kind)


@each_collection
def test_padding_stays_in_its_own_row(name: str) -> None:
    """So that whatever a puzzle's states become, NaN included, its neighbors in the batch do not hear of it."""
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = binarize(batch)
        for table in (*batch.constraint, *batch.relation, *graph.constraint, *graph.relation):
            if table.mask is not None:
                own = torch.arange(len(table.source)).unsqueeze(1).expand_as(table.source)
                assert torch.equal(table.source[~table.mask], own[~table.mask])


def group_all(batch: Batch) -> GroupedGraph:
    """The grouped graph, with all groups and all edges there are."""
    return group_nodes(batch, batch.grouped, range(len(batch.constraint)), range(len(batch.relation)))


def every_table(batch: Batch) -> list[Neighbors]:
    """Of the batch, and of the graphs over nodes."""
    binarized, grouped = binarize(batch), group_all(batch)
    found: list[Neighbors] = []
    for part in (batch, binarized, grouped):
        found += [*part.constraint, *part.relation]
    for groups in (*batch.groups, *grouped.groups, grouped.values):
        found += [groups.members, groups.memberships]
    return found


@each_collection
def test_a_collection_forgets_no_batch_and_mixes_up_none(name: str) -> None:
    """Tables are kept from one batch to the next: they must be those a fresh collection would make."""
    puzzles = COLLECTIONS[name]
    random = np.random.default_rng(1)
    givens = [puzzles.batch([i]).givens.numpy() for i in range(len(puzzles))]
    batches = every_batch(puzzles) + [random.integers(0, len(puzzles), 2).tolist() for _ in range(8)]
    made = {tuple(chosen): Puzzles(puzzles.csps, givens).batch(chosen) for chosen in batches}
    for chosen in [*batches, *batches[::-1], *(c for c in batches for _ in range(2))]:
        batch, fresh = puzzles.batch(chosen), made[tuple(chosen)]
        graph, fresh_graph = binarize(batch), binarize(fresh)
        assert torch.equal(batch.givens, fresh.givens)
        assert torch.equal(graph.known, fresh_graph.known)
        for a, b in zip(every_table(batch), every_table(fresh), strict=True):
            assert a.constant == b.constant
            assert torch.equal(a.source, b.source)
            assert a.num_sources == b.num_sources
            assert (a.mask is None) == (b.mask is None)
            assert a.mask is None or (b.mask is not None and torch.equal(a.mask, b.mask))


def test_one_graph_in_different_numbers_of_colors() -> None:
    """The tables over variables are the same object: their copies for each value are not."""
    edges = [(0, 1), (1, 2)]
    puzzles = Puzzles.of_instances([color(3, edges, 2), color(3, edges, 3)])
    for chosen, values in (([0], 2), ([1], 3), ([0], 2), ([1], 3)):
        batch = puzzles.batch(chosen)
        graph = binarize(batch)
        assert len(graph.known) == 3 * values
        assert count_edges(graph.constraint) == 4 * values
        assert count_edges(graph.relation) == 3 * values * (values - 1)


def test_boards_alike_share_their_tables() -> None:
    puzzles = COLLECTIONS["sudoku"]
    assert puzzles.batch([0, 2]).constraint[0] is puzzles.batch([2, 0]).constraint[0]
    first, second = (binarize(puzzles.batch([0, 2])) for _ in range(2))
    assert first.constraint[0] is second.constraint[0]
    assert first.relation[0] is second.relation[0]

    assert puzzles.batch([0, 2]).groups[0].members is puzzles.batch([2, 0]).groups[0].members
    grouped, again = (group_all(puzzles.batch([0, 2])) for _ in range(2))
    assert grouped.groups[0] is again.groups[0]
    assert grouped.values is again.values


def test_tables_that_nobody_uses_are_freed() -> None:
    from outgrow.graphs import binarized, grouped

    gc.collect()
    before, groups_before = len(binarized._COPIES), len(grouped._COPIES)
    graph = binarize(Puzzles.of_instances([color(3, [(0, 1)], 2)]).batch([0]))
    assert len(binarized._COPIES) == before + 2
    groups = group_all(Puzzles([UNITS.ground(3, 2, {"team": Groups([[0, 1]])})], [np.zeros(3, dtype=int)]).batch([0]))
    assert len(grouped._COPIES) == groups_before + 1
    del graph, groups
    gc.collect()
    assert len(binarized._COPIES) == before
    assert len(grouped._COPIES) == groups_before


def test_tables_of_several_batches_are_kept_but_not_of_all() -> None:
    """Sizes take turns in training: each finds its tables again. A thousand batches of other graphs are not kept for it."""
    puzzles = Puzzles.of_instances([color(3, [(0, 1)], 2), color(4, [(1, 2)], 3)])
    made = [puzzles.batch([i % 2] * (1 + i // 2)).constraint[0] for i in range(_RECENT)]
    again = [puzzles.batch([i % 2] * (1 + i // 2)).constraint[0] for i in reversed(range(_RECENT))]
    assert all(a is b for a, b in zip(made, reversed(again), strict=True))
    puzzles.batch([1, 0])
    assert puzzles.batch([0]).constraint[0] is made[0]
    assert puzzles.batch([1] * (_RECENT // 2)).constraint[0] is not made[-1]  # the one not asked for longest
    for first in (0, 1):
        for n in range(1, 2 * _RECENT):
            puzzles.batch([first, *[1] * n])
    assert {len(kept) for name, kept in puzzles._recent.items() if name[0] == "edges"} == {_RECENT}


def test_a_table_is_constant_if_puzzles_of_its_size_have_no_other() -> None:
    def constants(puzzles: Puzzles) -> tuple[list[bool], list[bool]]:
        batch = puzzles.batch([0])
        groups = [(g.members.constant, g.memberships.constant) for g in batch.groups]
        assert all(there == back for there, back in groups)
        assert all(table.constant for table in batch.relation)
        return [table.constant for table in batch.constraint], [there for there, _ in groups]

    def boards(*shapes: tuple[int, int]) -> Puzzles:
        return Puzzles.of_instances([sudoku.build(r, c, np.zeros((r * c) ** 2, dtype=int)) for r, c in shapes])

    rows = [True, True, True]
    assert constants(boards((2, 2))) == (rows, rows)
    assert constants(boards((2, 2), (2, 3), (2, 2))) == (rows, rows)
    # Boards of 2x3 and 3x2 boxes have the same rows and columns, and other boxes.
    assert constants(boards((2, 2), (2, 3), (3, 2))) == ([True, True, False], [True, True, False])
    assert constants(COLLECTIONS["same size"]) == ([False], [])
    assert constants(Puzzles.of_instances([color(3, [(0, 1)], 2), color(4, [(0, 1)], 2)])) == ([True], [])
    # As many nodes and other edges: of other numbers of colors they are no other table, of the same number they are.
    assert constants(Puzzles.of_instances([color(4, [(0, 1)], 2), color(4, [(1, 2)], 3)])) == ([True], [])
    assert constants(Puzzles.of_instances([color(4, [(0, 1)], 2), color(4, [(1, 2)], 2)])) == ([False], [])
    # Futoshikis: the square is the same, signs are not.
    signs = [futoshiki.build(3, np.array([pair]), np.zeros(9, dtype=int)) for pair in ((0, 1), (1, 0), (0, 1))]
    assert constants(Puzzles.of_instances(signs)) == ([True, True, False, False], [True, True])
    assert constants(Puzzles.of_instances([signs[0], signs[2]])) == ([True] * 4, [True, True])
    # The same memberships, but not as many groups.
    empty = [UNITS.ground(2, 2, {"team": Groups(groups)}) for groups in ([[0, 1]], [[0, 1], []])]
    assert constants(Puzzles(empty, [np.zeros(2, dtype=int)] * 2)) == ([True] * 4, [False])


@each_collection
def test_copies_for_nodes_are_constant_where_their_table_is(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = group_all(batch)
        assert [t.constant for t in graph.constraint] == [t.constant for t in batch.constraint]
        assert graph.values.members.constant == graph.values.memberships.constant == batch.same_size
        for tables, groups in zip(batch.groups, graph.groups, strict=True):
            if groups.count:
                assert groups.members.constant == tables.members.constant
                assert groups.memberships.constant == tables.memberships.constant


def test_no_puzzles_and_puzzles_that_do_not_fit_are_refused() -> None:
    one = color(2, [(0, 1)], 2)
    with pytest.raises(OutgrowError, match="no puzzles"):
        Puzzles([], [])
    with pytest.raises(ValueError, match="do not fit"):
        Puzzles([one.csp], [np.zeros(3, dtype=int)])
    with pytest.raises(ValueError, match="do not fit"):
        Puzzles([one.csp], [np.zeros(2, dtype=int)], [np.zeros(1, dtype=int)])
    with pytest.raises(ValueError, match="different problems"):
        Puzzles.of_instances([one, parse_one("1.....3..4.....2")])


@each_collection
def test_portions_are_all_puzzles_in_order_and_not_too_many_at_a_time(name: str) -> None:
    puzzles = COLLECTIONS[name]
    costs = [c.num_variables * c.num_values for c in puzzles.csps]
    for limit in (1, 20, 50, 10_000):
        portions = list(puzzles.portions(limit))
        assert [i for portion in portions for i in portion] == list(range(len(puzzles)))
        assert all(len(p) == 1 or sum(costs[i] for i in p) <= limit for p in portions)
        for portion, following in pairwise(portions):
            assert sum(costs[i] for i in [*portion, following[0]]) > limit


# ---- the binarized graph


def nodes_of(batch: Batch) -> dict[tuple[int, int], int]:
    """(variable, value from 0) -> node: by puzzle, variable and value."""
    values = [k for v, k in batch.sizes for _ in range(v)]
    return {
        key: n for n, key in enumerate((variable, value) for variable, k in enumerate(values) for value in range(k))
    }


@each_collection
def test_every_binarized_edge_is_a_copy(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = binarize(batch)
        node = nodes_of(batch)
        owners = [(first, puzzles.csps[i]) for first, i in zip(first_variables(batch), chosen, strict=True)]
        assert len(graph.known) == len(node)
        for kind, table in zip(puzzles.schema.constraint, graph.constraint, strict=True):
            assert table.num_sources == len(table.source) == len(node)
            assert edges_of(table) == {
                (node[first + x, v], node[first + y, v])
                for first, csp in owners
                for x, y in stated(csp, kind)
                for v in range(csp.num_values)
            }
        for kind, table in zip(puzzles.schema.relation, graph.relation, strict=True):
            assert table.num_sources == len(table.source) == len(node)
            assert edges_of(table) == {
                (node[first + x, v], node[first + x, w])
                for first, csp in owners
                for v, w in held(csp, kind)
                for x in range(csp.num_variables)
            }


@each_collection
def test_what_is_known_of_a_node(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = binarize(batch)
        for (variable, value), n in nodes_of(batch).items():
            given = int(batch.givens[variable])
            expected = UNASSIGNED if given == 0 else ASSIGNED if given == value + 1 else RULED_OUT
            assert int(graph.known[n]) == expected


@each_collection
def test_scores_of_nodes_by_variable(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = binarize(batch)
        node = nodes_of(batch)
        table = graph.by_variable(torch.arange(len(node), dtype=torch.float32))
        assert table.shape == (batch.num_variables, batch.max_values)
        for variable, row in enumerate(table.tolist()):
            assert row == [node.get((variable, value), float("-inf")) for value in range(batch.max_values)]


def sizes_of(graph: BinarizedGraph) -> tuple[int, int, int]:
    return len(graph.known), count_edges(graph.constraint), count_edges(graph.relation)


def test_the_papers_formulas() -> None:
    """k |V| nodes, k |E| constraint edges and |V| copies of the relation graph (edges counted in both directions)."""
    board = Puzzles.of_instances([sudoku.build(3, 3, np.zeros(81, dtype=int), form="nbr")]).batch([0])
    assert sizes_of(binarize(board)) == (729, 14_580, 5_832)
    by_units = Puzzles.of_instances([sudoku.build(3, 3, np.zeros(81, dtype=int), form="units")]).batch([0])
    assert sizes_of(binarize(by_units)) == (729, 9 * 81 * 24, 5_832)
    random = np.random.default_rng(2)
    for nodes, colors in ((8, 3), (12, 4), (5, 7)):
        instance = random_coloring(random, nodes, colors)
        edges = constraint_graph(instance.csp).num_edges
        graph = binarize(Puzzles.of_instances([instance]).batch([0]))
        assert sizes_of(graph) == (colors * nodes, colors * edges, nodes * colors * (colors - 1))


@pytest.mark.parametrize("form", ["nbr", "units"])
def test_who_sends_to_whom_in_a_futoshiki(form: str) -> None:
    """Cell 1 is less than cell 0: over `less` the smaller cell tells the larger one, over `less reversed` the other way round."""
    instance = futoshiki.build(2, np.array([(1, 0)]), np.zeros(4, dtype=int), form=form)
    puzzles = Puzzles.of_instances([instance])
    names = [str(kind) for kind in puzzles.schema.constraint]
    assert names[-2:] == ["less", "less reversed"]
    batch = puzzles.batch([0])
    assert [edges_of(t) for t in batch.constraint[-2:]] == [{(1, 0)}, {(0, 1)}]
    assert [str(kind) for kind in puzzles.schema.relation] == ["neq", "lt", "lt reversed"]
    assert [edges_of(t) for t in batch.relation] == [{(0, 1), (1, 0)}, {(0, 1)}, {(1, 0)}]
    graph = binarize(batch)  # node 2 j + l
    assert edges_of(graph.constraint[-2]) == {(2, 0), (3, 1)}
    assert edges_of(graph.constraint[-1]) == {(0, 2), (1, 3)}
    assert edges_of(graph.relation[1]) == {(0, 1), (2, 3), (4, 5), (6, 7)}
    assert edges_of(graph.relation[2]) == {(1, 0), (3, 2), (5, 4), (7, 6)}


# ---- groups


def groups_of(puzzles: Puzzles, chosen: Sequence[int], name: str) -> list[tuple[int, list[int]]]:
    """The groups of a predicate, puzzle by puzzle: number in the batch and variables."""
    found: list[tuple[int, list[int]]] = []
    first = 0
    for b, i in enumerate(chosen):
        found += [(b, [first + int(j) for j in group]) for group in puzzles.csps[i].groups[name]]
        first += puzzles.csps[i].num_variables
    return found


@each_collection
def test_every_group_of_a_batch_is_stated(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        for predicate, tables in zip(puzzles.schema.groups, batch.groups, strict=True):
            stated = groups_of(puzzles, chosen, predicate)
            assert tables.puzzle.tolist() == [b for b, _ in stated]
            assert len(tables.members.source) == tables.memberships.num_sources == len(stated)
            assert len(tables.memberships.source) == tables.members.num_sources == batch.num_variables
            expected = {(variable, g) for g, (_, group) in enumerate(stated) for variable in group}
            assert edges_of(tables.members) == expected
            assert edges_of(tables.memberships) == {(g, variable) for variable, g in expected}


@each_collection
def test_every_group_of_nodes_is_a_copy(name: str) -> None:
    """A group of variables once for each value of its puzzle; and every variable's values."""
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = group_all(batch)
        node = nodes_of(batch)
        copies: list[tuple[NodeGroups, list[list[int]]]] = []
        for predicate, groups in zip(puzzles.schema.groups, graph.groups, strict=True):
            stated = groups_of(puzzles, chosen, predicate)
            members = [[node[j, v] for j in group] for b, group in stated for v in range(batch.sizes[b][1])]
            copies.append((groups, members))
        values = [k for v, k in batch.sizes for _ in range(v)]
        copies.append((graph.values, [[node[j, v] for v in range(k)] for j, k in enumerate(values)]))
        for groups, members in copies:
            assert groups.count == len(groups.members.source) == groups.memberships.num_sources == len(members)
            assert len(groups.memberships.source) == groups.members.num_sources == len(node)
            expected = {(n, g) for g, group in enumerate(members) for n in group}
            assert edges_of(groups.members) == expected
            assert edges_of(groups.memberships) == {(g, n) for n, g in expected}


@each_collection
def test_the_rest_of_the_grouped_graph_is_the_binarized_one(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        whole, graph = binarize(batch), group_all(batch)
        assert torch.equal(graph.known, whole.known)
        assert (graph.node is None) == (whole.node is None)
        assert graph.node is None or (whole.node is not None and torch.equal(graph.node, whole.node))
        types = list(range(len(batch.constraint)))[-1::-2]
        few = group_nodes(batch, batch.grouped[1:], types, [0])
        assert len(few.groups) == max(0, len(batch.grouped) - 1)
        assert [edges_of(t) for t in few.constraint] == [edges_of(whole.constraint[i]) for i in types]
        assert [edges_of(t) for t in few.relation] == [edges_of(whole.relation[0])]


@each_collection
def test_padding_of_groups_stays_in_its_own_puzzle(name: str) -> None:
    """Wherever the puzzle has groups at all: whatever its states become, its neighbors in the batch do not hear of it."""
    puzzles = COLLECTIONS[name]
    padded = 0
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = group_all(batch)
        of_node = [b for b, (v, k) in enumerate(batch.sizes) for _ in range(v * k)]
        tables: list[tuple[Neighbors, list[int], list[int]]] = []  # with the puzzle of each row, and of each source
        for groups, copies in zip(batch.groups, graph.groups, strict=True):
            of_group = groups.puzzle.tolist()
            of_copy = [b for b in of_group for _ in range(batch.sizes[b][1])]
            tables += [
                (groups.members, of_group, batch.puzzle.tolist()),
                (groups.memberships, batch.puzzle.tolist(), of_group),
                (copies.members, of_copy, of_node),
                (copies.memberships, of_node, of_copy),
            ]
        tables += [
            (graph.values.members, batch.puzzle.tolist(), of_node),
            (graph.values.memberships, of_node, batch.puzzle.tolist()),
        ]
        for table, of_row, of_source in tables:
            if table.mask is None:
                continue
            for row, puzzle in enumerate(of_row):
                for source in table.source[row][~table.mask[row]].tolist():
                    padded += 1
                    if puzzle in of_source:
                        assert of_source[source] == puzzle
                    else:
                        assert not of_source or source < len(of_source)
    assert padded > 0 or name == "same size"  # which has no groups but those of values


def test_a_puzzle_without_variables_names_nothing_that_is_not_there() -> None:
    nobody, somebody = UNITS.ground(0, 5, {"team": Groups([[], []])}), UNITS.ground(2, 1, {"team": Groups([[1]])})
    puzzles = Puzzles([nobody, somebody], [np.zeros(c.num_variables, dtype=int) for c in (nobody, somebody)])
    for chosen, groups in (([0, 1], 11), ([1, 0], 11), ([1, 0, 1], 12)):
        (found,) = group_all(puzzles.batch(chosen)).groups
        assert found.count == groups
        assert len(edges_of(found.members)) == len(edges_of(found.memberships)) == chosen.count(1)


def test_one_set_of_groups_in_different_numbers_of_values() -> None:
    """The tables over variables are the same object: their copies for each value are not."""
    puzzles = Puzzles(
        [UNITS.ground(3, k, {"team": Groups([[0, 1], [1, 2]])}) for k in (2, 3)], [np.zeros(3, dtype=int)] * 2
    )
    for i in (0, 1, 0, 1):
        batch = puzzles.batch([i])
        assert batch.groups[0].members is puzzles.batch([1 - i]).groups[0].members
        graph = group_all(batch)
        assert graph.groups[0].count == 2 * (i + 2)
        assert graph.values.members.source.shape == (3, i + 2)


def test_tables_work_out_their_weights_in_the_precision_of_the_day() -> None:
    puzzles = Puzzles([UNITS.ground(3, 3, {"team": Groups([[0, 1]])})], [np.zeros(3, dtype=int)])
    assert group_all(puzzles.batch([0])).values.members.log_degree.dtype == torch.float32
    torch.set_default_dtype(torch.float64)
    try:
        assert group_all(puzzles.batch([0])).values.members.log_degree.dtype == torch.float64
    finally:
        torch.set_default_dtype(torch.float32)


def test_groups_asked_for_and_stated_in_pairs_are_refused() -> None:
    stated, paired, silent = (
        UNITS.ground(3, 3, facts) for facts in ({"club": Groups([[0, 1]])}, {"club": [(1, 2)]}, {"less": [(0, 1)]})
    )
    puzzles = Puzzles([stated, paired, silent], [np.zeros(3, dtype=int)] * 3)
    for chosen in ([1], [0, 1], [2, 1, 0]):
        with pytest.raises(OutgrowError) as error:
            group_nodes(puzzles.batch(chosen), ["club"], [], [])
        assert str(error.value) == "club is stated in pairs, and the model knows it in groups; state it as Groups(...)"
        assert group_nodes(puzzles.batch(chosen), [], [3], []).groups == ()  # its edges are there to be taken
    assert [g.count for g in group_nodes(puzzles.batch([2]), ["team", "club"], [], []).groups] == [0, 0]
    assert [g.count for g in group_nodes(puzzles.batch([2, 0]), ["club", "team"], [], []).groups] == [3, 0]


# ---- the multi-valued graphs


@each_collection
def test_every_edge_of_cmpg_and_rmpg(name: str) -> None:
    puzzles = COLLECTIONS[name]
    for chosen in every_batch(puzzles):
        batch = puzzles.batch(chosen)
        graph = multivalue(batch)
        count = batch.max_values
        assert graph.constraint is batch.constraint
        variables = [(b, j) for b, j in zip(batch.puzzle.tolist(), range(batch.num_variables), strict=True)]
        assigned = {(b * count + int(batch.givens[j]) - 1, j) for b, j in variables if batch.givens[j]}
        unassigned = {(b * count + v, j) for b, j in variables if not batch.givens[j] for v in range(batch.sizes[b][1])}
        assert edges_of(graph.assigned) == assigned
        assert edges_of(graph.unassigned) == unassigned
        assert graph.assigned.degree == 1
        for kind, table in zip(puzzles.schema.relation, graph.relation, strict=True):
            assert edges_of(table) == {
                (b * count + v, b * count + w) for b, i in enumerate(chosen) for v, w in held(puzzles.csps[i], kind)
            }
        for table in (graph.assigned, graph.unassigned, *graph.relation):
            assert table.num_sources == len(batch) * count
        assert all(len(table.source) == len(batch) * count for table in graph.relation)
        assert len(graph.assigned.source) == len(graph.unassigned.source) == batch.num_variables


# ---- the schema


def test_a_schema_is_the_same_at_every_size_and_survives_storing() -> None:
    for puzzles in COLLECTIONS.values():
        schemas = {Schema.of(csp) for csp in puzzles.csps}
        assert schemas == {puzzles.schema}
        stored = json.loads(json.dumps(puzzles.schema.as_json()))
        assert Schema.from_json(stored) == puzzles.schema
        assert Schema.from_json(stored).as_json() == stored == puzzles.schema.as_json()
        assert Schema.from_json(stored).groups == puzzles.schema.groups
        assert Schema.from_json(stored).complete == puzzles.schema.complete
        assert puzzles.schema.constraint == constraint_graph(puzzles.csps[0]).types
        assert puzzles.schema.relation == relation_graph(puzzles.csps[0]).types


def test_a_schema_knows_what_is_stated_in_groups() -> None:
    found = {name: (p.schema.groups, p.schema.complete) for name, p in COLLECTIONS.items()}
    assert found == {
        "coloring": ((), ("neq",)),
        "same size": ((), ("neq",)),
        "futoshiki": (("row", "col"), ("neq",)),
        "sudoku": (("nbr",), ("neq",)),
        "own": ((), ()),
        "groups": (("team", "club"), ("neq",)),
    }
    # Of one puzzle, of several, and of predicates that no constraint asks about.
    csps = COLLECTIONS["groups"].csps
    assert [Schema.of(csp).groups for csp in csps] == [
        (),
        ("team", "club"),
        ("team", "club"),
        ("team", "club"),
        ("team",),
    ]
    assert Schema.of(csps[0], csps[4]).groups == ("team",)
    assert Schema.of(csps[4], csps[0]).groups == ("team",)
    assert Schema.of(csps[0], csps[4], csps[1]).groups == ("team", "club")
    idle = LiftedCSP(["idle(2)", "tied(2)"], LIFTED.relations, ["tied(x, y) -> far(x, y)"])
    assert Schema.of(idle.ground(2, 2, {"idle": Groups([[0, 1]]), "tied": Groups([[0, 1]])})).groups == ("tied",)


def test_schemas_that_differ_in_groups_alone_are_the_same() -> None:
    """Models over edges see no difference: weights of theirs know nothing of groups."""
    stated, paired = (UNITS.ground(2, 3, {"team": facts}) for facts in (Groups([[0, 1]]), [(0, 1), (1, 0)]))
    assert Schema.of(stated).groups != Schema.of(paired).groups
    assert Schema.of(stated) == Schema.of(paired)
    assert hash(Schema.of(stated)) == hash(Schema.of(paired))
    assert Schema.of(stated) != COLLECTIONS["sudoku"].schema


def test_a_schema_from_before_there_were_groups_has_none() -> None:
    stored = {
        key: rows for key, rows in COLLECTIONS["groups"].schema.as_json().items() if key in ("constraint", "relation")
    }
    old = Schema.from_json(stored)
    assert old == COLLECTIONS["groups"].schema
    assert old.groups == old.complete == ()


def test_a_schema_says_what_it_holds() -> None:
    assert str(COLLECTIONS["own"].schema) == (
        "constraint edges tied, less, less reversed; relation edges lt, lt reversed, far"
    )


def test_puzzles_of_texts() -> None:
    puzzles = Puzzles.of_instances(parse("1.....3..4.....2\n.4.1..3..1..2.4."))
    assert len(puzzles) == 2
    assert puzzles.max_values == 4
    assert puzzles.num_variables.tolist() == [16, 16]
    assert puzzles.batch([1]).givens.tolist() == [0, 4, 0, 1, 0, 0, 3, 0, 0, 1, 0, 0, 2, 0, 4, 0]
