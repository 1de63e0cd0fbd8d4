"""Training in JAX: batches and noise of a mechanism, clipped gradients, then an optax optimiser."""

import os
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
import optax

from minsep.core import validation as validate
from minsep.core.state import State
from minsep.mechanism import Mechanism
from minsep.training.base import Training
from minsep.training.jax.arrays import from_array, to_array
from minsep.training.jax.clipping import LossOfOne, Tree, check_parameters, clipped_gradient, filled_up
from minsep.training.jax.noise import flattened, size_of, unflattened
from minsep.training.randomness import refusing_shared_draws
from minsep.training.run import PrivateRun, in_turn, refuse_gradient
from minsep.training.stability import warn_if_unstable

if TYPE_CHECKING:
    from minsep.accounting import Accepted, Certificate
    from minsep.ledger import Ledger


class PrivateTraining(Training):
    """Parameters in private training: batches and noise of a mechanism, clipped gradients, then an optax optimiser.

    A step passes (sum of clipped gradients + clip norm * row of noise) / expected batch to the optimiser as the
    gradient, also for an empty batch. The noise is added on the host, as `minsep.release` does. The same seed gives the
    same batches and noise as `minsep.training.torch.PrivateTraining`.

    Args:
        parameters: A tree of arrays, the initial values.
        loss: The loss of one example.
        optimizer: Any gradient transformation of optax.
        mechanism: The mechanism that provides batches and noise.
        num_examples: Size of the dataset.
        clip_norm: Bound on the norm of the gradient of one example, over all parameters.
        expected_batch: The public divisor, never the actual batch size. None is the expected batch size of the sampling
            scheme.
        micro_batch: Number of examples whose gradients are in memory at once. Batches are padded to a multiple of it.
            If the last bits of gradients depend on the places of examples in a micro-batch of this size, minsep takes
            another size, with a warning.
        per_layer: Whether to clip each of K layers to `clip_norm / sqrt(K)`. Leaves of one parent in the tree are a
            layer.
        scale_stability: A stability that turns Adam into scale-then-privatize, as
            `minsep.training.torch.ScaleThenPrivatize` does. None leaves the gradients unscaled. A clip norm at which
            the second moments would feed on their own noise gives a warning that names the largest stable one.
        certificate: A certificate, which must be for this mechanism and must have passed. Both are read from it, not
            verified. None is a run without a certificate.
        verify: Whether to draw the samples of the certificate again, which takes as long as `minsep.verify`. A
            certificate that does not hold is refused.
        ledger: The ledger in which the run is booked, or its file. It is booked when everything else is in order and
            before the first batch is drawn; a run that would exceed the total raises `minsep.ledger.OverBudgetError`.
            It needs a certificate, which is verified first unless that was done already. None books nothing.
        seed: A seed that makes the run reproducible, and is as secret as the data. None takes a key from the operating
            system.

    Examples:
        >>> import minsep
        >>> inputs, targets = np.ones((500, 4), dtype=np.float32), np.ones(500, dtype=np.float32)
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=4)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=1.0)
        >>> trainer = PrivateTraining(
        ...     jnp.zeros(4), lambda weights, x, y: (weights @ x - y) ** 2, optax.sgd(0.1, momentum=0.95), mechanism,
        ...     num_examples=500, clip_norm=1.0,
        ... )
        >>> for indices in trainer.batches():
        ...     trainer.step(inputs[indices], targets[indices])
        >>> trainer.steps, trainer.parameters.shape
        (20, (4,))
    """

    _encode = staticmethod(to_array)
    _decode = staticmethod(from_array)

    def __init__(
        self,
        parameters: Tree,
        loss: LossOfOne,
        optimizer: optax.GradientTransformation,
        mechanism: Mechanism,
        *,
        num_examples: int,
        clip_norm: float,
        expected_batch: float | None = None,
        micro_batch: int = 64,
        per_layer: bool = False,
        scale_stability: float | None = None,
        certificate: "Certificate | Accepted | None" = None,
        verify: bool = False,
        ledger: "Ledger | str | os.PathLike[str] | None" = None,
        seed: int | None = None,
    ) -> None:
        self._run = PrivateRun(
            mechanism,
            num_examples=num_examples,
            clip_norm=clip_norm,
            expected_batch=expected_batch,
            certificate=certificate,
            verify=verify,
            ledger=ledger,
            seed=seed,
            size=size_of(parameters),
        )
        self._micro_batch = validate.integer(micro_batch=micro_batch, at_least=1)
        self._optimizer = optimizer
        self._stability = None if scale_stability is None else validate.real(scale_stability=scale_stability, above=0)
        self._per_layer = per_layer
        self._clipped = clipped_gradient(loss, self._run.clip_norm, micro_batch, per_layer)
        self.parameters = jax.tree.map(jnp.asarray, parameters)
        check_parameters(self.parameters)
        self._state = optimizer.init(self.parameters)
        if self._stability is not None:
            _second_moments(self._state)
            warn_if_unstable(mechanism, self._run.clip_norm, self._run.expected_batch)
        self._forms = _shapes(self.parameters)
        self._noise = mechanism.noise(size_of(self.parameters), seed=seed)
        self._sums, self._update = jax.jit(self._compiled_sums), jax.jit(self._compiled_update)
        self._in_ledger(self._run.book)  # last: what was refused before is not booked

    @in_turn
    def step(self, inputs: Tree, targets: Tree) -> None:
        """Train on the examples of the next batch: all of them, and no others.

        An error in the loss or the data leaves the step to be repeated, because nothing was released.

        Args:
            inputs: An array, or a tree of arrays. Their first dimension counts the examples, in the order of the batch.
            targets: An array, or a tree of arrays, with the same first dimension.
        """
        counts = {len(leaf) for leaf in jax.tree.leaves((inputs, targets))}
        if len(counts) != 1:
            raise ValueError(f"The examples have first dimensions {sorted(counts)}, but these must be equal.")
        (count,) = counts
        self._run.expect(count)
        if _shapes(self.parameters) != self._forms:
            raise RuntimeError(
                "The parameters have other shapes or dtypes than when the training was constructed: construct the "
                "training with their final form."
            )
        some = filled_up((inputs, targets), count, self._micro_batch)
        with refusing_shared_draws():
            sums = np.array(self._sums(self.parameters, self._state, *some))
        with self._run.step(count):
            if not np.isfinite(sums).all():
                sums.fill(0.0)
                raise refuse_gradient(self.steps + 1)
            self._noise.release_next(sums, self._run.clip_norm)
            gradient = (sums / self._run.expected_batch).astype(jax.dtypes.canonicalize_dtype(float))
            self.parameters, self._state = self._update(self.parameters, self._state, gradient)
        if jax.default_backend() != "cpu":  # where the host has cores to spare
            self._noise.prepare()

    def _content(self) -> State:
        return {"noise": self._noise.state_dict(), "leaves": jax.tree.leaves((self.parameters, self._state))}

    def _noise_position(self, content: State) -> int:
        return validate.integer(position=content["noise"].get("position"), at_least=0)

    def _restore(self, content: State) -> None:
        structure = jax.tree.structure((self.parameters, self._state))
        trees: tuple[Tree, Tree] = jax.tree.unflatten(structure, content["leaves"])
        if _shapes(trees) != _shapes((self.parameters, self._state)):
            raise ValueError("The checkpoint holds arrays of other shapes or dtypes than this training has.")
        self._noise.load_state_dict(content["noise"])
        self.parameters, self._state = trees

    def _identity(self) -> State:
        trees = self.parameters, self._state
        return self._run.identity(
            "training with jax",
            leaves=_shapes(trees),
            structure=str(jax.tree.structure(trees)),
            per_layer=self._per_layer,
            scale_stability=self._stability,
        )

    def _compiled_sums(self, parameters: Tree, state: Tree, inputs: Tree, targets: Tree, mask: jax.Array) -> jax.Array:
        """Return the sum of clipped gradients as one vector in double precision."""
        return flattened(self._clipped(parameters, inputs, targets, mask, self._scales(state)))

    def _compiled_update(self, parameters: Tree, state: Tree, noisy: jax.Array) -> tuple[Tree, Tree]:
        """Return parameters and state of the optimiser after a step with a noisy gradient."""
        gradient, scales = unflattened(noisy, parameters), self._scales(state)
        if scales is not None:
            gradient = jax.tree.map(jnp.divide, gradient, scales)
        gradient = jax.tree.map(lambda value, parameter: value.astype(parameter.dtype), gradient, parameters)
        updates, state = self._optimizer.update(gradient, state, parameters)
        return optax.apply_updates(parameters, updates), state

    def _scales(self, state: Tree) -> Tree | None:
        stability = self._stability
        if stability is None:
            return None
        return jax.tree.map(lambda moment: 1 / (jnp.sqrt(moment) + stability), _second_moments(state))


def _shapes(trees: Tree) -> list[list[Any]]:
    return [[list(np.shape(leaf)), str(jnp.result_type(leaf))] for leaf in jax.tree.leaves(trees)]


def _second_moments(state: Tree) -> Tree:
    moments = optax.tree_utils.tree_get(state, "nu")
    if moments is None:
        raise ValueError("optimizer has no second moments, but scale_stability needs them: use one such as optax.adam.")
    return moments
