"""Which runs may be taken together: what holds, and is about the same examples."""

from collections.abc import Iterable, Sequence

from minsep.accounting.certification import Certificate
from minsep.accounting.certification import verify as check
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism


def check_runs(certificates: Sequence[Certificate], *, verify: bool, compute: Compute = LOCAL) -> None:
    """Refuse certificates of which one does not hold, or that are not about the same examples.

    Args:
        certificates: The certificates, each once.
        verify: Whether to verify them.
        compute: Where samples are drawn.
    """
    for certificate in certificates:
        check_alone(certificate, verify=verify, compute=compute)
    check_together(certificates, [one.mechanism for one in certificates], accept_other_num_examples=False)


def check_alone(certificate: Certificate, *, verify: bool, compute: Compute = LOCAL) -> None:
    """Refuse a certificate that did not pass, or does not hold.

    Args:
        certificate: The certificate.
        verify: Whether to verify it.
        compute: Where samples are drawn.
    """
    if not certificate.passed:
        raise ValueError(f"A certificate did not pass, so nothing follows from it. {certificate.statement}")
    if verify:
        result = check(certificate, compute=compute)
        if not result.holds:
            raise ValueError(result.reason)


def check_together(
    certificates: Sequence[Certificate], mechanisms: Sequence[Mechanism], *, accept_other_num_examples: bool
) -> None:
    """Refuse runs that are not about the same examples, or whose proofs share samples.

    Args:
        certificates: The certificates, each once.
        mechanisms: What is run, with a certificate or without.
        accept_other_num_examples: Whether runs may be for different numbers of examples.
    """
    units = sorted({one.scheme.unit for one in mechanisms})
    if len(units) > 1:
        raise ValueError(f"The runs protect different units ({', '.join(units)}), so they do not compose.")
    relations = sorted({one.adjacency for one in certificates})
    if len(relations) > 1:
        raise ValueError(
            f"The certificates are about different neighbours ({', '.join(relations)}), so they do not compose."
        )
    of_certificates = {one.num_examples for one in certificates}
    of_cuts = {None if one.truncation is None else one.truncation.num_examples for one in mechanisms}
    sizes = sorted({size for size in of_certificates | of_cuts if size is not None})
    if len(sizes) > 1 and not accept_other_num_examples:
        shown = " and ".join(f"{size:,}" for size in sizes[:3])
        raise ValueError(
            f"The runs are for {shown} examples, but runs compose on the same data: pass "
            "accept_other_num_examples=True if each of them protects the same examples."
        )
    sampled = [one.seed for one in certificates if one.samples > 0]
    if len(set(sampled)) < len(sampled):
        raise ValueError(
            "Two certificates were proven with samples of the same seed, so the second was not fixed before them: "
            "certify one of them again, without a seed."
        )


def each_once(certificates: Iterable[Certificate]) -> tuple[Certificate, ...]:
    """Return certificates without repetition.

    Args:
        certificates: The certificates.
    """
    return tuple({one.to_json(): one for one in certificates}.values())
