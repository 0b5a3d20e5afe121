"""Sample, mask, certify; dataset files."""

from outgrow.data.file import Dataset, Record, load_dataset

__all__ = ["Dataset", "Record", "load_dataset"]
