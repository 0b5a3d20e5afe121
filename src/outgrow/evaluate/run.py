"""A model's answers to the puzzles of data sets, and how good they are."""

from __future__ import annotations

import dataclasses
import json
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from outgrow.csp import GroundCSP
from outgrow.csp.verdict import judge_each
from outgrow.data import Dataset
from outgrow.errors import OutgrowError, memory_errors
from outgrow.evaluate.metrics import Score, score, step_quantiles
from outgrow.evaluate.predictions import Predictions
from outgrow.evaluate.report import Evaluation
from outgrow.graphs import Batch, Puzzles, Schema
from outgrow.models import Model
from outgrow.provenance import provenance
from outgrow.puzzles import PUZZLES
from outgrow.train.curves import LOG_NAME, read_log
from outgrow.train.processes import products
from outgrow.weights import Loaded, load_weights

__all__ = ["FirstSteps", "evaluate", "form_for", "open_weights", "predict"]

# (variable, value) nodes in a batch: a 25x25 Sudoku has 15,625.
_NODES = {"cpu": 1 << 15, "cuda": 1 << 17}
_MAX_STEPS = 100_000
_MAX_SECONDS = 86_400
Progress = Callable[[int], None]


def _no_progress(done: int) -> None:
    """For callers that do not watch."""


class FirstSteps:
    """The first step after which the answer to each puzzle was right. Who has been right once is not judged again."""

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[np.int64]] = []

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """(N,) one for each puzzle so far, 0 for those that were never right."""
        return np.concatenate(self._parts)

    def watch(self, batch: Batch, csps: Sequence[GroundCSP]) -> Callable[[int, torch.Tensor], None]:
        """The next puzzles: what is to be told of the scores (V, K) after each of their steps."""
        first = np.zeros(len(batch), dtype=np.int64)
        self._parts.append(first)
        givens = batch.split(batch.givens.cpu().numpy())

        def told(step: int, scores: torch.Tensor) -> None:
            left = np.flatnonzero(first == 0).tolist()
            if left:
                answers = batch.split((scores.argmax(1) + 1).cpu().numpy())
                right = judge_each([csps[i] for i in left], [answers[i] for i in left], [givens[i] for i in left])
                first[np.array(left)[right]] = step

        return told


def predict(
    model: Model,
    dataset: Dataset,
    name: str,
    *,
    steps: Sequence[int] = (),
    limit: int | None = None,
    device: torch.device | str = "cpu",
    first_steps: FirstSteps | None = None,
    progress: Progress = _no_progress,
) -> list[Predictions]:
    """What the model answers after each of these numbers of steps (its own, by default), for the first `limit` puzzles.

    `first_steps` is told the answers after every step up to the last of them.
    """
    _check(steps, limit)
    steps = sorted(set(steps)) or [model.config.steps]
    model = model.to(device).eval()
    puzzles = Puzzles.of_datasets([dataset], form_for(model, dataset), limit)
    answers: dict[int, list[np.ndarray]] = {n: [] for n in steps}
    done = 0
    for part in puzzles.portions(_NODES.get(torch.device(device).type, 1 << 15)):
        with torch.no_grad():
            batch = puzzles.batch(part, device)
            told = first_steps.watch(batch, [puzzles.csps[i] for i in part]) if first_steps else None
            for n, scores in enumerate(model.run(model.prepare(batch), steps[-1]), start=1):  # pyright: ignore[reportArgumentType]
                if told:
                    told(n, scores)
                if n in answers:
                    answers[n] += batch.split((scores.argmax(1) + 1).cpu().numpy())
        done += len(part)
        progress(done)
    indices = np.arange(len(puzzles))
    return [Predictions(name, dataset.sha256, n, indices, found) for n, found in answers.items()]


def form_for(model: Model, dataset: Dataset) -> str:
    """The lifted form of the puzzle whose edge types the model was built for; refuses puzzles it cannot take."""
    if not len(dataset):
        raise OutgrowError("no puzzles")
    found: list[Schema] = []
    for form in PUZZLES[dataset.puzzle].forms:
        found.append(Schema.of(dataset.instance(0, form=form).csp))
        if found[-1] == model.schema:
            break
    else:
        has = " or ".join(f"({schema})" for schema in found)
        raise OutgrowError(f"the model was built for ({model.schema}), and a {dataset.puzzle} has {has}")
    if model.max_values is not None and dataset.size > model.max_values:
        raise OutgrowError(
            f"puzzles with {dataset.size} values, but the model has embeddings for {model.max_values}; "
            f"train one with model.max_values = {dataset.size}, or use a binarized model"
        )
    return form


def open_weights(path: str | Path, datasets: Mapping[str, Dataset]) -> Loaded:
    """Weights of a model that can take every one of these sets."""
    loaded = load_weights(path)
    for name, dataset in datasets.items():
        try:
            form_for(loaded.model, dataset)
        except OutgrowError as error:
            raise OutgrowError(f"{path} on {name}: {error}") from None
    return loaded


def evaluate(
    weights: str | Path,
    datasets: Mapping[str, Dataset],
    *,
    steps: Sequence[int] = (),
    limit: int | None = None,
    device: torch.device | str = "cpu",
    nearest_seconds: float = 10.0,
    first_steps: bool = False,
    keep: Callable[[Sequence[Predictions]], None] = lambda predictions: None,
    progress: Progress = _no_progress,
) -> Evaluation:
    """A weights file on data sets by name.

    With `first_steps`, every step is judged up to the largest number of them, and the score after as many says when puzzles were first
    solved. `keep` is given the predictions. `progress` is told how often a puzzle was predicted or, after each number of steps, scored: in the end
    1 + the number of steps asked for times each.
    """
    _check(steps, limit)
    if not 0 <= nearest_seconds <= _MAX_SECONDS:
        raise OutgrowError(
            f"{nearest_seconds} seconds to look for a nearest solution; 0 to {_MAX_SECONDS:,} are possible"
        )
    loaded = open_weights(weights, datasets)
    began = time.monotonic()
    scores: list[Score] = []
    on_gpu = torch.device(device).type == "cuda"
    before = 0

    def told(done: int) -> None:
        progress(before + done)

    for name, dataset in datasets.items():
        with products("high" if on_gpu else "highest"), memory_errors("puzzles of this size need a device with more"):
            first = FirstSteps() if first_steps else None
            found = predict(
                loaded.model,
                dataset,
                name,
                steps=steps,
                limit=limit,
                device=device,
                first_steps=first,
                progress=told,
            )
        before += len(found[0].indices)
        keep(found)
        for predictions in found:
            scores.append(score(dataset, predictions, nearest_seconds=nearest_seconds, progress=told))
            before += len(predictions.indices)
        if first:
            scores[-1] = dataclasses.replace(scores[-1], first_steps=step_quantiles(first.steps))
    info = _finite(dict(loaded.info))
    recipe = info.pop("recipe", None)
    recipe = recipe if isinstance(recipe, dict) else {}
    seed = info.get("seed")
    return Evaluation(
        weights=_name(weights),
        model=loaded.model.kind,
        recipe=str(recipe.get("name") or _name(weights)),
        seed=seed if type(seed) is int else None,
        scores=scores,
        provenance={
            **provenance(str(device), seconds=round(time.monotonic() - began, 1)),
            "precision": "tf32" if on_gpu else "fp32",
            "trained": info,
            "recipe": recipe,
            **_curve(Path(weights).parent),
        },
        task=str(recipe.get("task") or ""),
    )


def _curve(run: Path) -> dict[str, Any]:
    """How training went, if the weights still lie beside its log."""
    try:
        return {"curve": _finite(read_log(run).as_json())} if (run / LOG_NAME).is_file() else {}
    except OutgrowError:  # no log of training, or damaged: the weights are judged without
        return {}


def _finite(content: dict[str, Any]) -> dict[str, Any]:
    """With null for NaN and infinity, which a results file does not have: the loss of a run that went wrong, say."""
    return json.loads(json.dumps(content), parse_constant=lambda number: None)


def _check(steps: Sequence[int], limit: int | None) -> None:
    if any(not 1 <= n <= _MAX_STEPS for n in steps):
        raise OutgrowError(f"steps {', '.join(map(str, steps))}: 1 to {_MAX_STEPS:,} are possible")
    if limit is not None and limit < 1:
        raise OutgrowError(f"a limit of {limit} puzzles; at least 1")


def _name(weights: str | Path) -> str:
    """Of the file, with its folder where that tells it apart: `outgrow train` calls every run's file the same."""
    path = Path(weights)
    return f"{path.parent.name}/{path.name}" if path.name == "weights.safetensors" and path.parent.name else path.name
