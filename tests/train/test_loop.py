"""A run from recipe to weights: what is learnt, when it ends, what is chosen, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
import math
import os
import signal
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
import torch
from tiny import KINDS, REMASK, about, color_graphs, events, grade_generously, read, rich, tiny
from torch import Tensor

from outgrow.data import find_dataset
from outgrow.errors import OutgrowError
from outgrow.graphs import Puzzles
from outgrow.models import Model, build_model
from outgrow.train import Recipe, Validation, loop, train, validate
from outgrow.train.objective import Losses, Objective
from outgrow.train.order import Order, draw_given, draw_steps, draw_values, seed_for
from outgrow.train.state import State
from outgrow.weights.file import load_weights


def learn_plainly(recipe: Recipe, rates: Sequence[float]) -> Iterator[tuple[float, Model]]:
    """The loop as one would write it on a napkin: the loss of each update, and the model after it."""
    how, data = recipe.train, recipe.data
    puzzles = Puzzles.of_datasets([find_dataset(n) for n in data.train], data.form, data.limit)
    torch.manual_seed(seed_for(how.seed, 0))
    model = build_model(puzzles.schema, recipe.model)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=how.weight_decay)
    sizes = puzzles.num_variables.reshape(len(data.train), data.limit)
    order = Order(list(sizes), how.batch, (how.seed, 0), data.shares)
    for update, rate in enumerate(rates):
        draw = None
        if model.max_values is not None:
            draw = torch.from_numpy(
                draw_values(how.batch, puzzles.max_values, model.max_values, (how.seed, 0, update, 1))
            )
            draw = draw[:, : puzzles.num_values[order.batch(update)].max()]
        torch.manual_seed(seed_for(how.seed, 0, update, 0, 2))
        batch = puzzles.batch(order.batch(update))
        assert batch.solutions is not None
        counts = puzzles.num_variables[order.batch(update)]
        shares = (data.more_givens, data.untouched, data.remask)
        given = draw_given(counts, (how.seed, 0, update, 3), *shares)
        for variable in range(batch.num_variables if given is not None else 0):
            assert given is not None
            if given[0][variable]:
                batch.givens[variable] = batch.solutions[variable]
            if given[1][variable]:
                batch.givens[variable] = 0
        prepared: Any = model.prepare(batch, draw)
        states = model.start(prepared, how.noise)
        with torch.no_grad():
            for reached, _ in model.walk(prepared, draw_steps(how.free_steps, (how.seed, 0, update, 4)), states):
                states = reached
        scores = torch.stack(list(model.run(prepared, how.steps or recipe.model.steps, states)))
        losses = model.loss(scores, prepared, batch.solutions).sum(0)
        penalty = model.penalty(prepared)
        loss = (losses if penalty is None else losses + penalty).mean()
        optimizer.zero_grad()
        loss.backward()
        gradients = [p.grad for p in model.parameters() if p.grad is not None]
        norm = math.sqrt(sum(float((g**2).sum()) for g in gradients))
        for gradient in gradients:
            gradient *= min(1.0, how.clip / norm)
        optimizer.param_groups[0]["lr"] = rate
        optimizer.step()
        yield float(loss.detach()), model


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("make", [tiny, rich], ids=["plain", "rich"])
def test_it_learns_what_a_plain_loop_learns(tmp_path: Path, make: Any, kind: str) -> None:
    recipe = make(kind, seed=5, updates=7, warmup=2, decay="linear", clip=0.02, weight_decay=0.3)
    extra = {"max_values": 7} if kind == "multivalued" else {}
    recipe = dataclasses.replace(recipe, model=dataclasses.replace(recipe.model, dropout=0.2, **extra))
    rates = [0.005, 0.01, 0.01, 0.008, 0.006, 0.004, 0.002]
    *_, (_, model) = plain = list(learn_plainly(recipe, rates))
    train(recipe, tmp_path, device="cpu")
    logged = events(tmp_path, "update")
    assert [e["loss"] for e in logged] == pytest.approx([loss for loss, _ in plain], rel=1e-5)
    assert [e["lr"] for e in logged] == pytest.approx(rates)
    assert min(e["grad_norm"] for e in logged) > 0.02  # it did clip, and logs what was before
    found = read(tmp_path / "checkpoint.safetensors")
    for name, weight in model.named_parameters():
        if not (kind == "multivalued" and name == "score.bias"):  # without effect: its gradient is rounding
            torch.testing.assert_close(found[f"weights/{name}"], weight.detach(), rtol=1e-3, atol=2e-5)


def test_the_log_tells_the_whole_run(tmp_path: Path) -> None:
    heard: list[Any] = []
    done = train(tiny(), tmp_path, device="cpu", watch=heard.append)
    logged = events(tmp_path)
    assert [dict(e) for e in heard] == logged
    assert [e["event"] for e in logged] == ["start", *(["update", "update", "validate"] * 3), "end"]
    start, *_, end = logged
    assert start["recipe"] == tiny().as_json()
    assert start["device"] == "cpu"
    assert start["parameters"] == sum(t.numel() for t in read(done.weights).values())
    sets = {name: find_dataset(name) for name in ("sudoku-4-train", "sudoku-4-valid")}
    assert start["data"] == {n: {"count": len(d), "sha256": d.sha256} for n, d in sets.items()}
    assert [e["update"] for e in events(tmp_path, "update")] == [1, 2, 3, 4, 5, 6]
    assert [e["epoch"] for e in events(tmp_path, "update")] == [0.2, 0.4, 0.6, 0.8, 1.0, 1.2]
    for line in events(tmp_path, "update"):
        assert line["loss"] > line["final_loss"] > 0
        assert line["puzzles_per_second"] > 0
        assert line["memory_gib"] > 0
        assert 0 <= line["accuracy"] <= 1
    assert [e["update"] for e in events(tmp_path, "validate")] == [2, 4, 6]
    assert {e["weights"] for e in events(tmp_path, "validate")} == {"ema"}
    assert (end["reason"], end["chosen"]) == ("done", done.chosen)
    assert end["candidates"].keys() == {"last", "ema", "best"}
    assert [e["seconds"] for e in logged] == sorted(e["seconds"] for e in logged)
    assert not list(tmp_path.glob(".*"))


def test_lines_are_logged_now_and_then_and_the_last_update_is_always_validated(tmp_path: Path) -> None:
    train(tiny(updates=7, log_every=3, validate_every=4, ema=0.0), tmp_path, device="cpu")
    assert [e["update"] for e in events(tmp_path, "update")] == [3, 6]
    assert [e["update"] for e in events(tmp_path, "validate")] == [4, 7]
    assert {e["weights"] for e in events(tmp_path, "validate")} == {"last"}


def test_the_logged_accuracy_is_the_verdicts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def judge(output: Tensor, batch: Any, csps: Sequence[Any]) -> np.ndarray:
        asked.append(len(csps))
        return np.arange(len(csps)) < 2

    monkeypatch.setattr(loop, "judge_output", judge)
    train(tiny(data={"valid": []}, micro_batch=3, log_every=2, updates=4), tmp_path, device="cpu")
    # Of a batch of 8 in parts of 3, 3 and 2: two solved of each.
    assert [e["accuracy"] for e in events(tmp_path, "update")] == pytest.approx([6 / 8] * 2)
    assert asked == [3, 3, 2] * 2


def gradients_of(recipe: Recipe, run: Path, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Tensor]]:
    kept: list[dict[str, Tensor]] = []
    step = State.step

    def keep(self: State) -> None:
        kept.append({name: w.grad.clone() for name, w in self.weights.items() if w.grad is not None})
        step(self)

    with monkeypatch.context() as patch:
        patch.setattr(State, "step", keep)
        train(recipe, run, device="cpu")
    return kept


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("size", [1, 3, 100])
def test_parts_of_a_batch_add_up_to_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str, size: int) -> None:
    # Graphs of 4 to 9 nodes: a part has another number of variables, of edges and of padding than the whole.
    graphs = {"graphs": color_graphs(list(range(4, 10)) * 4)}
    data = {"train": ["graphs"], "valid": [], "form": "units"}
    recipe = tiny(kind, data=data, updates=4, clip=0.0, lr=0.001)
    monkeypatch.setattr(loop, "find_dataset", graphs.__getitem__)
    whole = gradients_of(recipe, tmp_path / "whole", monkeypatch)
    parts = gradients_of(recipe.changed(micro_batch=size), tmp_path / "parts", monkeypatch)
    for name, gradient in whole[0].items():
        torch.testing.assert_close(gradient, parts[0][name], rtol=1e-4, atol=2e-6)
    for key in ("loss", "final_loss", "grad_norm", "accuracy"):
        a, b = ([e[key] for e in events(tmp_path / run, "update")] for run in ("whole", "parts"))
        assert a == pytest.approx(b, rel=1e-4, abs=1e-7)
    a, b = (read(tmp_path / run / "weights.safetensors") for run in ("whole", "parts"))
    for name in a:
        if not (kind == "multivalued" and name == "score.bias"):
            torch.testing.assert_close(a[name], b[name], rtol=1e-3, atol=1e-4)


def test_gradients_do_not_outlive_their_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = {"one": color_graphs([6] * 8)}
    monkeypatch.setattr(loop, "find_dataset", graphs.__getitem__)
    recipe = tiny(data={"train": ["one"], "valid": [], "form": "units"}, lr=1e-12, updates=3, clip=0.0)
    kept = gradients_of(recipe, tmp_path, monkeypatch)
    for other in kept[1:]:  # every update sees all there is, and hardly moves
        for name, gradient in kept[0].items():
            torch.testing.assert_close(other[name], gradient, rtol=1e-4, atol=1e-6)


def test_dropout_and_batches_differ_between_updates_and_seeds(tmp_path: Path) -> None:
    graphs = {"sudoku-4-train": find_dataset("sudoku-4-valid")}
    still = tiny(data={"limit": 8, "valid": []}, model={"dropout": 0.5}, lr=1e-12)
    losses = {}
    for seed in (0, 1):
        train(still.changed(seed=seed), tmp_path / str(seed), device="cpu", datasets=graphs)
        losses[seed] = [round(e["loss"], 7) for e in events(tmp_path / str(seed), "update")]
        assert len(set(losses[seed])) == 6
    assert not set(losses[0]) & set(losses[1])
    train(still, tmp_path / "again", device="cpu", datasets=graphs)
    assert [round(e["loss"], 7) for e in events(tmp_path / "again", "update")] == losses[0]


@pytest.mark.parametrize("values", [4, 9])
def test_value_embeddings_are_drawn_anew_for_every_puzzle(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, values: int
) -> None:
    from outgrow.models import Multivalued

    drawn: list[Tensor | None] = []
    prepare = Multivalued.prepare

    def keep(self: Multivalued, batch: Any, draw: Tensor | None = None) -> Any:
        drawn.append(draw)
        return prepare(self, batch, draw)

    monkeypatch.setattr(Multivalued, "prepare", keep)
    train(tiny("multivalued", model={"max_values": values}, data={"valid": []}), tmp_path, device="cpu")
    rows = [tuple(row) for draw in drawn if draw is not None for row in draw.tolist()]
    assert len(rows) == 6 * 8
    assert all(len(set(row)) == 4 and max(row) < values for row in rows)
    assert len(set(rows)) > (15 if values == 4 else 40)
    assert set(itertools.chain(*rows)) == set(range(values))


# ---- several sets, fresh givens, free steps, noise


class Part(NamedTuple):
    """What the objective was asked."""

    indices: list[int]
    givens: list[list[int]]
    solutions: list[list[int]]
    free: int


def watch_objective(monkeypatch: pytest.MonkeyPatch) -> list[Part]:
    """Every part of a batch, as it is learnt from."""
    parts: list[Part] = []
    forward = Objective.forward

    def keep(self: Objective, batch: Any, csps: Any, draw: Any, free: int = 0, start: Any = None) -> Losses:
        solutions = [a.tolist() for a in batch.split(batch.solutions.numpy())]
        parts.append(
            Part(batch.indices.tolist(), [a.tolist() for a in batch.split(batch.givens.numpy())], solutions, free)
        )
        assert [csp.num_variables for csp in csps] == [len(s) for s in solutions]
        return forward(self, batch, csps, draw, free, start)

    monkeypatch.setattr(Objective, "forward", keep)
    return parts


def is_given(givens: Sequence[int]) -> np.ndarray:
    return np.array(givens) > 0


BOARDS = find_dataset("sudoku-4-train")
STORED = {i: BOARDS[i].givens.tolist() for i in range(8)}


@pytest.mark.parametrize("untouched", [0.0, 0.5])
def test_more_givens_are_added_to_those_there_are_and_never_contradict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, untouched: float
) -> None:
    parts = watch_objective(monkeypatch)
    data = {"limit": 8, "valid": [], "more_givens": [0.3, 0.7], "untouched": untouched}
    train(tiny(data=data, updates=30, validate_every=30), tmp_path, device="cpu")
    still, shares, seen = [], [], {i: set() for i in range(8)}
    for part in parts:
        for index, givens, solution in zip(part.indices, part.givens, part.solutions, strict=True):
            assert solution == BOARDS.solution(index).tolist()
            assert all(value in (0, right) for value, right in zip(givens, solution, strict=True))
            before, after = is_given(STORED[index]), is_given(givens)
            assert (after | ~before).all()
            shares.append((after & ~before).sum() / (~before).sum())
            still.append((before == after).all())
            seen[index].add(tuple(givens))
    assert len(shares) == 30 * 8
    assert np.mean(still) == pytest.approx(untouched, abs=0.15)
    changed = np.array(shares)[~np.array(still)]
    assert np.mean(changed) == pytest.approx(0.5, abs=0.05)
    assert np.quantile(changed, 0.1) > 0.15
    assert np.quantile(changed, 0.9) < 0.85
    # Anew whenever it is learnt from; some have only a few variables left to give.
    assert sum(map(len, seen.values())) > 0.5 * (1 - untouched) * 30 * 8


def test_remask_draws_all_givens_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = watch_objective(monkeypatch)
    data = {"limit": 8, "valid": [], "remask": [0.3, 0.7], "untouched": 0.25}
    train(tiny(data=data, updates=30, validate_every=30), tmp_path, device="cpu")
    masked, kept = [], []
    for part in parts:
        for index, givens, solution in zip(part.indices, part.givens, part.solutions, strict=True):
            assert all(value in (0, right) for value, right in zip(givens, solution, strict=True))
            if givens == STORED[index]:
                continue
            before, after = is_given(STORED[index]), is_given(givens)
            masked.append(1 - after.mean())
            kept.append(after[before].mean())
    assert len(masked) == pytest.approx(0.75 * 30 * 8, abs=35)
    assert np.mean(masked) == pytest.approx(0.5, abs=0.05)
    assert np.mean(kept) == pytest.approx(0.5, abs=0.06)  # what was given before is given as often as anything else


@pytest.mark.parametrize("fresh", [{}, REMASK], ids=["more", "remask"])
def test_parts_of_a_batch_have_the_givens_of_the_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fresh: dict[str, Any]
) -> None:
    found = []
    for size in (0, 3, 1):
        with monkeypatch.context() as patch:
            parts = watch_objective(patch)
            recipe = rich(data={"valid": [], **fresh}, micro_batch=size, noise=0.0, updates=4, validate_every=4)
            train(recipe, tmp_path / str(size), device="cpu")
        count = -(-8 // (size or 8))
        assert len(parts) == 4 * count
        updates = [parts[at : at + count] for at in range(0, len(parts), count)]
        assert all(len({part.free for part in update}) == 1 for update in updates)
        found.append(
            [
                ([i for part in u for i in part.indices], [g for part in u for g in part.givens], u[0].free)
                for u in updates
            ]
        )
    assert found[0] == found[1] == found[2]
    for key in ("loss", "grad_norm", "accuracy"):
        whole, *others = ([e[key] for e in events(tmp_path / str(size), "update")] for size in (0, 3, 1))
        for other in others:
            assert other == pytest.approx(whole, rel=1e-4, abs=1e-7)


def test_the_verdict_knows_the_fresh_givens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An output that only breaks a given that was drawn is no solution."""
    graphs = {"graphs": color_graphs([6] * 8)}  # nothing is given
    data = {"train": ["graphs"], "valid": [], "form": "units", "limit": 0, "more_givens": [1, 1]}
    asked: list[Any] = []

    def judge(csps: Any, assignments: Any, givens: Any) -> np.ndarray:
        asked.extend(zip(givens, csps, strict=True))
        return np.ones(len(csps), dtype=bool)

    monkeypatch.setattr("outgrow.train.objective.judge_each", judge)
    train(tiny(data=data, multiplicity=True, updates=2), tmp_path, device="cpu", datasets=graphs)
    assert len(asked) == 2 * 2 * 8  # for the target and for the log
    assert all((givens > 0).all() for givens, _ in asked)


def test_the_shares_of_a_recipe_decide_whose_batch_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for shares, least, most in (((1, 9), 0, 9), ((9, 1), 16, 25)):
        with monkeypatch.context() as patch:
            parts = watch_objective(patch)
            recipe = rich(data={"shares": list(shares), "valid": []}, updates=25, validate_every=25, free_steps=[0, 0])
            train(recipe, tmp_path / str(least), device="cpu")
        small = [max(part.indices) < 40 for part in parts]
        assert small == [min(part.indices) < 40 for part in parts]  # no batch mixes them
        assert {len(p.solutions[0]) for p, first in zip(parts, small, strict=True) if first} <= {16}
        assert {len(p.solutions[0]) for p, first in zip(parts, small, strict=True) if not first} <= {36}
        assert least <= sum(small) <= most
        order = Order([np.full(40, 16), np.full(40, 36)], 8, (0, 0), shares)
        assert [p.indices for p in parts] == [order.batch(u).tolist() for u in range(25)]


def test_too_few_puzzles_for_a_batch_are_refused_before_the_first_update(tmp_path: Path) -> None:
    graphs = {"some": color_graphs([5] * 4), "few": color_graphs([6] * 3)}
    data = {"train": ["some", "few"], "valid": [], "form": "units", "limit": 0}
    with pytest.raises(OutgrowError, match=r"^train.batch is 8, but there are 7 puzzles to train on$"):
        train(tiny(data=data), tmp_path / "run", device="cpu", datasets=graphs)
    assert not (tmp_path / "run").exists()


def test_free_steps_are_drawn_for_every_update(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    parts = watch_objective(monkeypatch)
    train(tiny(data={"valid": []}, free_steps=[1, 9], updates=20, seed=3, validate_every=20), tmp_path, device="cpu")
    assert [part.free for part in parts] == [draw_steps((1, 9), (3, 0, update, 4)) for update in range(20)]
    assert len({part.free for part in parts}) > 4


def test_graded_steps_are_the_recipes_and_validation_takes_the_models(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from outgrow.models import Grouped

    asked: list[tuple[bool, int | None]] = []
    walk = Grouped.walk

    def note(self: Grouped, graph: Any, steps: int | None = None, start: Any = None, noise: float = 0.0) -> Any:
        asked.append((self.training and torch.is_grad_enabled(), steps))
        return walk(self, graph, steps, start, noise)

    monkeypatch.setattr(Grouped, "walk", note)
    train(tiny("grouped", steps=5, updates=2), tmp_path / "five", device="cpu")
    assert set(asked) == {(True, 5), (False, None)}
    asked.clear()
    train(tiny("grouped", updates=2), tmp_path / "own", device="cpu")
    assert set(asked) == {(True, None), (False, None)}


def still_losses(run: Path, **train_recipe: Any) -> list[float]:
    """Of a run that learns nothing and sees the same puzzles again and again."""
    recipe = tiny("grouped", data={"limit": 8, "valid": []}, lr=1e-12, validate_every=6, **train_recipe)
    train(recipe, run, device="cpu")
    return [round(e["loss"], 5) for e in events(run, "update")]


@pytest.mark.parametrize("how", [{}, {"free_steps": [2, 2]}, {"carry": 2}], ids=str)
def test_quiet_puzzles_start_as_they_do_in_solving(tmp_path: Path, how: dict[str, Any]) -> None:
    plain = still_losses(tmp_path / "plain", **how)
    assert still_losses(tmp_path / "quiet", noise=0.5, quiet=1.0, **how) == plain
    loud = still_losses(tmp_path / "loud", noise=0.5, **how)
    some = still_losses(tmp_path / "some", noise=0.5, quiet=0.5, **how)
    assert len({plain[0], loud[0], some[0]}) == 3


def test_noise_is_a_function_of_seed_and_update(tmp_path: Path) -> None:
    calm = still_losses(tmp_path / "calm")
    assert max(calm) - min(calm) <= 2e-5
    noisy = still_losses(tmp_path / "noisy", noise=0.5)
    assert len(set(noisy)) == 6
    assert still_losses(tmp_path / "again", noise=0.5) == noisy
    other = still_losses(tmp_path / "other", noise=0.5, seed=1)
    assert not set(other) & set(noisy)


# ---- averages


def test_the_checkpoint_holds_the_moving_average_of_all_updates(tmp_path: Path) -> None:
    seen: list[dict[str, Tensor]] = []

    def keep(event: Any) -> None:
        if event["event"] == "update" and event["update"] > 1:
            seen.append(read(tmp_path / "checkpoint.safetensors"))

    train(tiny(validate_every=1, updates=6, ema=0.3), tmp_path, device="cpu", watch=keep)
    seen.append(read(tmp_path / "checkpoint.safetensors"))
    for name in [n for n in seen[0] if n.startswith("weights/")]:
        mean = seen[0][name.replace("weights", "ema")]
        for update, tensors in enumerate(seen[1:], start=2):
            decay = min(0.3, update / (update + 10))
            mean = decay * mean + (1 - decay) * tensors[name]
            torch.testing.assert_close(tensors[name.replace("weights", "ema")], mean, rtol=1e-4, atol=1e-6)


def script(monkeypatch: pytest.MonkeyPatch, boards: Sequence[float], losses: Sequence[float] = ()) -> list[Any]:
    """Validations that find these board accuracies, the last one again and again; returns the models validated."""
    validated: list[Any] = []

    def grade(model: Model, puzzles: Puzzles, device: object = "cpu", steps: int | None = None) -> Validation:
        validated.append({n: p.detach().clone() for n, p in model.named_parameters()})
        place = len(validated) - 1
        return Validation(boards[min(place, len(boards) - 1)], 0.5, losses[place] if place < len(losses) else 1.0)

    monkeypatch.setattr(loop, "validate", grade)
    return validated


def test_weights_are_averaged_once_the_curve_is_flat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Over two validations it gained 0.3, then 0.02, which is less than 0.05: flat at the fifth.
    script(monkeypatch, [0.1, 0.4, 0.4, 0.41, 0.42, 0.3, 0.9])
    seen: dict[int, dict[str, Tensor]] = {}

    def keep(event: Any) -> None:
        if event["event"] == "update" and event["update"] % 2 and event["update"] > 1:
            seen[event["update"] - 1] = read(tmp_path / "checkpoint.safetensors")

    recipe = tiny(updates=15, flat_window=2, flat_gain=0.05)
    train(recipe, tmp_path, device="cpu", watch=keep)
    assert [e["update"] for e in events(tmp_path, "average")] == [8]
    assert sorted(seen) == [2, 4, 6, 8, 10, 12, 14]
    assert {u: any(n.startswith("average/") for n in t) for u, t in seen.items()} == {u: u >= 8 for u in seen}
    for name in [n for n in seen[14] if n.startswith("weights/")]:
        mean = torch.stack([seen[u][name] for u in (8, 10, 12, 14)]).mean(0)
        torch.testing.assert_close(seen[14][name.replace("weights", "average")], mean, rtol=1e-4, atol=1e-6)
    assert about(tmp_path / "checkpoint.safetensors")["progress"]["averaged"] == 5  # the last update too
    assert "average" in events(tmp_path, "end")[0]["candidates"]


def test_weights_are_not_averaged_where_the_recipe_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [0.4])
    train(tiny(updates=8, flat_window=1, average=False), tmp_path, device="cpu")
    assert not events(tmp_path, "average")
    assert "average" not in events(tmp_path, "end")[0]["candidates"]


def test_a_curve_that_has_not_left_the_ground_is_not_flat() -> None:
    assert not loop._is_flat([0.0] * 9, 2, 0.1)
    assert not loop._is_flat([0.5, 0.5], 2, 0.1)
    assert loop._is_flat([0.5, 0.5, 0.5], 2, 0.1)
    assert loop._is_flat([0.5, 0.2, 0.59], 2, 0.1)
    assert not loop._is_flat([0.5, 0.2, 0.61], 2, 0.1)
    assert not loop._is_flat([0.5, 0.61, 0.2], 2, 0.1)
    assert loop._is_flat([0.5, 0.61, 0.2, 0.61], 2, 0.1)
    assert loop._is_flat([0.6, 0.1, 0.5, 0.6], 2, 0.1)


# ---- when it ends, and what is chosen


def test_it_stops_when_patience_runs_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    boards = [0.1, 0.3, 0.2, 0.4, 0.4, 0.1, 0.3, 0.9]  # at updates 2, 4, ..., 16, and 0.9 from there on
    for patience, last in ((1, 6), (2, 12), (3, 14), (4, 24)):
        run = tmp_path / str(patience)
        with monkeypatch.context() as patch:
            script(patch, boards)
            done = train(tiny(updates=30, patience=patience, average=False), run, device="cpu")
        assert done.stopped == "patience"
        assert events(run, "end")[0]["reason"] == done.stopped
        assert events(run, "end")[0]["update"] == last


def test_of_equal_boards_the_lower_loss_is_better(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [0.0], [3.0, 2.0, 2.0, 2.5])
    done = train(tiny(updates=40, patience=2), tmp_path, device="cpu")
    assert events(tmp_path, "end")[0]["update"] == 8
    assert done.stopped == "patience"


def test_it_stops_when_time_is_up_and_chooses_weights(tmp_path: Path) -> None:
    done = train(tiny(updates=10**6, max_seconds=0.2, validate_every=10**6), tmp_path, device="cpu")
    assert done.stopped == "time"
    assert 0.2 < done.seconds < 5
    assert done.validation is not None
    update = events(tmp_path, "end")[0]["update"]
    assert 0 < update < 10**5
    assert about(done.weights)["info"]["update"] == update
    # Resumed, there is still no time: it ends at once, and the same.
    again = train(tiny(updates=10**6, max_seconds=0.2, validate_every=10**6), tmp_path, device="cpu", resume=True)
    assert (again.stopped, again.chosen) == ("time", done.chosen)
    assert events(tmp_path, "end")[-1]["update"] == update


def test_without_a_validation_set_the_averaged_weights_are_written(tmp_path: Path) -> None:
    for ema, chosen in ((0.9, "ema"), (0.0, "last")):
        run = tmp_path / chosen
        done = train(tiny(data={"valid": []}, ema=ema, patience=1), run, device="cpu")
        assert (done.chosen, done.validation, done.stopped) == (chosen, None, "done")
        assert not events(run, "validate")
        tensors, checkpoint = read(done.weights), read(run / "checkpoint.safetensors")
        part = "ema" if ema else "weights"
        assert all(torch.equal(tensor, checkpoint[f"{part}/{name}"]) for name, tensor in tensors.items())
        info = about(done.weights)["info"]
        assert (info["chosen_on"], info["validation"]) == ([], None)


@pytest.mark.parametrize("best", ["last", "ema", "average", "best"])
def test_the_weights_that_validate_best_are_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, best: str) -> None:
    boards = [0.5, 0.4, 0.3]  # while it learns: the best are the first
    at_the_end = dict.fromkeys(("last", "ema", "average", "best"), 0.2) | {best: 0.6}
    validated = script(monkeypatch, [*boards, *at_the_end.values()])
    done = train(tiny(flat_window=1), tmp_path, device="cpu")
    assert done.chosen == best
    assert done.validation == Validation(0.6, 0.5, 1.0)
    assert events(tmp_path, "end")[0]["candidates"] == at_the_end
    written, checkpoint = read(done.weights), read(tmp_path / "checkpoint.safetensors")
    part = "weights" if best == "last" else best
    place = 3 + list(at_the_end).index(best)
    for name, tensor in written.items():
        assert torch.equal(tensor, checkpoint[f"{part}/{name}"])
        assert torch.equal(tensor, validated[place][name])  # what was validated is what was written
        assert torch.equal(checkpoint[f"best/{name}"], validated[0][name])
    info = about(done.weights)["info"]
    assert info["chosen"] == best
    assert info["chosen_on"] == ["sudoku-4-valid"]
    assert info["validation"] == {"board": 0.6, "pointwise": 0.5, "loss": 1.0}
    assert info["candidates"] == at_the_end
    assert info["recipe"] == tiny(flat_window=1).as_json()
    assert info["commit"] == "tested"
    assert load_weights(done.weights).info == info


def test_of_weights_that_validate_alike_the_steadiest_are_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script(monkeypatch, [0.5])
    assert train(tiny(flat_window=1), tmp_path / "a", device="cpu").chosen == "average"
    assert train(tiny(flat_window=1, average=False), tmp_path / "b", device="cpu").chosen == "ema"
    assert train(tiny(flat_window=1, average=False, ema=0.0), tmp_path / "c", device="cpu").chosen == "best"


def test_the_best_so_far_are_on_disk_while_it_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script(monkeypatch, [0.1, 0.5, 0.3])
    seen = {}

    def look(event: Any) -> None:
        if event["event"] == "update" and event["update"] in (3, 5, 6):
            info = about(tmp_path / "weights.safetensors")["info"]
            seen[event["update"]] = (info["chosen"], info["update"], info["validation"]["board"])

    train(tiny(), tmp_path, device="cpu", watch=look)
    assert seen == {3: ("best", 2, 0.1), 5: ("best", 4, 0.5), 6: ("best", 4, 0.5)}


def test_validation_neither_trains_nor_draws(tmp_path: Path) -> None:
    recipe = tiny("multivalued", model={"dropout": 0.5, "max_values": 9}, updates=7)
    for every in (1, 7):
        train(recipe.changed(validate_every=every, average=False), tmp_path / str(every), device="cpu")
    a, b = (read(tmp_path / str(every) / "checkpoint.safetensors") for every in (1, 7))
    assert [n for n in a if not n.startswith("best/") and not torch.equal(a[n], b[n])] == []


def test_validate_counts_boards_by_the_verdict_and_matches_by_puzzle() -> None:
    dataset = color_graphs([4, 8, 12, 4], given=1.0)
    puzzles = Puzzles.of_datasets([dataset], "units")
    model = build_model(puzzles.schema, tiny().model)
    whole = validate(model, puzzles)
    parts = [validate(model, Puzzles([puzzles.csps[i]], [dataset[i].givens], [dataset.solution(i)])) for i in range(4)]
    for field in ("board", "pointwise", "loss"):
        assert getattr(whole, field) == pytest.approx(np.mean([getattr(p, field) for p in parts]), rel=1e-5)
    assert not model.training
    batch = puzzles.batch([0, 1, 2, 3])
    with torch.no_grad():
        output = model(model.prepare(batch))[-1].argmax(1) + 1  # pyright: ignore[reportArgumentType]
    solved = [dataset[i].judge(part).solved for i, part in enumerate(batch.split(output.numpy()))]
    assert whole.board == np.mean(solved)


def test_validate_sees_many_solutions_as_right(monkeypatch: pytest.MonkeyPatch) -> None:
    dataset = color_graphs([5] * 6)
    puzzles = Puzzles.of_datasets([dataset], "units")
    model = build_model(puzzles.schema, tiny().model)
    batch = puzzles.batch(list(range(6)))
    assert batch.solutions is not None
    # The stored solutions with other names for the colors: no variable matches, all boards are solved.
    scores = torch.nn.functional.one_hot(batch.solutions % 3, 3).float()
    monkeypatch.setattr(type(model), "run", lambda self, prepared, steps: iter([scores * 0, scores]))
    found = validate(model, puzzles)
    assert (found.board, found.pointwise) == (1.0, 0.0)


def test_validation_in_portions_is_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    # Of colors that nobody has, an untrained model likes none better: rounding would choose. Values of a Futoshiki have an order.
    puzzles = Puzzles.of_datasets([find_dataset(f"futoshiki-{k}-train") for k in (3, 5, 4)], "units", 3)
    torch.manual_seed(0)
    model = build_model(puzzles.schema, tiny().model)
    whole = validate(model, puzzles)
    monkeypatch.setattr(loop, "_VALIDATION_NODES", 130)
    assert vars(validate(model, puzzles)) == pytest.approx(vars(whole), rel=1e-5)


# ---- fine-tuning


@pytest.fixture(scope="module")
def taught(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Weights of all kinds."""
    folder = tmp_path_factory.mktemp("taught")
    return {kind: train(tiny(kind, model=few(kind)), folder / kind, device="cpu").weights for kind in KINDS}


def few(kind: str) -> dict[str, int]:
    return {"max_values": 5} if kind == "multivalued" else {}


@pytest.mark.parametrize("kind", KINDS)
def test_fine_tuning_starts_from_the_given_weights(tmp_path: Path, taught: dict[str, Path], kind: str) -> None:
    recipe = tiny(kind, model=few(kind), start=str(taught[kind]), lr=1e-12, weight_decay=0.0, ema=0.0, seed=9)
    done = train(recipe, tmp_path, device="cpu")
    before, after = read(taught[kind]), read(done.weights)
    assert all(torch.allclose(before[name], after[name], atol=1e-9) for name in before)
    fresh = train(recipe.changed(start=""), tmp_path / "fresh", device="cpu")
    assert not all(torch.allclose(before[name], tensor, atol=1e-3) for name, tensor in read(fresh.weights).items())


def test_more_embeddings_than_the_start_has_are_fresh(tmp_path: Path, taught: dict[str, Path]) -> None:
    recipe = tiny("multivalued", model={"max_values": 8}, lr=1e-12, weight_decay=0.0, ema=0.0, seed=9)
    fresh = read(train(recipe, tmp_path / "fresh", device="cpu").weights)
    tuned = read(train(recipe.changed(start=str(taught["multivalued"])), tmp_path / "tuned", device="cpu").weights)
    before = read(taught["multivalued"])
    name = "embeddings.weight"
    assert torch.allclose(tuned[name][:5], before[name], atol=1e-9)
    assert torch.allclose(tuned[name][5:], fresh[name][5:], atol=1e-9)
    assert tuned[name][5:].std() > 0.5
    assert all(torch.allclose(before[n], tuned[n], atol=1e-9) for n in before if n != name)


@pytest.mark.parametrize(
    ("start", "kind", "changes", "words"),
    [
        ("binarized", "multivalued", {}, "a binarized model"),
        ("multivalued", "binarized", {}, "a multivalued model"),
        ("binarized", "grouped", {}, "a binarized model"),
        ("grouped", "grouped", {"model": {"heads": 2}}, "does not fit the recipe's model"),
        ("binarized", "binarized", {"data": {"form": "units"}}, "constraint edges nbr"),
        ("binarized", "binarized", {"model": {"width": 9}}, "does not fit the recipe's model"),
        ("binarized", "binarized", {"model": {"layers": 2}}, "does not fit the recipe's model"),
        ("multivalued", "multivalued", {"model": {"width": 9, "max_values": 5}}, "does not fit"),
        ("multivalued", "multivalued", {"model": {"max_values": 4}}, "embeddings.weight is 5x8"),
    ],
)
def test_weights_of_another_shape_are_refused_in_a_line(
    tmp_path: Path, taught: dict[str, Path], start: str, kind: str, changes: dict[str, Any], words: str
) -> None:
    with pytest.raises(OutgrowError) as caught:
        train(tiny(kind, **changes, start=str(taught[start])), tmp_path, device="cpu")
    said = str(caught.value)
    assert said.startswith(f"{taught[start]}: ")
    assert words in said
    assert "\n" not in said


def test_a_missing_start_is_refused_in_a_line_and_not_needed_to_resume(tmp_path: Path, taught: dict[str, Path]) -> None:
    with pytest.raises(OutgrowError, match="no such file"):
        train(tiny(start=str(tmp_path / "none.safetensors")), tmp_path / "a", device="cpu")
    start = tmp_path / "start.safetensors"
    start.write_bytes(taught["binarized"].read_bytes())
    recipe = tiny(start=str(start))
    done = train(recipe, tmp_path / "b", device="cpu")
    start.unlink()
    assert train(recipe, tmp_path / "b", device="cpu", resume=True).chosen == done.chosen


# ---- the folder, and mistakes


def test_a_folder_that_holds_a_run_is_not_overwritten(tmp_path: Path) -> None:
    recipe = tiny()
    train(recipe, tmp_path / "run", device="cpu")
    before = {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()}
    with pytest.raises(
        OutgrowError, match=r"holds a run; go on with it \(--resume\), or name another folder \(--out\)"
    ):
        train(recipe, tmp_path / "run", device="cpu")
    for name in ("checkpoint.safetensors", "weights.safetensors"):
        other = tmp_path / name
        other.mkdir()
        (other / name).write_bytes(b"precious")
        with pytest.raises(OutgrowError, match="holds a run"):
            train(recipe, other, device="cpu")
        assert (other / name).read_bytes() == b"precious"
    assert {file.name: file.read_bytes() for file in (tmp_path / "run").iterdir()} == before


def test_a_run_that_never_got_to_a_checkpoint_is_begun_anew(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="power cut"):
        train(tiny(), tmp_path, device="cpu", watch=_cut_power(1))
    assert not (tmp_path / "checkpoint.safetensors").exists()
    with pytest.raises(OutgrowError, match="has no checkpoint yet, start it without --resume"):
        train(tiny(), tmp_path, device="cpu", resume=True)
    train(tiny(seed=4), tmp_path, device="cpu")
    assert len(events(tmp_path, "start")) == 1
    assert events(tmp_path, "start")[0]["recipe"]["train"]["seed"] == 4


def _cut_power(update: int) -> Any:
    def watch(event: Any) -> None:
        if event["event"] == "update" and event["update"] == update:
            raise RuntimeError("power cut")

    return watch


def test_resume_wants_a_run(tmp_path: Path) -> None:
    with pytest.raises(OutgrowError, match=r"nothing to resume here \(recipe.json is missing"):
        train(tiny(), tmp_path / "none", device="cpu", resume=True)
    assert not (tmp_path / "none").exists()
    for content in ("", "{", "[1]", "7", "[" * 100_000):
        (tmp_path / "recipe.json").write_text(content)
        (tmp_path / "checkpoint.safetensors").write_bytes(b"")
        with pytest.raises(OutgrowError, match="nothing to resume here"):
            train(tiny(), tmp_path, device="cpu", resume=True)


@pytest.mark.parametrize(
    ("other", "key"),
    [
        (tiny(seed=1), "train.seed"),
        (tiny(updates=7), "train.updates"),
        (tiny(model={"width": 9}), "model.width"),
        (tiny("multivalued"), "model.kind"),
        (tiny(data={"limit": 16}), "data.limit"),
        (tiny(data={"valid": []}), "data.valid"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_resume_wants_the_same_recipe(tmp_path: Path, other: Recipe, key: str) -> None:
    with pytest.raises(RuntimeError, match="power cut"):
        train(tiny(), tmp_path, device="cpu", watch=_cut_power(3))
    with pytest.raises(OutgrowError, match=rf"was trained with another {key}; resume with the same recipe"):
        train(other, tmp_path, device="cpu", resume=True)


@pytest.mark.parametrize(
    ("recipe", "words"),
    [
        (tiny(data={"train": ["sudoku-4-none"]}), "sudoku-4-none.npz: no such data set"),
        (tiny(data={"train": ["none.npz"]}), "none.npz: no such file"),
        (tiny(data={"train": ["sudoku-4-train", "futoshiki-6-train"]}), "futoshiki-6-train futoshiki"),
        (tiny(data={"valid": ["futoshiki-6-valid"]}), "sudoku-4-train holds sudoku, futoshiki-6-valid futoshiki"),
        (tiny(data={"form": "circles"}), "data.form is 'circles'; sudoku has units, nbr"),
        (tiny(data={"limit": 7}), "train.batch is 8, but there are 7 puzzles"),
        (tiny("multivalued", model={"max_values": 3}), "a puzzle with 4 values"),
        (tiny("multivalued", model={"max_values": 4}, data={"valid": ["sudoku-9-valid"]}), "a puzzle with 9 values"),
        (tiny(data={"valid": ["sudoku-4-test"]}), "sudoku-4-test: a test set chooses no weights"),
        (tiny(data={"valid": ["sudoku-9-hard"]}), "sudoku-9-hard: a test set chooses no weights"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else "",
)
def test_a_recipe_that_cannot_be_trained_is_refused_before_the_first_update(
    tmp_path: Path, recipe: Recipe, words: str
) -> None:
    with pytest.raises(OutgrowError) as caught:
        train(recipe, tmp_path, device="cpu")
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)
    assert not list(tmp_path.glob("*.safetensors"))
    assert not (tmp_path / "log.jsonl").exists() or not events(tmp_path, "update")


@pytest.mark.parametrize("device", ["abacus", "meta", "cuda:99", "cpu:x"])
def test_a_device_that_cannot_be_used_is_refused_in_a_line(tmp_path: Path, device: str) -> None:
    with pytest.raises(OutgrowError, match=f"device '{device}' cannot be used here") as caught:
        train(tiny(), tmp_path / "run", device=device)
    assert "\n" not in str(caught.value)


def test_sets_of_several_sizes_are_trained_on_together(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = {"three": color_graphs([5, 6, 7, 8] * 3), "four": color_graphs([5, 9] * 6, colors=4, seed=1)}
    for kind in KINDS:
        data = {"train": ["three", "four"], "valid": ["four", "three"], "form": "units", "limit": 9}
        model = {"max_values": 4} if kind == "multivalued" else {}
        recipe = tiny(kind, model=model, data=data, multiplicity=True, micro_batch=3)
        done = train(recipe, tmp_path / kind, device="cpu", datasets=graphs)
        assert done.validation is not None
        assert math.isfinite(done.validation.loss)
        assert about(done.weights)["info"]["data"].keys() == {"three", "four"}


def test_multiplicity_is_asked_for_by_the_recipe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = {"graphs": color_graphs([5] * 8)}
    data = {"train": ["graphs"], "valid": [], "form": "units", "limit": 0}
    asked: list[int] = []

    def judge(*arguments: Any) -> np.ndarray:
        asked.append(1)
        return np.ones(8, dtype=bool)

    monkeypatch.setattr("outgrow.train.objective.judge_each", judge)
    for multiplicity in (False, True):
        recipe = tiny(data=data, multiplicity=multiplicity, log_every=100, updates=4, ema=0.0)
        train(recipe, tmp_path / str(multiplicity), device="cpu", datasets=graphs)
        assert len(asked) == (4 if multiplicity else 0)
    one, other = (read(tmp_path / name / "weights.safetensors") for name in ("False", "True"))
    assert any(not torch.equal(one[name], other[name]) for name in one)


def test_it_gets_better_at_it(tmp_path: Path) -> None:
    for kind in KINDS:
        recipe = tiny(kind, data={"limit": 400, "valid": []}, updates=30, batch=16, lr=0.03, validate_every=30)
        train(recipe, tmp_path / kind, device="cpu")
        losses = [e["loss"] for e in events(tmp_path / kind, "update")]
        assert np.mean(losses[-5:]) < 0.85 * losses[0]


# ---- interruption


def test_an_interruption_ends_the_run_after_the_update_at_hand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loop, "validate", grade_generously)
    for number in (signal.SIGINT, signal.SIGTERM):
        run, earlier = tmp_path / str(number), signal.getsignal(number)

        def press(event: Any, number: int = number) -> None:
            if event["event"] == "update" and event["update"] == 3:
                os.kill(os.getpid(), number)

        done = train(tiny(), run, device="cpu", watch=press)
        assert (done.stopped, done.chosen, done.validation) == ("interrupted", "", None)
        assert [e["update"] for e in events(run, "update")] == [1, 2, 3]
        assert events(run, "end")[0]["reason"] == "interrupted"
        assert about(run / "checkpoint.safetensors")["progress"]["update"] == 3
        assert signal.getsignal(number) == earlier


def test_a_second_interruption_ends_it_at_once(tmp_path: Path) -> None:
    def press(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 3:
            os.kill(os.getpid(), signal.SIGINT)
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        train(tiny(), tmp_path, device="cpu", watch=press)
    assert about(tmp_path / "checkpoint.safetensors")["progress"]["update"] == 2


def test_an_interruption_after_the_last_update_is_too_late(tmp_path: Path) -> None:
    def press(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 6:
            os.kill(os.getpid(), signal.SIGINT)

    done = train(tiny(), tmp_path, device="cpu", watch=press)
    assert done.stopped == "done"
    assert done.chosen


def test_a_mistake_leaves_the_folder_as_it_was(tmp_path: Path) -> None:
    mine = {"log.jsonl": "my own notes\n", "recipe.json": "my own recipe\n"}
    for name, text in mine.items():
        (tmp_path / name).write_text(text)
    with pytest.raises(OutgrowError, match=r"log.jsonl: not the log of a run"):
        train(tiny(), tmp_path, device="cpu")
    (tmp_path / "log.jsonl").unlink()
    with pytest.raises(OutgrowError, match=r"recipe.json: not of a run"):
        train(tiny(), tmp_path, device="cpu")
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {"recipe.json": mine["recipe.json"]}
    for wrong in (tiny(data={"limit": 7}), tiny(data={"train": ["no-such-set"]}), tiny(start="none.safetensors")):
        with pytest.raises(OutgrowError):
            train(wrong, tmp_path / "none", device="cpu")
    assert not (tmp_path / "none").exists()


def test_one_process_at_a_time_trains_in_a_folder(tmp_path: Path) -> None:
    def intrude(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 3:
            for resume in (True, False):
                with pytest.raises(OutgrowError, match=r"another process trains here|holds a run"):
                    train(tiny(), tmp_path, device="cpu", resume=resume)

    assert train(tiny(validate_every=2), tmp_path, device="cpu", watch=intrude).stopped == "done"
    assert len(events(tmp_path, "start")) == 1


def test_resume_notices_other_data(tmp_path: Path) -> None:
    data = {"train": ["graphs"], "valid": [], "form": "units", "limit": 0}
    recipe = tiny(data=data)
    train(recipe, tmp_path, device="cpu", datasets={"graphs": color_graphs([5] * 8)})
    with pytest.raises(OutgrowError, match="was trained on other data than graphs hold now"):
        train(recipe, tmp_path, device="cpu", resume=True, datasets={"graphs": color_graphs([6] * 8)})


@pytest.mark.parametrize("choose", ["average", "ema", "last"])
def test_the_recipe_may_say_which_weights_to_keep(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, choose: str) -> None:
    monkeypatch.setattr(loop, "_is_flat", lambda *curve: True)
    recipe = tiny(choose=choose)
    assert train(recipe, tmp_path, device="cpu").chosen == choose


def test_out_of_memory_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*arguments: Any) -> Any:
        raise RuntimeError("[enforce fail at alloc_cpu.cpp] DefaultCPUAllocator: can't allocate memory")

    monkeypatch.setattr(loop._Trainer, "_update", fail)
    with pytest.raises(OutgrowError, match=r"^out of memory; lower train.micro_batch or train.batch"):
        train(tiny(), tmp_path, device="cpu")
