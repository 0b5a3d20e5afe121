"""A playground as people run it: the command, in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest
from asking import Playground


@pytest.fixture(scope="session")
def playground() -> Iterator[Playground]:
    process = subprocess.Popen(
        [sys.executable, "-m", "outgrow", "play", "--no-browser", "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    line = process.stdout.readline()
    assert "http://127.0.0.1:" in line, process.communicate()[1]
    try:
        yield Playground(int(line.split("127.0.0.1:")[1].split("/")[0]), process.pid)
    finally:
        process.terminate()
        process.communicate(timeout=20)
