"""Sampling schemes: public descriptions of how often, and how far apart, an example takes part."""

from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

from minsep import _validation as validate
from minsep.identity import Described, Description
from minsep.participation.renewal import RenewalLaw

# Kernels multiply a number of iterations by an index in 64 bits.
MOST_ITERATIONS = 2**31 - 1

# Rates that meet b * rate = 1 up to rounding mean exactly that.
_ROUNDING = 1e-12


class Scheme(Described):
    """How examples come to take part: each independently of the others, where there is a `law` of single examples.

    A scheme is public. What is not, the size of the dataset and the randomness, is passed to `Mechanism.batches`.
    """

    rate: float
    """Expected fraction of the iterations in which an example takes part (p0)."""

    sampling_prob: float
    """Probability of taking part in an iteration in which the example is available (p)."""

    min_sep: int
    """Number of iterations from one participation to the next, at least (b)."""

    @property
    @abstractmethod
    def name(self) -> str:
        """The scheme with its parameters, in words."""

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times."""
        raise ValueError(f"{type(self).__name__} has no law of single examples: its examples depend on each other.")

    def check_iterations(self, iterations: int) -> None:
        """Refuse a number of iterations that the scheme cannot serve."""

    @abstractmethod
    def describe(self) -> Description:
        """Return the scheme as plain data."""

    def expected_batch_size(self, num_examples: int) -> float:
        """Return the mean number of examples in a batch.

        >>> MinSep(rate=512 / 60_000, min_sep=16).expected_batch_size(60_000)
        512.0
        """
        return self.rate * validate.integer(num_examples=num_examples, at_least=1)


@dataclass(frozen=True, eq=False)
class Poisson(Scheme):
    """Every example takes part in every iteration with probability `rate`, independently: DP-SGD.

    >>> Poisson(rate=0.01).sampling_prob
    0.01
    """

    rate: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validate.real(rate=self.rate, above=0, at_most=1))

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """Equal to the rate: every example is always available."""
        return self.rate

    @property
    def min_sep(self) -> int:  # type: ignore[override]
        """1: an example may take part in consecutive iterations."""
        return 1

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: gaps are geometric."""
        return RenewalLaw(prob=self.rate)

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return "Poisson sampling"

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": "poisson", "rate": self.rate}


@dataclass(frozen=True, eq=False)
class CyclicPoisson(Scheme):
    """Each example belongs to one of `cycle` parts; iteration i samples from part i modulo `cycle`.

    - `parts="random"`: an example's part is uniform, and independent of the others' parts.
    - `parts="equal"`: parts are equal shares of the dataset in the order of the indices, and public.
    - In its part's turn an example takes part with probability `cycle * rate`.
    - Participations of one example are a multiple of `cycle` apart.

    >>> CyclicPoisson(rate=0.01, cycle=10).sampling_prob
    0.1
    >>> CyclicPoisson(rate=0.2, cycle=10)
    Traceback (most recent call last):
    ValueError: rate is 0.2, but with cycle 10 it must be at most 1/10 = 0.1.
    """

    rate: float
    cycle: int
    parts: Literal["random", "equal"] = "random"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validate.real(rate=self.rate, above=0, at_most=1))
        object.__setattr__(self, "cycle", validate.integer(cycle=self.cycle, at_least=1, at_most=MOST_ITERATIONS))
        validate.choice(("random", "equal"), parts=self.parts)
        _check_feasible(self.rate, cycle=self.cycle)

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """Probability of taking part in the turn of the example's part."""
        return min(1.0, self.rate * self.cycle)

    @property
    def min_sep(self) -> int:  # type: ignore[override]
        """The cycle: an example's part has one turn in each."""
        return self.cycle

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: a phase, and whole cycles between."""
        return RenewalLaw(
            prob=self.sampling_prob,
            stride=self.cycle,
            phases=self.cycle,
            first_phase=1 / self.cycle,
            ordered=self.parts == "equal",
        )

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return f"cyclic Poisson, cycle {self.cycle}"

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": "cyclic-poisson", "rate": self.rate, "cycle": self.cycle, "parts": self.parts}


@dataclass(frozen=True, eq=False)
class BallsInBins(Scheme):
    """Each example picks one of the `epoch` iterations of an epoch, uniformly, and takes part there in every epoch.

    >>> BallsInBins(epoch=100).rate
    0.01
    """

    epoch: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "epoch", validate.integer(epoch=self.epoch, at_least=1, at_most=MOST_ITERATIONS))

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Once an epoch."""
        return 1 / self.epoch

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """1: only the place in the epoch is random."""
        return 1.0

    @property
    def min_sep(self) -> int:  # type: ignore[override]
        """The epoch."""
        return self.epoch

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: a uniform phase, then every epoch."""
        return RenewalLaw(prob=1.0, rest=self.epoch - 1, phases=self.epoch, first_phase=1 / self.epoch)

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return f"balls-in-bins, epoch {self.epoch}"

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": "balls-in-bins", "epoch": self.epoch}


@dataclass(frozen=True, eq=False)
class MinSep(Scheme):
    """b-min-sep: Poisson sampling from the examples that did not take part in the last `min_sep - 1` iterations.

    - No example takes part twice within `min_sep` iterations.
    - An available example takes part with probability `sampling_prob = rate / (1 - rate (min_sep - 1))`.
    - `start="warm"` begins in the stationary state, so every batch has the same expected size (Algorithm 2 of the
      paper). `start="cold"` begins with every example available, so the first batches are larger (Algorithm 1).
    - `min_sep=1` is Poisson sampling; a warm start at `rate = 1 / min_sep` is balls-in-bins.

    >>> scheme = MinSep(rate=0.01, min_sep=51)
    >>> scheme.sampling_prob
    0.02
    >>> MinSep(rate=0.2, min_sep=16)
    Traceback (most recent call last):
    ValueError: rate is 0.2, but with min_sep 16 it must be at most 1/16 = 0.0625.
    """

    rate: float
    min_sep: int
    start: Literal["warm", "cold"] = "warm"

    def __post_init__(self) -> None:
        object.__setattr__(self, "rate", validate.real(rate=self.rate, above=0, at_most=1))
        object.__setattr__(self, "min_sep", validate.integer(min_sep=self.min_sep, at_least=1, at_most=MOST_ITERATIONS))
        validate.choice(("warm", "cold"), start=self.start)
        _check_feasible(self.rate, min_sep=self.min_sep)

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """Probability of taking part when available: p = p0 / (1 - p0 (b - 1))."""
        if self.min_sep * self.rate >= 1 - _ROUNDING:
            return 1.0
        return self.rate / (1 - self.rate * (self.min_sep - 1))

    @property
    def available(self) -> float:
        """Stationary probability that an example is available: 1 / (1 + (b - 1) p)."""
        return 1 / (1 + (self.min_sep - 1) * self.sampling_prob)

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: `min_sep - 1` iterations of rest after each."""
        phases, first = (self.min_sep, self.available) if self.start == "warm" else (1, 1.0)
        return RenewalLaw(prob=self.sampling_prob, rest=self.min_sep - 1, phases=phases, first_phase=first)

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return f"b-min-sep, b = {self.min_sep}" + (", cold start" if self.start == "cold" else "")

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": "min-sep", "rate": self.rate, "min_sep": self.min_sep, "start": self.start}


@dataclass(frozen=True, eq=False)
class Unamplified(Scheme):
    """A fixed order: each example takes part every `min_sep` iterations, at most `participations` times.

    Nothing is random, so nothing is amplified: privacy comes from the noise alone. A pass of `min_sep` batches goes
    through the examples in the order of their indices, in equal shares.

    >>> Unamplified(min_sep=300, participations=5).expected_batch_size(60_000)
    200.0
    """

    min_sep: int
    participations: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "min_sep", validate.integer(min_sep=self.min_sep, at_least=1, at_most=MOST_ITERATIONS))
        participations = validate.integer(participations=self.participations, at_least=1, at_most=MOST_ITERATIONS)
        object.__setattr__(self, "participations", participations)

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Once every `min_sep` iterations."""
        return 1 / self.min_sep

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """1: nothing is random."""
        return 1.0

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times: a phase that follows from its index, then every pass."""
        return RenewalLaw(prob=1.0, rest=self.min_sep - 1, phases=self.min_sep, ordered=True)

    def check_iterations(self, iterations: int) -> None:
        """Refuse more iterations than the participations allow."""
        if iterations > self.min_sep * self.participations:
            raise ValueError(
                f"participations is {self.participations}, but {iterations} iterations in passes of {self.min_sep} "
                f"need at least {-(-iterations // self.min_sep)}."
            )

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return f"a fixed order, {self.min_sep} apart"

    def describe(self) -> Description:
        """Return the scheme as plain data."""
        return {"kind": "unamplified", "min_sep": self.min_sep, "participations": self.participations}


def _check_feasible(rate: float, **separation: int) -> None:
    ((name, value),) = separation.items()
    if rate * value > 1 + _ROUNDING:
        raise ValueError(f"rate is {rate:g}, but with {name} {value} it must be at most 1/{value} = {1 / value:g}.")


def scheme_from(description: Description, others: Mapping[str, type[Scheme]] = MappingProxyType({})) -> Scheme:
    """Return the scheme that gave a description; `others` are kinds of scheme from further rooms."""
    kinds: dict[str, type[Scheme]] = {
        "poisson": Poisson,
        "cyclic-poisson": CyclicPoisson,
        "balls-in-bins": BallsInBins,
        "min-sep": MinSep,
        "unamplified": Unamplified,
        **others,
    }
    parameters = dict(description)
    kind = parameters.pop("kind", None)
    if kind not in kinds:
        raise ValueError(f"The scheme is of kind {kind!r}, but known are {', '.join(kinds)}.")
    return kinds[kind](**parameters)
