"""Marks by which nodes of the grouped model are told apart: random, of a seed for each puzzle, and the same for a puzzle wherever it is."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from problems import GROUPED, PROBLEMS, sudoku_csp
from test_against_slow import make_model
from test_properties import rename
from torch import Tensor

from outgrow.graphs import Puzzles
from outgrow.kernels.reference import pool_members
from outgrow.models import Grouped, GroupedConfig, build_model
from outgrow.models.nodes import draw_uniform

CONFIG = GroupedConfig(width=6, heads=2, steps=2, marks=5)
MIXED = GROUPED["groups of mixed sizes"]


def grouped(problem: Any = MIXED, config: GroupedConfig = CONFIG) -> Grouped:
    model = make_model(problem, config)
    assert isinstance(model, Grouped)
    return model


def marks_of(model: Grouped, chosen: list[int], seeds: list[int] | None) -> list[Tensor]:
    batch = MIXED.puzzles().batch(chosen)
    found = model.mark(batch, None if seeds is None else torch.tensor(seeds).unsqueeze(1))
    assert found is not None
    return list(found.split([v * k for v, k in batch.sizes]))


def test_marks_are_a_function_of_the_seed_and_the_place_in_the_puzzle() -> None:
    model = grouped()
    together, alone = marks_of(model, [0, 1, 2], [7, 8, 7]), marks_of(model, [2], [7])
    assert torch.equal(together[2], alone[0])
    shared = min(len(together[0]), len(together[2]))
    assert torch.equal(together[0][:shared], together[2][:shared])
    assert not torch.equal(together[1][:shared], together[2][:shared])
    assert torch.equal(marks_of(model, [1], None)[0], marks_of(model, [1], [0])[0])
    again = marks_of(model, [0, 1, 2], [7, 8, 7])
    assert all(torch.equal(a, b) for a, b in zip(together, again, strict=True))


def test_marks_are_uniform_with_variance_one_and_independent() -> None:
    csp = sudoku_csp("units", 4, 4)
    puzzles = Puzzles([csp], [np.zeros(256, int)])
    model = build_model(puzzles.schema, CONFIG)
    assert isinstance(model, Grouped)
    for seed in (0, 1, -5, 1 << 61):
        found = model.mark(puzzles.batch([0]), torch.tensor([[seed]]))
        assert found is not None
        assert found.shape == (4096, 5)
        assert abs(float(found.mean())) < 0.03
        assert abs(float(found.var()) - 1) < 0.03
        assert 1.7 < float(found.max()) <= 3**0.5
        assert -(3**0.5) <= float(found.min()) < -1.7
        between = torch.corrcoef(found.T) - torch.eye(5)
        assert float(between.abs().max()) < 0.06
        following = torch.corrcoef(torch.stack([found[:-1, 0], found[1:, 0]]))
        assert abs(float(following[0, 1])) < 0.06


def test_a_puzzle_does_not_notice_its_neighbors() -> None:
    model, puzzles = grouped(), MIXED.puzzles()
    seeds = torch.tensor([[3], [4], [5]])
    batch = puzzles.batch([0, 1, 3])
    together = model(model.prepare(batch, seeds)).detach()
    parts = together.split([v for v, _ in batch.sizes], dim=1)
    for part, index, seed in zip(parts, [0, 1, 3], seeds, strict=True):
        alone = model(model.prepare(puzzles.batch([index]), seed.unsqueeze(0)))
        torch.testing.assert_close(part[:, :, : alone.shape[2]], alone, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("name", ["odd groups", "sudoku units"])
def test_variables_have_no_order_when_marks_move_along(name: str) -> None:
    problem = (PROBLEMS | GROUPED)[name]
    model, csp, givens = grouped(problem), problem.csps[0], problem.givens[0]
    new = np.random.default_rng(0).permutation(csp.num_variables)
    moved = np.zeros_like(givens)
    moved[new] = givens
    marks = torch.randn(csp.num_variables, csp.num_values, 5)
    turned = torch.empty_like(marks)
    turned[torch.from_numpy(new)] = marks

    def scores(csp: Any, givens: Any, marks: Tensor) -> Tensor:
        return model(model.prepare(Puzzles([csp], [givens]).batch([0]), marks.flatten(0, 1)))

    found = scores(rename(csp, new), moved, turned)[:, new]
    torch.testing.assert_close(found, scores(csp, givens, marks), rtol=1e-4, atol=1e-5)
    assert not torch.allclose(found, scores(rename(csp, new), moved, marks)[:, new], atol=1e-3)


def test_values_have_no_order_when_marks_move_along() -> None:
    problem = PROBLEMS["sudoku units"]
    model, csp, givens = grouped(problem), problem.csps[0], problem.givens[0]
    new = np.random.default_rng(1).permutation(csp.num_values)  # value v is called new[v - 1] + 1
    moved = np.where(givens > 0, new[givens - 1] + 1, 0)
    marks = torch.randn(csp.num_variables, csp.num_values, 5)
    turned = torch.empty_like(marks)
    turned[:, torch.from_numpy(new)] = marks

    def scores(givens: Any, marks: Tensor) -> Tensor:
        return model(model.prepare(Puzzles([csp], [givens]).batch([0]), marks.flatten(0, 1)))

    torch.testing.assert_close(scores(moved, turned)[:, :, new], scores(givens, marks), rtol=1e-4, atol=1e-5)


def test_models_without_marks_have_none() -> None:
    model = grouped(config=GroupedConfig(width=6, heads=2, steps=2))
    assert not model.marked
    assert model.mark(MIXED.puzzles().batch([0]), torch.ones(1, 1, dtype=torch.int64)) is None
    assert model.inputs.weight.shape == (3, 6)
    assert grouped().inputs.weight.shape == (8, 6)


@pytest.mark.parametrize("marks", [-1, 257])
def test_numbers_of_marks_that_are_refused(marks: int) -> None:
    with pytest.raises(ValueError, match="marks"):
        GroupedConfig(marks=marks)


def test_a_crowd_counts_members_as_often_as_it_says() -> None:
    """What a group pools is what it would pool if each member were there so many times."""
    problem = PROBLEMS["sudoku units"]
    model = grouped(problem, GroupedConfig(width=6, heads=2, steps=2, marks=5, crowd=0.7)).train()
    graph = model.prepare(problem.puzzles().batch([0]), torch.tensor([[11]]))
    assert graph.crowd is not None
    members = graph.roster.types[0][0]
    size = members.source.shape[1]
    told, logit = torch.randn(len(graph.crowd), 6), torch.randn(len(graph.crowd), 1)
    found = pool_members(told, logit + graph.crowd, members)
    count = (graph.crowd * math.log(size)).exp()
    weight = count * (logit * math.log(size)).exp()
    for group in range(3):
        those = members.source[group]
        expected = (weight[those] * told[those]).sum(0) / weight[those].sum()
        torch.testing.assert_close(found[group], expected, rtol=1e-4, atol=1e-5)
    assert abs(float(count.log().mean())) < 0.2
    assert abs(float(count.log().std()) - 0.7) < 0.15


def test_crowds_differ_between_puzzles_and_are_there_in_training_alone() -> None:
    model = grouped(config=GroupedConfig(width=6, heads=2, steps=2, marks=5, crowd=1.0))
    batch, seeds = MIXED.puzzles().batch([0, 0, 0]), torch.tensor([[1], [2], [1]])
    crowd = model.train().prepare(batch, seeds).crowd
    assert crowd is not None
    first, second, third = crowd.split([v * k for v, k in batch.sizes])
    assert torch.equal(first, third)
    assert not torch.allclose(first, second, atol=0.1)
    assert model.prepare(batch).crowd is None  # nothing was drawn
    evaluated = model.eval().prepare(batch, seeds)
    assert evaluated.crowd is None
    alone = grouped().eval()
    alone.load_state_dict(model.state_dict())
    assert torch.equal(model(evaluated), alone(alone.prepare(batch, seeds)))
    trained = model.train()(model.prepare(batch, seeds))
    assert not torch.allclose(trained, alone(alone.prepare(batch, seeds)), atol=1e-3)


def test_what_crowds_are_drawn_from_is_uniform() -> None:
    puzzles = Puzzles([sudoku_csp("units", 4, 4)], [np.zeros(256, int)])
    found = torch.cat([draw_uniform(puzzles.batch([0]), torch.tensor([[seed]])) for seed in (0, 1, -5, 1 << 61, 977)])
    assert len(found) == 20_480
    assert 0 <= float(found.min()) < 0.01
    assert 0.99 < float(found.max()) < 1
    assert abs(float(found.mean()) - 0.5) < 0.01
    assert abs(float(found.var()) - 1 / 12) < 0.005


@pytest.mark.parametrize(("crowd", "marks"), [(-0.5, 5), (4.5, 5), (2.0, 0)])
def test_crowds_that_are_refused(crowd: float, marks: int) -> None:
    with pytest.raises(ValueError, match="crowd is"):
        GroupedConfig(marks=marks, crowd=crowd)
