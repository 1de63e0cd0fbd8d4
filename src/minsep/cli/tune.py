"""`minsep tune`: what the best of several runs costs, and how many to try."""

from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.curves import USUAL_SHARE, check_law, print_prices
from minsep.cli.help import OUTPUT, WORK
from minsep.cli.options import QUESTIONS, Cluster, Force, Json, Workers, command, measuring, option
from minsep.cli.output import Files, print_json, print_table, say
from minsep.cli.progress import Bar
from minsep.planning.request import BUDGET

_USUAL_TRIALS = 10.0
_MOST_RELEASED = 1000


@command
def tune(
    certificates: Annotated[
        list[Path] | None,
        typer.Argument(
            help="The certificate of a run, or those of several configurations, of which each is as likely."
        ),
    ] = None,
    trials: Annotated[float | None, option(QUESTIONS["trials"])] = None,
    law: Annotated[str | None, option(QUESTIONS["law"])] = None,
    best: Annotated[
        float | None,
        measuring(
            "Instead of --trials: enough runs to try one of the best configurations, such as 0.1 for the best tenth.",
            rich_help_panel=BUDGET,
        ),
    ] = None,
    probability: Annotated[
        float | None,
        measuring("With --best: the probability that one of them is tried. Default: 0.5.", rich_help_panel=BUDGET),
    ] = None,
    delta: Annotated[
        float | None,
        measuring("Delta of the whole tuning (default: the largest certified delta).", rich_help_panel=BUDGET),
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not verify the certificates.", rich_help_panel=WORK)
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the certificate of the tuning to this file, for `minsep ledger` and `minsep compose`.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Say what trying several configurations costs, of which only the best run is released.

    `minsep.tune` runs them. The list of configurations and the distribution of the number of runs must be fixed
    beforehand, and the number of runs stays secret.

    Example: `minsep tune certificate.json --trials 10`, or `minsep tune certificate.json --best 0.1 --probability 0.5`
    """
    import minsep
    from minsep.core import validation as validate

    paths, files = certificates or [], Files(output=output, force=force)
    validate.all_of(
        lambda: _check(paths, trials, best, probability),
        lambda: check_law(_USUAL_TRIALS if best is not None else trials, law),
        *files.checks(),
    )
    with Bar("reading") as bar:
        read = [minsep.Certificate.load(path) for path in paths]
        bar.show("computing")
        whole = minsep.TuningCertificate.of(
            read, trials=_trials(read, trials, law, best, probability, delta), delta=delta
        )
        if not no_verify:
            bar.show("verifying")
            result = whole.verify(compute=minsep.Compute(workers=workers, cluster=cluster))
            if not result.holds:
                raise ValueError(result.reason)
        rows = _rows(whole, best or USUAL_SHARE)
    files.write("output", whole.save)
    if json:
        print_json(_as_data(whole, best or USUAL_SHARE))
    else:
        print_table(f"The best of about {whole.trials.mean:.4g} runs", rows | files.rows(output="Certificate"))
        share = best or USUAL_SHARE
        print_prices(whole.curve_of_a_run, whole.delta, share, whole.trials.success(share))
        say(whole.statement)
    files.finish()


def _trials(
    certificates: list[Any],
    trials: float | None,
    law: str | None,
    best: float | None,
    probability: float | None,
    delta: float | None,
) -> Any:
    """Return the distribution of the number of runs; among those that find what is wanted, the cheapest."""
    from minsep import TuningCertificate
    from minsep.accounting import price_trials, trials_of, trials_that_find

    if best is None:
        return trials_of(trials or _USUAL_TRIALS, law or "geometric")
    chance = 0.5 if probability is None else probability
    if law is not None:
        return trials_that_find(best, chance, law)
    first = TuningCertificate.of(certificates, delta=delta)
    return price_trials(first.curve_of_a_run, first.delta, share=best, probability=chance)[0].trials


def _check(paths: list[Path], trials: float | None, best: float | None, probability: float | None) -> None:
    if not paths:
        raise ValueError("certificates is empty: name the certificate of a run, such as `minsep calibrate` writes it.")
    if trials is not None and best is not None:
        raise ValueError(f"best is {best:g}, but --trials is {trials:g}: omit one.")
    if probability is not None and best is None:
        raise ValueError(f"probability is {probability:g}, but --best is missing: say which share of configurations.")


def _rows(whole: Any, share: float) -> dict[str, str]:
    alone, few = whole.curve_of_a_run.epsilon(whole.delta), whole.trials.at_most(2)
    rows = {
        "Distribution of the number of runs": whole.trials.name,
        "At most two runs": f"{100 * few:.2g} %",
        f"One of the best {100 * share:g} % is tried": f"{100 * whole.trials.success(share):.3g} %",
        f"Epsilon of one run, at delta {whole.delta:g}": f"{alone:.4g}",
        "Epsilon of the whole tuning": f"{whole.epsilon:g}",
    }
    return rows | _released(whole)


def _released(whole: Any) -> dict[str, str]:
    """Return what releasing all runs would cost, if there were as many as on average."""
    from minsep import compose

    count = round(whole.trials.mean)
    if not 1 < count <= _MOST_RELEASED or len(whole.certificates) > 1:
        return {}
    together = compose(list(whole.certificates) * count, min(whole.delta * count, 0.5), verify=False)
    try:
        epsilon = together.curve.epsilon(whole.delta)
    except ValueError:  # the proofs of so many carry no delta that small
        return {}
    return {f"Epsilon if all of {count} runs were released": f"{epsilon:.4g}"}


def _as_data(whole: Any, share: float) -> dict[str, Any]:
    from minsep.accounting import price_trials

    success = whole.trials.success(share)
    prices = price_trials(whole.curve_of_a_run, whole.delta, share=share, probability=success)
    return {
        "epsilon": whole.epsilon,
        "delta": whole.delta,
        "runs": whole.trials.mean,
        "law": whole.trials.name,
        "share": share,
        "success": success,
        "statement": whole.statement,
        "laws": [
            {"law": one.law, "runs": one.trials.mean, "epsilon": one.epsilon, "at_most_two": one.few} for one in prices
        ],
    }
