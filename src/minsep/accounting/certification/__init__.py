"""Certificates: made by a prover, checked by a checker, and found for the least noise by calibration."""

from minsep.accounting.certification.acceptance import Accepted, accept_certificate
from minsep.accounting.certification.calibration import Calibration, Rung, calibrate, calibrate_exactly, rung_seed
from minsep.accounting.certification.certificate import Certificate, ChangedCertificateError
from minsep.accounting.certification.certify import certify, certify_by, not_certified
from minsep.accounting.certification.checkpoints import TESTS_OF_CHECKPOINT, certify_checkpoints
from minsep.accounting.certification.exact_noise import exact_mechanism
from minsep.accounting.certification.promise import Promise
from minsep.accounting.certification.prover import Prover
from minsep.accounting.certification.tuned_budget import TunedBudget
from minsep.accounting.certification.verification import Verification, verify

__all__ = [
    "TESTS_OF_CHECKPOINT",
    "Accepted",
    "Calibration",
    "Certificate",
    "ChangedCertificateError",
    "Promise",
    "Prover",
    "Rung",
    "TunedBudget",
    "Verification",
    "accept_certificate",
    "calibrate",
    "calibrate_exactly",
    "certify",
    "certify_by",
    "certify_checkpoints",
    "exact_mechanism",
    "not_certified",
    "rung_seed",
    "verify",
]
