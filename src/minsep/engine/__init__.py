"""Where work is done: this process's cores, a pool, a cluster."""

from minsep.engine.chunks import run_chunks
from minsep.engine.compute import LOCAL, Compute, never
from minsep.engine.cores import available_cores
from minsep.engine.threads import in_threads

__all__ = ["LOCAL", "Compute", "available_cores", "in_threads", "never", "run_chunks"]
