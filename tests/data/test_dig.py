"""Digging: the solution stays the only one, the target is met, minimal means minimal."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest

from outgrow.csp import LiftedCSP, judge
from outgrow.csp.exact import Budget, ExactSolver
from outgrow.data.dig import Swaps, dig
from outgrow.data.sample import sample_latin_square, sample_solution
from outgrow.puzzles import futoshiki, sudoku


def count_solutions(csp: object, givens: np.ndarray) -> int:
    with ExactSolver(csp) as solver:  # type: ignore[arg-type]
        return solver.count(givens, limit=2).count


@pytest.mark.parametrize(
    ("rows", "columns", "engine"), [(2, 2, "cadical195"), (3, 3, "cadical195"), (3, 3, "glucose4")]
)
def test_a_minimal_puzzle_is_unique_and_can_spare_no_given(rows: int, columns: int, engine: str) -> None:
    size = rows * columns
    csp = sudoku.build(rows, columns, np.zeros(size * size, dtype=np.int16)).csp
    rng = np.random.default_rng(3)
    with ExactSolver(csp, "glucose4") as sampler, ExactSolver(csp, engine) as solver:  # type: ignore[arg-type]
        for _ in range(3):
            board = sample_solution(sampler, rng)
            assert board is not None
            dug = dig(solver, board, None, rng, witnesses=Swaps.of(csp).find(board.tolist()))
            assert dug.status == "done"
            givens = np.where(dug.given, board, 0)
            assert count_solutions(csp, givens) == 1
            for i in np.flatnonzero(dug.given):
                fewer = givens.copy()
                fewer[i] = 0
                assert count_solutions(csp, fewer) == 2


@pytest.mark.parametrize("target", [30, 40, 60, 81])
def test_the_target_is_met_exactly(target: int) -> None:
    csp = sudoku.build(3, 3, np.zeros(81, dtype=np.int16)).csp
    rng = np.random.default_rng(target)
    with ExactSolver(csp, "glucose4") as solver:
        board = sample_solution(solver, rng)
        assert board is not None
        dug = dig(solver, board, target, rng, witnesses=Swaps.of(csp).find(board.tolist()))
    assert dug.status == "done"
    assert dug.given.sum() == target
    assert count_solutions(csp, np.where(dug.given, board, 0)) == 1


def test_an_impossible_target_is_stuck_and_exchanges_go_below_the_first_minimum() -> None:
    csp = sudoku.build(3, 3, np.zeros(81, dtype=np.int16)).csp
    swaps = Swaps.of(csp)
    with ExactSolver(csp, "glucose4") as solver:
        board = sample_solution(solver, np.random.default_rng(5))
        assert board is not None
        witnesses = swaps.find(board.tolist())
        stuck = dig(solver, board, 10, np.random.default_rng(0), witnesses=witnesses)
        traded = dig(solver, board, 10, np.random.default_rng(0), witnesses=witnesses, exchanges=150)
    assert stuck.status == traded.status == "stuck"  # 17 is the least there is
    assert 17 <= traded.given.sum() < stuck.given.sum()
    assert count_solutions(csp, np.where(traded.given, board, 0)) == 1


def test_a_budget_that_runs_out_is_its_own_answer() -> None:
    csp = sudoku.build(4, 4, np.zeros(256, dtype=np.int16)).csp
    rng = np.random.default_rng(0)
    with ExactSolver(csp, "glucose4") as solver:
        board = sample_solution(solver, rng)
        assert board is not None
        dug = dig(solver, board, None, rng, witnesses=[], budget=Budget(conflicts=1))
    assert dug.status == "ran_out"


def test_every_swap_is_another_solution() -> None:
    """Sudoku (not-equal alone) and Futoshiki (with signs): trading the two values of a chain gives a valid board."""
    rng = np.random.default_rng(2)
    size = 6
    square = sample_latin_square(size, rng).ravel()
    pairs = futoshiki.adjacent_pairs(size)[::5]
    less = np.where((square[pairs[:, 0]] < square[pairs[:, 1]])[:, None], pairs, pairs[:, ::-1])
    signed = futoshiki.build(size, less, square).csp
    plain = futoshiki.build(size, less[:0], square).csp
    swaps = Swaps.of(plain).with_pairs(less.tolist(), plain.lifted.table("lt", size))
    chains = swaps.find(square.tolist())
    assert chains == Swaps.of(signed).find(square.tolist())
    assert 0 < len(chains) < len(Swaps.of(plain).find(square.tolist()))
    for chain in chains:
        inside = np.array([chain >> i & 1 for i in range(size * size)], dtype=bool)
        low, high = np.unique(square[inside])
        other = np.where(inside, low + high - square, square)
        assert judge(signed, other).solved


def test_swaps_respect_relations_of_ones_own() -> None:
    apart = LiftedCSP(["next(2)"], {"apart": lambda a, b: abs(a - b) >= 2}, ["next(x, y) -> apart(x, y)"])
    csp = apart.ground(3, 5, {"next": [(0, 1), (1, 2)]})
    chains = Swaps.of(csp).find([1, 3, 5])
    assert chains
    for chain in chains:  # some solution differs on these variables and no others
        choices = [set(range(1, 6)) - {v} if chain >> i & 1 else {v} for i, v in enumerate([1, 3, 5])]
        assert any(judge(csp, values).solved for values in product(*choices))
