"""Takes the pictures of the playground in docs/playground/, in a real browser. Run it: python docs/screenshots.py

It needs Playwright and a Chromium (Debian's: apt-get install chromium). The puzzles are always the same ones.
"""

from __future__ import annotations

import io
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import quote

from PIL import Image
from playwright.sync_api import Browser, Page, expect, sync_playwright

TARGET = Path(__file__).with_name("playground")
COLORS = 255
LONG = 120_000


def main() -> None:
    chromium = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
    if chromium is None:
        sys.exit("no Chromium; Debian's: apt-get install chromium")
    TARGET.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "outgrow", "play", "--no-browser", "--port", "0"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    address = server.stdout.readline().split(" is at ")[1].split()[0]
    try:
        with sync_playwright() as running:
            browser = running.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
            _take_all(browser, address)
            browser.close()
    finally:
        server.terminate()


def _take_all(browser: Browser, address: str) -> None:
    page = _open(browser, address, "sudoku", 9, "medium")
    _shoot(page, "opening")
    page.get_by_role("button", name="Paste…").click()
    page.locator("#paste-text").fill("53..7....6..195\nwhat is this?")
    page.get_by_role("button", name="Read it").click()
    expect(page.locator("#paste-error")).not_to_be_empty()
    _shoot(page, "refused")
    page.locator("#paste-text").fill(_game())
    page.get_by_role("button", name="Read it").click()
    expect(page.locator("#paste")).to_be_hidden()
    _shoot(page, "pasted")

    page = _open(browser, address, "sudoku", 16, "hard", height=1060)
    _shoot(page, "sixteen")
    _solve(page)
    last = int(page.locator("#step").get_attribute("max") or 0)
    _slide(page, last // 3)
    _shoot(page, "solving")
    _choose(page)
    _shoot(page, "listening", whole=True)
    _slide(page, last)
    _shoot(page, "solved")

    page = _open(browser, address, "futoshiki", 9, "hard")
    _solve(page)
    _slide(page, 8)
    _shoot(page, "futoshiki")

    page = _open(browser, address, "coloring", 7, "medium", dark=True)
    _solve(page)
    _slide(page, 6)
    _shoot(page, "coloring")

    page = _open(browser, address, "futoshiki", 6, "medium")
    page.get_by_role("button", name="Compare with another").click()
    page.locator(".picker").nth(0).select_option("futoshiki-binarized")
    page.locator(".picker").nth(1).select_option("futoshiki-multivalued")
    _solve(page)
    _slide(page, 5)
    _shoot(page, "side-by-side")

    page = _open(browser, address, "sudoku", 9, "medium")
    page.get_by_role("button", name="How it outgrows").click()
    page.get_by_role("button", name="Solve one of each size").click()
    expect(page.locator("#growth-status")).to_contain_text(re.compile(r"\d of \d"), timeout=LONG)
    _shoot(page, "growth", whole=True)

    phone = _open(browser, address, "sudoku", 9, "hard", width=375, height=720)
    _solve(phone)
    _slide(phone, 5)
    _shoot(phone, "phone", whole=True)


def _game() -> str:
    """A game id as Simon Tatham's Unequal has it."""
    from outgrow.data.difficulty import settings_for
    from outgrow.data.generate import make_chunks
    from outgrow.puzzles import render

    [(_, data)] = make_chunks(settings_for("futoshiki", 6, "hard", 1), range(1), 1)
    return render(data[0], format="sgt")


def _open(
    browser: Browser,
    address: str,
    kind: str,
    size: int,
    difficulty: str,
    *,
    dark: bool = False,
    width: int = 1280,
    height: int = 860,
) -> Page:
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        reduced_motion="reduce",
        device_scale_factor=2 if width < 500 else 1,
    )
    page = context.new_page()
    wanted = {"kind": kind, "size": size, "difficulty": difficulty, "seed": 7}
    answer = page.request.post(
        f"{address}api/new", data=json.dumps(wanted), headers={"Content-Type": "application/json"}
    )
    page.goto(f"{address}#p={quote(answer.json()['puzzle']['line'], safe='')}")
    expect(page.locator("body")).to_have_attribute("data-ready", "true", timeout=LONG)
    return page


def _solve(page: Page) -> None:
    page.get_by_role("button", name="Solve and watch").click()
    for lane in page.locator(".lane .said").all():
        expect(lane).to_contain_text(re.compile(r"olved in \d+ steps?"), timeout=LONG)


def _slide(page: Page, step: int) -> None:
    page.locator("#step").fill(str(step))


def _choose(page: Page) -> None:
    """A cell that the network is not sure of yet, and whom it listens to."""
    cells = page.locator(".lane .sheet").first.locator("button")
    labels = cells.evaluate_all("all => all.map(b => b.getAttribute('aria-label'))")
    shares = [int(m.group(1)) if (m := re.search(r", (\d+)%", label)) else 0 for label in labels]
    cells.nth(min(range(len(shares)), key=lambda i: abs(shares[i] - 75))).click()
    page.get_by_role("button", name="Show whom").click()
    expect(page.locator("#heard td").first).to_be_visible(timeout=LONG)


def _shoot(page: Page, name: str, whole: bool = False) -> None:
    page.evaluate("scrollTo(0, 0)")
    page.wait_for_timeout(300)  # canvases are painted with the next frame
    picture = Image.open(io.BytesIO(page.screenshot(full_page=whole))).convert("RGB")
    picture.quantize(COLORS, dither=Image.Dither.NONE).save(TARGET / f"{name}.png", optimize=True)
    print(f"{TARGET / name}.png: {(TARGET / f'{name}.png').stat().st_size // 1024} KiB", flush=True)


if __name__ == "__main__":
    main()
