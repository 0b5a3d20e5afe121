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

__all__ = ["Losses", "Objective", "judge_scores"]


class Losses(NamedTuple):
    """Of a batch: the loss to minimize (summed over steps, averaged over puzzles), the part of the last step, and which boards are
    solved (None where nobody asked)."""

    total: Tensor
    final: Tensor
    solved: npt.NDArray[np.bool_] | None


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

    def forward(self, batch: Batch, csps: Sequence[GroundCSP], draw: Tensor | None, judge: bool = False) -> Losses:
        """`csps` are the puzzles' own, for the verdict; `judge` asks which boards are solved."""
        assert batch.solutions is not None, "a loss needs solutions"
        with torch.autocast(batch.puzzle.device.type, torch.bfloat16, enabled=self._autocast):
            prepared = self.model.prepare(batch, draw)
            scores = self.model(prepared)
        scores = scores.float()
        target, solved = batch.solutions, None
        if judge or self._multiplicity:
            output, solved = judge_scores(scores[-1], batch, csps)
        if self._multiplicity and solved is not None:
            found = torch.from_numpy(solved).to(target.device)[batch.puzzle]
            target = torch.where(found, output, target)
        losses = self.model.loss(scores, prepared, target)  # pyright: ignore[reportArgumentType]
        total = losses.sum(0)
        penalty = self.model.penalty(prepared)  # pyright: ignore[reportArgumentType]
        if penalty is not None:
            total = total + penalty
        return Losses(total.mean(), losses[-1].mean().detach(), solved)


def judge_scores(scores: Tensor, batch: Batch, csps: Sequence[GroundCSP]) -> tuple[Tensor, npt.NDArray[np.bool_]]:
    """The assignment (V,) that scores (V, K) amount to, and the verdict on each puzzle (B,): one pass over all facts."""
    output = scores.detach().argmax(1) + 1
    solved = judge_each(csps, batch.split(output.cpu().numpy()), batch.split(batch.givens.cpu().numpy()))
    return output, solved
