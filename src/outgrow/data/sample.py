"""Complete solutions to start from: solved boards of any CSP, uniform Latin squares, random graphs."""

from __future__ import annotations

import hashlib

import numpy as np
import numpy.typing as npt

from outgrow.csp.exact import Budget, ExactSolver

__all__ = ["fold_of", "sample_graph", "sample_latin_square", "sample_solution"]

Rng = np.random.Generator


def sample_solution(solver: ExactSolver, rng: Rng, budget: Budget | None = None) -> npt.NDArray[np.int16] | None:
    """A random solution of the solver's CSP: a search from nothing in which every variable first
    tries a value of its own drawing. None if there is none within the budget.

    Where values may be renamed they are, so that each is as likely as any other.
    """
    if solver.engine != "glucose4":
        # cadical195 keeps its trail between calls and finds the same board again and again.
        raise ValueError("solutions are sampled with glucose4")
    csp = solver.csp
    drawn = rng.integers(1, csp.num_values + 1, csp.num_variables)
    found = solver.solve(hints=drawn, budget=budget).assignment
    if found is not None and csp.value_symmetric:
        found = (rng.permutation(csp.num_values) + 1).astype(np.int16)[found - 1]
    return found


def sample_latin_square(size: int, rng: Rng) -> npt.NDArray[np.int16]:
    """A Latin square (size, size) of values 1..size, near uniform among all of them, by the Markov chain
    of Jacobson and Matthews (Journal of Combinatorial Designs 4, 1996) from a shuffled cyclic square.

    It stops at the size**2-th proper square it meets, about size**3 steps. (To stop at the first proper
    one after a fixed number of steps would favor squares with few improper neighbors.)

    The square is a 0/1 cube (row, column, value) with one 1 on every line. A step adds and takes away 1 at the eight
    corners of a box; at most one entry of the cube is -1 in between.
    """
    if size < 2:
        return np.ones((size, size), dtype=np.int16)
    cyclic = np.add.outer(rng.permutation(size), rng.permutation(size)) % size
    # The 1s of the cube along its three kinds of line.
    values = [[[v] for v in row] for row in cyclic.tolist()]  # [row][column]
    columns: list[list[list[int]]] = [[[] for _ in range(size)] for _ in range(size)]  # [row][value]
    rows: list[list[list[int]]] = [[[] for _ in range(size)] for _ in range(size)]  # [column][value]
    for r in range(size):
        for c in range(size):
            columns[r][values[r][c][0]].append(c)
            rows[c][values[r][c][0]].append(r)

    def add(r: int, c: int, v: int) -> None:
        values[r][c].append(v)
        columns[r][v].append(c)
        rows[c][v].append(r)

    def remove(r: int, c: int, v: int) -> None:
        values[r][c].remove(v)
        columns[r][v].remove(c)
        rows[c][v].remove(r)

    negative: tuple[int, int, int] | None = None
    visits = size**2
    while visits:
        draws: list[list[int]] = rng.integers(0, size, (size**3, 3)).tolist()
        for (r, c, v), coins in zip(draws, rng.integers(0, 8, size**3).tolist(), strict=True):
            if not visits:
                break
            if negative is None:
                if values[r][c][0] == v:  # the box needs a 0 to start from
                    continue
                add(r, c, v)
                v2, c2, r2 = values[r][c][0], columns[r][v][0], rows[c][v][0]
            else:
                r, c, v = negative  # adding 1 makes it 0; each of its lines offers two 1s
                v2 = values[r][c][coins & 1]
                c2 = columns[r][v][coins >> 1 & 1]
                r2 = rows[c][v][coins >> 2]
                negative = None
            remove(r, c, v2)
            remove(r, c2, v)
            remove(r2, c, v)
            add(r, c2, v2)
            add(r2, c, v2)
            add(r2, c2, v)
            if v2 in values[r2][c2]:
                remove(r2, c2, v2)
                visits -= 1
            else:
                negative = (r2, c2, v2)
    return np.array(values, dtype=np.int16).reshape(size, size) + 1


def fold_of(values: npt.NDArray[np.integer], folds: int) -> int:
    """Which of `folds` equal shares of all boards (V,) of values 0..255 this one falls into: decided by the board alone."""
    return int.from_bytes(hashlib.sha256(values.astype(np.uint8).tobytes()).digest()) % folds


def sample_graph(nodes: int, probability: float, rng: Rng) -> npt.NDArray[np.int32]:
    """An Erdos-Renyi graph: its edges (E, 2), smaller node first."""
    x, y = np.triu_indices(nodes, k=1)
    kept = rng.random(len(x)) < probability
    return np.stack([x[kept], y[kept]], axis=1).astype(np.int32)
