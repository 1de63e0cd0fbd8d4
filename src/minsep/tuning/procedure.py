"""Tuning that is paid for: docs/tuning.md has the theorem, and what has to stay secret."""

import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minsep.accounting import Certificate, Trials, TuningCertificate, accept_certificate
from minsep.core import validation as validate
from minsep.ledger import Ledger


@dataclass(frozen=True)
class Configuration:
    """One entry of the public list from which each trial draws.

    Args:
        settings: What `train` is given, such as a learning rate.
        certificate: The certificate of a run with these settings. Several configurations may share one.
        weight: How often it is drawn, relative to the others.
    """

    settings: Any
    certificate: Certificate
    weight: float = 1.0

    def __post_init__(self) -> None:
        if not isinstance(self.certificate, Certificate):
            raise ValueError(f"certificate is {self.certificate!r}, but it must be a minsep.Certificate.")
        object.__setattr__(self, "weight", validate.real(weight=self.weight, above=0))


@dataclass(frozen=True)
class Tuning:
    """The best run of a tuning, which may be released, and what all of it costs.

    It does not say how many runs there were, or anything about the others: that has to stay secret.

    Attributes:
        settings: The settings of the best run. None if no run succeeded.
        result: What `train` returned for it. None if no run succeeded.
        certificate: What is proven of the whole tuning.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=100)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=2.0)
        >>> certificate = minsep.certify(mechanism, epsilon=1.0, delta=1e-4)
        >>> best = tune(lambda one: "a model", [Configuration(0.1, certificate)], score=lambda model: 1.0)
        >>> best.settings, best.result
        (0.1, 'a model')
        >>> print(best.certificate.statement[:43])
        The best of about 10 runs (geometric) is (0
    """

    settings: Any
    result: Any
    certificate: TuningCertificate


def tune(
    train: Callable[[Configuration], Any],
    configurations: Sequence[Configuration],
    *,
    score: Callable[[Any], float],
    trials: float | Trials = 10,
    law: str = "geometric",
    delta: float | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    name: str = "",
    verify: bool = True,
    accept_assumption: bool = False,
) -> Tuning:
    """Run a secret, random number of trials, and return the best with what all of it costs.

    - Each trial draws its configuration at random, with replacement.
    - A trial that raises an error, or whose score is NaN or infinite, counts as one with the worst score. It is not
      repeated, and nothing is printed or written about it. So try `train` on public data first.
    - minsep keeps only the best result so far, in memory. `train` must write nothing that others can see: no
      checkpoints, logs or progress of single runs. The time that a tuning takes shows the number of trials.

    Args:
        train: A function that makes one run with a configuration and its certificate, with fresh noise and batches of
            its own, and returns all that would be released of it.
        configurations: The public list, which is fixed beforehand.
        score: A function of what a run returned, and of public data: the higher, the better.
        trials: The expected number of trials, or a distribution such as `minsep.accounting.NegativeBinomial`.
        law: The distribution of the number of trials, by name: "geometric", "logarithmic", "poisson" or "binomial".
        delta: The delta of the whole tuning. By default it is the largest certified one.
        ledger: The ledger in which the whole tuning is booked before its first run, or its file. A tuning that would
            exceed the total does not start. Do not book its runs as well.
        name: What the entry of the ledger is, in words.
        verify: Whether to verify the certificates first, with their curves.
        accept_assumption: Whether to accept certificates that rest on something that is not proven.

    Returns:
        The best run, and the certificate of the whole tuning.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=100)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=2.0)
        >>> certificate = minsep.certify(mechanism, epsilon=1.0, delta=1e-4)
        >>> rates = [Configuration(rate, certificate) for rate in (0.1, 0.2, 0.4)]
        >>> best = tune(lambda one: -abs(one.settings - 0.2), rates, score=lambda result: result, trials=100)
        >>> best.settings in (0.1, 0.2, 0.4)
        True
        >>> certificate.curve.epsilon(1e-4) < best.certificate.epsilon < 2.5 * certificate.curve.epsilon(1e-4)
        True
    """
    listed = list(configurations)
    if not listed or not all(isinstance(one, Configuration) for one in listed):
        raise ValueError("configurations is not a list of minsep.tuning.Configuration with at least one of them.")
    for argument, function in (("train", train), ("score", score)):
        if not callable(function):
            raise ValueError(f"{argument} is {function!r}, but it must be a function.")
    for one in {id(one.certificate): one.certificate for one in listed}.values():
        accept_certificate(one, verify=False, accept_assumption=accept_assumption)
    certificate = TuningCertificate.of(
        [one.certificate for one in listed],
        trials=trials,
        law=law,
        delta=delta,
        weights=[one.weight for one in listed],
    )
    if verify:
        result = certificate.verify()
        if not result.holds:
            raise ValueError(result.reason)
    if ledger is not None:
        book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
        book.add(certificate, name=name, verify=False)
    best = _best_of(train, listed, score, certificate.trials)
    settings, result_of_best = (None, None) if best is None else (best[0].settings, best[1])
    return Tuning(settings, result_of_best, certificate)


def _best_of(
    train: Callable[[Configuration], Any],
    configurations: list[Configuration],
    score: Callable[[Any], float],
    trials: Trials,
) -> tuple[Configuration, Any] | None:
    """Return the best trial; None if none succeeded."""
    generator = np.random.default_rng(secrets.randbits(256))
    ends = np.cumsum([one.weight for one in configurations])
    highest, best = -math.inf, None
    for _ in range(trials.draw(generator)):
        place = int(np.searchsorted(ends, generator.random() * ends[-1], side="right"))
        configuration = configurations[min(place, len(configurations) - 1)]
        try:
            result = train(configuration)
            value = score(result)
        except Exception:  # whatever a run may raise: to tell would tell how many there were
            continue
        found = _number(value)
        if found > highest:  # not a number is never the highest
            highest, best = found, (configuration, result)
    return best


def _number(value: Any) -> float:
    """Return a score; one that is no number at all is a mistake of the program."""
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise ValueError(f"score returned a {type(value).__name__}, but it must return one number.") from None
    return found if math.isfinite(found) else -math.inf
