"""Small shared pieces of the pictures: SVG documents and the look of a board."""

from __future__ import annotations

import re
from collections.abc import Sequence
from html import escape

import numpy as np

from outgrow.puzzles.instance import Confidence, Instance, Values

__all__ = [
    "BROKEN",
    "CELL",
    "cell_roles",
    "color_of",
    "svg_document",
    "svg_line",
    "svg_row",
    "svg_strength",
    "svg_text",
]

CELL = 36  # side of a cell in pixels
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


def svg_strength(values: Values, confidence: Confidence | None) -> list[float]:
    """How strongly each value is drawn: fully, or as sure as it is."""
    return [1.0] * len(values) if confidence is None else np.clip(confidence, 0.0, 1.0).tolist()


def svg_line(start: tuple[float, float], end: tuple[float, float], width: float, ink: str = "#333") -> str:
    """A straight line."""
    (x1, y1), (x2, y2) = np.round([start, end], 2).tolist()
    return f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{ink}" stroke-width="{width:g}"/>'
