"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from outgrow.errors import OutgrowError

__all__ = ["write_whole"]


def write_whole(path: str | Path, content: bytes | Iterable[str]) -> None:
    """Writes bytes, or lines (each ends in a line break of its own), beside `path`, then takes its name."""
    path = Path(path)
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with open(temporary, "wb") as stream:
                if isinstance(content, bytes):
                    stream.write(content)
                else:
                    stream.writelines(line.encode() for line in content)
                stream.flush()
                os.fsync(stream.fileno())
            os.replace(temporary, path)
        finally:
            temporary.unlink(missing_ok=True)
    except OSError as error:
        raise OutgrowError(f"{path}: cannot be written ({error.strerror or error})") from None
