"""A mechanism: what is run and what is accounted for, as one immutable value; and its design, without the noise."""

import os
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import DTypeLike

from minsep.attribution import AttributionGraph
from minsep.core import validation as validate
from minsep.core.identity import Described, Description
from minsep.core.provided import Provided
from minsep.core.registry import Registered
from minsep.noise import NoiseStream
from minsep.participation import BatchStream, Scheme, Truncation, scheme_from
from minsep.randomness import Key
from minsep.strategy import Strategy, strategy_from

NOISE_DIGITS = 6
"""Significant digits of a noise multiplier that minsep computes: the same number on every processor."""

_ROUNDED_DOWN = 1 - 1e-14


class Certified(Protocol):
    """What has a certified mechanism, such as `minsep.Certificate`."""

    @property
    def mechanism(self) -> "Mechanism":
        """The mechanism that was certified."""


class AcceptCertificate(Protocol):
    """Returns a certificate, or what the file of one holds, if it may be relied on; anything else is refused."""

    def __call__(
        self, certificate: Certified | str | os.PathLike[str], *, verify: bool, accept_assumption: bool
    ) -> Certified:
        """Return what may be relied on."""


accept_certificate: Provided[AcceptCertificate] = Provided("accept_certificate")
"""Accounting, which stands above mechanisms, provides this; `import minsep` says where it is."""


@dataclass(frozen=True, eq=False)
class Design(Described):
    """A strategy matrix and a sampling scheme, which can be calibrated to a budget.

    Args:
        strategy: The matrix C that correlates the noise, such as `minsep.BandedToeplitz`.
        scheme: How batches are sampled, such as `minsep.MinSep`.
        truncation: How every batch is truncated to one size. By default no batch is truncated.

    Examples:
        >>> import minsep
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
        >>> print(Design(strategy, minsep.MinSep(rate=0.02, min_sep=10)))
        b-min-sep, b = 10, 4 bands
    """

    strategy: Strategy
    scheme: Scheme
    truncation: Truncation | None = None

    def __post_init__(self) -> None:
        _check_kind(Strategy, "minsep.BandedToeplitz", strategy=self.strategy)
        _check_kind(Scheme, "minsep.MinSep", scheme=self.scheme)
        if self.truncation is not None:
            _check_kind(Truncation, "minsep.Truncation", truncation=self.truncation)
        self.strategy.check()
        self.scheme.check_iterations(self.iterations)

    @property
    def iterations(self) -> int:
        """Number of training steps."""
        return self.strategy.iterations

    @property
    def name(self) -> str:
        """The sampling scheme and the strategy's size, in words."""
        return name_of(self.scheme.name, self.strategy.in_words, self.strategy.bands == self.scheme.min_sep == 1)

    def __str__(self) -> str:
        return self.name

    def prefix(self, iterations: int) -> "Design":
        """Return the design of the first iterations of a run, as for `Mechanism.prefix`.

        Args:
            iterations: The number of iterations of the prefix.
        """
        return self._prefix(iterations)[0]

    def _prefix(self, iterations: int) -> tuple["Design", float]:
        """Return the design of the first iterations, and by which norm its strategy was divided."""
        iterations = validate.integer(iterations=iterations, at_least=1, at_most=self.iterations)
        if iterations == self.iterations:
            return self, 1.0
        strategy, norm = self.strategy.prefix(iterations)
        return Design(strategy, self.scheme.prefix(iterations), self.truncation), norm

    def with_noise(self, noise_multiplier: float) -> "Mechanism":
        """Return the mechanism with this design and a noise multiplier.

        Args:
            noise_multiplier: The noise multiplier of the mechanism, as for `Mechanism`.

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=100)
            >>> minsep.Design(identity, minsep.Poisson(rate=0.1)).with_noise(2.0).noise_multiplier
            2.0
        """
        return Mechanism(self.strategy, self.scheme, noise_multiplier, self.truncation)

    def describe(self) -> Description:
        """Return the design as plain data."""
        return {
            "kind": "design",
            "strategy": self.strategy.describe(),
            "scheme": self.scheme.describe(),
            "truncation": self.truncation.describe() if self.truncation else None,
        }


@dataclass(frozen=True, eq=False)
class Mechanism(Described):
    """A strategy matrix, a sampling scheme and a noise multiplier: all that privacy depends on.

    The batches and the noise of a training run come from the mechanism itself, so what is run is what was accounted
    for.

    Args:
        strategy: The matrix C that correlates the noise, such as `minsep.BandedToeplitz`.
        scheme: How batches are sampled, such as `minsep.MinSep`.
        noise_multiplier: The standard deviation of the entries of Z divided by the clip norm, with the strategy scaled
            to a largest column norm of 1.
        truncation: How every batch is truncated to one size. By default no batch is truncated.

    Examples:
        >>> import minsep
        >>> mechanism = Mechanism(
        ...     minsep.BandedToeplitz.optimal(iterations=100, bands=4),
        ...     minsep.MinSep(rate=0.02, min_sep=10),
        ...     noise_multiplier=0.8,
        ... )
        >>> for indices, noise in zip(mechanism.batches(num_examples=500), mechanism.noise(shape=(3,)), strict=True):
        ...     pass  # clipped gradients of `indices`, summed, plus clip_norm * noise
    """

    strategy: Strategy
    scheme: Scheme
    noise_multiplier: float
    truncation: Truncation | None = None

    def __post_init__(self) -> None:
        noise_multiplier = validate.real(noise_multiplier=self.noise_multiplier, above=0)
        object.__setattr__(self, "noise_multiplier", noise_multiplier)
        _ = self.design  # checks the rest

    @cached_property
    def design(self) -> Design:
        """The mechanism without its noise multiplier."""
        return Design(self.strategy, self.scheme, self.truncation)

    @property
    def iterations(self) -> int:
        """Number of training steps."""
        return self.strategy.iterations

    @property
    def name(self) -> str:
        """The sampling scheme and the strategy's size, in words.

        Examples:
            >>> import minsep
            >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
            >>> Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=0.8).name
            'b-min-sep, b = 10, 4 bands'
        """
        return self.design.name

    @property
    def root_mean_squared_error(self) -> float:
        """Square root of the mean variance of the prefix sums of the noise, for clip norm 1: smaller is better."""
        return self.noise_multiplier * float(np.sqrt(self.strategy.mean_squared_error))

    @property
    def step_noise(self) -> float:
        """Largest standard deviation of an entry of the noise of a single step, for clip norm 1.

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=100)
            >>> Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=0.8).step_noise
            0.8
        """
        return self.noise_multiplier * self.strategy.largest_inverse_row_norm

    def with_noise_multiplier(self, noise_multiplier: float) -> "Mechanism":
        """Return the same mechanism with another noise multiplier.

        Args:
            noise_multiplier: The noise multiplier of the new mechanism.
        """
        return replace(self, noise_multiplier=noise_multiplier)

    def prefix(self, iterations: int) -> "Mechanism":
        """Return the mechanism of the first iterations: what a run has released that stops there.

        - The strategy is the leading block of C, because C is lower-triangular: the first rows of noise depend on no
          later ones. If its largest column norm is below 1, as with fewer iterations than bands, the block is scaled
          to 1 and the noise multiplier grows by the same factor.
        - Sampling and truncation are the same. A fixed order has only the participations that the prefix has room for.

        A run may count as its prefix only if where it stops was decided before it began, or by something public. The
        noise and the batches of the prefix have the distribution of the run's first ones, and not their random numbers.

        Args:
            iterations: The number of iterations of the prefix.

        Examples:
            >>> import minsep
            >>> strategy = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
            >>> mechanism = Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=0.8)
            >>> mechanism.prefix(50).strategy, mechanism.prefix(50).noise_multiplier
            (BandedToeplitz(iterations=50, bands=4), 0.8)
            >>> round(mechanism.prefix(1).noise_multiplier, 3)
            1.171
        """
        design, norm = self.design._prefix(iterations)
        # Division rounds: a little less noise than the prefix has is on the safe side.
        return design.with_noise(self.noise_multiplier if norm == 1 else self.noise_multiplier / norm * _ROUNDED_DOWN)

    def with_graph(self, graph: AttributionGraph) -> "Mechanism":
        """Return the same mechanism for the users of a graph, refused if a user has more examples than it protects.

        Args:
            graph: Which examples belong to which users.

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=4)
            >>> scheme = minsep.UserMinSep(rate=0.25, min_sep=2, user_bound=2)
            >>> mechanism = Mechanism(identity, scheme, noise_multiplier=1.0)
            >>> graph = minsep.AttributionGraph.from_lists([[0], [0], [1]])
            >>> [batch.size for batch in mechanism.with_graph(graph).batches(num_examples=3, seed=0)]
            [0, 0, 1, 2]
        """
        _check_kind(AttributionGraph, "AttributionGraph.from_lists gives", graph=graph)
        if self.scheme.unit == "example":
            graph.check_user_bound(1)
            return self
        return replace(self, scheme=scheme_from({**self.scheme.describe(), "graph": graph}))

    def batches(self, num_examples: int, seed: int | None = None) -> BatchStream:
        """Return a resumable stream of exactly `iterations` batches of indices into the examples.

        Args:
            num_examples: The number of examples in the dataset.
            seed: A number that makes the run reproducible. It is as secret as the data. By default the randomness comes
                from the operating system, as a private run requires.

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=4)
            >>> mechanism = Mechanism(identity, minsep.Poisson(rate=0.1), noise_multiplier=1.0)
            >>> [batch.size for batch in mechanism.batches(num_examples=1000, seed=0)]
            [100, 91, 96, 84]
        """
        key = Key.of(seed).derive("batches")
        return self.scheme.batches(self.iterations, num_examples, key, self.truncation, self.fingerprint)

    def noise(
        self,
        shape: int | tuple[int, ...],
        dtype: DTypeLike | None = None,
        seed: int | None = None,
        *,
        columns: tuple[int, int] | None = None,
    ) -> NoiseStream:
        """Return a resumable stream of exactly `iterations` arrays: the rows of C^-1 Z.

        The entries of Z have standard deviation `noise_multiplier`. Add a row to a sum of clipped gradients with
        `minsep.release`, and in no other way: a plain addition reveals the sum in its lowest bits.

        Args:
            shape: The shape of a row.
            dtype: The type of a row, float32 or float64. By default it is the smaller one in which the rows are exact.
            seed: As for `batches`. One seed gives independent batches and noise.
            columns: The part (begin, end) of each row. Processes that share a seed can each hold one part.

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
            >>> mechanism = Mechanism(identity, minsep.Poisson(rate=0.1), noise_multiplier=2.0)
            >>> bool(1.98 < np.std(list(mechanism.noise(shape=(100,), seed=0))) < 2.02)
            True
        """
        return NoiseStream(
            self.strategy,
            self.noise_multiplier,
            shape,
            None if dtype is None else _dtype(dtype),
            self.noise_key(seed),
            columns=columns,
            fingerprint=self.fingerprint,
        )

    def noise_key(self, seed: int | None = None) -> Key:
        """Return the key under which `noise` draws Z. It is as secret as the data.

        Args:
            seed: As for `noise`. By default the key is a fresh one.
        """
        return Key.of(seed).derive(f"noise {self.fingerprint}")

    def describe(self) -> Description:
        """Return the mechanism as plain data."""
        return {
            "kind": "mechanism",
            "strategy": self.strategy.describe(),
            "scheme": self.scheme.describe(),
            "noise_multiplier": self.noise_multiplier,
            "truncation": self.truncation.describe() if self.truncation else None,
        }

    @classmethod
    def from_description(cls, description: Description) -> "Mechanism":
        """Return the mechanism with this description.

        Args:
            description: What `describe` returned.

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=10)
            >>> mechanism = Mechanism(identity, minsep.Poisson(rate=0.1), noise_multiplier=1.0)
            >>> Mechanism.from_description(mechanism.describe()) == mechanism
            True
        """
        cut = description["truncation"]
        return cls(
            strategy_from(description["strategy"]),
            scheme_from(description["scheme"]),
            description["noise_multiplier"],
            None if cut is None else Truncation.from_description(cut),
        )

    @classmethod
    def from_certificate(
        cls,
        certificate: Certified | str | os.PathLike[str],
        *,
        verify: bool = True,
        graph: AttributionGraph | None = None,
        accept_assumption: bool = False,
    ) -> "Mechanism":
        """Return the mechanism that a certificate is for: its strategy, scheme, noise multiplier and truncation.

        Args:
            certificate: The certificate, or the file that holds it. One that did not pass is refused.
            verify: Whether to draw the samples of the certificate again, which takes as long as `minsep.verify`. A
                certificate that does not hold is refused. `verify=False` skips this check.
            graph: Which examples belong to which users. A graph is refused if a user has more examples than the
                certificate protects.
            accept_assumption: Whether to accept a conditional certificate, which rests on something that is not proven.

        Examples:
            >>> import minsep
            >>> identity = minsep.BandedToeplitz.identity(iterations=100)
            >>> best = minsep.calibrate(identity, minsep.Poisson(rate=0.02), epsilon=2.0, delta=1e-3)
            >>> Mechanism.from_certificate(best.certificate) == best.mechanism
            True
        """
        accepted = accept_certificate()(certificate, verify=verify, accept_assumption=accept_assumption)
        return accepted.mechanism if graph is None else accepted.mechanism.with_graph(graph)


def _dtype(dtype: DTypeLike) -> np.dtype[Any]:
    try:
        return np.dtype(dtype)
    except TypeError:
        raise ValueError(f"dtype is {dtype!r}, but it must be float32 or float64.") from None


def name_of(scheme: str, strategy: str, is_dp_sgd: bool) -> str:
    """Return the name of a design in words, given the names of its scheme and its strategy.

    >>> name_of("Poisson sampling", "1 band", is_dp_sgd=True)
    'DP-SGD, Poisson sampling'
    """
    return f"DP-SGD, {scheme}" if is_dp_sgd else f"{scheme}, {strategy}"


def _check_kind(kind: type, example: str, **parameter: object) -> None:
    ((name, value),) = parameter.items()
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {value!r}, but it must be a {kind.__name__} such as {example}.")
    if isinstance(value, Registered) and not value.is_variant():
        raise ValueError(
            f"{name} is {value!r}, but its class {type(value).__name__} must name a `kind` of its own: with one that "
            "it inherits it would be accounted for as something else."
        )
