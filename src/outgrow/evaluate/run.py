"""A model's answers to the puzzles of data sets, and how good they are."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch

from outgrow.data import Dataset
from outgrow.errors import OutgrowError
from outgrow.evaluate.metrics import Score, score
from outgrow.evaluate.predictions import Predictions
from outgrow.evaluate.report import Evaluation
from outgrow.graphs import Puzzles, Schema
from outgrow.models import Model
from outgrow.provenance import provenance
from outgrow.puzzles import PUZZLES
from outgrow.train.curves import LOG_NAME, read_log
from outgrow.weights import Loaded, load_weights

__all__ = ["evaluate", "form_for", "predict"]

# (variable, value) nodes in a batch: a 25x25 Sudoku has 15,625.
_NODES = {"cpu": 1 << 15, "cuda": 1 << 17}
Progress = Callable[[int], None]


def predict(
    model: Model,
    dataset: Dataset,
    name: str,
    *,
    steps: Sequence[int] = (),
    limit: int | None = None,
    device: torch.device | str = "cpu",
    progress: Progress = lambda done: None,
) -> list[Predictions]:
    """What the model answers after each of these numbers of steps (its own, by default), for the first `limit` puzzles."""
    steps = sorted(set(steps)) or [model.config.steps]
    model = model.to(device).eval()
    puzzles = Puzzles.of_datasets([dataset], form_for(model.schema, dataset), limit)
    answers: dict[int, list[np.ndarray]] = {n: [] for n in steps}
    done = 0
    for part in puzzles.portions(_NODES.get(torch.device(device).type, 1 << 15)):
        with torch.no_grad():
            batch = puzzles.batch(part, device)
            for n, scores in enumerate(model.run(model.prepare(batch), steps[-1]), start=1):  # pyright: ignore[reportArgumentType]
                if n in answers:
                    answers[n] += batch.split((scores.argmax(1) + 1).cpu().numpy())
        done += len(part)
        progress(done)
    indices = np.arange(len(puzzles))
    return [Predictions(name, dataset.sha256, n, indices, found) for n, found in answers.items()]


def form_for(schema: Schema, dataset: Dataset) -> str:
    """The lifted form of the puzzle whose edge types the model was built for."""
    for form in PUZZLES[dataset.puzzle].forms:
        if Schema.of(dataset.instance(0, form=form).csp) == schema:
            return form
    raise OutgrowError(f"a model with {schema} cannot see a {dataset.puzzle}")


def evaluate(
    weights: str | Path,
    datasets: Mapping[str, Dataset],
    *,
    steps: Sequence[int] = (),
    limit: int | None = None,
    device: torch.device | str = "cpu",
    nearest_seconds: float = 10.0,
    keep: Callable[[Sequence[Predictions]], None] = lambda predictions: None,
    progress: Callable[[str, int, int], None] = lambda name, done, total: None,
) -> Evaluation:
    """A weights file on data sets by name; `keep` is given the predictions, `progress` the set, puzzles done and their number."""
    loaded: Loaded = load_weights(weights)
    recipe = loaded.info.get("recipe", {})
    began = time.monotonic()
    scores: list[Score] = []
    for name, dataset in datasets.items():
        total = min(len(dataset), limit or len(dataset))

        def told(done: int, name: str = name, total: int = total) -> None:
            progress(name, done, total)

        found = predict(loaded.model, dataset, name, steps=steps, limit=limit, device=device, progress=told)
        keep(found)
        scores += [score(dataset, p, nearest_seconds=nearest_seconds) for p in found]
    return Evaluation(
        weights=Path(weights).name,
        model=loaded.model.kind,
        recipe=str(recipe.get("name", "")),
        seed=loaded.info.get("seed"),
        scores=scores,
        provenance={
            **provenance(str(device), seconds=round(time.monotonic() - began, 1)),
            "trained": {key: value for key, value in loaded.info.items() if key != "recipe"},
            "recipe": recipe,
            **_curve(Path(weights).parent),
        },
        task=str(recipe.get("task", "")),
    )


def _curve(run: Path) -> dict[str, Any]:
    """How training went, if the weights still lie beside its log."""
    if not (run / LOG_NAME).is_file():
        return {}
    return {"curve": read_log(run).as_json()}
