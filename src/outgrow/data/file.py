"""Dataset files: a compressed NumPy archive with a JSON header, no pickle, checked against its sha256 when read.

Any NumPy can open one (`np.load`). Arrays, for N puzzles:
    header         JSON as bytes
    num_variables  (N,)
    solutions      values 1..K of all variables, puzzle after puzzle
    given          one bit for each of them: is it given?
    num_pairs      (N,), and pair_gaps: the facts that differ between puzzles (signs, edges) as sorted numbers
                   x * V + y, each stored as the distance to the one before
    flag_*         (N,), what was established about each puzzle: `unique`, `minimal`, `singles`, `level`
"""

from __future__ import annotations

import hashlib
import json
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.puzzles import PUZZLES, get_puzzle
from outgrow.puzzles.instance import Instance, Values
from outgrow.writing import write_whole

__all__ = ["FORMAT", "MANIFEST", "Dataset", "Record", "find_dataset", "find_datasets", "find_folder", "load_dataset"]

FORMAT = 1
MANIFEST = "manifest.json"
_MAX_BYTES = 1 << 30
_MAX_HEADER = 1 << 20
_HEADER_KEYS = ("format", "puzzle", "size", "shape", "settings", "count", "sha256")


@dataclass(frozen=True, eq=False)
class Record:
    """One solved puzzle: solution (V,), which variables are given (V,), the facts of its own (P, 2), flags."""

    solution: npt.NDArray[np.integer]
    given: npt.NDArray[np.bool_]
    pairs: npt.NDArray[np.integer] = field(default_factory=lambda: np.zeros((0, 2), dtype=np.int32))
    flags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, eq=False)
class Dataset:
    """Solved puzzles of one kind and size.

    >>> from outgrow.data import Dataset, Record
    >>> import numpy as np
    >>> board = np.array([1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1])
    >>> data = Dataset.of([Record(board, board < 3)], puzzle="sudoku", size=4, shape=(2, 2))
    >>> len(data), data[0].givens.tolist()[:4]
    (1, [1, 2, 0, 0])
    """

    puzzle: str
    size: int
    shape: tuple[int, ...]
    settings: Mapping[str, Any]
    num_variables: npt.NDArray[np.int32]
    solutions: npt.NDArray[np.uint8]
    given: npt.NDArray[np.bool_]
    num_pairs: npt.NDArray[np.int32]
    pairs: npt.NDArray[np.int32]
    flags: Mapping[str, npt.NDArray[np.uint8]]

    @classmethod
    def of(
        cls,
        records: Sequence[Record],
        *,
        puzzle: str,
        size: int,
        shape: tuple[int, ...],
        settings: Mapping[str, Any] | None = None,
    ) -> Dataset:
        """A dataset of these records; all carry the same flags."""
        names = sorted(records[0].flags) if records else []
        sorted_pairs = [_sort_pairs(r.pairs, len(r.solution)) for r in records]
        empty = np.zeros(0, dtype=np.uint8)
        return cls(
            puzzle=puzzle,
            size=size,
            shape=tuple(shape),
            settings=dict(settings or {}),
            num_variables=np.array([len(r.solution) for r in records], dtype=np.int32),
            solutions=np.concatenate([empty, *(r.solution.astype(np.uint8) for r in records)]),
            given=np.concatenate([empty.astype(np.bool_), *(r.given for r in records)]),
            num_pairs=np.array([len(p) for p in sorted_pairs], dtype=np.int32),
            pairs=np.concatenate([np.zeros((0, 2), dtype=np.int32), *sorted_pairs]),
            flags={f: np.array([r.flags[f] for r in records], dtype=np.uint8) for f in names},
        )

    def __len__(self) -> int:
        return len(self.num_variables)

    def __getitem__(self, index: int) -> Instance:
        return self.instance(index)

    def __iter__(self) -> Iterator[Instance]:
        return (self.instance(i) for i in range(len(self)))

    @cached_property
    def _variable_at(self) -> npt.NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.num_variables, dtype=np.int64)])

    @cached_property
    def _pair_at(self) -> npt.NDArray[np.int64]:
        return np.concatenate([[0], np.cumsum(self.num_pairs, dtype=np.int64)])

    @property
    def num_given(self) -> npt.NDArray[np.int64]:
        """How many variables of each puzzle are given: (N,)."""
        total = np.concatenate([[0], np.cumsum(self.given, dtype=np.int64)])
        return total[self._variable_at[1:]] - total[self._variable_at[:-1]]

    def record(self, index: int) -> Record:
        """What is stored about one puzzle."""
        if not 0 <= index < len(self):
            raise IndexError(f"puzzle {index} of {len(self)}")
        variables = slice(self._variable_at[index], self._variable_at[index + 1])
        pairs = slice(self._pair_at[index], self._pair_at[index + 1])
        return Record(
            self.solutions[variables],
            self.given[variables],
            self.pairs[pairs],
            {name: int(values[index]) for name, values in self.flags.items()},
        )

    def solution(self, index: int) -> Values:
        """The stored solution (V,)."""
        return self.record(index).solution.astype(np.int16)

    def instance(self, index: int, form: str = "units") -> Instance:
        """The puzzle, in one of its lifted forms."""
        record = self.record(index)
        try:
            return get_puzzle(self.puzzle).restore(
                size=self.size,
                shape=self.shape,
                pairs=record.pairs,
                givens=np.where(record.given, record.solution, 0).astype(np.int16),
                form=form,
            )
        except ValueError as error:
            raise DamagedFile(f"puzzle {index} of the data set is no {self.puzzle} ({_one_line(error)})") from None

    def save(self, path: str | Path) -> str:
        """Writes the file whole or not at all; returns the sha256 of what it holds."""
        arrays = self._arrays()
        digest = _digest(self._identity(), arrays)
        header = {**self._identity(), "settings": dict(self.settings), "sha256": digest}
        arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
        content = BytesIO()
        np.savez_compressed(content, allow_pickle=False, **arrays)
        write_whole(path, content.getvalue())
        return digest

    @property
    def sha256(self) -> str:
        """Of the content, so that it does not depend on the compressor."""
        return _digest(self._identity(), self._arrays())

    def _identity(self) -> dict[str, Any]:
        return {
            "format": FORMAT,
            "puzzle": self.puzzle,
            "size": self.size,
            "shape": list(self.shape),
            "count": len(self),
        }

    def _arrays(self) -> dict[str, npt.NDArray[Any]]:
        owner = np.repeat(self.num_variables.astype(np.int64), self.num_pairs)
        keys = self.pairs[:, 0] * owner + self.pairs[:, 1]
        before = np.concatenate([[0], keys[:-1]]) if len(keys) else keys
        first = self._pair_at[:-1][self.num_pairs > 0]
        gaps = keys - before
        gaps[first] = keys[first]
        wide = np.uint32 if gaps.size and gaps.max() > 0xFFFF else np.uint16
        return {
            "num_variables": self.num_variables,
            "solutions": self.solutions,
            "given": np.packbits(self.given),
            "num_pairs": self.num_pairs,
            "pair_gaps": gaps.astype(wide),
            **{f"flag_{name}": values for name, values in self.flags.items()},
        }


def load_dataset(path: str | Path) -> Dataset:
    """Reads a dataset file; a file that was cut, changed or is something else is refused."""
    path = Path(path)
    try:
        with zipfile.ZipFile(path) as archive:
            total = sum(entry.file_size for entry in archive.infolist())
            if total > _MAX_BYTES:
                raise DamagedFile(f"{path}: unpacks to {total:,} bytes; the limit is {_MAX_BYTES:,}")
        with np.load(path, allow_pickle=False) as stored:
            arrays: dict[str, npt.NDArray[Any]] = {name: stored[name] for name in stored.files}
        raw = arrays.pop("header")
        if raw.dtype != np.uint8 or raw.size > _MAX_HEADER:
            raise ValueError("its header is not text")
        header = json.loads(raw.tobytes())
        if not isinstance(header, dict) or any(key not in header for key in _HEADER_KEYS):
            raise ValueError("its header lacks entries")
    except FileNotFoundError:
        raise DamagedFile(f"{path}: no such file") from None
    except DamagedFile:
        raise
    except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, RecursionError) as error:
        raise DamagedFile(f"{path}: not a dataset file, or damaged ({_one_line(error)})") from None
    except Exception as error:  # zlib.error, NotImplementedError of odd archives, and whatever comes next
        raise DamagedFile(f"{path}: not a dataset file, or damaged ({_one_line(error)})") from None
    if header["format"] != FORMAT:
        raise DamagedFile(f"{path}: format {header['format']}; this version reads format {FORMAT}")
    try:
        dataset = _from_arrays(header, arrays)
        intact = dataset.sha256 == header["sha256"]
    except Exception as error:
        raise DamagedFile(f"{path}: damaged ({_one_line(error)})") from None
    if not intact:
        raise DamagedFile(f"{path}: damaged (its content does not match its sha256)")
    return dataset


def find_folder() -> Path:
    """Where data sets are kept: ./datasets, or that of the checkout this package runs from."""
    here = Path("datasets")
    beside = Path(__file__).resolve().parents[3] / "datasets"
    return here if (here / MANIFEST).exists() or not (beside / MANIFEST).exists() else beside


def find_dataset(name: str | Path) -> Dataset:
    """A data set by the path of its file, or by its name in the folder of data sets."""
    path = Path(name)
    if path.suffix != ".npz":
        path = find_folder() / f"{name}.npz"
        if not path.exists():
            raise DamagedFile(
                f"{path}: no such data set; 'outgrow data list' names them, and 'outgrow data build' makes them"
            )
    return load_dataset(path)


def find_datasets(names: Sequence[str]) -> dict[str, Dataset]:
    """Data sets, given by name or by file (*.npz), each once; a file goes by its name without the ending."""
    short = [Path(name).stem if name.endswith(".npz") else name for name in names]
    for name in short:
        if short.count(name) > 1:
            raise OutgrowError(f"{name} is named twice")
        if len(name) > 200 or not name.isprintable():
            raise OutgrowError(f"{name[:40]!r}: the name of a data set has up to 200 printable characters")
    return {s: find_dataset(name) for s, name in zip(short, names, strict=True)}


def _from_arrays(header: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> Dataset:
    num_variables = arrays["num_variables"].astype(np.int32)
    num_pairs = arrays["num_pairs"].astype(np.int32)
    gaps = arrays["pair_gaps"].astype(np.int64)
    if (num_variables < 0).any() or (num_pairs < 0).any():
        raise ValueError("a negative count")
    cells, facts = int(num_variables.sum()), int(num_pairs.sum())
    solutions = arrays["solutions"]
    if len(num_variables) != header["count"] or len(num_pairs) != header["count"]:
        raise ValueError("puzzles are missing")
    if len(solutions) != cells or len(gaps) != facts or len(arrays["given"]) != (cells + 7) // 8:
        raise ValueError("arrays do not fit together")
    if header["puzzle"] not in PUZZLES:
        raise ValueError(f"no puzzle {str(header['puzzle'])[:40]!r}")
    if cells and not 1 <= solutions.min() <= solutions.max() <= int(header["size"]):
        raise ValueError("a value out of range")
    if any(len(values) != header["count"] for name, values in arrays.items() if name.startswith("flag_")):
        raise ValueError("flags are missing")
    keys = np.cumsum(gaps)
    first = np.concatenate([[0], np.cumsum(num_pairs, dtype=np.int64)])[:-1]
    has = num_pairs > 0
    start = np.where(first[has] > 0, keys[np.maximum(first[has] - 1, 0)], 0)
    keys -= np.repeat(start, num_pairs[has])
    owner = np.repeat(num_variables.astype(np.int64), num_pairs)
    pairs = np.stack([keys // np.maximum(owner, 1), keys % np.maximum(owner, 1)], axis=1)
    return Dataset(
        puzzle=str(header["puzzle"]),
        size=int(header["size"]),
        shape=tuple(int(n) for n in header["shape"]),
        settings=dict(header["settings"]),
        num_variables=num_variables,
        solutions=solutions.astype(np.uint8),
        given=np.unpackbits(arrays["given"], count=cells).astype(np.bool_),
        num_pairs=num_pairs,
        pairs=pairs.astype(np.int32),
        flags={n.removeprefix("flag_"): v for n, v in arrays.items() if n.startswith("flag_")},
    )


def _sort_pairs(pairs: npt.NDArray[np.integer], variables: int) -> npt.NDArray[np.int32]:
    keys = pairs[:, 0].astype(np.int64) * variables + pairs[:, 1]
    return pairs[np.argsort(keys)].astype(np.int32)


def _digest(identity: Mapping[str, Any], arrays: Mapping[str, npt.NDArray[Any]]) -> str:
    """sha256 over the identity and every array, whatever the byte order or compressor of the machine."""
    digest = hashlib.sha256(json.dumps(identity, sort_keys=True).encode())
    for name in sorted(arrays):
        array = np.ascontiguousarray(arrays[name])
        little = array.astype(array.dtype.newbyteorder("<"), copy=False)
        digest.update(f"\n{name} {little.dtype.str} {little.shape}\n".encode())
        digest.update(little.tobytes())
    return digest.hexdigest()


def _one_line(error: Exception) -> str:
    return (str(error) or type(error).__name__).splitlines()[0][:200]
