"""Where work is done: this process's cores, a pool, a cluster."""

from minsep.engine.chunks import run_chunks
from minsep.engine.compute import LOCAL, Compute, never
from minsep.engine.copying import parallel_copy
from minsep.engine.cores import available_cores

__all__ = ["LOCAL", "Compute", "available_cores", "never", "parallel_copy", "run_chunks"]
