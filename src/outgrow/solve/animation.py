"""What a network believes, step by step, as a moving picture: an SVG that moves by itself, or a GIF."""

from __future__ import annotations

import colorsys
import itertools
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import Any, Literal

from outgrow.errors import OutgrowError
from outgrow.puzzles import Instance, draw_svg
from outgrow.puzzles.drawing import svg_text
from outgrow.solve.frame import Frame
from outgrow.writing import write_whole

__all__ = ["draw_trace", "picture_trace"]

_MOST = 48  # pictures in all; of longer runs, as many as that, evenly spaced
_SECONDS, _LAST = 0.25, 2.0
_CAPTION = 24  # height of the line below a board
_FINE = 2  # GIFs are drawn larger and made small: smooth lines


def draw_trace(instance: Instance, frames: Iterable[Frame], path: str | Path) -> None:
    """Writes the beliefs of a run: each value as strongly as the network is sure of it, those that break a rule in red.

    The file's ending says what it becomes, `.svg` or `.gif`.
    """
    ending = Path(path).suffix
    if ending not in (".svg", ".gif"):
        raise OutgrowError(f"{path}: a moving picture ends in .svg or .gif")
    if not Path(path).resolve().parent.is_dir():
        raise OutgrowError(f"{path}: the folder does not exist")
    write_whole(path, picture_trace(instance, frames, ending))


def picture_trace(instance: Instance, frames: Iterable[Frame], ending: Literal[".svg", ".gif"]) -> bytes:
    """The moving picture that `draw_trace` writes."""
    shown = _choose(_thin(frames))
    if not shown:
        raise OutgrowError("nothing to draw: a run has a step at least")
    pictures = [_draw(instance, frame) for frame in shown]
    return _svg(pictures).encode() if ending == ".svg" else _gif(pictures)


def _thin(frames: Iterable[Frame]) -> list[Frame]:
    """No more than a few times as many as are drawn, evenly spaced, and the last one: runs may be very long."""
    kept: list[Frame] = []
    every, last = 1, None
    for number, last in enumerate(frames):
        if number % every == 0:
            kept.append(last)
        if len(kept) > 4 * _MOST:
            kept, every = kept[::2], 2 * every
    return kept if last is None or kept[-1] is last else [*kept, last]


def _choose(frames: list[Frame]) -> list[Frame]:
    if len(frames) <= _MOST:
        return frames
    return [frames[round(i * (len(frames) - 1) / (_MOST - 1))] for i in range(_MOST)]


def _draw(instance: Instance, frame: Frame) -> list[str]:
    """An SVG file as lines, an element each, with the step below."""
    sure = frame.beliefs[range(len(frame.assignment)), frame.assignment - 1]
    lines = draw_svg(instance, frame.assignment, sure).strip().split("\n")
    width, height = map(float, re.findall(r'(?:width|height)="([\d.]+)"', lines[0])[:2])
    lines[0] = re.sub(r'viewBox="[^"]*"', f'viewBox="0 0 {width:g} {height + _CAPTION:g}"', lines[0])
    lines[0] = lines[0].replace(f'height="{height:g}"', f'height="{height + _CAPTION:g}"')
    attempt = f", attempt {frame.attempt + 1}" if frame.attempt else ""
    words = f"step {frame.step}{attempt}{': solved' if frame.solved else ''}"
    return [*lines[:-1], svg_text(width / 2, height + 6, words, "", size=14), lines[-1]]


def _times(count: int) -> list[float]:
    """When each picture is shown, and at last when it begins again, in seconds."""
    return [i * _SECONDS for i in range(count)] + [(count - 1) * _SECONDS + _LAST]


def _svg(pictures: Sequence[list[str]]) -> str:
    """All pictures in one, each visible in its time; where nothing moves, the last one is."""
    first = pictures[0]
    # What they all begin with is there once: the lines of the board.
    rows = zip(*(picture[:-1] for picture in pictures), strict=False)
    same = sum(1 for _ in itertools.takewhile(lambda row: len(set(row)) == 1, rows))
    times = _times(len(pictures))
    parts = first[:same]
    for i, picture in enumerate(pictures):
        last = i == len(pictures) - 1
        parts.append(f'<g visibility="{"visible" if last else "hidden"}">')
        if len(pictures) > 1:
            begin, end = times[i] / times[-1], times[i + 1] / times[-1]
            keys = [(0.0, "visible")] if i == 0 else [(0.0, "hidden"), (begin, "visible")]
            keys += [] if last else [(end, "hidden")]
            parts.append(
                f'<animate attributeName="visibility" dur="{times[-1]:g}s" repeatCount="indefinite" calcMode="discrete" '
                f'keyTimes="{";".join(f"{at:.5g}" for at, _ in keys)}" values="{";".join(what for _, what in keys)}"/>'
            )
        parts += [*picture[same:-1], "</g>"]
    return "\n".join([*parts, first[-1]]) + "\n"


def _gif(pictures: Sequence[list[str]]) -> bytes:
    from PIL import Image

    palette = _palette(pictures)
    images: list[Image.Image] = [
        _rasterize(picture).quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures
    ]
    content = BytesIO()
    durations = [round(1000 * _SECONDS)] * (len(images) - 1) + [round(1000 * _LAST)]
    images[0].save(
        content, "GIF", save_all=True, append_images=images[1:], duration=durations, loop=0, optimize=False, disposal=1
    )
    return content.getvalue()


def _palette(pictures: Sequence[list[str]]) -> Any:
    """White, and every ink in steps up to its full strength: one for all pictures, so that no color wavers and a single red value stays red."""
    from PIL import Image

    inks = sorted({ink for lines in pictures for line in lines for ink in re.findall(r'="(#\w+|hsl[^"]+)"', line)})
    hues = [ink for ink in inks if ink.startswith("hsl")]
    inks = [ink for ink in inks if ink not in hues] + hues[:: len(hues) // 100 + 1]  # more are hard to tell apart
    steps = 255 // len(inks)
    shades = [_ink(ink, step / steps) or (255, 255, 255) for ink in inks for step in range(1, steps + 1)]
    palette = Image.new("P", (1, 1))
    # Pillow looks colors up by their first six bits: paper would become what is nearly as white.
    palette.putpalette([255, 255, 255, *(level for shade in shades if min(shade) < 246 for level in shade)])
    return palette


def _rasterize(lines: Sequence[str]) -> Any:
    """The elements that our own drawings are made of: rect, line, circle and text."""
    from PIL import Image, ImageDraw

    elements = [(re.match(r"<(\w+)", line), dict(re.findall(r'([\w-]+)="([^"]*)"', line)), line) for line in lines]
    about = elements[0][1]
    size = (round(float(about["width"]) * _FINE), round(float(about["height"]) * _FINE))
    image = Image.new("RGB", size, "white")
    pen = ImageDraw.Draw(image)

    def number(attributes: dict[str, str], *names: str) -> list[float]:
        return [float(attributes[name]) * _FINE for name in names]

    def width(attributes: dict[str, str]) -> int:
        return max(1, round(float(attributes.get("stroke-width", 0)) * _FINE))

    for match, attributes, line in elements[2:]:
        kind = match.group(1) if match else ""
        ink = _ink(attributes.get("fill", "none"), float(attributes.get("fill-opacity", 1)))
        edge = _ink(attributes.get("stroke", "none"), 1.0)
        if kind == "line":
            pen.line(number(attributes, "x1", "y1", "x2", "y2"), fill=edge, width=width(attributes))
        elif kind == "rect":
            x, y, w, h = number(attributes, "x", "y", "width", "height")
            pen.rectangle((x, y, x + w, y + h), fill=ink, outline=edge, width=width(attributes))
        elif kind == "circle":
            x, y, r = number(attributes, "cx", "cy", "r")
            pen.ellipse((x - r, y - r, x + r, y + r), fill=ink, outline=edge, width=width(attributes))
        elif kind == "text" and ink:
            x, y, height = number(attributes, "x", "y", "font-size")
            mask, left, top = _letters(re.sub(r"<[^>]*>", "", line), height, attributes.get("font-weight") == "bold")
            image.paste(ink, (round(x) + left, round(y) + top), mask)
    return image.reduce(_FINE)


@lru_cache(maxsize=4096)
def _letters(text: str, height: float, bold: bool) -> tuple[Any, int, int]:
    """A text as a mask, and where its corner is from the middle of its base. Kept: a font is slow to load, and letters to draw."""
    from PIL import Image, ImageDraw, ImageFont

    font, stroke = ImageFont.load_default(height), int(bold)
    left, top, right, bottom = map(round, font.getbbox(text, anchor="ms", stroke_width=stroke))
    mask = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(mask).text((-left, -top), text, fill=255, font=font, anchor="ms", stroke_width=stroke)
    return mask, left, top


def _ink(color: str, opacity: float) -> tuple[int, int, int] | None:
    """A color on white paper; None for none."""
    if color == "none":
        return None
    if color.startswith("hsl"):
        hue, saturation, lightness = (float(n) for n in re.findall(r"[\d.]+", color))
        levels = colorsys.hls_to_rgb(hue / 360, lightness / 100, saturation / 100)
        red, green, blue = (255 * level for level in levels)
    else:
        from PIL import ImageColor

        red, green, blue = ImageColor.getrgb(color)[:3]
    mixed = [round(255 - opacity * (255 - level)) for level in (red, green, blue)]
    return mixed[0], mixed[1], mixed[2]
