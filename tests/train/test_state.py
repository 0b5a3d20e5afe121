"""The state of a run: the rate of each update, averages, snapshots, checkpoints."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file
from tiny import KINDS, about, tiny

from outgrow.errors import DamagedFile
from outgrow.graphs import Schema
from outgrow.models import Model, build_model
from outgrow.puzzles import parse_one
from outgrow.train import TrainRecipe
from outgrow.train.state import State, learning_rate

SCHEMA = Schema.of(parse_one("1.....3..4.....2").csp)


def rates(updates: int, **recipe: Any) -> list[float]:
    how = TrainRecipe(updates=updates, **recipe)
    return [learning_rate(how, u) for u in range(updates + 1)]


def test_the_rate_stays_where_nothing_changes_it() -> None:
    assert rates(5, lr=0.3) == [0.3] * 6


def test_warm_up_rises_evenly_and_ends_at_the_rate() -> None:
    assert rates(6, lr=1.0, warmup=4) == [0.25, 0.5, 0.75, 1.0, 1.0, 1.0, 1.0]
    assert rates(3, lr=1.0, warmup=1) == [1.0] * 4
    assert rates(2, lr=1.0, warmup=10) == pytest.approx([0.1, 0.2, 0.3])  # longer than the run


def test_linear_decay_falls_evenly_to_its_end() -> None:
    assert rates(6, lr=2.0, warmup=2, decay="linear") == pytest.approx([1.0, 2.0, 2.0, 1.5, 1.0, 0.5, 0.0])
    assert rates(4, lr=2.0, decay="linear", final_lr=0.5) == pytest.approx([2.0, 1.75, 1.5, 1.25, 1.0])


def test_cosine_decay_falls_slowly_fast_and_slowly() -> None:
    found = rates(6, lr=2.0, warmup=2, decay="cosine", final_lr=0.1)
    half = math.sqrt(0.5)
    expected = [1.0, 2.0, 2.0, 0.2 + 0.9 * (1 + half), 1.1, 0.2 + 0.9 * (1 - half), 0.2]
    assert found == pytest.approx(expected)


def test_after_the_last_update_the_rate_stays_at_its_end() -> None:
    how = TrainRecipe(updates=4, lr=2.0, decay="cosine", final_lr=0.5)
    assert [learning_rate(how, u) for u in (4, 5, 400)] == [1.0] * 3


def make(kind: str = "binarized", **train: Any) -> tuple[Model, State]:
    recipe = tiny(kind, **train)
    torch.manual_seed(3)
    model = build_model(SCHEMA, recipe.model)
    return model, State(model, recipe.train)


def learn(model: Model, state: State, times: int = 1, scale: float = 1.0) -> None:
    """Updates with made-up gradients, different each time."""
    for _ in range(times):
        source = torch.Generator().manual_seed(state.progress.update)
        for weight in model.parameters():
            weight.grad = torch.randn(weight.shape, generator=source) * scale
        state.step()


def values(state: State) -> dict[str, torch.Tensor]:
    return {name: weight.detach().clone() for name, weight in state.weights.items()}


def assert_equal(one: dict[str, torch.Tensor], other: dict[str, torch.Tensor]) -> None:
    assert one.keys() == other.keys()
    assert [name for name in one if not torch.equal(one[name], other[name])] == []


def test_a_step_moves_by_its_own_rate_halved_by_each_recovery() -> None:
    for recoveries in (0, 1, 3):
        model, state = make(lr=0.1, warmup=4, weight_decay=0.0)
        state.progress.recoveries = recoveries
        before = values(state)
        learn(model, state)
        # The first step of Adam is the rate times the sign of the gradient.
        moved = torch.cat([(before[n] - w.detach()).abs().flatten() for n, w in state.weights.items()])
        assert float(moved.median()) == pytest.approx(0.1 / 4 * 0.5**recoveries, rel=1e-3)
        assert state.progress.update == 1
        assert all(weight.grad is None for weight in model.parameters())


def test_weight_decay_is_adamws() -> None:
    one, plain = make(lr=0.1, weight_decay=0.0)
    other, decayed = make(lr=0.1, weight_decay=0.5)
    before = values(plain)
    learn(one, plain)
    learn(other, decayed)
    for name, start in before.items():
        gap = plain.weights[name].detach() - decayed.weights[name].detach()
        torch.testing.assert_close(gap, 0.1 * 0.5 * start, rtol=1e-3, atol=1e-6)


@pytest.mark.parametrize("name", ["adamw", "adam"])
def test_the_optimizer_is_the_one_named(name: str) -> None:
    model, state = make(optimizer=name, lr=0.05, weight_decay=0.3)
    other, _ = make()
    kind = {"adamw": torch.optim.AdamW, "adam": torch.optim.Adam}[name]
    optimizer = kind(other.parameters(), lr=0.05, weight_decay=0.3)
    for update in range(5):
        source = torch.Generator().manual_seed(update)
        for weight in other.parameters():
            weight.grad = torch.randn(weight.shape, generator=source)
        optimizer.step()
    learn(model, state, 5)
    assert_equal(values(state), {n: w.detach() for n, w in other.named_parameters()})


def test_the_moving_average_follows_fast_at_first_then_at_its_decay() -> None:
    model, state = make(ema=0.6)
    expected = values(state)
    for update in range(1, 31):
        learn(model, state)
        decay = min(0.6, update / (update + 10))
        for name, weight in values(state).items():
            expected[name] = expected[name] * decay + weight * (1 - decay)
            torch.testing.assert_close(state.ema[name], expected[name], rtol=1e-4, atol=1e-6)
    assert not make(ema=0.0)[1].ema


def test_the_average_is_the_mean_of_the_weights_put_in() -> None:
    model, state = make()
    seen = []
    for _ in range(4):
        learn(model, state, 2)
        state.add_to_average()
        seen.append(values(state))
    assert state.progress.averaged == 4
    for name in state.weights:
        mean = torch.stack([weights[name] for weights in seen]).mean(0)
        torch.testing.assert_close(state.average[name], mean, rtol=1e-5, atol=1e-6)


def test_the_best_are_those_that_were_validated_and_stay_as_they_were() -> None:
    for ema in (0.9, 0.0):
        model, state = make(ema=ema)
        learn(model, state, 3)
        state.keep_best()
        kept = {n: w.clone() for n, w in (state.ema or values(state)).items()}
        learn(model, state, 3)
        assert_equal(state.best, kept)


def test_finite_means_weights_and_their_moving_average() -> None:
    for value in (math.nan, math.inf, -math.inf):
        for part in ("weights", "ema"):
            _, state = make()
            assert state.is_finite()
            next(iter(getattr(state, part).values())).data.view(-1)[-1] = value
            assert not state.is_finite()


def fill(model: Model, state: State) -> None:
    """Something in every part."""
    learn(model, state, 3)
    state.add_to_average()
    state.keep_best()
    learn(model, state, 2)
    state.add_to_average()
    state.progress.boards += [0.25, 0.5]
    state.progress.best_board, state.progress.best_loss, state.progress.stale = 0.5, 0.75, 2
    state.progress.first_loss, state.progress.flat_at, state.progress.recoveries = 1.5, 4, 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_state_goes_on_from_its_checkpoint_bit_for_bit(tmp_path: Path, kind: str) -> None:
    model, state = make(kind, warmup=8, weight_decay=0.1)
    fill(model, state)
    state.save(tmp_path / "c.safetensors", {"name": "x"})
    assert about(tmp_path / "c.safetensors")["recipe"] == {"name": "x"}
    parts = {name.split("/")[0] for name in load_file(tmp_path / "c.safetensors")}
    assert parts == {"weights", "ema", "average", "best", "optimizer"}

    again, resumed = make(kind, warmup=8, weight_decay=0.1)
    with torch.no_grad():
        for weight in again.parameters():
            weight.fill_(7.0)
    resumed.load(tmp_path / "c.safetensors")
    assert resumed.progress == state.progress
    for one, other in ((model, state), (again, resumed)):
        learn(one, other, 4)
        other.add_to_average()
    assert_equal(state.snapshot()[0], resumed.snapshot()[0])
    assert state.snapshot()[1] == resumed.snapshot()[1]


def test_a_snapshot_stays_as_it_was_and_can_be_restored_again() -> None:
    model, state = make()
    fill(model, state)
    tensors, numbers = state.snapshot()
    kept, told = {n: t.clone() for n, t in tensors.items()}, json.loads(json.dumps(numbers))
    for _ in range(2):
        learn(model, state, 2)
        state.add_to_average()
        state.keep_best()
        state.progress.boards.append(0.9)
        for weight in model.parameters():
            weight.grad = torch.full_like(weight, math.nan)
        assert_equal(tensors, kept)
        assert numbers == told
        state.restore(tensors, numbers)
        assert_equal(state.snapshot()[0], kept)
        assert state.snapshot()[1] == told
        assert all(weight.grad is None for weight in model.parameters())


def test_restoring_forgets_what_came_later() -> None:
    model, state = make()
    start = state.snapshot()
    fill(model, state)
    state.restore(*start)
    assert not state.average
    assert not state.best
    assert not state.optimizer.state
    assert state.progress.update == 0


def test_a_checkpoint_of_another_model_is_refused(tmp_path: Path) -> None:
    model, state = make()
    fill(model, state)
    file = tmp_path / "c.safetensors"
    state.save(file, {})
    for recipe in (tiny("multivalued"), tiny(model={"width": 9}), tiny(model={"layers": 2})):
        other = State(build_model(SCHEMA, recipe.model), recipe.train)
        with pytest.raises(DamagedFile, match="not a checkpoint of this recipe") as caught:
            other.load(file)
        assert "\n" not in str(caught.value)


@pytest.mark.parametrize("damage", ["cut", "empty", "text", "strange part", "no progress", "no boards", "odd number"])
def test_a_damaged_checkpoint_is_refused_in_a_line(tmp_path: Path, damage: str) -> None:
    model, state = make()
    fill(model, state)
    file = tmp_path / "c.safetensors"
    state.save(file, {})
    content, tensors, told = file.read_bytes(), load_file(file), about(file)
    if damage == "cut":
        file.write_bytes(content[: len(content) // 2])
    elif damage == "empty":
        file.write_bytes(b"")
    elif damage == "text":
        file.write_text("weights\n" * 100)
    else:
        if damage == "strange part":
            tensors["thoughts/of it"] = torch.zeros(3)
        elif damage == "no progress":
            del told["progress"]
        elif damage == "no boards":
            del told["progress"]["boards"]
        else:
            told["progress"]["luck"] = 7
        save_file(tensors, file, {"outgrow": json.dumps(told)})
    _, other = make()
    with pytest.raises(DamagedFile) as caught:
        other.load(file)
    assert str(caught.value).startswith(f"{file}: ")
    assert "\n" not in str(caught.value)
