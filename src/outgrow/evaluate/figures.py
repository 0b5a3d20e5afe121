"""Board accuracy against size and against the number of steps: results files, drawn beside the paper's figures."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import TYPE_CHECKING, Any, Literal

from outgrow.errors import OutgrowError
from outgrow.evaluate.metrics import Score, mean_std
from outgrow.evaluate.paper import RESULTS, Figure, paper_set
from outgrow.evaluate.report import Evaluation, table
from outgrow.train import curves as look  # the curves of training and these figures stand side by side

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = ["Line", "Panel", "PaperLine", "Point", "by_size", "by_steps", "draw_results"]

_PAPER_MODELS = ("binarized", "multivalued")  # what a model that the paper has not is held against
_DASHES = ("-", "-.", ":")
_MOST = 10**6  # size or steps: more than anyone has
_TRAINING = "largest size in training"


@dataclass(frozen=True)
class Point:
    """A size or a number of steps, and the board accuracy of every seed there: fractions of 1."""

    x: int
    boards: tuple[float, ...]
    dataset: str
    steps: int

    @property
    def mean(self) -> float:
        return mean_std(self.boards)[0]


@dataclass(frozen=True)
class Line:
    """What one recipe reached on sets of one kind, by size; or on one set, by steps.

    Attributes:
        label: what the legend says.
        group: which recipe it belongs to, counted over the whole picture: lines of one have one color.
        kind: of the sets: 'test', 'hard', or the name of a set that follows no such scheme.
        points: by rising x.
        seen: the largest size of that puzzle in training; None if nobody knows.
    """

    label: str
    recipe: str
    model: str
    task: str
    group: int
    kind: str
    points: tuple[Point, ...]
    seen: int | None

    def as_json(self) -> dict[str, Any]:
        """Its figures, fractions with 6 digits."""
        figures: dict[str, list[Any]] = {
            "x": [],
            "set": [],
            "steps": [],
            "seeds": [],
            "board": [],
            "low": [],
            "high": [],
        }
        for p in self.points:
            row = (p.x, p.dataset, p.steps, len(p.boards), p.mean, min(p.boards), max(p.boards))
            for column, value in zip(figures.values(), row, strict=True):
                column.append(round(value, 6) if isinstance(value, float) else value)
        head = {"recipe": self.recipe, "model": self.model, "kind": self.kind, "largest_size_in_training": self.seen}
        return {**head, **figures}


@dataclass(frozen=True)
class PaperLine:
    """The paper's figures for one of its models, at the sizes where ours were measured by its protocol."""

    label: str
    model: str
    points: tuple[tuple[int, Figure], ...]


@dataclass(frozen=True)
class Panel:
    """What shares a pair of axes."""

    puzzle: str
    title: str
    lines: tuple[Line, ...]
    paper: tuple[PaperLine, ...] = ()

    def as_json(self) -> list[dict[str, Any]]:
        """The figures of each line."""
        return [{"puzzle": self.puzzle, **line.as_json()} for line in self.lines]


def by_size(evaluations: Sequence[Evaluation], steps: int | None = None) -> list[Panel]:
    """Board accuracy against size, a panel a puzzle.

    A size is measured on a test set: the paper's, where there is more than one. Other sets, such as hard ones, make lines of their own. Of
    several numbers of steps it is `steps`, or the largest that most seeds have.
    """
    points: dict[tuple[int, str, str], list[Point]] = {}
    recipes = _recipes(evaluations)
    for group, measured in enumerate(recipes):
        for (puzzle, kind, size), scores in measured.sets.items():
            chosen = steps if steps is not None else max(scores, key=lambda n: (len(scores[n]), n))
            if chosen in scores:
                points.setdefault((group, puzzle, kind), []).append(_point(size, scores[chosen]))
    if not points:
        counts = sorted({s.steps for e in evaluations for s in e.scores})
        raise OutgrowError(
            f"nothing was measured after {steps} steps; there is {', '.join(map(str, counts))}"
            if steps is not None and counts
            else "no scores in these results"
        )
    panels: list[Panel] = []
    for puzzle in dict.fromkeys(puzzle for _, puzzle, _ in points):
        lines = [
            recipes[group].line(group, kind, puzzle, found)
            for (group, of, kind), found in points.items()
            if of == puzzle
        ]
        panels.append(Panel(puzzle, look.printable(puzzle.capitalize()), tuple(lines), _paper_lines(puzzle, lines)))
    return panels


def by_steps(evaluations: Sequence[Evaluation]) -> list[Panel]:
    """Board accuracy against the number of steps, a panel a recipe and puzzle, a line a set that has several."""
    panels: list[Panel] = []
    for group, measured in enumerate(_recipes(evaluations)):
        for puzzle, keys in groupby(sorted(measured.sets), key=lambda key: key[0]):
            lines: list[Line] = []
            for key in sorted(keys, key=lambda key: (key[2], key[1])):
                scores = measured.sets[key]
                points = [_point(n, scores[n]) for n in sorted(scores) if n > 0]  # the axis is logarithmic
                if len(points) > 1:
                    label = f"size {key[2]}" + (f", {key[1]}" if key[1] != "test" else "")
                    lines.append(measured.line(group, key[1], puzzle, points, label))
            if lines:
                title = f"{look.printable(puzzle.capitalize())}: {measured.label}{_seeds(lines)}"
                panels.append(Panel(puzzle, title, tuple(lines)))
    if not panels:
        raise OutgrowError(
            "no set was measured after several numbers of steps; evaluate with --steps, as in --steps 16,32,64"
        )
    return panels


def draw_results(
    evaluations: Sequence[Evaluation],
    path: str | os.PathLike[str],
    by: Literal["size", "steps"] = "size",
    steps: int | None = None,
) -> list[Panel]:
    """Draws results to an SVG, PNG or PDF file, the same bytes for the same results; returns what was drawn."""
    panels = by_size(evaluations, steps) if by == "size" else by_steps(evaluations)
    look.save_picture(path, lambda canvas: _fill(canvas, panels, by))
    return panels


# What was measured


@dataclass(frozen=True)
class _Measured:
    """The evaluations of one recipe: (puzzle, kind, size) -> steps -> the seeds' scores."""

    recipe: str
    model: str
    task: str
    recipes: tuple[Mapping[str, Any], ...]
    sets: dict[tuple[str, str, int], dict[int, list[Score]]]

    @property
    def label(self) -> str:
        name = look.printable(self.recipe)
        name = f" {name}" if name.startswith("_") else name  # matplotlib's legends leave such names out
        return name if not self.model or self.model in name else f"{name} ({self.model})"

    def line(self, group: int, kind: str, puzzle: str, points: list[Point], label: str | None = None) -> Line:
        points = sorted(points, key=lambda p: p.x)
        line = Line("", self.recipe, self.model, self.task, group, kind, tuple(points), self.seen(puzzle))
        if label is None:
            steps = sorted({p.steps for p in points})
            label = self.label + (f", {look.printable(kind)}" if kind != "test" else "") + _seeds([line])
            label += f" · {steps[0]}{f'–{steps[-1]}' if len(steps) > 1 else ''} steps"
        return replace(line, label=label)

    def seen(self, puzzle: str) -> int | None:
        """The largest size of the puzzle among the sets that the recipe trains on: their names start with PUZZLE-SIZE-."""
        sizes: list[int] = []
        for recipe in self.recipes:
            data = recipe.get("data")
            names = data.get("train") if isinstance(data, Mapping) else None
            for name in names if isinstance(names, list | tuple) else ():
                found = re.match(rf"{re.escape(puzzle)}-(\d{{1,6}})-", os.path.basename(str(name)))
                sizes += [int(found.group(1))] if found else []
        return max(sizes, default=None)


def _recipes(evaluations: Sequence[Evaluation]) -> list[_Measured]:
    """The evaluations by recipe, in the order they come; refuses those that contradict each other."""
    table(evaluations)  # one seed twice is an error there
    by_recipe: dict[tuple[str, str, str], list[Evaluation]] = {}
    for e in evaluations:
        by_recipe.setdefault((e.recipe or e.weights, e.model, e.task), []).append(e)
    found: list[_Measured] = []
    for (recipe, model, task), those in by_recipe.items():
        names = {s.dataset for e in those for s in e.scores}
        sets: dict[tuple[str, str, int], dict[int, list[Score]]] = {}
        for s in (s for e in those for s in e.scores):
            if not (0 < s.size <= _MOST and 0 <= s.steps <= _MOST and 0 <= s.board <= 1):
                raise OutgrowError(
                    f"{recipe} on {s.dataset}: size, steps or board accuracy cannot be; measure it again"
                )
            sets.setdefault((s.puzzle, _kind(s, names), s.size), {}).setdefault(s.steps, []).append(s)
        for scores in (scores for by_steps in sets.values() for scores in by_steps.values()):
            first = scores[0]
            for other in scores:
                if (other.dataset, other.sha256, other.count) != (first.dataset, first.sha256, first.count):
                    raise OutgrowError(
                        f"{recipe}: {first.count:,} puzzles of {first.dataset} and {other.count:,} of {other.dataset}"
                        f"{' (another version)' if other.sha256 != first.sha256 else ''} in one place; draw them apart"
                    )
                if other.restart != first.restart:
                    raise OutgrowError(
                        f"{recipe} on {first.dataset}: {first.steps} steps with a restart after {first.restart or 'none'} and after "
                        f"{other.restart or 'none'} in one place; draw them apart"
                    )
        about = (e.provenance.get("recipe") for e in those)
        found.append(_Measured(recipe, model, task, tuple(r for r in about if isinstance(r, Mapping)), sets))
    return found


def _kind(score: Score, names: set[str]) -> str:
    """'test' for the set that stands for its size: the paper's, or else PUZZLE-SIZE-test. Of others what their name says."""
    papers = paper_set(score.puzzle, score.size)
    prefix = f"{score.puzzle}-{score.size}-"
    rest = score.dataset.removeprefix(prefix)
    if score.dataset == papers:
        return "test"
    if not score.dataset.startswith(prefix) or not rest or (rest == "test" and papers in names):
        return score.dataset
    return rest


def _point(x: int, scores: Sequence[Score]) -> Point:
    return Point(x, tuple(s.board for s in scores), scores[0].dataset, scores[0].steps)


def _seeds(lines: Sequence[Line]) -> str:
    most = max(len(p.boards) for line in lines for p in line.points)
    return f" · {most} seeds" if most > 1 else ""


def _paper_lines(puzzle: str, lines: Sequence[Line]) -> tuple[PaperLine, ...]:
    """Of the models drawn, or of both where one of them is not the paper's."""
    found: list[PaperLine] = []
    tasks = dict.fromkeys(line.task or puzzle for line in lines)
    for task in tasks:
        rows = RESULTS.get((task, "board"), {})
        if task.split("-")[0] != puzzle or not rows:
            continue
        ours = [line for line in lines if (line.task or puzzle) == task]
        sizes = {p.x for line in ours for p in line.points if p.dataset == paper_set(puzzle, p.x)}
        drawn = {line.model for line in ours}
        for model in _PAPER_MODELS:
            points = [(size, figure) for size, figure in rows[model].items() if figure and size in sizes]
            if points and (model in drawn or drawn - set(_PAPER_MODELS)):
                label = f"paper, {model}" + (f" ({task})" if len(tasks) > 1 else "")
                found.append(PaperLine(label, model, tuple(points)))
    return tuple(found)


# Drawing

_WIDTH, _LEFT, _RIGHT, _HEIGHT = 7.5, 0.75, 0.3, 2.3  # in inches
_ROW, _TITLE, _BELOW = 0.155, 0.42, 0.62


def _fill(canvas: Canvas, panels: Sequence[Panel], by: str) -> None:
    """The panels one above the other, each under its title and legend."""
    legends = [_columns(panel, by) for panel in panels]
    heights = [_TITLE + _ROW * rows + _HEIGHT + _BELOW for _, rows in legends]
    canvas.set_size_inches(_WIDTH, sum(heights))
    top = sum(heights)
    for number, (panel, (columns, _), height) in enumerate(zip(panels, legends, heights, strict=True)):
        bottom = top - height
        # In inches, and not by a layout solver, as the curves have it.
        place = (_LEFT, bottom + _BELOW, _WIDTH - _LEFT - _RIGHT, _HEIGHT)
        axes = canvas.add_axes((place[0] / _WIDTH, place[1] / sum(heights), place[2] / _WIDTH, place[3] / sum(heights)))
        canvas.text(0.12 / _WIDTH, (top - 0.08) / sum(heights), panel.title, va="top", weight="bold", size=11)
        _draw_panel(axes, panel, number, by)
        _finish_axes(axes, panel, by)
        axes.legend(
            handles=_entries(axes, panel),
            loc="lower left",
            bbox_to_anchor=(0, 1.03),
            ncols=columns,
            borderaxespad=0,
            borderpad=0,
            labelspacing=0.25,
            handlelength=2.6,
        )
        top = bottom


def _columns(panel: Panel, by: str) -> tuple[int, int]:
    """Columns and rows of its legend."""
    labels = [line.label for line in (*panel.lines, *panel.paper)]
    entries = len(labels) + (by == "size" and any(line.seen is not None for line in panel.lines))
    longest = max(map(len, labels))
    columns = 5 if longest <= 12 else 2 if longest <= 44 else 1
    return columns, -(-entries // columns)


def _entries(axes: Axes, panel: Panel) -> list[Any]:
    """What the legend names, in its order: ours, the paper's, the mark of training."""
    handles, labels = axes.get_legend_handles_labels()
    last = {line.label for line in panel.paper}
    order = sorted(range(len(labels)), key=lambda i: (labels[i] == _TRAINING, labels[i] in last))
    return [handles[i] for i in order]


def _draw_panel(axes: Axes, panel: Panel, number: int, by: str) -> None:
    colors: dict[str, str] = {}
    kinds = list(dict.fromkeys(line.kind for line in panel.lines))
    for at, line in enumerate(panel.lines):
        lap, color = divmod(line.group if by == "size" else at, len(look.COLORS))
        color, kind = look.COLORS[color], kinds.index(line.kind)
        if line.kind == "test":
            colors.setdefault(line.model, color)
        x = [p.x for p in line.points]
        axes.plot(
            x,
            [p.mean for p in line.points],
            _DASHES[(kind + lap) % len(_DASHES)],
            marker=look.MARKERS[kind % len(look.MARKERS)],
            color=color,
            linewidth=1.8,
            markersize=5,
            markeredgecolor="white",
            markeredgewidth=0.7,
            clip_on=False,
            zorder=3,
            label=line.label,
            gid=f"line-{number}-{at}",
        )
        if any(len(p.boards) > 1 for p in line.points):
            low, high = ([end(p.boards) for p in line.points] for end in (min, max))
            axes.fill_between(x, low, high, color=color, alpha=0.18, linewidth=0, gid=f"band-{number}-{at}")
    for at, paper in enumerate(panel.paper):
        means = [figure.mean / 100 for _, figure in paper.points]
        stds = [figure.std / 100 for _, figure in paper.points]
        bars = axes.errorbar(
            [size for size, _ in paper.points],
            means,
            # A deviation reaches no further than the axis does.
            yerr=[
                [min(s, m) for m, s in zip(means, stds, strict=True)],
                [min(s, 1 - m) for m, s in zip(means, stds, strict=True)],
            ],
            linestyle="--",
            color=colors.get(paper.model, (look.GRAY, "#a8a8a8")[_PAPER_MODELS.index(paper.model)]),
            linewidth=1.2,
            elinewidth=1,
            capsize=2.5,
            alpha=0.85,
            label=paper.label,
        )
        bars.lines[0].set_gid(f"paper-{number}-{at}")
    if by == "size":
        _mark_training(axes, panel, number)


def _mark_training(axes: Axes, panel: Panel, number: int) -> None:
    """A dotted line at the largest size in training; in the recipes' colors where they differ."""
    sizes = {line.seen: line for line in reversed(panel.lines) if line.seen is not None}
    for at, (size, line) in enumerate(sorted(sizes.items())):
        color = look.GRAY if len(sizes) == 1 else look.COLORS[line.group % len(look.COLORS)]
        label = _TRAINING if at == 0 else "_"
        axes.axvline(
            size, color=color, linewidth=1.2, linestyle=(0, (1, 2)), zorder=1, label=label, gid=f"seen-{number}-{at}"
        )


def _finish_axes(axes: Axes, panel: Panel, by: str) -> None:
    from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator, PercentFormatter

    steps = by == "steps"
    marked = [line.seen for line in panel.lines if line.seen is not None and not steps]
    xs = sorted(
        {p.x for line in panel.lines for p in line.points} | {x for p in panel.paper for x, _ in p.points} | set(marked)
    )
    if steps:
        axes.set_xscale("log", base=2)
    low, high = xs[0], xs[-1]
    if low == high:
        axes.set_xlim((low / 2, high * 2) if steps else (low - 1, high + 1))
    elif steps:
        axes.set_xlim(low * (low / high) ** 0.03, high * (high / low) ** 0.03)
    else:
        axes.set_xlim(low - 0.03 * (high - low), high + 0.03 * (high - low))
    axes.set(ylim=(0, 1), ylabel="boards solved", xlabel="steps" if steps else "size (number of values)")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
    axes.xaxis.set_major_locator(FixedLocator(_ticks(axes, xs)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
    axes.tick_params(length=0)


def _ticks(axes: Axes, xs: Sequence[int]) -> list[int]:
    """Those of the numbers whose labels do not run into the one before."""
    kept: list[int] = []
    inches = _WIDTH - _LEFT - _RIGHT
    places = axes.transAxes.inverted().transform(axes.transData.transform([(x, 0) for x in xs]))[:, 0] * inches
    last = -1.0
    for x, place in zip(xs, places.tolist(), strict=True):
        if place - last >= 0.08 + 0.055 * len(f"{x:,}"):
            kept.append(x)
            last = place
    return kept
