"""How things look in the terminal: boards, and progress with an ETA."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.text import Text

from outgrow.puzzles import Instance, get_puzzle
from outgrow.puzzles.instance import Values

__all__ = ["board", "console", "track"]

_STYLES = {
    "given": "bold",
    "found": "bright_blue",
    "broken": "bold red",
    "empty": "dim",
    "rule": "dim",
    "sign": "yellow",
}
_COLORS = ("red", "green", "blue", "yellow", "magenta", "cyan", "bright_red", "bright_green", "bright_blue", "white")


class _Console(Console):
    def on_broken_pipe(self) -> None:
        """The reader has gone: the command says so as everywhere else; rich would end it with a code that means 'not solved'."""
        raise BrokenPipeError


console = _Console(highlight=False, soft_wrap=True)


def board(instance: Instance, values: Values) -> Text:
    """A drawing with givens and found values told apart."""
    text = Text()
    for row in get_puzzle(instance.puzzle).draw(instance, values):
        for span, role in row:
            text.append(span, style=_style(role))
        text.append("\n")
    text.right_crop(1)
    return text


def _style(role: str) -> str:
    if role.startswith("color-"):
        number = int(role.removeprefix("color-"))
        return _COLORS[(number - 1) % len(_COLORS)] if number else "dim"
    return _STYLES.get(role, "")


@contextmanager
def track(title: str, total: int, beside_output: bool = False) -> Iterator[Callable[[int], None]]:
    """A progress bar with an ETA on standard error; the function it gives takes the number done.

    Only in a terminal; and where results are printed meanwhile (`beside_output`), only if they go elsewhere.
    """
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TextColumn("ETA"),
        TimeRemainingColumn(),
    )
    errors = Console(stderr=True)
    shown = errors.is_terminal and not (beside_output and sys.stdout.isatty())
    # Rich would take over standard output, and send what is meant for a pipe to the terminal.
    with Progress(
        *columns, console=errors, transient=True, disable=not shown, redirect_stdout=False, redirect_stderr=False
    ) as progress:
        task = progress.add_task(title, total=total)
        yield lambda done: progress.update(task, completed=done)
