"""What may bring examples together under `vmap`, which otherwise computes as if each example were alone."""

from collections.abc import Callable, Iterator
from typing import Any

import jax

_ONE_BY_ONE = ("sequential", "sequential_unrolled")


def refuse_mixing(function: Callable[..., Any], *arguments: Any) -> None:
    """Refuse a function of one example that would be given several at once when `vmap` runs it.

    Callbacks to the host see all examples unless they run one by one, or keep what they saw, and the rule of a
    `custom_vmap` is free to mix.

    Args:
        function: The function.
        arguments: Its arguments, which may be traced.

    >>> import numpy as np
    >>> refuse_mixing(jax.grad(lambda x: x**2), 3.0)
    >>> refuse_mixing(lambda x: jax.pure_callback(np.sum, x, x, vmap_method="expand_dims"), np.ones(()))
    Traceback (most recent call last):
    ValueError: loss uses pure_callback, which may mix examples: compute it with operations of JAX.
    """
    for name, parameters in _operations(jax.make_jaxpr(function)(*arguments)):
        runs_apart = name == "pure_callback" and parameters.get("vmap_method") in _ONE_BY_ONE
        if name in ("pure_callback", "io_callback", "custom_vmap_call") and not runs_apart:
            raise ValueError(
                f"loss uses {name.removesuffix('_call')}, which may mix examples: compute it with operations of JAX."
            )


def _operations(part: Any) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the operations in what an operation is made of, at any depth, by name and with their parameters."""
    if isinstance(part, list | tuple):
        for one in part:
            yield from _operations(one)
    elif hasattr(part, "jaxpr"):
        yield from _operations(part.jaxpr)
    elif hasattr(part, "eqns"):
        for operation in part.eqns:
            yield operation.primitive.name, operation.params
            yield from _operations(list(operation.params.values()))
