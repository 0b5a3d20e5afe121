"""Data sets under the names they have in tables and files of predictions."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from outgrow.data import Dataset, find_dataset
from outgrow.errors import OutgrowError

__all__ = ["load_sets"]


def load_sets(names: Sequence[str]) -> dict[str, Dataset]:
    """Data sets given by name or by file (*.npz), each once; a file goes by its name without the ending."""
    short = [Path(name).stem if name.endswith(".npz") else name for name in names]
    for name in short:
        if short.count(name) > 1:
            raise OutgrowError(f"{name} is named twice")
        if len(name) > 200 or not name.isprintable():
            raise OutgrowError(f"{name[:40]!r}: the name of a data set has up to 200 printable characters")
    return {s: find_dataset(name) for s, name in zip(short, names, strict=True)}
