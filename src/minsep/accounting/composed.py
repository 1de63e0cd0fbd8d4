"""The privacy of several runs with exact curves together."""

import json
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from dp_accounting import NoOpDpEvent

from minsep.accounting.directions import DIRECTIONS
from minsep.accounting.exact import composed_curve, event_curve
from minsep.accounting.schemes import exact_curve
from minsep.mechanism import Mechanism


@dataclass(frozen=True)
class Composed:
    """How private several runs on the same data are together."""

    epsilon: float
    delta: float
    curve: Any
    count: int

    @property
    def statement(self) -> str:
        """The guarantee in a sentence."""
        runs = "run is" if self.count == 1 else f"{self.count} runs together are"
        return f"The {runs} ({self.epsilon:.6g}, {self.delta:g})-DP, in exact arithmetic."

    def to_json(self) -> str:
        """Return the guarantee as JSON."""
        content = {"epsilon": self.epsilon, "delta": self.delta, "runs": self.count, "statement": self.statement}
        return json.dumps(content, indent=2, allow_nan=False)


def composed(items: Iterable[Any], delta: float) -> Composed:
    """Return the privacy of mechanisms with exact curves, and of events of dp_accounting, together."""
    items = tuple(items)
    total, compositions = event_curve(NoOpDpEvent()), 0
    for place, item in enumerate(items, 1):
        curve = exact_curve(item) if isinstance(item, Mechanism) else event_curve(item)
        if curve is None:
            raise ValueError(f"Run {place} ({item}) has no exact curve, so it does not compose: certify it by itself.")
        total = composed_curve(curve, total)
        compositions += total.compositions
    total = replace(total, compositions=compositions)
    epsilon = max(total.epsilon(delta, direction) for direction in DIRECTIONS)
    return Composed(epsilon, delta, total, len(items))
