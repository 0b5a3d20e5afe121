"""Seconds and memory of one step of message passing, grouped model against binarized, on one thread of the processor (Linux).

Both with their default configuration and random weights: what they answer is of no interest here. One puzzle at a time, an empty Sudoku of each size:
givens change nothing about the work. Every case runs in a process of its own, so that its peak of memory is its own.

    python benchmarks/cost.py [--json results/cost.json] [--svg docs/cost.svg] [--sizes 4 6 9] [--seconds 2]
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from outgrow.csp import constraint_graph, relation_graph
from outgrow.errors import OutgrowError, memory_errors
from outgrow.provenance import provenance
from outgrow.puzzles import sudoku
from outgrow.writing import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SIZES = (4, 6, 9, 12, 16, 25, 36)
# The lifted form each model is trained on: groups, or the paper's one predicate.
FORMS = {"grouped": "units", "binarized": "nbr"}
MEMORY_GIB = 12  # a case that needs more is left out
PATIENCE = 600  # seconds of a case, the building of its graph included
SLOPE_FROM = 9  # smaller boards take what calling the kernels takes


def memory_kib(field: str) -> int:
    """What Linux says of this process: 'VmRSS', the memory it has, or 'VmHWM', the most it has had since the peak was forgotten."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:"))


def forget_peak() -> None:
    """Lets 'VmHWM' begin anew at what there is now."""
    Path("/proc/self/clear_refs").write_text("5")


def count_work(model: str, size: int) -> dict[str, int]:
    """Nodes (variable, value), memberships in groups, and edges: from the CSP, whatever tables the model makes of it."""
    csp = build(model, size).csp
    nodes = csp.num_variables * size
    if model == "grouped":
        # Every group of cells once for each digit; the digits of a cell are a group as well.
        members = sum(len(group) for groups in csp.groups.values() for group in groups)
        return {"nodes": nodes, "memberships": members * size + nodes, "edges": 0}
    pairs = sum(edges.shape[1] for edges in constraint_graph(csp).edges.values())
    relations = sum(edges.shape[1] for edges in relation_graph(csp).edges.values())
    return {"nodes": nodes, "memberships": 0, "edges": pairs * size + relations * csp.num_variables}


def build(model: str, size: int) -> sudoku.Instance:
    """An empty board, in the model's form."""
    rows, columns = sudoku.box_shape(size) or (1, size)
    return sudoku.build(rows, columns, np.zeros(size * size, dtype=np.int16), form=FORMS[model])


def measure(model: str, size: int, seconds: float) -> dict[str, Any]:
    """The fastest of as many steps as fit into that time, after a first one: other work on the machine only slows.

    The peak of memory is that of making the model's graph and of the steps, above what there was before.
    """
    import torch

    from outgrow.graphs import Puzzles
    from outgrow.models import MODELS, build_model

    torch.set_num_threads(1)
    torch.manual_seed(0)
    puzzles = Puzzles.of_instances([build(model, size)])
    built = build_model(puzzles.schema, MODELS[model][1]()).eval()
    small = Puzzles.of_instances([build(model, 4)])
    with torch.no_grad(), memory_errors("try a machine with more"):
        for _ in built.run(built.prepare(small.batch([0])), 3):  # pyright: ignore[reportArgumentType]
            pass  # loads the libraries, which would count as memory of the first step
        forget_peak()
        before = memory_kib("VmRSS")
        graph = built.prepare(puzzles.batch([0]))
        steps: list[float] = []
        began = last = time.perf_counter()
        for _ in built.run(graph, 10**6):  # pyright: ignore[reportArgumentType]
            now = time.perf_counter()
            steps.append(now - last)
            last = now
            if len(steps) >= 3 and now - began > seconds:
                break
    return {
        "steps": len(steps) - 1,
        "seconds_a_step": min(steps[1:]),
        "peak_mib": (memory_kib("VmHWM") - before) / 1024,
        "parameters": sum(p.numel() for p in built.parameters()),
    }


def run_case(model: str, size: int, seconds: float) -> dict[str, Any]:
    """`measure` in a process of its own; what went wrong as 'left_out'."""
    found = _run_process(model, size, seconds, {})
    if "left_out" in found:
        return found
    # Once more for the peak: with memory given back at once, which is slow, it is what was in use, and not what was kept for later.
    again = _run_process(model, size, 0.0, {"MALLOC_MMAP_THRESHOLD_": "65536"})
    return again if "left_out" in again else {**found, "peak_mib": again["peak_mib"]}


def _run_process(model: str, size: int, seconds: float, settings: dict[str, str]) -> dict[str, Any]:
    command = [sys.executable, __file__, "--case", model, str(size), "--seconds", str(seconds)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1", **settings}
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, env=environment, timeout=PATIENCE + seconds, check=False
        )
    except subprocess.TimeoutExpired:
        return {"left_out": f"more than {PATIENCE} seconds"}
    if done.returncode == 3:
        return {"left_out": f"more than {MEMORY_GIB} GiB of memory"}
    if done.returncode:
        raise SystemExit(f"{model} {size}: {done.stderr.strip() or f'exit code {done.returncode}'}")
    return json.loads(done.stdout)


def case_main(model: str, size: int, seconds: float) -> None:
    """The process of one case."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_GIB << 30, MEMORY_GIB << 30))
    try:
        print(json.dumps(measure(model, size, seconds)))
    except (OutgrowError, MemoryError):
        sys.exit(3)


def slope(figures: list[dict[str, Any]], model: str, key: str) -> float | None:
    """The exponent by which a figure grows with the number of nodes: a line through the logarithms, from size 9 on."""
    rows = [f for f in figures if f["model"] == model and key in f and f["size"] >= SLOPE_FROM]
    if len(rows) < 2:
        return None
    x, y = np.log([f["nodes"] for f in rows]), np.log([f[key] for f in rows])
    return round(float(np.polyfit(x, y, 1)[0]), 3)


def draw(figures: list[dict[str, Any]], slopes: dict[str, dict[str, float | None]], path: Path) -> None:
    """Seconds a step against nodes, both axes logarithmic."""
    from matplotlib.ticker import FuncFormatter

    from outgrow.train import curves as look

    def fill(canvas: Figure) -> None:
        width, height = 7.5, 3.6
        canvas.set_size_inches(width, height)
        axes = canvas.add_axes((0.8 / width, 0.55 / height, (width - 1.1) / width, (height - 0.75) / height))
        nodes: dict[int, int] = {}
        for at, model in enumerate(FORMS):
            rows = [f for f in figures if f["model"] == model and "seconds_a_step" in f]
            found = slopes[model]["seconds_a_step"]
            label = model if found is None else f"{model}: nodes to the power of {found:.2f}"
            x, y = [f["nodes"] for f in rows], [f["seconds_a_step"] for f in rows]
            nodes |= {f["size"]: f["nodes"] for f in rows}
            axes.plot(
                x,
                y,
                color=look.COLORS[at],
                marker=look.MARKERS[at],
                linewidth=1.8,
                markersize=5.5,
                markeredgecolor="white",
                label=label,
                gid=model,
            )
        axes.set(xscale="log", yscale="log", ylabel="seconds a step", xlabel="(variable, value) nodes")
        axes.set_xticks(list(nodes.values()), [f"{n:,}\n{k}x{k}" for k, n in nodes.items()])
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.minorticks_off()
        axes.tick_params(length=0)
        axes.legend(loc="upper left")

    look.save_picture(path, fill)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--svg", type=Path, help="draw them here")
    parser.add_argument("--sizes", type=int, nargs="+", default=list(SIZES), help="sizes of Sudoku")
    parser.add_argument("--seconds", type=float, default=10.0, help="time for the steps of a case (10)")
    parser.add_argument("--case", nargs=2, metavar=("MODEL", "SIZE"), help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        return case_main(arguments.case[0], int(arguments.case[1]), arguments.seconds)
    began = time.monotonic()
    figures: list[dict[str, Any]] = []
    print(
        f"{'model':10} {'size':>4} {'nodes':>7} {'memberships':>11} {'edges':>10} {'ms a step':>10} {'us a node':>9} {'MiB':>7}"
    )
    for size in arguments.sizes:
        for model in FORMS:
            figure = {"model": model, "form": FORMS[model], "size": size, **count_work(model, size)}
            found = run_case(model, size, arguments.seconds)
            if "left_out" not in found:
                found |= {
                    "seconds_a_node": found["seconds_a_step"] / figure["nodes"],
                    "kib_a_node": found["peak_mib"] * 1024 / figure["nodes"],
                }
            figures.append(figure | {k: float(f"{v:.4g}") if isinstance(v, float) else v for k, v in found.items()})
            counts = f"{model:10} {size:4} {figure['nodes']:7} {figure['memberships']:11} {figure['edges']:10}"
            if "left_out" in found:
                print(f"{counts}  left out: {found['left_out']}", flush=True)
            else:
                spent = f"{1e3 * found['seconds_a_step']:10.2f} {1e6 * found['seconds_a_node']:9.2f} {found['peak_mib']:7.0f}"
                print(f"{counts} {spent}", flush=True)
    slopes = {m: {key: slope(figures, m, key) for key in ("seconds_a_step", "peak_mib")} for m in FORMS}
    for model, found in slopes.items():
        shown = ", ".join(f"{key} {value}" for key, value in found.items())
        print(f"{model}: grows as nodes to the power of: {shown} (from size {SLOPE_FROM} on)")
    for size in arguments.sizes:
        times = [f["seconds_a_step"] for f in figures if f["size"] == size and "seconds_a_step" in f]
        if len(times) == len(FORMS):
            print(f"{size}x{size}: a step of the binarized model takes {times[1] / times[0]:.1f} times as long")
    if arguments.svg:
        draw(figures, slopes, arguments.svg)
    if arguments.json:
        report = {
            "benchmark": "benchmarks/cost.py",
            **provenance(seconds=round(time.monotonic() - began), threads=1),
            "memory_limit_gib": MEMORY_GIB,
            "slopes_from_size": SLOPE_FROM,
            "slopes": slopes,
            "figures": figures,
        }
        write_whole(arguments.json, [json.dumps(report, indent=1) + "\n"])
    return None


if __name__ == "__main__":
    main()
