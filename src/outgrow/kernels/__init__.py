"""Message passing: the one place where states cross edges. `reference` is the specification, `fused` the same on a GPU,
`cpu` on a CPU without gradients."""

from outgrow.kernels.dispatch import (
    Engine,
    advance,
    average_messages,
    exchange,
    project,
    strongest_messages,
    update_states,
    use_engine,
)
from outgrow.kernels.neighbors import Neighbors, gather
from outgrow.kernels.reference import Layer, Norm, pool_members, share_strongest, weigh_edges, weigh_members
from outgrow.kernels.roster import Roster

__all__ = [
    "Engine",
    "Layer",
    "Neighbors",
    "Norm",
    "Roster",
    "advance",
    "average_messages",
    "exchange",
    "gather",
    "pool_members",
    "project",
    "share_strongest",
    "strongest_messages",
    "update_states",
    "use_engine",
    "weigh_edges",
    "weigh_members",
]
