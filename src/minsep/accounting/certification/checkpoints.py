"""What a run has cost at iterations at which it may stop."""

import math
from collections.abc import Sequence
from dataclasses import replace

from minsep.accounting.certification.calibration import rung_seed
from minsep.accounting.certification.certificate import Certificate
from minsep.accounting.certification.certify import certify
from minsep.accounting.estimation import estimate_epsilon
from minsep.core import validation as validate
from minsep.core.budget import check_delta
from minsep.core.progress import Listener, Progress
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism

_MARGINS = (0.02, 0.06, 0.2)  # of a tested epsilon above the estimate, until one passes
TESTS_OF_CHECKPOINT = len(_MARGINS)
"""The most mechanisms that are tested for a checkpoint."""

_SHARE_OF_LEVEL = 0.98  # the level of a test is about 0.99 delta
_SMALL_EPSILON = 0.2
_ESTIMATE_SAMPLES = 40_000
_ESTIMATE_SEED = int.from_bytes(b"minsep checkpoints", "big")  # fixed: what is tested does not depend on the seed


def certify_checkpoints(
    mechanism: Mechanism,
    checkpoints: Sequence[int],
    delta: float,
    *,
    attempts: int = 0,
    seed: int | None = None,
    model_size: int | None = None,
    num_examples: int | None = None,
    compute: Compute = LOCAL,
    progress: Listener | None = None,
) -> dict[int, Certificate]:
    """Certify what a run costs that stops at checkpoints: one certificate with a curve for each.

    - Each certificate is for `mechanism.prefix(checkpoint)`. Its epsilon is an estimate and a small margin, and
      `.curve.epsilon(delta)` is the least epsilon that it proves: what stopping there costs.
    - A stopped run may rely on the certificate of a checkpoint only if stopping there was decided before the run, or by
      something public: not by the run's own outputs, such as its loss on private data.
    - All tests share the chance of an error, so it does not matter which of the certificates is relied on.

    Args:
        mechanism: The mechanism of the whole run.
        checkpoints: The numbers of iterations after which the run may stop.
        delta: The delta of each certificate.
        attempts: The number of other mechanisms that are tested beside, such as one for the whole run.
        seed: As for `certify`.
        model_size: As for `certify`.
        num_examples: As for `certify`.
        compute: As for `certify`.
        progress: As for `certify`.

    Returns:
        The certificates by checkpoint. One that did not pass says so.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
        >>> found = minsep.certify_checkpoints(mechanism, [250, 500, 1000], delta=1e-5)
        >>> {checkpoint: round(one.curve.epsilon(1e-5), 2) for checkpoint, one in found.items()}
        {250: 0.99, 500: 1.33, 1000: 1.83}
    """
    delta = check_delta(delta)
    attempts = validate.integer(attempts=attempts, at_least=0)
    ends = [validate.integer(checkpoints=end, at_least=1, at_most=mechanism.iterations) for end in checkpoints]
    if not ends or len(set(ends)) < len(ends):
        raise ValueError(f"checkpoints is {checkpoints!r}, but it must be one or more different numbers of iterations.")
    prefixes = {end: mechanism.prefix(end) for end in sorted(ends)}
    tests = attempts + TESTS_OF_CHECKPOINT * len(prefixes)
    found: dict[int, Certificate] = {}
    for place, (end, prefix) in enumerate(prefixes.items()):

        def tell(event: Progress, end: int = end) -> None:
            if progress is not None:
                progress(replace(event, detail=f"{end:,} iterations: {event.detail}"))

        level = _SHARE_OF_LEVEL * delta
        estimate = estimate_epsilon(prefix, level, samples=_ESTIMATE_SAMPLES, seed=_ESTIMATE_SEED, compute=compute)
        for rung, margin in enumerate(_MARGINS):
            found[end] = certify(
                prefix,
                _above(estimate.value, margin),
                delta,
                attempts=tests,
                seed=None if seed is None else rung_seed(seed, TESTS_OF_CHECKPOINT * place + rung),
                model_size=model_size,
                num_examples=num_examples,
                curve=True,
                compute=compute,
                progress=tell,
            )
            if found[end].passed:
                break
    return found


def _above(epsilon: float, margin: float) -> float:
    """Return an epsilon above an estimate, with two digits more than the margin needs."""
    raised = epsilon + margin * max(epsilon, _SMALL_EPSILON)
    digits = 4 - math.floor(math.log10(raised))
    return math.ceil(raised * 10.0**digits) / 10.0**digits
