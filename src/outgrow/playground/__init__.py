"""The playground: a web page on this machine where a network solves puzzles step by step, and the small server behind it."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from outgrow.playground.app import create_app
    from outgrow.playground.serving import serve

__all__ = ["create_app", "serve"]

# Imported when they are first asked for: the processes that do the work need no web server.
_LATER = {"create_app": "outgrow.playground.app", "serve": "outgrow.playground.serving"}


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(importlib.import_module(_LATER[name]), name)
    raise AttributeError(f"module 'outgrow.playground' has no attribute {name!r}")
