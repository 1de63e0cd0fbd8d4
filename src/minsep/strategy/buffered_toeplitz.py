"""BLT, buffered linear Toeplitz strategies: sums of geometric series, whose noise needs a few buffers."""

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.identity import Description
from minsep.strategy.base import Strategy, norm_of, read_only, rows_of, unit_norm
from minsep.strategy.buffered_optimum import buffered
from minsep.strategy.dampable import Dampable
from minsep.strategy.grid import to_mantissa
from minsep.strategy.inverse_banded import powers
from minsep.strategy.recipe import Recipe, Setting
from minsep.strategy.recurrence import BufferedRecurrence, Buffers
from minsep.strategy.sensitivity import most_participations
from minsep.strategy.workload import Workload

MOST_BUFFERS = 16
_MOST_SCALE = 1e100
_LEAST_LOG_GAP = 0.01  # of the distances of two decays from 1, below which one of them does the work of both


@dataclass(frozen=True, eq=False, init=False)
class BufferedToeplitz(Dampable):
    """A buffered linear Toeplitz strategy (BLT): C has few parameters, and its noise needs few buffers.

    Up to scale, C has the coefficients c_0 = 1 and c_k = sum_i `scales[i]` `decays[i]`^(k-1), and row t of the noise is

        x_t = z_t / c_0 - sum_i scales[i] s_i,    then    s_i = decays[i] s_i + x_t,

    with a buffer s_i, 0 at first, for each i. C has `iterations` diagonals, so repeated participations overlap.
    (Dvijotham, McMahan, Pillutla, Steinke and Thakurta, "Efficient and Near-Optimal Noise Generation for Streaming
    Differential Privacy", arXiv 2404.16706; McMahan, Xu and Zhang, "A Hassle-free Algorithm for Strong Differential
    Privacy in Federated Learning Systems", arXiv 2408.08868.)

    Args:
        decays: theta: how much of each buffer is left after a step, at least 0 and below 1.
        scales: omega: how much of each buffer is taken back, at least 0.
        iterations: The number of rows.

    Examples:
        >>> strategy = BufferedToeplitz([0.9, 0.5], [0.2, 0.3], iterations=100)
        >>> (strategy.coefficients / strategy.coefficients[0])[:4].round(4)
        array([1.   , 0.5  , 0.33 , 0.237])
        >>> strategy.noise_rows
        2
    """

    kind = "buffered-toeplitz"

    decays: FloatArray
    scales: FloatArray
    iterations: int

    def __init__(self, decays: ArrayLike, scales: ArrayLike, iterations: int) -> None:
        iterations = validate.integer(iterations=iterations, at_least=1)
        theta, omega = validate.real_array(1, decays=decays), validate.real_array(1, scales=scales)
        validate.refuse_entries((theta < 0) | (theta >= 1), "every decay must be at least 0 and below 1", decays=theta)
        large = (omega < 0) | (omega > _MOST_SCALE)
        validate.refuse_entries(large, f"every scale must be at least 0 and at most {_MOST_SCALE:g}", scales=omega)
        validate.integer(buffers=theta.size, at_most=MOST_BUFFERS)
        if theta.size != omega.size:
            raise ValueError(f"scales has {omega.size} numbers, but it must have one for each of {theta.size} decays.")
        column = np.ones(iterations)
        column[1:] = 0.0
        for decay, scale in zip(theta.tolist(), omega.tolist(), strict=True):
            column[1:] += scale * powers(decay, iterations - 1)
        object.__setattr__(self, "decays", read_only(theta + 0.0))
        object.__setattr__(self, "scales", read_only(omega + 0.0))
        object.__setattr__(self, "coefficients", read_only(unit_norm(column, scales=omega)))
        object.__setattr__(self, "iterations", iterations)

    @classmethod
    def optimal(
        cls,
        *,
        iterations: int,
        buffers: int,
        min_sep: int | None = None,
        participations: int = 1,
        workload: Workload | None = None,
    ) -> "BufferedToeplitz":
        """Return the strategy of least mean squared error times squared sensitivity, without amplification.

        Where fewer buffers are as good, there are fewer. Scales, and how far decays are from 1, have 20 binary digits,
        so that every processor finds the same strategy.

        Args:
            iterations: The number of rows.
            buffers: The number of buffers, at most.
            min_sep: The number of iterations from one participation to the next, for the sensitivity. None is all
                iterations.
            participations: The number of participations, for the sensitivity.
            workload: The workload whose error, at a constant learning rate, the strategy minimises instead. None is
                prefix sums.

        Examples:
            >>> BufferedToeplitz.optimal(iterations=2000, buffers=3).decays.round(3)
            array([0.998, 0.974, 0.722])
            >>> BufferedToeplitz.optimal(iterations=2000, buffers=3, min_sep=117, participations=18).decays.round(3)
            array([0.986, 0.591])
        """
        iterations = validate.integer(iterations=iterations, at_least=1)
        buffers = validate.integer(buffers=buffers, at_least=1, at_most=MOST_BUFFERS)
        separation = iterations if min_sep is None else validate.integer(min_sep=min_sep, at_least=1)
        participations = validate.integer(participations=participations, at_least=1)
        count = most_participations(iterations, separation, participations)
        column = None if workload is None or workload == Workload() else workload.coefficients(iterations)
        for number in range(buffers, 0, -1):
            decays, scales = buffered(iterations, number, separation, count, column)
            if number == 1 or np.diff(np.log1p(-decays)).min() > _LEAST_LOG_GAP:
                break
        return cls(1 - to_mantissa(1 - decays), to_mantissa(scales), iterations)

    def damped(self, factor: float) -> "BufferedToeplitz":
        """Return the strategy with coefficient k of C and of C^-1 times the k-th power of a factor, rescaled to norm 1.

        Participations of one example then overlap less, which amplification by sampling rewards: see docs/planning.md.

        Args:
            factor: The factor, above 0 and at most 1.

        Examples:
            >>> BufferedToeplitz([0.9], [0.2], iterations=100).damped(0.5)
            BufferedToeplitz([0.45], [0.1], iterations=100)
        """
        factor = validate.real(factor=factor, above=0, at_most=1)
        return BufferedToeplitz(self.decays * factor, self.scales * factor, self.iterations)

    def prefix(self, iterations: int) -> tuple["BufferedToeplitz", float]:
        """Return the strategy of the first iterations, and by which norm it was divided.

        Args:
            iterations: The number of iterations of the prefix.

        Examples:
            >>> first, norm = BufferedToeplitz([0.9], [0.5], iterations=4).prefix(2)
            >>> first, round(norm, 3)
            (BufferedToeplitz([0.9], [0.5], iterations=2), 0.879)
        """
        iterations = validate.integer(iterations=iterations, at_least=1, at_most=self.iterations)
        if iterations == self.iterations:
            return self, 1.0
        return BufferedToeplitz(self.decays, self.scales, iterations), norm_of(self.coefficients[:iterations])

    @property
    def buffers(self) -> int:
        """Number of buffers."""
        return int(self.decays.size)

    @property
    def in_words(self) -> str:
        """The strategy in words.

        Examples:
            >>> BufferedToeplitz([0.9], [0.5], iterations=4).in_words
            'BLT of 1 buffer'
        """
        return f"BLT of {self.buffers} buffer{'s' if self.buffers > 1 else ''}"

    @cached_property
    def inverse_coefficients(self) -> FloatArray:
        """First column of C^-1, `iterations` long."""
        return read_only(self.solve(np.eye(1, self.iterations)[0]))

    def recurrence(self) -> BufferedRecurrence:
        """Return each row of C^-1 Z as a sum of the buffers and of its own row of Z."""
        return BufferedRecurrence(Buffers(self.decays, -self.scales, 1 / float(self.coefficients[0])))

    def solve(self, values: ArrayLike) -> FloatArray:
        """Return C^-1 `values`, for `iterations` rows of any shape.

        Args:
            values: An array whose first dimension has one entry for each iteration.
        """
        from minsep.strategy import kernels

        rows = rows_of(values, self.iterations)
        flat = np.ascontiguousarray(rows.reshape(self.iterations, -1))
        solved = kernels.solve_buffered(flat, self.decays, self.scales, float(self.coefficients[0]))
        return np.asarray(solved).reshape(rows.shape)

    def describe(self) -> Description:
        """Return the strategy as plain data."""
        return {
            "kind": self.kind,
            "iterations": self.iterations,
            "decays": self.decays.tolist(),
            "scales": self.scales.tolist(),
        }

    @classmethod
    def from_description(cls, description: Description) -> "BufferedToeplitz":
        """Return the strategy with this description, bit by bit.

        Args:
            description: What `describe` returned.
        """
        return cls(description["decays"], description["scales"], description["iterations"])

    def __repr__(self) -> str:
        decays, scales = ([float(f"{value:.5g}") for value in values] for values in (self.decays, self.scales))
        return f"BufferedToeplitz({decays}, {scales}, iterations={self.iterations})"


class BufferedRecipe(Recipe):
    """BLT, with one buffer up to four."""

    kind = BufferedToeplitz.kind
    words = "BLT"
    place = 40

    @classmethod
    def sizes(cls, max_bands: int) -> list[int]:
        """Return numbers of buffers."""
        return [1, 2, 3, 4] if max_bands >= 2 else []

    @classmethod
    def strategy(cls, size: int, setting: Setting) -> BufferedToeplitz | None:
        """Return the best strategy without amplification; None if fewer buffers are as good."""
        found = BufferedToeplitz.optimal(
            iterations=setting.iterations,
            buffers=size,
            min_sep=setting.min_sep,
            participations=setting.participations,
            workload=setting.workload,
        )
        return found if found.buffers == size else None

    @classmethod
    def size_of(cls, strategy: Strategy) -> int:
        """Return the number of buffers."""
        return strategy.noise_rows

    @classmethod
    def name(cls, size: int) -> str:
        """Return the kind with its buffers, in words."""
        return f"{cls.words} of {size} buffer{'s' if size > 1 else ''}"

    @classmethod
    def noise_bytes(cls, size: int) -> int:
        """Return eight bytes for each buffer."""
        return 8 * size

    @classmethod
    def drawn_rows(cls, size: int) -> int:
        """Return 1: no row is drawn again."""
        return 1
