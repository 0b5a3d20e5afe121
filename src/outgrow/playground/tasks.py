"""What the playground's processes do, each task a generator of events: networks need torch, jobs do not.

A worker goes through its tasks in turns, one event each, so a task yields whenever it has done a little: None if there is nothing to tell.
"""

from __future__ import annotations

import time
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outgrow.csp import judge
from outgrow.errors import OutgrowError
from outgrow.playground.wire import LIMITS, check_size, describe, from_wire
from outgrow.puzzles import Instance, Options, name_variable, parse
from outgrow.solve.frame import Frame

if TYPE_CHECKING:
    from outgrow.models import Model
    from outgrow.weights import Entry

__all__ = ["TASKS", "Event", "Task", "say_verdict", "warm_up"]

Event = dict[str, Any]
Task = Callable[[Mapping[str, Any]], Iterator[Event | None]]
_MOST_BROKEN = 400  # pairs that are named; of more, their number is
_LARGEST = 24_000_000  # bytes of a moving picture; as base64 it must fit into a line (workers.py)
_WARM = "1.....3..4.....2"


# ---- networks


def solve(request: Mapping[str, Any]) -> Iterator[Event | None]:
    """Networks at a puzzle, side by side: a 'step' each time, and an 'end' for every run."""
    instance = from_wire(request["puzzle"])
    left = {i: _run(i, instance, run["weights"], run["steps"]) for i, run in enumerate(request["runs"])}
    while left:
        for i, events in list(left.items()):
            event = next(events, None)
            if event is None:
                del left[i]
            else:
                yield event


def _run(number: int, instance: Instance, weights: str, steps: int) -> Iterator[Event]:
    from outgrow.solve.neural import trace

    try:
        entry, model = _open(weights)
        restart, notes = _manner(entry, steps)
        spent, last = 0.0, None
        frames = trace(model, instance, steps, restart=restart, notes=notes)
        while True:
            began = time.perf_counter()
            frame = next(frames, None)
            spent += time.perf_counter() - began
            if frame is None:
                break
            last = frame
            yield {"event": "step", "run": number, "milliseconds": round(1000 * spent, 2), **_tell(instance, frame)}
        assert last is not None
        said = say_verdict(instance, last.assignment)
        status = "solved" if last.solved else "unsolved"
        yield {
            "event": "end",
            "run": number,
            "status": status,
            "steps": last.step,
            "attempts": last.attempt + 1,
            "milliseconds": round(1000 * spent, 2),
            "words": said["words"],
        }
    except OutgrowError as error:
        yield {"event": "end", "run": number, "status": "refused", "words": str(error)}


def _tell(instance: Instance, frame: Frame) -> Event:
    """A frame: probabilities in steps of 1/255, as base64 of V x K bytes."""
    open_ones = instance.givens == 0
    sure = frame.beliefs[open_ones].max(axis=1).mean() if open_ones.any() else 1.0
    broken = judge(instance.csp, frame.assignment).broken
    return {
        "step": frame.step,
        "attempt": frame.attempt,
        "guess": frame.guess,
        "solved": frame.solved,
        "values": frame.assignment.tolist(),
        "beliefs": b64encode(np.round(255 * frame.beliefs).astype(np.uint8).tobytes()).decode(),
        "confidence": round(float(sure), 4),
        "broken": len(broken),
        "pairs": [[b.x, b.y] for b in broken[:_MOST_BROKEN]],
    }


def listen(request: Mapping[str, Any]) -> Iterator[Event | None]:
    """Whom a variable's value listens to in a step: 'heard'."""
    from outgrow.solve.listening import listening

    instance = from_wire(request["puzzle"])
    entry, model = _open(request["weights"])
    restart, notes = _manner(entry, request["steps"])
    asked = listening(
        model, instance, request["step"], request["variable"], request["value"], restart=restart, notes=notes
    )
    for heard in asked:
        if heard is None:
            yield None
            continue
        yield {
            "event": "heard",
            "from": [
                {"kind": h.kind, "variable": h.variable, "value": h.value, "weight": round(h.weight, 4)}
                for h in heard
                if h.weight >= 0.0005
            ],
        }


def _manner(entry: Entry, steps: int) -> tuple[int, bool]:
    """After how many steps it starts over, and whether it takes notes: as the weights were measured."""
    from outgrow.solve.notes import LEAST_FOR_NOTES

    restart = entry.restart if entry.restart < steps else 0
    return restart, entry.notes and restart >= LEAST_FOR_NOTES


@lru_cache(maxsize=16)
def _open(name: str) -> tuple[Entry, Model]:
    from outgrow.weights import open_entry, read_catalog

    entry = read_catalog().get(name)
    if entry is None:
        raise OutgrowError(f"no weights {name[:60]!r}; 'outgrow weights list' names them")
    return entry, open_entry(entry).model


def warm_up() -> None:
    """Opens the weights that are asked for first, and has a network take its first step: that takes longer than all later ones."""
    from outgrow.puzzles import parse_one
    from outgrow.solve.neural import trace
    from outgrow.weights import read_catalog

    puzzle = parse_one(_WARM)
    for entry in read_catalog().values():
        if entry.default:
            _, model = _open(entry.name)
            if entry.puzzle == puzzle.puzzle:
                list(trace(model, puzzle, 2))


# ---- jobs: a process each while they last, and it is ended if they last too long


def new(request: Mapping[str, Any]) -> Iterator[Event | None]:
    """A puzzle of that kind, size and difficulty: 'puzzle'."""
    from outgrow.data.difficulty import settings_for
    from outgrow.data.generate import make_chunks

    settings = settings_for(request["kind"], request["size"], request["difficulty"], request["seed"])
    for _, data in make_chunks(settings, range(settings.chunks), 1):
        yield {"event": "puzzle", "puzzle": describe(data[0])}


def read(request: Mapping[str, Any]) -> Iterator[Event | None]:
    """The first puzzle of a text, and how many there are: 'puzzle'."""
    found = parse(request["text"], source="text", options=Options(puzzle=request["kind"], colors=request["colors"]))
    check_size(found[0])
    yield {"event": "puzzle", "puzzle": describe(found[0]), "count": len(found)}


def exact(request: Mapping[str, Any]) -> Iterator[Event | None]:
    """What the exact solver says: 'exact'."""
    from outgrow.solve import Solver

    instance = from_wire(request["puzzle"])
    solver = Solver(network=False, unique=request["unique"], seconds=LIMITS["job_seconds"] / 2)
    answer = solver.solve(instance)
    yield {
        "event": "exact",
        "status": answer.status,
        "values": None if answer.assignment is None else answer.assignment.tolist(),
        "milliseconds": round(1000 * answer.seconds, 2),
        "words": answer.words,
        "unique": answer.unique,
    }


def draw(request: Mapping[str, Any]) -> Iterator[Event | None]:
    """The steps of a run as a moving picture: 'file'."""
    from outgrow.solve.animation import picture_trace

    instance = from_wire(request["puzzle"])
    shape = (instance.csp.num_variables, instance.size)
    frames = [
        Frame(
            f["step"],
            np.divide(np.frombuffer(b64decode(f["beliefs"]), dtype=np.uint8).reshape(shape), 255, dtype=np.float32),
            np.array(f["values"], dtype=np.int16),
            f["solved"],
            f["attempt"],
            f["guess"],
        )
        for f in request["frames"]
    ]
    content = picture_trace(instance, frames, request["ending"])
    if len(content) > _LARGEST:
        raise OutgrowError(
            f"the moving picture would have {len(content) / 1e6:,.0f} MB, and {_LARGEST / 1e6:,.0f} are possible; fewer steps make it smaller"
        )
    yield {"event": "file", "content": b64encode(content).decode()}


def say_verdict(instance: Instance, values: npt.NDArray[np.integer]) -> Event:
    """The verdict on values 0..K, in words and as pairs of variables."""
    verdict = judge(instance.csp, values, instance.givens)
    lines: list[str] = []
    for b in verdict.broken[:3]:
        x, y = (f"{name_variable(instance, i)} is {values[i]}" for i in (b.x, b.y))
        lines.append(f"{x} and {y}, against '{b.constraint.split('(', 1)[0]}'")
    if verdict.solved:
        words = "Solved: every rule holds and every given is kept."
    elif verdict.changed:
        words = f"A given was changed: {name_variable(instance, verdict.changed[0])}."
    elif verdict.broken:
        count = len(verdict.broken)
        more = f"; and {count - len(lines)} more" if count > len(lines) else ""
        words = f"{count} {'rule is' if count == 1 else 'rules are'} broken: {'; '.join(lines)}{more}."
    else:
        words = f"Nothing is wrong so far; {len(verdict.unassigned)} to go."
    return {
        "solved": verdict.solved,
        "broken": len(verdict.broken),
        "pairs": [[b.x, b.y] for b in verdict.broken[:_MOST_BROKEN]],
        "open": len(verdict.unassigned),
        "words": words,
    }


TASKS: Mapping[str, Task] = {"solve": solve, "listen": listen, "new": new, "read": read, "exact": exact, "draw": draw}
