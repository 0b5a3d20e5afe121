"""One process or many (torchrun): who is who, and what they share."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta

import torch
from torch import distributed

from outgrow.errors import OutgrowError
from outgrow.models import choose_device

__all__ = ["Processes", "products", "start_processes", "stop_processes"]


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

    def meet(self) -> None:
        """Waits for all the others: who leaves while another still works may be torn down with its threads running."""
        if self.count > 1 and distributed.is_initialized():
            distributed.barrier()

    def agree(self, value: int) -> int:
        """What the first process says."""
        if self.count == 1:
            return value
        said = torch.tensor([int(value)], device=self.device)
        distributed.broadcast(said, src=0)
        return int(said.item())


@contextmanager
def products(precision: str) -> Iterator[None]:
    """Matrix products of single-precision numbers, as torch calls it: 'highest', or 'high', which is TF32 on a GPU."""
    before = torch.get_float32_matmul_precision()
    torch.set_float32_matmul_precision(precision)
    try:
        yield
    finally:
        torch.set_float32_matmul_precision(before)


def start_processes(device: str | None = None) -> Processes:
    """Joins the processes that torchrun started, or stands alone."""
    try:
        count, rank, local = (
            int(os.environ.get(name, n)) for name, n in (("WORLD_SIZE", 1), ("RANK", 0), ("LOCAL_RANK", 0))
        )
    except ValueError:
        raise OutgrowError("WORLD_SIZE, RANK or LOCAL_RANK is no number; torchrun sets them") from None
    chosen = choose_device(device)
    if count == 1:
        return Processes(0, 1, chosen)
    if chosen.type == "cuda":
        if local >= torch.cuda.device_count():
            raise OutgrowError(
                f"process {local} on this machine has no GPU of its own; there are {torch.cuda.device_count()} (--nproc-per-node)"
            )
        chosen = torch.device("cuda", local)
        torch.cuda.set_device(chosen)
    try:
        # The others wait while the first one validates.
        distributed.init_process_group("nccl" if chosen.type == "cuda" else "gloo", timeout=timedelta(hours=2))
    except (ValueError, RuntimeError) as error:
        raise OutgrowError(
            f"{count} processes could not find each other; start them with torchrun ({str(error).splitlines()[0]})"
        ) from None
    return Processes(rank, count, chosen)


def stop_processes(processes: Processes) -> None:
    """Leaves the group."""
    if processes.count > 1 and distributed.is_initialized():
        distributed.destroy_process_group()
