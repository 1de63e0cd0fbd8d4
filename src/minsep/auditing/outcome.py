"""The outcome of an audit."""

import json
from dataclasses import asdict, dataclass, field

from minsep.auditing.checks import Check


@dataclass(frozen=True)
class Point:
    """One threshold of the statistic, with the trials above it.

    Attributes:
        threshold: The threshold of log P/Q.
        false: Number of trials above the threshold without the canary.
        true: Number of trials above the threshold with the canary.
        certified_false: The share of trials without the canary that would be above the threshold with the certified
            mechanism.
        certified_true: The share of trials with the canary that would be above the threshold with the certified
            mechanism.
    """

    threshold: float
    false: int
    true: int
    certified_false: float
    certified_true: float


@dataclass(frozen=True)
class Audit:
    """What an audit found out about a training loop.

    Attributes:
        mechanism: What the loop should run, in words.
        loop: The name of the loop that was audited.
        epsilon: The certified epsilon.
        delta: The certified delta.
        lower_bound: The empirical epsilon at `delta`. The loop's epsilon is at least this, but for a chance of
            `bound_failure_probability`.
        gaussian_bound: A higher bound on epsilon at `delta` with the same chance of an error, if the loop's noise is
            Gaussian, examples above the clip norm have one weight, and they take part as certified. None if a check
            found that the loop is not the certified mechanism, or if no such bound is known.
        checks: Comparisons of the loop with the certified mechanism. A correct loop raises an alarm, by any of them or
            by a lower bound above `epsilon`, with probability at most `failure_probability`.
        failure_probability: The highest probability with which a correct loop raises an alarm.
        bound_failure_probability: The chance that the lower bound is too large.
        present: Number of trials with the canary.
        absent: Number of trials without the canary.
        runs: Number of runs of the loop.
        canaries: Number of canaries in each run.
        iterations: Number of iterations of the mechanism.
        points: False and true positives of the statistic.
    """

    mechanism: str
    loop: str
    epsilon: float
    delta: float
    lower_bound: float
    gaussian_bound: float | None
    checks: tuple[Check, ...]
    failure_probability: float
    bound_failure_probability: float
    present: int
    absent: int
    runs: int
    canaries: int
    iterations: int
    points: tuple[Point, ...] = field(repr=False)

    @property
    def trials(self) -> int:
        """Number of trials, with and without the canary."""
        return self.present + self.absent

    @property
    def violated(self) -> bool:
        """Whether the loop is not (epsilon, delta)-DP: the lower bound is above the certified epsilon."""
        return self.lower_bound > self.epsilon

    @property
    def alarms(self) -> tuple[str, ...]:
        """One sentence for each alarm."""
        sentences = [check.sentence for check in self.checks if not check.passed]
        if self.violated:
            sentences.insert(
                0,
                f"Epsilon: it is at least {self.lower_bound:.3g} at delta {self.delta:g}, above the certified "
                f"{self.epsilon:g}{self._assuming}. The loop breaks the promise of its certificate.",
            )
        return tuple(sentences)

    @property
    def passed(self) -> bool:
        """Whether there is no alarm."""
        return not self.alarms

    @property
    def _assuming(self) -> str:
        """What the lower bound assumes, where it is more than that runs are independent and alike."""
        return "" if self.canaries == 1 else ", if the canaries of a run are independent and alike"

    @property
    def statement(self) -> str:
        """What the audit says, in words."""
        bound = (
            f"Epsilon is at least {self.lower_bound:.3g} at delta {self.delta:g} (wrong with probability at most "
            f"{self.bound_failure_probability:.2g}{self._assuming}; {self.trials:,} trials in {self.runs:,} runs); "
            f"certified is at most {self.epsilon:g}."
        )
        if self.gaussian_bound is not None and self.gaussian_bound > self.lower_bound:
            bound += f" If the noise is Gaussian, epsilon is at least {self.gaussian_bound:.3g}."
        if self.passed:
            return (
                f"No alarm: {len(self.checks)} checks found no difference from the certified mechanism. {bound} "
                "An audit finds faults; it does not prove that there are none."
            )
        verdict = (
            f"ALARM: the loop is not ({self.epsilon:g}, {self.delta:g})-DP{self._assuming}."
            if self.violated
            else "ALARM: the loop is not the mechanism of its certificate, which therefore says nothing about it."
        )
        return (
            f"{verdict} {bound} A correct loop raises an alarm with probability at most {self.failure_probability:.2g}."
        )

    def to_json(self) -> str:
        """Return the audit as JSON."""
        content = {
            "passed": self.passed,
            "violated": self.violated,
            "statement": self.statement,
            "alarms": list(self.alarms),
            **asdict(self),
        }
        content["checks"] = [{**asdict(check), "passed": check.passed} for check in self.checks]
        return json.dumps(content, indent=2, allow_nan=False)
