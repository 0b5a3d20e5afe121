"""The loss of a batch: at every step, against the given solution or a valid one of the model's own."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from outgrow.csp import GroundCSP, judge_each
from outgrow.graphs import Batch
from outgrow.models import Model
from outgrow.models.layers import States, add_noise

__all__ = ["Losses", "Objective", "judge_output"]


class Losses(NamedTuple):
    """Of a batch: the loss to minimize (summed over steps, averaged over puzzles), the part of the last step, and what was reached there:
    the model's output (V,), what the loss wants it to be, the states, and which puzzles (B,) are so."""

    total: Tensor
    final: Tensor
    output: Tensor
    target: Tensor
    states: States
    solved: Tensor


class Objective(nn.Module):
    """A model and its loss, as one module: what DistributedDataParallel wraps.

    `multiplicity`: a puzzle may have several solutions, of which one is given. Where the model's own output is a valid solution
    after a graded step, the loss is taken against the last such one: it is not punished for finding another, and to leave it again is.
    """

    def __init__(
        self,
        model: Model,
        multiplicity: bool,
        autocast: bool,
        steps: int | None = None,
        noise: float = 0.0,
        quiet: float = 0.0,
        step_noise: float = 0.0,
    ) -> None:
        super().__init__()
        self.model = model
        self._multiplicity = multiplicity
        self._autocast = autocast
        self._steps = steps
        self._noise = noise
        self._quiet = quiet
        self._step_noise = step_noise

    def forward(
        self, batch: Batch, csps: Sequence[GroundCSP], draw: Tensor | None, free: int = 0, start: States | None = None
    ) -> Losses:
        """`csps` are the puzzles' own, for the verdict where solutions are many; `free` steps come before the graded ones, which
        begin at `start`, if given."""
        assert batch.solutions is not None, "a loss needs solutions"
        if free:
            start = self.walk(batch, draw, free, start)
        with self._precision(batch):
            prepared: Any = self.model.prepare(batch, draw)
            if start is None:
                start = self._start(prepared, batch)
            steps = list(self.model.walk(prepared, self._steps, start, self._step_noise))
            scores = torch.stack([scores for _, scores in steps]).float()
        reached = States(*(t.detach() for t in steps[-1][0]))
        outputs = scores.detach().argmax(2) + 1
        output = outputs[-1]
        target = batch.solutions
        if self._multiplicity:
            target = _choose_own(outputs, batch, csps, target)
        losses = self.model.loss(scores, prepared, target)
        total = losses.sum(0)
        penalty = self.model.penalty(prepared)
        if penalty is not None:
            total = total + penalty
        wrong = (output != target).to(scores.dtype)
        solved = wrong.new_zeros(len(batch)).index_add(0, batch.puzzle, wrong) == 0
        return Losses(total.mean(), losses[-1].mean().detach(), output, target, reached, solved)

    @torch.no_grad()
    def begin(self, batch: Batch, draw: Tensor | None) -> States:
        """The noisy beginning."""
        with self._precision(batch):
            prepared: Any = self.model.prepare(batch, draw)
            return self._start(prepared, batch)

    @torch.no_grad()
    def walk(self, batch: Batch, draw: Tensor | None, steps: int, start: States | None = None) -> States:
        """The states after so many ungraded steps from `start`, or from the noisy beginning."""
        with self._precision(batch):
            prepared: Any = self.model.prepare(batch, draw)
            states = self._start(prepared, batch) if start is None else start
            for reached, _ in self.model.walk(prepared, steps, states, self._step_noise):
                states = reached
        return states

    def _start(self, prepared: Any, batch: Batch) -> States:
        """The beginning: noisy, but for the puzzles that are drawn to be quiet."""
        if not (self._noise and self._quiet):
            return self.model.start(prepared, self._noise)
        states = self.model.start(prepared)
        puzzle = batch.puzzle if len(states.hidden) == batch.num_variables else batch.node_puzzle
        loud = torch.rand(len(batch), device=puzzle.device) >= self._quiet
        return add_noise(states, self._noise * loud[puzzle].unsqueeze(1))

    def _precision(self, batch: Batch) -> torch.autocast:
        return torch.autocast(batch.puzzle.device.type, torch.bfloat16, enabled=self._autocast)


def _choose_own(outputs: Tensor, batch: Batch, csps: Sequence[GroundCSP], target: Tensor) -> Tensor:
    """The last valid one of a puzzle's outputs (T, V), its part of `target` where there is none: (V,)."""
    chosen = batch.split(target.cpu().numpy().copy())
    givens = batch.split(batch.givens.cpu().numpy())
    without = list(range(len(batch)))
    for output in map(batch.split, reversed(outputs.cpu().numpy())):
        solved = judge_each([csps[i] for i in without], [output[i] for i in without], [givens[i] for i in without])
        for i in itertools.compress(without, solved):
            chosen[i] = output[i]
        without = list(itertools.compress(without, ~solved))
        if not without:
            break
    return torch.from_numpy(np.concatenate(chosen)).to(target)


def judge_output(output: Tensor, batch: Batch, csps: Sequence[GroundCSP]) -> npt.NDArray[np.bool_]:
    """The verdict on the assignment of each puzzle, (V,) in all: (B,), in one pass over all facts."""
    return judge_each(csps, batch.split(output.cpu().numpy()), batch.split(batch.givens.cpu().numpy()))
