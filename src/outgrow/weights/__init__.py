"""Weights files, and the catalog of those that come with outgrow.

What needs torch is imported when it is first asked for: reading the catalog does not.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from outgrow.weights.catalog import Entry, Measured, default_weights, open_entry, read_catalog, steps_for

if TYPE_CHECKING:
    from outgrow.weights.file import Loaded, load_weights, save_weights

__all__ = [
    "Entry",
    "Loaded",
    "Measured",
    "default_weights",
    "load_weights",
    "open_entry",
    "read_catalog",
    "save_weights",
    "steps_for",
]

_LATER = dict.fromkeys(("Loaded", "load_weights", "save_weights"), "outgrow.weights.file")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'outgrow.weights' has no attribute {name!r}")
