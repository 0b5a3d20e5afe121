"""The loss of a batch: at every step, against the given solution or a valid one of the model's own."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn

from outgrow.csp import GroundCSP, judge_each
from outgrow.graphs import Batch
from outgrow.models import Model

__all__ = ["Losses", "Objective", "judge_output"]


class Losses(NamedTuple):
    """Of a batch: the loss to minimize (summed over steps, averaged over puzzles), the part of the last step, and the model's
    output (V,) there."""

    total: Tensor
    final: Tensor
    output: Tensor


class Objective(nn.Module):
    """A model and its loss, as one module: what DistributedDataParallel wraps.

    `multiplicity`: a puzzle may have several solutions, of which one is given. Where the model's own output is a valid solution the
    loss is taken against that one, so that it is not punished for finding another.
    """

    def __init__(self, model: Model, multiplicity: bool, autocast: bool) -> None:
        super().__init__()
        self.model = model
        self._multiplicity = multiplicity
        self._autocast = autocast

    def forward(self, batch: Batch, csps: Sequence[GroundCSP], draw: Tensor | None) -> Losses:
        """`csps` are the puzzles' own, for the verdict where solutions are many."""
        assert batch.solutions is not None, "a loss needs solutions"
        with torch.autocast(batch.puzzle.device.type, torch.bfloat16, enabled=self._autocast):
            prepared = self.model.prepare(batch, draw)
            scores = self.model(prepared)
        scores = scores.float()
        output = scores[-1].detach().argmax(1) + 1
        target = batch.solutions
        if self._multiplicity:
            solved = torch.from_numpy(judge_output(output, batch, csps)).to(target.device)
            target = torch.where(solved[batch.puzzle], output, target)
        losses = self.model.loss(scores, prepared, target)  # pyright: ignore[reportArgumentType]
        total = losses.sum(0)
        penalty = self.model.penalty(prepared)  # pyright: ignore[reportArgumentType]
        if penalty is not None:
            total = total + penalty
        return Losses(total.mean(), losses[-1].mean().detach(), output)


def judge_output(output: Tensor, batch: Batch, csps: Sequence[GroundCSP]) -> npt.NDArray[np.bool_]:
    """The verdict on the assignment of each puzzle, (V,) in all: (B,), in one pass over all facts."""
    return judge_each(csps, batch.split(output.cpu().numpy()), batch.split(batch.givens.cpu().numpy()))
