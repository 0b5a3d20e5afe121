"""Plain values become configurations, or are refused in one line that says what was meant."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import pytest

from outgrow.errors import OutgrowError
from outgrow.models import GroupedConfig
from outgrow.models.config import fill


@dataclass(frozen=True)
class Settings:
    """A field of every type there is."""

    names: tuple[str, ...] = ()
    shares: tuple[float, ...] = ()
    steps: tuple[int, int] = (0, 0)
    span: tuple[float, float] = (0.0, 0.0)
    pooling: Literal["max", "mean"] = "max"
    width: int = 1
    rate: float = 0.0
    share: bool = False
    about: str = ""


def types_of(items: tuple[Any, ...]) -> list[type]:
    return [type(item) for item in items]


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ({"names": ["a", "b"]}, ("a", "b")),
        ({"names": "a"}, ("a",)),  # one name needs no brackets
        ({"names": []}, ()),
        ({"shares": [1, 2.5]}, (1.0, 2.5)),
        ({"shares": (1,)}, (1.0,)),
        ({"shares": []}, ()),
        ({"steps": [0, 12]}, (0, 12)),
        ({"span": [0, 0.5]}, (0.0, 0.5)),
        ({"span": (-1e30, 1e30)}, (-1e30, 1e30)),
    ],
)
def test_lists_become_tuples_of_the_fields_type(table: dict[str, Any], expected: tuple[Any, ...]) -> None:
    (name,) = table
    found = getattr(fill(Settings, table, ""), name)
    assert found == expected
    assert types_of(found) == types_of(expected)


NUMBERS = "a list of numbers is expected"
WHOLE = "two numbers, as in [0, 1] is expected"
REAL = "two numbers, as in [0.0, 1.0] is expected"


@pytest.mark.parametrize(
    ("table", "line"),
    [
        ({"names": [1]}, "names is [1]; a list of names is expected"),
        ({"names": 1}, "names is 1; a list of names is expected"),
        ({"names": None}, "names is None; a list of names is expected"),
        ({"names": {"a": 1}}, "names is {'a': 1}; a list of names is expected"),
        ({"shares": 1.5}, f"shares is 1.5; {NUMBERS}"),
        ({"shares": "1.5"}, f"shares is '1.5'; {NUMBERS}"),
        ({"shares": ["1"]}, f"shares is ['1']; {NUMBERS}"),
        ({"shares": [1, True]}, f"shares is [1, True]; {NUMBERS}"),
        ({"shares": [1, None]}, f"shares is [1, None]; {NUMBERS}"),
        ({"shares": [[1]]}, f"shares is [[1]]; {NUMBERS}"),
        ({"shares": [float("nan")]}, f"shares is [nan]; {NUMBERS}"),
        ({"shares": [float("inf")]}, f"shares is [inf]; {NUMBERS}"),
        ({"shares": {}}, f"shares is {{}}; {NUMBERS}"),
        ({"shares": [16**5000]}, f"shares is a number of more than 64 bits; {NUMBERS}"),
        ({"steps": 5}, f"steps is 5; {WHOLE}"),
        ({"steps": [5]}, f"steps is [5]; {WHOLE}"),
        ({"steps": [1, 2, 3]}, f"steps is [1, 2, 3]; {WHOLE}"),
        ({"steps": [1, 2.0]}, f"steps is [1, 2.0]; {WHOLE}"),
        ({"steps": [False, 1]}, f"steps is [False, 1]; {WHOLE}"),
        ({"steps": "ab"}, f"steps is 'ab'; {WHOLE}"),
        ({"steps": None}, f"steps is None; {WHOLE}"),
        ({"steps": [1, 1 << 63]}, f"steps is [1, {1 << 63}]; {WHOLE}"),
        ({"span": [1]}, f"span is [1]; {REAL}"),
        ({"span": [0, "1"]}, f"span is [0, '1']; {REAL}"),
        ({"span": [0, float("-inf")]}, f"span is [0, -inf]; {REAL}"),
        ({"pooling": "sum"}, "pooling is 'sum'; there is max, mean"),
        ({"pooling": ["max"]}, "pooling is ['max']; there is max, mean"),
        ({"pooling": 16**5000}, "pooling is a number of more than 64 bits; there is max, mean"),
        ({"width": 16**5000}, "width is a number of more than 64 bits"),
        ({"width": [16**5000]}, "width is a number of more than 64 bits; a whole number is expected"),
        ({"rate": "1"}, "rate is '1'; a number is expected"),
        ({"share": 1}, "share is 1; true or false is expected"),
        ({"about": 1}, "about is 1; text is expected"),
        ({"step": 1}, "step: no such key; did you mean 'steps'?"),
    ],
    ids=lambda value: value[:40] if isinstance(value, str) else "",
)
def test_what_a_field_cannot_hold_is_refused_in_a_line(table: dict[str, Any], line: str) -> None:
    with pytest.raises(OutgrowError) as error:
        fill(Settings, table, "recipe.toml: ")
    assert str(error.value) == f"recipe.toml: {line}"


def test_a_grouped_model_of_plain_values() -> None:
    assert fill(GroupedConfig, {"width": 10, "heads": 3}, "") == GroupedConfig(width=10, heads=3)
    with pytest.raises(OutgrowError, match=r"^model\.heads is '2'; a whole number is expected$"):
        fill(GroupedConfig, {"heads": "2"}, "model.")
    with pytest.raises(OutgrowError, match=r"^model\.heads is 257; it goes from 1 to 256$"):
        fill(GroupedConfig, {"heads": 257}, "model.")
    for key, value in (("layers", 2), ("pooling", "max")):  # of an earlier form
        with pytest.raises(OutgrowError, match=rf"^model\.{key}: no such key; "):
            fill(GroupedConfig, {key: value}, "model.")
