from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from outgrow.csp import Constraint, Groups, LiftedCSP, judge

NEQ = {"neq": lambda a, b: a != b}


def order(constraint: str) -> LiftedCSP:
    return LiftedCSP(["less(2)"], {"lt": lambda a, b: a < b, "gt": lambda a, b: a > b}, [constraint])


@pytest.mark.parametrize("text", ["nbr(2)", " nbr ( 2 ) ", "nbr( 2)"])
def test_predicates_are_read_with_any_spacing(text: str) -> None:
    assert LiftedCSP([text], {}, []).predicates == ("nbr",)


@pytest.mark.parametrize("text", ["nbr", "nbr()", "2(nbr)", "nbr(two)", "nbr(2) more", "a nbr(2)", "1st(2)", ""])
def test_text_that_is_no_predicate_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no predicate; write its name and arity, as in 'nbr\(2\)'"):
        LiftedCSP([text], {}, [])


@pytest.mark.parametrize("arity", [0, 1, 3])
def test_arities_other_than_two_are_refused(arity: int) -> None:
    with pytest.raises(ValueError, match=r"only binary predicates are supported, as in 'even\(2\)'"):
        LiftedCSP([f"even({arity})"], {}, [])


def test_a_predicate_declared_twice_is_refused() -> None:
    with pytest.raises(ValueError, match="declared twice"):
        LiftedCSP(["nbr(2)", "nbr (2)"], NEQ, [])


@pytest.mark.parametrize(
    "text",
    [
        "nbr(x, y) -> neq(x, y)",
        "nbr(x,y)->neq(x,y)",
        "  nbr ( a , b )  ->  neq ( a , b )  ",
        "nbr(x_1, x_2) -> neq(x_1, x_2)",
    ],
)
def test_constraints_are_read_with_any_spacing_and_names(text: str) -> None:
    lifted = LiftedCSP(["nbr(2)"], NEQ, [text])
    assert lifted.parsed_constraints == (Constraint("nbr", "neq"),)


@pytest.mark.parametrize(
    "text",
    [
        "nbr(x, y)",
        "nbr(x, y) => neq(x, y)",
        "nbr(x, y) -> neq(x)",
        "nbr(x) -> neq(x, y)",
        "nbr(x, y, z) -> neq(x, y)",
        "nbr(x, y) -> neq(x, y) -> neq(y, x)",
        "nbr x y -> neq x y",
        "",
    ],
)
def test_text_that_is_no_constraint_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no constraint; write 'nbr\(x, y\) -> neq\(x, y\)'"):
        LiftedCSP(["nbr(2)"], NEQ, [text])


@pytest.mark.parametrize(
    ("text", "fix"),
    [
        ("nbr(x, x) -> neq(x, x)", "the two variables of nbr must differ"),
        ("nbr(x, y) -> neq(x, z)", "neq must take the variables x and y, each once"),
        ("nbr(x, y) -> neq(x, x)", "neq must take the variables x and y, each once"),
        ("near(x, y) -> neq(x, y)", "no predicate 'near'; there is nbr, row"),
        ("nbr(x, y) -> differ(x, y)", "no relation 'differ'; there is neq"),
    ],
)
def test_a_wrong_name_or_argument_is_refused_with_the_right_ones(text: str, fix: str) -> None:
    with pytest.raises(ValueError, match=fix):
        LiftedCSP(["nbr(2)", "row(2)"], NEQ, [text])


def test_a_constraint_object_is_checked_as_its_text_is() -> None:
    assert LiftedCSP(["nbr(2)"], NEQ, [Constraint("nbr", "neq")]).parsed_constraints == (Constraint("nbr", "neq"),)
    with pytest.raises(ValueError, match="no relation 'eq'"):
        LiftedCSP(["nbr(2)"], NEQ, [Constraint("nbr", "eq")])


@pytest.mark.parametrize("swapped", [False, True])
def test_a_constraint_prints_as_text_that_reads_back(swapped: bool) -> None:
    stated = Constraint("less", "gt", swapped)
    assert order(str(stated)).parsed_constraints == (stated,)


@pytest.mark.parametrize("text", ["less(x, y) -> gt(y, x)", "less(b, a) -> gt(a, b)"])
def test_swapped_arguments_turn_the_relation_around(text: str) -> None:
    assert order(text).parsed_constraints == (Constraint("less", "gt", swapped=True),)
    plain, turned = (order(t).ground(2, 3, {"less": [(0, 1)]}) for t in ("less(x, y) -> lt(x, y)", text))
    for a in range(1, 4):
        for b in range(1, 4):
            assert judge(turned, [a, b]).solved == judge(plain, [a, b]).solved == (a < b)


def test_constraints_keep_the_order_they_were_stated_in() -> None:
    texts = ["b(x, y) -> neq(x, y)", "a(x, y) -> neq(y, x)", "b(x, y) -> neq(y, x)"]
    lifted = LiftedCSP(["a(2)", "b(2)"], NEQ, texts)
    assert [str(c) for c in lifted.parsed_constraints] == texts


def test_a_table_holds_the_truth_of_every_pair_of_values_from_one() -> None:
    lifted = LiftedCSP([], {"double": lambda a, b: b == 2 * a}, [])
    table = lifted.table("double", 5)
    assert table.shape == (5, 5)
    assert {(a + 1, b + 1) for a, b in np.argwhere(table).tolist()} == {(1, 2), (2, 4)}


def test_a_table_cannot_be_changed_by_its_readers() -> None:
    """It is kept and given to every caller."""
    table = LiftedCSP([], NEQ, []).table("neq", 3)
    with pytest.raises(ValueError, match="read-only"):
        table[0, 0] = True


@pytest.mark.parametrize(
    ("relation", "symmetric"),
    [
        (lambda a, b: a != b, True),
        (lambda a, b: abs(a - b) >= 2, True),
        (lambda a, b: True, True),
        (lambda a, b: a < b, False),
        (lambda a, b: a <= b, False),
        (lambda a, b: b == 2 * a, False),
    ],
    ids=["neq", "distance", "always", "lt", "le", "double"],
)
def test_symmetric_relations_are_told_from_the_others(relation: Any, symmetric: bool) -> None:
    assert LiftedCSP([], {"r": relation}, []).is_symmetric("r", 3) == symmetric


def test_symmetry_does_not_depend_on_an_instance() -> None:
    """With one value `lt` never holds either way around; its edges must keep two types all the same."""
    lifted = order("less(x, y) -> lt(x, y)")
    lifted.ground(2, 1, {"less": [(0, 1)]})
    assert not lifted.is_symmetric("lt", 1)


def test_symmetry_looks_at_every_value_there_is_and_at_no_value_that_is_not() -> None:
    high = LiftedCSP([], {"r": lambda a, b: not (a == 20 and b == 3)}, [])
    assert not high.is_symmetric("r", 20)
    table = [[False, True], [True, False]]
    assert LiftedCSP([], {"r": lambda a, b: table[a - 1][b - 1]}, []).is_symmetric("r", 2)


@pytest.mark.parametrize(
    ("relation", "complete"),
    [
        (lambda a, b: a != b, True),
        (lambda a, b: True, True),
        (lambda a, b: a != b or a == 3, True),  # what holds for a value and itself makes no difference
        (lambda a, b: abs(a - b) >= 2, False),
        (lambda a, b: a < b, False),
        (lambda a, b: a == b, False),
        (lambda a, b: False, False),
        (lambda a, b: a != b and (a, b) != (2, 1), False),
    ],
    ids=["neq", "always", "some to themselves", "distance", "lt", "eq", "never", "all but one"],
)
def test_complete_relations_are_told_from_the_others(relation: Any, complete: bool) -> None:
    assert LiftedCSP([], {"r": relation}, []).is_complete("r", 3) == complete


def test_completeness_does_not_depend_on_an_instance() -> None:
    """With one value nothing can differ, and with two no distance is at least 2: a model's types are the same at every size."""
    lifted = LiftedCSP([], {**NEQ, "near": lambda a, b: abs(a - b) < 3, "lt": lambda a, b: a < b}, [])
    for values in (1, 2, 3, 4, 16, 17):
        assert lifted.is_complete("neq", values)
        assert not lifted.is_complete("near", values)
        assert not lifted.is_complete("lt", values)


def test_completeness_looks_at_every_value_there_is_and_at_no_value_that_is_not() -> None:
    high = LiftedCSP([], {"r": lambda a, b: (a, b) != (20, 3)}, [])
    assert high.is_complete("r", 19)
    assert not high.is_complete("r", 20)
    table = [[False, True], [True, False]]  # defined for two values alone
    assert LiftedCSP([], {"r": lambda a, b: table[a - 1][b - 1]}, []).is_complete("r", 2)
    holes = [[False, True], [False, False]]
    assert not LiftedCSP([], {"r": lambda a, b: holes[a - 1][b - 1]}, []).is_complete("r", 2)
    assert isinstance(high.is_complete("r", 2), bool)


def test_the_callers_relations_may_change_afterwards() -> None:
    relations = dict(NEQ)
    lifted = LiftedCSP(["nbr(2)"], relations, ["nbr(x, y) -> neq(x, y)"])
    relations.clear()
    assert lifted.table("neq", 2).tolist() == [[False, True], [True, False]]


def test_groups_are_read_from_any_iterable() -> None:
    assert Groups([range(2), np.array([3, 4]), (i for i in [5])]).members == ((0, 1), (3, 4), (5,))
