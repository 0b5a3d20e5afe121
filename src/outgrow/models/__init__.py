"""The models, one file each: graphs in, scores of every variable's values out."""

from outgrow.models.binarized import Binarized, BinarizedConfig
from outgrow.models.device import choose_device
from outgrow.models.grouped import Grouped, GroupedConfig
from outgrow.models.layers import Heard
from outgrow.models.multivalued import Multivalued, MultivaluedConfig
from outgrow.models.registry import MODELS, Config, Model, build_model

__all__ = [
    "MODELS",
    "Binarized",
    "BinarizedConfig",
    "Config",
    "Grouped",
    "GroupedConfig",
    "Heard",
    "Model",
    "Multivalued",
    "MultivaluedConfig",
    "build_model",
    "choose_device",
]
