"""The models by name, and how one is made of plain values."""

from __future__ import annotations

import torch

from outgrow.graphs import Schema
from outgrow.models.binarized import Binarized, BinarizedConfig
from outgrow.models.grouped import Grouped, GroupedConfig, Pool
from outgrow.models.layers import LayerNormLSTM, MessageFunction
from outgrow.models.multivalued import Multivalued, MultivaluedConfig

__all__ = ["MODELS", "Config", "Model", "build_model", "compile_parts"]

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


def compile_parts(model: Model) -> None:
    """Lets Inductor compile what a step is made of, when it first runs.

    Parts rather than the whole step: all groups and edge types share them, so there is far less to compile. Shapes are left open, as those
    of one size would each have to be compiled anew.
    """
    # One entry for each part, mode of gradients and pattern of masks; the default gives up after eight.
    torch._dynamo.config.cache_size_limit = 64  # pyright: ignore[reportPrivateImportUsage]
    for part in model.modules():
        if isinstance(part, LayerNormLSTM | MessageFunction | Pool):
            part.compile(dynamic=True)
