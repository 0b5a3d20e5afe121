"""What a person finds with a pencil and no guessing: candidates struck out one by one, in NumPy.

A solver's unit propagation does the same for groups (`ExactSolver.propagate`); here facts about pairs strike out candidates too.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outgrow.csp.ground import GroundCSP

__all__ = ["find_singles"]


def find_singles(csp: GroundCSP, givens: npt.NDArray[np.integer]) -> npt.NDArray[np.int16] | None:
    """The givens and the values that follow by singles, 0 for the others; None on a contradiction: (V,).

    A variable loses a value that goes with none of those left to a variable it is bound to: one that another of its group has for certain, or, at a
    sign `<`, one not below the largest left to the greater cell, or not above the smallest left to the lesser. The last value left to a variable is its own (a naked single), and so is one that no other
    variable of a group as large as the value set can have (a hidden single).

    >>> from outgrow.puzzles import parse_one
    >>> puzzle = parse_one("1.....3..4.....2")
    >>> find_singles(puzzle.csp, puzzle.givens).reshape(4, 4).tolist()
    [[1, 3, 2, 4], [4, 2, 3, 1], [2, 4, 1, 3], [3, 1, 4, 2]]
    """
    values = csp.num_values
    start = csp.assignment(np.asarray(givens))
    left = np.where(start[:, None] > 0, start[:, None] == np.arange(1, values + 1), True)  # (V, K)
    # Both ways: a fact about (x, y) strikes out values of x by those left to y, and values of y by those left to x.
    facts = [(csp.pairs[c.predicate], csp.table(c)) for c in csp.constraints]
    facts += [(pairs[:, ::-1], table.T) for pairs, table in facts]
    full = [
        m for c in csp.constraints if _all_differ(csp.table(c)) for m in csp.groups[c.predicate] if len(m) == values
    ]
    rows = np.array(full, dtype=np.int64).reshape(-1, values)
    while True:
        before = left.sum()
        for pairs, table in facts:
            # x keeps a value if some value left to y goes with it: (E, K), all pairs at once.
            kept = left[pairs[:, 1]].astype(np.int64) @ table.T > 0
            np.logical_and.at(left, pairs[:, 0], kept)
        there = left[rows]  # (G, n, K)
        only = there & (there.sum(1, keepdims=True) == 1)
        hidden = np.zeros_like(left)
        np.logical_or.at(hidden, rows, only)
        left &= hidden | ~hidden.any(1, keepdims=True)
        if not left.any(1).all() or not left[rows].any(1).all():
            return None
        if left.sum() == before:
            break
    return np.where(left.sum(1) == 1, left.argmax(1) + 1, 0).astype(np.int16)


def _all_differ(table: npt.NDArray[np.bool_]) -> bool:
    return bool((table == ~np.eye(len(table), dtype=np.bool_)).all())
