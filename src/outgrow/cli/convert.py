"""`outgrow convert`."""

from __future__ import annotations

import sys
from typing import Any

import click

from outgrow.cli.inputs import load, print_notes, puzzle_options, refuse_conflicts, write_whole
from outgrow.puzzles import PUZZLES, render

_FORMATS = sorted({f.name for p in PUZZLES.values() for f in p.formats})


@click.command("convert")
@click.argument("file")
@click.option("--to", "format", type=click.Choice(_FORMATS), help="The format to write  [default: the puzzle's own]")
@click.option("--json", "as_json", is_flag=True, help="The same as --to json.")
@click.option("--out", type=click.Path(dir_okay=False), help="Write to this file, whole or not at all.")
@puzzle_options
def command(file: str, format: str | None, as_json: bool, out: str | None, **options: Any) -> None:
    """Rewrite the puzzles in FILE ('-' reads standard input) in another format.

    \b
    Sudoku:    line, ints, grid, json, sgt (Simon Tatham's Solo)
    Futoshiki: grid, json, sgt (Simon Tatham's Unequal)
    Coloring:  col (DIMACS), json

    \b
    Examples:
      outgrow convert puzzle.txt --to grid
      outgrow convert datasets/sudoku-16-test.npz --to sgt --out boards.txt
    """
    instances = load(file, **options)
    print_notes(instances)
    refuse_conflicts(instances)
    chosen = "json" if as_json else format
    texts = [render(instance, format=chosen) for instance in instances]
    # Drawings take several lines: an empty one between them.
    text = ("\n\n" if any("\n" in t for t in texts) else "\n").join(texts) + "\n"
    if out:
        write_whole(out, text)
    else:
        sys.stdout.write(text)
