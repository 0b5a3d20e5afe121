"""Puzzles that stay for several updates and go on from the states they reached, so that hard ones are learnt from longer than easy ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from outgrow.graphs.batch import ranges
from outgrow.models.layers import States

__all__ = ["Carried"]

Ints = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]

# The chance that a solved puzzle leaves after an update: those that stay teach a model to rest at a solution.
_LEAVE = 0.5


class Carried:
    """The puzzles of one set that are being learnt from.

    Attributes:
        puzzles: (B,) which they are.
        draws: (B, K) the value embeddings drawn for each, or (B, 1) its seed of marks; None for models without either.
        ages: (B,) how many updates each has been through.
        leaving: (B,) which make room for others at the next update.
        states: where message passing stands, of all of them; None before the first update.

    A solution that a puzzle has found stays its target for as long as it stays.
    """

    def __init__(self, batch: int, longest: int, inherit: float = 0.0) -> None:
        self._longest, self._inherit = longest, inherit
        self._begin(batch)

    def _begin(self, batch: int) -> None:
        self.puzzles: Ints = np.full(batch, -1, np.int64)
        self.draws: Ints | None = None
        self.ages: Ints = np.zeros(batch, np.int64)
        self.leaving: Flags = np.ones(batch, np.bool_)
        self.states: States | None = None
        self._givens: list[Ints] = [np.zeros(0, np.int64)] * batch
        self._targets: list[Ints] = [np.zeros(0, np.int64)] * batch
        self._nodes: Ints = np.zeros(batch, np.int64)

    @property
    def givens(self) -> Ints:
        """What is given, 0 for open variables, puzzle after puzzle."""
        return np.concatenate(self._givens)

    @property
    def targets(self) -> Ints:
        """The solutions to learn, puzzle after puzzle."""
        return np.concatenate(self._targets)

    def renew(
        self,
        puzzles: Ints,
        givens: Sequence[Ints],
        targets: Sequence[Ints],
        draws: Ints | None = None,
        seed: Sequence[int] = (0,),
    ) -> Flags:
        """The first of these take the places of those that leave; which places (B,) start anew.

        The others go on from the states in their places: their own, or, where a new puzzle inherits, those of the one before.
        """
        new = self.leaving.copy()
        for place, puzzle, given, target in zip(np.flatnonzero(new), puzzles, givens, targets, strict=False):
            self.puzzles[place], self._givens[place], self._targets[place] = puzzle, given, target
        if draws is not None:
            self.draws = draws.copy() if self.draws is None else self.draws
            self.draws[new] = draws[: int(new.sum())]
        self.ages[new] = 0
        self.leaving[:] = False
        if self.states is None or not self._inherit:
            return new
        return new & (np.random.default_rng(list(seed)).random(len(new)) >= self._inherit)

    def go_on(self, start: States, nodes: Ints, new: Flags) -> States:
        """The states to go on from: those in their places, and `start` for puzzles that start anew. `nodes` (B,) is how many each puzzle
        has; one that inherits from a smaller one has the first of its states from there."""
        if self.states is None:
            return start
        old, kept = self._nodes, ~new
        # Puzzles of other sizes move the others along.
        shared = np.minimum(old, nodes)[kept]
        source = ranges((np.cumsum(old) - old)[kept], shared)
        target = ranges((np.cumsum(nodes) - nodes)[kept], shared)
        device = start.hidden.device
        source, target = (torch.from_numpy(index).to(device) for index in (source, target))
        return States(
            *(
                fresh.index_copy(0, target, reached[source].to(fresh.dtype))
                for fresh, reached in zip(start, self.states, strict=True)
            )
        )

    def settle(self, states: States, nodes: Ints, targets: Ints, solved: Flags, seed: Sequence[int]) -> None:
        """After an update: where it got to, what it was to learn, and who leaves."""
        self.states, self._nodes = states, nodes
        self._targets = np.split(targets, np.cumsum([len(t) for t in self._targets])[:-1])
        self.ages += 1
        chance = np.random.default_rng(list(seed)).random(len(solved))
        self.leaving = (solved & (chance < _LEAVE)) | (self.ages >= self._longest)

    def as_tensors(self) -> dict[str, Tensor]:
        """Everything, to be written down; nothing before the first update."""
        if self.states is None:
            return {}
        arrays = {
            "puzzles": self.puzzles,
            "ages": self.ages,
            "leaving": self.leaving.astype(np.int64),
            "nodes": self._nodes,
        }
        arrays |= {"givens": self.givens, "targets": self.targets, "counts": np.array([len(g) for g in self._givens])}
        if self.draws is not None:
            arrays["draws"] = self.draws
        tensors = {name: torch.from_numpy(array.copy()) for name, array in arrays.items()}
        return {**tensors, **self.states._asdict()}

    def restore(self, tensors: Mapping[str, Tensor], device: torch.device) -> None:
        """Back to what was written down; nothing for the beginning. A KeyError or ValueError for what is not all of it."""
        batch = len(self.puzzles)
        self._begin(batch)
        if not tensors:
            return
        arrays: dict[str, Any] = {n: t.cpu().numpy().copy() for n, t in tensors.items() if n not in States._fields}
        self.puzzles, self.ages, self._nodes = arrays["puzzles"], arrays["ages"], arrays["nodes"]
        self.leaving = arrays["leaving"].astype(np.bool_)
        ends = np.cumsum(arrays["counts"])[:-1]
        self._givens, self._targets = np.split(arrays["givens"], ends), np.split(arrays["targets"], ends)
        self.draws = arrays.get("draws")
        states = States(*(tensors[name].to(device) for name in States._fields))
        each = (
            self.puzzles,
            self.ages,
            self._nodes,
            self.leaving,
            self._givens,
            self._targets,
            *(() if self.draws is None else (self.draws,)),
        )
        if any(len(part) != batch for part in each) or any(len(t) != self._nodes.sum() for t in states):
            raise ValueError(f"not {batch} puzzles with their states")
        self.states = states
