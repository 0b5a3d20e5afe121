"""Measured figures as a results file and as a table beside the paper's."""

from __future__ import annotations

import dataclasses
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate.metrics import QUANTILES, Score, mean_std
from outgrow.evaluate.paper import Figure, paper_figure, paper_set
from outgrow.writing import write_whole

__all__ = ["Evaluation", "Row", "cells", "read_results", "render_table", "table", "write_results"]

FORMAT = 1
_MAX_BYTES = 1 << 26
_TYPES = {
    "str": (str,),
    "int": (int,),
    "float": (int, float),
    "bool": (bool,),
    "int | None": (int, type(None)),
    "Sequence[Score]": (list,),
    "Mapping[str, Any]": (dict,),
    "Mapping[str, int]": (dict,),
    "Mapping[str, Mapping[str, int]]": (dict,),
}
_ARRAYS = ("solved", "right")  # a value a puzzle: too long for a results file
_OPTIONAL = ("by_flag", "first_steps", "restart")  # not written where there is none
_SHARES = tuple(f"{q}%" for q in QUANTILES)


@dataclass(frozen=True, eq=False)
class Evaluation:
    """One weights file on several sets.

    Attributes:
        weights: the name of the weights file.
        model: 'binarized', 'multivalued', 'grouped'.
        recipe: the recipe it was trained by; those of other seeds share a row of the table.
        seed: of the training.
        scores: one for each set and number of steps.
        provenance: commit, hardware, versions, seconds, date (`provenance()`).
        task: whose figures of the paper to compare with, if not the puzzle's own: 'sudoku-24' for models fine-tuned on size 24.
    """

    weights: str
    model: str
    recipe: str
    seed: int | None
    scores: Sequence[Score]
    provenance: Mapping[str, Any] = field(default_factory=dict)
    task: str = ""

    def paper(self, score: Score) -> Figure | None:
        """The paper's board accuracy for that task, model and size; None on a set that does not follow its protocol."""
        task = self.task or score.puzzle
        if task.split("-")[0] != score.puzzle or score.dataset != paper_set(score.puzzle, score.size):
            return None
        return paper_figure(task, self.model, score.size, "board")

    def as_json(self) -> dict[str, Any]:
        """Plain dicts, lists and numbers, in an order of their own; fractions with 6 digits."""
        return {
            "weights": self.weights,
            "model": self.model,
            "recipe": self.recipe,
            "seed": self.seed,
            "task": self.task,
            "provenance": _rounded(dict(sorted(self.provenance.items()))),
            "scores": [
                {
                    f.name: _rounded(getattr(s, f.name))
                    for f in dataclasses.fields(s)
                    if f.name not in _ARRAYS and not (f.name in _OPTIONAL and not getattr(s, f.name))
                }
                for s in self.scores
            ],
        }


@dataclass(frozen=True)
class Row:
    """A set and a number of steps, for one recipe; means over its seeds. Fractions of 1, the paper's figure in percent.

    `by_flag`: 'singles=1' -> board accuracy on those puzzles, its deviation over the seeds, and how many they are. `first_steps`: as in a
    `Score`, but of several seeds each figure is the worst.
    """

    recipe: str
    model: str
    dataset: str
    size: int
    count: int
    steps: int
    seeds: int
    board: float
    board_std: float
    board_interval: tuple[float, float] | None  # None for several seeds
    pointwise: float
    pointwise_std: float
    pointwise_bound: bool
    paper: Figure | None
    by_flag: Mapping[str, tuple[float, float, int]] = field(default_factory=dict)
    first_steps: Mapping[str, int] = field(default_factory=dict)
    restart: int = 0

    @property
    def steps_shown(self) -> str:
        """How many steps, and how many of them an attempt had, if there were several."""
        return f"{self.steps}" + (f" ({self.restart} each)" if self.restart else "")


def write_results(path: str | Path, evaluations: Sequence[Evaluation]) -> None:
    """Writes a results file, whole or not at all."""
    content = {"format": FORMAT, "evaluations": [e.as_json() for e in evaluations]}
    write_whole(path, [json.dumps(content, indent=1, allow_nan=False) + "\n"])


def read_results(path: str | Path) -> list[Evaluation]:
    """The evaluations of a results file; their scores come without the values of each puzzle."""
    path = Path(path)
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError(f"more than {_MAX_BYTES:,} bytes")
        content = json.loads(path.read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise ValueError(f"this version reads format {FORMAT}")
        return [
            Evaluation(
                **{**_typed(Evaluation, e), "scores": [_counted(Score(**_typed(Score, s))) for s in e["scores"]]}
            )
            for e in content["evaluations"]
        ]
    except FileNotFoundError:
        raise DamagedFile(f"{path}: no such file") from None
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        reason = (str(error) or type(error).__name__).splitlines()[0][:200]
        raise DamagedFile(f"{path}: not a results file ({reason})") from None


def table(evaluations: Sequence[Evaluation]) -> list[Row]:
    """A row for each recipe, set and number of steps, in the order they come; seeds of one recipe are averaged."""
    groups: dict[tuple[Any, ...], list[tuple[Evaluation, Score]]] = {}
    for e in evaluations:
        for s in e.scores:
            groups.setdefault((e.recipe, e.model, e.task, s.dataset, s.sha256, s.count, s.steps, s.restart), []).append(
                (e, s)
            )
    return [_row(group) for group in groups.values()]


def cells(rows: Sequence[Row], by: str | None = None) -> list[list[str]]:
    """The table as text, its head first; recipe and number of seeds have a column where there is more than one.

    `by` is a flag of puzzles: board accuracy on those with and without it. Where the first steps are known, they have a column too.
    """
    head = ["set", "size", "count", "steps", "board %", "pointwise %", "paper, board %"]
    body = [
        [
            r.dataset,
            str(r.size),
            str(r.count),
            r.steps_shown,
            _with_spread(r.board, r.board_std, r.seeds)
            + (f" [{_percent(r.board_interval[0])}, {_percent(r.board_interval[1])}]" if r.board_interval else ""),
            (">=" if r.pointwise_bound else "") + _with_spread(r.pointwise, r.pointwise_std, r.seeds),
            str(r.paper or "-"),
        ]
        for r in rows
    ]
    for name in [f"{by}={value}" for value in (1, 0)] if by else []:
        head.append(f"board %, {name}")
        for r, line in zip(rows, body, strict=True):
            found = r.by_flag.get(name)
            line.append(f"{_with_spread(found[0], found[1], r.seeds)} of {found[2]}" if found else "-")
    if any(r.first_steps for r in rows):
        head.append(f"first solved after steps ({', '.join(_SHARES)})")
        for r, line in zip(rows, body, strict=True):
            steps = ", ".join(str(r.first_steps[share]) for share in _SHARES if share in r.first_steps)
            line.append(f"{steps} of {r.first_steps['solved']}" if steps else "-")
    if any(r.seeds > 1 for r in rows):
        head = [*head[:4], "seeds", *head[4:]]
        body = [[*line[:4], str(r.seeds), *line[4:]] for r, line in zip(rows, body, strict=True)]
    if len({r.recipe for r in rows}) > 1:
        head = ["recipe", *head]
        body = [[r.recipe, *line] for r, line in zip(rows, body, strict=True)]
    return [head, *body]


def render_table(rows: Sequence[Row], *, markdown: bool = False, by: str | None = None) -> str:
    """The table as plain text, or for a Markdown file; `by` as in `cells`."""
    lines = cells(rows, by)
    if markdown:
        head, *body = [" | ".join(cell.replace("|", "\\|") for cell in line) for line in lines]
        return "".join([f"| {head} |\n", "|---" * len(lines[0]) + "|\n", *(f"| {line} |\n" for line in body)])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return "".join("  ".join(c.ljust(w) for c, w in zip(line, widths, strict=True)).rstrip() + "\n" for line in lines)


def _row(group: list[tuple[Evaluation, Score]]) -> Row:
    first, score = group[0]
    if len({e.seed for e, _ in group}) < len(group):
        names = ", ".join(e.weights for e, _ in group)
        raise OutgrowError(f"{first.recipe} on {score.dataset}: one seed twice ({names}); name each weights file once")
    board, board_std = mean_std([s.board for _, s in group])
    pointwise, pointwise_std = mean_std([s.pointwise for _, s in group])
    return Row(
        recipe=first.recipe,
        model=first.model,
        dataset=score.dataset,
        size=score.size,
        count=score.count,
        steps=score.steps,
        seeds=len(group),
        board=board,
        board_std=board_std,
        board_interval=(score.board_low, score.board_high) if len(group) == 1 else None,
        pointwise=pointwise,
        pointwise_std=pointwise_std,
        pointwise_bound=any(s.pointwise_bound for _, s in group),
        paper=first.paper(score),
        by_flag={name: _share(group, name) for name in score.by_flag if all(name in s.by_flag for _, s in group)},
        # Of seeds that have them all: one that solved nothing has no quantiles.
        first_steps={
            name: (min if name == "solved" else max)(s.first_steps[name] for _, s in group)
            for name in score.first_steps
            if all(name in s.first_steps for _, s in group)
        },
        restart=score.restart,
    )


def _share(group: list[tuple[Evaluation, Score]], name: str) -> tuple[float, float, int]:
    """Board accuracy on the puzzles with that flag, and how many there are: the set is the same for every seed."""
    counts = [s.by_flag[name] for _, s in group]
    return *mean_std([c["solved"] / c["count"] for c in counts]), counts[0]["count"]


def _percent(fraction: float) -> str:
    """With two digits; 100.00 is all of them and never rounded up to."""
    return f"{100 * fraction if fraction == 1 else min(100 * fraction, 99.99):.2f}"


def _with_spread(mean: float, std: float, seeds: int) -> str:
    return f"{_percent(mean)} ± {100 * std:.2f}" if seeds > 1 else _percent(mean)


def _typed(kind: type[Score] | type[Evaluation], content: dict[str, Any]) -> dict[str, Any]:
    """The content, once each field of `kind` in it is of its type; the constructor refuses unknown or missing ones."""
    for f in dataclasses.fields(kind):
        value = content.get(f.name)
        wrong = type(value) not in _TYPES.get(str(f.type), ()) or (
            isinstance(value, float) and not math.isfinite(value)
        )
        if f.name in content and wrong:
            raise ValueError(f"{f.name} is {str(value)[:40]!r}")
    return content


def _counted(score: Score) -> Score:
    """The score, once its optional counts are such."""
    for name, counts in score.by_flag.items():
        if not (
            re.fullmatch(r"\w+=[01]", name)
            and isinstance(counts, dict)
            and set(counts) == {"count", "solved"}
            and all(type(n) is int for n in counts.values())
            and 0 <= counts["solved"] <= counts["count"] <= score.count
            and counts["count"] > 0
        ):
            raise ValueError(f"by_flag has {name[:20]!r}: {str(counts)[:40]!r}")
    if not 0 <= score.restart < max(score.steps, 1):
        raise ValueError(f"restart is {score.restart} of {score.steps} steps")
    first = score.first_steps
    names = ("solved", *_SHARES) if first.get("solved") else ("solved",)
    if first:
        whole = set(first) == set(names) and all(type(n) is int for n in first.values())
        steps = [1, *(first[name] for name in names[1:]), score.steps] if whole else []
        if not whole or not 0 <= first["solved"] <= score.count or steps != sorted(steps):
            raise ValueError(f"first_steps is {str(first)[:40]!r}")
    return score


def _rounded(value: Any) -> Any:
    """Floats with 6 digits, however deep."""
    if isinstance(value, float):
        return round(value, 6)
    if isinstance(value, Mapping):
        return {key: _rounded(v) for key, v in value.items()}
    if isinstance(value, list | tuple):
        return [_rounded(v) for v in value]
    return value
