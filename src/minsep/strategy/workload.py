"""What an optimiser makes of the noise: the sums of it that end up in the model."""

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.strategy import series
from minsep.strategy.base import Strategy

Schedule = Literal["constant", "linear-decay", "cosine"]
SCHEDULES: tuple[Schedule, ...] = ("constant", "linear-decay", "cosine")

_MOST_ITERATIONS = 20_000  # for a schedule, whose error takes a sum over all pairs of iterations


@dataclass(frozen=True)
class Workload:
    """How SGD adds up gradients, and with them the noise: theta_t = s theta_(t-1) - r_t v_t, v_t = m v_(t-1) + g_t.

    The model after step t contains the sum over past steps of what is left of each gradient. As a matrix A, one row a
    step, the error of a strategy C is that of A C^-1 z. Without parameters these are prefix sums.

    Args:
        momentum: The momentum m. The gradients are scaled by 1 - m, so that errors compare at equal effective learning
            rates.
        horizon: How many steps back noise still matters: s = 1 - 1/`horizon`, as with weight decay (`horizon` is 1 over
            the learning rate times the decay), or with a loss whose curvature pulls the model back. None: noise never
            fades.
        schedule: The schedule of the learning rate r_t, from 1 on: "constant", "linear-decay" or "cosine" to 0.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=200, bands=4)
        >>> bool(abs(minsep.Workload().mean_squared_error(strategy) - strategy.mean_squared_error) < 1e-9)
        True
        >>> short = minsep.Workload(momentum=0.9, horizon=20)
        >>> best = minsep.BandedToeplitz.optimal(iterations=200, bands=4, workload=short)
        >>> short.mean_squared_error(best) < short.mean_squared_error(strategy)
        True
    """

    momentum: float = 0.0
    horizon: float | None = None
    schedule: Schedule = "constant"

    def __post_init__(self) -> None:
        validate.all_of(
            lambda: validate.real(momentum=self.momentum, at_least=0, below=1),
            lambda: self.horizon is None or validate.real(horizon=self.horizon, at_least=1),
            lambda: validate.choice(SCHEDULES, schedule=self.schedule),
        )

    @property
    def is_toeplitz(self) -> bool:
        """Whether every step is treated alike, so that A is a Toeplitz matrix."""
        return self.schedule == "constant"

    @property
    def most_iterations(self) -> int | None:
        """Most iterations for which the error is computed; None: any."""
        return None if self.is_toeplitz else _MOST_ITERATIONS

    @property
    def name(self) -> str:
        """The workload in words.

        Examples:
            >>> Workload(momentum=0.95, schedule="linear-decay", horizon=200).name
            'SGD with momentum 0.95, linear decay of the learning rate and a horizon of 200 steps'
        """
        parts = []
        if self.momentum:
            parts.append(f"momentum {self.momentum:g}")
        if not self.is_toeplitz:
            parts.append(f"{self.schedule.replace('-', ' ')} of the learning rate")
        if self.horizon is not None:
            parts.append(f"a horizon of {self.horizon:g} steps")
        if not parts:
            return "prefix sums"
        return "SGD with " + (", ".join(parts[:-1]) + " and " if parts[1:] else "") + parts[-1]

    def coefficients(self, iterations: int) -> FloatArray:
        """Return the first column of A at a constant learning rate.

        Args:
            iterations: The length of the column.

        Examples:
            >>> Workload(momentum=0.5).coefficients(4)
            array([0.5   , 0.75  , 0.875 , 0.9375])
        """
        return series.multiply(self._faded(iterations), self._velocity(iterations), iterations)

    def mean_squared_error(self, strategy: Strategy) -> float:
        """Return the mean over the steps of the variance of A C^-1 z, at noise multiplier 1.

        Args:
            strategy: The strategy C.
        """
        n = strategy.iterations
        if self == Workload():
            return strategy.mean_squared_error
        inverse = strategy.inverse_coefficients
        if inverse is None:
            raise ValueError(f"strategy is {strategy!r}, but the error of a workload is known for Toeplitz matrices.")
        if self.is_toeplitz:
            entries = series.multiply(inverse, self.coefficients(n), n)
            return float(np.arange(n, 0, -1) @ entries**2) / n
        if n > _MOST_ITERATIONS:
            raise ValueError(
                f"iterations is {n}, but for a schedule that is not constant it must be at most {_MOST_ITERATIONS}."
            )
        return self._error_of_schedule(series.multiply(inverse, self._velocity(n), n))

    def error(self, strategy: Strategy, noise_multiplier: float) -> float:
        """Return the root mean squared error of a strategy, for clip norm 1.

        Args:
            strategy: The strategy C.
            noise_multiplier: The standard deviation of the entries of Z.

        Examples:
            >>> from minsep import BandedToeplitz
            >>> Workload(horizon=1).error(BandedToeplitz.identity(iterations=10), 2.0)
            2.0
        """
        return noise_multiplier * math.sqrt(self.mean_squared_error(strategy))

    def _error_of_schedule(self, steps: FloatArray) -> float:
        """Return the error, given the column of C^-1 with momentum: noise of step j enters step j + k by `steps[k]`."""
        n = steps.size
        rates, keep = self._rates(n), self._kept
        total = 0.0
        state = np.zeros(n)
        # state[j] is what the model holds of the noise of step j, now.
        for step in range(n):
            state[: step + 1] = keep * state[: step + 1] + rates[step] * steps[step::-1]
            total += float(state[: step + 1] @ state[: step + 1])
        return total / n

    @property
    def _kept(self) -> float:
        """What is left of the model, and of the noise in it, after a step: s."""
        return 1.0 if self.horizon is None else 1 - 1 / self.horizon

    def _faded(self, iterations: int) -> FloatArray:
        return self._kept ** np.arange(iterations, dtype=np.float64)

    def _velocity(self, iterations: int) -> FloatArray:
        return (1 - self.momentum) * self.momentum ** np.arange(iterations, dtype=np.float64)

    def _rates(self, iterations: int) -> FloatArray:
        left = 1 - np.arange(iterations) / iterations
        if self.schedule == "linear-decay":
            return left
        return (1 + np.cos(math.pi * (1 - left))) / 2 if self.schedule == "cosine" else np.ones(iterations)
