"""The edge types a model is built for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from outgrow.csp import EdgeType, GroundCSP, constraint_graph, relation_graph

__all__ = ["Schema"]


@dataclass(frozen=True)
class Schema:
    """The types of constraint edges (between variables) and of relation edges (between values), in order.

    It belongs to the lifted problem: puzzles of every size have the same.

    >>> from outgrow.puzzles import parse_one
    >>> print(Schema.of(parse_one("1.....3..4.....2").csp))
    constraint edges row, col, box; relation edges neq
    """

    constraint: tuple[EdgeType, ...]
    relation: tuple[EdgeType, ...]
    # Views of the same facts: two schemas with the same edges are the same for every model that passes messages over edges.
    groups: tuple[str, ...] = field(default=(), compare=False)
    complete: tuple[str, ...] = field(default=(), compare=False)

    @classmethod
    def of(cls, csp: GroundCSP, *others: GroundCSP) -> Schema:
        """Of a puzzle, or of several of one problem: some may have no facts of a predicate that others state in groups.

        `groups` are the predicates that are stated in groups, `complete` the relations that hold for any two different values.
        """
        constraint = constraint_graph(csp).types
        used = {t.name for t in constraint}  # facts that no constraint asks about are no edges either
        return cls(
            constraint,
            relation_graph(csp).types,
            tuple(p for p in csp.groups if p in used and any(c.groups.get(p) for c in (csp, *others))),
            tuple(name for name in csp.lifted.relations if csp.lifted.is_complete(name, csp.num_values)),
        )

    def as_json(self) -> dict[str, list[Any]]:
        return {
            "constraint": [[t.name, t.relation, t.reverse] for t in self.constraint],
            "relation": [[t.name, t.relation, t.reverse] for t in self.relation],
            "groups": list(self.groups),
            "complete": list(self.complete),
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Schema:
        def types(rows: list[list[Any]]) -> tuple[EdgeType, ...]:
            return tuple(EdgeType(str(name), str(relation), bool(reverse)) for name, relation, reverse in rows)

        def names(key: str) -> tuple[str, ...]:
            return tuple(map(str, stored.get(key, ())))  # older files have none

        return cls(types(stored["constraint"]), types(stored["relation"]), names("groups"), names("complete"))

    def __str__(self) -> str:
        constraint, relation = (", ".join(map(str, types)) for types in (self.constraint, self.relation))
        return f"constraint edges {constraint}; relation edges {relation}"
