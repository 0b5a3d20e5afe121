"""Puzzles a second, memory and arithmetic of the fused kernels, beside plain PyTorch and beside PyTorch Geometric (benchmarks/peer.py).

    python benchmarks/engine.py [NAME ...] [--seconds 560] [--patience 150] [--resume]     measure on a GPU, what matters most first
    python benchmarks/engine.py --device cpu                                               one puzzle at a time on two threads
    python benchmarks/engine.py --check [NAME ...]                                         do fused and plain agree? exit code 1 if not
    python benchmarks/engine.py --merge [--also FILE]                                      put rows together, measure nothing
    python benchmarks/engine.py --markdown [--json FILE] [--svg docs/engine.svg]           tables and a picture of what was put together
    python benchmarks/engine.py --list                                                     the cases, in their order

A NAME is MODEL-PUZZLE-SIZE, with patterns ('binarized-*') and, for a batch of N alone, '@N' behind it. Every case is a process of its own, one at a time. Its row
is added to a file of lines at once, so that a run stopped anywhere has not worked for nothing: `--resume` goes on behind it. A case that fails or takes too
long is a row that says so.

What is measured, at the best batch size (doubled while that gains 5% and fits):

- train: whole updates as training makes them: loss of every step, gradients, clipping, AdamW, one wait for the device.
- infer: the scores after 32 steps, without gradients.

Batches lie on the device before the clock starts, and so do the peer's lists of edges; the project's own tables are worked out of a batch within. The recipes'
noise, carried puzzles and multiplicity are left out. `fp32` is training's: matrix products in TF32 on a GPU. Memory is the peak of what was allocated, on a CPU the
growth of the process. Start-up is from the start of the process to the end of the first run; what earlier cases left in the compilers' caches helps. How
arithmetic is counted: `count_flops` of engine_flops.py. Graphs to color are random ones of 100 nodes; boards are those of the sets in datasets/.
Torch, numpy, safetensors and torch_geometric are enough, but for `--svg`.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, fields, replace
from pathlib import Path
from typing import Any

from engine_cases import CARD, CHECKED, FULL, MODES, WAYS, Case, How, choose, plan
from engine_report import Row, draw, merge, parse_line, read_rows, tables

from outgrow.errors import OutgrowError
from outgrow.provenance import provenance

ROOT = Path(__file__).resolve().parents[1]
WORKER = Path(__file__).with_name("engine_work.py")
LEAST = 15  # seconds that must be left to begin a case
CUT = "the run's time was up"


def run_case(case: Case, how: How, patience: float) -> Row:
    """The row of one case, from a process of its own."""
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join(filter(None, (str(ROOT / "src"), os.environ.get("PYTHONPATH")))),
        "OMP_NUM_THREADS": str(how.threads),
    }
    spec = json.dumps({"case": asdict(case), "how": asdict(replace(how, since=time.time()))})
    problem = ""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        # In a session of its own, so that those it starts to compile end with it.
        process = subprocess.Popen(
            [sys.executable, str(WORKER), spec], stdout=out, stderr=err, env=environment, start_new_session=True
        )
        try:
            process.wait(patience)
        except subprocess.TimeoutExpired:
            problem = f"more than {patience:.0f} seconds"
        finally:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
        said, wrong = (_read_back(stream) for stream in (out, err))
    if process.returncode and not problem:
        problem = f"{' '.join((wrong or ['no reason given'])[-1].split())[:300]} (exit code {process.returncode})"
    return make_row(case, how, said, problem)


def _read_back(stream: Any) -> list[str]:
    stream.seek(0)
    return [line for line in stream.read().decode(errors="replace").splitlines() if line.strip()]


def make_row(case: Case, how: How, said: Sequence[str], problem: str) -> Row:
    """What a process said, the best batch on top; `error` if it found nothing, or did not compare to the end."""
    row: Row = {**asdict(case), "device": how.device}
    tries: list[Row] = []
    checks: list[Row] = []
    for words in filter(None, map(parse_line, said)):
        tries += [words.pop("try")] if "try" in words else []
        checks += [words.pop("check")] if "check" in words else []
        row |= words
    done = row.pop("done", False)
    if problem:
        row["stopped"] = problem
    if tries:
        row |= max(tries, key=lambda t: t["puzzles_per_second"]) | {"tries": tries}
        row["tflops"] = row["flops_per_puzzle"] * row["puzzles_per_second"] / 1e12
    elif not done or (case != CARD and not checks):
        row["error"] = row.get("stopped", "it ended without a word")
    if checks:
        row["checks"], row["disagree"] = len(checks), [c for c in checks if not c["agrees"]]
        row["worst"] = max(checks, key=lambda c: c["error"] / max(c["limit"], 1e-30))
    return row


def is_done(row: Row) -> bool:
    """Whether to measure it again would find nothing else."""
    return not (row.get("cut") or row.get("disagree")) and row.get("error", FULL) == FULL


def add_line(path: Path, words: Row) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    with open(path, "a") as stream:
        stream.write(json.dumps(words) + "\n")
        stream.flush()
        os.fsync(stream.fileno())


def run(cases: Sequence[Case], how: How, files: Sequence[Path], seconds: float, patience: float) -> None:
    """Measures what is not in the files yet and adds it to the last, until the time is up."""
    began = time.monotonic()
    known = read_rows(files)[1]
    waiting = [case for case in cases if not (case in known and is_done(known[case]))]
    print(f"{len(waiting)} cases, {len(cases) - len(waiting)} measured before", flush=True)
    if waiting:
        add_line(files[-1], provenance(how.device, threads=how.threads))
    for number, case in enumerate(waiting, start=1):
        left = seconds - (time.monotonic() - began) if seconds else math.inf
        if left < min(LEAST, seconds / 2):
            print(f"{len(waiting) - number + 1} cases wait; --resume goes on", flush=True)
            return
        limit = min(patience, left)
        # What is compiled anew for every batch size begins where the same was best without.
        plain = known.get(replace(case, way="reference"), {}) if case.way.startswith("compiled") else {}
        row = run_case(case, replace(how, start=how.start or plain.get("batch", 0)), limit)
        if limit < patience and str(row.get("stopped", "")).startswith("more than"):
            row |= {"stopped": CUT, "cut": True} | ({"error": CUT} if "error" in row else {})
        add_line(files[-1], row)
        known[case] = row
        passed = time.monotonic() - began
        ahead = f" {max(0.0, seconds - passed):4.0f} s left" if seconds else ""
        print(f"{passed:5.0f} s{ahead}  {number}/{len(waiting)} {case.name}: {describe(row)}", flush=True)
        if "cannot be used here" in row.get("error", ""):
            raise OutgrowError(row["error"])  # of the device: it holds for all of them


def describe(row: Row) -> str:
    """One line."""
    if "checks" in row:
        bad = "".join(f"; {c['what']}: {c['error']:.3g}, not {c['limit']:.3g}" for c in row["disagree"])
        ended = f"; {row['error']}" if "error" in row else ""
        return f"{row['checks']} comparisons, at worst {row['worst']['what']} {row['worst']['error']:.2g} of {row['worst']['limit']:.2g}{bad}{ended}"
    if "error" in row:
        return row["error"]
    if row["target"] == CARD.target:
        return f"{row['tflops']:.4g} TFLOP/s, copies {row['copy_tb_per_second']:.3g} TB/s"
    figures = f"{row['puzzles_per_second']:.4g} puzzles/s at {row['batch']}, {row['mib_per_puzzle']:.4g} MiB a puzzle"
    return f"{figures}, {row['tflops']:.3g} TFLOP/s, first after {row.get('startup_seconds', 0):.0f} s; {row.get('stopped', '')}"


def parse(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME", help="MODEL-PUZZLE-SIZE[@BATCH], with patterns (all)")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=[], help="of these only")
    parser.add_argument("--ways", nargs="+", choices=list(WAYS), default=[], help="of these only")
    parser.add_argument("--device", default="cuda", help="cuda or cpu (cuda)")
    parser.add_argument("--threads", type=int, default=2, help="of the processor (2)")
    parser.add_argument("--seconds", type=float, default=0.0, help="stop after so many (never)")
    parser.add_argument("--patience", type=float, default=150.0, help="seconds of a case, its start included (150)")
    parser.add_argument("--least", type=float, default=1.0, help="seconds of runs that are timed, at least (1)")
    parser.add_argument("--rows", type=Path, help="the file of lines to add to (results/engine.jsonl)")
    parser.add_argument("--also", type=Path, action="append", default=[], help="another file of lines, to read only")
    parser.add_argument("--json", type=Path, help="the file of all (results/engine.json)")
    parser.add_argument("--resume", action="store_true", help="go on with the file of lines")
    parser.add_argument("--check", action="store_true", help="compare fused and plain instead")
    parser.add_argument("--merge", action="store_true", help="put the rows together, measure nothing")
    parser.add_argument("--markdown", action="store_true", help="print tables, measure nothing")
    parser.add_argument("--svg", type=Path, help="draw a picture, measure nothing")
    parser.add_argument("--list", action="store_true", help="print the cases, measure nothing")
    for option, usual in (("--width", 0), ("--steps", 0), ("--nodes", 100), ("--start", 0)):  # for tests
        parser.add_argument(option, type=int, default=usual, help=argparse.SUPPRESS)
    return parser.parse_args(arguments)


def report(target: Path, markdown: bool, picture: Path | None) -> None:
    try:
        found = json.loads(target.read_text())
    except ValueError:
        raise OutgrowError(f"{target}: not written by this benchmark") from None
    for title, table in tables(found) if markdown else ():
        print(f"{title}\n\n{table}")
    if picture:
        draw(found, picture)


def check(cases: Sequence[Case], files: Sequence[Path]) -> int:
    """Says which cases disagree, or did not end; the exit code."""
    found = read_rows(files)[1]
    wrong = [c.name for c in cases if c not in found or "error" in found[c] or found[c].get("disagree", True)]
    print("\n".join(f"wrong: {name}" for name in wrong) or f"fused and plain agree in {len(cases)} cases")
    return 1 if wrong else 0


def _stop(number: int, frame: Any) -> None:
    raise KeyboardInterrupt


def main(arguments: Sequence[str] | None = None) -> int:
    given = parse(arguments)
    tail = "-cpu" if given.device == "cpu" else ""
    rows = given.rows or ROOT / "results" / f"engine{'-check' if given.check else ''}{tail}.jsonl"
    files = [*given.also, rows]
    target = given.json or ROOT / "results" / f"engine{tail}.json"
    try:
        if given.markdown or given.svg:
            report(target, given.markdown, given.svg)
            return 0
        if given.check:
            cases = choose([Case(name, "check", "fused") for name in CHECKED], given.names, (), ())
        else:
            cases = choose(plan(given.device), given.names, given.modes, given.ways)
        if given.list:
            print("\n".join(case.name for case in cases))
            return 0
        if not given.merge:
            if rows.exists() and not given.resume:
                raise OutgrowError(f"{rows}: is there; go on with it (--resume), or name another (--rows)")
            how = How(**{f.name: getattr(given, f.name) for f in fields(How) if f.name != "since"})
            signal.signal(signal.SIGTERM, _stop)
            with contextlib.suppress(KeyboardInterrupt):  # what was measured is put together
                run(cases, how, files, given.seconds, given.patience)
        if given.check:
            return check(cases, files)
        merge(files, target)
        print(target)
    except (OutgrowError, OSError) as error:
        print(f"outgrow: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
