"""Where models run."""

from __future__ import annotations

import torch

from outgrow.errors import OutgrowError

__all__ = ["choose_device"]


def choose_device(name: str | None) -> torch.device:
    """The device asked for, or a GPU if there is one."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise OutgrowError(f"device {name!r} cannot be used here ({str(error).splitlines()[0]})") from None
    return device
