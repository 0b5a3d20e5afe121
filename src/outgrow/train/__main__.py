"""Training where only torch, numpy and safetensors are: `python -m outgrow.train RECIPE`. Elsewhere `outgrow train` shows more."""

from __future__ import annotations

import argparse
import sys
import time
from typing import Any

from outgrow.errors import OutgrowError
from outgrow.train.loop import Event, train
from outgrow.train.recipe import load_recipe


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m outgrow.train", description="Train a model from a recipe.")
    parser.add_argument("recipe")
    parser.add_argument("--out", required=True, help="folder of the run")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE", dest="changes")
    parser.add_argument("--resume", action="store_true")
    parser.add_argument("--device")
    arguments = parser.parse_args()
    try:
        recipe = load_recipe(arguments.recipe, arguments.changes)
        watch = _Printer(recipe.train.updates)
        done = train(recipe, arguments.out, resume=arguments.resume, device=arguments.device, watch=watch)
    except (OutgrowError, OSError) as error:
        print(f"outgrow: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130
    return 130 if done.stopped == "interrupted" else 0


class _Printer:
    """A line for what happens, and for updates one every few seconds."""

    def __init__(self, updates: int) -> None:
        self._updates = updates
        self._next = 0.0

    def __call__(self, event: Event) -> None:
        now = time.monotonic()
        if event["event"] == "update":
            if now < self._next:
                return
            self._next = now + 10
        print(f"{event['seconds']:8.1f} s  {event['update']}/{self._updates}  {_said(event)}", flush=True)


def _said(event: Event) -> str:
    skipped = ("event", "update", "seconds", "recipe", "data")
    parts = [f"{key} {_short(value)}" for key, value in event.items() if key not in skipped]
    return f"{event['event']}: {', '.join(parts)}"


def _short(value: Any) -> str:
    return f"{value:.5g}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
