"""Recorded updates give the losses and gradients of plain ones, batch after batch.

Without a GPU a stand-in takes the place of CUDA graphs: it runs what was recorded once more, into the same tensors.
"""

from __future__ import annotations

import gc
import weakref
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import KINDS, SMALL, color_graphs, flatten, rich, tiny
from torch import Tensor

from outgrow.data import Dataset, find_dataset
from outgrow.graphs import Batch, Puzzles
from outgrow.graphs import grouped as grouped_graphs
from outgrow.models import MODELS, Model, build_model
from outgrow.train import Recipe, loop
from outgrow.train.objective import Losses, Objective
from outgrow.train.order import draw_values
from outgrow.train.processes import Processes
from outgrow.train.replay import Replay, _tensors

BOARDS = ["sudoku-4-train", "sudoku-6-train"]  # two sizes, the same tables in every batch
ORDERS = ["futoshiki-4-train", "futoshiki-5-train"]  # two sizes, less-than edges that differ from puzzle to puzzle


def make(kind: str, puzzles: Puzzles, device: str, steps: int = 2) -> Objective:
    extra: dict[str, Any] = {"max_values": 9} if kind == "multivalued" else {}
    config = MODELS[kind][1](**{**SMALL[kind], "steps": 9, **extra})
    torch.manual_seed(0)
    model: Model = build_model(puzzles.schema, config)
    return Objective(model.to(device).train(), False, False, steps)


def batches(puzzles: Puzzles, sets: int, device: str, rounds: int = 2) -> list[Batch]:
    """Four puzzles of the first set, four of the next, and so on, again and again: other ones each time."""
    size = len(puzzles) // sets
    places = [(start * size, turn) for turn in range(rounds) for start in range(sets)]
    return [puzzles.batch(np.arange(first + 4 * turn, first + 4 * turn + 4), device) for first, turn in places]


def draws(objective: Objective, found: Sequence[Batch]) -> list[Tensor | None]:
    if objective.model.max_values is None:
        return [None] * len(found)
    drawn = [draw_values(len(b), b.max_values, 9, (turn,)) for turn, b in enumerate(found)]
    return [torch.from_numpy(d.copy()).to(b.puzzle.device) for d, b in zip(drawn, found, strict=True)]


def gradients(objective: Objective) -> dict[str, Tensor | None]:
    return {n: None if w.grad is None else w.grad.clone() for n, w in objective.model.named_parameters()}


def compute(
    objective: Objective, batch: Batch, draw: Tensor | None, free: int
) -> tuple[Losses, dict[str, Tensor | None]]:
    """Plainly."""
    objective.zero_grad()
    losses = objective(batch, (), draw, free)
    losses.total.backward()
    found = gradients(objective)
    objective.zero_grad()
    return losses._replace(total=losses.total.detach()), found  # and let go of what it was computed from


def assert_same(replay: Replay, objective: Objective, batch: Batch, draw: Tensor | None, free: int) -> None:
    expected, wanted = compute(objective, batch, draw, free)
    losses = replay.backward(batch, draw, free)
    for one, other in zip(flatten(losses), flatten(expected), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    found = gradients(objective)
    assert found.keys() == wanted.keys()
    for name, gradient in wanted.items():
        torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("names", [BOARDS, ORDERS], ids=["boards", "orders"])
def test_recorded_gradients_are_the_plain_ones(device: str, kind: str, names: list[str]) -> None:
    puzzles = Puzzles.of_datasets([find_dataset(name) for name in names], "units", 12)
    objective = make(kind, puzzles, device)
    replay = Replay(objective)
    found = batches(puzzles, 2, device)
    for number, (batch, draw) in enumerate(zip(found, draws(objective, found), strict=True)):
        before = [tensor.clone() for tensor in _tensors(found[0])]
        for free in ((0, 3), (1, 0))[number // 2]:
            assert_same(replay, objective, batch, draw, free)
        # What was recorded has tensors of its own.
        assert all(torch.equal(a, b) for a, b in zip(before, _tensors(found[0]), strict=True))
    if names is BOARDS:
        assert len(replay._recordings) == 4  # two sizes, with free steps and without: the rest was replayed


@pytest.mark.parametrize("kind", KINDS)
def test_fresh_givens_and_other_weights_are_seen(device: str, kind: str) -> None:
    """Nothing but tables is remembered of the batch and the weights that were there when it was recorded."""
    puzzles = Puzzles.of_datasets([find_dataset("sudoku-4-train")], "nbr", 4)
    objective = make(kind, puzzles, device)
    replay = Replay(objective)
    batch = puzzles.batch(range(4), device)
    (draw,) = draws(objective, [batch])
    assert batch.solutions is not None
    for turn in range(3):
        assert_same(replay, objective, batch, draw, 2 * turn)
        batch.givens.copy_(torch.where(torch.arange(64, device=device) % 3 == turn, batch.solutions, 0))
        with torch.no_grad():
            for weight in objective.parameters():
                weight += 0.05 * torch.randn_like(weight)


@pytest.mark.parametrize("kind", ["binarized", "grouped"])
def test_puzzles_of_as_many_variables_with_other_values_are_recorded_apart(device: str, kind: str) -> None:
    sets = [color_graphs([6] * 12, colors, given=0.4) for colors in (3, 4, 3)]
    puzzles = Puzzles.of_datasets(sets, "units")
    objective = make(kind, puzzles, device)
    replay = Replay(objective)
    for batch in batches(puzzles, 3, device):
        for free in (0, 2):
            assert_same(replay, objective, batch, None, free)


def test_a_weight_without_gradient_stays_without(device: str) -> None:
    puzzles = Puzzles.of_datasets([find_dataset("sudoku-4-train")], "nbr", 8)
    objective = make("grouped", puzzles, device)
    objective.model.register_parameter("idle", torch.nn.Parameter(torch.ones(3, device=device)))
    replay = Replay(objective)
    for batch in batches(puzzles, 1, device, rounds=2):
        assert_same(replay, objective, batch, None, 1)
        assert objective.model.get_parameter("idle").grad is None


def test_tables_live_as_long_as_the_recordings_that_read_them(device: str) -> None:
    """Those of the last shape are remembered for the next batch; a recording needs its own."""
    sets = [color_graphs([nodes] * 4, given=0.4) for nodes in (5, 6)]
    puzzles = Puzzles.of_datasets(sets, "units")
    objective = make("binarized", puzzles, device)
    replay = Replay(objective)
    first, second = batches(puzzles, 2, device, rounds=1)
    replay.backward(first, None, 1)
    graph: Any = objective.model.prepare(first)
    read = weakref.ref(graph.relation[0].source)
    del graph
    replay.backward(second, None, 1)
    compute(objective, second, None, 1)
    gc.collect()
    assert read() is not None
    assert_same(replay, objective, first, None, 1)
    boards = Puzzles.of_datasets([find_dataset("sudoku-4-train")], "units", 4)
    objective = make("grouped", boards, device)
    replay = Replay(objective)
    (batch,) = batches(boards, 1, device, rounds=1)
    replay.backward(batch, None)
    graph = objective.model.prepare(batch)
    read = weakref.ref(graph.values.members.source)
    del graph
    grouped_graphs._group_values.cache_clear()
    gc.collect()
    assert read() is not None


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_drawn_anew_by_the_seed(device: str, kind: str) -> None:
    if device == "cuda":
        pytest.skip("a recording counts its draws differently")
    puzzles = Puzzles.of_datasets([find_dataset("sudoku-4-train")], "nbr", 4)
    objective = make(kind, puzzles, device)
    objective._noise = 0.5
    replay = Replay(objective)
    batch = puzzles.batch(range(4))
    for free in (0, 2):
        replay.backward(batch, None, free)
        totals = []
        for seed in (1, 2, 1):
            torch.manual_seed(seed)
            expected, _ = compute(objective, batch, None, free)
            torch.manual_seed(seed)
            totals.append(replay.backward(batch, None, free).total.item())
            assert totals[-1] == pytest.approx(expected.total.item(), rel=1e-5)
        assert totals[0] == totals[2] != totals[1]


@pytest.mark.parametrize(
    ("recipe", "sets", "recordable"),
    [
        (tiny(), {}, True),
        (rich(), {}, True),
        (rich(micro_batch=4), {}, False),
        (rich(multiplicity=True), {}, False),
        (tiny(data={"train": ["g"], "valid": [], "form": "units"}), {"g": color_graphs([5, 6] * 8)}, False),
        (tiny(data={"train": ["g"], "valid": [], "form": "units"}), {"g": color_graphs([5] * 8)}, True),
        (
            tiny(data={"train": ["g", "h"], "valid": [], "form": "units"}),
            {"g": color_graphs([5] * 8), "h": color_graphs([6] * 8)},
            True,
        ),
        (
            tiny(data={"train": ["g", "h"], "valid": [], "form": "units"}),
            {"g": color_graphs([5] * 8), "h": color_graphs([6] * 7 + [7])},
            False,
        ),
    ],
)
def test_updates_are_recorded_where_each_set_has_puzzles_of_one_size(
    tmp_path: Path, recipe: Recipe, sets: dict[str, Dataset], recordable: bool
) -> None:
    for count in (1, 2):
        processes = Processes(0, 1, torch.device("cpu"))
        trainer = loop._Trainer(recipe, tmp_path / "run", processes, sets, lambda event: None, False)
        trainer.processes = Processes(0, count, torch.device("cpu"))
        assert trainer._recordable() == (recordable and count == 1)
