"""Several runs and events on the same data, one after the other."""

import json
import math
import os
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from dp_accounting import DpEvent

from minsep.accounting.certification import Certificate
from minsep.accounting.certification import verify as check
from minsep.accounting.curves import Curve, RoundedRuns, budgets_of, compose_curves
from minsep.accounting.exact import DeltaCurve, Event, event_curve
from minsep.accounting.schemes import exact_curve
from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.engine import LOCAL, Compute
from minsep.mechanism import Mechanism

Item = Certificate | Mechanism | Event | str | os.PathLike[str]
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
    """

    name: str
    count: int
    certificate: Certificate | None
    exact: DeltaCurve
    mechanism: Mechanism | None = None

    @property
    def without_rounding(self) -> bool:
        """Whether nothing is included for rounding: it has no certificate, or one of a format that kept nothing."""
        return self.certificate is None or self.certificate.reserve.values == 0


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
        return tuple(part.certificate for part in self.parts if part.certificate is not None)

    @property
    def unit(self) -> str | None:
        """Whose privacy the runs are about. None if there are none."""
        return next((part.mechanism.scheme.unit for part in self.parts if part.mechanism is not None), None)

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
        mechanisms = [part.mechanism for part in self.parts if part.mechanism is not None]
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
                    "epsilon": None if part.certificate is None else part.certificate.epsilon,
                    "delta": None if part.certificate is None else part.certificate.delta,
                }
                for part in self.parts
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
        items: What happened, as often as it happened: certificates or their files, mechanisms with exact curves, and
            events or privacy loss distributions of dp_accounting.
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
    certificates = [part.certificate for part in parts if part.certificate is not None]
    _check_together(parts, accept_other_num_examples)
    if delta is None:
        if len(certificates) < len(parts):
            raise ValueError("delta is None, but not all runs have a certificate: say how large it may be.")
        delta = math.fsum(part.count * _promised(part).delta for part in parts)
    delta = validate.real(delta=delta, above=0, below=1)
    curve = _curve(parts)
    return Composition(parts, delta, curve.epsilon(delta), curve)


def _curve(parts: tuple[Part, ...]) -> Curve:
    exact = compose_curves([(part.exact, part.count) for part in parts])
    runs = RoundedRuns()
    for part in parts:
        if part.certificate is not None:
            runs = runs + part.certificate.curve.runs.repeated(part.count)
    chance = math.fsum(part.certificate.curve.chance for part in parts if part.certificate is not None)
    budgets = [_promised(part) for part in parts]
    epsilon = math.fsum(part.count * budget.epsilon for part, budget in zip(parts, budgets, strict=True))
    delta = math.fsum(part.count * budget.delta for part, budget in zip(parts, budgets, strict=True))
    return Curve(exact, runs, chance, budgets_of((epsilon, delta)))


def _parts(items: list[Item], verify: bool | None, compute: Compute) -> Iterable[Part]:
    """Yield what happened, each once, in the order in which it happened first."""
    found: dict[Hashable, tuple[Any, int, bool]] = {}
    for item in items:
        from_file = isinstance(item, str | os.PathLike)
        one = Certificate.load(item) if isinstance(item, str | os.PathLike) else item
        key = _identity(one)
        _, count, read = found.get(key, (one, 0, False))
        found[key] = one, count + 1, read or from_file
    for one, count, read in found.values():
        if isinstance(one, Certificate):
            _check_alone(one, read if verify is None else verify, compute)
            yield _certified(one, count)
        elif isinstance(one, Mechanism):
            curve = exact_curve(one)
            if curve is None:
                raise ValueError(f"{one.name} has no exact curve, so it composes only with a certificate: certify it.")
            yield Part(one.name, count, None, curve, one)
        else:
            yield Part(f"{one}"[:200], count, None, event_curve(one, "items"))


def _certified(certificate: Certificate, count: int) -> Part:
    return Part(certificate.mechanism.name, count, certificate, certificate.curve.exact, certificate.mechanism)


def _identity(item: Any) -> Hashable:
    if isinstance(item, Certificate):
        return "certificate", item.to_json()
    if isinstance(item, Mechanism):
        return "mechanism", json.dumps(item.describe(), sort_keys=True)
    # Events say what they are; two losses are the same only if they are one object.
    return "event", repr(item) if isinstance(item, DpEvent) else id(item)


def _check_alone(certificate: Certificate, verify: bool, compute: Compute) -> None:
    if not certificate.passed:
        raise ValueError(f"A certificate did not pass, so nothing follows from it. {certificate.statement}")
    if verify:
        result = check(certificate, compute=compute)
        if not result.holds:
            raise ValueError(result.reason)


def check_runs(certificates: Sequence[Certificate], *, verify: bool, compute: Compute = LOCAL) -> None:
    """Refuse certificates of which one does not hold, or that are not about the same examples.

    Args:
        certificates: The certificates, each once.
        verify: Whether to verify them.
        compute: Where samples are drawn.
    """
    for certificate in certificates:
        _check_alone(certificate, verify, compute)
    parts = tuple(_certified(certificate, 1) for certificate in certificates)
    _check_together(parts, accept_other_num_examples=False)


def _check_together(parts: tuple[Part, ...], accept_other_num_examples: bool) -> None:
    units = sorted({part.mechanism.scheme.unit for part in parts if part.mechanism is not None})
    if len(units) > 1:
        raise ValueError(f"The runs protect different units ({', '.join(units)}), so they do not compose.")
    certificates = [part.certificate for part in parts if part.certificate is not None]
    relations = sorted({one.adjacency for one in certificates})
    if len(relations) > 1:
        raise ValueError(
            f"The certificates are about different neighbours ({', '.join(relations)}), so they do not compose."
        )
    sizes = sorted({size for part in parts if (size := _size(part)) is not None})
    if len(sizes) > 1 and not accept_other_num_examples:
        shown = " and ".join(f"{size:,}" for size in sizes[:3])
        raise ValueError(
            f"The runs are for {shown} examples, but runs compose on the same data: pass "
            "accept_other_num_examples=True if each of them protects the same examples."
        )
    sampled = [one.seed for one in certificates if one.samples > 0]
    if len(set(sampled)) < len(sampled):
        raise ValueError(
            "Two certificates were proven with samples of the same seed, so the second was not fixed before them: "
            "certify one of them again, without a seed."
        )


def _size(part: Part) -> int | None:
    """Return the number of examples that a run is for, where that is known."""
    if part.certificate is not None and part.certificate.num_examples is not None:
        return part.certificate.num_examples
    truncation = None if part.mechanism is None else part.mechanism.truncation
    return None if truncation is None else truncation.num_examples


def _promised(part: Part) -> Any:
    """Return what was certified of a part: nothing without a certificate."""
    return _NOTHING if part.certificate is None else part.certificate


@dataclass(frozen=True)
class _Nothing:
    epsilon: float = math.inf
    delta: float = 1.0


_NOTHING = _Nothing()
