"""What a model is sure cannot be is written down, stays, and is taken back whole where it cannot be right."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
import torch
from torch import Tensor

import outgrow.solve.notes as noting
from outgrow.data import find_dataset
from outgrow.errors import OutgrowError
from outgrow.graphs import Batch, BinarizedGraph, Puzzles, Schema
from outgrow.graphs.binarized import RULED_OUT, UNASSIGNED
from outgrow.models import MODELS, Model, build_model
from outgrow.puzzles import Instance, parse
from outgrow.solve import solve_batch
from outgrow.solve.attempts import Moment, attempt
from outgrow.solve.notes import Notes
from outgrow.weights import open_entry, read_catalog

MIXED = [find_dataset(name)[0] for name in ("futoshiki-6-test", "futoshiki-9-test", "futoshiki-7-test")]

# Easy boards of Simon Tatham's Unequal, 9de.
UNEQUAL = (
    "9:0,0L,0L,0RD,0D,0D,0,4,0,0,0L,0L,0,0,0,0,0,0,0,0,0L,0L,0,0,0U,0,0U,0,8,0D,0URD,0,0U,0,0,0U,0U,0,0,0,0,0U,0D,7R,0U,0,0,0L,0,0,0,0D,0U,7D,0,0U,0L,0L,0R,0D,0L,0D,0DL,0,0,0,0DL,0UL,0,0D,0D,0,0,0,0L,0,0U,0R,0,0,9,",
    "9:8,0,0,0,0,0,0D,3,0,0,0U,0,0,0U,0,5,0,0,0D,8L,0,0U,0UD,0R,0,6,0L,5D,0,0,0L,0D,0,0RD,0,4,0D,0U,0,0,0,0,0,0,0D,0,0L,0U,0UDL,0RL,0,0,2,0,0,0U,0L,0,0U,0,0,0,0,0,0R,0R,0,0,0R,0D,0U,0L,6,0R,0,0,0L,0,0,0,0,",
    "9:4,0D,0D,0L,7,0,0R,0,0L,0R,8,0,0R,0,0R,0,0,0,0,0,0D,0,0U,0L,0R,0,0L,0R,0,0D,0U,0D,0L,0U,0,0,0,0R,0D,0U,0,0L,0,0,0,0R,0R,0,0L,0L,0U,0R,0D,1,0,0U,0D,6,0,0U,0R,0,0D,0D,0,0DL,0,0D,0,0U,8,0,0R,0,0L,0R,4,0L,0R,0,5L,",
)


def build(kind: str = "grouped", marks: int = 3, seed: int = 1) -> Model:
    torch.manual_seed(seed)
    extra: dict[str, Any] = {"grouped": {"marks": marks}, "multivalued": {"max_values": 9}}.get(kind, {})
    return build_model(Schema.of(MIXED[0].csp), MODELS[kind][1](**{"width": 8, "steps": 2, **extra})).eval()


def batch_of(instances: list[Instance]) -> Batch:
    return Puzzles.of_instances(instances).batch(range(len(instances)), "cpu")


class Recorder:
    """A model whose every walk is written down: what was known in it, and from which states it went on."""

    def __init__(self, model: Model, sure: Tensor | None = None) -> None:
        self.model, self.known, self.starts = model, [], []
        walk = model.walk  # pyright: ignore[reportAttributeAccessIssue]

        def recorded(graph: Any, steps: int, start: Any) -> Iterator[Any]:
            self.known.append(graph.known.clone())
            self.starts.append(start)
            for states, scores in walk(graph, steps, start):
                yield states, scores if sure is None else torch.where(sure, -9.0, torch.zeros_like(scores))

        setattr(model, "walk", recorded)  # noqa: B010


@torch.no_grad()
def run(model: Model, batch: Batch, steps: int, notes: Notes, number: int = 0) -> list[Tensor]:
    return [moment.scores for moment in attempt(model, batch, number, steps, notes)]


@pytest.mark.parametrize("kind", ["grouped", "binarized"])
@pytest.mark.parametrize("number", [0, 2])
def test_where_nothing_is_noted_it_is_an_attempt_as_any_other(
    kind: str, number: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(noting, "_BELOW", 0.0)
    model, batch = build(kind), batch_of(MIXED)
    notes = Notes.none(batch, taken=True)
    with torch.no_grad():
        plain = [moment.scores for moment in attempt(model, batch, number, 30)]
    noted = run(model, batch, 30, notes, number)
    assert len(noted) == 30
    for step in range(24):
        torch.testing.assert_close(noted[step], plain[step])
    assert not torch.allclose(noted[29], plain[29], atol=1e-6)  # it began afresh after 24 steps
    torch.testing.assert_close(noted[24], plain[0])
    assert not notes.ruled_out.any()
    assert not notes.added.any()


def test_what_is_ruled_out_stays_and_is_an_input() -> None:
    """Noted after the fourth look in a row, and no given or value that givens rule out is touched."""
    batch = batch_of(MIXED[:1])
    sure = torch.zeros(36, 6, dtype=torch.bool)
    sure[:, 2:4] = True
    model = Recorder(build(), sure)
    notes = Notes.none(batch, taken=True)
    run(model.model, batch, 20, notes)
    before, after = model.known[0], model.known[-1]
    assert len(model.known) == 5
    for known in model.known[:4]:
        assert torch.equal(known, before)
    wanted = torch.where(sure.flatten() & (before == UNASSIGNED), RULED_OUT, before)
    assert torch.equal(after, wanted)
    assert not torch.equal(before, wanted)
    assert torch.equal(notes.ruled_out, sure.flatten() & (before == UNASSIGNED))
    assert notes.added.tolist() == [True]
    # Another attempt goes on from there, and has nothing to add.
    held = notes.ruled_out.clone()
    run(model.model, batch, 20, notes, number=1)
    assert torch.equal(model.known[5], wanted)
    assert torch.equal(notes.ruled_out, held)
    assert notes.added.tolist() == [False]


@pytest.mark.parametrize("number", [0, 2])
def test_every_step_shows_what_nodes_told_in_it_and_what_was_noted_before(number: int) -> None:
    batch = batch_of(MIXED[:1])
    sure = torch.zeros(36, 6, dtype=torch.bool)
    sure[:, 2:4] = True
    model = Recorder(build(), sure)
    with torch.no_grad():
        moments = list(attempt(model.model, batch, number, 22, Notes.none(batch, taken=True)))
    assert len(moments) == 22
    assert len(model.known) == 6
    for step, moment in enumerate(moments):
        assert isinstance(moment.graph, BinarizedGraph)
        assert torch.equal(moment.graph.known, model.known[step // 4])
        if step % 4 == 0:
            assert torch.equal(moment.told, model.starts[step // 4].told)
    told = [moment.told for moment in moments]
    assert all(not torch.equal(one, other) for one, other in pairwise(told))
    with torch.no_grad():
        _, again = (states.told for states, _ in build().walk(moments[0].graph, 2, model.starts[0]))  # pyright: ignore
    assert torch.equal(told[2], again)


def test_looks_are_four_steps_apart() -> None:
    batch = batch_of(MIXED[:1])
    sure = torch.ones(36, 6, dtype=torch.bool)
    for steps, noted in ((15, False), (16, True)):
        notes = Notes.none(batch, taken=True)
        run(Recorder(build(), sure).model, batch, steps, notes)
        assert bool(notes.ruled_out.any()) is noted


def test_a_variable_without_values_says_that_a_note_is_wrong() -> None:
    batch = batch_of([MIXED[0]] * 2)
    sure = torch.zeros(72, 6, dtype=torch.bool)
    sure[:36, :3] = True
    sure[36 + int((batch.givens[:36] == 0).nonzero()[0])] = True
    notes = Notes.none(batch, taken=True)
    run(Recorder(build(), sure).model, batch, 20, notes)
    assert notes.ruled_out.view(2, -1).any(1).all()
    assert notes.added.tolist() == [True, False]


def test_puzzles_without_notes_are_as_they_would_be_without_those_beside_them(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(noting, "_BELOW", 0.5)
    model, batch = build(), batch_of([MIXED[0]] * 2)
    with torch.no_grad():
        plain = [moment.scores for moment in attempt(model, batch, 0, 40)]
    notes = Notes(Notes.none(batch).ruled_out, torch.tensor([True, False]))
    noted = run(model, batch, 40, notes)
    for one, other in zip(plain, noted, strict=True):
        torch.testing.assert_close(one[36:], other[36:])
    assert not torch.allclose(plain[-1][:36], noted[-1][:36], atol=1e-3)
    assert notes.ruled_out.view(2, -1).any(1).tolist() == [True, False]


def test_every_other_start_takes_notes_and_goes_on_as_long_as_there_are_more(monkeypatch: pytest.MonkeyPatch) -> None:
    """First a plain attempt, then notes on the puzzle as it was stated; after that guesses, each kept for as long as there is something to
    note. Where nothing is, all is wiped."""
    puzzle = MIXED[0]
    batch = batch_of([puzzle])
    opened = (batch.givens == 0).nonzero().flatten().tolist()
    asked: list[tuple[int, bool, int, list[int]]] = []

    def attempts(model: Any, tried: Batch, number: int, steps: int, notes: Notes | None) -> Iterator[Moment]:
        guessed = (tried.givens != batch.givens).nonzero().flatten().tolist()
        asked.append((number, notes is not None, 0 if notes is None else int(notes.ruled_out.sum()), guessed))
        if notes is not None:
            assert notes.taken.tolist() == [True]
            if number in (1, 2, 5):
                notes.ruled_out = notes.ruled_out.clone()
                notes.ruled_out[6 * opened[number]] = True
                notes.added = torch.tensor([True])
        return iter([Moment(model.prepare(tried), torch.zeros(216, 8), torch.zeros(36, 6))] * steps)

    monkeypatch.setattr("outgrow.solve.neural.attempt", attempts)
    [answer] = solve_batch(build(), [puzzle], 8 * 16, restart=16, notes=True)
    assert not answer.solved
    assert [line[:3] for line in asked] == [
        (0, False, 0),
        (1, True, 0),
        (2, True, 1),
        (3, True, 2),
        (4, False, 0),
        (5, True, 0),
        (6, True, 1),
        (7, False, 0),
    ]
    guesses = [line[3] for line in asked]
    assert [len(g) for g in guesses] == [0, 0, 0, 0, 1, 1, 1, 1]
    assert guesses[5] == guesses[6] not in (guesses[4], guesses[7])


def test_without_notes_nothing_has_changed() -> None:
    """Attempts with guesses, as evaluation makes them."""
    model = Recorder(build())
    solve_batch(model.model, MIXED[:1], 6, restart=2)
    assert [int((known != model.known[0]).sum() > 0) for known in model.known] == [0, 1, 1]


@pytest.mark.parametrize("below", [0.3, 0.45, 0.6])
@pytest.mark.parametrize("kind", ["grouped", "binarized"])
def test_a_puzzle_has_the_same_answer_in_any_company(kind: str, below: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """And no nonsense in notes makes a wrong answer a solved one."""
    monkeypatch.setattr(noting, "_BELOW", below)
    model = build(kind).double()
    with torch.random.fork_rng():
        torch.set_default_dtype(torch.float64)
        try:
            together = solve_batch(model, MIXED, 200, restart=25, notes=True, nodes=1 << 14)
            alone = [solve_batch(model, [puzzle], 200, restart=25, notes=True)[0] for puzzle in MIXED]
        finally:
            torch.set_default_dtype(torch.float32)
    for puzzle, one, other in zip(MIXED, together, alone, strict=True):
        assert one.assignment.tolist() == other.assignment.tolist()
        assert one.solved == puzzle.judge(one.assignment).solved


def test_a_multivalued_model_takes_none() -> None:
    with pytest.raises(OutgrowError, match="takes no notes"):
        solve_batch(build("multivalued"), MIXED[:1], 40, restart=20, notes=True)


@pytest.mark.parametrize(
    ("restart", "steps", "word"), [(0, 40, "starts over"), (40, 40, "starts over"), (15, 40, "too short")]
)
def test_where_no_notes_would_be_taken_it_is_said(restart: int, steps: int, word: str) -> None:
    with pytest.raises(OutgrowError, match=word):
        solve_batch(build(), MIXED[:1], steps, restart=restart, notes=True)


@pytest.mark.parametrize("columns", [3, 6])
def test_attempts_are_solved_with_their_last_notes(columns: int) -> None:
    """Notes of the last step of an attempt count, and those that leave a variable without a value end it."""
    sure = torch.zeros(36, 6, dtype=torch.bool)
    sure[:, :columns] = True
    model = Recorder(build(), sure)
    solve_batch(model.model, MIXED[:1], 64, restart=16, notes=True)
    noted = [int((known == RULED_OUT).sum()) for known in model.known]
    given = min(noted)
    # A plain attempt is one walk, one with notes four; notes come at the end of the first.
    begins = noted[1], noted[5]
    assert begins[0] == given
    assert (begins[1] > given + 5) == (columns == 3)  # a guess rules out five


def test_notes_solve_boards_of_other_people_that_it_stalls_on_without() -> None:
    boards = parse("\n".join(UNEQUAL))
    entry = read_catalog()["futoshiki-grouped"]
    assert entry.notes
    model = open_entry(entry).model
    solved, before = (
        sum(answer.solved for answer in solve_batch(model, boards, 256, restart=128, notes=notes))
        for notes in (True, False)
    )
    assert solved > before
