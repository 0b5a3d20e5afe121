"""The command in the tests' own process: torch is loaded once."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import NamedTuple

import pytest

from outgrow.cli.main import main


class Done(NamedTuple):
    code: int
    out: str
    err: str


Run = Callable[..., Done]


def run_command(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *arguments: object, code: int
) -> Done:
    """`outgrow` with these arguments, which has to end with this code."""
    monkeypatch.setattr(sys, "argv", ["outgrow", *map(str, arguments)])
    capsys.readouterr()
    with pytest.raises(SystemExit) as caught:
        main()
    shown = capsys.readouterr()
    assert "Traceback" not in shown.err
    assert caught.value.code == code, shown.err + shown.out
    return Done(code, shown.out, shown.err)
