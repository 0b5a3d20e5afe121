"""Where networks fail: what they are sure of after 64 steps on hard puzzles. Run it: python examples/03_failures.py failures.svg"""

import sys
from pathlib import Path

import numpy as np

from outgrow.data import find_dataset
from outgrow.puzzles import draw_svg
from outgrow.puzzles.drawing import svg_row
from outgrow.solve import solve_batch
from outgrow.weights import default_weights, open_entry

drawings: list[str] = []
for name, number in (("futoshiki-15-test", 23), ("sudoku-16-hard", 4), ("coloring-12-test", 17)):
    puzzle = find_dataset(name)[number - 1]
    entry = default_weights(puzzle.puzzle)
    assert entry is not None
    [answer] = solve_batch(open_entry(entry).model, [puzzle], steps=64)
    sure = np.where(answer.confidence > 0.9, answer.assignment, 0)
    unsure = int((sure == 0).sum())
    print(f"{name}, number {number}: {'solved' if answer.solved else 'not solved'}, unsure of {unsure} of {len(sure)}")
    drawings.append(draw_svg(puzzle, sure))
Path(sys.argv[1]).write_text(svg_row(drawings, 480))
