"""Message passing: the one place where states cross edges. `reference` is the specification."""

from outgrow.kernels.neighbors import Neighbors, gather
from outgrow.kernels.reference import Layer, average_messages, pool_members

__all__ = ["Layer", "Neighbors", "average_messages", "gather", "pool_members"]
