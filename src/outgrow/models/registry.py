"""The models by name, and how one is made of plain values."""

from __future__ import annotations

from outgrow.graphs import Schema
from outgrow.models.binarized import Binarized, BinarizedConfig
from outgrow.models.multivalued import Multivalued, MultivaluedConfig

__all__ = ["MODELS", "Config", "Model", "build_model"]

Model = Binarized | Multivalued
Config = BinarizedConfig | MultivaluedConfig

MODELS: dict[str, tuple[type[Model], type[Config]]] = {
    "binarized": (Binarized, BinarizedConfig),
    "multivalued": (Multivalued, MultivaluedConfig),
}


def build_model(schema: Schema, config: Config) -> Model:
    """A fresh model for puzzles with these edge types.

    >>> from outgrow.puzzles import parse_one
    >>> model = build_model(Schema.of(parse_one("1.....3..4.....2").csp), BinarizedConfig(width=8))
    >>> model.kind
    'binarized'
    """
    if isinstance(config, BinarizedConfig):
        return Binarized(schema, config)
    return Multivalued(schema, config)
