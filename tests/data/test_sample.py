"""Solutions to start from: valid, diverse, and uniform where that is claimed."""

from __future__ import annotations

from collections import Counter
from itertools import combinations

import numpy as np
import pytest

from outgrow.csp import judge
from outgrow.csp.exact import ExactSolver
from outgrow.data.dig import Swaps
from outgrow.data.sample import sample_graph, sample_latin_square, sample_solution
from outgrow.puzzles import sudoku


@pytest.mark.parametrize("size", [1, 2, 3, 6, 9, 12])
def test_latin_squares_are_latin(size: int) -> None:
    square = sample_latin_square(size, np.random.default_rng(size))
    wanted = set(range(1, size + 1))
    assert all(set(line) == wanted for line in [*square.tolist(), *square.T.tolist()])


def test_latin_squares_are_uniform_over_all_576_of_order_4() -> None:
    rng = np.random.default_rng(0)
    count = Counter(sample_latin_square(4, rng).tobytes() for _ in range(14_400))
    assert len(count) == 576
    chi_square = sum((n - 25) ** 2 / 25 for n in count.values())
    # 575 degrees of freedom: mean 575, standard deviation 34. Stopping the chain at the first proper square gives over 3,000.
    assert chi_square < 575 + 5 * 34


@pytest.mark.parametrize(("rows", "columns", "boards"), [(3, 3, 60), (2, 6, 30), (4, 4, 15)])
def test_sampled_boards_are_not_shuffles_of_one_pattern(rows: int, columns: int, boards: int) -> None:
    size = rows * columns
    csp = sudoku.build(rows, columns, np.zeros(size * size, dtype=np.int16)).csp
    rng = np.random.default_rng(1)
    with ExactSolver(csp, "glucose4") as solver:
        found = [sample_solution(solver, rng) for _ in range(boards)]
    assert all(b is not None and judge(csp, b).solved for b in found)
    # The sizes of two-value chains do not change when rows, columns or values are shuffled.
    swaps = Swaps.of(csp)
    patterns = {tuple(sorted(w.bit_count() for w in swaps.find(b.tolist()))) for b in found if b is not None}
    assert len(patterns) > 0.8 * boards
    # Renamed so that the first row reads 1, 2, 3, ..., two boards agree no more often than chance would have it.
    plain = [np.argsort(b[:size])[b - 1][size:] for b in found if b is not None]
    agreement = np.mean([(a == b).mean() for a, b in combinations(plain, 2)])
    assert agreement < 1.6 / size


def test_boards_are_not_sampled_with_an_engine_that_repeats_itself() -> None:
    csp = sudoku.build(2, 2, np.zeros(16, dtype=np.int16)).csp
    with ExactSolver(csp, "cadical195") as solver, pytest.raises(ValueError, match="glucose4"):
        sample_solution(solver, np.random.default_rng(0))


def test_graphs_have_the_asked_density() -> None:
    rng = np.random.default_rng(0)
    edges = [sample_graph(50, 0.2, rng) for _ in range(200)]
    assert np.mean([len(e) for e in edges]) == pytest.approx(0.2 * 50 * 49 / 2, rel=0.03)
    assert all((e[:, 0] < e[:, 1]).all() and e.max() < 50 for e in edges)
