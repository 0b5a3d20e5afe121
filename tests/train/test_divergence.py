"""An update that goes wrong is caught before it does harm: back to the last good state, slower, with other puzzles."""

from __future__ import annotations

import math
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import KINDS, about, assert_finite, assert_same_end, events, grade_generously, read, tiny
from torch import Tensor

from outgrow.data import find_dataset
from outgrow.errors import OutgrowError
from outgrow.graphs import Puzzles
from outgrow.models import Model, build_model
from outgrow.train import Validation, loop, train
from outgrow.train.objective import Losses, Objective
from outgrow.train.order import Order, seed_for
from outgrow.train.state import State
from outgrow.weights.file import load_weights

When = Callable[[int, int], bool]  # by the number of the update, from 0, and of recoveries before


def spoil_loss(losses: Losses, model: Model) -> Losses:
    return losses._replace(total=losses.total * math.nan)


def blow_up_loss(losses: Losses, model: Model) -> Losses:
    return losses._replace(total=losses.total * 1e4)


def spoil_gradient(losses: Losses, model: Model) -> Losses:
    nothing = next(iter(model.parameters())).sum() * 0
    return losses._replace(total=losses.total + nothing.sqrt())  # 0, but its slope is infinite


FAULTS = {
    "the loss is not finite": spoil_loss,
    "the gradient is not finite": spoil_gradient,
    "far above that of guessing": blow_up_loss,
}


@pytest.fixture
def plant(monkeypatch: pytest.MonkeyPatch) -> Callable[[When, Callable[[Losses, Model], Losses]], list[Any]]:
    """Spoils the updates that `when` names; returns the batches seen, by update and recoveries."""

    def plant_it(when: When, fault: Callable[[Losses, Model], Losses] = spoil_loss) -> list[Any]:
        seen: list[Any] = []
        batch, forward = Order.batch, Objective.forward

        def note(self: Order, update: int) -> Any:
            found = batch(self, update)
            seen.append((update, self._seed[1], found.tolist()))
            return found

        def spoil(self: Objective, *arguments: Any) -> Losses:
            losses = forward(self, *arguments)
            update, recoveries, _ = seen[-1]
            return fault(losses, self.model) if when(update, recoveries) else losses

        monkeypatch.setattr(Order, "batch", note)
        monkeypatch.setattr(Objective, "forward", spoil)
        return seen

    return plant_it


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("reason", FAULTS)
def test_a_bad_update_is_undone_and_the_run_goes_on(tmp_path: Path, plant: Any, kind: str, reason: str) -> None:
    seen = plant(lambda update, recoveries: update == 5 and not recoveries, FAULTS[reason])
    states: dict[str, dict[str, Tensor]] = {}

    def keep(event: Any) -> None:
        if event["event"] == "recover" or (event["event"], event["update"]) == ("update", 5):
            states[event["event"]] = read(tmp_path / "checkpoint.safetensors")

    done = train(tiny(kind, updates=9, average=False), tmp_path, device="cpu", watch=keep)
    assert done.stopped == "done"
    (event,) = events(tmp_path, "recover")
    assert reason in event["reason"]
    assert (event["failed"], event["back_to"], event["update"], event["recoveries"]) == (5, 4, 4, 1)
    assert [(u, r) for u, r, _ in seen] == [
        (0, 0),
        (1, 0),
        (2, 0),
        (3, 0),
        (4, 0),
        (5, 0),
        *((u, 1) for u in range(4, 9)),
    ]
    batches = {(u, r): b for u, r, b in seen}
    assert batches[4, 0] != batches[4, 1]
    rates = [(e["update"], e["lr"]) for e in events(tmp_path, "update")]
    assert rates == [*((u, 0.01) for u in range(1, 6)), *((u, 0.005) for u in range(5, 10))]
    assert_finite(tmp_path)
    assert about(tmp_path / "checkpoint.safetensors")["progress"]["recoveries"] == 1
    assert about(tmp_path / "checkpoint.safetensors")["progress"]["update"] == 9
    assert states["update"].keys() == states["recover"].keys()
    assert all(torch.equal(states["update"][n], states["recover"][n]) for n in states["update"])


def test_what_goes_on_is_the_last_good_state_and_nothing_else(tmp_path: Path, plant: Any) -> None:
    """The run after a recovery is the run of that state with half the rate and other batches."""
    recipe = tiny(model={"dropout": 0.2}, updates=8, ema=0.7)
    plant(lambda update, recoveries: update in (5, 7) and recoveries == update // 7)
    train(recipe, tmp_path / "a", device="cpu")
    assert [e["back_to"] for e in events(tmp_path / "a", "recover")] == [4, 6]
    states: dict[int, Any] = {}

    def keep(event: Any) -> None:
        if event["event"] == "update" and event["update"] in (5, 7):
            states[event["update"] - 1] = read(tmp_path / "b" / "checkpoint.safetensors")

    train(recipe, tmp_path / "b", device="cpu", watch=keep)
    assert_same_end(tmp_path / "a", tmp_path / "b")
    # By hand: from the checkpoint of update 6 two updates with a quarter of the rate.
    puzzles = Puzzles.of_datasets([find_dataset("sudoku-4-train")], "nbr", 40)
    model = build_model(puzzles.schema, recipe.model)
    state = State(model, recipe.train)
    state.restore(states[6], {**about(tmp_path / "b" / "checkpoint.safetensors")["progress"], "update": 6})
    order = Order([puzzles.num_variables], 8, (0, 2))
    for update in (6, 7):
        torch.manual_seed(seed_for(0, 2, update, 0, 2))
        batch = puzzles.batch(order.batch(update))
        Objective(model.train(), False, False)(batch, [], None).total.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        assert state.progress.recoveries == 2
        state.step()
    end = read(tmp_path / "a" / "checkpoint.safetensors")
    # Products may differ in their last bit with where their operands lie in memory (seen on an Intel processor); another batch or rate changes
    # weights a thousand times as much.
    for name, w in state.weights.items():
        torch.testing.assert_close(end[f"weights/{name}"], w.detach(), rtol=0, atol=1e-6)
        torch.testing.assert_close(end[f"ema/{name}"], state.ema[name], rtol=0, atol=1e-6)


@pytest.mark.parametrize("recoveries", [0, 2])
def test_a_run_that_always_diverges_gives_up_in_a_line(tmp_path: Path, plant: Any, recoveries: int) -> None:
    plant(lambda update, recoveries: update >= 3)
    kept: list[Any] = []

    def keep(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 3:
            kept.append(read(tmp_path / "checkpoint.safetensors"))

    recipe = tiny(recoveries=recoveries, updates=20)
    with pytest.raises(OutgrowError) as caught:
        train(recipe, tmp_path, device="cpu", watch=keep)
    said = str(caught.value)
    assert "\n" not in said
    assert said.startswith(f"{tmp_path}: training diverges (the loss is not finite at update 3")
    assert "lower train.lr (now 0.01)" in said
    assert len(events(tmp_path, "recover")) == recoveries + 1
    # What was good is still there.
    last = read(tmp_path / "checkpoint.safetensors")
    assert all(torch.equal(last[name], kept[0][name]) for name in last)
    assert about(tmp_path / "checkpoint.safetensors")["progress"]["update"] == 2
    assert load_weights(tmp_path / "weights.safetensors").info["update"] == 2
    assert_finite(tmp_path)


def test_a_run_that_diverges_at_once_leaves_the_folder_free(tmp_path: Path, plant: Any) -> None:
    plant(lambda update, recoveries: True)
    with pytest.raises(OutgrowError, match="training diverges"):
        train(tiny(), tmp_path, device="cpu")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["log.jsonl", "recipe.json"]
    assert [e["back_to"] for e in events(tmp_path, "recover")] == [0, 0, 0, 0]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rate", [1e4, 1e10, 1e30])
@pytest.mark.parametrize("every", [1, 3])
def test_a_huge_learning_rate_never_writes_anything_but_numbers(
    tmp_path: Path, kind: str, rate: float, every: int
) -> None:
    try:
        train(tiny(kind, lr=rate, validate_every=every), tmp_path, device="cpu")
    except OutgrowError as error:
        assert "training diverges" in str(error)
        assert "\n" not in str(error)
    assert rate == 1e4 or events(tmp_path, "recover")
    assert_finite(tmp_path)
    for event in events(tmp_path):
        assert all(math.isfinite(v) for v in event.values() if isinstance(v, float)), event
    for file in tmp_path.glob("weights.safetensors"):
        validation = load_weights(file).info["validation"]
        assert all(math.isfinite(value) for value in validation.values())


def spoil_weights(
    monkeypatch: pytest.MonkeyPatch, update: int, value: float = math.nan, recoveries: int = 0
) -> list[int]:
    """Lets that update end in weights that are no numbers, once."""
    step, times = State.step, []

    def spoil(self: State) -> None:
        step(self)
        if self.progress.update == update and self.progress.recoveries == recoveries:
            times.append(update)
            next(iter(self.weights.values())).data.view(-1)[0] = value

    monkeypatch.setattr(State, "step", spoil)
    return times


@pytest.mark.parametrize("update", [3, 4, 6])
def test_weights_that_are_no_numbers_are_neither_kept_nor_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, update: int
) -> None:
    monkeypatch.setattr(loop, "validate", grade_generously)
    times = spoil_weights(monkeypatch, update, math.inf)
    done = train(tiny(), tmp_path, device="cpu")
    assert times == [update]
    (event,) = events(tmp_path, "recover")
    assert event["back_to"] == {3: 2, 4: 2, 6: 4}[update]
    assert event["reason"] == ("the loss is not finite" if update == 3 else "the weights are not finite")
    assert done.stopped == "done"
    assert_finite(tmp_path)


def test_a_validation_loss_that_is_no_number_is_a_bad_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def grade(model: Model, puzzles: Puzzles, device: object = "cpu", steps: int | None = None) -> Validation:
        asked.append(1)
        return Validation(0.9 if len(asked) == 2 else 0.5, 0.5, math.nan if len(asked) == 2 else 1.0)

    monkeypatch.setattr(loop, "validate", grade)
    done = train(tiny(), tmp_path, device="cpu")
    assert [(e["reason"], e["failed"], e["back_to"]) for e in events(tmp_path, "recover")] == [
        ("the loss of validation is not finite", 4, 2)
    ]
    assert [e["board"] for e in events(tmp_path, "validate")] == [0.5, 0.5, 0.5]
    assert done.validation == Validation(0.5, 0.5, 1.0)


@pytest.mark.parametrize("stop", ["interrupted", "time"])
@pytest.mark.parametrize("recoveries", [0, 1])
def test_a_run_stopped_before_it_notices_keeps_the_last_good_state(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, plant: Any, stop: str, recoveries: int
) -> None:
    plant(lambda update, done: update == 3 and done < recoveries)
    spoil_weights(monkeypatch, 3, recoveries=recoveries)
    heard: list[str] = []

    def end(event: Any) -> None:
        heard.append(event["event"])
        if event["event"] == "update" and event["update"] == 3 and heard.count("recover") == recoveries:
            if stop == "interrupted":
                os.kill(os.getpid(), signal.SIGINT)
            else:
                monkeypatch.setattr(loop._Trainer, "seconds", 1000.0)

    recipe = tiny(max_seconds=500.0)
    assert train(recipe, tmp_path, device="cpu", watch=end).stopped == stop
    assert_finite(tmp_path)
    progress = about(tmp_path / "checkpoint.safetensors")["progress"]
    assert (progress["update"], progress["recoveries"]) == (2, recoveries)


class PowerCut(Exception):
    pass


@pytest.mark.parametrize(
    ("cut", "starts"),
    [
        (("update", 3, 0), 2),  # before it goes wrong
        (("recover", 4, 0), 4),  # between recovery and the next checkpoint: it goes wrong again
        (("update", 6, 1), 4),  # the same, an update later
        (("update", 7, 1), 6),  # the checkpoint knows of the recovery
    ],
)
def test_a_run_that_recovers_can_be_resumed_anywhere(
    tmp_path: Path, plant: Any, cut: tuple[str, int, int], starts: int
) -> None:
    plant(lambda update, recoveries: update == 5 and not recoveries)
    recipe = tiny(model={"dropout": 0.2}, updates=8)
    train(recipe, tmp_path / "whole", device="cpu")
    recovered = 0

    def cut_power(event: Any) -> None:
        nonlocal recovered
        if (event["event"], event["update"], recovered) == cut:
            raise PowerCut
        recovered += event["event"] == "recover"

    with pytest.raises(PowerCut):
        train(recipe, tmp_path / "cut", device="cpu", watch=cut_power)
    train(recipe, tmp_path / "cut", device="cpu", resume=True)
    assert_same_end(tmp_path / "whole", tmp_path / "cut")
    assert [e["update"] for e in events(tmp_path / "cut", "start")] == [0, starts]
    assert about(tmp_path / "cut" / "checkpoint.safetensors")["progress"]["recoveries"] == 1


def test_a_resumed_run_recovers_to_where_it_was_resumed(tmp_path: Path, plant: Any) -> None:
    recipe = tiny(updates=8, validate_every=4)

    def press(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 2:
            os.kill(os.getpid(), signal.SIGINT)

    assert train(recipe, tmp_path, device="cpu", watch=press).stopped == "interrupted"
    plant(lambda update, recoveries: update == 2 and recoveries < 2)
    assert train(recipe, tmp_path, device="cpu", resume=True).stopped == "done"
    assert [(e["back_to"], e["recoveries"]) for e in events(tmp_path, "recover")] == [(2, 1), (2, 2)]
    assert events(tmp_path, "update")[-1]["lr"] == 0.01 / 4
    assert_finite(tmp_path)


def test_recoveries_are_counted_over_the_whole_run(tmp_path: Path, plant: Any) -> None:
    plant(lambda update, recoveries: update in (3, 5) and recoveries == (update - 3) // 2)
    recipe = tiny(recoveries=1, updates=8)

    def cut_power(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 5:
            raise PowerCut

    with pytest.raises(PowerCut):
        train(recipe, tmp_path, device="cpu", watch=cut_power)
    with pytest.raises(OutgrowError, match="2 times over"):
        train(recipe, tmp_path, device="cpu", resume=True)


def test_a_first_loss_that_is_high_is_not_divergence(tmp_path: Path, plant: Any) -> None:
    """Embeddings far apart, or weights from elsewhere: the first loss is what later ones are compared with."""
    plant(lambda update, recoveries: True, lambda losses, model: losses._replace(total=losses.total * 50))
    assert train(tiny(), tmp_path, device="cpu").stopped == "done"
    assert not events(tmp_path, "recover")
    first = events(tmp_path, "update")[0]["loss"]
    assert about(tmp_path / "checkpoint.safetensors")["progress"]["first_loss"] == pytest.approx(first)


@pytest.mark.parametrize("steps", [0, 9])
def test_a_loss_of_guessing_after_a_good_start_is_not_divergence(tmp_path: Path, plant: Any, steps: int) -> None:
    plant(lambda update, recoveries: update == 0, lambda losses, model: losses._replace(total=losses.total * 1e-6))
    assert (
        train(tiny(steps=steps), tmp_path, device="cpu").stopped == "done"
    )  # guessing costs as much at every graded step
    assert not events(tmp_path, "recover")


@pytest.mark.parametrize(("steps", "failures"), [(1, 1), (0, 0), (9, 0)])  # the model's own are 2
def test_how_far_is_too_far_above_guessing_goes_by_the_graded_steps(
    tmp_path: Path, plant: Any, steps: int, failures: int
) -> None:
    high = 4.5 * math.log(2)  # one step's guessing four and a half times, two steps' half as often
    plant(
        lambda update, recoveries: update == 1 and not recoveries,
        lambda losses, model: losses._replace(total=losses.total * 0 + high),
    )
    train(tiny(steps=steps, updates=2), tmp_path, device="cpu")
    assert len(events(tmp_path, "recover")) == failures
