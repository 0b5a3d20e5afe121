"""What the documents say of the playground's speed is what was measured."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
MEASURED = json.loads((ROOT / "results" / "playground.json").read_text())


def test_the_guide_says_what_was_measured() -> None:
    clicks = {row["size"]: row for row in MEASURED["clicks"]}
    text = (ROOT / "docs" / "guide" / "play.md").read_text()
    first = [round(1000 * clicks[size]["first_step_seconds"]) for size in (9, 16, 25)]
    assert "{} ms at 9x9, {} at 16x16 and {} at 25x25".format(*first) in text
    assert f"{MEASURED['start_seconds']:.1f} s until the page can be opened" in text
    seconds = max(MEASURED["at_once"]["seconds"])
    assert f"{MEASURED['at_once']['count']} solves of 9x9 at once are done within {seconds:.2g} s" in text


def test_small_boards_show_a_step_within_half_a_second() -> None:
    [nine] = [row for row in MEASURED["clicks"] if row["size"] == 9]
    assert nine["slowest_first_step_seconds"] < 0.5


def test_many_solves_at_once_were_solved_and_left_no_memory_behind() -> None:
    once = MEASURED["at_once"]
    assert once["solved"] == [once["count"]] * len(once["seconds"])
    assert once["mib"][-1] == pytest.approx(once["mib"][1], abs=20)
