"""Notes: what a network is sure cannot be is written down, and it goes on from there.

Within an attempt a network forgets: where it was sure of a cell too early it notices the contradiction, and lets go of much that was right as well.
What is written down stays. It becomes an input, as what givens rule out, so that deductions go on from it however long a chain they make.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import NamedTuple, TypeVar

import torch
from torch import Tensor

from outgrow.errors import OutgrowError
from outgrow.graphs import Batch, BinarizedGraph
from outgrow.graphs.binarized import RULED_OUT, UNASSIGNED
from outgrow.models import Model, Multivalued
from outgrow.models.layers import States
from outgrow.models.multivalued import Prepared
from outgrow.models.nodes import NodeModel

__all__ = ["LEAST_FOR_NOTES", "Moment", "Notes", "check_notes", "take_notes"]
Graph = TypeVar("Graph", bound=BinarizedGraph)

# Chosen on Futoshikis of Unequal, see decision 15. What a node says is looked at after every so many steps; it is noted if the value was less
# likely than this so many times in a row, for just after a start a network is sure of much that it takes back.
_EVERY, _BELOW, _TIMES = 4, 0.01, 4
LEAST_FOR_NOTES = _EVERY * _TIMES  # steps of an attempt
# Where nothing was noted for so many steps, states start afresh: at rest, a network does not see what follows from its notes.
_PATIENCE = 24


class Moment(NamedTuple):
    """A step of an attempt.

    Attributes:
        graph: what the model passed messages on, notes included.
        told: (N, H) what nodes told in it: the messages were made of that. Of a multi-valued model it is variables, (V, H).
        scores: (V, K) after it.
    """

    graph: BinarizedGraph | Prepared
    told: Tensor
    scores: Tensor


@dataclass(eq=False)
class Notes:
    """What was written down of the puzzles of a batch.

    Attributes:
        ruled_out: (N,) values that a variable does not have, by nodes (variable, value).
        taken: (B,) of which puzzles notes are taken; an attempt at the others is one as any other.
        added: (B,) whether the last attempt wrote something down, and left every variable a value.
    """

    ruled_out: Tensor
    taken: Tensor
    added: Tensor = field(init=False)

    def __post_init__(self) -> None:
        self.added = torch.zeros_like(self.taken)

    @classmethod
    def none(cls, batch: Batch, taken: bool = False) -> Notes:
        """Nothing yet."""
        nodes, device = sum(variables * values for variables, values in batch.sizes), batch.puzzle.device
        return cls(torch.zeros(nodes, dtype=torch.bool, device=device), torch.full((len(batch),), taken, device=device))

    def to(self, device: torch.device | str) -> Notes:
        """On another device."""
        return Notes(self.ruled_out.to(device), self.taken.to(device))


def check_notes(model: Model, restart: int, steps: int) -> None:
    """Refuses a model that cannot take notes, and attempts of so many steps (0 for one alone) that would never take any."""
    if isinstance(model, Multivalued):
        raise OutgrowError("a multi-valued model takes no notes: it has no inputs for values that are ruled out")
    if not 0 < restart < steps:
        raise OutgrowError("notes are taken where a network starts over; let it: --restarts N, or --no-guarantee")
    if restart < LEAST_FOR_NOTES:
        raise OutgrowError(f"attempts of {restart} steps are too short for notes; {LEAST_FOR_NOTES} are the least")


def take_notes(model: Model, batch: Batch, number: int, steps: int, notes: Notes) -> Iterator[Moment]:
    """An attempt, step after step, that goes on from `notes` and adds to them."""
    assert not isinstance(model, Multivalued)
    return _run(model, batch, number, steps, notes)  # pyright: ignore[reportArgumentType]


def _run(model: NodeModel[Graph], batch: Batch, number: int, steps: int, notes: Notes) -> Iterator[Moment]:
    puzzle = batch.node_puzzle
    draw = torch.full((len(batch), 1), number, dtype=torch.int64, device=puzzle.device) if model.marked else None
    given = model.prepare(batch, draw)
    free = given.known == UNASSIGNED
    taken = free & notes.taken[puzzle]
    times = torch.zeros_like(puzzle)  # how often in a row each node was below
    rested = torch.zeros_like(batch.counts)  # for how many steps nothing was noted
    notes.added = torch.zeros_like(notes.added)

    def read() -> Graph:
        return replace(given, known=given.known.masked_fill(notes.ruled_out, RULED_OUT))

    def begin() -> States:
        return model.shake(read(), number) if number and not model.marked else model.start(read())

    states = begin()
    for at in range(0, steps, _EVERY):
        graph, scores = read(), torch.empty(0)
        for reached, scores in model.walk(graph, min(_EVERY, steps - at), states):
            yield Moment(graph, states.told, scores)
            states = reached
        if at + _EVERY > steps:
            break
        times = (times + 1).masked_fill(scores[batch.allowed].float().sigmoid() >= _BELOW, 0)
        new = (times >= _TIMES) & taken & ~notes.ruled_out
        notes.ruled_out = notes.ruled_out | new
        some = torch.zeros_like(notes.added).index_fill(0, puzzle[new], True)
        notes.added = notes.added | some
        rested = (rested + _EVERY).masked_fill(some, 0)
        stuck = (rested >= _PATIENCE) & notes.taken
        if bool(stuck.any()):
            afresh = stuck[puzzle]
            states = States(*(torch.where(afresh.unsqueeze(1), a, b) for a, b in zip(begin(), states, strict=True)))
            times, rested = times.masked_fill(afresh, 0), rested.masked_fill(stuck, 0)
    notes.added = notes.added.index_fill(0, _without_values(batch, notes), False)


def _without_values(batch: Batch, notes: Notes) -> Tensor:
    """Puzzles where some variable has no value left, so that a note must be wrong."""
    left = batch.allowed
    left = left.masked_scatter(left, ~notes.ruled_out)
    return batch.puzzle[~left.any(1)]
