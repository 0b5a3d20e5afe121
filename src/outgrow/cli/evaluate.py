"""`outgrow evaluate`."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from outgrow.cli.terminal import track
from outgrow.data import Dataset, find_datasets
from outgrow.errors import OutgrowError

if TYPE_CHECKING:
    from outgrow.evaluate import Evaluation, Predictions, Score

_FILE = click.Path(dir_okay=False, path_type=Path)


@click.command("evaluate")
@click.argument("files", metavar="WEIGHTS... DATASET...", nargs=-1, required=True)
@click.option("--steps", metavar="T,...", help="Read the answer after these numbers of steps  [the model's own].")
@click.option(
    "--restart",
    metavar="T",
    type=click.IntRange(0, 100_000),
    default=0,
    help="Where the model is not sure after T steps, start over in another way, with a guess; of all attempts the answer it is surest of counts  [never].",
)
@click.option(
    "--limit", metavar="N", type=click.IntRange(min=1), help="Only the first N puzzles of each set  [all of them]."
)
@click.option("--device", metavar="NAME", help="cpu, cuda, ...  [a GPU if there is one]")
@click.option(
    "--nearest",
    "nearest_seconds",
    metavar="SECONDS",
    type=float,
    default=10.0,
    help="Where a puzzle may have other solutions than the stored one: time to look for the one nearest to a wrong answer; 0 not to look  [10].",
)
@click.option("--by", metavar="FLAG", help="Board accuracy with and without a flag of the puzzles, as 'singles'.")
@click.option(
    "--first-steps",
    is_flag=True,
    help="Judge the answer after every step: when are puzzles first solved? Takes longer.",
)
@click.option("--save", "save_to", metavar="FILE", type=_FILE, help="Save the answers as JSON lines.")
@click.option(
    "--predictions", "given", metavar="FILE", type=_FILE, help="Score saved answers instead of running WEIGHTS."
)
@click.option("--out", metavar="FILE", type=_FILE, help="Write the results, and where they come from, as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    files: tuple[str, ...],
    steps: str | None,
    restart: int,
    limit: int | None,
    device: str | None,
    nearest_seconds: float,
    by: str | None,
    first_steps: bool,
    save_to: Path | None,
    given: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Board and pointwise accuracy of WEIGHTS on each DATASET, beside the paper's figures.

    WEIGHTS are files that end in .safetensors; a DATASET is a name (see `outgrow data list`) or a file that ends in .npz.

    A board counts if the verdict says so, whatever the stored solution; [95% interval]. Pointwise accuracy is taken against the
    nearest valid solution; '>=' marks a lower bound. Weights of one recipe are its seeds: mean ± standard deviation.

    \b
    Examples:
      outgrow evaluate runs/smoke-0/weights.safetensors sudoku-4-test sudoku-6-test
      outgrow evaluate runs/*/weights.safetensors sudoku-16-test --steps 32,64 --out results/mine.json
      outgrow evaluate weights.safetensors sudoku-9-hard --by singles --first-steps
      outgrow evaluate weights.safetensors coloring-7-test --steps 128,1024 --restart 128
      outgrow evaluate weights.safetensors sudoku-9-test --save answers.jsonl
      outgrow evaluate --predictions answers.jsonl sudoku-9-test
    """
    from outgrow.evaluate import check_flag, render_table, save_predictions, table, write_results

    weights = [name for name in files if name.endswith(".safetensors")]
    names = [name for name in files if name not in weights]
    if given is not None and (weights or save_to or steps is not None or restart or limit or device or first_steps):
        raise click.UsageError(
            "--predictions are scored as they are: without weights, --steps, --restart, --limit, --device, --first-steps or --save"
        )
    if given is None and not weights:
        raise click.UsageError("no weights named: files that end in .safetensors, as 'outgrow train' writes them")
    if not names:
        raise click.UsageError("no data set named; 'outgrow data list' shows them")
    if len({os.path.realpath(name) for name in weights}) < len(weights):
        raise click.UsageError("a weights file is named twice")
    if save_to and len(weights) > 1:
        raise click.UsageError("--save keeps the predictions of one weights file")
    if not 0 <= nearest_seconds <= 86_400:
        raise click.UsageError(f"--nearest {nearest_seconds}: 0 to 86,400 seconds")
    read = {os.path.realpath(name) for name in (*files, *([given] if given else []))}
    written = [os.path.realpath(path) for path in (save_to, out) if path]
    if read & set(written) or len(set(written)) < len(written):
        raise click.UsageError("--save and --out need files of their own")
    chosen = _steps(steps)
    datasets = find_datasets(names)
    check_flag(by, datasets)
    kept: list[Predictions] = []
    if given is not None:
        evaluations = [_score(given, datasets, nearest_seconds)]
    else:
        evaluations = _run(weights, datasets, chosen, restart, limit, device, nearest_seconds, first_steps, kept)
    rows = table(evaluations)
    # Shown first: a full disk does not take an hour's figures along.
    print(json.dumps([e.as_json() for e in evaluations]) if as_json else render_table(rows, by=by).rstrip("\n"))
    if save_to:
        save_predictions(save_to, kept)
    if out:
        write_results(out, evaluations)
    return 0


def _steps(text: str | None) -> list[int]:
    if text is None:
        return []
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        found = [0]
    if any(not 1 <= n <= 100_000 for n in found):
        raise click.UsageError(f"--steps {text}: whole numbers from 1 to 100,000, as in 32,64")
    return found


def _run(
    weights: list[str],
    datasets: dict[str, Dataset],
    steps: list[int],
    restart: int,
    limit: int | None,
    device: str | None,
    nearest_seconds: float,
    first_steps: bool,
    kept: list[Predictions],
) -> list[Evaluation]:
    from outgrow.evaluate.run import evaluate, open_weights
    from outgrow.models import choose_device
    from outgrow.solve.attempts import check_restart

    found: list[Evaluation] = []
    where = choose_device(device)
    for name in weights:  # all of them before hours of work
        model = open_weights(name, datasets).model
        check_restart(restart, max(steps, default=model.config.steps))
    puzzles = sum(min(len(d), limit or len(d)) for d in datasets.values())
    for name in weights:
        with track(Path(name).parent.name or name, puzzles * (1 + len(set(steps) or [0]))) as done:
            found.append(
                evaluate(
                    name,
                    datasets,
                    steps=steps,
                    restart=restart,
                    limit=limit,
                    device=where,
                    nearest_seconds=nearest_seconds,
                    first_steps=first_steps,
                    keep=kept.extend,
                    progress=done,
                )
            )
    return found


def _score(path: Path, datasets: dict[str, Dataset], nearest_seconds: float) -> Evaluation:
    """Predictions from a file, made here or elsewhere."""
    from outgrow.evaluate import Evaluation, load_predictions, score
    from outgrow.provenance import provenance

    by_content = {d.sha256: name for name, d in datasets.items()}
    found = load_predictions(path)
    if len({(p.sha256, p.steps) for p in found}) < len(found):
        raise OutgrowError(
            f"{path}: holds two answers to one set after as many steps; score each from a file of its own"
        )
    scores: list[Score] = []
    with track(path.name, sum(len(p.indices) for p in found)) as done:
        before = 0
        for predictions in found:
            if predictions.sha256 not in by_content:
                raise OutgrowError(
                    f"{path}: predictions for {predictions.dataset}; name that data set too, the one they were made for"
                )
            dataset = datasets[by_content[predictions.sha256]]
            scores.append(
                score(dataset, predictions, nearest_seconds=nearest_seconds, progress=lambda n, b=before: done(b + n))
            )
            before += len(predictions.indices)
    return Evaluation(path.name, "", "", None, scores, provenance())
