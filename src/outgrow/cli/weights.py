"""`outgrow weights`: the catalog of those that come with outgrow."""

from __future__ import annotations

import json
import re
from pathlib import Path

import click

_folder = click.option(
    "--dir",
    "folder",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where the catalog is kept  [default: in the package]",
)


@click.group("weights", context_settings={"help_option_names": ["-h", "--help"]})
def command() -> None:
    """The trained weights that come with outgrow: what they were trained on, and how well they solve.

    \b
    Examples:
      outgrow weights list
      outgrow solve --weights NAME puzzle.txt
    """


@command.command("list")
@_folder
@click.option("--json", "as_json", is_flag=True, help="The catalog's entries, one JSON object a line.")
def list_weights(folder: Path | None, as_json: bool) -> None:
    """What there is; `outgrow solve` takes the default of each puzzle.

    Board accuracy in percent is that of the test set of each size, after as many steps as `outgrow solve` runs at most; other sets go by their names.
    """
    from outgrow.weights.catalog import FOLDER, read_catalog

    entries = read_catalog(folder)
    place = FOLDER if folder is None else folder
    if as_json:
        for entry in entries.values():
            print(json.dumps({**entry.as_json(), "here": (place / entry.file).is_file()}))
        return
    if not entries:
        print("no trained weights come with this version")
        return
    lines = [
        ("name", "puzzle", "model", "trained on", "values", "default", "parameters", "file", "board accuracy % by size")
    ]
    for entry in entries.values():
        file = place / entry.file
        scores = (f"{_label(entry.puzzle, m.dataset, m.size)} {_percent(m.board)}" for m in entry.measured())
        lines.append(
            (
                entry.name,
                entry.puzzle,
                entry.model,
                ", ".join(entry.trained_on),
                f"<= {entry.max_trained_values}",
                "yes" if entry.default else "",
                f"{entry.parameters:,}",
                f"{file.stat().st_size / 1e6:.1f} MB" if file.is_file() else "missing",
                "  ".join(scores),
            )
        )
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    for line in lines:
        print("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _label(puzzle: str, dataset: str, size: int) -> str:
    return f"{size}:" if dataset == f"{puzzle}-{size}-test" else f"{dataset}:"


def _percent(share: float) -> str:
    """With a digit; 100.0 is all of them and never rounded up to."""
    return f"{100.0 if share == 1 else min(100 * share, 99.9):.1f}"


@command.command("add")
@click.argument("weights", type=click.Path(dir_okay=False, path_type=Path))
@click.argument("results", type=click.Path(dir_okay=False, path_type=Path))
@click.option("--name", required=True, help="What to call it: small letters, digits and dashes.")
@click.option("--default", "as_default", is_flag=True, help="Let `outgrow solve` take it for its puzzle.")
@click.option(
    "--steps",
    metavar="SIZE:T,...",
    help="Steps to run, up to each size, as in 9:32,16:64  [those of RESULTS, where it has one number a size]",
)
@click.option(
    "--chosen-on", default="", metavar="DATASET", help="The set that chose among seeds  [the recipe's validation sets]"
)
@click.option("--notes", is_flag=True, help="Let `outgrow solve` take notes with it.")
@click.option("--replace", is_flag=True, help="Write an entry of that name anew.")
@_folder
def add(
    weights: Path,
    results: Path,
    name: str,
    as_default: bool,
    steps: str | None,
    chosen_on: str,
    notes: bool,
    replace: bool,
    folder: Path | None,
) -> None:
    """For maintainers: copy WEIGHTS into the package, with the figures that RESULTS has of them.

    RESULTS is what `outgrow evaluate --out` wrote for all seeds of the recipe; weights that are not their median are refused.

    \b
    Examples:
      outgrow evaluate runs/*/weights.safetensors sudoku-9-test sudoku-16-test --out results/mine.json
      outgrow weights add runs/mine-1/weights.safetensors results/mine.json --name mine --default
    """
    from outgrow.evaluate.entry import add_entry
    from outgrow.weights.catalog import FOLDER

    entry = add_entry(
        weights,
        results,
        name=name,
        default=as_default,
        steps=_steps(steps),
        chosen_on=chosen_on,
        notes=notes,
        replace=replace,
        folder=folder,
    )
    print(f"{(FOLDER if folder is None else folder) / entry.file}: {entry.parameters:,} parameters. {entry.chosen_how}")


def _steps(text: str | None) -> list[tuple[int, int]]:
    if text is None:
        return []
    if not re.fullmatch(r"\d{1,6}:\d{1,6}(,\d{1,6}:\d{1,6})*", text):
        raise click.UsageError(f"--steps {text}: pairs of a size and a number of steps, as in 9:32,16:64")
    return [(int(size), int(count)) for size, count in (pair.split(":") for pair in text.split(","))]
