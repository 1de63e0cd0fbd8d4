"""Which mechanisms can be accounted for, and how: one file a scheme."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import DTypeLike

from minsep.accounting.exact import ExactCurve
from minsep.accounting.pairs import Pair
from minsep.accounting.schemes.base import SchemeAccounting, Support, accounting_of, supported
from minsep.core import validation as validate
from minsep.core.registry import load_variants
from minsep.mechanism import Design, Mechanism
from minsep.participation import MinSep, Scheme

__all__ = [
    "SchemeAccounting",
    "Support",
    "exact_curve",
    "exact_curve_carries",
    "fallback",
    "has_exact_curve",
    "has_pair",
    "min_sep_form",
    "needs_samples",
    "pair_of",
    "supported",
    "unsupported",
]

load_variants(__name__)

_LEAST_NOISE = 1e-6  # below it likelihood ratios are no numbers, and there is no privacy to account for
_ANY_NOISE = 1.0
_SPACING, _WIDE_SPACING = 1e-4, 0.1


def exact_curve(mechanism: Mechanism, spacing: float = _SPACING) -> ExactCurve | None:
    """Return the curve of a mechanism that needs no samples, or None.

    Args:
        spacing: The spacing of the privacy losses in a distribution. A wider one is quicker, and never too optimistic.
    """
    return accounting_of(mechanism.scheme).exact_curve(mechanism, mechanism.scheme, spacing)


def pair_of(mechanism: Mechanism, dtype: DTypeLike) -> Pair:
    """Return the dominating pair to sample from, with samples of a dtype."""
    validate.real(noise_multiplier=mechanism.noise_multiplier, above=_LEAST_NOISE)
    pair = accounting_of(mechanism.scheme).pair(mechanism, mechanism.scheme, dtype)
    if pair is None:
        raise unsupported(mechanism, "sampled")
    return pair


def has_exact_curve(design: Design) -> bool:
    """Whether a design needs no samples."""
    return _rough_curve(design) is not None


def exact_curve_carries(design: Design, delta: float) -> bool:
    """Whether a design has an exact curve that carries a delta."""
    curve = _rough_curve(design)
    return curve is not None and curve.carries(delta)


def _rough_curve(design: Design) -> ExactCurve | None:
    """Return the exact curve at some noise, with losses so wide apart that it takes no time."""
    return exact_curve(design.with_noise(_ANY_NOISE), _WIDE_SPACING)


def has_pair(design: Design) -> bool:
    """Whether there is a pair to sample from."""
    mechanism = design.with_noise(_ANY_NOISE)
    return accounting_of(design.scheme).pair(mechanism, design.scheme, np.float64) is not None


def needs_samples(kind: str) -> bool:
    """Whether plans estimate the noise of schemes of a kind from samples."""
    kinds: Mapping[str, type[SchemeAccounting[Any]]] = SchemeAccounting.variants()
    return kind not in kinds or kinds[kind].needs_samples


def min_sep_form(scheme: Scheme) -> MinSep | None:
    """Return a scheme as b-min-sep sampling, if it is."""
    return accounting_of(scheme).min_sep_form(scheme)


def fallback(design: Design, delta: float) -> Design:
    """Return a design with the same strategy and batch sizes that an exact curve covers, down to this delta."""
    covers = partial(exact_curve_carries, delta=delta)
    found = accounting_of(design.scheme).fallback(design, design.scheme, covers)
    if found is None:
        raise ValueError(
            f"scheme is {design.scheme!r} with {design.strategy.bands} bands and a truncation, but no deterministic "
            f"proof of delta {delta:g} is known for it: use a min_sep of at least the bands, a larger delta, or no "
            "truncation."
        )
    return found


def unsupported(mechanism: Mechanism, how: str) -> ValueError:
    """Return the error for a mechanism that cannot be accounted for in this way."""
    accounting = accounting_of(mechanism.scheme)
    if how == "sampled" and (obstacle := accounting.obstacle(mechanism, mechanism.scheme)):
        return ValueError(obstacle)
    parts = [repr(mechanism.strategy), repr(mechanism.scheme)]
    if mechanism.truncation is not None:
        parts.append(repr(mechanism.truncation))
    return ValueError(
        f"mechanism is {' with '.join(parts)}, but that has no {how} accounting; supported are: "
        + "; ".join(map(str, accounting.support or supported()))
        + "; truncated always means with the truncation's num_examples."
    )
