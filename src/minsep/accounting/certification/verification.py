"""Checking certificates."""

import json
from dataclasses import dataclass, replace
from typing import Any

from minsep.accounting.certification.certificate import Certificate
from minsep.accounting.certification.certify import certify_by, with_curve
from minsep.accounting.certification.checker import check
from minsep.accounting.certification.errors import CheckError
from minsep.accounting.certification.promise import Promise
from minsep.accounting.certification.proofs import BoundProof, MomentProof, SampledProof, TangentProof
from minsep.accounting.certification.prover import Prover
from minsep.accounting.reduction import Alongside
from minsep.accounting.sequential import (
    BettingVerifier,
    FixedSampleVerifier,
    Verifier,
    betting_verifier,
    fixed_sample_verifier,
)
from minsep.core.budget import Budget
from minsep.core.validation import in_short, shortened
from minsep.engine import LOCAL, Compute

_INFORMATION = ("date", "versions", "passed", "conditional", "statement")
_SAME_DIGITS = 1e-6


@dataclass(frozen=True)
class Verification:
    """Whether a certificate holds.

    Attributes:
        holds: Whether it holds.
        reason: What was shown, or what is wrong, in words.
        caveats: What a computation cannot show about a certificate that holds.
    """

    holds: bool
    reason: str
    caveats: tuple[str, ...] = ()


def verify(
    certificate: Certificate, *, reproduce: bool = False, curve: bool = True, compute: Compute = LOCAL
) -> Verification:
    """Check a certificate: rebuild each proof from what it records, draw its samples again, and compare.

    It answers whatever the certificate holds: one that makes no sense does not hold, and the reason says why.

    Args:
        certificate: The certificate. Any version of minsep with the same format may have made it.
        reproduce: Whether to repeat the prover as well, with its search for a sampling distribution, and to require the
            same certificate. That takes longer, and may fail with a version whose prover chooses otherwise.
        curve: Whether to check its curve as well, if it has one. A run relies on the certified budget alone.
        compute: Where samples are drawn. It does not change the result.

    Returns:
        Whether the certificate holds, the reason, and what a computation cannot show about it.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=100)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-3)
        >>> verify(certificate).holds
        True
    """
    try:
        check(certificate, compute, curve=curve)
        if reproduce:
            _reproduce(certificate, compute)
    except CheckError as error:
        return Verification(False, f"The certificate does not hold: {shortened(str(error))}.")
    except Exception as error:  # whatever a forged number may lead to
        reason = shortened(str(error))
        return Verification(False, f"The certificate's mechanism or parameters are not valid: {reason}")
    # In the words of this version, whatever the file says.
    assumptions = certificate.mechanism.scheme.assumptions
    return Verification(True, replace(certificate, assumptions=assumptions).statement, _caveats(certificate, reproduce))


def _caveats(certificate: Certificate, reproduced: bool) -> tuple[str, ...]:
    """Return what was not shown, and cannot be by computing."""
    if certificate.samples == 0:
        return ()
    attempts = certificate.attempts
    mechanisms = "one mechanism" if attempts == 1 else f"{attempts} mechanisms"
    caveats = [f"Taken on trust: the prover drew its seed once, and tested no more than {mechanisms}."]
    if not reproduced:
        chosen = "sampling distributions" + (", and the epsilons of the curve," if certificate.curve_proof else "")
        caveats.append(f"Not checked: that {chosen} were fixed before sampling; use reproduce=True.")
    return tuple(caveats)


def _reproduce(certificate: Certificate, compute: Compute) -> None:
    """Repeat the prover, and compare all that it records."""
    mechanism = certificate.mechanism
    alongside = Alongside.read(certificate.alongside)
    prover = Prover(
        certificate.tested.epsilon, _verifier_of(certificate), certificate.memory, compute, alongside=alongside
    )
    add_proof = None
    match certificate.proofs[1]:
        case SampledProof(noise_multiplier=sigma, seed=seed) if (sigma, seed) != (
            mechanism.noise_multiplier,
            certificate.seed,
        ):
            add_proof = prover.prove(mechanism.with_noise_multiplier(sigma), "add", seed)
        case (
            TangentProof(noise_multiplier=sigma)
            | MomentProof(noise_multiplier=sigma)
            | BoundProof(noise_multiplier=sigma)
        ):
            add_proof = prover.prove(mechanism.with_noise_multiplier(sigma), "add", certificate.seed)
    promise = Promise(Budget(certificate.epsilon, certificate.delta), certificate.reserve)
    again = certify_by(prover, mechanism, promise, certificate.seed, add_proof, certificate.proofs[0].samples)
    curve = certificate.curve_proof
    if curve is not None:
        again = with_curve(again, prover, curve.seed, curve.attempts, curve.samples)
    again = replace(again, format=certificate.format, num_examples=certificate.num_examples)
    difference = _difference(json.loads(certificate.to_json()), json.loads(again.to_json()))
    if difference:
        made_by, here = certificate.versions.get("minsep"), again.versions["minsep"]
        versions = "" if made_by == here else f"; it was made by minsep {made_by}, and this is {here}"
        raise CheckError(f"the prover comes to another result: {difference}{versions}")


def _verifier_of(certificate: Certificate) -> Verifier:
    """Return the test that the prover was given."""
    delta, attempts = certificate.tested.delta, certificate.attempts
    match certificate.test:
        case BettingVerifier.kind:
            chance, curve = certificate.failure_probability, certificate.curve_proof
            share = 0.0 if curve is None or chance == 0 else curve.failure_probability * curve.attempts / chance
            return betting_verifier(
                delta, attempts, chance or None, certificate.max_samples, share_of_curve=min(share, 1.0)
            )
        case FixedSampleVerifier.kind:
            return fixed_sample_verifier(delta, attempts)
    raise CheckError(f"the test is {in_short(certificate.test)}, but should be 'betting' or 'fixed'")


def _difference(recorded: Any, found: Any, name: str = "") -> str:
    """Return the first thing that differs, up to rounding, or nothing."""
    if isinstance(recorded, dict) and isinstance(found, dict):
        keys = sorted(key for key in {*recorded, *found} if name or key not in _INFORMATION)
        parts = ((recorded.get(key), found.get(key), f"{name}.{key}") for key in keys)
        return next(filter(None, (_difference(*part) for part in parts)), "")
    if isinstance(recorded, list) and isinstance(found, list) and len(recorded) == len(found):
        places = enumerate(zip(recorded, found, strict=True))
        parts = ((first, second, f"{name}[{place}]") for place, (first, second) in places)
        return next(filter(None, (_difference(*part) for part in parts)), "")
    if isinstance(recorded, float) and isinstance(found, float | int) and _close(recorded, found):
        return ""
    return "" if recorded == found else f"{name[1:]} is {recorded!r}, but should be {found!r}"


def _close(recorded: float, found: float) -> bool:
    return abs(recorded - found) <= _SAME_DIGITS * max(abs(recorded), abs(found))
