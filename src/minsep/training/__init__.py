"""Private training: thin adapters of a mechanism's batches and noise to PyTorch and JAX.

Import `minsep.training.torch` or `minsep.training.jax` by name; each needs the extra of the same name.
"""
