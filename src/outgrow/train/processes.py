"""One process or many (torchrun): who is who, and what they share."""

from __future__ import annotations

import os
from dataclasses import dataclass

import torch
from torch import distributed

from outgrow.errors import OutgrowError

__all__ = ["Processes", "choose_device", "start_processes", "stop_processes"]


@dataclass(frozen=True)
class Processes:
    """This process among those that train together.

    Attributes:
        rank: its number, from 0.
        count: how many there are.
        device: where it computes.
    """

    rank: int
    count: int
    device: torch.device

    @property
    def first(self) -> bool:
        """The one that validates, writes and reports."""
        return self.rank == 0

    def mean(self, *values: float) -> list[float]:
        """Averages over all processes."""
        if self.count == 1:
            return list(values)
        total = torch.tensor(values, dtype=torch.float64, device=self.device)
        distributed.all_reduce(total)
        return (total / self.count).tolist()

    def agree(self, value: int) -> int:
        """What the first process says."""
        if self.count == 1:
            return value
        said = torch.tensor([int(value)], device=self.device)
        distributed.broadcast(said, src=0)
        return int(said.item())


def choose_device(name: str | None) -> torch.device:
    """The device asked for, or a GPU if there is one."""
    try:
        device = torch.device(name or ("cuda" if torch.cuda.is_available() else "cpu"))
        torch.zeros(1, device=device).item()
    except (RuntimeError, AssertionError) as error:
        raise OutgrowError(f"device {name!r} cannot be used here ({str(error).splitlines()[0]})") from None
    return device


def start_processes(device: str | None = None) -> Processes:
    """Joins the processes that torchrun started, or stands alone."""
    count, rank = int(os.environ.get("WORLD_SIZE", "1")), int(os.environ.get("RANK", "0"))
    if count == 1:
        return Processes(0, 1, choose_device(device))
    chosen = choose_device(device)
    if chosen.type == "cuda":
        chosen = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
        torch.cuda.set_device(chosen)
    distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo")
    return Processes(rank, count, chosen)


def stop_processes(processes: Processes) -> None:
    """Leaves the group."""
    if processes.count > 1 and distributed.is_initialized():
        distributed.destroy_process_group()
