"""`outgrow evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from outgrow.cli.terminal import track
from outgrow.data import Dataset, find_dataset
from outgrow.errors import OutgrowError

if TYPE_CHECKING:
    from outgrow.evaluate import Evaluation, Predictions


@click.command("evaluate")
@click.argument("files", metavar="WEIGHTS... DATASET...", nargs=-1, required=True)
@click.option("--steps", metavar="T,...", help="Read the answer after these numbers of steps  [the model's own].")
@click.option("--limit", type=click.IntRange(min=1), help="Only the first so many puzzles of each set.")
@click.option("--device", metavar="NAME", help="cpu, cuda, ...  [a GPU if there is one]")
@click.option(
    "--nearest",
    "nearest_seconds",
    metavar="SECONDS",
    type=click.FloatRange(min=0),
    default=10.0,
    show_default=True,
    help="For a puzzle with many solutions: time to look for the one nearest to a wrong answer.",
)
@click.option(
    "--save", "save_to", metavar="FILE", type=click.Path(path_type=Path), help="Save the predictions as JSON lines."
)
@click.option(
    "--predictions",
    "given",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Score these predictions instead of running weights.",
)
@click.option("--out", metavar="FILE", type=click.Path(path_type=Path), help="Write the results as JSON.")
@click.option("--json", "as_json", is_flag=True, help="Print the results as JSON.")
def command(
    files: tuple[str, ...],
    steps: str | None,
    limit: int | None,
    device: str | None,
    nearest_seconds: float,
    save_to: Path | None,
    given: Path | None,
    out: Path | None,
    as_json: bool,
) -> int:
    """Board and pointwise accuracy of WEIGHTS (*.safetensors) on each DATASET, beside the paper's figures.

    A board counts if the verdict says so, whatever the stored solution. Pointwise accuracy is taken against the nearest valid
    solution; '>=' marks a lower bound. Several weights files of one recipe are seeds: mean and standard deviation are printed.

    \b
    Examples:
      outgrow evaluate runs/smoke-0/weights.safetensors sudoku-4-test sudoku-6-test
      outgrow evaluate runs/*/weights.safetensors sudoku-16-test --steps 32,64 --out results/mine.json
      outgrow evaluate weights.safetensors sudoku-9-test --save answers.jsonl
      outgrow evaluate --predictions answers.jsonl sudoku-9-test
    """
    from outgrow.evaluate import render_table, save_predictions, table, write_results

    weights = [name for name in files if name.endswith(".safetensors")]
    names = [name for name in files if name not in weights]
    if not names:
        raise click.UsageError("no data set named; 'outgrow data list' shows them")
    datasets = _load(names)
    if given is not None:
        if weights or save_to or steps:
            raise click.UsageError("--predictions are scored as they are: without weights, --steps or --save")
        evaluations = [_score(given, datasets, nearest_seconds)]
    else:
        if not weights:
            raise click.UsageError("no weights named: files that end in .safetensors, as 'outgrow train' writes them")
        if save_to and len(weights) > 1:
            raise click.UsageError("--save keeps the predictions of one weights file")
        kept: list[Predictions] = []
        evaluations = [_run(name, datasets, _steps(steps), limit, device, nearest_seconds, kept) for name in weights]
        if save_to:
            save_predictions(save_to, kept)
    if out:
        write_results(out, evaluations)
    if as_json:
        print(json.dumps([e.as_json() for e in evaluations]))
    else:
        print(render_table(table(evaluations)), end="")
    return 0


def _load(names: list[str]) -> dict[str, Dataset]:
    datasets: dict[str, Dataset] = {}
    for name in names:
        short = Path(name).stem if name.endswith(".npz") else name
        if short in datasets:
            raise click.UsageError(f"{short} is named twice")
        datasets[short] = find_dataset(name)
    return datasets


def _steps(text: str | None) -> list[int]:
    try:
        found = [int(part) for part in (text or "").split(",") if text]
    except ValueError:
        found = [0]
    if any(not 1 <= n <= 100_000 for n in found):
        raise click.UsageError(f"--steps {text}: whole numbers from 1 to 100,000, as in 32,64")
    return found


def _run(
    weights: str,
    datasets: dict[str, Dataset],
    steps: list[int],
    limit: int | None,
    device: str | None,
    nearest_seconds: float,
    kept: list[Predictions],
) -> Evaluation:
    from outgrow.evaluate.run import evaluate
    from outgrow.train.processes import choose_device

    total = sum(min(len(d), limit or len(d)) for d in datasets.values())
    sizes = {name: min(len(d), limit or len(d)) for name, d in datasets.items()}
    before = {name: sum(list(sizes.values())[:i]) for i, name in enumerate(sizes)}
    with track(Path(weights).parent.name or weights, total) as done:
        return evaluate(
            weights,
            datasets,
            steps=steps,
            limit=limit,
            device=choose_device(device),
            nearest_seconds=nearest_seconds,
            keep=kept.extend,
            progress=lambda name, count, _: done(before[name] + count),
        )


def _score(path: Path, datasets: dict[str, Dataset], nearest_seconds: float) -> Evaluation:
    """Predictions from a file, made here or elsewhere."""
    from outgrow.evaluate import Evaluation, load_predictions, score
    from outgrow.provenance import provenance

    by_content = {d.sha256: name for name, d in datasets.items()}
    found = load_predictions(path)
    scores = []
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
