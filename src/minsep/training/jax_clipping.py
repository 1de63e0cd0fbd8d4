"""Sums of clipped gradients in JAX: one gradient an example by `vmap(grad)`, micro-batches by `scan`."""

from collections import defaultdict
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from minsep import _validation as validate
from minsep.training.run import check_clip_norm

Tree = Any
LossOfOne = Callable[[Tree, Any, Any], jax.Array]
"""loss(parameters, input, target) of one example."""


def clipped_gradient(
    loss: LossOfOne, clip_norm: float, micro_batch: int = 64, per_layer: bool = False
) -> Callable[[Tree, Tree, Tree, jax.Array, Tree | None], Tree]:
    """Return a compiled function of (parameters, inputs, targets, mask, scales): the sum of clipped gradients.

    - The first dimension of inputs, targets and mask is a multiple of `micro_batch`, as `padded` makes it; it may be 0.
    - Examples whose mask is false count for nothing.
    - Scales (None, or shaped like the parameters) multiply each gradient before it is clipped.
    - With `per_layer`, leaves of one parent in the tree are a layer, and each of K layers is clipped to
      `clip_norm / sqrt(K)`.
    - A gradient that is not finite makes the sum not finite.

    >>> def loss(weights, x, y):
    ...     return (weights @ x - y) ** 2
    >>> gradient = clipped_gradient(loss, clip_norm=1.0, micro_batch=2)
    >>> inputs, targets, mask = padded((np.eye(3, dtype=np.float32), np.ones(3, dtype=np.float32)), 3, 2)
    >>> gradient(jnp.zeros(3), inputs, targets, mask, None).tolist()
    [-1.0, -1.0, -1.0]
    """
    clip_norm = check_clip_norm(clip_norm)
    micro_batch = validate.integer(micro_batch=micro_batch, at_least=1)
    gradients_of = jax.vmap(jax.grad(loss), in_axes=(None, 0, 0))

    def sum_of_some(parameters: Tree, scales: Tree | None, total: Tree, some: Any) -> Tree:
        inputs, targets, mask = some
        gradients = jax.tree.map(_at_least_single, gradients_of(parameters, inputs, targets))
        if scales is not None:
            gradients = jax.tree.map(jnp.multiply, gradients, scales)

        def add(total: jax.Array, gradient: jax.Array, factors: jax.Array) -> jax.Array:
            # Padding is taken out by `where`, because zero times what is not finite is not zero.
            real = jnp.where(mask.reshape(-1, *[1] * (gradient.ndim - 1)), gradient, 0.0)
            return total + jnp.tensordot(
                jnp.where(mask, factors, 0.0), real, axes=1, precision=jax.lax.Precision.HIGHEST
            )

        return jax.tree.map(add, total, gradients, _factors(gradients, clip_norm, per_layer))

    @jax.jit
    def clipped_sum(parameters: Tree, inputs: Tree, targets: Tree, mask: jax.Array, scales: Tree | None) -> Tree:
        def in_micro_batches(array: jax.Array) -> jax.Array:
            return array.reshape(-1, micro_batch, *array.shape[1:])

        zero = jax.tree.map(lambda leaf: jnp.zeros_like(_at_least_single(leaf)), parameters)
        if mask.shape[0] == 0:
            return zero
        parts = jax.tree.map(in_micro_batches, (inputs, targets, mask))
        total, _ = jax.lax.scan(lambda total, some: (sum_of_some(parameters, scales, total, some), None), zero, parts)
        return total

    return clipped_sum


def padded(examples: Tree, count: int, micro_batch: int) -> tuple[Any, ...]:
    """Return arrays of `count` examples padded to a multiple of `micro_batch`, and a mask that is false for padding.

    Sizes that are few keep compilations few. Padding repeats the first example, whose gradient is as finite as its own.

    >>> padded((np.array([5, 6, 7]),), 3, 4)
    (array([5, 6, 7, 5]), array([ True,  True,  True, False]))
    """
    size = -(-count // micro_batch) * micro_batch

    def pad(array: Any) -> Any:
        array = np.asarray(array)
        return np.concatenate([array, np.repeat(array[:1], size - count, axis=0)])

    return (*jax.tree.map(pad, examples), np.arange(size) < count)


def _factors(gradients: Tree, clip_norm: float, per_layer: bool) -> Tree:
    """Return for each leaf by what to multiply the gradients of each example."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(gradients)
    layers = [jax.tree_util.keystr(path[:-1]) if per_layer else "" for path, _ in leaves]
    squares: dict[str, Any] = defaultdict(float)
    for layer, (_, leaf) in zip(layers, leaves, strict=True):
        squares[layer] += jnp.sum(jnp.square(leaf), axis=range(1, leaf.ndim))
    most = clip_norm / len(squares) ** 0.5
    factors = {layer: most / jnp.maximum(jnp.sqrt(total), most) for layer, total in squares.items()}
    return jax.tree.unflatten(structure, [factors[layer] for layer in layers])


def _at_least_single(array: jax.Array) -> jax.Array:
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))
