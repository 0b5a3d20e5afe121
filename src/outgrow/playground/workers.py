"""The server's side of its worker processes: one for networks, whose tasks take turns, and a few for jobs, one at a time each."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Any

from outgrow.errors import OutgrowError

__all__ = ["Crashed", "Jobs", "TookTooLong", "Worker"]

_LINE = 1 << 25  # bytes of the longest event: a moving picture of 10 MB or so
_START_SECONDS = 120.0
_ENDINGS = ("done", "failed")


class Crashed(Exception):
    """The process that worked on it has died; the next task gets a new one."""


class TookTooLong(Exception):
    """A task was ended because its time was over."""


class Worker:
    """A worker process, started when it is needed and again when it has died."""

    def __init__(self, *, networks: bool) -> None:
        self._networks = networks
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._inboxes: dict[int, asyncio.Queue[dict[str, Any]]] = {}
        self._ids = itertools.count(1)
        self._starting = asyncio.Lock()
        self._closed = False

    async def start(self) -> asyncio.subprocess.Process:
        """A process that is ready to work."""
        async with self._starting:
            if self._closed:
                raise Crashed("the playground is closing")
            if self._process is not None and self._process.returncode is None:
                return self._process
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                *("-m", "outgrow.playground.worker", *(["networks"] if self._networks else [])),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                limit=_LINE,
                # Ctrl-C in the terminal is the server's to hear; its workers end when it does.
                start_new_session=os.name == "posix",
            )
            assert process.stdout is not None
            try:
                line = await asyncio.wait_for(process.stdout.readline(), _START_SECONDS)
            except TimeoutError:
                line = b""
            except BaseException:
                _kill(process)
                raise
            if not line:
                _kill(process)
                raise Crashed("a worker process does not start")
            self._process = process
            self._reader = asyncio.create_task(self._read(process))
            return process

    async def _read(self, process: asyncio.subprocess.Process) -> None:
        """Hands every event to whom it is for, until the process ends."""
        assert process.stdout is not None
        try:
            while line := await process.stdout.readline():
                event = json.loads(line)
                inbox = self._inboxes.get(event.pop("id", 0))
                if inbox is not None:
                    inbox.put_nowait(event)
        except ValueError:  # a line beyond all bounds
            _kill(process)
        finally:
            await process.wait()
            for inbox in self._inboxes.values():
                inbox.put_nowait({"event": "crashed"})

    async def run(self, task: str, request: dict[str, Any], seconds: float) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a task, as long as it has time. Leaving early, by closing the generator, cancels it."""
        process = await self.start()
        deadline = time.monotonic() + seconds
        number = next(self._ids)
        inbox = self._inboxes[number] = asyncio.Queue()
        ended = False
        try:
            _tell(process, {**request, "id": number, "task": task})
            while True:
                try:
                    event = await asyncio.wait_for(inbox.get(), max(0.0, deadline - time.monotonic()))
                except TimeoutError:
                    raise TookTooLong(f"'{task}' takes longer than {seconds:g} s") from None
                if event["event"] == "crashed":
                    ended = True
                    raise Crashed(f"the process that worked on '{task}' has died")
                ended = event["event"] in _ENDINGS
                if event["event"] == "failed":
                    raise OutgrowError(event["words"]) if not event.get("fault") else Crashed(f"'{task}' failed")
                if ended:
                    return
                yield event
                _tell(process, {"id": number, "take": 1})
        finally:
            del self._inboxes[number]
            if not ended:
                _tell(process, {"id": number, "cancel": True})

    def kill(self) -> None:
        """Ends the process at once, whatever it is doing."""
        if self._process is not None:
            _kill(self._process)

    async def close(self) -> None:
        """Ends the process for good, and waits for that."""
        self._closed = True
        self.kill()
        if self._reader is not None:
            await self._reader


class Jobs:
    """A few workers for what takes a while and cannot take turns."""

    def __init__(self, count: int) -> None:
        self._workers = [Worker(networks=False) for _ in range(count)]
        self._idle: asyncio.Queue[Worker] = asyncio.Queue()
        for worker in self._workers:
            self._idle.put_nowait(worker)

    async def start(self) -> None:
        """Starts the first one, so that the first job does not wait for it."""
        await self._workers[0].start()

    async def run(self, task: str, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """What the job says. It is ended, with its process, when its time is over or nobody waits for it any more."""
        worker = await self._idle.get()
        try:
            async with aclosing(worker.run(task, request, seconds)) as events:
                async for event in events:
                    return event
                raise Crashed(f"'{task}' said nothing")
        except (TookTooLong, asyncio.CancelledError):
            worker.kill()
            raise
        finally:
            self._idle.put_nowait(worker)

    async def close(self) -> None:
        """Ends all of them."""
        await asyncio.gather(*(worker.close() for worker in self._workers))


def _tell(process: asyncio.subprocess.Process, message: dict[str, Any]) -> None:
    # Without waiting: messages are small, and whoever was cancelled cannot wait. A process that has died hears nothing.
    if process.stdin is not None and not process.stdin.is_closing():
        process.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")


def _kill(process: asyncio.subprocess.Process) -> None:
    if process.returncode is None:
        with suppress(ProcessLookupError):
            process.kill()
