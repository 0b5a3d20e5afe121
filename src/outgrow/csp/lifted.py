"""A problem stated once, for any number of variables and values (section 3 of the paper)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from outgrow.csp.ground import GroundCSP

__all__ = ["Constraint", "Groups", "LiftedCSP", "Relation"]

Relation = Callable[[int, int], bool]

_PREDICATE = re.compile(r"\s*([A-Za-z_]\w*)\s*\(\s*(\d+)\s*\)\s*")
_CONSTRAINT = re.compile(r"\s*(\w+)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*->\s*(\w+)\s*\(\s*(\w+)\s*,\s*(\w+)\s*\)\s*")
# A relation is called symmetric (or complete) if it is for the values up to this one, or to K, if larger: so the edge types of a problem
# do not depend on how many values a small instance has.
_PROBE = 16


@dataclass(frozen=True)
class Groups:
    """Facts as groups: a group of variables stands for all ordered pairs of its members.

    >>> Groups([[0, 1, 2], [3, 4]]).members
    ((0, 1, 2), (3, 4))
    """

    members: tuple[tuple[int, ...], ...]

    def __init__(self, members: Iterable[Iterable[int]]) -> None:
        object.__setattr__(self, "members", tuple(tuple(int(i) for i in m) for m in members))


@dataclass(frozen=True)
class Constraint:
    """`predicate(x, y) -> relation(x, y)`, or `relation(y, x)` where `swapped`."""

    predicate: str
    relation: str
    swapped: bool = False

    def __str__(self) -> str:
        arguments = "y, x" if self.swapped else "x, y"
        return f"{self.predicate}(x, y) -> {self.relation}({arguments})"


@dataclass(frozen=True)
class LiftedCSP:
    """Predicates over variables, relations over values, and the constraints that tie them together.

    A relation is a function of two values, numbered from 1. All predicates are binary: the `(2)` is written out so that unary
    ones can join them one day.

    >>> sudoku = LiftedCSP(
    ...     predicates=["nbr(2)"],
    ...     relations={"neq": lambda a, b: a != b},
    ...     constraints=["nbr(x, y) -> neq(x, y)"],
    ... )
    >>> csp = sudoku.ground(variables=2, values=2, facts={"nbr": [(0, 1), (1, 0)]})
    >>> csp.num_variables, csp.num_values
    (2, 2)
    """

    predicates: Sequence[str]
    relations: Mapping[str, Relation]
    constraints: Sequence[str | Constraint]
    _tables: dict[tuple[str, int], npt.NDArray[np.bool_]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    def __post_init__(self) -> None:
        names = tuple(_parse_predicate(text) for text in self.predicates)
        if len(set(names)) != len(names):
            raise ValueError(f"a predicate is declared twice: {', '.join(self.predicates)}")
        constraints = tuple(c if isinstance(c, Constraint) else _parse_constraint(c) for c in self.constraints)
        for c in constraints:
            if c.predicate not in names:
                raise ValueError(f"{c}: no predicate {c.predicate!r}; there is {', '.join(names)}")
            if c.relation not in self.relations:
                raise ValueError(f"{c}: no relation {c.relation!r}; there is {', '.join(self.relations)}")
        object.__setattr__(self, "predicates", names)
        object.__setattr__(self, "constraints", constraints)
        object.__setattr__(self, "relations", dict(self.relations))

    @property
    def parsed_constraints(self) -> tuple[Constraint, ...]:
        """The constraints in the order they were stated."""
        return tuple(c for c in self.constraints if isinstance(c, Constraint))

    def table(self, relation: str, values: int) -> npt.NDArray[np.bool_]:
        """The relation over `values` values: (K, K), entry [a - 1, b - 1] says whether it holds for a, b."""
        key = (relation, values)
        if key not in self._tables:
            holds = self.relations[relation]
            table = np.array(
                [[bool(holds(a, b)) for b in range(1, values + 1)] for a in range(1, values + 1)],
                dtype=np.bool_,
            ).reshape(values, values)
            table.setflags(write=False)
            self._tables[key] = table
        return self._tables[key]

    def is_symmetric(self, relation: str, values: int) -> bool:
        """Whether the relation's two arguments may change places."""
        table = self._probe(relation, values)
        return bool(np.array_equal(table, table.T))

    def is_complete(self, relation: str, values: int) -> bool:
        """Whether the relation holds for any two different values."""
        table = self._probe(relation, values)
        return bool(table[~np.eye(len(table), dtype=np.bool_)].all())

    def _probe(self, relation: str, values: int) -> npt.NDArray[np.bool_]:
        try:
            return self.table(relation, max(values, _PROBE))
        except Exception:  # a relation of one's own that is only defined for the values at hand
            return self.table(relation, values)

    def ground(
        self,
        variables: int,
        values: int,
        facts: Mapping[str, Groups | Iterable[Sequence[int]] | npt.NDArray[np.integer]],
    ) -> GroundCSP:
        """The CSP over `variables` variables (numbered from 0) and `values` values (numbered from 1).

        `facts` maps a predicate to ordered pairs, an (E, 2) array of them, or `Groups`; a predicate without an entry holds nowhere.
        """
        from outgrow.csp.ground import ground

        return ground(self, variables, values, facts)


def _parse_predicate(text: str) -> str:
    match = _PREDICATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no predicate; write its name and arity, as in 'nbr(2)'")
    name, arity = match.groups()
    if arity != "2":
        raise ValueError(f"{text!r}: only binary predicates are supported, as in '{name}(2)'")
    return name


def _parse_constraint(text: str) -> Constraint:
    match = _CONSTRAINT.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is no constraint; write 'nbr(x, y) -> neq(x, y)'")
    predicate, x, y, relation, a, b = match.groups()
    if x == y:
        raise ValueError(f"{text!r}: the two variables of {predicate} must differ")
    if {a, b} != {x, y}:
        raise ValueError(f"{text!r}: {relation} must take the variables {x} and {y}, each once")
    return Constraint(predicate, relation, swapped=(a, b) == (y, x))
