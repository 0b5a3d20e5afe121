"""Triton kernels: the same functions as `reference`, in few passes over memory.

Sums run in single precision whatever the type of the states, in a fixed order and without atomics. What is cheap to work out again on the way
back is not kept.
"""

from outgrow.kernels.fused.edges import average_messages, strongest_messages
from outgrow.kernels.fused.groups import exchange
from outgrow.kernels.fused.layered import average_layered, layers_misfit
from outgrow.kernels.fused.update import update_states

__all__ = ["average_layered", "average_messages", "exchange", "layers_misfit", "strongest_messages", "update_states"]
