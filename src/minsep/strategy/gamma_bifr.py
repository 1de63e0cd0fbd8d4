"""gamma-BIFR: the first bands of a fractional power of differences, drawn again for every row."""

from dataclasses import dataclass, replace

from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.strategy import series
from minsep.strategy.banded_toeplitz import sizes
from minsep.strategy.base import Strategy
from minsep.strategy.inverse_banded import InverseBanded, powers
from minsep.strategy.ladder import best_rung
from minsep.strategy.recipe import Recipe, Setting, doubling_bands
from minsep.strategy.sensitivity import most_participations
from minsep.strategy.workload import Workload

_RUNGS = 256


@dataclass(frozen=True, eq=False, init=False)
class GammaBIFR(InverseBanded):
    """The banded inverse fractional root: C^-1 has the first coefficients of (1 - a x)^gamma, up to scale.

    They are h_0 = 1 and h_k = h_(k-1) a (k - 1 - gamma) / k. With two bands this is lambda-CGD with lambda = a gamma,
    and with gamma = 1/2 and a = 1 the banded inverse square root. (Kalinin, Rehn, Andersson, Honkela and Lampert,
    "Beyond Square Roots", arXiv 2605.18379: of prefix sums, or with a below 1 of SGD with weight decay.)

    Args:
        gamma: The power, above 0 and at most 1.
        bands: The number of diagonals of C^-1.
        iterations: The number of rows.
        decay: The factor a, above 0 and at most 1.

    Examples:
        >>> strategy = GammaBIFR(0.75, bands=4, iterations=2000)
        >>> (strategy.noise_coefficients / strategy.noise_coefficients[0]).round(4)
        array([ 1.    , -0.75  , -0.0938, -0.0391])
        >>> strategy.noise_rows
        0
    """

    kind = "gamma-bifr"

    gamma: float
    decay: float

    def __init__(self, gamma: float, bands: int, iterations: int, decay: float = 1.0) -> None:
        gamma = validate.real(gamma=gamma, above=0, at_most=1)
        decay = validate.real(decay=decay, above=0, at_most=1)
        iterations, bands = sizes(iterations, bands=bands)
        object.__setattr__(self, "gamma", gamma)
        object.__setattr__(self, "decay", decay)
        self._scale(series.power_of_differences(gamma, bands) * powers(decay, bands), iterations)

    @classmethod
    def optimal(
        cls,
        *,
        iterations: int,
        bands: int,
        min_sep: int | None = None,
        participations: int = 1,
        workload: Workload | None = None,
    ) -> "GammaBIFR":
        """Return the strategy of least mean squared error times squared sensitivity, without amplification.

        gamma is a multiple of 1/256, so that every processor finds the same strategy.

        Args:
            iterations: The number of rows.
            bands: The number of diagonals of C^-1.
            min_sep: The number of iterations from one participation to the next, for the sensitivity. None is all
                iterations.
            participations: The number of participations, for the sensitivity.
            workload: The workload whose error counts, at a constant learning rate. None is prefix sums.

        Examples:
            >>> [GammaBIFR.optimal(iterations=2000, bands=bands).gamma for bands in (2, 8, 64)]
            [0.96875, 0.83203125, 0.609375]
        """
        iterations, bands = sizes(iterations, bands=bands)
        separation = iterations if min_sep is None else validate.integer(min_sep=min_sep, at_least=1)
        participations = validate.integer(participations=participations, at_least=1)
        count = most_participations(iterations, separation, participations)
        judged = replace(workload or Workload(), schedule="constant")

        def cost(rung: int) -> float:
            strategy = cls(rung / _RUNGS, bands, iterations)
            return judged.mean_squared_error(strategy) * strategy.sensitivity(separation, count) ** 2

        return cls(best_rung(cost, 1, _RUNGS) / _RUNGS, bands, iterations)

    def damped(self, factor: float) -> "GammaBIFR":
        """Return the strategy with its decay times a factor, so that participations of one example overlap less.

        Args:
            factor: The factor, above 0 and at most 1.

        Examples:
            >>> GammaBIFR(0.75, bands=4, iterations=2000).damped(0.5).decay
            0.5
        """
        factor = validate.real(factor=factor, above=0, at_most=1)
        return GammaBIFR(self.gamma, self.inverse_bands, self.iterations, self.decay * factor)

    def _first(self, iterations: int) -> "GammaBIFR":
        return GammaBIFR(self.gamma, min(self.inverse_bands, iterations), iterations, self.decay)

    @property
    def in_words(self) -> str:
        """The strategy in words.

        Examples:
            >>> GammaBIFR(0.75, bands=4, iterations=2000).in_words
            'gamma-BIFR of 4 bands, gamma 0.75'
        """
        decaying = "" if self.decay == 1 else f", decay {self.decay:.4g}"
        return f"gamma-BIFR of {self.inverse_bands} bands, gamma {self.gamma:.4g}{decaying}"

    def describe(self) -> Description:
        """Return the strategy as plain data."""
        return {
            "kind": self.kind,
            "iterations": self.iterations,
            "gamma": self.gamma,
            "bands": self.inverse_bands,
            "decay": self.decay,
        }

    @classmethod
    def from_description(cls, description: Description) -> "GammaBIFR":
        """Return the strategy with this description, bit by bit.

        Args:
            description: What `describe` returned.
        """
        return cls(description["gamma"], description["bands"], description["iterations"], description["decay"])

    def __repr__(self) -> str:
        decaying = "" if self.decay == 1 else f", decay={self.decay:g}"
        return f"GammaBIFR({self.gamma:g}, bands={self.inverse_bands}, iterations={self.iterations}{decaying})"


class GammaBIFRRecipe(Recipe):
    """gamma-BIFR, with 4, 8, 16 and 32 bands of its inverse."""

    kind = GammaBIFR.kind
    words = "gamma-BIFR"
    place = 20

    @classmethod
    def sizes(cls, max_bands: int) -> list[int]:
        """Return numbers of bands of the inverse."""
        return doubling_bands(max_bands)

    @classmethod
    def strategy(cls, size: int, setting: Setting) -> GammaBIFR | None:
        """Return the strategy with the best gamma without amplification."""
        if size > setting.iterations:
            return None
        return GammaBIFR.optimal(
            iterations=setting.iterations,
            bands=size,
            min_sep=setting.min_sep,
            participations=setting.participations,
            workload=setting.workload,
        )

    @classmethod
    def size_of(cls, strategy: Strategy) -> int:
        """Return the number of bands of the inverse."""
        return strategy.drawn_rows

    @classmethod
    def name(cls, size: int) -> str:
        """Return the kind with its bands, in words."""
        return f"{cls.words} of {size} bands"
