"""What benchmarks/engine.py measures: models, puzzles, modes and ways, what matters most first. Nothing here needs torch."""

from __future__ import annotations

import fnmatch
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from outgrow.errors import OutgrowError

FULL = "out of memory"
MODES = ("train", "infer")
PEERS = ("pyg-bf16", "pyg-fp32")


@dataclass(frozen=True)
class Way:
    """How something is computed: by the peer or an engine, 'auto' being that in blocks on a CPU; in half precision, compiled, recorded as a CUDA graph, these on a
    GPU alone."""

    peer: bool = False
    engine: Literal["reference", "fused", "auto"] = "reference"
    half: bool = True
    compiled: bool = False
    recorded: bool = False


WAYS = {
    "pyg-bf16": Way(peer=True),
    "pyg-fp32": Way(peer=True, half=False),
    "reference": Way(),
    "compiled": Way(compiled=True),
    "compiled-recorded": Way(compiled=True, recorded=True),
    "fused": Way(engine="fused", recorded=True),
    "fused-fp32": Way(engine="fused", half=False, recorded=True),
    "compiled-fp32": Way(compiled=True, half=False),
    "blocks": Way(engine="auto", half=False),
}
# The later rounds of a target come as late as the first one of a target some places behind.
ROUNDS = (
    ("train", ("pyg-bf16", "fused")),
    ("infer", ("pyg-bf16", "fused")),
    ("train", ("pyg-fp32", "reference")),
    ("infer", ("pyg-fp32", "reference")),
    ("train", ("compiled",)),
    ("infer", ("compiled", "fused-fp32")),
    ("train", ("compiled-recorded",)),
)
PLACES = 4
TARGETS = (
    "binarized-sudoku-9",
    "binarized-sudoku-24@8",
    "multivalued-sudoku-9",
    "binarized-sudoku-24",
    "grouped-sudoku-9",
    "binarized-sudoku-16",
    "binarized-futoshiki-6",
    "binarized-coloring-4",
    "multivalued-sudoku-24",
    "grouped-sudoku-24",
    "multivalued-sudoku-16",
    "grouped-sudoku-16",
    "binarized-futoshiki-12",
    "binarized-coloring-7",
    "multivalued-futoshiki-6",
    "multivalued-coloring-4",
    "grouped-futoshiki-6",
    "grouped-coloring-4",
    "multivalued-futoshiki-12",
    "multivalued-coloring-7",
    "grouped-futoshiki-12",
    "grouped-coloring-7",
)
CPU_TARGETS = [
    f"{model}-{puzzle}"
    for puzzle in ("sudoku-9", "sudoku-16", "sudoku-25", "futoshiki-6", "futoshiki-12", "coloring-4", "coloring-7")
    for model in ("grouped", "multivalued", "binarized")
]
CPU_WAYS = ("blocks", "pyg-fp32", "reference")
CHECKED = (
    "binarized-sudoku-9",
    "binarized-futoshiki-6",
    "binarized-coloring-4",
    "multivalued-sudoku-9",
    "multivalued-futoshiki-6",
    "grouped-sudoku-9",
    "grouped-futoshiki-6",
    "grouped-coloring-4",
)


@dataclass(frozen=True)
class Case:
    """One measurement: a target (model, puzzle and size), 'train', 'infer' or 'check', one of WAYS, a fixed batch (0: the best one)."""

    target: str
    mode: str
    way: str = ""
    fixed: int = 0

    @property
    def name(self) -> str:
        return " ".join(filter(None, (self.target + (f"@{self.fixed}" if self.fixed else ""), self.mode, self.way)))

    @property
    def parts(self) -> tuple[str, str, int]:
        """Model, puzzle, size."""
        model, puzzle, size = self.target.split("-")
        return model, puzzle, int(size)


CARD = Case("card", "peak")


@dataclass(frozen=True)
class How:
    """What all cases share. `least` seconds of runs are timed; `since` is when the process was started; `start` is the first batch (0: a guess).

    `width` and `steps` are the recipe's where they are 0; `nodes` are those of a graph to color.
    """

    device: str = "cuda"
    threads: int = 2
    least: float = 1.0
    since: float = 0.0
    start: int = 0
    width: int = 0
    steps: int = 0
    nodes: int = 100


def plan(device: str) -> list[Case]:
    """All cases, in their order."""
    if device == "cpu":
        cases = [Case(target, "infer", way, 1) for target in CPU_TARGETS for way in CPU_WAYS]
        # Compiled, where the start counts most.
        return [CARD, *cases, *(Case(target, "infer", "compiled-fp32", 1) for target in CPU_TARGETS[:3])]
    found = [(0, CARD)]
    for at, name in enumerate(TARGETS):
        target, _, fixed = name.partition("@")
        for turn, (mode, ways) in enumerate(ROUNDS[:1] if fixed else ROUNDS):
            found += [(at + PLACES * turn, Case(target, mode, way, int(fixed or 0))) for way in ways]
    return [case for _, case in sorted(found, key=lambda pair: pair[0])]


def choose(cases: Sequence[Case], names: Sequence[str], modes: Sequence[str], ways: Sequence[str]) -> list[Case]:
    """Those named, in the order of the cases, and the card; '@N' behind a name gives its cases that batch."""
    found: dict[Case, int] = {}
    for name in names or ("*",):
        pattern, at, fixed = name.partition("@")
        matching = [(place, c) for place, c in enumerate(cases) if fnmatch.fnmatchcase(c.target, pattern)]
        if not matching:
            raise OutgrowError(f"{name}: no such case; --list names them")
        if at and not (fixed.isdigit() and int(fixed)):
            raise OutgrowError(f"{name}: behind @ comes a batch size")
        for place, case in matching:
            if case.mode in (modes or (case.mode,)) and case.way in (ways or (case.way,)) and case != CARD:
                found.setdefault(replace(case, fixed=int(fixed)) if at else case, place)
    return [case for case in cases if case == CARD] + sorted(found, key=lambda case: found[case])
