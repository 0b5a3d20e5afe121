"""A problem of one's own in ten lines: a Latin square. Run it: python examples/01_latin_square.py"""

from outgrow import ExactSolver, Groups, LiftedCSP, judge, sample_puzzles

latin = LiftedCSP(
    predicates=["row(2)", "col(2)"],
    relations={"neq": lambda a, b: a != b},
    constraints=["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)"],
)
n = 5
rows = [range(i * n, (i + 1) * n) for i in range(n)]
csp = latin.ground(n * n, n, {"row": Groups(rows), "col": Groups(zip(*rows, strict=True))})

givens, _ = next(sample_puzzles(csp, count=1, mask=(50, 50), seed=1))
with ExactSolver(csp) as solver:
    answer = solver.solve(givens)
    assert answer.assignment is not None
    print(givens.reshape(n, n), answer.assignment.reshape(n, n), sep="\n\n")
    print("solved:", judge(csp, answer.assignment, givens).solved, "- solutions:", solver.count(givens).count)
