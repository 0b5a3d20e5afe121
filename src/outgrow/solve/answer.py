"""What comes back for a puzzle: an assignment that the verdict calls right, or none, and who it came from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from outgrow.puzzles import PUZZLES, Instance, write_line
from outgrow.puzzles.instance import Values

__all__ = ["Answer", "Source", "Status"]

Status = Literal["solved", "unsolved", "unsatisfiable", "ran_out"]
Source = Literal["neural", "exact"]
_WORDS = {
    "unsolved": "not solved",
    "unsatisfiable": "has no solution (proven)",
    "ran_out": "not solved: the exact solver's time ran out",
}


@dataclass(frozen=True, eq=False)
class Answer:
    """What a `Solver` says of a puzzle.

    Attributes:
        puzzle: as it was asked.
        status: 'solved'; 'unsolved', by a network alone; 'unsatisfiable', which is proven; 'ran_out', of the exact solver's time.
        source: whose word that is, the network's or the exact solver's.
        assignment: (V,) values 1..K that keep every rule and every given; None unless solved.
        steps: how many steps of message passing were run, 0 without a network.
        seconds: what it took; of what a batch took, its share.
        guess: (V,) what the network said last, whether right or not; None without a network.
        confidence: (V,) the probability that the network gives to each value of its guess, 1 where it was given.
        reason: why it is not solved: a rule that the guess breaks, or two givens that do.
        unique: whether it is the only solution, where that was asked; None where it was not, or the time ran out.
    """

    puzzle: Instance
    status: Status
    source: Source
    assignment: Values | None
    steps: int
    seconds: float
    guess: Values | None = None
    confidence: npt.NDArray[np.float32] | None = None
    reason: str = ""
    unique: bool | None = None

    @property
    def solved(self) -> bool:
        """Whether there is an assignment; it has passed the verdict."""
        return self.status == "solved"

    @property
    def text(self) -> str:
        """The solved puzzle as a line of text that every command reads, of a problem of one's own its values; '' unless solved."""
        if self.assignment is None:
            return ""
        if self.puzzle.puzzle not in PUZZLES:
            return " ".join(map(str, self.assignment))
        return write_line(self.puzzle, self.assignment)

    @property
    def words(self) -> str:
        """What became of it, in a sentence without a full stop."""
        if self.solved:
            return f"solved by {'a neural network' if self.source == 'neural' else 'the exact solver'}, checked"
        if self.status == "unsolved" and self.source == "neural":
            return f"not solved: the network's answer breaks a rule ({self.reason}), so it is not shown as a solution"
        return _WORDS[self.status] + (f": {self.reason}" if self.reason else "")

    def as_json(self) -> dict[str, Any]:
        """What `outgrow solve --json` prints."""
        found = {
            "solved": self.solved,
            "source": self.source,
            "assignment": None if self.assignment is None else self.assignment.tolist(),
            "status": self.status,
            "steps": self.steps,
            "seconds": round(self.seconds, 6),
        }
        if self.reason:
            found["reason"] = self.reason
        if self.unique is not None:
            found["unique"] = self.unique
        return found

    def __str__(self) -> str:
        return f"{self.text}\n{self.words}" if self.solved else self.words
