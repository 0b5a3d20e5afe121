"""`outgrow export`."""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from outgrow.cli.inputs import write_whole
from outgrow.data import Dataset, find_dataset
from outgrow.puzzles import render, write_line

_FORMATS = ("csv", "jsonl")


@click.command("export")
@click.argument("dataset")
@click.option("--to", "format", type=click.Choice(_FORMATS), help="What to write  [by the name of the file, else csv]")
@click.option("--limit", type=click.IntRange(1), help="The first so many puzzles  [all]")
@click.option("--out", metavar="FILE", help="Write to this file, whole or not at all.")
def command(dataset: str, format: str | None, limit: int | None, out: str | None) -> None:
    """Write the solved puzzles of DATASET, a name (see `outgrow data list`) or an .npz file, for other programs.

    CSV has a line a puzzle: its number, kind and size, the puzzle and its solution as text, and its flags. A solution is written as the puzzle is where
    that is a line of symbols, else as values with spaces between. JSON lines hold the puzzle in its JSON form, which every command reads, and the
    solution as its "assignment".

    \b
    Examples:
      outgrow export sudoku-9-test --out sudoku.csv
      outgrow export futoshiki-6-valid --to jsonl --limit 100
      outgrow export mine.npz --out mine.jsonl
    """
    data = find_dataset(dataset)
    chosen = format or ("jsonl" if out is not None and Path(out).suffix in (".jsonl", ".json") else "csv")
    count = min(len(data), limit or len(data))
    from outgrow.cli.terminal import track

    with track("Exporting", count, beside_output=out in (None, "-")) as advance:
        lines = _csv(data, count) if chosen == "csv" else _jsonl(data, count)
        text = io.StringIO()
        for done, line in enumerate(lines):
            text.write(line)
            advance(done)
    if out in (None, "-"):
        sys.stdout.write(text.getvalue())
    else:
        write_whole(out, text.getvalue())


def _csv(data: Dataset, count: int) -> Iterator[str]:
    flags = sorted(data.flags)
    yield _row(["number", "puzzle", "size", "givens", "solution", *flags])
    for i in range(count):
        puzzle, solution = data[i], data.solution(i)
        solved = write_line(puzzle, solution)
        if len(solved) != len(solution):  # not a symbol each
            solved = " ".join(map(str, solution.tolist()))
        values = [str(int(data.flags[flag][i])) for flag in flags]
        yield _row([str(i + 1), puzzle.puzzle, str(puzzle.size), write_line(puzzle), solved, *values])


def _row(cells: list[str]) -> str:
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerow(cells)
    return text.getvalue()


def _jsonl(data: Dataset, count: int) -> Iterator[str]:
    for i in range(count):
        form = json.loads(render(data[i], format="json"))
        flags = {name: int(values[i]) for name, values in sorted(data.flags.items())}
        yield (
            json.dumps({**form, "assignment": data.solution(i).tolist(), **({"flags": flags} if flags else {})}) + "\n"
        )
