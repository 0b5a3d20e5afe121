"""What a network believes after a step. Drawing it needs no torch, so neither does this."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

__all__ = ["Frame"]


@dataclass(frozen=True, eq=False)
class Frame:
    """A model's beliefs after a step.

    Attributes:
        step: from 1, over all attempts.
        beliefs: (V, K) the probability of each value of a variable; 1 and 0 where it is given.
        assignment: (V,) the best value of each.
        solved: the verdict on that.
        attempt: 0 is the first.
        guess: the variable that is taken for given in this attempt and is not; None if there is none.
    """

    step: int
    beliefs: npt.NDArray[np.float32]
    assignment: npt.NDArray[np.int16]
    solved: bool
    attempt: int = 0
    guess: int | None = None
