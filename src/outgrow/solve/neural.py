"""Puzzles solved by a model: message passing until the verdict holds, or the steps are used up."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outgrow.csp import GroundCSP, judge_each
from outgrow.errors import OutgrowError, memory_errors
from outgrow.graphs import Batch, Puzzles, Schema
from outgrow.models import Model
from outgrow.puzzles import PUZZLES, Instance, get_puzzle
from outgrow.solve.attempts import Moment, attempt, check_restart, guess
from outgrow.solve.frame import Frame
from outgrow.solve.notes import Notes, check_notes

__all__ = [
    "MAX_STEPS",
    "Frame",
    "Look",
    "Proposal",
    "fit",
    "restate",
    "solve_batch",
    "solve_parts",
    "too_large",
    "trace",
    "watch",
]

MAX_STEPS = 100_000
# Entries of the largest table of neighbors in a batch, nodes x degree: a 36x36 Sudoku by its neighbors has 5 million and takes 0.7 GB in all. Graphs
# may have hubs, and tables are padded to the largest degree: 33 million took 9 GB.
_MOST = 1 << 23
# (variable, value) nodes at a time. Small batches pay on a CPU: one stops when all its puzzles are solved, so a 9x9 board is best alone
_NODES = {"cpu": 1 << 10, "cuda": 1 << 17}
_OUT_OF_MEMORY = "puzzles of this size need a device with more, or the exact solver"
Progress = Callable[[int], None]


def _no_progress(done: int) -> None:
    """For callers that do not watch."""


@dataclass(frozen=True, eq=False)
class Proposal:
    """What a model says of a puzzle, right or not.

    Attributes:
        assignment: (V,) values 1..K; givens are as they were given, whatever the model makes of them.
        solved: the verdict on it.
        steps: after how many steps the verdict first held; if it never did, how many were run.
        confidence: (V,) the probability the model gives to each value, 1 where it was given.
        seconds: its share of the time its batch took.
    """

    assignment: npt.NDArray[np.int16]
    solved: bool
    steps: int
    confidence: npt.NDArray[np.float32]
    seconds: float


class Look(NamedTuple):
    """What is there after a step of an attempt at the puzzles of a batch.

    Attributes:
        step: from 1, over all attempts.
        attempt: 0 is the first.
        batch: the puzzles as they were stated.
        tried: the same with what is guessed for given.
        moment: the step itself.
        said: of each puzzle the assignment (V,).
        solved: those of them that the verdict calls solved, now for the first time.
    """

    step: int
    attempt: int
    batch: Batch
    tried: Batch
    moment: Moment
    said: Sequence[npt.NDArray[np.int16]]
    solved: Sequence[int]


def solve_batch(
    model: Model,
    instances: Sequence[Instance],
    steps: int,
    *,
    restart: int = 0,
    notes: bool = False,
    device: torch.device | str = "cpu",
    nodes: int | None = None,
    progress: Progress = _no_progress,
) -> list[Proposal]:
    """An answer for each puzzle, in order; they may be of different sizes.

    After every step of message passing the verdict is asked, and a puzzle's answer is the first one that it calls solved; else the one after
    the last step. With `restart`, those that are not solved start over in another way, and with a guess for given, after every so many steps. With `notes`,
    every other time what the model is sure cannot be is written down, and while there is more of it the next attempt goes on from there. `nodes` bounds the (variable, value) nodes that are computed at a time, and a single puzzle may have more; `progress` is told
    how many puzzles are done.

    >>> from outgrow.models import BinarizedConfig, build_model
    >>> from outgrow.puzzles import parse
    >>> puzzles = parse("12343412214343.1\\n1.....3..4.....2")
    >>> _ = torch.manual_seed(0)
    >>> model = build_model(Schema.of(puzzles[0].csp), BinarizedConfig(width=8))  # untrained
    >>> answers = solve_batch(model, puzzles, steps=3)
    >>> len(answers), answers[1].assignment.shape, answers[1].solved
    (2, (16,), False)
    """
    answers: list[Proposal] = []
    for part in solve_parts(model, instances, steps, restart=restart, notes=notes, device=device, nodes=nodes):
        answers += part
        progress(len(answers))
    return answers


def solve_parts(
    model: Model,
    instances: Sequence[Instance],
    steps: int,
    *,
    restart: int = 0,
    notes: bool = False,
    device: torch.device | str = "cpu",
    nodes: int | None = None,
) -> Iterator[list[Proposal]]:
    """The same, as many puzzles at a time as are computed together: what is done need not wait for the others."""
    _check_steps(model, steps, restart, notes)
    if not instances:
        return
    seen = fit(model, instances)
    model = model.to(device).eval()
    puzzles = Puzzles.of_instances(seen)
    for part in _portions([i.csp for i in seen], nodes or _NODES.get(torch.device(device).type, 1 << 15)):
        run = _solve_part(model, puzzles, part, [instances[i] for i in part], steps, restart or steps, notes, device)
        with torch.no_grad(), memory_errors(_OUT_OF_MEMORY):
            found = _finish(run)
        yield found


def _check_steps(model: Model, steps: int, restart: int, notes: bool) -> None:
    """Refuses steps, attempts and notes that there cannot be."""
    if not 1 <= steps <= MAX_STEPS:
        raise OutgrowError(f"{steps} steps; 1 to {MAX_STEPS:,} are possible")
    check_restart(restart)
    if notes:
        check_notes(model, restart, steps)


def _finish(run: Generator[Look, None, list[Proposal]]) -> list[Proposal]:
    """To the end, and what it returns."""
    while True:
        try:
            next(run)
        except StopIteration as end:
            return end.value


def trace(
    model: Model,
    instance: Instance,
    steps: int,
    *,
    restart: int = 0,
    notes: bool = False,
    device: torch.device | str = "cpu",
) -> Iterator[Frame]:
    """The beliefs after every step on the way to the answer of `solve_batch`, until the verdict holds or the steps, of all attempts together, are used up.

    >>> from outgrow.models import BinarizedConfig, build_model
    >>> from outgrow.puzzles import parse_one
    >>> puzzle = parse_one("1.....3..4.....2")
    >>> _ = torch.manual_seed(0)
    >>> model = build_model(Schema.of(puzzle.csp), BinarizedConfig(width=8))  # untrained
    >>> [frame.beliefs.shape for frame in trace(model, puzzle, steps=2)]
    [(16, 4), (16, 4)]
    """
    return (_show(look) for look in watch(model, instance, steps, restart=restart, notes=notes, device=device))


def watch(
    model: Model,
    instance: Instance,
    steps: int,
    *,
    restart: int = 0,
    notes: bool = False,
    device: torch.device | str = "cpu",
) -> Iterator[Look]:
    """Every step on that way as the model has it."""
    _check_steps(model, steps, restart, notes)
    puzzles = Puzzles.of_instances(fit(model, [instance]))
    run = _solve_part(model.to(device).eval(), puzzles, [0], [instance], steps, restart or steps, notes, device)
    return _without_gradients(run)


def _without_gradients(run: Iterator[Look]) -> Iterator[Look]:
    while True:
        with (
            torch.no_grad(),
            memory_errors(_OUT_OF_MEMORY),
        ):  # not around the yield: what the caller does is the caller's
            look = next(run, None)
        if look is None:
            return
        yield look


def _show(look: Look) -> Frame:
    """What the model believes of the only puzzle."""
    givens, scores = look.batch.givens, look.moment.scores.float()
    beliefs = torch.where(
        givens.unsqueeze(1) > 0,
        torch.nn.functional.one_hot((givens - 1).clamp(min=0), scores.shape[1]).float(),
        scores.softmax(1),
    )
    guessed = (look.tried.givens != givens).nonzero().flatten().tolist()
    return Frame(
        look.step,
        beliefs.cpu().numpy(),
        look.said[0].copy(),  # the next step is compared with it
        bool(look.solved),
        look.attempt,
        guessed[0] if guessed else None,
    )


def restate(instance: Instance, form: str) -> Instance:
    """The same puzzle in another of its lifted forms.

    >>> from outgrow.puzzles import parse_one
    >>> list(restate(parse_one("1.....3..4.....2"), "nbr").csp.pairs)
    ['nbr']
    """
    puzzle = get_puzzle(instance.puzzle)
    pairs = np.zeros((0, 2), dtype=np.int32) if puzzle.varying is None else instance.csp.pairs[puzzle.varying]
    stated = puzzle.restore(size=instance.size, shape=instance.shape, pairs=pairs, givens=instance.givens, form=form)
    return replace(stated, notation=instance.notation, notes=instance.notes, source=instance.source)


def _solve_part(
    model: Model,
    puzzles: Puzzles,
    part: Sequence[int],
    instances: Sequence[Instance],
    steps: int,
    length: int,
    with_notes: bool,
    device: torch.device | str,
) -> Generator[Look, None, list[Proposal]]:
    """Attempts of so many steps, as long as there are any left: the first with all puzzles, the next with those not solved."""
    answers: list[Proposal] = []
    left = list(range(len(part)))
    givens: dict[int, npt.NDArray[np.integer]] = {}
    noted: dict[int, Tensor] = {}
    starts = dict.fromkeys(left, 0)  # how often each has started over: every other time it takes notes, if any do
    for number, begin in enumerate(range(0, steps, length)):
        batch = puzzles.batch([part[k] for k in left], device)
        tried, notes = batch, None
        if number:
            tried = replace(batch, givens=torch.from_numpy(np.concatenate([givens[k] for k in left])).to(device))
            if with_notes and any(starts[k] % 2 for k in left):
                notes = Notes(torch.cat([noted[k] for k in left]), torch.tensor([starts[k] % 2 for k in left]) > 0)
                notes = notes.to(device)
        mine, span = [instances[k] for k in left], min(length, steps - begin)
        found, scores = yield from _solve(model, batch, tried, mine, begin, span, number, notes)
        if not begin:
            answers = found
        else:
            for k, answer in zip(left, found, strict=True):
                answers[k] = replace(answer, seconds=answers[k].seconds + answer.seconds)
        here, left = left, [k for k in left if not answers[k].solved]
        if not left or begin + length >= steps:
            break
        notes = notes or Notes.none(batch)
        parts = notes.ruled_out.split([v * k for v, k in batch.sizes])
        before = batch.split(tried.givens.cpu().numpy())
        guessed = batch.split(guess(model, batch, scores, number + 1).givens.cpu().numpy())
        stated = batch.split(batch.givens.cpu().numpy())
        for i, (k, more) in enumerate(zip(here, notes.added.tolist(), strict=True)):
            if more:  # notes hold under the guess that they were taken under
                givens[k], noted[k] = before[i], parts[i]
                continue
            starts[k] += 1
            first = with_notes and starts[k] == 1
            givens[k], noted[k] = stated[i] if first else guessed[i], torch.zeros_like(parts[i])
    return answers


def _solve(
    model: Model,
    batch: Batch,
    tried: Batch,
    instances: Sequence[Instance],
    begin: int,
    steps: int,
    number: int,
    notes: Notes | None,
) -> Generator[Look, None, tuple[list[Proposal], Tensor]]:
    """An attempt at the puzzles of one batch after `begin` steps of others, with guesses in `tried`, that goes on from `notes`; and the last scores. They are judged as they were stated, not as the
    model sees them."""
    began = time.perf_counter()
    found: dict[int, tuple[npt.NDArray[np.int16], bool, int, npt.NDArray[np.float32]]] = {}
    before: list[npt.NDArray[np.int16]] = []
    ends_at = np.cumsum([v for v, _ in batch.sizes])[:-1]
    scores = batch.givens.new_zeros(batch.num_variables, batch.max_values)
    end = begin + steps
    for step, moment in enumerate(attempt(model, tried, number, steps, notes), start=begin + 1):
        scores = moment.scores
        values = torch.where(batch.givens > 0, batch.givens, scores.argmax(1) + 1)
        now = np.split(values.cpu().numpy().astype(np.int16), ends_at)
        # What did not change since the step before breaks the same rules still.
        asked = [i for i, said in enumerate(now) if i not in found and not (before and np.array_equal(said, before[i]))]
        before = now
        solved = _judge([instances[i] for i in asked], [now[i] for i in asked])
        ends = [i for i, right in zip(asked, solved, strict=True) if right]
        left = [i for i in range(len(instances)) if i not in found and i not in ends] if step == end else []
        if ends or left:
            confidence = np.split(_confidence(scores, values, batch.givens), ends_at)
            found |= {i: (now[i], i in ends, step, confidence[i]) for i in (*ends, *left)}
        yield Look(step, number, batch, tried, moment, now, ends)
        if len(found) == len(instances) and step < end:  # after the last step it ends by itself, with its last notes
            break
    seconds = time.perf_counter() - began
    cost = [v * k for v, k in batch.sizes]
    return [Proposal(*found[i], seconds * cost[i] / max(sum(cost), 1)) for i in range(len(instances))], scores


def _judge(instances: Sequence[Instance], assignments: Sequence[npt.NDArray[np.integer]]) -> npt.NDArray[np.bool_]:
    return judge_each([i.csp for i in instances], assignments, [i.givens for i in instances])


def _confidence(scores: Tensor, values: Tensor, givens: Tensor) -> npt.NDArray[np.float32]:
    """(V,): a softmax over values. Where a score is the logit of one value alone, that is its probability given that one of them is right."""
    chosen = scores.float().softmax(1).gather(1, values.unsqueeze(1) - 1).squeeze(1)
    return torch.where(givens > 0, 1.0, chosen).cpu().numpy()


def _portions(csps: Sequence[GroundCSP], nodes: int) -> Iterator[list[int]]:
    """All puzzles in order, as many at a time as have at most so many nodes, and tables that fit into memory."""
    degrees = {id(csp): _degree(csp) for csp in csps}
    part: list[int] = []
    total = widest = 0
    for i, csp in enumerate(csps):
        cost, degree = csp.num_variables * csp.num_values, degrees[id(csp)]
        if part and (total + cost > nodes or (total + cost) * max(widest, degree) > _MOST):
            yield part
            part, total, widest = [], 0, 0
        part.append(i)
        total, widest = total + cost, max(widest, degree)
    yield part


def _degree(csp: GroundCSP) -> int:
    """The most edges of one type into a node; tables are padded to it."""
    ends = [int(np.bincount(end).max(initial=0)) for pairs in csp.pairs.values() for end in pairs.T]
    return max(csp.num_values, *ends)


def fit(model: Model, instances: Sequence[Instance]) -> list[Instance]:
    """The puzzles in the lifted form that the model was built for; refuses those it cannot take."""
    forms: dict[tuple[str, int, int], str | None] = {}
    seen: list[Instance] = []
    for instance in instances:
        key = (instance.puzzle, id(instance.csp.lifted), instance.size)
        if key not in forms:
            forms[key] = _form(model, instance)
        form = forms[key]
        if too_large(instance):
            raise OutgrowError(f"{_name(instance)}: {too_large(instance)}; use the exact solver")
        seen.append(instance if form is None else restate(instance, form))
    return seen


def too_large(instance: Instance) -> str:
    """Why a puzzle is too large for a network; '' if it is not."""
    nodes = instance.csp.num_variables * instance.size
    if nodes * max(instance.csp.num_variables, instance.size) <= _MOST:  # whatever its facts are
        return ""
    degree = _degree(instance.csp)
    if nodes * degree <= _MOST:
        return ""
    return (
        f"{instance.csp.num_variables:,} variables, {instance.size:,} values and up to {degree:,} neighbors "
        "are too many for a network"
    )


def _form(model: Model, instance: Instance) -> str | None:
    """The form to restate the puzzle in; None if it may stay as it is."""
    if model.max_values is not None and instance.size > model.max_values:
        raise OutgrowError(
            f"{_name(instance)}: a puzzle with {instance.size} values, but the model has embeddings for {model.max_values}"
        )
    schemas = [Schema.of(instance.csp)]
    if schemas[0] == model.schema:
        return None
    for form in PUZZLES[instance.puzzle].forms if instance.puzzle in PUZZLES else ():
        schemas.append(Schema.of(restate(instance, form).csp))
        if schemas[-1] == model.schema:
            return form
    has = " or ".join(dict.fromkeys(f"({schema})" for schema in schemas))
    raise OutgrowError(
        f"{_name(instance)}: the model was built for ({model.schema}), and a {instance.puzzle or 'problem like this'} has {has}"
    )


def _name(instance: Instance) -> str:
    return instance.source or instance.puzzle or "a problem of one's own"
