"""Puzzles that stay for several updates: they go on from where they were, hard ones for longer, and nothing else changes."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import KINDS, SMALL, color_graphs, events, flatten, rich, tiny
from torch import Tensor

from outgrow.data import find_dataset
from outgrow.errors import DamagedFile, OutgrowError
from outgrow.graphs import Puzzles
from outgrow.models import MODELS, build_model
from outgrow.models.layers import States
from outgrow.train import loop, train
from outgrow.train.carry import Carried
from outgrow.train.objective import Losses, Objective
from outgrow.train.processes import Processes
from outgrow.train.replay import Replay
from outgrow.weights.file import read_tensors, write_tensors

NONE = np.zeros(3, np.bool_)


def givens(*values: int) -> list[Any]:
    return [np.full(2, v) for v in values]


def both(*values: int) -> tuple[list[Any], list[Any]]:
    """Givens, and solutions a hundred larger."""
    return givens(*values), givens(*(v + 100 for v in values))


def numbered(nodes: list[int], first: int = 0) -> States:
    """States of which every node's tells its puzzle and place."""
    told = torch.tensor([[100.0 * (first + p) + i] for p, n in enumerate(nodes) for i in range(n)])
    return States(told, told + 0.25, told + 0.5)


def test_puzzles_take_the_places_of_those_that_leave() -> None:
    carried = Carried(3, longest=2)
    assert carried.renew(np.array([7, 8, 9]), *both(1, 2, 3)).tolist() == [True] * 3
    assert (carried.puzzles.tolist(), carried.givens.tolist()) == ([7, 8, 9], [1, 1, 2, 2, 3, 3])
    carried.settle(numbered([1, 1, 1]), np.ones(3, np.int64), carried.targets, NONE, (0,))
    assert not carried.leaving.any()
    assert carried.renew(np.array([4, 5, 6]), *both(4, 5, 6)).tolist() == [False] * 3
    assert carried.puzzles.tolist() == [7, 8, 9]
    carried.leaving[1] = True
    assert carried.renew(np.array([4, 5, 6]), *both(4, 5, 6)).tolist() == [False, True, False]
    assert (carried.puzzles.tolist(), carried.givens.tolist()) == ([7, 4, 9], [1, 1, 4, 4, 3, 3])
    carried.settle(numbered([1, 1, 1]), np.ones(3, np.int64), carried.targets, NONE, (0,))
    assert carried.leaving.tolist() == [True, False, True]  # after their second update


def test_a_solution_that_was_found_stays_the_target() -> None:
    carried = Carried(3, longest=9)
    carried.renew(np.arange(3), *both(1, 2, 3))
    assert carried.targets.tolist() == [101, 101, 102, 102, 103, 103]
    found = np.array([101, 101, 7, 8, 9, 10])
    carried.settle(numbered([1, 1, 1]), np.ones(3, np.int64), found, NONE, (0,))
    assert carried.targets.tolist() == found.tolist()
    carried.leaving[1] = True
    carried.renew(np.arange(3, 6), *both(4, 5, 6))
    assert carried.targets.tolist() == [101, 101, 104, 104, 9, 10]


def test_draws_stay_with_their_puzzles() -> None:
    carried = Carried(3, longest=9)
    carried.renew(np.arange(3), *both(1, 2, 3), np.array([[1, 2], [3, 4], [5, 6]]))
    carried.settle(numbered([1, 1, 1]), np.ones(3, np.int64), carried.targets, NONE, (0,))
    carried.leaving[2] = True
    carried.renew(np.arange(3), *both(1, 2, 3), np.array([[7, 8], [9, 0], [1, 1]]))
    assert carried.draws is not None
    assert carried.draws.tolist() == [[1, 2], [3, 4], [7, 8]]


def test_half_of_the_solved_ones_leave() -> None:
    carried = Carried(2000, longest=100)
    carried.renew(np.arange(2000), [np.zeros(1, np.int64)] * 2000, [np.ones(1, np.int64)] * 2000)
    solved = np.arange(2000) < 1000
    states = numbered([1] * 2000)
    carried.settle(states, np.ones(2000, np.int64), carried.targets, solved, (1,))
    assert 400 < carried.leaving.sum() < 600
    assert not carried.leaving[1000:].any()
    before = carried.leaving.copy()
    carried.settle(states, np.ones(2000, np.int64), carried.targets, solved, (1,))
    assert (carried.leaving == before).all()
    carried.settle(states, np.ones(2000, np.int64), carried.targets, solved, (2,))
    assert (carried.leaving != before).any()


def test_states_stay_with_their_puzzles_when_others_change_size() -> None:
    carried = Carried(3, longest=9)
    carried.renew(np.arange(3), *both(1, 2, 3))
    fresh = numbered([2, 3, 1], first=5)
    assert carried.go_on(fresh, np.array([2, 3, 1]), np.ones(3, np.bool_)) is fresh
    carried.settle(numbered([2, 3, 1]), np.array([2, 3, 1]), carried.targets, NONE, (0,))
    new = np.array([False, True, False])
    found = carried.go_on(numbered([2, 4, 1], first=5), np.array([2, 4, 1]), new)
    expected = [0, 1, 600, 601, 602, 603, 200]
    assert found.told.flatten().tolist() == expected
    assert found.hidden.flatten().tolist() == [e + 0.25 for e in expected]
    assert found.cell.flatten().tolist() == [e + 0.5 for e in expected]


def test_new_puzzles_inherit_states() -> None:
    carried = Carried(2000, longest=9, inherit=0.25)
    puzzles, ones = np.arange(2000), np.ones(2000, np.int64)
    given = [[np.zeros(1, np.int64)] * 2000] * 2
    assert carried.renew(puzzles, *given, seed=(1,)).all()  # there is nothing to inherit
    carried.settle(numbered([1] * 2000), ones, carried.targets, puzzles < 1000, (1,))
    carried.leaving[:1000] = True
    anew = carried.renew(puzzles + 5000, *given, seed=(1,))
    assert 700 < anew[:1000].sum() < 800
    assert not anew[1000:].any()
    assert (carried.puzzles[:1000] >= 5000).all()
    assert (carried.ages[:1000] == 0).all()
    carried.leaving[:1000] = True
    assert (carried.renew(puzzles, *given, seed=(1,)) == anew).all()
    carried.leaving[:1000] = True
    assert (carried.renew(puzzles, *given, seed=(2,)) != anew).any()


def test_states_are_inherited_by_larger_and_smaller_puzzles() -> None:
    carried = Carried(4, longest=9, inherit=1.0)
    carried.renew(np.arange(4), *both(1, 2, 3, 4))
    carried.settle(numbered([2, 3, 1, 2]), np.array([2, 3, 1, 2]), carried.targets, np.zeros(4, np.bool_), (0,))
    carried.leaving[:3] = True
    anew = carried.renew(np.arange(4, 8), *both(5, 6, 7, 8))
    assert not anew.any()
    found = carried.go_on(numbered([2, 1, 3, 2], first=5), np.array([2, 1, 3, 2]), anew)
    assert found.told.flatten().tolist() == [0, 1, 100, 200, 701, 702, 300, 301]


@pytest.mark.parametrize("inherit", [0.0, 1.0])
def test_a_run_whose_puzzles_inherit(inherit: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Everybody leaves after an update: with 1.0 the next ones start where those ended, and not with 0.0."""
    kept = keep_losses(monkeypatch)
    recipe = tiny("grouped", data={"valid": []}, updates=3, carry=1, inherit=inherit)
    train(recipe, tmp_path, device="cpu")
    for (_, _, before), (_, start, _) in pairwise(kept):
        assert start is not None
        assert torch.equal(start.hidden, before.states.hidden) == (inherit == 1.0)


def test_who_inherits_differs_between_updates(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keep_losses(monkeypatch)
    train(tiny("grouped", data={"valid": []}, updates=6, carry=1, inherit=0.5), tmp_path, device="cpu")
    found = set()
    for (_, _, before), (batch, start, _) in pairwise(kept):
        assert start is not None
        same = (start.hidden == before.states.hidden).all(1).view(len(batch), -1).all(1)
        found.add(tuple(same.tolist()))
    assert len(found) > 3


def test_everything_is_written_down() -> None:
    carried = Carried(3, longest=4)
    assert carried.as_tensors() == {}
    carried.renew(np.array([4, 5, 6]), *both(4, 5, 6), np.array([[1], [2], [3]]))
    carried.settle(numbered([2, 3, 1]), np.array([2, 3, 1]), carried.targets, np.array([True, True, True]), (3,))
    other = Carried(3, longest=4)
    other.restore(carried.as_tensors(), torch.device("cpu"))
    assert carried.leaving.any()
    assert other.leaving.tolist() == carried.leaving.tolist()
    assert other.ages.tolist() == [1, 1, 1]
    one, two = carried.as_tensors(), other.as_tensors()
    assert one.keys() == two.keys()
    assert all(torch.equal(one[name], two[name]) for name in one)
    other.restore({}, torch.device("cpu"))
    assert other.as_tensors() == {}
    assert other.leaving.all()


def keep_losses(monkeypatch: pytest.MonkeyPatch) -> list[tuple[Any, States | None, Losses]]:
    kept: list[tuple[Any, States | None, Losses]] = []
    forward = Objective.forward

    def keep(self: Objective, batch: Any, csps: Any, draw: Any, free: int, start: States | None) -> Losses:
        found = forward(self, batch, csps, draw, free, start)
        kept.append((batch, start, found))
        return found

    monkeypatch.setattr(Objective, "forward", keep)
    return kept


@pytest.mark.parametrize("kind", KINDS)
def test_an_update_goes_on_where_the_last_one_ended(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With weights that hardly change and puzzles that stay, three updates of two steps are one of six."""
    kept = keep_losses(monkeypatch)
    recipe = tiny(kind, data={"valid": []}, updates=3, lr=1e-12, steps=2, carry=9)
    monkeypatch.setattr("outgrow.train.carry._LEAVE", 0.0)
    train(recipe, tmp_path / "a", device="cpu")
    whole = tiny(kind, data={"valid": []}, updates=1, lr=1e-12, steps=6)
    train(whole, tmp_path / "b", device="cpu")
    *parts, (batch, _, once) = kept
    assert [p[0].indices.tolist() for p in parts] == [batch.indices.tolist()] * 3
    if kind != "multivalued":  # its penalty counts once an update
        torch.testing.assert_close(sum(p[2].total.detach() for p in parts), once.total.detach(), rtol=1e-4, atol=1e-5)
    for one, other in zip(parts[-1][2].states, once.states, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)


def test_new_puzzles_begin_anew_with_givens_and_noise_of_their_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kept = keep_losses(monkeypatch)
    recipe = rich(free_steps=[0, 0], carry=2, updates=24, validate_every=24, data={"valid": []})
    train(recipe, tmp_path / "run", device="cpu")
    first = kept[0][0]
    stored = find_dataset(f"sudoku-{first.max_values}-train")
    given = first.givens.view(len(first), -1).numpy()
    offset = 0 if first.max_values == 4 else 40
    fixed = np.array([stored[int(i) - offset].givens for i in first.indices])
    assert (given > 0).sum() != (fixed > 0).sum()
    solutions = first.solutions.view(len(first), -1).numpy()
    assert (given[given > 0] == solutions[given > 0]).all()
    last: dict[int, tuple[Any, Losses]] = {}
    stayed = moved = 0
    for batch, start, found in kept:
        assert start is not None
        size = batch.max_values
        if size in last:
            before, ended = last[size]
            same = before.indices == batch.indices
            old, new = (b.givens.view(len(b), -1) for b in (before, batch))
            began, reached = (s.hidden.view(len(batch), -1) for s in (start, ended.states))
            for place in range(len(batch)):
                if same[place] and torch.equal(began[place], reached[place]):
                    stayed += 1
                    assert torch.equal(old[place], new[place])
                else:
                    moved += 1
                    assert not torch.equal(began[place], reached[place])
        last[size] = (batch, found)
    assert stayed > 20
    assert moved > 20


def test_graphs_of_all_sizes_are_carried(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = keep_losses(monkeypatch)
    graphs = {"graphs": color_graphs([5, 6, 7, 8, 9] * 24, given=0.5)}
    data = {"train": ["graphs"], "valid": [], "form": "units", "limit": 0}
    train(
        tiny("grouped", data=data, carry=3, multiplicity=True, updates=12),
        tmp_path / "a",
        device="cpu",
        datasets=graphs,
    )
    assert len({batch.num_variables for batch, _, _ in kept}) > 1
    own = 0
    for (before, _, losses), (batch, _, _) in pairwise(kept):
        parts = zip(
            batch.indices, before.indices, *(b.split(b.solutions.numpy()) for b in (batch, before)), strict=True
        )
        wanted = before.split(losses.target.numpy())
        for (puzzle, other, now, then), target in zip(parts, wanted, strict=True):
            if puzzle == other:  # it stays, with what it has found
                assert now.tolist() == target.tolist()
                own += now.tolist() != then.tolist()
    assert own
    assert all(event["loss"] > 0 for event in events(tmp_path / "a", "update"))


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_updates_go_on_as_plain_ones_do(device: str, kind: str) -> None:
    puzzles = Puzzles.of_datasets([find_dataset("sudoku-4-train")], "units", 12)
    extra: dict[str, Any] = {"max_values": 9} if kind == "multivalued" else {}
    torch.manual_seed(0)
    model = build_model(puzzles.schema, MODELS[kind][1](**{**SMALL[kind], **extra})).to(device).train()
    objective = Objective(model, False, False, 2)
    replay = Replay(objective)
    draw = None if kind != "multivalued" else torch.arange(4, device=device).expand(4, -1)
    states: States | None = None
    for turn, new in enumerate(([1, 1, 1, 1], [0, 1, 0, 0], [0, 0, 0, 0])):
        batch = puzzles.batch(np.arange(turn, turn + 4), device)
        mask = torch.tensor(new, dtype=torch.bool)
        begun = objective.begin(batch, draw)
        nodes = np.full(4, len(begun.hidden) // 4)
        carried = Carried(4, 9)
        carried.states, carried._nodes = states, nodes
        objective.zero_grad()
        expected = objective(batch, (), draw, 0, carried.go_on(begun, nodes, mask.numpy()))
        expected.total.backward()
        wanted = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
        expected = expected._replace(total=expected.total.detach())
        objective.zero_grad()
        losses = replay.backward(batch, draw, 0, (states, mask.to(device)))
        for one, other in zip(flatten(losses), flatten(expected), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-5)
        found: dict[str, Tensor] = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
        for name, gradient in wanted.items():
            torch.testing.assert_close(found[name], gradient, rtol=1e-3, atol=1e-5)
        states = States(*(t.clone() for t in losses.states))


def test_what_carrying_does_not_go_with(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for other in ({"free_steps": [0, 1]}, {"micro_batch": 2}):
        with pytest.raises(OutgrowError, match="without free_steps, and without micro_batch"):
            tiny(carry=2, **other)
    for other in ({"inherit": 0.5}, {"carry": 2, "inherit": 1.5}, {"carry": 2, "inherit": -0.5}):
        with pytest.raises(
            OutgrowError, match=r"inherit is .*; it is a share of the puzzles that carry lets in, from 0 to 1"
        ):
            tiny(**other)
    monkeypatch.setattr(loop, "start_processes", lambda device: Processes(0, 2, torch.device("cpu")))
    monkeypatch.setattr(loop, "stop_processes", lambda processes: None)
    with pytest.raises(OutgrowError, match="one process, and there are 2"):
        train(tiny(carry=2), tmp_path / "run", device="cpu")


def test_marks_are_drawn_anew_for_new_puzzles_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any, Any]] = []
    forward = Objective.forward

    def keep(self: Objective, batch: Any, csps: Any, draw: Any, free: int, start: Any) -> Losses:
        seen.append((batch.indices.copy(), batch.givens.view(len(batch), -1).numpy(), draw.clone()))
        return forward(self, batch, csps, draw, free, start)

    monkeypatch.setattr(Objective, "forward", keep)
    monkeypatch.setattr("outgrow.train.carry._LEAVE", 0.0)
    recipe = tiny("grouped", model={"marks": 2}, data={"valid": []}, carry=3, updates=6)
    train(recipe, tmp_path / "run", device="cpu")
    draws = [draw for _, _, draw in seen]
    assert all(draw.shape == (8, 1) for draw in draws)
    assert torch.equal(draws[0], draws[2])
    assert torch.equal(draws[3], draws[5])
    assert not (draws[0] == draws[3]).any()
    train(recipe.changed(carry=0), tmp_path / "plain", device="cpu")
    assert len({int(n) for _, _, draw in seen[6:] for n in draw}) == 6 * 8


def test_a_checkpoint_without_all_of_it_is_damaged(tmp_path: Path) -> None:
    """Not a traceback, and not a run that begins somewhere else."""
    recipe = tiny("grouped", data={"valid": []}, carry=3, updates=2, validate_every=1)
    train(recipe, tmp_path / "run", device="cpu")
    file = tmp_path / "run" / "checkpoint.safetensors"
    tensors, about = read_tensors(file)
    ages = tensors["carried/0/ages"]
    for broken in ({"carried/0/ages": ages[:3]}, {"carried/0/hidden": tensors["carried/0/hidden"][:-1]}):
        write_tensors(file, {**tensors, **broken}, about)
        with pytest.raises(
            DamagedFile, match=r"checkpoint\.safetensors: not a checkpoint of this recipe \(not 8 puzzles"
        ):
            train(recipe, tmp_path / "run", device="cpu", resume=True)
    write_tensors(file, {name: t for name, t in tensors.items() if name != "carried/0/ages"}, about)
    with pytest.raises(DamagedFile, match="not a checkpoint of this recipe"):
        train(recipe, tmp_path / "run", device="cpu", resume=True)
