"""Re-check every claim of a manifest from the puzzles themselves: nothing in a dataset file is taken on trust."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from outgrow.csp import find_singles
from outgrow.csp.chains import Chains
from outgrow.csp.exact import Budget, ExactSolver
from outgrow.csp.probing import Prober
from outgrow.data.file import Dataset, Record, load_dataset
from outgrow.data.generate import NEVER
from outgrow.data.sample import fold_of
from outgrow.data.sets import SETS
from outgrow.data.workers import run_tasks
from outgrow.errors import DamagedFile
from outgrow.puzzles import Instance, coloring, futoshiki, get_puzzle, sudoku

__all__ = ["Checked", "check_shared", "verify_set"]

_CHUNK = 100
_BUDGET = Budget(conflicts=5_000_000)


@dataclass(frozen=True)
class Checked:
    """The outcome for one set: what is wrong (nothing, if it is as claimed) and what was counted on the way."""

    name: str
    problems: tuple[str, ...]
    facts: dict[str, int]
    digests: frozenset[bytes]  # one for each solution, to find those two sets share

    @property
    def ok(self) -> bool:
        return not self.problems


def verify_set(
    name: str,
    claims: dict[str, Any],
    folder: Path,
    *,
    jobs: int = 1,
    quick: bool = False,
    progress: Callable[[int], None] = lambda _: None,
) -> Checked:
    """Checks one set of a manifest; `quick` leaves out what needs the exact solver."""
    path = folder / str(claims.get("file", ""))
    try:
        dataset = load_dataset(path)
    except DamagedFile as error:
        return Checked(name, (str(error),), {}, frozenset())
    problems = list(_check_header(name, dataset, claims, path))
    problems += _check_levels(dataset, claims.get("settings", {}))
    problems += _check_fold(dataset, claims.get("settings", {}))
    if claims.get("settings", {}).get("search") and dataset.flags.get("singles", np.ones(1)).any():
        problems.append("singles solve some of them")
    if not quick:
        done = 0
        starts = range(0, len(dataset), _CHUNK)
        tasks = [(path, start, min(start + _CHUNK, len(dataset)), claims.get("settings", {})) for start in starts]
        for found, count in run_tasks(_check_chunk, tasks, jobs):
            problems += found
            done += count
            progress(done)
    facts = {
        flag: int((values > 0).sum())
        for flag, values in dataset.flags.items()
        if flag in ("unique", "minimal", "singles")
    }
    if dataset.puzzle == "coloring" and "chromatic" in dataset.flags:
        facts["chromatic"] = int((dataset.flags["chromatic"] == dataset.size).sum())
    digests = frozenset(
        hashlib.sha256(
            r.solution.tobytes() + r.pairs.tobytes() if dataset.puzzle == "coloring" else r.solution.tobytes()
        ).digest()
        for r in map(dataset.record, range(len(dataset)))
    )
    return Checked(name, tuple(problems), facts, digests)


def check_shared(checked: list[Checked], claims: dict[str, dict[str, Any]]) -> list[str]:
    """Solutions that stand in two sets of one puzzle and size, where both are there to train or to judge."""
    problems: list[str] = []
    for i, left in enumerate(checked):
        for right in checked[i + 1 :]:
            a, b = claims[left.name], claims[right.name]
            if (a["puzzle"], a["size"]) == (b["puzzle"], b["size"]) and a["role"] != b["role"]:
                shared = len(left.digests & right.digests)
                if shared:
                    problems.append(f"{left.name} and {right.name} share {shared} solutions")
    return problems


def _check_header(name: str, dataset: Dataset, claims: dict[str, Any], path: Path) -> Iterator[str]:
    if dataset.sha256 != claims.get("sha256"):
        yield "its sha256 is not the manifest's"
    for key, found in (("puzzle", dataset.puzzle), ("size", dataset.size), ("count", len(dataset))):
        if claims.get(key) != found:
            yield f"{key} is {found}, the manifest says {claims.get(key)}"
    if dict(dataset.settings) != claims.get("settings"):
        yield "its settings are not the manifest's"
    if list(dataset.shape) != claims.get("settings", {}).get("box", list(dataset.shape)):
        yield f"its shape is {dataset.shape}, the manifest says boxes of {claims['settings']['box']}"
    # A file made elsewhere may be compressed by another zlib; its content is what the sha256 speaks of.
    if claims.get("in_tree", True) and claims.get("bytes") != path.stat().st_size:
        yield f"the file has {path.stat().st_size} bytes, the manifest says {claims.get('bytes')}"
    role = SETS[name].role if name in SETS else name.rsplit("-", 1)[-1]
    if claims.get("role") != role:
        yield f"its role is {role}, the manifest says {claims.get('role')}"
    if len(dataset) == 0:
        yield "it is empty"


def _check_levels(dataset: Dataset, settings: dict[str, Any]) -> Iterator[str]:
    """Masks: every level of the range equally often, and each puzzle at its level."""
    style = settings.get("style", "extra")
    given = dataset.num_given
    if style not in ("minimal", "chained"):
        low, high = settings.get("levels", settings.get("givens", (0, 0)))
        levels = dataset.flags.get("level")
        if levels is None:
            yield "no mask levels are recorded"
            return
        if style == "masked":
            expected = dataset.num_variables - dataset.num_variables * levels.astype(np.int64) // 100
        else:
            expected = levels
        if (given != expected).any():
            yield f"{int((given != expected).sum())} puzzles do not have the givens of their level"
        count = Counter(levels.tolist())
        if set(count) - set(range(low, high + 1)) or (len(dataset) > high - low and len(count) != high - low + 1):
            yield f"levels {min(count)}-{max(count)}, the manifest says {low}-{high}"
        if max(count.values()) - min(count.values()) > 1:
            yield "the levels are not spread evenly"
    if "nodes" in settings:
        low, high = settings["nodes"]
        nodes = Counter(dataset.num_variables.tolist())
        if min(nodes) < low or max(nodes) > high or max(nodes.values()) - min(nodes.values()) > 1:
            yield f"numbers of nodes are not spread evenly over {low}-{high}"


def _check_fold(dataset: Dataset, settings: dict[str, Any]) -> Iterator[str]:
    """Folds: every solved board belongs to them, and no puzzle occurs twice."""
    if "fold" not in settings:
        return
    first, last, of = settings["fold"]
    records = [dataset.record(i) for i in range(len(dataset))]
    outside = sum(not first <= fold_of(r.solution, of) <= last for r in records)
    if outside:
        yield f"{outside} solutions are not of folds {first}-{last} of {of}"
    repeated = len(records) - len({np.where(r.given, r.solution, 0).tobytes() for r in records})
    if repeated:
        yield f"{repeated} puzzles occur again"


_load = cache(load_dataset)


def _check_chunk(task: tuple[Path, int, int, dict[str, Any]]) -> tuple[list[str], int]:
    path, start, stop, settings = task
    dataset = _load(path)
    with ExitStack() as stack:
        check = _Checker(dataset, settings, stack)
        problems = [f"puzzle {i}: {problem}" for i in range(start, stop) for problem in check(dataset.record(i), i)]
    return problems, stop - start


class _Checker:
    """Checks records one by one with solvers that are made once."""

    def __init__(self, dataset: Dataset, settings: dict[str, Any], stack: ExitStack) -> None:
        self.dataset = dataset
        self.settings = settings
        self.solver = self.singles = self.chains = None
        empty = np.zeros(dataset.size**2, dtype=np.int16)
        if dataset.puzzle == "sudoku":
            csp, signs = sudoku.build(dataset.shape[0], dataset.shape[1], empty).csp, None
        elif dataset.puzzle == "futoshiki":
            csp = futoshiki.build(dataset.size, np.zeros((0, 2), dtype=np.int64), empty).csp
            signs = futoshiki.adjacent_pairs(dataset.size)
        else:
            return
        if settings.get("style") == "chained":
            self.chains = stack.enter_context(closing(Chains(csp, signs, "lt")))
        self.solver = stack.enter_context(ExactSolver(csp))
        self.singles = stack.enter_context(ExactSolver(csp))

    def __call__(self, record: Record, index: int) -> Iterator[str]:
        instance = self.dataset.instance(index)
        solution = record.solution.astype(np.int16)
        if not instance.judge(solution).solved:
            yield "its solution breaks a rule"
            return
        size, chained = self.dataset.size, self.settings.get("style") == "chained"
        low, high = self.settings.get("signs") or (2 * size,) * 2
        if chained:  # signs are dug away as givens are
            low, high = 0, self.settings.get("signs", (0, 2 * size * (size - 1)))[1]
        if self.dataset.puzzle == "futoshiki" and not low <= len(record.pairs) <= high:
            yield f"{len(record.pairs)} signs, not {low if low == high else f'{low} to {high}'}"
        if self.dataset.puzzle == "coloring" and record.flags.get("chromatic") != self.dataset.size:
            yield "no chromatic number is recorded"
        if "chromatic" in record.flags:
            fewer = coloring.build(record.pairs, np.zeros(len(solution), dtype=np.int16), self.dataset.size - 1)
            with ExactSolver(fewer.csp) as solver:
                if solver.solve(break_symmetry=True, budget=_BUDGET).status != "unsatisfiable":
                    yield f"not proven to need {self.dataset.size} colors"
        if (
            self.settings.get("unique", "proven") == "proven"
            and self.dataset.puzzle != "coloring"
            and not record.flags.get("unique")
        ):
            yield "not recorded as unique"
        if self.settings.get("style") == "minimal" and not record.flags.get("minimal"):
            yield "not recorded as minimal"
        if self.solver is not None and (record.flags.get("unique") or record.flags.get("minimal")):
            yield from self._check_unique(self.solver, record, solution)
        if "singles" in record.flags and self.singles is not None:
            signs = len(record.pairs)
            found = find_singles(instance.csp, instance.givens) if signs else self.singles.propagate(instance.givens)
            if int(found is not None and bool((found > 0).all())) != record.flags["singles"]:
                yield "graded wrongly: whether singles suffice"
        if self.chains is not None:
            yield from self._check_chain(self.chains, record, solution)
        if "rounds" in self.settings or "rounds" in record.flags:
            yield from self._check_rounds(instance, record)

    def _check_chain(self, chains: Chains, record: Record, solution: np.ndarray) -> Iterator[str]:
        clues = chains.clues(solution, record.pairs)
        kept = [clue for clue, given in zip(clues, record.given, strict=False) if given] + clues[len(solution) :]
        if not chains.solves(kept):
            yield "singles do not solve it"
        for clue in kept:
            if chains.solves([other for other in kept if other != clue]):
                yield "singles solve it with a clue less"
                break

    def _check_rounds(self, instance: Instance, record: Record) -> Iterator[str]:
        with Prober(instance.csp) as prober:
            found = prober.count_rounds(instance.givens)
        rounds = NEVER if found is None else found
        if record.flags.get("rounds") != rounds:
            yield "graded wrongly: how many rounds of probing it takes"
        if rounds < self.settings.get("rounds", 0):
            yield f"takes {rounds} rounds of probing, not {self.settings['rounds']}"

    def _check_unique(self, solver: ExactSolver, record: Record, solution: np.ndarray) -> Iterator[str]:
        switch = solver.new_switch()
        if len(record.pairs):
            solver.constrain("lt", record.pairs, switch)
        solver.exclude(solution, switch)
        solver.prefer(solution)
        literals = solver.literals(solution)
        given = np.flatnonzero(record.given).tolist()
        other = solver.find_other(literals, [switch, *(literals[i] for i in given)], _BUDGET)
        if other is not False:
            yield "uniqueness could not be proven" if other is None else "has more than one solution"
        if record.flags.get("minimal"):
            for spared in given:
                kept = [literals[i] for i in given if i != spared]
                if not solver.find_other(literals, [switch, *kept], _BUDGET):
                    yield f"not minimal: {get_puzzle(self.dataset.puzzle).name_variable(self.dataset[0], spared)} can be spared"
                    break
        solver.retire(switch)
