"""The models give what their equations give, one edge and group at a time: scores at every step, losses, and the gradient of every
parameter."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any

import pytest
import torch
from problems import GROUPED, PROBLEMS, Problem
from slow import Node, SlowBinarized, SlowGrouped, SlowMultivalued, Start
from torch import Tensor, nn

from outgrow.models import BinarizedConfig, Config, GroupedConfig, Model, MultivaluedConfig, build_model
from outgrow.models.layers import States

SPARE = 3  # more embeddings than values
WIDTH = 6


@dataclass(frozen=True)
class Result:
    """Of each puzzle: scores (V, K) at every step, losses (T,), penalty; and the gradients of a weighted sum of all losses."""

    scores: list[list[Tensor]]
    losses: list[Tensor]
    penalties: list[Tensor]
    gradients: dict[str, Tensor]


def make_model(problem: Problem, config: Config, seed: int = 0) -> Model:
    """In evaluation mode, with every parameter random: also those that start at 0 or 1."""
    model = build_model(problem.puzzles().schema, config)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model.eval()


def make_draw(problem: Problem, max_values: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    return torch.stack([torch.randperm(max_values, generator=generator)[: problem.max_values] for _ in problem.csps])


def make_start(problem: Problem, config: Config, seed: int = 0) -> States:
    """Any states: those of a model in the middle of its way."""
    generator = torch.Generator().manual_seed(seed)
    several = isinstance(config, MultivaluedConfig)  # its nodes are variables
    nodes = sum(c.num_variables * (1 if several else c.num_values) for c in problem.csps)
    return States(*(torch.randn(nodes, config.width, generator=generator) for _ in range(3)))


def split_start(start: States, problem: Problem, config: Config) -> list[Start]:
    """The same by puzzle and node."""
    found: list[Start] = []
    first = 0
    for csp in problem.csps:
        nodes: list[Node] = [("variable", j) for j in range(csp.num_variables)]
        if not isinstance(config, MultivaluedConfig):
            nodes = [(j, v) for j in range(csp.num_variables) for v in range(1, csp.num_values + 1)]
        told, hidden, cell = (dict(zip(nodes, t[first : first + len(nodes)], strict=True)) for t in start)
        found.append((told, hidden, cell))
        first += len(nodes)
    assert first == len(start.told)
    return found


def gradients(model: nn.Module, losses: list[Tensor], penalties: list[Tensor]) -> dict[str, Tensor]:
    """Of the losses at all steps, each with a weight of its own, and the penalties."""
    weights = torch.linspace(0.5, 1.5, sum(map(len, losses)), dtype=losses[0].dtype)
    total = (torch.cat(losses) * weights).sum()
    for i, penalty in enumerate(penalties):
        total = total + (10 + i) * penalty
    names, parameters = zip(*model.named_parameters(), strict=True)
    found = torch.autograd.grad(total, parameters, allow_unused=True)
    return {
        n: torch.zeros_like(p) if grad is None else grad for n, p, grad in zip(names, parameters, found, strict=True)
    }


def run_fast(
    model: Model, problem: Problem, steps: int, draw: Tensor | None = None, start: States | None = None
) -> Result:
    batch = problem.puzzles().batch(range(len(problem.csps)))
    prepared: Any = model.prepare(batch, draw)
    scores = model(prepared, steps, start)
    assert scores.shape == (steps, batch.num_variables, batch.max_values)
    assert batch.solutions is not None
    losses = model.loss(scores, prepared, batch.solutions)
    assert losses.shape == (steps, len(batch))
    penalty = model.penalty(prepared)
    penalties = [] if penalty is None else list(penalty)
    by_puzzle: list[list[Tensor]] = []
    for part, csp in zip(scores.detach().split([v for v, _ in batch.sizes], dim=1), problem.csps, strict=True):
        assert (part[:, :, csp.num_values :] == float("-inf")).all()
        by_puzzle.append(list(part[:, :, : csp.num_values]))
    each = list(losses.unbind(1))
    return Result(by_puzzle, each, penalties, gradients(model, each, penalties))


def make_slow(model: Model, problem: Problem) -> SlowBinarized | SlowMultivalued | SlowGrouped:
    parameters, config = dict(model.named_parameters()), model.config
    if isinstance(config, GroupedConfig):
        stated = {name for csp in problem.csps for name, groups in csp.groups.items() if groups}
        predicates = [name for name in problem.csps[0].lifted.predicates if name in stated]
        return SlowGrouped(parameters, config.heads, predicates, config.edges == "max")
    slow = SlowBinarized if isinstance(config, BinarizedConfig) else SlowMultivalued
    options: dict[str, Any] = {f.name: getattr(config, f.name) for f in fields(slow) if f.name != "p"}
    return slow(parameters, **options)


def run_slow(model: Model, problem: Problem, steps: int, draw: Tensor | None, start: States | None) -> Result:
    slow = make_slow(model, problem)
    starts = [None] * len(problem.csps) if start is None else split_start(start, problem, model.config)
    by_puzzle: list[list[Tensor]] = []
    losses: list[Tensor] = []
    penalties: list[Tensor] = []
    for i, (csp, givens, solution) in enumerate(zip(problem.csps, problem.givens, problem.solutions, strict=True)):
        if isinstance(slow, SlowMultivalued):
            drawn = list(range(csp.num_values)) if draw is None else draw[i].tolist()
            scores = slow.scores(csp, givens.tolist(), steps, drawn, starts[i])
            penalties.append(slow.penalty(csp, drawn))
        elif isinstance(slow, SlowGrouped) and draw is not None:
            nodes: list[Node] = [(j, v) for j in range(csp.num_variables) for v in range(1, csp.num_values + 1)]
            before = sum(c.num_variables * c.num_values for c in problem.csps[:i])
            marks = dict(zip(nodes, draw[before : before + len(nodes)], strict=True))
            scores = slow.scores(csp, givens.tolist(), steps, starts[i], marks)
        else:
            scores = slow.scores(csp, givens.tolist(), steps, starts[i])
        losses.append(torch.stack([slow.loss(s, solution.tolist()) for s in scores]))
        by_puzzle.append(
            [
                torch.stack(
                    [
                        torch.stack([s[j, v] for v in range(1, csp.num_values + 1)]).detach()
                        for j in range(csp.num_variables)
                    ]
                )
                for s in scores
            ]
        )
    return Result(by_puzzle, losses, penalties, gradients(model, losses, penalties))


def compare(
    problem: Problem, config: Config, steps: int, tolerance: float, *, drawn: bool = True, started: bool = False
) -> Result:
    model = make_model(problem, config)
    start = make_start(problem, config) if started else None
    draw = make_draw(problem, config.max_values) if drawn and isinstance(config, MultivaluedConfig) else None
    if isinstance(config, GroupedConfig) and config.marks:
        nodes = sum(c.num_variables * c.num_values for c in problem.csps)
        draw = torch.randn(nodes, config.marks, generator=torch.Generator().manual_seed(2))
    fast, slow = run_fast(model, problem, steps, draw, start), run_slow(model, problem, steps, draw, start)

    def close(actual: Any, expected: Any, what: str) -> None:
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}\n{text}")

    for i, (actual, expected) in enumerate(zip(fast.scores, slow.scores, strict=True)):
        for t, (a, e) in enumerate(zip(actual, expected, strict=True)):
            close(a, e, f"scores of puzzle {i} after step {t + 1}")
    close(fast.losses, slow.losses, "losses")
    close(fast.penalties, slow.penalties, "penalties")
    assert fast.gradients.keys() == slow.gradients.keys()
    for name, gradient in fast.gradients.items():
        close(gradient, slow.gradients[name], f"gradient of {name}")
    return fast


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", PROBLEMS)
def test_binarized_gives_what_the_equations_give(name: str) -> None:
    compare(PROBLEMS[name], BinarizedConfig(width=WIDTH, layers=2), 2, 1e-9)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", PROBLEMS)
def test_multivalued_gives_what_the_equations_give(name: str) -> None:
    problem = PROBLEMS[name]
    compare(problem, MultivaluedConfig(problem.max_values + SPARE, width=WIDTH, layers=2), 2, 1e-9)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("edges", ["attention", "max"])
@pytest.mark.parametrize("name", [*PROBLEMS, *GROUPED])
def test_grouped_gives_what_the_equations_give(name: str, edges: Any) -> None:
    compare((PROBLEMS | GROUPED)[name], GroupedConfig(width=WIDTH, heads=2, edges=edges), 2, 1e-9)


BINARIZED = {
    "all attention": BinarizedConfig(relation="attention"),
    "all mean": BinarizedConfig(constraint="mean", order="mean"),
    "attention over constraints": BinarizedConfig(order="mean"),
    "attention over orders": BinarizedConfig(constraint="mean"),
    "attention over relations": BinarizedConfig(constraint="mean", order="mean", relation="attention"),
    "one layer": BinarizedConfig(layers=1),
    "three layers": BinarizedConfig(layers=3),
    "nothing shared": BinarizedConfig(share_order=False, relation="attention"),
}


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("name", BINARIZED)
def test_binarized_in_every_setting(name: str) -> None:
    config = BINARIZED[name]
    compare(PROBLEMS["several"], BinarizedConfig(**{**vars(config), "width": WIDTH}), 2, 1e-9)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("relation", ["mean", "attention"])
def test_binarized_and_sharpened(relation: Any) -> None:
    """Variables have from none to four edges here, so logits are multiplied by everything from 0 to log 4."""
    config = BinarizedConfig(width=WIDTH, layers=1, relation=relation, sharpen=True)
    compare(GROUPED["groups and many pairs"], config, 2, 1e-9)


MULTIVALUED = {
    "all attention": {"order": "attention", "relation": "attention"},
    "all mean": {"constraint": "mean", "unassigned": "mean"},
    "attention over constraints": {"unassigned": "mean"},
    "attention over orders": {"constraint": "mean", "order": "attention", "unassigned": "mean"},
    "attention over relations": {"constraint": "mean", "relation": "attention", "unassigned": "mean"},
    "attention over values": {"constraint": "mean"},
    "one layer": {"layers": 1},
    "three layers": {"layers": 3},
    "two relation steps": {"relation_steps": 2},
    "orders shared": {"share_order": True},
    "nothing shared": {"share_neq": False},
    "another weight": {"orthogonality": 0.5},
}


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("problem", ["several", "coloring 2, 4, 1 and 3"])
@pytest.mark.parametrize("name", MULTIVALUED)
def test_multivalued_in_every_setting(name: str, problem: str) -> None:
    options: dict[str, Any] = MULTIVALUED[name]
    max_values = PROBLEMS[problem].max_values + SPARE
    compare(PROBLEMS[problem], MultivaluedConfig(max_values=max_values, width=WIDTH, **options), 2, 1e-9)


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("heads", [1, 3, 4])
@pytest.mark.parametrize("name", ["groups of mixed sizes", "an empty group at the end", "groups of nobody"])
def test_grouped_with_other_heads(name: str, heads: int) -> None:
    """As many as one likes: each pools the whole state, so they need not share its columns evenly."""
    compare(GROUPED[name], GroupedConfig(width=WIDTH, heads=heads), 2, 1e-9)


CONFIGS: dict[str, Config] = {
    "binarized": BinarizedConfig(width=WIDTH, layers=2),
    "multivalued": MultivaluedConfig(4 + SPARE, width=WIDTH, layers=2),
    "grouped": GroupedConfig(width=WIDTH, heads=2),
}


@pytest.mark.usefixtures("double")
@pytest.mark.parametrize("kind", CONFIGS)
@pytest.mark.parametrize("name", ["futoshiki units", "coloring 2, 4, 1 and 3"])
def test_from_any_states(kind: str, name: str) -> None:
    """The first messages tell the states given, and the inputs are remembered all the same."""
    compare(PROBLEMS[name], CONFIGS[kind], 2, 1e-9, started=True)


@pytest.mark.usefixtures("double")
def test_without_a_draw_values_have_the_first_embeddings() -> None:
    problem = PROBLEMS["futoshiki 3 and 4"]
    fast = compare(problem, MultivaluedConfig(problem.max_values + SPARE, width=WIDTH), 3, 1e-9, drawn=False)
    moved = fast.gradients["embeddings.weight"].abs().sum(1) > 0
    assert moved.tolist() == [True] * 4 + [False] * SPARE


@pytest.mark.usefixtures("double")
def test_more_steps() -> None:
    problem = PROBLEMS["coloring"]
    compare(problem, BinarizedConfig(width=WIDTH), 5, 1e-9)
    compare(problem, MultivaluedConfig(problem.max_values, width=WIDTH, relation_steps=3), 5, 1e-9)
    compare(GROUPED["odd groups"], GroupedConfig(width=WIDTH, heads=3), 5, 1e-9)


@pytest.mark.parametrize("name", ["futoshiki units", "coloring 2, 4, 1 and 3"])
def test_single_precision(name: str) -> None:
    problem = PROBLEMS[name]
    compare(problem, BinarizedConfig(width=WIDTH), 2, 1e-5)
    compare(problem, MultivaluedConfig(problem.max_values + SPARE, width=WIDTH), 2, 1e-5)


@pytest.mark.parametrize("name", ["futoshiki units", "coloring 2, 4, 1 and 3", *GROUPED])
def test_single_precision_in_groups(name: str) -> None:
    compare((PROBLEMS | GROUPED)[name], GroupedConfig(width=WIDTH, heads=2), 2, 1e-5)


@pytest.mark.usefixtures("double")
def test_every_gradient_is_there() -> None:
    """The comparison would pass if both sides were zero."""
    futoshiki, dense = PROBLEMS["futoshiki nbr"], GROUPED["groups and many pairs"]
    # At a single relation step there is nothing to recall yet.
    multivalued = MultivaluedConfig(futoshiki.max_values, width=WIDTH, layers=2, relation_steps=2)
    for problem, config in (
        (futoshiki, BinarizedConfig(width=WIDTH, layers=2)),
        (futoshiki, multivalued),
        (dense, GroupedConfig(width=WIDTH, heads=2)),
        (dense, BinarizedConfig(width=WIDTH, sharpen=True, relation="attention")),
    ):
        found = run_fast(make_model(problem, config), problem, 2).gradients
        still = {name for name, gradient in found.items() if gradient.abs().max() < 1e-6}
        # The same number is added to the scores of all values: a softmax does not see it.
        assert still == ({"score.bias"} if config is multivalued else set())


@pytest.mark.parametrize("name", ["groups of mixed sizes", "futoshiki units", "coloring 2, 4, 1 and 3"])
@pytest.mark.parametrize("marks", [1, 6])
@pytest.mark.usefixtures("double")
def test_marks_are_inputs(name: str, marks: int) -> None:
    compare((PROBLEMS | GROUPED)[name], GroupedConfig(width=WIDTH, heads=2, marks=marks), 2, 1e-9)
