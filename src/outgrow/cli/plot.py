"""`outgrow plot`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from outgrow.train.curves import draw, picture_format, read_log


@click.command("plot")
@click.argument("runs", metavar="RUN...", nargs=-1, required=True)
@click.option("--out", type=click.Path(), help="The picture: .svg, .png or .pdf  [default: curves.svg beside the log]")
@click.option(
    "--json", "as_json", is_flag=True, help="The figures, as one JSON object a run and line; draws only with --out."
)
def command(runs: tuple[str, ...], out: str | None, as_json: bool) -> None:
    """Draw the curves of a training run: its folder, or the log itself.

    Several runs are drawn over each other.

    \b
    Examples:
      outgrow plot runs/smoke-0
      outgrow plot runs/smoke-0 --out smoke.png
      outgrow plot runs/first runs/second --out both.svg
      outgrow plot runs/* --json
    """
    if out is None and not as_json:
        if len(runs) != 1:
            raise click.UsageError("several runs make one picture: say where with --out FILE")
        folder = Path(runs[0])
        out = str((folder if folder.is_dir() else folder.parent) / "curves.svg")
    if out is not None:
        picture_format(out)  # refused before a long log is read
    curves = [read_log(run) for run in runs]
    if out is not None:
        draw(curves, out)
    for line in [json.dumps(run.summary()) for run in curves] if as_json else [out]:
        print(line)
