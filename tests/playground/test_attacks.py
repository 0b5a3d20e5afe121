"""What broke the playground once, and must not again: readers that leave or never read, impatient fingers, terminals that have gone."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import AsyncGenerator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from asking import Playground, children, linux, until, wire

from outgrow.errors import OutgrowError
from outgrow.playground import app, tasks, workers
from outgrow.playground.workers import Jobs, TookTooLong, Worker

FOUR = {"puzzle": "sudoku", "size": 4, "shape": [2, 2], "pairs": [], "givens": [1, 1, *[0] * 14]}  # has no solution
posix = pytest.mark.skipif(os.name != "posix", reason="signals and shells of POSIX")


def graph(nodes: int, edges: int, colors: int) -> dict[str, Any]:
    """Random, and the same every time."""
    chance = random.Random(1)
    pairs: set[tuple[int, int]] = set()
    while len(pairs) < edges:
        x, y = sorted(chance.sample(range(nodes), 2))
        pairs.add((x, y))
    return {
        "puzzle": "coloring",
        "size": colors,
        "shape": [nodes],
        "pairs": [list(p) for p in sorted(pairs)],
        "givens": [0] * nodes,
    }


def send_off(playground: Playground, name: str, content: Any) -> socket.socket:
    """A request whose answer nobody may ever read."""
    body = json.dumps(content).encode()
    raw = socket.create_connection(("127.0.0.1", playground.port), timeout=30)
    raw.sendall(
        f"POST /api/{name} HTTP/1.1\r\nHost: 127.0.0.1:{playground.port}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n".encode()
        + body
    )
    return raw


# ---- readers that leave


def test_jobs_in_line_do_not_die_with_the_one_that_was_cancelled(playground: Playground) -> None:
    """The process of a job whose reader left is ended, and takes a moment to die; the next in line must not get it."""
    hard = graph(1000, 4650, 4)  # the exact solver needs more than its time
    for _ in range(3):
        slow = [send_off(playground, "exact", {"puzzle": hard}) for _ in range(2)]
        time.sleep(0.8)
        with ThreadPoolExecutor(3) as pool:
            line = [pool.submit(playground.ask, "read", {"text": "1.....3..4.....2"}) for _ in range(3)]
            time.sleep(0.2)
            for raw in slow:
                raw.close()
            assert [answer.result(30)[0] for answer in line] == [200] * 3


@linux
def test_nothing_goes_on_for_readers_that_left(playground: Playground) -> None:
    """Left at any moment, a hundred times: no cancellation is lost on the way."""
    content = {"puzzle": FOUR, "runs": [{"weights": "sudoku-grouped", "steps": 2048}]}
    chance = random.Random(1)
    for _ in range(100):
        with send_off(playground, "solve", content) as raw:
            raw.recv(100)
            time.sleep(0.03 * chance.random())
    worker = next(child for child, command in children(playground.pid).items() if "networks" in command)

    def rests() -> bool:
        def ticks() -> int:
            return sum(map(int, (Path("/proc") / str(worker) / "stat").read_text().rpartition(")")[2].split()[11:13]))

        before = ticks()
        time.sleep(0.4)
        return ticks() == before

    assert until(rests, 3)
    assert next(playground.solve(FOUR, ("sudoku-grouped", 1)))["event"] == "step", "no turn is kept"


# ---- readers that stay and do not read


def test_whoever_never_reads_loses_the_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(app, "_UNREAD", 0.1)
    left = asyncio.Event()
    sent: list[dict[str, Any]] = []

    async def events() -> AsyncGenerator[dict[str, Any], None]:
        try:
            while True:
                yield {"event": "step"}
        finally:
            left.set()

    async def scenario() -> None:
        reads = asyncio.Event()

        async def send(message: Any) -> None:
            if len(sent) == 3:
                await reads.wait()  # what waits to be read fills the connection
            sent.append(message)

        async def receive() -> Any:
            await asyncio.Event().wait()

        answer = asyncio.ensure_future(app._Events(events())({"type": "http"}, receive, send))
        await asyncio.wait_for(left.wait(), 5)
        reads.set()
        await asyncio.wait_for(answer, 5)

    asyncio.run(scenario())
    assert json.loads(sent[-2]["body"])["event"] == "error"
    assert sent[-1].get("more_body", False) is False


def test_whoever_reads_slowly_is_late_too() -> None:
    """There is always an event for a slow reader, so the time is over without anybody waiting."""

    async def scenario() -> int:
        worker, taken = Worker(networks=True), 0
        request = {"puzzle": FOUR, "runs": [{"weights": "sudoku-grouped", "steps": 2048}]}
        try:
            async for _ in worker.run("solve", request, 0.5):
                taken += 1
                await asyncio.sleep(0.2)
        except TookTooLong:
            return taken
        finally:
            await worker.close()
        raise AssertionError("it went on")

    assert 1 <= asyncio.run(scenario()) <= 4


# ---- processes that hang, die slowly, or cannot start


@posix
def test_a_process_that_hangs_is_replaced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "_SILENT_SECONDS", 0.2)

    async def scenario() -> tuple[str, int]:
        worker = Worker(networks=False)
        try:
            process = await worker.start()
            process.child.send_signal(signal.SIGSTOP)
            request = {"text": "1.....3..4.....2", "kind": None, "colors": None}
            with pytest.raises(TookTooLong):
                await anext(worker.run("read", request, 0.5))
            found = await anext(worker.run("read", request, 30))
            return found["event"], found["count"]
        finally:
            await worker.close()

    assert asyncio.run(scenario()) == ("puzzle", 1)


def test_closing_does_not_wait_for_what_is_starting() -> None:
    async def scenario() -> float:
        jobs = Jobs(1)
        starting = asyncio.ensure_future(jobs.start())
        await asyncio.sleep(0.02)
        began = time.monotonic()
        await jobs.close()
        with pytest.raises(workers.Crashed):
            await starting
        return time.monotonic() - began

    assert asyncio.run(scenario()) < 5


def test_no_process_is_told_and_no_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuse(*_: Any, **__: Any) -> None:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(asyncio, "create_subprocess_exec", refuse)
    with pytest.raises(workers.Crashed, match="Too many open files"):
        asyncio.run(Worker(networks=False).start())


# ---- answers beyond bounds


def test_a_moving_picture_beyond_bounds_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """20,000 edges in 48 pictures are 100 MB: more than a line takes, and its process was ended for that."""
    assert tasks._LARGEST * 4 / 3 + 100 < workers._LINE
    monkeypatch.setattr(tasks, "_LARGEST", 1000)
    frame = {"step": 1, "values": [1] * 16, "solved": False, "attempt": 0, "guess": None}
    frame["beliefs"] = "/" * 84 + "/w=="  # 64 times 255
    request = {"puzzle": FOUR, "frames": [frame], "ending": ".svg"}
    with pytest.raises(OutgrowError, match="fewer steps"):
        next(tasks.draw(request))


def test_a_refusal_stays_a_sentence(playground: Playground) -> None:
    for name, content in (
        ("new", {"kind": "sudoku", "size": 9, "difficulty": "x" * 500_000}),
        ("text", {"puzzle": FOUR, "format": "x" * 500_000}),
    ):
        status, found = playground.ask(name, content)
        assert status == 400
        assert len(found["error"]) < 500
        assert found["error"].endswith(".")


# ---- the command


def start(*arguments: str, **options: Any) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "outgrow", "play", "--no-browser", "--port", "0", *arguments],
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@linux
def test_impatient_fingers_see_no_traceback() -> None:
    """Ctrl-C twice, while the networks are being opened: it ends at once, with its workers."""
    process = start(stdout=subprocess.PIPE)
    assert until(lambda: any("networks" in command for command in children(process.pid).values()))
    workers_of_it = children(process.pid)
    began = time.monotonic()
    for _ in range(2):
        process.send_signal(signal.SIGINT)
        time.sleep(0.02)
    out, err = process.communicate(timeout=20)
    assert time.monotonic() - began < 5
    assert process.returncode in (0, 130)
    assert "Traceback" not in err
    assert not out
    assert until(lambda: not any((Path("/proc") / str(child)).exists() for child in workers_of_it))


@posix
def test_whoever_hears_the_address_may_have_gone() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    process = start(stdout=writing)
    os.close(writing)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 141
    assert err.splitlines() == ["Opening the networks ..."]


@linux
def test_it_runs_without_a_standard_output() -> None:
    process = start(stdout=None, preexec_fn=lambda: os.close(1))
    try:
        assert until(lambda: len(children(process.pid)) == 2 or process.poll() is not None)
        assert process.poll() is None
    finally:
        process.terminate()
        _, err = process.communicate(timeout=30)
    assert "Traceback" not in err


def test_a_puzzle_of_its_own_is_still_solved_after_all_that(playground: Playground) -> None:
    puzzle = wire(playground.ask("read", {"text": "1.....3..4.....2"})[1]["puzzle"])
    assert list(playground.solve(puzzle, ("sudoku-grouped", 64)))[-2]["status"] == "solved"


def test_puzzles_are_read_while_the_exact_solver_is_busy(playground: Playground) -> None:
    rows = [[i, j] for i in range(200) for j in range(i + 1, min(i + 60, 200))]
    hard = {"puzzle": "coloring", "size": 30, "shape": [200], "pairs": rows, "givens": [0] * 200}
    content = json.dumps({"puzzle": hard, "unique": True}).encode()
    with ThreadPoolExecutor(3) as pool:
        asked = [pool.submit(playground.send, "POST", "/api/exact", content) for _ in range(3)]
        time.sleep(1)
        began = time.monotonic()
        assert playground.ask("read", {"text": "1.....3..4.....2"})[0] == 200
        assert time.monotonic() - began < 5
        assert not all(a.done() for a in asked)
        assert {a.result()[0] for a in asked} <= {200, 408}
