"""A model's answers to the puzzles of data sets, and how good they are."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

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
from outgrow.solve.attempts import attempt, check_restart, guess
from outgrow.train.curves import LOG_NAME, read_log
from outgrow.train.processes import products
from outgrow.weights import Loaded, load_weights

__all__ = ["FirstSteps", "evaluate", "form_for", "open_weights", "predict"]

# (variable, value) nodes in a batch: a 25x25 Sudoku has 15,625, and is one alone on a CPU, where larger tensors are further away.
_NODES = {"cpu": 1 << 13, "cuda": 1 << 17}
_MAX_STEPS = 100_000
_MAX_SECONDS = 86_400
_SURE = math.log(0.5)  # an answer is kept if it is more likely than not right about each single variable
Progress = Callable[[int], None]


def _no_progress(done: int) -> None:
    """For callers that do not watch."""


class FirstSteps:
    """The first step after which the answer to each puzzle was right. Who has been right once is not judged again."""

    def __init__(self) -> None:
        self._first: dict[int, int] = {}

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """(N,) one for each puzzle so far, 0 for those that were never right."""
        return np.array([self._first[i] for i in sorted(self._first)], dtype=np.int64)

    def watch(
        self, puzzles: Sequence[int], batch: Batch, csps: Sequence[GroundCSP]
    ) -> Callable[[int, torch.Tensor], None]:
        """What is to be told of the scores (V, K) after each step of these puzzles."""
        for i in puzzles:
            self._first.setdefault(i, 0)
        givens = batch.split(batch.givens.cpu().numpy())

        def told(step: int, scores: torch.Tensor) -> None:
            left = [k for k, i in enumerate(puzzles) if not self._first[i]]
            if left:
                answers = batch.split((scores.argmax(1) + 1).cpu().numpy())
                right = judge_each([csps[k] for k in left], [answers[k] for k in left], [givens[k] for k in left])
                for k in itertools.compress(left, right):
                    self._first[puzzles[k]] = step

        return told


def predict(
    model: Model,
    dataset: Dataset,
    name: str,
    *,
    steps: Sequence[int] = (),
    restart: int = 0,
    limit: int | None = None,
    device: torch.device | str = "cpu",
    first_steps: FirstSteps | None = None,
    progress: Progress = _no_progress,
) -> list[Predictions]:
    """What the model answers after each of these numbers of steps (its own, by default), for the first `limit` puzzles.

    With `restart`, a puzzle starts over in another way, and with a guess for given, whenever so many steps did not make the model sure of every
    variable, and of all these attempts the answer that it gives the highest probability counts: by its own scores, nobody asks the verdict.
    `first_steps` is told the answers after every step up to the last of them.
    """
    _check(steps, limit)
    check_restart(restart)
    steps = sorted(set(steps)) or [model.config.steps]
    model = model.to(device).eval()
    puzzles = Puzzles.of_datasets([dataset], form_for(model, dataset), limit)
    nodes = _NODES.get(torch.device(device).type, 1 << 15)
    answers: dict[int, dict[int, np.ndarray]] = {n: {} for n in steps}
    surest = _Surest(len(puzzles))
    left = list(range(len(puzzles)))
    guesses: dict[int, np.ndarray] = {}
    length = restart or steps[-1]
    for number, begin in enumerate(range(0, steps[-1], length)):
        end = min(begin + length, steps[-1])
        unsure: list[int] = []
        done = len(puzzles) - len(left)
        for part in puzzles.portions(nodes, left):
            with torch.no_grad():
                batch = puzzles.batch(part, device)
                told = first_steps.watch(part, batch, [puzzles.csps[i] for i in part]) if first_steps else None
                givens = torch.from_numpy(np.concatenate([guesses[i] for i in part])) if number else batch.givens
                tried = dataclasses.replace(batch, givens=givens.to(device))
                for n, (_, _, scores) in enumerate(attempt(model, tried, number, end - begin), begin + 1):
                    if told:
                        told(n, scores)
                    if n in answers or (restart and n == end):
                        found = batch.split((scores.argmax(1) + 1).cpu().numpy())
                        sure = surest.compare(part, found, batch, model, scores) if restart else None
                        if n in answers:
                            answers[n] |= dict(zip(part, found if sure is None else sure.best, strict=True))
                        if n == end and sure is not None:
                            unsure += itertools.compress(part, ~surest.keep(part, sure))
                            if end < steps[-1]:
                                guessed = guess(model, batch, scores, number + 1).givens.cpu().numpy()
                                guesses |= dict(zip(part, batch.split(guessed), strict=True))
            done += len(part)
            progress(done - (len(unsure) if end < steps[-1] else 0))
        left = unsure
        if not left:
            break
    indices = np.arange(len(puzzles))
    predictions: list[Predictions] = []
    for n, said in answers.items():
        all_said = [said.get(i, surest.answers[i]) for i in range(len(puzzles))]  # who was sure was not asked again
        predictions.append(Predictions(name, dataset.sha256, n, indices, all_said, restart if n > restart else 0))
    return predictions


class _Sure(NamedTuple):
    """Of some puzzles, what counts so far, how likely it is right (a logarithm), and whether the latest answer is sure."""

    best: list[np.ndarray]
    likely: npt.NDArray[np.float64]
    sure: npt.NDArray[np.bool_]


class _Surest:
    """Of every puzzle, the answer of all its attempts that the model gives the highest probability."""

    def __init__(self, count: int) -> None:
        self.answers: list[np.ndarray] = [np.zeros(0, np.int64)] * count
        self._likely = np.full(count, -np.inf)

    def compare(
        self, puzzles: list[int], found: list[np.ndarray], batch: Batch, model: Model, scores: torch.Tensor
    ) -> _Sure:
        """The better one for each of these puzzles: what was found now, by these scores, or what is kept of attempts before."""
        by_puzzle = batch.split(model.certainty(scores).cpu().double().numpy())
        now = np.array([c.sum() for c in by_puzzle])
        better = ~(now <= self._likely[puzzles])  # NaN too: any answer is better than none
        best = [new if b else self.answers[i] for i, new, b in zip(puzzles, found, better, strict=True)]
        sure = np.array([bool((c > _SURE).all()) for c in by_puzzle])
        return _Sure(best, np.maximum(now, self._likely[puzzles]), sure)

    def keep(self, puzzles: list[int], sure: _Sure) -> npt.NDArray[np.bool_]:
        """At the end of an attempt. Says for which puzzles it was the last one needed."""
        for i, answer in zip(puzzles, sure.best, strict=True):
            self.answers[i] = answer
        self._likely[puzzles] = sure.likely
        return sure.sure


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
    restart: int = 0,
    limit: int | None = None,
    device: torch.device | str = "cpu",
    nearest_seconds: float = 10.0,
    first_steps: bool = False,
    keep: Callable[[Sequence[Predictions]], None] = lambda predictions: None,
    progress: Progress = _no_progress,
) -> Evaluation:
    """A weights file on data sets by name; `steps` and `restart` as in `predict`.

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
    check_restart(restart, max(steps, default=loaded.model.config.steps))
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
                restart=restart,
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
            **({"guesses": True} if restart else {}),  # results from before there were any do not say so
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
