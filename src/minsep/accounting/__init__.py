"""How private a mechanism is: exact curves, likelihood ratios, estimates, certificates, calibration."""

from minsep.accounting.calibration import Calibration, calibrate
from minsep.accounting.certificates import Certificate
from minsep.accounting.certification import Verification, certify, verify
from minsep.accounting.estimates import Estimate, PrivacyCurve, estimate_delta, estimate_epsilon, privacy_curve

__all__ = [
    "Calibration",
    "Certificate",
    "Estimate",
    "PrivacyCurve",
    "Verification",
    "calibrate",
    "certify",
    "estimate_delta",
    "estimate_epsilon",
    "privacy_curve",
    "verify",
]
