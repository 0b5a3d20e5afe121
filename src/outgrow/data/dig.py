"""Take givens away from a solved board for as long as the solution stays the only one.

Every other solution is a *witness*: the set of variables where it differs, and at least one of those must
stay given. Witnesses are kept as bit sets; a given that some witness meets alone is needed, without asking the solver.
Many come for free from two-value swaps (Kempe chains): at 16x16 they cut the questions asked per board from over a hundred to about ten.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP
from outgrow.csp.exact import Budget, ExactSolver

__all__ = ["Dug", "Swaps", "dig"]

Rng = np.random.Generator
Pair = tuple[int, int, list[list[bool]]]


@dataclass(frozen=True, eq=False)
class Dug:
    """`given` (V,) says which variables stay; 'stuck' if no more could go before the target was met."""

    status: Literal["done", "stuck", "ran_out"]
    given: npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Swaps:
    """What decides whether two values may be exchanged on part of a board; made once for a CSP.

    Attributes:
        neighbors: for each variable, the bit set of those that may not share its value.
        others: for each variable, the constraints (x, y, allowed values) on it that are more than 'not equal'.
    """

    neighbors: tuple[int, ...]
    others: tuple[tuple[Pair, ...], ...]

    @classmethod
    def of(cls, csp: GroundCSP) -> Swaps:
        neighbors = [0] * csp.num_variables
        others: list[list[Pair]] = [[] for _ in neighbors]
        for c in csp.constraints:
            table = csp.table(c)
            pairs = csp.pairs[c.predicate].tolist()
            if not table.diagonal().any():
                for x, y in pairs:
                    neighbors[x] |= 1 << y
                    neighbors[y] |= 1 << x
            if not np.array_equal(table, ~np.eye(csp.num_values, dtype=np.bool_)):
                _attach(others, pairs, table)
        return cls(tuple(neighbors), tuple(map(tuple, others)))

    def with_pairs(self, pairs: list[list[int]], table: npt.NDArray[np.bool_]) -> Swaps:
        """The same with more pairs that must stand in a relation (signs of one board)."""
        others = [list(o) for o in self.others]
        _attach(others, pairs, table)
        return Swaps(self.neighbors, tuple(map(tuple, others)))

    def find(self, values: list[int]) -> list[int]:
        """Witnesses of a solved board: connected sets of variables of two values that may trade them."""
        size = max(values, default=0)
        holders = [0] * (size + 1)
        for i, v in enumerate(values):
            holders[v] |= 1 << i
        found: list[int] = []
        neighbors, check = self.neighbors, any(self.others)
        for a in range(1, size + 1):
            for b in range(a + 1, size + 1):
                rest = holders[a] | holders[b]
                while rest:
                    front, chain = rest & -rest, 0
                    while front:
                        low = front & -front
                        chain |= low
                        front = (front | (neighbors[low.bit_length() - 1] & rest)) & ~chain
                    rest &= ~chain
                    if not check or self._allows(chain, a + b, values):
                        found.append(chain)
        return found

    def _allows(self, chain: int, both: int, values: list[int]) -> bool:
        """Whether the other constraints still hold after the exchange; `both` is the sum of the two values."""
        for i in _members(chain):
            for x, y, table in self.others[i]:
                left = both - values[x] if chain >> x & 1 else values[x]
                right = both - values[y] if chain >> y & 1 else values[y]
                if not table[left - 1][right - 1]:
                    return False
        return True


def _attach(others: list[list[Pair]], pairs: list[list[int]], table: npt.NDArray[np.bool_]) -> None:
    rows: list[list[bool]] = table.tolist()
    for x, y in pairs:
        others[x].append((x, y, rows))
        others[y].append((x, y, rows))


def dig(
    solver: ExactSolver,
    solution: npt.NDArray[np.integer],
    target: int | None,
    rng: Rng,
    *,
    witnesses: list[int],
    switch: int | None = None,
    budget: Budget | None = None,
    exchanges: int = 0,
    start: npt.NDArray[np.bool_] | None = None,
) -> Dug:
    """Givens under which `solution` is the only one: exactly `target` of them if that can be had, else as few as can
    be reached ('stuck': none of them can be spared). Without a target that is what is wanted: a minimal puzzle.

    Args:
        witnesses: sets known to need a given, from `Swaps.find`.
        switch: turns on what the solver holds for this board alone (signs); it is retired at the end.
        budget: for each question.
        exchanges: how many questions to spend, once stuck, on trading two givens for one.
        start: (V,) the givens to take away from; by default a random share of all.
    """
    board = _Board(solver, solution, rng, witnesses, switch, budget)
    try:
        return board.dig(target, exchanges, start)
    finally:
        solver.retire(board.switch)


class _Board:
    """One board while it is dug: bit sets of variables, and the witnesses met so far."""

    def __init__(
        self,
        solver: ExactSolver,
        solution: npt.NDArray[np.integer],
        rng: Rng,
        witnesses: list[int],
        switch: int | None,
        budget: Budget | None,
    ) -> None:
        self.solver = solver
        self.rng = rng
        self.witnesses = list(witnesses)
        self.budget = budget
        self.switch = solver.new_switch() if switch is None else switch
        self.literals = solver.literals(solution)
        self.variables = len(self.literals)
        self.order: list[int] = rng.permutation(self.variables).tolist()
        self.ordered = [(1 << i, self.literals[i]) for i in self.order]
        solver.exclude(solution, self.switch)
        # Other solutions are looked for close by: small witnesses say more.
        solver.prefer(solution)

    def ask(self, kept: int) -> list[int] | bool | None:
        """`ExactSolver.find_other` for these givens; another solution joins the witnesses."""
        given = [literal for bit, literal in self.ordered if kept & bit]
        other = self.solver.find_other(self.literals, [self.switch, *given], self.budget)
        if other:
            assert not isinstance(other, bool)
            self.witnesses.append(_bits(other))
        return other

    def used(self) -> int:
        """After a proof that the solution is the only one: the givens it rests on."""
        core = self.solver.core()
        return sum(bit for bit, literal in self.ordered if literal in core)

    def answer(self, status: Literal["done", "stuck", "ran_out"], kept: int) -> Dug:
        given = np.zeros(self.variables, dtype=np.bool_)
        given[_members(kept)] = True
        return Dug(status, given)

    def dig(self, target: int | None, exchanges: int, start: npt.NDArray[np.bool_] | None) -> Dug:
        # A minimal puzzle starts from a quarter of the board: with less, the first questions are hard ones.
        kept = _bits(self.order[: self.variables // 4 if target is None else target])
        if start is not None:
            kept = _bits(np.flatnonzero(start).tolist())
        for witness in self.witnesses:
            if not witness & kept:
                kept |= 1 << self.pick(witness)
        while other := self.ask(kept):
            kept |= 1 << self.pick(self.witnesses[-1])
        if other is None:
            return self.answer("ran_out", kept)
        # Now unique. Whatever the proof did not use may go; then ask about the rest one by one.
        needed, known, used = 0, False, self.used()
        while (excess := kept.bit_count() - (target or 0)) > 0:
            if spare := kept & ~used:
                kept &= ~self.some(spare, excess)
                known = False
                continue
            if not known:  # after a SAT answer nothing but the given asked about has become needed
                for witness in self.witnesses:
                    alone = witness & kept
                    if not alone & (alone - 1):
                        needed |= alone
                known = True
            if not kept & ~needed:
                break
            tried = 1 << self.pick(kept & ~needed)
            other = self.ask(kept & ~tried)
            if other is None:
                return self.answer("ran_out", kept)
            if other:
                needed |= tried
            else:
                kept &= ~tried
                known = False
                used = self.used()
        if target is not None and exchanges:
            kept = self.exchange(kept, target, exchanges)
        return self.answer("done" if target in (None, kept.bit_count()) else "stuck", kept)

    def exchange(self, kept: int, target: int, questions: int) -> int:
        """From a minimal set of givens to a smaller one: let one variable in, two out, as long as
        every witness so far still meets a given; when no such trade is left, trade one for one.
        """
        rng, variables = self.rng, self.variables
        sets = _matrix(self.witnesses, variables)
        given = _matrix([kept], variables)[0]
        while given.sum() > target and questions > 0:
            # No matrix products: on matrices this small, BLAS threads cost twice what they compute.
            inside = np.flatnonzero(given)
            meets = sets[:, inside].sum(axis=1)
            alone = sets[meets == 1]
            owner = alone[:, inside].argmax(axis=1)
            order = np.argsort(owner)
            owners, first_row = np.unique(owner[order], return_index=True)
            # freed[i, c]: with c let in, given i is needed by no witness any more.
            freed = np.ones((len(inside), variables), dtype=np.bool_)
            if len(owners):
                freed[owners] = np.logical_and.reduceat(alone[order], first_row, axis=0)
            freed[:, inside] = False
            gain = freed.sum(axis=0)
            pairs = sets[meets == 2]
            trade = given.copy()
            for entering in np.argsort(-(gain + rng.random(variables)))[:12].tolist():
                if gain[entering] < 2:
                    break
                leaving = inside[freed[:, entering]]
                shared = pairs[~pairs[:, entering]][:, leaving]
                together = (shared[:, :, None] & shared[:, None, :]).any(axis=0)
                first, second = np.nonzero(np.triu(~together, k=1))
                if len(first):
                    chosen = int(rng.integers(len(first)))
                    trade[[leaving[first[chosen]], leaving[second[chosen]]]] = False
                    trade[entering] = True
                    break
            if trade.sum() == given.sum():
                if not (gain > 0).any():
                    break
                entering = int(rng.choice(np.flatnonzero(gain > 0)))
                trade[int(rng.choice(inside[freed[:, entering]]))] = False
                trade[entering] = True
            questions -= 1
            other = self.ask(_bits(np.flatnonzero(trade).tolist()))
            if other is None:
                break
            if other:
                sets = np.concatenate([sets, _matrix(self.witnesses[-1:], variables)])
            else:
                given = trade
        return _bits(np.flatnonzero(given).tolist())

    def pick(self, bits: int) -> int:
        members = _members(bits)
        return members[int(self.rng.integers(len(members)))]

    def some(self, bits: int, count: int) -> int:
        members = _members(bits)
        if len(members) > count:
            members = [members[i] for i in self.rng.permutation(len(members))[:count].tolist()]
        return _bits(members)


def _bits(members: list[int]) -> int:
    bits = 0
    for i in members:
        bits |= 1 << i
    return bits


def _members(bits: int) -> list[int]:
    members: list[int] = []
    while bits:
        low = bits & -bits
        members.append(low.bit_length() - 1)
        bits ^= low
    return members


def _matrix(sets: list[int], variables: int) -> npt.NDArray[np.bool_]:
    """Bit sets as rows: (number of sets, V)."""
    width = (variables + 7) // 8
    packed = b"".join(bits.to_bytes(width, "little") for bits in sets)
    rows = np.frombuffer(packed, dtype=np.uint8).reshape(-1, width)
    return np.unpackbits(rows, axis=1, bitorder="little")[:, :variables].astype(np.bool_)
