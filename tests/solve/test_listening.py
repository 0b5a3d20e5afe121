"""Whom a node listens to, on the way that solving goes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from functools import cache
from itertools import zip_longest
from typing import Any

import numpy as np
import pytest
import torch

import outgrow.solve.neural as neural
from outgrow.data import find_dataset
from outgrow.errors import OutgrowError
from outgrow.graphs import Schema
from outgrow.models import MODELS, Model, build_model
from outgrow.puzzles import Instance, coloring, parse_one, sudoku
from outgrow.solve import Listening, listen, restate, solve_batch
from outgrow.solve.attempts import Moment, attempt
from outgrow.solve.listening import listening
from outgrow.weights import open_entry, read_catalog

KINDS = ["binarized", "multivalued", "grouped"]
FOUR = parse_one("1.....3..4.....2")
FUTOSHIKI = find_dataset("futoshiki-6-test")[3]
# Of three colors, which are too few: nobody solves it by chance. Node 7 has no neighbors.
EDGES = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3), (4, 0), (5, 1), (5, 6), (6, 2)]
GIVENS = np.array([1, 0, 0, 0, 0, 2, 0, 0])


def graph(order: list[int] | None = None) -> Instance:
    """A graph of eight nodes, node i as node order[i]."""
    order = order or list(range(8))
    givens = np.zeros(8, dtype=int)
    givens[order] = GIVENS
    return coloring.build(np.array([(order[a], order[b]) for a, b in EDGES]), givens, 3)


def build(kind: str, puzzle: Instance, seed: int = 1, **changes: Any) -> Model:
    torch.manual_seed(seed)
    extra = {"multivalued": {"max_values": 8}}.get(kind, {})
    return build_model(Schema.of(puzzle.csp), MODELS[kind][1](**{"width": 8, "steps": 2, **extra, **changes}))


@cache
def shipped(name: str) -> Model:
    return open_entry(read_catalog()[name]).model


def totals(found: list[Listening]) -> dict[str, float]:
    total: Counter[str] = Counter()
    for one in found:
        total[one.kind] += one.weight  # pyright: ignore[reportArgumentType]
    return dict(total)


# ---- who


def test_who_is_heard_in_a_sudoku() -> None:
    puzzle = find_dataset("sudoku-9-test")[0]
    found = listen(shipped("sudoku-grouped"), puzzle, step=2, variable=40, value=5)
    heard = {kind: sorted((x.variable, x.value) for x in found if x.kind == kind) for kind in totals(found)}
    assert heard == {
        "row": [(i, 5) for i in range(36, 45)],
        "col": [(i, 5) for i in range(4, 81, 9)],
        "box": [(27 + 9 * i + j, 5) for i in range(3) for j in range(3, 6)],
        "values": [(40, v) for v in range(1, 10)],
    }
    assert [x.weight for x in found] == sorted((x.weight for x in found), reverse=True)
    assert totals(found) == pytest.approx(dict.fromkeys(heard, 1.0), abs=1e-5)


def test_who_is_heard_over_signs() -> None:
    """Whoever is larger, and whoever is smaller."""
    for kind in KINDS:
        less = FUTOSHIKI.csp.pairs["less"].tolist()
        for variable in {x for pair in less for x in pair}:
            found = listen(build(kind, FUTOSHIKI), FUTOSHIKI, step=1, variable=variable, value=3)
            value = None if kind == "multivalued" else 3
            said = {(x.kind, x.variable) for x in found if x.kind.startswith("less") and x.value == value}
            smaller, larger = (
                ({(k, p[0])} if p[1] == variable else set() for p in less for k in ["less"]),
                ({("less reversed", p[1])} if p[0] == variable else set() for p in less),
            )
            assert said == set().union(*smaller, *larger)


def test_who_is_heard_of_the_values() -> None:
    model = build("multivalued", FUTOSHIKI)
    [given] = np.flatnonzero(FUTOSHIKI.givens > 0)[:1].tolist()
    [free] = np.flatnonzero(FUTOSHIKI.givens == 0)[:1].tolist()
    known, unknown = (
        [x for x in listen(model, FUTOSHIKI, 2, variable, 1) if x.kind == "values"] for variable in (given, free)
    )
    assert known == [Listening("values", given, int(FUTOSHIKI.givens[given]), 1.0)]
    assert sorted((x.variable, x.value) for x in unknown) == [(free, v) for v in range(1, 7)]
    assert listen(model, FUTOSHIKI, 2, free, 1) == listen(model, FUTOSHIKI, 2, free, 4)


def test_who_has_no_neighbors_hears_nobody() -> None:
    for kind in KINDS:
        assert not [x for x in listen(build(kind, graph()), graph(), 1, 7, 1) if x.kind == "edge"]
        assert [x for x in listen(build(kind, graph()), graph(), 1, 0, 1) if x.kind == "edge"]


def test_a_puzzle_is_heard_in_the_form_of_the_model() -> None:
    model = build("binarized", restate(FOUR, "nbr"))
    found = listen(model, FOUR, 1, 0, 3)
    assert sorted(x.variable for x in found if x.kind == "nbr") == [1, 2, 3, 4, 5, 8, 12]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("puzzle", [FOUR, FUTOSHIKI, graph()], ids=["sudoku", "futoshiki", "coloring"])
@pytest.mark.parametrize("edges", ["attention", "max"])
def test_weights_of_a_kind_sum_to_one(kind: str, puzzle: Instance, edges: str) -> None:
    model = build(kind, puzzle, **({"edges": edges} if kind == "grouped" else {}))
    for variable in range(0, puzzle.csp.num_variables, 3):
        found = listen(model, puzzle, 3, variable, 2)
        assert totals(found) == pytest.approx(dict.fromkeys(totals(found), 1.0), abs=1e-5)
        assert len({(x.kind, x.variable, x.value) for x in found}) == len(found)
        assert min(x.weight for x in found) >= 0


# ---- however variables are numbered


def compare(found: list[Listening], expected: list[Listening]) -> None:
    one, other = ({(x.kind, x.variable, x.value): x.weight for x in heard} for heard in (found, expected))
    assert one == pytest.approx(other, abs=1e-5)


def renumber(found: list[Listening], order: list[int]) -> list[Listening]:
    return [Listening(x.kind, order[x.variable], x.value, x.weight) for x in found]


@pytest.mark.parametrize("edges", ["attention", "max"])
@pytest.mark.parametrize("kind", KINDS)
def test_nodes_of_a_graph_in_another_order(kind: str, edges: str) -> None:
    order = [3, 6, 0, 7, 5, 1, 2, 4]
    model = build(kind, graph(), **({"edges": edges} if kind == "grouped" else {}))
    uneven = 0.0
    for variable in range(8):
        plain = listen(model, graph(), 4, variable, 3)
        compare(listen(model, graph(order), 4, order[variable], 3), renumber(plain, order))
        weights = [x.weight for x in plain if x.kind == "edge"]
        uneven = max(uneven, max(weights, default=0.0) - min(weights, default=0.0))
    assert uneven > 1e-4  # or any order would do


@pytest.mark.parametrize("kind", KINDS)
def test_rows_of_a_board_in_another_order(kind: str) -> None:
    board = np.array([[0, 0, 3, 0], [0, 0, 0, 1], [2, 0, 0, 0], [0, 0, 0, 0]])
    rows = [3, 2, 0, 1]  # row i as row rows[i]
    order = [4 * rows[i // 4] + i % 4 for i in range(16)]
    moved = np.zeros_like(board)
    moved[rows] = board
    plain, other = (sudoku.build(2, 2, b.flatten()) for b in (board, moved))
    model = build(kind, plain)
    for variable in (0, 5, 8, 15):
        compare(listen(model, other, 3, order[variable], 4), renumber(listen(model, plain, 3, variable, 4), order))


# ---- when


@pytest.mark.parametrize("kind", KINDS)
def test_it_is_what_nodes_tell_in_that_step(kind: str) -> None:
    model: Any = build(kind, graph()).eval()
    batch = neural.Puzzles.of_instances([graph()]).batch([0])
    with torch.no_grad():
        prepared = model.prepare(batch)
        told = [model.start(prepared).told, *(states.told for states, _ in model.walk(prepared, 4))]
        node = 2 if kind == "multivalued" else 2 * 3 + 1
        heard = [next(h for h in model.listen(prepared, t, node) if h.kind == "edge") for t in told]
    assert not torch.allclose(heard[0].weights, heard[1].weights, atol=1e-3)
    for step in range(1, 6):
        found = {x.variable: x.weight for x in listen(model, graph(), step, 2, 2) if x.kind == "edge"}
        sources = heard[step - 1].sources.tolist()
        expected = dict(
            zip(
                [s if kind == "multivalued" else s // 3 for s in sources], heard[step - 1].weights.tolist(), strict=True
            )
        )
        assert found == pytest.approx(expected, abs=1e-6)


@pytest.mark.parametrize("step", [5, 16, 17, 40, 75])
def test_steps_count_over_all_attempts_with_their_guesses_and_notes(step: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `solve_batch` runs is what is asked."""
    boards = find_dataset("futoshiki-11-test")
    puzzle = boards[len(boards) - 2]
    model: Any = shipped("futoshiki-grouped")
    moments: list[Moment] = []

    def keep(*arguments: Any) -> Iterator[Moment]:
        for moment in attempt(*arguments):
            moments.append(moment)
            yield moment

    monkeypatch.setattr(neural, "attempt", keep)
    [answer] = solve_batch(model, [puzzle], 80, restart=16, notes=True)
    monkeypatch.undo()
    assert answer.steps == 80
    variable = int(np.flatnonzero(puzzle.givens == 0)[20])
    node = variable * 11 + 6
    with torch.no_grad():
        heard = model.listen(moments[step - 1].graph, moments[step - 1].told, node)
    expected = [
        Listening(one.kind, source // 11, source % 11 + 1, weight)
        for one in heard
        for source, weight in zip(one.sources.tolist(), one.weights.tolist(), strict=True)
    ]
    found = listen(model, puzzle, step, variable, 7, restart=16, notes=True)
    assert Counter(found) == Counter(expected)
    if step <= 17:  # without starting over it is solved in its eighteenth step
        assert (found == listen(model, puzzle, step, variable, 7)) == (step <= 16)


def test_it_is_told_step_by_step_beside_others() -> None:
    first, second = (build("grouped", puzzle) for puzzle in (FOUR, graph()))
    alone = list(listening(first, FOUR, 4, 3, 2)), list(listening(second, graph(), 6, 1, 1))
    assert [len(a) for a in alone] == [4, 6]
    for told in alone:
        assert told[:-1] == [None] * (len(told) - 1)
        assert told[-1]
    both = list(zip_longest(listening(first, FOUR, 4, 3, 2), listening(second, graph(), 6, 1, 1)))
    assert [a for a, _ in both][:4] == alone[0]
    assert [b for _, b in both] == alone[1]


def test_gradients_are_the_callers() -> None:
    for _ in listening(build("grouped", FOUR), FOUR, 3, 3, 2):
        assert torch.is_grad_enabled()
    with torch.no_grad():
        listen(build("grouped", FOUR), FOUR, 3, 3, 2)
        assert not torch.is_grad_enabled()


# ---- what is refused


@pytest.mark.parametrize(
    ("asked", "words"),
    [
        ({"step": 0}, "step 0; there are steps 1 to 100,000"),
        ({"step": 100_001}, "step 100001; there are steps 1 to 100,000"),
        ({"variable": -1}, "variable -1; the puzzle has 0 to 15"),
        ({"variable": 16}, "variable 16; the puzzle has 0 to 15"),
        ({"value": 0}, "value 0; the puzzle has 1 to 4"),
        ({"value": 5}, "value 5; the puzzle has 1 to 4"),
        ({"restart": -1}, "a restart after -1 steps"),
        ({"notes": True}, "notes are taken where a network starts over"),
    ],
)
def test_what_there_is_not_is_refused_at_once(asked: dict[str, int], words: str) -> None:
    with pytest.raises(OutgrowError) as caught:
        listening(build("grouped", FOUR), FOUR, **{"step": 1, "variable": 0, "value": 1, **asked})  # type: ignore[arg-type]
    assert str(caught.value).startswith(words)
    assert len(str(caught.value).splitlines()) == 1


def test_a_step_after_the_solution_is_refused() -> None:
    puzzle = find_dataset("sudoku-9-test")[1]
    model = shipped("sudoku-grouped")
    [answer] = solve_batch(model, [puzzle], 64)
    assert answer.solved
    assert listen(model, puzzle, answer.steps, 0, 1)
    with pytest.raises(
        OutgrowError, match=f"was solved after step {answer.steps}; there is no step {answer.steps + 1}$"
    ):
        listen(model, puzzle, answer.steps + 1, 0, 1)


def test_restarts_longer_than_the_step_are_no_matter() -> None:
    model = build("grouped", FOUR)
    assert listen(model, FOUR, 3, 2, 1, restart=40, notes=True) == listen(model, FOUR, 3, 2, 1)
