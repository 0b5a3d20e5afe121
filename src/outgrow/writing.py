"""Files that are there whole or not at all."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TextIO

from outgrow.errors import OutgrowError

__all__ = ["stream", "write_whole"]


def write_whole(path: str | Path, content: bytes | Iterable[str]) -> None:
    """Writes bytes, or lines (each ends in a line break of its own), beside `path`, then takes its name.

    A link stays one, to the new file; a pipe or a device cannot be replaced, and is written to.
    """
    special = _is_special(path)
    target = Path(path) if special else Path(path).resolve()
    data = content if isinstance(content, bytes) else "".join(content).encode()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if special:
            target.write_bytes(data)
            return
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as stream:
                stream.write(data)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, target)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutgrowError(f"{path}: cannot be written ({error.strerror or error})") from None


@contextlib.contextmanager
def stream(path: str | Path) -> Iterator[TextIO]:
    """A file to write lines to, which takes its name in the end, or when Ctrl-C ends it: what was done by then is kept. An error leaves nothing.

    A pipe or a device is written to, and '-' is standard output.
    """
    if str(path) == "-":
        yield sys.stdout
        return
    if not str(path):
        raise OutgrowError("a file to write to has a name; this one is empty")
    special = _is_special(path)
    target = Path(path) if special else Path(path).resolve()
    temporary = target if special else target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.is_dir():
            raise OutgrowError(f"{path}: is a folder")
        with open(temporary, "w", encoding="utf-8", errors="backslashreplace") as sink:
            try:
                yield sink
            except KeyboardInterrupt:
                if special or sink.tell():  # nothing done is no reason to lose what was there
                    _take_name(sink, temporary, target, special)
                raise
            _take_name(sink, temporary, target, special)
    except OSError as error:
        raise OutgrowError(f"{path}: cannot be written ({error.strerror or error})") from None
    finally:
        if not special:
            temporary.unlink(missing_ok=True)


def _is_special(path: str | Path) -> bool:
    """A pipe or a device: /dev/stdout is a link to one that may have no name of its own."""
    return Path(path).exists() and not (Path(path).is_file() or Path(path).is_dir())


def _take_name(sink: TextIO, temporary: Path, target: Path, special: bool) -> None:
    sink.flush()
    if not special:
        os.fsync(sink.fileno())
        os.replace(temporary, target)
