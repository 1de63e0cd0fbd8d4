"""Sums of clipped gradients in JAX: one gradient per example by `vmap(grad)`, micro-batches by `scan`."""

from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.training.jax.arrays import enable_x64
from minsep.training.jax.mixing import refuse_mixing
from minsep.training.jax.positions import Positions
from minsep.training.run import CLIP_MARGIN, check_clip_norm

Tree = Any

_PIECE_ENTRIES = 256
LossOfOne = Callable[[Tree, Any, Any], jax.Array]
"""loss(parameters, input, target) of one example."""


def clipped_gradient(
    loss: LossOfOne, clip_norm: float, micro_batch: int = 64, per_layer: bool = False
) -> Callable[[Tree, Tree, Tree, jax.Array, Tree | None], Tree]:
    """Return a compiled function that sums clipped gradients.

    Sums are float64, whether or not jax_enable_x64 is set. A gradient that is not finite makes the sum not finite.

    Args:
        loss: The loss of one example.
        clip_norm: Bound on the norm of the gradient of one example, over all parameters.
        micro_batch: Number of examples whose gradients are in memory at once. If the last bits of gradients depend on
            the places of examples in a micro-batch of this size, another size is chosen, with a warning.
        per_layer: Whether to clip each of K layers to `clip_norm / sqrt(K)` instead. Leaves of one parent in the tree
            are a layer.

    Returns:
        A function of (parameters, inputs, targets, mask, scales). The first dimension of inputs, targets and mask is a
        multiple of `micro_batch`, as `padded` makes it. It may be 0. Examples whose mask is false do not contribute.
        Scales (None, or a tree like the parameters) multiply each gradient before it is clipped.

    Examples:
        >>> def loss(weights, x, y):
        ...     return (weights @ x - y) ** 2
        >>> gradient = clipped_gradient(loss, clip_norm=1.0, micro_batch=2)
        >>> data = np.eye(3, dtype=np.float32), np.ones(3, dtype=np.float32)
        >>> inputs, targets, mask = padded(data, np.arange(3), 2)
        >>> gradient(jnp.zeros(3), inputs, targets, mask, None).round(3).tolist()
        [-1.0, -1.0, -1.0]
    """
    clip_norm = check_clip_norm(clip_norm)
    micro_batch = validate.integer(micro_batch=micro_batch, at_least=1)
    gradient_of_one = jax.grad(loss)
    gradients_of = jax.vmap(gradient_of_one, in_axes=(None, 0, 0))
    positions = Positions(loss, micro_batch)

    def sum_of_some(parameters: Tree, scales: Tree | None, double: bool, total: Tree, some: Any) -> Tree:
        inputs, targets, mask = some
        # The user's loss is traced as the user has set it.
        with enable_x64(double):
            gradients = jax.tree.map(_at_least_single, gradients_of(parameters, inputs, targets))
            if scales is not None:
                gradients = jax.tree.map(jnp.multiply, gradients, scales)
            factors = _factors(gradients, clip_norm, per_layer)

        def add(total: jax.Array, gradient: jax.Array, factors: jax.Array) -> jax.Array:
            # Padding is removed by `where`, because zero times a value that is not finite is not zero.
            real = jnp.where(mask.reshape(-1, *[1] * (gradient.ndim - 1)), gradient, 0.0)
            return total + jnp.tensordot(
                jnp.where(mask, factors, 0.0).astype(total.dtype),
                real.astype(total.dtype),
                axes=1,
                precision=jax.lax.Precision.HIGHEST,
            )

        return jax.tree.map(add, total, gradients, factors)

    @jax.jit
    def clipped_sum(parameters: Tree, inputs: Tree, targets: Tree, mask: jax.Array, scales: Tree | None) -> Tree:
        check_parameters(parameters)
        double, parts = jnp.result_type(float) == jnp.float64, None
        if mask.shape[0]:
            refuse_mixing(gradient_of_one, parameters, *jax.tree.map(lambda array: array[0], (inputs, targets)))
            size = positions.size(parameters, inputs, targets)
            some, their_targets = jax.tree.map(partial(_in_micro_batches, size), (inputs, targets))
            parts = some, their_targets, _in_micro_batches(size, mask, fill=False)
        with enable_x64(True):
            zero = jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, jnp.float64), parameters)
            if parts is None:
                return zero
            add = partial(sum_of_some, parameters, scales, double)
            total, _ = jax.lax.scan(lambda total, some: (add(total, some), None), zero, parts)
            return total

    return clipped_sum


def padded(data: Tree, indices: ArrayLike, micro_batch: int) -> tuple[Any, ...]:
    """Return the rows of a batch, padded to a multiple of `micro_batch`, and a mask that is false for the padding.

    With few different sizes there are few compilations. Padding repeats the first example, so its gradient is finite if
    that of the first example is.

    Args:
        data: A tuple of arrays, or of trees of arrays, whose first dimension counts all examples.
        indices: The examples of the batch, each of them once, as a stream of batches yields them. Negative indices are
            refused: NumPy and JAX read -1, which some libraries use for padding, as the last example.
        micro_batch: The micro-batch size of `clipped_gradient`.

    Examples:
        >>> padded((np.array([5, 6, 7, 8]),), [0, 2, 3], 4)
        (array([5, 7, 8, 5]), array([ True,  True,  True, False]))
    """
    micro_batch = validate.integer(micro_batch=micro_batch, at_least=1)
    batch = np.asarray(indices)
    rows = min((len(leaf) for leaf in jax.tree.leaves(data)), default=0)
    if batch.ndim != 1 or (batch.size and batch.dtype.kind not in "iu"):
        raise ValueError(f"indices has shape {batch.shape} and dtype {batch.dtype}, but it must be a list of integers.")
    if batch.size and not 0 <= batch.min() <= batch.max() < rows:
        raise ValueError(
            f"indices has values from {batch.min()} to {batch.max()}, but with {rows} examples they must be from 0 to "
            f"{rows - 1}: leave padding out."
        )
    if np.unique(batch).size < batch.size:
        raise ValueError("indices has the same example more than once, but a batch has each of its examples once.")
    batch = batch.astype(np.int64)
    return filled_up(jax.tree.map(lambda array: array[batch], data), batch.size, micro_batch)


def filled_up(examples: Tree, count: int, micro_batch: int) -> tuple[Any, ...]:
    """Return arrays padded to a multiple of `micro_batch`, and a mask that is false for the padding.

    Args:
        examples: A tuple of arrays, or of trees of arrays, whose first dimension counts the examples.
        count: Number of examples.
        micro_batch: The micro-batch size of `clipped_gradient`.
    """
    size = -(-count // micro_batch) * micro_batch

    def pad(array: Any) -> Any:
        array = np.asarray(array)
        return np.concatenate([array, np.repeat(array[:1], size - count, axis=0)])

    return (*jax.tree.map(pad, examples), np.arange(size) < count)


def check_parameters(parameters: Tree) -> None:
    """Refuse parameters that are not real: norms of complex gradients are not those of their squares.

    Args:
        parameters: A tree of arrays.
    """
    for path, leaf in jax.tree_util.tree_flatten_with_path(parameters)[0]:
        dtype = jnp.result_type(leaf)
        if not jnp.issubdtype(dtype, jnp.floating):
            raise ValueError(
                f"parameters{jax.tree_util.keystr(path)} has dtype {dtype}, but it must have a real floating-point "
                "dtype such as float32: train complex parameters as their real and imaginary parts."
            )


def _in_micro_batches(size: int, array: jax.Array, fill: bool | None = None) -> jax.Array:
    """Return an array in micro-batches. The last one is filled up with the first row, or with `fill`."""
    first = array[:1] if fill is None else jnp.full_like(array[:1], fill)
    rows = jnp.concatenate([array, jnp.repeat(first, -len(array) % size, axis=0)])
    return rows.reshape(-1, size, *array.shape[1:])


def _factors(gradients: Tree, clip_norm: float, per_layer: bool) -> Tree:
    """Return, for each leaf, the factor by which to multiply the gradient of each example."""
    leaves, structure = jax.tree_util.tree_flatten_with_path(gradients)
    layers = [jax.tree_util.keystr(path[:-1]) if per_layer else "" for path, _ in leaves]
    parts: dict[str, list[jax.Array]] = defaultdict(list)
    for layer, (_, leaf) in zip(layers, leaves, strict=True):
        parts[layer].append(leaf.reshape(len(leaf), -1))
    most = (1 - CLIP_MARGIN) * clip_norm / len(parts) ** 0.5
    factors = {layer: most / jnp.maximum(norms_of(rows), most) for layer, rows in parts.items()}
    return jax.tree.unflatten(structure, [factors[layer] for layer in layers])


def norms_of(parts: list[jax.Array]) -> jax.Array:
    """Return the norm of each row over several matrices.

    A sum of squares in single precision loses the small entries of a long row. So norms are taken of short pieces, then
    of pieces of these norms, until one norm remains: at least once, because the norm of one number is its size.

    Args:
        parts: Matrices with one row for each example.

    >>> row = np.full((1, 1 << 20), 2.43e-4, dtype=np.float32)
    >>> row[0, :8] = 1.0
    >>> round(float(norms_of([jnp.asarray(row)])[0]) / float(np.linalg.norm(row.astype(np.float64))), 5)
    1.0
    """
    norms = jnp.concatenate([_norms_of_pieces(rows) for rows in parts], axis=1)
    while norms.shape[1] > 1:
        norms = _norms_of_pieces(norms)
    return norms[:, 0]


def _norms_of_pieces(rows: jax.Array) -> jax.Array:
    pieces = -(-rows.shape[1] // _PIECE_ENTRIES)
    padded_rows = jnp.pad(rows, ((0, 0), (0, pieces * _PIECE_ENTRIES - rows.shape[1])))
    return jnp.sqrt(jnp.sum(jnp.square(padded_rows.reshape(len(rows), pieces, _PIECE_ENTRIES)), axis=2))


def _at_least_single(array: jax.Array) -> jax.Array:
    return array.astype(jnp.promote_types(array.dtype, jnp.float32))
