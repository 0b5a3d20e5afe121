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
from dataclasses import dataclass, field
from typing import Any

from outgrow.errors import OutgrowError

__all__ = ["Crashed", "Jobs", "TookTooLong", "Worker"]

_LINE = 1 << 25  # bytes of the longest event: a moving picture of 24 MB (tasks.py) as base64
_START_SECONDS = 120.0
_SILENT_SECONDS = 60.0  # without a word to anybody: it hangs
_ENDINGS = ("done", "failed")


class Crashed(Exception):
    """The process that worked on it has died; the next task gets a new one."""


class TookTooLong(Exception):
    """A task was ended because its time was over."""


@dataclass
class _Process:
    """A process, and whom its events are for: one that dies slowly must not be taken for the one after it."""

    child: asyncio.subprocess.Process
    inboxes: dict[int, asyncio.Queue[dict[str, Any]]] = field(default_factory=dict)
    heard: float = field(default_factory=time.monotonic)  # when it last said anything
    ended: bool = False  # by us

    def tell(self, message: dict[str, Any]) -> None:
        # Without waiting: messages are small, and whoever was cancelled cannot wait. A process that has died hears nothing.
        if self.child.stdin is not None and not self.child.stdin.is_closing():
            self.child.stdin.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")

    def kill(self) -> None:
        self.ended = True
        if self.child.returncode is None:
            with suppress(ProcessLookupError):
                self.child.kill()

    async def read(self) -> None:
        """Hands every event to whom it is for, until the process ends."""
        assert self.child.stdout is not None
        try:
            while line := await self.child.stdout.readline():
                self.heard = time.monotonic()
                event = json.loads(line)
                inbox = self.inboxes.get(event.pop("id", 0))
                if inbox is not None:
                    inbox.put_nowait(event)
        except ValueError:  # a line beyond all bounds
            with suppress(ProcessLookupError):
                self.child.kill()
        finally:
            code = await self.child.wait()
            if self.child.stdin is not None:
                self.child.stdin.close()
                with suppress(OSError):
                    await self.child.stdin.wait_closed()
            if not self.ended:
                print(f"outgrow: a worker process has died ({code}); the next task gets a new one", file=sys.stderr)
            for inbox in self.inboxes.values():
                inbox.put_nowait({"event": "crashed"})


class Worker:
    """A worker process, started when it is needed and again when it has died."""

    def __init__(self, *, networks: bool) -> None:
        self._networks = networks
        self._process: _Process | None = None
        self._readers: set[asyncio.Task[None]] = set()
        self._ids = itertools.count(1)
        self._starting = asyncio.Lock()
        self._closed = False

    async def start(self) -> _Process:
        """A process that is ready to work."""
        async with self._starting:
            if self._closed:
                raise Crashed("the playground is closing")
            if self._process is not None and self._process.child.returncode is None:
                return self._process
            try:
                child = await asyncio.create_subprocess_exec(
                    sys.executable,
                    *("-m", "outgrow.playground.worker", *(["networks"] if self._networks else [])),
                    stdin=asyncio.subprocess.PIPE,
                    stdout=asyncio.subprocess.PIPE,
                    limit=_LINE,
                    # Ctrl-C in the terminal is the server's to hear; its workers end when it does.
                    start_new_session=os.name == "posix",
                )
            except OSError as error:  # no memory, no files left
                raise Crashed(f"a worker process does not start: {error}") from error
            assert child.stdout is not None
            process = self._process = _Process(child)
            if self._closed:
                self.kill()
            try:
                # Not wait_for: before Python 3.12 it can lose a cancellation.
                async with asyncio.timeout(_START_SECONDS):
                    ready = await child.stdout.readline()
            except TimeoutError:
                self.kill()
                ready = b""
            except BaseException:
                self.kill()
                raise
            finally:
                reader = asyncio.create_task(process.read())
                self._readers.add(reader)
                reader.add_done_callback(self._readers.discard)
            if not ready or self._closed:
                self._process = None
                raise Crashed("a worker process does not start")
            return process

    async def run(self, task: str, request: dict[str, Any], seconds: float) -> AsyncGenerator[dict[str, Any], None]:
        """The events of a task, as long as it has time. Leaving early, by closing the generator, cancels it."""
        process = await self.start()
        deadline = time.monotonic() + seconds
        number = next(self._ids)
        inbox = process.inboxes[number] = asyncio.Queue()
        ended = False
        try:
            process.tell({**request, "id": number, "task": task})
            while True:
                asked = time.monotonic()
                try:
                    if asked >= deadline:  # whoever takes events slowly always finds one
                        raise TimeoutError
                    # Not wait_for: before Python 3.12 it can lose a cancellation, and the work would go on for nobody.
                    async with asyncio.timeout(deadline - asked):
                        event = await inbox.get()
                except TimeoutError:
                    if process is self._process and time.monotonic() - max(asked, process.heard) > _SILENT_SECONDS:
                        self.kill()  # it hangs: the next task gets a new one
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
                process.tell({"id": number, "take": 1})
        finally:
            del process.inboxes[number]
            if not ended:
                process.tell({"id": number, "cancel": True})

    def kill(self) -> None:
        """Ends the process at once, whatever it is doing. It is forgotten at once too: it takes a moment to die, and the next task must not be given to it."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()

    async def close(self) -> None:
        """Ends the process for good, and waits for that."""
        self._closed = True
        self.kill()
        async with self._starting:
            pass  # one that was just starting has been ended
        if self._readers:
            await asyncio.wait(self._readers)  # and not gather: who stops waiting must not stop them


class Jobs:
    """A few workers for what takes a while and cannot take turns."""

    def __init__(self, count: int) -> None:
        self._workers = [Worker(networks=False) for _ in range(count)]
        self._idle: asyncio.Queue[Worker] = asyncio.LifoQueue()  # who has just worked has started
        for worker in reversed(self._workers):
            self._idle.put_nowait(worker)

    async def start(self) -> None:
        """Starts the first one, so that the first job does not wait for it."""
        await self._workers[0].start()

    async def run(self, task: str, request: dict[str, Any], seconds: float) -> dict[str, Any]:
        """What the job says. It is ended, with its process, when its time is over or nobody waits for it any more; and it waits no longer than that for a worker."""
        try:
            async with asyncio.timeout(seconds):
                worker = await self._idle.get()
        except TimeoutError:
            raise TookTooLong(f"'{task}' waited {seconds:g} s for others; try again in a minute") from None
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
