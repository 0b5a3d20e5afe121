"""Files of predictions come back as they were, and an odd one is refused with its line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outgrow.errors import DamagedFile, OutgrowError
from outgrow.evaluate import Predictions, load_predictions, save_predictions

SHA = "0123456789abcdef" * 4


def example(**changes: Any) -> Predictions:
    fields = {
        "dataset": "sudoku-4-test",
        "sha256": SHA,
        "steps": 32,
        "indices": np.array([0, 7]),
        "assignments": [np.array([1, 2, 0, 4]), np.array([3])],
    }
    return Predictions(**{**fields, **changes})


def assert_equal(a: Predictions, b: Predictions) -> None:
    assert (a.dataset, a.sha256, a.steps) == (b.dataset, b.sha256, b.steps)
    assert a.indices.tolist() == b.indices.tolist()
    assert [x.tolist() for x in a.assignments] == [x.tolist() for x in b.assignments]


def test_a_file_comes_back_as_it_was(tmp_path: Path) -> None:
    sets = [example(), example(steps=64, indices=np.array([5, 2]), dataset="färben: 4"), example(steps=0)]
    save_predictions(tmp_path / "a" / "b.jsonl", sets)
    again = load_predictions(tmp_path / "a" / "b.jsonl")
    for a, b in zip(sets, again, strict=True):
        assert_equal(a, b)
    assert [p.name for p in (tmp_path / "a").iterdir()] == ["b.jsonl"]


@given(
    st.lists(
        st.tuples(
            st.integers(0, 10**6),
            st.dictionaries(st.integers(0, 10**6), st.lists(st.integers(0, 255), max_size=20), max_size=5),
        ),
        min_size=1,
        max_size=4,
    )
)
@settings(max_examples=50, deadline=None)
def test_any_predictions_come_back(
    tmp_path_factory: pytest.TempPathFactory, sets: list[tuple[int, dict[int, list[int]]]]
) -> None:
    path = tmp_path_factory.mktemp("any") / "a.jsonl"
    saved = [
        example(
            steps=steps,
            indices=np.array(list(answers), dtype=np.int64),
            assignments=[np.array(a, dtype=np.uint8) for a in answers.values()],
        )
        for steps, answers in sets
    ]
    save_predictions(path, saved)
    for a, b in zip(saved, load_predictions(path), strict=True):
        assert_equal(a, b)


def test_files_may_be_written_and_read_elsewhere(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(
        f'{{"count": 1, "sha256": "{SHA}", "dataset": "x", "format": 1, "steps": 1}}\r\n{{"assignment": [1, 2], "index": 3}}'
    )
    assert_equal(
        load_predictions(path)[0], example(dataset="x", steps=1, indices=np.array([3]), assignments=[np.array([1, 2])])
    )
    save_predictions(path, [example()])
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert lines == [
        {"format": 1, "dataset": "sudoku-4-test", "sha256": SHA, "steps": 32, "count": 2},
        {"index": 0, "assignment": [1, 2, 0, 4]},
        {"index": 7, "assignment": [3]},
    ]
    path.write_text(path.read_text() * 2)
    assert len(load_predictions(path)) == 2


HEADER = {"format": 1, "dataset": "x", "sha256": SHA, "steps": 1, "count": 2}
FIRST = {"index": 0, "assignment": [1, 2]}
SECOND = {"index": 1, "assignment": [2, 1]}
DEEP = "[" * 100_000


def lines(*contents: dict[str, Any] | str) -> str:
    return "".join((c if isinstance(c, str) else json.dumps(c)) + "\n" for c in contents)


@pytest.mark.parametrize(
    ("text", "line", "message"),
    [
        # the JSON
        ("{", 1, "not a line of JSON"),
        (lines(HEADER, "nonsense"), 2, "not a line of JSON"),
        (lines(HEADER, FIRST, "", SECOND), 3, "not a line of JSON"),
        (lines(DEEP), 1, "not a line of JSON"),
        (lines(HEADER, '{"index": 0, "assignment": ' + DEEP), 2, "not a line of JSON"),
        (lines(HEADER, '{"index": 0, "assignment": [' + "9" * 5000 + "]}"), 2, "not a line of JSON"),
        (lines(HEADER, '{"index": 0, "index": 0, "assignment": []}'), 2, "a key twice"),
        (lines(HEADER, "[1, 2]"), 2, "a JSON object expected"),
        (lines(HEADER, "NaN"), 2, "a JSON object expected"),
        (lines(HEADER, '{"index": 0, "assignment": ["' + "x" * (1 << 20) + '"]}'), 2, "a line of more than"),
        # headers
        (lines(FIRST), 1, "a puzzle where a header was expected"),
        (lines(HEADER, FIRST, SECOND, {"index": 2, "assignment": []}), 4, "a puzzle where a header was expected"),
        (lines({**HEADER, "more": 1}), 1, "a header has"),
        (lines({k: v for k, v in HEADER.items() if k != "steps"}), 1, "a header has"),
        (lines({**HEADER, "format": 2}), 1, "another format"),
        (lines({**HEADER, "format": True}), 1, "another format"),
        (lines(json.dumps({**HEADER, "format": 0}).replace("0,", "[" * 900 + "]" * 900 + ",", 1)), 1, "another format"),
        (lines({**HEADER, "dataset": ""}), 1, "dataset is no name"),
        (lines({**HEADER, "dataset": "a\nb"}), 1, "dataset is no name"),
        (lines({**HEADER, "dataset": "\ud800"}), 1, "dataset is no name"),
        (lines({**HEADER, "dataset": "x" * 201}), 1, "dataset is no name"),
        (lines({**HEADER, "dataset": 7}), 1, "dataset is no name"),
        (lines({**HEADER, "sha256": SHA[1:]}), 1, "sha256"),
        (lines({**HEADER, "sha256": SHA.upper()}), 1, "sha256"),
        (lines({**HEADER, "sha256": SHA + "\n"}), 1, "sha256"),
        (lines({**HEADER, "sha256": None}), 1, "sha256"),
        (lines({**HEADER, "steps": -1}), 1, "steps"),
        (lines({**HEADER, "steps": 1.0}), 1, "steps"),
        (lines({**HEADER, "steps": True}), 1, "steps"),
        (lines({**HEADER, "steps": float("nan")}), 1, "steps"),
        (lines({**HEADER, "steps": 10**30}), 1, "steps"),
        (lines({**HEADER, "count": -1}), 1, "count"),
        (lines({**HEADER, "count": 10**30}), 1, "count"),
        (lines({**HEADER, "count": "2"}), 1, "count"),
        # puzzles
        (lines(HEADER, FIRST), 2, "2 puzzles expected, the file ends after 1"),
        (lines({**HEADER, "count": 2**31 - 1}, FIRST, SECOND), 3, "2,147,483,647 puzzles expected"),
        (lines(HEADER, FIRST, HEADER), 3, "a puzzle has index and assignment"),
        (lines(HEADER, {**FIRST, "more": 1}), 2, "a puzzle has index and assignment"),
        (lines(HEADER, FIRST, FIRST), 3, "puzzle 0 twice"),
        (lines(HEADER, {**FIRST, "index": -1}), 2, "index"),
        (lines(HEADER, {**FIRST, "index": 10**12}), 2, "index"),
        (lines(HEADER, {**FIRST, "index": False}), 2, "index"),
        (lines(HEADER, {**FIRST, "index": [0]}), 2, "index"),
        (lines(HEADER, {**FIRST, "assignment": [1, -1]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": [1, 256]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": [1, 2**64]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": [1, 2.0]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": [1, True]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": [1, None]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": [[1, 2]]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": [float("nan")]}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": "12"}), 2, "an assignment is a list"),
        (lines(HEADER, {**FIRST, "assignment": {"1": 2}}), 2, "an assignment is a list"),
    ],
    ids=lambda value: value[:30] if isinstance(value, str) else str(value),
)
def test_anything_odd_is_refused_with_its_line(tmp_path: Path, text: str, line: int, message: str) -> None:
    path = tmp_path / "a.jsonl"
    path.write_text(text)
    with pytest.raises(DamagedFile, match=message) as caught:
        load_predictions(path)
    assert str(caught.value).startswith(f"{path}:{line}: ")
    assert "\n" not in str(caught.value)
    assert len(str(caught.value)) < len(str(path)) + 300


def test_every_cut_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "a.jsonl"
    save_predictions(path, [example(), example()])
    whole = path.read_bytes()
    header = whole.index(b"\n") + 1
    half = len(whole) // 2
    for at in range(len(whole) - 2):
        if at in (half, half - 1):  # the end of the first set: a whole file of its own
            continue
        path.write_bytes(whole[:at])
        with pytest.raises(DamagedFile):
            load_predictions(path)
    assert header < half


@pytest.mark.parametrize("content", [b"\xff\xfe", b"\0" * 100, bytes(range(256)) * 10])
def test_bytes_that_are_no_text_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "a.jsonl"
    path.write_bytes(content)
    with pytest.raises(DamagedFile, match=":1: not a line of JSON"):
        load_predictions(path)


def test_files_that_are_none_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DamagedFile, match="no such file"):
        load_predictions(tmp_path / "nowhere.jsonl")
    with pytest.raises(DamagedFile, match="cannot be read"):
        load_predictions(tmp_path)
    (tmp_path / "empty.jsonl").touch()
    with pytest.raises(DamagedFile, match="holds no predictions"):
        load_predictions(tmp_path / "empty.jsonl")
    save_predictions(tmp_path / "a.jsonl", [example()])
    monkeypatch.setattr("outgrow.evaluate.predictions._MAX_BYTES", 100)
    with pytest.raises(DamagedFile, match="the limit is 100"):
        load_predictions(tmp_path / "a.jsonl")


@pytest.mark.parametrize("limit", ["_MAX_BYTES", "_MAX_LINE"])
def test_a_failed_save_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    path = tmp_path / "a.jsonl"
    save_predictions(path, [example()])
    before = path.read_bytes()
    monkeypatch.setattr(f"outgrow.evaluate.predictions.{limit}", 130)
    with pytest.raises(OutgrowError, match="too much for one file"):
        save_predictions(path, [example(indices=np.array([1]), assignments=[np.ones(100, dtype=np.int16)])])
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["a.jsonl"]


def test_a_place_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(OutgrowError, match="cannot be written") as caught:
        save_predictions(tmp_path / "file" / "a.jsonl", [example()])
    assert "\n" not in str(caught.value)
    with pytest.raises(OutgrowError, match="cannot be written"):
        save_predictions(tmp_path, [example()])


@pytest.mark.parametrize(
    "changes",
    [
        {"indices": np.array([0])},
        {"indices": np.array([[0], [1]])},
        {"indices": np.array([0.0, 1.0])},
        {"indices": np.array([3, 3])},
        {"indices": np.array([-1, 3])},
        {"sha256": "abc"},
        {"steps": -1},
        {"dataset": ""},
        {"assignments": [np.array([1.0]), np.array([1])]},
        {"assignments": [np.array([[1]]), np.array([1])]},
        {"assignments": [np.array([256]), np.array([1])]},
        {"assignments": [np.array([-1]), np.array([1])]},
    ],
)
def test_predictions_that_make_no_sense_cannot_be_made(changes: dict[str, Any]) -> None:
    with pytest.raises(ValueError):
        example(**changes)
    with pytest.raises(ValueError):
        save_predictions("nowhere.jsonl", [])
