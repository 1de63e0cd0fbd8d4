"""`minsep certify`, `calibrate`, `verify`, `delta` and `epsilon`: how private a mechanism is."""

import json as json_module
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.options import (
    Bands,
    BatchSize,
    Delta,
    Epsilon,
    Examples,
    Iterations,
    Json,
    MaxBatchSize,
    MinSep,
    NoiseMultiplier,
    Output,
    SchemeName,
    Seed,
    Workers,
)
from minsep.cli.output import print_json, print_table

REFUSED = 1


def certify(
    examples: Examples,
    batch_size: BatchSize,
    iterations: Iterations,
    noise_multiplier: NoiseMultiplier,
    epsilon: Epsilon,
    delta: Delta,
    bands: Bands = 1,
    min_sep: MinSep = None,
    scheme: SchemeName = "min-sep",
    max_batch_size: MaxBatchSize = None,
    seed: Seed = None,
    workers: Workers = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Test whether a mechanism is (epsilon, delta)-DP, and write the certificate. Exit 0: passed, 1: refused.

    Example: `minsep certify --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 1
    --epsilon 4 --delta 1e-5`
    """
    import minsep

    mechanism = _mechanism(examples, batch_size, iterations, bands, min_sep, scheme, max_batch_size, noise_multiplier)
    with _Bar() as bar:
        certificate = minsep.certify(
            mechanism,
            epsilon,
            delta,
            seed=seed,
            workers=workers,
            progress=lambda state: bar.show(noise_multiplier, state),
        )
    _report(certificate, output, json)


def calibrate(
    examples: Examples,
    batch_size: BatchSize,
    iterations: Iterations,
    epsilon: Epsilon,
    delta: Delta,
    bands: Bands = 1,
    min_sep: MinSep = None,
    scheme: SchemeName = "min-sep",
    max_batch_size: MaxBatchSize = None,
    seed: Seed = None,
    workers: Workers = None,
    output: Output = None,
    json: Json = False,
) -> None:
    """Find the smallest noise multiplier that is certified as (epsilon, delta)-DP, and write its certificate.

    Example: `minsep calibrate --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --epsilon 4 --delta 1e-5`
    """
    import minsep

    start = _mechanism(examples, batch_size, iterations, bands, min_sep, scheme, max_batch_size, 1.0)
    with _Bar() as bar:
        found = minsep.calibrate(
            start.strategy,
            start.scheme,
            epsilon,
            delta,
            start.truncation,
            seed=seed,
            workers=workers,
            progress=bar.show,
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


def delta(
    examples: Examples,
    batch_size: BatchSize,
    iterations: Iterations,
    noise_multiplier: NoiseMultiplier,
    epsilon: Epsilon,
    bands: Bands = 1,
    min_sep: MinSep = None,
    scheme: SchemeName = "min-sep",
    max_batch_size: MaxBatchSize = None,
    seed: Seed = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Estimate delta at an epsilon: an estimate, not a guarantee.

    Example: `minsep delta --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 1
    --epsilon 4`
    """
    import minsep

    mechanism = _mechanism(examples, batch_size, iterations, bands, min_sep, scheme, max_batch_size, noise_multiplier)
    _print_estimate("delta", minsep.estimate_delta(mechanism, epsilon, seed=seed or 0, workers=workers), json)


def epsilon(
    examples: Examples,
    batch_size: BatchSize,
    iterations: Iterations,
    noise_multiplier: NoiseMultiplier,
    delta: Delta,
    bands: Bands = 1,
    min_sep: MinSep = None,
    scheme: SchemeName = "min-sep",
    max_batch_size: MaxBatchSize = None,
    seed: Seed = None,
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Estimate epsilon at a delta: an estimate, not a guarantee.

    Example: `minsep epsilon --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 1
    --delta 1e-5`
    """
    import minsep

    mechanism = _mechanism(examples, batch_size, iterations, bands, min_sep, scheme, max_batch_size, noise_multiplier)
    _print_estimate("epsilon", minsep.estimate_epsilon(mechanism, delta, seed=seed or 0, workers=workers), json)


def _mechanism(
    examples: int,
    batch_size: float,
    iterations: int,
    bands: int,
    min_sep: int | None,
    scheme: str,
    max_batch_size: int | None,
    noise_multiplier: float,
) -> Any:
    import minsep
    from minsep import _validation

    examples = _validation.integer(examples=examples, at_least=1)
    rate = batch_size / examples
    separation = bands if min_sep is None else min_sep
    truncation = None if max_batch_size is None else minsep.Truncation(max_batch_size, examples)
    choices: dict[str, Callable[[], Any]] = {
        "min-sep": lambda: minsep.MinSep(rate, separation),
        "cold-min-sep": lambda: minsep.MinSep(rate, separation, "cold"),
        "poisson": lambda: minsep.Poisson(rate),
        "cyclic-poisson": lambda: minsep.CyclicPoisson(rate, separation, "equal" if truncation else "random"),
        "balls-in-bins": lambda: minsep.BallsInBins(round(examples / batch_size)),
    }
    _validation.choice(choices, scheme=scheme)
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, choices[scheme](), noise_multiplier, truncation)


def _report(certificate: Any, output: Path | None, json: bool) -> None:
    if output is not None:
        certificate.save(output)
    if json:
        print(json_module.dumps(json_module.loads(certificate.to_json())))
    else:
        rows = {"Noise multiplier": f"{certificate.mechanism['noise_multiplier']:.5g}"}
        for proof in certificate.proofs:
            how = proof.method
            if proof.method == "tilted":
                how += f", {proof.copies} copies, scale {proof.scale:.3g}, bound {proof.bound:.3g}"
            if proof.samples:
                how += f", {proof.samples:,} samples"
            rows[proof.direction] = f"{'passed' if proof.passed else 'refused'} ({how})"
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


class _Bar:
    """Progress on standard error, when that is a terminal."""

    def __enter__(self) -> "_Bar":
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=not sys.stderr.isatty(),
            transient=True,
        )
        self._task = self._progress.add_task("", total=None)
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def show(self, noise_multiplier: float, state: Any) -> None:
        """Show the noise multiplier at hand, and how its test stands."""
        if state is None:
            self._progress.update(self._task, description=f"estimating at noise multiplier {noise_multiplier:.4f}")
            return
        wealth = f"{state.samples:,} samples, log-wealth {state.log_wealth:.1f} of {state.target:.1f}"
        self._progress.update(
            self._task,
            description=f"noise multiplier {noise_multiplier:.4f}, {state.direction}: {wealth}",
            completed=max(state.log_wealth, 0.0),
            total=state.target,
        )
