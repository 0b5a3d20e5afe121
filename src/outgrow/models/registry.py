"""The models by name, and how one is made of plain values."""

from __future__ import annotations

from outgrow.graphs import Schema
from outgrow.models.binarized import Binarized, BinarizedConfig
from outgrow.models.grouped import Grouped, GroupedConfig
from outgrow.models.multivalued import Multivalued, MultivaluedConfig

__all__ = ["MODELS", "Config", "Model", "build_model"]

Model = Binarized | Multivalued | Grouped
Config = BinarizedConfig | MultivaluedConfig | GroupedConfig

MODELS: dict[str, tuple[type[Model], type[Config]]] = {
    "binarized": (Binarized, BinarizedConfig),
    "multivalued": (Multivalued, MultivaluedConfig),
    "grouped": (Grouped, GroupedConfig),
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
    if isinstance(config, GroupedConfig):
        return Grouped(schema, config)
    return Multivalued(schema, config)
