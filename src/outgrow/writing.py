"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from outgrow.errors import OutgrowError

__all__ = ["write_whole"]


def write_whole(path: str | Path, content: bytes | Iterable[str]) -> None:
    """Writes bytes, or lines (each ends in a line break of its own), beside `path`, then takes its name.

    A link stays one, to the new file; a pipe or a device cannot be replaced, and is written to.
    """
    target = Path(path).resolve()
    data = content if isinstance(content, bytes) else "".join(content).encode()
    temporary = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        if target.exists() and not (target.is_file() or target.is_dir()):
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
