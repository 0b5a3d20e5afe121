"""The weights that are shipped solve what they are said to solve, far beyond what they were trained on."""

from __future__ import annotations

import pytest

from outgrow.data import find_dataset
from outgrow.solve import solve_batch
from outgrow.weights import default_weights, open_entry, read_catalog, steps_for

# So many puzzles of each set, from its first to its last, and how many of them must be solved: all, unless the catalog says otherwise.
SAMPLES = {
    "sudoku-9-test": (8, 8),
    "sudoku-16-test": (2, 2),
    "futoshiki-6-test": (10, 10),
    "futoshiki-9-test": (8, 8),
    "futoshiki-12-test": (4, 4),
    "futoshiki-12-chained-test": (4, 4),
    "coloring-4-test": (10, 10),
    "coloring-7-test": (8, 8),
}


@pytest.mark.parametrize("name", SAMPLES)
def test_shipped_weights_solve(name: str) -> None:
    count, least = SAMPLES[name]
    dataset = find_dataset(name)
    chosen = range(0, len(dataset), len(dataset) // count)[:count]
    puzzles = [dataset[i] for i in chosen]
    entry = default_weights(dataset.puzzle)
    assert entry is not None
    answers = solve_batch(open_entry(entry).model, puzzles, steps_for(entry, dataset.size), restart=entry.restart)
    for puzzle, answer in zip(puzzles, answers, strict=True):
        assert answer.solved == puzzle.judge(answer.assignment).solved
    assert sum(answer.solved for answer in answers) >= least


def test_every_puzzle_has_weights_that_outgrow_their_training() -> None:
    defaults = {entry.puzzle: entry for entry in read_catalog().values() if entry.default}
    assert set(defaults) == {"sudoku", "futoshiki", "coloring"}
    for entry in defaults.values():
        assert any(score.size > entry.max_trained_values for score in entry.measured())
