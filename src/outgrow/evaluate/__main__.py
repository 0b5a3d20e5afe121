"""Evaluation where only torch, numpy and safetensors are: `python -m outgrow.evaluate WEIGHTS DATASET...`. Elsewhere `outgrow evaluate` does more."""

from __future__ import annotations

import argparse
import sys

from outgrow.data import find_datasets
from outgrow.errors import OutgrowError
from outgrow.evaluate.metrics import check_flag
from outgrow.evaluate.report import render_table, table, write_results
from outgrow.evaluate.run import evaluate
from outgrow.models import choose_device


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m outgrow.evaluate", description="Board and pointwise accuracy.")
    parser.add_argument("weights", help="a weights file")
    parser.add_argument("datasets", nargs="+", help="data sets, by name or file (*.npz)")
    parser.add_argument("--steps", type=int, nargs="+", default=[], help="read the answer after these numbers of steps")
    parser.add_argument(
        "--restart", type=int, default=0, metavar="T", help="where the model is not sure after T steps, start over"
    )
    parser.add_argument("--limit", type=int, help="only the first so many puzzles of each set")
    parser.add_argument("--device", help="cpu, cuda, ... (a GPU if there is one)")
    parser.add_argument(
        "--nearest-seconds",
        type=float,
        default=10.0,
        help="time to look for the valid solution nearest to a wrong answer (10); with 0, python-sat is not needed",
    )
    parser.add_argument(
        "--by", metavar="FLAG", help="board accuracy with and without a flag of the puzzles, as 'singles'"
    )
    parser.add_argument("--first-steps", action="store_true", help="judge every step: when puzzles are first solved")
    parser.add_argument("--out", help="results file to write")
    arguments = parser.parse_args()
    try:
        datasets = find_datasets(arguments.datasets)
        check_flag(arguments.by, datasets)
        found = evaluate(
            arguments.weights,
            datasets,
            steps=arguments.steps,
            restart=arguments.restart,
            limit=arguments.limit,
            device=choose_device(arguments.device),
            nearest_seconds=arguments.nearest_seconds,
            first_steps=arguments.first_steps,
        )
        print(render_table(table([found]), by=arguments.by), end="", flush=True)
        if arguments.out:
            write_results(arguments.out, [found])
    except (OutgrowError, OSError) as error:
        print(f"outgrow: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 0


if __name__ == "__main__":
    sys.exit(main())
