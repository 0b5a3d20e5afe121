"""What benchmarks/engine.py found, put together: one file, tables, a picture."""

from __future__ import annotations

import itertools
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from engine_cases import CARD, FULL, PEERS, WAYS, Case

from outgrow.errors import OutgrowError
from outgrow.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Row = dict[str, Any]
Key = tuple[str, str, int]  # mode, target, fixed batch
SHOWN = {"pyg": "PyTorch Geometric", "reference": "plain PyTorch", "compiled": "compiled", "fused": "fused"}
SHOWN_ON_CPU = {"pyg": "PyTorch Geometric", "reference": "plain PyTorch", "blocks": "in blocks"}
STARTED = (("seconds", "{:.3g}"), ("startup_seconds", "{:.0f}"))
MODELS = ("binarized", "multivalued", "grouped")


def parse_line(line: str) -> Row | None:
    """A line of JSON; libraries print other things among them."""
    try:
        words = json.loads(line)
    except ValueError:  # or half a line, of a run that was killed
        return None
    return words if isinstance(words, dict) else None


def case_of(row: Row) -> Case:
    return Case(row["target"], row["mode"], row["way"], row["fixed"])


def read_rows(paths: Iterable[Path]) -> tuple[Row, dict[Case, Row]]:
    """Where the rows of some files come from, and the last one of each case; one with a figure counts for more than one without."""
    about: Row = {}
    rows: dict[Case, Row] = {}
    lines = [line for path in paths if path.exists() for line in path.read_text().splitlines()]
    for words in filter(None, map(parse_line, lines)):
        if "commit" in words:
            about = words
        elif "target" in words and not ("error" in words and "error" not in rows.get(case_of(words), words)):
            rows[case_of(words)] = words
    return about, rows


def merge(paths: Sequence[Path], target: Path) -> Row:
    """One file of all rows: the card, how ours compare with the better one of the peers, the figures, the checks."""
    about, found = read_rows(paths)
    if not found:
        raise OutgrowError(f"{', '.join(map(str, paths))}: nothing was measured")
    card = found.pop(CARD, {})
    figures = [row for case, row in found.items() if case.mode != "check"]
    for row in figures:
        if "tflops" in row and "tflops" in card and row["device"] != "cpu":
            row["of_peak"] = row["tflops"] / card["tflops"]
    figures.sort(
        key=lambda r: (
            r["mode"],
            MODELS.index(r["target"].split("-")[0]),
            *place(r["target"]),
            r["fixed"],
            list(WAYS).index(r["way"]),
        )
    )
    report = {
        "benchmark": "benchmarks/engine.py",
        **about,
        "card": {key: value for key, value in card.items() if key not in asdict(CARD)},
        "ratios": compare(figures),
        "figures": figures,
        "checks": [row for case, row in found.items() if case.mode == "check"],
    }
    write_whole(target, [json.dumps(shorten(report), indent=1) + "\n"])
    return report


def place(target: str) -> tuple[str, int]:
    """Puzzle and size."""
    _, puzzle, size = target.split("-")
    return puzzle, int(size)


def shorten(words: Any) -> Any:
    """Numbers with four digits."""
    if isinstance(words, dict):
        return {key: shorten(value) for key, value in words.items()}
    if isinstance(words, list):
        return [shorten(value) for value in words]
    return float(f"{words:.4g}") if isinstance(words, float) and math.isfinite(words) else words


def group(figures: Iterable[Row]) -> dict[Key, dict[str, Row]]:
    """The row of each way, and as 'pyg' the faster one of the peers; a peer that failed is there where no other is."""
    found: dict[Key, dict[str, Row]] = {}
    for row in figures:
        found.setdefault((row["mode"], row["target"], row["fixed"]), {})[row["way"]] = row
    for ways in found.values():
        peers = [ways[way] for way in PEERS if way in ways]
        if peers:
            ways["pyg"] = max(peers, key=lambda row: row.get("puzzles_per_second", 0.0))
    return found


def compare(figures: Iterable[Row]) -> list[Row]:
    """How many times as fast as the peer, and how many times less memory a puzzle, for every way of ours."""
    ratios: list[Row] = []
    for (mode, target, fixed), ways in group(figures).items():
        peer = ways.get("pyg", {"error": ""})
        for way, row in ways.items():
            if way in (*PEERS, "pyg") or "error" in row or "error" in peer:
                continue
            memory = peer["mib_per_puzzle"] / row["mib_per_puzzle"] if row["mib_per_puzzle"] else None
            speed = row["puzzles_per_second"] / peer["puzzles_per_second"]
            where = {"target": target, "mode": mode, "fixed": fixed, "way": way, "peer": peer["way"]}
            ratios.append({**where, "times_as_fast": speed, "times_less_memory": memory})
    return ratios


# ---- Tables


def markdown(head: Sequence[str], body: Iterable[Sequence[str]]) -> str:
    rows = [f"| {' | '.join(line)} |\n" for line in (head, *body)]
    return "".join([rows[0], "|---" * len(head) + "|\n", *rows[1:]])


def show(row: Row | None, key: str, pattern: str, factor: float = 1.0) -> str:
    """A number of a row, or why there is none."""
    if row is None or row.get("error", FULL) != FULL:
        return "failed" if row else "-"
    return pattern.format(factor * row[key]) if row.get(key) is not None else FULL if "error" in row else "-"


def show_rate(row: Row | None) -> str:
    """Puzzles a second and the batch size."""
    rate = show(row, "puzzles_per_second", "{:,.0f}" if row and row.get("puzzles_per_second", 0) >= 100 else "{:.3g}")
    return f"{rate} ({row['batch']})" if row and "batch" in row else rate


def name(key: Key) -> str:
    return key[1].replace("-", " ") + (f", {key[2]} at a time" if key[2] > 1 else "")


def tables(report: Row) -> Iterator[tuple[str, str]]:
    """Titles and tables: training and inference on a GPU, start-up; one puzzle on a CPU."""
    rows = group(report["figures"])
    ratios = {(r["mode"], r["target"], r["fixed"], r["way"]): r for r in report["ratios"]}
    on_gpu = [key for key, ways in rows.items() if all(row["device"] != "cpu" for row in ways.values())]

    def compared(key: Key, way: str) -> list[str]:
        return [show(ratios.get((*key, way)), what, "{:,.1f}x") for what in ("times_as_fast", "times_less_memory")]

    for mode, title in (
        ("train", "Training"),
        ("infer", "Inference"),
    ):
        speed, memory, start = [], [], []
        for key in (key for key in on_gpu if key[0] == mode):
            ways = [rows[key].get(way) for way in SHOWN]
            work = [show(ways[-1], "tflops", "{:.1f}"), show(ways[-1], "of_peak", "{:.1%}")]
            speed.append([name(key), *map(show_rate, ways), *work, compared(key, "fused")[0]])
            memory.append([name(key), *(show(w, "mib_per_puzzle", "{:,.1f}") for w in ways), compared(key, "fused")[1]])
            start.append([name(key), *(show(w, "startup_seconds", "{:.0f}") for w in ways)])
        if speed:
            yield (
                f"{title}: puzzles a second (at a batch of)",
                markdown(["", *SHOWN.values(), "TFLOP/s", "of peak", "faster"], speed),
            )
            yield f"{title}: MiB a puzzle", markdown(["", *SHOWN.values(), "less"], memory)
            yield (
                f"{title}: seconds from the start of the process to the first result",
                markdown(["", *SHOWN.values()], start),
            )
    body = []
    for key in (key for key in rows if key not in on_gpu):
        ways = [rows[key].get(way) for way in SHOWN_ON_CPU]
        seconds = [show(way, "seconds", "{:.3g}") for way in ways]
        memory = [show(way, "peak_gib", "{:,.0f}", 1024) for way in ways]
        faster, smaller = compared(key, "blocks")
        body.append([name(key), *seconds, faster, *memory, smaller])
    if body:
        columns = [f"{way}, {unit}" for unit in ("s", "MiB") for way in SHOWN_ON_CPU.values()]
        columns.insert(len(SHOWN_ON_CPU), "faster")
        head = ["", *columns, "less memory"]
        yield f"One puzzle on {report.get('threads', 2)} threads of a processor", markdown(head, body)
    body = []
    for key in (key for key, ways in rows.items() if "compiled-fp32" in ways):
        both = [rows[key].get(way) for way in ("blocks", "compiled-fp32")]
        cells = [show(way, what, pattern) for what, pattern in STARTED for way in both]
        body.append([name(key), *cells])
    if body:
        head = ["", *(f"{way}, {unit}" for unit in ("s a puzzle", "s to start") for way in ("in blocks", "compiled"))]
        yield "Compiled beside in blocks", markdown(head, body)


# ---- A picture


def draw(report: Row, path: Path) -> None:
    """Time and memory of a Sudoku against its size, in training or else in inference, a row of panels for each model."""
    from matplotlib.ticker import FuncFormatter, NullFormatter

    from outgrow.train import curves as look

    boards = {key: ways for key, ways in group(report["figures"]).items() if place(key[1])[0] == "sudoku"}
    rows = {key: ways for key, ways in boards.items() if key[0] == "train" and not key[2]}
    shown = SHOWN if rows else SHOWN_ON_CPU
    rows = rows or {key: ways for key, ways in boards.items() if all(r["device"] == "cpu" for r in ways.values())}
    models = [model for model in MODELS if any(target.startswith(f"{model}-") for _, target, _ in rows)]
    if not models:
        raise OutgrowError("neither training on Sudoku nor solving it on a CPU was measured: nothing to draw")
    height = 0.6 + 2.5 * len(models)

    def line(axes: Axes, model: str, way: str, at: int, factor: float, key: str) -> set[int]:
        points: list[tuple[int, float]] = []
        for (_, target, _), ways in rows.items():
            row = ways.get(way, {"error": ""})
            if target.startswith(f"{model}-") and "error" not in row:
                points.append((place(target)[1], factor * (1 / row[key] if factor > 1 else row[key])))
        if points:
            how: dict[str, Any] = {"linewidth": 1.8, "markersize": 5.5, "markeredgecolor": "white"}
            how |= {"color": look.COLORS[at], "marker": look.MARKERS[at], "label": shown[way], "gid": f"{model} {way}"}
            axes.plot(*zip(*sorted(points), strict=True), **how)
        return {size for size, _ in points}

    def fill(canvas: Figure) -> None:
        canvas.set_size_inches(7.5, height)
        margins = {"left": 0.12, "right": 0.98, "top": 1 - 0.3 / height, "bottom": 0.3 / height}
        panels = canvas.subplots(len(models), 2, squeeze=False, gridspec_kw={**margins, "wspace": 0.35, "hspace": 0.25})
        kinds = (("ms a puzzle", "puzzles_per_second", 1e3), ("MiB a puzzle", "mib_per_puzzle", 1.0))
        for (at, model), (column, (label, key, factor)) in itertools.product(enumerate(models), enumerate(kinds)):
            axes, sizes = panels[at][column], set[int]()
            for number, way in enumerate(shown):
                sizes |= line(axes, model, way, number, factor, key)
            axes.set(xscale="log", yscale="log", ylabel=label, title=model)
            axes.set_xticks(sorted(sizes), [f"{n}x{n}" for n in sorted(sizes)])
            axes.xaxis.set_minor_formatter(NullFormatter())
            axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,g}"))
            axes.minorticks_off()
        panels[0][0].legend(loc="upper left", framealpha=0.6)

    look.save_picture(path, fill)
