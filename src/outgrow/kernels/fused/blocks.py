"""Sizes of blocks."""

from __future__ import annotations

__all__ = ["power"]


def power(n: int) -> int:
    """The smallest power of two that is at least n, and 1: the blocks Triton knows."""
    return 1 << max(n - 1, 0).bit_length()
