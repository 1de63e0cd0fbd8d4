"""Accounting without samples: closed forms and privacy loss distributions."""

from minsep.accounting.exact.curves import (
    IN_WORDS,
    DeltaCurve,
    ExactCurve,
    GaussianCurve,
    GaussianMixtureCurve,
    LargestCurve,
    spacing_for,
)
from minsep.accounting.exact.events import is_named, plain_event, read_event
from minsep.accounting.exact.pld import (
    Event,
    PldCurve,
    composed_curve,
    event_curve,
    poisson_curve,
    truncated_poisson_curve,
    user_poisson_curve,
)
from minsep.accounting.exact.sums import (
    Masses,
    connected_losses,
    gaussian_on_grid,
    losses_on_grid,
    on_coarser_grid,
    sum_of_losses,
)
from minsep.accounting.exact.user_norms import user_norm_law

__all__ = [
    "IN_WORDS",
    "DeltaCurve",
    "Event",
    "ExactCurve",
    "GaussianCurve",
    "GaussianMixtureCurve",
    "LargestCurve",
    "Masses",
    "PldCurve",
    "composed_curve",
    "connected_losses",
    "event_curve",
    "gaussian_on_grid",
    "is_named",
    "losses_on_grid",
    "on_coarser_grid",
    "plain_event",
    "poisson_curve",
    "read_event",
    "spacing_for",
    "sum_of_losses",
    "truncated_poisson_curve",
    "user_norm_law",
    "user_poisson_curve",
]
