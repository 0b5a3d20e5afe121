"""`outgrow solve`."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from typing import Any

import click

from outgrow.cli.inputs import load, print_notes, puzzle_options
from outgrow.errors import InputError, OutgrowError
from outgrow.puzzles import Instance, find_conflict, get_puzzle, render

# Up to this many boards are drawn; more are written a line each.
_DRAWN = 3


@click.command("solve")
@click.argument("file")
@click.option("--exact", is_flag=True, help="Use the exact solver (SAT).")
@click.option("--seconds", type=click.FloatRange(min=0), default=60, show_default=True, help="Time for each puzzle.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object a puzzle and line.")
@puzzle_options
def command(file: str, exact: bool, seconds: float, as_json: bool, **options: Any) -> int:
    """Solve the puzzles in FILE ('-' reads standard input) and check every answer.

    The puzzle and its format are detected: Sudoku, Futoshiki or graph coloring. The exit code is 0 if all were solved, 1 if some
    were not, 2 for bad input.

    \b
    Examples:
      outgrow solve --exact puzzle.txt
      outgrow solve --exact --json many.txt
      outgrow solve --exact --colors 5 graph.col
      sgt-solo --generate 5 4x4 | outgrow solve --exact -
    """
    if math.isnan(seconds):
        raise OutgrowError("--seconds is not a number")
    if not exact:
        raise OutgrowError("no trained weights are shipped yet; solve with --exact")
    instances = load(file, **options)
    print_notes(instances)
    solver = _Solver(seconds)
    outcomes: Counter[str] = Counter()
    from outgrow.cli.terminal import track

    with track("Solving", len(instances), beside_output=True) as advance:
        for done, instance in enumerate(instances, start=1):
            result = solver(instance)
            outcomes[result["status"]] += 1
            if as_json:
                print(json.dumps(result), flush=len(instances) == 1)
            else:
                _print_result(instance, result, drawn=len(instances) <= _DRAWN)
            advance(done)
    if not as_json and len(instances) > _DRAWN:
        print(f"{outcomes['solved']} of {len(instances)} solved", file=sys.stderr)
    if outcomes["invalid"]:
        return 2
    return 0 if outcomes["solved"] == len(instances) else 1


class _Solver:
    """One exact solver is kept for as long as puzzles share their CSP."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._solver: Any = None

    def __call__(self, instance: Instance) -> dict[str, Any]:
        from outgrow.csp.exact import Budget, ExactSolver, TooLarge

        start = time.monotonic()
        result: dict[str, Any] = {"solved": False, "source": "exact", "assignment": None, "status": "invalid"}
        conflict = find_conflict(instance)
        if conflict:
            print(f"outgrow: {instance.source}: {conflict}", file=sys.stderr)
            return {**result, "reason": conflict, "seconds": round(time.monotonic() - start, 6)}
        if self._solver is None or self._solver.csp is not instance.csp:
            if self._solver is not None:
                self._solver.close()
            self._solver = None
            try:
                self._solver = ExactSolver(instance.csp)
            except TooLarge as error:
                raise InputError(str(error), source=instance.source) from None
        answer = self._solver.solve(instance.givens, budget=Budget(seconds=self.seconds), break_symmetry=True)
        if answer.assignment is not None:
            if not instance.judge(answer.assignment).solved:
                raise AssertionError(f"{instance.source}: the exact solver's answer breaks a rule; please report this")
            result["assignment"] = answer.assignment.tolist()
        result["solved"] = answer.status == "solved"
        result["status"] = answer.status
        result["seconds"] = round(time.monotonic() - start, 6)
        return result


def _print_result(instance: Instance, result: dict[str, Any], drawn: bool) -> None:
    import numpy as np

    from outgrow.cli.terminal import board, console

    if result["status"] == "invalid":  # said on standard error already
        return
    if not result["solved"]:
        words = {"unsatisfiable": "has no solution (proven)", "ran_out": "not solved: the time ran out"}
        print(f"# {instance.source}: {words[result['status']]}")
        return
    values = np.array(result["assignment"], dtype=np.int16)
    if not drawn:
        formats = get_puzzle(instance.puzzle).formats
        line = next(f.name for f in formats if f.name in ("line", "json") and not f.refuses(instance))
        print(render(instance, values, line))
        return
    console.print(board(instance, values))
    found = int((instance.givens == 0).sum())
    console.print(
        f"\n# {instance.puzzle.capitalize()} of size {instance.size}: solved by the exact solver (SAT, not a neural network) in "
        f"{result['seconds']:.2f} s.\n# Checked: every rule holds, all {len(values) - found} givens are kept, {found} values were found.\n"
    )
