from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_rules import PlainCSP, Rules, coloring_rules, latin_rules, plain_csps, sudoku_rules

from outgrow.csp import Broken, GroundCSP, LiftedCSP, Verdict, judge, judge_batch, judge_each
from outgrow.puzzles import coloring, futoshiki, sudoku
from outgrow.puzzles.instance import Instance

PAIR = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"]).ground(
    variables=3, values=3, facts={"nbr": [(0, 1), (1, 0), (1, 2), (2, 1)]}
)


def plain_verdict(plain: PlainCSP, assignment: Sequence[int], givens: Sequence[int]) -> Verdict:
    broken = tuple(Broken(text, x, y) for text, x, y in plain.broken(assignment))
    changed = tuple(i for i, given in enumerate(givens) if given and assignment[i] != given)
    unassigned = tuple(i for i, value in enumerate(assignment) if value == 0)
    return Verdict(not broken and not changed and not unassigned, broken, changed, unassigned)


def in_order(verdict: Verdict) -> Verdict:
    broken = sorted(verdict.broken, key=lambda b: (b.constraint, b.x, b.y))
    return Verdict(verdict.solved, tuple(broken), verdict.changed, verdict.unassigned)


@settings(deadline=None)
@given(plain_csps(), st.data())
def test_the_verdict_is_that_of_a_plain_judge(plain: PlainCSP, data: st.DataObject) -> None:
    csp = plain.ground()
    partial = st.lists(st.integers(0, plain.values), min_size=plain.variables, max_size=plain.variables)
    givens = data.draw(partial)
    for assignment in data.draw(st.lists(partial, min_size=1, max_size=5)):
        assert in_order(judge(csp, assignment, givens)) == plain_verdict(plain, assignment, givens)


@settings(deadline=None)
@given(plain_csps(max_variables=4, max_values=3), st.data())
def test_batches_are_judged_row_by_row(plain: PlainCSP, data: st.DataObject) -> None:
    csp = plain.ground()
    row = st.lists(st.integers(0, plain.values), min_size=plain.variables, max_size=plain.variables)
    solutions = [list(s) for _, s in zip(range(3), plain.solutions(), strict=False)]
    rows = data.draw(st.lists(row, max_size=4)) + solutions
    givens = [data.draw(st.one_of(row, st.just([0] * plain.variables), st.just(r))) for r in rows]
    batch = np.array(rows, dtype=np.int16).reshape(-1, plain.variables)
    each = np.array(givens, dtype=np.int16).reshape(-1, plain.variables)
    assert judge_batch(csp, batch).tolist() == [judge(csp, r).solved for r in rows]
    assert judge_batch(csp, batch, each).tolist() == [
        judge(csp, r, g).solved for r, g in zip(rows, givens, strict=True)
    ]
    for shared in each[:2]:
        assert judge_batch(csp, batch, shared).tolist() == [judge(csp, r, shared).solved for r in rows]


FUTOSHIKI_SIGNS = [(0, 1), (4, 0), (5, 6), (14, 10), (15, 14)]
WHEEL = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 0), *((i, 5) for i in range(5))]


def solved_sudoku(form: str) -> tuple[Instance, list[int], Rules]:
    board = [1, 2, 3, 4, 5, 6, 4, 5, 6, 1, 2, 3, 2, 3, 1, 5, 6, 4, 5, 6, 4, 2, 3, 1, 3, 1, 2, 6, 4, 5, 6, 4, 5, 3, 1, 2]
    givens = [v if i % 3 == 0 else 0 for i, v in enumerate(board)]
    return sudoku.build(2, 3, np.array(givens), form=form), board, sudoku_rules(2, 3)


def solved_futoshiki(form: str) -> tuple[Instance, list[int], Rules]:
    board = [2, 4, 1, 3, 1, 2, 3, 4, 4, 3, 2, 1, 3, 1, 4, 2]
    signs = [(x, y) if board[x] < board[y] else (y, x) for x, y in FUTOSHIKI_SIGNS]
    givens = [v if i % 5 == 0 else 0 for i, v in enumerate(board)]
    return futoshiki.build(4, np.array(signs), np.array(givens), form=form), board, latin_rules(4, signs)


def solved_coloring(form: str) -> tuple[Instance, list[int], Rules]:
    """A wheel of five spokes with one color to spare, so that some changes lead to another solution."""
    instance = coloring.build(np.array(WHEEL), np.array([1, 0, 0, 0, 0, 5]), 5, form=form)
    return instance, [1, 2, 1, 2, 3, 5], coloring_rules(6, 5, WHEEL)


SOLVED = [
    pytest.param(solved_sudoku("units"), id="sudoku units"),
    pytest.param(solved_sudoku("nbr"), id="sudoku nbr"),
    pytest.param(solved_futoshiki("units"), id="futoshiki units"),
    pytest.param(solved_futoshiki("nbr"), id="futoshiki nbr"),
    pytest.param(solved_coloring("units"), id="coloring"),
]


@pytest.mark.parametrize("solved", SOLVED)
def test_every_change_of_one_variable_of_a_solved_puzzle_is_judged_by_the_rules(
    solved: tuple[Instance, list[int], Rules],
) -> None:
    instance, board, rules = solved
    assert rules.hold(board)
    assert instance.judge(np.array(board)) == Verdict(True, (), (), ())
    changes: list[list[int]] = []
    for i, value in enumerate(board):
        for other in range(instance.size + 1):
            if other == value:
                continue
            changed = [*board[:i], other, *board[i + 1 :]]
            changes.append(changed)
            given = bool(instance.givens[i])
            verdict = instance.judge(np.array(changed))
            assert verdict.solved == (rules.hold(changed) and not given)
            assert verdict.changed == ((i,) if given else ())
            assert verdict.unassigned == (() if other else (i,))
            assert all(i in (b.x, b.y) for b in verdict.broken)
            assert bool(verdict.broken) == (other > 0 and not rules.hold(changed))
    batch = judge_batch(instance.csp, np.array(changes), instance.givens)
    assert batch.tolist() == [instance.judge(np.array(c)).solved for c in changes]


def test_a_change_that_keeps_the_rules_is_another_solution() -> None:
    instance, board, rules = solved_coloring("units")
    other = [*board[:4], 4, board[5]]
    assert rules.hold(other)
    assert instance.judge(np.array(other)).solved


def test_broken_constraints_are_named_with_their_variables_each_once() -> None:
    """Both directions of the fact are stated; the reader sees one."""
    verdict = judge(PAIR, [2, 2, 2])
    text = "nbr(x, y) -> neq(x, y)"
    assert verdict.broken == (Broken(text, 0, 1), Broken(text, 1, 2))
    assert not verdict.consistent


def test_a_broken_order_keeps_its_direction() -> None:
    csp = LiftedCSP(["less(2)"], {"lt": lambda a, b: a < b}, ["less(x, y) -> lt(x, y)"]).ground(
        2, 3, {"less": [(1, 0)]}
    )
    assert judge(csp, [1, 2]).broken == (Broken("less(x, y) -> lt(x, y)", 1, 0),)
    assert judge(csp, [2, 1]).solved


def test_a_pair_that_breaks_two_constraints_is_named_for_both() -> None:
    instance, _, _ = solved_sudoku("units")
    clash = np.zeros(36, dtype=int)
    clash[[0, 1]] = 3
    found = judge(instance.csp, clash).broken
    assert [(b.constraint[:3], b.x, b.y) for b in found] == [("row", 0, 1), ("box", 0, 1)]


def test_unassigned_variables_break_nothing_and_leave_it_unsolved() -> None:
    verdict = judge(PAIR, [1, 0, 1])
    assert verdict == Verdict(False, (), (), (1,))
    assert verdict.consistent


def test_a_given_changed_and_a_given_dropped_are_both_told() -> None:
    verdict = judge(PAIR, [1, 2, 0], givens=[3, 2, 1])
    assert verdict.changed == (0, 2)
    assert not verdict.solved
    assert not verdict.consistent


def test_a_solution_that_changes_a_given_is_not_solved() -> None:
    assert judge(PAIR, [1, 2, 1]).solved
    assert judge(PAIR, [1, 2, 1], givens=[0, 0, 3]) == Verdict(False, (), (2,), ())


def test_givens_that_are_kept_change_nothing() -> None:
    assert judge(PAIR, [1, 2, 1], givens=[1, 0, 1]) == Verdict(True, (), (), ())


@pytest.mark.parametrize("assignment", [[1, 4, 1], [1, -1, 1], [1, 2], [1, 2, 1, 2], []])
def test_an_assignment_out_of_range_or_shape_is_refused(assignment: list[int]) -> None:
    with pytest.raises(ValueError):
        judge(PAIR, assignment)
    with pytest.raises(ValueError):
        judge(PAIR, [1, 2, 1], givens=assignment)


def test_a_batch_out_of_range_is_not_solved() -> None:
    """What a model says may be anything; one bad row must not stop the others."""
    rows = np.array([[1, 2, 1], [1, 4, 1], [1, -1, 1], [0, 2, 1]])
    assert judge_batch(PAIR, rows).tolist() == [True, False, False, False]


@pytest.mark.parametrize("shape", [(3,), (2, 2), (2, 4), (1, 2, 3)])
def test_a_batch_of_another_shape_is_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match=r"assignments are \(B, 3\)"):
        judge_batch(PAIR, np.ones(shape, dtype=int))


def test_an_empty_batch_has_no_verdicts() -> None:
    assert judge_batch(PAIR, np.zeros((0, 3), dtype=int)).shape == (0,)


@pytest.mark.parametrize("variables", [0, 2])
def test_a_csp_without_constraints_asks_only_for_values(variables: int) -> None:
    csp: GroundCSP = LiftedCSP([], {}, []).ground(variables, 2, {})
    assert judge(csp, [2] * variables).solved
    assert judge_batch(csp, np.full((2, variables), 2)).tolist() == [True, True]


# ---- one CSP each


def is_solved(csp: GroundCSP, assignment: Sequence[int], givens: Sequence[int] | None) -> bool:
    """`judge`, with what it refuses to look at taken for unsolved."""
    try:
        return judge(csp, assignment, givens).solved
    except ValueError:
        return False


# Relations without an order, with one, and with truths on the diagonal; stated straight, swapped and twice over one predicate.
MIXED = LiftedCSP(
    predicates=["p(2)", "q(2)"],
    relations={
        "neq": lambda a, b: a != b,
        "le": lambda a, b: a <= b,
        "near": lambda a, b: abs(a - b) < 3,
    },
    constraints=["p(x, y) -> neq(x, y)", "p(x, y) -> near(x, y)", "q(x, y) -> le(y, x)"],
)
OTHER = LiftedCSP(["q(2)", "p(2)"], {"lt": lambda a, b: a < b}, ["q(x, y) -> lt(x, y)", "p(x, y) -> lt(y, x)"])


def random_csp(random: np.random.Generator) -> GroundCSP:
    variables, values = int(random.integers(0, 5)), int(random.integers(1, 6))
    pairs = [(x, y) for x in range(variables) for y in range(variables) if x != y]
    facts = {name: [p for p in pairs if random.random() < 0.2] for name in ("p", "q")}
    return (MIXED, MIXED, OTHER)[random.integers(3)].ground(variables, values, facts)


def test_each_is_judged_by_its_own_csp() -> None:
    """CSPs of two lifted problems and all sizes, some of them several times; values may be beyond a CSP's own and within another's."""
    random = np.random.default_rng(0)
    seen: list[bool] = []
    for _ in range(400):
        csps = [random_csp(random) for _ in range(random.integers(1, 6))]
        csps += [csps[i] for i in random.integers(0, len(csps), random.integers(0, 4))]
        random.shuffle(csps)
        assignments: list[np.ndarray] = []
        givens: list[np.ndarray] = []
        for csp in csps:
            low, high = ((1, csp.num_values), (1, 5), (-1, 6))[random.integers(3)]
            row = random.integers(low, high + 1, csp.num_variables)
            inside = (row > 0) & (row <= csp.num_values)
            kept = np.where(inside & (random.random(len(row)) < 0.5), row, 0)
            if len(kept) and random.random() < 0.2:
                kept[random.integers(len(kept))] = random.integers(1, csp.num_values + 1)
            assignments.append(row)
            givens.append(kept)
        expected = [is_solved(c, a.tolist(), None) for c, a in zip(csps, assignments, strict=True)]
        assert judge_each(csps, assignments).tolist() == expected
        expected = [is_solved(c, a.tolist(), g.tolist()) for c, a, g in zip(csps, assignments, givens, strict=True)]
        assert judge_each(csps, assignments, givens).tolist() == expected
        seen += expected
    assert 0.2 < np.mean(seen) < 0.8


def test_each_solved_puzzle_among_its_spoiled_copies() -> None:
    """Boards of three sizes and two forms, right but for one cell: changed, dropped, out of range, or against the givens."""
    csps: list[GroundCSP] = []
    assignments: list[np.ndarray] = []
    givens: list[np.ndarray] = []
    expected: list[bool] = []
    for parameter in SOLVED:
        instance, board, _ = parameter.values[0]
        for i in range(-1, len(board)):
            for value in (0, 1 + board[i] % instance.size, -3, instance.size + 1, 30_000) if i >= 0 else (0,):
                row = np.array(board)
                if i >= 0:
                    row[i] = value
                csps.append(instance.csp)
                assignments.append(row)
                givens.append(np.asarray(instance.givens))
                expected.append(is_solved(instance.csp, row.tolist(), instance.givens.tolist()))
    order = np.random.default_rng(0).permutation(len(csps))
    found = judge_each([csps[i] for i in order], [assignments[i] for i in order], [givens[i] for i in order])
    assert found.tolist() == [expected[i] for i in order]
    assert expected.count(True) >= len(SOLVED)
    # The same with each CSP for itself, as graphs to color are.
    own = [GroundCSP(c.lifted, c.num_variables, c.num_values, c.pairs, c.groups) for c in csps]
    found = judge_each([own[i] for i in order], [assignments[i] for i in order], [givens[i] for i in order])
    assert found.tolist() == [expected[i] for i in order]


def test_no_puzzles_have_no_verdicts() -> None:
    assert judge_each([], []).shape == (0,)
    assert judge_each([], [], []).dtype == np.bool_


@pytest.mark.parametrize("copies", [1, 2])
def test_each_needs_an_assignment_that_fits(copies: int) -> None:
    """Both for a CSP on its own and for one that several share."""
    csps = [PAIR] * copies
    right = [np.array([1, 2, 1])] * copies
    assert judge_each(csps, right).all()
    with pytest.raises(ValueError, match="one of each"):
        judge_each(csps, right[1:])
    with pytest.raises(ValueError, match="one of each"):
        judge_each(csps, right, right[1:])
    for wrong in ([1, 2], [1, 2, 1, 2], []):
        with pytest.raises(ValueError):
            judge_each(csps, [np.array(wrong, dtype=int)] * copies)
        with pytest.raises(ValueError):
            judge_each(csps, right, [np.array(wrong, dtype=int)] * copies)
