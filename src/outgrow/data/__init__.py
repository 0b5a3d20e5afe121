"""Solved puzzles: files of them (here), how they are made (`generate`, `sets`) and checked (`verify`)."""

from outgrow.data.file import Dataset, Record, find_dataset, find_datasets, load_dataset

__all__ = ["Dataset", "Record", "find_dataset", "find_datasets", "load_dataset"]
