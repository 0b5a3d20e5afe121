"""Puzzles side by side: the constraint graphs of many as one, on a device."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outgrow.csp import GroundCSP, constraint_graph, relation_graph
from outgrow.data import Dataset, Examples
from outgrow.errors import OutgrowError
from outgrow.graphs.schema import Schema
from outgrow.kernels import Neighbors
from outgrow.puzzles import Instance

__all__ = ["Batch", "GroupTables", "Puzzles"]

Ints = npt.NDArray[np.int64]
# Degrees that differ between variables are padded to a multiple of this, so that batches come in few shapes.
_ROUND = 4
# Tables of one kind that are kept: those of boards come again, size by size.
_RECENT = 16


@dataclass(frozen=True, eq=False)
class GroupTables:
    """The G groups of one predicate in all puzzles of a batch.

    Attributes:
        members: (G, n) the variables of each group.
        memberships: (V, D) the groups of each variable.
        puzzle: (G,) the puzzle each group belongs to.
    """

    members: Neighbors
    memberships: Neighbors
    puzzle: Tensor


@dataclass(frozen=True, eq=False)
class Batch:
    """B puzzles over V variables in all. No variable is padded: each puzzle's follow those of the one before.

    Attributes:
        indices: which puzzles of the collection these are.
        puzzle: (V,) the puzzle each variable belongs to.
        counts: (B,) the variables of each puzzle.
        num_values: (B,) K of each puzzle.
        givens: (V,) values 1..K, 0 for unassigned.
        solutions: (V,) or None.
        constraint: in-neighbors among variables, one for each type of constraint edge.
        relation: in-neighbors among the values 1..max K (counted from 0), one for each type of relation edge; smaller puzzles use its corner.
        groups: one for each predicate that is stated in groups.
        sizes: number of variables and of values of each puzzle, on the host.
        grouped: the predicates of `groups`, in that order.
        paired: the predicates that some of these puzzles state in pairs.
    """

    indices: Ints
    puzzle: Tensor
    counts: Tensor
    num_values: Tensor
    givens: Tensor
    solutions: Tensor | None
    constraint: tuple[Neighbors, ...]
    relation: tuple[Neighbors, ...]
    groups: tuple[GroupTables, ...]
    sizes: tuple[tuple[int, int], ...]
    grouped: tuple[str, ...]
    paired: frozenset[str]

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def num_variables(self) -> int:
        """V."""
        return len(self.puzzle)

    @property
    def node_puzzle(self) -> Tensor:
        """The puzzle each (variable, value) belongs to."""
        total = sum(variables * values for variables, values in self.sizes)
        puzzles = torch.arange(len(self), device=self.puzzle.device)
        return puzzles.repeat_interleave(self.counts * self.num_values, output_size=total)

    @cached_property
    def max_values(self) -> int:
        """The largest K."""
        return max(k for _, k in self.sizes)

    @cached_property
    def same_size(self) -> bool:
        """Whether all puzzles have the same K."""
        return all(k == self.max_values for _, k in self.sizes)

    @cached_property
    def exists(self) -> Tensor:
        """(B, K) bool: the values each puzzle has."""
        return torch.arange(self.max_values, device=self.puzzle.device) < self.num_values.unsqueeze(1)

    @cached_property
    def allowed(self) -> Tensor:
        """(V, K) bool: the values each variable can take."""
        return self.exists[self.puzzle]

    def split(self, flat: npt.NDArray[np.integer]) -> list[npt.NDArray[np.integer]]:
        """An array (V,) cut into one for each puzzle."""
        return np.split(flat, np.cumsum([v for v, _ in self.sizes])[:-1])


@dataclass(frozen=True, eq=False)
class _Edges:
    """Edges of one type in every puzzle: in-neighbors by destination, equal graphs stored once.

    `graph` (P,) names the stored graph of each puzzle; graph g has count[g] destinations, from first[g] on, each with its in-neighbors
    at start..start + degree of `sources`, counted within the puzzle. `constant`: puzzles of as many variables and values have the same graph.
    """

    graph: Ints
    first: Ints
    count: Ints
    start: Ints
    degree: Ints
    sources: Ints
    constant: bool


class Puzzles:
    """A collection of puzzles of one lifted problem, ready to be taken in batches of any mixture.

    >>> from outgrow.puzzles import parse
    >>> puzzles = Puzzles.of_instances(parse("1.....3..4.....2\\n.4.1..3..1..2.4."))
    >>> batch = puzzles.batch([1, 0, 1])
    >>> len(batch), batch.num_variables, batch.max_values
    (3, 48, 4)
    """

    def __init__(
        self,
        csps: Sequence[GroundCSP],
        givens: Sequence[npt.NDArray[np.integer]],
        solutions: Sequence[npt.NDArray[np.integer]] | None = None,
    ) -> None:
        if not csps:
            raise OutgrowError("no puzzles")
        self.csps = list(csps)
        self.schema = Schema.of(csps[0], *{id(c): c for c in csps}.values())
        self._num_variables = np.array([c.num_variables for c in csps], dtype=np.int64)
        self._num_values = np.array([c.num_values for c in csps], dtype=np.int64)
        self._first = np.concatenate([[0], np.cumsum(self._num_variables)])
        self._givens = np.concatenate([np.asarray(g, dtype=np.int64) for g in givens])
        self._solutions = None
        if solutions is not None:
            self._solutions = np.concatenate([np.asarray(s, dtype=np.int64) for s in solutions])
        for arrays in (givens, solutions or givens):
            if [len(a) for a in arrays] != self._num_variables.tolist():
                raise ValueError("givens or solutions do not fit the puzzles' variables")
        self._edges, self._members, self._memberships = _store(self.csps, self.schema)
        self._paired = {
            name: np.array([len(c.pairs[name]) > 0 and not c.groups[name] for c in csps])
            for name in {kind.name for kind in self.schema.constraint}
        }
        # The tables of the last batches: those of fixed boards are the same in every batch of as many puzzles.
        self._recent: dict[tuple[str, int], dict[bytes, Neighbors]] = {}

    @classmethod
    def of_instances(cls, instances: Iterable[Instance]) -> Puzzles:
        """From puzzles as `outgrow.parse` gives them."""
        found = list(instances)
        return cls([i.csp for i in found], [i.givens for i in found])

    @classmethod
    def of_datasets(cls, datasets: Sequence[Dataset | Examples], form: str, limit: int | None = None) -> Puzzles:
        """Every puzzle of the sets (the first `limit` of each), in that form, with its solution."""
        chosen = [(d, i) for d in datasets for i in range(min(len(d), limit or len(d)))]
        instances = [d.instance(i, form=form) for d, i in chosen]
        return cls([i.csp for i in instances], [i.givens for i in instances], [d.solution(i) for d, i in chosen])

    def __len__(self) -> int:
        return len(self.csps)

    @property
    def num_variables(self) -> Ints:
        """(P,)."""
        return self._num_variables

    @property
    def num_values(self) -> Ints:
        """(P,)."""
        return self._num_values

    @property
    def max_values(self) -> int:
        """The largest K."""
        return int(self._num_values.max())

    def batch(self, indices: Sequence[int] | Ints, device: torch.device | str = "cpu") -> Batch:
        """These puzzles side by side."""
        chosen = np.asarray(indices, dtype=np.int64)
        counts = self._num_variables[chosen]
        variables = ranges(self._first[chosen], counts)
        values = self._num_values[chosen]
        largest = self.csps[int(chosen[np.argmax(values)])]
        return Batch(
            indices=chosen,
            puzzle=_tensor(np.repeat(np.arange(len(chosen)), counts), device),
            counts=_tensor(counts, device),
            num_values=_tensor(values, device),
            givens=_tensor(self._givens[variables], device),
            solutions=None if self._solutions is None else _tensor(self._solutions[variables], device),
            constraint=tuple(
                self._neighbors(("edges", i), edges, chosen, counts, device) for i, edges in enumerate(self._edges)
            ),
            relation=self._relations(largest, device),
            groups=tuple(self._groups(i, chosen, counts, device) for i in range(len(self._members))),
            sizes=tuple(zip(counts.tolist(), values.tolist(), strict=True)),
            grouped=self.schema.groups,
            paired=frozenset(name for name, where in self._paired.items() if where[chosen].any()),
        )

    def flat(self, indices: Sequence[int] | Ints) -> tuple[Ints, Ints | None]:
        """The givens (V,) of these puzzles, one after the other, and their solutions."""
        chosen = np.asarray(indices, dtype=np.int64)
        variables = ranges(self._first[chosen], self._num_variables[chosen])
        return self._givens[variables], None if self._solutions is None else self._solutions[variables]

    def portions(self, nodes: int, chosen: Sequence[int] | None = None) -> Iterator[list[int]]:
        """All puzzles, or those chosen, in order, as many at a time as have at most so many (variable, value) nodes."""
        part: list[int] = []
        total = 0
        for i in range(len(self)) if chosen is None else chosen:
            cost = int(self._num_variables[i] * self._num_values[i])
            if part and total + cost > nodes:
                yield part
                part, total = [], 0
            part.append(i)
            total += cost
        yield part

    def _neighbors(
        self, name: tuple[str, int], edges: _Edges, chosen: Ints, counts: Ints, device: torch.device | str
    ) -> Neighbors:
        """One type's table; `counts` (B,) are the sources of each puzzle."""
        graphs = edges.graph[chosen]

        def make() -> Neighbors:
            rows = ranges(edges.first[graphs], edges.count[graphs])
            offsets = np.repeat(np.cumsum(counts) - counts, edges.count[graphs])
            own = np.arange(len(rows)) if name[0] == "edges" else offsets
            total = int(counts.sum())
            return _pad(
                edges.start[rows], edges.degree[rows], edges.sources, offsets, own, total, device, edges.constant
            )

        return self._keep(name, graphs.tobytes() + str(device).encode(), make)

    def _keep(self, name: tuple[str, int], key: bytes, make: Callable[[], Neighbors]) -> Neighbors:
        recent = self._recent.setdefault(name, {})
        found = recent.pop(key, None)
        recent[key] = make() if found is None else found
        if len(recent) > _RECENT:
            del recent[next(iter(recent))]
        return recent[key]

    def _groups(self, number: int, chosen: Ints, counts: Ints, device: torch.device | str) -> GroupTables:
        members, memberships = self._members[number], self._memberships[number]
        groups = members.count[members.graph[chosen]]  # (B,)
        return GroupTables(
            self._neighbors(("members", number), members, chosen, counts, device),
            self._neighbors(("memberships", number), memberships, chosen, groups, device),
            _tensor(np.repeat(np.arange(len(chosen)), groups), device),
        )

    def _relations(self, csp: GroundCSP, device: torch.device | str) -> tuple[Neighbors, ...]:
        def make(edges: npt.NDArray[np.integer]) -> Neighbors:
            start, degree, sources = _by_destination(edges, csp.num_values)
            own = np.arange(csp.num_values)
            return _pad(start, degree, sources, 0 * own, own, csp.num_values, device, True, multiple=1)

        key = f"{csp.num_values} {device}".encode()
        return tuple(
            self._keep(("relation", number), key, lambda edges=edges: make(edges))
            for number, edges in enumerate(relation_graph(csp).edges.values())
        )


def _store(csps: Sequence[GroundCSP], schema: Schema) -> tuple[list[_Edges], list[_Edges], list[_Edges]]:
    """Constraint edges by type; by predicate stated in groups, from variables to groups and from groups to variables."""
    by_csp: dict[int, int] = {}
    of_puzzle = np.array([by_csp.setdefault(id(c), len(by_csp)) for c in csps], dtype=np.int64)
    distinct: dict[int, GroundCSP] = {id(c): c for c in csps}
    constraint = [_Store() for _ in schema.constraint]
    members, memberships = ([_Store() for _ in schema.groups] for _ in range(2))
    for csp in (distinct[key] for key in by_csp):
        graph = constraint_graph(csp)
        if graph.types != schema.constraint:
            raise ValueError(f"puzzles of different problems: {graph.types} and {schema.constraint}")
        for store, edges in zip(constraint, graph.edges.values(), strict=True):
            store.add(edges, csp.num_variables, csp.num_variables)
        for name, there, back in zip(schema.groups, members, memberships, strict=True):
            groups = csp.groups[name]
            sizes = [len(group) for group in groups]
            edges = np.stack(
                [np.concatenate([np.zeros(0, np.int32), *groups]), np.repeat(np.arange(len(groups)), sizes)]
            )
            there.add(edges, len(groups), csp.num_variables)
            back.add(edges[::-1], csp.num_variables, len(groups))
    sizes = np.array([(distinct[key].num_variables, distinct[key].num_values) for key in by_csp], dtype=np.int64)
    return tuple([store.edges(of_puzzle, sizes) for store in stores] for stores in (constraint, members, memberships))  # pyright: ignore[reportReturnType]


class _Store:
    """Graphs of one type, each once."""

    def __init__(self) -> None:
        self._known: dict[bytes, int] = {}
        self._chosen: list[int] = []
        self._tables: list[tuple[Ints, Ints, Ints]] = []

    def add(self, edges: npt.NDArray[np.integer], destinations: int, sources: int) -> None:
        """Edges (2, E) of the next puzzle."""
        key = sources.to_bytes(8, "little") + destinations.to_bytes(8, "little") + edges.tobytes()
        if key not in self._known:
            self._known[key] = len(self._tables)
            self._tables.append(_by_destination(edges, destinations))
        self._chosen.append(self._known[key])

    def edges(self, of_puzzle: Ints, sizes: Ints) -> _Edges:
        """All of them; puzzle i is the one added as number of_puzzle[i], and has sizes[of_puzzle[i]] variables and values."""
        chosen = np.array(self._chosen, dtype=np.int64)
        count = np.array([len(degree) for _, degree, _ in self._tables], dtype=np.int64)
        lengths = np.array([len(sources) for _, _, sources in self._tables], dtype=np.int64)
        begin = np.cumsum(lengths) - lengths
        return _Edges(
            graph=chosen[of_puzzle],
            first=np.cumsum(count) - count,
            count=count,
            start=np.concatenate([start + b for (start, _, _), b in zip(self._tables, begin, strict=True)]),
            degree=np.concatenate([degree for _, degree, _ in self._tables]),
            sources=np.concatenate([sources for _, _, sources in self._tables]),
            constant=len(np.unique(sizes, axis=0)) == len(np.unique(np.column_stack([sizes, chosen]), axis=0)),
        )


def _by_destination(edges: npt.NDArray[np.integer], nodes: int) -> tuple[Ints, Ints, Ints]:
    """Edges (2, E) as start (N,), degree (N,) and sources (E,), in order of destination, then source."""
    source, destination = edges.astype(np.int64)
    order = np.lexsort((source, destination))
    degree = np.bincount(destination, minlength=nodes)
    return np.cumsum(degree) - degree, degree, source[order]


def _pad(
    start: Ints,
    degree: Ints,
    sources: Ints,
    offsets: Ints,
    own: Ints,
    num_sources: int,
    device: torch.device | str,
    constant: bool,
    multiple: int = _ROUND,
) -> Neighbors:
    """The table of in-neighbors, `offsets` (N,) being each row's first source. Padding names the row's `own` (N,): itself where rows
    are sources, and else the first one of its puzzle."""
    width = int(degree.max(initial=0))
    regular = bool((degree == width).all()) and width > 0
    if not regular:
        width = -(-max(width, 1) // multiple) * multiple
    slots = np.arange(width)
    mask = slots < degree[:, None]
    places = start[:, None] + slots
    # A puzzle without sources has none of its own to name: the last one of all will do.
    table = np.minimum(own, max(num_sources - 1, 0))[:, None].repeat(width, axis=1)
    table[mask] = sources[places[mask]].reshape(-1) + np.broadcast_to(offsets[:, None], mask.shape)[mask]
    return Neighbors(_tensor(table, device), None if regular else _tensor(mask, device), num_sources, constant)


def ranges(starts: Ints, counts: Ints) -> Ints:
    """starts[0], starts[0] + 1, ... counts[0] of them, then those from starts[1], and so on."""
    ends = np.cumsum(counts)
    return np.arange(ends[-1] if len(ends) else 0) + np.repeat(starts - (ends - counts), counts)


def _tensor(array: npt.NDArray[np.generic], device: torch.device | str) -> Tensor:
    tensor = torch.from_numpy(np.ascontiguousarray(array))
    return tensor if str(device) == "cpu" else tensor.to(device, non_blocking=True)
