"""The exact solver: any ground CSP as SAT, solved with python-sat.

Literal (variable i, value v) is `i * K + v`, so that models and assignments convert without a table.
Every question takes a `Budget` and has 'ran out' as an answer of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from threading import Thread
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from pysat.examples.rc2 import RC2
from pysat.formula import WCNF
from pysat.solvers import Solver

from outgrow.csp.ground import GroundCSP
from outgrow.errors import OutgrowError

__all__ = [
    "Answer",
    "Budget",
    "Count",
    "Engine",
    "ExactSolver",
    "Nearest",
    "RanOut",
    "TooLarge",
    "encode",
    "find_clique",
]

Ints = npt.NDArray[np.integer]
Clauses = list[list[int]]
Engine = Literal["minisat22", "glucose4", "cadical195"]
MAX_CLAUSES = 20_000_000  # about 2 GB inside the solver
_BLOCK = 200_000  # clauses turned into Python lists at a time


class TooLarge(OutgrowError):
    """A CSP whose clauses would not fit in memory."""


class RanOut(OutgrowError):
    """The time ran out before the clauses of a CSP were there."""


@dataclass(frozen=True)
class Budget:
    """What one question may cost: seconds, conflicts (the same on every machine), or both."""

    seconds: float | None = None
    conflicts: int | None = None


@dataclass(frozen=True, eq=False)
class Answer:
    """`assignment` is there when `status` is 'solved'."""

    status: Literal["solved", "unsatisfiable", "ran_out"]
    assignment: npt.NDArray[np.int16] | None
    seconds: float


@dataclass(frozen=True)
class Count:
    """Found `count` solutions; 'exact' if those are all, 'limit' if there may be more, 'ran_out' likewise."""

    status: Literal["exact", "limit", "ran_out"]
    count: int
    seconds: float


@dataclass(frozen=True, eq=False)
class Nearest:
    """The valid solution found that agrees best with the wanted assignment.

    Attributes:
        status: 'optimal', 'unsatisfiable', or 'ran_out' (the assignment is then the best one met).
        agreement: on how many of the wanted variables it agrees (0 without an assignment).
        bound: no valid solution agrees on more; equal to `agreement` when optimal.
    """

    status: Literal["optimal", "unsatisfiable", "ran_out"]
    assignment: npt.NDArray[np.int16] | None
    agreement: int
    bound: int
    seconds: float


class _Meter:
    """Spends one budget over any number of calls; `call` answers None once it is gone."""

    def __init__(self, budget: Budget | None) -> None:
        budget = budget or Budget()
        self.deadline = None if budget.seconds is None else time.monotonic() + budget.seconds
        self.conflicts = budget.conflicts

    def late(self) -> bool:
        """Whether the time is over."""
        return self.deadline is not None and time.monotonic() > self.deadline

    def call(self, solver: Any, assumptions: list[int]) -> bool | None:
        if self.deadline is None and self.conflicts is None:
            return _interruptible(lambda: solver.solve(assumptions=assumptions))
        if self.late() or (self.conflicts is not None and self.conflicts <= 0):
            return None
        before = solver.accum_stats()["conflicts"]
        if self.conflicts is not None:
            solver.conf_budget(self.conflicts)
        try:
            if self.deadline is None:
                return _interruptible(lambda: solver.solve_limited(assumptions=assumptions))
            return self._call_in_time(solver, assumptions)
        finally:
            if self.conflicts is not None:
                self.conflicts -= solver.accum_stats()["conflicts"] - before
                solver.conf_budget(-1)

    def _call_in_time(self, solver: Any, assumptions: list[int]) -> bool | None:
        """The solver works in a thread of its own, so that this one can watch the clock and hear Ctrl-C."""
        assert self.deadline is not None
        answers: list[bool | None] = []
        worker = Thread(
            target=lambda: answers.append(solver.solve_limited(assumptions=assumptions, expect_interrupt=True)),
            daemon=True,
        )
        worker.start()
        try:
            worker.join(max(0.0, self.deadline - time.monotonic()))
        finally:
            if worker.is_alive():
                solver.interrupt()
                worker.join()
            solver.clear_interrupt()
        return answers[0]


def _interruptible(call: Callable[[], bool | None]) -> bool | None:
    """python-sat reports Ctrl-C as an error of its own."""
    try:
        return call()
    except Exception as error:
        if "keyboard interrupt" in str(error).lower():
            raise KeyboardInterrupt from None
        raise


class _RanOut(Exception):
    pass


class _MeteredRC2(RC2):
    """RC2 that stops between two sound bounds: its own interruption may count a core that was never found."""

    meter: _Meter

    def _call_oracle(self, assumptions: Any = (), expect_interrupt: bool = False) -> bool:
        answer = self.meter.call(self.oracle, list(assumptions))
        if answer is None:
            raise _RanOut
        return answer


class ExactSolver:
    """Questions about one ground CSP, answered by one incremental SAT solver with givens as assumptions.

    `minisat22` keeps to its budget. `glucose4` looks at it only when it restarts, up to thousands of conflicts later; it is there for sampling, and because
    the data sets were made with it. `cadical195` takes no budget and is up to twice as fast on small boards.

    >>> from outgrow.csp import LiftedCSP
    >>> lifted = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])
    >>> csp = lifted.ground(variables=3, values=2, facts={"nbr": [(0, 1), (1, 2)]})
    >>> with ExactSolver(csp) as solver:
    ...     solver.solve([1, 0, 0]).assignment.tolist(), solver.count([0, 0, 0]).count
    ([1, 2, 1], 2)
    """

    def __init__(self, csp: GroundCSP, engine: Engine = "minisat22", *, budget: Budget | None = None) -> None:
        """`budget` bounds the time that it takes to state the clauses: RanOut says that it was not enough."""
        began = time.monotonic()
        self.csp = csp
        self.engine: Engine = engine
        self._solver: Any = Solver(name=engine)
        for block in _encode_small(csp) or encode(csp):
            self._solver.append_formula(block)
            if budget is not None and budget.seconds is not None and time.monotonic() - began > budget.seconds:
                self._solver.delete()
                raise RanOut(f"not stated within {budget.seconds:g} s")
        self._next = csp.num_variables * csp.num_values + 1
        self._clique: list[int] | None = None

    def __enter__(self) -> ExactSolver:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Frees the solver's memory."""
        self._solver.delete()

    def solve(
        self,
        givens: Ints | list[int] | None = None,
        *,
        budget: Budget | None = None,
        hints: Ints | npt.NDArray[np.floating] | None = None,
        break_symmetry: bool = False,
    ) -> Answer:
        """A solution that keeps the givens.

        `hints` steer the search and bind nothing: wanted values (V,), 0 for none, or weights
        (V, K) of which each variable's largest is tried first. `break_symmetry` fixes the values of
        a clique where values may be renamed and nothing is given: the same answer, far sooner when
        there is no solution.
        """
        start = time.monotonic()
        meter = _Meter(budget)
        assumptions = self._assumptions(givens)
        if break_symmetry and not assumptions and self.csp.value_symmetric:
            clique = self._find_clique(meter)
            if len(clique) > self.csp.num_values:
                return Answer("unsatisfiable", None, time.monotonic() - start)
            assumptions = [self._literal(i, v) for v, i in enumerate(clique, start=1)]
        if hints is not None:
            self.prefer(hints)
        answer = self._call(meter, assumptions)
        seconds = time.monotonic() - start
        if answer is None:
            return Answer("ran_out", None, seconds)
        if not answer:
            return Answer("unsatisfiable", None, seconds)
        return Answer("solved", self._read_model(), seconds)

    def count(
        self,
        givens: Ints | list[int] | None = None,
        *,
        limit: int = 2,
        budget: Budget | None = None,
    ) -> Count:
        """The number of solutions that keep the givens, counted up to `limit`."""
        start = time.monotonic()
        meter = _Meter(budget)
        switch = self.new_switch()  # turns the blocking clauses of this count on
        assumptions = [switch, *self._assumptions(givens)]
        count = 0
        status: Literal["exact", "limit", "ran_out"] = "limit"
        while count < limit:
            answer = self._call(meter, assumptions)
            if not answer:
                status = "ran_out" if answer is None else "exact"
                break
            count += 1
            self.exclude(self._read_model(), switch)
        self.retire(switch)
        return Count(status, count, time.monotonic() - start)

    def nearest(
        self,
        wanted: Ints | list[int],
        givens: Ints | list[int] | None = None,
        *,
        budget: Budget | None = None,
    ) -> Nearest:
        """The solution that keeps the givens and agrees with `wanted` (V,) on most variables.

        First the wanted values steer an ordinary search, which gives an answer to fall back on; then
        RC2 closes in on the best one from above.
        """
        start = time.monotonic()
        target = self.csp.assignment(np.asarray(wanted))
        soft = [self._literal(i, int(v)) for i, v in enumerate(target) if v]
        meter = _Meter(budget)
        fixed = self._assumptions(givens)
        self.prefer(target)
        first = self._call(meter, fixed)
        if first is None:
            return Nearest("ran_out", None, 0, len(soft), time.monotonic() - start)
        if not first:
            return Nearest("unsatisfiable", None, 0, 0, time.monotonic() - start)
        best = self._read_model()
        agreement = int((best == target)[target > 0].sum())
        formula = WCNF()
        for block in encode(self.csp):
            if meter.late():
                return Nearest("ran_out", best, agreement, len(soft), time.monotonic() - start)
            formula.extend(block)
        formula.extend([[literal] for literal in fixed])
        formula.extend([[literal] for literal in soft], weights=[1] * len(soft))
        with _MeteredRC2(formula, solver="m22") as rc2:
            rc2.meter = meter
            try:
                model = rc2.compute()
            except _RanOut:
                bound = len(soft) - rc2.cost
                status = "optimal" if bound == agreement else "ran_out"
                return Nearest(status, best, agreement, bound, time.monotonic() - start)
            assert model is not None, "satisfiable a moment ago"
            best = self._read_model(model)
        agreement = int((best == target)[target > 0].sum())
        return Nearest("optimal", best, agreement, agreement, time.monotonic() - start)

    # What follows serves the generators, which ask thousands of questions about one CSP.

    def prefer(self, hints: Ints | npt.NDArray[np.floating]) -> None:
        """From now on the search tries these values first: (V,) wanted values, or (V, K) weights.

        (`cadical195` keeps the model it has for as long as it fits, whatever is preferred.)
        """
        size, values = self.csp.num_variables, self.csp.num_values
        if hints.shape not in ((size,), (size, values)):
            raise ValueError(f"hints are ({size},) wanted values or ({size}, {values}) weights, not {hints.shape}")
        first = np.argmax(hints, axis=1) + 1 if hints.ndim == 2 else self.csp.assignment(hints.astype(np.int64))
        phases = list(range(-1, -size * values - 1, -1))
        for variable, value in enumerate(first.tolist()):
            if value:
                phases[variable * values + value - 1] *= -1
        self._solver.set_phases(phases)

    def new_switch(self) -> int:
        """A fresh literal to hang clauses on; `retire` drops them again."""
        self._next += 1
        return self._next - 1

    def exclude(self, assignment: Ints, switch: int) -> None:
        """While `switch` is assumed, this complete assignment is no solution."""
        self._solver.add_clause([-switch, *(-lit for lit in self.literals(assignment))])

    def constrain(self, relation: str, pairs: Ints, switch: int) -> None:
        """While `switch` is assumed, the relation holds for these pairs (P, 2) of variables as well."""
        values = self.csp.num_values
        forbidden = np.argwhere(~self.csp.lifted.table(relation, values))
        literals = -(np.asarray(pairs, dtype=np.int64)[:, None, :] * values + forbidden[None] + 1)
        for clause in literals.reshape(-1, 2).tolist():
            self._solver.add_clause([-switch, *clause])

    def retire(self, switch: int) -> None:
        """Drops what hangs on the switch."""
        self._solver.add_clause([-switch])

    def literals(self, assignment: Ints) -> list[int]:
        """One literal for each variable of a complete assignment."""
        return (np.arange(self.csp.num_variables) * self.csp.num_values + assignment).tolist()

    def find_other(
        self, literals: list[int], assumptions: list[int], budget: Budget | None = None
    ) -> list[int] | bool | None:
        """Where a solution under these assumptions differs from the assignment that `literals` stand for.

        False if there is none (`core` then says which of the assumptions were needed); None if the budget ran out. To look for
        *another* solution, `exclude` this one under a switch and assume the switch.
        """
        answer = self._call(_Meter(budget), assumptions)
        if not answer:
            return answer
        model = self._solver.get_model()
        return [i for i, lit in enumerate(literals) if model[lit - 1] < 0]

    def core(self) -> set[int]:
        """After an 'only one': the literals that the proof used."""
        return set(self._solver.get_core() or ())

    def propagate(self, givens: Ints | list[int]) -> npt.NDArray[np.int16] | None:
        """What unit propagation alone makes of the givens; None on a contradiction.

        For a CSP of groups as large as the value set this is exactly the rule of naked and hidden
        singles, as long as the solver has learned nothing: ask a solver that was never asked to solve.
        """
        assumptions = self._assumptions(givens)
        consistent, literals = self._solver.propagate(assumptions=assumptions)
        if not consistent:
            return None
        found = np.zeros(self.csp.num_variables * self.csp.num_values, dtype=np.int16)
        found[[lit - 1 for lit in [*literals, *assumptions] if lit > 0]] = 1
        return found.reshape(self.csp.num_variables, -1) @ np.arange(1, self.csp.num_values + 1, dtype=np.int16)

    def _call(self, meter: _Meter, assumptions: list[int]) -> bool | None:
        if self.engine == "cadical195" and (meter.deadline is not None or meter.conflicts is not None):
            raise ValueError("cadical195 takes no budget; use minisat22")
        return meter.call(self._solver, assumptions)

    def _literal(self, variable: int, value: int) -> int:
        return variable * self.csp.num_values + value

    def _assumptions(self, givens: Ints | list[int] | None) -> list[int]:
        if givens is None:
            return []
        array = self.csp.assignment(np.asarray(givens))
        known = np.flatnonzero(array)
        return (known * self.csp.num_values + array[known]).tolist()

    def _read_model(self, model: list[int] | None = None) -> npt.NDArray[np.int16]:
        if model is None:
            model = self._solver.get_model()
        size, values = self.csp.num_variables, self.csp.num_values
        truth = np.array((model or [])[: size * values]).reshape(size, values) > 0
        return (truth.argmax(axis=1) + 1).astype(np.int16)

    def _find_clique(self, meter: _Meter) -> list[int]:
        if self._clique is None:
            found = find_clique(self.csp, meter.late)
            if meter.late():  # the best so far is a clique too, but not the one that others will have
                return found
            self._clique = found
        return self._clique


def encode(csp: GroundCSP) -> Iterator[Clauses]:
    """The CSP as clauses, in blocks.

    Each variable has exactly one value; no pair of values that a constraint forbids; and, where a group is as
    large as the value set and its members must differ, every value is somewhere in it (implied, but it is
    what makes large boards easy).
    """
    size, values = csp.num_variables, csp.num_values
    first = np.arange(size)[:, None] * values  # literal of value v: first + v
    every = np.arange(1, values + 1)
    a, b = np.triu_indices(values, k=1)
    total = size * (1 + len(a))
    conflicts = list(_conflicts(csp))
    total += sum(len(pairs) * len(forbidden) for pairs, forbidden in conflicts)
    if total > MAX_CLAUSES:
        raise TooLarge(
            f"{size} variables of {values} values need {total:,} clauses; the exact solver takes up to {MAX_CLAUSES:,}"
        )
    yield (first + every).tolist()
    yield np.stack([-(first + a + 1), -(first + b + 1)], axis=-1).reshape(-1, 2).tolist()
    for pairs, forbidden in conflicts:
        step = max(1, _BLOCK // max(1, len(forbidden)))
        for at in range(0, len(pairs), step):
            literals = pairs[at : at + step, None, :] * values + forbidden[None] + 1
            yield (-literals).reshape(-1, 2).tolist()
    for c in csp.constraints:
        if csp.table(c).diagonal().any():
            continue
        for group in csp.groups[c.predicate]:
            if len(group) > values:
                yield [[]]
            elif len(group) == values:
                yield (group[None, :] * values + every[:, None]).tolist()


@lru_cache(maxsize=4)
def _encode_small(csp: GroundCSP) -> list[Clauses] | None:
    """The clauses of a small CSP, kept for the next solver of it; None for a large one."""
    return list(encode(csp)) if csp.num_variables * csp.num_values <= 2_000 else None


def _conflicts(csp: GroundCSP) -> Iterator[tuple[Ints, Ints]]:
    """(pairs (E, 2), forbidden (F, 2)): value indices that each of these pairs may not take; nothing twice."""
    by_table: dict[bytes, tuple[npt.NDArray[np.bool_], list[Ints]]] = {}
    for c in csp.constraints:
        table = csp.table(c)
        by_table.setdefault(table.tobytes(), (table, []))[1].append(csp.pairs[c.predicate])
    for table, stated in by_table.values():
        pairs = np.concatenate(stated).astype(np.int64)
        if np.array_equal(table, table.T):
            pairs.sort(axis=1)
        key = np.unique(pairs[:, 0] * max(csp.num_variables, 1) + pairs[:, 1])
        pairs = np.stack([key // max(csp.num_variables, 1), key % max(csp.num_variables, 1)], axis=1)
        yield pairs, np.argwhere(~table)


def find_clique(csp: GroundCSP, late: Callable[[], bool] = lambda: False) -> list[int]:
    """Variables that must all differ from each other: greedy from each of up to 1,000 variables of high degree, the largest kept; `late` says
    when to be content with what there is."""
    neighbors: list[set[int]] = [set() for _ in range(csp.num_variables)]
    for c in csp.constraints:
        if not csp.table(c).diagonal().any():
            for x, y in csp.pairs[c.predicate].tolist():
                neighbors[x].add(y)
                neighbors[y].add(x)
    best: list[int] = []
    for start in sorted(range(csp.num_variables), key=lambda i: -len(neighbors[i]))[:1_000]:
        if len(neighbors[start]) < len(best) or late():
            break
        clique, candidates = [start], neighbors[start]
        while candidates:
            chosen = max(sorted(candidates), key=lambda i: len(neighbors[i] & candidates))
            clique.append(chosen)
            candidates = candidates & neighbors[chosen]
        if len(clique) > len(best):
            best = clique
    return best
