"""`outgrow generate`."""

from __future__ import annotations

import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from outgrow.cli.inputs import BOX, RANGE, write_whole
from outgrow.errors import OutgrowError
from outgrow.puzzles import PUZZLES, render


@click.command("generate")
@click.argument("puzzle", type=click.Choice(list(PUZZLES)))
@click.option("--size", type=click.IntRange(2), required=True, help="The number of values.")
@click.option("--count", type=click.IntRange(1), default=1, show_default=True, help="How many puzzles.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="The same seed, the same puzzles.")
@click.option("--mask", type=RANGE, help="Percentage of variables to leave open, as 30-50.")
@click.option(
    "--givens", type=RANGE, help="Minimal puzzles plus random givens, up to a number in this range, as 22-34."
)
@click.option("--minimal", is_flag=True, help="Dig until no given can be spared.")
@click.option(
    "--chained",
    is_flag=True,
    help="Sudokus and Futoshikis that singles solve, and would not with a given or a sign less.",
)
@click.option("--search", is_flag=True, help="Minimal Sudokus and Futoshikis that singles do not solve.")
@click.option(
    "--rounds",
    type=click.IntRange(1),
    metavar="N",
    help="Minimal Sudokus and Futoshikis that take N rounds of probing or more: very hard ones.",
)
@click.option("--any-solution", is_flag=True, help="Do not ask for a unique solution.")
@click.option("--box", type=BOX, help="Sudoku: box rows x columns.")
@click.option("--nodes", type=RANGE, help="Coloring: the number of nodes, as 40-100.")
@click.option(
    "--degrees",
    type=RANGE,
    help="Coloring: draw the coloring first, then so many edges to a node, on average; as 8-40.",
)
@click.option("--signs", type=RANGE, help="Futoshiki: the number of signs, as 0-12.  [default: twice the size]")
@click.option(
    "--jobs", type=click.IntRange(1), default=1, show_default=True, help="Processes; they do not change the result."
)
@click.option(
    "--out", type=click.Path(dir_okay=False), help="Write here: a dataset file if it ends in .npz, else text."
)
@click.option("--force", is_flag=True, help="Replace the file if it exists.")
@click.option("--format", "format", help="Format of the text  [default: line, else json]")
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Text as JSON lines, with the solution; for a dataset file, what was written.",
)
def command(
    puzzle: str,
    size: int,
    count: int,
    seed: int,
    mask: tuple[int, int] | None,
    givens: tuple[int, int] | None,
    minimal: bool,
    chained: bool,
    search: bool,
    rounds: int | None,
    any_solution: bool,
    box: tuple[int, int] | None,
    nodes: tuple[int, int] | None,
    degrees: tuple[int, int] | None,
    signs: tuple[int, int] | None,
    jobs: int,
    out: str | None,
    force: bool,
    format: str | None,
    as_json: bool,
) -> None:
    """Make puzzles with certified solutions, by the protocol of the paper.

    Sudoku and Futoshiki have a proven unique solution; graphs have a proven chromatic number. An interrupted run with an .npz file
    goes on where it stopped when it is started again.

    \b
    Examples:
      outgrow generate sudoku --size 16 --count 3
      outgrow generate sudoku --size 9 --minimal --count 1000 --out hard.npz --jobs 2
      outgrow generate sudoku --size 9 --search --format grid
      outgrow generate sudoku --size 9 --rounds 2 --count 25
      outgrow generate futoshiki --size 9 --mask 40-60 --format grid
      outgrow generate futoshiki --size 6 --minimal --signs 0-4
      outgrow generate futoshiki --size 9 --chained --format grid
      outgrow generate coloring --size 5 --nodes 40-80 --json
      outgrow generate coloring --size 4 --nodes 20-60 --degrees 8-40 --json
    """
    from outgrow.cli.terminal import track
    from outgrow.data.generate import default_settings, generate, make_chunks

    if sum(map(bool, (mask, givens, chained, minimal or search or rounds))) > 1:
        raise OutgrowError("--mask, --givens, --chained and --minimal (--search, --rounds) exclude each other")
    changes: dict[str, Any] = {}
    if mask:
        changes |= {"style": "masked", "levels": mask}
    if givens:
        changes |= {"style": "extra", "levels": givens}
    if minimal or search or rounds:
        changes |= {"style": "minimal", "levels": (0, 0)}
    if chained:
        changes |= {"style": "chained", "levels": (0, 0)}
    if search:
        changes |= {"search": True}
    if rounds:
        changes |= {"rounds": rounds}
    if any_solution:
        changes |= {"unique": "free"}
    if box:
        changes |= {"box": box}
    if nodes:
        changes |= {"nodes": nodes}
    if degrees:
        changes |= {"degrees": degrees}
    if signs:
        changes |= {"signs": signs}
    settings = default_settings(puzzle, size, count, seed, **changes)
    if out and Path(out).exists() and not force:
        raise OutgrowError(f"{out}: exists; --force replaces it")
    if format is not None and format not in {f.name for f in PUZZLES[puzzle].formats}:
        names = ", ".join(f.name for f in PUZZLES[puzzle].formats)
        raise OutgrowError(f"--format {format}: {puzzle} has {names}")
    with track(f"Generating {puzzle} {size}", count, beside_output=out is None) as advance:
        if out and Path(out).suffix == ".npz":
            try:
                dataset = generate(settings, out, jobs=jobs, progress=advance)
            except KeyboardInterrupt:
                click.echo("outgrow: the same command goes on where this one stopped", err=True)
                raise
            if as_json:
                print(json.dumps({"file": out, "count": len(dataset), "sha256": dataset.sha256}))
            else:
                click.echo(f"{out}: {len(dataset)} puzzles, sha256 {dataset.sha256}", err=True)
            return
        lines: list[str] = []
        done = 0
        for _, chunk in make_chunks(settings, range(settings.chunks), jobs):
            for index in range(len(chunk)):
                instance = replace(chunk[index], source=f"puzzle {done + index + 1}")
                if as_json:
                    item = json.loads(render(instance, format="json"))
                    lines.append(json.dumps({**item, "solution": chunk.solution(index).tolist()}))
                else:
                    formats = PUZZLES[puzzle].formats
                    chosen = format or next(
                        f.name for f in formats if f.name in ("line", "json") and not f.refuses(instance)
                    )
                    lines.append(render(instance, format=chosen) + ("\n" if chosen in ("grid", "ints") else ""))
            done += len(chunk)
            advance(done)
            if not out:
                sys.stdout.write("\n".join(lines) + "\n")
                lines = []
    if out:
        write_whole(out, "\n".join(lines) + "\n")
