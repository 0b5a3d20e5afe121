"""Solved instances of a problem of one's own, to train on in place of a data set."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, judge
from outgrow.errors import OutgrowError
from outgrow.puzzles import Instance
from outgrow.puzzles.instance import Values

__all__ = ["Examples"]


@dataclass(frozen=True, eq=False)
class Examples:
    """What `outgrow.train.train` takes by name beside data sets. Sizes may be mixed.

    >>> from outgrow.csp import LiftedCSP
    >>> lifted = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])
    >>> csp = lifted.ground(variables=3, values=2, facts={"nbr": [(0, 1), (1, 2)]})
    >>> examples = Examples.of([(csp, [1, 0, 0], [1, 2, 1]), (csp, [0, 1, 0], [2, 1, 2])])
    >>> len(examples), examples[1].givens.tolist(), examples.solution(1).tolist()
    (2, [0, 1, 0], [2, 1, 2])
    """

    instances: Sequence[Instance]
    solutions: Sequence[Values]
    puzzle = ""

    @classmethod
    def of(cls, examples: Iterable[tuple[GroundCSP, npt.ArrayLike, npt.ArrayLike]]) -> Examples:
        """From ground CSPs, givens (V,), 0 where there is none, and solutions (V,); those that break a rule are refused."""
        instances: list[Instance] = []
        solutions: list[Values] = []
        for number, (csp, givens, solution) in enumerate(examples):
            try:
                instances.append(Instance.of(csp, givens))
                solutions.append(csp.assignment(np.asarray(solution)))
            except ValueError as error:
                raise OutgrowError(f"example {number}: {error}") from None
            if not judge(csp, solutions[-1], instances[-1].givens).solved:
                raise OutgrowError(f"example {number}: its solution breaks a rule or changes a given")
            if csp.lifted is not instances[0].csp.lifted:
                raise OutgrowError(f"example {number}: of another LiftedCSP than the first; a model learns one")
        if not instances:
            raise OutgrowError("no examples")
        return cls(instances, solutions)

    def __len__(self) -> int:
        return len(self.instances)

    def __getitem__(self, index: int) -> Instance:
        return self.instances[index]

    def __iter__(self) -> Iterator[Instance]:
        return iter(self.instances)

    @property
    def size(self) -> int:
        """The largest K."""
        return max(i.size for i in self.instances)

    def instance(self, index: int, form: str = "units") -> Instance:
        """An example; there is one form."""
        return self.instances[index]

    def solution(self, index: int) -> Values:
        """Its solution (V,)."""
        return self.solutions[index]

    @property
    def sha256(self) -> str:
        """Of facts, givens and solutions."""
        found = hashlib.sha256()
        for instance, solution in zip(self.instances, self.solutions, strict=True):
            found.update(f"{instance.size} {len(solution)}".encode())
            for name, pairs in sorted(instance.csp.pairs.items()):
                found.update(name.encode() + np.ascontiguousarray(pairs, dtype=np.int64).tobytes())
            found.update(instance.givens.tobytes() + solution.tobytes())
        return found.hexdigest()
