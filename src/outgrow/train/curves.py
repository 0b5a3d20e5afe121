"""The curves of a training run: its log read back, and drawn.

A run appends to `log.jsonl`, an object a line: `start`, `update`, `validate`, `average`, `recover`, `end`. A resumed run goes on from its last
checkpoint, so its new `start` supersedes every line before it that lies beyond that update; so does a `recover`, beyond the update it goes
back to. What is left is the one history that led to the weights.
"""

from __future__ import annotations

import json
import math
import os
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLORS",
    "GRAY",
    "LOG_NAME",
    "MARKERS",
    "Curves",
    "draw",
    "picture_format",
    "printable",
    "read_log",
    "save_picture",
]

LOG_NAME = "log.jsonl"
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

_MAX_BYTES = 256 << 20
_TRAIN = ("loss", "final_loss", "accuracy", "grad_norm", "lr", "puzzles_per_second", "memory_gib", "seconds", "epoch")
_VALID = ("board", "pointwise", "loss", "seconds")
_FRACTIONS = {"accuracy", "board", "pointwise"}


@dataclass(frozen=True, eq=False)
class Curves:
    """A run of N logged updates and M validations; a figure that was not logged is NaN."""

    run: str  # the path it was read from
    recipe: str
    parameters: int | None
    update: Ints  # (N,), rising
    loss: Floats  # (N,), summed over the steps
    final_loss: Floats  # (N,), of the last step
    accuracy: Floats  # (N,), board accuracy on the training batch
    grad_norm: Floats
    lr: Floats
    puzzles_per_second: Floats
    memory_gib: Floats
    seconds: Floats  # (N,), since the start, earlier attempts included
    epoch: Floats
    valid_update: Ints  # (M,), rising
    valid_weights: tuple[str, ...]  # (M,)
    valid_board: Floats  # (M,)
    valid_pointwise: Floats
    valid_loss: Floats
    valid_seconds: Floats
    averaging: int | None  # the update at which weight averaging began
    recoveries: Ints  # the updates at which the run had to go back
    ended: str | None  # why it ended; None for a run that was cut or is running
    chosen: str | None  # the weights it ended with
    end_board: float  # and their board accuracy

    @property
    def updates(self) -> int:
        """How far the run got."""
        return int(max([0, *self.update[-1:], *self.valid_update[-1:]]))

    @property
    def elapsed(self) -> float:
        """Seconds of training; NaN if they were not logged."""
        return _last(self.seconds)

    @property
    def final_board(self) -> float:
        """Board accuracy of the weights the run ended with, or of its last validation."""
        return self.end_board if math.isfinite(self.end_board) else _last(self.valid_board)

    def summary(self) -> dict[str, Any]:
        """The figures of the run, ready for JSON: what was not logged is None."""
        known = np.flatnonzero(np.isfinite(self.valid_board))
        best = known[np.argmax(self.valid_board[known])] if known.size else None
        speed = self.puzzles_per_second[np.isfinite(self.puzzles_per_second)]
        figures = {
            "run": self.run,
            "recipe": self.recipe,
            "parameters": self.parameters,
            "updates": self.updates,
            "epochs": _last(self.epoch),
            "seconds": self.elapsed,
            "best_board": float(self.valid_board[best]) if best is not None else None,
            "best_update": int(self.valid_update[best]) if best is not None else None,
            "best_weights": self.valid_weights[best] if best is not None else None,
            "final_board": self.final_board,
            "final_weights": self.chosen,
            "puzzles_per_second": float(np.median(speed)) if speed.size else None,
            "memory_gib": float(np.max(self.memory_gib, initial=-math.inf, where=np.isfinite(self.memory_gib))),
            "averaging": self.averaging,
            "recoveries": self.recoveries.tolist(),
            "ended": self.ended,
        }
        return {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in figures.items()}

    def as_json(self) -> dict[str, Any]:
        """The summary and the curve of validations, for results files."""
        validations = {
            "update": self.valid_update,
            "seconds": self.valid_seconds,
            "board": self.valid_board,
            "pointwise": self.valid_pointwise,
            "loss": self.valid_loss,
        }
        summary = {key: value for key, value in self.summary().items() if key != "run"}
        return {**summary, "validations": {key: values.tolist() for key, values in validations.items()}}


def _last(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(known[-1]) if known.size else math.nan


def read_log(path: str | os.PathLike[str]) -> Curves:
    """The curves of a run: of its folder, or of the log itself.

    A line that was cut when the run was killed (the last one, or the one before a new `start`) is passed over; any other damage is an error.
    """
    log = Path(path)
    if log.is_dir():
        log = log / LOG_NAME
        if not log.exists():
            raise OutgrowError(f"{path}: no {LOG_NAME} in it; name the folder of a training run")
    if not log.exists():
        raise OutgrowError(f"{path}: no such folder or log; name the folder of a training run")
    if not log.is_file():
        raise OutgrowError(f"{path}: not a file; name the folder of a training run")
    if log.stat().st_size > _MAX_BYTES:
        raise DamagedFile(f"{log}: more than {_MAX_BYTES >> 20} MiB; this is no log of a training run")
    reader = _Reader(str(log))
    with log.open("rb") as file:
        for line in file:
            reader.take(line)
    return reader.curves(str(path))


class _Reader:
    """Takes the lines of a log; rows go into flat arrays, for a long log has a million of them."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.number = 0
        self.cut: int | None = None  # the line that may have been cut
        self.recipe = ""
        self.parameters: int | None = None
        self.train = array("d")  # rows of line, update, kind (0), *_TRAIN
        self.valid = array("d")  # rows of line, update, kind (of weights), *_VALID
        self.averages = array("d")  # rows of line, update, kind (0)
        self.recoveries = array("d")
        self.weights: dict[str, int] = {}
        self.resumed: list[tuple[int, int]] = []  # line, the update it went back to
        self.recovered: list[tuple[int, int]] = []
        self.end: dict[str, Any] = {}

    def damaged(self, reason: str, number: int | None = None) -> DamagedFile:
        return DamagedFile(f"{self.name}:{number or self.number}: {reason}; take the line out, or train again")

    def take(self, line: bytes) -> None:
        self.number += 1
        if not line.strip():
            return
        entry = _parse(line)
        if entry is _BROKEN:
            # A new attempt may have been written right behind the line that the last one did not finish.
            entry = _parse(line[max(0, line.rfind(b'{"event"')) :])
            if not _is_start(entry):
                entry = _BROKEN
        if self.cut is not None and not _is_start(entry):
            raise self.damaged("not JSON", self.cut)
        self.cut = None
        if entry is _BROKEN:
            if line.endswith(b"\n"):
                self.cut = self.number  # forgiven if a new attempt follows
            return
        if not isinstance(entry, dict) or not isinstance(entry.get("event"), str):
            raise self.damaged('no object with an "event"')
        match entry["event"]:
            case "start":
                self.start(entry)
            case "update":
                self.train.extend(self.row(entry, _TRAIN))
            case "validate":
                # A run may validate several weights at one update: they are told apart by their number.
                number = self.weights.setdefault(printable(entry.get("weights")), len(self.weights))
                self.valid.extend(self.row(entry, _VALID, number))
            case "average":
                self.averages.extend(self.row(entry))
            case "recover":
                # Marked where it failed; "update" may be the one it went back to already.
                self.recoveries.extend(self.row({"update": entry.get("failed", entry.get("update"))}))
                self.recovered.append((self.number, self.whole(entry, "back_to")))
            case "end":
                self.whole(entry, "update")
                self.end = {**entry, "board": self.figure(entry, "board")}

    def start(self, entry: dict[str, Any]) -> None:
        self.resumed.append((self.number, self.whole(entry, "update")))
        self.end = {}
        recipe = entry.get("recipe")
        self.recipe = printable(recipe.get("name") if isinstance(recipe, dict) else recipe)
        self.parameters = self.whole(entry, "parameters") if entry.get("parameters") is not None else None

    def row(self, entry: dict[str, Any], keys: tuple[str, ...] = (), kind: int = 0) -> list[float]:
        return [self.number, self.whole(entry, "update"), kind, *(self.figure(entry, key) for key in keys)]

    def whole(self, entry: dict[str, Any], key: str) -> int:
        value = entry.get(key)
        if type(value) is not int or not 0 <= value < 1 << 53:
            raise self.damaged(f'"{key}" must be a whole number')
        return value

    def figure(self, entry: dict[str, Any], key: str) -> float:
        """A number; null and what is missing or not finite, as a loss that blew up, is NaN."""
        value = entry.get(key)
        if value is None:
            return math.nan
        if type(value) not in (int, float) or 1e300 < abs(value) < math.inf:
            raise self.damaged(f'"{key}" must be a number')
        if key in _FRACTIONS and (value < 0 or value > 1):
            raise self.damaged(f'"{key}" must be a fraction, 0 to 1')
        return float(value) if math.isfinite(value) else math.nan

    def curves(self, run: str) -> Curves:
        if self.cut is not None:
            raise self.damaged("not JSON", self.cut)
        if not self.train and not self.valid:
            raise DamagedFile(f"{self.name}: no update in it; plot the run when it has made some")
        backs = sorted(self.resumed + self.recovered)
        train = _standing(self.train, len(_TRAIN), backs)
        valid = _standing(self.valid, len(_VALID), backs)
        averages = _standing(self.averages, 0, backs)
        recoveries = _standing(self.recoveries, 0, self.resumed)
        weights = list(self.weights)
        if not len(train) and not len(valid):
            raise DamagedFile(f"{self.name}: no update since it began anew; plot the run when it has made some")
        columns = dict(zip(_TRAIN, train[:, 3:].T, strict=True))
        # A resumed run may start its clock anew: where it steps back, it goes on from where it stood.
        clock = columns["seconds"]
        columns["seconds"] = clock + np.cumsum(np.where(np.diff(clock, prepend=0) < 0, np.roll(clock, 1), 0))
        return Curves(
            run=run,
            recipe=self.recipe or Path(self.name).resolve().parent.name,
            parameters=self.parameters,
            update=train[:, 1].astype(np.int64),
            **columns,
            valid_update=valid[:, 1].astype(np.int64),
            valid_weights=tuple(weights[int(kind)] for kind in valid[:, 2]),
            **{f"valid_{name}": column for name, column in zip(_VALID, valid[:, 3:].T, strict=True)},
            averaging=int(averages[0, 1]) if len(averages) else None,
            recoveries=recoveries[:, 1].astype(np.int64),
            ended=printable(self.end.get("reason", "done")) if self.end else None,
            chosen=printable(self.end.get("chosen")) or None,
            end_board=self.end.get("board", math.nan),
        )


_BROKEN = object()


def _parse(line: bytes) -> Any:
    try:
        return json.loads(line.decode())
    except (ValueError, RecursionError):
        return _BROKEN


def _is_start(entry: Any) -> bool:
    return isinstance(entry, dict) and entry.get("event") == "start"


def _standing(flat: array[float], figures: int, backs: Sequence[tuple[int, int]]) -> Floats:
    """The rows (line, update, kind, *figures) that no later step back supersedes, by update; of equal update and kind the last."""
    rows = np.array(flat).reshape(-1, 3 + figures)
    if backs:
        lines, targets = np.array(backs, dtype=np.float64).T
        lowest = np.append(np.minimum.accumulate(targets[::-1])[::-1], np.inf)  # of this step back and all later ones
        rows = rows[rows[:, 1] <= lowest[np.searchsorted(lines, rows[:, 0])]]
    rows = rows[np.lexsort((rows[:, 0], rows[:, 2], rows[:, 1]))]
    followed = (rows[1:, 1:3] == rows[:-1, 1:3]).all(axis=1)
    return rows[~np.append(followed, False)[: len(rows)]]


def printable(value: object) -> str:
    """Text from a log, fit for one line of a picture."""
    text = " ".join(value.split()) if isinstance(value, str) else ""
    text = "".join(c if c.isprintable() else "?" for c in text)
    return text if len(text) <= 60 else text[:59] + "…"


# Drawing

# Okabe and Ito's colors, told apart by the colorblind; the yellow of the eight is too light for a line.
COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#000000")
_DASHES = ("-", "--", ":")
MARKERS = ("o", "s", "D", "^", "v")
_INK, GRAY, _GRID = "#222222", "#6b6b6b", "#e6e6e6"
_MOST_POINTS = 600  # of one line: more cannot be seen, and makes a picture of megabytes
_STYLE: dict[Any, Any] = {
    "font.size": 9.5,
    "text.color": _INK,
    "text.parse_math": False,  # a recipe may be called '$1'
    "axes.edgecolor": "#b0b0b0",
    "axes.labelcolor": _INK,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "axes.grid": True,
    "axes.axisbelow": True,
    "grid.color": _GRID,
    "grid.linewidth": 0.8,
    "xtick.color": "#b0b0b0",
    "ytick.color": "#b0b0b0",
    "xtick.labelcolor": GRAY,
    "ytick.labelcolor": GRAY,
    "legend.edgecolor": "none",
    "legend.framealpha": 0.85,
    "legend.fontsize": 8.5,
    "lines.solid_capstyle": "round",
    "savefig.dpi": 160,
    "svg.hashsalt": "outgrow",
}
_METADATA: dict[str, dict[str, None]] = {"svg": {"Date": None}, "png": {}, "pdf": {"CreationDate": None}}


def picture_format(path: str | os.PathLike[str]) -> str:
    """The format of a picture by its name: svg, png or pdf."""
    suffix = Path(path).suffix.lower().removeprefix(".")
    if suffix not in _METADATA:
        raise OutgrowError(f"{path}: a picture's name must end in .svg, .png or .pdf")
    return suffix


def draw(curves: Sequence[Curves], path: str | os.PathLike[str]) -> None:
    """Draws one run, or several over each other, to an SVG, PNG or PDF file; the same curves make the same bytes."""
    picture_format(path)
    if not curves:
        raise OutgrowError("no run to draw; name one or more")
    save_picture(path, lambda figure: _fill(figure, curves))


def save_picture(path: str | os.PathLike[str], fill: Callable[[Figure], None]) -> None:
    """Lets `fill` draw in the style of this project, and writes the picture whole or not at all."""
    format = picture_format(path)
    target = Path(path).resolve()
    if not target.parent.is_dir():
        raise OutgrowError(f"{path}: the folder does not exist")
    if target.is_dir():
        raise OutgrowError(f"{path}: is a folder; name a file")
    try:
        import matplotlib
        from matplotlib.figure import Figure
    except ImportError:
        raise OutgrowError("drawing needs matplotlib: pip install matplotlib") from None
    import warnings

    picture = BytesIO()
    with matplotlib.rc_context(), warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Glyph .* missing from font")  # a box stands for it
        matplotlib.rcdefaults()  # a user's own settings would make other bytes
        matplotlib.rcParams.update(_STYLE)
        figure = Figure()
        fill(figure)
        figure.savefig(picture, format=format, metadata=_METADATA[format])
    write_whole(target, picture.getvalue())


def _fill(figure: Figure, curves: Sequence[Curves]) -> None:
    """The title (or the legend of several runs), and three panels on one axis of updates: loss, board accuracy, learning rate."""
    alone = len(curves) == 1
    # In inches, and not by a layout solver: its answers differ in the last bits from run to run, and with them the file.
    heights = (0.4 if alone else 0.2 * len(curves), 2.1, 2.1, 0.85)
    width, height, gap = 7.5, sum(heights) + 1.4, 0.25
    figure.set_size_inches(width, height)
    margins = {
        "left": 0.8 / width,
        "right": 1 - (0.75 if alone else 0.3) / width,
        "bottom": 0.52 / height,
        "top": 1 - 0.13 / height,
    }
    title, losses, boards, rates = figure.subplots(
        4, 1, height_ratios=heights, gridspec_kw={**margins, "hspace": 4 * gap / sum(heights)}
    )
    title.set_axis_off()
    figure.align_ylabels((losses, boards, rates))
    for panel in (losses, boards):
        panel.sharex(rates)
        panel.tick_params(labelbottom=False)
    labels = _labels(curves)
    for at, run in enumerate(curves):
        color = COLORS[at % len(COLORS)]
        dash = _DASHES[at // len(COLORS) % len(_DASHES)]
        _draw_loss(losses, run, color, dash, "all steps" if alone else labels[at], alone)
        _draw_boards(boards, run, color, dash, alone)
        rates.plot(*_thin(run.update, run.lr), dash, color=color, linewidth=1.5)
        if run.averaging is not None:
            for panel in (losses, boards, rates):
                panel.axvline(
                    run.averaging, color=GRAY if alone else color, linewidth=1, linestyle=(0, (4, 3)), zorder=1
                )
        losses.plot(
            run.recoveries,
            np.zeros(len(run.recoveries)),
            "^",
            transform=losses.get_xaxis_transform(),
            color=COLORS[1] if alone else color,
            markersize=6,
            clip_on=False,
        )
    _finish_axes(losses, boards, rates, max(run.updates for run in curves))
    _write_legends(title, losses, boards, curves)
    if alone:
        _draw_times(losses, curves[0])
        _write_title(title, curves[0])


def _draw_loss(panel: Axes, run: Curves, color: str, dash: str, label: str, alone: bool) -> None:
    # Smoothed as logarithms: one spike of a thousand does not lift the line for the window around it.
    loss, final = (np.log(np.where((v > 1e-80) & (v < 1e80), v, np.nan)) for v in (run.loss, run.final_loss))
    panel.plot(*_thin(run.update, np.exp(loss)), color=color, alpha=0.25, linewidth=0.7)
    panel.plot(*_thin(run.update, np.exp(_smooth(loss))), dash, color=color, linewidth=1.8, label=label)
    if alone and np.isfinite(final).any():
        panel.plot(*_thin(run.update, np.exp(_smooth(final))), "--", color=color, linewidth=1.3, label="last step")


def _draw_boards(panel: Axes, run: Curves, color: str, dash: str, alone: bool) -> None:
    panel.plot(*_thin(run.update, run.accuracy), color=color, alpha=0.12, linewidth=0.7)
    panel.plot(*_thin(run.update, _smooth(run.accuracy)), dash, color=color, alpha=0.5, linewidth=1.3)
    strong = COLORS[1] if alone else color
    for kind, weights in enumerate(dict.fromkeys(run.valid_weights)):
        those = np.array([w == weights for w in run.valid_weights])
        panel.plot(
            run.valid_update[those],
            run.valid_board[those],
            dash if kind == 0 else "--",
            marker=MARKERS[kind % len(MARKERS)],
            markevery=max(1, int(those.sum()) // 25),
            markersize=5.5,
            markeredgecolor="white",
            markeredgewidth=0.8,
            color=strong,
            linewidth=1.8,
            clip_on=False,
            zorder=3,
            label=f"validation, {weights} weights" if weights else "validation",
        )
    if alone and math.isfinite(run.final_board):
        panel.annotate(
            _percent(run.final_board),
            (1.015, run.final_board),
            xycoords=("axes fraction", "data"),
            va="center",
            color=strong,
            weight="bold",
            annotation_clip=False,
        )


def _finish_axes(losses: Axes, boards: Axes, rates: Axes, updates: int) -> None:
    from matplotlib.ticker import FuncFormatter, MaxNLocator, PercentFormatter

    losses.set(yscale="log", ylabel="loss")
    boards.set(ylim=(0, 1), ylabel="boards solved")
    boards.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    rates.set(ylim=(0, None), ylabel="learning rate", xlabel="updates", xlim=(0, max(updates, 1)))
    rates.yaxis.set_major_locator(MaxNLocator(3, steps=[1, 2, 5, 10]))
    losses.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    rates.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    rates.xaxis.set_major_locator(MaxNLocator(8, steps=[1, 2, 5, 10], integer=True))
    rates.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    for panel in (losses, boards, rates):
        panel.tick_params(length=0)
    losses.tick_params(which="minor", length=0, labelleft=False)


def _write_legends(title: Axes, losses: Axes, boards: Axes, curves: Sequence[Curves]) -> None:
    from matplotlib.lines import Line2D

    alone = len(curves) == 1
    marks: list[Line2D] = []
    if any(run.averaging is not None for run in curves):
        marks.append(Line2D([], [], color=GRAY, linewidth=1, linestyle=(0, (4, 3)), label="averaging begins"))
    if any(run.recoveries.size for run in curves):
        marks.append(Line2D([], [], color=COLORS[1] if alone else GRAY, marker="^", linestyle="", label="recovery"))
    train = Line2D([], [], color=COLORS[0] if alone else GRAY, alpha=0.5, linewidth=1.3, label="training batches")
    valid = Line2D([], [], color=GRAY, linewidth=1.8, marker="o", markeredgecolor="white", label="validation")
    runs = losses.get_legend_handles_labels()[0]
    if alone:
        losses.legend(handles=runs + marks, loc="upper right")
        boards.legend(handles=[train, *boards.get_legend_handles_labels()[0]], loc="lower right")
    else:
        title.legend(handles=runs, loc="upper left", borderaxespad=0)
        boards.legend(handles=[train, valid, *marks], loc="lower right")


def _draw_times(panel: Axes, run: Curves) -> None:
    """A second axis above: how long it took to get there."""
    known = np.isfinite(run.seconds)
    if not known.any() or run.elapsed <= 0:
        return
    steps = [n * unit for unit in (1, 60, 3600) for n in (1, 2, 5, 10, 15, 30)] + [
        n * 86400 for n in (1, 2, 5, 10, 20, 50)
    ]
    step = next((s for s in steps if run.elapsed / s <= 6), run.elapsed / 4)
    times = np.arange(step, run.elapsed, step)
    axis = panel.secondary_xaxis("top")
    axis.set_xticks(np.interp(times, run.seconds[known], run.update[known]), [_duration(t) for t in times])
    axis.tick_params(length=0)
    axis.spines["top"].set_visible(False)


def _write_title(panel: Axes, run: Curves) -> None:
    facts = [f"{run.parameters:,} parameters"] if run.parameters else []
    facts.append(f"{run.updates:,} updates" + (f" in {_duration(run.elapsed)}" if run.elapsed > 0 else ""))
    if math.isfinite(run.final_board):
        facts.append(f"{_percent(run.final_board)} of validation boards solved")
    panel.text(0, 1, run.recipe, va="top", weight="bold", size=13)
    panel.text(0, 0.12, " · ".join(facts), va="bottom", color=GRAY)


def _labels(curves: Sequence[Curves]) -> list[str]:
    """What tells runs apart: the recipe's name, with the path where two share it; and the final figure."""
    names = [run.recipe for run in curves]
    labels = [
        name if names.count(name) == 1 else f"{name} ({run.run[-40:]})" for name, run in zip(names, curves, strict=True)
    ]
    finals = [f"  {_percent(run.final_board)}" if math.isfinite(run.final_board) else "" for run in curves]
    return [label + final for label, final in zip(labels, finals, strict=True)]


def _percent(fraction: float) -> str:
    """Never rounded up to all of them.

    >>> _percent(0.9996), _percent(1.0)
    ('99.9%', '100.0%')
    """
    return f"{math.floor(fraction * 1000 + 1e-9) / 10:.1f}%"


def _duration(seconds: float) -> str:
    """
    >>> _duration(40), _duration(90), _duration(5400), _duration(200000)
    ('40 s', '1.5 min', '1.5 h', '2.3 days')
    """
    for name, unit in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= unit:
            return f"{seconds / unit:.1f}".removesuffix(".0") + f" {name}"
    return f"{seconds:.1f}".removesuffix(".0") + " s"


def _smooth(values: Floats) -> Floats:
    """The mean over a window of a fortieth of the run around each value; NaN counts for nothing."""
    count = len(values)
    at = np.arange(count)
    half = np.minimum(at, count // 80)  # narrower at the beginning, where a curve is steep
    low, high = at - half, np.minimum(at + half + 1, count)
    known = np.isfinite(values)
    totals = np.append(0.0, np.cumsum(np.where(known, values, 0.0)))
    counts = np.append(0, np.cumsum(known))
    number = counts[high] - counts[low]
    return np.where(number > 0, (totals[high] - totals[low]) / np.maximum(number, 1), np.nan)


def _thin(x: Ints, y: Floats) -> tuple[Ints, Floats]:
    """A long line by the lowest and highest point of each stretch: its spikes stay."""
    if len(x) <= _MOST_POINTS:
        return x, y
    kept: set[int] = set()
    for stretch in np.array_split(np.arange(len(x)), _MOST_POINTS // 2):
        known = stretch[np.isfinite(y[stretch])]
        kept |= {int(known[np.argmin(y[known])]), int(known[np.argmax(y[known])])} if known.size else {int(stretch[0])}
    chosen = sorted(kept)
    return x[chosen], y[chosen]
