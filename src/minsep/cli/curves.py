"""What a curve says, as rows of a table."""

import math
from typing import Annotated, Any

import typer

from minsep.cli.help import WORK
from minsep.cli.output import print_grid
from minsep.planning.request import SEARCH

USUAL_SHARE = 0.1
"""The share of the best configurations, of all, that a table is about: one of the best tenth."""
_RATES = (0.001, 0.01, 0.1)
_RUNS = 10

_HELP = (
    "Prove delta at other epsilons as well: what attackers can do, and several runs together. It takes more samples, "
    "and the noise grows a little."
)
WithCurve = Annotated[bool, typer.Option("--curve", help=_HELP, rich_help_panel=WORK)]
WithOrWithoutCurve = Annotated[
    bool | None,
    typer.Option(
        "--curve/--no-curve",
        help=f"{_HELP} By default that is done for 500 to 3,000 iterations.",
        rich_help_panel=SEARCH,
    ),
]


def attacker_rows(curve: Any, rates: tuple[float, ...] = _RATES) -> dict[str, str]:
    """Return the most true positives of an attacker at rates of false positives."""
    return {
        f"True positives at {100 * rate:g} % false positives, at most": f"{_percent(curve.true_positives(rate))} %"
        for rate in rates
    }


def curve_rows(certificate: Any) -> dict[str, str]:
    """Return what the curve of a certificate says of attackers, other neighbours and more runs.

    A certificate that proves a single point has no such rows.
    """
    if not certificate.has_curve:
        return {}
    from minsep import compose

    curve, delta = certificate.curve, certificate.delta
    rows = attacker_rows(curve, rates=(0.01,))
    rows[f"Gaussian mu, up to epsilon {curve.mu_reach:.4g}"] = f"{_up(curve.mu)}"
    rows |= _replaced_rows(certificate)
    if _RUNS * delta < 1:
        together = compose([certificate] * _RUNS, _RUNS * delta)
        rows[f"{_RUNS} such runs"] = (
            f"({_up(together.epsilon)}, {together.delta:g})-DP; the sum is ({together.sum_of_epsilons:g}, "
            f"{together.delta:g})"
        )
    return rows


def tuning_rows(tuning: Any) -> dict[str, str]:
    """Return what is certified of the best of several runs."""
    if tuning is None:
        return {}
    return {f"The best of about {tuning.trials.mean:g} runs": f"{tuning.budget} ({tuning.trials.name}, certified)"}


def print_prices(curve: Any, delta: float, share: float, probability: float) -> None:
    """Print what each distribution of the number of runs costs, where all of them find as much."""
    from minsep.accounting import price_trials

    rows = [
        [one.law, f"{one.trials.mean:.3g}", f"{100 * one.few:.2g} %", f"{_up(one.epsilon)}"]
        for one in price_trials(curve, delta, share=share, probability=probability)
    ]
    title = f"To try one of the best {100 * share:g} % of configurations with probability {probability:.2g}"
    print_grid(title, ["distribution", "runs, on average", "at most two runs", f"epsilon at delta {delta:g}"], rows)


def check_law(trials: float | None, law: str | None) -> None:
    """Refuse a distribution of the number of runs where there is one run."""
    if law is not None and trials is None:
        raise ValueError(f"law is {law!r}, but --trials is missing: say about how many runs are tried.")


def _replaced_rows(certificate: Any) -> dict[str, str]:
    """Return what replacing one unit costs at delta, and at the delta that is proven where epsilon doubles."""
    replacing, words = certificate.curve.replacing(), f"If one {certificate.unit} replaces another"
    epsilon, delta = certificate.epsilon, certificate.delta
    doubled = (1 + math.exp(epsilon)) * delta
    rows = {}
    for name, each, instead in (
        (words, delta, ""),
        ("The same, where doubling epsilon leads", doubled, f"; doubled ({2 * epsilon:g}, {_up(doubled)})"),
    ):
        try:
            rows[name] = f"({_up(replacing.epsilon(each))}, {_up(each)})-DP{instead}"
        except ValueError:  # the proofs carry no delta that small, or it is above 1
            continue
    return rows


def _up(value: float) -> str:
    """Return a positive number with three digits, rounded up."""
    if value <= 0:
        return "0"
    step = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / step - 1e-9) * step:.3g}"


def _percent(rate: float) -> str:
    return f"{min(math.ceil(1e4 * rate) / 100, 100.0):g}"
