"""`outgrow solve`."""

from __future__ import annotations

import contextlib
import json
import math
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from outgrow.cli.inputs import load, print_notes, puzzle_options
from outgrow.errors import OutgrowError
from outgrow.puzzles import Instance
from outgrow.writing import stream

if TYPE_CHECKING:
    from outgrow.solve import Answer, Solver

# Up to this many boards are drawn; more are written a line each.
_DRAWN = 3
_SECONDS = 60.0
_MODELS = ("grouped", "binarized", "multivalued")
_EXACT = "the exact solver (SAT, not a neural network)"


@click.command("solve")
@click.argument("file")
@click.option(
    "--guarantee/--no-guarantee",
    default=None,
    help="Let the exact solver finish what the network does not, or prove that nothing can [on]; or leave it unsolved.",
)
@click.option("--steps", metavar="T", type=click.IntRange(1, 100_000), help="The most steps of an attempt  [by size].")
@click.option(
    "--restarts",
    metavar="N",
    type=click.IntRange(0, 99_999),
    help="How often the network starts over, in another way  [0 with a guarantee or --steps, else as the weights were measured].",
)
@click.option(
    "--notes/--no-notes",
    default=None,
    help="Every other time that it starts over, write down what the network is sure cannot be, and go on from there  [as the catalog says].",
)
@click.option("--model", type=click.Choice(_MODELS), help="Take the shipped weights of this model  [the default ones].")
@click.option("--weights", metavar="WEIGHTS", help="A name (see `outgrow weights list`) or a file.")
@click.option("--device", metavar="NAME", help="cpu, cuda, ...  [a GPU if there is one]")
@click.option("--exact", is_flag=True, help="Use the exact solver (SAT) alone, no network.")
@click.option(
    "--seconds", type=click.FloatRange(min=0), help=f"The exact solver's time for each puzzle  [default: {_SECONDS:g}]"
)
@click.option("--unique", is_flag=True, help="Ask the exact solver whether there are other solutions as well.")
@click.option(
    "--trace",
    metavar="FILE",
    help="One puzzle: what the network believes, step by step, in its first attempt; *.svg or *.gif.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object a puzzle and line.")
@click.option("--out", metavar="FILE", help="Write the answers here, not to standard output ('-').")
@puzzle_options
def command(
    file: str,
    guarantee: bool | None,
    steps: int | None,
    restarts: int | None,
    notes: bool | None,
    model: str | None,
    weights: str | None,
    device: str | None,
    exact: bool,
    seconds: float | None,
    unique: bool,
    trace: str | None,
    as_json: bool,
    out: str | None,
    **options: Any,
) -> int:
    """Solve the puzzles in FILE ('-' reads standard input) and check every answer.

    The puzzle and its format are detected: Sudoku, Futoshiki or graph coloring. A neural network solves them; where it does not, the exact
    solver (SAT) finishes, and the answer says which of the two it came from. An answer that breaks a rule is never shown as a solution. The
    exit code is 0 if all were solved, 1 if some were not, 2 for bad input, 130 if it was interrupted: what was solved until then is kept.

    \b
    Examples:
      outgrow solve puzzle.txt
      outgrow solve --no-guarantee --restarts 15 puzzle.txt
      outgrow solve --trace solving.gif puzzle.txt
      outgrow solve --json --out answers.jsonl many.txt
      outgrow solve --unique --exact --colors 5 graph.col
      outgrow solve --weights runs/smoke-0/weights.safetensors --steps 64 puzzle.txt
      sgt-solo --generate 5 4x4 | outgrow solve -
    """
    if seconds is not None and math.isnan(seconds):
        raise OutgrowError("--seconds is not a number")
    if exact and any(
        option is not None for option in (weights, model, steps, restarts, notes, device, trace, guarantee)
    ):
        raise click.UsageError(
            "--exact takes no network: leave out --weights, --model, --steps, --restarts, --notes, --device, --trace and --guarantee"
        )
    if guarantee is False and seconds is not None and not unique:
        raise click.UsageError("--seconds are the exact solver's: they go with --guarantee, --unique or --exact")
    if weights is not None and model is not None:
        raise click.UsageError("--weights are of one model already: leave out --model")
    if trace is not None and out is not None and Path(trace).resolve() == Path(out).resolve():
        raise OutgrowError(f"--trace and --out both name {out}")
    if trace is not None and Path(trace).suffix not in (".svg", ".gif"):
        raise OutgrowError(f"--trace {trace}: a file's name ends in .svg or .gif")
    instances = load(file, **options)
    if trace is not None and len(instances) != 1:
        raise OutgrowError(f"--trace draws one puzzle, and {file} holds {len(instances)}")
    from outgrow.solve import Solver

    solver = Solver(
        weights,
        model=model,
        steps=steps,
        restarts=restarts,
        notes=notes,
        guarantee=guarantee is not False,
        network=not exact,
        unique=unique,
        seconds=_SECONDS if seconds is None else seconds,
        device=device,
    )
    # Whatever is wrong with the weights is said before anything else.
    kinds = {i.puzzle: i for i in instances}
    names = {} if exact else {kind: solver.network_for(i).name for kind, i in kinds.items()}
    if not exact:
        solver.check(instances)
    print_notes(instances)
    tally = _Tally()
    drawn = len(instances) <= _DRAWN and out is None
    from outgrow.cli.terminal import track

    with stream(out) if out is not None else contextlib.nullcontext(sys.stdout) as sink:
        if trace is not None:
            _draw_trace(solver, instances[0], trace)
        with track("Solving", len(instances), beside_output=out in (None, "-")) as advance:
            for answer in solver.solve_all(instances, progress=advance):
                tally.add(answer)
                if as_json:
                    print(json.dumps(answer.as_json()), file=sink, flush=True)
                elif drawn and answer.solved:
                    _print_board(answer, names.get(answer.puzzle.puzzle), asked=unique)
                else:
                    for line in _lines(answer, asked=unique):
                        print(line, file=sink, flush=True)
    if not as_json and len(instances) > _DRAWN:
        tally.print(names)
    if tally.contradictory:
        return 2
    return 0 if tally.solved == len(instances) else 1


def _draw_trace(solver: Solver, instance: Instance, path: str) -> None:
    from outgrow.cli.terminal import track
    from outgrow.solve.animation import draw_trace

    total = solver.network_for(instance).steps(instance.size)
    with track("Tracing", total) as advance:

        def watched() -> Iterator[Any]:
            for frame in solver.trace(instance):
                advance(frame.step)
                yield frame

        draw_trace(instance, watched(), path)


def _lines(answer: Answer, asked: bool) -> Iterator[str]:
    """An answer as a line of text; one that is none, and what else is to be said, as comments."""
    place = " ".join(answer.puzzle.source.split())
    if not answer.solved:
        yield f"# {place}: {answer.words}"
    elif asked and not answer.unique:
        yield f"# {place}: {_others(answer)}"
    if answer.solved:
        yield answer.text


def _others(answer: Answer) -> str:
    if answer.unique is None:
        return "whether there are other solutions was not settled in time"
    return "it is the only solution (proven)" if answer.unique else "there are other solutions as well"


def _print_board(answer: Answer, network: str | None, asked: bool) -> None:
    from rich.text import Text

    from outgrow.cli.terminal import board, console

    assert answer.assignment is not None
    instance = answer.puzzle
    console.print(board(instance, answer.assignment))
    found = int((instance.givens == 0).sum())
    steps = f"{answer.steps} step{'' if answer.steps == 1 else 's'}"
    if answer.source == "neural":
        by = f"a neural network ({network}) in {steps}, {answer.seconds:.2f} s"
    elif network is None:
        by = f"{_EXACT} in {answer.seconds:.2f} s"
    elif not answer.steps:
        by = f"{_EXACT}, since it is too large for a network; {answer.seconds:.2f} s"
    else:
        by = f"{_EXACT}, where a neural network ({network}) had not in {steps}; {answer.seconds:.2f} s"
    lines = [
        f"{instance.puzzle.capitalize()} of size {instance.size}: solved by {by}.",
        f"Checked: every rule holds, all {len(instance.givens) - found} givens are kept, {found} values were found.",
    ]
    if asked:
        words = _others(answer)
        lines.append(f"{words[0].upper()}{words[1:]}.")
    # Text, not markup: a file's name may hold brackets.
    console.print(Text("\n" + "".join(f"# {line}\n" for line in lines)))


class _Tally:
    """What came of many puzzles, by kind and size: who solved each (''  for nobody), in how many steps and seconds."""

    def __init__(self) -> None:
        self._rows: dict[tuple[str, int], list[tuple[str, int, float]]] = {}
        self.contradictory = 0

    def add(self, answer: Answer) -> None:
        """One more. A contradiction between givens is said at once."""
        if answer.status == "unsatisfiable" and answer.reason:
            self.contradictory += 1
            print("outgrow:", " ".join(f"{answer.puzzle.source}: {answer.reason}".split()), file=sys.stderr)
        row = self._rows.setdefault((answer.puzzle.puzzle, answer.puzzle.size), [])
        row.append((answer.source if answer.solved else "", answer.steps, answer.seconds))

    @property
    def solved(self) -> int:
        return self._count("neural") + self._count("exact")

    def _count(self, source: str) -> int:
        return sum(by == source for row in self._rows.values() for by, _, _ in row)

    def print(self, names: dict[str, str]) -> None:
        """A table on standard error, and a sentence."""
        from rich.console import Console
        from rich.table import Table

        table = Table("puzzle", "size", "puzzles", "solved", "neural", "exact", "steps", "seconds", box=None)
        for column in table.columns[1:]:
            column.justify = "right"
        for (kind, size), answers in sorted(self._rows.items()):
            steps = sorted(taken for by, taken, _ in answers if by == "neural")
            exact = sum(by == "exact" for by, _, _ in answers)
            table.add_row(
                *(kind, str(size), str(len(answers)), str(len(steps) + exact), str(len(steps)), str(exact)),
                str(steps[len(steps) // 2]) if steps else "-",
                f"{sum(seconds for _, _, seconds in answers):.1f}",
            )
        console = Console(stderr=True, highlight=False, soft_wrap=True)
        console.print(table)
        total = sum(map(len, self._rows.values()))
        by = (
            f", {self._count('neural')} of them by a neural network ({'; '.join(dict.fromkeys(names.values()))})"
            if names
            else ""
        )
        print(f"{self.solved} of {total} solved and checked{by}", file=sys.stderr)
