"""Runs so small that they can be repeated: a few boards, a model of width 8, a handful of updates."""

from __future__ import annotations

import json
import multiprocessing
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

from outgrow.data import Dataset, Record
from outgrow.graphs import Puzzles
from outgrow.models import Model
from outgrow.train import Recipe, Validation, validate

KINDS = ("binarized", "multivalued", "grouped")
SMALL: dict[str, dict[str, Any]] = {
    kind: {"width": 8, "steps": 2, "dropout": 0.0, **({} if kind == "grouped" else {"layers": 1})} for kind in KINDS
}
# Processes for runs that are killed or learn together: forked by a server that has loaded what takes seconds, and not
# by the tests' own process, which may have threads.
FORKED = multiprocessing.get_context("forkserver")
FORKED.set_forkserver_preload(["outgrow.train.loop", "torch._dynamo", "tiny", "test_resume", "test_processes"])


def tiny(
    kind: str = "binarized",
    *,
    model: Mapping[str, Any] | None = None,
    data: Mapping[str, Any] | None = None,
    **train: Any,
) -> Recipe:
    """4x4 Sudokus for six updates, with other values where they are given."""
    return Recipe.from_json(
        {
            "name": "tiny",
            "model": {"kind": kind, **SMALL[kind], **(model or {})},
            "data": {
                "train": ["sudoku-4-train"],
                "valid": ["sudoku-4-valid"],
                "form": "nbr",
                "limit": 40,
                "valid_limit": 12,
                **(data or {}),
            },
            "train": {"updates": 6, "batch": 8, "lr": 0.01, "validate_every": 2, "log_every": 1, **train},
        }
    )


# For `rich`: another mask each time.
REMASK = {"more_givens": [0, 0], "remask": [0.2, 0.7]}


def rich(kind: str = "grouped", *, data: Mapping[str, Any] | None = None, **train: Any) -> Recipe:
    """The same with boards of two sizes, fresh givens, free steps and noise."""
    sets = {"train": ["sudoku-4-train", "sudoku-6-train"], "shares": [3, 1], "more_givens": [0.1, 0.6]}
    how = {"steps": 3, "free_steps": [0, 3], "noise": 0.4, **train}
    return tiny(kind, data={**sets, "untouched": 0.25, **(data or {})}, **how)


def as_toml(recipe: Recipe) -> str:
    """The recipe as a file: JSON's numbers, texts and lists are TOML's."""
    plain = recipe.as_json()
    tables = {name: plain.pop(name) for name in ("model", "data", "train")}
    lines = [f"{key} = {json.dumps(value)}" for key, value in plain.items()]
    for name, table in tables.items():
        lines += [f"[{name}]", *(f"{key} = {json.dumps(value)}" for key, value in table.items())]
    return "\n".join(lines) + "\n"


def color_graphs(nodes: list[int], colors: int = 3, seed: int = 0, given: float = 0.0) -> Dataset:
    """Random graphs with a coloring of each; few edges, so that there are many others."""
    random = np.random.default_rng(seed)
    records = []
    for count in nodes:
        solution = random.integers(1, colors + 1, count)
        different = [(a, b) for a in range(count) for b in range(a) if solution[a] != solution[b]]
        pairs = np.array(different, dtype=np.int64).reshape(-1, 2)
        kept = pairs[random.random(len(pairs)) < 0.4]
        records.append(Record(solution, random.random(count) < given, kept))
    return Dataset.of(records, puzzle="coloring", size=colors, shape=())


def events(run: Path, kind: str = "") -> list[dict[str, Any]]:
    """What the log of a run says, of one kind."""
    lines = [json.loads(line) for line in (run / "log.jsonl").read_text().splitlines()]
    return [line for line in lines if kind in ("", line["event"])]


def read(file: Path) -> dict[str, Tensor]:
    """All tensors of a file."""
    return load_file(file)


def about(file: Path) -> dict[str, Any]:
    """What a file says of its tensors."""
    with safe_open(file, framework="pt") as stored:
        told = json.loads(stored.metadata()["outgrow"])
    del told["sha256"]
    return told


def assert_same_end(one: Path, other: Path) -> None:
    """Two runs ended with the same weights, optimizer, averages and history: bit for bit."""
    for name in ("weights.safetensors", "checkpoint.safetensors"):
        a, b = read(one / name), read(other / name)
        assert a.keys() == b.keys()
        assert [key for key in a if not torch.equal(a[key], b[key])] == []
    histories = [about(run / "checkpoint.safetensors")["progress"] for run in (one, other)]
    for history in histories:
        history.pop("seconds")
    assert histories[0] == histories[1]
    said = [about(run / "weights.safetensors")["info"] for run in (one, other)]
    assert len({json.dumps([info[key] for key in ("chosen", "validation", "candidates")]) for info in said}) == 1


def assert_finite(run: Path) -> None:
    """No file of the run holds anything but numbers."""
    for file in run.glob("*.safetensors"):
        assert [key for key, tensor in read(file).items() if not tensor.isfinite().all()] == []


def grade_generously(
    model: Model, puzzles: Puzzles, device: torch.device | str = "cpu", steps: int | None = None
) -> Validation:
    """Board accuracies above 0 for models that solve nothing: the lower the loss, the higher."""
    found = validate(model, puzzles, device, steps)
    return Validation(float(np.exp(-found.loss)), found.pointwise, found.loss)


def flatten(result: Any) -> list[Tensor]:
    """Its tensors, states among them."""
    if isinstance(result, Tensor):
        return [result]
    return [tensor for part in result or () for tensor in flatten(part)]
