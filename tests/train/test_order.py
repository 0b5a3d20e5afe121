"""Which puzzles an update sees is a function of the seed and its number; epochs are fair, batches of like sizes."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outgrow.errors import OutgrowError
from outgrow.train.order import Order, draw_given, draw_steps, draw_values, seed_for

ALIKE = np.full(50, 81)
MIXED = np.random.default_rng(1).integers(40, 101, 4000)
# Three sets: boards of two sizes, and graphs that all differ.
SETS = [np.full(30, 16), np.full(47, 36), np.random.default_rng(2).integers(5, 30, 100)]
FIRST = [0, 30, 77, 177]  # of each set, counted from set to set
BLOCK = 1_000


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


@pytest.mark.parametrize("epoch", [0, 1, 3])
def test_a_set_alone_has_the_order_it_always_had(epoch: int) -> None:
    """By hand, so that runs of older recipes can be repeated: a permutation cut into batches, buckets where sizes differ."""
    cut = np.random.default_rng([7, 0, epoch]).permutation(50)[:48]
    assert epoch_of(Order([ALIKE], 8, (7, 0)), epoch) == cut.reshape(6, 8).tolist()
    assert epoch_of(Order([ALIKE], 8, (7, 0), shares=[0.1], names=["alone"]), epoch) == cut.reshape(6, 8).tolist()
    rng = np.random.default_rng([7, 0, epoch])
    window = rng.permutation(200)  # fewer than 32 batches: one bucket
    by_size = window[np.argsort(MIXED[window], kind="stable")].reshape(20, 10)
    assert epoch_of(Order([MIXED[:200]], 10, (7, 0)), epoch) == by_size[rng.permutation(20)].tolist()


# ---- several sets


def of_set(batch: Sequence[int]) -> int:
    """The set that all of these belong to."""
    (found,) = {int(np.searchsorted(FIRST, puzzle, side="right")) - 1 for puzzle in batch}
    return found


def run(order: Order, updates: int) -> list[list[int]]:
    return [order.batch(u).tolist() for u in range(updates)]


def test_a_batch_never_mixes_sets() -> None:
    order = Order(SETS, 8, (3, 0))
    batches = run(order, 400)
    assert {of_set(batch) for batch in batches} == {0, 1, 2}
    assert all(len(set(batch)) == 8 for batch in batches)


@pytest.mark.parametrize(
    "shares", [(), (1, 1, 1), (0.5, 0.2, 0.3), (2, 7, 1), (1e-9, 1e-9, 2e-9), (0.9994, 0.0004, 0.0002)], ids=str
)
def test_shares_hold_in_every_thousand_updates(shares: tuple[float, ...]) -> None:
    order = Order(SETS, 8, (3, 0), shares)
    wanted = np.array(shares or [30, 47, 100], dtype=float)
    wanted *= BLOCK / wanted.sum()
    sets = [of_set(batch) for batch in run(order, 2 * BLOCK)]
    for block in (sets[:BLOCK], sets[BLOCK:]):
        counts = np.bincount(block, minlength=3)
        assert (np.abs(counts - wanted) <= 1.5).all()
        assert (counts > 0).all()  # however small its share, a set is met
    assert sets[:BLOCK] != sets[BLOCK:]


def test_sets_come_in_random_order() -> None:
    sets = np.array([of_set(batch) for batch in run(Order(SETS, 8, (3, 0), (2, 1, 1)), BLOCK)])
    changes = int((sets[1:] != sets[:-1]).sum())
    assert changes == pytest.approx(BLOCK * (1 - 0.5**2 - 2 * 0.25**2), abs=5 * 16)  # 625 of a random order
    for part in np.split(sets, 4):  # all along
        assert np.bincount(part).tolist() == pytest.approx([125, 62.5, 62.5], abs=32)


@pytest.mark.parametrize("shares", [(), (5, 1, 2)], ids=str)
def test_every_set_has_fair_epochs_of_its_own(shares: tuple[float, ...]) -> None:
    batches = run(Order(SETS, 8, (3, 0), shares), 2 * BLOCK + 100)  # beyond blocks: nothing begins anew there
    for number, sizes in enumerate(SETS):
        own = [batch for batch in batches if of_set(batch) == number]
        count = len(sizes) // 8
        epochs = [own[at : at + count] for at in range(0, len(own) - count + 1, count)]
        assert len(epochs) > 20
        for epoch in epochs:
            seen = list(itertools.chain(*epoch))
            assert len(seen) == len(set(seen)) == 8 * count
        assert all(one != other for one, other in itertools.combinations(epochs, 2))
        seen = Counter(itertools.chain(*itertools.chain(*epochs)))
        assert set(seen) == set(range(FIRST[number], FIRST[number + 1]))


def test_the_first_set_keeps_the_order_it_has_alone_and_no_two_sets_share_one() -> None:
    twins = [np.full(40, 16)] * 3
    together, alone = Order(twins, 8, (3, 0)), Order(twins[:1], 8, (3, 0))
    by_set: list[list[list[int]]] = [[], [], []]
    for batch in run(together, 60):
        by_set[batch[0] // 40].append([puzzle % 40 for puzzle in batch])
    assert by_set[0] == run(alone, len(by_set[0]))
    firsts = [epoch[:5] for epoch in by_set]
    assert firsts[0] != firsts[1] != firsts[2] != firsts[0]


def test_batches_of_a_mixed_set_hold_like_sizes_beside_others() -> None:
    batches = [b for b in run(Order([ALIKE, MIXED], 32, (0,)), 130) if b[0] >= 50]
    assert len(batches) > 100
    assert np.mean([np.ptp(MIXED[np.array(batch) - 50]) for batch in batches]) < 4


def test_the_order_of_several_sets_is_a_function_of_seed_and_update() -> None:
    places = [0, 1, 999, 1000, 2345, 998, 17, 1001]  # there and back again, over blocks and epochs
    one = Order(SETS, 8, (7, 0), (1, 2, 3))
    expected = [one.batch(u).tolist() for u in places]
    for update, batch in zip(places, expected, strict=True):
        assert Order(SETS, 8, (7, 0), (1, 2, 3)).batch(update).tolist() == batch
    whole = run(Order(SETS, 8, (7, 0), (1, 2, 3)), 2400)
    assert [whole[u] for u in places] == expected
    for other in ((8, 0), (7, 1)):
        sets = [[of_set(b) for b in run(Order(SETS, 8, seed), 50)] for seed in ((7, 0), other)]
        assert sets[0] != sets[1]


def test_an_epoch_is_as_many_updates_as_the_sets_have_batches() -> None:
    assert Order(SETS, 8, (0,)).updates_per_epoch == 3 + 5 + 12
    assert Order(SETS, 8, (0,), (1, 1, 1)).updates_per_epoch == 20


def test_a_set_too_small_for_a_batch_is_met_several_times_in_it() -> None:
    order = Order(SETS, 40, (0,), (1, 1, 1))
    assert order.updates_per_epoch == 1 + 1 + 2
    found = [b for b in run(order, 60) if of_set(b) == 0]
    assert len(found) >= 10
    for batch in found:
        assert len(batch) == 40
        assert set(batch) == set(range(30))
        assert max(np.bincount(batch)) == 2
    assert len({tuple(b) for b in found}) == len(found)


def test_sets_smaller_than_a_batch_together_are_refused_and_so_is_an_empty_one() -> None:
    names = ["boards", "larger ones", "graphs"]
    total = sum(map(len, SETS))
    assert Order(SETS, total, (0,), (), names).updates_per_epoch == 3
    with pytest.raises(OutgrowError, match=rf"^train.batch is {total + 1}, but there are {total} puzzles to train on$"):
        Order(SETS, total + 1, (0,), (), names)
    with pytest.raises(OutgrowError, match=r"^there are no puzzles to train on in larger ones$"):
        Order([SETS[0], SETS[1][:0]], 8, (0,), (), names)


# ---- fresh givens

WAYS = ["more", "remask"]


def draw(way: str, counts: np.ndarray, bounds: tuple[float, float], seed: tuple[int, ...], **shares: float) -> Any:
    """Of puzzles that are changed in one way."""
    return draw_given(counts, seed, **{way: bounds}, **shares)  # pyright: ignore[reportArgumentType]


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.integers(1, 40), min_size=1, max_size=12),
    st.tuples(st.floats(0, 1), st.floats(0, 1)).map(sorted),
    st.floats(0, 1),
    st.sampled_from(WAYS),
    st.integers(0, 2**40),
)
def test_drawn_givens_are_added_or_all_there_are(
    counts: list[int], bounds: list[float], untouched: float, way: str, seed: int
) -> None:
    arguments = (way, np.array(counts), (bounds[0], bounds[1]), (seed, 0, 5, 3))
    found = draw(*arguments, untouched=untouched)
    if found is None:
        assert not bounds[1]
        return
    assert bounds[1]
    given, masked = found
    assert given.shape == masked.shape == (sum(counts),)
    assert not (given & masked).any()
    if way == "remask":  # of a puzzle that is changed every variable is one or the other; of others none
        for part in np.split(given | masked, np.cumsum(counts)[:-1]):
            assert part.all() or not part.any()
    else:
        assert not masked.any()
    again = draw(*arguments, untouched=untouched)
    assert (again[0] == given).all()
    assert (again[1] == masked).all()


@pytest.mark.parametrize("bounds", [(0.2, 0.5), (0.3, 0.3), (0.0, 1.0)], ids=str)
@pytest.mark.parametrize("way", WAYS)
def test_shares_of_givens_are_spread_evenly_between_their_bounds(bounds: tuple[float, float], way: str) -> None:
    low, high = bounds
    found = draw(way, np.full(500, 1000), bounds, (1,))
    drawn = found[0 if way == "more" else 1].reshape(500, 1000)
    shares = np.sort(drawn.mean(1))
    # Of 1000 variables the standard deviation is 0.016 at most.
    assert shares[0] >= low - 0.06
    assert shares[-1] <= high + 0.06
    assert np.abs(shares - np.linspace(low, high, 500)).max() < 0.08
    # Any variable as often as any other, and each puzzle its own.
    assert np.abs(drawn.mean(0) - (low + high) / 2).max() < 0.12
    assert len({row.tobytes() for row in drawn}) > 490


@pytest.mark.parametrize("untouched", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("way", WAYS)
def test_a_share_of_the_puzzles_stays_untouched(untouched: float, way: str) -> None:
    given, masked = draw(way, np.full(4000, 60), (0.4, 0.6), (2, 5), untouched=untouched)
    still = ~(given | masked).reshape(4000, 60).any(1)
    assert still.mean() == pytest.approx(untouched, abs=0.035)  # five standard deviations
    assert not untouched or still.any()
    assert untouched == 1 or not still.all()
    assert untouched > 0 or not still.any()


def test_without_shares_nothing_is_drawn() -> None:
    assert draw_given(np.array([4, 4]), (0,)) is None
    assert draw_given(np.array([4, 4]), (0,), untouched=0.5) is None


@pytest.mark.parametrize("way", WAYS)
def test_givens_differ_between_updates_seeds_and_recoveries(way: str) -> None:
    parts = [(0, 0, 0, 3), (0, 0, 1, 3), (0, 1, 0, 3), (1, 0, 0, 3)]
    found = [draw(way, np.array([30, 20]), (0.5, 0.5), part) for part in parts]
    assert len({flags[0 if way == "more" else 1].tobytes() for flags in found}) == 4


# ---- free steps


@pytest.mark.parametrize("bounds", [(0, 4), (3, 5), (7, 8)])
def test_every_number_of_free_steps_is_drawn_as_often(bounds: tuple[int, int]) -> None:
    counts = Counter(draw_steps(bounds, (1, 0, update, 4)) for update in range(4000))
    assert set(counts) == set(range(bounds[0], bounds[1] + 1))
    expected = 4000 / len(counts)
    assert max(abs(count - expected) for count in counts.values()) < 5 * expected**0.5


def test_free_steps_are_a_function_of_seed_recoveries_and_update() -> None:
    def draw(seed: int, recoveries: int) -> list[int]:
        return [draw_steps((0, 50), (seed, recoveries, update, 4)) for update in range(20)]

    assert draw(1, 0) == draw(1, 0)
    assert draw(1, 0) != draw(2, 0)
    assert draw(1, 0) != draw(1, 1)
    assert len(set(draw(1, 0))) > 8
    for fixed in (0, 6):
        assert {draw_steps((fixed, fixed), (1, 0, update, 4)) for update in range(20)} == {fixed}


# ---- draws of value embeddings


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
