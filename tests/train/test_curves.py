"""The log of a run is read back as the one history that led to its weights, and drawn the same way every time."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import warnings
import xml.etree.ElementTree as ET
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.train import curves as module
from outgrow.train.curves import Curves, draw, read_log


def start(update: int = 0, name: str = "smoke") -> dict[str, Any]:
    return {
        "event": "start",
        "update": update,
        "recipe": {"name": name},
        "parameters": 1234,
        "device": "cpu",
        "data": {},
    }


def step(update: int, **figures: Any) -> dict[str, Any]:
    known = {
        "loss": 20.0 / update,
        "final_loss": 1.0 / update,
        "accuracy": 0.5,
        "grad_norm": 1.2,
        "lr": 0.001,
        "puzzles_per_second": 500.0,
        "memory_gib": 0.4,
        "seconds": 0.5 * update,
        "epoch": 0.01 * update,
    }
    return {"event": "update", "update": update, **known, **figures}


def validation(update: int, board: float, weights: str = "ema") -> dict[str, Any]:
    return {
        "event": "validate",
        "update": update,
        "weights": weights,
        "board": board,
        "pointwise": 0.98,
        "loss": 0.2,
        "seconds": 4.0,
    }


def average(update: int) -> dict[str, Any]:
    return {"event": "average", "update": update}


def recover(update: int, back_to: int) -> dict[str, Any]:
    return {"event": "recover", "update": update, "reason": "loss is not finite", "back_to": back_to}


def end(update: int, board: float) -> dict[str, Any]:
    return {"event": "end", "update": update, "chosen": "average", "board": board, "seconds": 50.0, "reason": "done"}


def text(*lines: dict[str, Any]) -> bytes:
    return b"".join(json.dumps(line).encode() + b"\n" for line in lines)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / "log.jsonl"


def read(log: Path, *parts: bytes | dict[str, Any]) -> Curves:
    log.write_bytes(b"".join(part if isinstance(part, bytes) else text(part) for part in parts))
    return read_log(log)


WHOLE = [
    start(),
    *(step(u) for u in range(10, 101, 10)),
    validation(50, 0.6),
    validation(100, 0.8),
    average(70),
    validation(100, 0.85, "average"),
    end(100, 0.85),
]


def test_a_log_becomes_arrays(log: Path) -> None:
    run = read(log, *WHOLE)
    assert (run.recipe, run.parameters, run.updates, run.elapsed) == ("smoke", 1234, 100, 50.0)
    assert run.update.tolist() == list(range(10, 101, 10))
    assert run.loss.tolist() == [20.0 / u for u in range(10, 101, 10)]
    for name, value in {
        "accuracy": 0.5,
        "grad_norm": 1.2,
        "lr": 0.001,
        "puzzles_per_second": 500,
        "memory_gib": 0.4,
    }.items():
        assert getattr(run, name).tolist() == [value] * 10
    assert run.final_loss[0] == 0.1
    assert run.epoch[-1] == 1.0
    assert run.valid_update.tolist() == [50, 100, 100]
    assert run.valid_board.tolist() == [0.6, 0.8, 0.85]
    assert run.valid_weights == ("ema", "ema", "average")
    assert (run.averaging, run.recoveries.tolist()) == (70, [])
    assert (run.ended, run.chosen, run.final_board) == ("done", "average", 0.85)


def test_the_folder_does_as_well_as_the_log(log: Path) -> None:
    assert read(log, *WHOLE).update.tolist() == read_log(log.parent).update.tolist()


def test_a_resumed_run_supersedes_what_lay_beyond_its_checkpoint(log: Path) -> None:
    run = read(
        log,
        start(),
        *(step(u, loss=1.0) for u in (10, 20, 30, 40)),
        validation(20, 0.2),
        validation(40, 0.9),
        average(30),
        recover(35, 20),
        step(30, loss=1.5),
        end(40, 0.9),
        start(20),
        step(30, loss=2.0),
    )
    assert run.update.tolist() == [10, 20, 30]
    assert run.loss.tolist() == [1.0, 1.0, 2.0]
    assert run.valid_update.tolist() == [20]
    assert (run.averaging, run.recoveries.tolist(), run.ended, run.chosen) == (None, [], None, None)
    assert run.final_board == 0.2


def test_a_recovery_supersedes_and_is_kept(log: Path) -> None:
    lines = [step(u, loss=1.0) for u in (10, 20, 30)]
    run = read(log, start(), *lines, recover(33, 20), step(30, loss=2.0), recover(37, 20), step(40, loss=3.0))
    assert run.update.tolist() == [10, 20, 40]
    assert run.loss.tolist() == [1.0, 1.0, 3.0]
    assert run.recoveries.tolist() == [33, 37]
    run = read(log, start(), *lines, {**recover(20, 20), "failed": 33}, step(40, loss=3.0))
    assert (run.update.tolist(), run.recoveries.tolist()) == ([10, 20, 40], [33])


def test_later_lines_win_for_equal_updates(log: Path) -> None:
    run = read(log, start(), step(10, loss=1.0), step(10, loss=2.0), validation(10, 0.1), validation(10, 0.2))
    assert (run.loss.tolist(), run.valid_board.tolist()) == ([2.0], [0.2])


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("uusr"), st.integers(1, 12)), max_size=40))
def test_superseding_is_what_a_plain_replay_gives(
    tmp_path_factory: pytest.TempPathFactory, events: list[tuple[str, int]]
) -> None:
    lines, plain = [start(), step(1, loss=1000.0)], {1: 1000.0}
    for at, (event, update) in enumerate(events):
        if event == "u":
            lines.append(step(update, loss=float(at)))
            plain[update] = float(at)
        else:
            lines.append(start(update) if event == "s" else recover(20, update))
            plain = {u: v for u, v in plain.items() if u <= update}
    run = read(tmp_path_factory.mktemp("run") / "log.jsonl", *lines)
    assert dict(zip(run.update.tolist(), run.loss.tolist(), strict=True)) == plain
    assert run.update.tolist() == sorted(plain)


def test_a_clock_that_begins_anew_goes_on(log: Path) -> None:
    run = read(
        log, start(), step(10, seconds=5), step(20, seconds=10), start(20), step(30, seconds=4), step(40, seconds=9)
    )
    assert run.seconds.tolist() == [5, 10, 14, 19]


@pytest.mark.parametrize("cut", [1, 20, 60, -2])
def test_a_cut_last_line_is_passed_over(log: Path, cut: int) -> None:
    assert read(log, start(), step(10), text(step(20))[:cut]).update.tolist() == [10]


def test_a_last_line_without_its_newline_counts_if_it_is_whole(log: Path) -> None:
    assert read(log, start(), step(10), text(step(20))[:-1]).update.tolist() == [10, 20]


def test_a_line_cut_before_a_new_attempt_is_passed_over(log: Path) -> None:
    for newline in (b"\n", b""):
        run = read(log, start(), step(10), step(20), text(step(30))[:30] + newline, start(10), step(30))
        assert run.update.tolist() == [10, 30]


@pytest.mark.parametrize(
    ("line", "words"),
    [
        (b"{'event': 'update'}\n", "not JSON"),
        (b"\xff\xfe\x00\n", "not JSON"),
        (b"[" * 100_000 + b"\n", "not JSON"),
        (b'{"event": "update", "update": ' + b"9" * 5000 + b"}\n", "not JSON"),
        (b"[1, 2]\n", "event"),
        (b"null\n", "event"),
        (b'{"update": 3}\n', "event"),
        (b'{"event": ["update"], "update": 3}\n', "event"),
        (text(step(20))[:30] + text(step(30)), "not JSON"),
        (b'{"event": "update"}\n', '"update" must be a whole number'),
        (b'{"event": "update", "update": 1.5}\n', '"update"'),
        (b'{"event": "update", "update": true}\n', '"update"'),
        (b'{"event": "update", "update": -1}\n', '"update"'),
        (b'{"event": "update", "update": 9007199254740992}\n', '"update"'),
        (b'{"event": "update", "update": 3, "loss": "low"}\n', '"loss" must be a number'),
        (b'{"event": "update", "update": 3, "loss": 1' + b"0" * 400 + b"}\n", '"loss"'),
        (b'{"event": "update", "update": 3, "accuracy": 97.0}\n', '"accuracy" must be a fraction'),
        (b'{"event": "validate", "update": 3, "board": -Infinity}\n', '"board" must be a fraction'),
        (b'{"event": "recover", "update": 3}\n', '"back_to"'),
        (b'{"event": "start", "update": null}\n', '"update"'),
        (b'{"event": "end", "update": 3, "board": "x"}\n', '"board"'),
    ],
)
@pytest.mark.parametrize("last", [False, True])
def test_damage_is_one_line_that_names_the_place(log: Path, line: bytes, words: str, last: bool) -> None:
    with pytest.raises(DamagedFile) as caught:
        read(log, start(), step(10), line, *([] if last else [step(20)]))
    message = str(caught.value)
    assert message.startswith(f"{log}:3: ")
    assert words in message
    assert "\n" not in message


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_any_bytes_are_read_or_refused(tmp_path_factory: pytest.TempPathFactory, data: st.DataObject) -> None:
    raw = bytearray(text(*WHOLE))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(raw) - 1))
        raw[at : at + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    try:
        run = read(tmp_path_factory.mktemp("run") / "log.jsonl", bytes(raw))
    except OutgrowError as error:
        assert "\n" not in str(error)
    else:
        json.dumps(run.summary(), allow_nan=False)


@pytest.mark.parametrize("content", [b"", b"\n\n", text(start()), text(start(), step(10), start(0)), text(step(1))[:9]])
def test_a_log_without_an_update_is_refused(log: Path, content: bytes) -> None:
    with pytest.raises(DamagedFile, match="no update"):
        read(log, content)


def test_what_is_no_log_is_refused(tmp_path: Path, log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OutgrowError, match=r"no log\.jsonl in it"):
        read_log(tmp_path)
    with pytest.raises(OutgrowError, match="no such folder or log"):
        read_log(tmp_path / "nothing")
    with pytest.raises(OutgrowError, match="not a file"):
        read_log(os.devnull)
    read(log, *WHOLE)
    monkeypatch.setattr(module, "_MAX_BYTES", log.stat().st_size - 1)
    with pytest.raises(DamagedFile, match="MiB"):
        read_log(log)


def test_a_huge_log_is_refused_unread(log: Path) -> None:
    with log.open("wb") as file:
        file.truncate((256 << 20) + 1)  # a hole: no disk is used
    with pytest.raises(DamagedFile, match="more than 256 MiB"):
        read_log(log)


def test_unknown_events_and_missing_figures_are_no_damage(log: Path) -> None:
    run = read(
        log, start(), {"event": "coffee"}, {"event": "update", "update": 3, "loss": None}, step(4, loss=math.nan)
    )
    assert run.update.tolist() == [3, 4]
    assert np.isnan(run.loss).all()
    assert math.isnan(run.final_board)


def test_the_summary(log: Path) -> None:
    lines = [
        start(),
        step(10, puzzles_per_second=100),
        step(20, puzzles_per_second=900),
        step(30, puzzles_per_second=400),
    ]
    run = read(log, *lines, validation(10, 0.5), validation(20, 0.75), validation(30, 0.75), average(20))
    assert run.summary() == {
        "run": str(log),
        "recipe": "smoke",
        "parameters": 1234,
        "updates": 30,
        "epochs": 0.3,
        "seconds": 15.0,
        "best_board": 0.75,
        "best_update": 20,
        "best_weights": "ema",
        "final_board": 0.75,
        "final_weights": None,
        "puzzles_per_second": 400.0,
        "memory_gib": 0.4,
        "averaging": 20,
        "recoveries": [],
        "ended": None,
    }


def test_the_summary_of_bare_updates_is_json(log: Path) -> None:
    summary = read(log, b'{"event": "update", "update": 3}\n').summary()
    assert json.loads(json.dumps(summary, allow_nan=False)) == summary
    assert (summary["updates"], summary["best_board"], summary["seconds"], summary["recipe"]) == (
        3,
        None,
        None,
        log.parent.name,
    )


def test_smoothing_keeps_what_is_level_and_skips_what_is_missing() -> None:
    values = np.full(500, 3.0)
    values[[0, 7, 499]] = np.nan
    smooth = module._smooth(values)
    assert math.isnan(smooth[0])  # nothing around it yet
    np.testing.assert_allclose(smooth[1:], 3.0)
    noise = np.random.default_rng(0).normal(size=4000)
    assert module._smooth(noise).std() < 0.2
    steep = np.exp(-np.arange(4000) / 20)
    assert module._smooth(steep)[0] == 1.0


def test_thinning_keeps_the_spikes() -> None:
    x, y = np.arange(100_000), np.ones(100_000)
    y[4321], y[77_777] = 50.0, -50.0
    y[50_000:51_000] = np.nan
    thin_x, thin_y = module._thin(x, y)
    assert len(thin_x) <= module._MOST_POINTS
    assert (np.diff(thin_x) > 0).all()
    assert {(4321, 50.0), (77_777, -50.0)} <= set(zip(thin_x.tolist(), thin_y.tolist(), strict=True))
    assert np.isnan(thin_y).any()


def strings(svg: Path) -> str:
    """The text of a picture: matplotlib draws letters as paths and keeps the words as comments."""
    tree = ET.parse(svg, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True)))
    return "\n".join(str(node.text) for node in tree.iter() if node.tag is ET.Comment)


def test_the_picture_says_what_happened(log: Path) -> None:
    run = read(log, *WHOLE[:-1], recover(100, 90), step(100), validation(100, 0.7), end(100, 0.9996))
    draw([run], log.with_name("curves.svg"))
    shown = strings(log.with_name("curves.svg"))
    for words in ("smoke", "1,234 parameters · 100 updates in 50 s · 99.9% of validation boards solved", "averaging begins",
                  "recovery", "validation, ema weights", "loss", "boards solved", "learning rate", "updates", "100%", "20 s"):  # fmt: skip
        assert words in shown.splitlines() or words in shown, words
    draw([read(log, start(), step(10))], log.with_name("bare.svg"))
    bare = strings(log.with_name("bare.svg"))
    for words in ("averaging begins", "recovery", "validation"):
        assert words not in bare


def test_the_same_curves_make_the_same_bytes(log: Path) -> None:
    """In another process, with other hashes, another day and a user's own settings of matplotlib."""
    run = read(log, *WHOLE)
    (log.parent / "matplotlibrc").write_text("lines.linewidth: 9\nfont.size: 30\nsvg.fonttype: none\n")
    script = "import sys\nfrom outgrow.train.curves import *\nfor out in sys.argv[2:]: draw([read_log(sys.argv[1])], out)\nassert 'matplotlib.pyplot' not in sys.modules"
    other = [str(log.with_name(f"other.{suffix}")) for suffix in ("svg", "png", "pdf")]
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "7",
        "MATPLOTLIBRC": str(log.parent),
        "SOURCE_DATE_EPOCH": "1",
        "DISPLAY": "",
    }
    subprocess.run([sys.executable, "-c", script, str(log), *other], env=environment, check=True)
    for path in other:
        here = log.with_name(f"here{Path(path).suffix}")
        draw([run], here)
        assert here.read_bytes() == Path(path).read_bytes(), path
    head = {path: Path(path).read_bytes()[:8] for path in other}
    assert [head[p][:4] for p in other] == [b"<?xm", b"\x89PNG", b"%PDF"]
    assert not [p.name for p in log.parent.iterdir() if p.name.startswith(".")]


def test_drawing_leaves_the_settings_of_matplotlib_alone(log: Path) -> None:
    import matplotlib

    with matplotlib.rc_context({"font.size": 31}):
        before = matplotlib.rcParams.copy()
        draw([read(log, *WHOLE)], log.with_name("curves.svg"))
        assert matplotlib.rcParams.copy() == before


def test_several_runs_are_told_apart(log: Path) -> None:
    names = ["one", "two", "two", *(f"run {i}" for i in range(6))]
    runs: list[Curves] = []
    for at, name in enumerate(names):
        folder = log.parent / f"run-{at}"
        folder.mkdir()
        lines = [start(name=name), *(step(u, loss=at + 20.0 / u) for u in range(10, 101, 10)), validation(100, at / 10)]
        runs.append(read(folder / "log.jsonl", *lines))
    draw(runs, log.with_name("all.svg"))
    shown = strings(log.with_name("all.svg"))
    assert "one  0.0%" in shown
    assert "run-1/log.jsonl)  10.0%" in shown
    assert "run-2/log.jsonl)  20.0%" in shown
    picture = log.with_name("all.svg").read_text().lower()
    for color in module.COLORS:
        assert color.lower() in picture


@pytest.mark.parametrize(
    "lines",
    [
        [step(1)],
        [{"event": "update", "update": 0}],
        [validation(0, 1.0)],
        [
            start(name="$\\nope$ \x00 \ud800 <b>&-- \u6570\u72ec \n" * 9),
            step(10, loss=0.0, seconds=None),
            step(20, loss=-1.0),
        ],
        [
            start(),
            step(10, loss=math.inf),
            step(20, loss=math.nan),
            step(30, loss=1e299),
            step(40, loss=1e-299, lr=1e299),
        ],
        [
            start(),
            step(10, seconds=0.0),
            step(20, seconds=1e9, lr=0.0),
            step(30, seconds=math.inf),
            step(40, seconds=math.inf),
        ],
        [
            start(),
            *(validation(u, 0.5, f"kind {u}") for u in range(9)),
            recover(9, 8),
            *(recover(u, 8) for u in range(20, 90)),
        ],
        [start(), step(2**53 - 1, lr=None, accuracy=None)],
    ],
    ids=["one", "nothing", "validation", "name", "not finite", "clock", "kinds", "far"],
)
def test_odd_runs_are_drawn_without_a_warning(log: Path, lines: list[dict[str, Any]]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        draw([read(log, *lines)], log.with_name("curves.svg"))
        draw([read(log, *lines)] * 2, log.with_name("curves.png"))
    ET.parse(log.with_name("curves.svg"))


def test_a_long_run_makes_a_small_picture(log: Path) -> None:
    noise = np.random.default_rng(0).lognormal(size=20_000)
    run = read(log, *(step(u + 1, loss=float(v)) for u, v in enumerate(noise)))
    draw([run], log.with_name("curves.svg"))
    assert log.with_name("curves.svg").stat().st_size < 300_000


def test_pictures_that_cannot_be_written_are_refused(log: Path) -> None:
    run = read(log, *WHOLE)
    with pytest.raises(OutgrowError, match=r"must end in \.svg, \.png or \.pdf"):
        draw([run], log.with_name("curves.txt"))
    with pytest.raises(OutgrowError, match="the folder does not exist"):
        draw([run], log.parent / "none" / "curves.svg")
    (log.parent / "folder.svg").mkdir()
    with pytest.raises(OutgrowError, match="is a folder"):
        draw([run], log.parent / "folder.svg")
    with pytest.raises(OutgrowError, match="no run"):
        draw([], log.with_name("curves.svg"))


def test_matplotlib_is_asked_for_by_drawing_alone(log: Path) -> None:
    read(log, *WHOLE)
    script = """
import sys
for name in ("matplotlib", "torch", "click", "rich", "pysat"):
    sys.modules[name] = None
from outgrow.errors import OutgrowError
from outgrow.train.curves import draw, read_log
run = read_log(sys.argv[1])
assert run.updates == 100
try:
    draw([run], sys.argv[1] + ".svg")
except OutgrowError as error:
    assert "pip install matplotlib" in str(error)
else:
    raise AssertionError
"""
    subprocess.run([sys.executable, "-c", script, str(log)], check=True)
