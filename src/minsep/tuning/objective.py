"""Objectives as Optuna has them, tried with settings that are drawn at random and stored nowhere.

A study of Optuna keeps the score of every trial, and its samplers choose settings by earlier scores: both tell more
than the best trial does. So a run gets a trial of minsep, which has the methods of one of Optuna.
"""

import math
import os
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from minsep.accounting import Certificate, Trials
from minsep.core import validation as validate
from minsep.ledger import Ledger
from minsep.tuning.procedure import Configuration, Tuning, tune

DIRECTIONS = ("minimize", "maximize")


def tune_objective(
    objective: Callable[[Any], float],
    certificate: Certificate,
    *,
    direction: str = "minimize",
    trials: float | Trials = 10,
    law: str = "geometric",
    delta: float | None = None,
    ledger: Ledger | str | os.PathLike[str] | None = None,
    verify: bool = True,
    accept_assumption: bool = False,
) -> Tuning:
    """Run an objective of Optuna a secret, random number of times, and return the best with what all of it costs.

    - Each run draws its settings by `trial.suggest_float`, `trial.suggest_int` and `trial.suggest_categorical`, at
      random, whatever was tried before.
    - What would be released of a run is what the objective hands to `trial.set_user_attr`, such as the model.
    - No run is pruned, and what the objective reports is dropped. One that raises an error counts as the worst.

    Args:
        objective: The objective, which makes one run with the certificate and returns its score on public data.
        certificate: The certificate of every run. The settings that are tried may not change its mechanism.
        direction: "minimize" or "maximize" the score.
        trials: As for `minsep.tune`.
        law: As for `minsep.tune`.
        delta: As for `minsep.tune`.
        ledger: As for `minsep.tune`.
        verify: As for `minsep.tune`.
        accept_assumption: As for `minsep.tune`.

    Returns:
        The best run: `settings` are its parameters, and `result` its user attributes.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=100)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=2.0)
        >>> certificate = minsep.certify(mechanism, epsilon=1.0, delta=1e-4)
        >>> def objective(trial):
        ...     rate = trial.suggest_float("rate", 1e-3, 1.0, log=True)
        ...     trial.set_user_attr("model", f"trained with {rate}")
        ...     return (rate - 0.1) ** 2
        >>> best = tune_objective(objective, certificate, trials=50)
        >>> best.result["model"] == f"trained with {best.settings['rate']}"
        True
    """
    sign = 1.0 if validate.choice(DIRECTIONS, direction=direction) == "maximize" else -1.0

    def train(_: Configuration) -> _Outcome:
        trial = SecretTrial()
        score = objective(trial)
        return _Outcome(trial.params, trial.user_attrs, score)

    found = tune(
        train,
        [Configuration(None, certificate)],
        score=lambda outcome: sign * float(outcome.score),
        trials=trials,
        law=law,
        delta=delta,
        ledger=ledger,
        verify=verify,
        accept_assumption=accept_assumption,
    )
    best: _Outcome | None = found.result
    if best is None:
        return found
    return Tuning(best.settings, best.attributes, found.certificate)


@dataclass(frozen=True)
class _Outcome:
    settings: dict[str, Any]
    attributes: dict[str, Any]
    score: float


class SecretTrial:
    """What an objective is given: settings are drawn at random, by the system's entropy, and told to nobody.

    Attributes:
        params: The settings that were drawn.
        user_attrs: What would be released of this run, if it is the best.
        number: Always 0. The number of a run tells how many there were before it.
    """

    number = 0

    def __init__(self) -> None:
        self._generator = np.random.default_rng(secrets.randbits(256))
        self.params: dict[str, Any] = {}
        self.user_attrs: dict[str, Any] = {}

    def suggest_float(
        self, name: str, low: float, high: float, *, step: float | None = None, log: bool = False
    ) -> float:
        """Return a number that is drawn at random, uniformly or uniformly in its logarithm.

        Args:
            name: The name of the setting.
            low: The smallest number.
            high: The largest number.
            step: The distance between two numbers. By default any number may be drawn.
            log: Whether to draw the logarithm uniformly.
        """
        return float(self.params.setdefault(name, self._between(name, low, high, step, log=log)))

    def suggest_int(self, name: str, low: int, high: int, *, step: int = 1, log: bool = False) -> int:
        """Return an integer that is drawn at random.

        Args:
            name: The name of the setting.
            low: The smallest integer.
            high: The largest integer.
            step: The distance between two integers.
            log: Whether to draw the logarithm uniformly, and round.
        """
        return int(self.params.setdefault(name, round(self._between(name, low, high, None if log else step, log=log))))

    def suggest_categorical(self, name: str, choices: Sequence[Any]) -> Any:
        """Return one of several values, each of which is as likely.

        Args:
            name: The name of the setting.
            choices: The values.
        """
        if not len(choices):
            raise ValueError(f"choices of {name!r} is empty: give at least one value.")
        return self.params.setdefault(name, choices[int(self._generator.integers(len(choices)))])

    def report(self, value: float, step: int) -> None:
        """Drop what a run reports: nobody may see it.

        Args:
            value: The score so far.
            step: The step.
        """

    def should_prune(self) -> bool:
        """Return that the run goes on: to prune by what others reported is not covered."""
        return False

    def set_user_attr(self, key: str, value: Any) -> None:
        """Keep what would be released of this run, if it is the best.

        Args:
            key: Its name.
            value: It.
        """
        self.user_attrs[key] = value

    def _between(self, name: str, low: float, high: float, step: float | None, *, log: bool) -> float:
        if not low <= high or (log and low <= 0):
            raise ValueError(f"The bounds of {name!r} are {low} and {high}, but the first must be the smaller one.")
        if log:
            return min(max(math.exp(self._generator.uniform(math.log(low), math.log(high))), low), high)
        if step is None:
            return float(self._generator.uniform(low, high))
        return low + step * int(self._generator.integers(int((high - low) / step + 1e-9) + 1))
