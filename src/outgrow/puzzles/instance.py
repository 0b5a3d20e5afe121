"""One puzzle to solve, and what a kind of puzzle has to offer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol

import numpy as np
import numpy.typing as npt

from outgrow.csp import GroundCSP, LiftedCSP, Verdict, judge

if TYPE_CHECKING:
    from outgrow.puzzles.reading import Reader

__all__ = ["Confidence", "Format", "Instance", "Layout", "Puzzle", "Restore", "Span", "Values", "neq"]

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


@dataclass(frozen=True, eq=False)
class Layout:
    """Where everything of a puzzle is drawn, in pixels from the upper left corner; whoever draws it need not know which puzzle it is.

    Attributes:
        width: of the whole drawing, with its margins.
        height: as well.
        places: (V, 2) the center of each variable.
        shape: what stands there: a 'cell', whose borders are among `lines`, a 'box' with a square border, a 'disc' with a round one.
        side: the width of a cell, box or disc.
        lines: ends and stroke width of what never changes: (x1, y1, x2, y2, width).
        links: (E, 2) pairs of variables that a line joins; it is red where a rule between them is broken.
        symbols: what values 1..K are written as.
        colored: a value is shown as a color, and the number of the variable is written.
    """

    width: float
    height: float
    places: npt.NDArray[np.float64]
    shape: Literal["cell", "box", "disc"]
    side: float
    lines: tuple[tuple[float, float, float, float, float], ...]
    links: npt.NDArray[np.int64]
    symbols: tuple[str, ...]
    colored: bool = False


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
        layout: how it is laid out, for pictures and pages.
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
    layout: Callable[[Instance], Layout]

    def format(self, name: str) -> Format:
        """The format of that name."""
        return next(f for f in self.formats if f.name == name)
