"""What a run may tell: epsilon and delta, or what an attacker may find out."""

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated, Any

import typer

from minsep.cli.options import QUESTIONS, measuring, option
from minsep.cli.output import say
from minsep.core import validation as validate
from minsep.core.budget import Budget, LargeDeltaWarning
from minsep.planning.request import BUDGET

REFUSED = 1
_MARGIN_OF_MU = 0.97  # of the mu that is asked for: a curve from samples lies above the true one
_FALSE_POSITIVES = 0.01
_DELTA_OF_MU = 1e-5


@dataclass(frozen=True)
class Goal:
    """A budget in one of several terms. Each of them comes down to an epsilon and a delta."""

    epsilon: Annotated[float | None, option(QUESTIONS["epsilon"])] = None
    delta: Annotated[float | None, option(QUESTIONS["delta"])] = None
    max_true_positives: Annotated[
        float | None,
        measuring(
            "Instead of epsilon and delta: the highest rate of true positives of anyone who guesses who was there.",
            rich_help_panel=BUDGET,
        ),
    ] = None
    false_positives: Annotated[
        float | None,
        measuring("The rate of false positives for --max-true-positives. Default: 0.01.", rich_help_panel=BUDGET),
    ] = None
    advantage: Annotated[
        float | None,
        measuring(
            "Instead of epsilon and delta: how far true positives may exceed false positives.", rich_help_panel=BUDGET
        ),
    ] = None
    mu: Annotated[
        float | None,
        measuring(
            "Instead of epsilon: the run tells no more than one Gaussian mechanism with sensitivity mu and noise 1, up "
            "to the epsilon that such a mechanism has at --delta (default: 1e-5).",
            rich_help_panel=BUDGET,
        ),
    ] = None

    @property
    def needs_curve(self) -> bool:
        """Whether only a curve shows that the goal is met."""
        return self.mu is not None

    def budget(self) -> Budget:
        """Return the epsilon and delta that the goal comes down to."""
        others = ("max_true_positives", "advantage", "mu")
        given = [name for name in others if getattr(self, name) is not None]
        if len(given) > 1:
            value = getattr(self, given[1])
            raise ValueError(f"{given[1]} is {value}, but {_flag(given[0])} is the budget already: omit one.")
        if given:
            self._refuse_beside(given[0])
        if self.false_positives is not None and self.max_true_positives is None:
            raise ValueError(
                f"false_positives is {self.false_positives}, but --max-true-positives is missing: give it."
            )
        if self.max_true_positives is not None:
            return Budget.against(self.max_true_positives, self.false_positives or _FALSE_POSITIVES)
        if self.advantage is not None:
            return Budget.with_advantage(self.advantage)
        if self.mu is not None:
            return Budget.gaussian(_MARGIN_OF_MU * self.mu, _DELTA_OF_MU if self.delta is None else self.delta)
        validate.all_of(partial(self._check, "epsilon"), partial(self._check, "delta"))
        return Budget(self.epsilon or 0.0, self.delta or 0.0)

    def _check(self, name: str) -> None:
        if getattr(self, name) is None:
            raise ValueError(f"{name} is missing: give it, or one of --max-true-positives, --advantage and --mu.")
        QUESTIONS[name].check(name, getattr(self, name))

    def _refuse_beside(self, name: str) -> None:
        for other in ("epsilon", "delta"):
            value = getattr(self, other)
            if value is not None and (other, name) != ("delta", "mu"):
                raise ValueError(f"{other} is {value}, but {_flag(name)} is the budget: omit one.")

    def or_else(self, epsilon: float, delta: float) -> "Goal":
        """Return this goal, or with these numbers what it leaves open."""
        if any(getattr(self, name) is not None for name in ("max_true_positives", "advantage", "mu")):
            return self
        return replace(
            self,
            epsilon=epsilon if self.epsilon is None else self.epsilon,
            delta=delta if self.delta is None else self.delta,
        )

    def check(self) -> list[Callable[[], object]]:
        """Return the check of the options."""
        return [self.budget]

    def check_trials(self, trials: float | None) -> None:
        """Refuse a goal in other terms for the best of several runs: the bounds on their attackers are loose."""
        given = [name for name in ("max_true_positives", "advantage", "mu") if getattr(self, name) is not None]
        if trials is not None and given:
            raise ValueError(
                f"trials is {trials:g}, but {_flag(given[0])} is a goal for one run: use --epsilon and --delta."
            )

    def rows(self, certificate: Any) -> dict[str, str]:
        """Return, for a goal in other terms, what is certified of it."""
        if not certificate.passed:
            return {}
        curve = certificate.curve
        if self.max_true_positives is not None:
            rate = self.false_positives or _FALSE_POSITIVES
            most = curve.true_positives(rate)
            return {f"True positives at {100 * rate:g} % false positives": f"at most {100 * most:.3g} % (certified)"}
        if self.advantage is not None:
            return {"Advantage of an attacker": f"at most {curve.advantage:.3g} (certified)"}
        if self.mu is not None:
            return {f"Gaussian parameter mu, up to epsilon {curve.mu_reach:.3g}": f"at most {curve.mu:.3g} (certified)"}
        return {}

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Enter a block without warnings of a large delta, where delta is no chance of a failure."""
        with warnings.catch_warnings():
            if self.max_true_positives is not None or self.advantage is not None:
                warnings.simplefilter("ignore", LargeDeltaWarning)
            yield

    def finish(self, certificate: Any) -> None:
        """End a command as refused unless what is certified meets the goal, as far as a budget does not say so."""
        if certificate.passed and self.mu is not None and certificate.curve.mu > self.mu:
            say(f"mu is certified as {certificate.curve.mu:.4g} only, above {self.mu:g}: ask for a lower one.")
            raise typer.Exit(REFUSED)


def _flag(name: str) -> str:
    return f"--{name.replace('_', '-')}"
