"""The solver for people: whose answer it is, and that no answer is ever called right that is not."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cache

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from outgrow import Instance, LiftedCSP, OutgrowError, Solver, parse_one
from outgrow.csp import Groups
from outgrow.csp.exact import ExactSolver
from outgrow.data import find_dataset
from outgrow.graphs import Schema
from outgrow.models import BinarizedConfig, GroupedConfig, MultivaluedConfig, build_model
from outgrow.puzzles.coloring import build as build_graph
from outgrow.solve import neural
from outgrow.solve import solver as module
from outgrow.solve.animation import draw_trace, picture_trace
from outgrow.solve.neural import Frame

NINE = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
NINE_SOLVED = "534678912672195348198342567859761423426853791713924856961537284287419635345286179"
FOUR = "1.....3..4.....2"


@cache
def alone() -> Solver:
    return Solver(guarantee=False, steps=24)


@cache
def sure() -> Solver:
    return Solver(steps=24)


def untrained(text: str) -> Solver:
    torch.manual_seed(0)
    model = build_model(Schema.of(parse_one(text).csp), BinarizedConfig(width=4, steps=2))
    return Solver(model)


def test_from_a_string_to_a_checked_solution() -> None:
    answer = Solver().solve(NINE)
    assert (answer.solved, answer.status, answer.source, answer.text) == (True, "solved", "neural", NINE_SOLVED)
    assert str(answer) == f"{NINE_SOLVED}\nsolved by a neural network, checked"
    assert answer.assignment is not None
    assert parse_one(NINE).judge(answer.assignment).solved
    assert answer.confidence is not None
    assert answer.confidence.shape == (81,)
    assert (answer.confidence[parse_one(NINE).givens > 0] == 1).all()
    assert 0 < answer.confidence.min() <= answer.confidence.max() <= 1
    assert answer.steps > 1
    assert answer.seconds > 0


def test_what_an_untrained_network_says_is_never_the_answer() -> None:
    answer = untrained(FOUR).solve(FOUR)
    assert (answer.source, answer.text, answer.steps, answer.reason) == ("exact", "1324423124133142", 2, "")
    assert answer.guess is not None
    assert not parse_one(FOUR).judge(answer.guess).solved
    assert str(answer).endswith("solved by the exact solver, checked")
    model = untrained(FOUR).network_for(parse_one(FOUR)).model
    answer = Solver(model, guarantee=False).solve(FOUR)
    assert (answer.solved, answer.assignment, answer.text) == (False, None, "")
    assert str(answer).startswith("not solved: the network's answer breaks a rule ('")


def test_what_the_network_says_is_tried_first() -> None:
    """A board with one given has many solutions: the one that is found agrees with the network where it can."""
    puzzle = parse_one("." * 80 + "9")
    solution = np.array([int(c) for c in NINE_SOLVED])
    near = solution.copy()
    near[:4] = near[3]

    class Close(Solver):
        def _finish(self, answer: module.Answer) -> module.Answer:
            return super()._finish(module.replace(answer, guess=near.astype(np.int16)))

    answer = Close(network=False).solve(puzzle)
    assert answer.assignment is not None
    assert (answer.assignment == solution).sum() > 60


def test_answers_come_in_order_whatever_is_mixed() -> None:
    texts = [NINE, FOUR, "11" + "." * 14, "4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,", NINE]
    answers = list(sure().solve_all(iter(texts)))
    assert [a.status for a in answers] == ["solved", "solved", "unsatisfiable", "solved", "solved"]
    assert [len(a.puzzle.givens) for a in answers] == [81, 16, 16, 16, 81]
    assert answers[0].text == answers[4].text == NINE_SOLVED
    assert "row 1 column 1 is 1 and row 1 column 2 is 1" in answers[2].reason
    assert str(answers[2]).startswith("has no solution (proven): a given breaks a rule: ")


def test_answers_come_before_all_puzzles_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_CHUNK", 2)
    read: list[int] = []

    def endless() -> Iterator[str]:
        while True:
            read.append(len(read))
            yield FOUR

    answers = Solver(network=False).solve_all(endless())
    assert [next(answers).solved for _ in range(3)] == [True] * 3
    assert len(read) <= 5


def test_a_text_may_hold_many() -> None:
    assert [a.solved for a in Solver(network=False).solve_all(f"{FOUR}\n{NINE}\n")] == [True, True]


def test_what_is_done_is_not_lost_to_what_is_hard(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second one never ends: the first is there before it is begun."""
    solver = Solver(network=False)
    real = solver._ask_exact

    def stop(answer: module.Answer, finish: bool, began: float) -> module.Answer:
        if len(answer.puzzle.givens) == 81:
            raise KeyboardInterrupt
        return real(answer, finish, began)

    monkeypatch.setattr(solver, "_ask_exact", stop)
    answers = solver.solve_all([FOUR, NINE])
    assert next(answers).solved
    with pytest.raises(KeyboardInterrupt):
        next(answers)


def test_what_a_network_has_done_is_not_lost_to_what_it_is_stuck_with(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of puzzles that are solved together, the second is never reached."""
    real, sizes = neural._solve_part, []

    def stop(model: object, puzzles: object, part: object, instances: list[Instance], *more: object) -> object:
        sizes.append(len(instances))
        if len(sizes) == 2:
            raise KeyboardInterrupt
        return real(model, puzzles, part, instances, *more)  # pyright: ignore[reportArgumentType]

    monkeypatch.setattr(neural, "_solve_part", stop)
    monkeypatch.setitem(neural._NODES, "cpu", 1 << 10)
    answers = Solver(guarantee=False, steps=24, device="cpu").solve_all([NINE, NINE])
    assert next(answers).solved
    with pytest.raises(KeyboardInterrupt):
        next(answers)
    assert sizes == [1, 1]


def test_a_model_for_fewer_values_leaves_the_others_to_the_exact_solver() -> None:
    torch.manual_seed(0)
    model = build_model(Schema.of(parse_one(FOUR).csp), MultivaluedConfig(width=4, steps=2, max_values=4))
    answers = list(Solver(model).solve_all([FOUR, NINE]))
    assert [(a.solved, a.source) for a in answers] == [(True, "exact")] * 2
    assert answers[1].steps == 0
    with pytest.raises(OutgrowError, match="embeddings for 4"):
        Solver(model, guarantee=False).check([parse_one(NINE)])


def test_time_for_stating_the_problem_counts() -> None:
    dense = build_graph(np.stack(np.triu_indices(150, 1), axis=1), np.zeros(150, dtype=int), 150)
    answer = Solver(network=False, seconds=0.01).solve(dense)
    assert (answer.status, answer.source) == ("ran_out", "exact")


def test_a_puzzle_has_the_same_answer_in_any_company() -> None:
    texts = ["1" + "." * 15, "." * 15 + "2", "12" + "." * 14, "1" + "." * 15]
    torch.manual_seed(0)
    model = build_model(Schema.of(parse_one(FOUR).csp), BinarizedConfig(width=4, steps=1))
    together = [a.text for a in Solver(model).solve_all(texts)]
    assert together == [Solver(model).solve(text).text for text in texts]
    assert together[0] == together[3]


def test_threads_may_share_a_solver() -> None:
    from concurrent.futures import ThreadPoolExecutor

    solver = Solver(network=False)
    texts = [FOUR, NINE, "." * 36, "." * 256] * 4
    with ThreadPoolExecutor(4) as pool:
        answers = list(pool.map(solver.solve, texts))
    assert all(a.solved for a in answers)


def test_what_is_too_large_for_both_is_said_and_the_others_are_solved(monkeypatch: pytest.MonkeyPatch) -> None:
    import outgrow.csp.exact as exact

    monkeypatch.setattr(exact, "MAX_CLAUSES", 2_000)
    large = build_graph(np.stack(np.triu_indices(60, 1), axis=1), np.zeros(60, dtype=int), 61)
    answers = list(Solver(network=False).solve_all([FOUR, large, FOUR]))
    assert [a.status for a in answers] == ["solved", "unsolved", "solved"]
    assert answers[1].source == "exact"
    assert "clauses" in str(answers[1])


def test_whether_it_is_the_only_solution() -> None:
    solver = Solver(network=False, unique=True)
    assert solver.solve(FOUR).unique is True
    assert solver.solve("." * 16).unique is False
    assert solver.solve("123....4" + "." * 8).status == "unsatisfiable"
    assert Solver(network=False).solve(FOUR).unique is None
    assert Solver(network=False, seconds=0).solve(NINE).status == "ran_out"


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"steps": 0}, "0 steps"),
        ({"restarts": -1}, "-1 restarts"),
        ({"seconds": float("nan")}, "seconds"),
        ({"seconds": -1.0}, "seconds"),
        ({"weights": "sudoku-grouped", "model": "grouped"}, "not both"),
        ({"weights": "sudoku-grouped", "network": False}, "leave out weights"),
        ({"weights": 5}, "not int"),
        ({"steps": 2.5}, "2.5 steps"),
        ({"restarts": "a"}, "a restarts"),
        ({"seconds": None}, "None seconds"),
    ],
)
def test_what_it_cannot_do_is_said_at_once(options: dict[str, object], reason: str) -> None:
    with pytest.raises(OutgrowError, match=reason):
        Solver(**options)  # type: ignore[arg-type]


@pytest.mark.parametrize("puzzle", [None, 5, [1, 2], np.zeros((4, 4))])
def test_what_is_no_puzzle(puzzle: object) -> None:
    with pytest.raises(OutgrowError, match="a puzzle is text or an Instance, not "):
        Solver(network=False).solve(puzzle)  # type: ignore[arg-type]


def test_one_puzzle_is_not_many() -> None:
    with pytest.raises(OutgrowError, match="takes many puzzles"):
        next(Solver(network=False).solve_all(parse_one(FOUR)))  # type: ignore[arg-type]


def test_without_a_network_there_is_nothing_to_trace() -> None:
    with pytest.raises(OutgrowError, match="no beliefs"):
        next(Solver(network=False).trace(FOUR))


def test_more_steps_than_there_can_be_are_refused() -> None:
    with pytest.raises(OutgrowError, match="1,000 attempts of 1,000 steps"):
        Solver(steps=1000, restarts=999).solve(FOUR)


def test_weights_are_found_when_they_are_needed() -> None:
    with pytest.raises(OutgrowError, match="no weights 'nothing'"):
        Solver("nothing").solve(FOUR)
    with pytest.raises(OutgrowError, match="no weights of a compact model are shipped for a sudoku; there are"):
        Solver(model="compact").solve(FOUR)
    assert (
        Solver("sudoku-6-grouped").network_for(parse_one(FOUR)).name == "sudoku-6-grouped, trained on at most 6 values"
    )
    assert Solver(model="grouped").network_for(parse_one(FOUR)).name.startswith("sudoku-grouped, ")


# ---- never a wrong board


def damage(rng: np.random.Generator, puzzle: Instance) -> Instance:
    """Givens changed, added or taken away: most have no solution then, or many."""
    givens = puzzle.givens.copy()
    for _ in range(int(rng.integers(0, 4))):
        givens[rng.integers(len(givens))] = rng.integers(0, puzzle.size + 1)
    if rng.random() < 0.3:
        givens[rng.random(len(givens)) < 0.5] = 0
    return puzzle.with_givens(givens)


@pytest.mark.parametrize("name", ["sudoku-4-test", "sudoku-6-test", "futoshiki-6-test", "coloring-4-test"])
@pytest.mark.parametrize("guarantee", [True, False])
def test_damaged_puzzles_are_never_solved_wrongly(name: str, guarantee: bool) -> None:
    rng = np.random.default_rng(5)
    dataset = find_dataset(name)
    puzzles = [damage(rng, dataset[i]) for i in range(40)]
    solver = Solver(guarantee=guarantee, steps=12)
    statuses: set[str] = set()
    for puzzle, answer in zip(puzzles, solver.solve_all(puzzles), strict=True):
        statuses.add(answer.status)
        with ExactSolver(puzzle.csp) as exact:
            possible = exact.solve(puzzle.givens).status == "solved"
        if answer.assignment is not None:
            assert puzzle.judge(answer.assignment).solved
            assert (answer.assignment[puzzle.givens > 0] == puzzle.givens[puzzle.givens > 0]).all()
        assert answer.solved == (answer.assignment is not None)
        assert answer.status != "unsatisfiable" or not possible
        if guarantee:
            assert answer.status == ("solved" if possible else "unsatisfiable")
    assert statuses == ({"solved", "unsatisfiable"} if guarantee else {"solved", "unsolved", "unsatisfiable"})


@given(st.lists(st.integers(0, 4), min_size=16, max_size=16))
@settings(max_examples=60, deadline=None)
def test_any_board_at_all(values: list[int]) -> None:
    puzzle = parse_one(FOUR).with_givens(np.array(values))
    answer = sure().solve(puzzle)
    with ExactSolver(puzzle.csp) as exact:
        assert answer.solved == (exact.solve(puzzle.givens).status == "solved")
    if answer.assignment is not None:
        assert puzzle.judge(answer.assignment).solved


def test_what_is_too_large_for_a_network_is_left_to_the_exact_solver() -> None:
    star = np.stack([np.zeros(5999, dtype=int), np.arange(1, 6000)], axis=1)
    puzzle = build_graph(star, np.zeros(6000, dtype=int), 2)
    answer = Solver().solve(puzzle)
    assert (answer.status, answer.source, answer.steps) == ("solved", "exact", 0)
    with pytest.raises(
        OutgrowError, match="6,000 variables, 2 values and up to 5,999 neighbors are too many for a network"
    ):
        Solver(guarantee=False).solve(puzzle)


# ---- one's own


def latin(n: int) -> Instance:
    lifted = LiftedCSP(
        ["row(2)", "col(2)"], {"neq": lambda a, b: a != b}, ["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)"]
    )
    rows = [range(i * n, (i + 1) * n) for i in range(n)]
    csp = lifted.ground(n * n, n, {"row": Groups(rows), "col": Groups(zip(*rows, strict=True))})
    givens = np.zeros(n * n, dtype=int)
    givens[0] = 1
    return Instance.of(csp, givens)


def test_a_problem_of_ones_own() -> None:
    puzzle = latin(3)
    with pytest.raises(OutgrowError, match="a problem of one's own needs weights of its own"):
        Solver().solve(puzzle)
    model = build_model(Schema.of(puzzle.csp), GroupedConfig(width=8, steps=2, marks=2))
    answer = Solver(model).solve(puzzle)
    assert answer.assignment is not None
    assert puzzle.judge(answer.assignment).solved
    assert answer.text == " ".join(map(str, answer.assignment))
    answer = Solver(model).solve(puzzle.with_givens(np.array([1, 1, *[0] * 7])))
    assert answer.reason == "a given breaks a rule: variable 0 is 1 and variable 1 is 1, against 'row'"


# ---- beliefs


def test_beliefs_after_every_step() -> None:
    puzzle = parse_one(NINE)
    frames = list(Solver().trace(NINE))
    assert [f.step for f in frames] == list(range(1, len(frames) + 1))
    assert [f.solved for f in frames] == [False] * (len(frames) - 1) + [True]
    for frame in frames:
        assert frame.beliefs.shape == (81, 9)
        np.testing.assert_allclose(frame.beliefs.sum(1), 1, atol=1e-5)
        known = puzzle.givens > 0
        assert (frame.beliefs[known].argmax(1) + 1 == puzzle.givens[known]).all()
        assert (frame.beliefs[known].max(1) == 1).all()
        assert (frame.assignment == frame.beliefs.argmax(1) + 1).all()
    assert len(frames) == Solver().solve(NINE).steps
    assert len(list(Solver().trace(NINE, steps=2))) == 2
    assert torch.is_grad_enabled()
    with pytest.raises(OutgrowError, match="0 steps"):
        Solver().trace(NINE, steps=0)


def test_beliefs_through_all_attempts() -> None:
    """As many steps as the answer takes, with notes where the weights take them."""
    hard = find_dataset("futoshiki-11-test")
    puzzle = hard[len(hard) - 4]
    solver = Solver("futoshiki-grouped", steps=16, restarts=4, guarantee=False)
    answer = solver.solve(puzzle)
    frames = list(solver.trace(puzzle, restarts=4))
    assert answer.solved
    assert len(frames) == answer.steps > 16
    assert frames[-1].assignment.tolist() == answer.guess.tolist()
    assert frames[16].guess is None
    assert (
        Solver("futoshiki-grouped", steps=16, restarts=4, guarantee=False, notes=False).solve(puzzle).steps
        != answer.steps
    )
    assert [f.attempt for f in solver.trace(puzzle)] == [0] * 16
    assert [f.attempt for f in solver.trace(puzzle, 2, 1)] == [0, 0, 1, 1]  # too short for notes
    assert [f.guess is None for f in solver.trace(puzzle, 2, 1)] == [True, True, False, False]


@pytest.mark.parametrize("restarts", [-1, 1.5, True, 100_000])
def test_restarts_of_a_trace_that_are_refused(restarts: int) -> None:
    with pytest.raises(OutgrowError, match="restarts; 0 to 99,999 are possible"):
        Solver().trace(NINE, restarts=restarts)


def test_a_trace_of_too_many_steps_in_all_is_refused() -> None:
    with pytest.raises(OutgrowError, match="101 attempts of 1,000 steps; 100,000 steps in all are possible"):
        Solver().trace(NINE, 1_000, 100)
    with pytest.raises(OutgrowError, match="100001 steps; 1 to 100,000 are possible"):
        Solver().trace(NINE, 100_001)


def frames(puzzle: Instance, count: int) -> list[Frame]:
    values, size = np.ones(len(puzzle.givens), dtype=np.int16), puzzle.size
    beliefs = np.full((len(values), size), 1 / size, dtype=np.float32)
    return [Frame(i + 1, beliefs, values, i == count - 1) for i in range(count)]


@pytest.mark.parametrize(
    "puzzle",
    [
        parse_one(FOUR),
        parse_one("4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,"),
        build_graph(np.array([(0, 1), (1, 2)]), np.zeros(4, dtype=int), 3),
    ],
    ids=["sudoku", "futoshiki", "coloring"],
)
def test_moving_pictures(puzzle: Instance, tmp_path: object) -> None:
    from pathlib import Path
    from xml.etree import ElementTree

    from PIL import Image

    folder = Path(str(tmp_path))
    draw_trace(puzzle, frames(puzzle, 5), folder / "a.svg")
    tree = ElementTree.parse(folder / "a.svg").getroot()
    groups = [g for g in tree if g.tag.endswith("}g")]
    assert [g.get("visibility") for g in groups] == ["hidden"] * 4 + ["visible"]
    for i, group in enumerate(groups):
        [moving] = [e for e in group if e.tag.endswith("}animate")]
        times = [float(t) for t in (moving.get("keyTimes") or "").split(";")]
        assert times == sorted(times)
        assert times[0] == 0
        assert (moving.get("values") or "").split(";").count("visible") == 1
        assert [e.text for e in group if e.tag.endswith("}text")][-1] == f"step {i + 1}{': solved' * (i == 4)}"
    assert picture_trace(puzzle, frames(puzzle, 5), ".svg") == (folder / "a.svg").read_bytes()
    draw_trace(puzzle, frames(puzzle, 200), folder / "a.gif")
    assert picture_trace(puzzle, frames(puzzle, 200), ".gif") == (folder / "a.gif").read_bytes()
    with Image.open(folder / "a.gif") as image:
        assert 1 < getattr(image, "n_frames", 1) <= 48
    for name, reason in (("a.png", r"\.svg or \.gif"), ("none/a.svg", "does not exist")):
        with pytest.raises(OutgrowError, match=reason):
            draw_trace(puzzle, frames(puzzle, 2), folder / name)
    with pytest.raises(OutgrowError, match="nothing to draw"):
        draw_trace(puzzle, [], folder / "b.svg")
    assert sorted(p.name for p in folder.iterdir()) == ["a.gif", "a.svg"]


def test_a_caption_says_which_attempt() -> None:
    first, second = frames(parse_one(FOUR), 2)
    picture = picture_trace(parse_one(FOUR), [first, module.replace(second, attempt=1)], ".svg").decode()
    assert re.findall(r">(step [^<]*)<", picture) == ["step 1", "step 2, attempt 2: solved"]


def test_one_red_value_is_red_in_a_gif_too() -> None:
    """Among hundreds of others, on white paper, whatever else is in the picture."""
    from io import BytesIO

    from PIL import Image

    puzzle = parse_one("." * 625)
    with ExactSolver(puzzle.csp) as exact:
        values = exact.solve(puzzle.givens).assignment
    assert values is not None
    puzzle = puzzle.with_givens(np.where(np.arange(625) < 600, values, 0))
    wrong = values.copy()
    wrong[-1] = wrong[-1] % 25 + 1
    beliefs = np.full((625, 25), 1.0, dtype=np.float32)
    gif = picture_trace(puzzle, [Frame(1, beliefs, wrong, False), Frame(2, beliefs, values, True)], ".gif")
    with Image.open(BytesIO(gif)) as image:
        red: list[int] = []
        for at in range(2):
            image.seek(at)
            levels = np.asarray(image.convert("RGB")).astype(int)
            assert (levels[:5] == 255).all()
            red.append(int(((levels[..., 0] > 180) & (levels[..., 1:] < 100).all(-1)).sum()))
    assert red[0] > 5
    assert red[1] == 0
