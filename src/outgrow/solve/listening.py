"""Whom a node listens to: on the way to an answer, step by step, where what it hears comes from."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import torch

from outgrow.errors import OutgrowError
from outgrow.models import Heard, Model, Multivalued
from outgrow.puzzles import Instance
from outgrow.solve.neural import MAX_STEPS, Look, watch

__all__ = ["Listening", "listen", "listening"]


@dataclass(frozen=True)
class Listening:
    """One of those that a node (variable, value) hears in a step.

    Attributes:
        kind: over which edges or in which groups: 'row', 'less reversed', 'values' (of its own variable).
        variable: who is heard, from 0.
        value: its value, 1..K. A multi-valued model has nodes for variables and for values: None where it hears another variable, and where it hears a value,
            the variable is the one that listens.
        weight: how much it counts among all of that kind, which sum to 1.
    """

    kind: str
    variable: int
    value: int | None
    weight: float


def listen(
    model: Model,
    instance: Instance,
    step: int,
    variable: int,
    value: int,
    *,
    restart: int = 0,
    notes: bool = False,
    device: torch.device | str = "cpu",
) -> list[Listening]:
    """Whom a node, of a variable (from 0) and a value (1..K), listens to in a step (from 1, over all attempts): those that count most first.

    The model goes the way to it that `solve_batch` and `trace` go, with `restart` and `notes` as there. In its groups a node is among those that it hears.
    A multi-valued model's variables listen, whatever the value.

    >>> from outgrow.graphs import Schema
    >>> from outgrow.models import BinarizedConfig, build_model
    >>> from outgrow.puzzles import parse_one
    >>> puzzle = parse_one("1.....3..4.....2")
    >>> _ = torch.manual_seed(0)
    >>> model = build_model(Schema.of(puzzle.csp), BinarizedConfig(width=8))  # untrained
    >>> found = listen(model, puzzle, step=2, variable=0, value=3)
    >>> sorted((x.variable, x.value) for x in found if x.kind == "row")
    [(1, 3), (2, 3), (3, 3)]
    >>> round(sum(x.weight for x in found if x.kind == "row"), 4)
    1.0
    """
    *_, found = listening(model, instance, step, variable, value, restart=restart, notes=notes, device=device)
    assert found is not None
    return found


def listening(
    model: Model,
    instance: Instance,
    step: int,
    variable: int,
    value: int,
    *,
    restart: int = 0,
    notes: bool = False,
    device: torch.device | str = "cpu",
) -> Iterator[list[Listening] | None]:
    """The same, a step at a time: None after each of those before, the answer in the end."""
    if not 1 <= step <= MAX_STEPS:
        raise OutgrowError(f"step {step}; there are steps 1 to {MAX_STEPS:,}")
    if not 0 <= variable < instance.csp.num_variables:
        raise OutgrowError(f"variable {variable}; the puzzle has 0 to {instance.csp.num_variables - 1:,}")
    if not 1 <= value <= instance.size:
        raise OutgrowError(f"value {value}; the puzzle has 1 to {instance.size}")
    looks = watch(model, instance, MAX_STEPS, restart=restart, notes=notes, device=device)
    return _listening(model, looks, step, variable, value)


def _listening(
    model: Model, looks: Iterator[Look], step: int, variable: int, value: int
) -> Iterator[list[Listening] | None]:
    for look in looks:
        if look.step == step:
            yield _ask(model, look, variable, value)
            return
        if look.solved:
            raise OutgrowError(f"the puzzle was solved after step {look.step}; there is no step {step}")
        yield None


@torch.no_grad()
def _ask(model: Model, look: Look, variable: int, value: int) -> list[Listening]:
    count, graph = look.batch.max_values, look.moment.graph
    node = variable if isinstance(model, Multivalued) else variable * count + value - 1
    heard: list[Heard] = model.listen(graph, look.moment.told, node)  # pyright: ignore[reportArgumentType]
    found: list[Listening] = []
    for one in heard:
        for source, weight in zip(one.sources.tolist(), one.weights.tolist(), strict=True):
            if one.of == "variables":
                found.append(Listening(one.kind, source, None, weight))
            elif one.of == "values":
                found.append(Listening(one.kind, variable, source + 1, weight))
            else:
                found.append(Listening(one.kind, source // count, source % count + 1, weight))
    return sorted(found, key=lambda one: -one.weight)
