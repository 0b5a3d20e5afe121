"""A problem of one's own, learnt small and solved larger: Latin squares, and Latin squares in which some neighbors are far apart.

Run it: python examples/04_own_problem.py [UPDATES]. Two minutes on a CPU.
"""

import itertools
import sys
import tempfile

import numpy as np

from outgrow import Groups, Instance, LiftedCSP, Solver, sample_puzzles
from outgrow.data import Examples
from outgrow.models import GroupedConfig
from outgrow.train import DataRecipe, Recipe, TrainRecipe, train

rng = np.random.default_rng(0)
UPDATES = int(sys.argv[1]) if sys.argv[1:] and sys.argv[1].isdigit() else 300


def rows(n):
    return [range(i * n, (i + 1) * n) for i in range(n)]


# 1. The rules, once for every size. They make examples and judge answers; the network never sees them.
latin = LiftedCSP(
    predicates=["row(2)", "col(2)"],
    relations={"neq": lambda a, b: a != b},
    constraints=["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)"],
)
far = LiftedCSP(
    predicates=["row(2)", "col(2)", "far(2)"],
    relations={"neq": lambda a, b: a != b, "apart": lambda a, b: abs(a - b) >= 2},
    constraints=["row(x, y) -> neq(x, y)", "col(x, y) -> neq(x, y)", "far(x, y) -> apart(x, y)"],
)


def ground_latin(n):
    return latin.ground(n * n, n, {"row": Groups(rows(n)), "col": Groups(zip(*rows(n), strict=True))})


def ground_far(n):
    """Facts that are true of a square drawn at random: so there is a solution."""
    [(_, square)] = sample_puzzles(ground_latin(n), count=1, mask=(0, 0), seed=int(rng.integers(1 << 30)))
    beside = [(i, i + 1) for i in range(n * n) if (i + 1) % n]
    true = [(x, y) for x, y in beside if abs(int(square[x]) - int(square[y])) >= 2]
    facts = rng.permutation(true)[:n]
    return far.ground(n * n, n, {"row": Groups(rows(n)), "col": Groups(zip(*rows(n), strict=True)), "far": facts})


def make(ground, n, count, per=25):
    """Solved examples with a unique solution, half of the cells open."""
    for _ in range(count // per):
        csp = ground(n)
        for givens, solution in sample_puzzles(csp, count=per, mask=(40, 60), seed=int(rng.integers(1 << 30))):
            yield csp, givens, solution


for name, ground in (("latin", ground_latin), ("far", ground_far)):
    # 2. Small solved examples, of 3, 4 and 5 values.
    examples = {f"{name}-{n}": Examples.of(make(ground, n, 500)) for n in (3, 4, 5)}
    # 3. Training.
    recipe = Recipe(
        name,
        model=GroupedConfig(width=32, steps=24, marks=3, crowd=0.4),
        data=DataRecipe(train=tuple(examples)),
        train=TrainRecipe(updates=UPDATES, batch=16, lr=3e-3, decay="cosine", warmup=30, steps=8, carry=3, ema=0.98),
    )
    with tempfile.TemporaryDirectory() as folder:
        trained = train(recipe, f"{folder}/{name}", datasets=examples, device="cpu")
        solver = Solver(trained.weights, guarantee=False)
        # 4. Larger ones.
        for n in (6, 7):
            puzzles = [Instance.of(csp, givens) for csp, givens, _ in itertools.islice(make(ground, n, 25, 5), 25)]
            solved = sum(answer.solved for answer in solver.solve_all(puzzles))
            print(f"{name}: trained on 3 to 5 values in {trained.seconds:.0f} s, solves {solved} of 25 with {n} values")
