"""The playground as people feel it: until it starts, from a click to the first step and to the verdict, and many solves at once.

    python benchmarks/playground.py --json results/playground.json

Clicks are in a headless Chromium, if Playwright and one are there; everything else over HTTP. Figures are of this machine, browser and server side by side.
"""

from __future__ import annotations

import argparse
import http.client
import json
import shutil
import statistics
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

from outgrow.provenance import provenance
from outgrow.writing import write_whole

CASES = (("sudoku", 9), ("sudoku", 16), ("sudoku", 25), ("futoshiki", 9), ("coloring", 7))
TIMES = 9
AT_ONCE = 50
# From the click until the page says a step, and until it says how the run ended.
CLICK = """async () => {
  const $ = (id) => document.getElementById(id);
  $('speed').value = '0';
  const began = performance.now();
  $('solve').click();
  const until = async (there) => { while (!there()) await new Promise(requestAnimationFrame); return performance.now() - began; };
  const first = await until(() => $('position').textContent.startsWith('step'));
  const end = await until(() => document.querySelector('.lane .ok, .lane .no'));
  return [first, end];
}"""


class Playground:
    """The command in a process of its own."""

    def __init__(self) -> None:
        began = time.perf_counter()
        command = [sys.executable, "-m", "outgrow", "play", "--no-browser", "--port", "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        assert self.process.stdout is not None
        self.port = int(self.process.stdout.readline().split("127.0.0.1:")[1].split("/")[0])
        self.seconds = time.perf_counter() - began

    def events(self, name: str, content: dict[str, Any]) -> tuple[list[tuple[float, dict[str, Any]]], float]:
        """What an address answers, line by line, each with the seconds since it was asked."""
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=300)) as connection:
            began = time.perf_counter()
            connection.request("POST", f"/api/{name}", json.dumps(content), {"Content-Type": "application/json"})
            response = connection.getresponse()
            found = [(time.perf_counter() - began, json.loads(line)) for line in response]
            return found, time.perf_counter() - began

    def new(self, kind: str, size: int, seed: int) -> dict[str, Any]:
        """A puzzle, as it is sent back."""
        content = {"kind": kind, "size": size, "difficulty": "medium", "seed": seed}
        puzzle = self.events("new", content)[0][0][1]["puzzle"]
        return {key: puzzle[key] for key in ("puzzle", "size", "shape", "pairs", "givens")}

    def resident(self) -> float:
        """MiB of the server and its workers, where /proc says so; else 0."""
        total = 0.0
        for path in Path("/proc").glob("[0-9]*"):
            try:
                parent = int((path / "stat").read_text().rpartition(")")[2].split()[1])
                if self.process.pid in (int(path.name), parent):
                    total += int((path / "statm").read_text().split()[1]) * 4096 / 2**20
            except OSError:
                continue
        return total


def middle(numbers: list[float]) -> float:
    return round(statistics.median(numbers), 4)


def over_http(playground: Playground, weights: dict[str, str]) -> list[dict[str, Any]]:
    rows = []
    for kind, size in CASES:
        first, whole, made = [], [], []
        for seed in range(TIMES):
            began = time.perf_counter()
            puzzle = playground.new(kind, size, seed)
            made.append(time.perf_counter() - began)
            runs = [{"weights": weights[kind], "steps": 512}]
            events, spent = playground.events("solve", {"puzzle": puzzle, "runs": runs})
            first.append(next(at for at, e in events if e["event"] == "step"))
            whole.append(spent)
        rows.append(
            {
                "puzzle": kind,
                "size": size,
                "weights": weights[kind],
                "count": TIMES,
                "new_seconds": middle(made),
                "first_step_seconds": middle(first),
                "slowest_first_step_seconds": round(max(first), 4),
                "solved_seconds": middle(whole),
            }
        )
        print(json.dumps(rows[-1]), flush=True)
    return rows


def at_once(playground: Playground, weights: str) -> dict[str, Any]:
    puzzles = [playground.new("sudoku", 9, seed) for seed in range(AT_ONCE)]
    runs = [{"weights": weights, "steps": 512}]

    def one(puzzle: dict[str, Any]) -> bool:
        events, _ = playground.events("solve", {"puzzle": puzzle, "runs": runs})
        return any(e.get("status") == "solved" for _, e in events)

    memory, seconds, solved = [playground.resident()], [], []
    for _ in range(4):
        began = time.perf_counter()
        with ThreadPoolExecutor(AT_ONCE) as pool:
            solved.append(sum(pool.map(one, puzzles)))
        seconds.append(round(time.perf_counter() - began, 3))
        memory.append(playground.resident())
    row = {"count": AT_ONCE, "solved": solved, "seconds": seconds, "mib": [round(m, 1) for m in memory]}
    print(json.dumps(row), flush=True)
    return row


def clicks(playground: Playground) -> list[dict[str, Any]]:
    """From a click to the first step on the page."""
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("no Playwright or no Chromium: no clicks", file=sys.stderr)
        return []
    rows = []
    with sync_playwright() as running:
        browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        began = time.perf_counter()
        page.goto(f"http://127.0.0.1:{playground.port}/")
        page.locator("body[data-ready]").wait_for()
        loaded = time.perf_counter() - began
        for size in (9, 16, 25):
            page.locator("#size").select_option(str(size))
            found = []
            for _ in range(TIMES):
                page.locator("#new").click()
                page.locator("#new:enabled").wait_for()
                page.locator(f".sheet button:nth-of-type({size * size})").wait_for(state="attached")
                found.append(page.evaluate(CLICK))
            rows.append(
                {
                    "puzzle": "sudoku",
                    "size": size,
                    "count": TIMES,
                    "page_seconds": round(loaded, 3),
                    "first_step_seconds": middle([first / 1000 for first, _ in found]),
                    "slowest_first_step_seconds": round(max(first for first, _ in found) / 1000, 4),
                    "solved_seconds": middle([end / 1000 for _, end in found]),
                }
            )
            print(json.dumps(rows[-1]), flush=True)
        browser.close()
    return rows


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--json", metavar="FILE", help="Write the figures here.")
    path = parser.parse_args().json
    began = time.monotonic()
    playground = Playground()
    try:
        print(f"started in {playground.seconds:.2f} s", flush=True)
        with closing(http.client.HTTPConnection("127.0.0.1", playground.port)) as connection:
            connection.request("GET", "/api/about")
            there = json.loads(connection.getresponse().read())["weights"]
        weights = {w["puzzle"]: w["name"] for w in there if w["default"]}
        figures = {
            "start_seconds": round(playground.seconds, 3),
            "http": over_http(playground, weights),
            "clicks": clicks(playground),
            "at_once": at_once(playground, weights["sudoku"]),
        }
    finally:
        playground.process.terminate()
    if path:
        about = {
            "benchmark": "benchmarks/playground.py",
            **provenance("cpu", seconds=round(time.monotonic() - began, 1)),
        }
        write_whole(path, [json.dumps({**about, **figures}, indent=1) + "\n"])


if __name__ == "__main__":
    main()
