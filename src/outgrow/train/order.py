"""In which order puzzles are learnt: a function of the seed and the update, so that a run can go on anywhere."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from outgrow.errors import OutgrowError

__all__ = ["Order", "draw_given", "draw_marks", "draw_steps", "draw_values", "seed_for"]

Ints = npt.NDArray[np.int64]
# Puzzles are sorted by size within so many batches, so that one batch holds puzzles of similar size and an epoch stays random.
_WINDOW = 32
# Updates over which several sets have their shares.
_BLOCK = 1_000


class Order:
    """Which puzzles each update learns from: batches of one set, in epochs of random order; puzzles of different sizes are bucketed by
    theirs. A set with fewer puzzles than a batch, beside others, has each of them several times in one.

    >>> order = Order([np.array([3, 3, 3, 3])], batch=2, seed=(0,))
    >>> sorted(np.concatenate([order.batch(0), order.batch(1)]).tolist())
    [0, 1, 2, 3]
    """

    def __init__(
        self,
        sizes: Sequence[Ints],
        batch: int,
        seed: tuple[int, ...],
        shares: Sequence[float] = (),
        names: Sequence[str] = (),
    ) -> None:
        """`sizes` has an array for each set, the number of variables of its puzzles; those are numbered from set to set."""
        if batch > sum(map(len, sizes)):
            raise OutgrowError(f"train.batch is {batch}, but there are {sum(map(len, sizes))} puzzles to train on")
        for number, found in enumerate(sizes):
            if not len(found):
                raise OutgrowError(f"there are no puzzles to train on in {names[number] if names else f'set {number}'}")
        self._sizes = sizes
        self._first = np.cumsum([0, *map(len, sizes)])
        self._batch = batch
        self._seed = seed
        self._shares = np.array(shares or [len(s) for s in sizes], dtype=float)
        self._shares /= self._shares.sum()
        self._drawn = (-1, np.zeros(0, np.int64), np.zeros((0, len(sizes)), np.int64))
        self._epochs: dict[int, tuple[int, list[Ints]]] = {}

    @property
    def updates_per_epoch(self) -> int:
        """After so many, as many puzzles were learnt from as there are; the last few of a set, too few for a batch, wait for another epoch."""
        return sum(map(self._batches, range(len(self._sizes))))

    def set_of(self, update: int) -> int:
        """The number of the set that this update learns from."""
        return self._place(update)[0]

    def batch(self, update: int) -> Ints:
        """The puzzles of this update, counted from 0."""
        number, place = self._place(update)
        epoch, place = divmod(place, self._batches(number))
        if self._epochs.get(number, (-1,))[0] != epoch:
            self._epochs[number] = (epoch, self._shuffle(number, epoch))
        return self._epochs[number][1][place] + self._first[number]

    def _batches(self, number: int) -> int:
        """How many batches a set has in an epoch."""
        return max(1, len(self._sizes[number]) // self._batch)

    def _place(self, update: int) -> tuple[int, int]:
        """The set of this update, and how many batches of it came before."""
        if len(self._sizes) == 1:
            return 0, update
        # Every block of updates has as many batches of each set as its share asks for, in random order.
        block, at = divmod(update, _BLOCK)
        if self._drawn[0] != block:
            each = np.diff(np.rint(np.cumsum(self._shares) * _BLOCK).astype(np.int64), prepend=0)
            each = np.maximum(each, 1)  # however small its share, a set is met
            each[each.argmax()] -= each.sum() - _BLOCK
            order = np.repeat(np.arange(len(each)), each)
            order = np.random.default_rng([*self._seed, block, 1]).permutation(order)
            counts = block * each + np.cumsum(order[:, None] == np.arange(len(each)), axis=0)
            self._drawn = (block, order, counts)
        _, order, counts = self._drawn
        return int(order[at]), int(counts[at, order[at]]) - 1

    def _shuffle(self, number: int, epoch: int) -> list[Ints]:
        sizes = self._sizes[number]
        batches = self._batches(number)
        # The first set's order is the one it has alone.
        rng = np.random.default_rng([*self._seed, epoch, *([number, 2] if number else [])])
        order = np.resize(rng.permutation(len(sizes)), batches * self._batch)
        if (sizes == sizes[0]).all():
            return np.split(order, batches)
        window = self._batch * _WINDOW
        parts = [order[at : at + window] for at in range(0, len(order), window)]
        order = np.concatenate([part[np.argsort(sizes[part], kind="stable")] for part in parts])
        found = np.split(order, batches)
        return [found[i] for i in rng.permutation(batches)]


def draw_given(
    counts: Ints,
    seed: tuple[int, ...],
    more: tuple[float, float] = (0.0, 0.0),
    untouched: float = 0.0,
    remask: tuple[float, float] = (0.0, 0.0),
) -> tuple[npt.NDArray[np.bool_], npt.NDArray[np.bool_]] | None:
    """For puzzles with so many variables: which variables (V,) are given in any case, and which are masked in any case.

    See `DataRecipe` for the shares. None where puzzles stay as they are.
    """
    if not (more[1] or remask[1]):
        return None
    rng = np.random.default_rng(list(seed))
    changed = np.repeat(rng.random(len(counts)) >= untouched, counts)
    drawn = rng.random(int(counts.sum()))

    def below(bounds: tuple[float, float]) -> npt.NDArray[np.bool_]:
        return drawn < np.repeat(rng.uniform(*bounds, len(counts)), counts)

    if remask[1]:
        masked = below(remask)
        return changed & ~masked, changed & masked
    given = changed & below(more)
    return given, np.zeros_like(given)


def draw_steps(bounds: tuple[int, int], seed: tuple[int, ...]) -> int:
    """How many ungraded steps come first: each number from the first to the last equally often."""
    return (
        bounds[0] if bounds[0] == bounds[1] else int(np.random.default_rng(list(seed)).integers(*bounds, endpoint=True))
    )


def draw_values(puzzles: int, values: int, embeddings: int, seed: tuple[int, ...]) -> Ints:
    """A random k-permutation of the embeddings for each puzzle: (B, K)."""
    rng = np.random.default_rng(list(seed))
    return np.argsort(rng.random((puzzles, embeddings)), axis=1)[:, :values]


def draw_marks(puzzles: int, seed: tuple[int, ...]) -> Ints:
    """A seed of marks for each puzzle: (B, 1)."""
    return np.random.default_rng(list(seed)).integers(1 << 62, size=(puzzles, 1))


def seed_for(*parts: int) -> int:
    """One number of many, for torch's generator."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> np.uint64(1))
