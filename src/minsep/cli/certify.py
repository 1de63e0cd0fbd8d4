"""`minsep certify`, `calibrate`, `verify`, `delta` and `epsilon`: how private a mechanism is."""

from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.options import (
    Delta,
    Epsilon,
    Json,
    NoiseMultiplier,
    Output,
    Setting,
    Test,
    Work,
    Workers,
    budget_checks,
    command,
)
from minsep.cli.output import print_json, print_table, save
from minsep.cli.progress import Bar

REFUSED = 1


@command
def certify(
    setting: Setting,
    noise_multiplier: NoiseMultiplier,
    epsilon: Epsilon,
    delta: Delta,
    work: Work,
    test: Test = "betting",
    output: Output = None,
    json: Json = False,
) -> None:
    """Test whether a mechanism is (epsilon, delta)-DP, and write the certificate. Exit 0: passed, 1: refused.

    Example: `minsep certify --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 2
    --epsilon 4 --delta 1e-5`
    """
    import minsep

    checks = [*budget_checks(epsilon=epsilon, delta=delta), *work.check()]
    mechanism = setting.mechanism(noise_multiplier, *checks)
    with Bar() as bar:
        certificate = minsep.certify(
            mechanism,
            epsilon,
            delta,
            test=test,
            seed=work.seed,
            workers=work.workers,
            progress=lambda state: bar.show_test(noise_multiplier, state),
        )
    _report(certificate, output, json)


@command
def calibrate(
    setting: Setting,
    epsilon: Epsilon,
    delta: Delta,
    work: Work,
    test: Test = "betting",
    output: Output = None,
    json: Json = False,
) -> None:
    """Find the smallest noise multiplier that is certified as (epsilon, delta)-DP, and write its certificate.

    Example: `minsep calibrate --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --epsilon 4 --delta 1e-5`
    """
    import minsep

    start = setting.mechanism(1.0, *budget_checks(epsilon=epsilon, delta=delta), *work.check())
    with Bar() as bar:
        found = minsep.calibrate(
            start.strategy,
            start.scheme,
            epsilon,
            delta,
            start.truncation,
            test=test,
            seed=work.seed,
            workers=work.workers,
            progress=bar.show_test,
        )
    _report(found.certificate, output, json)


def verify(
    certificate: Annotated[Path, typer.Argument(help="A certificate, as `minsep certify -o` writes it.")],
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Check a certificate by drawing its samples again. Exit 0: it holds, 1: it does not.

    Example: `minsep verify certificate.json`
    """
    import minsep

    result = minsep.verify(minsep.Certificate.load(certificate), workers=workers)
    if json:
        print_json({"holds": result.holds, "reason": result.reason})
    else:
        print(result.reason)
    if not result.holds:
        raise typer.Exit(REFUSED)


@command
def delta(
    setting: Setting, noise_multiplier: NoiseMultiplier, epsilon: Epsilon, work: Work, json: Json = False
) -> None:
    """Estimate delta at an epsilon: an estimate, not a guarantee.

    Example: `minsep delta --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 2
    --epsilon 4`
    """
    import minsep

    mechanism = setting.mechanism(noise_multiplier, *budget_checks(epsilon=epsilon), *work.check())
    _print_estimate("delta", minsep.estimate_delta(mechanism, epsilon, seed=work.seed or 0, workers=work.workers), json)


@command
def epsilon(setting: Setting, noise_multiplier: NoiseMultiplier, delta: Delta, work: Work, json: Json = False) -> None:
    """Estimate epsilon at a delta: an estimate, not a guarantee.

    Example: `minsep epsilon --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 2
    --delta 1e-5`
    """
    import minsep

    mechanism = setting.mechanism(noise_multiplier, *budget_checks(delta=delta), *work.check())
    _print_estimate(
        "epsilon", minsep.estimate_epsilon(mechanism, delta, seed=work.seed or 0, workers=work.workers), json
    )


def proof_rows(certificate: Any) -> dict[str, str]:
    """Return how each direction was proven, in words."""
    rows = {}
    for proof in certificate.proofs:
        how = proof.method
        if proof.method == "tilted":
            how += f", {proof.copies} copies, scale {proof.scale:.3g}"
        if proof.method in ("tilted", "shifted", "convexity"):
            how += f", bound {proof.bound:.3g}"
        if proof.samples:
            how += f", {proof.samples:,} samples"
        rows[proof.direction] = f"{'passed' if proof.passed else 'refused'} ({how})"
    return rows


def _report(certificate: Any, output: Path | None, json: bool) -> None:
    if output is not None:
        save(output, certificate.to_json() + "\n")
    if json:
        print(certificate.to_json())
    else:
        rows = {"Noise multiplier": f"{certificate.mechanism['noise_multiplier']:.5g}"} | proof_rows(certificate)
        rows["Certified"] = "yes" if certificate.passed else "no"
        if output is not None:
            rows["Written to"] = str(output)
        print_table(f"({certificate.epsilon:g}, {certificate.delta:g})-DP", rows)
        print(certificate.statement)
    if not certificate.passed:
        raise typer.Exit(REFUSED)


def _print_estimate(name: str, estimate: Any, json: bool) -> None:
    if json:
        fields = ("value", "stderr", "direction", "method", "samples", "remove", "add", "upper_bound")
        print_json({field: getattr(estimate, field) for field in fields})
    else:
        print(f"{name}: {estimate}")
