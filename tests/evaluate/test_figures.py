"""Figures show what results files say: the series are looked at as drawn, not their pixels."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.sax.saxutils import unescape

import numpy as np
import pytest
from matplotlib.figure import Figure as Canvas

from outgrow.errors import OutgrowError
from outgrow.evaluate import Evaluation, Figure, Score, paper_figure, write_results
from outgrow.evaluate import figures as module
from outgrow.evaluate.figures import Panel, PaperLine, by_size, by_steps, draw_results
from outgrow.train.curves import COLORS, GRAY, save_picture

SVG = "{http://www.w3.org/2000/svg}"


def scored(dataset: str, board: float, steps: int = 32, **changes: Any) -> Score:
    puzzle, size = dataset.split("-")[:2]
    fields = {
        "dataset": dataset,
        "sha256": "0" * 64,
        "puzzle": puzzle,
        "size": int(size),
        "count": 100,
        "steps": steps,
        "board": board,
        "board_low": 0.0,
        "board_high": 1.0,
        "pointwise": 0.9,
        "pointwise_bound": False,
    }
    return Score(**{**fields, **changes})


def evaluation(*scores: Score, **changes: Any) -> Evaluation:
    fields = {"weights": "w0", "model": "binarized", "recipe": "sudoku-binarized", "seed": 0, "scores": scores}
    train = changes.pop("train", ["sudoku-9-train"])
    return Evaluation(**{**fields, "provenance": {"recipe": {"data": {"train": train}}}, **changes})


def seeds(*boards: dict[str, float], **changes: Any) -> list[Evaluation]:
    """An evaluation a seed: set -> board accuracy."""
    return [
        evaluation(*(scored(name, board) for name, board in found.items()), seed=seed, **changes)
        for seed, found in enumerate(boards)
    ]


def series(panel: Panel) -> dict[str, dict[int, float]]:
    """Kind of sets -> size or steps -> mean."""
    return {line.kind: {p.x: round(p.mean, 6) for p in line.points} for line in panel.lines}


def drawn(panels: list[Panel], by: str = "size") -> dict[str, Any]:
    """The parts of the picture by their ids."""
    canvas = Canvas()
    module._fill(canvas, panels, by)
    canvas.canvas.draw()
    return {str(artist.get_gid()): artist for artist in canvas.findobj() if artist.get_gid()}


def points(artist: Any) -> list[tuple[float, float]]:
    return [(float(x), round(float(y), 6)) for x, y in zip(artist.get_xdata(), artist.get_ydata(), strict=True)]


# ---- by size

THREE = seeds(
    {"sudoku-12-test": 0.9, "sudoku-16-test": 0.5, "sudoku-25-test": 0.1},
    {"sudoku-12-test": 0.8, "sudoku-16-test": 0.6, "sudoku-25-test": 0.0},
    {"sudoku-12-test": 1.0, "sudoku-16-test": 0.1, "sudoku-25-test": 0.2},
)


def test_seeds_are_a_mean_and_a_band_from_worst_to_best() -> None:
    (panel,) = by_size(THREE)
    assert panel.puzzle == "sudoku"
    assert series(panel) == {"test": {12: 0.9, 16: 0.4, 25: 0.1}}
    parts = drawn([panel])
    assert points(parts["line-0-0"]) == [(12, 0.9), (16, 0.4), (25, 0.1)]
    corners = {(float(x), round(float(y), 6)) for x, y in parts["band-0-0"].get_paths()[0].vertices}
    assert corners == {(12, 0.8), (12, 1.0), (16, 0.1), (16, 0.6), (25, 0.0), (25, 0.2)}
    assert panel.lines[0].label == "sudoku-binarized · 3 seeds · 32 steps"
    # Of one seed there is no band.
    assert set(drawn(by_size(THREE[:1]))) & {"line-0-0", "band-0-0"} == {"line-0-0"}


def test_sizes_rise_whatever_the_order_of_the_files() -> None:
    shuffled = [evaluation(*reversed(e.scores), seed=e.seed) for e in reversed(THREE)]
    assert series(by_size(shuffled)[0]) == series(by_size(THREE)[0])
    assert [p.x for p in by_size(shuffled)[0].lines[0].points] == [12, 16, 25]


def test_every_puzzle_has_a_panel_and_every_recipe_a_line_in_its_color() -> None:
    done = [
        evaluation(scored("sudoku-9-test", 0.9), recipe="a"),
        evaluation(scored("futoshiki-6-test", 0.8), recipe="b", model="grouped"),
        evaluation(scored("futoshiki-6-test", 0.7), scored("sudoku-9-test", 0.6), recipe="c", model="multivalued"),
    ]
    panels = by_size(done)
    assert [(p.puzzle, [line.recipe for line in p.lines]) for p in panels] == [
        ("sudoku", ["a", "c"]),
        ("futoshiki", ["b", "c"]),
    ]
    assert panels[0].lines[0].label == "a (binarized) · 32 steps"
    parts = drawn(panels)
    colors = {name: parts[name].get_color() for name in parts if name.startswith("line")}
    assert colors == {"line-0-0": COLORS[0], "line-0-1": COLORS[2], "line-1-0": COLORS[1], "line-1-1": COLORS[2]}


def test_hard_sets_are_a_line_of_their_own() -> None:
    done = seeds({"sudoku-12-test": 0.9, "sudoku-9-hard": 0.5, "sudoku-12-hard": 0.3, "sudoku-9-minimal-valid": 0.7})
    (panel,) = by_size(done)
    assert series(panel) == {"test": {12: 0.9}, "hard": {9: 0.5, 12: 0.3}, "minimal-valid": {9: 0.7}}
    assert [line.label.split(" · ")[0] for line in panel.lines] == [
        "sudoku-binarized",
        "sudoku-binarized, hard",
        "sudoku-binarized, minimal-valid",
    ]
    parts = drawn([panel])
    assert len({parts[f"line-0-{i}"].get_color() for i in range(3)}) == 1
    assert len({parts[f"line-0-{i}"].get_linestyle() for i in range(3)}) == 3


def test_the_papers_set_stands_for_its_size_and_the_other_is_not_lost() -> None:
    (panel,) = by_size(seeds({"sudoku-9-test": 0.9, "sudoku-9-17-test": 0.8, "sudoku-10-test": 0.7}))
    assert series(panel) == {"test": {9: 0.8, 10: 0.7}, "sudoku-9-test": {9: 0.9}}
    (panel,) = by_size(seeds({"sudoku-9-test": 0.9, "sudoku-10-test": 0.7}))
    assert series(panel) == {"test": {9: 0.9, 10: 0.7}}


def test_a_file_of_ones_own_is_drawn_under_its_name() -> None:
    (panel,) = by_size([evaluation(replace(scored("sudoku-9-test", 0.5), dataset="mine"))])
    assert series(panel) == {"mine": {9: 0.5}}


def test_of_several_numbers_of_steps_the_largest_counts_or_the_one_asked_for() -> None:
    done = [
        evaluation(
            *(scored("sudoku-12-test", b, n) for n, b in ((16, 0.1), (64, 0.3), (32, 0.2))),
            *(scored("sudoku-16-test", b, n) for n, b in ((16, 0.4), (32, 0.5))),
        )
    ]
    (panel,) = by_size(done)
    assert series(panel) == {"test": {12: 0.3, 16: 0.5}}
    assert [p.steps for p in panel.lines[0].points] == [64, 32]
    assert panel.lines[0].label == "sudoku-binarized · 32–64 steps"
    assert series(by_size(done, 32)[0]) == {"test": {12: 0.2, 16: 0.5}}
    assert series(by_size(done, 64)[0]) == {"test": {12: 0.3}}  # 16 was not measured after as many
    with pytest.raises(OutgrowError, match=r"^nothing was measured after 8 steps; there is 16, 32, 64$"):
        by_size(done, 8)


def test_steps_that_one_seed_alone_has_do_not_push_out_the_others() -> None:
    done = seeds({"sudoku-12-test": 0.2}, {"sudoku-12-test": 0.4})
    done.append(evaluation(scored("sudoku-12-test", 0.6), scored("sudoku-12-test", 0.9, 64), seed=2))
    (panel,) = by_size(done)
    assert [(p.steps, p.boards) for p in panel.lines[0].points] == [(32, (0.2, 0.4, 0.6))]


@pytest.mark.parametrize(
    ("train", "seen"),
    [
        (["sudoku-9-train"], 9),
        (["sudoku-4-train", "data/sudoku-24-train.npz", "sudoku-8-train"], 24),
        (["futoshiki-12-train", "sudoku-6-train"], 6),
        (["my-own"], None),
        (["sudoku-train"], None),
        ([], None),
        ("sudoku-9-train", None),
        ([7, None], None),
        (None, None),
    ],
)
def test_the_largest_size_in_training_is_marked(train: Any, seen: int | None) -> None:
    (panel,) = by_size([evaluation(scored("sudoku-12-test", 0.5), train=train)])
    assert panel.lines[0].seen == seen
    marks = {name: part for name, part in drawn([panel]).items() if name.startswith("seen")}
    assert [set(part.get_xdata()) for part in marks.values()] == ([{seen}] if seen else [])
    if seen:
        assert marks["seen-0-0"].get_color() == GRAY


def test_recipes_trained_on_other_sizes_have_marks_of_their_own() -> None:
    done = [
        evaluation(scored("sudoku-12-test", 0.5), recipe="a"),
        evaluation(scored("sudoku-12-test", 0.6), recipe="b", train=["sudoku-6-train"]),
        evaluation(scored("sudoku-12-test", 0.7), recipe="c", provenance={}),
    ]
    parts = drawn(by_size(done))
    marks = {name: (set(p.get_xdata()), p.get_color()) for name, p in parts.items() if name.startswith("seen")}
    assert marks == {"seen-0-0": ({6}, COLORS[1]), "seen-0-1": ({9}, COLORS[0])}


# ---- the paper's figures


def paper_of(panel: Panel) -> dict[str, list[tuple[int, float, float]]]:
    return {p.label: [(size, f.mean, f.std) for size, f in p.points] for p in panel.paper}


def test_the_paper_stands_beside_what_was_measured_by_its_protocol() -> None:
    sets = {
        "sudoku-9-test": 1.0,
        "sudoku-12-test": 0.9,
        "sudoku-15-hard": 0.8,
        "sudoku-16-test": 0.5,
        "sudoku-25-test": 0.3,
    }
    (panel,) = by_size(seeds(sets))
    assert paper_of(panel) == {"paper, binarized": [(12, 99.63, 0.10), (16, 27.31, 23.81)]}
    part = drawn([panel])["paper-0-0"]
    assert points(part) == [(12, 0.9963), (16, 0.2731)]
    assert part.get_linestyle() == "--"
    assert part.get_color() == COLORS[0]  # that of our line for the same model


def test_deviations_are_drawn_and_end_with_the_axis() -> None:
    (panel,) = by_size(seeds({"sudoku-15-test": 0.9, "sudoku-16-test": 0.5}))
    canvas = Canvas()
    few = PaperLine("few", "binarized", ((16, Figure(10.0, 25.0)),))
    module._fill(canvas, [replace(panel, paper=(*panel.paper, few))], "size")
    ends = [
        [round(float(y), 4) for _, y in segment]
        for bars in canvas.axes[0].containers
        for segment in bars.lines[2][0].get_segments()
    ]
    assert ends == [[0.1734, 1.0], [0.035, 0.5112], [0.0, 0.35]]  # 63.05 ± 45.71, 27.31 ± 23.81, 10 ± 25


@pytest.mark.parametrize(
    ("models", "task", "expected"),
    [
        (["binarized"], "", ["binarized"]),
        (["multivalued"], "sudoku", ["multivalued"]),
        (["grouped"], "sudoku", ["binarized", "multivalued"]),
        (["multivalued", "grouped"], "", ["binarized", "multivalued"]),
        (["multivalued"], "sudoku-24", ["multivalued"]),
        (["binarized"], "futoshiki", []),
        (["binarized"], "chess", []),
    ],
)
def test_which_models_of_the_paper_are_shown(models: list[str], task: str, expected: list[str]) -> None:
    sets = (scored("sudoku-12-test", 0.6), scored("sudoku-16-test", 0.5))
    (panel,) = by_size([evaluation(*sets, recipe=m, model=m, task=task) for m in models])
    figures = {p.model: [f for _, f in p.points] for p in panel.paper}
    known = {m: [paper_figure(task or "sudoku", m, size) for size in (12, 16)] for m in expected}
    assert figures == {m: [f for f in found if f] for m, found in known.items()}


def test_other_tasks_of_one_puzzle_are_told_apart() -> None:
    done = [
        evaluation(scored("sudoku-16-test", 0.5), recipe="a", model="multivalued", task="sudoku"),
        evaluation(
            scored("sudoku-16-test", 0.6),
            scored("sudoku-24-test", 0.2),
            recipe="b",
            model="multivalued",
            task="sudoku-24",
        ),
    ]
    assert paper_of(by_size(done)[0]) == {
        "paper, multivalued (sudoku)": [(16, 19.70, 14.03)],
        "paper, multivalued (sudoku-24)": [(16, 90.39, 3.49), (24, 54.57, 21.25)],
    }


def test_models_of_the_paper_that_are_not_drawn_are_gray() -> None:
    parts = drawn(by_size([evaluation(scored("sudoku-16-test", 0.5), model="grouped")]))
    colors = [parts[f"paper-0-{i}"].get_color() for i in range(2)]
    assert colors[0] == GRAY
    assert colors[0] != colors[1]
    assert not set(colors) & set(COLORS)


# ---- by steps


def stepped(name: str, boards: dict[int, float]) -> list[Score]:
    return [scored(name, board, n) for n, board in boards.items()]


def test_a_line_a_size_against_steps() -> None:
    done = [
        evaluation(
            *stepped("sudoku-16-test", {64: 0.5 + s / 10, 16: 0.1, 32: 0.3}),
            *stepped("sudoku-9-test", {16: 0.8, 32: 0.9}),
            *stepped("sudoku-9-hard", {16: 0.2, 32: 0.4}),
            *stepped("sudoku-25-test", {64: 0.1}),
            seed=s,
        )
        for s in (0, 1)
    ]
    (panel,) = by_steps(done)
    assert panel.title == "Sudoku: sudoku-binarized · 2 seeds"
    assert {line.label: [(p.x, round(p.mean, 6)) for p in line.points] for line in panel.lines} == {
        "size 9, hard": [(16, 0.2), (32, 0.4)],
        "size 9": [(16, 0.8), (32, 0.9)],
        "size 16": [(16, 0.1), (32, 0.3), (64, 0.55)],
    }
    parts = drawn([panel], "steps")
    assert points(parts["line-0-2"]) == [(16, 0.1), (32, 0.3), (64, 0.55)]
    assert not [name for name in parts if name.startswith(("paper", "seen"))]
    assert len({parts[f"line-0-{i}"].get_color() for i in range(3)}) == 3
    assert parts["line-0-0"].axes.get_xscale() == "log"
    band = {(float(x), round(float(y), 6)) for x, y in parts["band-0-2"].get_paths()[0].vertices}
    assert {(64, 0.5), (64, 0.6)} <= band


def test_recipes_and_puzzles_have_panels_of_their_own_by_steps() -> None:
    both = [*stepped("sudoku-9-test", {1: 0.1, 2: 0.2}), *stepped("futoshiki-6-test", {1: 0.1, 2: 0.2})]
    panels = by_steps([evaluation(*both, recipe="a"), evaluation(*both[:2], recipe="b")])
    assert [p.title for p in panels] == ["Futoshiki: a (binarized)", "Sudoku: a (binarized)", "Sudoku: b (binarized)"]


@pytest.mark.parametrize("scores", [[], [scored("sudoku-9-test", 0.5)], stepped("sudoku-9-test", {0: 0.1, 4: 0.2})])
def test_one_number_of_steps_is_no_curve(scores: list[Score]) -> None:
    with pytest.raises(OutgrowError, match="evaluate with --steps, as in --steps 16,32,64"):
        by_steps([evaluation(*scores)])


def test_many_sizes_differ_in_color_or_dash() -> None:
    scores = [s for k in range(4, 20) for s in stepped(f"sudoku-{k}-test", {1: 0.1, 2: 0.2})]
    parts = drawn(by_steps([evaluation(*scores)]), "steps")
    looks = {(parts[f"line-0-{i}"].get_color(), parts[f"line-0-{i}"].get_linestyle()) for i in range(16)}
    assert len(looks) == 16


# ---- what is refused


@pytest.mark.parametrize("change", [{"sha256": "1" * 64}, {"count": 24}])
def test_seeds_measured_on_other_puzzles_are_not_averaged(change: dict[str, Any]) -> None:
    done = [*THREE[:2], evaluation(scored("sudoku-12-test", 0.5, **change), seed=2)]
    for draw in (by_size, by_steps):
        with pytest.raises(OutgrowError, match=r"puzzles of sudoku-12-test .* draw them apart") as caught:
            draw(done)
        assert "\n" not in str(caught.value)


def test_one_seed_twice_is_refused() -> None:
    with pytest.raises(OutgrowError, match="one seed twice"):
        by_size([*THREE, THREE[0]])


@pytest.mark.parametrize(
    "change", [{"board": 1.5}, {"board": -0.1}, {"size": 0}, {"size": 10**400}, {"steps": -1}, {"steps": 10**30}]
)
def test_figures_that_cannot_be_are_refused(change: dict[str, Any]) -> None:
    with pytest.raises(OutgrowError, match=r"sudoku-binarized on sudoku-9-test: .* cannot be"):
        by_size([evaluation(replace(scored("sudoku-9-test", 0.5), **change))])


def test_no_scores_make_no_picture() -> None:
    for done in ([], [evaluation()]):
        with pytest.raises(OutgrowError, match="no scores in these results"):
            by_size(done)


def test_a_picture_goes_where_it_can(tmp_path: Path) -> None:
    for name, words in (
        ("none/a.svg", "the folder does not exist"),
        ("a.gif", "must end in .svg"),
        ("b.svg", "is a folder"),
    ):
        (tmp_path / "b.svg").mkdir(exist_ok=True)
        with pytest.raises(OutgrowError, match=words):
            draw_results(THREE, tmp_path / name)
    assert [p.name for p in tmp_path.iterdir()] == ["b.svg"]


def test_a_picture_that_fails_leaves_the_old_one(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text("old")
    with pytest.raises(ZeroDivisionError):
        save_picture(tmp_path / "a.svg", lambda canvas: canvas.set_size_inches(1 // 0, 1))
    assert (tmp_path / "a.svg").read_text() == "old"


# ---- the file


def strings(svg: Path) -> list[str]:
    """The words of a picture: matplotlib draws letters as paths and keeps the words as comments."""
    tree = ET.parse(svg, ET.XMLParser(target=ET.TreeBuilder(insert_comments=True)))
    return [str(node.text).strip() for node in tree.iter() if node.tag is ET.Comment]


def path_points(svg: Path, gid: str) -> np.ndarray:
    """The corners of a line in the file: (n, 2), y downwards."""
    found = ET.parse(svg).find(f".//{SVG}g[@id='{gid}']/{SVG}path")
    assert found is not None
    return np.array([[float(n) for n in pair] for pair in re.findall(r"[ML] (\S+) (\S+)", found.attrib["d"])])


def test_the_file_says_what_was_measured(tmp_path: Path) -> None:
    panels = draw_results(THREE, tmp_path / "a.svg")
    words = strings(tmp_path / "a.svg")
    for expected in (
        "Sudoku",
        "sudoku-binarized · 3 seeds · 32 steps",
        "paper, binarized",
        "largest size in training",
        "size (number of values)",
        "boards solved",
        "100%",
        *("9", "12", "16", "25"),
    ):
        assert expected in words, expected
    legend = ["sudoku-binarized · 3 seeds · 32 steps", "paper, binarized", "largest size in training"]
    assert [w for w in words if w in legend] == legend
    line = path_points(tmp_path / "a.svg", "line-0-0")
    assert len(line) == 3
    # Sizes 12, 16 and 25 and heights 90, 40 and 10%, to scale.
    (x1, x2), (y1, y2) = np.diff(line, axis=0).T
    assert x2 / x1 == pytest.approx(9 / 4, rel=1e-4)
    assert y2 / y1 == pytest.approx(3 / 5, rel=1e-4)
    assert y1 > 0
    assert len(path_points(tmp_path / "a.svg", "paper-0-0")) == 2
    assert panels[0].lines[0].points[1].boards == (0.5, 0.6, 0.1)
    # White behind it all, so that it can be read on a dark page.
    patch = ET.parse(tmp_path / "a.svg").find(f".//{SVG}g[@id='patch_1']/{SVG}path")
    assert patch is not None
    assert "fill: #ffffff" in patch.attrib["style"]


def test_the_same_results_make_the_same_bytes(tmp_path: Path) -> None:
    """In another process, with other hashes, another day and a user's own settings of matplotlib."""
    scores = [*stepped("sudoku-9-test", {1: 0.1, 2: 0.2}), *stepped("sudoku-16-test", {1: 0.1, 2: 0.2})]
    write_results(tmp_path / "a.json", [*THREE, evaluation(*scores, recipe="b", model="grouped")])
    (tmp_path / "matplotlibrc").write_text("lines.linewidth: 9\nfont.size: 30\nsvg.fonttype: none\n")
    script = (
        "import sys\nfrom outgrow.evaluate import read_results\nfrom outgrow.evaluate.figures import draw_results\n"
        "for by in ('size', 'steps'): draw_results(read_results(sys.argv[1]), sys.argv[2] + by + '.svg', by)\n"
        "assert not {'torch', 'matplotlib.pyplot'} & set(sys.modules)"
    )
    environment = {
        **os.environ,
        "PYTHONHASHSEED": "7",
        "MATPLOTLIBRC": str(tmp_path),
        "SOURCE_DATE_EPOCH": "1",
        "DISPLAY": "",
    }
    command = [sys.executable, "-c", script, str(tmp_path / "a.json"), str(tmp_path / "other-")]
    subprocess.run(command, env=environment, check=True)
    from outgrow.evaluate import read_results

    for by in ("size", "steps"):
        draw_results(read_results(tmp_path / "a.json"), tmp_path / f"{by}.svg", by)  # type: ignore[arg-type]
        assert (tmp_path / f"{by}.svg").read_bytes() == (tmp_path / f"other-{by}.svg").read_bytes()
        assert b"<dc:date>" not in (tmp_path / f"{by}.svg").read_bytes()


@pytest.mark.parametrize("name", ["$1_{2}$", "a\nb", "x" * 500, "名前", "<&>", "_hidden"])
def test_any_name_can_be_drawn(tmp_path: Path, name: str) -> None:
    scores = stepped("sudoku-9-test", {1: 0.1, 2: 0.2})
    for by in ("size", "steps"):
        draw_results([evaluation(*scores, recipe=name)], tmp_path / "a.svg", by)  # type: ignore[arg-type]
        shown = unescape(" ".join(strings(tmp_path / "a.svg")))
        assert name[:20].split("\n")[0] in shown


def test_labels_of_sizes_do_not_run_into_each_other() -> None:
    sizes = [4, 6, 9, 10, 12, 15, 16, 20, 24, 25, 30, 36]
    canvas = Canvas()
    module._fill(canvas, by_size(seeds({f"sudoku-{k}-test": 0.5 for k in sizes})), "size")
    assert canvas.axes[0].get_xticks().tolist() == sizes
    canvas = Canvas()
    module._fill(canvas, by_size(seeds({f"sudoku-{k}-test": 0.5 for k in [4, 5, 100, 101, 102, 200]})), "size")
    assert canvas.axes[0].get_xticks().tolist() == [4, 9, 100, 200]
