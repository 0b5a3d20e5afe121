"""What holds for every puzzle there is. A new one in the registry is covered without a change here."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from functools import cache
from itertools import product
from xml.etree import ElementTree

import numpy as np
import pytest
from comparing import Pair, assert_round_trip, assert_same, facts, read

from outgrow.csp import Verdict, constraint_graph
from outgrow.csp.exact import Budget, ExactSolver
from outgrow.puzzles import PUZZLES, Instance, draw_svg, find_conflict, get_puzzle, parse_one, render
from outgrow.puzzles.drawing import svg_row
from outgrow.puzzles.instance import Values

CASES = [(name, number) for name, puzzle in PUZZLES.items() for number in range(len(puzzle.examples))]
every_example = pytest.mark.parametrize(("name", "number"), CASES)

Conflict = tuple[str, frozenset[int]]


@cache
def example(name: str, number: int) -> Instance:
    return read(PUZZLES[name].examples[number])


@cache
def solution(name: str, number: int) -> Values:
    instance = example(name, number)
    with ExactSolver(instance.csp) as solver:
        answer = solver.solve(instance.givens, budget=Budget(seconds=20))
    assert answer.assignment is not None
    return answer.assignment


def in_form(instance: Instance, form: str) -> Instance:
    """The same instance from what a dataset file keeps of it."""
    puzzle = get_puzzle(instance.puzzle)
    pairs = instance.csp.pairs[puzzle.varying] if puzzle.varying else np.zeros((0, 2), dtype=np.int32)
    return puzzle.restore(size=instance.size, shape=instance.shape, pairs=pairs, givens=instance.givens, form=form)


def form_of(instance: Instance) -> str:
    forms = get_puzzle(instance.puzzle).forms
    return next(name for name, lifted in forms.items() if lifted is instance.csp.lifted)


# ---- a judge in plain Python, from nothing but the facts and the functions behind the relations


def plain_conflicts(instance: Instance, values: Sequence[int]) -> set[Conflict]:
    found: set[Conflict] = set()
    for c in instance.csp.constraints:
        holds = instance.csp.lifted.relations[c.relation]
        for x, y in instance.csp.pairs[c.predicate].tolist():
            a, b = (values[y], values[x]) if c.swapped else (values[x], values[y])
            if a and b and not holds(a, b):
                found.add((str(c), frozenset((x, y))))
    return found


def assert_judged(instance: Instance, values: Sequence[int]) -> Verdict:
    verdict = instance.judge(np.array(values))
    wanted = plain_conflicts(instance, values)
    assert {(b.constraint, frozenset((b.x, b.y))) for b in verdict.broken} == wanted
    assert len(verdict.broken) == len(wanted)
    assert verdict.changed == tuple(i for i, g in enumerate(instance.givens.tolist()) if g and values[i] != g)
    assert verdict.unassigned == tuple(i for i, v in enumerate(values) if not v)
    assert verdict.solved == (not wanted and not verdict.changed and not verdict.unassigned)
    return verdict


def corruptions(instance: Instance, solved: Values) -> Iterator[list[int]]:
    """Every way to change or drop the value of one variable."""
    for i in range(len(solved)):
        for value in range(instance.size + 1):
            if value != solved[i]:
                values = solved.tolist()
                values[i] = value
                yield values


# ---- the contract


@pytest.mark.parametrize("name", PUZZLES)
def test_a_puzzle_has_what_it_needs(name: str) -> None:
    puzzle = PUZZLES[name]
    assert puzzle.name == name == puzzle.reader.puzzle
    assert "units" in puzzle.forms
    assert puzzle.examples
    assert puzzle.formats
    assert len({f.name for f in puzzle.formats}) == len(puzzle.formats)
    assert puzzle.varying is None or all(puzzle.varying in lifted.predicates for lifted in puzzle.forms.values())


@every_example
def test_examples_are_detected(name: str, number: int) -> None:
    instance = example(name, number)
    assert instance.puzzle == name
    assert instance.source == "text:1"
    assert_same(read(PUZZLES[name].examples[number], puzzle=name), instance)
    assert form_of(instance) == "units"


@every_example
def test_round_trip_in_every_format(name: str, number: int) -> None:
    instance = example(name, number)
    written = [f.name for f in PUZZLES[name].formats if not f.refuses(instance)]
    assert written
    for format in written:
        assert_round_trip(instance, format)
        assert_round_trip(instance, format, solution(name, number))
    assert render(instance, format=written[0]) == render(read(render(instance, format=written[0])), format=written[0])


@pytest.mark.parametrize(("name", "format"), [(p.name, f.name) for p in PUZZLES.values() for f in p.formats])
def test_every_format_is_tried(name: str, format: str) -> None:
    examples = [example(name, number) for number in range(len(PUZZLES[name].examples))]
    assert any(not PUZZLES[name].format(format).refuses(instance) for instance in examples)


@every_example
def test_exact_solutions_pass_the_verdict(name: str, number: int) -> None:
    instance = example(name, number)
    verdict = assert_judged(instance, solution(name, number).tolist())
    assert verdict.solved
    assert verdict.consistent


@every_example
def test_every_corruption_of_one_variable_is_judged(name: str, number: int) -> None:
    instance, solved = example(name, number), solution(name, number)
    tried = [assert_judged(instance, values).solved for values in corruptions(instance, solved)]
    assert len(tried) == len(solved) * instance.size
    # Without the givens the same holds, and now a corruption is at times another solution.
    free = instance.with_givens(np.zeros(len(solved), dtype=np.int16))
    for values in corruptions(free, solved):
        assert_judged(free, values)


@every_example
def test_partial_assignments_are_judged(name: str, number: int) -> None:
    instance, rng = example(name, number), random.Random(number)
    for _ in range(20):
        assert_judged(instance, [rng.randint(0, instance.size) for _ in range(instance.csp.num_variables)])


@every_example
def test_renaming_values(name: str, number: int) -> None:
    instance, solved = example(name, number), solution(name, number)
    wrong = list(corruptions(instance, solved))[:: max(1, instance.size)]
    rng = random.Random(number)
    size = instance.size
    renamings = [list(range(size, 0, -1)), *(rng.sample(range(1, size + 1), size) for _ in range(10))]
    kept = True
    for order in renamings:
        new = np.array([0, *order])
        renamed = instance.with_givens(new[instance.givens])
        for values in [solved.tolist(), *wrong[:40]]:
            before, after = instance.judge(np.array(values)), assert_judged(renamed, new[values].tolist())
            kept &= (before.solved, before.broken, before.changed) == (after.solved, after.broken, after.changed)
    assert kept == instance.csp.value_symmetric


@every_example
def test_graph_edges_are_the_conflicts(name: str, number: int) -> None:
    instance = example(name, number)
    values = range(1, instance.size + 1)
    wanted: dict[tuple[str, str], set[Pair]] = {}
    for c in instance.csp.constraints:
        holds = instance.csp.lifted.relations[c.relation]
        if all(holds(a, b) for a in values for b in values):
            continue
        wanted.setdefault((c.predicate, c.relation), set()).update(facts(instance)[c.predicate])
    graph = constraint_graph(instance.csp)
    assert graph.num_nodes == instance.csp.num_variables
    found: dict[tuple[str, str], set[Pair]] = {}
    for kind, edges in graph.edges.items():
        pairs = [(x, y) for x, y in edges.T.tolist()]
        assert len(set(pairs)) == len(pairs)
        stated = {(y, x) for x, y in pairs} if kind.reverse else set(pairs)
        if not kind.reverse and any(t.reverse and t.name == kind.name for t in graph.types):
            assert stated == wanted[kind.name, kind.relation]
        found.setdefault((kind.name, kind.relation), set()).update(pairs)
    both = {key: pairs | {(y, x) for x, y in pairs} for key, pairs in wanted.items()}
    assert {key: pairs for key, pairs in found.items() if pairs} == {key: pairs for key, pairs in both.items() if pairs}


@every_example
def test_edges_join_exactly_the_pairs_that_can_break_a_rule(name: str, number: int) -> None:
    """From the verdict alone: two variables with values, all others without."""
    instance = example(name, number)
    count, rng = instance.csp.num_variables, random.Random(number)
    joined = {(x, y) for edges in constraint_graph(instance.csp).edges.values() for x, y in edges.T.tolist()}
    pairs = [(x, y) for x in range(count) for y in range(x + 1, count)]
    for x, y in rng.sample(pairs, min(len(pairs), 60)):
        values = np.zeros(count, dtype=np.int16)
        breaks = False
        for values[x], values[y] in product(range(1, instance.size + 1), repeat=2):
            breaks |= bool(instance.judge(values).broken)
        assert breaks == ((x, y) in joined) == ((y, x) in joined)


@every_example
def test_forms_agree(name: str, number: int) -> None:
    instance, solved, rng = example(name, number), solution(name, number), random.Random(number)
    wrong = list(corruptions(instance, solved))
    tried = [solved.tolist(), *rng.sample(wrong, min(200, len(wrong)))]
    for form, lifted in PUZZLES[name].forms.items():
        other = in_form(instance, form)
        assert other.csp.lifted is lifted
        for values in tried:
            one, two = instance.judge(np.array(values)), other.judge(np.array(values))
            assert (one.solved, one.changed, one.unassigned) == (two.solved, two.changed, two.unassigned)
            assert {frozenset((b.x, b.y)) for b in one.broken} == {frozenset((b.x, b.y)) for b in two.broken}


@every_example
def test_restoring_reproduces_it(name: str, number: int) -> None:
    instance = example(name, number)
    for form in PUZZLES[name].forms:
        stated = in_form(instance, form)
        assert stated.shape == instance.shape
        assert stated.givens.tolist() == instance.givens.tolist()
        assert_same(in_form(stated, form), stated)
    assert_same(in_form(instance, form_of(instance)), instance)


@every_example
def test_a_given_that_breaks_a_rule_is_named(name: str, number: int) -> None:
    instance, solved = example(name, number), solution(name, number)
    place = PUZZLES[name].name_variable
    assert find_conflict(instance) is None
    assert find_conflict(instance.with_givens(solved)) is None
    names = [place(instance, i) for i in range(len(solved))]
    assert len(set(names)) == len(names)
    for values in list(corruptions(instance, solved))[:: instance.size]:
        found = find_conflict(instance.with_givens(np.array(values)))
        broken = plain_conflicts(instance, values)
        assert (found is None) == (not broken)
        if found is not None:
            assert "\n" not in found
            assert any(all(f"{names[i]} is {values[i]}" in found for i in pair) for _, pair in broken)


@every_example
def test_drawings_show_every_value(name: str, number: int) -> None:
    """Taking any one value away changes the drawing."""
    instance, solved = example(name, number), solution(name, number)
    puzzle = PUZZLES[name]
    roles = {"given", "found", "empty", "rule", "sign"} | {f"color-{v}" for v in range(instance.size + 1)}
    for values in (instance.givens, solved):
        rows = puzzle.draw(instance, values)
        assert {role for row in rows for _, role in row} <= roles
        assert not any("\n" in text for row in rows for text, _ in row)
        picture = draw_svg(instance, values)
        assert ElementTree.fromstring(picture).tag == "{http://www.w3.org/2000/svg}svg"
        for i in np.flatnonzero(values).tolist()[:30]:
            fewer = values.copy()
            fewer[i] = 0
            assert puzzle.draw(instance, fewer) != rows
            assert draw_svg(instance, fewer) != picture
    # What breaks a rule looks different from what does not, and is shown where it does.
    kept = instance.givens > 0
    every = list(corruptions(instance, solved))
    # Open variables that stand against something: a stride alone may miss them.
    against = [v for v in every if (np.array(v)[kept] == instance.givens[kept]).all() and plain_conflicts(instance, v)]
    assert against
    for values in [*every[:: 3 * instance.size], *against[:: max(1, len(against) // 6)]]:
        if (np.array(values)[kept] != instance.givens[kept]).any():
            if name != "coloring":
                assert any(role == "broken" for row in puzzle.draw(instance, np.array(values)) for _, role in row)
            continue
        wrong = {i for _, pair in plain_conflicts(instance, values) for i in pair}
        picture = draw_svg(instance, np.array(values))
        assert ("#d1242f" in picture) == bool(wrong)
        if name != "coloring":
            rows = puzzle.draw(instance, np.array(values))
            shown = [role for row in rows for _, role in row if role in {"given", "found", "empty", "broken"}]
            assert all((shown[i] == "broken") <= (i in wrong) for i in range(len(shown)))
            assert all(shown[i] == "broken" for i in wrong if not instance.givens[i])
    assert "#d1242f" not in draw_svg(instance, solved)
    # What was found looks different from what was given.
    assert puzzle.draw(instance, solved) != puzzle.draw(instance.with_givens(solved), solved)
    assert draw_svg(instance, solved) != draw_svg(instance.with_givens(solved), solved)


@every_example
def test_a_layout_has_a_place_for_everything(name: str, number: int) -> None:
    instance = example(name, number)
    layout = PUZZLES[name].layout(instance)
    count, frame = instance.csp.num_variables, (layout.width, layout.height)
    assert layout.shape in {"cell", "box", "disc"}
    assert layout.places.shape == (count, 2)
    assert layout.side > 0
    assert (layout.places >= layout.side / 2).all()
    assert (layout.places <= np.array(frame) - layout.side / 2).all()
    apart = np.abs(layout.places[:, None] - layout.places[None])[np.triu_indices(count, 1)]
    # Discs may overlap in a crowded graph, but never quite.
    assert (apart.max(axis=1) >= (1 if layout.shape == "disc" else layout.side)).all()
    assert len(layout.symbols) == instance.size == len(set(layout.symbols))
    assert all(symbol.strip() == symbol != "" for symbol in layout.symbols)
    for x1, y1, x2, y2, thick in layout.lines:
        assert 0 <= min(x1, x2) <= max(x1, x2) <= layout.width
        assert 0 <= min(y1, y2) <= max(y1, y2) <= layout.height
        assert (x1, y1) != (x2, y2)
        assert thick > 0
    for x, y in layout.places.tolist() if layout.shape == "cell" else []:
        top, left = y - layout.side / 2, x - layout.side / 2
        assert any(x1 <= x <= x2 and y1 == y2 == top for x1, y1, x2, y2, _ in layout.lines)
        assert any(y1 <= y <= y2 and x1 == x2 == left for x1, y1, x2, y2, _ in layout.lines)
    assert layout.links.shape == (len(layout.links), 2)
    assert np.issubdtype(layout.links.dtype, np.integer)
    assert ((layout.links >= 0) & (layout.links < count)).all()
    links = [frozenset(link) for link in layout.links.tolist()]
    assert len(set(links)) == len(links)
    # A link joins two that can break a rule, or nothing would ever make it red.
    edges = constraint_graph(instance.csp).edges.values()
    assert set(links) <= {frozenset(pair) for joined in edges for pair in joined.T.tolist()}
    # Where values are colors, nothing but links can turn red.
    assert len(links) or not layout.colored


@every_example
def test_pictures_are_of_the_layout(name: str, number: int) -> None:
    instance, solved = example(name, number), solution(name, number)
    layout = PUZZLES[name].layout(instance)
    picture = ElementTree.fromstring(draw_svg(instance, solved))
    assert (picture.get("width"), picture.get("height")) == (f"{layout.width:g}", f"{layout.height:g}")
    shapes = picture.findall("{*}circle" if layout.shape == "disc" else "{*}rect")[layout.shape != "disc" :]
    assert len(shapes) == (0 if layout.shape == "cell" else len(solved))
    assert len(picture.findall("{*}line")) == len(layout.lines) + len(layout.links)
    written = [text.text for text in picture.findall("{*}text")]
    assert written == [str(i + 1) if layout.colored else layout.symbols[v - 1] for i, v in enumerate(solved.tolist())]
    if not layout.colored:  # the same as in the terminal
        rows = PUZZLES[name].draw(instance, solved)
        assert written == [text.strip() for row in rows for text, role in row if role in {"given", "found"}]
    # A value that is half sure is drawn half as strongly, wherever it stands.
    faint = draw_svg(instance, solved, np.full(len(solved), 0.5))
    assert faint.count('fill-opacity="0.50"') == len(solved)


def test_a_board_is_drawn_in_its_own_notation() -> None:
    for board, symbols in (
        ("0123" + "." * 252, "0123456789ABCDEF"),
        ("ABCD" + "." * 12, "ABCD"),
        ("1" + "." * 15, "1234"),
    ):
        instance = parse_one(board)
        assert "".join(PUZZLES["sudoku"].layout(instance).symbols) == symbols
        values = np.zeros(len(instance.givens), dtype=np.int16)
        values[5] = instance.size  # found, where no given says what the symbols are
        assert f">{symbols[-1]}</text>" in draw_svg(instance.with_givens(values * 0), values)


def test_pictures_side_by_side() -> None:
    puzzles = [
        parse_one("1.....3..4.....2"),
        parse_one("53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"),
    ]
    row = ElementTree.fromstring(svg_row([draw_svg(p, p.givens) for p in puzzles], 100))
    assert (row.get("width"), row.get("height")) == ("210", "100")
    inner = [element for element in row if element.tag.endswith("svg")]
    assert [(e.get("x"), e.get("width"), e.get("height")) for e in inner] == [
        ("0", "100", "100"),
        ("110", "100", "100"),
    ]
    grounds = [e.find("{*}rect") for e in inner]
    assert [g.get("width") for g in grounds if g is not None] == ["100%"] * 2


def test_a_single_node_lies_in_the_middle() -> None:
    layout = get_puzzle("coloring").layout(parse_one("c k 2\np edge 1 0"))
    assert layout.places.tolist() == [[layout.width / 2, layout.height / 2]]
