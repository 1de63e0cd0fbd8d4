"""Learning rates as functions of the step alone, so that a resumed run needs no state for them."""

from dataclasses import dataclass

from minsep.core import validation as validate


@dataclass(frozen=True)
class LinearDecay:
    """A factor of the learning rate: 1, then linear from a quarter to three quarters of the run, then `final`.

    - `iterations`: number of steps of the run.
    - `final`: the factor in the last quarter.

    >>> decay = LinearDecay(iterations=1500)
    >>> [decay(step) for step in (0, 375, 1125, 1499)]
    [1.0, 1.0, 0.05, 0.05]
    >>> round(decay(750), 3)
    0.525
    """

    iterations: int
    final: float = 1 / 20

    def __post_init__(self) -> None:
        validate.integer(iterations=self.iterations, at_least=1)
        validate.real(final=self.final, above=0, at_most=1)

    @property
    def begin(self) -> float:
        """Step at which the decay starts."""
        return self.iterations / 4

    @property
    def length(self) -> float:
        """Number of steps that the decay takes."""
        return self.iterations / 2

    def __call__(self, step: int) -> float:
        """Return the factor at a step.

        - `step`: number of the step, from 0.
        """
        done = min(max((step - self.begin) / self.length, 0.0), 1.0)
        return (1.0 - done) + self.final * done
