"""A process that does the playground's work, apart from the server: if it dies, the server starts another one.

It reads requests as lines of JSON from standard input and writes events as lines of JSON to standard output:

    {"id": 7, "task": "solve", ...}     begin
    {"id": 7, "take": 1}                one more event was taken; a task waits when too many were not
    {"id": 7, "cancel": true}           end it

Tasks take turns, one event each. Everything a task says carries its id, and its last event is 'done' or 'failed'.
"""

from __future__ import annotations

import json
import os
import queue
import sys
import threading
import traceback
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass
from typing import IO, Any

from outgrow.errors import OutgrowError
from outgrow.playground.tasks import TASKS, Event, warm_up

__all__ = ["AHEAD", "main"]

AHEAD = 8  # events that a task may be ahead of whoever takes them


@dataclass
class _Running:
    id: int
    events: Iterator[Event | None]
    ahead: int = 0


def main(networks: bool) -> None:
    """Works until standard input ends."""
    # Whatever else prints must not get between the events.
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    inbox: queue.Queue[dict[str, Any]] = queue.Queue()
    threading.Thread(target=_receive, args=(sys.stdin.buffer, inbox), daemon=True).start()
    if networks:
        import torch

        # The page that shows the steps is drawn on this machine too, and threads that wait for each other on a busy one are slower than one.
        torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))
        warm_up()
    _say(out, {"event": "ready"})
    turns: deque[_Running] = deque()
    while True:
        able = any(task.ahead < AHEAD for task in turns)
        while able is False or not inbox.empty():
            _hear(inbox.get(), turns, out)
            able = any(task.ahead < AHEAD for task in turns)
        task = turns.popleft()
        turns.append(task)
        if task.ahead < AHEAD:
            _advance(task, turns, out)


def _receive(source: IO[bytes], inbox: queue.Queue[dict[str, Any]]) -> None:
    """Passes on what is asked, and ends the process, whatever it is doing, when the server has gone."""
    for line in source:
        inbox.put(json.loads(line))
    os._exit(0)


def _hear(message: dict[str, Any], turns: deque[_Running], out: IO[str]) -> None:
    number = message["id"]
    if "task" in message:
        turns.append(_Running(number, TASKS[message["task"]](message)))
        return
    task = next((t for t in turns if t.id == number), None)
    if task is None:  # it has ended meanwhile
        return
    if "take" in message:
        task.ahead -= message["take"]
    else:
        turns.remove(task)
        _say(out, {"event": "done", "id": number})


def _advance(task: _Running, turns: deque[_Running], out: IO[str]) -> None:
    """Its next event; a fault in one task is that task's alone."""
    try:
        event = next(task.events)
        if event is None:
            return
        task.ahead += 1
    except StopIteration:
        event = {"event": "done"}
    except OutgrowError as error:
        event = {"event": "failed", "words": str(error)}
    except Exception:  # told, and logged for whoever mends it
        traceback.print_exc()
        event = {"event": "failed", "words": "", "fault": True}
    if event["event"] in ("done", "failed"):
        turns.remove(task)
    _say(out, {**event, "id": task.id})


def _say(out: IO[str], event: Event) -> None:
    try:
        out.write(json.dumps(event, separators=(",", ":")) + "\n")
        out.flush()
    except OSError:  # the server has gone
        os._exit(0)


if __name__ == "__main__":
    main(networks="networks" in sys.argv[1:])
