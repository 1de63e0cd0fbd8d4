"""Several runs and events on the same data, one after the other."""

import json
import math
import os
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from typing import Any

from dp_accounting import DpEvent

from minsep.accounting.certification import Certificate
from minsep.accounting.composition.runs import check_alone, check_together, each_once
from minsep.accounting.composition.tuning_certificate import TuningCertificate, read_certificate
from minsep.accounting.curves import Curve, RoundedRuns, budgets_of, compose_curves
from minsep.accounting.exact import DeltaCurve, Event, event_curve
from minsep.accounting.schemes import exact_curve
from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism

Item = Certificate | TuningCertificate | Mechanism | Event | str | os.PathLike[str]
_MOST_ITEMS = 100_000


@dataclass(frozen=True)
class Part:
    """One of the runs or events of a composition, and how many times it happened.

    Attributes:
        name: What it is, in words.
        count: How many times it happened.
        certificate: Its certificate, if it has one.
        exact: The curve of one of them in exact numbers.
        mechanism: Its mechanism, if it is a run.
        tuning: What is proven of it, if it is the best of a random number of runs.
    """

    name: str
    count: int
    certificate: Certificate | None
    exact: DeltaCurve
    mechanism: Mechanism | None = None
    tuning: TuningCertificate | None = None

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """All certificates that it rests on."""
        if self.tuning is not None:
            return self.tuning.certificates
        return () if self.certificate is None else (self.certificate,)

    @property
    def mechanisms(self) -> tuple[Mechanism, ...]:
        """All mechanisms that it runs."""
        if self.tuning is not None:
            return tuple(one.mechanism for one in self.tuning.certificates)
        return () if self.mechanism is None else (self.mechanism,)

    @property
    def without_rounding(self) -> bool:
        """Whether nothing is included for rounding: it has no certificate, or one of a format that kept nothing."""
        return not self.certificates or any(one.reserve.values == 0 for one in self.certificates)


@dataclass(frozen=True)
class Composition:
    """The privacy of several runs and events on the same data together.

    Attributes:
        parts: What happened.
        delta: The delta of all together.
        epsilon: The epsilon of all together at this delta.
        curve: What is proven of all together at every epsilon.
    """

    parts: tuple[Part, ...]
    delta: float
    epsilon: float
    curve: Curve

    @property
    def count(self) -> int:
        """Number of runs and events."""
        return sum(part.count for part in self.parts)

    @property
    def certificates(self) -> tuple[Certificate, ...]:
        """The certificates of the runs, each once."""
        return each_once(one for part in self.parts for one in part.certificates)

    @property
    def unit(self) -> str | None:
        """Whose privacy the runs are about. None if there are none."""
        return next((one.scheme.unit for part in self.parts for one in part.mechanisms), None)

    @property
    def budget(self) -> Budget:
        """The epsilon and delta of all together."""
        return Budget(self.epsilon, self.delta)

    @property
    def sum_of_epsilons(self) -> float:
        """What basic composition says: the sum of all certified epsilons. Infinite if a part has no certificate."""
        return math.fsum(part.count * _promised(part).epsilon for part in self.parts)

    @property
    def statement(self) -> str:
        """The guarantee in words."""
        runs = "The run is" if self.count == 1 else f"The {self.count} runs together are"
        chance = (
            f" Delta includes the {self.curve.chance:.3g} chance that any of the certificates is wrong."
            if self.curve.chance
            else ""
        )
        uncertified = sum(part.count for part in self.parts if part.without_rounding)
        rounding = (
            f" Nothing is included for rounding in {uncertified} of them, which are in exact arithmetic."
            if uncertified
            else ""
        )
        mechanisms = [one for part in self.parts for one in part.mechanisms]
        assumed = " ".join(dict.fromkeys(one.sentence for each in mechanisms for one in each.scheme.assumptions))
        first = f"CONDITIONAL. {assumed} If that holds: t" + runs[1:] if assumed else runs
        return f"{first} ({self.epsilon:.6g}, {self.delta:g})-DP.{chance}{rounding}"

    def to_json(self) -> str:
        """Return the guarantee as JSON: numbers and names, not the certificates."""
        content = {
            "epsilon": self.epsilon,
            "delta": self.delta,
            "statement": self.statement,
            "runs": self.count,
            "parts": [
                {
                    "name": part.name,
                    "count": part.count,
                    "epsilon": promised.epsilon if part.certificates else None,
                    "delta": promised.delta if part.certificates else None,
                }
                for part, promised in ((each, _promised(each)) for each in self.parts)
            ],
            "sum_of_epsilons": None if math.isinf(self.sum_of_epsilons) else self.sum_of_epsilons,
            "chance_of_an_error": self.curve.chance,
        }
        return json.dumps(content, indent=2, allow_nan=False)


def compose(
    items: Iterable[Item],
    delta: float | None = None,
    *,
    verify: bool | None = None,
    accept_other_num_examples: bool = False,
    compute: Compute = LOCAL,
) -> Composition:
    """Return how private several runs and events on the same data are together.

    - Each may depend on what those before it released, if its certificate and the total were fixed before the first.
    - The more a certificate proves, the less a composition costs: use `curve=True` in `certify` and `calibrate`.
    - Exact curves compose exactly, up to a grid of privacy losses to which each loss is rounded up.
    - The chance that a certificate is wrong counts once, also if it serves several runs.

    Args:
        items: What happened, as often as it happened: certificates of runs and of tunings or their files, mechanisms
            with exact curves, and events or privacy loss distributions of dp_accounting.
        delta: The delta of all together. By default it is the sum of the certified deltas.
        verify: Whether to verify the certificates. By default those that are read from files are verified.
        accept_other_num_examples: Whether to compose certificates that were made for different numbers of examples.
        compute: Where samples of a verification are drawn.

    Examples:
        >>> import minsep
        >>> from dp_accounting import GaussianDpEvent
        >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-5)
        >>> together = compose([certificate, certificate, GaussianDpEvent(30.0)], delta=1e-5)
        >>> round(together.epsilon, 2), together.sum_of_epsilons
        (2.59, inf)
    """
    listed = list(items)
    if not listed or len(listed) > _MOST_ITEMS:
        raise ValueError(f"items has {len(listed):,} runs and events, but there must be 1 to {_MOST_ITEMS:,}.")
    parts = tuple(_parts(listed, verify, compute))
    check_together(
        each_once(one for part in parts for one in part.certificates),
        [one for part in parts for one in part.mechanisms],
        accept_other_num_examples=accept_other_num_examples,
    )
    if delta is None:
        if not all(part.certificates for part in parts):
            raise ValueError("delta is None, but not all runs have a certificate: say how large it may be.")
        delta = math.fsum(part.count * _promised(part).delta for part in parts)
    delta = validate.real(delta=delta, above=0, below=1)
    curve = _curve(parts)
    return Composition(parts, delta, curve.epsilon(delta), curve)


def _curve(parts: tuple[Part, ...]) -> Curve:
    exact = compose_curves([(part.exact, part.count) for part in parts])
    runs = RoundedRuns()
    for part in parts:
        if part.certificate is not None:  # the curve of a tuning includes what rounding adds
            runs = runs + part.certificate.curve.runs.repeated(part.count)
    proofs = (part.certificate or part.tuning for part in parts)
    chance = math.fsum(proof.curve.chance for proof in proofs if proof is not None)
    budgets = [_promised(part) for part in parts]
    epsilon = math.fsum(part.count * budget.epsilon for part, budget in zip(parts, budgets, strict=True))
    delta = math.fsum(part.count * budget.delta for part, budget in zip(parts, budgets, strict=True))
    return Curve(exact, runs, chance, budgets_of((epsilon, delta)))


def _parts(items: list[Item], verify: bool | None, compute: Compute) -> Iterable[Part]:
    """Yield what happened, each once, in the order in which it happened first."""
    found: dict[Hashable, tuple[Any, int, bool]] = {}
    for item in items:
        from_file = isinstance(item, str | os.PathLike)
        one = read_certificate(item) if isinstance(item, str | os.PathLike) else item
        key = _identity(one)
        _, count, read = found.get(key, (one, 0, False))
        found[key] = one, count + 1, read or from_file
    for one, count, read in found.values():
        if isinstance(one, Certificate):
            check_alone(one, verify=read if verify is None else verify, compute=compute)
            yield Part(one.mechanism.name, count, one, one.curve.exact, one.mechanism)
        elif isinstance(one, TuningCertificate):
            if read if verify is None else verify:
                _check_tuning(one, compute)
            yield Part(one.name, count, None, one.curve.exact, tuning=one)
        elif isinstance(one, Mechanism):
            curve = exact_curve(one)
            if curve is None:
                raise ValueError(f"{one.name} has no exact curve, so it composes only with a certificate: certify it.")
            yield Part(one.name, count, None, curve, one)
        else:
            yield Part(f"{one}"[:200], count, None, event_curve(one, "items"))


def _check_tuning(tuning: TuningCertificate, compute: Compute) -> None:
    result = tuning.verify(compute=compute)
    if not result.holds:
        raise ValueError(result.reason)


def _identity(item: Any) -> Hashable:
    if isinstance(item, Certificate | TuningCertificate):
        return "certificate", item.to_json()
    if isinstance(item, Mechanism):
        return "mechanism", json.dumps(item.describe(), sort_keys=True)
    # Events say what they are; two losses are the same only if they are one object.
    return "event", repr(item) if isinstance(item, DpEvent) else id(item)


def _promised(part: Part) -> Any:
    """Return what was certified of a part: nothing without a certificate."""
    return part.certificate or part.tuning or _NOTHING


@dataclass(frozen=True)
class _Nothing:
    epsilon: float = math.inf
    delta: float = 1.0


_NOTHING = _Nothing()
