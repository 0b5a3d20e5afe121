"""`outgrow show`."""

from __future__ import annotations

import json
from typing import Any

import click

from outgrow.cli.inputs import load, print_notes, puzzle_options, refuse_conflicts, write_whole
from outgrow.errors import InputError
from outgrow.puzzles import draw_svg, read_text
from outgrow.puzzles.reading import name_of
from outgrow.puzzles.solution import parse_solutions


@click.command("show")
@click.argument("file")
@click.option("--solution", type=click.Path(), help="Draw this solution of it, found values in another color.")
@click.option("--number", type=click.IntRange(1), help="Only this puzzle of the file, counted from 1.")
@click.option("--svg", type=click.Path(dir_okay=False), help="Write a picture of the first puzzle to this file.")
@click.option("--json", "as_json", is_flag=True, help="What was read, as one JSON object a puzzle and line.")
@puzzle_options
def command(
    file: str, solution: str | None, number: int | None, svg: str | None, as_json: bool, **options: Any
) -> None:
    """Draw the puzzles in FILE ('-' reads standard input).

    \b
    Examples:
      outgrow show puzzle.txt
      outgrow show puzzle.txt --solution solved.txt --svg board.svg
      outgrow show datasets/futoshiki-9-test.npz --number 7
    """
    instances = load(file, **options)
    print_notes(instances)
    refuse_conflicts(instances)
    values = [i.givens for i in instances]
    if solution:
        values = parse_solutions(read_text(solution), instances, source=name_of(solution))
    if number is not None:
        if number > len(instances):
            raise InputError(f"holds {len(instances)} puzzles; there is no number {number}", source=file)
        instances, values = [instances[number - 1]], [values[number - 1]]
    if svg:
        write_whole(svg, draw_svg(instances[0], values[0]))
        return
    for at, (instance, shown) in enumerate(zip(instances, values, strict=True)):
        if as_json:
            print(
                json.dumps(
                    {
                        "puzzle": instance.puzzle,
                        "size": instance.size,
                        "shape": list(instance.shape),
                        "variables": instance.csp.num_variables,
                        "givens": instance.givens.tolist(),
                        "facts": {name: len(pairs) for name, pairs in instance.csp.pairs.items()},
                        "notes": list(instance.notes),
                    }
                )
            )
            continue
        from outgrow.cli.terminal import board, console

        if at:
            console.print()
        console.print(board(instance, shown))
