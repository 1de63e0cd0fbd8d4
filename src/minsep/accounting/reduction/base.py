"""What remains to be tested of a mechanism, after everything that has a closed form."""

from dataclasses import dataclass

from minsep.accounting.pairs import Pair


@dataclass(frozen=True)
class Shift:
    """A bound: delta of the mechanism <= factor * delta of a pair, at another epsilon, + truncation terms."""

    epsilon: float
    truncation_terms: float = 0.0
    factor: float = 1.0
    vanishes: bool = False
    """Whether the first term is 0, so that there is nothing to test."""
    rounds: int | None = None
    """Number of cut batches that the bound allows for; None where nothing is cut, or the pair knows of the cuts."""

    def after(self, inner: "Shift") -> "Shift":
        """Return the composition of this shift with a shift of the remaining delta."""
        factor = self.factor * inner.factor
        return Shift(inner.epsilon, self.truncation_terms, factor, self.vanishes or inner.vanishes, self.rounds)

    def level(self, delta: float) -> float:
        """Return the level that the delta of the pair must stay below, which may be negative."""
        return (delta - self.truncation_terms) / self.factor


@dataclass(frozen=True)
class Reduction:
    """A pair to test instead of a mechanism, and what its delta says about that of the mechanism."""

    pair: Pair
    shift: Shift
