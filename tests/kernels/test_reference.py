"""`average_messages` against a loop over edges, `pool_members` against one over groups: outputs, gradients, padding, blocks, dropout."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import pytest
import torch
from torch import Tensor

from outgrow.kernels import Layer, Neighbors, Pooling, average_messages, gather, pool_members
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
    """One edge after the other, with the last layer on each of them."""
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
            messages.append(x)
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


TABLES = {
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
}
each_table = pytest.mark.parametrize("table", TABLES)
each_average = pytest.mark.parametrize("attention", ["", "plain", "sharp"], ids=["mean", "attention", "sharpened"])


@each_table
@each_average
@pytest.mark.parametrize("layers", [1, 2, 3])
def test_outputs_and_gradients_are_those_of_a_loop(table: str, attention: str, layers: int) -> None:
    case = make_case(TABLES[table], attention=attention, layers=layers)
    fast, slow = case.average(), average_slowly(case)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(differentiate(case, fast), differentiate(case, slow), rtol=1e-10, atol=1e-10)


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
def test_half_precision_stays_half_precision(attention: str) -> None:
    case = make_case(TABLES["every degree"], attention=attention)
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


@pytest.mark.parametrize("table", ["every degree", "degrees in disorder", "no edges", "one, to itself and padding"])
@each_average
def test_padding_contributes_nothing(table: str, attention: str) -> None:
    """Padding may name any row: not a bit changes with what stands there."""
    neighbors = TABLES[table]
    assert neighbors.mask is not None
    case = make_case(neighbors, attention=attention)
    extra = torch.full_like(case.source[:1], 1e6)
    logits = None if case.logits is None else (torch.cat([case.logits[0], extra[0, :1]]), case.logits[1])
    poisoned = Case(
        Neighbors(
            torch.where(neighbors.mask, neighbors.source, neighbors.num_sources),
            neighbors.mask,
            neighbors.num_sources + 1,
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


@each_table
@each_average
def test_dropout_that_drops_nothing_is_none(table: str, attention: str) -> None:
    """With dropout the last layer runs on edges, without it behind the average."""
    case = make_case(TABLES[table], attention=attention)
    kept, none = case.average(dropout=1e-14), case.average()
    torch.testing.assert_close(kept, none, rtol=1e-10, atol=1e-10)
    torch.testing.assert_close(differentiate(case, kept), differentiate(case, none), rtol=1e-10, atol=1e-10)


def test_dropout_drops_elements_of_messages() -> None:
    """One edge a node: each element of its message is dropped or doubled."""
    neighbors = Neighbors(torch.arange(200).roll(1).unsqueeze(1), None, 200)
    for attention in ("", "plain", "sharp"):
        case = make_case(neighbors, attention=attention)
        torch.manual_seed(0)
        with torch.no_grad():
            message, output = case.average(), case.average(dropout=0.5)
        dropped = output == 0
        torch.testing.assert_close(output[~dropped], 2 * message[~dropped])
        assert 0.4 < dropped.double().mean() < 0.6
        some = dropped.any(1) & ~dropped.all(1)
        assert some.sum() > 100  # elements, not rows


def test_dropout_drops_before_the_average() -> None:
    """Two edges a node: of each element the sum of both halves, one of them, or nothing."""
    around = torch.arange(100)
    both = Neighbors(torch.stack([around.roll(1), around.roll(-1)], dim=1), None, 100)
    case = make_case(both, attention="")
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
@pytest.mark.parametrize("table", ["every degree", "degrees in disorder", "no mask", "nobody", "one to one"])
def test_blocks_change_nothing(table: str, attention: str, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = make_case(TABLES[table], attention=attention)
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

WIDTH = 6
POOLINGS: list[Pooling] = ["attention", "max", "mean", "logsumexp"]
each_pooling = pytest.mark.parametrize("pooling", POOLINGS)


@dataclass(frozen=True)
class Group:
    """Random states of members, in a table of groups."""

    members: Neighbors
    values: Tensor
    logits: Tensor | None
    pooling: Pooling

    @property
    def leaves(self) -> list[Tensor]:
        return [self.values] if self.logits is None else [self.values, self.logits]

    def pool(self) -> Tensor:
        return pool_members(self.values, self.logits, self.members, self.pooling)


def make_groups(members: Neighbors, pooling: Pooling, heads: int = 2, seed: int = 0) -> Group:
    generator = torch.Generator().manual_seed(seed)
    values = torch.randn(members.num_sources, WIDTH, generator=generator)
    logits = torch.randn(members.num_sources, heads, generator=generator)
    return Group(members, values.requires_grad_(), logits.requires_grad_() if pooling == "attention" else None, pooling)


def pool_slowly(group: Group) -> Tensor:
    """One group, one column and one member after the other."""
    table, mask = group.members.source.tolist(), group.members.mask
    rows: list[Tensor] = [group.values.new_zeros(0, WIDTH)]
    for g, row in enumerate(table):
        here = [i for n, i in enumerate(row) if mask is None or bool(mask[g, n])]
        if not here:
            rows.append(group.values.new_zeros(1, WIDTH))
            continue
        columns: list[Tensor] = []
        for c in range(WIDTH):
            column = [group.values[i, c] for i in here]
            if group.logits is not None:
                head = c // (WIDTH // group.logits.shape[1])
                powers = torch.stack([(log(len(here)) * group.logits[i, head]).exp() for i in here])
                columns.append((powers * torch.stack(column)).sum() / powers.sum())
            elif group.pooling == "max":
                columns.append(max(column, key=lambda x: float(x.detach())))
            elif group.pooling == "mean":
                columns.append(torch.stack(column).sum() / len(here))
            else:
                columns.append(torch.stack(column).exp().sum().log())
        rows.append(torch.stack(columns).unsqueeze(0))
    return torch.cat(rows)


def differentiate_groups(group: Group, output: Tensor) -> list[Tensor]:
    if not output.requires_grad:  # a loop over no members
        return [torch.zeros_like(x) for x in group.leaves]
    weights = torch.linspace(-1, 2, output.numel()).view_as(output)
    found = torch.autograd.grad((output * weights).sum(), group.leaves, allow_unused=True)
    return [torch.zeros_like(x) if grad is None else grad for x, grad in zip(group.leaves, found, strict=True)]


@each_table
@pytest.mark.parametrize(
    ("pooling", "heads"), [*(("attention", heads) for heads in (1, 2, 3, 6)), *((other, 0) for other in POOLINGS[1:])]
)
def test_groups_pool_as_a_loop_does(table: str, pooling: Pooling, heads: int) -> None:
    group = make_groups(TABLES[table], pooling, heads)
    fast, slow = group.pool(), pool_slowly(group)
    assert fast.shape == (len(TABLES[table].source), WIDTH)
    torch.testing.assert_close(fast, slow, rtol=1e-10, atol=1e-10)
    found, expected = differentiate_groups(group, fast), differentiate_groups(group, slow)
    torch.testing.assert_close(found, expected, rtol=1e-10, atol=1e-10)
    with torch.no_grad():
        assert torch.equal(group.pool(), fast)


@pytest.mark.parametrize("table", ["every degree", "no mask"])
@each_pooling
def test_pooling_has_the_right_gradient(table: str, pooling: Pooling) -> None:
    group = make_groups(TABLES[table], pooling)

    def pool(values: Tensor, logits: Tensor | None = None) -> Tensor:
        return pool_members(values, logits, group.members, pooling)

    assert torch.autograd.gradcheck(pool, tuple(group.leaves))


@pytest.mark.parametrize("table", ["every degree", "degrees in disorder", "no edges", "one, to itself and padding"])
@pytest.mark.parametrize("poison", [1e6, -1e300, 1e300, float("inf"), float("-inf"), float("nan")])
@each_pooling
def test_groups_do_not_hear_their_padding(table: str, poison: float, pooling: Pooling) -> None:
    """Not a bit changes with what stands there, nor does it get a gradient."""
    members = TABLES[table]
    assert members.mask is not None
    group = make_groups(members, pooling)
    loud = Group(
        Neighbors(
            torch.where(members.mask, members.source, members.num_sources), members.mask, members.num_sources + 1
        ),
        torch.cat([group.values, torch.full((1, WIDTH), poison)]).detach().requires_grad_(),
        None
        if group.logits is None
        else torch.cat([group.logits, torch.full((1, 2), poison)]).detach().requires_grad_(),
        pooling,
    )
    clean, poisoned = group.pool(), loud.pool()
    assert torch.equal(poisoned, clean)
    for found, expected in zip(differentiate_groups(loud, poisoned), differentiate_groups(group, clean), strict=True):
        assert torch.equal(found[:-1], expected)
        assert not found[-1].any()


@each_pooling
def test_broken_members_break_their_groups_alone(pooling: Pooling) -> None:
    mask = torch.tensor([[True, True], [True, False], [True, True], [False, False]])
    group = make_groups(Neighbors(torch.tensor([[1, 2], [0, 2], [2, 1], [2, 2]]), mask, 3), pooling)
    with torch.no_grad():
        clean = group.pool()
        group.values[2] = float("nan")
        output = group.pool()
    assert output[[0, 2]].isnan().all()
    assert torch.equal(output[[1, 3]], clean[[1, 3]])


@each_pooling
@pytest.mark.parametrize("scale", [-1e5, 1e5])
def test_values_far_out_are_pooled_as_well(pooling: Pooling, scale: float) -> None:
    """Padding is no floor: a maximum may be as low as any number."""
    group = make_groups(TABLES["every degree"], pooling)
    with torch.no_grad():
        group.values.abs_().add_(1).mul_(scale)
    expected = pool_slowly(group)
    if pooling == "logsumexp":  # by way of the largest one: exp would overflow
        low = make_groups(TABLES["every degree"], "max")
        with torch.no_grad():
            low.values.copy_(group.values)
        expected = pool_slowly(low)
    output = group.pool()
    torch.testing.assert_close(output, expected, rtol=1e-10, atol=3)
    assert all(g.isfinite().all() for g in differentiate_groups(group, output))


@each_pooling
def test_a_group_of_one_is_its_member(pooling: Pooling) -> None:
    group = make_groups(Neighbors(torch.tensor([[2], [0]]), None, 3), pooling)
    torch.testing.assert_close(group.pool(), group.values[[2, 0]])


def test_a_larger_group_sees_its_first_member_no_less() -> None:
    """The same logit above all others: log n makes up for the number of others."""
    shares = []
    for count in (9, 25):
        values = torch.zeros(count, 1)
        values[0] = 1
        table = Neighbors(torch.arange(count).unsqueeze(0), None, count)
        shares.append(pool_members(values, 2 * values, table, "attention").item())
        assert shares[-1] == pytest.approx(count**2 / (count**2 + count - 1))
    assert shares[1] > shares[0]


@each_pooling
def test_pooling_stays_in_half_precision(pooling: Pooling) -> None:
    group = make_groups(TABLES["every degree"], pooling)
    logits = None if group.logits is None else group.logits.detach().bfloat16()
    output = pool_members(group.values.detach().bfloat16(), logits, group.members, pooling)
    assert output.dtype == torch.bfloat16
    torch.testing.assert_close(output.double(), group.pool().detach(), rtol=0.1, atol=0.1)


# ---- the table itself


@each_table
def test_gather_is_indexing(table: str) -> None:
    neighbors = TABLES[table]
    rows = torch.randn(neighbors.num_sources, H, requires_grad=True)
    gathered = gather(rows, neighbors)
    assert torch.equal(gathered, rows[neighbors.source])
    with torch.no_grad():
        assert torch.equal(gather(rows, neighbors), gathered)


@each_table
def test_gather_has_the_gradient_of_indexing(table: str) -> None:
    neighbors = TABLES[table]
    rows = torch.randn(neighbors.num_sources, H, requires_grad=True)
    assert torch.autograd.gradcheck(lambda x: gather(x, neighbors), (rows,))
    told = torch.randn(*neighbors.source.shape, H)
    expected = torch.zeros_like(rows)
    for n, senders in enumerate(neighbors.source.tolist()):
        for d, s in enumerate(senders):
            expected[s] += told[n, d]
    (found,) = torch.autograd.grad(gather(rows, neighbors), rows, told)
    torch.testing.assert_close(found, expected)
    one = told[:1].expand(len(told), -1, -1)  # no memory of its own for each row
    (found,) = torch.autograd.grad(gather(rows, neighbors), rows, one)
    (expected,) = torch.autograd.grad(gather(rows, neighbors), rows, one.contiguous())
    assert torch.equal(found, expected)


def test_gradients_are_the_same_every_time() -> None:
    case = make_case(make_table([40] * 50, 40, 30, seed=0), attention="plain")
    first, second = (differentiate(case, case.average()) for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(first, second, strict=True))


@each_average
def test_average_messages_has_the_right_gradient(attention: str) -> None:
    case = make_case(TABLES["every degree"], attention=attention)

    def average(source: Tensor, destination: Tensor, *rest: Tensor) -> Tensor:
        layers = [(rest[0], rest[1]), (rest[2], rest[3])]
        logits = (rest[4], rest[5]) if attention else None
        return average_messages(source, destination, case.neighbors, layers, logits=logits, sharpen=case.sharpen)

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
