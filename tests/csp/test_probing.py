from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from plain_rules import Rules, latin_rules, strike, sudoku_rules

from outgrow.csp import Groups, LiftedCSP, find_singles
from outgrow.csp.probing import Prober
from outgrow.data import find_dataset
from outgrow.data.generate import default_settings, make_chunk
from outgrow.puzzles import futoshiki, sudoku

DEEP = (905, 955)  # the only boards of sudoku-9-minimal-valid that take two rounds


def probing(rules: Rules, givens: Sequence[int]) -> int | None:
    """Rounds of trying every value left to every cell, and striking out those that singles refute."""
    options = strike(rules, [{g} if g else set(range(1, rules.values + 1)) for g in givens])
    rounds = 0
    while options is not None:
        if all(len(o) == 1 for o in options):
            return rounds
        tried = [(i, v) for i, o in enumerate(options) if len(o) > 1 for v in o]
        wrong = [(i, v) for i, v in tried if strike(rules, [*options[:i], {v}, *options[i + 1 :]]) is None]
        if not wrong:
            return None
        for i, v in wrong:
            options[i].discard(v)
        options = strike(rules, options) if all(options) else None
        rounds += 1
    return None


def test_sudokus_take_as_many_rounds_as_a_person_would() -> None:
    data = find_dataset("sudoku-9-minimal-valid")
    rules, met = sudoku_rules(3, 3), Counter[int | None]()
    with Prober(data[0].csp) as prober:
        for i in (*range(5), *DEEP):
            givens = data[i].givens
            several = givens.copy()
            several[np.flatnonzero(givens)[:2]] = 0  # minimal no more: there is another solution
            for asked in (givens, several):
                rounds = prober.count_rounds(asked)
                assert rounds == probing(rules, asked.tolist()), i
                met[rounds] += 1
        assert {0, 1, 2, None} <= set(met), met
        deep = data[DEEP[0]].givens
        assert (prober.count_rounds(deep, most=2), prober.count_rounds(deep, most=1)) == (2, None)
        assert prober.count_rounds(data.solution(0)) == 0


def test_futoshikis_take_as_many_rounds_as_a_person_would() -> None:
    """Signs rule values out on the way, at both ends: where those and singles suffice, there is no round."""
    met = Counter[int | None]()
    for size, signs in ((4, (2, 12)), (5, (10, 30)), (6, (18, 30))):
        settings = default_settings("futoshiki", size, 12, style="minimal", levels=(0, 0), signs=signs)
        for record in make_chunk(settings, 0):
            givens = np.where(record.given, record.solution, 0)
            csp = futoshiki.build(size, record.pairs, givens).csp
            rules = latin_rules(size, [(x, y) for x, y in record.pairs.tolist()])
            with Prober(csp) as prober:
                rounds = prober.count_rounds(givens)
            assert rounds == probing(rules, givens.tolist())
            found = find_singles(csp, givens)
            assert (rounds == 0) == (found is not None and bool((found > 0).all()))
            met[rounds] += 1
    assert {0, 1} <= set(met), met


def test_what_cannot_be_solved_is_not_counted() -> None:
    empty = np.zeros(81, dtype=int)
    clash = empty.copy()
    clash[:2] = 1
    with Prober(sudoku.build(3, 3, empty).csp) as prober:
        assert prober.count_rounds(empty) is None
        assert prober.count_rounds(clash) is None
        with pytest.raises(ValueError, match="81 entries"):
            prober.count_rounds(empty[:80])
    # No value may stand twice in a group of three, and there are two: refuted by a round, not by singles.
    differ = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])
    triangle = differ.ground(3, 2, {"nbr": [(0, 1), (1, 2), (0, 2)]})
    with Prober(triangle) as prober:
        assert prober.count_rounds(np.zeros(3, dtype=int)) is None
    with Prober(differ.ground(2, 1, {"nbr": Groups([[0, 1]])})) as prober:
        assert prober.count_rounds(np.zeros(2, dtype=int)) is None
    with Prober(differ.ground(2, 1, {})) as prober:
        assert prober.count_rounds(np.zeros(2, dtype=int)) == 0


@pytest.mark.parametrize("swapped", [False, True])
def test_relations_of_ones_own_support_values_both_ways(swapped: bool) -> None:
    """A chain of 'one more' on four values is settled by where it begins, or where it ends."""
    order = "y, x" if swapped else "x, y"
    step = LiftedCSP(["next(2)"], {"one_more": lambda a, b: b == a + 1}, [f"next(x, y) -> one_more({order})"])
    pairs = [(1, 0), (2, 1), (3, 2)] if swapped else [(0, 1), (1, 2), (2, 3)]
    with Prober(step.ground(4, 4, {"next": pairs})) as prober:
        for givens in ([0, 0, 0, 0], [1, 0, 0, 0], [0, 0, 0, 4]):
            assert prober.count_rounds(np.array(givens)) == 0
    with Prober(step.ground(4, 5, {"next": pairs})) as prober:
        assert prober.count_rounds(np.array([0, 0, 0, 0])) is None  # two ways to go
        assert prober.count_rounds(np.array([0, 3, 0, 0])) == 0
