"""Processes that train one model together with `torch.distributed`. Each holds a part of the noise."""

import hashlib
import secrets
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import pairwise
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch import distributed as together

# The namespaces of operations that exchange tensors with other processes.
_EXCHANGES = {"c10d", "c10d_functional", "_c10d_functional", "_c10d_functional_autograd", "_dtensor", "symm_mem"}
_EXCHANGED_BY_MINSEP = ContextVar("exchanged by minsep", default=False)


@contextmanager
def exchanging() -> Iterator[None]:
    """Enter a block of minsep's own in a forward or backward pass, which may exchange tensors with other processes."""
    token = _EXCHANGED_BY_MINSEP.set(True)
    try:
        yield
    finally:
        _EXCHANGED_BY_MINSEP.reset(token)


def refuse_exchange(operation: Any) -> None:
    """Refuse an operation in a forward or backward pass that exchanges tensors with other processes.

    Args:
        operation: An operation of torch, as a dispatch mode sees it.
    """
    if operation.namespace in _EXCHANGES and not _EXCHANGED_BY_MINSEP.get():
        raise ValueError(
            f"The model or its loss calls {operation}, which exchanges tensors with other processes, so that examples "
            "would affect those of others: omit it. minsep itself exchanges what processes need."
        )


class Processes:
    """This process in the default group. Without a group it is the only one.

    Args:
        device: Where tensors must be so that processes can exchange them.
    """

    def __init__(self, device: torch.device) -> None:
        grouped = together.is_available() and together.is_initialized()
        self.rank = together.get_rank() if grouped else 0
        self.count = together.get_world_size() if grouped else 1
        self._device = device

    def shared_seed(self, seed: int | None) -> int | None:
        """Return the seed that all processes use.

        Args:
            seed: The seed. If it is None and there are several processes, the first one draws a seed for all.
        """
        if self.count == 1 or seed is not None:
            return seed
        drawn = torch.tensor(list(secrets.token_bytes(32)), dtype=torch.uint8, device=self._device)
        together.broadcast(drawn, src=0)
        return int.from_bytes(bytes(drawn.tolist()), "big")

    def agree(self, on: str) -> None:
        """Refuse processes that were given different arguments: their batches and noise would not match.

        Args:
            on: The arguments as text, which must be the same in all processes.
        """
        if self.count == 1:
            return
        mine = torch.tensor(list(hashlib.sha256(on.encode()).digest()), dtype=torch.uint8, device=self._device)
        first = mine.clone()
        together.broadcast(first, src=0)
        if not self.all_true(torch.equal(mine, first)):
            raise ValueError(
                "The processes were given different arguments, but mechanism, numbers, model, optimizer and seed must "
                "be the same in all."
            )

    def share_tensors(self, tensors: list[Tensor]) -> None:
        """Set tensors to those of the first process.

        Args:
            tensors: The tensors, changed in place, in the same order in all processes.
        """
        if self.count > 1:
            for tensor in tensors:
                together.broadcast(tensor, src=0)

    def columns(self, size: int) -> tuple[int, int]:
        """Return the start and end of this process's part of a flat vector.

        Args:
            size: Length of the vector. It must be at least the number of processes.
        """
        if size < self.count:
            raise ValueError(f"The model has {size} parameters, but {self.count} processes need at least one each.")
        return size * self.rank // self.count, size * (self.rank + 1) // self.count

    def sum_of_part(self, flat: Tensor) -> Tensor:
        """Return this process's part of the sum of the vectors of all processes, added up in their order.

        Args:
            flat: The vector of this process. Its parts are those of `columns`.
        """
        sizes = self._sizes(flat)
        received = flat.new_empty(self.count, sizes[self.rank])
        together.all_to_all_single(received.view(-1), flat, [sizes[self.rank]] * self.count, sizes)
        total = received[0].clone()
        for part in received[1:]:
            total += part
        return total

    def share_part(self, part: Tensor, flat: Tensor) -> None:
        """Set a vector to the parts of all processes.

        Args:
            part: The part of this process.
            flat: The vector, changed in place.
        """
        sizes = self._sizes(flat)
        together.all_to_all_single(flat, part.repeat(self.count), sizes, [sizes[self.rank]] * self.count)

    def _sizes(self, flat: Tensor) -> list[int]:
        ends = [len(flat) * rank // self.count for rank in range(self.count + 1)]
        return [end - begin for begin, end in pairwise(ends)]

    def gather(
        self, part: NDArray[np.floating], columns: list[tuple[int, int]], size: int
    ) -> NDArray[np.floating] | None:
        """Return whole rows in the first process, and None in the others.

        Args:
            part: The columns of the rows that this process holds.
            columns: The parts (begin, end) of a whole row that these are.
            size: Length of a whole row.
        """
        if self.count == 1:
            return part
        of_all: list[list[tuple[int, int]]] = [[] for _ in range(self.count)]
        together.all_gather_object(of_all, columns)
        if self.rank > 0:
            if part.size:
                together.send(torch.from_numpy(np.ascontiguousarray(part)).to(self._device), dst=0)
            return None
        whole = np.empty((len(part), size), dtype=part.dtype)
        for rank, theirs in enumerate(of_all):
            places = columns_of(theirs)
            other = torch.from_numpy(np.empty((len(part), places.size), dtype=part.dtype)).to(self._device)
            if rank > 0 and other.numel():
                together.recv(other, src=rank)
            whole[:, places] = part if rank == 0 else other.cpu().numpy()
        return whole

    def all_true(self, answer: bool) -> bool:
        """Return whether the answer is true in all processes.

        Args:
            answer: The answer of this process.
        """
        if self.count == 1:
            return answer
        others = torch.tensor([0 if answer else 1], device=self._device)
        together.all_reduce(others)
        return not int(others)

    def first_does(self, what: Callable[[], None]) -> None:
        """Do something in the first process alone, and refuse to go on anywhere where it failed there.

        Args:
            what: What the first process does.
        """
        error: Exception | None = None
        if self.rank == 0:
            try:
                what()
            except Exception as raised:
                error = raised
        done = self.all_true(error is None)
        if error is not None:
            raise error
        if not done:
            raise RuntimeError("The first process failed, and its error says why: nothing was started.")

    def wait(self) -> None:
        """Wait for all processes."""
        if self.count > 1:
            together.barrier()


def columns_of(parts: list[tuple[int, int]]) -> NDArray[np.int64]:
    """Return the numbers of all columns in some parts of a row.

    Args:
        parts: (begin, end) of each part.

    >>> columns_of([(0, 2), (5, 7)]).tolist()
    [0, 1, 5, 6]
    """
    return np.concatenate([np.zeros(0, dtype=np.int64), *(np.arange(begin, end) for begin, end in parts)])
