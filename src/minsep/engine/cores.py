"""How many cores this process may use."""

import os


def available_cores() -> int:
    """Return the number of cores that the operating system lets this process use.

    >>> available_cores() >= 1
    True
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
