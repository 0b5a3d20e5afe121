"""A model as a layer: certain evidence is a given, and gradients are those of finite differences."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import nn

from outgrow import Instance, OutgrowError, Solver, parse_one
from outgrow.graphs import Puzzles, Schema
from outgrow.models import MODELS, Model, build_model
from outgrow.solve import SoftSolver

FOUR = "1.....3..4.....2"
SIGNS = "4:0,0,1,0,2,0R,0,0,0,0,0D,0,0,0U,0,0,"
GRAPH = "c k 3\nc given 1 1\np edge 5 6\ne 1 2\ne 2 3\ne 3 4\ne 4 5\ne 5 1\ne 1 3"


def build(kind: str, puzzle: Instance) -> Model:
    torch.manual_seed(3)
    extra = {"grouped": {"marks": 2, "crowd": 0.4}}.get(kind, {})
    return build_model(Schema.of(puzzle.csp), MODELS[kind][1](**{"width": 8, "steps": 3, **extra})).eval()


def evidence_of(puzzle: Instance) -> torch.Tensor:
    values = torch.from_numpy(puzzle.givens.astype(np.int64))
    return torch.nn.functional.one_hot(values, puzzle.size + 1)[:, 1:].float()


@pytest.mark.parametrize("text", [FOUR, SIGNS, GRAPH], ids=["sudoku", "futoshiki", "coloring"])
@pytest.mark.parametrize("kind", ["grouped", "binarized"])
def test_certain_evidence_is_what_givens_are(kind: str, text: str) -> None:
    puzzle = parse_one(text)
    model = build(kind, puzzle)
    with torch.no_grad():
        hard = model(model.prepare(Puzzles.of_instances([puzzle]).batch([0])), 3)
        open_ = model(model.prepare(Puzzles.of_instances([puzzle.with_givens(puzzle.givens * 0)]).batch([0])), 3)
        evidence = torch.stack([evidence_of(puzzle), torch.zeros(len(puzzle.givens), puzzle.size)])
        layer = SoftSolver(model, puzzle, steps=3)
        soft = layer.scores(evidence)
        torch.testing.assert_close(soft[:, 0], hard, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(soft[:, 1], open_, atol=1e-5, rtol=1e-5)
        torch.testing.assert_close(layer(evidence), soft[-1].softmax(2))
        assert not torch.allclose(soft[:, 0], soft[:, 1], atol=1e-3)


@pytest.mark.parametrize("kind", ["grouped", "binarized"])
def test_gradients_are_those_of_finite_differences(kind: str) -> None:
    puzzle = parse_one(SIGNS)
    layer = SoftSolver(build(kind, puzzle).double(), puzzle, steps=2)
    torch.set_default_dtype(torch.float64)
    try:
        torch.manual_seed(0)
        evidence = torch.rand(1, 16, 4).mul(0.2).requires_grad_()
        assert torch.autograd.gradcheck(lambda e: layer(e)[:, :3], (evidence,), atol=1e-5)
    finally:
        torch.set_default_dtype(torch.float32)


def test_a_network_in_front_learns_to_read_through_it() -> None:
    """Digits as random patterns: the reader is told solutions alone, never what a cell shows."""
    texts = ["1.....3..4.....2", ".2....1..4....3.", "1234" + "." * 12, "..3.4.2..1......"]
    puzzles = [parse_one(text) for text in texts]
    solver = Solver()
    network = solver.network_for(puzzles[0]).model.requires_grad_(False)
    solutions = torch.stack([torch.tensor(solver.solve(p).assignment) for p in puzzles]).long() - 1
    torch.manual_seed(0)
    looks = torch.randn(5, 12)  # of nothing, and of each digit
    pictures = torch.stack([looks[torch.from_numpy(p.givens.astype(np.int64))] for p in puzzles])  # (B, V, 12)
    reader = nn.Linear(12, 5)
    layer = SoftSolver(network, puzzles[0], steps=6)
    optimizer = torch.optim.Adam(reader.parameters(), lr=0.05)
    losses: list[float] = []
    for _ in range(40):
        evidence = reader(pictures).softmax(2)[:, :, 1:]
        loss = nn.functional.cross_entropy(layer.scores(evidence)[-1].flatten(0, 1), solutions.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < 0.6 * losses[0]
    assert all(p.grad is None for p in network.parameters())


def test_what_it_refuses() -> None:
    puzzle = parse_one(FOUR)
    with pytest.raises(OutgrowError, match="multivalued model takes no soft givens"):
        SoftSolver(build("multivalued", puzzle), puzzle)
    layer = SoftSolver(build("grouped", puzzle), puzzle)
    for shape in ((16, 4), (1, 16, 5), (1, 15, 4)):
        with pytest.raises(OutgrowError, match=r"evidence is \(B, 16, 4\), not"):
            layer(torch.zeros(shape))
    with pytest.raises(OutgrowError, match="0 steps"):
        SoftSolver(build("grouped", puzzle), puzzle, steps=0)
    with pytest.raises(OutgrowError, match="the model was built for"):
        SoftSolver(build("grouped", puzzle), parse_one(GRAPH))


def test_no_evidence_has_no_beliefs() -> None:
    puzzle = parse_one(FOUR)
    layer = SoftSolver(build("grouped", puzzle), puzzle, steps=3)
    assert layer(torch.zeros(0, 16, 4)).shape == (0, 16, 4)
    assert layer.scores(torch.zeros(0, 16, 4)).shape == (3, 0, 16, 4)
