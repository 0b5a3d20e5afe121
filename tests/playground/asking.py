"""Asking a playground as its page does, and as nobody should."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest


@dataclass(frozen=True)
class Playground:
    """Where it listens, and its process."""

    port: int
    pid: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}/"

    def send(
        self, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        """Status, headers and body of an answer."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)) as connection:
            connection.request(method, path, body, {"Content-Type": "application/json", **(headers or {})})
            response = connection.getresponse()
            return response.status, {k.lower(): v for k, v in response.getheaders()}, response.read()

    def ask(self, name: str, content: Any) -> tuple[int, Any]:
        """Status and content of an answer from the interface."""
        status, _, body = self.send("POST", f"/api/{name}", json.dumps(content).encode())
        return status, json.loads(body)

    def about(self) -> dict[str, Any]:
        return json.loads(self.send("GET", "/api/about")[2])

    def new(self, kind: str, size: int, difficulty: str = "medium", seed: int = 0) -> dict[str, Any]:
        """A puzzle as the page sends it."""
        status, found = self.ask("new", {"kind": kind, "size": size, "difficulty": difficulty, "seed": seed})
        assert status == 200, found
        return wire(found["puzzle"])

    def solve(
        self, puzzle: dict[str, Any], *runs: tuple[str, int], guarantee: bool = False
    ) -> Iterator[dict[str, Any]]:
        """The events of a solve, as they come."""
        content = {
            "puzzle": puzzle,
            "runs": [{"weights": name, "steps": steps} for name, steps in runs],
            "guarantee": guarantee,
        }
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=120)) as connection:
            connection.request("POST", "/api/solve", json.dumps(content).encode(), {"Content-Type": "application/json"})
            response = connection.getresponse()
            assert response.status == 200, response.read()
            for line in response:
                yield json.loads(line)


def wire(puzzle: dict[str, Any]) -> dict[str, Any]:
    """What the server reads of what it says."""
    return {key: puzzle[key] for key in ("puzzle", "size", "shape", "pairs", "givens")}


linux = pytest.mark.skipif(not Path("/proc/self/cmdline").exists(), reason="looks processes up in /proc")


def children(pid: int) -> dict[int, str]:
    """Its worker processes and their command lines."""
    found = {}
    for path in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
            command = (path / "cmdline").read_text().replace("\0", " ")
        except OSError:
            continue
        if parent == pid and "playground.worker" in command:
            found[int(path.name)] = command
    return found


def networks(pid: int) -> int:
    """The worker process that has the networks."""
    return next(child for child, command in children(pid).items() if "networks" in command)


def until(said: Callable[[], bool], seconds: float = 20) -> bool:
    """Whether that is so within this time."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if said():
            return True
        time.sleep(0.05)
    return False
