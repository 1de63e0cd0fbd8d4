"""How private a mechanism is: exact curves, likelihood ratios, estimates, certificates, calibration.

Planning, reports, training, audits and the command line may import only these names from here.
"""

from minsep.accounting.certification import (
    TESTS_OF_CHECKPOINT,
    Accepted,
    Calibration,
    Certificate,
    ChangedCertificateError,
    Promise,
    Prover,
    Rung,
    Verification,
    accept_certificate,
    calibrate,
    calibrate_exactly,
    certify,
    certify_by,
    certify_checkpoints,
    exact_mechanism,
    not_certified,
    rung_seed,
    verify,
)
from minsep.accounting.composition import Composition, CurveAccountant, CurveDpEvent, Part, check_runs, compose
from minsep.accounting.curves import (
    BinomialTrials,
    Curve,
    NegativeBinomial,
    PoissonTrials,
    Trials,
    mean_curve,
    trials_of,
)
from minsep.accounting.directions import DIRECTIONS, Direction
from minsep.accounting.estimation import (
    Estimate,
    PrivacyCurve,
    epsilon_at_least,
    estimate_delta,
    estimate_epsilon,
    estimated_noise_multiplier,
    privacy_curve,
)
from minsep.accounting.exact import IN_WORDS as METHODS_IN_WORDS
from minsep.accounting.exact import is_named, plain_event, read_event
from minsep.accounting.importance import Law
from minsep.accounting.pairs import ParticipationPair
from minsep.accounting.reduction import cost_of_cutting
from minsep.accounting.schemes import (
    SchemeAccounting,
    Support,
    fallback,
    has_exact_curve,
    has_pair,
    needs_samples,
    pair_of,
    supported,
)
from minsep.accounting.sequential import betting_verifier, fixed_sample_verifier

__all__ = [
    "DIRECTIONS",
    "METHODS_IN_WORDS",
    "TESTS_OF_CHECKPOINT",
    "Accepted",
    "BinomialTrials",
    "Calibration",
    "Certificate",
    "ChangedCertificateError",
    "Composition",
    "Curve",
    "CurveAccountant",
    "CurveDpEvent",
    "Direction",
    "Estimate",
    "Law",
    "NegativeBinomial",
    "Part",
    "ParticipationPair",
    "PoissonTrials",
    "PrivacyCurve",
    "Promise",
    "Prover",
    "Rung",
    "SchemeAccounting",
    "Support",
    "Trials",
    "Verification",
    "accept_certificate",
    "betting_verifier",
    "calibrate",
    "calibrate_exactly",
    "certify",
    "certify_by",
    "certify_checkpoints",
    "check_runs",
    "compose",
    "cost_of_cutting",
    "epsilon_at_least",
    "estimate_delta",
    "estimate_epsilon",
    "estimated_noise_multiplier",
    "exact_mechanism",
    "fallback",
    "fixed_sample_verifier",
    "has_exact_curve",
    "has_pair",
    "is_named",
    "mean_curve",
    "needs_samples",
    "not_certified",
    "pair_of",
    "plain_event",
    "privacy_curve",
    "read_event",
    "rung_seed",
    "supported",
    "trials_of",
    "verify",
]
