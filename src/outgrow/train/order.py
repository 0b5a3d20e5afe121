"""In which order puzzles are learnt: a function of the seed and the update, so that a run can go on anywhere."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from outgrow.errors import OutgrowError

__all__ = ["Order", "draw_values", "seed_for"]

Ints = npt.NDArray[np.int64]
# Puzzles are sorted by size within so many batches, so that one batch holds puzzles of similar size and an epoch stays random.
_WINDOW = 32


class Order:
    """Epochs of random batches; puzzles of different sizes are bucketed by theirs.

    >>> order = Order(np.array([3, 3, 3, 3]), batch=2, seed=(0,))
    >>> sorted(np.concatenate([order.batch(0), order.batch(1)]).tolist())
    [0, 1, 2, 3]
    """

    def __init__(self, sizes: Ints, batch: int, seed: tuple[int, ...]) -> None:
        if batch > len(sizes):
            raise OutgrowError(f"train.batch is {batch}, but there are {len(sizes)} puzzles to train on")
        self._sizes = sizes
        self._batch = batch
        self._seed = seed
        self._epoch = -1
        self._batches: list[Ints] = []

    @property
    def updates_per_epoch(self) -> int:
        """The last few puzzles of an epoch, too few for a batch, wait for another."""
        return len(self._sizes) // self._batch

    def batch(self, update: int) -> Ints:
        """The puzzles of this update, counted from 0."""
        epoch, place = divmod(update, self.updates_per_epoch)
        if epoch != self._epoch:
            self._epoch, self._batches = epoch, self._shuffle(epoch)
        return self._batches[place]

    def _shuffle(self, epoch: int) -> list[Ints]:
        rng = np.random.default_rng([*self._seed, epoch])
        order = rng.permutation(len(self._sizes))[: self.updates_per_epoch * self._batch]
        if (self._sizes == self._sizes[0]).all():
            return np.split(order, self.updates_per_epoch)
        window = self._batch * _WINDOW
        parts = [order[at : at + window] for at in range(0, len(order), window)]
        order = np.concatenate([part[np.argsort(self._sizes[part], kind="stable")] for part in parts])
        batches = np.split(order, self.updates_per_epoch)
        return [batches[i] for i in rng.permutation(len(batches))]


def draw_values(puzzles: int, values: int, embeddings: int, seed: tuple[int, ...]) -> Ints:
    """A random k-permutation of the embeddings for each puzzle: (B, K)."""
    rng = np.random.default_rng(list(seed))
    return np.argsort(rng.random((puzzles, embeddings)), axis=1)[:, :values]


def seed_for(*parts: int) -> int:
    """One number of many, for torch's generator."""
    return int(np.random.SeedSequence(list(parts)).generate_state(1, np.uint64)[0] >> np.uint64(1))
