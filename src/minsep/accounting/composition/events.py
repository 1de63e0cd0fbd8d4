"""A curve as an event of dp_accounting, whose own events know no curve from samples."""

from dataclasses import dataclass
from typing import Any

from dp_accounting import DpEvent, NeighboringRelation
from dp_accounting.pld import PLDAccountant

from minsep.accounting.curves import Curve


@dataclass(frozen=True)
class CurveDpEvent(DpEvent):  # type: ignore[misc]  # dp_accounting has no types
    """What a certified curve says happened.

    Args:
        curve: The curve. The chance that its proofs err is no part of the event: add it to delta, once.

    Examples:
        >>> import minsep
        >>> from dp_accounting import ComposedDpEvent, GaussianDpEvent
        >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-5)
        >>> accountant = CurveAccountant()
        >>> _ = accountant.compose(ComposedDpEvent([CurveDpEvent(certificate.curve), GaussianDpEvent(10.0)]))
        >>> round(accountant.get_epsilon(1e-5), 2)
        1.87
    """

    curve: Curve


class CurveAccountant(PLDAccountant):  # type: ignore[misc]
    """dp_accounting's `PLDAccountant` for neighbours of which one is zeroed out, which knows `CurveDpEvent` as well."""

    def __init__(self) -> None:
        super().__init__(NeighboringRelation.REPLACE_SPECIAL)

    def _maybe_compose(self, event: Any, count: int, do_compose: bool) -> Any:
        if not isinstance(event, CurveDpEvent):
            return super()._maybe_compose(event, count, do_compose)
        if do_compose:
            losses = event.curve.privacy_loss_distribution(self._value_discretization_interval)
            self._pld: Any = self._pld.compose(losses.self_compose(count))
        return None
