"""`outgrow plot`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Literal

import click

from outgrow.train.curves import draw, picture_format, read_log


@click.command("plot")
@click.argument("runs", metavar="RUN|RESULTS...", nargs=-1, required=True)
@click.option(
    "--by",
    type=click.Choice(["size", "steps"]),
    help="Of results: draw them against the size of puzzles or the number of steps  [size].",
)
@click.option(
    "--steps",
    metavar="T",
    type=click.IntRange(min=1),
    help="Of results by size: those after so many steps  [the largest number].",
)
@click.option(
    "--out",
    type=click.Path(),
    help="The picture: .svg, .png or .pdf  [default: curves.svg beside the log, NAME.svg beside NAME.json]",
)
@click.option(
    "--json", "as_json", is_flag=True, help="The figures, as one JSON object a run or line; draws only with --out."
)
def command(
    runs: tuple[str, ...], by: Literal["size", "steps"] | None, steps: int | None, out: str | None, as_json: bool
) -> None:
    """Draw the curves of a training run: its folder, or the log itself. Or draw board accuracies: results files, which end in .json.

    Several runs, or the results of several recipes, are drawn over each other; seeds of one recipe become their mean, and a band from the
    worst to the best. The paper's figures stand beside those measured by its protocol.

    \b
    Examples:
      outgrow plot runs/smoke-0
      outgrow plot runs/smoke-0 --out smoke.png
      outgrow plot runs/first runs/second --out both.svg
      outgrow plot runs/* --json
      outgrow plot results/a.json results/b.json --out sizes.svg
      outgrow plot results/a.json --by steps --out steps.svg
    """
    results = [run for run in runs if run.endswith(".json") and not Path(run).is_dir()]
    if results and len(results) < len(runs):
        raise click.UsageError("runs and results make different pictures: draw them one after the other")
    if not results and (by or steps):
        raise click.UsageError("--by and --steps are for results files, which end in .json")
    if by == "steps" and steps:
        raise click.UsageError("--steps chooses one number of steps, and --by steps draws them all")
    if out is None and not as_json:
        if len(runs) != 1:
            raise click.UsageError("several of them make one picture: say where with --out FILE")
        place = Path(runs[0])
        if results:
            out = str(place.with_suffix(".svg"))
        else:
            out = str((place if place.is_dir() else place.parent) / "curves.svg")
    if out is not None:
        picture_format(out)  # refused before a long log is read
    if results:
        lines = _draw_results(results, by or "size", steps, out)
    else:
        curves = [read_log(run) for run in runs]
        if out is not None:
            draw(curves, out)
        lines = [json.dumps(run.summary()) for run in curves]
    for line in lines if as_json else [out]:
        print(line)


def _draw_results(paths: list[str], by: Literal["size", "steps"], steps: int | None, out: str | None) -> list[str]:
    """Draws them if there is a place to; the figures, a line of the picture each."""
    from outgrow.evaluate import read_results
    from outgrow.evaluate.figures import by_size, by_steps, draw_results

    found = [evaluation for path in paths for evaluation in read_results(path)]
    if out is not None:
        panels = draw_results(found, out, by, steps)
    else:
        panels = by_size(found, steps) if by == "size" else by_steps(found)
    return [json.dumps(line) for panel in panels for line in panel.as_json()]
