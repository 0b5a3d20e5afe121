"""The loss of a batch: against the given solution, or a valid one of the model's own where solutions are many."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
import torch
from tiny import KINDS, color_graphs
from torch import Tensor
from torch.nn import functional

from outgrow.csp import GroundCSP
from outgrow.graphs import Batch, Puzzles
from outgrow.models import MODELS, Model, build_model
from outgrow.puzzles import coloring
from outgrow.train.objective import Objective, judge_output

STEPS = 3
# A path of three nodes, a triangle with a tail, two nodes apart; 3 colors, then 4.
GRAPHS = [(3, [(0, 1), (1, 2)], 3), (4, [(0, 1), (1, 2), (0, 2), (2, 3)], 3), (2, [], 4)]
SOLUTIONS = [[1, 2, 1], [1, 2, 3, 1], [4, 4]]
GIVENS = [[0, 2, 0], [1, 0, 0, 0], [0, 0]]
# What the model puts out, and whether that is a solution.
OUTPUTS = {
    "the stored ones": ([[1, 2, 1], [1, 2, 3, 1], [4, 4]], [True, True, True]),
    "others, all valid": ([[3, 2, 3], [1, 3, 2, 3], [1, 2]], [True, True, True]),
    "a rule broken": ([[2, 2, 1], [1, 3, 3, 1], [1, 2]], [False, False, True]),
    "a given changed": ([[2, 1, 2], [2, 3, 1, 2], [1, 1]], [False, False, True]),
    "one of each": ([[1, 3, 1], [1, 3, 2, 1], [3, 1]], [False, True, True]),
}


def make(kind: str) -> tuple[Model, Puzzles, Batch]:
    built = [
        coloring.build(np.array(e).reshape(-1, 2), np.array(g), k) for (_, e, k), g in zip(GRAPHS, GIVENS, strict=True)
    ]
    puzzles = Puzzles([i.csp for i in built], GIVENS, SOLUTIONS)  # pyright: ignore[reportArgumentType]
    torch.manual_seed(0)
    extra = {"max_values": 6} if kind == "multivalued" else {}
    config = MODELS[kind][1](width=8, steps=STEPS, layers=1, dropout=0.0, **extra)
    return build_model(puzzles.schema, config), puzzles, puzzles.batch([0, 1, 2])


def choose(monkeypatch: pytest.MonkeyPatch, model: Model, batch: Batch, output: Sequence[Sequence[int]]) -> Tensor:
    """Makes the model score these values highest after the last step, and others before it: (T, V, K)."""
    values = torch.tensor([v for part in output for v in part])
    scores = torch.randn(STEPS, batch.num_variables, batch.max_values, generator=torch.Generator().manual_seed(1))
    scores[:-1].scatter_(2, (values % 3).expand(STEPS - 1, -1).unsqueeze(2), 9.0)
    scores[-1].scatter_(1, (values - 1).unsqueeze(1), 5.0)
    scores = scores.masked_fill(~batch.allowed, float("-inf")).requires_grad_()
    monkeypatch.setattr(type(model), "forward", lambda self, prepared: scores)
    return scores


def loss_by_hand(kind: str, scores: Tensor, puzzle: int, target: Sequence[int]) -> float:
    """Of one puzzle: summed over steps, averaged over variables (and values)."""
    count, _, colors = GRAPHS[puzzle]
    first = sum(g[0] for g in GRAPHS[:puzzle])
    total = 0.0
    for step in scores[:, first : first + count, :colors].detach():
        for row, value in zip(step, target, strict=True):
            if kind == "multivalued":
                total += float(torch.logsumexp(row, 0) - row[value - 1]) / count
            else:
                for v, score in enumerate(row.tolist(), start=1):
                    probability = 1 / (1 + np.exp(-score))
                    total -= float(np.log(probability if v == value else 1 - probability)) / (count * colors)
    return total


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", OUTPUTS)
def test_a_valid_solution_of_its_own_becomes_the_target(monkeypatch: pytest.MonkeyPatch, kind: str, name: str) -> None:
    output, valid = OUTPUTS[name]
    model, puzzles, batch = make(kind)
    scores = choose(monkeypatch, model, batch, output)
    penalty = model.penalty(model.prepare(batch))  # pyright: ignore[reportArgumentType]
    extra = 0.0 if penalty is None else float(penalty.mean().detach())
    for multiplicity in (True, False):
        found = Objective(model, multiplicity, autocast=False)(batch, puzzles.csps, None)
        assert found.output.tolist() == [v for part in output for v in part]
        targets = [o if own and multiplicity else s for o, s, own in zip(output, SOLUTIONS, valid, strict=True)]
        expected = float(np.mean([loss_by_hand(kind, scores, i, t) for i, t in enumerate(targets)]))
        assert float(found.total.detach()) == pytest.approx(expected + extra, rel=1e-5)
        final = float(np.mean([loss_by_hand(kind, scores[-1:], i, t) for i, t in enumerate(targets)]))
        assert float(found.final) == pytest.approx(final, rel=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_the_gradient_pulls_towards_its_own_solution(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    output, _ = OUTPUTS["others, all valid"]
    model, puzzles, batch = make(kind)
    scores = choose(monkeypatch, model, batch, output)
    Objective(model, True, autocast=False)(batch, puzzles.csps, None).total.backward()
    assert scores.grad is not None
    towards = scores.grad.nan_to_num()[-1].argmin(1) + 1
    assert towards.tolist() == [v for part in output for v in part]


def test_the_verdict_judges_and_nothing_else(monkeypatch: pytest.MonkeyPatch) -> None:
    model, puzzles, batch = make("binarized")
    choose(monkeypatch, model, batch, OUTPUTS["a rule broken"][0])
    asked: list[tuple[list[list[int]], list[list[int]]]] = []

    def judge(csps: Sequence[GroundCSP], assignments: list[np.ndarray], givens: list[np.ndarray]) -> np.ndarray:
        assert all(a is b for a, b in zip(csps, puzzles.csps, strict=True))
        asked.append(([a.tolist() for a in assignments], [g.tolist() for g in givens]))
        return np.array([True, False, False])

    monkeypatch.setattr("outgrow.train.objective.judge_each", judge)
    found = Objective(model, True, autocast=False)(batch, puzzles.csps, None)
    assert asked == [(OUTPUTS["a rule broken"][0], GIVENS)]
    Objective(model, False, autocast=False)(batch, puzzles.csps, None)
    assert len(asked) == 1  # a puzzle with one solution needs no verdict
    assert found.total.isfinite()


def test_outputs_are_judged_puzzle_by_puzzle() -> None:
    dataset = color_graphs([5, 9, 3, 7], given=0.3)
    puzzles = Puzzles.of_datasets([dataset], "units")
    batch = puzzles.batch([2, 0, 3, 0])
    csps = [puzzles.csps[i] for i in batch.indices]
    assert batch.solutions is not None
    right = batch.solutions.clone()
    assert judge_output(right, batch, csps).tolist() == [True] * 4
    given = int(batch.givens.nonzero()[0])
    right[given] = right[given] % 3 + 1
    assert judge_output(right, batch, csps).tolist() == [i != int(batch.puzzle[given]) for i in range(4)]


def test_autocast_computes_in_bf16_and_takes_the_loss_in_fp32() -> None:
    model, puzzles, batch = make("binarized")
    seen: list[torch.dtype] = []
    model.score.register_forward_hook(lambda module, inputs, output: seen.append(output.dtype))
    plain = Objective(model, False, autocast=False)(batch, puzzles.csps, None)
    assert set(seen) == {torch.float32}
    seen.clear()
    mixed = Objective(model, False, autocast=True)(batch, puzzles.csps, None)
    assert set(seen) == {torch.bfloat16}
    assert mixed.total.dtype == torch.float32
    assert float(mixed.total.detach()) != float(plain.total.detach())
    assert float(mixed.total.detach()) == pytest.approx(float(plain.total.detach()), rel=0.02)
    mixed.total.backward()
    assert {p.grad.dtype for p in model.parameters() if p.grad is not None} == {torch.float32}


def test_the_last_part_is_of_the_last_step_and_without_gradient() -> None:
    model, puzzles, batch = make("multivalued")
    found = Objective(model, False, autocast=False)(batch, puzzles.csps, None)
    assert not found.final.requires_grad
    assert not found.output.requires_grad
    assert found.total.requires_grad
    prepared = model.prepare(batch)
    scores = model(prepared)[-1]
    assert batch.solutions is not None
    parts = torch.stack(
        [functional.cross_entropy(scores[batch.puzzle == i], batch.solutions[batch.puzzle == i] - 1) for i in range(3)]
    )
    assert float(found.final) == pytest.approx(float(parts.mean().detach()), rel=1e-5)
