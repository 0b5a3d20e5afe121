"""`outgrow solve`."""

from __future__ import annotations

import json
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outgrow.cli.inputs import load, print_notes, puzzle_options
from outgrow.errors import InputError, OutgrowError
from outgrow.puzzles import Instance, find_conflict, get_puzzle, render

if TYPE_CHECKING:
    from outgrow.models import Model
    from outgrow.puzzles.instance import Values

# Up to this many boards are drawn; more are written a line each.
_DRAWN = 3
_SECONDS = 60.0
# Puzzles that networks solve together before their results are written.
_CHUNK = 256

Result = dict[str, Any]
Progress = Callable[[int], None]


@click.command("solve")
@click.argument("file")
@click.option(
    "--weights", metavar="WEIGHTS", help="A name (see `outgrow weights list`) or a file  [the puzzle's default]."
)
@click.option("--steps", metavar="T", type=click.IntRange(1, 100_000), help="The most steps to run  [by size].")
@click.option(
    "--restart",
    metavar="T",
    type=click.IntRange(0, 100_000),
    help="Start over after T steps without a solution, in another way; 0 never  [as the weights were measured].",
)
@click.option("--device", metavar="NAME", help="cpu, cuda, ...  [a GPU if there is one]")
@click.option("--exact", is_flag=True, help="Use the exact solver (SAT), not a network.")
@click.option(
    "--seconds", type=click.FloatRange(min=0), help=f"Exact solver: time for each puzzle  [default: {_SECONDS:g}]"
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a puzzle and line.")
@puzzle_options
def command(
    file: str,
    weights: str | None,
    steps: int | None,
    restart: int | None,
    device: str | None,
    exact: bool,
    seconds: float | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Solve the puzzles in FILE ('-' reads standard input) and check every answer.

    The puzzle and its format are detected: Sudoku, Futoshiki or graph coloring. A neural network solves them, or with --exact a SAT
    solver. A network may fail: an answer that breaks a rule is never shown as a solution. The exit code is 0 if all were solved, 1 if some
    were not, 2 for bad input.

    \b
    Examples:
      outgrow solve puzzle.txt
      outgrow solve --weights runs/smoke-0/weights.safetensors --steps 64 puzzle.txt
      outgrow solve --exact puzzle.txt
      outgrow solve --exact --json many.txt
      outgrow solve --exact --colors 5 graph.col
      sgt-solo --generate 5 4x4 | outgrow solve --exact -
    """
    if seconds is not None and math.isnan(seconds):
        raise OutgrowError("--seconds is not a number")
    if exact and any(option is not None for option in (weights, steps, restart, device)):
        raise click.UsageError("--exact takes no network: leave out --weights, --steps, --restart and --device")
    if not exact and seconds is not None:
        raise click.UsageError("--seconds are the exact solver's: they need --exact")
    instances = load(file, **options)
    # Whatever is wrong with the weights is said before anything else.
    solver = (
        _Exact(_SECONDS if seconds is None else seconds)
        if exact
        else _Neural(instances, weights, steps, restart, device)
    )
    print_notes(instances)
    outcomes: Counter[str] = Counter()
    from outgrow.cli.terminal import track

    with track("Solving", len(instances), beside_output=True) as advance:
        for instance, result in zip(instances, solver.solve(instances, advance), strict=True):
            outcomes[result["status"]] += 1
            if as_json:
                print(json.dumps(result), flush=len(instances) == 1)
            else:
                _print_result(instance, result, solver.name(instance), drawn=len(instances) <= _DRAWN)
    if not as_json and len(instances) > _DRAWN:
        print(f"{outcomes['solved']} of {len(instances)} solved{solver.summary}", file=sys.stderr)
    if outcomes["invalid"]:
        return 2
    return 0 if outcomes["solved"] == len(instances) else 1


class _Exact:
    """One exact solver is kept for as long as puzzles share their CSP."""

    summary = ""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self._solver: Any = None

    def name(self, instance: Instance) -> str:
        return "the exact solver (SAT, not a neural network)"

    def solve(self, instances: list[Instance], advance: Progress) -> Iterator[Result]:
        for done, instance in enumerate(instances, start=1):
            yield self._solve(instance)
            advance(done)

    def _solve(self, instance: Instance) -> Result:
        from outgrow.csp.exact import Budget, ExactSolver, TooLarge

        start = time.monotonic()
        conflict = _report_conflict(instance)
        if conflict:
            return _result("exact", "invalid", reason=conflict, seconds=round(time.monotonic() - start, 6))
        if self._solver is None or self._solver.csp is not instance.csp:
            if self._solver is not None:
                self._solver.close()
            self._solver = None
            try:
                self._solver = ExactSolver(instance.csp)
            except TooLarge as error:
                raise InputError(str(error), source=instance.source) from None
        answer = self._solver.solve(instance.givens, budget=Budget(seconds=self.seconds), break_symmetry=True)
        if answer.assignment is not None and not instance.judge(answer.assignment).solved:
            raise AssertionError(f"{instance.source}: the exact solver's answer breaks a rule; please report this")
        return _result("exact", answer.status, answer.assignment, seconds=round(time.monotonic() - start, 6))


@dataclass(frozen=True)
class _Network:
    """A model, what is said of it, how many steps to run it by size, and after how many to start over."""

    model: Model
    name: str
    steps: Callable[[int], int]
    restart: int


class _Neural:
    """A network for each kind of puzzle; all are there before any is used."""

    def __init__(
        self,
        instances: list[Instance],
        weights: str | None,
        steps: int | None,
        restart: int | None,
        device: str | None,
    ) -> None:
        kinds = list(dict.fromkeys(i.puzzle for i in instances))
        self._networks = _open_networks(kinds, weights, steps, restart)
        from outgrow.train.processes import choose_device

        self._device = choose_device(device)

    @property
    def summary(self) -> str:
        return f" by a neural network ({'; '.join(dict.fromkeys(n.name for n in self._networks.values()))}), checked"

    def name(self, instance: Instance) -> str:
        return f"a neural network ({self._networks[instance.puzzle].name})"

    def solve(self, instances: list[Instance], advance: Progress) -> Iterator[Result]:
        """In the order of the puzzles, though those of one kind and number of steps are solved together."""
        for first in range(0, len(instances), _CHUNK):
            yield from self._solve(instances[first : first + _CHUNK], lambda done, first=first: advance(first + done))

    def _solve(self, instances: list[Instance], advance: Progress) -> list[Result]:
        from outgrow.solve import solve_batch

        results: dict[int, Result] = {}
        together: dict[tuple[str, int], list[int]] = {}
        for i, instance in enumerate(instances):
            conflict = _report_conflict(instance)
            if conflict:
                results[i] = _result("neural", "invalid", reason=conflict, steps=0, seconds=0.0)
            else:
                key = (instance.puzzle, self._networks[instance.puzzle].steps(instance.size))
                together.setdefault(key, []).append(i)
        for (kind, steps), members in together.items():
            before = len(results)
            answers = solve_batch(
                self._networks[kind].model,
                [instances[i] for i in members],
                steps,
                restart=self._networks[kind].restart,
                device=self._device,
                progress=lambda done, before=before: advance(before + done),
            )
            for i, answer in zip(members, answers, strict=True):
                broken = _find_broken(instances[i], answer.assignment)
                if answer.solved == bool(broken):
                    raise AssertionError(f"{instances[i].source}: two verdicts on one answer; please report this")
                about = {"steps": answer.steps, "seconds": round(answer.seconds, 6)}
                if answer.solved:
                    results[i] = _result("neural", "solved", answer.assignment, **about)
                else:
                    results[i] = _result("neural", "unsolved", reason=broken, **about)
        return [results[i] for i in range(len(instances))]


def _open_networks(
    kinds: list[str], weights: str | None, steps: int | None, restart: int | None
) -> dict[str, _Network]:
    """Those of the catalog, or of a file that has to do for every kind."""
    from outgrow.weights.catalog import default_weights, open_entry, read_catalog, steps_for

    if weights is not None and weights.endswith(".safetensors"):
        return dict.fromkeys(kinds, _open_file(weights, steps, restart))
    found: dict[str, _Network] = {}
    # All are found before the first is opened: that takes seconds.
    entries = {kind: default_weights(kind) if weights is None else read_catalog().get(weights) for kind in kinds}
    for kind, entry in entries.items():
        if entry is None and weights is None:
            raise OutgrowError(f"no trained weights are shipped yet for a {kind}; solve with --exact")
        if entry is None:
            raise OutgrowError(
                f"no weights {weights!r}; 'outgrow weights list' names them, and a file's name ends in .safetensors"
            )
    from outgrow.solve.attempts import check_restart

    for kind, entry in entries.items():
        assert entry is not None
        model = open_entry(entry).model
        check_restart(model, restart or 0, steps)
        found[kind] = _Network(
            model,
            f"{entry.name}, trained on at most {entry.max_trained_values} values",
            lambda size, entry=entry: steps_for(entry, size) if steps is None else steps,
            entry.restart if restart is None else restart,
        )
    return found


def _open_file(path: str, steps: int | None, restart: int | None) -> _Network:
    from outgrow.solve.attempts import check_restart
    from outgrow.weights import load_weights

    loaded = load_weights(path)
    try:
        sets = ", ".join(map(str, loaded.info["recipe"]["data"]["train"]))
    except (KeyError, TypeError):
        sets = ""
    count = loaded.model.config.steps if steps is None else steps
    check_restart(loaded.model, restart or 0, count)
    name = Path(path).name + (f", trained on {sets}" if sets else "")
    return _Network(loaded.model, name, lambda size: count, restart or 0)


def _result(source: str, status: str, assignment: Values | None = None, **more: Any) -> Result:
    """What --json prints."""
    values = None if assignment is None else assignment.tolist()
    return {"solved": status == "solved", "source": source, "assignment": values, "status": status, **more}


def _report_conflict(instance: Instance) -> str | None:
    conflict = find_conflict(instance)
    if conflict:
        print(f"outgrow: {instance.source}: {conflict}", file=sys.stderr)
    return conflict


def _find_broken(instance: Instance, assignment: Values) -> str:
    """A rule that the assignment breaks, and where; '' if it solves the puzzle."""
    verdict = instance.judge(assignment)
    if verdict.solved:
        return ""
    if not verdict.broken:
        return "a given was changed" if verdict.changed else "a value is missing"
    first = verdict.broken[0]
    place = get_puzzle(instance.puzzle).name_variable
    x, y = (f"{place(instance, i)} is {assignment[i]}" for i in (first.x, first.y))
    more = f"; {len(verdict.broken) - 1} more" if len(verdict.broken) > 1 else ""
    return f"'{first.constraint.split('(', 1)[0]}': {x} and {y}{more}"


def _print_result(instance: Instance, result: Result, name: str, drawn: bool) -> None:
    import numpy as np

    from outgrow.cli.terminal import board, console

    if result["status"] == "invalid":  # said on standard error already
        return
    if not result["solved"]:
        words = {
            "unsatisfiable": "has no solution (proven)",
            "ran_out": "not solved: the time ran out",
            "unsolved": f"not solved: the network's answer breaks a rule ({result.get('reason')}), so it is not shown as a solution",
        }
        print(f"# {instance.source}: {words[result['status']]}")
        return
    values = np.array(result["assignment"], dtype=np.int16)
    if not drawn:
        formats = get_puzzle(instance.puzzle).formats
        line = next(f.name for f in formats if f.name in ("line", "json") and not f.refuses(instance))
        print(render(instance, values, line))
        return
    from rich.text import Text

    console.print(board(instance, values))
    found = int((instance.givens == 0).sum())
    steps = f"{result['steps']} step{'' if result['steps'] == 1 else 's'}, " if "steps" in result else ""
    # Text, not markup: a file's name may hold brackets.
    console.print(
        Text(
            f"\n# {instance.puzzle.capitalize()} of size {instance.size}: solved by {name} in {steps}{result['seconds']:.2f} s.\n"
            f"# Checked: every rule holds, all {len(values) - found} givens are kept, {found} values were found.\n"
        )
    )
