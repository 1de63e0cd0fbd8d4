"""Copies of large arrays with several threads."""

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numpy.typing import NDArray

from minsep.engine.cores import available_cores

_WORTH_THREADS = 1 << 22


def parallel_copy(target: NDArray[Any], source: NDArray[Any]) -> None:
    """Copy an array of rows to another of the same shape.

    >>> target = np.zeros((3, 2))
    >>> parallel_copy(target, np.ones((3, 2)))
    >>> target.sum()
    np.float64(6.0)
    """
    cores = available_cores()
    if cores == 1 or source.nbytes < _WORTH_THREADS:
        np.copyto(target, source)
        return
    parts = zip(np.array_split(target, cores), np.array_split(source, cores), strict=True)
    with ThreadPoolExecutor(cores) as pool:
        list(pool.map(lambda part: np.copyto(*part), parts))
