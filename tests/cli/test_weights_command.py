"""`outgrow weights`: what there is, and how maintainers add to it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from command import Done, Run, run_command

import outgrow.weights.catalog as catalog
from outgrow.weights import read_catalog

RESULTS = Path(__file__).resolve().parents[2] / "results"
SHIPPED = catalog.FOLDER


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Run:
    monkeypatch.chdir(tmp_path)

    def call(*arguments: object, code: int = 0) -> Done:
        done = run_command(monkeypatch, capsys, "weights", *arguments, code=code)
        assert len(done.err.splitlines()) == (1 if code else 0)
        return done

    return call


def files(model: str) -> tuple[Path, Path]:
    return SHIPPED / f"futoshiki-{model}.safetensors", RESULTS / f"futoshiki-{model}.json"


def test_an_empty_catalog_is_said_to_be_empty(run: Run, tmp_path: Path) -> None:
    (tmp_path / "catalog.json").write_text('{"format": 1, "weights": {}}')
    assert run("list", "--dir", ".").out == "no trained weights come with this version\n"
    assert run("list", "--dir", ".", "--json").out == ""


def test_the_list_shows_what_was_measured(run: Run, tmp_path: Path) -> None:
    shown = run("add", *files("binarized"), "--name", "plain", "--dir", "new").out
    assert shown == (
        "new/plain.safetensors: 482,881 parameters. The only seed that was measured; futoshiki-6-valid chose its weights.\n"
    )
    run("add", *files("multivalued"), "--name", "values", "--default", "--dir", "new")
    head, plain, values = run("list", "--dir", "new").out.splitlines()
    assert " ".join(head.split()) == (
        "name puzzle model trained on values default parameters file board accuracy % by size"
    )
    assert plain.split() == [
        *("plain", "futoshiki", "binarized", "futoshiki-6-train", "<=", "6", "482,881", "1.9", "MB"),
        *("6:", "100.0", "7:", "98.5", "8:", "63.9", "9:", "8.5", "10:", "0.0", "11:", "0.0", "12:", "0.0"),
    ]
    assert values.split()[:8] == [
        "values",
        "futoshiki",
        "multivalued",
        "futoshiki-6-train",
        "<=",
        "6",
        "yes",
        "800,352",
    ]
    assert "6: 99.3  7: 85.4  8: 57.8" in values
    listed = [json.loads(line) for line in run("list", "--json", "--dir", "new").out.splitlines()]
    entries = read_catalog(tmp_path / "new")
    assert [line["name"] for line in listed] == list(entries) == ["plain", "values"]
    assert listed[1] == {**json.loads(json.dumps(entries["values"].as_json())), "here": True}
    (tmp_path / "new" / "plain.safetensors").unlink()
    assert "missing" in run("list", "--dir", "new").out.splitlines()[1]
    assert json.loads(run("list", "--json", "--dir", "new").out.splitlines()[0])["here"] is False


def test_almost_all_is_not_all_and_other_sets_go_by_their_names(run: Run, tmp_path: Path) -> None:
    run("add", *files("binarized"), "--name", "plain", "--dir", ".")
    content = json.loads((tmp_path / "catalog.json").read_text())
    content["weights"]["plain"]["scores"][0]["board"] = 0.99999
    content["weights"]["plain"]["scores"][1]["dataset"] = "futoshiki-7-hard"
    (tmp_path / "catalog.json").write_text(json.dumps(content))
    assert "6: 99.9  futoshiki-7-hard: 98.5  8: 63.9" in run("list", "--dir", ".").out


def test_the_list_is_that_of_the_package_unless_another_is_named(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(catalog, "FOLDER", tmp_path / "package")
    run("add", *files("binarized"), "--name", "here")
    assert run("list").out.splitlines()[1].startswith("here ")
    assert (tmp_path / "package" / "here.safetensors").is_file()


def test_steps_by_size_may_be_named(run: Run, tmp_path: Path) -> None:
    run("add", *files("binarized"), "--name", "plain", "--steps", "8:32,12:32", "--dir", ".")
    assert read_catalog(tmp_path)["plain"].steps == ((8, 32), (12, 32))
    shown = run("add", *files("binarized"), "--name", "more", "--steps", "8:32,12:64", "--dir", ".", code=2)
    assert "futoshiki-9-test was not measured after 64 steps" in shown.err
    for wrong in ("8", "8:", "8:x", "8:32,", "-1:3", ""):
        assert "--steps" in run("add", *files("binarized"), "--name", "more", f"--steps={wrong}", code=2).err
    assert list(read_catalog(tmp_path)) == ["plain"]


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (["list", "--dir", "nowhere"], "nowhere/catalog.json: no such file"),
        (["add", "none.safetensors", "none.json", "--name", "a", "--dir", "."], "none.safetensors"),
        (["add", *files("binarized"), "--dir", "."], "--name"),
        (["add", *files("binarized"), "--name", "A", "--dir", "."], "the entry 'A': name is 'A'"),
        (["add", files("binarized")[0], files("multivalued")[1], "--name", "a", "--dir", "."], "0 times"),
        (
            ["add", *files("binarized"), "--name", "a", "--chosen-on", "futoshiki-6-test", "--dir", "."],
            "chooses nothing",
        ),
        (["remove"], "remove"),
    ],
)
def test_wrong_use_is_one_line_and_writes_nothing(run: Run, tmp_path: Path, arguments: list[object], word: str) -> None:
    assert word in run(*arguments, code=2).err
    assert not list(tmp_path.iterdir())


def test_a_name_that_is_taken_is_kept(run: Run) -> None:
    run("add", *files("binarized"), "--name", "plain", "--dir", ".")
    assert "--replace" in run("add", *files("multivalued"), "--name", "plain", "--dir", ".", code=2).err
    run("add", *files("multivalued"), "--name", "plain", "--dir", ".", "--replace")
    assert "multivalued" in run("list", "--dir", ".").out


def test_help_has_examples(run: Run) -> None:
    for command in ([], ["add"]):
        assert "Examples:" in run(*command, "--help").out
