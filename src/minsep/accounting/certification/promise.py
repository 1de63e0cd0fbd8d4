"""What a certificate promises of a run, and what is therefore tested of its mechanism."""

from dataclasses import dataclass

from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.noise.rounding_reserve import DEFAULT_VALUES, Reserve
from minsep.strategy import Strategy


@dataclass(frozen=True)
class Promise:
    """A budget for a run, of which a reserve is kept for rounding.

    Args:
        budget: What is promised of the run as a computer executes it.
        reserve: What rounding may take of it (docs/rounding.md).
    """

    budget: Budget
    reserve: Reserve

    @classmethod
    def of(cls, strategy: Strategy, budget: Budget, model_size: int | None) -> "Promise":
        """Return the promise for runs of a strategy.

        Args:
            model_size: The number of trainable parameters; None keeps a reserve for 1e10 released values.

        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=100)
        >>> Promise.of(identity, Budget(2.0, 1e-5), model_size=10**6).reserve.values
        100000000
        """
        values = DEFAULT_VALUES
        if model_size is not None:
            values = strategy.iterations * validate.integer(model_size=model_size, at_least=1)
        return cls(budget, Reserve.of(strategy, budget, values))

    @property
    def tested(self) -> Budget:
        """What must be shown of the mechanism in exact numbers."""
        return self.reserve.left(self.budget)
