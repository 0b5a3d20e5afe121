"""The command as people and programs use it: what it prints, what it refuses, how it exits."""

from __future__ import annotations

import gzip
import json
import signal
import subprocess
import sys
import time
import xml.etree.ElementTree as ET
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from outgrow.data import load_dataset

EASY = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
GRAPH = "p edge 4 5\ne 1 2\ne 2 3\ne 3 4\ne 4 1\ne 1 3\n"

Run = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def run(tmp_path: Path) -> Run:
    def call(*arguments: object, stdin: str | bytes = "", code: int | None = 0) -> subprocess.CompletedProcess[str]:
        data = stdin.encode() if isinstance(stdin, str) else stdin
        done = subprocess.run(
            [sys.executable, "-m", "outgrow", *map(str, arguments)],
            input=data,
            capture_output=True,
            cwd=tmp_path,
            check=False,
        )
        result = subprocess.CompletedProcess(done.args, done.returncode, done.stdout.decode(), done.stderr.decode())
        assert "Traceback" not in result.stderr, result.stderr
        if code is not None:
            assert result.returncode == code, result.stderr + result.stdout
        return result

    return call


def assert_one_line_error(result: subprocess.CompletedProcess[str], *words: str) -> None:
    assert result.returncode == 2
    lines = result.stderr.strip().splitlines()
    assert len(lines) == 1, result.stderr
    for word in words:
        assert word in lines[0]


def test_solve_prints_a_board_and_says_it_was_not_neural(run: Run) -> None:
    shown = run("solve", "--exact", "-", stdin=EASY).stdout
    assert " 5 3 4 │ 6 7 8 │ 9 1 2" in shown
    assert "exact solver" in shown
    assert "not a neural network" in shown


def test_solve_json_has_one_object_a_puzzle(run: Run) -> None:
    twice = EASY + "\n" + SOLVED + "\n"
    lines = [json.loads(line) for line in run("solve", "--exact", "--json", "-", stdin=twice).stdout.splitlines()]
    assert len(lines) == 2
    for line in lines:
        assert set(line) == {"solved", "source", "assignment", "status", "steps", "seconds"}
        assert line["solved"] is True
        assert (line["source"], line["status"]) == ("exact", "solved")
        assert "".join(map(str, line["assignment"])) == SOLVED
        assert line["seconds"] >= 0


def test_unsatisfiable_is_proven_and_exits_with_1(run: Run) -> None:
    result = run("solve", "--exact", "--json", "--colors", 2, "-", stdin=GRAPH, code=1)
    line = json.loads(result.stdout)
    assert (line["solved"], line["status"], line["assignment"]) == (False, "unsatisfiable", None)
    assert "no solution (proven)" in run("solve", "--exact", "--colors", 2, "-", stdin=GRAPH, code=1).stdout


def test_ran_out_is_its_own_answer(run: Run) -> None:
    size = 13
    edges = [(i, j) for i in range(1, size + 1) for j in range(i + 1, size + 1)]
    hard = f"c k {size - 1}\nc given 1 1\np edge {size} {len(edges)}\n" + "".join(f"e {i} {j}\n" for i, j in edges)
    line = json.loads(run("solve", "--exact", "--json", "--seconds", 0.3, "-", stdin=hard, code=1).stdout)
    assert (line["status"], line["assignment"]) == ("ran_out", None)


def test_givens_that_break_a_rule_have_no_solution(run: Run) -> None:
    wrong = "55" + EASY[2:]
    mixed = f"{EASY}\n{wrong}\n{EASY}\n"
    result = run("solve", "--exact", "--json", "-", stdin=mixed, code=2)
    assert_one_line_error(result, "standard input:2", "row 1 column 1", "row 1 column 2")
    assert [json.loads(line)["status"] for line in result.stdout.splitlines()] == ["solved", "unsatisfiable", "solved"]
    for command in (["solve", "--exact"], ["convert"], ["show"]):
        result = run(*command, "-", stdin=wrong, code=2)
        assert_one_line_error(result, "breaks a rule")
        said = "# standard input:1: has no solution (proven): a given breaks a rule: " if command[0] == "solve" else ""
        assert result.stdout.partition("row 1 column 1")[0] == said


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", ["holds no puzzle"]),
        (EASY[:-1], [":1:", "80 cells"]),
        (EASY + "\n\n" + EASY[:40], [":3:", "40 cells"]),
        (EASY.replace("7", "x", 1), [":1:"]),
        ("p edge 3 1\np edge 3 1\ne 1 2\n", [":2:", "second header"]),
        ("p edge 3 1\ne 2 2\n", [":2:", "self-loop"]),
        ("p edge 3 9\ne 1 2\n", [":1:", "cut off"]),
        (GRAPH, ["--colors"]),
        ('{"puzzle": "sudoku"', [":1:", "JSON"]),
        ("3x3:a1", [":1:", "81"]),
        ("4:1,2", [":1:", "16"]),
        (b"\xff\xfe\x00\x01", [":1:", "not a text file"]),
        ("\x00" * 100, [":1:"]),
        (". < .\n", ["2 rows"]),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run: Run, text: str | bytes, words: list[str], tmp_path: Path) -> None:
    (tmp_path / "bad.txt").write_bytes(text.encode() if isinstance(text, str) else text)
    for command in (["solve", "--exact"], ["convert", "--out", "out.txt"]):
        result = run(*command, "bad.txt", code=2)
        assert_one_line_error(result, "bad.txt", *words)
        assert not result.stdout
    assert {p.name for p in tmp_path.iterdir()} == {"bad.txt"}


def test_100_megabytes_of_garbage_are_refused(run: Run, tmp_path: Path) -> None:
    with open(tmp_path / "big.txt", "wb") as stream:
        block = np.random.default_rng(0).bytes(1 << 20)
        for _ in range(100):
            stream.write(block)
    assert_one_line_error(run("solve", "--exact", "big.txt", code=2), "big.txt", "larger than")


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["solve", "--exact", "nowhere.txt"], "nowhere.txt"),
        (["solve", "--exact"], "FILE"),
        (["solve", "--exact", "."], "directory"),
        (["frobnicate"], "frobnicate"),
        (["generate", "sudoku", "--size", "x"], "size"),
        (["generate", "sudoku", "--size", "9", "--mask", "50-30"], "percentages"),
        (["generate", "sudoku", "--size", "9", "--minimal", "--mask", "30-50"], "exclude"),
        (["generate", "sudoku", "--size", "9", "--rounds", "2", "--givens", "30-50"], "exclude"),
        (["generate", "sudoku", "--size", "9", "--rounds", "2", "--search"], "without search"),
        (["generate", "coloring", "--size", "4", "--rounds", "1"], "probing"),
        (["generate", "coloring", "--size", "4", "--chained"], "chains"),
        (["generate", "futoshiki", "--size", "4", "--chained", "--minimal"], "exclude"),
        (["generate", "sudoku", "--size", "9", "--format", "nope"], "nope"),
        (["data", "build", "nope"], "nope"),
        (["data", "build", "sudoku-9-17"], "--clues"),
        (["data", "verify", "--dir", "nowhere"], "nowhere"),
        (["solve", "--exact", "--box", "3", "-"], "2x3"),
        (["convert", "cut.npz"], "cut.npz"),
    ],
)
def test_wrong_use_is_one_line_and_exit_code_2(run: Run, arguments: list[str], word: str, tmp_path: Path) -> None:
    (tmp_path / "cut.npz").write_bytes(b"PK\x03\x04")
    assert_one_line_error(run(*arguments, code=2), word)


def test_check_judges(run: Run, tmp_path: Path) -> None:
    (tmp_path / "puzzle.txt").write_text(EASY)
    (tmp_path / "right.txt").write_text(SOLVED)
    assert "solved" in run("check", "puzzle.txt", "right.txt").stdout
    (tmp_path / "wrong.txt").write_text("335" + SOLVED[3:])
    result = run("check", "puzzle.txt", "wrong.txt", "--json", code=1)
    verdict = json.loads(result.stdout)
    assert verdict["solved"] is False
    assert verdict["changed"] == [0]
    assert {
        "constraint": "row(x, y) -> neq(x, y)",
        "variables": [0, 1],
        "places": ["row 1 column 1", "row 1 column 2"],
    } in verdict["broken"]
    assert "row 1 column 1" in run("check", "puzzle.txt", "wrong.txt", code=1).stdout
    verdict = json.loads(run("check", "puzzle.txt", "puzzle.txt", "--json", code=1).stdout)
    assert len(verdict["unassigned"]) == EASY.count(".")


@pytest.mark.parametrize(
    ("puzzle", "options"), [(EASY, []), (GRAPH, ["--colors", "3"]), ("4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,", [])]
)
def test_check_reads_what_solve_writes(run: Run, tmp_path: Path, puzzle: str, options: list[str]) -> None:
    (tmp_path / "puzzle.txt").write_text(puzzle)
    answer = run("solve", "--exact", "--json", "puzzle.txt", *options).stdout
    run("check", "puzzle.txt", "-", *options, stdin=answer)
    numbers = " ".join(map(str, json.loads(answer)["assignment"]))
    run("check", "puzzle.txt", "-", *options, stdin=numbers)
    rotated = [v % max(json.loads(answer)["assignment"]) + 1 for v in json.loads(answer)["assignment"]]
    run(
        "check",
        "puzzle.txt",
        "-",
        *options,
        stdin=" ".join(map(str, [rotated[0], *json.loads(answer)["assignment"][1:]])),
        code=1,
    )


@pytest.mark.parametrize(
    "solution", ["12", "{}", '{"assignment": [1, 2]}', '{"assignment": ["x"]}', SOLVED + "\n" + SOLVED, "x" * 81]
)
def test_check_refuses_what_is_no_solution(run: Run, tmp_path: Path, solution: str) -> None:
    (tmp_path / "puzzle.txt").write_text(EASY)
    assert_one_line_error(run("check", "puzzle.txt", "-", stdin=solution, code=2), "standard input")


def test_convert_and_show(run: Run, tmp_path: Path) -> None:
    drawn = run("convert", "-", "--to", "grid", stdin=EASY).stdout
    assert run("convert", "-", "--to", "line", stdin=drawn).stdout.strip() == EASY
    assert json.loads(run("convert", "-", "--json", stdin=EASY).stdout)["box"] == [3, 3]
    run("convert", "-", "--to", "sgt", "--out", "id.txt", stdin=EASY)
    assert (tmp_path / "id.txt").read_text().startswith("3x3:5_3b7")
    assert "5 3 . " in run("show", "-", stdin=EASY).stdout
    (tmp_path / "solution.txt").write_text(SOLVED)
    run("show", "-", "--svg", "board.svg", "--solution", "solution.txt", stdin=EASY)
    texts = [node.text for node in ET.parse(tmp_path / "board.svg").iter("{http://www.w3.org/2000/svg}text")]
    assert "".join(t or "" for t in texts) == SOLVED


def test_side_file_is_found(run: Run, tmp_path: Path) -> None:
    (tmp_path / "g.col").write_text(GRAPH)
    (tmp_path / "g.col.givens").write_text("k 3\ngiven 2 3\n")
    assert json.loads(run("solve", "--exact", "--json", "g.col").stdout)["assignment"][1] == 3
    (tmp_path / "g.col.givens").write_text("k 3\ngiven 9 3\n")
    assert_one_line_error(run("solve", "--exact", "g.col", code=2), "g.col.givens:2", "node 9")


def test_notes_say_what_was_assumed(run: Run) -> None:
    twelve = "." * 144
    assert "2 rows and 6 columns assumed" in run("convert", "-", stdin=twelve).stderr
    assert "assumed" not in run("convert", "-", "--box", "3x4", stdin=twelve).stderr


def test_generate_to_a_pipe_and_to_a_file(run: Run, tmp_path: Path) -> None:
    lines = run("generate", "sudoku", "--size", 9, "--count", 5, "--seed", 1).stdout.splitlines()
    assert len(lines) == 5
    assert all(len(line) == 81 for line in lines)
    assert run("generate", "sudoku", "--size", 9, "--count", 5, "--seed", 1).stdout.splitlines() == lines
    run("generate", "sudoku", "--size", 9, "--count", 5, "--seed", 1, "--out", "a.npz")
    assert run("convert", "a.npz").stdout.splitlines() == lines
    assert_one_line_error(run("generate", "sudoku", "--size", 9, "--out", "a.npz", code=2), "exists")
    assert len(load_dataset(tmp_path / "a.npz")) == 5
    item = json.loads(run("generate", "futoshiki", "--size", 4, "--json").stdout)
    assert len(item["solution"]) == 16
    run("generate", "sudoku", "--size", 8, "--rounds", 1, "--count", 2, "--out", "deep.npz")
    assert (load_dataset(tmp_path / "deep.npz").flags["rounds"] >= 1).all()
    text = run("generate", "futoshiki", "--size", 5, "--count", 3, "--format", "grid").stdout
    assert run("solve", "--exact", "--json", "-", stdin=text).stdout.count('"solved": true') == 3


def test_sudoku_9_17_from_a_list_of_clues(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with gzip.open(tmp_path / "clues.gz", "wt") as stream:
        stream.write(EASY.replace(".", "0") + "\n")
    assert_one_line_error(run("data", "build", "sudoku-9-17", "--clues", "clues.gz", code=2), "clues.gz:1", "17 clues")
    (tmp_path / "clues.txt").write_text("nonsense\n")
    assert_one_line_error(run("data", "build", "sudoku-9-17", "--clues", "clues.txt", code=2), "clues.txt:1")


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    script = f"{sys.executable} -m outgrow generate sudoku --size 4 --count 20000 --any-solution --mask 50 | head -1"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert len(done.stdout.strip()) == 16
    assert not done.stderr


@pytest.mark.parametrize(
    "command",
    [
        [],
        ["solve"],
        ["check"],
        ["convert"],
        ["show"],
        ["generate"],
        ["data"],
        ["data", "build"],
        ["data", "verify"],
        ["weights"],
    ],
)
def test_help_has_examples(run: Run, command: list[str]) -> None:
    shown = run(*command, "--help").stdout
    assert "Usage:" in shown
    if command[:1] != ["data"] or len(command) == 1:
        assert "Examples:" in shown


@pytest.mark.parametrize(
    "arguments",
    [
        ["generate", "sudoku", "--size", "16", "--count", "5000", "--out", "a.npz"],
        ["generate", "sudoku", "--size", "16", "--count", "5000", "--out", "a.npz", "--jobs", "2"],
        ["solve", "--exact", "--seconds", "60", "hard.col"],
    ],
    ids=["generate", "generate with two processes", "solve"],
)
def test_ctrl_c_is_heard_at_once(tmp_path: Path, arguments: list[str]) -> None:
    size = 40  # pigeons: no solution, and no proof of that within a minute
    edges = [(i, j) for i in range(1, size + 1) for j in range(i + 1, size + 1)]
    lines = [f"c k {size - 1}", "c given 1 1", f"p edge {size} {len(edges)}", *(f"e {i} {j}" for i, j in edges)]
    (tmp_path / "hard.col").write_text("\n".join(lines))
    process = subprocess.Popen(
        [sys.executable, "-m", "outgrow", *arguments],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored where tests run in the background
    )
    time.sleep(4)
    start = time.monotonic()
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert "Traceback" not in errors
    assert errors.strip().endswith("interrupted")
    assert ("goes on" in errors) == (arguments[0] == "generate")
    assert time.monotonic() - start < 10
    assert not (tmp_path / "a.npz").exists()


def test_a_closed_standard_input_is_one_line(tmp_path: Path) -> None:
    script = f"{sys.executable} -m outgrow solve --exact - <&-"
    done = subprocess.run(["bash", "-c", script], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert_one_line_error(done, "standard input")


@pytest.mark.parametrize(
    ("options", "text", "words"),
    [
        (["--colors", "3"], '{"puzzle": "coloring", "colors": 4, "nodes": 2, "edges": [[1, 2]]}', "says 4 colors"),
        (["--colors", "3"], EASY, "holds no coloring, which --colors is for"),
        (["--box", "1x4"], '{"puzzle": "sudoku", "box": [2, 2], "givens": [1%s]}' % (", 0" * 15), "boxes are 2x2"),
        (["--box", "2x2"], f"c k 3\n{GRAPH}", "holds no sudoku, which --box is for"),
        (["--puzzle", "coloring"], '{"puzzle": "sudoku", "box": [2, 2], "givens": [1%s]}' % (", 0" * 15), "coloring"),
    ],
)
def test_options_that_the_puzzle_does_not_follow_are_refused(
    run: Run, options: list[str], text: str, words: str
) -> None:
    for command in (["solve", "--exact"], ["show"], ["convert"]):
        assert_one_line_error(run(*command, *options, "-", stdin=text, code=2), words)


def test_what_solve_prints_can_be_checked(run: Run, tmp_path: Path) -> None:
    (tmp_path / "puzzle.txt").write_text(EASY)
    (tmp_path / "solved.txt").write_text(run("solve", "--exact", "puzzle.txt").stdout)
    run("check", "puzzle.txt", "solved.txt")


def test_files_are_written_through_links_and_never_half(run: Run, tmp_path: Path) -> None:
    (tmp_path / "link.txt").symlink_to("target.txt")
    run("convert", "-", "--out", "link.txt", stdin=EASY)
    assert (tmp_path / "link.txt").is_symlink()
    assert (tmp_path / "target.txt").read_text().strip() == EASY
    assert_one_line_error(run("convert", "-", "--out", "nowhere/a.txt", stdin=EASY, code=2), "nowhere/a.txt")


@pytest.mark.parametrize("entry", [5, [], {}, {"file": "a.npz"}], ids=str)
def test_a_malformed_manifest_is_one_line(run: Run, tmp_path: Path, entry: object) -> None:
    (tmp_path / "manifest.json").write_text(json.dumps({"sets": {"a": entry}}))
    for command in ("list", "verify"):
        assert_one_line_error(run("data", command, "--dir", ".", code=2), "manifest.json", "'a'")
