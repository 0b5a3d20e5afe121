"""Singles: a solver's unit propagation says the same of groups, and a person with a pencil of signs."""

from __future__ import annotations

import numpy as np
import pytest

from outgrow.csp import GroundCSP, Groups, LiftedCSP, find_singles
from outgrow.csp.exact import ExactSolver
from outgrow.data import find_dataset
from outgrow.data.generate import default_settings, make_chunk
from outgrow.puzzles import futoshiki, sudoku


def pencil(csp: GroundCSP, givens: np.ndarray) -> list[int] | None:
    """The rules one by one, over sets of candidates."""
    values = range(1, csp.num_values + 1)
    left = [{int(g)} if g else set(values) for g in givens]
    while True:
        before = [set(s) for s in left]
        for constraint in csp.constraints:
            table = csp.table(constraint)
            for x, y in csp.pairs[constraint.predicate]:
                left[x] = {v for v in left[x] if any(table[v - 1, w - 1] for w in left[y])}
                left[y] = {w for w in left[y] if any(table[v - 1, w - 1] for v in left[x])}
        for constraint in csp.constraints:
            for group in csp.groups[constraint.predicate]:
                if len(group) == csp.num_values:
                    for v in values:
                        where = [i for i in group if v in left[i]]
                        if not where:
                            return None
                        if len(where) == 1:
                            left[where[0]] &= {v}
        if not all(left):
            return None
        if left == before:
            return [next(iter(s)) if len(s) == 1 else 0 for s in left]


@pytest.mark.parametrize("name", ["sudoku-9-hard", "sudoku-6-search-train", "sudoku-6-train", "sudoku-12-hard"])
def test_without_signs_it_is_unit_propagation(name: str) -> None:
    dataset = find_dataset(name)
    with ExactSolver(dataset[0].csp) as solver:
        for puzzle in (dataset[i] for i in range(12)):
            found, expected = find_singles(puzzle.csp, puzzle.givens), solver.propagate(puzzle.givens)
            assert found is not None
            assert expected is not None
            assert found.tolist() == expected.tolist()


@pytest.mark.parametrize("name", ["futoshiki-5-train", "futoshiki-6-valid", "futoshiki-9-hard", "futoshiki-9-test"])
def test_signs_strike_out_values(name: str) -> None:
    dataset = find_dataset(name)
    for i in range(0, 60, 7):
        puzzle = dataset[i]
        found = find_singles(puzzle.csp, puzzle.givens)
        assert found is not None
        assert found.tolist() == pencil(puzzle.csp, puzzle.givens)
        assert set(np.unique(found[found != dataset.record(i).solution])) <= {0}


def test_a_third_of_the_largest_futoshikis_of_the_paper_need_more() -> None:
    """As docs/guide/grouped.md says."""
    dataset = find_dataset("futoshiki-12-test")
    found = [find_singles(dataset[i].csp, dataset[i].givens) for i in range(0, 1000, 5)]
    assert 0.6 < np.mean([f is not None and bool((f > 0).all()) for f in found]) < 0.7


def test_a_sign_rules_out_values_at_both_ends() -> None:
    """What is greater than 3 of 4 values is 4, and what is less than 2 is 1."""
    puzzle = futoshiki.build(4, np.array([(0, 1)]), np.array([3, *[0] * 15]))
    found = find_singles(puzzle.csp, puzzle.givens)
    assert found is not None
    assert found[:2].tolist() == [3, 4]
    puzzle = futoshiki.build(4, np.array([(0, 1)]), np.array([0, 2, *[0] * 14]))
    found = find_singles(puzzle.csp, puzzle.givens)
    assert found is not None
    assert found[:2].tolist() == [1, 2]


def test_a_chain_of_signs() -> None:
    puzzle = futoshiki.build(3, np.array([(0, 1), (1, 2)]), np.zeros(9, int))
    found = find_singles(puzzle.csp, puzzle.givens)
    assert found is not None
    assert found[:3].tolist() == [1, 2, 3]
    assert not found[3:].any()


@pytest.mark.parametrize("seed", range(8))
def test_contradictions(seed: int) -> None:
    """Random givens, most of them against the rules."""
    rng = np.random.default_rng(seed)
    puzzle = futoshiki.build(4, np.array([(0, 1), (5, 1), (6, 10)]), np.zeros(16, int))
    nones = 0
    for count in (1, 2, 3, 4, 5, 6):
        givens = np.zeros(16, int)
        givens[rng.permutation(16)[:count]] = rng.integers(1, 5, count)
        found, expected = find_singles(puzzle.csp, givens), pencil(puzzle.csp, givens)
        assert (None if found is None else found.tolist()) == expected
        nones += expected is None
    assert nones


def test_small_groups_have_no_hidden_singles() -> None:
    """Two variables of three values: a value that one alone can have need not be its."""
    lifted = LiftedCSP(["unit(2)"], {"neq": lambda a, b: a != b}, ["unit(x, y) -> neq(x, y)"])
    csp = lifted.ground(3, 3, {"unit": Groups([[0, 1], [1, 2]])})
    found = find_singles(csp, np.array([1, 0, 2]))
    assert found is not None
    assert found.tolist() == [1, 3, 2]
    found = find_singles(csp, np.array([1, 0, 0]))
    assert found is not None
    assert found.tolist() == [1, 0, 0]


def test_nothing_to_do_and_nothing_left_to_do() -> None:
    puzzle = sudoku.build(2, 2, np.zeros(16, int))
    found = find_singles(puzzle.csp, puzzle.givens)
    assert found is not None
    assert not found.any()
    dataset = find_dataset("futoshiki-4-train")
    solution = dataset.record(0).solution
    found = find_singles(dataset[0].csp, solution)
    assert found is not None
    assert found.tolist() == solution.tolist()


@pytest.mark.parametrize("size", [4, 5])
@pytest.mark.parametrize("search", [True, False])
def test_generated_futoshikis_are_graded(size: int, search: bool) -> None:
    settings = default_settings("futoshiki", size, 24, seed=3, style="minimal", search=search or None)
    records = make_chunk(settings, 0)
    for record in records:
        puzzle = futoshiki.build(size, record.pairs, np.where(record.given, record.solution, 0))
        found = pencil(puzzle.csp, puzzle.givens)
        assert found is not None
        assert record.flags["singles"] == all(found)
        assert not (search and record.flags["singles"])
    if not search:
        assert len({r.flags["singles"] for r in records}) == 2
