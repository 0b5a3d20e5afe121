"""Dataset files: they come back as they were, and a damaged one is never trusted."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from outgrow.data import Dataset, Record, load_dataset
from outgrow.data.generate import default_settings, make_chunk
from outgrow.errors import DamagedFile


@pytest.fixture(scope="module")
def graphs() -> Dataset:
    chosen = default_settings("coloring", 4, 12, nodes=(40, 45))
    return Dataset.of(make_chunk(chosen, 0), puzzle="coloring", size=4, shape=(), settings=chosen.as_json())


def assert_equal(a: Dataset, b: Dataset) -> None:
    assert (a.puzzle, a.size, a.shape, a.settings, len(a)) == (b.puzzle, b.size, b.shape, b.settings, len(b))
    for i in range(len(a)):
        left, right = a.record(i), b.record(i)
        assert np.array_equal(left.solution, right.solution)
        assert np.array_equal(left.given, right.given)
        assert np.array_equal(left.pairs, right.pairs)
        assert left.flags == right.flags


def test_a_file_comes_back_as_it_was(graphs: Dataset, tmp_path: Path) -> None:
    digest = graphs.save(tmp_path / "a.npz")
    again = load_dataset(tmp_path / "a.npz")
    assert_equal(graphs, again)
    assert digest == again.sha256
    assert [p.name for p in tmp_path.iterdir()] == ["a.npz"]
    assert again[3].judge(again.solution(3)).solved


@given(st.lists(st.tuples(st.integers(1, 300), st.integers(0, 40), st.integers(0, 2**32 - 1)), min_size=0, max_size=6))
@settings(max_examples=50, deadline=None)
def test_any_records_come_back(tmp_path_factory: pytest.TempPathFactory, shapes: list[tuple[int, int, int]]) -> None:
    records = []
    for variables, facts, seed in shapes:
        rng = np.random.default_rng(seed)
        pairs = np.unique(rng.integers(0, variables, (facts, 2)), axis=0).astype(np.int32)
        records.append(Record(rng.integers(1, 8, variables), rng.random(variables) < 0.5, pairs, {"level": seed % 100}))
    dataset = Dataset.of(records, puzzle="coloring", size=7, shape=())
    path = tmp_path_factory.mktemp("any") / "a.npz"
    dataset.save(path)
    again = load_dataset(path)
    assert_equal(dataset, again)
    for record, stored in zip(records, map(again.record, range(len(again))), strict=True):
        assert np.array_equal(record.solution, stored.solution)
        assert np.array_equal(record.pairs, stored.pairs)


def test_saving_is_deterministic(graphs: Dataset, tmp_path: Path) -> None:
    graphs.save(tmp_path / "a.npz")
    graphs.save(tmp_path / "b.npz")
    assert (tmp_path / "a.npz").read_bytes() == (tmp_path / "b.npz").read_bytes()


def test_every_kind_of_damage_is_refused(graphs: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    graphs.save(path)
    whole = path.read_bytes()
    rng = np.random.default_rng(0)
    cuts = [whole[:n] for n in (0, 1, 100, len(whole) // 2, len(whole) - 1)]
    flips = []
    for at in rng.integers(0, len(whole), 200).tolist():
        changed = bytearray(whole)
        changed[at] ^= 1 << int(rng.integers(8))
        flips.append(bytes(changed))
    refused = 0
    for data in [*cuts, *flips, b"\0" * 1000, rng.bytes(5000)]:
        path.write_bytes(data)
        try:
            again = load_dataset(path)
        except DamagedFile as error:
            assert "\n" not in str(error)
            assert str(path) in str(error)
            refused += 1
        else:  # a bit that means nothing (a time stamp in the archive): then the content is whole
            assert_equal(graphs, again)
    assert refused > 150


def rewrite(path: Path, **changes: object) -> None:
    """The file with entries of its header changed, checksums of the archive right."""
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    header = json.loads(arrays["header"].tobytes())
    header |= changes
    arrays["header"] = np.frombuffer(json.dumps(header).encode(), dtype=np.uint8)
    np.savez_compressed(path, **arrays)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"format": 99}, "format 99"),
        ({"count": 3}, "puzzles are missing"),
        ({"sha256": "0" * 64}, "sha256"),
        ({"size": 5}, "sha256"),
    ],
)
def test_a_header_that_lies_is_refused(
    graphs: Dataset, tmp_path: Path, change: dict[str, object], message: str
) -> None:
    path = tmp_path / "a.npz"
    graphs.save(path)
    rewrite(path, **change)
    with pytest.raises(DamagedFile, match=message):
        load_dataset(path)


def test_changed_content_is_refused(graphs: Dataset, tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    graphs.save(path)
    with np.load(path) as stored:
        arrays = {name: stored[name] for name in stored.files}
    arrays["solutions"] = arrays["solutions"].copy()
    arrays["solutions"][5] = arrays["solutions"][5] % 4 + 1
    np.savez_compressed(path, **arrays)
    with pytest.raises(DamagedFile, match="sha256"):
        load_dataset(path)


def test_pickles_are_never_loaded(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez(path, header=np.array([{"format": 1}], dtype=object))
    with pytest.raises(DamagedFile):
        load_dataset(path)


def test_an_archive_that_unpacks_to_too_much_is_refused_unread(tmp_path: Path) -> None:
    path = tmp_path / "bomb.npz"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("solutions.npy", "w") as entry:
        zeros = b"\0" * (1 << 24)
        for _ in range(70):
            entry.write(zeros)
    assert path.stat().st_size < 2_000_000
    with pytest.raises(DamagedFile, match="limit"):
        load_dataset(path)


def test_a_missing_file_is_one_line() -> None:
    with pytest.raises(DamagedFile, match="no such file"):
        load_dataset("nowhere.npz")


def test_files_open_with_numpy_alone(graphs: Dataset, tmp_path: Path) -> None:
    graphs.save(tmp_path / "a.npz")
    with np.load(io.BytesIO((tmp_path / "a.npz").read_bytes()), allow_pickle=False) as stored:
        header = json.loads(stored["header"].tobytes())
        assert header["puzzle"] == "coloring"
        assert header["settings"]["seed"] == 0
        assert stored["num_variables"].shape == (12,)


@pytest.mark.parametrize(
    ("solution", "size", "shape", "puzzle"),
    [
        (np.full(16, 77), 4, (2, 2), "sudoku"),
        (np.full(16, 1), 4, (2, 3), "sudoku"),
        (np.full(16, 1), 4, (4,), "sudoku"),
        (np.full(9, 1), 4, (2, 2), "sudoku"),
        (np.full(16, 1), 4, (2, 2), "chess"),
    ],
)
def test_content_that_is_no_puzzle_is_refused_though_its_checksum_is_right(
    tmp_path: Path, solution: np.ndarray, size: int, shape: tuple[int, ...], puzzle: str
) -> None:
    record = Record(solution, np.ones(len(solution), dtype=np.bool_))
    Dataset.of([record], puzzle=puzzle, size=size, shape=shape).save(tmp_path / "a.npz")
    with pytest.raises(DamagedFile):
        list(load_dataset(tmp_path / "a.npz"))
