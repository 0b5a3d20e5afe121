"""The two typed directed graphs of the paper's section 3: over variables, and over values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outgrow.csp.ground import GroundCSP

__all__ = ["EdgeType", "TypedGraph", "constraint_graph", "relation_graph"]


@dataclass(frozen=True)
class EdgeType:
    """One kind of edge.

    Attributes:
        name: the predicate (constraint graph) or the relation (relation graph).
        relation: the value relation behind it; edges of both graphs that share it may share weights.
        reverse: edges against the direction of the relation, kept as a type of their own where the relation
            is not symmetric (Futoshiki's `less` read from the larger cell).
    """

    name: str
    relation: str
    reverse: bool = False

    def __str__(self) -> str:
        return f"{self.name} reversed" if self.reverse else self.name


@dataclass(frozen=True, eq=False)
class TypedGraph:
    """Directed edges by type: `edges[t]` is (2, E), sources above destinations, without repeats."""

    num_nodes: int
    edges: Mapping[EdgeType, npt.NDArray[np.int32]]

    @property
    def types(self) -> tuple[EdgeType, ...]:
        return tuple(self.edges)

    @property
    def num_edges(self) -> int:
        return sum(e.shape[1] for e in self.edges.values())


def constraint_graph(csp: GroundCSP) -> TypedGraph:
    """Nodes are variables; an edge for every pair that stands together in a ground constraint.

    A symmetric relation gives one type, with both directions of every fact; any other gives two,
    the second reversed.
    """
    edges: dict[EdgeType, npt.NDArray[np.int32]] = {}
    for c in csp.constraints:
        stated = csp.pairs[c.predicate].T
        forward = stated[::-1] if c.swapped else stated  # an edge (a, b): the relation holds for the values of a and b
        if csp.lifted.is_symmetric(c.relation, csp.num_values):
            both = np.concatenate([forward, forward[::-1]], axis=1)
            _add(edges, EdgeType(c.predicate, c.relation), both)
        else:
            _add(edges, EdgeType(c.predicate, c.relation), forward)
            _add(edges, EdgeType(c.predicate, c.relation, reverse=True), forward[::-1])
    return TypedGraph(csp.num_variables, edges)


def relation_graph(csp: GroundCSP) -> TypedGraph:
    """Nodes are values (node l is value l + 1); an edge (l, l') of type r wherever r holds for two different values."""
    edges: dict[EdgeType, npt.NDArray[np.int32]] = {}
    for relation in csp.lifted.relations:
        table = csp.lifted.table(relation, csp.num_values)
        forward = np.stack(np.nonzero(table & ~np.eye(csp.num_values, dtype=bool)))
        _add(edges, EdgeType(relation, relation), forward)
        if not csp.lifted.is_symmetric(relation, csp.num_values):
            _add(edges, EdgeType(relation, relation, reverse=True), forward[::-1])
    return TypedGraph(csp.num_values, edges)


def _add(edges: dict[EdgeType, npt.NDArray[np.int32]], kind: EdgeType, new: npt.NDArray[np.integer]) -> None:
    if kind in edges:  # two constraints over one predicate and relation: one set of edges
        new = np.concatenate([edges[kind], new], axis=1)
    # One sort of a combined key: several times faster than np.unique(axis=1).
    width = int(new.max(initial=0)) + 1
    keys = np.unique(new[0].astype(np.int64) * width + new[1])
    edges[kind] = np.stack([keys // width, keys % width]).astype(np.int32)
