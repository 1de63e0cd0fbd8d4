"""Where work is done: this process's cores, a pool, a cluster."""

from minsep.engine.cores import available_cores

__all__ = ["available_cores"]
