"""Several processes at work on one list of tasks."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from typing import TypeVar

__all__ = ["run_tasks"]

Task = TypeVar("Task")
Result = TypeVar("Result")


def run_tasks(function: Callable[[Task], Result], tasks: Sequence[Task], jobs: int) -> Iterator[Result]:
    """The results in the order of the tasks, each as soon as it and those before it are there."""
    if jobs <= 1 or len(tasks) <= 1:
        yield from map(function, tasks)
        return
    # Spawn: a fork would copy the threads' locks of the progress bar in whatever state they are.
    before = set(multiprocessing.active_children())
    pool = ProcessPoolExecutor(
        min(jobs, len(tasks)), mp_context=multiprocessing.get_context("spawn"), initializer=_start_worker
    )
    try:
        yield from pool.map(function, tasks)
        pool.shutdown()
    except BaseException:  # Ctrl-C, or a caller that wants no more: do not wait for the tasks at hand
        # The pool's own thread trips over tasks that were called off (a fault of Python 3.11); nobody needs to hear of it.
        hook, threading.excepthook = threading.excepthook, lambda _: None
        try:
            for child in set(multiprocessing.active_children()) - before:
                child.terminate()
            pool.shutdown()
        finally:
            threading.excepthook = hook
        raise


def _start_worker() -> None:
    """Ctrl-C is the parent's business; a parent that was killed takes its workers with it."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=lambda: (parent.join(), os._exit(1)), daemon=True).start()
