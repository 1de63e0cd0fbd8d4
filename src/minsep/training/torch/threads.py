"""Whether torch's threads slow training down: they wait by spinning, which takes long where cores are busy."""

import os
import time

import torch

_ROUNDS, _PRODUCTS = 5, 20  # on a busy machine, single rounds may be quick
_ROWS, _COLUMNS = 64, 256
_WORTH_SAYING = 2.0  # times as long


def threads_advice() -> str:
    """Return a sentence if torch's threads take much longer than one for small products, or nothing.

    A number of threads that the environment variable OMP_NUM_THREADS sets is a choice, and is not questioned.
    """
    threads = torch.get_num_threads()
    if threads == 1 or "OMP_NUM_THREADS" in os.environ:
        return ""
    together = alone = 0.0
    try:
        for _ in range(_ROUNDS):
            torch.set_num_threads(threads)
            together += _seconds()
            torch.set_num_threads(1)
            alone += _seconds()
    finally:
        torch.set_num_threads(threads)
    if together < _WORTH_SAYING * alone:
        return ""
    return (
        f"On this machine, {threads} threads of torch take {together / alone:.0f} times as long as one for small "
        "products: if steps are slow, call torch.set_num_threads(1) before training."
    )


def _seconds() -> float:
    """Return how long some small products take."""
    rows, columns = torch.ones(_ROWS, _COLUMNS), torch.ones(_COLUMNS, _COLUMNS)
    rows @ columns
    began = time.perf_counter()
    for _ in range(_PRODUCTS):
        rows @ columns
    return time.perf_counter() - began
