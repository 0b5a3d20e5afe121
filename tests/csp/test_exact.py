from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ortools.sat.python import cp_model
from plain_rules import Pair, PlainCSP, Rules, coloring_rules, latin_rules, plain_csps, strike, sudoku_rules

from outgrow.csp import GroundCSP, Groups, LiftedCSP, exact, judge
from outgrow.csp.exact import Budget, Engine, ExactSolver, TooLarge, encode, find_clique
from outgrow.puzzles import coloring, futoshiki, sudoku
from outgrow.puzzles.instance import Instance

DIFFER = LiftedCSP(["nbr(2)"], {"neq": lambda a, b: a != b}, ["nbr(x, y) -> neq(x, y)"])
ENGINES: list[Engine] = ["glucose4", "cadical195"]


# ---- random puzzles, with what CP-SAT needs to know about them


@dataclass(frozen=True, eq=False)
class Case:
    """A puzzle as the library has it, and its rules as CP-SAT gets them; `wanted` is an assignment to come near to."""

    name: str
    instance: Instance
    rules: Rules
    wanted: list[int]

    @property
    def givens(self) -> list[int]:
        return self.instance.givens.tolist()


def shuffled_board(rng: np.random.Generator, height: int, width: int) -> list[int]:
    """A solved Sudoku (boxes of height x width); of height 1, any shuffled Latin square."""
    size = height * width
    rows = [height * band + r for band in rng.permutation(width) for r in rng.permutation(height)]
    columns = [width * stack + c for stack in rng.permutation(height) for c in rng.permutation(width)]
    names = rng.permutation(size) + 1
    return [int(names[(width * (r % height) + r // height + c) % size]) for r in rows for c in columns]


def spoil(rng: np.random.Generator, values: Sequence[int], size: int, count: int) -> list[int]:
    """The values with `count` of those that are there drawn anew."""
    spoiled = list(values)
    known = [i for i, v in enumerate(values) if v]
    for i in rng.permutation(known)[:count].tolist():
        spoiled[i] = int(rng.integers(1, size + 1))
    return spoiled


def hide(rng: np.random.Generator, board: Sequence[int], kept: float) -> list[int]:
    return [v if rng.random() < kept else 0 for v in board]


def random_sudoku(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    height, width = [(2, 2), (2, 3), (3, 2), (3, 3)][seed % 4]
    size = height * width
    board = shuffled_board(rng, height, width)
    # At 9x9 some proofs without enough givens take CP-SAT seconds.
    givens = hide(rng, board, rng.uniform(0.35, 0.6) if size == 9 else rng.uniform(0.0, 0.5))
    givens = spoil(rng, givens, size, count=int(rng.choice([0, 0, 1, 2])))
    wanted = spoil(rng, board, size, count=int(rng.integers(20 if size == 9 else size * size)))
    wanted = hide(rng, wanted, 0.9)
    instance = sudoku.build(height, width, np.array(givens), form=str(rng.choice(["units", "nbr"])))
    return Case(f"sudoku {seed}", instance, sudoku_rules(height, width), wanted)


def random_futoshiki(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    size = 4 + seed % 3
    board = shuffled_board(rng, 1, size)
    touching = [(i, i + 1) for i in range(size * size) if (i + 1) % size]
    touching += [(i, i + size) for i in range(size * size - size)]
    signs = [(x, y) if board[x] < board[y] else (y, x) for x, y in touching if rng.random() < 0.4]
    for i in rng.permutation(len(signs))[: int(rng.choice([0, 0, 1, 2]))].tolist():
        signs[i] = signs[i][::-1]
    givens = spoil(rng, hide(rng, board, rng.uniform(0.0, 0.4)), size, count=int(rng.choice([0, 0, 1])))
    wanted = spoil(rng, board, size, count=int(rng.integers(size * size)))
    instance = futoshiki.build(size, np.array(signs), np.array(givens), form=str(rng.choice(["units", "nbr"])))
    return Case(f"futoshiki {seed}", instance, latin_rules(size, signs), wanted)


def random_coloring(seed: int) -> Case:
    rng = np.random.default_rng(seed)
    nodes, colors = int(rng.integers(5, 16)), int(rng.integers(2, 6))
    board = rng.integers(1, colors + 1, nodes).tolist()
    density = rng.uniform(0.4, 0.9)
    inside = rng.choice([0, 0, 0.1])  # edges that the board breaks
    edges = [
        (x, y) for x, y in combinations(range(nodes), 2) if rng.random() < (density if board[x] != board[y] else inside)
    ]
    givens = spoil(rng, hide(rng, board, rng.uniform(0.0, 0.6)), colors, count=int(rng.choice([0, 0, 1])))
    wanted = rng.integers(0, colors + 1, nodes).tolist()
    instance = coloring.build(np.array(edges), np.array(givens), colors)
    return Case(f"coloring {seed}", instance, coloring_rules(nodes, colors, edges), wanted)


FAMILIES = [random_sudoku, random_futoshiki, random_coloring]
families = pytest.mark.parametrize("family", FAMILIES, ids=["sudoku", "futoshiki", "coloring"])


# ---- CP-SAT


def cp_state(rules: Rules, givens: Sequence[int]) -> tuple[cp_model.CpModel, list[cp_model.IntVar]]:
    model = cp_model.CpModel()
    cells = [model.new_int_var(1, rules.values, f"v{i}") for i in range(rules.variables)]
    for group in rules.different:
        model.add_all_different([cells[i] for i in group])
    for x, y in rules.less:
        model.add(cells[x] < cells[y])
    for i, value in enumerate(givens):
        if value:
            model.add(cells[i] == value)
    return model, cells


def cp_solver() -> cp_model.CpSolver:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    return solver


class Tally(cp_model.CpSolverSolutionCallback):
    """Counts solutions and stops at the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.count = 0
        self.limit = limit

    def on_solution_callback(self) -> None:
        self.count += 1
        if self.count >= self.limit:
            self.stop_search()


def cp_count(rules: Rules, givens: Sequence[int], limit: int) -> int:
    model, _ = cp_state(rules, givens)
    solver = cp_solver()
    solver.parameters.enumerate_all_solutions = True
    tally = Tally(limit)
    solver.solve(model, tally)
    return tally.count


def cp_agreement(rules: Rules, givens: Sequence[int], wanted: Sequence[int]) -> int | None:
    """On how many wanted variables a solution can agree; None if there is no solution."""
    model, cells = cp_state(rules, givens)
    kept: list[cp_model.IntVar] = []
    for i, value in enumerate(wanted):
        if value:
            kept.append(model.new_bool_var(f"kept{i}"))
            model.add(cells[i] == value).only_enforce_if(kept[-1])
    model.maximize(sum(kept))
    solver = cp_solver()
    status = solver.solve(model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE)
    return round(solver.objective_value) if status == cp_model.OPTIMAL else None


def agreement(assignment: Sequence[int], wanted: Sequence[int]) -> int:
    return sum(w > 0 and w == v for v, w in zip(assignment, wanted, strict=True))


def keeps(assignment: Sequence[int], givens: Sequence[int]) -> bool:
    return all(g in (0, v) for v, g in zip(assignment, givens, strict=True))


# ---- agreement with CP-SAT


@families
def test_satisfiability_and_number_of_solutions_agree_with_cp_sat(family: Callable[[int], Case]) -> None:
    limit = 3
    met: Counter[int] = Counter()
    for seed in range(200):
        case = family(seed)
        expected = cp_count(case.rules, case.givens, limit)
        met[expected] += 1
        with ExactSolver(case.instance.csp) as solver:
            answer = solver.solve(case.givens)
            count = solver.count(case.givens, limit=limit)
        assert answer.status == ("solved" if expected else "unsatisfiable"), case.name
        assert (count.count, count.status) == (expected, "limit" if expected == limit else "exact"), case.name
        if answer.assignment is not None:
            assert case.rules.hold(answer.assignment.tolist()), case.name
            assert keeps(answer.assignment.tolist(), case.givens), case.name
            assert case.instance.judge(answer.assignment).solved, case.name
    # A sample that left out one kind of answer would prove little.
    assert min(met[0], met[1], met[limit]) >= 5, met


@families
@pytest.mark.parametrize("with_givens", [False, True], ids=["free", "givens"])
def test_nearest_agrees_with_cp_sat(family: Callable[[int], Case], with_givens: bool) -> None:
    met: Counter[str] = Counter()
    for seed in range(1_000, 1_060):
        case = family(seed)
        givens = case.givens if with_givens else [0] * len(case.wanted)
        expected = cp_agreement(case.rules, givens, case.wanted)
        with ExactSolver(case.instance.csp) as solver:
            nearest = solver.nearest(case.wanted, givens if with_givens else None)
        met[nearest.status] += 1
        if expected is None:
            assert (nearest.status, nearest.assignment) == ("unsatisfiable", None), case.name
            continue
        assert (nearest.status, nearest.agreement, nearest.bound) == ("optimal", expected, expected), case.name
        assert nearest.assignment is not None
        assert agreement(nearest.assignment.tolist(), case.wanted) == expected, case.name
        assert case.rules.hold(nearest.assignment.tolist()), case.name
        assert keeps(nearest.assignment.tolist(), givens), case.name
    assert met["optimal"] >= 20, met
    assert met["unsatisfiable"] >= (5 if with_givens else 0), met


# ---- agreement with numbers known otherwise


@settings(deadline=None)
@given(plain_csps(max_variables=4, max_values=3), st.data())
def test_any_csp_agrees_with_trying_all_assignments(plain: PlainCSP, data: st.DataObject) -> None:
    """Random relations, asymmetric ones among them, which no puzzle has."""
    partial = st.lists(st.integers(0, plain.values), min_size=plain.variables, max_size=plain.variables)
    givens, wanted = data.draw(partial), data.draw(partial)
    solutions = [s for s in plain.solutions() if keeps(s, givens)]
    with ExactSolver(plain.ground()) as solver:
        assert solver.count(givens, limit=100).count == len(solutions)
        answer, nearest = solver.solve(givens), solver.nearest(wanted, givens)
    if solutions:
        assert answer.assignment is not None
        assert tuple(answer.assignment.tolist()) in solutions
        assert nearest.assignment is not None
        assert tuple(nearest.assignment.tolist()) in solutions
        assert nearest.agreement == nearest.bound == max(agreement(s, wanted) for s in solutions)
    else:
        assert answer.status == nearest.status == "unsatisfiable"


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("form", ["units", "nbr"])
def test_both_forms_of_a_4x4_sudoku_have_288_solutions(form: str, engine: Engine) -> None:
    with ExactSolver(sudoku.build(2, 2, np.zeros(16, dtype=int), form=form).csp, engine) as solver:
        count = solver.count(limit=1_000)
    assert (count.status, count.count) == ("exact", 288)


@pytest.mark.parametrize("form", ["units", "nbr"])
def test_both_forms_of_a_futoshiki_without_signs_are_the_576_latin_squares(form: str) -> None:
    with ExactSolver(futoshiki.build(4, np.zeros((0, 2)), np.zeros(16, dtype=int), form=form).csp) as solver:
        assert solver.count(limit=1_000).count == 576


def test_both_forms_of_a_sudoku_agree_under_givens() -> None:
    for seed in range(20):
        rng = np.random.default_rng(seed)
        givens = np.array(spoil(rng, hide(rng, shuffled_board(rng, 2, 3), 0.3), 6, count=seed % 2))
        counts: list[int] = []
        for form in ("units", "nbr"):
            with ExactSolver(sudoku.build(2, 3, givens, form=form).csp) as solver:
                counts.append(solver.count(givens, limit=200).count)
        assert counts[0] == counts[1], seed


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize(("nodes", "colors"), [(5, 2), (5, 3), (6, 2), (6, 3)])
def test_colorings_of_a_cycle_follow_its_chromatic_polynomial(nodes: int, colors: int, engine: Engine) -> None:
    cycle = np.array([(i, (i + 1) % nodes) for i in range(nodes)])
    with ExactSolver(coloring.build(cycle, np.zeros(nodes, dtype=int), colors).csp, engine) as solver:
        assert solver.count(limit=1_000).count == (colors - 1) ** nodes + (-1) ** nodes * (colors - 1)


def mycielski(edges: list[Pair], nodes: int) -> tuple[list[Pair], int]:
    """A graph that needs one color more and has no larger clique."""
    copies = [edge for x, y in edges for edge in ((x, nodes + y), (y, nodes + x))]
    return edges + copies + [(nodes + i, 2 * nodes) for i in range(nodes)], 2 * nodes + 1


@pytest.mark.parametrize("break_symmetry", [False, True])
def test_chromatic_numbers_of_graphs_without_triangles_are_proven(break_symmetry: bool) -> None:
    edges, nodes = [(0, 1)], 2
    for chromatic in (3, 4, 5):
        edges, nodes = mycielski(edges, nodes)
        for colors, status in ((chromatic - 1, "unsatisfiable"), (chromatic, "solved")):
            instance = coloring.build(np.array(edges), np.zeros(nodes, dtype=int), colors)
            with ExactSolver(instance.csp) as solver:
                assert solver.solve(break_symmetry=break_symmetry).status == status


# ---- edges of what can be stated


def test_a_group_larger_than_the_value_set_is_unsatisfiable_at_once() -> None:
    """Stated in pairs, a pigeonhole of this size is out of reach."""
    csp = DIFFER.ground(variables=13, values=12, facts={"nbr": Groups([range(13)])})
    budget = Budget(conflicts=1)
    with ExactSolver(csp) as solver:
        assert solver.propagate([0] * 13) is None
        assert solver.solve(budget=budget).status == "unsatisfiable"
        assert solver.count(budget=budget).status == "exact"
        assert solver.nearest([1] * 13, budget=budget).status == "unsatisfiable"


def test_a_group_whose_members_need_not_differ_may_be_larger_than_the_value_set() -> None:
    lifted = LiftedCSP(["near(2)"], {"close": lambda a, b: abs(a - b) <= 1}, ["near(x, y) -> close(x, y)"])
    for members in (3, 4):
        with ExactSolver(lifted.ground(4, 3, {"near": Groups([range(members)])})) as solver:
            free = 3 ** (4 - members)
            # All of 1 and 2, or all of 2 and 3, with all 2 counted twice.
            assert solver.count(limit=100).count == free * (2 * 2**members - 1)


@pytest.mark.parametrize(("variables", "values", "count"), [(0, 3, 1), (1, 1, 1), (3, 1, 1), (2, 3, 9)])
def test_a_csp_without_facts_takes_every_assignment(variables: int, values: int, count: int) -> None:
    with ExactSolver(DIFFER.ground(variables, values, {})) as solver:
        assert solver.count(limit=100).count == count
        answer, nearest = solver.solve(), solver.nearest([values] * variables)
    assert answer.assignment is not None
    assert answer.assignment.shape == (variables,)
    assert (nearest.status, nearest.agreement) == ("optimal", variables)


def test_nearest_to_nothing_is_any_solution() -> None:
    with ExactSolver(sudoku.build(2, 2, np.zeros(16, dtype=int)).csp) as solver:
        nearest = solver.nearest([0] * 16)
    assert (nearest.status, nearest.agreement, nearest.bound) == ("optimal", 0, 0)
    assert nearest.assignment is not None
    assert sudoku_rules(2, 2).hold(nearest.assignment.tolist())


@pytest.mark.parametrize("bad", [[1, 4, 0], [1, -1, 0], [1, 2]])
def test_givens_and_wanted_values_out_of_range_are_refused(bad: list[int]) -> None:
    with ExactSolver(DIFFER.ground(3, 3, {})) as solver:
        for ask in (solver.solve, solver.count, solver.nearest, solver.propagate):
            with pytest.raises(ValueError):
                ask(bad)


def test_a_csp_too_large_is_refused_before_a_clause_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    csp = DIFFER.ground(variables=5, values=4, facts={"nbr": [(0, 1), (1, 0), (1, 2)]})
    needed = 5 * (1 + 6) + 2 * 4  # a value for each variable, one at most; two pairs that differ
    assert sum(len(block) for block in encode(csp)) == needed
    monkeypatch.setattr(exact, "MAX_CLAUSES", needed)
    ExactSolver(csp).close()
    monkeypatch.setattr(exact, "MAX_CLAUSES", needed - 1)
    with pytest.raises(TooLarge, match="5 variables of 4 values need 43 clauses; the exact solver takes up to 42"):
        next(encode(csp))
    again = DIFFER.ground(variables=5, values=4, facts={"nbr": [(0, 1), (1, 0), (1, 2)]})
    with pytest.raises(TooLarge):
        ExactSolver(again)


def test_blocks_of_clauses_together_are_the_whole_csp(monkeypatch: pytest.MonkeyPatch) -> None:
    csp = sudoku.build(2, 2, np.zeros(16, dtype=int)).csp
    whole = sorted(sorted(clause) for block in encode(csp) for clause in block)
    monkeypatch.setattr(exact, "_BLOCK", 12)
    assert sorted(sorted(clause) for block in encode(csp) for clause in block) == whole


# ---- budgets


def complete(nodes: int, colors: int) -> GroundCSP:
    """A pigeonhole problem in pairs: hopeless for resolution without breaking the symmetry."""
    return coloring.build(np.array(list(combinations(range(nodes), 2))), np.zeros(nodes, dtype=int), colors).csp


HARD = complete(11, 10)
# Nodes 0 and 1 may share a color: easy if they do, a pigeonhole of the other ten if they do not.
LOOSE = coloring.build(np.array(list(combinations(range(12), 2))[1:]), np.zeros(12, dtype=int), 11).csp
APART, TOGETHER = [1, 2] + [0] * 10, [1, 1] + [0] * 10


@pytest.mark.parametrize("budget", [Budget(conflicts=300), Budget(seconds=0.1), Budget(seconds=60, conflicts=300)])
def test_every_question_says_when_its_budget_ran_out(budget: Budget) -> None:
    with ExactSolver(HARD) as solver:
        answer, count, nearest = (
            solver.solve(budget=budget),
            solver.count(budget=budget),
            solver.nearest([1] * 11, budget=budget),
        )
    assert (answer.status, answer.assignment) == ("ran_out", None)
    assert (count.status, count.count) == ("ran_out", 0)
    assert (nearest.status, nearest.assignment, nearest.agreement, nearest.bound) == ("ran_out", None, 0, 11)


@pytest.mark.parametrize("budget", [Budget(conflicts=0), Budget(seconds=0), Budget(seconds=-1)])
def test_an_empty_budget_runs_out_at_once(budget: Budget) -> None:
    with ExactSolver(DIFFER.ground(2, 2, {})) as solver:
        assert solver.solve(budget=budget).status == "ran_out"
        assert solver.count(budget=budget).status == "ran_out"
        assert solver.nearest([1, 2], budget=budget).bound == 2
        assert solver.solve().status == "solved"


def test_a_budget_of_time_is_kept() -> None:
    with ExactSolver(HARD) as solver:
        start = time.monotonic()
        answer = solver.solve(budget=Budget(seconds=0.3))
        spent = time.monotonic() - start
    assert answer.status == "ran_out"
    assert 0.25 < answer.seconds <= spent < 3


def conflicts_spent(limit: int) -> int:
    with ExactSolver(HARD) as solver:
        assert solver.solve(budget=Budget(conflicts=limit)).status == "ran_out"
        return solver._solver.accum_stats()["conflicts"]


@pytest.mark.parametrize("limit", [100, 2_000])
def test_a_budget_of_conflicts_stops_at_the_same_point_every_time(limit: int) -> None:
    assert conflicts_spent(limit) == conflicts_spent(limit) >= limit


def test_a_budget_of_conflicts_is_kept_to_the_conflict() -> None:
    assert conflicts_spent(100) <= 110


def test_one_budget_covers_all_solutions_of_a_count() -> None:
    """Millions of easy solutions: no call runs out by itself, all of them together do."""
    with ExactSolver(DIFFER.ground(variables=12, values=6, facts={})) as solver:
        count = solver.count(limit=10**9, budget=Budget(seconds=0.2))
    assert count.status == "ran_out"
    assert 0 < count.count < 6**12
    assert count.seconds < 3


def test_a_budget_that_suffices_changes_nothing() -> None:
    for seed in range(40):
        case = random_futoshiki(seed)
        with ExactSolver(case.instance.csp) as solver, ExactSolver(case.instance.csp) as free:
            budget = Budget(seconds=60, conflicts=10**6)
            assert solver.solve(case.givens, budget=budget).status == free.solve(case.givens).status
            count, expected = solver.count(case.givens, budget=budget), free.count(case.givens)
            assert (count.status, count.count) == (expected.status, expected.count)
            nearest, best = (
                solver.nearest(case.wanted, case.givens, budget=budget),
                free.nearest(case.wanted, case.givens),
            )
            assert (nearest.status, nearest.bound) == (best.status, best.bound)


@pytest.mark.parametrize("budget", [Budget(conflicts=200), Budget(seconds=0.05)])
def test_after_running_out_a_solver_answers_as_before(budget: Budget) -> None:
    with ExactSolver(LOOSE) as solver:
        assert solver.solve(APART, budget=budget).status == "ran_out"
        answer = solver.solve(TOGETHER)
        assert answer.assignment is not None
        assert judge(LOOSE, answer.assignment, TOGETHER).solved
        assert solver.count(APART, budget=budget).status == "ran_out"
        assert solver.count(TOGETHER, limit=3).count == 3
        assert solver.nearest([1] * 12, APART, budget=budget).status == "ran_out"
        assert solver.nearest([1] * 12, TOGETHER).agreement == 2
        assert solver.solve([1, 0, 1] + [0] * 9).status == "unsatisfiable"


@pytest.mark.parametrize(
    ("first", "then"), [(Budget(conflicts=200), Budget(seconds=60)), (Budget(seconds=0.05), Budget(conflicts=10**7))]
)
def test_a_spent_budget_does_not_cut_the_next_one_short(first: Budget, then: Budget) -> None:
    """The second proof takes thousands of conflicts, so a limit or an interruption left behind would stop it."""
    with ExactSolver(LOOSE) as solver:
        assert solver.solve(APART, budget=first).status == "ran_out"
        assert solver.solve([1, 2, 3, 4] + [0] * 8, budget=then).status == "unsatisfiable"


def test_breaking_the_symmetry_proves_at_once_what_a_budget_cannot() -> None:
    with ExactSolver(HARD) as solver:
        assert solver.solve(budget=Budget(conflicts=300)).status == "ran_out"
        answer = solver.solve(break_symmetry=True, budget=Budget(conflicts=300))
        assert answer.status == "unsatisfiable"
        assert answer.seconds < 1
    with ExactSolver(complete(10, 10)) as solver:
        assert solver.solve(break_symmetry=True).status == "solved"


def test_nearest_cut_short_still_bounds_the_optimum() -> None:
    """Whatever the budget: an honest bound, and the best solution met if any was."""
    found: Counter[str] = Counter()
    for seed in range(12):
        rng = np.random.default_rng(seed)
        rules, wanted = sudoku_rules(2, 3), rng.integers(0, 7, 36).tolist()
        givens = hide(rng, shuffled_board(rng, 2, 3), 0.1)
        optimum, soft = cp_agreement(rules, givens, wanted), sum(v > 0 for v in wanted)
        assert optimum is not None
        for conflicts in (0, 1, 3, 10, 30, 60, 100, 150, 200, 300, 500, 1_000, 3_000):
            with ExactSolver(sudoku.build(2, 3, np.array(givens)).csp) as solver:
                nearest = solver.nearest(wanted, givens, budget=Budget(conflicts=conflicts))
            assert nearest.agreement <= optimum <= nearest.bound <= soft
            assert (nearest.status == "optimal") == (nearest.agreement == nearest.bound)
            if nearest.assignment is None:
                assert nearest.agreement == 0
                found["nothing met"] += 1
                continue
            assert rules.hold(nearest.assignment.tolist())
            assert keeps(nearest.assignment.tolist(), givens)
            assert agreement(nearest.assignment.tolist(), wanted) == nearest.agreement
            found[nearest.status] += 1
            found["bound in between"] += nearest.status == "ran_out" and nearest.bound < soft
            found["bound met by the optimum"] += nearest.status == "ran_out" and nearest.bound == optimum
    assert all(
        found[kind] >= 5
        for kind in ("nothing met", "optimal", "ran_out", "bound in between", "bound met by the optimum")
    ), found


@pytest.mark.parametrize("budget", [Budget(seconds=0.3), Budget(conflicts=500)])
def test_nearest_falls_back_on_a_solution_when_its_budget_ends(budget: Budget) -> None:
    """A solution is easy to find; that none keeps both wanted values is not to be proven."""
    with ExactSolver(LOOSE) as solver:
        nearest = solver.nearest(APART, budget=budget)
    assert (nearest.status, nearest.bound) == ("ran_out", 2)
    assert nearest.agreement <= 1
    assert nearest.assignment is not None
    assert judge(LOOSE, nearest.assignment).solved
    assert nearest.seconds < 3


def test_an_engine_without_budgets_says_so() -> None:
    with ExactSolver(DIFFER.ground(2, 2, {}), "cadical195") as solver:
        for budget in (Budget(seconds=1), Budget(conflicts=1)):
            with pytest.raises(ValueError, match="cadical195 takes no budget; use minisat22"):
                solver.solve(budget=budget)


# ---- counting leaves no trace, hints bind nothing


@pytest.mark.parametrize("limit", [0, 1, 287, 288, 289])
def test_a_count_stops_at_its_limit_and_is_exact_only_below(limit: int) -> None:
    with ExactSolver(sudoku.build(2, 2, np.zeros(16, dtype=int)).csp) as solver:
        count = solver.count(limit=limit)
    assert (count.count, count.status) == (min(limit, 288), "exact" if limit > 288 else "limit")


@pytest.mark.parametrize("engine", ENGINES)
def test_a_count_leaves_the_solver_as_it_was(engine: Engine) -> None:
    with ExactSolver(sudoku.build(2, 2, np.zeros(16, dtype=int)).csp, engine) as solver:
        givens = [1, 2, 3, 4, 3, 4, 1, 2] + [0] * 8
        first = solver.solve(givens)
        counts = [solver.count(givens, limit=100).count for _ in range(3)]
        assert counts[0] == counts[1] == counts[2] > 1
        assert solver.count(first.assignment).count == 1
        assert solver.solve(first.assignment).status == "solved"
        assert solver.count(limit=300).count == 288


def test_hints_come_back_where_nothing_stands_against_them() -> None:
    rng = np.random.default_rng(0)
    with ExactSolver(DIFFER.ground(variables=20, values=5, facts={})) as solver:
        for _ in range(5):
            wanted = rng.integers(1, 6, 20)
            answer = solver.solve(hints=wanted)
            assert answer.assignment is not None
            assert answer.assignment.tolist() == wanted.tolist()


def test_a_hinted_solution_comes_back() -> None:
    rng = np.random.default_rng(0)
    with ExactSolver(sudoku.build(3, 3, np.zeros(81, dtype=int)).csp) as solver:
        for _ in range(5):
            board = shuffled_board(rng, 3, 3)
            answer = solver.solve(hints=np.array(board))
            assert answer.assignment is not None
            assert answer.assignment.tolist() == board


def test_weights_hint_at_each_variables_largest() -> None:
    weights = np.random.default_rng(0).normal(size=(20, 5))
    with ExactSolver(DIFFER.ground(variables=20, values=5, facts={})) as solver:
        answer = solver.solve(hints=weights)
    assert answer.assignment is not None
    assert answer.assignment.tolist() == (weights.argmax(axis=1) + 1).tolist()


def test_variables_without_a_hint_are_left_to_the_solver() -> None:
    wanted = np.array([3, 0, 2, 0])
    with ExactSolver(DIFFER.ground(variables=4, values=3, facts={"nbr": [(0, 1), (2, 3)]})) as solver:
        answer = solver.solve(hints=wanted)
    assert answer.assignment is not None
    assert answer.assignment[[0, 2]].tolist() == [3, 2]
    assert answer.assignment[1] != 3
    assert answer.assignment[3] != 2


@families
def test_hints_never_change_what_is_satisfiable(family: Callable[[int], Case]) -> None:
    for seed in range(30):
        case = family(seed)
        rng = np.random.default_rng(seed)
        size, values = case.rules.variables, case.rules.values
        with ExactSolver(case.instance.csp) as solver:
            expected = solver.solve(case.givens).status
            for hints in (rng.integers(0, values + 1, size), rng.normal(size=(size, values))):
                answer = solver.solve(case.givens, hints=hints)
                assert answer.status == expected, case.name
                if answer.assignment is not None:
                    assert case.instance.judge(answer.assignment).solved, case.name


# ---- symmetry


def test_breaking_the_symmetry_never_changes_what_is_satisfiable() -> None:
    met: Counter[str] = Counter()
    for seed in range(60):
        case = random_coloring(seed)
        with ExactSolver(case.instance.csp) as solver:
            answer, broken = solver.solve(), solver.solve(break_symmetry=True)
        met[answer.status] += 1
        assert answer.status == broken.status, case.name
        assert broken.assignment is None or case.rules.hold(broken.assignment.tolist()), case.name
    assert min(met["solved"], met["unsatisfiable"]) >= 5, met


def test_symmetry_is_kept_where_values_differ_or_are_given() -> None:
    """In both, the values 1, 2, ... on a clique would contradict what is stated."""
    rising = LiftedCSP(["less(2)"], {"lt": lambda a, b: a < b}, ["less(x, y) -> lt(x, y)"])
    with ExactSolver(rising.ground(3, 3, {"less": [(2, 1), (1, 0), (2, 0)]})) as solver:
        answer = solver.solve(break_symmetry=True)
        assert answer.assignment is not None
        assert answer.assignment.tolist() == [3, 2, 1]
    with ExactSolver(complete(3, 3)) as solver:
        for givens in ([3, 2, 1], [0, 1, 2], [2, 0, 0]):
            answer = solver.solve(givens, break_symmetry=True)
            assert answer.assignment is not None
            assert judge(solver.csp, answer.assignment, givens).solved


def test_a_clique_is_real_and_cannot_be_extended() -> None:
    for seed in range(60):
        case = random_coloring(seed)
        joined = {frozenset(edge) for edge in case.rules.different}
        clique = find_clique(case.instance.csp)
        assert len(set(clique)) == len(clique) >= 1
        assert all(frozenset(pair) in joined for pair in combinations(clique, 2)), case.name
        for other in set(range(case.rules.variables)) - set(clique):
            assert not all(frozenset((other, member)) in joined for member in clique), case.name


def test_a_clique_needs_constraints_that_forbid_equal_values() -> None:
    lifted = LiftedCSP(
        ["close(2)", "less(2)"],
        {"near": lambda a, b: abs(a - b) <= 1, "lt": lambda a, b: a < b},
        ["close(x, y) -> near(x, y)", "less(x, y) -> lt(x, y)"],
    )
    csp = lifted.ground(5, 3, {"close": Groups([[0, 1, 2]]), "less": [(4, 3)]})
    assert sorted(find_clique(csp)) == [3, 4]


def test_a_clique_is_found_whatever_the_direction_of_the_facts() -> None:
    csp = DIFFER.ground(variables=4, values=3, facts={"nbr": [(0, 1), (1, 2), (2, 0)]})
    assert sorted(find_clique(csp)) == [0, 1, 2]


def test_a_complete_graph_is_one_clique() -> None:
    assert sorted(find_clique(complete(7, 2))) == list(range(7))


# ---- propagation


def singles(rules: Rules, givens: Sequence[int]) -> list[int] | None:
    """What naked and hidden singles make of a Sudoku; None if a cell or a value is left without a place."""
    options = strike(rules, [{g} if g else set(range(1, rules.values + 1)) for g in givens])
    return None if options is None else [next(iter(o)) if len(o) == 1 else 0 for o in options]


@pytest.mark.parametrize("form", ["units", "nbr"])
def test_propagation_is_the_rule_of_naked_and_hidden_singles(form: str) -> None:
    met: Counter[str] = Counter()
    for seed in range(150):
        rng = np.random.default_rng(seed)
        height, width = [(2, 2), (2, 3), (3, 3)][seed % 3]
        size = height * width
        givens = hide(rng, shuffled_board(rng, height, width), rng.uniform(0.2, 0.5))
        givens = spoil(rng, givens, size, count=int(rng.choice([0, 0, 1])))
        expected = singles(sudoku_rules(height, width), givens)
        with ExactSolver(sudoku.build(height, width, np.array(givens), form=form).csp) as solver:
            found = solver.propagate(givens)
        assert (None if found is None else found.tolist()) == expected, seed
        met["contradiction" if expected is None else "complete" if all(expected) else "stuck"] += 1
    assert min(met["contradiction"], met["complete"], met["stuck"]) >= 10, met


def test_propagation_finds_a_naked_single() -> None:
    with ExactSolver(DIFFER.ground(4, 4, {"nbr": [(0, 3), (1, 3), (2, 3)]})) as solver:
        found = solver.propagate([4, 1, 2, 0])
    assert found is not None
    assert found.tolist() == [4, 1, 2, 3]


def test_propagation_finds_a_hidden_single_only_where_there_are_groups() -> None:
    """The 1 of the first box, and of the last, have one place left, though every value but 1 may stand there."""
    givens = [0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 0, 0]
    csp = sudoku.build(2, 2, np.array(givens)).csp
    with ExactSolver(csp) as grouped, ExactSolver(csp.lifted.ground(16, 4, csp.pairs)) as paired:
        found, alone = grouped.propagate(givens), paired.propagate(givens)
    assert found is not None
    assert found.tolist() == [1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 1, 0, 0]
    assert alone is not None
    assert alone.tolist() == givens


@pytest.mark.parametrize("givens", [[1, 1, 0], [1, 2, 0]])
def test_propagation_of_a_contradiction_is_nothing(givens: list[int]) -> None:
    with ExactSolver(DIFFER.ground(3, 2, {"nbr": [(0, 1), (1, 2), (0, 2)]})) as solver:
        assert solver.propagate(givens) is None


# ---- the same answer every time


def ask_everything(case: Case) -> list[object]:
    with ExactSolver(case.instance.csp) as solver:
        answers = [solver.solve(case.givens), solver.solve(), solver.solve(hints=np.array(case.wanted))]
        count = solver.count(case.givens, limit=5)
        nearest = solver.nearest(case.wanted, case.givens)
        limited = solver.nearest(case.wanted, budget=Budget(conflicts=20))
    kept = [*answers, nearest, limited]
    boards = [None if a.assignment is None else a.assignment.tolist() for a in kept]
    return [boards, [a.status for a in kept], count.status, count.count, nearest.bound, limited.bound]


@families
def test_two_fresh_solvers_give_the_same_answers(family: Callable[[int], Case]) -> None:
    for seed in range(8):
        assert ask_everything(family(seed)) == ask_everything(family(seed))


# ---- what serves the generators


def test_constraints_under_a_switch_hold_while_it_is_assumed() -> None:
    """Signs hung on a switch count as the same signs stated, and are gone once it is retired."""
    signs = np.array([(0, 1), (5, 4), (6, 2), (15, 14)])
    free = futoshiki.build(4, np.zeros((0, 2)), np.zeros(16, dtype=int)).csp
    rules = latin_rules(4, [tuple(s) for s in signs.tolist()])
    expected = cp_count(rules, [0] * 16, limit=1_000)
    with ExactSolver(free) as solver:
        switch = solver.new_switch()
        solver.constrain("lt", signs, switch)
        assert solver.count(limit=1_000).count == 576
        found = 0
        while solver._solver.solve(assumptions=[switch]):
            board = solver._read_model()
            assert rules.hold(board.tolist())
            solver.exclude(board, switch)
            found += 1
        assert found == expected
        solver.retire(switch)
        assert solver.count(limit=1_000).count == 576


def test_a_retired_switch_cannot_be_assumed_again() -> None:
    board = np.array([1, 1])
    with ExactSolver(DIFFER.ground(variables=2, values=3, facts={})) as solver:
        switch = solver.new_switch()
        solver.constrain("neq", np.array([(0, 1)]), switch)
        assert solver.find_other(solver.literals(board), [switch])
        solver.retire(switch)
        assert solver.find_other(solver.literals(board), [switch]) is False


def test_another_solution_is_told_by_where_it_differs() -> None:
    board = np.array([1, 2, 3, 4, 3, 4, 1, 2, 2, 1, 4, 3, 4, 3, 2, 1])
    csp = sudoku.build(2, 2, board).csp
    with ExactSolver(csp) as solver:
        switch = solver.new_switch()
        solver.exclude(board, switch)
        literals = solver.literals(board)
        kept = [0, 1, 2, 3, 4, 6]
        where = solver.find_other(literals, [switch, *(literals[i] for i in kept)])
        assert isinstance(where, list)
        assert where
        assert not set(where) & set(kept)
        # Some board that differs exactly there.
        givens = board.copy()
        givens[where] = 0
        assert solver.count(givens).count == 2


def test_the_only_solution_has_a_core_that_makes_it_so() -> None:
    rng = np.random.default_rng(3)
    board = np.array(shuffled_board(rng, 2, 3))
    rules = sudoku_rules(2, 3)
    with ExactSolver(sudoku.build(2, 3, board).csp) as solver:
        switch = solver.new_switch()
        solver.exclude(board, switch)
        literals = solver.literals(board)
        assert solver.find_other(literals, [switch, *literals]) is False
        core = solver.core()
        givens = [int(v) if literals[i] in core else 0 for i, v in enumerate(board)]
        assert core <= {switch, *literals}
        assert cp_count(rules, givens, limit=2) == 1


def test_looking_for_another_solution_may_run_out() -> None:
    board = [1, 2, *range(2, 12)]
    with ExactSolver(LOOSE) as solver:
        switch = solver.new_switch()
        literals = solver.literals(np.array(board))
        found = solver.find_other(literals, [switch, *literals[:2]], Budget(conflicts=100))
    assert found is None


def test_the_clock_runs_while_symmetry_is_looked_for() -> None:
    """A clique from each of many variables takes minutes on large graphs: once it is late, what there is has to do."""
    edges = [(x, y) for x in range(6) for y in range(6, 12)]
    csp = coloring.build(np.array(edges), np.zeros(12, dtype=int), 2).csp
    asked: list[bool] = []

    def late() -> bool:
        asked.append(len(asked) > 0)
        return asked[-1]

    assert find_clique(csp, lambda: True) == []
    assert len(find_clique(csp, late)) == 2
    assert asked == [False, True]
    with ExactSolver(csp) as solver:
        assert solver.solve(budget=Budget(seconds=0), break_symmetry=True).status == "ran_out"
        assert solver.solve(break_symmetry=True).status == "solved"
