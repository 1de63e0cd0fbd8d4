"""Processes that train one model together under `torch.distributed`, each with a part of the noise."""

import hashlib
import secrets

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as together


class Processes:
    """This process among those of the default group; alone if there is no group."""

    def __init__(self, device: torch.device) -> None:
        grouped = together.is_available() and together.is_initialized()
        self.rank = together.get_rank() if grouped else 0
        self.count = together.get_world_size() if grouped else 1
        self._device = device

    def shared_seed(self, seed: int | None) -> int | None:
        """Return the seed that all processes use: the one given, or one that the first draws and sends around."""
        if self.count == 1 or seed is not None:
            return seed
        drawn = torch.tensor(list(secrets.token_bytes(32)), dtype=torch.uint8, device=self._device)
        together.broadcast(drawn, src=0)
        return int.from_bytes(bytes(drawn.tolist()), "big")

    def agree(self, on: str) -> None:
        """Refuse processes that were not given the same: their batches would differ, and their noise be another's."""
        if self.count == 1:
            return
        mine = torch.tensor(list(hashlib.sha256(on.encode()).digest()), dtype=torch.uint8, device=self._device)
        first = mine.clone()
        together.broadcast(first, src=0)
        others = torch.tensor([0 if torch.equal(mine, first) else 1], device=self._device)
        together.all_reduce(others)
        if int(others):
            raise ValueError(
                "The processes were given different arguments, but mechanism, numbers, model, optimizer and seed must "
                "be the same in all."
            )

    def share_tensors(self, tensors: list[Tensor]) -> None:
        """Set tensors to those of the first process."""
        if self.count > 1:
            for tensor in tensors:
                together.broadcast(tensor, src=0)

    def columns(self, size: int) -> tuple[int, int]:
        """Return where this process's part of a flat vector begins and ends."""
        if size < self.count:
            raise ValueError(f"The model has {size} parameters, but {self.count} processes need one each at least.")
        return size * self.rank // self.count, size * (self.rank + 1) // self.count

    def add_up(self, flat: Tensor) -> None:
        """Set a vector to the sum of all processes' vectors."""
        if self.count > 1:
            together.all_reduce(flat)

    def gather(self, part: NDArray[np.floating], size: int) -> NDArray[np.floating] | None:
        """Return the rows of which each process holds its columns, to the first process; None to the others."""
        if self.count == 1:
            return part
        if self.rank > 0:
            if part.size:
                together.send(torch.from_numpy(np.ascontiguousarray(part)).to(self._device), dst=0)
            return None
        parts = [part]
        for rank in range(1, self.count):
            width = size * (rank + 1) // self.count - size * rank // self.count
            other = torch.from_numpy(np.empty((len(part), width), dtype=part.dtype)).to(self._device)
            if other.numel():
                together.recv(other, src=rank)
            parts.append(other.cpu().numpy())
        return np.concatenate(parts, axis=1)

    def wait(self) -> None:
        """Wait until every process is here."""
        if self.count > 1:
            together.barrier()
