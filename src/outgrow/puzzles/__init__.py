"""What people know: Sudoku, Futoshiki, graph coloring; parse and render."""

from outgrow.puzzles.instance import Format, Instance, Puzzle
from outgrow.puzzles.reading import Options, read_text
from outgrow.puzzles.registry import (
    PUZZLES,
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
    "Options",
    "Puzzle",
    "find_conflict",
    "get_puzzle",
    "name_variable",
    "parse",
    "parse_one",
    "read_text",
    "render",
    "write_line",
]
