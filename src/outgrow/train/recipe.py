"""Recipes: everything needed to train a model again, read from TOML into frozen dataclasses."""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from outgrow.errors import OutgrowError
from outgrow.models import MODELS, BinarizedConfig, Config
from outgrow.models.config import fill, suggest

__all__ = ["DataRecipe", "Recipe", "TrainRecipe", "load_recipe"]

_MAX_BYTES = 1 << 20
_MAX_FREE = 10_000


@dataclass(frozen=True)
class DataRecipe:
    """What to learn from.

    Attributes:
        train: data sets, by name or file.
        valid: data sets that choose the weights; never a test set.
        form: the lifted form of the puzzle: 'nbr' as in the paper, or 'units'.
        limit: use the first so many puzzles of each training set; 0 for all.
        valid_limit: the same for validation.
        shares: how often the batch of an update comes from each training set, one number a set; by default as often as it has puzzles.
        more_givens: whenever a puzzle is learnt from, a random share of its open variables is given as well: the least and the largest
            share. A puzzle with one solution keeps it, and a minimal one becomes many.
        untouched: share of the puzzles that stay as they are all the same.
        remask: whenever a puzzle is learnt from, another random share of its variables is masked: the least and the largest share, for
            puzzles of which any solution counts. [0, 0] for never.
    """

    train: tuple[str, ...] = ()
    valid: tuple[str, ...] = ()
    form: str = "units"
    limit: int = 0
    valid_limit: int = 0
    shares: tuple[float, ...] = ()
    more_givens: tuple[float, float] = (0.0, 0.0)
    untouched: float = 0.0
    remask: tuple[float, float] = (0.0, 0.0)

    def __post_init__(self) -> None:
        for name in ("limit", "valid_limit"):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it cannot be negative")
        if self.shares and (len(self.shares) != len(self.train) or min(self.shares) <= 0):
            raise ValueError(f"shares has {len(self.shares)} numbers; one above 0 for each of {len(self.train)} sets")
        for name in ("more_givens", "remask"):
            low, high = getattr(self, name)
            if not 0 <= low <= high <= 1:
                raise ValueError(f"{name} is {low:g} to {high:g}; shares from 0 to 1, the smaller one first")
        if not 0 <= self.untouched <= 1:
            raise ValueError(f"untouched is {self.untouched:g}; it is a share, from 0 to 1")
        if self.remask[1] and self.more_givens[1]:
            raise ValueError("remask draws all givens, more_givens adds to those there are; take one of them")


@dataclass(frozen=True)
class TrainRecipe:
    """How to learn it; the defaults are the paper's where it says.

    Attributes:
        seed: of the initial weights, the order of puzzles, dropout and draws of embeddings.
        start: weights to fine-tune; value embeddings beyond theirs start fresh.
        updates: gradient updates.
        batch: puzzles an update, over all processes.
        micro_batch: puzzles a forward pass, gradients being added up; 0 for all at once.
        lr: the learning rate after warm-up.
        warmup: updates over which it rises from 0.
        decay: how it falls afterwards: 'none', 'linear' or 'cosine'.
        final_lr: what it falls to, as a share of `lr`.
        optimizer: 'adamw', or 'adam', whose weight decay is part of the gradient: as Adam rescales gradients, it then grows strong
            once the loss has grown small.
        weight_decay: the optimizer's.
        clip: largest norm of the gradient; 0 for any.
        precision: 'bf16' autocast, 'fp32' (without TF32, on a GPU too), or 'auto': bf16 on a GPU, fp32 elsewhere.
        compile: on a GPU, compile the step of message passing, which takes a while before the first update.
        replay: on a GPU, record an update as a CUDA graph and replay it, where updates are alike: each set with puzzles of one size, one
            process, no multiplicity, no micro-batches.
        steps: steps of message passing with gradients in an update; 0 for the model's own number, which solving takes.
        free_steps: steps without gradients before them, drawn anew for each update: the fewest and the most. The model then learns
            from states that it gets itself into, and long runs stay on course.
        carry: puzzles stay for up to so many updates, each going on from the states that the last one reached, until they are solved; then
            others take their places. So hard puzzles are learnt from for longer. 0 for puzzles that stay for one update.
        inherit: the share of new puzzles that start from the states of the one whose place they take (with `carry`): from
            a solution, mostly, that is not theirs. So the model learns to take back what it was sure of.
        noise: standard deviation of normal noise on the states before the first step.
        quiet: the share of puzzles that start without it, as they do in solving.
        step_noise: standard deviation of the same on hidden states after every step.
        multiplicity: take the loss against the model's own output where that is a valid solution.
        ema: decay of the exponential moving average of the weights; 0 for none.
        choose: which weights to keep: the best of all on the validation sets ('valid'), or the 'average', 'ema' or 'last' ones.
        average: average the weights at each validation once the curve is flat.
        flat_window: the curve is flat when over so many validations ...
        flat_gain: ... the best board accuracy rose by less than this.
        validate_every: updates between validations.
        log_every: updates between lines of the log.
        patience: stop after so many validations without a better one; 0 for never.
        max_seconds: stop after this time, and choose weights as at the end; 0 for never.
        recoveries: how often to return to the last good state after a diverged update before giving up.
    """

    seed: int = 0
    start: str = ""
    updates: int = 10_000
    batch: int = 64
    micro_batch: int = 0
    lr: float = 2e-4
    warmup: int = 0
    decay: Literal["none", "linear", "cosine"] = "none"
    final_lr: float = 0.0
    optimizer: Literal["adamw", "adam"] = "adamw"
    weight_decay: float = 1e-4
    clip: float = 5.0
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    compile: bool = False
    replay: bool = False
    steps: int = 0
    free_steps: tuple[int, int] = (0, 0)
    carry: int = 0
    inherit: float = 0.0
    noise: float = 0.0
    quiet: float = 0.0
    step_noise: float = 0.0
    multiplicity: bool = False
    ema: float = 0.999
    choose: Literal["valid", "average", "ema", "last"] = "valid"
    average: bool = True
    flat_window: int = 4
    flat_gain: float = 0.005
    validate_every: int = 500
    log_every: int = 10
    patience: int = 0
    max_seconds: float = 0.0
    recoveries: int = 3

    def __post_init__(self) -> None:
        for name in ("updates", "batch", "validate_every", "log_every", "flat_window"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name} is {getattr(self, name)}; it must be at least 1")
        for name in (
            "seed",
            "micro_batch",
            "warmup",
            "final_lr",
            "weight_decay",
            "clip",
            "patience",
            "max_seconds",
            "recoveries",
            "steps",
            "carry",
            "noise",
            "step_noise",
        ):
            if getattr(self, name) < 0:
                raise ValueError(f"{name} is {getattr(self, name)}; it cannot be negative")
        if not 0 <= self.free_steps[0] <= self.free_steps[1] <= _MAX_FREE:
            few, many = self.free_steps
            raise ValueError(f"free_steps is {few} to {many}; 0 to {_MAX_FREE:,}, the smaller one first")
        if self.carry and (self.free_steps[1] or self.micro_batch):
            raise ValueError("carry goes on from earlier updates: without free_steps, and without micro_batch")
        if not 0 <= self.inherit <= 1 or (self.inherit and not self.carry):
            raise ValueError(
                f"inherit is {self.inherit:g}; it is a share of the puzzles that carry lets in, from 0 to 1"
            )
        if not 0 <= self.quiet <= 1 or (self.quiet and not self.noise):
            raise ValueError(
                f"quiet is {self.quiet:g}; it is a share of the puzzles that would start with noise, from 0 to 1"
            )
        if not self.lr > 0:
            raise ValueError(f"lr is {self.lr}; it must be above 0")
        if not 0 <= self.ema < 1:
            raise ValueError(f"ema is {self.ema}; it is a decay from 0 to below 1")


@dataclass(frozen=True)
class Recipe:
    """A trained model's recipe.

    Attributes:
        name: of the run, and of the model in tables.
        about: one line on what it is.
        task: the row of results it belongs to: 'sudoku', 'futoshiki', 'coloring', 'sudoku-24'.
        model: configuration of one of `outgrow.models.MODELS`; its `kind` is named in the file.
    """

    name: str
    about: str = ""
    task: str = ""
    model: Config = field(default_factory=BinarizedConfig)
    data: DataRecipe = field(default_factory=DataRecipe)
    train: TrainRecipe = field(default_factory=TrainRecipe)

    @property
    def kind(self) -> str:
        """The model's name."""
        return next(kind for kind, (_, config) in MODELS.items() if isinstance(self.model, config))

    def as_json(self) -> dict[str, Any]:
        """Plain values that `from_json` reads again."""
        plain = dataclasses.asdict(self)
        plain["model"] = {"kind": self.kind, **plain["model"]}
        for part in ("data", "train"):
            plain[part] = {k: list(v) if isinstance(v, tuple) else v for k, v in plain[part].items()}
        return plain

    @classmethod
    def from_json(cls, table: Mapping[str, Any], source: str = "recipe") -> Recipe:
        """Of plain values; unknown keys and wrong types are errors."""
        parts = dict(table)
        for name in ("model", "data", "train"):
            if not isinstance(parts.get(name, {}), Mapping):
                raise OutgrowError(f"{source}: {name} is a table, as in [{name}]")
        model = dict(parts.pop("model", {}))
        kind = model.pop("kind", "binarized")
        if not isinstance(kind, str) or kind not in MODELS:
            raise OutgrowError(f"{source}: model.kind is {kind!r}; there is {', '.join(MODELS)}")
        config: Any = fill(MODELS[kind][1], model, f"{source}: model.", also=("kind",))
        data = fill(DataRecipe, parts.pop("data", {}), f"{source}: data.")
        train = fill(TrainRecipe, parts.pop("train", {}), f"{source}: train.")
        if not data.train:
            raise OutgrowError(f"{source}: data.train names no data set")
        known = ("model", "data", "train")
        plain = fill(_Head, parts, f"{source}: ", also=known)
        if not plain.name or set(plain.name) & set("/\\\0"):
            raise OutgrowError(f"{source}: name is {plain.name!r}; it becomes the name of a folder")
        return cls(plain.name, plain.about, plain.task, config, data, train)

    def changed(self, **train: Any) -> Recipe:
        """With other values of [train]."""
        return dataclasses.replace(self, train=dataclasses.replace(self.train, **train))


@dataclass(frozen=True)
class _Head:
    name: str = "unnamed"
    about: str = ""
    task: str = ""


def load_recipe(path: str | Path, changes: Iterable[str] = ()) -> Recipe:
    """Reads a recipe; `changes` are 'train.lr=0.001', or 'lr=0.001' where only one table has such a key."""
    path = Path(path)
    try:
        with open(path, "rb") as stream:
            content = stream.read(_MAX_BYTES + 1)
        if len(content) > _MAX_BYTES:
            raise OutgrowError(f"{path}: too large for a recipe")
        table = tomllib.loads(content.decode())
    except (OSError, ValueError, RecursionError) as error:  # text, TOML, numbers of too many digits
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise OutgrowError(f"{path}: not a recipe ({reason})") from None
    for change in changes:
        _apply(table, change)
    return Recipe.from_json(table, str(path))


def _apply(table: dict[str, Any], change: str) -> None:
    key, equals, text = change.partition("=")
    key = key.strip()
    if not equals or not key:
        raise OutgrowError(f"--set {change}: write KEY=VALUE, as in train.lr=0.001")
    try:
        value = tomllib.loads(f"value = {text.strip()}")["value"]
    except (ValueError, RecursionError):
        value = text.strip()  # a bare word
    keys = _keys(table)
    ends = [k for k in keys if k == key or k.endswith(f".{key}")]
    if not ends:
        raise OutgrowError(f"--set {change}: no key {key!r} in a recipe{suggest(key, keys)}")
    if key not in ends and len(ends) > 1:
        raise OutgrowError(f"--set {change}: {' or '.join(ends)}?")
    *parents, last = (key if key in ends else ends[0]).split(".")
    for parent in parents:
        table = table.setdefault(parent, {})
        if not isinstance(table, dict):
            raise OutgrowError(f"--set {change}: {parent} is a table")
    table[last] = value


def _keys(table: Mapping[str, Any]) -> list[str]:
    """Every key a recipe with this kind of model may have."""
    model = table.get("model", {})
    kind = model.get("kind", "binarized") if isinstance(model, Mapping) else "binarized"
    config = MODELS.get(kind if isinstance(kind, str) else "", MODELS["binarized"])[1]
    parts = (("", _Head), ("model.", config), ("data.", DataRecipe), ("train.", TrainRecipe))
    return ["model.kind", *(f"{prefix}{f.name}" for prefix, cls in parts for f in dataclasses.fields(cls))]
