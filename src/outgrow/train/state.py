"""Everything a run needs to go on: weights, optimizer, averages, history. One file, written whole, without pickle."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outgrow.errors import DamagedFile
from outgrow.models import Model
from outgrow.train.recipe import TrainRecipe
from outgrow.weights.file import check_fit, read_tensors, write_tensors

__all__ = ["Progress", "State", "learning_rate"]

Tensors = dict[str, Tensor]


@dataclass
class Progress:
    """The numbers of a run.

    Attributes:
        update: updates done.
        recoveries: how often it returned to an earlier state; each halves the learning rate and draws other batches.
        averaged: how many weights the average holds.
        flat_at: the update at which the curve was found flat, -1 before.
        first_loss: of the first update.
        boards: board accuracy at each validation.
        best_board, best_loss: of the best validation.
        stale: validations since.
        seconds: of work, over all restarts.
    """

    update: int = 0
    recoveries: int = 0
    averaged: int = 0
    flat_at: int = -1
    first_loss: float = 0.0
    boards: list[float] = field(default_factory=list)
    best_board: float = -1.0
    best_loss: float = math.inf
    stale: int = 0
    seconds: float = 0.0


class State:
    """The weights being trained, their optimizer and their averages."""

    def __init__(self, model: Model, recipe: TrainRecipe) -> None:
        self.recipe = recipe
        self.weights: Tensors = dict(model.named_parameters())
        fused = all(p.is_cuda for p in self.weights.values())
        kind = torch.optim.AdamW if recipe.optimizer == "adamw" else torch.optim.Adam
        self.optimizer = kind(
            list(self.weights.values()), lr=recipe.lr, weight_decay=recipe.weight_decay, fused=fused or None
        )
        self.ema = self._copy() if recipe.ema else {}
        self.average: Tensors = {}
        self.best: Tensors = {}
        self.carried: Tensors = {}  # what puzzles that stay for several updates have come to; the trainer's to fill in
        self.progress = Progress()

    def _copy(self) -> Tensors:
        return {name: weight.detach().clone() for name, weight in self.weights.items()}

    def step(self) -> None:
        """One update with the gradients at hand."""
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate(self.recipe, self.progress.update) * 0.5**self.progress.recoveries
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        self.progress.update += 1
        if self.ema:
            # Young averages follow faster, or they would remember the initial weights.
            decay = min(self.recipe.ema, self.progress.update / (self.progress.update + 10))
            self._blend(self.ema, 1 - decay)

    def add_to_average(self) -> None:
        """One more checkpoint in the average (Izmailov et al. 2018)."""
        self.progress.averaged += 1
        if not self.average:
            self.average = self._copy()
            return
        self._blend(self.average, 1 / self.progress.averaged)

    def _blend(self, kept: Tensors, share: float) -> None:
        """Moves an average towards the weights at hand."""
        with torch.no_grad():
            torch._foreach_lerp_(  # pyright: ignore[reportPrivateImportUsage]
                [kept[name] for name in self.weights], [w.detach() for w in self.weights.values()], share
            )

    def is_finite(self) -> bool:
        """Whether the weights and their moving average are numbers."""
        return all(bool(torch.isfinite(w).all()) for part in (self.weights, self.ema) for w in part.values())

    def keep_best(self) -> None:
        """Remembers the weights that were validated."""
        self.best = {name: weight.clone() for name, weight in (self.ema or self._copy()).items()}

    def snapshot(self) -> tuple[Tensors, dict[str, Any]]:
        """A copy of everything, as tensors and numbers."""
        tensors = {f"weights/{name}": weight.detach().clone() for name, weight in self.weights.items()}
        for part in ("ema", "average", "best"):
            tensors |= {f"{part}/{name}": weight.clone() for name, weight in getattr(self, part).items()}
        tensors |= {f"carried/{name}": tensor.clone() for name, tensor in self.carried.items()}
        for name, weight in self.weights.items():
            for key, value in self.optimizer.state.get(weight, {}).items():
                tensors[f"optimizer/{key}/{name}"] = value.clone()
        return tensors, asdict(self.progress)

    def restore(self, tensors: Mapping[str, Tensor], numbers: Mapping[str, Any]) -> None:
        """Back to a snapshot; it is not changed afterwards."""
        parts: dict[str, Tensors] = {"weights": {}, "ema": {}, "average": {}, "best": {}, "carried": {}}
        moments: dict[str, Tensors] = {}
        for key, value in tensors.items():
            part, _, name = key.partition("/")
            if part == "optimizer":
                kind, _, name = name.partition("/")
                moments.setdefault(name, {})[kind] = value
            else:
                parts[part][name] = value
        check_fit(parts["weights"], self.weights)
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(parts["weights"][name])
        for part in ("ema", "average", "best"):
            if parts[part]:
                check_fit(parts[part], self.weights)
            moved = {
                name: parts[part][name].to(w.device).clone() for name, w in self.weights.items() if name in parts[part]
            }
            setattr(self, part, moved)
        self.carried = parts["carried"]
        self.optimizer.state.clear()
        for name, weight in self.weights.items():
            if name in moments:
                # The optimizer keeps its count of steps on the host unless it is fused.
                self.optimizer.state[weight] = {
                    kind: value.clone() if value.ndim == 0 and not weight.is_cuda else value.to(weight.device).clone()
                    for kind, value in moments[name].items()
                }
        self.optimizer.zero_grad(set_to_none=True)
        self.progress = Progress(**{**numbers, "boards": list(numbers["boards"])})

    def save(self, path: Path, recipe: Mapping[str, Any], data: Mapping[str, Any] | None = None) -> None:
        """Writes the checkpoint, with what it was trained by and on."""
        tensors, numbers = self.snapshot()
        about = {"checkpoint": 1, "recipe": dict(recipe), "progress": numbers}
        write_tensors(path, tensors, about if data is None else {**about, "data": dict(data)})

    def load(self, path: Path) -> dict[str, Any]:
        """Reads the checkpoint; what it says of itself."""
        tensors, about = read_tensors(path)
        try:
            self.restore(tensors, about["progress"])
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise DamagedFile(f"{path}: not a checkpoint of this recipe ({error})") from None
        return about


def learning_rate(recipe: TrainRecipe, update: int) -> float:
    """Of update number `update`, counted from 0: warm-up, then decay that reaches `final_lr` after the last one."""
    if update < recipe.warmup:
        return recipe.lr * (update + 1) / recipe.warmup
    if recipe.decay == "none":
        return recipe.lr
    done = min(1.0, (update - recipe.warmup) / max(1, recipe.updates - recipe.warmup))
    left = 1 - done if recipe.decay == "linear" else (1 + math.cos(math.pi * done)) / 2
    return recipe.lr * (recipe.final_lr + (1 - recipe.final_lr) * left)
