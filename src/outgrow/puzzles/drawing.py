"""Pictures of any puzzle: SVG documents and the look of a board."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

import numpy as np
import numpy.typing as npt

from outgrow.puzzles.instance import Confidence, Instance, Layout, Values

__all__ = [
    "BROKEN",
    "CELL",
    "MARGIN",
    "cell_roles",
    "color_of",
    "grid_places",
    "svg_document",
    "svg_line",
    "svg_picture",
    "svg_row",
    "svg_text",
]

CELL = 36  # side of a cell in pixels
MARGIN = 10  # around a grid
BROKEN = "#d1242f"  # the ink of what breaks a rule
_INK = {"given": "#1a1a1a", "found": "#1f6feb", "broken": BROKEN}


def cell_roles(instance: Instance, values: Values) -> list[str]:
    """'given', 'found' or 'empty', and 'broken' for what breaks a rule; a given does only where another one is against it, or where it was
    changed."""
    roles = np.where(values == 0, "empty", np.where(instance.givens > 0, "given", "found")).astype("<U6")
    verdict = instance.judge(values)
    for broken in verdict.broken:
        pair = [broken.x, broken.y]
        found = [i for i in pair if not instance.givens[i]]
        roles[found or pair] = "broken"
    roles[list(verdict.changed)] = "broken"
    return roles.tolist()


def color_of(index: int, count: int) -> str:
    """One of `count` colors that are easy to tell apart."""
    hue = 360 * index / max(count, 1)
    return f"hsl({hue:.0f} 65% {68 if index % 2 else 80}%)"


def grid_places(size: int, step: float) -> npt.NDArray[np.float64]:
    """(size * size, 2) the centers of a square grid's cells, row by row, so far apart, with a margin before the first."""
    row, column = np.divmod(np.arange(size * size), size)
    return MARGIN + CELL / 2 + step * np.stack([column, row], axis=1)


def svg_picture(instance: Instance, layout: Layout, values: Values, confidence: Confidence | None = None) -> str:
    """An assignment as a whole SVG file; with how sure each value is, it is drawn so strongly. What breaks a rule is red."""
    strength = np.ones(len(values)) if confidence is None else np.clip(confidence, 0.0, 1.0)
    roles = [] if layout.colored else cell_roles(instance, values)
    broken = {frozenset((b.x, b.y)) for b in instance.judge(values).broken} if len(layout.links) else set()
    places = layout.places.tolist()
    parts: list[str] = []
    texts: list[str] = []
    for x, y in layout.links.tolist():
        look = (2.5, BROKEN) if frozenset((x, y)) in broken else (0.8, "#999")
        parts.append(svg_line(places[x], places[y], *look))
    for i, (v, sure, (x, y)) in enumerate(zip(values.tolist(), strength.tolist(), places, strict=True)):
        if layout.colored:
            given = bool(instance.givens[i])
            if v and sure < 1:  # what is behind does not shine through
                parts.append(_svg_shape(layout, x, y))
            fill = color_of(v - 1, instance.size) if v else "white"
            parts.append(_svg_shape(layout, x, y, fill, sure if v else 1.0, 2.5 if given else 1))
            parts.append(svg_text(x, y, str(i + 1), "given" if given else "", size=10))
            continue
        if layout.shape != "cell":
            parts.append(_svg_shape(layout, x, y, border=1.5))
        if v:
            texts.append(svg_text(x, y, layout.symbols[v - 1], roles[i], layout.side / 2, sure))
    parts += [svg_line((x1, y1), (x2, y2), width) for x1, y1, x2, y2, width in layout.lines]
    return svg_document(layout.width, layout.height, parts + texts)


def _svg_shape(layout: Layout, x: float, y: float, fill: str = "white", opacity: float = 1.0, border: float = 0) -> str:
    """A cell, box or disc around a point; a cell's borders are lines of their own."""
    half = layout.side / 2
    look = f'fill="{fill}"' + (f' fill-opacity="{opacity:.2f}"' if opacity < 1 else "")
    look += f' stroke="#333" stroke-width="{border:g}"' if border and layout.shape != "cell" else ""
    if layout.shape == "disc":
        return f'<circle cx="{x:g}" cy="{y:g}" r="{half:g}" {look}/>'
    return f'<rect x="{x - half:g}" y="{y - half:g}" width="{layout.side:g}" height="{layout.side:g}" {look}/>'


def svg_document(width: float, height: float, parts: list[str]) -> str:
    """A whole SVG file with a white ground."""
    body = "\n".join(parts)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" width="{width:g}" height="{height:g}">\n'
        f'<rect width="100%" height="100%" fill="white"/>\n{body}\n</svg>\n'
    )


def svg_row(drawings: Sequence[str], height: float) -> str:
    """Whole SVG files side by side in one, each in a square of that height."""
    parts: list[str] = []
    for number, drawing in enumerate(drawings):
        part = drawing.replace("<svg ", f'<svg x="{number * (height + 10):g}" y="0" preserveAspectRatio="xMinYMin" ', 1)
        parts.append(re.sub(r' (width|height)="[^"%]*"', rf' \1="{height:g}"', part, count=2))
    return svg_document(len(drawings) * (height + 10) - 10, height, parts)


def svg_text(x: float, y: float, text: str, role: str, size: float = 18, opacity: float = 1.0) -> str:
    """Text centered on a point."""
    weight = ' font-weight="bold"' if role == "given" else ""
    weight += f' fill-opacity="{opacity:.2f}"' if opacity < 1 else ""
    return (
        f'<text x="{x:g}" y="{y + 0.35 * size:g}" font-family="sans-serif" font-size="{size:g}"{weight} '
        f'fill="{_INK.get(role, "#1a1a1a")}" text-anchor="middle">{escape(text)}</text>'
    )


def svg_line(start: tuple[float, float], end: tuple[float, float], width: float, ink: str = "#333") -> str:
    """A straight line."""
    x1, y1, x2, y2 = (round(at, 2) for at in (*start, *end))
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{ink}" stroke-width="{width:g}"/>'
