"""Many runs at once on one GPU: several seeds of several recipes, and the evaluation of what came of them.

    python benchmarks/campaign.py train benchmarks/grouped.toml runs/grouped [--seconds 560]
    python benchmarks/campaign.py test benchmarks/grouped.toml runs/grouped [--seconds 560] [--limit 100]

`train` leaves a folder OUT/RECIPE-SEED for each run; stopped by time or by hand, it goes on where it was when it is started again. `test` evaluates
their weights on all sets, in parts that run side by side, and writes OUT/RECIPE.json, a results file; what was evaluated so before is not done again.
Processes take turns on a GPU unless NVIDIA's multi-process service runs: it is started where it is there.
Torch, numpy and safetensors are enough.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import hashlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from outgrow.errors import OutgrowError
from outgrow.evaluate.report import Evaluation, read_results, write_results
from outgrow.models.config import fill
from outgrow.train.curves import read_log
from outgrow.train.loop import CHECKPOINT, WEIGHTS

ROOT = Path(__file__).resolve().parents[1]
GRACE = 60  # seconds to write a checkpoint in
TOLD = 30  # seconds between lines about how far it is
ENDED_BY_HAND = 130


@dataclass(frozen=True)
class Plan:
    """What a campaign does with one recipe.

    Attributes:
        recipe: a file of recipes/, without its ending, or a path.
        seeds: one run each.
        set: changes to the recipe, as 'train.updates=10'.
        steps: the answers are read after these numbers of steps.
        restart: where the model is not sure after so many, it starts over.
        test: the sets to evaluate, in parts that run side by side: each the names of sets, with spaces between.
    """

    recipe: str
    seeds: tuple[int, ...] = (0, 1, 2)
    set: tuple[str, ...] = ()
    steps: tuple[int, ...] = ()
    restart: int = 0
    test: tuple[str, ...] = ()

    @property
    def path(self) -> Path:
        return (ROOT / "recipes" / self.recipe).with_suffix(".toml")

    @property
    def name(self) -> str:
        return self.path.stem


@dataclass
class Task:
    """A process of a campaign: its name, what it runs, and where what it prints goes."""

    name: str
    arguments: list[str]
    log: Path
    process: subprocess.Popen[bytes] | None = None


def read_plans(path: Path) -> list[Plan]:
    """The plans of a TOML file, each a table [[runs]]."""
    try:
        table = tomllib.loads(path.read_text())
    except (OSError, ValueError, RecursionError) as error:
        reason = getattr(error, "strerror", None) or " ".join(str(error).split())
        raise OutgrowError(f"{path}: not a plan ({reason})") from None
    runs = table.pop("runs", [])
    if table or not isinstance(runs, list) or not runs or not all(isinstance(run, dict) for run in runs):
        raise OutgrowError(f"{path}: a plan holds tables [[runs]] and nothing else")
    plans = [fill(Plan, {"recipe": "", **run}, f"{path}: runs.") for run in runs]
    for plan in plans:
        if not plan.recipe or not plan.path.is_file():
            raise OutgrowError(f"{path}: no recipe {plan.recipe!r}")
        if not plan.seeds:
            raise OutgrowError(f"{path}: {plan.name} has no seeds")
    if len({plan.name for plan in plans}) < len(plans):
        raise OutgrowError(f"{path}: a recipe is named twice")
    return plans


@contextlib.contextmanager
def sharing() -> Iterator[None]:
    """While it lasts, processes use a GPU at the same time, where there is NVIDIA's service for that."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        yield
        return
    subprocess.run([control, "-d"], check=False)
    try:
        yield
    finally:
        subprocess.run([control], input=b"quit\n", check=False, stdout=subprocess.DEVNULL)


def run_all(tasks: Sequence[Task], seconds: float, jobs: int) -> list[str]:
    """Runs the tasks, so many at a time, and stops them after so many seconds (0: never). The names of those that failed."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "PYTHONUNBUFFERED": "1", "OMP_NUM_THREADS": "1"}
    began, told = time.monotonic(), time.monotonic()
    waiting, running, failed = list(tasks), list[Task](), list[str]()

    def passed() -> float:
        return time.monotonic() - began

    def look(task: Task) -> None:
        assert task.process is not None
        code = task.process.returncode
        last = (task.log.read_text(errors="replace").strip().splitlines() or [""])[-1]
        print(f"{passed():7.0f} s  {task.name}: {'ended' if not code else f'exit code {code}'}  {last}", flush=True)
        if code not in (0, ENDED_BY_HAND):
            failed.append(task.name)

    try:
        while running or waiting:
            if seconds and passed() > seconds:
                break
            while waiting and len(running) < jobs:
                task = waiting.pop(0)
                task.log.parent.mkdir(parents=True, exist_ok=True)
                with open(task.log, "wb") as log:
                    task.process = subprocess.Popen(
                        [sys.executable, *task.arguments],
                        stdout=log,
                        stderr=subprocess.STDOUT,
                        env=environment,
                        cwd=ROOT,
                    )
                running.append(task)
            time.sleep(0.2)
            for task in [t for t in running if t.process is not None and t.process.poll() is not None]:
                running.remove(task)
                look(task)
            if running and time.monotonic() - told > TOLD:
                told = time.monotonic()
                names = ", ".join(f"{task.name} {_progress(task)}".strip() for task in running)
                print(f"{passed():7.0f} s  {len(waiting)} wait; {names}", flush=True)
    finally:
        for task in running:
            assert task.process is not None
            task.process.send_signal(signal.SIGTERM)
        end = time.monotonic() + GRACE
        for task in running:
            assert task.process is not None
            try:
                task.process.wait(max(0.0, end - time.monotonic()))
            except subprocess.TimeoutExpired:
                task.process.kill()
                task.process.wait()
            look(task)
    return failed


def _progress(task: Task) -> str:
    """The last whole line it printed that begins like one of `python -m outgrow.train`: '  12.3 s  40/100  update: ...'."""
    lines = [line.split() for line in task.log.read_text(errors="replace").splitlines()]
    return next((line[2] for line in reversed(lines) if len(line) > 2 and line[1] == "s" and "/" in line[2]), "")


def train(plans: Sequence[Plan], out: Path, seconds: float, device: str | None) -> int:
    """Trains what is not trained yet."""
    tasks: list[Task] = []
    for plan in plans:
        for seed in plan.seeds:
            folder = out / f"{plan.name}-{seed}"
            if (folder / WEIGHTS).exists() and read_log(folder).ended not in (None, "interrupted"):
                continue
            changes = [f"train.seed={seed}", *plan.set]
            arguments = ["-m", "outgrow.train", str(plan.path), "--out", str(folder)]
            arguments += [word for change in changes for word in ("--set", change)]
            arguments += ["--device", device] if device else []
            arguments += ["--resume"] if (folder / CHECKPOINT).exists() else []
            tasks.append(Task(folder.name, arguments, out / f"{folder.name}.txt"))
    failed = run_all(tasks, seconds, jobs=max(1, len(tasks)))
    return 1 if failed else 0


def test(plans: Sequence[Plan], out: Path, seconds: float, device: str | None, jobs: int, limit: int | None) -> int:
    """Evaluates what is not evaluated yet, and puts it together."""
    tasks: list[Task] = []
    plans = [plan for plan in plans if plan.test]
    if not plans:
        raise OutgrowError("the plan names no sets to test on")
    for plan in plans:
        for seed in plan.seeds:
            weights = out / f"{plan.name}-{seed}" / WEIGHTS
            if not weights.exists():
                raise OutgrowError(f"{weights}: no such file; train first")
    for number in range(max(len(plan.test) for plan in plans)):
        for plan in plans:
            for seed in plan.seeds if number < len(plan.test) else ():
                folder = out / f"{plan.name}-{seed}"
                target = _parts(plan, folder, limit)[number]
                if target.exists():
                    continue
                arguments = ["-m", "outgrow.evaluate", str(folder / WEIGHTS), *plan.test[number].split()]
                arguments += ["--steps", *map(str, plan.steps)] if plan.steps else []
                arguments += ["--restart", str(plan.restart), "--nearest-seconds", "0", "--first-steps"]
                arguments += ["--out", str(target)]
                arguments += ["--limit", str(limit)] if limit else []
                arguments += ["--device", device] if device else []
                tasks.append(Task(f"{folder.name} {plan.test[number]}", arguments, target.with_suffix(".txt")))
    failed = run_all(tasks, seconds, jobs)
    for plan in plans:
        runs = [_parts(plan, out / f"{plan.name}-{seed}", limit) for seed in plan.seeds]
        if all(part.exists() for parts in runs for part in parts):
            merge(runs, out / f"{plan.name}.json")
            print(f"{out / plan.name}.json", flush=True)
    return 1 if failed else 0


def merge(runs: Sequence[Sequence[Path]], target: Path) -> None:
    """One results file of the parts of each run: an evaluation for each, hard sets last, smaller puzzles first."""
    found: list[Evaluation] = []
    for files in runs:
        parts = [e for file in files for e in read_results(file)]
        seconds = round(sum(e.provenance["seconds"] for e in parts), 1)
        scores = sorted(
            (score for e in parts for score in e.scores),
            key=lambda score: (score.dataset.endswith("-hard"), score.size, score.dataset, score.steps),
        )
        found.append(
            dataclasses.replace(parts[0], scores=scores, provenance={**parts[0].provenance, "seconds": seconds})
        )
    write_results(target, found)


def _parts(plan: Plan, folder: Path, limit: int | None) -> list[Path]:
    """Where the parts of a run's evaluation are kept: those asked for otherwise have other names."""
    asked = [json.dumps([sets.split(), plan.steps, plan.restart, limit]) for sets in plan.test]
    return [folder / f"test-{hashlib.sha256(part.encode()).hexdigest()[:12]}.json" for part in asked]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("what", choices=["train", "test"])
    parser.add_argument("plan", type=Path, help="a TOML file, as benchmarks/grouped.toml")
    parser.add_argument("out", type=Path, help="folder for the runs")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many; by default when all is done")
    parser.add_argument("--device", help="cpu, cuda, ... (a GPU if there is one)")
    parser.add_argument("--jobs", type=int, default=24, help="evaluations at a time (24)")
    parser.add_argument("--limit", type=int, help="evaluate the first so many puzzles of each set only")
    given = parser.parse_args(arguments)
    try:
        for option, least in (("seconds", 0), ("jobs", 1), ("limit", 1)):
            number = getattr(given, option)
            if number is not None and not number >= least:
                raise OutgrowError(f"--{option} is {number:g}; at least {least}")
        plans = read_plans(given.plan)
        out = given.out.resolve()
        out.mkdir(parents=True, exist_ok=True)
        with sharing():
            if given.what == "train":
                return train(plans, out, given.seconds, given.device)
            return test(plans, out, given.seconds, given.device, given.jobs, given.limit)
    except (OutgrowError, OSError) as error:
        print(f"outgrow: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return ENDED_BY_HAND


if __name__ == "__main__":
    sys.exit(main())
