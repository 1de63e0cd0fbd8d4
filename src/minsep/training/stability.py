"""When Adam by scale-then-privatize is stable: docs/adam.md has the proof."""

import math
import warnings

from minsep.mechanism import Mechanism


def largest_stable_clip_norm(mechanism: Mechanism, expected_batch: float) -> float:
    """Return the clip norm of scaled gradients up to which Adam's second moments do not feed on their own noise.

    Args:
        mechanism: The mechanism that provides the noise of a step.
        expected_batch: The divisor of the sums of gradients.

    >>> import minsep
    >>> identity = minsep.BandedToeplitz.identity(iterations=100)
    >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=2.0)
    >>> largest_stable_clip_norm(mechanism, expected_batch=256)
    128.0
    """
    return expected_batch / mechanism.step_noise


def warn_if_unstable(mechanism: Mechanism, clip_norm: float, expected_batch: float, decay: float | None = None) -> None:
    """Warn of a clip norm at which the second moments grow without bound.

    Args:
        mechanism: The mechanism that provides the noise of a step.
        clip_norm: Bound on the norm of scaled gradients.
        expected_batch: The divisor of the sums of gradients.
        decay: Adam's decay of the second moments, beta2, if it is known.
    """
    largest = largest_stable_clip_norm(mechanism, expected_batch)
    if clip_norm <= largest:
        return
    ratio = clip_norm / largest
    growth = ""
    if decay is not None:
        exponent = mechanism.iterations * math.log10(1 + (1 - decay) * (ratio**2 - 1))
        growth = f", by a factor of about 10^{exponent:.1f} over the run"
    warnings.warn(
        f"clip_norm is {clip_norm:g}, but with scaling it should be at most {largest:.3g} for this noise and batch: "
        f"the noise of a step is {ratio:.3g} times the scale of a coordinate, so Adam's second moments feed on their "
        f"own noise and grow{growth} (docs/adam.md).",
        stacklevel=3,
    )
