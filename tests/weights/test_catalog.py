"""The catalog says what was measured, opens what was measured, and is refused in one line if it is anything else."""

from __future__ import annotations

import dataclasses
import fnmatch
import hashlib
import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate import read_results
from outgrow.evaluate.entry import add_entry
from outgrow.graphs import Schema
from outgrow.models import BinarizedConfig, build_model
from outgrow.puzzles import parse_one
from outgrow.weights import Entry, Measured, default_weights, open_entry, read_catalog, save_weights, steps_for
from outgrow.weights.catalog import CATALOG, FOLDER, hash_file, ship

ROOT = Path(__file__).resolve().parents[2]


def build(seed: int = 0) -> Any:
    torch.manual_seed(seed)
    return build_model(Schema.of(parse_one("1.....3..4.....2").csp), BinarizedConfig(width=4, steps=2))


def weights(folder: Path, seed: int = 0) -> Path:
    path = folder / f"made-{seed}.safetensors"
    save_weights(path, build(seed), {"seed": seed})
    return path


def entry(path: Path, name: str = "tiny", **changes: Any) -> Entry:
    fields: dict[str, Any] = {
        "name": name,
        "file": f"{name}.safetensors",
        "sha256": hash_file(path),
        "puzzle": "sudoku",
        "model": "binarized",
        "recipe": "smoke",
        "seed": 1,
        "parameters": 7,
        "trained_on": ("sudoku-4-train",),
        "max_trained_values": 4,
        "chosen_how": "The median of three seeds by board accuracy on sudoku-4-valid; sudoku-4-valid chose its weights.",
        "default": False,
        "steps": ((4, 2), (9, 32), (16, 64)),
        "restart": 16,
        "notes": True,
        "scores": (Measured("sudoku-4-test", 4, 2, 500, 0.25), Measured("sudoku-9-test", 9, 2, 10, 1.0)),
        "results": "results/tiny.json",
    }
    return Entry(**{**fields, **changes})


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A catalog of two."""
    place = tmp_path / "catalog"
    first, second = weights(tmp_path, 0), weights(tmp_path, 1)
    ship(entry(first, "first", default=True), first, place)
    ship(entry(second, "second"), second, place)
    return place


def change(folder: Path, edit: Callable[[dict[str, Any]], None]) -> None:
    content = json.loads((folder / CATALOG).read_text())
    edit(content)
    (folder / CATALOG).write_text(json.dumps(content))


def refusal(folder: Path) -> str:
    with pytest.raises(DamagedFile) as caught:
        read_catalog(folder)
    line = str(caught.value)
    assert len(line.splitlines()) == 1
    assert len(line) < len(str(folder)) + 500
    assert line.startswith(f"{folder / CATALOG}: ")
    return line.removeprefix(f"{folder / CATALOG}: ")


# ---- the one that is shipped


def check_entry(found: Entry, folder: Path, root: Path) -> None:
    """All that an entry claims, against the file of weights and the file of results."""
    loaded = open_entry(found, folder)
    assert loaded.model.kind == found.model
    assert sum(p.numel() for p in loaded.model.parameters()) == found.parameters
    assert loaded.info["recipe"]["name"] == found.recipe
    assert loaded.info.get("seed") == found.seed
    own = [e for e in read_results(root / found.results) if (e.recipe, e.seed, e.model) == key_of(found)]
    assert len(own) == 1
    scores = tuple(Measured(s.dataset, s.size, s.steps, s.count, s.board) for s in own[0].scores)
    assert scores == found.scores
    assert {s.puzzle for s in own[0].scores} == {found.puzzle}
    assert found.measured()


def key_of(found: Entry) -> tuple[str, int | None, str]:
    return (found.recipe, found.seed, found.model)


def test_the_shipped_catalog_says_what_was_measured() -> None:
    entries = read_catalog()
    for found in entries.values():
        check_entry(found, FOLDER, ROOT)
    assert {e.file for e in entries.values()} == {p.name for p in FOLDER.glob("*.safetensors")}


def test_an_entry_that_says_anything_else_would_be_found_out(tmp_path: Path) -> None:
    """The test above, on an entry that is there."""
    name = "futoshiki-binarized"
    results = ROOT / "results" / f"{name}.json"
    made = add_entry(FOLDER / f"{name}.safetensors", results, name="a", folder=tmp_path)
    made = dataclasses.replace(made, results=f"results/{name}.json")
    check_entry(made, tmp_path, ROOT)
    better = (dataclasses.replace(made.scores[0], board=0.9999), *made.scores[1:])
    for changes in (
        {"scores": better},
        {"scores": made.scores[:-1]},
        {"sha256": "0" * 64},
        {"parameters": made.parameters + 1},
        {"model": "grouped"},
        {"recipe": "another"},
        {"seed": 5},
        {"puzzle": "sudoku"},
        {"results": "results/futoshiki-multivalued.json"},
        {"steps": ((12, 33),)},
    ):
        with pytest.raises((AssertionError, OutgrowError)):
            check_entry(dataclasses.replace(made, **changes), tmp_path, ROOT)


def test_the_package_takes_its_weights_along() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text())
    patterns = settings["tool"]["setuptools"]["package-data"]["outgrow"]
    for file in ("weights/catalog.json", "weights/any-name.safetensors"):
        assert any(fnmatch.fnmatch(file, pattern) for pattern in patterns), file
    assert FOLDER == ROOT / "src" / "outgrow" / "weights"


def test_the_catalog_is_read_without_torch() -> None:
    script = """
import sys
from outgrow.weights import Entry, default_weights, read_catalog
read_catalog(), default_weights("sudoku")
assert "torch" not in sys.modules
from outgrow.weights import load_weights
assert "torch" in sys.modules
"""
    subprocess.run([sys.executable, "-c", script], check=True)


# ---- reading


def test_entries_come_back(folder: Path, tmp_path: Path) -> None:
    found = read_catalog(folder)
    assert list(found) == ["first", "second"]
    assert found["first"] == entry(tmp_path / "made-0.safetensors", "first", default=True)
    assert found["second"] == entry(tmp_path / "made-1.safetensors", "second")


def test_an_empty_catalog_has_nothing_for_anyone(tmp_path: Path) -> None:
    (tmp_path / CATALOG).write_text('{"format": 1, "weights": {}}')
    assert read_catalog(tmp_path) == {}
    assert default_weights("sudoku", tmp_path) is None


def test_a_default_is_for_its_own_puzzle(folder: Path) -> None:
    found = default_weights("sudoku", folder)
    assert found is not None
    assert found.name == "first"
    assert default_weights("coloring", folder) is None


def test_what_a_caller_does_with_the_entries_stays_with_the_caller(folder: Path) -> None:
    read_catalog(folder).clear()
    assert len(read_catalog(folder)) == 2


def test_a_catalog_that_changed_is_read_again(folder: Path) -> None:
    assert "third" not in read_catalog(folder)
    change(folder, lambda content: content["weights"].pop("second"))
    assert list(read_catalog(folder)) == ["first"]


def test_a_folder_may_be_asked_for_by_another_path(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = read_catalog(folder)
    monkeypatch.chdir(folder.parent)
    assert read_catalog(Path("catalog")) == known


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("", "not a catalog"),
        ("[]", "format 1"),
        ("{}", "format 1"),
        ('{"format": 2, "weights": {}}', "format 1"),
        ('{"format": 1}', "'weights'"),
        ('{"format": 1, "weights": []}', "'weights'"),
        ("[" * 100_000, "not a catalog"),
        ("\n\n{", "not a catalog"),
    ],
    ids=range(8),
)
def test_what_is_no_catalog_is_refused(tmp_path: Path, text: str, words: str) -> None:
    (tmp_path / CATALOG).write_text(text)
    assert words in refusal(tmp_path)


def test_files_that_cannot_be_read_are_refused(tmp_path: Path) -> None:
    assert "no such file" in refusal(tmp_path)
    (tmp_path / CATALOG).write_bytes(b"\xff\xfe")
    assert "not a catalog" in refusal(tmp_path)
    (tmp_path / CATALOG).write_text(" " * ((1 << 22) + 1))
    assert "4,194,304" in refusal(tmp_path)
    (tmp_path / CATALOG).unlink()
    (tmp_path / CATALOG).mkdir()
    refusal(tmp_path)


BAD: list[tuple[str, Any]] = [
    ("name", "other"),
    ("name", "First"),
    ("name", "-x"),
    ("name", 3),
    ("file", "../first.safetensors"),
    ("file", "/etc/first.safetensors"),
    ("file", "sub/first.safetensors"),
    ("file", "first.pickle"),
    ("file", ".safetensors"),
    ("file", None),
    ("sha256", "0" * 63),
    ("sha256", "G" * 64),
    ("puzzle", ""),
    ("puzzle", "a\nb"),
    ("model", None),
    ("recipe", 1),
    ("recipe", "x" * 1001),
    ("seed", -1),
    ("seed", "0"),
    ("seed", True),
    ("parameters", 0),
    ("parameters", 1.5),
    ("trained_on", []),
    ("trained_on", "sudoku-4-train"),
    ("trained_on", [3]),
    ("max_trained_values", 0),
    ("chosen_how", ""),
    ("default", 1),
    ("steps", []),
    ("steps", [[9]]),
    ("steps", [[9, 1, 2]]),
    ("steps", [[9, 0]]),
    ("steps", [[9, 100_001]]),
    ("steps", [[9, 8], [9, 16]]),
    ("steps", [[16, 8], [9, 16]]),
    ("steps", {"9": 8}),
    ("restart", -1),
    ("restart", 100_001),
    ("restart", True),
    ("notes", 1),
    ("notes", None),
    ("scores", []),
    ("scores", {}),
    ("scores", [[]]),
    ("results", ""),
]


@pytest.mark.parametrize(("key", "value"), BAD)
def test_a_field_that_is_not_as_it_should_be_is_named(folder: Path, key: str, value: Any) -> None:
    change(folder, lambda content: content["weights"]["first"].update({key: value}))
    reason = refusal(folder)
    assert "the entry 'first': " in reason
    assert key in reason or reason.endswith("not a table)")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("dataset", ""),
        ("size", 0),
        ("size", True),
        ("steps", 0),
        ("steps", 100_001),
        ("count", 0),
        ("board", 1.01),
        ("board", -0.1),
        ("board", "1"),
        ("board", float("nan")),
        ("board", True),
    ],
)
def test_a_score_that_is_not_as_it_should_be_is_named(folder: Path, key: str, value: Any) -> None:
    change(folder, lambda content: content["weights"]["second"]["scores"][1].update({key: value}))
    reason = refusal(folder)
    assert f"the entry 'second': {key} is" in reason


def test_fields_are_all_there_and_no_others(folder: Path) -> None:
    for field in dataclasses.fields(Entry):
        kept = (folder / CATALOG).read_text()
        change(folder, lambda content, name=field.name: content["weights"]["first"].pop(name))
        assert f"the entry 'first': {field.name} is missing" in refusal(folder)
        (folder / CATALOG).write_text(kept)
    change(folder, lambda content: content["weights"]["first"].update(rank=1))
    assert "the entry 'first': 'rank' is no part of one" in refusal(folder)
    change(folder, lambda content: content["weights"].update(first=[]))
    assert "the entry 'first': not a table" in refusal(folder)


def test_two_defaults_for_a_puzzle_are_refused(folder: Path) -> None:
    change(folder, lambda content: content["weights"]["second"].update(default=True))
    assert "two defaults for sudoku: first and second" in refusal(folder)
    change(folder, lambda content: content["weights"]["second"].update(puzzle="futoshiki"))
    assert len(read_catalog(folder)) == 2


# ---- steps


@pytest.mark.parametrize(
    ("size", "steps"), [(1, 2), (4, 2), (5, 32), (9, 32), (10, 64), (16, 64), (17, 64), (10_000, 64)]
)
def test_steps_go_by_size(folder: Path, size: int, steps: int) -> None:
    assert steps_for(read_catalog(folder)["first"], size) == steps


def test_the_accuracy_of_solving_is_that_after_its_own_steps(folder: Path) -> None:
    found = read_catalog(folder)["first"]
    assert [m.dataset for m in found.measured()] == ["sudoku-4-test"]  # at 9 it runs 32 steps, and 2 were measured


# ---- opening and shipping


def test_opening_gives_the_weights_that_were_shipped(folder: Path) -> None:
    for seed, found in enumerate(read_catalog(folder).values()):
        loaded = open_entry(found, folder)
        assert loaded.info == {"seed": seed}
        for name, tensor in build(seed).state_dict().items():
            assert torch.equal(loaded.model.state_dict()[name], tensor)


def test_a_file_that_is_not_the_one_measured_is_refused(folder: Path) -> None:
    found = read_catalog(folder)
    (folder / "first.safetensors").write_bytes((folder / "second.safetensors").read_bytes())  # a good file, another one
    with pytest.raises(DamagedFile, match=r"first\.safetensors: not the file that the catalog names"):
        open_entry(found["first"], folder)
    (folder / "first.safetensors").unlink()
    with pytest.raises(DamagedFile, match=r"first\.safetensors: no such file"):
        open_entry(found["first"], folder)
    (folder / "first.safetensors").mkdir()
    with pytest.raises(DamagedFile, match=r"first\.safetensors: not a file"):
        open_entry(found["first"], folder)


def test_a_new_default_takes_the_place_of_the_old(folder: Path, tmp_path: Path) -> None:
    third = weights(tmp_path, 2)
    ship(entry(third, "a-graph", puzzle="coloring", default=True), third, folder)
    ship(entry(third, "third", default=True), third, folder)
    found = read_catalog(folder)
    assert list(found) == ["a-graph", "first", "second", "third"]
    assert [e.default for e in found.values()] == [True, False, False, True]
    assert default_weights("sudoku", folder) == found["third"]
    assert (folder / "third.safetensors").read_bytes() == third.read_bytes()
    ship(entry(third, "first"), third, folder)  # again, with other weights
    assert read_catalog(folder)["first"].sha256 == hashlib.sha256(third.read_bytes()).hexdigest()
    assert len(read_catalog(folder)) == 4


def test_nothing_is_shipped_that_could_not_be_read_again(folder: Path, tmp_path: Path) -> None:
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    third = weights(tmp_path, 2)
    for bad in (
        {"name": "Third"},
        {"file": "../third.safetensors"},
        {"scores": ()},
        {"chosen_how": ""},
        {"steps": ((9, 0),)},
    ):
        with pytest.raises(OutgrowError, match="the entry"):
            ship(dataclasses.replace(entry(third, "third"), **bad), third, folder)
    with pytest.raises(OutgrowError, match="not the file that the entry 'third' was made for"):
        ship(entry(third, "third"), tmp_path / "made-0.safetensors", folder)
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before
    assert {p.name for p in tmp_path.iterdir()} == {"catalog", *(f"made-{i}.safetensors" for i in range(3))}
