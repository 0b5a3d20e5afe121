"""Boards that nobody here made: Simon Tatham's Solo and Unequal (Debian's sgt-puzzles), solved by the shipped networks alone.

    python benchmarks/published.py [--json results/published.json] [--count 40] [--restarts 31] [solo-3x3db unequal-9de ...]

`benchmarks/tables.py` makes the table of docs/guide/solve.md of what it writes. The program draws other boards each time; the file keeps them.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from outgrow import Solver, parse
from outgrow.errors import OutgrowError
from outgrow.provenance import provenance
from outgrow.writing import write_whole

# Levels of Solo: trivial, basic, intermediate, advanced, extreme; of Unequal: easy, tricky, extreme.
LEVELS = (
    *("solo-3x3db", "solo-3x3da", "solo-3x3de", "solo-3x4db", "solo-3x4da"),
    *("solo-4x4db", "solo-4x4di", "solo-4x4da", "solo-5x5dt"),
    *("unequal-6de", "unequal-6dx", "unequal-9de", "unequal-9dk", "unequal-9dx"),
    *("unequal-12de", "unequal-12dk", "unequal-12dx"),
)


def generate(level: str, count: int) -> str:
    """So many boards as game ids, a line each."""
    game, parameters = level.split("-", 1)
    program = shutil.which(f"sgt-{game}", path=f"{os.environ.get('PATH', '')}{os.pathsep}/usr/games")
    if program is None:
        raise OutgrowError(f"sgt-{game} is not installed; on Debian: apt-get install sgt-puzzles")
    return subprocess.run(
        [program, "--generate", str(count), parameters], check=True, capture_output=True, text=True
    ).stdout


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("levels", nargs="*", metavar="LEVEL", help=f"of {', '.join(LEVELS)}")
    parser.add_argument("--json", type=Path, help="where to write what was measured, and the boards")
    parser.add_argument("--count", type=int, default=40, help="boards of each level (40)")
    parser.add_argument(
        "--restarts",
        type=int,
        default=31,
        help="how often the network starts over at most; unsolved boards use them all (31)",
    )
    given = parser.parse_args(arguments)
    began = time.monotonic()
    found: dict[str, dict[str, Any]] = {}
    try:
        solver = Solver(guarantee=False, restarts=given.restarts)
        for level in given.levels or LEVELS:
            text = generate(level, given.count)
            puzzles = parse(text, source=level)
            start = time.monotonic()
            answers = list(solver.solve_all(puzzles))
            steps = sorted(a.steps for a in answers if a.solved)
            found[level] = {
                "weights": solver.network_for(puzzles[0]).name.split(",")[0],
                "notes": solver.network_for(puzzles[0]).notes,
                "count": len(puzzles),
                "solved": len(steps),
                "median_steps": steps[len(steps) // 2] if steps else None,
                "seconds": round(time.monotonic() - start, 1),
                "boards": text.split(),
            }
            print(level, {k: v for k, v in found[level].items() if k != "boards"}, flush=True)
    except OutgrowError as error:
        print(f"outgrow: {error}", file=sys.stderr)
        return 2
    if given.json:
        report = {
            "benchmark": "benchmarks/published.py",
            "restarts": given.restarts,
            **provenance("cpu", seconds=round(time.monotonic() - began, 1)),
            "levels": found,
        }
        write_whole(given.json, [json.dumps(report, indent=1) + "\n"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
