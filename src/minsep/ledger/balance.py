"""What a ledger holds at one moment: its entries, what they cost together, and what is left."""

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from minsep.accounting import Composition, Curve, PointCurve
from minsep.core.validation import real
from minsep.ledger.accounts import (
    Left,
    alone,
    charged,
    charges_of,
    rest,
    room,
    runs_that_fit,
    sums_within,
    together,
    within,
)
from minsep.ledger.entry import Entry
from minsep.ledger.total import Total


@dataclass(frozen=True)
class Balance:
    """What a ledger holds at one moment, while other processes may add to it.

    Attributes:
        path: The file of the ledger.
        total: The dataset, the unit, and the epsilon and delta of all entries together.
        entries: All entries.
        head: The hash of the last line, which covers all of them.
    """

    path: str
    total: Total
    entries: tuple[Entry, ...]
    head: str

    @cached_property
    def spent(self) -> Composition | None:
        """What all entries cost together; None if there are none. `Ledger.spent` has the details."""
        return self.spent_at(self.total.delta)

    @cached_property
    def left(self) -> Left:
        """What is left of the total. `Ledger.left` has the details."""
        total, spent = self.total, self.spent
        if total.adaptive:
            return rest(total, charges_of(self.entries))
        return room(
            total, lambda items: within(total, together(self.entries, items)), None if spent is None else spent.curve
        )

    @property
    def curve(self) -> Curve | None:
        """What the ledger guarantees of all entries at every epsilon; None if there are none.

        Of an adaptive ledger it is what follows from the sums alone: composed curves guarantee nothing there.
        """
        if self.spent is None:
            return None
        if not self.total.adaptive:
            return self.spent.curve
        point = ((self.spent.epsilon, self.spent.delta),)
        return Curve(PointCurve(point, point))

    @cached_property
    def costs(self) -> tuple[tuple[float, float], ...]:
        """The epsilon and delta of each entry alone: as charged or certified, or else at the delta of the total."""
        return tuple(alone(entry, self.total) for entry in self.entries)

    @property
    def promise(self) -> str:
        """Under which condition the total holds, in words."""
        if self.total.adaptive:
            return "Epsilons and deltas add up, so entries may be chosen after what earlier ones released."
        return "The total holds if the entries were chosen without looking at what earlier ones released."

    def spent_at(self, delta: float) -> Composition | None:
        """Return what all entries cost together at a delta, which an adaptive ledger does not need.

        Args:
            delta: The delta.
        """
        if not self.entries:
            return None
        if self.total.adaptive:
            epsilon, summed = charged(charges_of(self.entries))
            return replace(together(self.entries), epsilon=epsilon, delta=summed)
        composed = together(self.entries, delta=real(delta=delta, above=0, below=1))
        # An epsilon is found up to rounding, but what was added was within the total.
        exceeds = composed.delta == self.total.delta and composed.epsilon > self.total.epsilon
        return replace(composed, epsilon=self.total.epsilon) if exceeds and within(self.total, composed) else composed

    def fits_again(self, entry: Entry) -> int:
        """Return how many more times what an entry is about would fit, at most 1,000.

        Args:
            entry: One of the entries.
        """
        charge = entry.charge
        if charge is not None:
            charges = charges_of(self.entries)
            return runs_that_fit(lambda count: sums_within(self.total, [*charges, *(charge,) * count]))
        return runs_that_fit(lambda count: within(self.total, together(self.entries, entry.items * count)))

    def as_data(self) -> dict[str, Any]:
        """Return all of it as plain data, without the contents of the entries."""
        total, spent, left = self.total, self.spent, self.left
        return {
            "dataset": total.dataset,
            "unit": total.unit,
            "epsilon": total.epsilon,
            "delta": total.delta,
            "num_examples": total.num_examples,
            "adaptive": total.adaptive,
            "entries": [
                {
                    "index": entry.index,
                    "name": entry.name,
                    "kind": entry.kind,
                    "date": entry.date,
                    "booking": entry.booking,
                    "alone": list(cost),
                    "hash": entry.hash,
                }
                for entry, cost in zip(self.entries, self.costs, strict=True)
            ],
            "spent": None if spent is None else {"epsilon": spent.epsilon, "delta": spent.delta},
            "left": {
                "epsilon": left.epsilon,
                "delta": left.delta,
                "mu": left.mu,
                "any_run": None if left.any_run is None else vars(left.any_run),
            },
            "head": self.head,
        }
