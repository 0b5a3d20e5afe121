"""`outgrow train`."""

from __future__ import annotations

import json
import os
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from outgrow.train.loop import Event

_STYLES = {"recover": "yellow", "average": "cyan", "validate": "green", "end": "bold"}


@click.command("train")
@click.argument("recipe_file", metavar="RECIPE")
@click.option(
    "--out", "run", metavar="RUN", type=click.Path(path_type=Path), help="Folder of the run  [runs/NAME-SEED]."
)
@click.option("--set", "changes", metavar="KEY=VALUE", multiple=True, help="Another value for a key of the recipe.")
@click.option("--resume", is_flag=True, help="Go on with a run that was stopped or killed.")
@click.option("--device", metavar="NAME", help="cpu, cuda, cuda:1, ...  [a GPU if there is one]")
@click.option("--tensorboard", is_flag=True, help="Write the curves for TensorBoard too, into RUN/tensorboard.")
@click.option("--json", "as_json", is_flag=True, help="Print every event as a line of JSON.")
def command(
    recipe_file: str,
    run: Path | None,
    changes: tuple[str, ...],
    resume: bool,
    device: str | None,
    tensorboard: bool,
    as_json: bool,
) -> int:
    """Train a model from RECIPE, a file such as those in recipes/.

    RUN gets recipe.json, log.jsonl (see `outgrow plot`), checkpoint.safetensors and weights.safetensors, chosen on the
    recipe's validation sets. Ctrl-C stops after the update at hand; --resume goes on as if nothing had happened.

    \b
    Examples:
      outgrow train recipes/smoke.toml
      outgrow train recipes/smoke.toml --set lr=0.001 --set train.seed=1 --out runs/slow
      outgrow train recipes/smoke.toml --out runs/slow --set lr=0.001 --set train.seed=1 --resume
      torchrun --nproc-per-node 8 -m outgrow train recipes/sudoku-binarized.toml
    """
    from outgrow.train.loop import train
    from outgrow.train.recipe import load_recipe

    recipe = load_recipe(recipe_file, changes)
    run = run or Path("runs") / f"{recipe.name}-{recipe.train.seed}"
    first = os.environ.get("RANK", "0") == "0"
    with _watchers(recipe.train.updates, run, tensorboard and first, as_json, quiet=not first) as watch:
        done = train(recipe, run, resume=resume, device=device, watch=watch)
    if not first or as_json:
        return 130 if done.stopped == "interrupted" else 0
    if done.stopped == "interrupted":
        same = [recipe_file, *(word for change in changes for word in ("--set", change)), "--out", str(run)]
        print(f"outgrow: stopped; go on with outgrow train {shlex.join(same)} --resume", file=sys.stderr)
        return 130
    score = ""
    if done.validation is not None:
        sets = ", ".join(recipe.data.valid)
        score = f", {done.validation.board:.2%} of the boards of {sets} solved"
    print(f"{done.weights}: the {done.chosen} weights{score}; {done.seconds:.0f} s")
    return 0


@contextmanager
def _watchers(
    updates: int, run: Path, tensorboard: bool, as_json: bool, quiet: bool
) -> Iterator[Callable[[Event], None]]:
    """Everyone who wants to hear of events, as one function."""
    watching: list[Callable[[Event], None]] = []
    with _progress(updates, shown=not (as_json or quiet)) as show:
        watching.append(show)
        if as_json and not quiet:
            watching.append(lambda event: print(json.dumps(event), flush=True))
        board = _TensorBoard(run / "tensorboard") if tensorboard else None
        if board is not None:
            watching.append(board.write)

        def tell(event: Event) -> None:
            for watch in watching:
                watch(event)

        try:
            yield tell
        finally:
            if board is not None:
                board.close()


@contextmanager
def _progress(updates: int, shown: bool) -> Iterator[Callable[[Event], None]]:
    """A bar with an ETA in a terminal; elsewhere a line for each validation and whatever else is not routine."""
    from rich.console import Console
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )
    from rich.text import Text

    errors = Console(stderr=True, highlight=False, soft_wrap=True)
    columns = (
        BarColumn(bar_width=20),
        MofNCompleteColumn(),
        TextColumn("{task.description}"),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=errors, transient=True, disable=not (shown and errors.is_terminal)) as bar:
        task = bar.add_task("", total=updates)

        def show(event: Event) -> None:
            if not shown:
                return
            if event["event"] == "update":
                bar.update(task, completed=event["update"], description=_summary(event))
            elif event["event"] in ("start", "validate", "average", "recover", "end"):
                bar.update(task, completed=event["update"])
                # Text, not markup: names may hold brackets.
                bar.console.print(Text(_line(event), style=_STYLES.get(event["event"], "")))

        yield show


def _summary(event: Event) -> str:
    return (
        f"loss {event['loss']:.4g}  boards {event['accuracy']:.0%}  "
        f"{event['puzzles_per_second']:,.0f} puzzles/s  {event['memory_gib']:.1f} GiB"
    )


def _line(event: Event) -> str:
    kind, place = event["event"], f"update {event['update']}"
    if kind == "start":
        counts = ", ".join(f"{name} ({about['count']:,})" for name, about in event["data"].items())
        return f"{place}: {event['recipe']['name']}, {event['parameters']:,} parameters on {event['device']}; {counts}"
    if kind == "validate":
        return f"{place}: {event['board']:.2%} of validation boards solved, {event['pointwise']:.2%} of variables ({event['weights']} weights, {event['seconds']:.0f} s)"
    if kind == "average":
        return f"{place}: the curve is flat; averaging weights from here"
    if kind == "recover":
        return f"update {event['failed']}: {event['reason']}; back to update {event['back_to']} with half the learning rate"
    return f"{place}: {event['reason']}"


class _TensorBoard:
    """Event files for TensorBoard; the folder is made at the first event, when the run is known to be ours."""

    def __init__(self, folder: Path) -> None:
        try:
            from torch.utils.tensorboard import SummaryWriter
        except ImportError:
            raise click.ClickException("--tensorboard needs a package: pip install 'outgrow[tensorboard]'") from None
        self._folder, self._open, self._writer = folder, SummaryWriter, None

    def write(self, event: Event) -> None:
        if self._writer is None:
            self._writer = self._open(str(self._folder))
        for key, value in event.items():
            if event["event"] in ("update", "validate") and key != "update" and isinstance(value, int | float):
                self._writer.add_scalar(f"{event['event']}/{key}", value, event["update"])

    def close(self) -> None:
        if self._writer is not None:
            self._writer.close()
