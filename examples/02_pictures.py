"""The picture of docs/guide/formats.md: one puzzle of each kind, solved. Run it: python examples/02_pictures.py puzzles.svg"""

import sys
from pathlib import Path

import numpy as np

from outgrow import parse, parse_one, solve_exact
from outgrow.data.generate import default_settings, make_chunk
from outgrow.puzzles import coloring, draw_svg
from outgrow.puzzles.drawing import svg_row

folder = Path(__file__).parent
record = make_chunk(default_settings("coloring", 4, 1, seed=3, nodes=(40, 40)), 0)[0]
puzzles = [
    parse_one((folder / "futoshiki-9.txt").read_text()),
    parse((folder / "sudoku-16.txt").read_text())[0],
    coloring.build(record.pairs, np.where(record.given, record.solution, 0), 4),
]
drawings: list[str] = []
for puzzle in puzzles:
    answer = solve_exact(puzzle)
    assert answer.assignment is not None
    drawings.append(draw_svg(puzzle, answer.assignment))
Path(sys.argv[1]).write_text(svg_row(drawings, 480))
