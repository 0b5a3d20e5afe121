"""How much arithmetic a model cannot do without: what benchmarks/engine.py divides by the time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import torch

from outgrow.graphs import Batch
from outgrow.kernels import Neighbors
from outgrow.models import Model
from outgrow.models.layers import Use


def count_entries(neighbors: Neighbors) -> int:
    """Edges, padding aside."""
    return neighbors.source.numel() if neighbors.mask is None else int(neighbors.mask.sum())


@torch.no_grad()
def count_flops(model: Model, batch: Batch, steps: int) -> float:
    """Operations of the matrix products that T steps over a batch cannot do without, after the exact rearrangements of `kernels.reference`.

    A product (n, a) x (a, b) is 2nab. With H the width, each step has for every type of edges between S senders and N receivers, E of them,

        2SH² + 2NH²      the first layer at either end (once for types that share a function); with attention + 2SH + 2NH
        2EH² (L - 1)     the layers between the first and the last, on every edge
        2NH²             the last layer, behind the average; with dropout, which acts on messages, 2EH² on edges instead

    and, for Z types and I numbers that say which input a node has, 2N (ZH + I) 4H + 2NH 4H for the update, and 2NH for scores (2NKH in the multivalued model).
    The grouped model has, for each type of G groups with M members in all and A heads, 2N (H + A) H for members' own parts and logits, 2MAH for averages and
    2G AH H for answers. What is worked out once for all steps counts once. Training is three times that: the way back takes twice as much, and what is computed
    again there does not count.
    """
    count = _count_values if model.kind == "multivalued" else _count_nodes
    return count(model, batch, steps) * (3 if model.training else 1)


def _count_ends(sending: Iterable[Use], hearing: Iterable[Use], nodes: int, width: int) -> int:
    """The first layers' products of nodes that send and hear."""
    ends = [*dict.fromkeys(sending), *dict.fromkeys(hearing)]
    return sum(2 * nodes * width * (width + use.attend) for use in ends)


def _count_hearing(model: Any, use: Use, neighbors: Neighbors, dropout: float) -> int:
    """The layers behind the first."""
    width, receivers, layers = model.config.width, len(neighbors.source), len(model.messages.of(use).rest)
    behind = 2 * receivers * width**2 if layers and not dropout else 0
    on_edges = layers if dropout else max(layers - 1, 0)
    return behind + 2 * count_entries(neighbors) * width**2 * on_edges


def _count_nodes(model: Any, batch: Batch, steps: int) -> int:
    """Of the binarized and the grouped model."""
    graph, width = model.prepare(batch), model.config.width
    nodes, dropout = len(graph.known), model.config.dropout if model.training else 0.0
    tables = (*graph.constraint, *graph.relation)
    uses = model._edges if model.kind == "grouped" else model._uses
    step = _count_ends(uses, uses, nodes, width)
    step += sum(_count_hearing(model, use, table, dropout) for use, table in zip(uses, tables, strict=True))
    heard, marks = len(uses), model.inputs.num_embeddings - 3
    if model.kind == "grouped":
        heads, groups = model.config.heads, len(model.pooled)
        heard += groups
        step += 2 * nodes * groups * (width + heads) * width
        for members, _ in graph.roster.types:
            step += 2 * heads * width * (count_entries(members) + len(members.source) * width)
    inputs = -(-(3 + marks) // 8) * 8
    step += 8 * nodes * width * ((heard + 1) * width + inputs) + 2 * nodes * width
    return steps * step + 2 * nodes * marks * width


def _count_values(model: Any, batch: Batch, steps: int) -> int:
    """Of the multivalued model."""
    prepared, width = model.prepare(batch), model.config.width
    graph, dropout = prepared.graph, model.config.dropout if model.training else 0.0
    variables, values, square = batch.num_variables, len(prepared.values), width**2
    relation = 8 * values * square * (len(model._relation) + 1)
    relation += _count_ends(model._relation, model._relation, values, width)
    for use, table in zip(model._relation, graph.relation, strict=True):
        relation += _count_hearing(model, use, table, 0.0)
    # Their update's part of the embeddings; what scores are compared with; the update's part of the inputs; what values send.
    once = model.config.relation_steps * relation + 10 * values * square + 8 * variables * square
    once += _count_ends((model._assigned, model._unassigned), (), values, width)
    uses = model._uses
    tables = (*graph.constraint, graph.assigned, graph.unassigned)
    step = _count_ends(model._constraint, uses, variables, width)
    step += sum(_count_hearing(model, use, table, dropout) for use, table in zip(uses, tables, strict=True))
    step += 8 * variables * square * (len(uses) + 1) + 2 * variables * batch.max_values * width
    return once + steps * step
