"""Plain values into frozen dataclasses: unknown keys and wrong types are errors that say what was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from types import NoneType
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from outgrow.errors import OutgrowError

__all__ = ["fill", "suggest"]

T = TypeVar("T")
_LARGEST = 1e30  # float32 ends at 3e38, and a rate is multiplied by more
_SAID: dict[type, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}


def fill(cls: type[T], table: Mapping[str, Any], where: str, also: tuple[str, ...] = ()) -> T:
    """A dataclass of plain values, each of its field's type."""
    hints = get_type_hints(cls)
    values: dict[str, Any] = {}
    for key, value in table.items():
        if key not in hints:
            raise OutgrowError(f"{where}{key}: no such key{suggest(key, [*hints, *also])}")
        values[key] = _convert(value, hints[key], f"{where}{key}")
    try:
        return cls(**values)
    except ValueError as error:
        raise OutgrowError(f"{where}{error}") from None


def _convert(value: Any, hint: Any, where: str) -> Any:
    if get_origin(hint) is Literal:
        if value not in get_args(hint) or isinstance(value, bool):
            raise OutgrowError(f"{where} is {_show(value)}; there is {', '.join(map(str, get_args(hint)))}")
        return value
    if get_origin(hint) is tuple:
        kinds = get_args(hint)  # (str, ...) for any number of names, (int, int) for two numbers
        items = [value] if isinstance(value, str) else value
        if kinds[-1] is Ellipsis:
            said = {str: "names", float: "numbers", int: "whole numbers"}[kinds[0]]
            kinds = kinds[:1] * len(items) if isinstance(items, list | tuple) else ()
            said = f"a list of {said}"
        else:
            said = f"two numbers, as in [{', '.join(str(kind(i)) for i, kind in enumerate(kinds))}]"
        if not isinstance(items, list | tuple) or len(items) != len(kinds):
            raise OutgrowError(f"{where} is {_show(value)}; {said} is expected")
        try:
            return tuple(_convert(item, kind, where) for item, kind in zip(items, kinds, strict=True))
        except OutgrowError:
            raise OutgrowError(f"{where} is {_show(value)}; {said} is expected") from None
    if isinstance(value, int) and not -(1 << 63) <= value < 1 << 63:
        raise OutgrowError(f"{where} is a number of more than 64 bits")  # too long to print, or for a float
    if hint is float and isinstance(value, int) and not isinstance(value, bool):
        value = float(value)
    if not isinstance(value, hint) or (hint is not bool and isinstance(value, bool | NoneType)):
        raise OutgrowError(f"{where} is {_show(value)}; {_SAID[hint]} is expected")
    if hint is float and not abs(value) <= _LARGEST:
        raise OutgrowError(f"{where} is {value!r}; a finite number is expected, at most {_LARGEST:g}")
    return value


def _show(value: Any) -> str:
    try:
        return repr(value)
    except ValueError:  # Python writes out no more than 4300 digits
        return "a number of more than 64 bits"


def suggest(key: str, keys: Iterable[str]) -> str:
    """'; did you mean ...?', by the whole key or its last part."""
    by_end = {k.rsplit(".", 1)[-1]: k for k in keys}
    close = difflib.get_close_matches(key, list(keys), n=1) or [
        by_end[k] for k in difflib.get_close_matches(key.rsplit(".", 1)[-1], list(by_end), n=1, cutoff=0.5)
    ]
    return f"; did you mean {close[0]!r}?" if close else f"; there are {', '.join(keys)}"
