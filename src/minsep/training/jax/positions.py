"""Whether the bits of an example's gradient depend on its position in a micro-batch, and a size at which they do not.

As `minsep.training.torch.positions`: made-up examples are run at two positions each, when a function is traced. The
choice is a function of shapes and dtypes alone, so no example can change how others are rounded.
"""

import warnings
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from numpy.typing import NDArray

Tree = Any

_DRAWS = 8
_LOOPS = 2  # micro-batches in a run: a loop of one is compiled in another way
_GOOD_SIZES = (8, 16, 32)  # and multiples
_KINDS = [(positive, integers) for positive in (False, True) for integers in ("bits", "ones", "zeros")]


class Positions:
    """Finds sizes of micro-batches at which the bits of a gradient do not depend on the position of its example.

    Args:
        loss: The loss of one example.
        micro_batch: The size that is preferred.
    """

    def __init__(self, loss: Callable[..., jax.Array], micro_batch: int) -> None:
        self._loss, self._asked = loss, micro_batch
        self._sizes: dict[Any, int] = {}

    def size(self, parameters: Tree, inputs: Tree, targets: Tree) -> int:
        """Return the size for examples of these shapes, and warn if it is not the one that is preferred.

        Args:
            parameters: The parameters. Only shapes and dtypes matter, here and below.
            inputs: The inputs of a batch.
            targets: The targets of a batch.
        """
        if self._asked == 1:
            return 1
        of_parameters = jax.tree.map(lambda leaf: _Form(jnp.shape(leaf), jnp.result_type(leaf)), parameters)
        of_examples = jax.tree.map(lambda leaf: _Form(jnp.shape(leaf)[1:], leaf.dtype), (inputs, targets))
        leaves, structure = jax.tree.flatten((of_parameters, of_examples))
        key = (structure, *((leaf.shape, str(leaf.dtype)) for leaf in leaves), jnp.result_type(float))
        if key not in self._sizes:
            # These run now, also where a function that contains them is being traced.
            with jax.ensure_compile_time_eval():
                self._sizes[key] = self._found(of_parameters, of_examples)
        return self._sizes[key]

    def _found(self, parameters: Tree, examples: Tree) -> int:
        for size in _candidates(self._asked):
            compiled = jax.jit(partial(_gradients, self._loss))
            kind = next((kind for kind in _KINDS if _is_usable(compiled, kind, size, parameters, examples)), None)
            if kind is None:
                warnings.warn(
                    "minsep takes examples one by one, which is slower. To see whether gradients depend on the places "
                    "of examples in a micro-batch, it runs made-up examples, whose gradients are zero or not finite.",
                    stacklevel=2,
                )
                return 1
            if size == 1 or all(_agrees(compiled, kind, draw, size, parameters, examples) for draw in range(_DRAWS)):
                if size != self._asked:
                    what = "one by one, which is slower" if size == 1 else f"{size} at a time"
                    warnings.warn(
                        "On this processor, the last bits of gradients depend on the places of examples in a "
                        f"micro-batch of {self._asked}, so that one could affect others. minsep takes examples {what}.",
                        stacklevel=2,
                    )
                return size
        raise AssertionError("A micro-batch of one has a single position.")


class _Form:
    """Shape and dtype of an array, as a leaf of a tree."""

    def __init__(self, shape: tuple[int, ...], dtype: Any) -> None:
        self.shape, self.dtype = shape, dtype


def _candidates(asked: int) -> Iterator[int]:
    larger = dict.fromkeys(-(-asked // good) * good for good in _GOOD_SIZES)
    yield from (asked, *(size for size in larger if asked < size <= 2 * asked))
    yield from (1 << exponent for exponent in reversed(range((asked - 1).bit_length())))


def _gradients(loss: Callable[..., jax.Array], parameters: Tree, inputs: Tree, targets: Tree) -> tuple[Any, Any]:
    """Return losses and gradients of examples, of which the second dimension counts those of a micro-batch."""
    both = jax.vmap(jax.value_and_grad(loss), in_axes=(None, 0, 0))
    found: tuple[Any, Any] = jax.lax.scan(lambda _, some: (None, both(parameters, *some)), None, (inputs, targets))[1]
    return found


def _is_usable(compiled: Any, kind: tuple[bool, str], size: int, parameters: Tree, examples: Tree) -> bool:
    """Return whether gradients of made-up examples are finite and not all zero."""
    leaves = [
        np.asarray(leaf, np.float64)
        for leaf in jax.tree.leaves(compiled(*_made_up(kind, 0, size, parameters, examples)))
    ]
    return all(bool(np.isfinite(leaf).all()) for leaf in leaves) and any(bool(leaf.any()) for leaf in leaves[1:])


def _agrees(compiled: Any, kind: tuple[bool, str], draw: int, size: int, parameters: Tree, examples: Tree) -> bool:
    """Return whether made-up examples have the same losses and gradients, bit by bit, at two positions each."""
    shift = size // 2 if draw % 2 else 1
    weights, *here = _made_up(kind, draw, size, parameters, examples)
    there = jax.tree.map(lambda array: np.roll(array, shift, axis=1), here)
    pairs = zip(*(jax.tree.leaves(compiled(weights, *some)) for some in (here, there)), strict=True)
    return all(np.array_equal(np.asarray(one), np.roll(np.asarray(other), -shift, axis=1)) for one, other in pairs)


def _made_up(kind: tuple[bool, str], draw: int, size: int, parameters: Tree, examples: Tree) -> tuple[Any, Any, Any]:
    """Return made-up parameters, of a scale at which layers keep the size of what they are given, and examples."""
    random = np.random.default_rng(draw)

    def of_parameter(form: _Form) -> NDArray[Any]:
        columns = int(np.prod(form.shape[1:], dtype=np.int64))
        return _values(random, kind, form.shape, form.dtype, max(columns, 1) ** -0.5)

    def of_examples(form: _Form) -> NDArray[Any]:
        return _values(random, kind, (_LOOPS, size, *form.shape), form.dtype, 1.0)

    return jax.tree.map(of_parameter, parameters), *(jax.tree.map(of_examples, tree) for tree in examples)


def _values(
    random: np.random.Generator, kind: tuple[bool, str], shape: tuple[int, ...], dtype: Any, scale: float
) -> NDArray[Any]:
    positive, integers = kind
    if jnp.issubdtype(dtype, jnp.inexact):
        values = random.random(shape) if positive else random.standard_normal(shape)
        return np.asarray(scale * values).astype(dtype)
    if integers == "bits":
        return random.integers(2, size=shape).astype(dtype)
    return np.full(shape, integers == "ones", dtype)
