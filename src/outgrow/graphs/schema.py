"""The edge types a model is built for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
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

    @classmethod
    def of(cls, csp: GroundCSP) -> Schema:
        return cls(constraint_graph(csp).types, relation_graph(csp).types)

    def as_json(self) -> dict[str, list[list[Any]]]:
        return {
            "constraint": [[t.name, t.relation, t.reverse] for t in self.constraint],
            "relation": [[t.name, t.relation, t.reverse] for t in self.relation],
        }

    @classmethod
    def from_json(cls, stored: Mapping[str, Any]) -> Schema:
        def types(rows: list[list[Any]]) -> tuple[EdgeType, ...]:
            return tuple(EdgeType(str(name), str(relation), bool(reverse)) for name, relation, reverse in rows)

        return cls(types(stored["constraint"]), types(stored["relation"]))

    def __str__(self) -> str:
        constraint, relation = (", ".join(map(str, types)) for types in (self.constraint, self.relation))
        return f"constraint edges {constraint}; relation edges {relation}"
