"""The weights that come with outgrow: what each was trained on, what chose it, and how well it solves, as measured.

The catalog is catalog.json beside the weights files. `outgrow weights add` writes its entries from weights and results files, so that no
figure in it was typed by hand.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.writing import write_whole

if TYPE_CHECKING:
    from outgrow.weights.file import Loaded

__all__ = [
    "CATALOG",
    "FOLDER",
    "Entry",
    "Measured",
    "default_weights",
    "hash_file",
    "open_entry",
    "read_catalog",
    "ship",
    "steps_for",
]

FORMAT = 1
CATALOG = "catalog.json"
FOLDER = Path(__file__).resolve().parent
_MAX_BYTES = 1 << 22
_MAX_STEPS = 100_000
_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,99}")


@dataclass(frozen=True)
class Measured:
    """Board accuracy on one set: `board` is the share of its `count` puzzles of size K that were solved after `steps` steps."""

    dataset: str
    size: int
    steps: int
    count: int
    board: float


@dataclass(frozen=True)
class Entry:
    """Weights of the catalog.

    Attributes:
        name: as in `outgrow solve --weights NAME`.
        file: beside the catalog, and `sha256` of its bytes.
        puzzle: what it solves, 'sudoku'.
        model: its kind, 'binarized'.
        recipe: the name of the recipe, and `seed` that of this run.
        parameters: how many numbers the weights are.
        trained_on: the training sets, those of the weights it was fine-tuned from included.
        max_trained_values: the largest K among them: any larger puzzle is one it has outgrown its training for.
        chosen_how: which sets chose it, in a sentence.
        default: whether `outgrow solve` takes it if nothing else is asked for; one entry a puzzle at most.
        steps: pairs (largest size, steps), sizes rising: how long to run puzzles up to that size.
        restart: after so many steps, puzzles that are not solved start over with other marks and a guess; 0 if they never do.
        notes: whether solving writes down what the network is sure cannot be, every other time that it starts over.
        scores: as measured, copied from the file `results`.
    """

    name: str
    file: str
    sha256: str
    puzzle: str
    model: str
    recipe: str
    seed: int | None
    parameters: int
    trained_on: tuple[str, ...]
    max_trained_values: int
    chosen_how: str
    default: bool
    steps: tuple[tuple[int, int], ...]
    restart: int
    notes: bool
    scores: tuple[Measured, ...]
    results: str

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, in an order of their own."""
        return dataclasses.asdict(self)

    def measured(self) -> list[Measured]:
        """The scores after as many steps as solving takes."""
        return [score for score in self.scores if score.steps == steps_for(self, score.size)]


def read_catalog(folder: Path | None = None) -> dict[str, Entry]:
    """The entries by name, of `folder` or of those that come with outgrow.

    >>> all(name == entry.name for name, entry in read_catalog().items())
    True
    """
    path = (FOLDER if folder is None else folder) / CATALOG
    try:
        about = path.stat()
    except FileNotFoundError:
        raise DamagedFile(f"{path}: no such file") from None
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read ({error.strerror or error})") from None
    # A file that was written anew is read anew.
    return dict(_read(path.resolve(), about.st_mtime_ns, about.st_size, about.st_ino))


def default_weights(puzzle: str, folder: Path | None = None) -> Entry | None:
    """What `outgrow solve` takes for that puzzle; None if there is nothing."""
    return next((e for e in read_catalog(folder).values() if e.default and e.puzzle == puzzle), None)


def open_entry(entry: Entry, folder: Path | None = None) -> Loaded:
    """The model of an entry, once its file is known to be the one that was measured."""
    from outgrow.weights.file import load_weights

    path = (FOLDER if folder is None else folder) / entry.file
    if hash_file(path) != entry.sha256:
        raise DamagedFile(f"{path}: not the file that the catalog names (its sha256 is another); install outgrow again")
    return load_weights(path)


def steps_for(entry: Entry, size: int) -> int:
    """How many steps to run a puzzle of that size; beyond the largest size named, as many as for that one."""
    return next((steps for largest, steps in entry.steps if size <= largest), entry.steps[-1][1])


def ship(entry: Entry, weights: str | Path, folder: Path | None = None) -> None:
    """Copies the weights into the folder, and adds the entry to its catalog or replaces the one of that name.

    A default takes the place of the one before.
    """
    folder = FOLDER if folder is None else folder
    if hash_file(weights) != entry.sha256:
        raise OutgrowError(f"{weights}: not the file that the entry {entry.name!r} was made for")
    known = read_catalog(folder) if (folder / CATALOG).exists() else {}
    if entry.default:
        known = {
            name: dataclasses.replace(other, default=False) if other.puzzle == entry.puzzle else other
            for name, other in known.items()
        }
    known[entry.name] = entry
    content = {"format": FORMAT, "weights": {name: known[name].as_json() for name in sorted(known)}}
    text = json.dumps(content, indent=1, allow_nan=False) + "\n"
    try:
        _parse(json.loads(text))  # nothing is written that could not be read again
    except ValueError as error:
        raise OutgrowError(str(error)) from None
    write_whole(folder / entry.file, Path(weights).read_bytes())
    write_whole(folder / CATALOG, [text])


def hash_file(path: str | Path) -> str:
    """sha256 of a file's bytes."""
    try:
        if not Path(path).is_file() and Path(path).exists():  # opening a pipe would wait for its writer
            raise DamagedFile(f"{path}: not a file")
        with open(path, "rb") as stream:
            return hashlib.file_digest(stream, "sha256").hexdigest()
    except FileNotFoundError:
        raise DamagedFile(f"{path}: no such file") from None
    except OSError as error:
        raise DamagedFile(f"{path}: cannot be read ({error.strerror or error})") from None


@lru_cache(maxsize=8)
def _read(path: Path, changed: int, size: int, number: int) -> Mapping[str, Entry]:
    """The catalog as it was when last changed: the other arguments tell versions of the file apart."""
    try:
        if size > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES:,} bytes")
        return _parse(json.loads(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError) as error:
        reason = " ".join((str(error) or type(error).__name__).split())[:200]
        raise DamagedFile(f"{path}: not a catalog of weights ({reason})") from None


def _parse(content: Any) -> dict[str, Entry]:
    """Raises ValueError at the first thing that is not as it should be."""
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise ValueError(f"this version reads format {FORMAT}")
    if not isinstance(content.get("weights"), dict):
        raise ValueError("it has no table 'weights'")
    found: dict[str, Entry] = {}
    defaults: dict[str, str] = {}
    for name, about in content["weights"].items():
        try:
            fields = _check(about, _ENTRY, Entry)
            if fields["name"] != name:
                raise ValueError(f"its name is {fields['name']!r}")
            scores = tuple(Measured(**_check(score, _MEASURED, Measured)) for score in fields["scores"])
        except ValueError as error:
            raise ValueError(f"the entry {name[:100]!r}: {error}") from None
        steps = tuple((largest, count) for largest, count in fields["steps"])
        found[name] = Entry(**{**fields, "trained_on": tuple(fields["trained_on"]), "steps": steps, "scores": scores})
        if found[name].default and defaults.setdefault(found[name].puzzle, name) != name:
            raise ValueError(f"two defaults for {found[name].puzzle}: {defaults[found[name].puzzle]} and {name}")
    return found


def _check(content: Any, wanted: Mapping[str, Callable[[Any], bool]], kind: type[Any]) -> dict[str, Any]:
    """The content, once it has every field of its kind and no other, each as it should be."""
    if not isinstance(content, dict):
        raise ValueError("not a table")
    names = [f.name for f in dataclasses.fields(kind)]
    for name in names:
        if name not in content:
            raise ValueError(f"{name} is missing")
        if not wanted[name](content[name]):
            raise ValueError(f"{name} is {str(content[name])[:60]!r}")
    unknown = [str(key) for key in content if key not in names]
    if unknown:
        raise ValueError(f"{unknown[0][:60]!r} is no part of one")
    return content


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and 0 < len(value) <= 1_000 and value.isprintable()


def _is_whole(value: Any, least: int = 1, most: int = 2**31 - 1) -> bool:
    return type(value) is int and least <= value <= most


def _is_share(value: Any) -> bool:
    return type(value) in (int, float) and math.isfinite(value) and 0 <= value <= 1


def _are(value: Any, check: Callable[[Any], bool]) -> bool:
    return isinstance(value, list) and len(value) > 0 and all(map(check, value))


def _are_steps(value: Any) -> bool:
    def is_pair(pair: Any) -> bool:
        return _are(pair, _is_whole) and len(pair) == 2 and pair[1] <= _MAX_STEPS

    return _are(value, is_pair) and _rise(size for size, _ in value)


def _rise(numbers: Iterable[int]) -> bool:
    listed = list(numbers)
    return listed == sorted(set(listed))


_MEASURED: Mapping[str, Callable[[Any], bool]] = {
    "dataset": _is_text,
    "size": _is_whole,
    "steps": lambda value: _is_whole(value, most=_MAX_STEPS),
    "count": _is_whole,
    "board": _is_share,
}
_ENTRY: Mapping[str, Callable[[Any], bool]] = {
    "name": lambda value: isinstance(value, str) and _NAME.fullmatch(value) is not None,
    # Beside the catalog and nowhere else.
    "file": lambda value: (
        isinstance(value, str) and re.fullmatch(r"[a-z0-9][a-z0-9.-]*\.safetensors", value) is not None
    ),
    "sha256": lambda value: isinstance(value, str) and re.fullmatch("[0-9a-f]{64}", value) is not None,
    "puzzle": _is_text,
    "model": _is_text,
    "recipe": _is_text,
    "seed": lambda value: value is None or _is_whole(value, least=0, most=2**63 - 1),
    "parameters": _is_whole,
    "trained_on": lambda value: _are(value, _is_text),
    "max_trained_values": _is_whole,
    "chosen_how": _is_text,
    "default": lambda value: isinstance(value, bool),
    "steps": _are_steps,
    "restart": lambda value: _is_whole(value, least=0, most=_MAX_STEPS),
    "notes": lambda value: isinstance(value, bool),
    "scores": lambda value: isinstance(value, list) and len(value) > 0,
    "results": _is_text,
}
