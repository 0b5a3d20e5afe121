"""Training on a GPU: bf16, recorded updates, and checkpoints that go back and forth. What is recorded, piece by piece: test_replay.py."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from tiny import KINDS, about, assert_finite, color_graphs, events, read, rich, tiny

from outgrow.train import Recipe, train
from outgrow.train.objective import Losses, Objective
from outgrow.train.replay import Replay

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


def learn(recipe: Recipe, run: Path, device: str = "cuda", **options: Any) -> list[float]:
    train(recipe, run, device=device, **options)
    assert_finite(run)
    return [e["loss"] for e in events(run, "update")]


def count(monkeypatch: pytest.MonkeyPatch, cls: type, name: str) -> list[Any]:
    """The results of a method, as it is called."""
    results: list[Any] = []
    method = getattr(cls, name)

    def note(self: Any, *arguments: Any) -> Any:
        results.append(method(self, *arguments))
        return results[-1]

    monkeypatch.setattr(cls, name, note)
    return results


@pytest.mark.parametrize("kind", KINDS)
def test_a_gpu_learns_what_a_cpu_does(tmp_path: Path, kind: str) -> None:
    recipe = tiny(kind, precision="fp32")
    cpu = learn(recipe, tmp_path / "cpu", device="cpu")
    assert learn(recipe, tmp_path / "gpu") == pytest.approx(cpu, rel=1e-2)  # matrix products there are TF32
    assert learn(tiny(kind), tmp_path / "bf16") == pytest.approx(cpu, rel=5e-2)
    assert events(tmp_path / "gpu", "start")[0]["device"].startswith("cuda")
    assert events(tmp_path / "gpu", "update")[-1]["memory_gib"] < 1


@pytest.mark.parametrize(
    ("precision", "dtype"), [("auto", torch.bfloat16), ("bf16", torch.bfloat16), ("fp32", torch.float32)]
)
def test_precision_is_bf16_unless_asked_otherwise(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, precision: str, dtype: torch.dtype
) -> None:
    seen = count(monkeypatch, torch.nn.Linear, "forward")
    recipe = tiny(precision=precision, data={"valid": []})
    learn(recipe, tmp_path)
    assert {result.dtype for result in seen} == {dtype}
    assert {tensor.dtype for tensor in read(tmp_path / "checkpoint.safetensors").values()} == {torch.float32}


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_updates_learn_what_plain_ones_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    extra = {"max_values": 7} if kind == "multivalued" else {}
    recipe = tiny(kind, model=extra, precision="fp32", updates=12)
    plain = learn(recipe, tmp_path / "plain")
    replayed = count(monkeypatch, Replay, "backward")
    passes = count(monkeypatch, Objective, "forward")
    assert learn(recipe.changed(replay=True), tmp_path / "replay") == pytest.approx(plain, rel=1e-2)
    assert len(replayed) == 12
    assert len(passes) == 4  # three to warm up, one that is recorded: no other update was computed from Python
    for key in ("final_loss", "grad_norm", "accuracy"):
        one, other = ([e[key] for e in events(tmp_path / run, "update")] for run in ("plain", "replay"))
        assert other == pytest.approx(one, rel=5e-2, abs=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_recorded_updates_of_several_sets_with_free_steps_learn_what_plain_ones_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    recipe = rich(kind, noise=0.0, precision="fp32", updates=16)
    plain = learn(recipe, tmp_path / "plain")
    replayed = count(monkeypatch, Replay, "backward")
    recorded = count(monkeypatch, Replay, "_record")
    assert learn(recipe.changed(replay=True), tmp_path / "replay") == pytest.approx(plain, rel=1e-2)
    assert len(replayed) == 16
    assert len(recorded) == 4  # two sizes, with free steps and without
    one, other = ([e["grad_norm"] for e in events(tmp_path / run, "update")] for run in ("plain", "replay"))
    assert other == pytest.approx(one, rel=5e-2)


def test_recorded_updates_begin_with_other_noise_each_time(tmp_path: Path) -> None:
    for free in (0, 2):
        how = {"noise": 0.5, "free_steps": [free, free], "lr": 1e-12, "replay": True, "precision": "fp32"}
        losses = learn(tiny("grouped", data={"limit": 8, "valid": []}, **how), tmp_path / str(free))
        assert len({round(loss, 6) for loss in losses}) == len(losses)


def test_recorded_updates_drop_out_other_messages_each_time(tmp_path: Path) -> None:
    recipe = tiny(model={"dropout": 0.5}, data={"limit": 8, "valid": []}, lr=1e-12, replay=True, precision="fp32")
    losses = learn(recipe, tmp_path)
    assert len({round(loss, 6) for loss in losses}) == len(losses)


@pytest.mark.parametrize("changes", [{"multiplicity": True}, {"micro_batch": 4}])
def test_updates_that_are_not_alike_are_not_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changes: dict[str, Any]
) -> None:
    replayed = count(monkeypatch, Replay, "backward")
    learn(tiny(replay=True, **changes), tmp_path / "a")
    graphs = {"graphs": color_graphs([5, 6, 7, 8] * 4)}
    data = {"train": ["graphs"], "valid": [], "form": "units"}
    learn(tiny(data=data, replay=True), tmp_path / "b", datasets=graphs)
    assert not replayed


def test_recorded_updates_recover(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    backward, times = Replay.backward, []

    def spoil(self: Replay, *arguments: Any) -> Losses:
        losses = backward(self, *arguments)
        times.append(1)
        return losses._replace(total=losses.total * math.nan) if len(times) == 4 else losses

    monkeypatch.setattr(Replay, "backward", spoil)
    losses = learn(tiny(replay=True), tmp_path)
    assert [(e["failed"], e["back_to"]) for e in events(tmp_path, "recover")] == [(3, 2)]
    assert len(losses) == 7


@pytest.mark.parametrize(("first", "then"), [("cuda", "cuda"), ("cuda", "cpu"), ("cpu", "cuda")])
def test_a_run_goes_on_on_another_device(tmp_path: Path, first: str, then: str) -> None:
    recipe = tiny("multivalued", precision="fp32")
    expected = learn(recipe, tmp_path / "whole", device="cpu")

    def fail(event: Any) -> None:
        if event["event"] == "update" and event["update"] == 5:
            raise RuntimeError("power cut")

    with pytest.raises(RuntimeError, match="power cut"):
        train(recipe, tmp_path / "run", device=first, watch=fail)
    train(recipe, tmp_path / "run", device=then, resume=True)
    found = {e["update"]: e["loss"] for e in events(tmp_path / "run", "update")}
    assert [found[update] for update in range(1, 7)] == pytest.approx(expected, rel=5e-3)
    assert about(tmp_path / "run" / "checkpoint.safetensors")["progress"]["update"] == 6
