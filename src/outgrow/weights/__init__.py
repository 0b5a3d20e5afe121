"""Weights and where they come from."""

from outgrow.weights.file import Loaded, load_weights, save_weights

__all__ = ["Loaded", "load_weights", "save_weights"]
