"""Is it solved? Judged in the terms of the CSP's constraints, never through graphs or tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outgrow.csp.ground import GroundCSP

__all__ = ["Broken", "Verdict", "judge", "judge_batch"]


@dataclass(frozen=True)
class Broken:
    """A ground constraint that does not hold: `constraint` between variables x and y."""

    constraint: str
    x: int
    y: int


@dataclass(frozen=True)
class Verdict:
    """What is right and wrong about an assignment.

    Attributes:
        solved: every variable has a value, every constraint holds, every given is kept.
        broken: the ground constraints that two assigned variables break, each once.
        changed: variables whose given was changed or dropped.
        unassigned: variables without a value.
    """

    solved: bool
    broken: tuple[Broken, ...]
    changed: tuple[int, ...]
    unassigned: tuple[int, ...]

    @property
    def consistent(self) -> bool:
        """Nothing is wrong so far, though variables may be left to fill."""
        return not self.broken and not self.changed


def judge(
    csp: GroundCSP,
    assignment: Iterable[int] | npt.NDArray[np.integer],
    givens: Iterable[int] | npt.NDArray[np.integer] | None = None,
) -> Verdict:
    """The verdict on an assignment (V,) of values 1..K, 0 for none.

    >>> from outgrow.csp import LiftedCSP
    >>> lifted = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])
    >>> csp = lifted.ground(variables=3, values=2, facts={"nbr": [(0, 1), (1, 2)]})
    >>> judge(csp, [1, 2, 1]).solved
    True
    >>> judge(csp, [1, 1, 0]).broken
    (Broken(constraint='nbr(x, y) -> neq(x, y)', x=0, y=1),)
    """
    values = csp.assignment(assignment)
    broken: list[Broken] = []
    for c in csp.constraints:
        pairs = csp.pairs[c.predicate]
        x, y = values[pairs[:, 0]], values[pairs[:, 1]]
        wrong = (x > 0) & (y > 0) & ~csp.table(c)[x - 1, y - 1]
        found = pairs[wrong].tolist()
        if csp.lifted.is_symmetric(c.relation, csp.num_values):
            found = sorted({(min(p), max(p)) for p in found})
        broken += [Broken(str(c), a, b) for a, b in found]
    changed: tuple[int, ...] = ()
    if givens is not None:
        kept = csp.assignment(givens)
        changed = tuple(np.flatnonzero((kept > 0) & (kept != values)).tolist())
    unassigned = tuple(np.flatnonzero(values == 0).tolist())
    return Verdict(not (broken or changed or unassigned), tuple(broken), changed, unassigned)


def judge_batch(
    csp: GroundCSP,
    assignments: npt.NDArray[np.integer],
    givens: npt.NDArray[np.integer] | None = None,
) -> npt.NDArray[np.bool_]:
    """Which of the assignments (B, V) are solved: (B,). `givens` is (B, V) or (V,)."""
    values = np.asarray(assignments, dtype=np.int64)
    if values.ndim != 2 or values.shape[1] != csp.num_variables:
        raise ValueError(f"assignments are (B, {csp.num_variables}), not {values.shape}")
    inside = (values > 0) & (values <= csp.num_values)
    solved: npt.NDArray[np.bool_] = np.asarray(inside.all(axis=1))
    values = np.where(inside, values, 1)
    for c in csp.constraints:
        pairs = csp.pairs[c.predicate]
        solved &= csp.table(c)[values[:, pairs[:, 0]] - 1, values[:, pairs[:, 1]] - 1].all(axis=1)
    if givens is not None:
        kept = np.asarray(givens)
        if kept.shape not in (values.shape, values.shape[1:]):
            raise ValueError(f"givens are (B, V) or (V,) as the assignments {values.shape}, not {kept.shape}")
        solved &= ((kept == 0) | (kept == assignments)).all(axis=1)
    return solved
