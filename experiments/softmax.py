"""Private training of a linear classifier, several settings at once: batches and noise are shared, weights are not.

For a linear model the gradient of an example is an outer product of its features and its errors, so norms and clipped
sums are products of matrices. The tests compare the weights with those of `minsep.training.torch.PrivateTraining`.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from experiments.schedule import linear_decay

MOMENTUM, SECOND, STABILITY, ADAM_STABILITY = 0.9, 0.999, 1e-3, 1e-8


@dataclass(frozen=True)
class Tuning:
    """What is chosen on data kept aside: an optimiser, its learning rate, and the clip norm.

    - `optimiser` is "sgd", with momentum 0.9, or "adam", with gradients that are scaled before they are clipped.
    - `decay` says whether the learning rate decreases linearly to a twentieth, from a quarter to three quarters of the
      run, or is constant.
    """

    optimiser: Literal["sgd", "adam"]
    learning_rate: float
    clip_norm: float
    decay: bool = False


def train(
    features: Any,
    targets: np.ndarray,
    classes: int,
    batches: Iterable[np.ndarray],
    noise: Iterator[np.ndarray],
    iterations: int,
    expected_batch: float,
    tunings: list[Tuning],
) -> np.ndarray:
    """Return the weights of all settings, an array of settings x features x classes.

    - `features`: dense or sparse rows, the last column of which is one.
    - `batches`: rows of indices.
    - `noise`: rows of C^-1 Z in the order of `torch.nn.Linear`: weights, then biases.
    - `tunings`: settings of one optimiser.
    """
    (optimiser,) = {one.optimiser for one in tunings}
    width, count = features.shape[1], len(tunings)
    shape = (width, count, classes)
    clips = np.array([one.clip_norm for one in tunings], dtype=np.float32)
    rates = np.array([one.learning_rate for one in tunings], dtype=np.float32)
    decays = np.array([one.decay for one in tunings])
    schedule = linear_decay(iterations)
    weights, mean = np.zeros(shape, dtype=np.float32), np.zeros(shape, dtype=np.float32)
    second = np.zeros(shape, dtype=np.float32)
    for step, (indices, row) in enumerate(zip(batches, noise, strict=True)):
        some, wanted = features[indices], targets[indices]
        errors = _softmax((some @ weights.reshape(width, -1)).reshape(-1, count, classes))
        errors[np.arange(len(wanted)), :, wanted] -= 1
        in_rows = _by_feature(row, width, classes)[:, None, :] * clips[None, :, None]
        if optimiser == "adam":
            roots = np.sqrt(second) + np.float32(STABILITY)
            scaled = (_squares(some) @ (1 / roots.reshape(width, -1)) ** 2).reshape(errors.shape)
            norms = np.sqrt((errors**2 * scaled).sum(2))
            in_rows *= roots
        else:
            norms = np.sqrt((errors**2).sum(2)) * _norms(some)[:, None]
        errors *= np.minimum(1, clips / np.maximum(norms, 1e-30))[:, :, None]
        gradient = (some.T @ errors.reshape(len(wanted), -1)).reshape(shape) if len(wanted) else np.zeros(shape)
        gradient = ((gradient + in_rows) / expected_batch).astype(np.float32)
        now = rates * np.where(decays, schedule(step), 1.0).astype(np.float32)
        if optimiser == "adam":
            mean += (1 - MOMENTUM) * (gradient - mean)
            second += (1 - SECOND) * (gradient**2 - second)
            size = np.sqrt(second / (1 - SECOND ** (step + 1))) + ADAM_STABILITY
            weights -= now[None, :, None] / (1 - MOMENTUM ** (step + 1)) * mean / size
        else:
            mean = MOMENTUM * mean + gradient
            weights -= now[None, :, None] * mean
    return weights.transpose(1, 0, 2)


def evaluate(features: Any, targets: np.ndarray, weights: np.ndarray) -> list[dict[str, float]]:
    """Return the accuracy and the mean cross entropy of each setting; a loss that is not finite is counted as 1e9."""
    results = []
    for one in weights:
        outputs = np.asarray(features @ one, dtype=np.float64)
        outputs -= outputs.max(1, keepdims=True)
        losses = np.log(np.exp(outputs).sum(1)) - outputs[np.arange(len(targets)), targets]
        loss = float(losses.mean()) if np.isfinite(losses).all() else 1e9
        results.append({"accuracy": float((outputs.argmax(1) == targets).mean()), "loss": loss})
    return results


def _softmax(outputs: np.ndarray) -> np.ndarray:
    exponentials = np.exp(outputs - outputs.max(2, keepdims=True, initial=-np.inf))
    return exponentials / exponentials.sum(2, keepdims=True)


def _by_feature(row: np.ndarray, width: int, classes: int) -> np.ndarray:
    """Return a row of noise as features x classes: weights come class by class, and biases last."""
    weights, biases = np.split(row, [(width - 1) * classes])
    return np.vstack([weights.reshape(classes, width - 1).T, biases[None]])


def _squares(rows: Any) -> Any:
    return rows**2 if isinstance(rows, np.ndarray) else rows.power(2)


def _norms(rows: Any) -> np.ndarray:
    return np.sqrt(np.asarray(_squares(rows).sum(axis=1)).ravel())
