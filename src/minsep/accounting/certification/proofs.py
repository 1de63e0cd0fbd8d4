"""How a direction was proven, or why it was not: one class for each way, all of it public, known by its kind."""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import ClassVar, Literal

from minsep.accounting.certification.claims import Claim
from minsep.accounting.directions import Direction
from minsep.accounting.exact import IN_WORDS
from minsep.accounting.importance import law_in_words
from minsep.core.identity import Description
from minsep.core.registry import Registered

_SCALES = ((1e12, "trillion"), (1e9, "billion"), (1e6, "million"))
_LONGEST = 1e15


@dataclass(frozen=True)
class Proof(ABC, Registered):
    """How one direction was proven."""

    claim: Claim
    passed: ClassVar[bool] = True

    @property
    def direction(self) -> Direction:
        """The direction that is proven."""
        return self.claim.direction

    @property
    def samples(self) -> int:
        """Number of samples drawn."""
        return 0

    @abstractmethod
    def summary(self) -> str:
        """Return the proof in words."""


@dataclass(frozen=True)
class ExactProof(Proof):
    """A curve that needs no samples gives delta."""

    method: Literal["gaussian", "pld"]
    delta: float
    kind = "exact"

    def summary(self) -> str:
        """Return the proof in words."""
        return f"computed {IN_WORDS[self.method]}: delta is {self.delta:.4g}, at most {self.claim.level:.4g}"


@dataclass(frozen=True)
class ImmediateProof(Proof):
    """There is nothing to prove: P/Q is nowhere below the probability of never taking part."""

    kind = "immediate"

    def summary(self) -> str:
        """Return the proof in words."""
        if self.claim.truncation_terms > 0:
            return f"delta is at most what cutting batches adds, {self.claim.truncation_terms:.3g}"
        return "delta is 0: e^-epsilon is at most the probability of never taking part"


@dataclass(frozen=True)
class TangentProof(Proof):
    """A tangent of log P/Q bounds delta in closed form."""

    noise_multiplier: float
    tangent_distance: float
    bound: float
    kind = "tangent"

    def summary(self) -> str:
        """Return the proof in words."""
        return f"a tangent of log P/Q bounds delta by {self.bound:.3g}, at most {self.claim.level:.3g}"


@dataclass(frozen=True)
class MomentProof(Proof):
    """A negative moment of P/Q bounds delta, by quadrature from above."""

    noise_multiplier: float
    order: float
    bound: float
    kind = "moment"

    def summary(self) -> str:
        """Return the proof in words."""
        return f"a moment of P/Q bounds delta by {self.bound:.3g}, at most {self.claim.level:.3g}"


@dataclass(frozen=True)
class BoundProof(Proof):
    """The bound of a law is at most the level, so that no sample is needed."""

    noise_multiplier: float
    law: Description
    log_constant: float
    bound: float
    kind = "bound"

    def summary(self) -> str:
        """Return the proof in words."""
        return f"{law_in_words(self.law)} bounds delta by {self.bound:.3g}, at most {self.claim.level:.3g}"


@dataclass(frozen=True)
class Outcome(ABC, Registered):
    """How a test of samples ended."""

    samples: int

    @abstractmethod
    def summary(self, claim: Claim, false_pass_probability: float) -> str:
        """Return the outcome of a test of a claim, with this chance of an error, in words."""


@dataclass(frozen=True)
class BettingOutcome(Outcome):
    """Where the wealth of a test by betting ended."""

    log_wealth: float
    kind = "betting"

    def summary(self, claim: Claim, false_pass_probability: float) -> str:
        """Return the odds that the wealth stands for, and those that were required."""
        needed = odds(-math.log(false_pass_probability))
        shown = f"delta <= {claim.level:.3g} at epsilon {claim.epsilon:.6g}"
        return f"evidence {odds(self.log_wealth)} to 1 that {shown} ({needed} required)"


@dataclass(frozen=True)
class AverageOutcome(Outcome):
    """The average of a fixed number of samples, and the most that it may be."""

    mean: float
    threshold: float
    kind = "fixed"

    def summary(self, claim: Claim, false_pass_probability: float) -> str:
        """Return the average, and the most that it may be."""
        return f"their average is {self.mean:.4g}, at most {self.threshold:.4g}"


@dataclass(frozen=True)
class SampledProof(Proof):
    """A test of samples passed.

    Attributes:
        noise_multiplier: The noise multiplier of the mechanism, or a smaller one: more noise is never less private.
        law: The distribution that was drawn from.
        log_constant: The logarithm of the normaliser of the distribution.
        bound: The most that a value can be.
        seed: The number that the samples come from.
        false_pass_probability: The chance of this test to pass although it should not.
        outcome: What came out of the test.
    """

    noise_multiplier: float
    law: Description
    log_constant: float
    bound: float
    seed: int
    false_pass_probability: float
    outcome: Outcome
    kind = "sampled"

    @property
    def samples(self) -> int:
        """Number of samples drawn."""
        return self.outcome.samples

    def summary(self) -> str:
        """Return the proof in words."""
        outcome = self.outcome.summary(self.claim, self.false_pass_probability)
        return f"passed with {self.samples:,} samples of {law_in_words(self.law)}: {outcome}"


@dataclass(frozen=True)
class Refusal(Proof):
    """The direction was not proven, for a reason."""

    reason: str
    drawn: int = 0
    kind = "refusal"
    passed = False

    @property
    def samples(self) -> int:
        """Number of samples drawn."""
        return self.drawn

    def summary(self) -> str:
        """Return the reason."""
        return self.reason


def odds(log_wealth: float) -> str:
    """Return e^log_wealth in words.

    >>> odds(18.37), odds(9.5), odds(60.0)
    ('95 million', '13,360', '1.1e+26')
    """
    wealth = math.exp(min(log_wealth, 700.0))
    if wealth >= _LONGEST:
        return f"{wealth:.2g}"
    for scale, word in _SCALES:
        if wealth >= scale:
            return f"{wealth / scale:.3g} {word}" if wealth < 10 * scale else f"{wealth / scale:,.0f} {word}"
    return f"{wealth:,.0f}"
