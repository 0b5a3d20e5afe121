"""Puzzles by the paper's protocol: sample a solution, mask it, certify it.

Work is cut into chunks of a fixed size, each with a solver and a random stream of its own, so that a seed gives the same
puzzles whatever the number of processes and however often a run was stopped and started again.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import asdict, dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, find_singles
from outgrow.csp.chains import Chains
from outgrow.csp.exact import Budget, Engine, ExactSolver
from outgrow.csp.probing import Prober
from outgrow.data.dig import Dug, Swaps, dig
from outgrow.data.file import Dataset, Record, load_dataset
from outgrow.data.sample import fold_of, sample_graph, sample_latin_square, sample_solution
from outgrow.data.workers import run_tasks
from outgrow.errors import DamagedFile, OutgrowError
from outgrow.puzzles import coloring, futoshiki, sudoku
from outgrow.writing import write_whole

__all__ = [
    "EDGE_PROBABILITY",
    "Settings",
    "default_settings",
    "generate",
    "make_chunk",
    "make_chunks",
    "sample_puzzles",
]

Rng = np.random.Generator
# A solved board, its signs if it has any, and which cells are given.
_Deep = tuple[npt.NDArray[np.int16], npt.NDArray[np.integer] | None, npt.NDArray[np.bool_]]
CHUNK = 100
MAX_NODES = 1_000  # of graphs around a coloring; the others end where edge probabilities do
# Boards (or graphs) tried for one puzzle before giving up: the settings ask for what does not exist. A mask level that
# can be had comes with the first few boards; 22 givens at 9x9 take about thirty. 'fold': draws until one is in the fold.
MAX_TRIES = {
    "masked": 40,
    "minimal": 40,
    "search": 2_000,
    "rounds": 20_000,
    "walk": 200,
    "extra": 1_000,
    "graphs": 2_000,
    "fold": 10_000,
}
# Deep puzzles are rare, and have others about them: from each that is found, a
# walk to so many, so many random givens being let in and the board dug again for every step. Puzzles of one round are no rarity.
WALK = 25
LOOSEN = 4
NEVER = 255  # the flag of puzzles that no number of rounds solves
# Questions that dig() may spend on exchanges, once stuck, to reach a mask level near the minimum.
EXCHANGES = 1_000
# Up to this many (variable, value) literals questions are so small that they need no budget.
SMALL = 2_000

# (first n, last n, low p, high p) by number of colors: the paper's table 'Range for p for given k and n'. It has none for 3, 8, 10 and 12
# colors; those are ours. For 3 they lie around the degree at which random graphs stop being 3-colorable (about 4.7); for more they are, as
# the paper's, where most graphs need exactly so many, and end with the n at which that can no longer be proven within the budget.
EDGE_PROBABILITY: dict[int, tuple[tuple[int, int, float, float], ...]] = {
    3: (
        (20, 30, 0.12, 0.2),
        (31, 40, 0.1, 0.15),
        (41, 55, 0.07, 0.11),
        (56, 70, 0.055, 0.085),
        (71, 80, 0.05, 0.065),
        (81, 100, 0.04, 0.055),
    ),
    4: (
        (40, 55, 0.1, 0.2),
        (56, 70, 0.05, 0.1),
        (71, 80, 0.05, 0.1),
        (81, 100, 0.05, 0.1),
        (101, 130, 0.02, 0.05),
        (131, 150, 0.02, 0.05),
    ),
    5: (
        (40, 55, 0.2, 0.25),
        (56, 70, 0.1, 0.2),
        (71, 80, 0.1, 0.2),
        (81, 100, 0.075, 0.12),
        (101, 130, 0.075, 0.1),
        (131, 150, 0.05, 0.075),
    ),
    6: (
        (40, 55, 0.2, 0.25),
        (56, 70, 0.15, 0.25),
        (71, 80, 0.17, 0.2),
        (81, 100, 0.15, 0.18),
        (101, 130, 0.12, 0.16),
    ),
    7: ((40, 55, 0.325, 0.375), (56, 70, 0.275, 0.325), (71, 80, 0.22, 0.3)),
    8: ((40, 47, 0.42, 0.47), (48, 55, 0.37, 0.42), (56, 63, 0.33, 0.38), (64, 70, 0.3, 0.34)),
    10: ((40, 43, 0.57, 0.63), (44, 48, 0.53, 0.58), (49, 55, 0.48, 0.53), (56, 60, 0.45, 0.5)),
    12: ((40, 43, 0.67, 0.72), (44, 48, 0.62, 0.67), (49, 55, 0.57, 0.62)),
}


@dataclass(frozen=True)
class Settings:
    """Everything that decides what is generated.

    Attributes:
        puzzle: 'sudoku', 'futoshiki' or 'coloring'.
        size: the number of values, K.
        count: how many puzzles.
        seed: of the random streams.
        style: 'masked': a whole percentage of the variables, each level of `levels` equally often; 'minimal': dug until no
            given can be spared; 'extra': minimal plus random givens, up to each number in `levels` equally often; 'chained', of Sudoku
            and Futoshiki: dug until singles would not solve it with a given or a sign less (`Chains`).
        levels: the first and last percentage ('masked') or number of givens ('extra').
        unique: 'proven' (puzzles without proof are thrown away), 'tried' (kept, with flag 0) or 'free' (not asked).
        box: Sudoku: box rows and columns.
        nodes: coloring: the first and last number of nodes, equally often.
        degrees: coloring: the coloring is drawn first, then edges between its classes: so many to a node, on average; from the first
            number to the last, evenly by their logarithms. By default edges are drawn, as many as random graphs of so many colors have.
        signs: Futoshiki: the fewest and the most, equally often; 2K by default. Chained puzzles begin with so many, all by default.
        conflicts: the solver's budget for one question on boards that are not small.
        search: Sudoku and Futoshiki, minimal: only puzzles that singles do not solve (`find_singles`).
        rounds: Sudoku and Futoshiki, minimal: only puzzles that take at least so many rounds of probing (`Prober`).
        fold: Sudoku: (first, last, of): solved boards are dealt into `of` folds by their digests, those of the first to last are
            used, and no puzzle occurs twice. Sets of disjoint folds share no solution, however few boards there are.
    """

    puzzle: str
    size: int
    count: int
    seed: int = 0
    style: Literal["masked", "minimal", "extra", "chained"] = "masked"
    levels: tuple[int, int] = (0, 0)
    unique: Literal["proven", "tried", "free"] = "proven"
    box: tuple[int, int] | None = None
    nodes: tuple[int, int] | None = None
    degrees: tuple[int, int] | None = None
    signs: tuple[int, int] | None = None
    conflicts: int = 20_000
    search: bool | None = None
    rounds: int | None = None
    fold: tuple[int, int, int] | None = None

    def as_json(self) -> dict[str, Any]:
        """As plain values, for headers and manifests."""
        return json.loads(json.dumps({k: v for k, v in asdict(self).items() if v is not None}))

    @property
    def chunks(self) -> int:
        return -(-self.count // CHUNK)


# The masks of the paper's test sets, by puzzle and size, as whole percentages (see docs/decisions/0003); of graphs of any number of colors.
MASKS: dict[str, dict[int, tuple[int, int]]] = {
    "sudoku": {10: (30, 62), 12: (30, 59), 15: (30, 57), 16: (30, 58), 24: (30, 50), 25: (30, 50)},
    "futoshiki": {
        6: (30, 70),
        7: (30, 70),
        8: (30, 70),
        9: (30, 70),
        10: (30, 66),
        11: (30, 68),
        12: (30, 65),
    },
    "coloring": dict.fromkeys(EDGE_PROBABILITY, (30, 70)),
}


def default_settings(puzzle: str, size: int, count: int, seed: int = 0, **changes: Any) -> Settings:
    """The paper's settings where it has the size, and the nearest sensible ones elsewhere."""
    settings = Settings(puzzle, size, count, seed, levels=MASKS[puzzle].get(size, (30, 50)))
    if puzzle == "sudoku":
        settings = replace(settings, box=sudoku.box_shape(size))
        if size == 9:
            settings = replace(settings, style="extra", levels=(22, 34))
        elif size < 9:
            settings = replace(settings, levels=(30, 60))
        if size >= 20:
            settings = replace(settings, unique="tried")
    elif puzzle == "coloring":
        bands = EDGE_PROBABILITY.get(size)
        if bands is None and not changes.get("degrees"):
            known = ", ".join(map(str, EDGE_PROBABILITY))
            raise OutgrowError(
                f"no edge probabilities are known for {size} colors; there are for {known}. "
                "Name the nodes and their degrees, as in --nodes 40-60 --degrees 8-16"
            )
        settings = replace(settings, nodes=(bands[0][0], bands[-1][1]) if bands else None, unique="free")
    settings = replace(settings, **changes)
    if settings.unique == "tried" and settings.style != "masked":
        settings = replace(settings, unique="proven")
    return _checked(settings)


def _checked(settings: Settings) -> Settings:
    """The settings, or what is wrong with them."""
    low, high = settings.levels
    if settings.count < 1:
        raise OutgrowError(f"count is {settings.count}; it must be at least 1")
    if settings.style == "masked" and not 0 <= low <= high <= 100:
        raise OutgrowError(f"mask {low}-{high}: percentages from 0 to 100, the smaller one first")
    if settings.style == "extra" and not 0 < low <= high <= settings.size**2:
        raise OutgrowError(f"givens {low}-{high}: numbers from 1 to {settings.size**2}, the smaller one first")
    if settings.unique == "free" and settings.style != "masked" and settings.puzzle != "coloring":
        raise OutgrowError("minimal and chained puzzles are unique ones; any solution counts with masks alone")
    if settings.style == "chained" and settings.puzzle == "coloring":
        raise OutgrowError("chains of singles are those of Sudokus and Futoshikis")
    if settings.box is not None and settings.puzzle != "sudoku":
        raise OutgrowError(f"{settings.puzzle} has no boxes")
    if settings.nodes is not None and settings.puzzle != "coloring":
        raise OutgrowError(f"{settings.puzzle} has no nodes")
    if settings.degrees is not None:
        if settings.puzzle != "coloring":
            raise OutgrowError(f"{settings.puzzle} has no degrees")
        if not 1 <= settings.degrees[0] <= settings.degrees[1]:
            low, high = settings.degrees
            raise OutgrowError(f"degrees {low}-{high}: numbers from 1 on, the smaller one first")
    if settings.signs is not None:
        if settings.puzzle != "futoshiki":
            raise OutgrowError(f"{settings.puzzle} has no signs")
        most = 2 * settings.size * (settings.size - 1)
        if not 0 <= settings.signs[0] <= settings.signs[1] <= most:
            low, high = settings.signs
            raise OutgrowError(f"signs {low}-{high}: numbers from 0 to {most}, the smaller one first")
    if settings.search and (settings.puzzle == "coloring" or settings.style != "minimal"):
        raise OutgrowError("whether singles solve it is asked of minimal Sudokus and Futoshikis alone")
    if settings.rounds is not None:
        if settings.puzzle == "coloring" or settings.style != "minimal" or settings.search:
            raise OutgrowError(
                "rounds of probing are counted of minimal Sudokus and Futoshikis alone, and without search"
            )
        if not 1 <= settings.rounds < NEVER:
            raise OutgrowError(f"{settings.rounds} rounds of probing; a number from 1 to {NEVER - 1}")
    if settings.fold is not None:
        if settings.puzzle != "sudoku":
            raise OutgrowError(f"{settings.puzzle} has no folds")
        first, last, of = settings.fold
        if not 0 <= first <= last < of:
            raise OutgrowError(f"folds {first}-{last} of {of}: numbers from 0 to {of - 1}, the smaller one first")
    if settings.puzzle == "sudoku":
        if settings.size > sudoku.MAX_SIZE:
            raise OutgrowError(f"size {settings.size}: Sudoku goes up to {sudoku.MAX_SIZE}")
        if settings.box is None:
            raise OutgrowError(
                f"a Sudoku of size {settings.size} has no boxes; name their shape, as in --box 1x{settings.size}"
            )
        if settings.box[0] * settings.box[1] != settings.size:
            raise OutgrowError(f"boxes of {settings.box[0]}x{settings.box[1]} do not hold {settings.size} cells")
    if settings.puzzle == "futoshiki" and not 2 <= settings.size <= futoshiki.MAX_SIZE:
        raise OutgrowError(f"size {settings.size}: Futoshiki goes from 2 to {futoshiki.MAX_SIZE}")
    if settings.puzzle == "coloring":
        if settings.style != "masked" or settings.unique != "free":
            raise OutgrowError("coloring puzzles are masked, and any valid coloring counts")
        if settings.nodes is None or settings.nodes[0] > settings.nodes[1]:
            raise OutgrowError("coloring needs a range of nodes, as in --nodes 40-100")
        if settings.degrees is None:
            for nodes in settings.nodes:
                _edge_probability(settings.size, nodes)
        elif not 2 * settings.size <= settings.nodes[0] <= settings.nodes[1] <= MAX_NODES:
            low, high = settings.nodes
            raise OutgrowError(
                f"nodes {low}-{high}: for {settings.size} colors, from {2 * settings.size} to {MAX_NODES:,}"
            )
    return settings


def generate(
    settings: Settings,
    path: str | Path,
    *,
    jobs: int = 1,
    progress: Callable[[int], None] = lambda _: None,
) -> Dataset:
    """Makes the dataset and writes it to `path`.

    Finished chunks wait in `path` + '.parts', so that a stopped run goes on where it was. `progress` is told the number of puzzles done.
    """
    path = Path(path)
    parts = path.with_name(path.name + ".parts")
    note = parts / "settings.json"
    if any(parts.glob("0*.npz")):
        if _read_note(note) != settings.as_json():
            raise OutgrowError(f"{parts}: holds an unfinished run with other settings; finish or delete it first")
    else:
        parts.mkdir(parents=True, exist_ok=True)
        write_whole(note, [json.dumps(settings.as_json())])
    chunks: dict[int, Dataset] = {}
    for index in range(settings.chunks):
        try:
            chunks[index] = load_dataset(parts / f"{index:05}.npz")
        except DamagedFile:  # not there yet, or cut short when the machine went down
            continue
    done = sum(map(len, chunks.values()))
    progress(done)
    missing = [i for i in range(settings.chunks) if i not in chunks]
    try:
        for index, chunk in make_chunks(settings, missing, jobs):
            chunk.save(parts / f"{index:05}.npz")
            chunks[index] = chunk
            done += len(chunk)
            progress(done)
    except OutgrowError:
        if not chunks:  # nothing to go on from
            shutil.rmtree(parts)
        raise
    records = [chunks[i].record(j) for i in range(settings.chunks) for j in range(len(chunks[i]))]
    dataset = _dataset(settings, records)
    dataset.save(path)
    shutil.rmtree(parts)
    return dataset


def _read_note(path: Path) -> Any:
    try:
        return json.loads(path.read_text())
    except (OSError, ValueError):
        return None


def make_chunks(settings: Settings, missing: Sequence[int], jobs: int = 1) -> Iterator[tuple[int, Dataset]]:
    """These chunks and their numbers, in order, made by `jobs` processes."""
    for index, records in run_tasks(_make_indexed, [(settings, i) for i in missing], jobs):
        yield index, _dataset(settings, records)


def _make_indexed(task: tuple[Settings, int]) -> tuple[int, list[Record]]:
    return task[1], make_chunk(*task)


def _dataset(settings: Settings, records: list[Record]) -> Dataset:
    shape = {
        "sudoku": settings.box or (),
        "futoshiki": (settings.size,),
        "coloring": (),
    }[settings.puzzle]
    return Dataset.of(
        records,
        puzzle=settings.puzzle,
        size=settings.size,
        shape=shape,
        settings=settings.as_json(),
    )


def make_chunk(settings: Settings, index: int) -> list[Record]:
    """The puzzles numbered `index * CHUNK` and up to CHUNK - 1 more."""
    rng = np.random.default_rng([settings.seed, index])
    wanted = range(index * CHUNK, min((index + 1) * CHUNK, settings.count))
    low, high = settings.levels
    levels = [low + i % (high - low + 1) for i in wanted]
    if settings.puzzle == "coloring":
        assert settings.nodes is not None
        nodes = _spread(settings.nodes, settings.count, settings.seed)
        return [_make_coloring(settings, nodes[i], level, rng) for i, level in zip(wanted, levels, strict=True)]
    boards = _Sudokus(settings, rng, index) if settings.puzzle == "sudoku" else _Futoshikis(settings, rng)
    with closing(boards):
        return [boards.one(level) for level in levels]


def _spread(bounds: tuple[int, int], count: int, seed: int) -> list[int]:
    """`count` numbers from the range, each equally often, in random order."""
    low, high = bounds
    numbers = low + np.arange(count) % (high - low + 1)
    return np.random.default_rng([seed, 0xC0102]).permutation(numbers).tolist()


class _Boards:
    """Puzzles of a board that is dug: what Sudoku, Futoshiki and problems of one's own have in common."""

    def __init__(self, csp: GroundCSP, settings: Settings, rng: Rng) -> None:
        self.settings = settings
        self.rng = rng
        small = csp.num_variables * csp.num_values <= SMALL
        engine: Engine = "cadical195" if small else "glucose4"
        self.budget = None if small else Budget(conflicts=settings.conflicts)
        self.solver = ExactSolver(csp, engine)
        self.sampler = ExactSolver(csp, "glucose4") if small else self.solver
        self.swaps = Swaps.of(csp)
        self.chains: Chains | None = None
        self.walk: list[_Deep] = []  # the deep boards from one found by chance to the latest

    def close(self) -> None:
        self.solver.close()
        self.sampler.close()
        if self.chains is not None:
            self.chains.close()

    def sample(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.integer] | None]:
        """A solution, and order signs for it if the puzzle has any."""
        solution = sample_solution(self.sampler, self.rng, self.budget)
        if solution is None:
            raise OutgrowError("the problem has no solution, or none was found within the budget")
        return solution, None

    def one(self, level: int) -> Record:
        """One puzzle at a level of the settings."""
        if self.settings.rounds:
            return self.deep(self.settings.rounds)
        style, search = self.settings.style, self.settings.search
        if style == "chained":
            return self.chained()
        tries = MAX_TRIES["search" if search else style]
        variables = self.solver.csp.num_variables
        flags: dict[str, int] = {"level": level} if style != "minimal" else {}
        target = variables - variables * level // 100 if style == "masked" else None
        for _ in range(tries):
            solution, less = self.sample()
            if self.settings.unique == "free":
                return Record(solution, self.mask(target), *_pairs(less), flags=flags)
            dug = self.dig(solution, less, target)
            given = dug.given
            if style == "extra" and dug.status == "done":
                missing = level - int(given.sum())
                if missing < 0:
                    continue
                given[self.rng.permutation(np.flatnonzero(~given))[:missing]] = True
            if dug.status == "done":
                flags["unique"] = 1
                if style == "minimal":
                    flags["minimal"] = 1
                    flags["singles"] = self.grade(np.where(given, solution, 0), less)
                    if search and flags["singles"]:
                        continue
                return Record(solution, given, *_pairs(less), flags=flags)
            if self.settings.unique == "tried" and target is not None:
                return Record(solution, self.mask(target), *_pairs(less), flags={**flags, "unique": 0})
        wish = {"masked": f"{level}% masked; ask for less", "extra": f"{level} givens; ask for more"}.get(
            style, "more than singles to solve it" if search else "dug to the end within the solver's budget"
        )
        raise OutgrowError(
            f"no unique {self.settings.puzzle} of size {self.settings.size} in {tries} boards with {wish}"
        )

    def chained(self) -> Record:
        """One that singles solve, and would not with any of its clues less."""
        solution, less = self.sample()
        if self.chains is None:
            csp = self.solver.csp
            self.chains = Chains(csp, None if less is None else futoshiki.adjacent_pairs(csp.num_values), "lt")
        given, less = self.chains.dig(solution, less, self.rng)
        return Record(solution, given, *_pairs(less), flags={"unique": 1, "singles": 1})

    def deep(self, rounds: int) -> Record:
        """One that takes at least so many rounds of probing: by chance, or, from then on, near the one before."""
        if len(self.walk) == (WALK if rounds > 1 else 1):
            self.walk = []
        for tries in range(MAX_TRIES["rounds"]):
            if tries == MAX_TRIES["walk"]:
                self.walk = []  # nothing new is near
            if self.walk:
                solution, less, given = self.walk[-1]
                start = given.copy()
                start[self.rng.permutation(np.flatnonzero(~given))[:LOOSEN]] = True
                dug = self.dig(solution, less, None, start)
            else:
                solution, less = self.sample()
                dug = self.dig(solution, less, None)
            if dug.status != "done" or any(np.array_equal(dug.given, given) for _, _, given in self.walk):
                continue
            found = self.probe(np.where(dug.given, solution, 0), less)
            if found >= rounds:
                self.walk.append((solution, less, dug.given))
                flags = {"unique": 1, "minimal": 1, "singles": 0, "rounds": found}
                return Record(solution, dug.given, *_pairs(less), flags=flags)
        raise OutgrowError(
            f"no {self.settings.puzzle} of size {self.settings.size} in {MAX_TRIES['rounds']} boards that takes {rounds} rounds of probing; "
            "ask for fewer"
        )

    def mask(self, target: int | None) -> npt.NDArray[np.bool_]:
        """`target` givens drawn at random."""
        given = np.zeros(self.solver.csp.num_variables, dtype=np.bool_)
        given[self.rng.permutation(len(given))[:target]] = True
        return given

    def grade(self, givens: npt.NDArray[np.integer], less: npt.NDArray[np.integer] | None) -> int:
        """1 if singles solve it, else 0."""
        if less is None:  # several times as fast, and the same
            found = _propagator(self.solver.csp).propagate(givens)
        else:
            found = find_singles(futoshiki.build(self.settings.size, less, givens).csp, givens)
        return int(found is not None and bool((found > 0).all()))

    def probe(self, givens: npt.NDArray[np.integer], less: npt.NDArray[np.integer] | None) -> int:
        """Rounds of probing, NEVER for none."""
        if less is None:
            found = _prober(self.solver.csp).count_rounds(givens)
        else:
            with Prober(futoshiki.build(self.settings.size, less, givens).csp) as prober:
                found = prober.count_rounds(givens)
        return NEVER if found is None else found

    def dig(
        self,
        solution: npt.NDArray[np.int16],
        less: npt.NDArray[np.integer] | None,
        target: int | None,
        start: npt.NDArray[np.bool_] | None = None,
    ) -> Dug:
        switch, swaps = None, self.swaps
        if less is not None:
            switch = self.solver.new_switch()
            self.solver.constrain("lt", less, switch)
            table = self.solver.csp.lifted.table("lt", self.settings.size)
            swaps = swaps.with_pairs(less.tolist(), table)
        return dig(
            self.solver,
            solution,
            target,
            self.rng,
            witnesses=swaps.find(solution.tolist()),
            switch=switch,
            budget=self.budget,
            exchanges=EXCHANGES if self.settings.unique == "proven" else 0,
            start=start,
        )


@lru_cache(maxsize=4)
def _propagator(csp: GroundCSP) -> ExactSolver:
    """A solver that is never asked to solve, only to propagate: it stays as it is and serves every chunk."""
    return ExactSolver(csp)


@lru_cache(maxsize=4)
def _prober(csp: GroundCSP) -> Prober:
    return Prober(csp)


class _Sudokus(_Boards):
    """Boards of the settings' fold, if there is one; then puzzles are dealt to the chunks by their digests, so that no two chunks
    make the same and none need know of another."""

    def __init__(self, settings: Settings, rng: Rng, chunk: int) -> None:
        assert settings.box is not None
        empty = np.zeros(settings.size**2, dtype=np.int16)
        super().__init__(sudoku.build(*settings.box, empty).csp, settings, rng)
        self.chunk = chunk
        self.seen: set[bytes] = set()

    def sample(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.integer] | None]:
        if self.settings.fold is None:
            return super().sample()
        first, last, of = self.settings.fold
        for _ in range(MAX_TRIES["fold"]):
            solution, less = super().sample()
            if first <= fold_of(solution, of) <= last:
                return solution, less
        raise OutgrowError(f"no board of folds {first}-{last} of {of} in {MAX_TRIES['fold']} boards")

    def one(self, level: int) -> Record:
        if self.settings.fold is None:
            return super().one(level)
        for _ in range(MAX_TRIES["fold"]):
            record = super().one(level)
            givens = np.where(record.given, record.solution, 0).astype(np.uint8)
            if fold_of(givens, self.settings.chunks) == self.chunk and givens.tobytes() not in self.seen:
                self.seen.add(givens.tobytes())
                return record
        raise OutgrowError(
            f"no new puzzle of size {self.settings.size} at level {level} in {MAX_TRIES['fold']} draws; ask for fewer"
        )


class _Futoshikis(_Boards):
    """Latin squares with signs between random neighbors; they count when uniqueness is proven."""

    def __init__(self, settings: Settings, rng: Rng) -> None:
        empty = np.zeros(settings.size**2, dtype=np.int16)
        super().__init__(futoshiki.build(settings.size, np.zeros((0, 2), dtype=np.int64), empty).csp, settings, rng)

    def sample(self) -> tuple[npt.NDArray[np.int16], npt.NDArray[np.integer] | None]:
        size = self.settings.size
        solution = sample_latin_square(size, self.rng).ravel()
        pairs = futoshiki.adjacent_pairs(size)
        low, high = self.settings.signs or ((len(pairs),) * 2 if self.settings.style == "chained" else (2 * size,) * 2)
        count = low if low == high else int(self.rng.integers(low, high + 1))
        pairs = pairs[self.rng.permutation(len(pairs))[:count]]
        rising = solution[pairs[:, 0]] < solution[pairs[:, 1]]
        return solution, np.where(rising[:, None], pairs, pairs[:, ::-1])


def _pairs(
    less: npt.NDArray[np.integer] | None,
) -> tuple[npt.NDArray[np.integer], ...]:
    return () if less is None else (less,)


def _edge_probability(colors: int, nodes: int) -> tuple[float, float]:
    for first, last, low, high in EDGE_PROBABILITY.get(colors, ()):
        if first <= nodes <= last:
            return low, high
    raise OutgrowError(f"no edge probabilities are known for {colors} colors and {nodes} nodes (the table ends there)")


def _make_coloring(settings: Settings, nodes: int, level: int, rng: Rng) -> Record:
    """A random graph whose chromatic number is proven to be the size, with a coloring, partly masked."""
    budget = Budget(conflicts=settings.conflicts)
    empty = np.zeros(nodes, dtype=np.int16)
    for _ in range(MAX_TRIES["graphs"]):
        if settings.degrees:
            edges, solution = _plant(settings.degrees, settings.size, nodes, rng)
        else:
            edges = sample_graph(nodes, rng.uniform(*_edge_probability(settings.size, nodes)), rng)
            with ExactSolver(coloring.build(edges, empty, settings.size).csp, "glucose4") as solver:
                drawn = rng.integers(1, settings.size + 1, nodes)
                solution = solver.solve(budget=budget, hints=drawn, break_symmetry=True).assignment
        if solution is None:
            continue
        with ExactSolver(coloring.build(edges, empty, settings.size - 1).csp, "glucose4") as solver:
            if solver.solve(budget=budget, break_symmetry=True).status != "unsatisfiable":
                continue
        solution = (rng.permutation(settings.size) + 1).astype(np.int16)[solution - 1]
        given = np.zeros(nodes, dtype=np.bool_)
        given[rng.permutation(nodes)[: nodes - nodes * level // 100]] = True
        return Record(solution, given, edges, {"level": level, "chromatic": settings.size})
    raise OutgrowError(
        f"no graph of {nodes} nodes with chromatic number {settings.size} in {MAX_TRIES['graphs']} tries"
    )


def _plant(
    degrees: tuple[int, int], colors: int, nodes: int, rng: Rng
) -> tuple[npt.NDArray[np.integer], npt.NDArray[np.integer]]:
    """A coloring (V,), and edges (E, 2) between nodes of different colors."""
    solution = rng.integers(1, colors + 1, nodes)
    edges = sample_graph(nodes, 1.0, rng)
    edges = edges[solution[edges[:, 0]] != solution[edges[:, 1]]]
    low, high = np.log(degrees)
    wanted = nodes * np.exp(rng.uniform(low, high)) / 2
    return edges[rng.random(len(edges)) * len(edges) < wanted], solution


def sample_puzzles(
    csp: GroundCSP, count: int, mask: tuple[int, int], *, seed: int = 0, unique: bool = True
) -> Iterator[tuple[npt.NDArray[np.int16], npt.NDArray[np.int16]]]:
    """Puzzles of any ground CSP, one's own included: (givens, solution), both (V,).

    `mask` is the range of masked percentages; `unique` keeps only puzzles with a single solution.
    """
    if not 0 <= mask[0] <= mask[1] <= 100:
        raise ValueError(f"mask {mask[0]}-{mask[1]}: percentages from 0 to 100, the smaller one first")
    settings = Settings("custom", csp.num_values, count, seed, levels=mask, unique="proven" if unique else "free")
    boards = _Boards(csp, settings, np.random.default_rng([seed, 0]))
    with closing(boards):
        for i in range(count):
            record = boards.one(mask[0] + i % (mask[1] - mask[0] + 1))
            yield np.where(record.given, record.solution, 0).astype(np.int16), record.solution.astype(np.int16)
