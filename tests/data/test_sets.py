"""The data sets in the tree: what the manifest says holds, and a claim that does not hold is found."""

from __future__ import annotations

import dataclasses
import json
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from outgrow.csp.exact import ExactSolver
from outgrow.data import Dataset, Record, load_dataset
from outgrow.data.generate import default_settings, generate
from outgrow.data.sample import fold_of
from outgrow.data.sets import CLUES, SETS, ClueSettings, build_from_clues, describe, read_manifest, update_manifest
from outgrow.data.verify import check_shared, verify_set
from outgrow.errors import InputError, OutgrowError
from outgrow.puzzles import coloring, render

FOLDER = Path(__file__).resolve().parents[2] / "datasets"
CLAIMS: dict[str, dict[str, Any]] = json.loads((FOLDER / "manifest.json").read_text())["sets"]
HERE = [name for name, entry in CLAIMS.items() if entry["in_tree"]]


def test_every_named_set_is_in_the_tree_and_they_are_small() -> None:
    assert set(HERE) == set(SETS)
    assert all((FOLDER / CLAIMS[n]["file"]).exists() for n in HERE)
    assert sum((FOLDER / CLAIMS[n]["file"]).stat().st_size for n in HERE) < 30_000_000
    assert {n for n in CLAIMS if n not in HERE} == {f"sudoku-9-17-{role}" for role, _ in CLUES.counts}


def test_the_manifest_holds_the_settings_the_sets_are_made_from() -> None:
    for name in HERE:
        assert CLAIMS[name]["settings"] == SETS[name].settings.as_json()
        assert CLAIMS[name]["role"] == SETS[name].role


def test_counts_are_the_papers() -> None:
    counts = {name: CLAIMS[name]["count"] for name in CLAIMS}
    assert counts["futoshiki-6-train"] == 12_300
    assert counts["coloring-4-train"] == 25_010
    assert counts["sudoku-24-train"] == 8_000
    assert counts["sudoku-9-train"] == counts["sudoku-9-17-train"] == 10_000
    assert counts["sudoku-9-17-test"] == 1_800
    for name in [f"futoshiki-{k}" for k in range(6, 13)] + [f"coloring-{k}" for k in range(4, 8)]:
        assert counts[f"{name}-test"] == 1_000
    for size in (9, 10, 12, 15, 16):
        assert counts[f"sudoku-{size}-test"] == 1_000
    assert counts["sudoku-24-test"] == counts["sudoku-25-test"] == 200
    assert all(counts[f"{n}-hard"] == 300 for n in ("sudoku-9", "sudoku-12", "sudoku-16", "futoshiki-9"))


# The small hard sets: how many puzzles, the fewest and the most givens.
MINIMAL = {
    "sudoku-2-train": (100, 1, 1),
    "sudoku-3-train": (500, 2, 3),
    "sudoku-6-train": (20_000, 8, 13),
    "sudoku-6-search-train": (10_000, 8, 13),
    "sudoku-6-valid": (500, 8, 13),
    "sudoku-8-train": (20_000, 16, 23),
    "sudoku-9-minimal-train": (60_000, 20, 29),
    "sudoku-9-minimal-valid": (1_000, 21, 27),
    "futoshiki-2-train": (100, 0, 1),
    "futoshiki-3-train": (1_000, 0, 3),
    "futoshiki-4-train": (2_000, 0, 5),
    "futoshiki-5-train": (10_000, 1, 7),
    "futoshiki-6-minimal-train": (30_000, 3, 12),
    "futoshiki-6-minimal-valid": (1_000, 4, 11),
}


@pytest.mark.parametrize("name", MINIMAL)
def test_small_hard_sets_hold_minimal_puzzles(name: str) -> None:
    dataset = load_dataset(FOLDER / CLAIMS[name]["file"])
    assert (len(dataset), dataset.num_given.min(), dataset.num_given.max()) == MINIMAL[name]
    assert (dataset.flags["minimal"] == 1).all()
    assert (dataset.flags["unique"] == 1).all()
    assert SETS[name].role == name.rsplit("-", 1)[1]
    for i in (0, len(dataset) // 2):
        instance = dataset[i]
        with ExactSolver(instance.csp) as solver:
            assert solver.count(instance.givens, limit=2).count == 1
            for place in np.flatnonzero(instance.givens):
                fewer = instance.givens.copy()
                fewer[place] = 0
                assert solver.count(fewer, limit=2).count == 2  # no given can be spared


def test_graphs_of_three_colors_need_all_of_them() -> None:
    dataset = load_dataset(FOLDER / "coloring-3-train.npz")
    nodes = np.array([len(dataset.solution(i)) for i in range(0, len(dataset), 10)])
    assert (len(dataset), dataset.size, nodes.min(), nodes.max()) == (10_000, 3, 20, 100)
    assert (dataset.flags["chromatic"] == 3).all()
    assert (dataset.flags["level"].min(), dataset.flags["level"].max()) == (30, 70)


def test_graphs_of_two_colors_are_around_a_coloring() -> None:
    dataset = load_dataset(FOLDER / "coloring-2-train.npz")
    assert (len(dataset), dataset.num_variables.min(), dataset.num_variables.max()) == (2_000, 10, 40)
    degrees = [2 * len(r.pairs) / len(r.solution) for r in records_of(dataset)]
    assert (dataset.flags["level"].min(), dataset.flags["level"].max()) == (30, 70)
    assert 0.5 < min(degrees) < 2
    assert 15 < max(degrees) < 20


@pytest.mark.parametrize("name", HERE)
def test_checksums_masks_and_a_sample_of_each_set(name: str) -> None:
    checked = verify_set(name, CLAIMS[name], FOLDER, quick=True)
    assert checked.ok, checked.problems
    dataset = load_dataset(FOLDER / CLAIMS[name]["file"])
    # A few puzzles of each set in full; `outgrow data verify` does all of them.
    for i in np.linspace(0, len(dataset) - 1, 4).astype(int).tolist():
        instance, record = dataset[i], dataset.record(i)
        assert instance.judge(dataset.solution(i)).solved
        if dataset.puzzle == "coloring":
            fewer = coloring.build(record.pairs, np.zeros(len(record.solution), dtype=np.int16), dataset.size - 1)
            with ExactSolver(fewer.csp) as solver:
                assert solver.solve(break_symmetry=True).status == "unsatisfiable"
        elif record.flags.get("unique") and dataset.size <= 25:  # clauses for larger boards take too long to write down
            with ExactSolver(instance.csp) as solver:
                assert solver.count(instance.givens, limit=2).count == 1


# Larger than anything in the paper: how many puzzles, and the first and last percentage masked.
LARGER = {
    "sudoku-20-test": (100, 30, 50),
    "sudoku-30-test": (50, 30, 40),
    "sudoku-36-test": (50, 30, 40),
    "futoshiki-15-test": (200, 30, 55),
    "coloring-8-test": (200, 30, 70),
    "coloring-10-test": (200, 30, 70),
    "coloring-12-test": (200, 30, 70),
}


@pytest.mark.parametrize("name", LARGER)
def test_larger_sets_are_proven_like_the_papers(name: str) -> None:
    dataset = load_dataset(FOLDER / CLAIMS[name]["file"])
    puzzle, size, role = name.split("-")
    assert (dataset.puzzle, dataset.size, SETS[name].role) == (puzzle, int(size), role)
    assert (len(dataset), dataset.flags["level"].min(), dataset.flags["level"].max()) == LARGER[name]
    if puzzle == "coloring":
        assert (dataset.flags["chromatic"] == dataset.size).all()
    else:
        assert (dataset.flags["unique"] == 1).all()
    boxes = {20: (4, 5), 30: (5, 6), 36: (6, 6)}
    assert dataset.shape == {"sudoku": boxes.get(dataset.size), "futoshiki": (15,), "coloring": ()}[puzzle]
    nodes = {8: (40, 70), 10: (40, 60), 12: (40, 55)}.get(dataset.size, (dataset.size**2,) * 2)
    assert (dataset.num_variables.min(), dataset.num_variables.max()) == nodes


def test_larger_sets_are_small_files() -> None:
    assert sum(CLAIMS[name]["bytes"] for name in LARGER) < 1_500_000


def test_sets_share_no_solution() -> None:
    checked = [verify_set(name, CLAIMS[name], FOLDER, quick=True) for name in HERE]
    assert check_shared(checked, CLAIMS) == []


def test_the_boards_of_size_4_are_split_between_its_sets() -> None:
    solutions: dict[str, set[bytes]] = {}
    for role, folds in (("train", range(6)), ("valid", range(6, 7)), ("test", range(7, 8))):
        dataset = load_dataset(FOLDER / f"sudoku-4-{role}.npz")
        solutions[role] = {r.solution.tobytes() for r in records_of(dataset)}
        assert {fold_of(r.solution, 8) for r in records_of(dataset)} == set(folds)
        assert len({instance.givens.tobytes() for instance in dataset}) == len(dataset)
    assert sum(map(len, solutions.values())) == len(set.union(*solutions.values())) == 288


def test_seeds_of_named_sets_stay_what_they_are() -> None:
    seeds = {name: named.settings.seed for name, named in SETS.items()}
    assert len(set(seeds.values())) == len(seeds)
    assert (seeds["futoshiki-6-train"], seeds["sudoku-25-test"], seeds["sudoku-4-train"]) == (20221, 20250, 20251)
    assert (seeds["coloring-3-train"], seeds["sudoku-20-test"], seeds["coloring-12-test"]) == (20264, 20265, 20271)


def test_hard_sets_are_graded() -> None:
    for size in (9, 12, 16):
        singles = load_dataset(FOLDER / f"sudoku-{size}-hard.npz").flags["singles"]
        assert set(singles.tolist()) <= {0, 1}
        assert (singles == 0).any()


def test_a_set_is_made_again_from_its_seed(tmp_path: Path) -> None:
    name = "futoshiki-6-valid"
    assert generate(SETS[name].settings, tmp_path / "again.npz").sha256 == CLAIMS[name]["sha256"]


# A verifier that cannot fail proves nothing: plant a fault of every kind.


def plant(folder: Path, records: list[Record], like: Dataset, **claims: Any) -> tuple[str, dict[str, Any]]:
    dataset = Dataset.of(records, puzzle=like.puzzle, size=like.size, shape=like.shape, settings=like.settings)
    dataset.save(folder / "planted-test.npz")
    return "planted-test", {**describe("planted-test", dataset, folder), "in_tree": True, **claims}


@pytest.fixture(scope="module")
def boards(tmp_path_factory: pytest.TempPathFactory) -> Dataset:
    return generate(default_settings("sudoku", 9, 13, seed=77), tmp_path_factory.mktemp("boards") / "a.npz")


def records_of(dataset: Dataset) -> list[Record]:
    return [dataset.record(i) for i in range(len(dataset))]


def test_sound_records_pass(boards: Dataset, tmp_path: Path) -> None:
    checked = verify_set(*plant(tmp_path, records_of(boards), boards), tmp_path)
    assert checked.ok, checked.problems
    assert checked.facts == {"unique": 13}


def test_a_board_outside_the_fold_is_found(tmp_path: Path) -> None:
    made = generate(default_settings("sudoku", 4, 4, levels=(50, 50), fold=(0, 3, 8)), tmp_path / "a.npz")
    other = generate(default_settings("sudoku", 4, 1, levels=(50, 50), fold=(4, 7, 8)), tmp_path / "b.npz")
    records = records_of(made)
    assert verify_set(*plant(tmp_path, records, made), tmp_path).ok
    outside = plant(tmp_path, [*records[:3], other.record(0)], made)
    assert verify_set(*outside, tmp_path, quick=True).problems == ("1 solutions are not of folds 0-3 of 8",)


def test_a_puzzle_that_comes_again_is_found(tmp_path: Path) -> None:
    made = generate(default_settings("sudoku", 4, 4, levels=(50, 50), fold=(0, 3, 8)), tmp_path / "a.npz")
    again = plant(tmp_path, [*records_of(made)[:3], made.record(0)], made)
    assert verify_set(*again, tmp_path, quick=True).problems == ("1 puzzles occur again",)


def test_a_wrong_solution_is_found(boards: Dataset, tmp_path: Path) -> None:
    records = records_of(boards)
    wrong = records[2].solution.copy()
    wrong[[0, 1]] = wrong[[1, 0]]
    records[2] = Record(wrong, records[2].given, flags=records[2].flags)
    assert any("breaks a rule" in p for p in verify_set(*plant(tmp_path, records, boards), tmp_path).problems)


def test_a_puzzle_with_more_solutions_is_found(boards: Dataset, tmp_path: Path) -> None:
    records = records_of(boards)
    none = np.zeros(81, dtype=np.bool_)
    none[:22] = True
    records[0] = Record(records[0].solution, none, flags=records[0].flags)
    assert any("more than one" in p for p in verify_set(*plant(tmp_path, records, boards), tmp_path).problems)


def test_a_mask_off_its_level_is_found(boards: Dataset, tmp_path: Path) -> None:
    records = records_of(boards)
    more = records[0].given.copy()
    more[np.flatnonzero(~more)[0]] = True
    records[0] = Record(records[0].solution, more, flags=records[0].flags)
    assert any("level" in p for p in verify_set(*plant(tmp_path, records, boards), tmp_path, quick=True).problems)


def test_uneven_levels_are_found(boards: Dataset, tmp_path: Path) -> None:
    records = records_of(boards)
    assert any(
        "evenly" in p
        for p in verify_set(*plant(tmp_path, [*records, records[0], records[0]], boards), tmp_path).problems
    )


def test_a_puzzle_that_is_not_minimal_is_found(tmp_path: Path) -> None:
    made = generate(default_settings("sudoku", 4, 3, style="minimal", levels=(0, 0)), tmp_path / "a.npz")
    records = records_of(made)
    more = records[1].given.copy()
    more[np.flatnonzero(~more)[0]] = True
    records[1] = Record(records[1].solution, more, flags=records[1].flags)
    assert any("minimal" in p for p in verify_set(*plant(tmp_path, records, made), tmp_path).problems)


@pytest.mark.parametrize(("puzzle", "size"), [("sudoku", 9), ("futoshiki", 5)])
def test_a_wrong_grade_is_found(puzzle: str, size: int, tmp_path: Path) -> None:
    made = generate(default_settings(puzzle, size, 3, style="minimal", levels=(0, 0)), tmp_path / "a.npz")
    records = records_of(made)
    (sound := tmp_path / "sound").mkdir()
    assert not any("graded" in p for p in verify_set(*plant(sound, records, made), sound).problems)
    other = {**records[0].flags, "singles": 1 - records[0].flags["singles"]}
    records[0] = dataclasses.replace(records[0], flags=other)
    assert any("graded" in p for p in verify_set(*plant(tmp_path, records, made), tmp_path).problems)


def test_a_puzzle_that_needs_no_search_is_found(tmp_path: Path) -> None:
    made = generate(default_settings("sudoku", 6, 30, style="minimal", levels=(0, 0)), tmp_path / "a.npz")
    assert made.flags["singles"].any()
    name, claims = plant(tmp_path, records_of(made), made)
    assert verify_set(name, claims, tmp_path, quick=True).ok
    claims["settings"] = {**claims["settings"], "search": True}
    assert "singles solve some of them" in verify_set(name, claims, tmp_path, quick=True).problems


def test_a_graph_that_needs_fewer_colors_is_found(tmp_path: Path) -> None:
    made = generate(default_settings("coloring", 4, 4, nodes=(40, 43)), tmp_path / "a.npz")
    records = records_of(made)
    records[1] = Record(records[1].solution, records[1].given, records[1].pairs[:20], records[1].flags)
    assert any("colors" in p for p in verify_set(*plant(tmp_path, records, made), tmp_path).problems)


def test_a_missing_sign_is_found(tmp_path: Path) -> None:
    made = generate(default_settings("futoshiki", 5, 2, levels=(30, 30)), tmp_path / "a.npz")
    records = records_of(made)
    records[1] = Record(records[1].solution, records[1].given, records[1].pairs[1:], records[1].flags)
    assert any("signs" in p for p in verify_set(*plant(tmp_path, records, made), tmp_path).problems)


def test_too_few_and_too_many_signs_are_found(tmp_path: Path) -> None:
    made = generate(default_settings("futoshiki", 5, 8, levels=(30, 30), signs=(2, 3)), tmp_path / "a.npz")
    name, claims = plant(tmp_path, records_of(made), made)
    assert verify_set(name, claims, tmp_path).ok
    for signs in ((0, 2), (3, 9)):
        claims["settings"] = {**claims["settings"], "signs": list(signs)}
        assert any(f"{signs[0]} to {signs[1]}" in p for p in verify_set(name, claims, tmp_path).problems)


def test_puzzles_that_are_not_as_deep_as_claimed_are_found(tmp_path: Path) -> None:
    settings = default_settings("futoshiki", 5, 3, style="minimal", levels=(0, 0), signs=(6, 20), rounds=1)
    made = generate(settings, tmp_path / "a.npz")
    name, claims = plant(tmp_path, records_of(made), made)
    assert verify_set(name, claims, tmp_path).ok
    claims["settings"] = {**claims["settings"], "rounds": 4}
    assert any("takes 1 rounds of probing, not 4" in p for p in verify_set(name, claims, tmp_path).problems)
    records, other = records_of(made), tmp_path / "other"
    records[1] = Record(
        records[1].solution,
        records[1].given,
        records[1].pairs,
        {**records[1].flags, "rounds": records[1].flags["rounds"] + 1},
    )
    other.mkdir()
    assert any("graded wrongly: how many rounds" in p for p in verify_set(*plant(other, records, made), other).problems)


def test_chains_that_are_none_are_found(tmp_path: Path) -> None:
    made = generate(default_settings("futoshiki", 5, 6, style="chained", levels=(0, 0)), tmp_path / "a.npz")
    assert verify_set(*plant(tmp_path, records_of(made), made), tmp_path).ok
    for flaw, words in (("more", "solve it with a clue less"), ("fewer", "singles do not solve it")):
        records, folder = records_of(made), tmp_path / flaw
        given = records[2].given.copy()
        given[np.flatnonzero(given != (flaw == "more"))[0]] = flaw == "more"
        records[2] = dataclasses.replace(records[2], given=given)
        folder.mkdir()
        problems = verify_set(*plant(folder, records, made), folder).problems
        assert any(words in p for p in problems)


def test_a_manifest_that_lies_is_found(boards: Dataset, tmp_path: Path) -> None:
    settings = dict(boards.settings)
    lies = (
        {"count": 14},
        {"size": 8},
        {"sha256": "0" * 64},
        {"bytes": 1},
        {"role": "train"},
        {"settings": {**settings, "seed": 1}},
        {"settings": {**settings, "box": [1, 9]}},
    )
    for lie in lies:
        assert not verify_set(*plant(tmp_path, records_of(boards), boards, **lie), tmp_path, quick=True).ok
    name, claims = plant(tmp_path, records_of(boards), boards)
    (tmp_path / "planted-test.npz").unlink()
    assert not verify_set(name, claims, tmp_path).ok


def test_shared_solutions_are_found(boards: Dataset, tmp_path: Path) -> None:
    name, claims = plant(tmp_path, records_of(boards), boards)
    once = verify_set(name, claims, tmp_path, quick=True)
    twice = verify_set("other", {**claims, "role": "train"}, tmp_path, quick=True)
    assert once.ok
    assert check_shared([once, twice], {name: claims, "other": {**claims, "role": "train"}}) == [
        f"{name} and other share 13 solutions"
    ]


def test_sudoku_9_17_has_equal_levels_and_different_origins(tmp_path: Path) -> None:
    """From a stand-in for the list: puzzles of 24 givens, of which there are enough."""
    chosen = ClueSettings(counts=(("train", 8), ("valid", 4), ("test", 4)), givens=(24, 27), seed=1)
    clues = tmp_path / "clues.txt"
    listed = generate(default_settings("sudoku", 9, 20, levels=(24, 24)), tmp_path / "listed.npz")
    lines = [render(puzzle, format="line") for puzzle in listed]
    clues.write_text("\n".join([*lines, *lines]))  # a puzzle that stands twice is used once
    made = build_from_clues(clues, tmp_path, settings=chosen)
    solutions: set[bytes] = set()
    for name, dataset in made.items():
        levels = Counter(dataset.num_given.tolist())
        assert max(levels.values()) == min(levels.values())
        assert set(levels) == {24, 25, 26, 27}
        for i in range(len(dataset)):
            assert dataset.solution(i).tobytes() not in solutions
            solutions.add(dataset.solution(i).tobytes())
            assert dataset[i].judge(dataset.solution(i)).solved
        claims = describe(name, dataset, tmp_path)
        assert verify_set(name, claims, tmp_path).ok
    again = build_from_clues(clues, tmp_path / "again", settings=chosen)
    assert {n: d.sha256 for n, d in made.items()} == {n: d.sha256 for n, d in again.items()}
    with pytest.raises(OutgrowError, match="different solutions needed"):
        build_from_clues(clues, tmp_path, settings=ClueSettings(givens=(24, 27)))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1" * 17 + "0" * 64, "no solution"),
        ("0" * 80, "81 digits"),
        ("12345678" + "0" * 73, "17 clues"),
        ("x" * 81, "81 digits"),
    ],
)
def test_a_bad_list_of_clues_is_refused(tmp_path: Path, text: str, message: str) -> None:
    (tmp_path / "clues.txt").write_text(text)
    with pytest.raises(InputError, match=message) as caught:
        build_from_clues(tmp_path / "clues.txt", tmp_path)
    assert caught.value.line == 1


def test_the_manifest_is_written_whole(tmp_path: Path, boards: Dataset) -> None:
    boards.save(tmp_path / "a-test.npz")
    entry = describe("a-test", boards, tmp_path)
    update_manifest(tmp_path, {"b": entry})
    update_manifest(tmp_path, {"a": entry})
    assert list(read_manifest(tmp_path)["sets"]) == ["a", "b"]
    for fold in ("0-5", [0, 5], [0, 5, 5], [0, 0, 0], [0.0, 0, 1]):
        update_manifest(tmp_path, {"a": {**entry, "settings": {**entry["settings"], "fold": fold}}})
        with pytest.raises(OutgrowError, match="'a' has no range of folds"):
            read_manifest(tmp_path)
        (tmp_path / "manifest.json").unlink()
    (tmp_path / "manifest.json").write_text("[]")
    with pytest.raises(OutgrowError, match="not a manifest"):
        read_manifest(tmp_path)
    shutil.rmtree(tmp_path)
    with pytest.raises(OutgrowError, match="no such file"):
        read_manifest(tmp_path)
