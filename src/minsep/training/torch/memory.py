"""How many examples fit into memory at once, as measured."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils._python_dispatch import TorchDispatchMode

# Of what is available when a run starts. The rest is for everything else, and for what allocators waste.
_SHARE_OF_MEMORY = 0.25
# Larger micro-batches are hardly faster, and the last one of a step is padded to the size of the others.
_MOST_EXAMPLES_ON_HOST, _MOST_EXAMPLES_ON_DEVICE = 32, 256
_OPERATIONS_BETWEEN_CLEARINGS = 32


def fitting_micro_batch(compute: Callable[[int], object], device: torch.device, available: int | None = None) -> int:
    """Return how many examples to hold in memory at once: a power of two.

    Args:
        compute: Function that computes the gradients of as many examples as it is given.
        device: Where the gradients are computed.
        available: Bytes of memory. None asks the system.

    >>> fitting_micro_batch(lambda size: torch.zeros(size, 1000).sum(), torch.device("cpu"), available=100_000)
    4
    """
    available = available_memory(device) if available is None else available
    one, two = (peak_memory(lambda size=size: compute(size), device) for size in (1, 2))  # type: ignore[misc]
    each = max(two - one, 1)
    fitting = max(int(_SHARE_OF_MEMORY * available - (one - each)) // each, 1)
    most = _MOST_EXAMPLES_ON_HOST if device.type == "cpu" else _MOST_EXAMPLES_ON_DEVICE
    return int(min(1 << (fitting.bit_length() - 1), most))


def peak_memory(compute: Callable[[], object], device: torch.device) -> int:
    """Return the largest number of bytes in tensors that a computation holds at once.

    Args:
        compute: The computation.
        device: Where the computation runs.

    >>> peak_memory(lambda: torch.zeros(1000).double(), torch.device("cpu"))
    12000
    """
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
        before = torch.cuda.memory_allocated(device)
        compute()
        return int(torch.cuda.max_memory_allocated(device) - before)
    with _LiveTensors() as live:
        compute()
    return int(live.peak)


def available_memory(device: torch.device) -> int:
    """Return how many bytes of memory can still be used.

    Args:
        device: The device whose memory is meant.
    """
    if device.type == "cuda":
        return int(torch.cuda.mem_get_info(device)[0])
    report = Path("/proc/meminfo")
    if report.exists():
        fields = dict(line.split(":") for line in report.read_text().splitlines())
        return 1024 * int(fields["MemAvailable"].split()[0])
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


class _LiveTensors(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that operations make, for as long as they are in use."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.peak = 0
        self._live: dict[int, tuple[StorageWeakRef, int]] = {}
        self._operations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation and count what it returns."""
        before = {_storage(value) for value in (*args, *(kwargs or {}).values()) if isinstance(value, Tensor)}
        results = func(*args, **(kwargs or {}))
        for value in results if isinstance(results, list | tuple) else (results,):
            if isinstance(value, Tensor) and _storage(value) not in before:
                storage = value.untyped_storage()
                self._live[storage._cdata] = (StorageWeakRef(storage), storage.nbytes())  # type: ignore[no-untyped-call]
        self._operations += 1
        held = sum(size for _, size in self._live.values())
        if held > self.peak or self._operations % _OPERATIONS_BETWEEN_CLEARINGS == 0:
            self._live = {key: item for key, item in self._live.items() if not item[0].expired()}  # type: ignore[no-untyped-call]
            self.peak = max(self.peak, sum(size for _, size in self._live.values()))
        return results


def _storage(tensor: Tensor) -> int:
    return int(tensor.untyped_storage()._cdata)
