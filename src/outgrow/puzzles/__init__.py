"""What people know: Sudoku, Futoshiki, graph coloring; parse and render."""

from outgrow.puzzles.instance import Format, Instance, Layout, Puzzle
from outgrow.puzzles.reading import Options, read_text
from outgrow.puzzles.registry import (
    PUZZLES,
    draw_svg,
    find_conflict,
    get_puzzle,
    name_variable,
    parse,
    parse_one,
    render,
    write_line,
)

__all__ = [
    "PUZZLES",
    "Format",
    "Instance",
    "Layout",
    "Options",
    "Puzzle",
    "draw_svg",
    "find_conflict",
    "get_puzzle",
    "name_variable",
    "parse",
    "parse_one",
    "read_text",
    "render",
    "write_line",
]
