"""How hard puzzles are, without a network: after how many rounds of probing each is solved (`outgrow.csp.probing`).

    python benchmarks/probing.py [--json results/probing.json] [--count 300]

`benchmarks/tables.py` makes the table of docs/guide/grouped.md of what it writes.
"""

from __future__ import annotations

import argparse
import json
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from outgrow.csp.probing import Prober
from outgrow.data import find_dataset
from outgrow.provenance import provenance
from outgrow.writing import write_whole

SETS = (
    # Learnt from.
    "sudoku-6-search-train",
    "sudoku-8-train",
    "sudoku-9-minimal-train",
    "futoshiki-5-train",
    "futoshiki-6-minimal-train",
    # Made to be learnt from.
    "sudoku-9-deep-train",
    "futoshiki-6-search-train",
    # Solved.
    "sudoku-9-hard",
    "sudoku-12-hard",
    "sudoku-16-test",
    "sudoku-16-hard",
    "sudoku-25-test",
    "futoshiki-9-test",
    "futoshiki-9-hard",
    "futoshiki-12-test",
    "futoshiki-15-test",
)


def count_rounds(name: str, count: int) -> Counter[int | None]:
    """Of so many puzzles of a set, spread evenly over it, how many take each number of rounds; None for those that probing does not solve."""
    data = find_dataset(name)
    found: Counter[int | None] = Counter()
    for index in np.unique(np.linspace(0, len(data) - 1, count).astype(int)).tolist():
        puzzle = data[index]
        with Prober(puzzle.csp) as prober:
            found[prober.count_rounds(puzzle.givens)] += 1
    return found


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="where to write all counts")
    parser.add_argument("--count", type=int, default=300, help="puzzles of each set (300)")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    sets: dict[str, dict[str, int]] = {}
    for name in SETS:
        found = count_rounds(name, given.count)
        keys = sorted(found, key=lambda r: (r is None, r or 0))
        sets[name] = {"never" if key is None else str(key): found[key] for key in keys}
        print(name, sets[name], flush=True)
    if given.json:
        report: dict[str, Any] = {
            "benchmark": "benchmarks/probing.py",
            **provenance("cpu", seconds=round(time.monotonic() - began, 1)),
            "sets": sets,
        }
        write_whole(given.json, [json.dumps(report, indent=1) + "\n"])


if __name__ == "__main__":
    main()
