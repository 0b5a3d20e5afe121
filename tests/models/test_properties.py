"""What must hold of the models whatever their weights: symmetries, batches, sizes, draws, steps, noise, dropout."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from problems import (
    DOUBLE,
    FAR,
    GROUPED,
    NAMED,
    ODD,
    PROBLEMS,
    SEVERAL,
    TWOFOLD,
    UNITS,
    Problem,
    coloring_csp,
    futoshiki_csp,
    sudoku_csp,
)
from torch import Tensor

from outgrow.csp import GroundCSP, Groups
from outgrow.errors import OutgrowError
from outgrow.graphs import Puzzles, Schema
from outgrow.kernels import Neighbors
from outgrow.models import (
    MODELS,
    Binarized,
    BinarizedConfig,
    Config,
    Grouped,
    GroupedConfig,
    Model,
    Multivalued,
    MultivaluedConfig,
    build_model,
)
from outgrow.models.layers import LayerNormLSTM, States, add_noise

WIDTH = 6
MAX_VALUES = 9
CONFIGS: dict[str, Config] = {
    "binarized": BinarizedConfig(width=WIDTH, layers=2, dropout=0.5),
    "multivalued": MultivaluedConfig(MAX_VALUES, width=WIDTH, layers=2, dropout=0.5),
    "grouped": GroupedConfig(width=WIDTH, heads=2, dropout=0.5),
}
each_model = pytest.mark.parametrize("kind", CONFIGS)
pytestmark = pytest.mark.usefixtures("double")


def make_model(kind: str, csp: GroundCSP | Schema, seed: int = 0, **options: Any) -> Model:
    schema = csp if isinstance(csp, Schema) else Schema.of(csp)
    model = build_model(schema, type(CONFIGS[kind])(**{**vars(CONFIGS[kind]), **options}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.normal_(generator=generator)
    return model.eval()


def run(model: Model, puzzles: Puzzles, chosen: list[int], steps: int = 3, draw: Tensor | None = None) -> Tensor:
    prepared: Any = model.prepare(puzzles.batch(chosen), draw)
    return model(prepared, steps)


def run_one(model: Model, csp: GroundCSP, givens: Any, draw: Tensor | None = None) -> Tensor:
    return run(model, Puzzles([csp], [np.asarray(givens)]), [0], draw=draw).detach()


def assert_close(actual: Tensor, expected: Tensor) -> None:
    torch.testing.assert_close(actual, expected, rtol=1e-9, atol=1e-9)


def rename(csp: GroundCSP, new: np.ndarray) -> GroundCSP:
    """Variable i is called new[i]; groups stay groups, which is what the grouped model sees."""
    facts = {p: Groups(new[g] for g in csp.groups[p]) if csp.groups[p] else new[csp.pairs[p]] for p in csp.pairs}
    return csp.lifted.ground(csp.num_variables, csp.num_values, facts)


# ---- symmetries


@each_model
@pytest.mark.parametrize(
    "name",
    ["sudoku units", "futoshiki 3 and 4", "coloring 2, 4, 1 and 3", "double", "several", "groups of mixed sizes"],
)
def test_variables_have_no_order(kind: str, name: str) -> None:
    problem = (PROBLEMS | GROUPED)[name]
    random = np.random.default_rng(0)
    for csp, givens in zip(problem.csps, problem.givens, strict=True):
        model = make_model(kind, csp)
        new = random.permutation(csp.num_variables)
        moved = np.zeros_like(givens)
        moved[new] = givens
        assert_close(run_one(model, rename(csp, new), moved)[:, new], run_one(model, csp, givens))


@each_model
@pytest.mark.parametrize("name", ["odd groups", "groups of one size", "sudoku units"])
def test_groups_and_their_members_have_no_order(kind: str, name: str) -> None:
    problem = (PROBLEMS | GROUPED)[name]
    random = np.random.default_rng(0)
    for csp, givens in zip(problem.csps, problem.givens, strict=True):
        facts: dict[str, Any] = dict(csp.pairs)
        for predicate, groups in csp.groups.items():
            if groups:
                order = random.permutation(len(groups))
                facts[predicate] = Groups(random.permutation(groups[i].tolist()) for i in order)
        shuffled = csp.lifted.ground(csp.num_variables, csp.num_values, facts)
        assert any(
            [g.tolist() for g in groups] != [g.tolist() for g in csp.groups[name]]
            for name, groups in shuffled.groups.items()
        )
        model = make_model(kind, csp)
        assert_close(run_one(model, shuffled, givens), run_one(model, csp, givens))


SYMMETRIC = {
    "sudoku": sudoku_csp("nbr"),
    "sudoku by units": sudoku_csp("units"),
    "coloring": coloring_csp(6, [(0, 1), (1, 2), (2, 0), (3, 2), (4, 0)], 4),
}


@each_model
@pytest.mark.parametrize("name", SYMMETRIC)
def test_values_have_no_order_where_no_relation_gives_one(kind: str, name: str) -> None:
    """In the multi-valued model a value is known by its embedding: it takes it along."""
    csp = SYMMETRIC[name]
    random = np.random.default_rng(1)
    model = make_model(kind, csp)
    for _ in range(3):
        givens = random.integers(0, csp.num_values + 1, csp.num_variables)
        new = random.permutation(csp.num_values)  # value v becomes new[v - 1] + 1
        renamed = np.concatenate([[0], new + 1])[givens]
        draw = torch.randperm(MAX_VALUES)[: csp.num_values].unsqueeze(0)
        moved = torch.empty_like(draw)
        moved[:, new] = draw
        assert_close(run_one(model, csp, renamed, moved)[:, :, new], run_one(model, csp, givens, draw))


@each_model
def test_values_have_an_order_where_a_relation_gives_one(kind: str) -> None:
    """The test above could not fail if scores did not depend on values at all."""
    csp = futoshiki_csp(3, [(0, 1), (4, 1)], "nbr")
    model = make_model(kind, csp)
    new = np.array([2, 0, 1])
    draw = torch.tensor([[4, 0, 7]])
    moved = torch.empty_like(draw)
    moved[:, new] = draw
    none = np.zeros(9, dtype=int)
    gap = run_one(model, csp, none, moved)[:, :, new] - run_one(model, csp, none, draw)
    assert gap.abs().max() > 1e-3


@pytest.mark.parametrize("kind", ["binarized", "grouped"])
def test_values_without_a_given_are_alike_where_nodes_have_values(kind: str) -> None:
    csp = sudoku_csp("units")
    scores = run_one(make_model(kind, csp), csp, np.where(np.arange(16) == 5, 2, 0))
    assert_close(scores[:, :, [0, 2, 3]], scores[:, :, :1].expand(-1, -1, 3))
    assert (scores[:, :, 0] - scores[:, :, 1]).abs().max() > 1e-3


# ---- batches


def mixtures() -> dict[str, Problem]:
    random = np.random.default_rng(2)

    def graph(nodes: int, colors: int, density: float) -> GroundCSP:
        pairs = [(i, j) for i in range(nodes) for j in range(i) if random.random() < density]
        return coloring_csp(nodes, pairs, colors)

    star = coloring_csp(9, [(0, i) for i in range(1, 9)], 4)
    own = [
        SEVERAL.ground(4, 5, {"less": [(0, 1), (3, 1)], "apart": [(0, 2)]}),
        SEVERAL.ground(3, 1, {}),
        SEVERAL.ground(2, 3, {"less": [(1, 0)]}),
        SEVERAL.ground(6, 3, {"apart": [(i, j) for i in range(6) for j in range(i)]}),
    ]
    return {
        "coloring": Problem.of(
            [graph(n, k, d) for n, k, d in ((5, 3, 0.5), (1, 2, 0), (7, 6, 0.3), (4, 3, 1), (8, 1, 0.2))] + [star]
        ),
        "same size": Problem.of([graph(n, 3, d) for n, d in ((5, 0.5), (2, 0), (6, 0.9))]),
        "sudoku": Problem.of([sudoku_csp("units"), sudoku_csp("units", 2, 3), sudoku_csp("units", 3, 2)]),
        "futoshiki": Problem.of(
            [futoshiki_csp(3, [(0, 1)], "nbr"), futoshiki_csp(2, [(1, 3)], "nbr"), futoshiki_csp(4, [], "nbr")]
        ),
        "own": Problem.of(own),
        "double": Problem.of([DOUBLE.ground(2, 2, {}), DOUBLE.ground(3, 6, {"half": [(0, 1)]})]),
        "groups": Problem.of(
            [
                ODD,
                UNITS.ground(3, 5, {"team": Groups([[0, 1]]), "club": Groups([[2, 1], [2, 0], []])}),
                UNITS.ground(2, 1, {}),
                UNITS.ground(7, 2, {"club": Groups([[3, 2, 1], [6, 5, 4, 0]]), "less": [(0, 1)]}),
                UNITS.ground(3, 5, {"team": Groups([[0, 1]]), "club": Groups([[2, 1], [2, 0]])}),
            ]
        ),
    }


MIXTURES = mixtures()


@each_model
@pytest.mark.parametrize("name", MIXTURES)
def test_a_puzzle_does_not_notice_its_neighbors(kind: str, name: str) -> None:
    """Scores, losses and penalty are the same alone and in any company, with any largest size and degree."""
    problem = MIXTURES[name]
    puzzles = problem.puzzles()
    model = make_model(kind, problem.csps[0])
    random = np.random.default_rng(3)
    draws = torch.stack([torch.randperm(MAX_VALUES)[: problem.max_values] for _ in problem.csps])
    alone = []
    for i, csp in enumerate(problem.csps):
        batch = puzzles.batch([i])
        prepared: Any = model.prepare(batch, draws[[i], : csp.num_values])
        scores = model(prepared, 3)
        assert batch.solutions is not None
        alone.append((scores, model.loss(scores, prepared, batch.solutions), model.penalty(prepared)))
    batches = [
        list(range(len(problem.csps))),
        [0, 0],
        *(random.integers(0, len(problem.csps), 3).tolist() for _ in range(5)),
    ]
    for chosen in batches:
        batch = puzzles.batch(chosen)
        prepared = model.prepare(batch, draws[chosen, : batch.max_values])
        scores = model(prepared, 3)
        assert batch.solutions is not None
        losses, penalty = model.loss(scores, prepared, batch.solutions), model.penalty(prepared)
        parts = scores.split([v for v, _ in batch.sizes], dim=1)
        for b, (i, part) in enumerate(zip(chosen, parts, strict=True)):
            count = problem.csps[i].num_values
            assert_close(part[:, :, :count], alone[i][0])
            assert (part[:, :, count:] == float("-inf")).all()
            assert_close(losses[:, b], alone[i][1][:, 0])
            if penalty is not None:
                assert_close(penalty[b], alone[i][2][0])


@each_model
@pytest.mark.parametrize("name", MIXTURES)
def test_gradients_of_a_batch_add_up(kind: str, name: str) -> None:
    problem = MIXTURES[name]
    puzzles = problem.puzzles()
    model = make_model(kind, problem.csps[0])

    def gradients(chosen: list[int]) -> list[Tensor]:
        batch = puzzles.batch(chosen)
        prepared: Any = model.prepare(batch)
        assert batch.solutions is not None
        total = model.loss(model(prepared, 2), prepared, batch.solutions).sum()
        penalty = model.penalty(prepared)
        total = total if penalty is None else total + penalty.sum()
        found = torch.autograd.grad(total, list(model.parameters()), allow_unused=True)
        return [torch.zeros_like(p) if g is None else g for p, g in zip(model.parameters(), found, strict=True)]

    everything = list(range(len(puzzles)))
    together, each = gradients(everything), [gradients([i]) for i in everything]
    for parts, whole in zip(zip(*each, strict=True), together, strict=True):
        assert_close(whole, torch.stack(parts).sum(0))
        assert whole.isfinite().all()


@pytest.mark.parametrize(
    ("kind", "name", "chosen"),
    [
        ("binarized", "coloring", [0, 2, 5]),
        ("grouped", "coloring", [0, 2, 5]),
        ("grouped", "sudoku", [0, 2, 0]),
        ("grouped", "groups", [1, 0, 4]),
        ("grouped", "groups", [0, 1, 0]),
    ],
)
def test_a_broken_puzzle_does_not_break_its_neighbors(kind: str, name: str, chosen: list[int]) -> None:
    """NaN in the states of one puzzle stays there: padding names its own row, or one of its own puzzle."""
    problem = MIXTURES[name]
    puzzles = problem.puzzles()
    model = make_model(kind, problem.csps[0])
    assert isinstance(model, Binarized | Grouped)
    batch = puzzles.batch(chosen)
    graph: Any = model.prepare(batch)
    start = model.start(graph)
    ((clean, _),) = model.walk(graph, 1, start)
    nodes = [v * k for v, k in batch.sizes]
    poisoned = start.told.detach().clone()
    poisoned[nodes[0] : nodes[0] + nodes[1]] = float("nan")
    ((reached, _),) = model.walk(graph, 1, start._replace(told=poisoned))
    for found, expected in ((reached.hidden, clean.hidden), (reached.cell, clean.cell)):
        first, second, third = found.split(nodes)
        assert second.isnan().all()
        assert torch.equal(first, expected[: nodes[0]])
        assert torch.equal(third, expected[-nodes[2] :])


def test_a_broken_embedding_does_not_break_those_who_did_not_draw_it() -> None:
    problem = MIXTURES["same size"]
    model = make_model("multivalued", problem.csps[0])
    assert isinstance(model, Multivalued)
    batch = problem.puzzles().batch([0, 1, 2])
    draw = torch.tensor([[0, 1, 2], [3, 4, 5], [2, 7, 0]])
    clean = model(model.prepare(batch, draw), 2)
    with torch.no_grad():
        model.embeddings.weight[4] = float("nan")
    first, second, third = model(model.prepare(batch, draw), 2).split([v for v, _ in batch.sizes], dim=1)
    assert second.isnan().all()
    assert torch.equal(torch.cat([first, third], 1), torch.cat([clean[:, :5], clean[:, 7:]], 1))


# ---- sizes


@pytest.mark.parametrize("kind", ["binarized", "grouped"])
def test_a_model_of_nodes_runs_at_any_size(kind: str) -> None:
    model = make_model(kind, sudoku_csp("units"))
    assert model.max_values is None
    for rows, columns in ((1, 1), (1, 2), (2, 3), (3, 3), (2, 5)):
        csp = sudoku_csp("units", rows, columns)
        scores = run_one(model, csp, np.zeros(csp.num_variables, dtype=int))
        assert scores.shape == (3, csp.num_variables, csp.num_values)
        assert scores.isfinite().all()


def test_a_multivalued_model_runs_as_far_as_its_embeddings_go() -> None:
    model = make_model("multivalued", coloring_csp(2, [(0, 1)], 3))
    assert model.max_values == MAX_VALUES
    for colors in range(1, MAX_VALUES + 1):
        scores = run_one(model, coloring_csp(2, [(0, 1)], colors), [1, 0])
        assert scores.shape == (3, 2, colors)
        assert scores.isfinite().all()
    with pytest.raises(OutgrowError) as error:
        run_one(model, coloring_csp(2, [(0, 1)], MAX_VALUES + 1), [1, 0])
    assert "\n" not in str(error.value)
    assert str(MAX_VALUES) in str(error.value)
    assert f"model.max_values = {MAX_VALUES + 1}" in str(error.value)


# ---- draws


@pytest.mark.parametrize("name", ["several", "coloring 2, 4, 1 and 3", "sudoku nbr"])
def test_embeddings_that_were_not_drawn_are_left_alone(name: str) -> None:
    """Exactly: no gradient, nor any influence."""
    problem = PROBLEMS[name]
    model = make_model("multivalued", problem.csps[0])
    assert isinstance(model, Multivalued)
    batch = problem.puzzles().batch(range(len(problem.csps)))
    draw = torch.stack([torch.randperm(MAX_VALUES)[: batch.max_values] for _ in problem.csps])
    drawn = {int(draw[b, v]) for b, (_, k) in enumerate(batch.sizes) for v in range(k)}
    assert len(drawn) < MAX_VALUES or name != "sudoku nbr"

    def run_all() -> tuple[Tensor, Tensor]:
        prepared = model.prepare(batch, draw)
        scores = model(prepared, 3)
        assert batch.solutions is not None
        return scores, model.loss(scores, prepared, batch.solutions).sum() + model.penalty(prepared).sum()

    scores, total = run_all()
    total.backward()
    assert model.embeddings.weight.grad is not None
    moved = model.embeddings.weight.grad.abs().sum(1) > 0
    assert {i for i, m in enumerate(moved.tolist()) if m} == drawn
    with torch.no_grad():
        for i in set(range(MAX_VALUES)) - drawn:
            model.embeddings.weight[i] = 1e3
        assert torch.equal(run_all()[0], scores)


def test_values_beyond_a_puzzles_own_do_not_reach_it() -> None:
    """What the draw names there belongs to nobody."""
    problem = PROBLEMS["coloring 2, 4, 1 and 3"]
    model = make_model("multivalued", problem.csps[0])
    assert isinstance(model, Multivalued)
    batch = problem.puzzles().batch([0, 1, 2, 3])
    draw = torch.stack([torch.randperm(MAX_VALUES)[:4] for _ in problem.csps])
    other = draw.clone()
    for b, (_, k) in enumerate(batch.sizes):
        other[b, k:] = torch.randint(MAX_VALUES, (4 - k,))
    first, second = model.prepare(batch, draw), model.prepare(batch, other)
    assert not torch.equal(draw, other)
    assert torch.equal(model(first, 3), model(second, 3))
    assert torch.equal(model.penalty(first), model.penalty(second))
    with torch.no_grad():  # a broken embedding harms the puzzles that drew it, and no other
        model.embeddings.weight[int(draw[0, -1])] = torch.nan
    hurt = {b for b, (_, k) in enumerate(batch.sizes) if int(draw[0, -1]) in draw[b, :k].tolist()}
    parts = model(model.prepare(batch, draw), 3)[-1].split([v for v, _ in batch.sizes])
    assert {b for b, part in enumerate(parts) if part.isnan().any()} == hurt
    assert 0 not in hurt


def test_the_penalty_of_embeddings_at_right_angles_is_that_of_the_others() -> None:
    """One pair at 60 degrees, one opposed: |cosine| 1/2 and 1, before the RMPG alone."""
    csp = coloring_csp(1, [], 4)
    model = make_model("multivalued", csp)
    assert isinstance(model, Multivalued)
    with torch.no_grad():
        model.embeddings.weight.zero_()
        model.embeddings.weight[0, 0] = 2
        model.embeddings.weight[1, :2] = torch.tensor([0.5, 0.75**0.5]) * 5
        model.embeddings.weight[2, 2] = 3
        model.embeddings.weight[3, 2] = -1
    prepared = model.prepare(Puzzles([csp], [np.zeros(1, dtype=int)]).batch([0]))
    unit = prepared.values / prepared.values.norm(dim=1, keepdim=True)
    after = ((unit @ unit.T).abs().sum() - 4) / 2
    assert_close(model.penalty(prepared), 0.01 * (1.5 + after).detach().reshape(1))


# ---- steps


@each_model
def test_more_steps_go_on_from_fewer(kind: str) -> None:
    problem = PROBLEMS["several"]
    model = make_model(kind, problem.csps[0], steps=4)
    puzzles = problem.puzzles()
    five, three = run(model, puzzles, [0, 1], 5), run(model, puzzles, [0, 1], 3)
    assert torch.equal(five[:3], three)
    assert all(not torch.equal(a, b) for a, b in pairwise(five))
    prepared: Any = model.prepare(puzzles.batch([0, 1]))
    assert torch.equal(model(prepared), run(model, puzzles, [0, 1], 4))
    assert len(list(model.run(prepared, 0))) == 0


@each_model
@pytest.mark.parametrize("name", ["several", "groups of mixed sizes", "sudoku units"])
def test_a_walk_in_two_pieces_is_one_walk(kind: str, name: str) -> None:
    problem = (PROBLEMS | GROUPED)[name]
    puzzles = problem.puzzles()
    model = make_model(kind, puzzles.schema)
    everything = range(len(puzzles))
    prepared: Any = model.prepare(puzzles.batch(everything))
    walked = list(model.walk(prepared, 5))
    scores = torch.stack([found for _, found in walked])
    assert torch.equal(scores, model(prepared, 5))
    assert torch.equal(scores, model(prepared, 5, model.start(prepared)))
    for first in (1, 2, 4):
        *_, (reached, _) = model.walk(prepared, first)
        assert all(torch.equal(a, b) for a, b in zip(reached, walked[first - 1][0], strict=True))
        again: Any = model.prepare(puzzles.batch(everything))  # nothing is kept in the graph
        assert torch.equal(model(again, 5 - first, reached), scores[first:])
        assert torch.equal(reached.told, reached.hidden)
    assert [found.shape for found in walked[0][0]] == [found.shape for found in model.start(prepared)]


@pytest.mark.parametrize("kind", ["binarized", "grouped"])
@pytest.mark.parametrize("begun", [False, True])
def test_every_step_is_the_same_to_a_compiler(kind: str, begun: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """States have gradients at all steps, or at none, also at the first; and no two of them are one tensor. Those given stay as they are."""
    problem = PROBLEMS["several"]
    model = make_model(kind, problem.csps[0])
    assert isinstance(model, Binarized | Grouped)
    graph: Any = model.prepare(problem.puzzles().batch([0, 1]))
    start = States(*(t.detach() for t in model.start(graph, 0.5))) if begun else None
    step = model.step
    seen: list[tuple[Tensor, ...]] = []

    def watch(_: Any, *arguments: Any) -> tuple[Tensor, Tensor]:
        seen.append(tuple(t for each in arguments for t in (each if isinstance(each, tuple) else (each,))))
        return step(_, *arguments)

    monkeypatch.setattr(model, "step", watch)
    scores = model(graph, 3, start)
    with torch.no_grad():
        assert torch.equal(model(graph, 3, start), scores)
    wants = [[t.requires_grad for t in arguments] for arguments in seen]
    assert wants == [[False, *[True] * 6]] * 3 + [[False] * 7] * 3  # which, weight, the stack's two, told, hidden, cell
    assert all(len({id(t) for t in arguments}) == 7 for arguments in seen)
    if start is not None:
        assert not any(t.requires_grad for t in start)
    found = torch.autograd.grad(scores[-1].sum(), model.inputs.weight)[0]
    assert found.abs().sum(1).all()  # what is told at first and what is known at every step


@each_model
def test_givens_are_remembered_on_the_way(kind: str) -> None:
    """From the same states, other givens make other scores."""
    csp = sudoku_csp("units")
    model = make_model(kind, csp)
    puzzles = Puzzles([csp, csp], [np.zeros(16, dtype=int), np.arange(16) % 5])
    none, some = (model.prepare(puzzles.batch([i])) for i in (0, 1))
    *_, (reached, _) = model.walk(none, 2)  # pyright: ignore[reportArgumentType]
    assert (model(none, 1, reached) - model(some, 1, reached)).abs().max() > 1e-3


# ---- noise


@each_model
def test_noise_is_for_those_who_ask(kind: str) -> None:
    problem = GROUPED["groups of mixed sizes"]
    model = make_model(kind, problem.puzzles().schema)
    prepared: Any = model.prepare(problem.puzzles().batch(range(4)))
    before = torch.get_rng_state()
    quiet = model.start(prepared)
    assert torch.equal(torch.get_rng_state(), before)  # who draws nothing leaves others their draws
    assert not quiet.hidden.any()
    assert not quiet.cell.any()
    assert all(torch.equal(a, b) for a, b in zip(quiet, model.start(prepared, 0.0), strict=True))
    noisy: list[States] = []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        noisy.append(model.start(prepared, 0.5))
        assert torch.equal(noisy[-1].told, quiet.told)
    assert all(torch.equal(a, b) for a, b in zip(noisy[0], noisy[2], strict=True))
    assert not torch.equal(noisy[0].hidden, noisy[1].hidden)
    assert not torch.equal(noisy[0].cell, noisy[1].cell)
    assert not torch.equal(noisy[0].hidden, noisy[0].cell)
    assert not torch.equal(model(prepared, 2, noisy[0]), model(prepared, 2))


def test_noise_comes_on_top_of_states() -> None:
    states = States(torch.randn(50, WIDTH), torch.full((50, WIDTH), 100.0), torch.full((50, WIDTH), -100.0))
    assert add_noise(states, 0.0) is states
    told, hidden, cell = add_noise(states, 1.0)
    assert torch.equal(told, states.told)
    assert 0 < (hidden - 100).abs().max() < 10
    assert 0 < (cell + 100).abs().max() < 10


@each_model
def test_noise_has_the_deviation_asked_for(kind: str) -> None:
    csp = sudoku_csp("units", 3, 3)
    model = make_model(kind, csp)
    prepared: Any = model.prepare(Puzzles([csp], [np.zeros(81, dtype=int)]).batch([0]))
    for scale in (0.1, 2.0):
        for noise in model.start(prepared, scale)[1:]:
            assert noise.std().item() == pytest.approx(scale, rel=0.15)
            assert abs(noise.mean().item()) < 0.2 * scale


@each_model
def test_without_gradients_nothing_changes(kind: str) -> None:
    problem = PROBLEMS["futoshiki nbr"]
    model = make_model(kind, problem.csps[0])
    scores = run(model, problem.puzzles(), [0, 1])
    with torch.no_grad():
        assert_close(run(model, problem.puzzles(), [0, 1]), scores)


# ---- dropout


@each_model
def test_evaluation_is_deterministic(kind: str) -> None:
    problem = PROBLEMS["several"]
    model = make_model(kind, problem.csps[0])
    puzzles = problem.puzzles()
    assert torch.equal(run(model, puzzles, [0, 1]), run(model, puzzles, [0, 1]))


@each_model
def test_training_is_random_and_repeats_with_its_seed(kind: str) -> None:
    problem = PROBLEMS["several"]
    model = make_model(kind, problem.csps[0]).train()
    puzzles = problem.puzzles()
    found = []
    for seed in (0, 1, 0):
        torch.manual_seed(seed)
        found.append(run(model, puzzles, [0, 1]))
    assert torch.equal(found[0], found[2])
    assert not torch.equal(found[0], found[1])
    assert not torch.equal(found[0], run(model.eval(), puzzles, [0, 1]))


@each_model
def test_without_dropout_training_scores_as_evaluation(kind: str) -> None:
    problem = PROBLEMS["several"]
    model = make_model(kind, problem.csps[0], dropout=0.0)
    assert_close(run(model.train(), problem.puzzles(), [0, 1]), run(model.eval(), problem.puzzles(), [0, 1]))


def test_the_relation_graph_of_values_has_no_dropout() -> None:
    problem = PROBLEMS["several"]
    model = make_model("multivalued", problem.csps[0]).train()
    assert isinstance(model, Multivalued)
    batch = problem.puzzles().batch([0, 1])
    assert torch.equal(model.prepare(batch).values, model.prepare(batch).values)


@pytest.mark.parametrize("kind", ["binarized", "multivalued", "grouped"])
def test_every_type_of_messages_is_dropped_element_by_element(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where a node hears one message of a type, its elements are dropped or doubled; where it hears several, anything between."""
    csp = futoshiki_csp(2, [(0, 1), (2, 3), (0, 2)], "units")
    model = make_model(kind, csp)
    puzzles = Puzzles([csp], [np.array([0, 2, 1, 0])])
    heard: list[Tensor] = []
    forward = type(model.update).forward

    def watch(self: LayerNormLSTM, messages: Tensor, *rest: Any) -> Any:
        if self is model.update:
            heard.append(messages.detach())
        return forward(self, messages, *rest)

    monkeypatch.setattr(type(model.update), "forward", watch)
    run(model, puzzles, [0], 1)
    (clean,) = heard
    heard.clear()
    model.train()
    for seed in range(30):
        torch.manual_seed(seed)
        run(model, puzzles, [0], 1)
    dropped = torch.stack(heard)  # (seeds, nodes, types * width)
    prepared: Any = model.prepare(puzzles.batch([0]))
    tables: tuple[Neighbors, ...]
    if isinstance(model, Multivalued):
        tables = (*prepared.graph.constraint, prepared.graph.assigned, prepared.graph.unassigned)
    else:
        tables = (*prepared.constraint, *prepared.relation)
    if isinstance(model, Grouped):
        tables = (*(g.memberships for g in (*prepared.groups, prepared.values)), *tables)
    single = 0
    for i, table in enumerate(tables):
        degree = table.degree * torch.ones(len(table.source)) if table.mask is None else table.mask.sum(1)
        part, whole = dropped[:, :, i * WIDTH : (i + 1) * WIDTH], clean[:, i * WIDTH : (i + 1) * WIDTH]
        assert not part[:, degree == 0].any()
        one, told = part[:, degree == 1], whole[degree == 1]
        if not told.any():
            continue
        single += 1
        kept = one != 0
        assert_close(one[kept], 2 * told.expand_as(one)[kept])
        some = told.expand_as(one) != 0  # the others were not activated
        assert 0.3 < kept[some].double().mean() < 0.7
        assert (kept.any(2) & (some & ~kept).any(2)).any()
    assert single == len(tables) - isinstance(
        model, Multivalued
    )  # which hears of two values, where nothing is assigned
    width = len(tables) * WIDTH
    if isinstance(model, Multivalued):
        assert clean.shape[1] == width
    else:  # what is known of a node comes behind, and is never dropped
        assert torch.equal(clean[:, width:], torch.nn.functional.one_hot(prepared.known, 8).double())
        assert torch.equal(dropped[:, :, width:], clean[:, width:].expand(len(dropped), -1, -1))


# ---- functions and settings


def functions(kind: str, csp: GroundCSP, **options: Any) -> list[str]:
    model = make_model(kind, csp, **options)
    return [*(model.pooled if isinstance(model, Grouped) else ()), *model.messages]


def test_which_edges_share_a_function() -> None:
    order, units = futoshiki_csp(3, [(0, 1)], "nbr"), futoshiki_csp(3, [(0, 1)], "units")
    constraints = ["constraint nbr", "constraint less", "constraint less reversed"]
    assert functions("binarized", order) == [*constraints, "relation neq"]
    orders = ["relation lt", "relation lt reversed"]
    assert functions("binarized", order, share_order=False) == [*constraints, "relation neq", *orders]
    between = [*constraints, "assigned", "unassigned"]
    assert functions("multivalued", order) == [*between, *orders]
    assert functions("multivalued", order, share_order=True) == between
    assert functions("multivalued", order, share_neq=False) == [*between, "relation neq", *orders]
    # Of the grouped model, groups of each type, of the values of a variable, and edges that groups do not stand for.
    edges = ["constraint less to lt", "constraint less reversed to lt", *orders]
    assert functions("grouped", order) == ["group nbr", "group values", *edges]
    assert functions("grouped", units) == ["group row", "group col", "group values", *edges]
    assert functions("grouped", coloring_csp(2, [(0, 1)], 2)) == ["group values", "constraint edge to neq"]
    assert functions("grouped", sudoku_csp("nbr")) == ["group nbr", "group values"]
    far = FAR.ground(2, 3, {"set": Groups([[0, 1]])})
    assert functions("grouped", far) == ["group set", "group values", "relation far"]
    named = NAMED.ground(2, 3, {"values": Groups([[0, 1]])})
    assert functions("grouped", named) == ["group values", "group values of a variable"]
    # Rows and columns both ask for neq: there is no one function to share.
    typed = ["constraint row", "constraint col", "constraint less", "constraint less reversed"]
    assert functions("multivalued", units) == [*typed, "assigned", "unassigned", "relation neq", *orders]


def test_only_functions_that_attend_have_attention() -> None:
    csp = futoshiki_csp(3, [(0, 1)], "nbr")

    def attending(kind: str, **options: Any) -> set[str]:
        return {n.split(".")[1] for n, _ in make_model(kind, csp, **options).named_parameters() if "attend" in n}

    order = {"constraint less", "constraint less reversed"}
    assert attending("binarized") == {"constraint nbr", *order}
    assert attending("binarized", constraint="mean") == order
    assert attending("binarized", order="mean") == {"constraint nbr"}
    assert attending("binarized", constraint="mean", order="mean") == set()
    assert attending("binarized", constraint="mean", order="mean", relation="attention") == {"relation neq", *order}
    assert attending("multivalued") == {"constraint nbr", "unassigned"}
    assert attending("multivalued", unassigned="mean", order="attention") == {"constraint nbr", *order}
    directions = {"constraint less to lt", "constraint less reversed to lt", "relation lt", "relation lt reversed"}
    assert attending("grouped") == directions


def is_attention(name: str) -> bool:
    return "project" in name or "attend" in name


@each_model
@pytest.mark.parametrize(
    ("name", "batches"),
    [("silent last", ([0, 1, 2], [1], [2, 2])), ("groups of nobody", ([0, 1], [1])), ("coloring of couples", ([0],))],
)
def test_every_parameter_is_of_use(kind: str, name: str, batches: tuple[list[int], ...]) -> None:
    """One without a gradient stops those who train on several machines: also where there are no facts, or one edge into each node."""
    puzzles = (PROBLEMS | GROUPED)[name].puzzles()
    options: dict[str, Any] = {"relation": "attention"} if kind == "binarized" else {}
    model = make_model(kind, puzzles.schema, **options)
    for chosen in batches:
        batch = puzzles.batch(chosen)
        prepared: Any = model.prepare(batch)
        assert batch.solutions is not None
        model.zero_grad()
        total = model.loss(model(prepared, 2), prepared, batch.solutions).sum()
        penalty = model.penalty(prepared)
        (total if penalty is None else total + penalty.sum()).backward()
        assert [name for name, p in model.named_parameters() if p.grad is None] == []
        if name == "coloring of couples" and kind != "multivalued":  # who has one to listen to need not choose
            attention = [p.grad for n, p in model.named_parameters() if is_attention(n) and p.grad is not None]
            assert attention
            assert not any(gradient.any() for gradient in attention)


@pytest.mark.parametrize("kind", ["binarized", "multivalued"])
def test_every_type_of_edges_has_a_function_of_its_own(kind: str) -> None:
    """Also where one predicate asks for two relations."""
    csp = TWOFOLD.ground(3, 3, {"tied": [(0, 1), (2, 1)]})
    options = {"share_neq": False} if kind == "multivalued" else {}
    found = functions(kind, csp, share_order=False, **options)
    assert len([name for name in found if name.startswith("constraint")]) == 3
    assert len([name for name in found if name.startswith("relation")]) == 3


def test_every_type_of_groups_and_edges_has_a_function_of_its_own() -> None:
    found = functions("grouped", TWOFOLD.ground(3, 3, {"tied": [(0, 1), (2, 1)]}))
    pairs = ["constraint tied to neq", "constraint tied to lt", "constraint tied reversed to lt"]
    assert found == ["group values", *pairs, "relation lt", "relation lt reversed"]
    assert functions("grouped", TWOFOLD.ground(3, 3, {"tied": Groups([[0, 1]])})) == [
        "group tied",
        "group values",
        "relation lt",
        "relation lt reversed",
    ]


def test_models_are_built_by_their_configuration() -> None:
    schema = Schema.of(sudoku_csp("nbr"))
    for name, (model, config) in MODELS.items():
        built = build_model(schema, config())
        assert type(built) is model
        assert built.kind == name
        assert built.schema == schema


def test_the_defaults_are_those_of_the_paper() -> None:
    bin_, mv = BinarizedConfig(), MultivaluedConfig()
    assert (bin_.width, bin_.steps, bin_.layers, bin_.dropout) == (96, 32, 3, 0.1)
    assert (bin_.constraint, bin_.relation, bin_.share_order) == ("attention", "mean", True)
    assert (mv.width, mv.steps, mv.relation_steps, mv.layers, mv.dropout) == (96, 32, 1, 3, 0.1)
    assert (mv.constraint, mv.unassigned, mv.order, mv.relation) == ("attention", "attention", "mean", "mean")
    assert (mv.share_neq, mv.share_order, mv.orthogonality) == (True, False, 0.01)
    shapes = {n: tuple(p.shape) for n, p in build_model(Schema.of(sudoku_csp("nbr")), bin_).named_parameters()}
    mlp = {n.removeprefix("messages.constraint nbr."): s for n, s in shapes.items() if "constraint nbr" in n}
    assert mlp["first.weight"] == (96, 192)
    assert [mlp[f"rest.{i}.weight"] for i in range(3)] == [(96, 96)] * 3
    assert "rest.3.weight" not in mlp
    assert shapes["inputs.weight"] == (3, 96)
    assert shapes["update.hear.weight"] == (384, 288)
    assert shapes["score.weight"] == (1, 96)


def test_what_a_grouped_model_is_made_of() -> None:
    """No layers but these: the last one of a message is the update's first."""
    config = GroupedConfig()
    assert (config.width, config.steps, config.heads, config.dropout) == (96, 64, 4, 0.0)
    model = make_model("grouped", futoshiki_csp(3, [(0, 1)], "units"), width=5, heads=2)
    edges = ["constraint less to lt", "constraint less reversed to lt", "relation lt", "relation lt reversed"]
    expected = {
        "inputs.weight": (3, 5),
        "members.weight": (3 * 5 + 3 * 2, 5),  # of three types of groups
        **{f"pooled.group {name}.bias": (5,) for name in ("row", "col", "values")},
        **{f"pooled.group {name}.weight": (5, 2 * 5) for name in ("row", "col", "values")},
        **{f"messages.{edge}.first.weight": (5, 2 * 5) for edge in edges},
        **{f"messages.{edge}.first.bias": (5,) for edge in edges},
        **{f"messages.{edge}.project.weight": (5, 5) for edge in edges},
        **{f"messages.{edge}.attend.weight": (1, 2 * 5) for edge in edges},
        "update.hear.weight": (4 * 5, (7 + 1) * 5),
        "score.weight": (1, 5),
        "score.bias": (1,),
    }
    shapes = {name: tuple(p.shape) for name, p in model.named_parameters()}
    rest = {name: shape for name, shape in shapes.items() if name not in expected}
    assert {name: shapes.get(name) for name in expected} == expected
    assert all(name.startswith(("update.recall", "update.hear_norm", "update.cell_norm")) for name in rest)


@pytest.mark.parametrize("options", [{"width": 0}, {"width": 5000}, {"steps": 0}, {"dropout": 1.0}, {"dropout": -0.1}])
@pytest.mark.parametrize("config", [BinarizedConfig, MultivaluedConfig, GroupedConfig])
def test_settings_no_model_can_have_are_refused(config: type[Config], options: dict[str, Any]) -> None:
    (name,) = options
    with pytest.raises(ValueError, match=f"^{name} is"):
        config(**options)


def test_settings_that_some_models_have_are_refused_as_well() -> None:
    for config in (BinarizedConfig, MultivaluedConfig):
        for layers in (0, 65):
            with pytest.raises(ValueError, match=rf"^layers is {layers}; it goes from 1 to 64$"):
                config(layers=layers)
    with pytest.raises(ValueError, match="max_values is 0"):
        MultivaluedConfig(max_values=0)
    with pytest.raises(ValueError, match="relation_steps is 0"):
        MultivaluedConfig(relation_steps=0)
    for heads in (0, 257):
        with pytest.raises(ValueError, match=rf"^heads is {heads}; it goes from 1 to 256$"):
            GroupedConfig(heads=heads)


# ---- groups


def test_facts_in_pairs_are_not_overlooked() -> None:
    """The grouped model leaves out the edges that groups stand for: who has no groups must not be solved without constraints."""
    stated = UNITS.ground(3, 3, {"team": Groups([[0, 1]]), "club": Groups([[1, 2]])})
    paired = UNITS.ground(3, 3, {"team": [(0, 1), (1, 0)], "club": Groups([[1, 2]])})
    givens = np.zeros(3, dtype=int)
    for csps in ([paired], [stated, paired], [paired, stated]):
        puzzles = Puzzles(csps, [givens] * len(csps))
        for kind in ("binarized", "multivalued"):
            assert run(make_model(kind, stated), puzzles, list(range(len(csps)))).isfinite().all()
        model = make_model("grouped", stated)
        with pytest.raises(OutgrowError) as error:
            run(model, puzzles, list(range(len(csps))))
        assert str(error.value) == "team is stated in pairs, and the model knows it in groups; state it as Groups(...)"
        with pytest.raises(OutgrowError):
            run(model, puzzles, [csps.index(paired)])
    # The other puzzle of the collection can be solved.
    puzzles = Puzzles([paired, stated], [givens] * 2)
    assert_close(
        run(make_model("grouped", stated), puzzles, [1]), run_one(make_model("grouped", stated), stated, givens)
    )


def test_a_model_of_pairs_takes_groups_as_well() -> None:
    """A group stands for the pairs of its members, which is how this model knows the predicate."""
    pairs = [(0, 1), (1, 0), (0, 2), (2, 0), (1, 2), (2, 1), (2, 3), (3, 2)]
    paired, stated = (UNITS.ground(4, 3, {"team": facts}) for facts in (pairs, Groups([[2, 0, 1], [2, 3]])))
    model = make_model("grouped", paired)
    givens = [0, 1, 0, 2]
    assert_close(run_one(model, stated, givens), run_one(model, paired, givens))
    assert (run_one(make_model("grouped", stated), stated, givens) - run_one(model, paired, givens)).abs().max() > 1e-3


def test_groups_are_known_by_name() -> None:
    """Whatever else the other puzzles of a collection state in groups, or do not."""
    both = UNITS.ground(3, 3, {"team": Groups([[0, 1]]), "club": Groups([[1, 2]])})
    team, club = (UNITS.ground(3, 3, {name: Groups([[0, 1]])}) for name in ("team", "club"))
    nothing = UNITS.ground(3, 3, {})
    givens = np.array([0, 1, 0])
    model = make_model("grouped", both)
    alone = [run_one(model, csp, givens) for csp in (team, club, nothing)]
    together = run(model, Puzzles([team, club, nothing, both], [givens] * 4), [0, 1, 2])
    assert_close(together, torch.cat(alone, dim=1))
    gaps = [(a - b).abs().max() for a, b in ((alone[0], alone[1]), (alone[0], alone[2]), (alone[1], alone[2]))]
    assert min(gaps) > 1e-3


def test_a_predicate_without_constraints_is_of_no_account() -> None:
    """As no edge, so no group: edges of such facts do not exist either."""
    csp = TWOFOLD.ground(3, 3, {"tied": [(0, 1)]})
    more = type(csp.lifted)(["idle(2)", "tied(2)"], csp.lifted.relations, csp.lifted.constraints)
    idle = more.ground(3, 3, {"idle": Groups([[0, 1, 2]]), "tied": [(0, 1)]})
    assert Schema.of(idle).groups == ()
    assert_close(
        run_one(make_model("grouped", idle), idle, [0, 2, 0]), run_one(make_model("grouped", csp), csp, [0, 2, 0])
    )
