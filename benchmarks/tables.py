"""The tables of README.md and the guide about the weights that come with outgrow and the sets, made from results files.

Each stands between marks, <!-- beyond --> and <!-- /beyond -->, and is written anew in place.

    python benchmarks/tables.py [--check]
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import engine_report

from outgrow.errors import OutgrowError
from outgrow.evaluate import Evaluation, Row, paper_figure, read_results, table
from outgrow.evaluate.paper import paper_set
from outgrow.weights import Entry, read_catalog, steps_for
from outgrow.writing import write_whole

ROOT = Path(__file__).resolve().parents[1]
MODELS = ("binarized", "multivalued")
SHARES = ("50%", "90%", "99%", "100%")
# The most values in what the paper trains on (Sudoku 24 apart).
PAPER_TRAINED = {"sudoku": 9, "futoshiki": 6, "coloring": 4}
Measured = tuple[Entry, Sequence[Evaluation]]


def markdown(head: Sequence[str], body: Sequence[Sequence[str]]) -> str:
    """A table."""
    rows = [f"| {' | '.join(line)} |\n" for line in (head, *body)]
    return "".join([rows[0], "|---" * len(head) + "|\n", *rows[1:]])


def by_set(evaluations: Sequence[Evaluation]) -> dict[str, list[Row]]:
    """The rows of each set, fewest steps first."""
    found: dict[str, list[Row]] = {}
    for row in table(evaluations):
        found.setdefault(row.dataset, []).append(row)
    return {name: sorted(rows, key=lambda row: row.steps) for name, rows in found.items()}


def solving(entry: Entry, rows: Sequence[Row]) -> Row | None:
    """The row after as many steps as solving takes."""
    return next((row for row in rows if row.steps == steps_for(entry, row.size)), None)


def percent(mean: float, std: float, seeds: int) -> str:
    """With a digit; 100.0 is all of them and never rounded up to."""
    return f"{100.0 if mean == 1 else min(100 * mean, 99.9):.1f}" + (f" ± {100 * std:.1f}" if seeds > 1 else "")


def first_attempt(entry: Entry, rows: Sequence[Row]) -> str:
    """Board accuracy before anything started over."""
    found = [row for row in rows if row.steps == entry.restart]
    return percent(found[0].board, found[0].board_std, found[0].seeds) if found else "-"


def worst(evaluations: Sequence[Evaluation], row: Row) -> float:
    """The board accuracy of the worst seed."""
    return min(s.board for e in evaluations for s in e.scores if (s.dataset, s.steps) == (row.dataset, row.steps))


def paper(puzzle: str, dataset: str, size: int, trained: int) -> str:
    """The best that the paper reports for this set, and by which of its models; nothing beside weights that saw more values than those."""
    if dataset != paper_set(puzzle, size) or trained > PAPER_TRAINED[puzzle]:
        return "-"
    found = [(f, model) for model in MODELS if (f := paper_figure(puzzle, model, size))]
    parts = [f"{f.mean:.1f} ± {f.std:.1f}, {model}" for f, model in sorted(found, key=lambda p: -p[0].mean)[:1]]
    if puzzle == "sudoku" and (tuned := paper_figure("sudoku-24", "multivalued", size)):
        parts += [f"{tuned.mean:.1f} ± {tuned.std:.1f}, fine-tuned on 24x24"]
    return "; ".join(parts) or "-"


def grouped(measured: Sequence[Measured]) -> list[Measured]:
    """Those of the grouped model, which most tables are about."""
    return [(entry, evaluations) for entry, evaluations in measured if entry.model == "grouped"]


def beyond(measured: Sequence[Measured]) -> str:
    """Every test set of every entry of the grouped model, beside the paper."""
    body = []
    for entry, evaluations in grouped(measured):
        for name, rows in by_set(evaluations).items():
            row = solving(entry, rows)
            if row is None or not name.endswith("-test"):
                continue
            body.append(
                [
                    f"{entry.puzzle}, up to {entry.max_trained_values} values",
                    f"`{name}`",
                    row.steps_shown,
                    first_attempt(entry, rows),
                    percent(row.board, row.board_std, row.seeds),
                    f"{100 * worst(evaluations, row):.1f}",
                    paper(entry.puzzle, name, row.size, entry.max_trained_values),
                ]
            )
    head = ["trained on", "solves", "steps", "first attempt", "board accuracy %", "worst seed", "the paper's best"]
    return markdown(head, body)


def two(measured: Sequence[Measured]) -> str:
    """Every test set of the entries of the paper's two models."""
    body = []
    for entry, evaluations in measured:
        for name, rows in by_set(evaluations).items():
            row = solving(entry, rows)
            if entry.model in MODELS and row is not None and name.endswith("-test"):
                shown = percent(row.board, row.board_std, row.seeds)
                body.append([entry.name, str(entry.max_trained_values), f"`{name}`", row.steps_shown, shown])
    return markdown(["weights", "values in training", "set", "steps", "board accuracy %"], body)


def steps(measured: Sequence[Measured]) -> str:
    """Board accuracy after several numbers of steps."""
    every = sorted({row.steps for _, evaluations in grouped(measured) for row in table(evaluations)})
    body = []
    for entry, evaluations in grouped(measured):
        for name, rows in by_set(evaluations).items():
            found = {row.steps: percent(row.board, row.board_std, row.seeds) for row in rows}
            body.append([entry.name, f"`{name}`", *(found.get(n, "-") for n in every)])
    return markdown(["weights", "set", *(f"{n} steps" for n in every)], body)


def hard(measured: Sequence[Measured]) -> str:
    """The hard sets, by whether singles suffice."""
    body = []
    for entry, evaluations in grouped(measured):
        for name, rows in by_set(evaluations).items():
            for row in rows if name.endswith("-hard") else ():
                parts = [row.by_flag.get(f"singles={value}") for value in (1, 0)]
                shown = [f"{percent(p[0], p[1], row.seeds)} of {p[2]}" if p else "-" for p in parts]
                body.append(
                    [entry.name, f"`{name}`", row.steps_shown, percent(row.board, row.board_std, row.seeds), *shown]
                )
    return markdown(["weights", "set", "steps", "all", "singles suffice", "they do not"], body)


def first(measured: Sequence[Measured]) -> str:
    """When puzzles are first solved."""
    body = []
    for entry, evaluations in grouped(measured):
        for name, rows in by_set(evaluations).items():
            row = rows[-1]
            if row.first_steps:
                shares = [str(row.first_steps.get(share, "-")) for share in SHARES]
                body.append([entry.name, f"`{name}`", f"{row.first_steps['solved']} of {row.count}", *shares])
    return markdown(["weights", "set", "solved", *(f"{share} after" for share in SHARES)], body)


# The columns of `depth`: the first and the last number of rounds.
ROUNDS = {"0": (0, 0), "1": (1, 1), "2": (2, 2), "3-5": (3, 5), "6 and more": (6, 10**9)}


def depth(measured: Sequence[Measured]) -> str:
    """Percent of the puzzles of each set by the rounds of probing that they take; this is of the sets, not of any weights."""
    body = []
    path = ROOT / "results" / "probing.json"
    try:
        sets = json.loads(path.read_text())["sets"]
    except (OSError, ValueError, KeyError) as error:
        raise OutgrowError(f"{path}: not written by benchmarks/probing.py ({type(error).__name__})") from None
    for name, rounds in sets.items():
        total = sum(rounds.values())
        counts = [
            sum(n for key, n in rounds.items() if key != "never" and low <= int(key) <= high)
            for low, high in ROUNDS.values()
        ]
        shares = [f"{100 * n / total:.1f}" if n else "-" for n in (*counts, rounds.get("never", 0))]
        body.append([f"`{name}`", str(total), *shares])
    return markdown(["set", "puzzles", *ROUNDS, "never"], body)


def published(measured: Sequence[Measured]) -> str:
    """Boards of sgt-puzzles that the shipped networks solve alone."""
    path = ROOT / "results" / "published.json"
    try:
        levels = json.loads(path.read_text())["levels"]
        body = [
            [
                f"`sgt-{level.replace('-', ' --generate N ')}`",
                about["weights"],
                f"{about['solved']} of {about['count']}",
                "-" if about["median_steps"] is None else str(about["median_steps"]),
                f"{about['seconds'] / about['count']:.1f}",
            ]
            for level, about in levels.items()
        ]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise OutgrowError(f"{path}: not written by benchmarks/published.py ({type(error).__name__})") from None
    return markdown(["boards", "weights", "solved by the network alone", "median steps", "seconds a board"], body)


def engine_on_cpu(measured: Sequence[Measured]) -> str:
    """One puzzle on a processor."""
    return next(iter(_engine().values()))


def engine_compiled(measured: Sequence[Measured]) -> str:
    """What compiling gives and costs there."""
    return _engine()["Compiled beside in blocks"]


def registers(measured: Sequence[Measured]) -> str:
    """What kernels become for a GPU."""
    found = json.loads((ROOT / "results" / "registers.json").read_text())["kernels"]
    keys = ("registers", "spilled_bytes", "shared_bytes", "instructions", "products", "cycles")
    head = [
        "kernel",
        "rows",
        "warps",
        "registers",
        "bytes spilled",
        "bytes of fast memory",
        "instructions a tile",
        "of them products",
        "cycles",
    ]
    body = [
        [row["kernel"], str(row.get("N") or row["M"]), str(row["num_warps"]), *(f"{row[key]:,}" for key in keys)]
        for row in found
    ]
    return markdown(head, body)


def _engine() -> dict[str, str]:
    return dict(engine_report.tables(json.loads((ROOT / "results" / "engine-cpu.json").read_text())))


PLACES: dict[str, list[tuple[str, Callable[[Sequence[Measured]], str]]]] = {
    "README.md": [("beyond", beyond)],
    "docs/guide/grouped.md": [("steps", steps), ("hard", hard), ("first", first), ("probing", depth)],
    "docs/guide/solve.md": [("published", published)],
    "docs/guide/weights.md": [("two", two)],
    "docs/performance.md": [
        ("engine-cpu", engine_on_cpu),
        ("engine-compiled", engine_compiled),
        ("registers", registers),
    ],
}


def read_measured(root: Path = ROOT, folder: Path | None = None) -> list[Measured]:
    """The entries of the catalog with all that was measured of their recipes; defaults first, Sudoku before the others."""
    entries = sorted(read_catalog(folder).values(), key=lambda e: (e.default, e.puzzle, e.name), reverse=True)
    return [(entry, read_results(root / entry.results)) for entry in entries]


def replace(text: str, name: str, content: str) -> str:
    """The text with this between the marks of that name."""
    before, mark, rest = text.partition(f"<!-- {name} -->\n")
    _, end, after = rest.partition(f"<!-- /{name} -->")
    if not (mark and end):
        raise OutgrowError(f"no marks <!-- {name} --> and <!-- /{name} --> to write between")
    return before + mark + content + end + after


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--check", action="store_true", help="write nothing; the exit code is 1 if a table would change"
    )
    check = parser.parse_args(arguments).check
    measured, changed = read_measured(), 0
    if not measured:
        print("the catalog has no weights: no tables")
        return 0
    for name, parts in PLACES.items():
        path = ROOT / name
        text = new = path.read_text()
        try:
            for mark, make in parts:
                new = replace(new, mark, make(measured))
        except OutgrowError as error:
            print(f"{path}: {error}", file=sys.stderr)
            return 2
        changed += new != text
        print(f"{name}: {'as it was' if new == text else 'differs' if check else 'written'}")
        if new != text and not check:
            write_whole(path, [new])
    return 1 if check and changed else 0


if __name__ == "__main__":
    sys.exit(main())
