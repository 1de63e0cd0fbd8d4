"""Other mechanisms that the same data go through beside a run, such as a histogram or a private mean."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minsep.accounting.curves import compose_curves, losses_of
from minsep.accounting.directions import Direction
from minsep.accounting.exact import DeltaCurve, ExactCurve, PldCurve, event_curve, plain_event, read_event
from minsep.accounting.importance import ALONE, Payoff
from minsep.accounting.schemes import exact_curve
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.mechanism import Mechanism

_MECHANISM = "mechanism"


@dataclass(frozen=True)
class Alongside:
    """Mechanisms with exact curves that are accounted for together with a run.

    Args:
        texts: Each of them as JSON: an event of dp_accounting, or a mechanism.
    """

    texts: tuple[str, ...] = ()

    @classmethod
    def of(cls, items: Sequence[Any], unit: str = "example") -> "Alongside":
        """Return the value for events of dp_accounting and mechanisms; one without an exact curve is refused.

        Args:
            items: The events and mechanisms.
            unit: Whose privacy the run is about. A mechanism for another unit is refused.

        >>> from dp_accounting import GaussianDpEvent
        >>> Alongside.of([GaussianDpEvent(30.0)]).words
        'GaussianDpEvent(noise_multiplier=30.0)'
        """
        for item in items:
            _curve(item)
            if isinstance(item, Mechanism) and item.scheme.unit != unit:
                raise ValueError(
                    f"alongside holds a mechanism for each {item.scheme.unit}, but the run is for each {unit}."
                )
        return cls.read(tuple(_record(item) for item in items))

    @classmethod
    def read(cls, records: Sequence[Description]) -> "Alongside":
        """Return the value that `records` described."""
        return cls(tuple(json.dumps(record, sort_keys=True) for record in records))

    @property
    def records(self) -> tuple[Description, ...]:
        """Each of them as plain data."""
        return tuple(json.loads(text) for text in self.texts)

    @property
    def items(self) -> tuple[Any, ...]:
        """Each of them."""
        return tuple(map(_item, self.records))

    def __bool__(self) -> bool:
        return bool(self.texts)

    @property
    def words(self) -> str:
        """What runs alongside."""
        return ", ".join(map(_in_words, self.items))

    @cached_property
    def curve(self) -> PldCurve:
        """The curve of all of them together."""
        return losses_of(compose_curves([(curve, 1) for curve in self._curves]))

    def payoff(self, direction: Direction) -> Payoff:
        """Return what a test of a run sums up beside them."""
        return BesidePayoff(self, direction) if self else ALONE

    def with_curve(self, curve: ExactCurve | None) -> ExactCurve | None:
        """Return an exact curve of a run together with them."""
        if curve is None or not self:
            return curve
        together = compose_curves([(curve, 1), *((each, 1) for each in self._curves)])
        assert isinstance(together, ExactCurve)
        return together

    @cached_property
    def _curves(self) -> list[DeltaCurve]:
        return list(map(_curve, self.items))


@dataclass(frozen=True)
class BesidePayoff(Payoff):
    """The payoff of a run beside other mechanisms.

    Args:
        alongside: The other mechanisms.
        direction: The direction of the test.
    """

    alongside: Alongside
    direction: Direction

    def values(self, epsilons: FloatArray) -> FloatArray:
        """Return the curve of the others without their infinite losses."""
        return self.alongside.curve.finite_delta(epsilons, self.direction)

    def log_peak(self, order: float) -> float:
        """Return the logarithm of a bound on f(e) e^(order e)."""
        return self.alongside.curve.log_peak(order, self.direction)

    @property
    def infinite(self) -> float:
        """The probability of infinite losses of the others, and what rounding may hide."""
        return self.alongside.curve.infinite_delta(self.direction)


def _in_words(item: Any) -> str:
    if not isinstance(item, Mechanism):
        return str(item)
    iterations = "1 iteration" if item.iterations == 1 else f"{item.iterations:,} iterations"
    return f"{item.name} ({iterations}, noise multiplier {item.noise_multiplier:g})"


def _record(item: Any) -> Description:
    if isinstance(item, Mechanism):
        return {_MECHANISM: item.describe()}
    return dict(plain_event(item))


def _item(record: Description) -> Any:
    return Mechanism.from_description(record[_MECHANISM]) if _MECHANISM in record else read_event(record)


def _curve(item: Any) -> DeltaCurve:
    curve = exact_curve(item) if isinstance(item, Mechanism) else event_curve(item, "alongside")
    if curve is None:
        raise ValueError(f"alongside holds {item.name}, which has no exact curve: compose its certificate instead.")
    return curve
