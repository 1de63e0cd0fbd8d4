"""The privacy budget."""

from dataclasses import dataclass

from minsep import _validation as validate

_MOST_EPSILON = 700.0


@dataclass(frozen=True)
class Budget:
    """A budget of (epsilon, delta)-differential privacy.

    - `epsilon` is above 0 and at most 700: e^epsilon must be a number.
    - `delta` is between 0 and 1, both excluded.

    >>> print(Budget(epsilon=4.0, delta=1e-5))
    (4, 1e-05)-DP
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "epsilon", validate.real(epsilon=self.epsilon, above=0, at_most=_MOST_EPSILON))
        object.__setattr__(self, "delta", validate.real(delta=self.delta, above=0, below=1))

    def __str__(self) -> str:
        return f"({self.epsilon:g}, {self.delta:g})-DP"
