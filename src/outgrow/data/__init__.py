"""Sample, mask, certify; dataset files. `generate`, `sets` and `verify` need python-sat."""

from outgrow.data.file import Dataset, Record, load_dataset

__all__ = ["Dataset", "Record", "load_dataset"]
