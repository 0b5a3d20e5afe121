"""`average_messages` against a loop over edges, `pool_members` against one over groups: outputs, gradients, padding, blocks, dropout."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor

from outgrow.kernels import (
    Layer,
    Neighbors,
    average_messages,
    gather,
    pool_members,
    share_strongest,
    strongest_messages,
)
from outgrow.kernels import reference as reference_module

H = 3


@pytest.fixture(autouse=True)
def double() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    yield
    torch.set_default_dtype(torch.float32)


@dataclass(frozen=True)
class Case:
    """Random states and layers, on a table of edges."""

    neighbors: Neighbors
    source: Tensor
    destination: Tensor
    layers: list[Layer]
    logits: tuple[Tensor, Tensor] | None
    sharpen: bool

    @property
    def leaves(self) -> list[Tensor]:
        return [self.source, self.destination, *(x for layer in self.layers for x in layer), *(self.logits or ())]

    def average(self, dropout: float = 0.0) -> Tensor:
        return average_messages(
            self.source,
            self.destination,
            self.neighbors,
            self.layers,
            logits=self.logits,
            sharpen=self.sharpen,
            dropout=dropout,
        )


def make_table(degrees: Sequence[int], width: int, sources: int, seed: int, masked: bool = True) -> Neighbors:
    """Edges at random places of each row, not only at its beginning; padding names any row."""
    generator = torch.Generator().manual_seed(seed)
    table = torch.randint(max(sources, 1), (len(degrees), width), generator=generator)
    if not masked:
        return Neighbors(table, None, sources)
    mask = torch.zeros(len(degrees), width, dtype=torch.bool)
    for row, degree in enumerate(degrees):
        mask[row, torch.randperm(width, generator=generator)[:degree]] = True
    return Neighbors(table, mask, sources)


def make_case(neighbors: Neighbors, *, attention: str, layers: int = 2, seed: int = 0) -> Case:
    """`attention` is "" for a plain mean, "plain" or "sharp"."""
    generator = torch.Generator().manual_seed(seed)

    def random(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator).requires_grad_()

    sources, destinations = neighbors.num_sources, len(neighbors.source)
    return Case(
        neighbors,
        random(sources, H),
        random(destinations, H),
        [(random(H, H), random(H)) for _ in range(layers)],
        (random(sources), random(destinations)) if attention else None,
        attention == "sharp",
    )


def average_slowly(case: Case) -> Tensor:
    """One edge after the other, with the last layer on each of them; without layers a message is what the first one activates."""
    table, mask = case.neighbors.source.tolist(), case.neighbors.mask
    rows: list[Tensor] = [case.source.new_zeros(0, H)]
    for n, senders in enumerate(table):
        edges = [s for d, s in enumerate(senders) if mask is None or bool(mask[n, d])]
        messages: list[Tensor] = []
        weights: list[Tensor] = []
        for s in edges:
            x = case.source[s] + case.destination[n]
            for weight, bias in case.layers:
                x = weight @ x.clamp(min=0) + bias
            messages.append(x if case.layers else x.clamp(min=0))
            if case.logits is not None:
                logit = case.logits[0][s] + case.logits[1][n]
                logit = torch.where(logit > 0, logit, 0.01 * logit)
                weights.append((log(len(edges)) * logit if case.sharpen else logit).exp())
        if not messages:
            rows.append(case.source.new_zeros(1, H))
        elif case.logits is None:
            rows.append((torch.stack(messages).sum(0) / len(messages)).unsqueeze(0))
        else:
            parts = [w / torch.stack(weights).sum() * m for w, m in zip(weights, messages, strict=True)]
            rows.append(torch.stack(parts).sum(0).unsqueeze(0))
    return torch.cat(rows)


def differentiate(case: Case, output: Tensor) -> list[Tensor]:
    if not output.requires_grad:  # a loop over no edges
        return [torch.zeros_like(x) for x in case.leaves]
    weights = torch.linspace(-1, 2, output.numel()).view_as(output)
    found = torch.autograd.grad((output * weights).sum(), case.leaves, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(case.leaves, found, strict=True)]


ANY = {
    "every degree": make_table([0, 1, 2, 3, 4, 5], 5, 4, seed=1),
    "degrees in disorder": make_table([3, 0, 5, 1, 0, 2, 2], 6, 9, seed=2),
    "no mask": make_table([3] * 6, 3, 5, seed=3, masked=False),
    "all edges": make_table([3] * 6, 3, 4, seed=4),
    "no edges": make_table([0, 0, 0], 4, 2, seed=5),
    "no edges and no room": Neighbors(torch.zeros(2, 0, dtype=torch.int64), None, 3),
    "one to one": make_table([1], 1, 1, seed=6, masked=False),
    "one, to itself and padding": make_table([1], 4, 1, seed=7),
    "one without edges": make_table([0], 1, 1, seed=8),
    "nobody": Neighbors(torch.zeros(0, 3, dtype=torch.int64), None, 2),
    "nobody, masked": Neighbors(torch.zeros(0, 3, dtype=torch.int64), torch.zeros(0, 3, dtype=torch.bool), 2),
    "one source, many readers": make_table([2, 2, 2, 2], 2, 1, seed=9),
    "sources without readers": Neighbors(
        torch.tensor([[1, 3], [3, 1]]), torch.tensor([[True, False], [True, True]]), 9
    ),
    "one each": make_table([1] * 6, 1, 4, seed=10, masked=False),
    "each once": Neighbors(torch.tensor([[2], [0], [3], [1]]), None, 4),
    "each at most once": Neighbors(torch.tensor([[4], [0], [2]]), None, 5),
    "each twice": Neighbors(torch.tensor([[2, 0], [0, 1], [1, 2]]), None, 3),
    "each twice, and padding": Neighbors(
        torch.tensor([[0, 2, 0], [1, 0, 1], [2, 1, 2]]),
        torch.tensor([[False, True, True], [True, True, False], [True, True, False]]),
        3,
    ),
    "one read by all, of four": Neighbors(torch.tensor([[2], [2], [2], [2]]), None, 4),
    "one read by all, of five": Neighbors(torch.tensor([[2], [2], [2], [2]]), None, 5),
}
# Boards come again and again: their gradients take another way.
TABLES = {**ANY, **{f"{name}, a board": replace(table, constant=True) for name, table in ANY.items()}}
each_table = pytest.mark.parametrize("table", TABLES)
each_average = pytest.mark.parametrize("attention", ["", "plain", "sharp"], ids=["mean", "attention", "sharpened"])


@each_table
@each_average
@pytest.mark.parametrize("layers", [0, 1, 2, 3])
def test_outputs_and_gradients_are_those_of_a_loop(table: str, attention: str, layers: int) -> None:
    case = make_case(TABLES[table], attention=attention, layers=layers)
    fast, slow = case.average(), average_slowly(case)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(differentiate(case, fast), differentiate(case, slow), rtol=1e-10, atol=1e-10)


@each_table
def test_the_strongest_messages_are_those_of_a_loop(table: str) -> None:
    case = make_case(TABLES[table], attention="", layers=0)
    fast = strongest_messages(case.source, case.destination, case.neighbors)
    neighbors = case.neighbors
    slow = []
    for i, row in enumerate(case.destination):
        edges = [d for d in range(neighbors.degree) if neighbors.mask is None or neighbors.mask[i, d]]
        heard = [(case.source[neighbors.source[i, d]] + row).relu() for d in edges]
        slow.append(torch.stack(heard).amax(0) if heard else torch.zeros_like(row))
    loop = torch.stack(slow) if slow else torch.zeros_like(case.destination)
    torch.testing.assert_close(fast, loop, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(differentiate(case, fast), differentiate(case, loop), rtol=1e-12, atol=1e-12)


def test_those_that_are_equally_strong_share_the_gradient() -> None:
    source = torch.tensor([[1.0, 5.0], [3.0, 5.0], [3.0, 2.0], [9.0, 5.0]], requires_grad=True)
    neighbors = Neighbors(torch.tensor([[0, 1, 2, 3]]), torch.tensor([[True, True, True, False]]), 4)
    strongest_messages(source, torch.zeros(1, 2), neighbors).sum().backward()
    assert source.grad is not None
    assert source.grad.tolist() == [[0, 0.5], [0.5, 0.5], [0.5, 0], [0, 0]]


@each_table
def test_shares_of_the_strongest_messages_are_those_of_a_loop(table: str) -> None:
    case = make_case(TABLES[table], attention="", layers=0)
    neighbors = case.neighbors
    found = share_strongest(case.source, case.destination, neighbors)
    expected = torch.zeros(neighbors.source.shape)
    for i, row in enumerate(case.destination):
        edges = [d for d in range(neighbors.degree) if neighbors.mask is None or neighbors.mask[i, d]]
        for channel in range(H):
            heard = {d: max(0.0, (case.source[neighbors.source[i, d]] + row)[channel].item()) for d in edges}
            first = [d for d in edges if heard[d] == max(heard.values())]
            for d in first:
                expected[i, d] += 1 / len(first) / H
    torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)


def test_strongest_messages_in_blocks_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(TABLES["degrees in disorder"], attention="", layers=0)
    whole = strongest_messages(case.source, case.destination, case.neighbors)
    monkeypatch.setattr(reference_module, "_BLOCK", {"cpu": 13})
    with torch.no_grad():
        assert torch.equal(strongest_messages(case.source, case.destination, case.neighbors), whole)


def test_one_edge_among_many_is_heard_as_among_few() -> None:
    """What an average dilutes."""
    torch.manual_seed(0)
    strong, weak, own = torch.rand(1, 4) + 1, -torch.rand(1, 4), torch.rand(1, 4)
    heard = [
        strongest_messages(
            torch.cat([strong, *[weak] * n]), own, Neighbors(torch.arange(n + 1).unsqueeze(0), None, n + 1)
        )
        for n in (1, 40)
    ]
    assert torch.equal(*heard)
    torch.testing.assert_close(heard[0], strong + own)


@each_average
def test_extreme_attention_stays_finite(attention: str) -> None:
    case = make_case(TABLES["every degree"], attention=attention)
    if case.logits is not None:
        with torch.no_grad():
            case.logits[0].mul_(1e4)
            case.logits[1].mul_(1e4)
    output = case.average()
    assert output.isfinite().all()
    assert all(g.isfinite().all() for g in differentiate(case, output))


@each_average
@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("table", ["every degree", "one each"])
def test_half_precision_stays_half_precision(table: str, attention: str, layers: int) -> None:
    case = make_case(TABLES[table], attention=attention, layers=layers)
    half = Case(
        case.neighbors,
        case.source.detach().bfloat16(),
        case.destination.detach().bfloat16(),
        [(w.detach().bfloat16(), b.detach().bfloat16()) for w, b in case.layers],
        None if case.logits is None else (case.logits[0].detach().bfloat16(), case.logits[1].detach().bfloat16()),
        case.sharpen,
    )
    output = half.average()
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.double(), average_slowly(case).detach(), rtol=0.1, atol=0.1)


PADDED = ["every degree", "degrees in disorder", "no edges", "one, to itself and padding", "each twice, and padding"]
each_padded = pytest.mark.parametrize("table", [name + end for name in PADDED for end in ("", ", a board")])


@each_padded
@each_average
@pytest.mark.parametrize("layers", [0, 2])
def test_padding_contributes_nothing(table: str, attention: str, layers: int) -> None:
    """Padding may name any row: not a bit changes with what stands there."""
    neighbors = TABLES[table]
    assert neighbors.mask is not None
    case = make_case(neighbors, attention=attention, layers=layers)
    extra = torch.full_like(case.source[:1], 1e6)
    logits = None if case.logits is None else (torch.cat([case.logits[0], extra[0, :1]]), case.logits[1])
    poisoned = Case(
        Neighbors(
            torch.where(neighbors.mask, neighbors.source, neighbors.num_sources),
            neighbors.mask,
            neighbors.num_sources + 1,
            neighbors.constant,
        ),
        torch.cat([case.source, extra]).detach().requires_grad_(),
        case.destination,
        case.layers,
        None if logits is None else (logits[0].detach().requires_grad_(), logits[1]),
        case.sharpen,
    )
    clean, loud = case.average(), poisoned.average()
    assert torch.equal(clean, loud)
    expected, actual = differentiate(case, clean), differentiate(poisoned, loud)
    assert torch.equal(actual[0][:-1], expected[0])
    assert not actual[0][-1].any()
    for e, a in zip(expected[1:], actual[1:], strict=True):
        assert torch.equal(a[: len(e)], e)
        assert not a[len(e) :].any()


@each_average
def test_poison_stays_with_its_readers(attention: str) -> None:
    """A row of NaN reaches those it sends to, and those whose padding names it: their own rows, in every graph of the library."""
    mask = torch.tensor([[True, True], [True, False], [True, False], [False, False]])
    neighbors = Neighbors(torch.tensor([[1, 2], [0, 1], [1, 2], [3, 3]]), mask, 4)
    case = make_case(neighbors, attention=attention)
    with torch.no_grad():
        clean = case.average()
        case.source[2] = float("nan")
        case.destination[2] = float("nan")
        output = case.average()
    assert output[[0, 2]].isnan().all()
    assert torch.equal(output[[1, 3]], clean[[1, 3]])


@pytest.mark.parametrize("table", ANY)
@each_average
@pytest.mark.parametrize("layers", [0, 2])
def test_dropout_that_drops_nothing_is_none(table: str, attention: str, layers: int) -> None:
    """With dropout the last layer runs on edges, without it behind the average."""
    case = make_case(TABLES[table], attention=attention, layers=layers)
    kept, none = case.average(dropout=1e-14), case.average()
    torch.testing.assert_close(kept, none, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(differentiate(case, kept), differentiate(case, none), rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("masked", [False, True])
@each_average
def test_dropout_drops_elements_of_messages(attention: str, masked: bool, layers: int) -> None:
    """One edge a node: each element of its message is dropped or doubled."""
    mask = torch.ones(200, 1, dtype=torch.bool) if masked else None
    case = make_case(Neighbors(torch.arange(200).roll(1).unsqueeze(1), mask, 200), attention=attention, layers=layers)
    if not layers:  # what is not activated is 0 in any case
        with torch.no_grad():
            case.destination.add_(10)
    torch.manual_seed(0)
    with torch.no_grad():
        message, output = case.average(), case.average(dropout=0.5)
    dropped = output == 0
    torch.testing.assert_close(output[~dropped], 2 * message[~dropped])
    assert 0.4 < dropped.double().mean() < 0.6
    some = dropped.any(1) & ~dropped.all(1)
    assert some.sum() > 100  # elements, not rows


@pytest.mark.parametrize("layers", [0, 2])
def test_dropout_drops_before_the_average(layers: int) -> None:
    """Two edges a node: of each element the sum of both halves, one of them, or nothing."""
    around = torch.arange(100)
    both = Neighbors(torch.stack([around.roll(1), around.roll(-1)], dim=1), None, 100)
    case = make_case(both, attention="", layers=layers)
    if not layers:
        with torch.no_grad():
            case.destination.add_(10)
    torch.manual_seed(0)
    with torch.no_grad():
        output = case.average(dropout=0.5)
        one, other = (
            average_messages(
                case.source, case.destination, Neighbors(both.source[:, i : i + 1], None, 100), case.layers
            )
            for i in (0, 1)
        )
    possible = torch.stack([torch.zeros_like(one), one, other, one + other])
    gap = (possible - output).abs()
    assert gap.min(0).values.max() < 1e-12
    assert (gap.argmin(0).flatten().bincount(minlength=4) > 40).all()


@pytest.mark.parametrize("block", [1, 2, 3, 7, 12, 1000])
@each_average
@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("table", ["every degree", "degrees in disorder", "no mask", "nobody", "one each"])
def test_blocks_change_nothing(
    table: str, attention: str, block: int, layers: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = make_case(TABLES[table], attention=attention, layers=layers)
    with torch.no_grad():
        whole = case.average()
        monkeypatch.setitem(reference_module._BLOCK, "cpu", block)
        torch.testing.assert_close(case.average(), whole, rtol=1e-12, atol=1e-12)


def test_blocks_are_as_small_as_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    average = reference_module._average

    def watch(*args: Any) -> Tensor:
        seen.append(len(args[1]))
        return average(*args)

    monkeypatch.setattr(reference_module, "_average", watch)
    monkeypatch.setitem(reference_module._BLOCK, "cpu", 13)
    case = make_case(TABLES["degrees in disorder"], attention="plain")  # 7 rows of 6
    with torch.no_grad():
        case.average()
    assert seen == [2, 2, 2, 1]
    seen.clear()
    case.average()  # with gradients everything is kept anyway
    assert seen == [7]


def test_sharper_with_more_edges() -> None:
    """A logit 2 above all others: it outweighs each of them n squared times, and not e squared times."""
    for others in (1, 8, 24):
        count = others + 1
        neighbors = Neighbors(torch.arange(count).unsqueeze(0), None, count)
        source = torch.zeros(count, H)
        source[0] = 1
        logits = torch.zeros(count)
        logits[0] = 2.0
        layers = [(torch.eye(H), torch.zeros(H))]
        for sharpen, power in ((True, count**2.0), (False, torch.e**2)):
            found = average_messages(
                source, torch.zeros(1, H), neighbors, layers, logits=(logits, torch.zeros(1)), sharpen=sharpen
            )
            assert found.flatten().tolist() == pytest.approx([power / (power + others)] * H)
    # Without attention there is nothing to sharpen.
    plain, sharp = (
        average_messages(source, torch.zeros(1, H), neighbors, layers, sharpen=sharpen) for sharpen in (False, True)
    )
    assert torch.equal(plain, sharp)


# ---- groups

each_heads = pytest.mark.parametrize("heads", [1, 2, 3])


@dataclass(frozen=True)
class Group:
    """Random states of members and what heads think of them, in a table of groups."""

    members: Neighbors
    states: Tensor
    logits: Tensor

    @property
    def leaves(self) -> list[Tensor]:
        return [self.states, self.logits]

    def pool(self) -> Tensor:
        return pool_members(self.states, self.logits, self.members)


def make_groups(members: Neighbors, heads: int = 2, seed: int = 0) -> Group:
    generator = torch.Generator().manual_seed(seed)
    states = torch.randn(members.num_sources, H, generator=generator)
    logits = torch.randn(members.num_sources, heads, generator=generator)
    return Group(members, states.requires_grad_(), logits.requires_grad_())


def pool_slowly(group: Group) -> Tensor:
    """One group, one head and one member after the other."""
    table, mask = group.members.source.tolist(), group.members.mask
    heads = group.logits.shape[1]
    rows: list[Tensor] = [group.states.new_zeros(0, heads * H)]
    for g, row in enumerate(table):
        here = [i for n, i in enumerate(row) if mask is None or bool(mask[g, n])]
        pooled: list[Tensor] = []
        for head in range(heads):
            powers = [(log(len(here)) * group.logits[i, head]).exp() for i in here]
            parts = [p / torch.stack(powers).sum() * group.states[i] for p, i in zip(powers, here, strict=True)]
            pooled.append(torch.stack(parts).sum(0) if parts else group.states.new_zeros(H))
        rows.append(torch.cat(pooled).unsqueeze(0))
    return torch.cat(rows)


def differentiate_groups(group: Group, output: Tensor) -> list[Tensor]:
    if not output.requires_grad:  # a loop over no members
        return [torch.zeros_like(x) for x in group.leaves]
    weights = torch.linspace(-1, 2, output.numel()).view_as(output)
    found = torch.autograd.grad((output * weights).sum(), group.leaves, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(group.leaves, found, strict=True)]


@each_table
@each_heads
def test_groups_pool_as_a_loop_does(table: str, heads: int) -> None:
    group = make_groups(TABLES[table], heads)
    fast, slow = group.pool(), pool_slowly(group)
    assert fast.shape == (len(TABLES[table].source), heads * H)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    found, expected = differentiate_groups(group, fast), differentiate_groups(group, slow)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        assert torch.equal(group.pool(), fast)


@pytest.fixture
def compiled_pool() -> Iterator[tuple[Callable[..., Tensor], list[str]]]:
    """`pool_members` as a compiler sees it, and the code that it got."""
    seen: list[str] = []

    def note(graph: torch.fx.GraphModule, _: list[Tensor]) -> Callable[..., Any]:
        seen.append(graph.code)
        return graph.forward

    torch.compiler.reset()
    yield torch.compile(pool_members, backend=note, fullgraph=True), seen
    torch.compiler.reset()


@pytest.mark.filterwarnings("ignore:.*should not be instantiated:DeprecationWarning")  # the compiler does so itself
@pytest.mark.parametrize("table", ["every degree, a board", "no mask", "no edges", "nobody"])
def test_compiled_groups_pool_alike(table: str, compiled_pool: tuple[Callable[..., Tensor], list[str]]) -> None:
    """There the sum over members is written out, and not left to small products."""
    pool, seen = compiled_pool
    members = TABLES[table].prepare()
    for heads in (1, 3):
        group = make_groups(members, heads)
        plain, compiled = group.pool(), pool(group.states, group.logits, members)
        assert compiled.shape == plain.shape
        torch.testing.assert_close(compiled, plain, rtol=1e-12, atol=1e-12)
        found, expected = differentiate_groups(group, compiled), differentiate_groups(group, plain)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
    assert seen
    assert not any("bmm" in code for code in seen)


@pytest.mark.parametrize("table", ["every degree", "every degree, a board", "no mask", "no mask, a board"])
def test_pooling_has_the_right_gradient(table: str) -> None:
    group = make_groups(TABLES[table])

    def pool(states: Tensor, logits: Tensor) -> Tensor:
        return pool_members(states, logits, group.members)

    assert torch.autograd.gradcheck(pool, tuple(group.leaves))


@each_padded
@pytest.mark.parametrize("poison", [1e6, -1e300, 1e300, float("inf"), float("-inf"), float("nan")])
def test_groups_do_not_hear_their_padding(table: str, poison: float) -> None:
    """Not a bit changes with what stands there, nor does it get a gradient."""
    members = TABLES[table]
    assert members.mask is not None
    group = make_groups(members)
    count = members.num_sources
    loud = Group(
        Neighbors(torch.where(members.mask, members.source, count), members.mask, count + 1, members.constant),
        torch.cat([group.states, torch.full((1, H), poison)]).detach().requires_grad_(),
        torch.cat([group.logits, torch.full((1, 2), poison)]).detach().requires_grad_(),
    )
    clean, poisoned = group.pool(), loud.pool()
    assert torch.equal(poisoned, clean)
    for found, expected in zip(differentiate_groups(loud, poisoned), differentiate_groups(group, clean), strict=True):
        assert torch.equal(found[:-1], expected)
        assert not found[-1].any()


@pytest.mark.parametrize("broken", [0, 1])
def test_broken_members_break_their_groups_alone(broken: int) -> None:
    """Whether it is their states that are broken or what heads think of them."""
    mask = torch.tensor([[True, True], [True, False], [True, True], [False, False]])
    group = make_groups(Neighbors(torch.tensor([[1, 2], [0, 2], [2, 1], [2, 2]]), mask, 3))
    with torch.no_grad():
        clean = group.pool()
        group.leaves[broken][2] = float("nan")
        output = group.pool()
    assert output[[0, 2]].isnan().all()
    assert torch.equal(output[[1, 3]], clean[[1, 3]])


@pytest.mark.parametrize("scale", [-1e5, 1e5])
@pytest.mark.parametrize("extreme", [0, 1])
def test_numbers_far_out_are_pooled_as_well(extreme: int, scale: float) -> None:
    """Padding is no floor: a head may think as little of all members as it wants."""
    group = make_groups(TABLES["every degree"])
    with torch.no_grad():
        group.leaves[extreme].abs_().add_(1).mul_(scale)
    output = group.pool()
    if extreme:  # whoever is ahead has it all
        for g, row in enumerate(pool_by_the_first(group)):
            torch.testing.assert_close(output[g].detach(), row, rtol=1e-10, atol=1e-10)
    else:
        torch.testing.assert_close(output, pool_slowly(group), rtol=1e-10, atol=1e-10)
    assert all(g.isfinite().all() for g in differentiate_groups(group, output))


def pool_by_the_first(group: Group) -> Iterator[Tensor]:
    """Of each group and head, the state of the member it thinks most of."""
    assert group.members.mask is not None
    for senders, mask in zip(group.members.source, group.members.mask, strict=True):
        here = senders[mask]
        none = group.states.new_zeros(2 * H)
        yield group.states[here[group.logits[here].argmax(0)]].flatten().detach() if len(here) else none


@each_heads
def test_a_group_of_one_is_its_member(heads: int) -> None:
    group = make_groups(Neighbors(torch.tensor([[2], [0]]), None, 3), heads)
    torch.testing.assert_close(group.pool(), group.states[[2, 0]].repeat(1, heads))


def test_a_larger_group_sees_its_first_member_no_less() -> None:
    """The same logit above all others: log n makes up for the number of others."""
    shares = []
    for count in (9, 25):
        states = torch.zeros(count, 1)
        states[0] = 1
        table = Neighbors(torch.arange(count).unsqueeze(0), None, count)
        shares.append(pool_members(states, 2 * states, table).item())
        assert shares[-1] == pytest.approx(count**2 / (count**2 + count - 1))
    assert shares[1] > shares[0]


def test_pooling_stays_in_half_precision() -> None:
    """The softmax alone is in single precision: logits of 30 and of 30 1/8 are not the same."""
    group = make_groups(TABLES["every degree"])
    output = pool_members(group.states.detach().bfloat16(), group.logits.detach().bfloat16(), group.members)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.double(), group.pool().detach(), rtol=0.1, atol=0.1)
    three = Neighbors(torch.tensor([[0, 1, 2]]), None, 3)
    states, logits = torch.eye(3), torch.tensor([[30.0], [30.125], [30.25]])
    found = pool_members(states.bfloat16(), logits.bfloat16(), three)
    expected = (log(3) * logits).softmax(0).T
    torch.testing.assert_close(found.double(), expected, rtol=0.01, atol=0)


# ---- the table itself


@each_table
def test_gather_is_indexing(table: str) -> None:
    neighbors = TABLES[table]
    rows = torch.randn(neighbors.num_sources, H, requires_grad=True)
    gathered = gather(rows, neighbors)
    assert torch.equal(gathered, rows[neighbors.source])
    with torch.no_grad():
        assert torch.equal(gather(rows, neighbors), gathered)


def edges_alone(told: Tensor, neighbors: Neighbors) -> Tensor:
    """What a mask leaves of (N, D, F): padding has no weight, and so no gradient."""
    return told if neighbors.mask is None else told * neighbors.mask.unsqueeze(2)


@each_table
def test_gather_has_the_gradient_of_indexing(table: str) -> None:
    neighbors = TABLES[table]
    rows = torch.randn(neighbors.num_sources, H, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: edges_alone(gather(x, neighbors), neighbors), (rows,))
    told = edges_alone(torch.randn(*neighbors.source.shape, H), neighbors)
    expected = torch.zeros_like(rows)
    for n, senders in enumerate(neighbors.source.tolist()):
        for d, s in enumerate(senders):
            expected[s] += told[n, d]
    (found,) = torch.autograd.grad(gather(rows, neighbors), rows, told)
    torch.testing.assert_close(found, expected)
    (plain,) = torch.autograd.grad(rows[neighbors.source], rows, told)
    torch.testing.assert_close(found, plain)
    one = told[:1].expand(len(told), -1, -1)  # no memory of its own for each row
    (found,) = torch.autograd.grad(gather(rows, neighbors), rows, one)
    (expected,) = torch.autograd.grad(gather(rows, neighbors), rows, one.contiguous())
    assert torch.equal(found, expected)


@each_table
@pytest.mark.parametrize("features", [1, 5])
def test_both_ways_back_lead_to_the_same_gradient(table: str, features: int) -> None:
    """Through groups of readers and, for boards, through a padded table of them."""
    any_table, board = (replace(TABLES[table], constant=constant) for constant in (False, True))
    assert any_table.returns is None
    rows = torch.randn(board.num_sources, features, requires_grad=True)
    told = edges_alone(torch.randn(*board.source.shape, features), board)
    there, back = (torch.autograd.grad(gather(rows, t), rows, told)[0] for t in (any_table, board))
    torch.testing.assert_close(back, there)
    again = torch.autograd.grad(gather(rows, board), rows, told)[0]
    assert torch.equal(back, again)


@each_padded
def test_what_reaches_padding_goes_nowhere_on_a_board(table: str) -> None:
    """Of other tables it would come to the row named there; its weight, and so its gradient, is 0 in both cases."""
    board = replace(TABLES[table], constant=True)
    assert board.mask is not None
    assert board.returns is not None
    rows = torch.randn(board.num_sources, H, requires_grad=True)
    told = torch.randn(*board.source.shape, H)
    loud = told.masked_fill(~board.mask.unsqueeze(2), 1e6)
    found, expected = (
        torch.autograd.grad(gather(rows, board), rows, grad)[0] for grad in (loud, edges_alone(told, board))
    )
    assert torch.equal(found, expected)


@pytest.mark.parametrize("board", [False, True])
def test_gradients_are_the_same_every_time(board: bool) -> None:
    table = replace(make_table([40] * 50, 40, 30, seed=0), constant=board)
    assert (table.returns is not None) == board
    case = make_case(table, attention="plain")
    first, second = (differentiate(case, case.average()) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@each_average
@pytest.mark.parametrize("layers", [0, 2])
@pytest.mark.parametrize("table", ["every degree", "every degree, a board", "one each, a board"])
def test_average_messages_has_the_right_gradient(table: str, layers: int, attention: str) -> None:
    case = make_case(TABLES[table], attention=attention, layers=layers)

    def average(source: Tensor, destination: Tensor, *rest: Tensor) -> Tensor:
        pairs = [(rest[i], rest[i + 1]) for i in range(0, 2 * layers, 2)]
        logits = (rest[-2], rest[-1]) if attention else None
        return average_messages(source, destination, case.neighbors, pairs, logits=logits, sharpen=case.sharpen)

    assert torch.autograd.gradcheck(average, tuple(case.leaves))


@each_table
def test_what_a_table_knows(table: str) -> None:
    neighbors = TABLES[table].prepare()
    entries, starts = neighbors.readers
    readers: list[list[tuple[int, int]]] = [[] for _ in range(neighbors.num_sources)]
    for n, senders in enumerate(neighbors.source.tolist()):
        here = [d for d in range(len(senders)) if neighbors.mask is None or bool(neighbors.mask[n, d])]
        for d, s in enumerate(senders):
            assert neighbors.share[n, d].item() == pytest.approx(1 / len(here) if d in here else 0)
            readers[s].append((n, d))
        assert neighbors.log_degree[n].tolist() == pytest.approx([log(max(1, len(here)))] if senders else [])
        assert neighbors.present is None or bool(neighbors.present[n]) == bool(here)
        assert here or neighbors.present is not None
    assert [divmod(e, neighbors.degree) for e in entries.tolist()] == [place for group in readers for place in group]
    assert starts.tolist() == [sum(map(len, readers[:s])) for s in range(neighbors.num_sources)]


# The readers of the one with most of them, and whether all have as many.
RETURNS = {
    "every degree": (6, False),
    "degrees in disorder": (4, False),
    "no mask": (6, False),
    "all edges": (5, False),
    "no edges": (0, True),
    "one to one": (1, True),
    "one, to itself and padding": (1, True),
    "one without edges": (0, True),
    "one source, many readers": (8, True),
    "one each": (3, False),
    "each once": (1, True),
    "each at most once": (1, False),
    "each twice": (2, True),
    "each twice, and padding": (2, True),
    "one read by all, of four": (4, False),
}


@pytest.mark.parametrize("table", ANY)
def test_a_board_knows_who_reads_each_source(table: str) -> None:
    """Unless most of it would be padding: more than three quarters."""
    board = TABLES[f"{table}, a board"]
    assert ANY[table].returns is None
    if table not in RETURNS:
        assert board.returns is None
        return
    assert board.returns is not None
    entries, mask = board.returns
    most, regular = RETURNS[table]
    assert entries.shape == (board.num_sources, most)
    assert (mask is None) == regular
    for s in range(board.num_sources):
        expected = [
            n * board.degree + d
            for n, senders in enumerate(board.source.tolist())
            for d, sender in enumerate(senders)
            if sender == s and (board.mask is None or bool(board.mask[n, d]))
        ]
        here = entries[s] if mask is None else entries[s, mask[s]]
        assert here.tolist() == expected  # in a fixed order, so that sums are the same every time
    assert (entries >= 0).all()
    assert (entries < board.source.numel()).all()


@pytest.mark.parametrize("table", ["every degree", "every degree, a board", "one read by all, of five, a board"])
def test_a_prepared_table_has_what_gradients_need(table: str) -> None:
    """Compiled code would have to work it out at every step."""
    neighbors = replace(TABLES[table]).prepare()
    way = "readers" if neighbors.returns is None else "returns"
    assert {"share", "log_degree", "present", "returns", way} <= vars(neighbors).keys()
    before = dict(vars(neighbors))
    rows = torch.randn(neighbors.num_sources, H, requires_grad=True)
    gather(rows, neighbors).sum().backward()
    assert vars(neighbors).keys() == before.keys()
    with torch.no_grad():  # there is no way back
        idle = replace(TABLES[table]).prepare()
    assert vars(idle).keys() - vars(replace(TABLES[table])).keys() == {"share", "log_degree", "present"}


def test_rows_of_a_table() -> None:
    whole = TABLES["degrees in disorder"]
    part = whole.rows(2, 5)
    assert whole.mask is not None
    assert part.mask is not None
    assert torch.equal(part.source, whole.source[2:5])
    assert torch.equal(part.mask, whole.mask[2:5])
    assert torch.equal(part.share, whole.share[2:5])
    assert torch.equal(part.log_degree, whole.log_degree[2:5])
    assert part.num_sources == whole.num_sources
    assert TABLES["no mask"].rows(0, 2).mask is None
    assert not TABLES["no mask, a board"].rows(0, 2).constant  # a part is no table that comes again
