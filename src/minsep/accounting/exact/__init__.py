"""Accounting without samples: closed forms and privacy loss distributions."""

from minsep.accounting.exact.curves import (
    IN_WORDS,
    ExactCurve,
    GaussianCurve,
    GaussianMixtureCurve,
    LargestCurve,
    spacing_for,
)
from minsep.accounting.exact.pld import (
    Event,
    PldCurve,
    composed_curve,
    event_curve,
    poisson_curve,
    truncated_poisson_curve,
    user_poisson_curve,
)
from minsep.accounting.exact.user_norms import user_norm_law

__all__ = [
    "IN_WORDS",
    "Event",
    "ExactCurve",
    "GaussianCurve",
    "GaussianMixtureCurve",
    "LargestCurve",
    "PldCurve",
    "composed_curve",
    "event_curve",
    "poisson_curve",
    "spacing_for",
    "truncated_poisson_curve",
    "user_norm_law",
    "user_poisson_curve",
]
