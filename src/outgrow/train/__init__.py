"""Recipes, the loop, averaging, checkpoints, and the curves of a run.

`train` and what else needs torch is imported when it is first asked for: reading a log does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outgrow.train.loop import Trained, Validation, train, validate
    from outgrow.train.recipe import DataRecipe, Recipe, TrainRecipe, load_recipe

__all__ = ["DataRecipe", "Recipe", "TrainRecipe", "Trained", "Validation", "load_recipe", "train", "validate"]

_LATER = {
    "DataRecipe": "outgrow.train.recipe",
    "Recipe": "outgrow.train.recipe",
    "TrainRecipe": "outgrow.train.recipe",
    "Trained": "outgrow.train.loop",
    "Validation": "outgrow.train.loop",
    "load_recipe": "outgrow.train.recipe",
    "train": "outgrow.train.loop",
    "validate": "outgrow.train.loop",
}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'outgrow.train' has no attribute {name!r}")
