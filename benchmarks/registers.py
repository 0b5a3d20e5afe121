"""What the kernels of layered messages (src/outgrow/kernels/fused/chain.py) become for a Hopper card, without one at hand: registers of a thread, bytes it spills, fast memory of a program,
and how many instructions a tile takes in the innermost loop that has products.

    python benchmarks/registers.py [--width 96] [--json results/registers.json]

Triton brings the assembler and the disassembler. An instruction takes each of the four schedulers of a multiprocessor a cycle, so `cycles` (instructions times warps, over four schedulers, for
128 edges) is the least that a tile can take, whatever else it waits for; the products themselves need 128 * 96 * 96 / 2048 = 576 cycles a layer.
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from outgrow.kernels.fused import chain, layered
from outgrow.provenance import provenance
from outgrow.writing import write_whole

TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"
DEPTH = 3
LEAST = 8  # instructions of a loop: a shorter one is the end of a program, a branch to itself
WHOLE = {"table": "*i64", "seeds": "*i64", "there": "*i1", "listed": "*i64", "starts": "*i64"}
FLOATS = ("shares", "along", "sums", "scale")
HALVES = ("source", "destination", "heard", "d_heard", "d", "bias", "weight", "below", "source_logit", "logit")
STRIDES = ("stride", "own_stride")  # known to be multiples of 16


def type_of(name: str) -> str:
    """Of an argument, in half precision."""
    if name in WHOLE:
        return WHOLE[name]
    if name in FLOATS or name.startswith("d_rows"):
        return "*fp32"
    if name.rstrip("123") in (*HALVES, "below_bias"):
        return "*bf16"
    return {"rescale": "fp32", "threshold": "i64", "d_logit": "*fp32"}.get(name, "i32")


def compile_kernel(kernel: Any, tiles: dict[str, Any], constants: dict[str, Any]) -> tuple[str, str, int]:
    """What ptxas says, the disassembly, and bytes of fast memory."""
    options = {key: tiles[key] for key in ("num_warps", "num_stages") if key in tiles}
    fixed = {k: v for k, v in {**tiles, **constants}.items() if k in kernel.arg_names}
    signature = {name: "constexpr" if name in fixed else type_of(name) for name in kernel.arg_names}
    aligned = {
        (at,): [["tt.divisibility", 16]]
        for at, name in enumerate(kernel.arg_names)
        if signature[name].startswith("*") or name in STRIDES
    }
    source = ASTSource(fn=kernel, signature=signature, constexprs=fixed, attrs=aligned)
    made = triton.compile(source, target=GPUTarget("cuda", 90, 32), options=options)
    with tempfile.TemporaryDirectory() as folder:
        text, binary = Path(folder) / "kernel.ptx", Path(folder) / "kernel.cubin"
        text.write_text(made.asm["ptx"])
        said = _run("ptxas", "-v", "-arch=sm_90a", str(text), "-o", str(binary)).stderr
        return said, _run("nvdisasm", "-c", str(binary)).stdout, made.metadata.shared


def _run(tool: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([str(TOOLS / tool), *arguments], capture_output=True, text=True, check=True)


def find_loop(disassembly: str) -> list[str]:
    """The instructions of the longest loop, or of all if there is none."""
    labels: dict[str, int] = {}
    names: list[str] = []
    longest: tuple[int, int] = (0, 0)
    for line in disassembly.splitlines():
        if label := re.match(r"(\.L_x_\d+):", line.strip()):
            labels[label[1]] = len(names)
        elif found := re.match(r"\s+/\*[0-9a-f]+\*/\s+(?:@!?U?P\w+\s+)?([A-Z0-9_]+)([^;]*);", line):
            names.append(found[1])
            target = re.search(r"\.L_x_\d+", found[2]) if found[1] == "BRA" else None
            begin = labels.get(target[0], len(names)) if target else len(names)
            if len(names) - begin > max(LEAST, longest[1] - longest[0]):
                longest = begin, len(names)
    return names[slice(*longest)] if longest[1] else names


def describe(name: str, kernel: Any, tiles: dict[str, Any], constants: dict[str, Any]) -> dict[str, Any]:
    said, disassembly, shared = compile_kernel(kernel, tiles, constants)
    registers, spilled = re.search(r"Used (\d+) registers", said), re.search(r"(\d+) bytes spill stores", said)
    assert registers is not None
    assert spilled is not None
    loop = find_loop(disassembly)
    kinds = Counter(loop)
    rows = tiles.get("N") or tiles["M"]
    return {
        "kernel": name,
        **tiles,
        "registers": int(registers[1]),
        "spilled_bytes": int(spilled[1]),
        "shared_bytes": shared,
        "instructions": len(loop),
        "products": kinds["HGMMA"] + kinds["HMMA"],
        "cycles": round(len(loop) * tiles["num_warps"] / 4 * 128 / rows),
    }


def cases(width: int) -> list[tuple[str, Any, dict[str, Any], dict[str, Any]]]:
    """Those of training with attention and dropout, three layers behind the first, as `layered` runs them."""
    forward, backward = layered._HALF
    common = {"width": width, "precision": "tf32", "most": 0, "depth": DEPTH, "dropped": True, **layered._blocks(width)}
    found = [("forward", chain.forward_kernel, forward, common)]
    for layer in reversed(range(DEPTH)):
        last = layer == DEPTH - 1
        constants = common | {"below": layer, "attend": last, "fresh": last, "turns": 16}
        for number in range(layer + 1, DEPTH):
            constants |= {f"below{number}": None, f"below_bias{number}": None}
        if not last:
            constants |= {"along": None, "bias": None}
        found.append((f"layer {layer + 1}", chain.layer_kernel, backward, constants))
    return found


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--width", type=int, default=96, help="of states (96)")
    parser.add_argument("--json", type=Path, help="write the figures here")
    given = parser.parse_args(arguments)
    if chain.INTERPRETED:
        print("outgrow: TRITON_INTERPRET is set: nothing is compiled", file=sys.stderr)
        return 2
    rows = [describe(*case) for case in cases(given.width)]
    for row in rows:
        print(json.dumps(row))
    if given.json:
        report = {"benchmark": "benchmarks/registers.py", **provenance("cpu"), "width": given.width, "target": "sm_90"}
        write_whole(given.json, [json.dumps({**report, "kernels": rows}, indent=1) + "\n"])
    return 0


if __name__ == "__main__":
    sys.exit(main())
