"""`outgrow solve` with a network: what it says, what it never shows, and in which order."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command import Done, Run, run_command

import outgrow.solve.neural as neural
import outgrow.solve.solver as solver
import outgrow.weights.catalog as catalog
from outgrow.cli.main import main
from outgrow.csp.exact import ExactSolver
from outgrow.errors import OutgrowError
from outgrow.evaluate.entry import add_entry
from outgrow.graphs import Schema
from outgrow.models import BinarizedConfig, GroupedConfig, build_model
from outgrow.puzzles import Instance, parse_one
from outgrow.solve import Proposal
from outgrow.weights import Entry, Measured, save_weights

ROOT = Path(__file__).resolve().parents[2]
FOUR = "1.....3..4.....2"
OTHER = ".2....1..4....3."
NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
NINE_SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
LATIN = "4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,"
CONFLICT = "11" + "." * 14
KEYS = {"solved", "source", "assignment", "status", "steps", "seconds"}


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    """The command in this process, on a file of these lines: torch is loaded once."""

    def call(*arguments: object, text: str = FOUR, code: int = 0) -> Done:
        (tmp_path / "puzzles.txt").write_text(text)
        monkeypatch.chdir(tmp_path)
        return run_command(monkeypatch, capsys, "solve", *arguments, "puzzles.txt", code=code)

    return call


def lines(done: Done) -> list[dict[str, Any]]:
    return [json.loads(line) for line in done.out.splitlines()]


def untrained(path: Path, text: str, marks: int = 0, **info: Any) -> Path:
    torch.manual_seed(0)
    config = GroupedConfig(width=4, steps=3, marks=marks) if marks else BinarizedConfig(width=4, steps=3)
    save_weights(path, build_model(Schema.of(parse_one(text).csp), config), info)
    return path


def ship(folder: Path, name: str, puzzle: str, text: str, marks: int = 0, **changes: Any) -> None:
    path = untrained(folder / "made.safetensors", text, marks)
    fields: dict[str, Any] = {
        "name": name,
        "file": f"{name}.safetensors",
        "sha256": catalog.hash_file(path),
        "puzzle": puzzle,
        "model": "binarized",
        "recipe": "smoke",
        "seed": 0,
        "parameters": 1,
        "trained_on": (f"{puzzle}-4-train",),
        "max_trained_values": 4,
        "chosen_how": "By lot.",
        "default": True,
        "steps": ((4, 7), (9, 20)),
        "restart": 0,
        "notes": False,
        "scores": (Measured(f"{puzzle}-4-test", 4, 7, 10, 0.5),),
        "results": "results/none.json",
    }
    catalog.ship(Entry(**{**fields, **changes}), path, folder / "catalog")


@pytest.fixture
def shipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Defaults for Sudoku and Futoshiki, none for coloring, and another one for Sudoku."""
    ship(tmp_path, "boards", "sudoku", FOUR)
    ship(tmp_path, "signs", "futoshiki", LATIN, steps=((9, 7),))
    ship(tmp_path, "others", "sudoku", FOUR, default=False, max_trained_values=9, steps=((36, 5),))
    monkeypatch.setattr(catalog, "FOLDER", tmp_path / "catalog")
    return tmp_path / "catalog"


class Told:
    """In place of `solve_parts`: right but for the puzzles named, and a record of what it was asked."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.calls: list[tuple[int, int, Any]] = []
        self.restarts: list[int] = []
        self.notes: list[bool] = []

    def __call__(
        self,
        model: Any,
        instances: Sequence[Instance],
        steps: int,
        *,
        restart: int,
        notes: bool,
        device: Any,
    ) -> Iterator[list[Proposal]]:
        self.restarts.append(restart)
        self.notes.append(notes)
        self.calls.append((len(instances), steps, model))
        for instance in instances:
            with ExactSolver(instance.csp) as solver:
                answer = solver.solve(instance.givens).assignment
            assert answer is not None
            if "".join(str(v or ".") for v in instance.givens) in self.wrong:
                answer = np.where(instance.givens > 0, instance.givens, instance.givens.max() % instance.size + 1)
            solved = instance.judge(answer).solved
            yield [Proposal(answer, solved, 3 if solved else steps, np.ones(len(answer), dtype=np.float32), 0.25)]


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch, shipped: Path) -> Told:
    fake = Told()
    monkeypatch.setattr(neural, "solve_parts", fake)
    return fake


# ---- what it says


def test_a_solved_board_is_shown_with_who_solved_it_and_that_it_was_checked(run: Run, told: Told) -> None:
    shown = run(text=NINE)
    assert " 5 3 4 │ 6 7 8 │ 9 1 2" in shown.out
    assert (
        "# Sudoku of size 9: solved by a neural network (boards, trained on at most 4 values) in 3 steps, 0.25 s."
        in shown.out
    )
    assert "# Checked: every rule holds, all 30 givens are kept, 51 values were found." in shown.out
    assert "exact" not in shown.out
    assert shown.err == ""


def test_givens_and_found_values_are_told_apart(run: Run, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    from rich.console import Console

    import outgrow.cli.terminal as terminal

    monkeypatch.setattr(terminal, "console", Console(force_terminal=True, color_system="standard", soft_wrap=True))
    shown = run(text=FOUR).out
    assert shown.count("\x1b[94m") == FOUR.count(".")
    assert shown.count("\x1b[1m") == 16 - FOUR.count(".")


def test_an_answer_that_breaks_a_rule_is_not_shown(run: Run, told: Told) -> None:
    told.wrong = [FOUR]
    shown = run("--no-guarantee", code=1)
    [line] = shown.out.strip().splitlines()
    assert line == (
        "# puzzles.txt:1: not solved: the network's answer breaks a rule "
        "('row': row 1 column 1 is 1 and row 1 column 2 is 1; 44 more), so it is not shown as a solution"
    )


def test_what_was_assumed_is_said(run: Run, told: Told) -> None:
    assert run(text="." * 36).err.startswith("note: boxes of 2 rows and 3 columns assumed")


def test_json_has_one_object_a_puzzle(run: Run, told: Told) -> None:
    told.wrong = [OTHER]
    first, second = lines(run("--json", "--no-guarantee", text=f"{NINE}\n{OTHER}\n", code=1))
    assert set(first) == KEYS
    assert "".join(map(str, first["assignment"])) == NINE_SOLVED
    assert {k: first[k] for k in KEYS - {"assignment"}} == {
        "solved": True,
        "source": "neural",
        "status": "solved",
        "steps": 3,
        "seconds": 0.25,
    }
    assert set(second) == {*KEYS, "reason"}
    assert (second["solved"], second["assignment"], second["status"]) == (False, None, "unsolved")
    assert (second["source"], second["steps"]) == ("neural", 7)
    assert second["reason"].startswith("'row': row 1 column 1 is ")


def test_givens_that_break_a_rule_have_no_solution_and_the_others_are_solved(run: Run, told: Told) -> None:
    shown = run("--json", text=f"{FOUR}\n{CONFLICT}\n{OTHER}\n", code=2)
    assert [line["status"] for line in lines(shown)] == ["solved", "unsatisfiable", "solved"]
    assert {k: lines(shown)[1][k] for k in KEYS - {"seconds"}} == {
        "solved": False,
        "source": "exact",
        "assignment": None,
        "status": "unsatisfiable",
        "steps": 0,
    }
    assert lines(shown)[1]["reason"].startswith("a given breaks a rule: row 1 column 1 is 1 and row 1 column 2 is 1")
    assert len(shown.err.splitlines()) == 1
    assert "puzzles.txt:2: a given breaks a rule" in shown.err
    assert [count for count, *_ in told.calls] == [2]
    shown = run(text=CONFLICT, code=2)
    assert shown.out.startswith("# puzzles.txt:1: has no solution (proven): a given breaks a rule: row 1 column 1 is 1")
    assert len(shown.err.splitlines()) == 1


def test_what_it_prints_can_be_checked(run: Run, told: Told, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for options in ([], ["--json"]):
        (tmp_path / "solved.txt").write_text(run(*options, text=NINE).out)
        monkeypatch.setattr(sys, "argv", ["outgrow", "check", "puzzles.txt", "solved.txt"])
        with pytest.raises(SystemExit) as caught:
            main()
        assert caught.value.code == 0


# ---- many


def test_many_puzzles_of_mixed_kinds_and_sizes_come_in_their_order(run: Run, told: Told) -> None:
    told.wrong = [OTHER]
    text = "\n".join([FOUR, LATIN, NINE, CONFLICT, OTHER, LATIN, NINE, FOUR])
    found = lines(run("--json", "--no-guarantee", text=text, code=2))
    assert [line["status"] for line in found] == [*["solved"] * 3, "unsatisfiable", "unsolved", *["solved"] * 3]
    sizes = [len(line["assignment"] or []) for line in found]
    assert sizes == [16, 16, 81, 0, 0, 16, 81, 16]
    assert found[0]["assignment"] == found[7]["assignment"]
    assert parse_one(FOUR).judge(np.array(found[0]["assignment"])).solved
    assert parse_one(LATIN).judge(np.array(found[1]["assignment"])).solved
    # Those of one kind and number of steps together: 4x4 boards, Futoshikis, 9x9 boards.
    assert [(count, steps) for count, steps, _ in told.calls] == [(3, 7), (2, 7), (2, 20)]
    boards, signs, larger = (model for *_, model in told.calls)
    assert boards is larger
    assert boards.schema == Schema.of(parse_one(FOUR).csp)
    assert signs.schema == Schema.of(parse_one(LATIN).csp)


def test_more_than_three_are_a_line_each_and_a_summary(run: Run, told: Told) -> None:
    told.wrong = [OTHER]
    text = "\n".join([FOUR, NINE, OTHER, FOUR, LATIN])
    shown = run("--no-guarantee", text=text, code=1)
    out = shown.out.splitlines()
    assert out[1] == NINE_SOLVED
    assert out[2].startswith("# puzzles.txt:3: not solved: ")
    assert len(out) == 5
    names = "(boards, trained on at most 4 values; signs, trained on at most 4 values)"
    assert [line.split() for line in shown.err.splitlines()[:-1]] == [
        ["puzzle", "size", "puzzles", "solved", "neural", "exact", "steps", "seconds"],
        ["futoshiki", "4", "1", "1", "1", "0", "3", "0.2"],
        ["sudoku", "4", "3", "2", "2", "0", "3", "0.8"],
        ["sudoku", "9", "1", "1", "1", "0", "3", "0.2"],
    ]
    assert shown.err.endswith(f"\n4 of 5 solved and checked, 4 of them by a neural network {names}\n")
    shown = run(text=text)
    assert shown.out.splitlines()[2] == "1243431234212134"
    assert shown.err.splitlines()[2].split()[:6] == ["sudoku", "4", "3", "3", "2", "1"]
    assert shown.err.endswith(f"\n5 of 5 solved and checked, 4 of them by a neural network {names}\n")


def test_long_files_are_solved_in_parts(run: Run, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(solver, "_CHUNK", 4)
    told.wrong = [OTHER]
    text = "\n".join([FOUR, OTHER, NINE, FOUR, FOUR, CONFLICT, OTHER, NINE, NINE])
    found = lines(run("--json", "--no-guarantee", text=text, code=2))
    said = ["solved", "unsolved", "solved", "solved", "solved", "unsatisfiable", "unsolved", "solved", "solved"]
    assert [line["status"] for line in found] == said
    assert [(count, steps) for count, steps, _ in told.calls] == [(3, 7), (1, 20), (2, 7), (1, 20), (1, 20)]


def test_progress_counts_every_puzzle_once(run: Run, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    from contextlib import contextmanager

    import outgrow.cli.terminal as terminal

    seen: list[int] = []

    @contextmanager
    def track(title: str, total: int, beside_output: bool = False) -> Any:
        assert (total, beside_output) == (7, True)
        yield seen.append

    monkeypatch.setattr(terminal, "track", track)
    monkeypatch.setattr(solver, "_CHUNK", 5)
    run("--json", text="\n".join([FOUR, NINE, CONFLICT, LATIN, NINE, FOUR, NINE]), code=2)
    assert seen == [2, 3, 4, 5, 5, 6, 7, 7]  # the one that contradicts itself took no time; and at the end of each part


# ---- which weights, how many steps


def test_weights_may_be_named(run: Run, told: Told) -> None:
    assert "(others, trained on at most 9 values) in 3 steps" in run("--weights", "others", text=NINE).out
    assert told.calls[-1][1] == 5
    run("--steps", 77, text=NINE)
    assert told.calls[-1][1] == 77
    shown = run("--weights", "nothing", code=2)
    assert len(shown.err.splitlines()) == 1
    assert "no weights 'nothing'" in shown.err


def test_weights_may_be_a_file(run: Run, told: Told, tmp_path: Path) -> None:
    recipe = {"data": {"train": ["sudoku-4-train", "[bold]x"]}}
    path = untrained(tmp_path / "my own [red].safetensors", FOUR, recipe=recipe)
    shown = run("--weights", path).out
    assert (
        "solved by a neural network (my own [red].safetensors, trained on sudoku-4-train, [bold]x) in 3 steps" in shown
    )
    assert told.calls[-1][1] == 3  # the model's own
    path = untrained(tmp_path / "plain.safetensors", FOUR, recipe=None)
    assert "(plain.safetensors) in 3 steps" in run("--weights", path, "--steps", 9).out
    assert told.calls[-1][1] == 9


def test_without_weights_for_a_puzzle_it_says_what_to_do(
    run: Run, shipped: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = "c k 2\np edge 3 2\ne 1 2\ne 2 3\n"
    shown = run(text=graph, code=2)
    assert shown.err == "outgrow: no trained weights are shipped yet for a coloring; solve with --exact\n"
    shown = run(text=f'{FOUR}\n{{"puzzle": "coloring", "colors": 2, "nodes": 2, "edges": [[1, 2]]}}', code=2)
    assert shown.out == ""
    assert "for a coloring; solve with --exact" in shown.err
    (shipped / "catalog.json").write_text('{"format": 1, "weights": {}}')
    shown = run(text="." * 144, code=2)  # without the note about its boxes
    assert shown.err == "outgrow: no trained weights are shipped yet for a sudoku; solve with --exact\n"


def test_a_file_that_is_not_the_one_shipped_is_refused(run: Run, shipped: Path) -> None:
    (shipped / "boards.safetensors").write_bytes((shipped / "signs.safetensors").read_bytes())
    shown = run(code=2)
    assert len(shown.err.splitlines()) == 1
    assert "boards.safetensors: not the file that the catalog names" in shown.err


def test_it_starts_over_as_the_weights_were_measured_or_as_it_is_told(run: Run, told: Told, tmp_path: Path) -> None:
    ship(tmp_path, "again", "sudoku", FOUR, marks=2, default=False, restart=6)
    for options, steps, restart in (
        (["--no-guarantee"], 24, 6),  # at least the 20 steps of the catalog, in attempts of 6
        ([], 6, 0),  # the exact solver finishes
        (["--restarts", 2], 18, 6),
        (["--restarts", 2, "--steps", 5], 15, 5),
        (["--no-guarantee", "--restarts", 0], 6, 0),
        (["--no-guarantee", "--steps", 5], 5, 0),
    ):
        run("--weights", "again", *options, text=NINE)
        assert (told.calls[-1][1], told.restarts[-1]) == (steps, restart), options
    run("--no-guarantee", text=NINE)
    assert (told.calls[-1][1], told.restarts[-1]) == (20, 0)  # weights that never start over


def test_it_takes_notes_as_the_catalog_says_or_as_it_is_told(run: Run, told: Told, tmp_path: Path) -> None:
    ship(tmp_path, "noting", "sudoku", FOUR, marks=2, default=False, restart=16, notes=True)
    for weights, options, notes in (
        ("noting", ["--no-guarantee"], True),
        ("noting", ["--no-guarantee", "--no-notes"], False),
        ("noting", [], False),  # one attempt
        ("noting", ["--restarts", 3, "--steps", 15], False),  # too short for notes that nobody asked for
        ("boards", [], False),
        ("boards", ["--notes", "--restarts", 1, "--steps", 16], True),
        (str(tmp_path / "made.safetensors"), [], False),  # a file of one's own
        (str(tmp_path / "made.safetensors"), ["--notes", "--restarts", 1, "--steps", 16], True),
    ):
        run("--weights", weights, *options, text=NINE)
        assert told.notes[-1] is notes, (weights, options)


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (["--exact", "--weights", "boards"], "--exact"),
        (["--exact", "--steps", "3"], "--exact"),
        (["--exact", "--device", "cpu"], "--exact"),
        (["--exact", "--restarts", "3"], "--exact"),
        (["--exact", "--no-notes"], "--exact"),
        (["--notes"], "notes are taken where a network starts over"),
        (["--notes", "--restarts", "2", "--steps", "15"], "too short for notes; 16 are the least"),
        (["--exact", "--guarantee"], "--exact"),
        (["--exact", "--trace", "x.gif"], "--exact"),
        (["--exact", "--model", "grouped"], "--exact"),
        (["--restarts", "-1"], "restarts"),
        (["--no-guarantee", "--seconds", "3"], "--exact"),
        (["--model", "grouped", "--weights", "boards"], "--model"),
        (["--model", "grouped"], "no weights of a grouped model are shipped for a sudoku; there are: binarized"),
        (["--model", "neural"], "neural"),
        (["--trace", "x.png"], ".svg or .gif"),
        (["--trace", "x.svg", "--out", "./x.svg"], "both name"),
        (["--steps", "1000", "--restarts", "999"], "1,000 attempts of 1,000 steps"),
        (["--trace", "nowhere/x.svg"], "nowhere/x.svg: the folder does not exist"),
        (["--out", "nowhere/x.txt"], "nowhere/x.txt: cannot be written"),
        (["--out", "."], "is a folder"),
        (["--seconds", "nan"], "not a number"),
        (["--steps", "0"], "steps"),
        (["--steps", "100001"], "steps"),
        (["--device", "nowhere"], "nowhere"),
        (["--weights", "none.safetensors"], "none.safetensors"),
    ],
)
def test_options_that_make_no_sense_are_one_line(run: Run, shipped: Path, options: list[str], word: str) -> None:
    shown = run(*options, code=2)
    assert shown.out == ""
    assert len(shown.err.splitlines()) == 1
    assert word in shown.err


def test_the_exact_solver_is_as_it_was(run: Run, told: Told) -> None:
    shown = run("--exact", "--seconds", 5, text=NINE).out
    assert "# Sudoku of size 9: solved by the exact solver (SAT, not a neural network) in 0." in shown
    [line] = lines(run("--exact", "--json"))
    assert set(line) == KEYS
    assert (line["source"], line["steps"]) == ("exact", 0)
    assert "5 of 5 solved and checked\n" in run("--exact", text="\n".join([FOUR] * 5)).err
    assert not told.calls


# ---- a guarantee


def test_what_the_network_does_not_solve_the_exact_solver_does(run: Run, told: Told) -> None:
    told.wrong = [OTHER, NINE]
    first, second = lines(run("--json", text=f"{OTHER}\n{FOUR}\n"))
    assert (first["source"], first["status"], first["steps"]) == ("exact", "solved", 7)
    assert parse_one(OTHER).judge(np.array(first["assignment"])).solved
    assert second["source"] == "neural"
    assert "reason" not in first
    shown = run(text=NINE).out
    assert (
        "# Sudoku of size 9: solved by the exact solver (SAT, not a neural network), where a neural network "
        "(boards, trained on at most 4 values) had not in 20 steps; 0."
    ) in shown
    assert " 5 3 4 │ 6 7 8 │ 9 1 2" in shown


def test_what_has_no_solution_is_proven_to_have_none(run: Run, shipped: Path) -> None:
    text = "123....4" + "." * 8  # nothing is left for the end of the first row
    shown = run(text=text, code=1)
    assert shown.out == "# puzzles.txt:1: has no solution (proven)\n"
    [line] = lines(run("--json", text=text, code=1))
    assert (line["status"], line["source"], line["assignment"]) == ("unsatisfiable", "exact", None)
    [line] = lines(run("--json", "--no-guarantee", text=text, code=1))
    assert (line["status"], line["source"], line["assignment"]) == ("unsolved", "neural", None)
    [line] = lines(run("--json", "--no-guarantee", "--unique", text=text, code=1))
    assert (line["status"], line["source"], line["assignment"]) == ("unsatisfiable", "exact", None)


def test_whether_there_are_other_solutions(run: Run, told: Told) -> None:
    assert "# It is the only solution (proven).\n" in run("--unique").out
    assert "# There are other solutions as well.\n" in run("--unique", text="1234" + "." * 12).out
    found = lines(run("--unique", "--json", text=f"{FOUR}\n{'.' * 16}\n"))
    assert [line["unique"] for line in found] == [True, False]
    assert all(line["solved"] for line in found)
    out = run("--unique", text=f"{FOUR}\n{'.' * 16}\n{FOUR}\n{FOUR}\n").out.splitlines()
    assert out[1] == "# puzzles.txt:2: there are other solutions as well"
    assert len(out) == 5
    assert "# Whether there are other solutions was not settled in time.\n" in run("--unique", "--seconds", 0).out
    [line] = lines(run("--unique", "--json", "--seconds", 0))
    assert line["solved"]
    assert "unique" not in line


def test_time_that_runs_out_is_said(run: Run, told: Told) -> None:
    told.wrong = [NINE]
    shown = run("--seconds", 0, text=NINE, code=1)
    assert shown.out == "# puzzles.txt:1: not solved: the exact solver's time ran out\n"


# ---- files


def test_answers_go_to_a_file(run: Run, told: Told, tmp_path: Path) -> None:
    shown = run("--out", "answers.txt", text=f"{FOUR}\n{OTHER}\n")
    assert shown.out == ""
    assert (tmp_path / "answers.txt").read_text() == "1324423124133142\n1243431234212134\n"
    run("--json", "--out", "answers.txt")
    assert json.loads((tmp_path / "answers.txt").read_text())["status"] == "solved"
    assert sorted(p.name for p in tmp_path.glob("*answers*")) == ["answers.txt"]


def test_interrupted_what_was_done_is_kept(
    run: Run, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(solver, "_CHUNK", 2)

    def stop(*arguments: Any, **more: Any) -> Iterator[list[Proposal]]:
        if len(told.calls) == 2:
            raise KeyboardInterrupt
        return told(*arguments, **more)

    monkeypatch.setattr(neural, "solve_parts", stop)
    shown = run("--out", "answers.txt", text="\n".join([FOUR] * 7), code=130)
    assert shown.err.endswith("outgrow: interrupted\n")
    assert (tmp_path / "answers.txt").read_text() == "1324423124133142\n" * 4
    told.calls.clear()
    assert run(text="\n".join([FOUR] * 7), code=130).out == "1324423124133142\n" * 4


def test_interrupted_before_anything_was_done_the_old_file_stays(
    run: Run, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def stop(*arguments: Any, **more: Any) -> Iterator[list[Proposal]]:
        raise KeyboardInterrupt

    monkeypatch.setattr(neural, "solve_parts", stop)
    (tmp_path / "old.txt").write_text("old")
    run("--out", "old.txt", code=130)
    assert (tmp_path / "old.txt").read_text() == "old"


@pytest.mark.parametrize("box", ["3x4", "4x3", "2x6", "6x6", "1x1", "1x5", "5x1", "2x1"])
def test_what_is_written_is_read_as_the_same_puzzle(run: Run, told: Told, tmp_path: Path, box: str) -> None:
    rows, columns = map(int, box.split("x"))
    size = rows * columns
    text = json.dumps({"puzzle": "sudoku", "box": [rows, columns], "givens": [0] * size**2})
    out = run("--exact", "--out", "answers.txt", text=text).out
    assert out == ""
    again = parse_one((tmp_path / "answers.txt").read_text())
    assert again.shape == (rows, columns)
    assert again.judge(again.givens).solved


def test_a_reader_that_goes_away_is_no_puzzle_unsolved(tmp_path: Path) -> None:
    (tmp_path / "puzzles.txt").write_text(FOUR)
    command = [sys.executable, "-m", "outgrow", "solve", "--exact", "puzzles.txt"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.close()
        assert process.wait() == 141


def test_standard_output_may_be_named(run: Run, told: Told, tmp_path: Path) -> None:
    assert run("--out", "-").out == "1324423124133142\n"
    assert not (tmp_path / "-").exists()
    assert "empty" in run("--out", "", code=2).err


def test_a_pipe_is_written_to(shipped: Path, tmp_path: Path) -> None:
    (tmp_path / "puzzles.txt").write_text(FOUR)
    done = subprocess.run(
        [sys.executable, "-m", "outgrow", "solve", "--exact", "--out", "/dev/stdout", "puzzles.txt"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1324423124133142\n"


def test_a_terminal_without_box_drawings(tmp_path: Path) -> None:
    (tmp_path / "puzzles.txt").write_text(FOUR)
    done = subprocess.run(
        [sys.executable, "-m", "outgrow", "solve", "--exact", "puzzles.txt"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONIOENCODING": "ascii"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "solved by the exact solver" in done.stdout


def test_a_fault_leaves_no_file(run: Run, told: Told, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: Any, **more: Any) -> Iterator[list[Proposal]]:
        raise OutgrowError("too large")

    monkeypatch.setattr(neural, "solve_parts", refuse)
    (tmp_path / "old.txt").write_text("old")
    run("--out", "new.txt", code=2)
    run("--out", "old.txt", code=2)
    assert (tmp_path / "old.txt").read_text() == "old"
    assert not list(tmp_path.glob("*new*"))
    assert not list(tmp_path.glob(".*old*"))


@pytest.mark.parametrize("ending", ["svg", "gif"])
def test_a_trace_is_a_moving_picture(run: Run, shipped: Path, tmp_path: Path, ending: str) -> None:
    run("--trace", f"moving.{ending}", text=NINE)
    content = (tmp_path / f"moving.{ending}").read_bytes()
    assert content.startswith(b"<svg" if ending == "svg" else b"GIF89a")
    run("--trace", f"other.{ending}", "--out", "none/answers.txt", code=2)
    assert not (tmp_path / f"other.{ending}").exists()
    shown = run("--trace", f"moving.{ending}", text=f"{FOUR}\n{FOUR}", code=2)
    assert shown.err == "outgrow: --trace draws one puzzle, and puzzles.txt holds 2\n"


# ---- real networks


def test_weights_that_do_not_fit_are_one_line(run: Run, shipped: Path, tmp_path: Path) -> None:
    shown = run("--weights", "boards", text=LATIN, code=2)
    assert shown.out == ""
    assert shown.err.startswith("outgrow: puzzles.txt:1: the model was built for (constraint edges row, col, box;")
    assert shown.err.endswith("; the weights are boards, trained on at most 4 values\n")
    assert len(shown.err.splitlines()) == 1
    text = f"{FOUR}\n" * 4 + LATIN  # before anything is solved
    shown = run("--json", "--weights", "boards", "--out", "answers.txt", text=text, code=2)
    assert shown.err.startswith("outgrow: puzzles.txt:5: ")
    assert not (tmp_path / "answers.txt").exists()


def test_an_untrained_network_solves_what_is_solved_and_nothing_else(run: Run, shipped: Path) -> None:
    text = f"{NINE_SOLVED}\n{NINE}\n{'.' * 16}\n{NINE_SOLVED}"
    found = lines(run("--json", "--no-guarantee", text=text, code=1))
    assert [(line["status"], line["steps"]) for line in found] == [
        ("solved", 1),
        ("unsolved", 20),
        ("unsolved", 7),
        ("solved", 1),
    ]
    assert "in 1 step, " in run(text=NINE_SOLVED).out


def test_shipped_weights_solve_a_puzzle(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name = "futoshiki-binarized"
    weights, results = catalog.FOLDER / f"{name}.safetensors", ROOT / "results" / f"{name}.json"
    add_entry(weights, results, name=name, default=True, folder=tmp_path)
    monkeypatch.setattr(catalog, "FOLDER", tmp_path)
    text = "6:4R,2,6DL,5,1,3L,1,0,2,0L,4,6U,3,6,0,4,2,5L,2,4,3,0D,5D,0,6D,1,0,2,0,0,5,3,4R,1,0R,0,"
    shown = run(text=text).out
    assert (
        "Futoshiki of size 6: solved by a neural network (futoshiki-binarized, trained on at most 6 values) in "
        in shown
    )
    assert "Checked: every rule holds, all 26 givens are kept, 10 values were found." in shown


def test_two_verdicts_that_differ_are_a_fault_of_ours(run: Run, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    right = told.__call__

    def lying(*arguments: Any, **more: Any) -> Iterator[list[Proposal]]:
        for [a] in right(*arguments, **more):
            yield [Proposal(a.assignment % 4 + 1, True, a.steps, a.confidence, a.seconds)]

    monkeypatch.setattr(neural, "solve_parts", lying)
    monkeypatch.setattr(sys, "argv", ["outgrow", "solve", "puzzles.txt"])
    with pytest.raises(AssertionError, match="two verdicts"):
        run()


def test_saying_that_there_are_no_weights_needs_no_torch(tmp_path: Path) -> None:
    script = """
import sys
from pathlib import Path
import outgrow.weights.catalog as catalog
from outgrow.cli.main import main
catalog.FOLDER = Path(sys.argv.pop())
try:
    main()
finally:
    assert "torch" not in sys.modules
"""
    (tmp_path / "catalog.json").write_text('{"format": 1, "weights": {}}')
    done = subprocess.run(
        [sys.executable, "-c", script, "solve", "-", str(tmp_path)],
        input=FOUR,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, len(done.stderr.splitlines())) == (2, 1), done.stderr
    assert "solve with --exact" in done.stderr


def test_a_fault_of_the_user_within_the_network_is_one_line(
    run: Run, told: Told, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any, **more: Any) -> Iterator[list[Proposal]]:
        raise OutgrowError("puzzles.txt:1: too large")

    monkeypatch.setattr(neural, "solve_parts", refuse)
    assert run(code=2).err == "outgrow: puzzles.txt:1: too large\n"
