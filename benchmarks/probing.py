"""How hard puzzles are, without a network: after how many rounds of probing each is solved (`outgrow.csp.probing`).

python benchmarks/probing.py [--json results/probing.json] [--doc docs/guide/grouped.md] [--count 100]
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

SETS = {
    "learnt from": (
        "sudoku-6-search-train",
        "sudoku-8-train",
        "sudoku-9-minimal-train",
        "futoshiki-5-train",
        "futoshiki-6-minimal-train",
    ),
    "might be learnt from": ("sudoku-9-deep-train", "futoshiki-6-search-train"),
    "solved": (
        "sudoku-9-hard",
        "sudoku-12-hard",
        "sudoku-16-test",
        "sudoku-16-hard",
        "sudoku-25-test",
        "futoshiki-9-test",
        "futoshiki-9-hard",
        "futoshiki-12-test",
        "futoshiki-15-test",
    ),
}
# The columns of the table: the first and the last number of rounds.
COLUMNS = {"0": (0, 0), "1": (1, 1), "2": (2, 2), "3-5": (3, 5), "6 and more": (6, 10**9)}


def count_rounds(name: str, count: int) -> Counter[int | None]:
    """Of so many puzzles of a set, spread evenly over it, how many take each number of rounds; None for those that probing does not solve."""
    data = find_dataset(name)
    found: Counter[int | None] = Counter()
    for index in np.unique(np.linspace(0, len(data) - 1, count).astype(int)).tolist():
        puzzle = data[index]
        with Prober(puzzle.csp) as prober:
            found[prober.count_rounds(puzzle.givens)] += 1
    return found


def render(sets: dict[str, dict[str, int]]) -> str:
    """The table for a Markdown file, as percentages."""
    lines = [f"| set | {' | '.join(COLUMNS)} | never |\n", "|---" * (len(COLUMNS) + 2) + "|\n"]
    for name, rounds in sets.items():
        total = sum(rounds.values())
        counts = [
            sum(n for key, n in rounds.items() if key != "never" and low <= int(key) <= high)
            for low, high in COLUMNS.values()
        ]
        shares = [f"{100 * n / total:.0f}" if n else "-" for n in (*counts, rounds.get("never", 0))]
        lines.append(f"| `{name}` | {' | '.join(shares)} |\n")
    return "".join(lines)


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--json", type=Path, help="where to write all counts")
    parser.add_argument("--doc", type=Path, help="where to put the table, between <!-- probing --> marks")
    parser.add_argument("--count", type=int, default=100, help="puzzles of each set (100)")
    given = parser.parse_args(arguments)
    began = time.monotonic()
    sets: dict[str, dict[str, int]] = {}
    for names in SETS.values():
        for name in names:
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
    if given.doc:
        before, mark, rest = given.doc.read_text().partition("<!-- probing -->\n")
        _, end, after = rest.partition("<!-- /probing -->")
        if not (mark and end):
            raise SystemExit(f"{given.doc}: no marks <!-- probing --> and <!-- /probing --> to write between")
        write_whole(given.doc, [before + mark + render(sets) + end + after])


if __name__ == "__main__":
    main()
