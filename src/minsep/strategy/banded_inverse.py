"""Toeplitz strategies whose inverse is banded: the paper's appendix on matrices C that are not banded."""

from dataclasses import dataclass

from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.strategy import optimum, series
from minsep.strategy.banded_toeplitz import sizes
from minsep.strategy.base import Strategy, recorded
from minsep.strategy.grid import on_grid
from minsep.strategy.inverse_banded import InverseBanded, powers
from minsep.strategy.recipe import Recipe, Setting, doubling_bands
from minsep.strategy.sensitivity import most_participations


@dataclass(frozen=True, eq=False, init=False)
class BandedInverseToeplitz(InverseBanded):
    """A Toeplitz strategy with C^-1 banded and C non-negative, scaled to unit column norm.

    Its noise needs only the last `inverse_bands - 1` rows of Z. C itself has `iterations` diagonals, so repeated
    participations overlap, and its accounting is an upper bound.

    Args:
        noise_coefficients: The first column of C^-1 down to its last band, up to a factor: it is scaled so that C has
            column norm 1. Its inverse must be non-negative, which always holds if all coefficients after the first are
            at most 0.
        iterations: The number of rows.

    Examples:
        >>> strategy = BandedInverseToeplitz.square_root(iterations=2000, bands=4)
        >>> (strategy.noise_coefficients / strategy.noise_coefficients[0]).round(4)
        array([ 1.    , -0.5   , -0.125 , -0.0625])
        >>> strategy.bands
        2000
    """

    kind = "banded-inverse-toeplitz"

    noise_coefficients: FloatArray
    iterations: int

    def __init__(self, noise_coefficients: ArrayLike, iterations: int) -> None:
        iterations = validate.integer(iterations=iterations, at_least=1)
        values = validate.real_array(1, noise_coefficients=noise_coefficients)
        validate.refuse_entries(
            values[:1] <= 0, "the first coefficient must be positive", noise_coefficients=values[:1]
        )
        validate.integer(inverse_bands=values.size, at_most=iterations)
        self._scale(values, iterations)

    @classmethod
    def from_noise_coefficients(cls, noise_coefficients: ArrayLike, *, iterations: int) -> "BandedInverseToeplitz":
        """Return the strategy whose inverse has this first column, scaled so that C has column norm 1.

        Args:
            noise_coefficients: The first column of C^-1 down to its last band, up to a factor.
            iterations: The number of rows.

        Examples:
            >>> strategy = BandedInverseToeplitz.from_noise_coefficients([1.0, -0.5], iterations=3)
            >>> (strategy.coefficients / strategy.coefficients[0]).round(3)
            array([1.  , 0.5 , 0.25])
        """
        return cls(noise_coefficients, iterations)

    @classmethod
    def square_root(cls, *, iterations: int, bands: int) -> "BandedInverseToeplitz":
        """Return the strategy whose inverse is that of the square root of prefix sums, truncated to `bands` diagonals.

        Args:
            iterations: The number of rows.
            bands: The number of diagonals of C^-1.

        Examples:
            >>> BandedInverseToeplitz.square_root(iterations=100, bands=2).inverse_bands
            2
        """
        iterations, bands = sizes(iterations, bands=bands)
        return cls(series.inverse_of_that_square_root(bands), iterations)

    @classmethod
    def optimal(
        cls, *, iterations: int, bands: int, min_sep: int | None = None, participations: int = 1
    ) -> "BandedInverseToeplitz":
        """Return the strategy of least mean squared error times squared sensitivity, without amplification.

        Relative to the first one, noise coefficients are multiples of 2^-20, so that every processor finds the same
        strategy.

        Args:
            iterations: The number of rows.
            bands: The number of diagonals of C^-1.
            min_sep: The number of iterations from one participation to the next, for the sensitivity. None is all
                iterations.
            participations: The number of participations, for the sensitivity.

        Examples:
            >>> root = BandedInverseToeplitz.square_root(iterations=100, bands=4)
            >>> best = BandedInverseToeplitz.optimal(iterations=100, bands=4)
            >>> best.mean_squared_error < root.mean_squared_error
            True
        """
        iterations, bands = sizes(iterations, bands=bands)
        separation = iterations if min_sep is None else validate.integer(min_sep=min_sep, at_least=1)
        participations = validate.integer(participations=participations, at_least=1)
        count = most_participations(iterations, separation, participations)
        return cls(on_grid(optimum.banded_inverse(iterations, bands, separation, count)), iterations)

    def damped(self, factor: float) -> "BandedInverseToeplitz":
        """Return the strategy with coefficient k of C and of C^-1 times the k-th power of a factor, rescaled to norm 1.

        Participations of one example then overlap less, which amplification by sampling rewards: see docs/planning.md.

        Args:
            factor: The factor, above 0 and at most 1.

        Examples:
            >>> strategy = BandedInverseToeplitz.from_noise_coefficients([1.0, -0.5], iterations=4).damped(0.8)
            >>> (strategy.noise_coefficients / strategy.noise_coefficients[0]).round(3)
            array([ 1. , -0.4])
        """
        factor = validate.real(factor=factor, above=0, at_most=1)
        if factor == 1:
            return self
        return BandedInverseToeplitz(self.noise_coefficients * powers(factor, self.inverse_bands), self.iterations)

    def _first(self, iterations: int) -> "BandedInverseToeplitz":
        return BandedInverseToeplitz(self.noise_coefficients[:iterations], iterations)

    @property
    def in_words(self) -> str:
        """The strategy in words.

        Examples:
            >>> BandedInverseToeplitz.square_root(iterations=100, bands=4).in_words
            'banded inverse of 4 bands'
        """
        return f"banded inverse of {self.inverse_bands} band{'s' if self.inverse_bands > 1 else ''}"

    def describe(self) -> Description:
        """Return the strategy as plain data."""
        return {
            "kind": self.kind,
            "iterations": self.iterations,
            "noise_coefficients": self.noise_coefficients.tolist(),
        }

    @classmethod
    def from_description(cls, description: Description) -> "BandedInverseToeplitz":
        """Return the strategy with this description, with bit-identical noise coefficients.

        Args:
            description: What `describe` returned.
        """
        strategy = cls(description["noise_coefficients"], description["iterations"])
        exact = recorded(strategy.noise_coefficients, description["noise_coefficients"])
        object.__setattr__(strategy, "noise_coefficients", exact)
        return strategy

    def __repr__(self) -> str:
        return f"BandedInverseToeplitz(iterations={self.iterations}, inverse_bands={self.inverse_bands})"


class BandedInverseRecipe(Recipe):
    """The best banded inverse, with 4, 8, 16 and 32 bands; with two it is lambda-CGD."""

    kind = BandedInverseToeplitz.kind
    words = "banded inverse"
    place = 30

    @classmethod
    def sizes(cls, max_bands: int) -> list[int]:
        """Return numbers of bands of the inverse."""
        return doubling_bands(max_bands)

    @classmethod
    def strategy(cls, size: int, setting: Setting) -> BandedInverseToeplitz | None:
        """Return the best strategy for prefix sums without amplification."""
        if size > setting.iterations:
            return None
        return BandedInverseToeplitz.optimal(
            iterations=setting.iterations,
            bands=size,
            min_sep=setting.min_sep,
            participations=setting.participations,
        )

    @classmethod
    def size_of(cls, strategy: Strategy) -> int:
        """Return the number of bands of the inverse."""
        return strategy.drawn_rows

    @classmethod
    def name(cls, size: int) -> str:
        """Return the kind with its bands, in words."""
        return f"{cls.words} of {size} bands"
