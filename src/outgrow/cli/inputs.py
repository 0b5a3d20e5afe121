"""What the commands share about files: reading puzzles with their options, ranges, writing whole files."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click

from outgrow import writing
from outgrow.errors import InputError, OutgrowError
from outgrow.puzzles import PUZZLES, Instance, Options, find_conflict, parse, read_text
from outgrow.puzzles.reading import name_of

__all__ = ["BOX", "RANGE", "load", "print_notes", "puzzle_options", "refuse_conflicts", "write_whole"]

F = TypeVar("F", bound=Callable[..., Any])
SIDE_SUFFIX = ".givens"


class _Pair(click.ParamType):
    """Two whole numbers with a sign between them."""

    def __init__(self, name: str, sign: str, example: str) -> None:
        self.name = name
        self.sign = sign
        self.example = example

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[int, int]:
        match = re.fullmatch(rf"(\d{{1,6}})(?:{self.sign}(\d{{1,6}}))?", str(value))
        if match is None or (self.sign == "x" and match.group(2) is None):
            self.fail(f"{value!r}; write it as {self.example}", param, ctx)
        first = int(match.group(1))
        return first, int(match.group(2) or first)


BOX = _Pair("RxC", "x", "2x3 (rows x columns)")
RANGE = _Pair("A-B", "-", "30-50")


def puzzle_options(command: F) -> F:
    """The options of every command that reads puzzles."""
    for option in reversed(
        (
            click.option("--puzzle", type=click.Choice(list(PUZZLES)), help="Read the input as this puzzle."),
            click.option("--box", type=BOX, help="Sudoku: box rows x columns, where the text does not say."),
            click.option("--colors", type=click.IntRange(1), help="Coloring: the number of colors."),
            click.option(
                "--givens",
                type=click.Path(exists=True, dir_okay=False),
                help=f"Coloring: side file with 'k COLORS' and 'given NODE COLOR' lines  [default: FILE{SIDE_SUFFIX} if there is one]",
            ),
        )
    ):
        command = option(command)
    return command


def load(
    path: str,
    *,
    puzzle: str | None = None,
    box: tuple[int, int] | None = None,
    colors: int | None = None,
    givens: str | None = None,
) -> list[Instance]:
    """The puzzles of a file ('-': standard input), which may be a dataset file as well."""
    if path != "-" and Path(path).suffix == ".npz":
        from outgrow.data import load_dataset

        instances = list(load_dataset(path))
        if not instances:
            raise InputError("holds no puzzle", source=path)
        _refuse_ignored(instances, path, puzzle, box, colors, givens)
        return instances
    beside = givens or (path + SIDE_SUFFIX if path != "-" and _is_there(path + SIDE_SUFFIX) else "")
    side = read_text(beside) if beside else None
    options = Options(puzzle=puzzle, box=box, colors=colors, side=side, side_name=beside)
    instances = parse(read_text(path), source=name_of(path), options=options)
    _refuse_ignored(instances, name_of(path), puzzle, box, colors, givens)
    return instances


def _is_there(path: str) -> bool:
    try:
        return Path(path).exists()
    except OSError:  # a name longer than names may be
        return False


def _refuse_ignored(
    instances: list[Instance],
    source: str,
    puzzle: str | None,
    box: tuple[int, int] | None,
    colors: int | None,
    givens: str | None,
) -> None:
    """Options that the puzzles do not follow: they say something else themselves, or are of another kind."""
    for option, kind, given in (
        ("--box", "sudoku", box),
        ("--colors", "coloring", colors),
        ("--givens", "coloring", givens),
    ):
        if given is not None and all(i.puzzle != kind for i in instances):
            raise InputError(f"holds no {kind}, which {option} is for", source=source)
    for instance in instances:
        place = instance.source or source
        if puzzle is not None and instance.puzzle != puzzle:
            raise InputError(f"a {instance.puzzle}, but --puzzle is {puzzle}", source=place)
        if box is not None and instance.puzzle == "sudoku" and instance.shape != box:
            has, wanted = ("x".join(map(str, shape)) for shape in (instance.shape, box))
            raise InputError(f"says that its boxes are {has}, but --box is {wanted}", source=place)
        if colors is not None and instance.puzzle == "coloring" and instance.size != colors:
            raise InputError(f"says {instance.size} colors, but --colors is {colors}", source=place)


def refuse_conflicts(instances: list[Instance]) -> None:
    """Stops at the first puzzle whose givens break a rule."""
    for instance in instances:
        conflict = find_conflict(instance)
        if conflict:
            raise InputError(conflict, source=instance.source)


def print_notes(instances: list[Instance]) -> None:
    """Says on standard error what was assumed while reading, each thing once."""
    for note in dict.fromkeys(note for i in instances for note in i.notes):
        print(f"note: {note}", file=sys.stderr)


def write_whole(path: str, text: str) -> None:
    """Writes a file, whole or not at all, into a folder that exists."""
    if not Path(path).resolve().parent.is_dir():
        raise OutgrowError(f"{path}: the folder does not exist")
    writing.write_whole(path, text.encode())
