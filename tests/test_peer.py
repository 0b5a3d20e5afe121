"""The peer of the speed benchmarks, written with PyTorch Geometric, computes what the models compute."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from copy import deepcopy
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import torch
from benchmark_files import load_benchmark
from torch import Tensor, nn

from outgrow.csp import Groups, LiftedCSP
from outgrow.graphs import Batch, Puzzles
from outgrow.models import BinarizedConfig, Config, GroupedConfig, Model, MultivaluedConfig, build_model
from outgrow.puzzles import Instance, coloring, futoshiki, sudoku
from outgrow.train.objective import Objective

with warnings.catch_warnings():
    warnings.simplefilter("ignore")
    pytest.importorskip("torch_geometric")

WIDTH, STEPS = 6, 3
SIGNS_4 = [(1, 0), (0, 4), (5, 6), (14, 10), (15, 14), (2, 6)]  # cell 6 has two smaller neighbors
SIGNS_3 = [(0, 1), (4, 1), (0, 3)]
LONELY = [(0, 1), (1, 2), (2, 0), (3, 2)]  # a triangle with a tail; node 4 is alone
STAR = [(0, 1), (0, 2), (0, 3), (0, 4), (0, 5)]


def boards(form: str, *sizes: int) -> list[Instance]:
    shapes = {4: (2, 2), 6: (2, 3)}
    return [sudoku.build(*shapes[n], np.zeros(n * n, dtype=int), form=form) for n in sizes]


def signs(form: str, *sizes: int) -> list[Instance]:
    facts = {4: SIGNS_4, 3: SIGNS_3}
    return [futoshiki.build(n, np.array(facts[n]), np.zeros(n * n, dtype=int), form=form) for n in sizes]


def graphs(*parts: tuple[int, list[tuple[int, int]], int]) -> list[Instance]:
    return [coloring.build(np.array(edges), np.zeros(nodes, dtype=int), colors) for nodes, edges, colors in parts]


PUZZLES: dict[str, list[Instance]] = {
    "sudoku nbr": boards("nbr", 4, 4),
    "sudoku units": boards("units", 4, 4),
    "sudoku units 4 and 6": boards("units", 4, 6),
    "futoshiki nbr": signs("nbr", 4, 4),
    "futoshiki units": signs("units", 4, 4),
    "futoshiki units 3 and 4": signs("units", 3, 4),
    "coloring": graphs((5, LONELY, 3), (6, STAR, 3)),
    "coloring 2, 4 and 1": graphs((4, [(0, 1), (1, 2)], 2), (5, LONELY, 4), (2, [], 1)),
}
MODELS: dict[str, Config] = {
    "binarized": BinarizedConfig(width=WIDTH, layers=3),
    "binarized, sharpened, all attention": BinarizedConfig(width=WIDTH, layers=1, relation="attention", sharpen=True),
    "binarized, mean, nothing shared": BinarizedConfig(width=WIDTH, constraint="mean", order="mean", share_order=False),
    "multivalued": MultivaluedConfig(8, width=WIDTH, relation_steps=2, layers=3),
    "multivalued, the other way": MultivaluedConfig(
        8, width=WIDTH, constraint="mean", order="attention", unassigned="mean", share_neq=False, share_order=True
    ),
    "grouped": GroupedConfig(width=WIDTH, heads=2),
    "grouped, marked": GroupedConfig(width=WIDTH, heads=3, marks=5, crowd=0.5),
    "grouped, the largest": GroupedConfig(width=WIDTH, heads=2, edges="max"),
}
each_model = pytest.mark.parametrize("kind", MODELS)
each_puzzle = pytest.mark.parametrize("name", PUZZLES)

# Groups of one, of nobody and of many; variables in none and in several; a predicate without any facts in the second puzzle.
UNITS = LiftedCSP(
    predicates=["team(2)", "less(2)", "club(2)"],
    relations={"neq": lambda a, b: a != b, "lt": lambda a, b: a < b},
    constraints=["team(x, y) -> neq(x, y)", "less(x, y) -> lt(x, y)", "club(x, y) -> neq(x, y)"],
)
ODD = [
    UNITS.ground(
        6,
        3,
        {
            "team": Groups([[2, 0, 1], [], [2, 3], [4]]),
            "less": [(0, 5), (1, 5), (2, 5)],
            "club": Groups([[1, 2], [0, 2, 3, 1], [2]]),
        },
    ),
    UNITS.ground(4, 4, {"less": [(0, 1)], "club": Groups([[3, 2], [0, 2]])}),
]


@pytest.fixture(scope="module")
def peer() -> ModuleType:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load_benchmark("peer")


@pytest.fixture
def double() -> Iterator[None]:
    """Everything in double precision: differences are faults then, not rounding."""
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


def collect(csps: list[Any]) -> Puzzles:
    """With random givens and solutions: a model does not ask whether they are right."""
    random = np.random.default_rng(0)
    solutions = [random.integers(1, c.num_values + 1, c.num_variables) for c in csps]
    return Puzzles(csps, [np.where(random.random(len(s)) < 0.4, s, 0) for s in solutions], solutions)


def make(puzzles: Puzzles, config: Config) -> Model:
    """In evaluation mode, with every parameter random: also those that start at 0 or 1."""
    model = build_model(puzzles.schema, config)
    generator = torch.Generator().manual_seed(0)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model.eval()


def draw_for(model: Model, batch: Batch) -> Tensor | None:
    """Embeddings of values, or seeds of marks."""
    generator = torch.Generator().manual_seed(1)
    if model.kind == "multivalued":
        return torch.stack([torch.randperm(8, generator=generator)[: batch.max_values] for _ in range(len(batch))])
    return torch.randint(1000, (len(batch), 1), generator=generator) if model.kind == "grouped" else None


def gradients_as(kind: type, model: Model) -> dict[str, Tensor]:
    """A model's gradients in the shapes of the peer's: those of a peer of a model that has them for weights."""
    slopes = deepcopy(model)
    with torch.no_grad():
        for parameter, own in zip(slopes.parameters(), model.parameters(), strict=True):
            parameter.copy_(torch.zeros_like(own) if own.grad is None else own.grad)
    return {name: p.detach() for name, p in kind.of(slopes).named_parameters()}


def compare(peer: ModuleType, puzzles: Puzzles, model: Model, tolerance: float = 1e-9) -> dict[str, Tensor]:
    """Scores, loss and all gradients; the gradients of the peer."""
    batch = puzzles.batch(range(len(puzzles)))
    assert batch.solutions is not None
    draw = draw_for(model, batch)
    kind = peer.PEERS[model.kind]
    other = kind.of(model)

    prepared: Any = model.prepare(batch, draw)
    scores = model(prepared, STEPS)
    loss = model.loss(scores, prepared, batch.solutions).sum(0)
    penalty = model.penalty(prepared)
    loss = (loss if penalty is None else loss + penalty).mean()
    loss.backward()

    graph = other.prepare(batch, draw)
    found = other(graph, STEPS)
    reached = other.loss(found, graph, batch.solutions)
    reached.backward()

    def close(actual: Any, expected: Any, what: str) -> None:
        torch.testing.assert_close(actual, expected, rtol=tolerance, atol=tolerance, msg=lambda text: f"{what}\n{text}")

    assert found.shape == (STEPS, batch.num_variables, batch.max_values)
    for step, (actual, expected) in enumerate(zip(found, scores, strict=True)):
        close(actual, expected, f"scores after step {step + 1}")
    close(reached, loss, "loss")
    gradients = {n: torch.zeros_like(p) if p.grad is None else p.grad for n, p in other.named_parameters()}
    expected_gradients = gradients_as(kind, model)
    assert gradients.keys() == expected_gradients.keys()
    for name, gradient in gradients.items():
        close(gradient, expected_gradients[name], f"gradient of {name}")
    return gradients


@pytest.mark.usefixtures("double")
@each_model
@each_puzzle
def test_it_computes_what_the_model_computes(peer: ModuleType, name: str, kind: str) -> None:
    puzzles = collect([p.csp for p in PUZZLES[name]])
    gradients = compare(peer, puzzles, make(puzzles, MODELS[kind]))
    first = gradients["embeddings.weight" if "embeddings.weight" in gradients else "inputs.weight"]
    assert first.abs().max() > 1e-3  # both sides could be zero


@pytest.mark.usefixtures("double")
@each_model
def test_groups_and_variables_of_every_kind(peer: ModuleType, kind: str) -> None:
    puzzles = collect(ODD)
    compare(peer, puzzles, make(puzzles, MODELS[kind]))


@pytest.mark.usefixtures("double")
def test_a_crowd_is_the_same_crowd(peer: ModuleType) -> None:
    """Drawn in training alone; without dropout a step is the same function there."""
    puzzles = collect([p.csp for p in PUZZLES["futoshiki units 3 and 4"]])
    model = make(puzzles, MODELS["grouped, marked"]).train()
    batch = puzzles.batch([0, 1])
    other = peer.PygGrouped.of(model)
    assert other.training
    assert other.prepare(batch, draw_for(model, batch)).crowd is not None
    compare(peer, puzzles, model)


@each_model
def test_a_training_step_has_the_same_loss_as_ours(peer: ModuleType, kind: str) -> None:
    """In single precision, as in training, and from what training itself minimizes."""
    puzzles = collect([p.csp for p in PUZZLES["futoshiki units 3 and 4"]])
    batch = puzzles.batch([0, 1])
    model = build_model(puzzles.schema, type(MODELS[kind])(**{**vars(MODELS[kind]), "dropout": 0.0})).train()
    draw = draw_for(model, batch)
    other = peer.PEERS[model.kind].of(model)
    graph = other.prepare(batch, draw)
    loss = other.loss(other(graph, STEPS), graph, batch.solutions)
    wanted = Objective(model, multiplicity=False, autocast=False, steps=STEPS)(batch, puzzles.csps, draw).total
    torch.testing.assert_close(loss, wanted, rtol=1e-5, atol=1e-5)


@each_model
def test_its_weights_are_its_own_and_learn(peer: ModuleType, kind: str) -> None:
    puzzles = collect([p.csp for p in PUZZLES["futoshiki units"]])
    batch = puzzles.batch([0, 1])
    model = build_model(puzzles.schema, MODELS[kind]).train()
    before = deepcopy(model.state_dict())
    other = peer.PEERS[model.kind].of(model)
    assert sum(p.numel() for p in other.parameters()) == sum(p.numel() for p in model.parameters())
    graph = other.prepare(batch)
    optimizer = torch.optim.Adam(other.parameters(), 0.01)
    losses: list[float] = []
    torch.manual_seed(0)
    for _ in range(12):
        loss = other.loss(other(graph, STEPS), graph, batch.solutions)
        optimizer.zero_grad()
        loss.backward()
        assert all(p.grad is not None for p in other.parameters())
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] - 0.1
    assert all(p.grad is None for p in model.parameters())
    assert all(torch.equal(tensor, before[name]) for name, tensor in model.state_dict().items())


@pytest.mark.parametrize("kind", ["binarized", "multivalued", "grouped", "grouped, the largest"])
def test_dropout_is_that_of_the_model(peer: ModuleType, kind: str) -> None:
    """Over many copies of a puzzle, scores spread as the model's do; in evaluation they do not."""
    puzzles = collect([p.csp for p in PUZZLES["futoshiki units"]])
    model = make(puzzles, type(MODELS[kind])(**{**vars(MODELS[kind]), "dropout": 0.4}))
    other = peer.PEERS[model.kind].of(model)
    batch = puzzles.batch([0] * 400)
    graph, prepared = other.prepare(batch), model.prepare(batch)

    @torch.no_grad()
    def spread(which: nn.Module, on: Any) -> tuple[Tensor, Tensor]:
        torch.manual_seed(0)
        scores = which(on, 1).view(len(batch), -1)
        return scores.mean(0), scores.var(0)

    assert spread(other, graph)[1].max() < 1e-8
    (mean, variance), (wanted, expected) = spread(other.train(), graph), spread(model.train(), prepared)
    assert expected.min() > 1e-4
    assert ((mean - wanted).abs() < 5 * (2 * expected / len(batch)).sqrt()).all()
    assert abs(float(variance.sum() / expected.sum()) - 1) < 0.05
    if model.kind == "multivalued":  # messages between values are all there
        assert torch.equal(other.embed(graph), other.embed(graph))


def test_a_node_without_edges_hears_nothing(peer: ModuleType) -> None:
    puzzles = collect([p.csp for p in PUZZLES["coloring"]])
    for config in (MODELS["binarized"], MODELS["binarized, mean, nothing shared"], MODELS["grouped, the largest"]):
        model = make(puzzles, config)
        other = peer.PEERS[model.kind].of(model)
        graph = other.prepare(puzzles.batch([0]))
        alone = slice(4 * 3, 5 * 3)
        at = len(graph.groups)  # groups come first, edges between variables next
        heard = other.hear(graph, torch.randn(len(graph.known), WIDTH))
        assert not heard[at][alone].any()
        assert heard[at][: alone.start].any()


def test_edges_are_those_of_the_puzzle(peer: ModuleType) -> None:
    """Of a graph with three colors, by hand: padding is gone, and each edge is there once for each color."""
    puzzles = collect([p.csp for p in PUZZLES["coloring"]])
    other = peer.PygBinarized.of(make(puzzles, MODELS["binarized"]))
    between, values = other.prepare(puzzles.batch([0])).edges
    both = [*LONELY, *((b, a) for a, b in LONELY)]
    assert sorted(between.index.T.tolist()) == sorted([3 * a + v, 3 * b + v] for a, b in both for v in range(3))
    assert sorted(values.index.T.tolist()) == sorted(
        [3 * i + v, 3 * i + w] for i in range(5) for v in range(3) for w in range(3) if v != w
    )
    assert (between.size, values.size) == ((15, 15), (15, 15))
    into = {0: 2, 1: 2, 2: 3, 3: 1}
    expected = torch.tensor([into[int(r) // 3] for r in between.index[1]]).log()
    torch.testing.assert_close(between.log_degree, expected)
