"""`outgrow check`."""

from __future__ import annotations

import json
from typing import Any

import click

from outgrow.cli.inputs import load, print_notes, puzzle_options, refuse_conflicts
from outgrow.csp import Verdict
from outgrow.puzzles import Instance, get_puzzle, read_text
from outgrow.puzzles.reading import name_of
from outgrow.puzzles.solution import parse_solutions

_SHOWN = 10


@click.command("check")
@click.argument("puzzle_file", metavar="PUZZLE")
@click.argument("solution_file", metavar="SOLUTION")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a puzzle and line.")
@puzzle_options
def command(puzzle_file: str, solution_file: str, as_json: bool, **options: Any) -> int:
    """Judge the solutions in SOLUTION against the puzzles in PUZZLE.

    A solution may be a board in any format of the puzzle, the values in variable order, or what `outgrow solve --json` prints. The exit
    code is 0 if all are right, 1 if some are not, 2 for bad input.

    \b
    Examples:
      outgrow check puzzle.txt solved.txt
      outgrow solve --exact --json puzzle.txt | outgrow check puzzle.txt -
    """
    instances = load(puzzle_file, **options)
    print_notes(instances)
    refuse_conflicts(instances)
    solutions = parse_solutions(read_text(solution_file), instances, source=name_of(solution_file))
    right = 0
    for instance, solution in zip(instances, solutions, strict=True):
        verdict = instance.judge(solution)
        right += verdict.solved
        if as_json:
            print(json.dumps(_as_json(instance, verdict)))
        else:
            _print_verdict(instance, verdict)
    return 0 if right == len(instances) else 1


def _as_json(instance: Instance, verdict: Verdict) -> dict[str, Any]:
    place = get_puzzle(instance.puzzle).name_variable
    return {
        "solved": verdict.solved,
        "broken": [
            {
                "constraint": b.constraint,
                "variables": [b.x, b.y],
                "places": [place(instance, b.x), place(instance, b.y)],
            }
            for b in verdict.broken
        ],
        "changed": list(verdict.changed),
        "unassigned": list(verdict.unassigned),
    }


def _print_verdict(instance: Instance, verdict: Verdict) -> None:
    place = get_puzzle(instance.puzzle).name_variable
    if verdict.solved:
        print(f"{instance.source}: solved: every rule holds and every given is kept")
        return
    parts = [
        f"{len(verdict.broken)} rules broken" if verdict.broken else "",
        f"{len(verdict.changed)} givens changed" if verdict.changed else "",
        f"{len(verdict.unassigned)} values missing" if verdict.unassigned else "",
    ]
    print(f"{instance.source}: not solved: {', '.join(p for p in parts if p)}")
    lines = [
        f"{b.constraint} is broken between {place(instance, b.x)} and {place(instance, b.y)}" for b in verdict.broken
    ]
    lines += [f"the given at {place(instance, i)} was changed" for i in verdict.changed]
    lines += [f"no value at {place(instance, i)}" for i in verdict.unassigned]
    for line in lines[:_SHOWN]:
        print(f"  {line}")
    if len(lines) > _SHOWN:
        print(f"  and {len(lines) - _SHOWN} more (--json lists them all)")
