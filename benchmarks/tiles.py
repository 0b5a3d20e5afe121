"""Which tiles and how many warps the kernels of layered messages (src/outgrow/kernels/fused/layered.py) are fastest with, on a GPU.

    python benchmarks/tiles.py [--batch 32] [--width 96] [--json FILE]

Messages of 9x9 Sudokus, as the binarized model has them in training: 729 nodes a board, 20 edges into each by attention and 8 more, three layers behind the first, dropout. Each line
is a way to cut them, with milliseconds forward and back, the share of the card's rate of products that is, and what is off plain PyTorch in half precision. Kernels are compiled
side by side first. What is best stands in `layered._HALF`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from outgrow.kernels import Neighbors, reference
from outgrow.provenance import provenance
from outgrow.writing import write_whole

Tiles = tuple[dict[str, Any], dict[str, Any]]
FORWARD = [{"N": n, "num_warps": n // 16, "num_stages": s} for n, s in itertools.product((64, 128), (1, 2, 3))]
BACKWARD = [{"M": m, "num_warps": m // 16, "num_stages": s} for m, s in itertools.product((64, 128), (1, 2))]
DEGREES = {"attention": 20, "mean": 8}
NODES, DROPOUT = 729, 0.1
DEVICE = "cuda"


class Case:
    """Messages to be sent: their inputs, on a GPU."""

    def __init__(self, how: str, batch: int, width: int) -> None:
        generator = torch.Generator().manual_seed(0)

        def numbers(*shape: int, scale: float = 1.0) -> Tensor:
            return (scale * torch.randn(*shape, generator=generator)).to(DEVICE, torch.bfloat16)

        self.nodes, self.degree, self.width = NODES * batch, DEGREES[how], width
        board = torch.arange(batch).repeat_interleave(NODES).unsqueeze(1) * NODES
        table = board + torch.randint(NODES, (self.nodes, self.degree), generator=generator)
        self.neighbors = Neighbors(table.to(DEVICE), None, self.nodes, constant=True)
        columns = 4 * width + 16
        self.product = numbers(self.nodes, columns).requires_grad_()  # as the models make it: rows lie apart
        self.layers = [t for _ in range(3) for t in (numbers(width, width, scale=(2 / width) ** 0.5), numbers(width))]
        for t in self.layers:
            t.requires_grad_()
        self.logits = how == "attention"
        self.gradient = numbers(self.nodes, width)
        self.seed = torch.tensor([1], device=DEVICE)

    @property
    def flops(self) -> float:
        """Of the products that the way there cannot do without; the way back has twice as many."""
        return 6.0 * self.nodes * self.degree * self.width**2

    def hear(self, function: Callable[..., Tensor], **more: Any) -> Tensor:
        width = self.width
        logits = (self.product[:, -1], self.product[:, -2]) if self.logits else None
        layers = list(zip(self.layers[::2], self.layers[1::2], strict=True))
        parts = self.product[:, :width], self.product[:, width : 2 * width]
        return function(*parts, self.neighbors, layers, logits=logits, dropout=DROPOUT, **more)


def clock(work: Callable[[], Any], times: int = 20) -> float:
    """Milliseconds, the median."""
    for _ in range(3):
        work()
    found: list[float] = []
    for _ in range(times):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        work()
        end.record()
        torch.cuda.synchronize()
        found.append(begin.elapsed_time(end))
    return statistics.median(found)


def use(tiles: Tiles) -> Any:
    from outgrow.kernels.fused import layered

    layered._HALF = tiles
    return layered


def compile_kernels(tiles: Tiles, width: int) -> str:
    """In a process of its own, for a small batch: kernels go into Triton's cache. Why it failed, if it did."""
    layered = use(tiles)
    try:
        for how in DEGREES:
            case = Case(how, 2, width)
            case.hear(layered.average_layered, seed=case.seed).backward(case.gradient)
            case.product.grad.sum().item()  # wait for it
    except Exception as error:
        return f"{type(error).__name__}: {error}".splitlines()[0][:200]
    return ""


def measure(case: Case, tiles: Tiles, card: float) -> dict[str, Any]:
    layered = use(tiles)

    def forward() -> Tensor:
        return case.hear(layered.average_layered, seed=case.seed)

    heard = forward()
    leaves = [case.product, *case.layers]

    def back() -> Any:
        return torch.autograd.grad(heard, leaves, case.gradient, retain_graph=True)

    there, again = clock(lambda: forward().detach()), clock(back)
    return {
        "forward": tiles[0],
        "backward": tiles[1],
        "forward_ms": there,
        "backward_ms": again,
        "forward_of_peak": case.flops / there / 1e9 / card,
        "backward_of_peak": 2 * case.flops / again / 1e9 / card,
    }


def difference(case: Case, tiles: Tiles) -> float:
    """How far off plain PyTorch what is heard and the gradient of the product are, dropout aside."""
    layered = use(tiles)
    found: list[list[Tensor]] = []
    for function, more in ((layered.average_layered, {"seed": case.seed}), (reference.average_messages, {})):
        heard = case.hear(lambda *a, function=function, more=more, **k: function(*a, **{**k, "dropout": 0.0, **more}))
        found.append([heard.detach(), *torch.autograd.grad(heard, [case.product, *case.layers], case.gradient)])
    return max(float((a.float() - b.float()).norm() / b.float().norm()) for a, b in zip(*found, strict=True))


def rate(size: int = 8192) -> float:
    """TFLOP/s of a large product."""
    a, b = (torch.randn(size, size, device="cuda").to(torch.bfloat16) for _ in range(2))
    return 2e-9 * size**3 / clock(lambda: a @ b)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batch", type=int, default=32, help="boards (32)")
    parser.add_argument("--width", type=int, default=96, help="of states (96)")
    parser.add_argument("--jobs", type=int, default=max(1, (os.cpu_count() or 2) - 2), help="compilers side by side")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args(arguments)
    if not torch.cuda.is_available():
        print("outgrow: no GPU here", file=sys.stderr)
        return 2
    ways = [(one, BACKWARD[0]) for one in FORWARD] + [(FORWARD[0], one) for one in BACKWARD[1:]]
    with ProcessPoolExecutor(given.jobs, mp_context=get_context("spawn")) as pool:
        failed = list(pool.map(compile_kernels, ways, [given.width] * len(ways)))
    card = rate()
    print(f"products of 8192: {card:.0f} TFLOP/s", flush=True)
    rows: list[dict[str, Any]] = []
    for how, (tiles, problem) in itertools.product(DEGREES, zip(ways, failed, strict=True)):
        row = {
            "how": how,
            **({"error": problem} if problem else measure(Case(how, given.batch, given.width), tiles, card)),
        }
        if not problem:
            row["off"] = difference(Case(how, 2, given.width), tiles)
        rows.append(row)
        print(json.dumps({k: float(f"{v:.3g}") if isinstance(v, float) else v for k, v in row.items()}), flush=True)
    if given.json:
        report = {"benchmark": "benchmarks/tiles.py", **provenance("cuda"), "tflops": card, "batch": given.batch}
        write_whole(given.json, [json.dumps({**report, "figures": rows}, indent=1) + "\n"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
