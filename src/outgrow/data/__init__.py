"""Solved puzzles: files of them (here), examples of one's own, how they are made (`generate`, `sets`) and checked (`verify`)."""

from outgrow.data.examples import Examples
from outgrow.data.file import Dataset, Record, find_dataset, find_datasets, load_dataset

__all__ = ["Dataset", "Examples", "Record", "find_dataset", "find_datasets", "load_dataset"]
