"""The strategy matrix C: its sensitivity, its error, and how to apply its inverse."""

from minsep.core.identity import Description
from minsep.core.validation import in_short
from minsep.strategy.banded_inverse import BandedInverseToeplitz
from minsep.strategy.banded_toeplitz import BandedToeplitz
from minsep.strategy.base import Strategy
from minsep.strategy.dense import Dense
from minsep.strategy.workload import SCHEDULES, Workload

__all__ = [
    "SCHEDULES",
    "BandedInverseToeplitz",
    "BandedToeplitz",
    "Dense",
    "Strategy",
    "Workload",
    "strategy_from",
]


def strategy_from(description: Description) -> Strategy:
    """Return the strategy with this description."""
    kinds: dict[str, type[BandedToeplitz | BandedInverseToeplitz | Dense]] = {
        "banded-toeplitz": BandedToeplitz,
        "banded-inverse-toeplitz": BandedInverseToeplitz,
        "dense": Dense,
    }
    if description.get("kind") not in kinds:
        kind = in_short(description.get("kind"))
        raise ValueError(f"The strategy is of kind {kind}, but it must be one of {', '.join(kinds)}.")
    return kinds[description["kind"]].from_description(description)
