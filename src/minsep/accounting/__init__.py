"""How private a mechanism is: exact curves, likelihood ratios, estimates."""

from minsep.accounting.estimates import Estimate, PrivacyCurve, estimate_delta, estimate_epsilon, privacy_curve

__all__ = ["Estimate", "PrivacyCurve", "estimate_delta", "estimate_epsilon", "privacy_curve"]
