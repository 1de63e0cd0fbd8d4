"""How private a mechanism is: exact curves, likelihood ratios, estimates, certificates, calibration.

Planning, reports, training, audits and the command line may import only these names from here.
"""

from minsep.accounting.certification import (
    Accepted,
    Calibration,
    Certificate,
    ChangedCertificateError,
    Prover,
    Rung,
    Verification,
    accept_certificate,
    calibrate,
    calibrate_exactly,
    certify,
    exact_mechanism,
    not_certified,
    verify,
)
from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.estimation import (
    Estimate,
    PrivacyCurve,
    estimate_delta,
    estimate_epsilon,
    estimated_noise_multiplier,
    privacy_curve,
)
from minsep.accounting.exact import IN_WORDS as METHODS_IN_WORDS
from minsep.accounting.importance import Law
from minsep.accounting.pairs import ParticipationPair
from minsep.accounting.reduction import cost_of_cutting
from minsep.accounting.schemes import (
    SchemeAccounting,
    Support,
    has_exact_curve,
    has_pair,
    pair_of,
    supported,
)
from minsep.accounting.sequential import verifier_for

__all__ = [
    "DIRECTIONS",
    "METHODS_IN_WORDS",
    "Accepted",
    "Calibration",
    "Certificate",
    "ChangedCertificateError",
    "Direction",
    "Estimate",
    "Law",
    "ParticipationPair",
    "PrivacyCurve",
    "Prover",
    "Rung",
    "SchemeAccounting",
    "Support",
    "Verification",
    "accept_certificate",
    "calibrate",
    "calibrate_exactly",
    "certify",
    "cost_of_cutting",
    "estimate_delta",
    "estimate_epsilon",
    "estimated_noise_multiplier",
    "exact_mechanism",
    "has_exact_curve",
    "has_pair",
    "not_certified",
    "pair_of",
    "privacy_curve",
    "supported",
    "verifier_for",
    "verify",
]
