"""Is it solved? Judged in the terms of the CSP's constraints, never through graphs or tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outgrow.csp.ground import GroundCSP

__all__ = ["Broken", "Verdict", "judge", "judge_batch", "judge_each"]


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


def judge_each(
    csps: Sequence[GroundCSP],
    assignments: Sequence[npt.NDArray[np.integer]],
    givens: Sequence[npt.NDArray[np.integer]] | None = None,
) -> npt.NDArray[np.bool_]:
    """Which assignments are solved, each judged by a CSP of its own: (B,).

    Assignment i is (V_i,). The work is one pass over all facts together; puzzles that share a CSP share its lookup of them.
    """
    if len(csps) != len(assignments) or (givens is not None and len(givens) != len(csps)):
        raise ValueError(f"{len(csps)} CSPs and {len(assignments)} assignments: one of each a puzzle")
    solved = np.zeros(len(csps), dtype=np.bool_)
    alike: dict[int, list[int]] = {}
    for i, csp in enumerate(csps):
        alike.setdefault(id(csp), []).append(i)
    single: dict[int, list[int]] = {}
    for same in alike.values():
        if len(same) > 1:
            kept = None if givens is None else np.stack([givens[i] for i in same])
            solved[same] = judge_batch(csps[same[0]], np.stack([assignments[i] for i in same]), kept)
        else:
            single.setdefault(id(csps[same[0]].lifted), []).append(same[0])
    for same in single.values():
        kept = None if givens is None else [givens[i] for i in same]
        solved[same] = _judge_joined([csps[i] for i in same], [assignments[i] for i in same], kept)
    return solved


def _judge_joined(
    csps: Sequence[GroundCSP],
    assignments: Sequence[npt.NDArray[np.integer]],
    givens: Sequence[npt.NDArray[np.integer]] | None,
) -> npt.NDArray[np.bool_]:
    """CSPs of one lifted problem, judged as one with B parts that share no variable: (B,)."""
    sizes = np.array([c.num_variables for c in csps])
    if any(len(a) != n for a, n in zip(assignments, sizes, strict=True)):
        raise ValueError("an assignment has another length than its CSP has variables")
    first = np.concatenate([[0], np.cumsum(sizes)])
    owner = np.repeat(np.arange(len(csps)), sizes)
    raw = np.concatenate([np.asarray(a, dtype=np.int64) for a in assignments])
    wrong = (raw < 1) | (raw > np.array([c.num_values for c in csps])[owner])
    values = np.where(wrong, 1, raw)
    if givens is not None:
        kept = np.concatenate([np.asarray(g, dtype=np.int64) for g in givens])
        if any(len(g) != n for g, n in zip(givens, sizes, strict=True)):
            raise ValueError("givens have another length than the assignments")
        wrong |= (kept > 0) & (kept != raw)
    # A relation over K values is the corner of the one over more: one table serves all sizes.
    largest = max(csps, key=lambda c: c.num_values)
    solved = np.bincount(owner, weights=wrong, minlength=len(csps)) == 0
    for c in largest.constraints:
        pairs = [csp.pairs[c.predicate] for csp in csps]
        count = [len(p) for p in pairs]
        joined = np.concatenate(pairs) + np.repeat(first[:-1], count)[:, None]
        broken = ~largest.table(c)[values[joined[:, 0]] - 1, values[joined[:, 1]] - 1]
        solved &= np.bincount(np.repeat(np.arange(len(csps)), count), weights=broken, minlength=len(csps)) == 0
    return solved
