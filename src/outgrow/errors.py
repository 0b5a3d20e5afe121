"""The errors a user can cause. Each is one line that names the place and the fix; the command exits with code 2."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

__all__ = ["DamagedFile", "InputError", "OutgrowError", "memory_errors"]


class OutgrowError(Exception):
    """Anything that is the input's fault and not the program's."""


class InputError(OutgrowError):
    """Text that is no puzzle.

    >>> str(InputError("81 cells expected, found 80", source="a.txt", line=3))
    'a.txt:3: 81 cells expected, found 80'
    """

    def __init__(self, reason: str, *, source: str = "", line: int | None = None) -> None:
        self.reason = reason
        self.source = source
        self.line = line
        place = source or "input"
        if line is not None:
            place += f":{line}"
        super().__init__(f"{place}: {reason}")


class DamagedFile(OutgrowError):
    """A file of data, weights, predictions or results that cannot be trusted."""


@contextmanager
def memory_errors(fix: str) -> Iterator[None]:
    """What torch or numpy could not allocate, as one line that says what to do."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        said = str(error).lower()
        if isinstance(error, MemoryError) or "out of memory" in said or "allocate memory" in said:
            raise OutgrowError(f"out of memory; {fix}") from None
        raise
