"""Which puzzles an update sees is a function of the seed and its number; epochs are fair, batches of like sizes."""

from __future__ import annotations

import itertools
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outgrow.errors import OutgrowError
from outgrow.train.order import Order, draw_values, seed_for

ALIKE = np.full(50, 81)
MIXED = np.random.default_rng(1).integers(40, 101, 4000)


def epoch_of(order: Order, epoch: int) -> list[list[int]]:
    count = order.updates_per_epoch
    return [order.batch(epoch * count + i).tolist() for i in range(count)]


@settings(max_examples=40, deadline=None)
@given(
    st.lists(st.integers(1, 5), min_size=1, max_size=200),
    st.integers(1, 40),
    st.integers(0, 3),
    st.integers(0, 2**32),
)
def test_an_epoch_has_every_puzzle_at_most_once(sizes: list[int], batch: int, epoch: int, seed: int) -> None:
    batch = min(batch, len(sizes))
    order = Order([np.array(sizes)], batch, (seed, 0))
    assert order.updates_per_epoch == len(sizes) // batch
    batches = epoch_of(order, epoch)
    assert all(len(b) == batch for b in batches)
    seen = list(itertools.chain(*batches))
    assert len(set(seen)) == len(seen)
    assert set(seen) <= set(range(len(sizes)))


@pytest.mark.parametrize("sizes", [ALIKE, MIXED], ids=["alike", "mixed"])
def test_order_is_a_function_of_seed_and_update(sizes: np.ndarray) -> None:
    count = Order([sizes], 10, (7, 0)).updates_per_epoch
    places = [0, count - 1, count, 2 * count + 3, 1, 5 * count]  # there and back again
    one = Order([sizes], 10, (7, 0))
    expected = [one.batch(u).tolist() for u in places]
    for at, update in enumerate(places):
        assert Order([sizes], 10, (7, 0)).batch(update).tolist() == expected[at]
    for other in ((8, 0), (7, 1)):
        assert epoch_of(Order([sizes], 10, other), 0) != epoch_of(one, 0)
    assert epoch_of(one, 0) != epoch_of(one, 1) != epoch_of(one, 2)


def test_the_puzzles_left_out_of_an_epoch_are_not_always_the_same() -> None:
    order = Order([np.full(11, 4)], 4, (0,))
    left = [frozenset(range(11)) - set(itertools.chain(*epoch_of(order, e))) for e in range(8)]
    assert all(len(out) == 3 for out in left)
    assert len(set(left)) > 4


def test_batches_of_mixed_puzzles_hold_like_sizes() -> None:
    batches = epoch_of(Order([MIXED], 32, (0,)), 0)
    spread = [np.ptp(MIXED[batch]) for batch in batches]
    assert np.mean(spread) < 4  # 60 without buckets
    assert max(spread) < 12
    # Long ones and short ones are met all along the epoch, not one after the other.
    means = np.array([MIXED[batch].mean() for batch in batches])
    assert abs(np.corrcoef(means, np.arange(len(means)))[0, 1]) < 0.3
    assert np.ptp(means) > 40


def test_puzzles_of_one_size_keep_different_company() -> None:
    order = Order([MIXED], 32, (0,))
    company = [
        next(set(b) for b in epoch_of(order, e) if 0 in b) for e in range(3) if any(0 in b for b in epoch_of(order, e))
    ]
    for one, other in itertools.pairwise(company):
        assert len(one & other) < 16


def test_a_batch_of_more_puzzles_than_there_are_is_refused() -> None:
    assert Order([ALIKE], 50, (0,)).updates_per_epoch == 1
    with pytest.raises(OutgrowError, match=r"train.batch is 51, but there are 50 puzzles"):
        Order([ALIKE], 51, (0,))


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 20), st.integers(1, 12), st.integers(0, 10), st.integers(0, 2**40))
def test_draws_are_k_permutations(puzzles: int, values: int, more: int, seed: int) -> None:
    drawn = draw_values(puzzles, values, values + more, (seed, 0, 5, 1))
    assert drawn.shape == (puzzles, values)
    assert ((drawn >= 0) & (drawn < values + more)).all()
    assert all(len(set(row)) == values for row in drawn.tolist())
    assert (drawn == draw_values(puzzles, values, values + more, (seed, 0, 5, 1))).all()


def test_all_k_permutations_are_about_as_likely() -> None:
    drawn = draw_values(24_000, 3, 4, (0,))
    counts = Counter(map(tuple, drawn.tolist()))
    assert set(counts) == set(itertools.permutations(range(4), 3))
    # 1000 expected of each; their standard deviation is 31
    assert max(abs(count - 1000) for count in counts.values()) < 5 * 31


def test_draws_differ_between_puzzles_updates_seeds_and_recoveries() -> None:
    parts = [(0, 0, 0, 1), (0, 0, 1, 1), (0, 1, 0, 1), (1, 0, 0, 1)]
    drawn = [draw_values(4, 9, 16, part).tolist() for part in parts]
    rows = [tuple(row) for table in drawn for row in table]
    assert len(set(rows)) == 16


def test_seeds_of_different_parts_differ_and_fit_torch() -> None:
    parts = list(itertools.product(range(3), range(3), range(30), range(3)))
    seeds = {seed_for(*part, 2) for part in parts}
    assert len(seeds) == len(parts)
    assert all(0 <= seed < 2**63 for seed in seeds)
    assert seed_for(1, 2) == seed_for(1, 2)
    assert seed_for(1, 2) != seed_for(2, 1)
