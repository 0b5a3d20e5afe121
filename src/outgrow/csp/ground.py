"""A lifted CSP over given variables, values and facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from outgrow.csp.lifted import Constraint, Groups, LiftedCSP

__all__ = ["GroundCSP", "ground"]

_MOST_VALUES = 2**15 - 1  # assignments are int16


@dataclass(frozen=True, eq=False)
class GroundCSP:
    """V variables, K values and the facts in both views.

    An assignment is an integer array (V,) of values 1..K, with 0 for a variable that has none.

    Attributes:
        lifted: the problem this is an instance of.
        num_variables: V.
        num_values: K.
        pairs: predicate -> (E, 2), every ordered pair it holds for: sorted, each once.
        groups: predicate -> the groups it was stated with (none where it was stated in pairs).
    """

    lifted: LiftedCSP
    num_variables: int
    num_values: int
    pairs: Mapping[str, npt.NDArray[np.int32]]
    groups: Mapping[str, tuple[npt.NDArray[np.int32], ...]]

    @property
    def constraints(self) -> tuple[Constraint, ...]:
        return self.lifted.parsed_constraints

    def table(self, constraint: Constraint) -> npt.NDArray[np.bool_]:
        """(K, K): the pairs of values (of x, of y) that the constraint allows."""
        table = self.lifted.table(constraint.relation, self.num_values)
        return table.T if constraint.swapped else table

    @cached_property
    def value_symmetric(self) -> bool:
        """Whether values may be renamed: no constraint tells one value from another."""
        for constraint in self.constraints:
            if not len(self.pairs[constraint.predicate]):
                continue
            table = self.table(constraint)
            off_diagonal = table[~np.eye(self.num_values, dtype=bool)]
            if len(set(table.diagonal().tolist())) > 1 or len(set(off_diagonal.tolist())) > 1:
                return False
        return True

    def assignment(self, values: Iterable[int] | npt.NDArray[np.integer]) -> npt.NDArray[np.int16]:
        """`values` as an assignment of this CSP; refuses a wrong length or a value out of range."""
        array = np.asarray(values if isinstance(values, np.ndarray) else list(values))
        if array.size and not np.issubdtype(array.dtype, np.integer):
            raise ValueError("an assignment holds whole numbers")
        array = array.astype(np.int64)
        if array.shape != (self.num_variables,):
            raise ValueError(f"an assignment has {self.num_variables} entries, not {'x'.join(map(str, array.shape))}")
        outside = np.flatnonzero((array < 0) | (array > self.num_values))
        if len(outside):
            i = int(outside[0])
            raise ValueError(f"variable {i} has value {array[i]}; values are 1..{self.num_values}, 0 for none")
        return array.astype(np.int16)


def ground(
    lifted: LiftedCSP,
    variables: int,
    values: int,
    facts: Mapping[str, Groups | Iterable[Sequence[int]] | npt.NDArray[np.integer]],
) -> GroundCSP:
    """See `LiftedCSP.ground`."""
    variables, values = index(variables), index(values)  # NumPy's whole numbers overflow where Python's do not
    if variables < 0 or values < 1:
        raise ValueError(f"{variables} variables and {values} values: need at least 0 and 1")
    if values > _MOST_VALUES:
        raise ValueError(f"{values:,} values; up to {_MOST_VALUES:,} are possible")
    unknown = set(facts) - set(lifted.predicates)
    if unknown:
        raise ValueError(
            f"facts for {', '.join(sorted(unknown))}, which is no predicate; there is {', '.join(lifted.predicates)}"
        )
    pairs: dict[str, npt.NDArray[np.int32]] = {}
    groups: dict[str, tuple[npt.NDArray[np.int32], ...]] = {}
    for predicate in lifted.predicates:
        stated = facts.get(predicate, ())
        if isinstance(stated, Groups):
            for m in stated.members:
                _check_range(predicate, np.array(m, dtype=object), variables)
                if len(set(m)) != len(m):
                    raise ValueError(f"a group of {predicate} names a variable twice: {list(m)}")
            members = tuple(np.array(m, dtype=np.int32) for m in stated.members)
            for m in members:
                m.setflags(write=False)
            groups[predicate] = members
            array = _pairs_of(members)
        else:
            groups[predicate] = ()
            array: npt.NDArray[Any]
            try:
                array = stated if isinstance(stated, np.ndarray) else np.array([tuple(p) for p in stated])
            except (TypeError, ValueError):  # members of different lengths, or no pairs at all
                array = np.zeros(1)
            if array.size == 0:
                array = np.zeros((0, 2), dtype=np.int64)
            if array.ndim != 2 or array.shape[1] != 2 or not np.issubdtype(array.dtype, np.integer):
                raise ValueError(f"facts of {predicate} are ordered pairs; wrap them in Groups(...) if they are groups")
            _check_range(predicate, array, variables)
            loops = np.flatnonzero(array[:, 0] == array[:, 1])
            if len(loops):
                raise ValueError(
                    f"{predicate}({array[loops[0], 0]}, {array[loops[0], 1]}) relates a variable to itself"
                )
        # One sort of a combined key: several times faster than np.unique(axis=0).
        key = np.unique(array[:, 0].astype(np.int64) * max(variables, 1) + array[:, 1])
        unique = np.stack([key // max(variables, 1), key % max(variables, 1)], axis=1)
        unique = unique.astype(np.int32)
        unique.setflags(write=False)
        pairs[predicate] = unique
    return GroundCSP(lifted, variables, values, pairs, groups)


def _pairs_of(groups: Sequence[npt.NDArray[np.int32]]) -> npt.NDArray[np.int32]:
    """All ordered pairs of different members of each group: (E, 2)."""
    blocks = [np.zeros((0, 2), dtype=np.int32)]
    for m in groups:
        x, y = np.meshgrid(m, m, indexing="ij")
        off = ~np.eye(len(m), dtype=bool)
        blocks.append(np.stack([x[off], y[off]], axis=1))
    return np.concatenate(blocks)


def _check_range(predicate: str, indices: npt.NDArray[Any], variables: int) -> None:
    if indices.size and (indices.min() < 0 or indices.max() >= variables):
        bad = indices.min() if indices.min() < 0 else indices.max()
        raise ValueError(f"a fact of {predicate} names variable {bad}; there are 0..{variables - 1}")
