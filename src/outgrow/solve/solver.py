"""The solver for people: networks first, every answer checked, and the exact solver where one is asked to make sure."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral, Real
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outgrow.errors import OutgrowError
from outgrow.puzzles import Instance, find_conflict, name_variable, parse, parse_one
from outgrow.puzzles.instance import Values
from outgrow.solve.answer import Answer

if TYPE_CHECKING:
    import torch

    from outgrow.models import Model
    from outgrow.solve.neural import Frame, Proposal

__all__ = ["Network", "Solver"]

# Puzzles that are solved together before their answers are given: so many, or as many as have so many (variable, value) nodes. A CPU gains nothing
# by more, and answers come sooner.
_CHUNK = 256
_NODES = {"cpu": 1 << 13, "cuda": 1 << 18}
_MAX_SECONDS = 1e6
_MAX_STEPS = 100_000
Progress = Callable[[int], None]


def _no_progress(done: int) -> None:
    """For callers that do not watch."""


@dataclass(frozen=True)
class Network:
    """A model and how it is run.

    Attributes:
        model: what passes messages.
        name: what is said of it.
        steps: the steps of an attempt at a puzzle of that size.
        restarts: how often it starts over where it is not solved.
        notes: whether, every other time that it starts over, it writes down what it is sure cannot be.
    """

    model: Model
    name: str
    steps: Callable[[int], int]
    restarts: Callable[[int], int]
    notes: bool

    def takes_notes(self, steps: int) -> bool:
        """Whether it does in attempts of so many steps; shorter ones have no time for it."""
        from outgrow.solve.notes import LEAST_FOR_NOTES

        return self.notes and steps >= LEAST_FOR_NOTES

    def plan(self, steps: int, restarts: int) -> tuple[int, int, bool]:
        """Of 1 + `restarts` attempts of so many steps: the steps of all together, after how many of them it starts over (0 for never), and whether it takes notes."""
        if restarts and steps * (restarts + 1) > _MAX_STEPS:
            raise OutgrowError(
                f"{restarts + 1:,} attempts of {steps:,} steps; {_MAX_STEPS:,} steps in all are possible"
            )
        return steps * (restarts + 1), steps if restarts else 0, restarts > 0 and self.takes_notes(steps)


class Solver:
    """Solves puzzles, and problems of one's own, and checks every answer.

    A network passes messages until the verdict holds. Where it does not, the exact solver finishes, and the answer says so; with
    `guarantee=False` it stays unsolved. No answer that breaks a rule or changes a given is ever called solved.

    A puzzle has the same answer in any company; only with `network=False` may one of several solutions depend on the puzzles before, since
    the exact solver is kept for them all. Threads may share a solver.

    Args:
        weights: a name of `outgrow weights list`, a file, or a model; by default, what comes with outgrow for each puzzle.
        model: of the weights that come with outgrow, take those of this kind: 'grouped'.
        steps: the most steps of an attempt; by default as many as the weights were measured with.
        restarts: how often to start over in another way where it is not solved. By default as often as the weights were measured
            with, but never where `steps` are named or the exact solver finishes anyway.
        notes: every other time that it starts over, write down what the network is sure cannot be, and go on from there. By default
            as the catalog says, and not with weights of one's own. Asked for where it makes one attempt, it is refused.
        guarantee: let the exact solver finish what the network does not.
        network: without it the exact solver does everything.
        unique: ask the exact solver whether there is another solution as well.
        seconds: the exact solver's time for each puzzle.
        device: 'cpu', 'cuda', ...; by default a GPU if there is one.

    >>> answer = Solver(network=False).solve("1.....3..4.....2")
    >>> answer.text, answer.source, answer.solved
    ('1324423124133142', 'exact', True)
    """

    def __init__(
        self,
        weights: str | Path | Model | None = None,
        *,
        model: str | None = None,
        steps: int | None = None,
        restarts: int | None = None,
        notes: bool | None = None,
        guarantee: bool = True,
        network: bool = True,
        unique: bool = False,
        seconds: float = 60.0,
        device: torch.device | str | None = None,
    ) -> None:
        if steps is not None and not (_is_whole(steps) and 1 <= steps <= _MAX_STEPS):
            raise OutgrowError(f"{steps} steps; 1 to {_MAX_STEPS:,} are possible")
        _check_restarts(restarts)
        if not isinstance(seconds, Real) or math.isnan(seconds) or seconds < 0:
            raise OutgrowError(f"{seconds} seconds for the exact solver; a number from 0 on is possible")
        if weights is not None and model is not None:
            raise OutgrowError("weights are of one model already: name weights or a model, not both")
        if not network and (weights is not None or model is not None or notes is not None or not guarantee):
            raise OutgrowError(
                "without a network the exact solver does everything: leave out weights, model, notes and guarantee"
            )
        if weights is not None and not isinstance(weights, str | Path) and not hasattr(weights, "prepare"):
            raise OutgrowError(f"weights are a name, a file or a model, not {type(weights).__name__}")
        self._weights, self._kind = weights, model
        self._steps, self._restarts, self._notes = steps, restarts, notes
        self._guarantee, self._neural, self._unique = guarantee, network, unique
        self._seconds = min(seconds, _MAX_SECONDS)
        self._device = device
        self._networks: dict[str, Network] = {}
        self._exact: Any = None
        self._lock = threading.Lock()

    # ---- what people ask

    def solve(self, puzzle: str | Instance) -> Answer:
        """The answer to one puzzle, given as text in any format or as an instance."""
        return next(self.solve_all([puzzle]))

    def solve_all(
        self, puzzles: str | Iterable[str | Instance], *, progress: Progress = _no_progress
    ) -> Iterator[Answer]:
        """Answers in the order of the puzzles, of any kinds and sizes: a text of many, or any number of texts of one and instances.

        Those of one kind are solved together, as many at a time as the device takes well. `progress` is told how many are done.
        """
        if not isinstance(puzzles, Iterable):
            raise OutgrowError(f"solve_all takes many puzzles; {type(puzzles).__name__} is none or one: solve(...)")
        before = 0
        nodes = _NODES.get(self.device.type, 1 << 16) if self._neural else 1
        for chunk in _chunks(parse(puzzles) if isinstance(puzzles, str) else puzzles, nodes):
            yield from self._solve(chunk, lambda done, before=before: progress(before + done))
            before += len(chunk)

    def trace(self, puzzle: str | Instance, steps: int | None = None, restarts: int | None = None) -> Iterator[Frame]:
        """What the network believes after every step, until the verdict holds or the steps are used up: in one attempt, or in 1 + `restarts` of so many steps each, with
        guesses and notes as `solve` makes them."""
        from outgrow.solve import neural

        if not self._neural:
            raise OutgrowError("without a network there are no beliefs to show")
        _check_restarts(restarts)
        instance = _instance(puzzle)
        network = self.network_for(instance)
        steps = network.steps(instance.size) if steps is None else steps
        total, restart, notes = network.plan(steps, restarts or 0)
        return neural.trace(network.model, instance, total, restart=restart, notes=notes, device=self.device)

    def check(self, puzzles: Iterable[Instance]) -> None:
        """Refuses puzzles that `solve_all` would refuse on the way: those that the network was not built for, or cannot take where no exact solver would finish."""
        if not self._neural:
            return
        from outgrow.solve.neural import fit

        seen: set[tuple[str, int, int]] = set()
        for instance in puzzles:
            if self._guarantee and self._beyond(instance):
                continue
            key = (instance.puzzle, id(instance.csp.lifted), instance.size)
            if key not in seen or self._beyond(instance):
                network = self.network_for(instance)
                try:
                    fit(network.model, [instance])
                except OutgrowError as error:
                    raise OutgrowError(f"{error}; the weights are {network.name}") from None
            seen.add(key)

    # ---- what it works with

    @property
    def device(self) -> torch.device:
        """Where networks run."""
        from outgrow.models import choose_device

        return choose_device(None if self._device is None else str(self._device))

    def network_for(self, puzzle: Instance) -> Network:
        """The network for puzzles of that kind, opened when it is first asked for."""
        if puzzle.puzzle not in self._networks:
            self._networks[puzzle.puzzle] = self._open(puzzle.puzzle)
        network = self._networks[puzzle.puzzle]
        if self._notes:
            from outgrow.solve.notes import check_notes

            length, restarts = network.steps(puzzle.size), network.restarts(puzzle.size)
            check_notes(network.model, length, length * (restarts + 1))
        return network

    def _open(self, kind: str) -> Network:
        from outgrow.weights.catalog import open_entry, steps_for

        if self._weights is not None and not isinstance(self._weights, str | Path):
            return self._own(self._weights, f"a {self._weights.kind} model")
        if str(self._weights).endswith(".safetensors"):
            return self._open_file(str(self._weights))
        entry = self._find_entry(kind)
        length = entry.restart or None
        times = 0 if self._steps is not None or self._guarantee else None

        def attempt(size: int) -> int:
            return self._steps if self._steps is not None else length or steps_for(entry, size)

        def restarts(size: int) -> int:
            if self._restarts is not None:
                return self._restarts
            return times if times is not None else -(-steps_for(entry, size) // attempt(size)) - 1

        name = f"{entry.name}, trained on at most {entry.max_trained_values} values"
        notes = entry.notes if self._notes is None else self._notes
        return Network(open_entry(entry).model, name, attempt, restarts, notes)

    def _find_entry(self, kind: str) -> Any:
        from outgrow.weights.catalog import default_weights, read_catalog

        if self._weights is not None:
            entry = read_catalog().get(str(self._weights))
            if entry is None:
                raise OutgrowError(
                    f"no weights {str(self._weights)!r}; 'outgrow weights list' names them, and a file's name ends in .safetensors"
                )
            return entry
        entry = default_weights(kind)
        if self._kind is not None and (entry is None or entry.model != self._kind):
            there = [e for e in read_catalog().values() if e.puzzle == kind]
            entry = next((e for e in there if e.model == self._kind), None)
            if entry is None:
                kinds = ", ".join(dict.fromkeys(e.model for e in there)) or "none"
                raise OutgrowError(f"no weights of a {self._kind} model are shipped for a {kind}; there are: {kinds}")
        if entry is None:
            raise OutgrowError(
                f"no trained weights are shipped yet for a {kind}; solve with --exact"
                if kind
                else "a problem of one's own needs weights of its own: Solver(weights), or Solver(network=False)"
            )
        return entry

    def _open_file(self, path: str) -> Network:
        from outgrow.weights import load_weights

        loaded = load_weights(path)
        try:
            sets = ", ".join(map(str, loaded.info["recipe"]["data"]["train"]))
        except (KeyError, TypeError):
            sets = ""
        return self._own(loaded.model, Path(path).name + (f", trained on {sets}" if sets else ""))

    def _own(self, model: Model, name: str) -> Network:
        steps = model.config.steps if self._steps is None else self._steps
        return Network(model, name, lambda size: steps, lambda size: self._restarts or 0, bool(self._notes))

    # ---- how it solves

    def _solve(self, instances: list[Instance], progress: Progress) -> Iterator[Answer]:
        answers: dict[int, Answer] = {}
        together: dict[tuple[str, int, int], list[int]] = {}
        for i, instance in enumerate(instances):
            began = time.monotonic()
            conflict = find_conflict(instance)
            if conflict:
                spent = time.monotonic() - began
                answers[i] = Answer(instance, "unsatisfiable", "exact", None, 0, spent, reason=conflict)
            elif self._neural and not (self._guarantee and self._beyond(instance)):
                network = self.network_for(instance)
                key = (instance.puzzle, network.steps(instance.size), network.restarts(instance.size))
                together.setdefault(key, []).append(i)
            else:
                answers[i] = Answer(instance, "unsolved", "exact", None, 0, 0.0)
        given = 0

        def pass_on() -> Iterator[Answer]:
            """What is next, as far as it is there: what is done is not lost to what comes after it."""
            nonlocal given
            while given in answers:
                yield self._finish(answers.pop(given))
                given += 1

        yield from pass_on()
        done = len(instances) - sum(map(len, together.values()))
        for (kind, steps, restarts), members in together.items():
            from outgrow.solve.neural import solve_parts

            network = self._networks[kind]
            total, restart, notes = network.plan(steps, restarts)
            here = [instances[i] for i in members]
            parts = solve_parts(network.model, here, total, restart=restart, notes=notes, device=self.device)
            left = iter(members)
            for part in parts:
                for proposal in part:
                    i = next(left)
                    answers[i] = _check(instances[i], proposal)
                done += len(part)
                progress(done)
                yield from pass_on()
        progress(len(instances))

    def _beyond(self, instance: Instance) -> bool:
        """Whether only the exact solver can take it."""
        from outgrow.solve.neural import too_large

        if too_large(instance):
            return True
        most = self.network_for(instance).model.max_values
        return most is not None and instance.size > most

    def _finish(self, answer: Answer) -> Answer:
        """What the exact solver adds, where it was asked to."""
        finish = answer.status == "unsolved" and self._guarantee
        if not finish and not (self._unique and answer.status != "unsatisfiable"):
            return answer
        with self._lock:
            began = time.monotonic()
            found = self._ask_exact(answer, finish, began)
        return replace(found, seconds=answer.seconds + time.monotonic() - began)

    def _ask_exact(self, answer: Answer, finish: bool, began: float) -> Answer:
        from outgrow.csp.exact import Budget, RanOut, TooLarge

        instance, found = answer.puzzle, answer
        try:
            solver = self._exact_for(instance)
        except TooLarge as error:
            return replace(answer, source="exact", reason=str(error)) if finish else answer
        except RanOut:
            return replace(answer, status="ran_out", source="exact", reason="") if finish else answer
        left = max(0.0, self._seconds - (time.monotonic() - began))
        if finish:
            said = solver.solve(instance.givens, budget=Budget(seconds=left), hints=answer.guess, break_symmetry=True)
            found = replace(answer, status=said.status, source="exact", assignment=said.assignment, reason="")
            if said.assignment is not None and not instance.judge(said.assignment).solved:
                raise AssertionError(f"{instance.source}: the exact solver's answer breaks a rule; please report this")
        if self._unique and found.status in ("solved", "unsolved"):
            left = max(0.0, self._seconds - (time.monotonic() - began))
            count = solver.count(instance.givens, limit=2, budget=Budget(seconds=left))
            if count.status == "exact" and not count.count:
                found = replace(found, status="unsatisfiable", source="exact", reason="")
            elif count.status != "ran_out" or count.count > 1:
                found = replace(found, unique=count.count == 1)
        return found

    def _exact_for(self, instance: Instance) -> Any:
        """Alone, one is kept for as long as puzzles share their CSP, which saves most of the time. After a network it is a new one: then
        answers do not depend on puzzles before."""
        from outgrow.csp.exact import Budget, ExactSolver

        if self._neural or self._exact is None or self._exact.csp is not instance.csp:
            if self._exact is not None:
                self._exact.close()
            self._exact = None
            self._exact = ExactSolver(instance.csp, budget=Budget(seconds=self._seconds))
        return self._exact


def _check(instance: Instance, proposal: Proposal) -> Answer:
    """A network's proposal by the verdict, in words; asked once more, since nothing else stands between it and the user."""
    broken = _find_broken(instance, proposal.assignment)
    if proposal.solved == bool(broken):
        raise AssertionError(f"{instance.source}: two verdicts on one answer; please report this")
    return Answer(
        instance,
        "solved" if proposal.solved else "unsolved",
        "neural",
        proposal.assignment if proposal.solved else None,
        proposal.steps,
        proposal.seconds,
        proposal.assignment,
        proposal.confidence,
        broken,
    )


def _find_broken(instance: Instance, assignment: Values) -> str:
    """A rule that the assignment breaks, and where; '' if it solves the puzzle."""
    verdict = instance.judge(assignment)
    if verdict.solved:
        return ""
    if not verdict.broken:
        return "a given was changed" if verdict.changed else "a value is missing"
    first = verdict.broken[0]
    x, y = (f"{name_variable(instance, i)} is {assignment[i]}" for i in (first.x, first.y))
    more = f"; {len(verdict.broken) - 1} more" if len(verdict.broken) > 1 else ""
    return f"'{first.constraint.split('(', 1)[0]}': {x} and {y}{more}"


def _check_restarts(restarts: int | None) -> None:
    if restarts is not None and not (_is_whole(restarts) and 0 <= restarts < _MAX_STEPS):
        raise OutgrowError(f"{restarts} restarts; 0 to {_MAX_STEPS - 1:,} are possible")


def _is_whole(number: object) -> bool:
    return isinstance(number, Integral) and not isinstance(number, bool)


def _instance(puzzle: str | Instance) -> Instance:
    if isinstance(puzzle, str):
        return parse_one(puzzle)
    if not isinstance(puzzle, Instance):
        raise OutgrowError(
            f"a puzzle is text or an Instance, not {type(puzzle).__name__}; see outgrow.parse, Instance.of and "
            "outgrow.puzzles.sudoku.from_array"
        )
    return puzzle


def _chunks(puzzles: Iterable[str | Instance], most: int) -> Iterator[list[Instance]]:
    chunk: list[Instance] = []
    nodes = 0
    for puzzle in puzzles:
        instance = _instance(puzzle)
        cost = instance.csp.num_variables * instance.size
        if chunk and (len(chunk) == _CHUNK or nodes + cost > most):
            yield chunk
            chunk, nodes = [], 0
        chunk.append(instance)
        nodes += cost
    if chunk:
        yield chunk
