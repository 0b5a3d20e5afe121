"""Which version of a kernel runs: the fused one on a GPU where it fits, that in blocks on a CPU without gradients, the reference elsewhere."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from outgrow.kernels import cpu, reference
from outgrow.kernels.neighbors import Neighbors
from outgrow.kernels.reference import Layer, Norm
from outgrow.kernels.roster import Roster

__all__ = [
    "Engine",
    "advance",
    "average_messages",
    "exchange",
    "project",
    "strongest_messages",
    "update_states",
    "use_engine",
]

Engine = Literal["auto", "reference", "fused"]

_engine: Engine = "auto"
_TRITON = find_spec("triton") is not None
_MAX_WIDTH = 256  # fused kernels hold rows in registers
_NO_DROPOUT = "without layers behind the first they know no dropout"


@contextmanager
def use_engine(engine: Engine) -> Iterator[None]:
    """'reference', or 'fused' wherever it fits; 'auto' is the fused one on a GPU, as far as it was measured to be faster, and that in blocks on a CPU without gradients.

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


def _fits(states: Tensor, otherwise: str = "") -> bool:
    """Whether a fused kernel takes states of that kind. One that was asked for by name and cannot says why, in words of its own or `otherwise`."""
    if _engine == "reference" or torch.compiler.is_compiling() or not (states.is_cuda or _engine == "fused"):
        return False
    if not _TRITON:
        return False
    if states.dtype == torch.float64:
        otherwise = "they compute in half or single precision, not in double"
    elif states.shape[1] > _MAX_WIDTH:
        otherwise = f"rows of {states.shape[1]} numbers are too wide for them, which take {_MAX_WIDTH}"
    if otherwise and _engine == "fused":
        warnings.warn(f"no fused kernels here, the reference instead: {otherwise}", RuntimeWarning, stacklevel=4)
    return not otherwise


def _in_blocks(states: Tensor) -> bool:
    """On a CPU, without gradients."""
    if _engine != "auto" or torch.is_grad_enabled() or torch.compiler.is_compiling():
        return False
    return states.device.type == "cpu" and states.dtype == torch.float32 and not torch.is_autocast_enabled("cpu")


def project(x: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """x (N, F) -> (N, G): `functional.linear`."""
    return cpu.project(x, weight, bias) if _in_blocks(x) else functional.linear(x, weight, bias)


def _layers_misfit(width: int, layers: int, dropout: float) -> str:
    """Why messages of that width and with so many layers behind the first are not for fused kernels."""
    if not _TRITON:
        return ""
    from outgrow.kernels import fused

    return fused.layers_misfit(width, layers, dropout)


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
    if not layers and _fits(source, _NO_DROPOUT if dropout else ""):
        from outgrow.kernels import fused

        return fused.average_messages(source, destination, neighbors, logits=logits, sharpen=sharpen)
    # Asked for by name alone, until it has been measured on a GPU.
    if layers and _engine == "fused" and _fits(source, _layers_misfit(source.shape[1], len(layers), dropout)):
        from outgrow.kernels import fused

        return fused.average_layered(
            source, destination, neighbors, layers, logits=logits, sharpen=sharpen, dropout=dropout
        )
    if not dropout and _in_blocks(source):
        return cpu.average_messages(source, destination, neighbors, layers, logits=logits, sharpen=sharpen)
    return reference.average_messages(
        source, destination, neighbors, layers, logits=logits, sharpen=sharpen, dropout=dropout
    )


def strongest_messages(source: Tensor, destination: Tensor, neighbors: Neighbors, dropout: float = 0.0) -> Tensor:
    """See `reference.strongest_messages`."""
    if _fits(source, _NO_DROPOUT if dropout else ""):
        from outgrow.kernels import fused

        return fused.strongest_messages(source, destination, neighbors)
    if not dropout and _in_blocks(source):
        return cpu.strongest_messages(source, destination, neighbors)
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
    if _fits(states, _NO_DROPOUT if dropout else ""):
        from outgrow.kernels import fused

        return fused.exchange(states, projected, layers, roster, rest)
    if not dropout and _in_blocks(states):
        return cpu.exchange(states, projected, layers, roster, rest)
    return reference.exchange(states, projected, layers, roster, rest, dropout)


def update_states(
    entering: Tensor, recalled: Tensor, cell: Tensor, norms: Sequence[Norm], eps: float
) -> tuple[Tensor, Tensor]:
    """See `reference.update_states`."""
    if _fits(cell):
        from outgrow.kernels import fused

        return fused.update_states(entering, recalled, cell, norms, eps)
    return reference.update_states(entering, recalled, cell, norms, eps)


def advance(
    heard: Tensor,
    weight: Tensor,
    state: Tensor,
    recall: Tensor,
    cell: Tensor,
    norms: Sequence[Norm],
    eps: float,
    remembered: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """`update_states` of what the gates make, by `weight` and `recall`, of what is heard (and of what is remembered, (N, 4H)) and of the state."""
    if _in_blocks(cell):
        return cpu.advance(heard, weight, state, recall, cell, norms, eps, remembered)
    entering = functional.linear(heard, weight)
    if remembered is not None:
        entering = entering + remembered
    return update_states(entering, functional.linear(state, recall), cell, norms, eps)
