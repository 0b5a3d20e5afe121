"""One puzzle to solve, and what a kind of puzzle has to offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, LiftedCSP, Verdict, judge

if TYPE_CHECKING:
    from outgrow.puzzles.reading import Reader

__all__ = ["Confidence", "DrawSvg", "Format", "Instance", "Puzzle", "Restore", "Span", "Values", "neq"]

Values = npt.NDArray[np.int16]
Confidence = npt.NDArray[np.floating]
Span = tuple[str, str]  # text and its role: 'given', 'found', 'empty', 'rule', 'sign', 'color-N'


def neq(a: int, b: int) -> bool:
    """Two values differ."""
    return a != b


@dataclass(frozen=True, eq=False)
class Instance:
    """A ground CSP with givens, and what is needed to write it down again.

    Attributes:
        puzzle: the registered name, 'sudoku'; '' for a problem of one's own.
        csp: V variables, K values, the facts.
        givens: (V,) values 1..K, 0 where the solver has to find one.
        shape: Sudoku: box rows and columns; Futoshiki: the side; coloring: the number of nodes.
        notation: the symbols it was written in, where a format has more than one set.
        notes: what was assumed while reading it.
        source: file and line it came from.
    """

    puzzle: str
    csp: GroundCSP
    givens: Values
    shape: tuple[int, ...] = ()
    notation: str = ""
    notes: tuple[str, ...] = ()
    source: str = ""

    @classmethod
    def of(cls, csp: GroundCSP, givens: npt.ArrayLike) -> Instance:
        """A problem of one's own, to be solved with the rest: `Solver(weights).solve(Instance.of(csp, givens))`."""
        return cls("", csp, csp.assignment(np.asarray(givens)))

    @property
    def size(self) -> int:
        """The number of values, K."""
        return self.csp.num_values

    def with_givens(self, givens: npt.NDArray[np.integer]) -> Instance:
        """The same facts with other givens."""
        return replace(self, givens=self.csp.assignment(givens))

    def judge(self, assignment: npt.NDArray[np.integer]) -> Verdict:
        """The verdict on an assignment; the givens must be kept."""
        return judge(self.csp, assignment, self.givens)


@dataclass(frozen=True)
class Format:
    """A way to write an instance as text; `refuses` says why one cannot be written so ('' if it can)."""

    name: str
    render: Callable[[Instance, Values], str]
    refuses: Callable[[Instance], str] = lambda _: ""


class Restore(Protocol):
    """Makes an instance from what a dataset file keeps of it."""

    def __call__(
        self,
        *,
        size: int,
        shape: tuple[int, ...],
        pairs: npt.NDArray[np.integer],
        givens: npt.NDArray[np.integer],
        form: str,
    ) -> Instance: ...


class DrawSvg(Protocol):
    """Draws an assignment as an SVG file."""

    def __call__(self, instance: Instance, values: Values, confidence: Confidence | None = None) -> str: ...


@dataclass(frozen=True)
class Puzzle:
    """A lifted CSP (in one or more forms) plus text formats.

    Attributes:
        name: as in `--puzzle NAME` and in dataset files.
        forms: the lifted CSPs it may be stated as; 'units' is used where nothing else is asked for.
        restore: an instance from size, shape, the facts of `varying` and givens.
        varying: the predicate whose facts differ between instances of one shape, or None.
        reader: finds and reads its instances in a text.
        read_json: an instance from its JSON form.
        formats: how it is written; the first is the default.
        examples: texts, one puzzle each; the contract test runs over them.
        name_variable: what people call a variable: 'row 1 column 4'.
        draw: an assignment as rows of spans for the terminal.
        draw_svg: the same as a picture; with how sure each value is, it is drawn so strongly.
    """

    name: str
    forms: Mapping[str, LiftedCSP]
    restore: Restore
    varying: str | None
    reader: Reader
    read_json: Callable[[dict[str, Any]], Instance]
    formats: tuple[Format, ...]
    examples: tuple[str, ...]
    name_variable: Callable[[Instance, int], str]
    draw: Callable[[Instance, Values], list[list[Span]]]
    draw_svg: DrawSvg

    def format(self, name: str) -> Format:
        """The format of that name."""
        return next(f for f in self.formats if f.name == name)
