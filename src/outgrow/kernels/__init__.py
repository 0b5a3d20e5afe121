"""Message passing: the one place where states cross edges. `reference` is the specification, `fused` the same on a GPU."""

from outgrow.kernels.dispatch import Engine, average_messages, exchange, strongest_messages, update_states, use_engine
from outgrow.kernels.neighbors import Neighbors, gather
from outgrow.kernels.reference import Layer, Norm, pool_members
from outgrow.kernels.roster import Roster

__all__ = [
    "Engine",
    "Layer",
    "Neighbors",
    "Norm",
    "Roster",
    "average_messages",
    "exchange",
    "gather",
    "pool_members",
    "strongest_messages",
    "update_states",
    "use_engine",
]
