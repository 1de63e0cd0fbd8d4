"""`minsep certify`, `calibrate`, `verify`, `delta` and `epsilon`: how private a mechanism is."""

import json as json_module
import math
from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.checkpoints import Checkpoints, Stops
from minsep.cli.curves import WithCurve, check_law, curve_rows, tuning_rows
from minsep.cli.goal import REFUSED, Goal
from minsep.cli.options import (
    QUESTIONS,
    Cluster,
    Delta,
    Epsilon,
    Force,
    Journal,
    Json,
    ModelSize,
    NoiseMultiplier,
    Output,
    RecordedSetting,
    Setting,
    Work,
    Workers,
    budget_checks,
    command,
    option,
)
from minsep.cli.output import Files, print_json, print_table, print_training, say
from minsep.cli.progress import Bar
from minsep.core.budget import warn_of_delta
from minsep.core.files import write_whole
from minsep.planning.request import BUDGET

AlongsideFiles = Annotated[
    list[Path] | None,
    typer.Option(
        help="What else is released about the same data, such as a histogram: the budget is for all together. A file "
        "as `minsep certify --from` reads it; give several for several.",
        rich_help_panel=BUDGET,
    ),
]
_ADVICE_SAMPLES = 20_000


@command
def certify(
    setting: RecordedSetting,
    epsilon: Epsilon,
    delta: Delta,
    work: Work,
    curve: WithCurve = False,
    at: Checkpoints = None,
    alongside: AlongsideFiles = None,
    journal: Journal = None,
    model_size: ModelSize = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Test whether a mechanism is (epsilon, delta)-DP, and write the certificate. Exit 0: passed, 1: refused.

    Example: `minsep certify --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 2
    --epsilon 4 --delta 1e-5`, or `minsep certify --from history.json --epsilon 4 --delta 1e-5` for a run of Opacus,
    jax-privacy or dp_accounting
    """
    import minsep

    files = Files(output=output, journal=journal, force=force, keeps_certificate=not json)
    stops = Stops(at or [], output, force=force, kept=not json)
    checks = [*budget_checks(epsilon=epsilon, delta=delta), *work.check(), *files.checks(), *stops.checks()]
    record = None if setting.source is None else setting.record(*checks)
    mechanism = setting.mechanism(*checks) if record is None else record.mechanism
    if record is not None and mechanism is None:
        _check_without_samples(
            journal=journal, model_size=model_size, curve=curve or None, at=at or None, alongside=alongside or None
        )
        _report_together(record, epsilon, delta, Files(output=output, force=force), json)
        return
    with Bar() as bar:
        certificate = minsep.certify(
            mechanism,
            epsilon,
            delta,
            attempts=1 + stops.tests,
            seed=work.seed,
            model_size=model_size,
            num_examples=setting.examples,
            curve=curve,
            alongside=_runs_of(alongside),
            compute=work.compute,
            journal=journal,
            progress=bar.tell,
        )
        if not certificate.passed:
            bar.show("estimating delta")
        advice = "" if certificate.passed or alongside else _advice(mechanism, epsilon, delta)
        stopped = stops.certify(mechanism, certificate, model_size, work.compute, bar.tell)
    _report(certificate, files, json, stopped)
    if not json:
        stops.report(stopped, delta)
    if record is not None:
        say_assumptions(record, json, certificate.failure_probability if certificate.passed else 0.0)
    if advice:
        say(advice, to_error=json)
    _finish(certificate, files)


@command
def calibrate(
    setting: Setting,
    goal: Goal,
    work: Work,
    curve: WithCurve = False,
    trials: Annotated[float | None, option(QUESTIONS["trials"])] = None,
    law: Annotated[str | None, option(QUESTIONS["law"])] = None,
    alongside: AlongsideFiles = None,
    journal: Journal = None,
    model_size: ModelSize = None,
    output: Output = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Find the smallest noise multiplier that is certified as (epsilon, delta)-DP, and write its certificate.

    Example: `minsep calibrate --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --epsilon 4 --delta 1e-5`
    """
    import minsep

    files = Files(output=output, journal=journal, force=force, keeps_certificate=not json)
    design = setting.design(
        *goal.check(),
        lambda: goal.check_trials(trials),
        lambda: check_law(trials, law),
        *work.check(),
        *files.checks(),
    )
    budget = goal.budget()
    with Bar() as bar, goal.quiet():
        calibration = minsep.calibrate(
            design,
            epsilon=budget.epsilon,
            delta=budget.delta,
            seed=work.seed,
            model_size=model_size,
            num_examples=setting.examples,
            curve=curve or goal.needs_curve,
            trials=trials,
            law=law or "geometric",
            alongside=_runs_of(alongside),
            compute=work.compute,
            journal=journal,
            progress=bar.tell,
        )
    certificate = calibration.certificate
    if calibration.fallback:
        say(calibration.fallback, to_error=json)
    tuning = None
    if trials is not None and certificate.passed:
        tuning = minsep.TuningCertificate.of([certificate], trials=trials, law=law or "geometric", delta=budget.delta)
    _report(certificate, files, json, more=goal.rows(certificate) | tuning_rows(tuning))
    if tuning is not None:
        say(tuning.statement, to_error=json)
    if files.certificate is not None and certificate.passed and not json:
        from minsep.training.snippet import training_lines

        print_training(training_lines(setting.examples, setting.iterations, certificate=str(files.certificate)))
    _finish(certificate, files)
    goal.finish(certificate)


@command
def verify(
    certificate: Annotated[
        Path, typer.Argument(help="A certificate, as `minsep certify -o` or `minsep tune -o` writes it.")
    ],
    reproduce: Annotated[
        bool,
        typer.Option("--reproduce", help="Also repeat the prover, including its search, and require the same result."),
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    json: Json = False,
) -> None:
    """Check a certificate: rebuild its proofs and draw its samples again. Exit 0: it holds, 1: it does not.

    Example: `minsep verify certificate.json`
    """
    import minsep
    from minsep.accounting import ChangedCertificateError, read_certificate

    compute = minsep.Compute(workers=workers, cluster=cluster)
    with Bar(f"verifying {certificate}"):
        try:
            found = read_certificate(certificate)
            result = (
                minsep.verify(found, reproduce=reproduce, compute=compute)
                if isinstance(found, minsep.Certificate)
                else found.verify(reproduce=reproduce, compute=compute)
            )
        except ChangedCertificateError as error:
            result = minsep.Verification(False, str(error))
    caveats = [caveat.replace("reproduce=True", "--reproduce") for caveat in result.caveats]
    if json:
        print_json({"holds": result.holds, "reason": result.reason, "caveats": caveats})
    else:
        say("\n".join([result.reason, *caveats]))
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
    with Bar("estimating delta"):
        estimate = minsep.estimate_delta(mechanism, epsilon, seed=work.seed or 0, compute=work.compute)
    _print_estimate("delta", estimate, json)


@command
def epsilon(setting: Setting, noise_multiplier: NoiseMultiplier, delta: Delta, work: Work, json: Json = False) -> None:
    """Estimate epsilon at a delta: an estimate, not a guarantee.

    Example: `minsep epsilon --examples 60000 --batch-size 512 --iterations 2000 --bands 16 --noise-multiplier 2
    --delta 1e-5`
    """
    import minsep

    mechanism = setting.mechanism(noise_multiplier, *budget_checks(delta=delta), *work.check())
    warn_of_delta(delta, setting.examples)
    with Bar("estimating epsilon"):
        estimate = minsep.estimate_epsilon(mechanism, delta, seed=work.seed or 0, compute=work.compute)
    _print_estimate("epsilon", estimate, json)


def _runs_of(paths: list[Path] | None) -> list[Any]:
    """Return what files say was run beside a mechanism."""
    from minsep.reading import read_record

    return [run for path in paths or [] for run in read_record(path).runs]


def proof_rows(certificate: Any) -> dict[str, str]:
    """Return how each direction was proven, in words."""
    return {proof.direction: proof.summary() for proof in certificate.proofs}


def outcome_in_words(certificate: Any) -> str:
    """Return whether a mechanism is certified, and whether that rests on an assumption."""
    return ("CONDITIONAL, " if certificate.conditional else "") + ("yes" if certificate.passed else "no")


def _report(
    certificate: Any,
    files: Files,
    json: bool,
    stopped: dict[int, Any] | None = None,
    more: dict[str, str] | None = None,
) -> None:
    """Write and print a certificate; print all of it if it could not be written."""
    files.write_certificate(certificate)
    if json and stopped:
        content = {f"{end}": json_module.loads(one.to_json()) for end, one in stopped.items()}
        print_json({"certificate": json_module.loads(certificate.to_json()), "checkpoints": content})
        return
    if json:
        print(certificate.to_json())
        return
    mechanism = certificate.mechanism
    rows = {"Mechanism": mechanism.name, "Noise multiplier": f"{mechanism.noise_multiplier:.5g}"}
    rows |= proof_rows(certificate)
    rows["Certified"] = outcome_in_words(certificate)
    rows |= (more or {}) | curve_rows(certificate)
    print_table(f"({certificate.epsilon:g}, {certificate.delta:g})-DP", rows | files.rows())
    say(certificate.statement)
    if files.note:
        say(files.note)
    if files.failed:
        print(certificate.to_json())


def _finish(certificate: Any, files: Files) -> None:
    files.finish()
    if certificate.passed and certificate.conditional:
        say("CONDITIONAL: this certificate rests on an assumption that is not proven.", to_error=True)
    if not certificate.passed:
        raise typer.Exit(REFUSED)


def _check_without_samples(**options: Any) -> None:
    """Refuse options that are for a test of one mechanism."""
    for name, value in options.items():
        if value is not None:
            raise ValueError(f"{name} is {value}, but --from holds what is computed without samples: omit it.")


def _report_together(record: Any, epsilon: float, delta: float, files: Files, json: bool) -> None:
    """Print and write how private the runs of a record are together, and say whether that is within the budget."""
    import minsep

    with Bar("composing the runs"):
        result = minsep.compose(record.runs, delta)
    within = result.epsilon <= epsilon
    files.write("output", lambda path: write_whole(path, (result.to_json() + "\n").encode()))
    if json:
        print(result.to_json())
    else:
        rows = {"Runs": f"{len(record.runs)}", "Epsilon": f"{result.epsilon:.6g}", "Delta": f"{result.delta:g}"}
        rows["Within the budget"] = "yes" if within else "no"
        print_table(f"({epsilon:g}, {delta:g})-DP", rows | files.rows())
        say(result.statement)
    say_assumptions(record, json)
    files.finish()
    if not within:
        raise typer.Exit(REFUSED)


def say_assumptions(record: Any, json: bool, failure_probability: float = 0.0) -> None:
    """Say what a file of another library does not show."""
    sentences = list(record.assumptions)
    if failure_probability > 0:
        sentences.append(
            "The run comes after this certificate, and only because it passed. If the run is already done, there is a "
            f"chance of {failure_probability:.3g} that the certificate is wrong, and delta does not include it."
        )
    items = "\n".join(f"- {sentence}" for sentence in sentences)
    say(f"{record.name} was read as {record.words}. The result takes for granted:\n{items}", to_error=json)


def _advice(mechanism: Any, epsilon: float, delta: float) -> str:
    """Return, after a refusal, an estimate of delta and what to try."""
    import minsep

    try:
        estimate = minsep.estimate_delta(mechanism, epsilon, samples=_ADVICE_SAMPLES)
    except ValueError:
        return "Try a larger noise multiplier: `minsep calibrate` finds the smallest that is certified."
    if not estimate.resolved:
        return f"At epsilon {epsilon:g}, delta is {estimate}. `minsep calibrate` finds the noise that is certified."
    estimated = (
        f"At epsilon {epsilon:g}, delta is estimated at {estimate.value:.3g} (standard error {estimate.stderr:.2g})"
    )
    if estimate.value > delta:
        return (
            f"{estimated}, above {delta:g}. Try a larger noise multiplier or a larger epsilon: `minsep calibrate` "
            "finds the smallest noise multiplier that is certified."
        )
    return (
        f"{estimated}, which is not above {delta:g}: the test could not prove it. Try a noise multiplier that is a "
        "few percent larger, which needs fewer samples."
    )


def _print_estimate(name: str, estimate: Any, json: bool) -> None:
    if json:
        names = ("value", "stderr", "direction", "method", "samples", "remove", "remove_stderr", "add", "add_stderr")
        values = {name: getattr(estimate, name) for name in (*names, "upper_bound", "resolved", "bound")}
        print_json({name: None if value == math.inf else value for name, value in values.items()})
    else:
        print(f"{name}: {estimate}")
