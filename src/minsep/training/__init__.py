"""Private training: thin adapters of a mechanism's batches and noise to PyTorch and JAX.

`minsep.training.torch` and `minsep.training.jax` are imported by name, each with the extra of the same name installed.
"""

from minsep.training.schedule import LinearDecay

__all__ = ["LinearDecay"]
