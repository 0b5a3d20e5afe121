"""Fused kernels against the reference in double precision: outputs and all gradients, no further off than the reference itself in their precision.

Without a GPU they run in Triton's interpreter, which cuts bf16 off where a GPU rounds: so there it may be a little further off.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest
import torch
from torch import Tensor

from outgrow.kernels import Neighbors, Roster, fused, reference
from outgrow.kernels.fused import update
from outgrow.kernels.reference import Layer

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
# How far off a kernel may be, in errors of the reference.
SLACK = {torch.float32: 2.0, torch.bfloat16: 2.0 if DEVICE == "cuda" else 5.0}
TYPES = pytest.mark.parametrize("dtype", SLACK, ids=["fp32", "bf16"])

Groups = Sequence[Sequence[int]]


def make_neighbors(rows: Groups, sources: int, spare: int = 0) -> Neighbors:
    """Edges from the nodes of each row, `spare` columns more than needed."""
    width = max((len(row) for row in rows), default=0) + spare
    table = torch.randint(max(sources, 1), (len(rows), width))
    mask = torch.zeros(len(rows), width, dtype=torch.bool)
    for i, row in enumerate(rows):
        places = torch.randperm(width)[: len(row)]
        table[i, places], mask[i, places] = torch.tensor(row, dtype=torch.int64), True
    return Neighbors(table.to(DEVICE), None if mask.all() else mask.to(DEVICE), sources)


def make_roster(nodes: int, types: Sequence[Groups]) -> Roster:
    made = []
    for groups in types:
        of_node = [[g for g, group in enumerate(groups) if node in group] for node in range(nodes)]
        made.append((make_neighbors(groups, nodes), make_neighbors(of_node, len(groups))))
    return Roster(made)


def board(n: int) -> list[Groups]:
    return [[[n * i + j for j in range(n)] for i in range(n)], [[n * j + i for j in range(n)] for i in range(n)]]


def run(
    function: Callable[..., Tensor | tuple[Tensor, ...]], leaves: Sequence[Tensor], dtype: torch.dtype
) -> list[Tensor]:
    """Results, and the gradients of all leaves for some gradient of the results."""
    leaves = [t.to(dtype).detach().requires_grad_() for t in leaves]
    results = function(*leaves)
    results = (results,) if isinstance(results, Tensor) else results
    generator = torch.Generator().manual_seed(1)
    wanted = [torch.randn(t.shape, generator=generator).to(t) for t in results]
    gradients = torch.autograd.grad(results, leaves, wanted)
    return [t.detach() for t in (*results, *gradients)]


def assert_exact(
    one: Callable[..., Tensor | tuple[Tensor, ...]],
    other: Callable[..., Tensor | tuple[Tensor, ...]],
    leaves: Sequence[Tensor],
    dtype: torch.dtype,
    small: float = 3e-6,
) -> None:
    leaves = [t.to(dtype) for t in leaves]  # all begin with the same numbers
    exact = run(other, leaves, torch.float64)
    for mine, eager, wanted in zip(run(one, leaves, dtype), run(other, leaves, dtype), exact, strict=True):
        assert mine.shape == wanted.shape
        size = float(wanted.norm())
        off, allowed = float((mine.double() - wanted).norm()), SLACK[dtype] * float((eager.double() - wanted).norm())
        assert off <= allowed + (small if dtype == torch.float32 else 1e-3) * (size + 1)


def numbers(*shapes: tuple[int, ...]) -> list[Tensor]:
    return [torch.randn(shape, device=DEVICE) for shape in shapes]


@TYPES
@pytest.mark.parametrize(
    ("nodes", "types", "width", "heads"),
    [
        pytest.param(36, board(6), 96, 4, id="a board"),
        pytest.param(16, board(4), 32, 3, id="heads no power of two"),
        pytest.param(4, board(2), 128, 1, id="one head"),
        pytest.param(20, [[[0, 1, 2], [2, 3], [4]], [list(range(19)), [0, 19]], [[5]]], 40, 2, id="any sizes"),
        pytest.param(3, [[[0, 1, 2]], []], 33, 2, id="a type without groups"),
        pytest.param(5, [[[0], [], [1, 2]], [[4, 3, 2, 1, 0]]], 16, 2, id="a group without members"),
        pytest.param(4, [[[0, 1], [2, 3]], [[0, 1, 2], [1, 2, 3]]], 8, 2, id="once of one type and twice of the next"),
        pytest.param(1, [[[0]]], 8, 1, id="one node"),
    ],
)
def test_groups(nodes: int, types: Sequence[Groups], width: int, heads: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    roster = make_roster(nodes, types)
    count = len(types)

    def call(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        def exchange(states: Tensor, projected: Tensor, rest: Tensor, *layers: Tensor) -> Tensor:
            return function(states, projected, list(zip(layers[::2], layers[1::2], strict=True)), roster, rest)

        return exchange

    leaves = numbers((nodes, width), (nodes, count * (width + heads)), (nodes, 3))
    for weight, bias in (numbers((width, heads * width), (width,)) for _ in types):
        leaves += [weight / width**0.5, bias]
    assert_exact(call(fused.exchange), call(reference.exchange), leaves, dtype)


EDGES: dict[str, tuple[int, Groups]] = {
    "regular": (6, [[(i + 1) % 6, (i + 2) % 6, (i + 5) % 6] for i in range(6)]),
    "any degree": (7, [[0, 1, 2, 3, 4], [], [6], [6, 6, 1], [2], [0], [3, 4], [], [5]]),
    "one edge": (1, [[0]]),
    "none": (3, [[], [], []]),
    "nobody hears": (3, []),
    "a wide fan": (40, [list(range(37)), [38]]),
}


@TYPES
@pytest.mark.parametrize("width", [96, 128, 7])
@pytest.mark.parametrize("how", ["attention", "sharpened", "mean"])
@pytest.mark.parametrize("name", EDGES)
def test_edges(name: str, how: str, width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    sources, rows = EDGES[name]
    neighbors = make_neighbors(rows, sources, spare=2 if name == "any degree" else 0)

    def mean(function: Callable[..., Tensor], layers: tuple[Sequence[Layer], ...]) -> Callable[..., Tensor]:
        return lambda source, destination: function(source, destination, neighbors, *layers)

    def attend(function: Callable[..., Tensor], layers: tuple[Sequence[Layer], ...]) -> Callable[..., Tensor]:
        return lambda source, destination, a, b: function(
            source, destination, neighbors, *layers, logits=(a, b), sharpen=how == "sharpened"
        )

    call = mean if how == "mean" else attend
    leaves = numbers((sources, width), (len(rows), width))
    leaves += [] if how == "mean" else numbers((sources,), (len(rows),))
    assert_exact(call(fused.average_messages, ()), call(reference.average_messages, ((),)), leaves, dtype)


@TYPES
@pytest.mark.parametrize("width", [96, 7])
@pytest.mark.parametrize("drawn", ["of any size", "often equal"])
@pytest.mark.parametrize("name", EDGES)
def test_the_strongest(name: str, drawn: str, width: int, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    sources, rows = EDGES[name]
    neighbors = make_neighbors(rows, sources, spare=2 if name == "any degree" else 0)
    leaves = numbers((sources, width), (len(rows), width))
    if drawn == "often equal":
        leaves[0] = leaves[0].round()

    def call(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
        return lambda source, destination: function(source, destination, neighbors)

    assert_exact(call(fused.strongest_messages), call(reference.strongest_messages), leaves, dtype)


@TYPES
@pytest.mark.parametrize(("nodes", "width"), [(13, 96), (1, 128), (6, 33), (9, 1), (45, 5), (0, 8)])
def test_update(nodes: int, width: int, dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    monkeypatch.setattr(update, "_PROGRAMS", 2)  # so that each has several rounds
    entering, recalled, cell = numbers((nodes, 4 * width), (nodes, 4 * width), (nodes, width))
    norms = [t for n in (4, 4, 1) for t in (1 + 0.3 * torch.randn(n * width), 0.3 * torch.randn(n * width))]

    def call(function: Callable[..., tuple[Tensor, Tensor]]) -> Callable[..., tuple[Tensor, Tensor]]:
        def compute(*leaves: Tensor) -> tuple[Tensor, Tensor]:
            # Cells and norms are in single precision at least, whatever the gates' type.
            entering, recalled, *others = leaves
            others = [t if t.dtype == torch.float64 else t.float() for t in others]
            if function is reference.update_states and entering.dtype == torch.bfloat16:
                entering, recalled = entering.float(), recalled.float()
            cell, *flat = others
            pairs = list(zip(flat[::2], flat[1::2], strict=True))
            hidden, new = function(entering, recalled, cell, pairs, 1e-5)
            return hidden.to(leaves[0].dtype), new

        return compute

    leaves = [entering, recalled, cell, *(n.to(DEVICE) for n in norms)]
    assert_exact(call(fused.update_states), call(reference.update_states), leaves, dtype)


def test_large_logits_are_no_trouble() -> None:
    torch.manual_seed(0)
    roster, neighbors = make_roster(9, board(3)), make_neighbors([[0, 1, 2], [1, 2]], 3)
    states, projected, rest = numbers((9, 8), (9, 20), (9, 4))
    projected[:, 16:] *= 2000
    layers = [(w, b) for w, b in (numbers((8, 16), (8,)) for _ in range(2))]
    arguments = (states, projected, layers, roster, rest)
    torch.testing.assert_close(fused.exchange(*arguments), reference.exchange(*arguments), rtol=1e-4, atol=1e-4)
    source, destination, sent, own = numbers((3, 8), (2, 8), (3,), (2,))
    logits = (200 * sent, 200 * own)
    found = fused.average_messages(source, destination, neighbors, logits=logits)
    expected = reference.average_messages(source, destination, neighbors, (), logits=logits)
    torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-4)


def test_groups_may_be_anywhere_in_memory() -> None:
    """Slices and transposed tensors, as autograd hands them over."""
    torch.manual_seed(0)
    roster = make_roster(9, board(3))
    states, projected, rest = numbers((8, 9), (9, 40), (4, 9))
    layers = [(w, b) for w, b in (numbers((8, 16), (8,)) for _ in range(2))]
    arguments = (states.T, projected[:, 2:22], layers, roster, rest.T)
    torch.testing.assert_close(fused.exchange(*arguments), reference.exchange(*arguments), rtol=1e-4, atol=1e-5)
