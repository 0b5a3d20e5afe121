"""Every figure of the result tables of Nandwani et al. (ICLR 2022), and of its tables on training: to be beaten.

Percentages; mean and standard deviation over three seeds. 'multivalued' is MV in the paper, 'binarized' BIN, 'coloring' GCP; 'sudoku-24' is the
table of models fine-tuned on size 24 (the binarized one did not fit in their GPU: its row is that of the model trained on size 9).
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = [
    "HYPERPARAMETERS",
    "RESULTS",
    "TRAINING_COST",
    "Figure",
    "Hyperparameters",
    "TrainingCost",
    "paper_figure",
    "paper_set",
]


@dataclass(frozen=True)
class Figure:
    """Mean and standard deviation, in percent.

    >>> str(Figure(27.31, 23.81))
    '27.31 (23.81)'
    """

    mean: float
    std: float

    def __str__(self) -> str:
        return f"{self.mean:.2f} ({self.std:.2f})"


@dataclass(frozen=True)
class Hyperparameters:
    """A row of the table 'Hyperparameters for different models and tasks'; None where it has a dash."""

    batch_size: int
    weight_decay: float
    orthogonality: float | None
    edge_dropout: float | None


@dataclass(frozen=True)
class TrainingCost:
    """A row of the table 'Training cost of different models', on a K40 GPU."""

    batch_size: int
    puzzles: int
    updates: int
    epochs: int
    minutes_per_epoch: int
    hours: int


Row = dict[int, Figure | None]


def _row(sizes: tuple[int, ...], *cells: tuple[float, float] | None) -> Row:
    return {size: Figure(*cell) if cell else None for size, cell in zip(sizes, cells, strict=True)}


_FUTOSHIKI = (6, 7, 8, 9, 10, 11, 12)
_COLORING = (4, 5, 6, 7)
_SUDOKU = (9, 10, 12, 15, 16)
_SUDOKU_24 = (15, 16, 24, 25)

# (task, metric) -> model -> size -> figure; None where a model did not fit in the paper's GPU.
# fmt: off
RESULTS: dict[tuple[str, str], dict[str, Row]] = {
    ("futoshiki", "board"): {
        "NLM15": _row(_FUTOSHIKI, (73.37, 1.34), (56.98, 1.47), (48.71, 1.96), (44.16, 1.72), (37.54, 2.74), (32.50, 2.84), None),
        "NLM30": _row(_FUTOSHIKI, (85.72, 0.39), (69.61, 0.57), (63.52, 1.20), (60.73, 1.29), (55.94, 0.85), None, None),
        "multivalued": _row(_FUTOSHIKI, (99.62, 0.18), (90.18, 2.38), (71.58, 4.66), (54.85, 6.89), (38.51, 5.62), (24.18, 4.49), (11.97, 5.54)),
        "binarized": _row(_FUTOSHIKI, (99.86, 0.01), (97.92, 1.27), (93.39, 4.08), (89.39, 6.03), (83.48, 10.7), (76.14, 15.83), (68.15, 22.08)),
    },
    ("futoshiki", "pointwise"): {
        "NLM15": _row(_FUTOSHIKI, (96.72, 0.16), (93.9, 0.26), (93.43, 0.26), (93.86, 0.28), (94.07, 0.29), (94.29, 0.31), None),
        "NLM30": _row(_FUTOSHIKI, (97.88, 0.05), (95.32, 0.10), (95.09, 0.14), (95.48, 0.08), (95.68, 0.03), None, None),
        "multivalued": _row(_FUTOSHIKI, (99.91, 0.03), (98.84, 0.24), (97.09, 0.46), (96.07, 0.60), (95.17, 0.53), (94.52, 0.41), (93.99, 0.60)),
        "binarized": _row(_FUTOSHIKI, (99.97, 0.00), (99.63, 0.13), (99.02, 0.37), (98.60, 0.47), (98.23, 0.68), (97.85, 0.98), (97.66, 1.31)),
    },
    ("coloring", "board"): {
        "NLM24": _row(_COLORING, (81.34, 5.93), (70.78, 7.45), (71.25, 8.35), (73.20, 7.58)),
        "multivalued": _row(_COLORING, (97.80, 0.03), (97.72, 0.37), (94.03, 2.54), (72.21, 11.17)),
        "binarized": _row(_COLORING, (99.09, 0.07), (96.69, 2.61), (95.7, 4.04), (94.35, 4.82)),
    },
    ("coloring", "pointwise"): {
        "NLM24": _row(_COLORING, (99.47, 0.13), (98.58, 0.34), (97.95, 0.54), (97.26, 0.68)),
        "multivalued": _row(_COLORING, (99.96, 0.00), (99.89, 0.00), (99.50, 0.23), (96.22, 1.55)),
        "binarized": _row(_COLORING, (99.96, 0.01), (99.85, 0.03), (99.76, 0.08), (99.48, 0.16)),
    },
    ("sudoku", "board"): {
        "multivalued": _row(_SUDOKU, (92.78, 0.08), (99.65, 0.15), (88.30, 6.08), (29.33, 13.71), (19.70, 14.03)),
        "binarized": _row(_SUDOKU, (99.13, 0.14), (99.91, 0.04), (99.63, 0.10), (63.05, 45.71), (27.31, 23.81)),
    },
    ("sudoku", "pointwise"): {
        "multivalued": _row(_SUDOKU, (98.52, 0.05), (99.96, 0.02), (99.43, 0.26), (97.03, 0.71), (96.30, 0.90)),
        "binarized": _row(_SUDOKU, (99.87, 0.02), (99.99, 0.00), (99.96, 0.01), (95.55, 6.60), (88.39, 14.25)),
    },
    ("sudoku-24", "board"): {
        "multivalued": _row(_SUDOKU_24, (91.03, 3.25), (90.39, 3.49), (54.57, 21.25), (43.77, 14.42)),
        "binarized": _row(_SUDOKU_24, (63.05, 45.71), (27.31, 23.81), (0.0, 0.0), (0.0, 0.0)),
    },
    ("sudoku-24", "pointwise"): {
        "multivalued": _row(_SUDOKU_24, (99.43, 0.16), (99.46, 0.15), (99.30, 0.12), (99.10, 0.09)),
        "binarized": _row(_SUDOKU_24, (95.55, 6.60), (88.39, 14.25), (7.85, 0.63), (7.44, 0.43)),
    },
}

HYPERPARAMETERS: dict[tuple[str, str], Hyperparameters] = {
    ("futoshiki", "multivalued"): Hyperparameters(64, 0.0001, 0.01, 0.1),
    ("futoshiki", "binarized"): Hyperparameters(16, 0.0001, None, 0.1),
    ("futoshiki", "NLM15"): Hyperparameters(4, 0.0001, None, None),
    ("futoshiki", "NLM30"): Hyperparameters(2, 0.0001, None, None),
    ("coloring", "multivalued"): Hyperparameters(64, 0.0001, 0.01, 0.1),
    ("coloring", "binarized"): Hyperparameters(16, 0.0001, None, 0.1),
    ("coloring", "NLM24"): Hyperparameters(1, 0.0001, None, None),
    ("sudoku", "multivalued"): Hyperparameters(28, 0.0001, 0.01, 0.1),
    ("sudoku", "binarized"): Hyperparameters(3, 0.0001, None, 0.1),
}

TRAINING_COST: dict[tuple[str, str], TrainingCost] = {
    ("futoshiki", "multivalued"): TrainingCost(64, 12_300, 60_000, 312, 5, 25),
    ("futoshiki", "binarized"): TrainingCost(16, 12_300, 37_500, 49, 26, 21),
    ("futoshiki", "NLM15"): TrainingCost(4, 12_300, 155_000, 50, 34, 43),
    ("futoshiki", "NLM30"): TrainingCost(2, 12_300, 232_500, 38, 87, 66),
    ("coloring", "multivalued"): TrainingCost(64, 25_010, 80_000, 205, 10, 33),
    ("coloring", "binarized"): TrainingCost(16, 25_010, 40_000, 26, 39, 17),
    ("coloring", "NLM24"): TrainingCost(1, 25_010, 260_000, 10, 213, 37),
    ("sudoku", "multivalued"): TrainingCost(28, 10_000, 162_000, 454, 9, 68),
    ("sudoku", "binarized"): TrainingCost(3, 10_000, 168_000, 50, 74, 63),
}
# fmt: on


def paper_figure(task: str, model: str, size: int, metric: str = "board") -> Figure | None:
    """What the paper reports, None where it reports nothing; `metric` is 'board' or 'pointwise'.

    >>> paper_figure("sudoku", "binarized", 16)
    Figure(mean=27.31, std=23.81)
    """
    return RESULTS.get((task, metric), {}).get(model, {}).get(size)


def paper_set(puzzle: str, size: int) -> str:
    """The name of the set that follows the paper's test protocol: figures on any other do not compare with the paper's.

    >>> paper_set("futoshiki", 12), paper_set("sudoku", 9)
    ('futoshiki-12-test', 'sudoku-9-17-test')
    """
    return "sudoku-9-17-test" if (puzzle, size) == ("sudoku", 9) else f"{puzzle}-{size}-test"
