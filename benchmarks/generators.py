"""Puzzles per second and core of each generator, against its target and, for two of them, a peer in the same run.

The peer digs the same boards the plain way, with OR-Tools CP-SAT: take a given away, ask whether the solution is still the only one.

    python benchmarks/generators.py [--json results/generators.json] [--readme README.md]
"""

from __future__ import annotations

import argparse
import json
import platform
import subprocess
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from ortools.sat.python import cp_model

from outgrow.csp.exact import ExactSolver
from outgrow.data import Record
from outgrow.data.generate import CHUNK, Settings, default_settings, make_chunk
from outgrow.data.sample import sample_solution
from outgrow.puzzles import sudoku

# name, settings, puzzles per second to reach, chunks to measure
CASES: list[tuple[str, Settings, float, int]] = [
    ("Sudoku 9, minimal", default_settings("sudoku", 9, 10**6, style="minimal"), 200, 5),
    ("Sudoku 9, 22-34 givens", default_settings("sudoku", 9, 10**6), 0, 3),
    ("Sudoku 16, 30-58% masked, unique", default_settings("sudoku", 16, 10**6), 50, 3),
    ("Sudoku 25, 50% masked, unique", default_settings("sudoku", 25, 10**6, levels=(50, 50)), 4, 1),
    ("Futoshiki 6, 30-70% masked", default_settings("futoshiki", 6, 10**6), 0, 5),
    ("Futoshiki 9, 30-65% masked", default_settings("futoshiki", 9, 10**6, levels=(30, 65)), 100, 4),
    ("Futoshiki 12, 30-65% masked", default_settings("futoshiki", 12, 10**6), 20, 2),
    ("Coloring 4, 40-100 nodes", default_settings("coloring", 4, 10**6, nodes=(40, 100)), 0, 3),
    ("Coloring 5, 40-100 nodes", default_settings("coloring", 5, 10**6, nodes=(40, 100)), 20, 3),
]


def measure(settings: Settings, chunks: int) -> tuple[float, int]:
    """Puzzles per second of processor time (the better of two runs: other work on the machine only slows), and how many were certified."""
    seconds = float("inf")
    records: list[Record] = []
    for _ in range(2):
        start = time.process_time()
        records = [record for i in range(chunks) for record in make_chunk(settings, i)]
        seconds = min(seconds, time.process_time() - start)
    certified = sum(bool(r.flags.get("unique", r.flags.get("chromatic", 0))) for r in records)
    return len(records) / seconds, certified


def measure_peer(size: int, target: int, boards: int) -> float:
    """The same task by CP-SAT on one thread: dig in random order until `target` givens are left or none can go."""
    rng = np.random.default_rng(0)
    rows, columns = sudoku.box_shape(size) or (1, size)
    csp = sudoku.build(rows, columns, np.zeros(size * size, dtype=np.int16)).csp
    with ExactSolver(csp, "glucose4") as sampler:
        solutions = [sample_solution(sampler, rng) for _ in range(boards)]
    start = time.process_time()
    for solution in solutions:
        assert solution is not None
        kept = np.ones(len(solution), dtype=bool)
        for i in rng.permutation(len(solution)).tolist():
            if kept.sum() <= target:
                break
            kept[i] = False
            if not _only_solution(csp, solution, kept):
                kept[i] = True
    return boards / (time.process_time() - start)


def _only_solution(csp: sudoku.GroundCSP, solution: np.ndarray, kept: np.ndarray) -> bool:
    model = cp_model.CpModel()
    cells = [
        model.new_int_var(int(v), int(v), "") if k else model.new_int_var(1, csp.num_values, "")
        for v, k in zip(solution, kept, strict=True)
    ]
    for groups in csp.groups.values():
        for group in groups:
            model.add_all_different([cells[i] for i in group])
    free = np.flatnonzero(~kept).tolist()
    differs = []
    for i in free:
        literal = model.new_bool_var("")
        model.add(cells[i] != int(solution[i])).only_enforce_if(literal)
        differs.append(literal)
    model.add_bool_or(differs)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver.solve(model) == cp_model.INFEASIBLE


def processor() -> str:
    """Its name where the system tells (Linux), else its kind."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())


def write_table(readme: Path, figures: list[dict[str, Any]]) -> None:
    """The README's table, between its two marks."""
    rows = ["| generator | puzzles per second and core | to reach |", "|---|---|---|"]
    rows += [f"| {f['generator']} | {f['puzzles_per_second_and_core']:.0f} | {f['to_reach'] or '-'} |" for f in figures]
    start, end = "<!-- generators -->", "<!-- /generators -->"
    before, rest = readme.read_text().split(start)
    readme.write_text(f"{before}{start}\n" + "\n".join(rows) + f"\n{end}{rest.split(end)[1]}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--readme", type=Path, help="rewrite the table in this file")
    arguments = parser.parse_args()
    started = time.monotonic()
    figures: list[dict[str, Any]] = []
    print(f"{'generator':36} {'per second':>10} {'to reach':>9} {'certified':>10}")
    for name, settings, target, chunks in CASES:
        rate, certified = measure(settings, chunks)
        verdict = "" if not target else "  ok" if rate >= target else "  BELOW"
        print(f"{name:36} {rate:10.1f} {target or '-':>9} {certified:6}/{chunks * CHUNK}{verdict}", flush=True)
        figures.append(
            {
                "generator": name,
                "puzzles_per_second_and_core": round(rate, 1),
                "to_reach": target or None,
                "puzzles": chunks * CHUNK,
                "certified": certified,
                "settings": settings.as_json(),
            }
        )
    rates = {f["generator"]: f["puzzles_per_second_and_core"] for f in figures}
    peers = []
    for name, size, target, boards in (
        ("Sudoku 9, minimal", 9, 0, 4),
        ("Sudoku 16, 30-58% masked, unique", 16, 143, 1),
    ):
        peer = measure_peer(size, target, boards)
        ratio = rates[name] / peer
        print(f"{name}: {ratio:.0f} times CP-SAT digging one given at a time ({peer:.2f} per second)", flush=True)
        peers.append(
            {
                "generator": name,
                "peer": "OR-Tools CP-SAT, one given at a time",
                "per_second": round(peer, 3),
                "ratio": round(ratio, 1),
            }
        )
    if arguments.readme:
        write_table(arguments.readme, figures)
    if arguments.json:
        commit = subprocess.run(
            ["git", "rev-parse", "HEAD"], capture_output=True, text=True, check=False
        ).stdout.strip()
        report = {
            "benchmark": "benchmarks/generators.py",
            "date": date.today().isoformat(),
            "commit": commit,
            "hardware": f"{processor()}, one core, Python {platform.python_version()}",
            "seconds": round(time.monotonic() - started),
            "figures": figures,
            "peers": peers,
        }
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")


if __name__ == "__main__":
    main()
