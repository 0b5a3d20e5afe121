"""What `outgrow solve` promises, measured: every answer right, one call for many, memory, graphs that people publish.

    python benchmarks/solving.py [--json results/solving.json] [--clues sudoku17.txt] [--count N] [memory damaged bulk graphs seventeen]

`damaged`: puzzles of the sets in datasets/ with givens taken away, added and changed at random, of all three tasks and several sizes; each
answer is judged anew, givens included. `bulk`: 9x9 Sudokus in one call of the command against calls of their own. `memory`: the peak of a call with a
25x25 Sudoku. `graphs`: queens' graphs and Mycielski's, as in the DIMACS challenge, made here, with as many colors as they need. `seventeen`: the first
puzzles of a list of 17 clues (`--clues`, not in the tree), a line each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import networkx as nx
import numpy as np

from outgrow import Instance, Solver
from outgrow.data import find_dataset
from outgrow.data.sets import read_clues
from outgrow.errors import OutgrowError
from outgrow.provenance import provenance
from outgrow.puzzles import coloring, sudoku, write_line
from outgrow.writing import write_whole

SETS = (
    *("sudoku-4-test", "sudoku-6-test", "sudoku-9-test", "sudoku-9-hard", "sudoku-12-test"),
    *("futoshiki-6-test", "futoshiki-7-test", "futoshiki-9-test"),
    *("coloring-4-test", "coloring-5-test"),
)
PARTS = ("memory", "damaged", "bulk", "graphs", "seventeen")  # the peak is that of all calls so far


def damage(instance: Instance, rng: np.random.Generator) -> Instance:
    """Other givens: many of them gone, some changed, some added at random."""
    givens = np.array(instance.givens, dtype=np.int16)
    kind = rng.integers(4)
    if kind in (0, 3):  # half-empty
        givens[rng.random(len(givens)) < rng.random()] = 0
    if kind in (1, 3):  # changed
        held = np.flatnonzero(givens)
        if len(held):
            chosen = rng.choice(held, size=int(rng.integers(1, 4)))
            givens[chosen] = rng.integers(1, instance.size + 1, size=len(chosen))
    if kind in (2, 3):  # added, right or wrong
        empty = np.flatnonzero(givens == 0)
        if len(empty):
            chosen = rng.choice(empty, size=int(rng.integers(1, 6)))
            givens[chosen] = rng.integers(1, instance.size + 1, size=len(chosen))
    return replace(instance, givens=givens)


def damaged(count: int) -> dict[str, Any]:
    """Nothing may be called solved that breaks a rule or changes a given."""
    rng = np.random.default_rng(0)
    sets = [find_dataset(name) for name in SETS]
    puzzles = [damage(data[int(rng.integers(len(data)))], rng) for data, _ in zip(itertools.cycle(sets), range(count))]
    found: Counter[str] = Counter()
    wrong = 0
    began = time.monotonic()
    for puzzle, answer in zip(puzzles, Solver().solve_all(puzzles), strict=True):
        found[f"{answer.status}, {answer.source}"] += 1
        if answer.solved:
            values = np.asarray(answer.assignment)
            kept = bool((values[puzzle.givens > 0] == puzzle.givens[puzzle.givens > 0]).all())
            wrong += not (kept and puzzle.judge(values).solved)
    return {"count": count, "answers": dict(found), "wrong": wrong, "seconds": round(time.monotonic() - began, 1)}


def run(arguments: Sequence[str], text: str) -> tuple[float, str]:
    """Seconds of a call of the command with a file of that content, and what it printed."""
    with tempfile.NamedTemporaryFile("w", suffix=".txt") as file:
        file.write(text)
        file.flush()
        began = time.monotonic()
        done = subprocess.run(
            [sys.executable, "-m", "outgrow", *arguments, file.name], check=False, capture_output=True, text=True
        )
        if done.returncode not in (0, 1):
            raise OutgrowError(done.stderr.strip())
        return time.monotonic() - began, done.stdout


def bulk(count: int, calls: int = 20) -> dict[str, Any]:
    """All in one call, and some of them in calls of their own."""
    data = find_dataset("sudoku-9-test")
    lines = [write_line(data[i % len(data)]) for i in range(count)]
    run(["solve", "--json"], lines[0])  # the first call reads files that the others find in memory
    single = [run(["solve", "--json"], line)[0] for line in lines[:calls]]
    together, printed = run(["solve", "--json"], "\n".join(lines))
    solved = [json.loads(line) for line in printed.splitlines()]
    each = sum(single) / len(single)
    return {
        "count": count,
        "solved": sum(line["solved"] for line in solved),
        "neural": sum(line["source"] == "neural" for line in solved),
        "seconds": round(together, 1),
        "single_call_seconds": round(each, 2),
        "calls": calls,
        "share_of_single_calls": round(together / (each * count), 4),
    }


def memory() -> dict[str, Any]:
    """Of a 25x25 board, in a process of its own."""
    data = find_dataset("sudoku-25-test")
    seconds, printed = run(["solve", "--json"], write_line(data[0]))
    line = json.loads(printed)
    peak = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 2**20
    return {
        "solved": line["solved"],
        "source": line["source"],
        "seconds": round(seconds, 1),
        "peak_gib": round(peak, 2),
    }


def queens(rows: int, columns: int) -> nx.Graph[Any]:
    """Squares of a board, joined where a queen goes from one to the other."""
    squares = list(itertools.product(range(rows), range(columns)))
    graph: nx.Graph[Any] = nx.Graph()
    graph.add_nodes_from(range(len(squares)))
    for (i, a), (j, b) in itertools.combinations(enumerate(squares), 2):
        if a[0] == b[0] or a[1] == b[1] or abs(a[0] - b[0]) == abs(a[1] - b[1]):
            graph.add_edge(i, j)
    return graph


def published_graphs() -> Iterator[tuple[str, nx.Graph[Any], int]]:
    """Names as in the DIMACS challenge, and the chromatic number."""
    for rows, columns, colors in ((5, 5, 5), (6, 6, 7), (7, 7, 7), (8, 8, 9), (8, 12, 12)):
        yield f"queen{rows}_{columns}", queens(rows, columns), colors
    for n in (3, 4, 5, 6):
        yield f"myciel{n}", nx.mycielski_graph(n + 1), n + 1


def graphs() -> dict[str, Any]:
    """With as many colors as they need, and one fewer, which is to be proven impossible."""
    found: dict[str, Any] = {}
    solver = Solver()
    for name, graph, colors in published_graphs():
        answer = solver.solve(coloring.from_networkx(graph, colors))
        fewer = solver.solve(coloring.from_networkx(graph, colors - 1))
        found[name] = {
            "nodes": graph.number_of_nodes(),
            "edges": graph.number_of_edges(),
            "colors": colors,
            "status": answer.status,
            "source": answer.source,
            "fewer_colors": fewer.status,
            "seconds": round(answer.seconds + fewer.seconds, 1),
        }
    return found


def seventeen(count: int, clues: Path | None) -> dict[str, Any]:
    """With the exact solver where it is needed."""
    if clues is None:
        return {"skipped": "no --clues"}
    puzzles = [sudoku.from_array(givens.reshape(9, 9)) for _, givens in read_clues(clues, 17)[:count]]
    began = time.monotonic()
    answers = list(Solver().solve_all(puzzles))
    return {
        "count": len(answers),
        "solved": sum(a.solved for a in answers),
        "neural": sum(a.solved and a.source == "neural" for a in answers),
        "seconds": round(time.monotonic() - began, 1),
    }


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"of {', '.join(PARTS)} (all)")
    parser.add_argument("--json", type=Path, help="where to write what was measured")
    parser.add_argument("--clues", type=Path, help="a list of puzzles with 17 clues, a line each; .gz too")
    parser.add_argument("--count", type=int, help="how many puzzles (10,000 damaged, 1,000 else)")
    given = parser.parse_args(arguments)
    parts = given.parts or PARTS
    if set(parts) - set(PARTS):
        parser.error(f"parts are {', '.join(PARTS)}")
    if given.count is not None and given.count < 1:
        parser.error("--count is at least 1")
    began = time.monotonic()
    found: dict[str, Any] = {}
    try:
        for part in parts:
            count = given.count or (10_000 if part == "damaged" else 1_000)
            measures: dict[str, Callable[[], dict[str, Any]]] = {
                "memory": memory,
                "damaged": lambda n=count: damaged(n),
                "bulk": lambda n=count: bulk(n),
                "graphs": graphs,
                "seventeen": lambda n=count: seventeen(n, given.clues),
            }
            found[part] = measures[part]()
            print(part, json.dumps(found[part]), flush=True)
    except (OutgrowError, OSError) as error:
        print(f"outgrow: {error}", file=sys.stderr)
        return 2
    if given.json:
        report = {
            "benchmark": "benchmarks/solving.py",
            **provenance("cpu", seconds=round(time.monotonic() - began, 1)),
            **found,
        }
        write_whole(given.json, [json.dumps(report, indent=1) + "\n"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
