"""A model as a layer: soft givens in, beliefs out, gradients through; so that a network that reads a picture can sit in front."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor, nn

from outgrow.errors import OutgrowError
from outgrow.graphs import Puzzles
from outgrow.models import Model
from outgrow.models.nodes import NodeModel
from outgrow.puzzles import Instance
from outgrow.solve.neural import fit

__all__ = ["SoftSolver"]


class SoftSolver(nn.Module):
    """A binarized or grouped model on one puzzle whose givens are not known for certain.

    Evidence e (B, V, K) says how likely variable j is given with value l. A row that is 1 at one value and 0 elsewhere is a given; a row
    of zeros, an open variable; what is missing to 1 is how likely it is open. So a softmax over K + 1 classes, the last of which is
    'nothing there', is evidence once that class is left out.

    Args:
        model: a model, as `load_weights(...).model` or `Solver().network_for(puzzle).model` has it. Its parameters are trained along
            with everything else unless you freeze them (`requires_grad_(False)`).
        puzzle: the facts; its givens are not looked at.
        steps: of message passing; by default the model's own.

    >>> from outgrow.graphs import Schema
    >>> from outgrow.models import GroupedConfig, build_model
    >>> from outgrow.puzzles import parse_one
    >>> puzzle = parse_one("." * 16)
    >>> layer = SoftSolver(build_model(Schema.of(puzzle.csp), GroupedConfig(width=8)), puzzle, steps=3)
    >>> evidence = torch.full((2, 16, 4), 0.2, requires_grad=True)
    >>> beliefs = layer(evidence)
    >>> beliefs.shape, round(beliefs.sum(2).mean().item(), 4)
    (torch.Size([2, 16, 4]), 1.0)
    >>> beliefs[0, 0, 0].log().backward()
    >>> evidence.grad[0].abs().sum().item() > 0, evidence.grad[1].abs().sum().item()
    (True, 0.0)
    """

    def __init__(self, model: Model, puzzle: Instance, steps: int | None = None) -> None:
        super().__init__()
        if not isinstance(model, torch.nn.Module):
            raise OutgrowError(f"a model, not {type(model).__name__}: Solver(...).network_for(puzzle).model has one")
        if not isinstance(puzzle, Instance):
            raise OutgrowError(f"a puzzle is an Instance here, not {type(puzzle).__name__}; see outgrow.parse")
        if not isinstance(model, NodeModel):
            raise OutgrowError(f"a {model.kind} model takes no soft givens; take a grouped or binarized one")
        self.model = model
        self.steps = model.config.steps if steps is None else steps
        if self.steps < 1:
            raise OutgrowError(f"{self.steps} steps; at least 1")
        [seen] = fit(model, [puzzle.with_givens(puzzle.givens * 0)])
        self._puzzles = Puzzles.of_instances([seen])
        self._shape = (seen.csp.num_variables, seen.size)

    def scores(self, evidence: Tensor) -> Tensor:
        """The logits after every step, (T, B, V, K): for a loss at each of them, as in training."""
        variables, values = self._shape
        if evidence.ndim != 3 or evidence.shape[1:] != self._shape:
            raise OutgrowError(f"evidence is (B, {variables}, {values}), not {tuple(evidence.shape)}")
        count = len(evidence)
        if not count:  # no puzzle, no graph
            return evidence.new_zeros(self.steps, 0, variables, values)
        batch = self._puzzles.batch([0] * count, evidence.device)
        known = evidence.sum(2, keepdim=True)
        kinds = torch.stack([(1 - known).expand_as(evidence), known - evidence, evidence], dim=3)
        graph = replace(self.model.prepare(batch), soft=kinds.reshape(-1, 3))  # pyright: ignore[reportArgumentType]
        return self.model(graph, self.steps).view(self.steps, count, variables, values)

    def forward(self, evidence: Tensor) -> Tensor:
        """(B, V, K) -> (B, V, K): how likely each value of a variable is, after the last step."""
        return self.scores(evidence)[-1].softmax(2)
