"""The picture of the README: one puzzle of each kind, solved. Run it: python examples/02_pictures.py puzzles.svg"""

import sys
from pathlib import Path

import numpy as np

from outgrow import parse, parse_one, solve_exact
from outgrow.data.generate import default_settings, make_chunk
from outgrow.puzzles import coloring, get_puzzle
from outgrow.puzzles.drawing import svg_document

folder = Path(__file__).parent
record = make_chunk(default_settings("coloring", 4, 1, seed=3, nodes=(40, 40)), 0)[0]
puzzles = [
    parse_one((folder / "futoshiki-9.txt").read_text()),
    parse((folder / "sudoku-16.txt").read_text())[0],
    coloring.build(record.pairs, np.where(record.given, record.solution, 0), 4),
]
height = 480
at, parts = 0.0, []
for puzzle in puzzles:
    answer = solve_exact(puzzle)
    assert answer.assignment is not None
    drawing = get_puzzle(puzzle.puzzle).draw_svg(puzzle, answer.assignment)
    parts.append(drawing.replace("<svg ", f'<svg x="{at:g}" y="0" preserveAspectRatio="xMinYMin" ', 1))
    for name in ("width", "height"):
        start = parts[-1].index(f' {name}="') + len(name) + 3
        end = parts[-1].index('"', start)
        parts[-1] = parts[-1][:start] + str(height) + parts[-1][end:]
    at += height + 10
Path(sys.argv[1]).write_text(svg_document(at - 10, height, parts))
