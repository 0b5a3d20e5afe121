"""The loss of a batch: against the given solution, or a valid one of the model's own where solutions are many; free steps and noise."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
import torch
from tiny import KINDS, SMALL, color_graphs
from torch import Tensor
from torch.nn import functional

from outgrow.csp import GroundCSP
from outgrow.graphs import Batch, Puzzles
from outgrow.models import MODELS, Model, build_model
from outgrow.models.layers import States
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
    extra: dict[str, Any] = {"max_values": 6} if kind == "multivalued" else {}
    config = MODELS[kind][1](**{**SMALL[kind], "steps": STEPS, **extra})
    return build_model(puzzles.schema, config), puzzles, puzzles.batch([0, 1, 2])


def choose(monkeypatch: pytest.MonkeyPatch, model: Model, batch: Batch, output: Sequence[Sequence[int]]) -> Tensor:
    """Makes the model score these values highest after the last step, and others before it: (T, V, K)."""
    values = torch.tensor([v for part in output for v in part])
    scores = torch.randn(STEPS, batch.num_variables, batch.max_values, generator=torch.Generator().manual_seed(1))
    scores[:-1].scatter_(2, (values % 3).expand(STEPS - 1, -1).unsqueeze(2), 9.0)
    scores[-1].scatter_(1, (values - 1).unsqueeze(1), 5.0)
    scores = scores.masked_fill(~batch.allowed, float("-inf")).requires_grad_()
    monkeypatch.setattr(
        type(model), "walk", lambda self, prepared, steps, start, noise: [(start, step) for step in scores]
    )
    return scores


def solves(puzzle: int, values: Sequence[int]) -> bool:
    """By hand."""
    _, edges, _ = GRAPHS[puzzle]
    kept = all(given in (0, value) for given, value in zip(GIVENS[puzzle], values, strict=True))
    return kept and all(values[a] != values[b] for a, b in edges)


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
    before = [[v % 3 + 1 for v in part] for part in output]  # the output of the steps before the last
    for multiplicity in (True, False):
        found = Objective(model, multiplicity, autocast=False)(batch, puzzles.csps, None)
        assert found.output.tolist() == [v for part in output for v in part]
        targets: list[list[int]] = []
        for i, (last, earlier, stored) in enumerate(zip(output, before, SOLUTIONS, strict=True)):
            assert solves(i, last) == valid[i]
            targets.append(next((o for o in (last, earlier) if multiplicity and solves(i, o)), stored))
        assert found.target.tolist() == [v for part in targets for v in part]
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
    asked: list[tuple[list[int], list[list[int]], list[list[int]]]] = []

    def judge(csps: Sequence[GroundCSP], assignments: list[np.ndarray], givens: list[np.ndarray]) -> np.ndarray:
        which = [next(i for i, own in enumerate(puzzles.csps) if own is csp) for csp in csps]
        asked.append((which, [a.tolist() for a in assignments], [g.tolist() for g in givens]))
        return np.array([i == len(asked) - 1 for i in which])

    monkeypatch.setattr("outgrow.train.objective.judge_each", judge)
    found = Objective(model, True, autocast=False)(batch, puzzles.csps, None)
    last = OUTPUTS["a rule broken"][0]
    before = [[v % 3 + 1 for v in part] for part in last]
    assert asked == [([0, 1, 2], last, GIVENS), ([1, 2], before[1:], GIVENS[1:]), ([2], before[2:], GIVENS[2:])]
    assert found.target.tolist() == [*last[0], *before[1], *before[2]]
    Objective(model, False, autocast=False)(batch, puzzles.csps, None)
    assert len(asked) == 3  # a puzzle with one solution needs no verdict
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


# ---- graded steps, free steps and noise


def plain_loss(model: Model, prepared: Any, batch: Batch, scores: Tensor) -> Tensor:
    """Summed over the steps of these scores, averaged over puzzles."""
    assert batch.solutions is not None
    penalty = model.penalty(prepared)
    losses = model.loss(scores, prepared, batch.solutions).sum(0)
    return (losses if penalty is None else losses + penalty).mean()


def gradients(model: Model, loss: Tensor) -> dict[str, Tensor | None]:
    model.zero_grad()
    loss.backward()
    return {name: weight.grad for name, weight in model.named_parameters()}


def assert_same_gradients(one: dict[str, Tensor | None], other: dict[str, Tensor | None]) -> None:
    for name, gradient in one.items():
        torch.testing.assert_close(other[name], gradient, rtol=1e-5, atol=1e-7)


@pytest.mark.parametrize("kind", KINDS)
def test_without_free_steps_and_noise_the_loss_is_that_of_all_steps(kind: str) -> None:
    model, puzzles, batch = make(kind)
    prepared: Any = model.prepare(batch)
    expected = plain_loss(model, prepared, batch, model(prepared))
    found = Objective(model, False, False)(batch, puzzles.csps, None)
    assert torch.equal(found.total, expected)
    for how in ({"steps": STEPS}, {"noise": 0.0}):
        assert torch.equal(Objective(model, False, False, **how)(batch, puzzles.csps, None, 0).total, expected)
    expected = gradients(model, expected)
    assert_same_gradients(expected, gradients(model, found.total))
    # No number was drawn that would change dropout or embeddings later on.
    before = torch.get_rng_state()
    Objective(model, False, False)(batch, puzzles.csps, None)
    Objective(model, False, False)(batch, puzzles.csps, None, 2)
    assert torch.equal(torch.get_rng_state(), before)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("steps", [1, 2, 5])
def test_as_many_steps_are_graded_as_the_recipe_says(kind: str, steps: int) -> None:
    model, puzzles, batch = make(kind)
    prepared: Any = model.prepare(batch)
    scores = torch.stack(list(model.run(prepared, 7)))
    objective = Objective(model, False, False, steps)
    for free in (0, 2):
        found = objective(batch, puzzles.csps, None, free)
        graded = scores[free : free + steps]
        assert found.total.item() == pytest.approx(plain_loss(model, prepared, batch, graded).item(), rel=1e-6)
        chosen = graded[-1].gather(1, found.output.unsqueeze(1) - 1).squeeze(1)
        assert torch.allclose(chosen, graded[-1].amax(1))  # values nobody has said anything about score alike
        assert batch.solutions is not None
        last = model.loss(graded[-1:], prepared, batch.solutions).mean().item()
        assert float(found.final) == pytest.approx(last, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("free", [1, 3])
def test_free_steps_are_run_without_gradients_and_graded_from_where_they_end(kind: str, free: int) -> None:
    model, puzzles, batch = make(kind)
    prepared: Any = model.prepare(batch)
    with torch.no_grad():
        states = model.start(prepared)
        for reached, _ in model.walk(prepared, free):
            states = reached
    by_hand = plain_loss(model, prepared, batch, model(prepared, 2, states))
    expected = gradients(model, by_hand)
    found = Objective(model, False, False, 2)(batch, puzzles.csps, None, free)
    assert found.total.item() == pytest.approx(by_hand.item(), rel=1e-6)
    mine = gradients(model, found.total)
    assert_same_gradients(expected, mine)
    # With gradients through the free steps they are others.
    prepared = model.prepare(batch)
    scores = torch.stack(list(model.run(prepared, free + 2)))[free:]
    through = gradients(model, plain_loss(model, prepared, batch, scores))
    name = "update.hear.weight"
    one, other = mine[name], through[name]
    assert one is not None
    assert other is not None
    assert not torch.allclose(one, other, rtol=1e-2)


@pytest.mark.parametrize("kind", KINDS)
def test_no_gradient_reaches_a_free_step(monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    model, puzzles, batch = make(kind)
    seen: list[bool] = []
    step = type(model).step

    def note(self: Any, *arguments: Any) -> Any:
        seen.append(torch.is_grad_enabled())
        return step(self, *arguments)

    monkeypatch.setattr(type(model), "step", note)
    objective = Objective(model, False, False, 2)
    objective(batch, puzzles.csps, None, 3)
    assert seen == [False] * 3 + [True] * 2
    states = objective.walk(batch, None, 2)
    assert not any(state.requires_grad for state in states)
    assert torch.is_grad_enabled()


@pytest.mark.parametrize("kind", KINDS)
def test_a_walk_goes_on_where_another_ended(kind: str) -> None:
    model, puzzles, batch = make(kind)
    objective = Objective(model, False, False, 2)
    whole = objective.walk(batch, None, 5)
    part = objective.walk(batch, None, 3, objective.walk(batch, None, 2))
    for one, other in zip(whole, part, strict=True):
        assert torch.equal(one, other)
    found = objective(batch, puzzles.csps, None, 3, objective.walk(batch, None, 2))
    assert torch.equal(found.total, objective(batch, puzzles.csps, None, 5).total)
    assert torch.equal(found.total, objective(batch, puzzles.csps, None, 0, whole).total)


def test_free_steps_see_the_drawn_embeddings() -> None:
    model, puzzles, batch = make("multivalued")
    draw = torch.tensor([[3, 1, 5, 0], [2, 4, 0, 1], [5, 3, 2, 4]])
    objective = Objective(model, False, False, 2)
    prepared: Any = model.prepare(batch, draw)
    scores = torch.stack(list(model.run(prepared, 5)))[3:]
    expected = plain_loss(model, prepared, batch, scores).item()
    assert objective(batch, puzzles.csps, draw, 3).total.item() == pytest.approx(expected, rel=1e-6)
    assert objective(batch, puzzles.csps, None, 3).total.item() != pytest.approx(expected, rel=1e-6)


def test_the_target_is_the_last_valid_output_of_a_graded_step(monkeypatch: pytest.MonkeyPatch) -> None:
    model, puzzles, batch = make("grouped")
    prepared: Any = model.prepare(batch)
    scores = torch.stack(list(model.run(prepared, 6)))[4:]
    early, late = scores.argmax(2) + 1
    answers = [np.array([True, False, False]), np.array([False, True])]  # the third in the first graded step
    monkeypatch.setattr("outgrow.train.objective.judge_each", lambda *asked: answers.pop(0))
    assert batch.solutions is not None
    target = torch.where(batch.puzzle == 0, late, torch.where(batch.puzzle == 2, early, batch.solutions))
    expected = model.loss(scores, prepared, target).sum(0).mean().item()
    found = Objective(model, True, False, 2)(batch, puzzles.csps, None, 4)
    assert found.total.item() == pytest.approx(expected, rel=1e-6)


@pytest.mark.parametrize("kind", KINDS)
def test_autocast_keeps_gradients_behind_free_steps(kind: str) -> None:
    """Weights cast where gradients are off must not be found again where they are on."""
    model, puzzles, batch = make(kind)
    plain = gradients(model, Objective(model, False, False, 2)(batch, puzzles.csps, None, 2).total)
    mixed = gradients(model, Objective(model, False, True, 2)(batch, puzzles.csps, None, 2).total)
    assert {name for name, g in plain.items() if g is not None} == {n for n, g in mixed.items() if g is not None}
    one, other = plain["update.hear.weight"], mixed["update.hear.weight"]
    assert one is not None
    assert other is not None
    assert float((one - other).norm() / one.norm()) < 0.1


class Looking(Objective):
    """Remembers the states that graded steps began with."""

    def __init__(self, model: Model, **how: Any) -> None:
        super().__init__(model, False, False, **how)
        self.began: list[States] = []
        walk: Any = model.walk

        def look(prepared: Any, steps: int | None, start: States, noise: float = 0.0) -> Any:
            if torch.is_grad_enabled():
                self.began.append(start)
            return walk(prepared, steps, start, noise)

        model.walk = look  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("kind", KINDS)
def test_noise_is_on_hidden_states_and_cells_and_a_function_of_the_seed(kind: str) -> None:
    model, puzzles, _ = make(kind)
    batch = puzzles.batch([0, 1, 2] * 60)
    objective = Looking(model, noise=0.7)
    losses = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        losses.append(objective(batch, [], None).total.item())
    assert losses[0] == losses[1] != losses[2]
    first, again, other = objective.began
    plain = model.start(model.prepare(batch))  # pyright: ignore[reportArgumentType]
    assert torch.equal(first.told, plain.told)  # what the first messages tell is known for sure
    for one, same, new, still in zip(first[1:], again[1:], other[1:], plain[1:], strict=True):
        assert torch.equal(one, same)
        assert not torch.equal(one, new)
        assert float((one - still).std()) == pytest.approx(0.7, rel=0.1)
        assert float((one - still).mean()) == pytest.approx(0.0, abs=0.05)
    assert not torch.allclose(first.hidden, first.cell)


@pytest.mark.parametrize("kind", KINDS)
def test_some_puzzles_start_without_noise(kind: str) -> None:
    model, puzzles, _ = make(kind)
    batch = puzzles.batch([0, 1, 2] * 60)
    objective = Looking(model, noise=0.7, quiet=0.75)
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        objective(batch, [], None)
    prepared: Any = model.prepare(batch)
    plain = model.start(prepared)
    puzzle = (batch.puzzle if kind == "multivalued" else batch.node_puzzle).numpy()
    loud = []
    for states in objective.began:
        assert torch.equal(states.told, plain.told)
        off = (states.hidden - plain.hidden).detach()
        moved = np.bincount(puzzle, (off.abs().sum(1) > 0).numpy())
        assert set((moved / np.bincount(puzzle)).tolist()) == {0.0, 1.0}  # all of a puzzle, or nothing
        loud.append(moved > 0)
        assert 20 < loud[-1].sum() < 70
        chosen = torch.from_numpy(loud[-1][puzzle])
        assert float(off[chosen].std()) == pytest.approx(0.7, rel=0.1)
        assert float((states.cell - plain.cell).detach()[chosen].std()) == pytest.approx(0.7, rel=0.1)
        assert not (states.cell - plain.cell)[~chosen].any()
    assert (loud[0] == loud[1]).all()
    assert (loud[0] != loud[2]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_noise_comes_before_the_free_steps_and_once(kind: str) -> None:
    model, puzzles, batch = make(kind)
    objective = Looking(model, steps=2, noise=0.7)
    torch.manual_seed(5)
    found = objective(batch, puzzles.csps, None, 3)
    torch.manual_seed(5)
    prepared: Any = model.prepare(batch)
    with torch.no_grad():
        *_, (states, _) = model.walk(prepared, 3, model.start(prepared, 0.7))
    for one, other in zip(objective.began[0], states, strict=True):
        torch.testing.assert_close(one, other)
    objective.began.clear()
    objective(batch, puzzles.csps, None, 0, states)  # a start that is given is not noisy
    assert all(torch.equal(a, b) for a, b in zip(objective.began[0], states, strict=True))
    assert found.total.isfinite()


@pytest.mark.parametrize("kind", KINDS)
def test_noise_after_every_step_is_on_states_and_not_on_scores(kind: str) -> None:
    model, puzzles, _ = make(kind)
    batch = puzzles.batch([0, 1, 2] * 60)
    prepared: Any = model.prepare(batch)
    with torch.no_grad():
        plain = list(model.walk(prepared, 2))
        torch.manual_seed(5)
        noisy = list(model.walk(prepared, 2, None, 0.3))
        torch.manual_seed(5)
        again = list(model.walk(prepared, 2, None, 0.3))
    torch.testing.assert_close(noisy[0][1], plain[0][1])
    torch.testing.assert_close(noisy[0][0].cell, plain[0][0].cell)
    off = noisy[0][0].hidden - plain[0][0].hidden
    assert abs(float(off.std()) - 0.3) < 0.02
    assert torch.equal(noisy[0][0].told, noisy[0][0].hidden)
    assert not torch.allclose(noisy[1][1], plain[1][1])
    assert torch.equal(noisy[1][1], again[1][1])
    # The objective has it in free and in graded steps.
    objective = Objective(model, False, False, 2, step_noise=0.3)
    torch.manual_seed(5)
    torch.testing.assert_close(objective.walk(batch, None, 2).hidden, noisy[1][0].hidden)
    torch.manual_seed(5)
    torch.testing.assert_close(objective(batch, puzzles.csps, None).states.hidden, noisy[1][0].hidden)


@pytest.mark.parametrize("kind", KINDS)
def test_puzzles_are_solved_that_are_as_the_loss_wants_them(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    model, puzzles, batch = make(kind)
    wrong = [[v % 2 + 1 for v in SOLUTIONS[1]], SOLUTIONS[2]]
    choose(monkeypatch, model, batch, [SOLUTIONS[0], *wrong])
    assert Objective(model, False, False)(batch, puzzles.csps, None).solved.tolist() == [True, False, True]
