"""The named data sets: the paper's training and test sets, validation sets and hard sets, and their manifest."""

from __future__ import annotations

import gzip
import json
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np

from outgrow.csp.exact import ExactSolver
from outgrow.data.file import MANIFEST, Dataset, Record
from outgrow.data.generate import Settings, default_settings, generate
from outgrow.errors import InputError, OutgrowError
from outgrow.puzzles import sudoku
from outgrow.writing import write_whole

__all__ = [
    "CLUES",
    "MANIFEST",
    "SETS",
    "NamedSet",
    "build_from_clues",
    "build_set",
    "describe",
    "read_clues",
    "read_manifest",
    "update_manifest",
]

Role = Literal["train", "valid", "test", "hard"]
Progress = Callable[[int], None]


def _no_progress(done: int) -> None:
    """For callers that do not watch."""


@dataclass(frozen=True)
class NamedSet:
    """A set anyone can make again: its name, what it is for, and the settings."""

    name: str
    role: Role
    settings: Settings

    @property
    def file(self) -> str:
        return f"{self.name}.npz"


def _sets() -> Iterator[NamedSet]:
    # One seed for each set; a training set and its test set never share a random stream.
    seed = 20220

    def named(name: str, role: Role, puzzle: str, size: int, count: int, **changes: Any) -> NamedSet:
        nonlocal seed
        seed += 1
        return NamedSet(name, role, default_settings(puzzle, size, count, changes.pop("seed", seed), **changes))

    yield named("futoshiki-6-train", "train", "futoshiki", 6, 12_300)
    yield named("futoshiki-6-valid", "valid", "futoshiki", 6, 500)
    for size in range(6, 13):
        yield named(f"futoshiki-{size}-test", "test", "futoshiki", size, 1_000)
    yield named("futoshiki-9-hard", "hard", "futoshiki", 9, 300, style="minimal", levels=(0, 0))
    yield named("coloring-4-train", "train", "coloring", 4, 25_010, nodes=(40, 100))
    yield named("coloring-4-valid", "valid", "coloring", 4, 500, nodes=(40, 100))
    for size in range(4, 8):
        yield named(f"coloring-{size}-test", "test", "coloring", size, 1_000)
    yield named("sudoku-9-train", "train", "sudoku", 9, 10_000)
    yield named("sudoku-9-valid", "valid", "sudoku", 9, 500)
    yield named("sudoku-9-test", "test", "sudoku", 9, 1_000)
    for size in (10, 12, 15, 16):
        yield named(f"sudoku-{size}-test", "test", "sudoku", size, 1_000)
    for size in (9, 12, 16):
        yield named(
            f"sudoku-{size}-hard", "hard", "sudoku", size, 300, style="minimal", levels=(0, 0), conflicts=1_000_000
        )
    yield named("sudoku-24-train", "train", "sudoku", 24, 8_000, levels=(30, 70), unique="free")
    yield named("sudoku-24-valid", "valid", "sudoku", 24, 100)
    yield named("sudoku-24-test", "test", "sudoku", 24, 200)
    yield named("sudoku-25-test", "test", "sudoku", 25, 200)
    # There are only 288 solved boards of size 4: each belongs to one of the three sets.
    yield named("sudoku-4-train", "train", "sudoku", 4, 2_000, fold=(0, 5, 8))
    yield named("sudoku-4-valid", "valid", "sudoku", 4, 200, fold=(6, 6, 8))
    yield named("sudoku-4-test", "test", "sudoku", 4, 500, fold=(7, 7, 8))
    yield named("sudoku-6-test", "test", "sudoku", 6, 500)
    # Small and hard, for models that are to outgrow them: with `data.more_givens` each is many puzzles.
    hard: dict[str, Any] = {"style": "minimal", "levels": (0, 0)}
    yield named("sudoku-6-train", "train", "sudoku", 6, 20_000, **hard)
    # Of other seeds some boards are in the training set too.
    yield named("sudoku-6-valid", "valid", "sudoku", 6, 500, seed=30_000, **hard)
    yield named("sudoku-8-train", "train", "sudoku", 8, 20_000, **hard)
    yield named("sudoku-9-minimal-train", "train", "sudoku", 9, 60_000, **hard)
    yield named("sudoku-9-minimal-valid", "valid", "sudoku", 9, 1_000, **hard)
    yield named("futoshiki-4-train", "train", "futoshiki", 4, 2_000, **hard)
    yield named("futoshiki-5-train", "train", "futoshiki", 5, 10_000, **hard)
    yield named("futoshiki-6-minimal-train", "train", "futoshiki", 6, 30_000, **hard)
    yield named("futoshiki-6-minimal-valid", "valid", "futoshiki", 6, 1_000, **hard)
    yield named("coloring-3-train", "train", "coloring", 3, 10_000)
    # Larger than anything in the paper. A solved board of size 36 takes more than the usual budget to be found.
    yield named("sudoku-20-test", "test", "sudoku", 20, 100)
    yield named("sudoku-30-test", "test", "sudoku", 30, 50, levels=(30, 40))
    yield named("sudoku-36-test", "test", "sudoku", 36, 50, levels=(30, 40), conflicts=100_000)
    yield named("futoshiki-15-test", "test", "futoshiki", 15, 200, levels=(30, 55))
    for size in (8, 10, 12):
        yield named(f"coloring-{size}-test", "test", "coloring", size, 200)
    # About one in twenty of the minimal ones: hard, and small.
    yield named("sudoku-6-search-train", "train", "sudoku", 6, 10_000, search=True, **hard)
    # Tiny: beside them, no average over a group tells one candidate from two. There are few such boards, so many come again and again.
    yield named("sudoku-2-train", "train", "sudoku", 2, 100, box=(1, 2), **hard)
    yield named("sudoku-3-train", "train", "sudoku", 3, 500, box=(1, 3), **hard)
    yield named("futoshiki-2-train", "train", "futoshiki", 2, 100, signs=(0, 1), **hard)
    yield named("futoshiki-3-train", "train", "futoshiki", 3, 1_000, signs=(0, 4), **hard)
    yield named("coloring-2-train", "train", "coloring", 2, 2_000, nodes=(10, 40), degrees=(2, 16), levels=(30, 70))
    # Few givens: these tell models apart that solve all of coloring-4-valid.
    yield named("coloring-4-open-valid", "valid", "coloring", 4, 300, seed=31, nodes=(40, 100), levels=(70, 95))
    # Deep: as small, and as much follows from what follows as on large boards.
    yield named("sudoku-9-deep-train", "train", "sudoku", 9, 3_000, rounds=2, **hard)
    yield named("sudoku-9-deep-valid", "valid", "sudoku", 9, 300, rounds=2, **hard)
    yield named("futoshiki-6-search-train", "train", "futoshiki", 6, 20_000, rounds=1, signs=(6, 30), **hard)
    # Many signs and few givens, as people publish them: long chains of bounds.
    yield named("futoshiki-3-dense-train", "train", "futoshiki", 3, 1_000, signs=(0, 12), **hard)
    yield named("futoshiki-4-dense-train", "train", "futoshiki", 4, 3_000, signs=(4, 24), **hard)
    yield named("futoshiki-5-dense-train", "train", "futoshiki", 5, 10_000, signs=(5, 36), **hard)
    yield named("futoshiki-6-dense-train", "train", "futoshiki", 6, 20_000, signs=(6, 54), **hard)
    yield named("futoshiki-6-dense-valid", "valid", "futoshiki", 6, 500, signs=(6, 54), **hard)
    # Long chains of plain deductions.
    chained: dict[str, Any] = {"style": "chained", "levels": (0, 0)}
    for size, count in ((3, 500), (4, 3_000), (5, 10_000), (6, 30_000), (7, 20_000), (8, 20_000), (9, 20_000)):
        yield named(f"futoshiki-{size}-chained-train", "train", "futoshiki", size, count, seed=780 + size, **chained)
    yield named("futoshiki-6-chained-valid", "valid", "futoshiki", 6, 500, seed=796, **chained)
    yield named("futoshiki-9-chained-valid", "valid", "futoshiki", 9, 500, seed=799, **chained)
    yield named("futoshiki-9-chained-test", "test", "futoshiki", 9, 300, seed=809, **chained)
    yield named("futoshiki-12-chained-test", "test", "futoshiki", 12, 300, seed=812, **chained)
    # The largest that are learnt from, minimal by proof, with few signs to nearly all.
    yield named("futoshiki-8-dense-train", "train", "futoshiki", 8, 15_000, seed=828, signs=(8, 100), **hard)
    yield named("futoshiki-9-dense-train", "train", "futoshiki", 9, 20_000, seed=829, signs=(9, 130), **hard)
    yield named("futoshiki-9-dense-valid", "valid", "futoshiki", 9, 300, seed=839, signs=(9, 130), **hard)


SETS: dict[str, NamedSet] = {s.name: s for s in _sets()}


def build_set(name: str, folder: Path, *, jobs: int = 1, progress: Progress = _no_progress) -> Dataset:
    """Makes a named set again, as `folder`/NAME.npz."""
    chosen = SETS[name]
    return generate(chosen.settings, folder / chosen.file, jobs=jobs, progress=progress)


@dataclass(frozen=True)
class ClueSettings:
    """The paper's 9x9 data from a list of 17-clue puzzles: each with 0 to 17 random digits more, every number of givens equally often."""

    counts: tuple[tuple[Role, int], ...] = (("train", 10_000), ("valid", 900), ("test", 1_800))
    givens: tuple[int, int] = (17, 34)
    seed: int = 20217

    def as_json(self) -> dict[str, Any]:
        return {"counts": dict(self.counts), "givens": list(self.givens), "seed": self.seed}


CLUES = ClueSettings()


def build_from_clues(
    clues: Path, folder: Path, *, settings: ClueSettings = CLUES, progress: Progress = _no_progress
) -> dict[str, Dataset]:
    """`sudoku-9-17-train`, `-valid` and `-test` in `folder`; no two puzzles share a solution."""
    puzzles = read_clues(clues, settings.givens[0])
    wanted = sum(count for _, count in settings.counts)
    rng = np.random.default_rng([settings.seed])
    order = rng.permutation(len(puzzles))
    csp = sudoku.build(3, 3, np.zeros(81, dtype=np.int16)).csp
    seen: set[bytes] = set()
    solved: list[tuple[np.ndarray, np.ndarray]] = []
    with ExactSolver(csp) as solver:
        for i in order.tolist():
            if len(solved) == wanted:
                break
            line, givens = puzzles[i]
            answer = solver.solve(givens)
            if answer.assignment is None:
                raise InputError("has no solution", source=str(clues), line=line)
            if solver.count(givens, limit=2).count != 1:
                raise InputError("has more than one solution", source=str(clues), line=line)
            if answer.assignment.tobytes() in seen:
                continue
            seen.add(answer.assignment.tobytes())
            solved.append((givens, answer.assignment))
            progress(len(solved))
    if len(solved) < wanted:
        raise OutgrowError(f"{clues}: {wanted:,} puzzles with different solutions needed, found {len(solved):,}")
    low, high = settings.givens
    made: dict[str, Dataset] = {}
    at = 0
    for role, count in settings.counts:
        records: list[Record] = []
        for i, (givens, solution) in enumerate(solved[at : at + count]):
            level = low + i % (high - low + 1)
            given = givens > 0
            given[rng.permutation(np.flatnonzero(~given))[: level - int(given.sum())]] = True
            records.append(Record(solution, given, flags={"level": level, "unique": 1}))
        at += count
        header = {"puzzle": "sudoku", "size": 9, "role": role, "clues": "17-clue list", **settings.as_json()}
        made[f"sudoku-9-17-{role}"] = Dataset.of(records, puzzle="sudoku", size=9, shape=(3, 3), settings=header)
    for name, dataset in made.items():
        dataset.save(folder / f"{name}.npz")
    return made


def read_clues(path: Path, count: int) -> list[tuple[int, np.ndarray]]:
    """Line number and givens (81,) of each puzzle with that many clues, a line each, plain or gzipped."""
    found: list[tuple[int, np.ndarray]] = []
    try:
        with gzip.open(path, "rb") if path.suffix == ".gz" else open(path, "rb") as stream:
            for line, raw in enumerate(stream, start=1):
                if line > 1_000_000 or len(raw) > 1_000:
                    raise InputError("too long for a list of puzzles", source=str(path), line=line)
                text = raw.decode("ascii", "replace").strip().replace(".", "0")
                if not text or text.startswith("#"):
                    continue
                if len(text) != 81 or not (text.isascii() and text.isdigit()):
                    raise InputError("81 digits expected, 0 or . for an empty cell", source=str(path), line=line)
                givens = np.frombuffer(text.encode(), dtype=np.uint8).astype(np.int16) - ord("0")
                if int((givens > 0).sum()) != count:
                    raise InputError(
                        f"{count} clues expected, found {int((givens > 0).sum())}", source=str(path), line=line
                    )
                found.append((line, givens))
    except (OSError, EOFError, zlib.error) as error:
        raise InputError(f"cannot be read ({error})", source=str(path)) from None
    return found


_ENTRY = {
    "file": str,
    "role": str,
    "puzzle": str,
    "size": int,
    "count": int,
    "settings": dict,
    "sha256": str,
    "bytes": int,
}


def read_manifest(folder: Path) -> dict[str, Any]:
    """What `folder` claims to hold."""
    path = folder / MANIFEST
    try:
        manifest = json.loads(path.read_text())
        if not isinstance(manifest.get("sets"), dict):
            raise ValueError("no 'sets'")
        for name, entry in manifest["sets"].items():
            if not isinstance(entry, dict) or any(not isinstance(entry.get(key), kind) for key, kind in _ENTRY.items()):
                raise ValueError(f"the entry {name!r} lacks {', '.join(_ENTRY)}, or holds something else there")
            levels = entry["settings"].get("levels", entry["settings"].get("givens", [0, 0]))
            if not (isinstance(levels, list) and len(levels) == 2 and all(type(n) is int for n in levels)):
                raise ValueError(f"the entry {name!r} has no range of levels")
            fold = entry["settings"].get("fold", [0, 0, 1])
            if not (
                isinstance(fold, list) and [type(n) for n in fold] == [int] * 3 and 0 <= fold[0] <= fold[1] < fold[2]
            ):
                raise ValueError(f"the entry {name!r} has no range of folds")
        return manifest
    except FileNotFoundError:
        raise OutgrowError(f"{path}: no such file; name the folder with --dir") from None
    except (ValueError, AttributeError, OSError, RecursionError) as error:
        raise OutgrowError(f"{path}: not a manifest ({error})") from None


def describe(name: str, dataset: Dataset, folder: Path) -> dict[str, Any]:
    """The manifest's entry for a set that lies in `folder`."""
    role = SETS[name].role if name in SETS else name.rsplit("-", 1)[1]
    file = f"{name}.npz"
    return {
        "file": file,
        "in_tree": name in SETS,
        "role": role,
        "puzzle": dataset.puzzle,
        "size": dataset.size,
        "count": len(dataset),
        "settings": dict(dataset.settings),
        "sha256": dataset.sha256,
        "bytes": (folder / file).stat().st_size,
    }


def update_manifest(folder: Path, entries: dict[str, dict[str, Any]]) -> None:
    """Adds or replaces entries, whole or not at all."""
    path = folder / MANIFEST
    manifest = read_manifest(folder) if path.exists() else {"format": 1, "sets": {}}
    manifest["sets"].update(entries)
    manifest["sets"] = dict(sorted(manifest["sets"].items()))
    write_whole(path, [json.dumps(manifest, indent=1) + "\n"])
