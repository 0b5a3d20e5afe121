from __future__ import annotations

from itertools import permutations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from outgrow.csp import GroundCSP, Groups, LiftedCSP

SUDOKU = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])


def ground(facts: Any, variables: int = 6, values: int = 3) -> GroundCSP:
    return SUDOKU.ground(variables, values, {"nbr": facts})


@given(st.lists(st.lists(st.integers(0, 7), unique=True), max_size=4))
def test_groups_and_their_ordered_pairs_give_the_same_pairs_view(groups: list[list[int]]) -> None:
    pairs = [pair for group in groups for pair in permutations(group, 2)]
    stated = ground(Groups(groups), variables=8).pairs["nbr"]
    assert stated.tolist() == ground(pairs, variables=8).pairs["nbr"].tolist() == [list(p) for p in sorted(set(pairs))]


def test_groups_are_kept_as_stated() -> None:
    csp = ground(Groups([[3, 1, 2], [0, 4]]))
    assert [g.tolist() for g in csp.groups["nbr"]] == [[3, 1, 2], [0, 4]]


def test_facts_stated_in_pairs_have_no_groups() -> None:
    assert ground([(0, 1)]).groups["nbr"] == ()


def test_a_pair_is_kept_in_its_direction_alone() -> None:
    assert ground([(3, 1)]).pairs["nbr"].tolist() == [[3, 1]]


def test_repeated_facts_count_once_and_come_sorted() -> None:
    assert ground([(4, 0), (0, 1), (4, 0), (0, 1)]).pairs["nbr"].tolist() == [[0, 1], [4, 0]]


def test_overlapping_groups_state_a_pair_once() -> None:
    assert ground(Groups([[0, 1], [1, 0, 2]])).pairs["nbr"].tolist() == [list(p) for p in permutations(range(3), 2)]


@pytest.mark.parametrize(
    "facts", [((0, 1), (2, 3)), iter([[0, 1], [2, 3]]), np.array([[0, 1], [2, 3]], dtype=np.uint8)]
)
def test_pairs_are_read_from_any_iterable_or_array(facts: Any) -> None:
    assert ground(facts).pairs["nbr"].tolist() == [[0, 1], [2, 3]]


@pytest.mark.parametrize("facts", [[], (), np.zeros((0, 2), dtype=int), Groups([]), Groups([[]]), Groups([[2]])])
def test_no_facts_give_no_pairs(facts: Any) -> None:
    assert ground(facts).pairs["nbr"].shape == (0, 2)


def test_a_predicate_left_out_holds_nowhere() -> None:
    csp = SUDOKU.ground(3, 3, {})
    assert csp.pairs["nbr"].shape == (0, 2)
    assert csp.groups["nbr"] == ()


def test_pairs_cannot_be_changed_by_their_readers() -> None:
    with pytest.raises(ValueError, match="read-only"):
        ground([(0, 1)]).pairs["nbr"][0, 0] = 5


@pytest.mark.parametrize("facts", [[(0, 6)], [(6, 0)], Groups([[0, 6]])])
def test_a_variable_above_the_last_is_refused(facts: Any) -> None:
    with pytest.raises(ValueError, match=r"a fact of nbr names variable 6; there are 0\.\.5"):
        ground(facts)


@pytest.mark.parametrize("facts", [[(0, -1)], Groups([[-1, 0]])])
def test_a_negative_variable_is_refused(facts: Any) -> None:
    with pytest.raises(ValueError, match=r"names variable -1; there are 0\.\.5"):
        ground(facts)


def test_a_variable_related_to_itself_is_refused() -> None:
    with pytest.raises(ValueError, match=r"nbr\(2, 2\) relates a variable to itself"):
        ground([(0, 1), (2, 2)])


def test_a_group_that_names_a_variable_twice_is_refused() -> None:
    with pytest.raises(ValueError, match=r"a group of nbr names a variable twice: \[1, 2, 1\]"):
        ground(Groups([[1, 2, 1]]))


@pytest.mark.parametrize("facts", [[(0, 1, 2)], [[0, 1, 2], [3, 4, 5]], np.array([0, 1])])
def test_facts_that_are_no_pairs_are_refused_with_a_way_out(facts: Any) -> None:
    with pytest.raises(ValueError, match=r"facts of nbr are ordered pairs; wrap them in Groups\(...\)"):
        ground(facts)


def test_facts_for_an_unknown_predicate_are_refused() -> None:
    with pytest.raises(ValueError, match="facts for col, row, which is no predicate; there is nbr"):
        SUDOKU.ground(4, 2, {"row": [(0, 1)], "col": []})


@pytest.mark.parametrize(("variables", "values"), [(-1, 3), (3, 0), (3, -2)])
def test_impossible_sizes_are_refused(variables: int, values: int) -> None:
    with pytest.raises(ValueError, match="need at least 0 and 1"):
        SUDOKU.ground(variables, values, {})


def test_a_csp_may_be_empty() -> None:
    csp = SUDOKU.ground(0, 1, {})
    assert csp.assignment([]).shape == (0,)
    assert csp.pairs["nbr"].shape == (0, 2)


def test_a_table_is_the_relation_as_seen_from_x_and_y() -> None:
    lifted = LiftedCSP(["less(2)"], {"gt": lambda a, b: a > b}, ["less(x, y) -> gt(y, x)", "less(x, y) -> gt(x, y)"])
    csp = lifted.ground(2, 3, {})
    swapped, plain = (csp.table(c) for c in csp.constraints)
    assert swapped.tolist() == [[False, True, True], [False, False, True], [False, False, False]]
    assert plain.tolist() == swapped.T.tolist()


@pytest.mark.parametrize(
    ("relation", "symmetric"),
    [
        (lambda a, b: a != b, True),
        (lambda a, b: a == b, True),
        (lambda a, b: False, True),
        (lambda a, b: a < b, False),
        (lambda a, b: abs(a - b) >= 2, False),
        (lambda a, b: a == b == 1, False),
    ],
    ids=["neq", "eq", "never", "lt", "distance", "both one"],
)
def test_values_may_be_renamed_only_where_no_constraint_tells_them_apart(relation: Any, symmetric: bool) -> None:
    lifted = LiftedCSP(["p(2)"], {"r": relation}, ["p(x, y) -> r(x, y)"])
    assert lifted.ground(3, 4, {"p": [(0, 1)]}).value_symmetric == symmetric


def test_a_constraint_without_facts_leaves_values_free_to_be_renamed() -> None:
    """A Futoshiki without signs is a Latin square."""
    lifted = LiftedCSP(
        ["nbr(2)", "less(2)"],
        {"neq": lambda a, b: a != b, "lt": lambda a, b: a < b},
        ["nbr(x, y) -> neq(x, y)", "less(x, y) -> lt(x, y)"],
    )
    assert lifted.ground(3, 3, {"nbr": [(0, 1)]}).value_symmetric
    assert not lifted.ground(3, 3, {"nbr": [(0, 1)], "less": [(1, 2)]}).value_symmetric


@pytest.mark.parametrize("values", [[0, 1, 3], (0, 1, 3), iter([0, 1, 3]), np.array([0, 1, 3], dtype=np.uint8)])
def test_an_assignment_is_read_from_any_iterable_or_array(values: Any) -> None:
    assert ground([], variables=3).assignment(values).tolist() == [0, 1, 3]


@pytest.mark.parametrize("values", [[1, 2], [1, 2, 3, 1], [], np.ones((1, 3), dtype=int)])
def test_an_assignment_of_another_length_is_refused(values: Any) -> None:
    with pytest.raises(ValueError, match="an assignment has 3 entries, not "):
        ground([], variables=3).assignment(values)


@pytest.mark.parametrize("value", [-1, 4, 2**16 + 1, 2**40])
def test_a_value_out_of_range_is_refused(value: int) -> None:
    """Large ones as well: cut to 16 bits, 2^16 + 1 would pass for 1."""
    with pytest.raises(ValueError, match=rf"variable 1 has value {value}; values are 1\.\.3, 0 for none"):
        ground([], variables=3).assignment([1, value, 3])


@pytest.mark.parametrize("facts", [[[0, 1, 2], [3, 4]], [0, 1], [(0.5, 1)], np.array([[0.0, 1.0]])])
def test_what_is_no_list_of_pairs_is_refused_with_the_fix(facts: object) -> None:
    lifted = LiftedCSP(["p(2)"], {"neq": lambda a, b: a != b}, ["p(x, y) -> neq(x, y)"])
    with pytest.raises(ValueError, match="Groups"):
        lifted.ground(5, 2, {"p": facts})  # type: ignore[dict-item]


def test_values_that_are_no_whole_numbers_are_refused() -> None:
    csp = LiftedCSP([], {}, []).ground(2, 3, {})
    with pytest.raises(ValueError, match="whole numbers"):
        csp.assignment([1.7, 2])  # type: ignore[list-item]
