"""Entries of the catalog of weights, made from a weights file and the results file that has its figures.

For maintainers: `outgrow weights add`. Nothing an entry says of how good the weights are is typed by hand, and of several seeds none but
the median is taken.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any

from outgrow.data import Dataset, find_datasets
from outgrow.errors import OutgrowError
from outgrow.evaluate.metrics import Score
from outgrow.evaluate.report import Evaluation, read_results
from outgrow.weights.catalog import CATALOG, FOLDER, Entry, Measured, hash_file, read_catalog, ship, steps_for
from outgrow.weights.file import load_weights

__all__ = ["add_entry", "make_entry"]

_WORDS = {2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven"}
_MAX_FINE_TUNED = 10


def add_entry(
    weights: str | Path,
    results: str | Path,
    *,
    name: str,
    default: bool = False,
    steps: Sequence[tuple[int, int]] = (),
    chosen_on: str = "",
    notes: bool = False,
    replace: bool = False,
    folder: Path | None = None,
) -> Entry:
    """Makes an entry (`make_entry`), and puts it and a copy of the weights into the catalog."""
    place = FOLDER if folder is None else folder
    if not replace and (place / CATALOG).exists() and name in read_catalog(place):
        raise OutgrowError(f"{place / CATALOG}: has {name!r} already; --replace writes it anew")
    entry = make_entry(weights, results, name=name, default=default, steps=steps, chosen_on=chosen_on, notes=notes)
    ship(entry, weights, folder)
    return entry


def make_entry(
    weights: str | Path,
    results: str | Path,
    *,
    name: str,
    default: bool = False,
    steps: Sequence[tuple[int, int]] = (),
    chosen_on: str = "",
    notes: bool = False,
) -> Entry:
    """What the two files say.

    `steps` are pairs (largest size, steps); they may be left out where `results` has one number of steps for each size. Where `results` has
    other seeds of the recipe, the weights must be their median: on the recipe's own validation sets, or on the set `chosen_on`, which must
    be in `results` and never is a test set.
    """
    loaded = load_weights(weights)
    info = loaded.info
    recipe = info.get("recipe")
    if not isinstance(recipe, dict) or not isinstance(recipe.get("name"), str):
        raise OutgrowError(f"{weights}: does not say by which recipe it was trained")
    measured = read_results(results)
    own = [e for e in measured if e.model == loaded.model.kind and _is_of(e, info)]
    if len(own) != 1:
        raise OutgrowError(
            f"{results}: holds the figures of {weights} {len(own)} times; evaluate the seeds of its recipe into one file"
        )
    scores = own[0].scores
    puzzles = {s.puzzle for s in scores}
    if len(puzzles) != 1:
        raise OutgrowError(f"{results}: scores of {len(puzzles)} kinds of puzzles for {weights}; one is needed")
    if notes and loaded.model.kind == "multivalued":
        raise OutgrowError(f"{weights}: a multi-valued model takes no notes")
    sets = _training_sets(weights, info)
    entry = Entry(
        name=name,
        file=f"{name}.safetensors",
        sha256=hash_file(weights),
        puzzle=puzzles.pop(),
        model=loaded.model.kind,
        recipe=recipe["name"],
        seed=own[0].seed,
        parameters=sum(p.numel() for p in loaded.model.parameters()),
        trained_on=tuple(sets),
        max_trained_values=max(d.size for d in sets.values()),
        chosen_how="",
        default=default,
        steps=tuple(steps) or _steps(results, scores),
        restart=_restart(results, scores),
        notes=notes,
        scores=tuple(Measured(s.dataset, s.size, s.steps, s.count, s.board) for s in scores),
        results=_place(results),
    )
    for s in scores:
        if not any(m.dataset == s.dataset for m in entry.measured()):
            raise OutgrowError(
                f"{results}: {s.dataset} was not measured after {steps_for(entry, s.size)} steps, which is what solving takes"
            )
    chosen_how = _explain(results, own[0], measured, entry, chosen_on)
    return Entry(**{**vars(entry), "chosen_how": chosen_how})


def _is_of(evaluation: Evaluation, info: Mapping[str, Any]) -> bool:
    """Whether these are figures of those very weights: they repeat what the file says of its training, seconds and losses included."""
    said = {key: value for key, value in info.items() if key != "recipe"}
    recipe = evaluation.provenance.get("recipe")
    return _as_measured(said) == evaluation.provenance.get("trained") and _as_measured(info["recipe"]) == recipe


def _as_measured(content: Any) -> Any:
    """As a results file has it: numbers with 6 digits, null for NaN."""
    return json.loads(
        json.dumps(content), parse_float=lambda number: round(float(number), 6), parse_constant=lambda number: None
    )


def _training_sets(weights: str | Path, info: Mapping[str, Any], depth: int = 0) -> dict[str, Dataset]:
    """The sets it was trained on, and those of the weights it was fine-tuned from."""
    try:
        recipe = info["recipe"]
        names, start, known = list(recipe["data"]["train"]), str(recipe["train"].get("start", "")), info["data"]
        found = find_datasets(names)
        told = {name: known[name]["sha256"] for name in found}
    except (KeyError, TypeError, AttributeError):
        raise OutgrowError(f"{weights}: does not say what it was trained on") from None
    if not found:
        raise OutgrowError(f"{weights}: was trained on nothing")
    for name, dataset in found.items():
        if told[name] != dataset.sha256:
            raise OutgrowError(f"{weights}: was trained on another {name} than there is now")
    if not start:
        return found
    if depth >= _MAX_FINE_TUNED or not Path(start).is_file():
        raise OutgrowError(f"{weights}: fine-tuned from {start}, which is not here to say what it was trained on")
    return {**_training_sets(start, load_weights(start).info, depth + 1), **found}


def _restart(results: str | Path, scores: Iterable[Score]) -> int:
    """After how many steps puzzles started over, in whatever took longer."""
    listed = list(scores)
    found = max((s.restart for s in listed), default=0)
    if any(s.restart != (found if s.steps > found else 0) for s in listed):
        raise OutgrowError(
            f"{results}: some scores are with a restart and some without, or with another; measure all alike"
        )
    return found


def _steps(results: str | Path, scores: Iterable[Score]) -> tuple[tuple[int, int], ...]:
    """The number of steps at each size, where there is one; sizes in a row that share it are one pair."""
    by_size: dict[int, set[int]] = {}
    for s in scores:
        by_size.setdefault(s.size, set()).add(s.steps)
    for size, found in by_size.items():
        if len(found) > 1:
            raise OutgrowError(
                f"{results}: several numbers of steps at size {size}; say which solving takes, as in --steps {size}:{max(found)}"
            )
    pairs = [(size, *by_size[size]) for size in sorted(by_size)]
    return tuple((max(size for size, _ in same), steps) for steps, same in groupby(pairs, key=lambda pair: pair[1]))


def _explain(results: str | Path, own: Evaluation, measured: Sequence[Evaluation], entry: Entry, chosen_on: str) -> str:
    """In a sentence, what chose these weights; refuses a seed that is not the median."""
    if chosen_on.rsplit("-", 1)[-1] in ("test", "hard"):
        raise OutgrowError(f"{chosen_on}: a set to test on chooses nothing")
    seeds = [e for e in measured if e.recipe == own.recipe and e.model == own.model]
    if len({json.dumps(_but_for_seed(e), sort_keys=True) for e in seeds}) > 1:
        raise OutgrowError(f"{results}: {own.recipe} stands for different recipes; evaluate the seeds of one")
    trained = own.provenance["trained"]
    valid = " and ".join(map(str, trained.get("chosen_on") or ()))
    by_set = valid and own.provenance["recipe"]["train"].get("choose", "valid") == "valid"
    kept = f"{valid} chose its weights" if by_set else f"its weights are the {trained.get('chosen', 'last')} ones"
    if len(seeds) == 1:
        return f"The only seed that was measured; {kept}."
    if not chosen_on and not valid:
        raise OutgrowError(f"{results}: no set chose among the seeds of {own.recipe}; name one with --chosen-on")
    rank = _rank_on(chosen_on, entry) if chosen_on else _rank_validation
    ranks = sorted(((rank(e), e.seed) for e in seeds), key=lambda found: found[0])
    median, seed = ranks[(len(ranks) - 1) // 2]
    if rank(own) != median:
        raise OutgrowError(
            f"{results}: seed {own.seed} is not the median of {len(seeds)} on {chosen_on or valid}; seed {seed} is"
        )
    return (
        f"The median of {_WORDS.get(len(seeds), len(seeds))} seeds by board accuracy on {chosen_on or valid}; {kept}."
    )


def _but_for_seed(evaluation: Evaluation) -> dict[str, Any]:
    try:
        recipe = evaluation.provenance["recipe"]
        return {**recipe, "train": {**recipe["train"], "seed": None}}
    except (KeyError, TypeError):
        raise OutgrowError(f"{evaluation.weights}: does not say by which recipe it was trained") from None


def _rank_validation(evaluation: Evaluation) -> tuple[float, ...]:
    """By board accuracy; where that is the same, by pointwise accuracy, then by loss."""
    try:
        found = evaluation.provenance["trained"]["validation"]
        return (float(found["board"]), float(found["pointwise"]), -float(found["loss"]))
    except (KeyError, TypeError, ValueError):
        raise OutgrowError(
            f"seed {evaluation.seed} of {evaluation.recipe} was never validated; name a set that chooses with --chosen-on"
        ) from None


def _rank_on(dataset: str, entry: Entry) -> Callable[[Evaluation], tuple[float, ...]]:
    def rank(evaluation: Evaluation) -> tuple[float, ...]:
        for s in evaluation.scores:
            if s.dataset == dataset and s.steps == steps_for(entry, s.size):
                return (s.board, s.pointwise)
        raise OutgrowError(
            f"seed {evaluation.seed} of {evaluation.recipe} has no score on {dataset} after as many steps"
        )

    return rank


def _place(results: str | Path) -> str:
    """From the current folder on, where it lies in there."""
    path = Path(results).resolve()
    here = Path.cwd()
    return path.relative_to(here).as_posix() if path.is_relative_to(here) else path.name
