"""Several processes learn what one alone would learn from the same batches."""

from __future__ import annotations

import itertools
import json
import math
import os
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from tiny import FORKED, REMASK, about, as_toml, assert_finite, color_graphs, events, grade_generously, read, rich, tiny
from torch import nn

from outgrow.data import find_dataset
from outgrow.errors import OutgrowError
from outgrow.models import choose_device
from outgrow.train import loop, train
from outgrow.train.objective import Losses, Objective
from outgrow.train.order import Order, draw_given, draw_steps, draw_values
from outgrow.train.processes import Processes, start_processes, stop_processes

GRAPHS = {"graphs": color_graphs([5, 6, 7, 8, 9] * 6, given=0.2)}
COLORING = {"train": ["graphs.npz"], "valid": ["graphs.npz"], "form": "units", "limit": 0}
SHORT: dict[str, Any] = {"updates": 4, "validate_every": 4}  # the fourth is of another set
RECIPES = {
    "multivalued": tiny("multivalued", model={"max_values": 7}),
    "binarized in parts": tiny(micro_batch=2, flat_window=1, flat_gain=0.9),
    "multivalued in uneven parts": tiny("multivalued", model={"max_values": 7}, micro_batch=3),
    "coloring": tiny(data=COLORING, multiplicity=True, warmup=3),
    "rich": rich(noise=0.0, **SHORT),
    "rich in parts": rich("multivalued", data=REMASK, noise=0.0, micro_batch=3, **SHORT),
    "noisy": rich(**SHORT),
    "patience": tiny(data=COLORING, lr=1e-12, ema=0.0, patience=1, updates=40),
}


def learn_together(rank: int, port: int, folder: str, queue: Any) -> None:
    """What torchrun would start: all recipes in one group of processes."""
    os.chdir(folder)
    os.environ |= {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    processes = loop.start_processes("cpu")
    loop.start_processes, loop.stop_processes = lambda device=None: processes, lambda processes: None
    loop.validate = grade_generously
    stopped = {name: train(recipe, name).stopped for name, recipe in RECIPES.items()}
    # Once more, with a loss that is no number in the second process alone.
    times, forward = itertools.count(1), Objective.forward

    def spoil(self: Objective, *arguments: Any) -> Losses:
        losses = forward(self, *arguments)
        return losses._replace(total=losses.total * math.nan) if (next(times), rank) == (4, 1) else losses

    Objective.forward = spoil  # pyright: ignore[reportAttributeAccessIssue]
    stopped["spoiled"] = train(RECIPES["multivalued"], "spoiled").stopped
    stop_processes(processes)
    queue.put(stopped)


@pytest.fixture(scope="module")
def together(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("together")
    GRAPHS["graphs"].save(folder / "graphs.npz")
    with socket.socket() as free:
        free.bind(("localhost", 0))
        port = free.getsockname()[1]
    queue = FORKED.SimpleQueue()
    children = [FORKED.Process(target=learn_together, args=(rank, port, str(folder), queue)) for rank in (0, 1)]
    for child in children:
        child.start()
    for child in children:
        child.join(60)
    codes = [child.exitcode for child in children]
    for child in children:
        child.kill()  # one that waits for the other
    assert codes == [0, 0]
    one, other = queue.get(), queue.get()
    assert one == other  # all processes know why a run ended
    (folder / "stopped.json").write_text(json.dumps(one))
    return folder


def assert_same_curve(one: Path, many: Path, kind: str) -> None:
    for key in ("update", "loss", "final_loss", "grad_norm", "accuracy", "lr", "epoch"):
        a, b = ([e[key] for e in events(run, "update")] for run in (one, many))
        assert b == pytest.approx(a, rel=1e-5, abs=1e-7), key
    for key in ("board", "loss"):
        a, b = ([e[key] for e in events(run, "validate")] for run in (one, many))
        assert b == pytest.approx(a, rel=1e-4), key
    for file in ("weights.safetensors", "checkpoint.safetensors"):
        a, b = read(one / file), read(many / file)
        assert a.keys() == b.keys()
        for name, tensor in a.items():
            if not (kind == "multivalued" and name.endswith("score.bias")):  # without effect: its gradient is rounding
                torch.testing.assert_close(b[name], tensor, rtol=1e-3, atol=1e-4)
    assert (events(one, "start")[0]["processes"], events(many, "start")[0]["processes"]) == (1, 2)
    assert about(many / "weights.safetensors")["info"]["processes"] == 2


@pytest.mark.parametrize("name", [name for name in RECIPES if name not in ("patience", "noisy")])
def test_two_processes_learn_what_one_does(
    tmp_path: Path, together: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setattr(loop, "validate", grade_generously)
    whole = RECIPES[name].changed(micro_batch=0)  # in parts or not: the batch is the same
    train(whole, tmp_path, device="cpu", datasets={"graphs.npz": GRAPHS["graphs"]})
    assert_same_curve(tmp_path, together / name, whole.kind)


def test_two_processes_draw_noise_of_their_own(tmp_path: Path, together: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As with dropout: batches, givens, steps and rates are those of one process, the losses are not quite."""
    monkeypatch.setattr(loop, "validate", grade_generously)
    train(RECIPES["noisy"], tmp_path, device="cpu")
    one, many = (events(run, "update") for run in (tmp_path, together / "noisy"))
    for key in ("update", "lr", "epoch"):
        assert [e[key] for e in one] == [e[key] for e in many]
    losses = [[e["loss"] for e in run] for run in (one, many)]
    assert losses[1] == pytest.approx(losses[0], rel=0.2)
    assert losses[1] != pytest.approx(losses[0], rel=1e-4)
    assert_finite(together / "noisy")


def test_two_processes_stop_and_recover_together(together: Path) -> None:
    stopped = json.loads((together / "stopped.json").read_text())
    assert stopped == {**dict.fromkeys(RECIPES, "done"), "patience": "patience", "spoiled": "done"}
    assert 2 < events(together / "patience", "end")[0]["update"] < 40
    (event,) = events(together / "spoiled", "recover")
    assert (event["failed"], event["back_to"]) == (3, 2)
    assert_finite(together / "spoiled")


def test_the_command_runs_under_torchrun(tmp_path: Path) -> None:
    recipe = tiny()
    (tmp_path / "tiny.toml").write_text(as_toml(recipe))
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    done = subprocess.run(
        [*command, "-m", "outgrow", "train", "tiny.toml", "--device", "cpu", "--out", "many"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("many/weights.safetensors: the ") == 1
    assert done.stderr.count("update 6: done") == 1  # the other process is quiet
    train(recipe, tmp_path / "one", device="cpu")
    assert_same_curve(tmp_path / "one", tmp_path / "many", "binarized")
    # One process goes on where two stopped.
    train(recipe, tmp_path / "many", device="cpu", resume=True)


def pretend(monkeypatch: pytest.MonkeyPatch, rank: int, count: int) -> None:
    """One of several processes, without the others."""

    class Wrapped(nn.Module):
        def __init__(self, module: nn.Module) -> None:
            super().__init__()
            self.module = module
            self.forward = module.forward

    monkeypatch.setattr(loop, "start_processes", lambda device: Processes(rank, count, torch.device("cpu")))
    monkeypatch.setattr(loop, "stop_processes", lambda processes: None)
    monkeypatch.setattr(loop, "DistributedDataParallel", Wrapped)
    monkeypatch.setattr(Processes, "mean", lambda self, *values: list(values))
    monkeypatch.setattr(Processes, "agree", lambda self, value: value)


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("fresh", [{}, REMASK], ids=["more and fewer", "remask"])
def test_processes_share_batches_and_draws_without_gap_or_overlap(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, count: int, fresh: dict[str, Any]
) -> None:
    seen: dict[int, list[Any]] = {}
    forward = Objective.forward
    recipe = rich("multivalued", data={"valid": [], **fresh}, **SHORT)
    for rank in range(count):
        with monkeypatch.context() as patch:
            pretend(patch, rank, count)
            kept = seen.setdefault(rank, [])

            def keep(
                self: Objective, batch: Any, csps: Any, draw: Any, free: int, *more: Any, kept: list[Any] = kept
            ) -> Any:
                givens = [tuple(part.tolist()) for part in batch.split(batch.givens.numpy())]
                drawn = zip(map(tuple, draw.tolist()), givens, strict=True)
                kept.append((free, dict(zip(batch.indices.tolist(), drawn, strict=True))))
                return forward(self, batch, csps, draw, free, *more)

            patch.setattr(Objective, "forward", keep)
            train(recipe, tmp_path / str(rank), device="cpu")
    data = recipe.data
    sizes = [np.full(40, 16), np.full(40, 36)]
    order = Order(sizes, 8, (0, 0), data.shares)
    found = [find_dataset(name) for name in data.train]
    assert {int(order.batch(update)[0]) // 40 for update in range(4)} == {0, 1}  # boards of both sizes
    for update in range(4):
        parts = [seen[rank][update] for rank in range(count)]
        assert {free for free, _ in parts} == {draw_steps((0, 3), (0, 0, update, 4))}
        assert [len(part) for _, part in parts] == [8 // count] * count
        together = {puzzle: drawn for _, part in parts for puzzle, drawn in part.items()}
        # By hand, for all processes at once.
        batch = order.batch(update)
        counts = np.concatenate(sizes)[batch]
        draws = draw_values(8, 6, 16, (0, 0, update, 1))
        shares = (data.more_givens, data.untouched, data.remask)
        flags = draw_given(counts, (0, 0, update, 3), *shares)
        assert flags is not None
        given, masked = (np.split(flag, np.cumsum(counts)[:-1]) for flag in flags)
        expected = {}
        for place, puzzle in enumerate(batch.tolist()):
            dataset, number = found[puzzle // 40], puzzle % 40
            values = np.where(masked[place], 0, dataset[number].givens)
            values = np.where(given[place], dataset.solution(number), values)
            expected[puzzle] = (tuple(draws[place, : dataset.size].tolist()), tuple(values.tolist()))
        assert together == expected


def test_noise_differs_between_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two with the same puzzles would else learn from the same noise."""
    seen: dict[int, list[torch.Tensor]] = {}
    walk = Objective.walk
    for rank in (0, 1):
        with monkeypatch.context() as patch:
            pretend(patch, rank, 2)
            kept = seen.setdefault(rank, [])

            def keep(self: Objective, batch: Any, draw: Any, steps: int, kept: list[Any] = kept) -> Any:
                kept.append(self.model.start(self.model.prepare(batch, draw), self._noise).hidden.detach())  # pyright: ignore[reportArgumentType]
                return walk(self, batch, draw, steps)

            patch.setattr(
                Objective, "walk", lambda self, batch, draw, steps, start, keep=keep: keep(self, batch, draw, steps)
            )
            train(tiny(data={"valid": []}, noise=0.5, free_steps=[1, 1], updates=3), tmp_path / str(rank), device="cpu")
    noise = [tuple(round(v, 5) for v in t.flatten()[:4].tolist()) for kept in seen.values() for t in kept]
    assert len(set(noise)) == len(noise) == 6


def test_only_the_first_process_writes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pretend(monkeypatch, 1, 2)
    heard: list[Any] = []
    train(tiny(), tmp_path / "run", device="cpu", watch=heard.append)
    assert not (tmp_path / "run").exists()
    assert not heard


def test_a_batch_that_cannot_be_shared_is_refused_in_a_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for rank in (0, 1, 2):
        pretend(monkeypatch, rank, 3)
        with pytest.raises(OutgrowError, match=r"^train.batch is 8, which 3 processes cannot share evenly$"):
            train(tiny(), tmp_path / "run", device="cpu")
    assert not (tmp_path / "run").exists()


def test_dropout_differs_between_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seeds: list[int] = []
    monkeypatch.setattr(torch, "manual_seed", seeds.append)
    for rank in (0, 1):
        with monkeypatch.context() as patch:
            pretend(patch, rank, 2)
            train(tiny(data={"valid": []}, updates=3), tmp_path / str(rank), device="cpu")
    assert len(seeds) == 8
    assert seeds[0] == seeds[4]  # the initial weights are the same
    assert len(set(seeds)) == 7


def test_a_process_alone_stands_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    alone = start_processes("cpu")
    assert (alone.rank, alone.count, alone.first, alone.device) == (0, 1, True, torch.device("cpu"))
    assert alone.mean(1.0, 2.0) == [1.0, 2.0]
    assert (alone.agree(3), alone.agree(0)) == (3, 0)
    assert not Processes(1, 2, torch.device("cpu")).first
    assert choose_device(None).type == ("cuda" if torch.cuda.is_available() else "cpu")


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"WORLD_SIZE": "many"}, "WORLD_SIZE, RANK or LOCAL_RANK is no number"),
        ({"WORLD_SIZE": "2", "RANK": "0"}, "2 processes could not find each other; start them with torchrun"),
    ],
)
def test_processes_that_torchrun_did_not_start_are_refused_in_a_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], words: str
) -> None:
    monkeypatch.delenv("MASTER_ADDR", raising=False)
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(OutgrowError) as caught:
        train(tiny(), tmp_path / "run", device="cpu")
    assert str(caught.value).startswith(words)
    assert "\n" not in str(caught.value)
    assert not (tmp_path / "run").exists()
