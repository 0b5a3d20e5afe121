"""Which version of a kernel runs: the fused one on a GPU where it fits, the reference elsewhere."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor

from outgrow.kernels import reference
from outgrow.kernels.neighbors import Neighbors
from outgrow.kernels.reference import Layer, Norm
from outgrow.kernels.roster import Roster

__all__ = ["Engine", "average_messages", "exchange", "strongest_messages", "update_states", "use_engine"]

Engine = Literal["auto", "reference", "fused"]

_engine: Engine = "auto"
_TRITON = find_spec("triton") is not None
_MAX_WIDTH = 256  # fused kernels hold rows in registers


@contextmanager
def use_engine(engine: Engine) -> Iterator[None]:
    """'reference' or 'fused' wherever it fits; 'auto' is the fused one on a GPU alone, where it was measured to be faster.

    On a CPU the fused one runs in Triton's interpreter, if the environment has TRITON_INTERPRET=1: far slower, and good for checking.
    """
    global _engine
    if engine == "fused" and not _TRITON:
        raise RuntimeError("the fused engine needs Triton, which is not installed")
    before, _engine = _engine, engine
    try:
        yield
    finally:
        _engine = before


def _fits(states: Tensor) -> bool:
    if _engine == "reference" or not _TRITON or torch.compiler.is_compiling():
        return False
    if states.dtype == torch.float64 or states.shape[1] > _MAX_WIDTH:
        return False
    return states.is_cuda or _engine == "fused"


def average_messages(
    source: Tensor,
    destination: Tensor,
    neighbors: Neighbors,
    layers: Sequence[Layer],
    *,
    logits: tuple[Tensor, Tensor] | None = None,
    sharpen: bool = False,
    dropout: float = 0.0,
) -> Tensor:
    """See `reference.average_messages`."""
    if _fits(source) and (layers or not dropout):
        from outgrow.kernels import fused

        if not layers:
            return fused.average_messages(source, destination, neighbors, logits=logits, sharpen=sharpen)
        # Asked for by name alone, until it has been measured on a GPU.
        if _engine == "fused" and fused.layers_fit(source.shape[1], len(layers), dropout):
            return fused.average_layered(
                source, destination, neighbors, layers, logits=logits, sharpen=sharpen, dropout=dropout
            )
    return reference.average_messages(
        source, destination, neighbors, layers, logits=logits, sharpen=sharpen, dropout=dropout
    )


def strongest_messages(source: Tensor, destination: Tensor, neighbors: Neighbors, dropout: float = 0.0) -> Tensor:
    """See `reference.strongest_messages`."""
    if not dropout and _fits(source):
        from outgrow.kernels import fused

        return fused.strongest_messages(source, destination, neighbors)
    return reference.strongest_messages(source, destination, neighbors, dropout)


def exchange(
    states: Tensor,
    projected: Tensor,
    layers: Sequence[Layer],
    roster: Roster,
    rest: Tensor,
    dropout: float = 0.0,
) -> Tensor:
    """See `reference.exchange`."""
    if not dropout and _fits(states):
        from outgrow.kernels import fused

        return fused.exchange(states, projected, layers, roster, rest)
    return reference.exchange(states, projected, layers, roster, rest, dropout)


def update_states(
    entering: Tensor, recalled: Tensor, cell: Tensor, norms: Sequence[Norm], eps: float
) -> tuple[Tensor, Tensor]:
    """See `reference.update_states`."""
    if _fits(cell):
        from outgrow.kernels import fused

        return fused.update_states(entering, recalled, cell, norms, eps)
    return reference.update_states(entering, recalled, cell, norms, eps)
