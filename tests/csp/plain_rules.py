"""CSPs stated and judged with plain Python loops: what the tests compare the library with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import permutations, product

from hypothesis import strategies as st

from outgrow.csp import GroundCSP, Groups, LiftedCSP

Pair = tuple[int, int]
Table = tuple[tuple[bool, ...], ...]


@dataclass(frozen=True)
class PlainCSP:
    """A ground CSP of one predicate a constraint or more, with truth tables for relations.

    Attributes:
        tables: relation -> K rows of K truths.
        constraints: (predicate, relation, whether the relation's arguments are swapped).
        groups: predicate -> groups; stands beside `pairs`, each predicate is in one of them.
    """

    variables: int
    values: int
    tables: dict[str, Table]
    constraints: tuple[tuple[str, str, bool], ...]
    pairs: dict[str, tuple[Pair, ...]]
    groups: dict[str, tuple[tuple[int, ...], ...]]

    def ground(self) -> GroundCSP:
        """The same CSP, stated to the library."""
        # A table goes on periodically, so that it can be asked about any value.
        relations = {
            name: lambda a, b, t=table: t[(a - 1) % len(t)][(b - 1) % len(t)] for name, table in self.tables.items()
        }
        lifted = LiftedCSP(
            predicates=[f"{name}(2)" for name in (*self.pairs, *self.groups)],
            relations=relations,
            constraints=[self.text(c) for c in self.constraints],
        )
        facts = {name: Groups(members) for name, members in self.groups.items()}
        return lifted.ground(self.variables, self.values, {**self.pairs, **facts})

    def text(self, constraint: tuple[str, str, bool]) -> str:
        predicate, relation, swapped = constraint
        return f"{predicate}(x, y) -> {relation}({'y, x' if swapped else 'x, y'})"

    def facts(self, predicate: str) -> set[Pair]:
        """The ordered pairs that the predicate holds for."""
        if predicate in self.pairs:
            return set(self.pairs[predicate])
        return {pair for group in self.groups[predicate] for pair in permutations(group, 2)}

    def symmetric(self, relation: str) -> bool:
        table = self.tables[relation]
        return all(table[a][b] == table[b][a] for a in range(self.values) for b in range(self.values))

    def allows(self, constraint: tuple[str, str, bool], a: int, b: int) -> bool:
        """Whether the constraint holds between a variable x of value a and a variable y of value b."""
        _, relation, swapped = constraint
        return self.tables[relation][b - 1][a - 1] if swapped else self.tables[relation][a - 1][b - 1]

    def broken(self, assignment: Sequence[int]) -> list[tuple[str, int, int]]:
        """The broken ground constraints; either direction of a symmetric one is told as the lower variable first."""
        found: set[tuple[str, int, int]] = set()
        for c in self.constraints:
            for x, y in self.facts(c[0]):
                a, b = assignment[x], assignment[y]
                if a and b and not self.allows(c, a, b):
                    first, second = (min(x, y), max(x, y)) if self.symmetric(c[1]) else (x, y)
                    found.add((self.text(c), first, second))
        return sorted(found)

    def solutions(self) -> Iterator[tuple[int, ...]]:
        """Every complete assignment that breaks nothing, found by trying all K^V."""
        for assignment in product(range(1, self.values + 1), repeat=self.variables):
            if not self.broken(assignment):
                yield assignment


@st.composite
def plain_csps(draw: st.DrawFn, max_variables: int = 5, max_values: int = 4, swaps: bool = True) -> PlainCSP:
    """Small CSPs of one to three constraints; relations are random tables that forbid something, or usual ones."""
    variables = draw(st.integers(1, max_variables))
    values = draw(st.integers(1, max_values))
    numbers = range(1, values + 1)
    usual: list[Table] = [
        tuple(tuple(holds(a, b) for b in numbers) for a in numbers)
        for holds in (int.__ne__, int.__lt__, lambda a, b: abs(a - b) != 1, lambda a, b: a == 2 * b)
    ]
    row = st.tuples(*[st.booleans()] * values)
    table = st.one_of(st.sampled_from(usual), st.tuples(*[row] * values))
    forbidding = table.filter(lambda rows: not all(map(all, rows)))
    tables = {name: draw(forbidding) for name in ("r", "s")}
    variable = st.integers(0, variables - 1)
    pair = st.tuples(variable, variable).filter(lambda p: p[0] != p[1])
    pairs = {"p": tuple(draw(st.lists(pair, max_size=6))) if variables > 1 else ()}
    group = st.lists(variable, unique=True, max_size=variables).map(tuple)
    groups = {"g": tuple(draw(st.lists(group, max_size=2)))}
    constraint = st.tuples(
        st.sampled_from(["p", "g"]), st.sampled_from(["r", "s"]), st.booleans() if swaps else st.just(False)
    )
    constraints = tuple(draw(st.lists(constraint, min_size=1, max_size=3, unique=True)))
    return PlainCSP(variables, values, tables, constraints, pairs, groups)


@dataclass(frozen=True)
class Rules:
    """What a puzzle asks for: groups of variables that must all differ, and pairs in order, the smaller first."""

    variables: int
    values: int
    different: tuple[tuple[int, ...], ...]
    less: tuple[Pair, ...] = ()

    def hold(self, assignment: Sequence[int]) -> bool:
        """Whether this is a solution."""
        return (
            len(assignment) == self.variables
            and all(1 <= v <= self.values for v in assignment)
            and all(len({assignment[i] for i in group}) == len(group) for group in self.different)
            and all(assignment[x] < assignment[y] for x, y in self.less)
        )


def strike(rules: Rules, options: Sequence[set[int]]) -> list[set[int]] | None:
    """What singles leave of the values that each cell may have; None if a cell or a value is left without a place."""
    options = [set(o) for o in options]
    while True:
        before = [set(o) for o in options]
        for x, y in rules.less:
            options[x] = {v for v in options[x] if v < max(options[y], default=0)}
            options[y] = {v for v in options[y] if v > min(options[x], default=rules.values)}
        for group in rules.different:
            for i in group:
                if len(options[i]) == 1:
                    for j in group:
                        if j != i:
                            options[j] -= options[i]
            for value in range(1, rules.values + 1):
                places = [i for i in group if value in options[i]]
                if not places:
                    return None
                if len(places) == 1:
                    options[places[0]] &= {value}
        if not all(options):
            return None
        if options == before:
            return options


def latin_rules(size: int, less: Sequence[Pair] = ()) -> Rules:
    """Futoshiki: rows and columns of a square, and its signs."""
    lines = range(size)
    rows = [tuple(size * r + c for c in lines) for r in lines]
    columns = [tuple(size * r + c for r in lines) for c in lines]
    return Rules(size * size, size, (*rows, *columns), tuple(less))


def sudoku_rules(height: int, width: int) -> Rules:
    """Rows, columns, and boxes of `height` rows and `width` columns."""
    size = height * width
    boxes: dict[Pair, list[int]] = {}
    for r in range(size):
        for c in range(size):
            boxes.setdefault((r // height, c // width), []).append(size * r + c)
    latin = latin_rules(size)
    return Rules(size * size, size, latin.different + tuple(map(tuple, boxes.values())))


def coloring_rules(nodes: int, colors: int, edges: Sequence[Pair]) -> Rules:
    return Rules(nodes, colors, tuple(edges))
