"""Writes docs/reference.md, the public names and their docstrings. Run it: python docs/reference.py"""

from __future__ import annotations

import importlib
import inspect
import re
import typing
from pathlib import Path
from typing import Any

MODULES = ("", "csp", "puzzles", "data", "graphs", "models", "solve", "train", "evaluate", "weights", "playground")
TARGET = Path(__file__).with_name("reference.md")


def describe(module: object, name: str) -> str:
    """A heading with the signature, and the docstring."""
    found = getattr(module, name)
    kind = "class " if inspect.isclass(found) else ""
    signature = _sign(found) if callable(found) and typing.get_origin(found) is None else ""
    own = inspect.isclass(found) or inspect.isfunction(found)
    text = inspect.getdoc(found) if own else ""
    if text and text.startswith(f"{name}("):  # a dataclass without words of its own
        text = ""
    heading = f"### {kind}{name}\n"
    call = f"```text\n{name}{signature}\n```\n" if signature else ""
    parts = [heading, call, f"{_markdown(text)}\n" if text else "", _methods(found) if inspect.isclass(found) else ""]
    return "\n".join(part for part in parts if part)


def _sign(found: Any) -> str:
    try:
        signature = str(inspect.signature(found))
    except (TypeError, ValueError):
        return ""
    # Defaults that are objects have no text that stays the same; types need no quotes.
    signature = re.sub(r"<factory>|<[^=]*? at 0x[0-9a-f]+>", "...", signature)
    return re.sub(r"(: |-> )'([^']*)'", r"\1\2", signature)


def _methods(found: type) -> str:
    lines: list[str] = []
    for name, method in vars(found).items():
        inner = getattr(method, "__func__", method)  # of a class method
        inner = inner.fget if isinstance(inner, property) else inner
        if name.startswith("_") or not inspect.isfunction(inner) or not inner.__doc__:
            continue
        words = " ".join(inspect.cleandoc(inner.__doc__).split("\n\n")[0].split())
        call = "" if isinstance(method, property) else _sign(inner).replace("(self, ", "(").replace("(self)", "()")
        lines.append(f"- `{name}{call}`: {words}")
    return "\n".join(lines) + "\n" if lines else ""


def _markdown(text: str) -> str:
    """Examples and lists of arguments as they stand, in blocks of their own."""
    parts: list[str] = []
    for block in text.split("\n\n"):
        if block.startswith((">>>", "Attributes:", "Args:", "    ")):
            fence = "pycon" if block.startswith(">>>") else "text"
            parts.append(f"```{fence}\n{block}\n```")
        else:
            parts.append(block)
    return "\n\n".join(parts)


def write() -> str:
    """The whole file."""
    lines = [
        "# Reference\n\nThe public names of every module, from their docstrings (`python docs/reference.py` writes this file).\n"
    ]
    for short in MODULES:
        name = f"outgrow.{short}".rstrip(".")
        module = importlib.import_module(name)
        lines.append(f"## {name}\n\n{(inspect.getdoc(module) or '').splitlines()[0]}\n")
        lines += [describe(module, public) for public in module.__all__ if not public.startswith("__")]
    return "\n".join(lines)


if __name__ == "__main__":
    TARGET.write_text(write())
    print(TARGET)
