"""Accounting of a fixed order: the Gaussian mechanism."""

from minsep.accounting.exact import ExactCurve, GaussianCurve
from minsep.accounting.schemes.base import SchemeAccounting, Support
from minsep.mechanism import Mechanism
from minsep.participation import Unamplified


class UnamplifiedAccounting(SchemeAccounting[Unamplified]):
    """C x is fixed, so this is the Gaussian mechanism with the strategy's sensitivity."""

    kind = Unamplified.kind
    needs_samples = False
    support = (Support("`Unamplified(min_sep, participations)`", "any strategy", exact="Gaussian mechanism, analytic"),)

    def exact_curve(self, mechanism: Mechanism, scheme: Unamplified, spacing: float) -> ExactCurve | None:
        """Return the curve of the Gaussian mechanism."""
        if mechanism.truncation is not None:
            return None
        strategy = mechanism.strategy
        sensitivity = strategy.sensitivity(scheme.min_sep, scheme.participations)
        exact = strategy.sensitivity_is_exact(scheme.min_sep)
        return GaussianCurve(sensitivity / mechanism.noise_multiplier, upper_bound=not exact)
