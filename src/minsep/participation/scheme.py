"""Sampling schemes: public descriptions of how often, and how far apart, an example takes part."""

from abc import abstractmethod
from typing import ClassVar, Literal

from minsep.core import validation as validate
from minsep.core.identity import Described, Description
from minsep.core.registry import Registered
from minsep.participation.assumptions import Assumption
from minsep.participation.renewal import RenewalLaw
from minsep.participation.stream import BatchStream, RenewalBatchStream
from minsep.participation.truncation import Truncation
from minsep.randomness import Key

# Kernels multiply a number of iterations by an index in 64 bits.
MOST_ITERATIONS = 2**31 - 1

# Rates that meet b * rate = 1 up to rounding mean exactly that.
ROUNDING = 1e-12


class Scheme(Described, Registered):
    """How examples come to take part.

    A scheme is public. What is not, the size of the dataset and the randomness, is passed to `Mechanism.batches`.
    A subclass that names its `kind` can be read from its description.
    """

    unit: ClassVar[Literal["example", "user"]] = "example"
    """Whose privacy is accounted for."""

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
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the accounting of the scheme takes for granted: nothing, unless a scheme says otherwise."""
        return ()

    @abstractmethod
    def batches(
        self, iterations: int, num_examples: int, key: Key, truncation: Truncation | None, fingerprint: str
    ) -> BatchStream:
        """Return the stream of `iterations` batches of indices into `num_examples` examples.

        Args:
            iterations: The number of batches.
            num_examples: The number of examples in the dataset.
            key: The secret key that batches are drawn from.
            truncation: The truncation of every batch. None leaves batches as they were sampled.
            fingerprint: The fingerprint of the mechanism, which a saved state must match.
        """

    def check_iterations(self, iterations: int) -> None:
        """Refuse a number of iterations that the scheme cannot serve.

        Args:
            iterations: The number of iterations of the run.
        """

    def prefix(self, iterations: int) -> "Scheme":
        """Return the scheme of the first iterations of a run, refused unless they are those of a shorter run.

        Args:
            iterations: The number of iterations of the prefix.
        """
        raise ValueError(f"scheme is {self!r}, but minsep does not know how its runs begin.")

    def expected_batch_size(self, num_examples: int) -> float:
        """Return the mean number of examples in a batch.

        Args:
            num_examples: The number of examples in the dataset.

        Examples:
            >>> import minsep
            >>> minsep.MinSep(rate=512 / 60_000, min_sep=16).expected_batch_size(60_000)
            512.0
        """
        return self.rate * validate.integer(num_examples=num_examples, at_least=1)


class IndependentScheme(Scheme):
    """A scheme in which every example takes part independently of the others, by one law."""

    @property
    @abstractmethod
    def law(self) -> RenewalLaw:
        """Law of one example's participation times."""

    def prefix(self, iterations: int) -> Scheme:
        """Return the scheme itself: its law does not depend on how long a run is.

        Args:
            iterations: The number of iterations of the prefix.
        """
        return self

    def batches(
        self, iterations: int, num_examples: int, key: Key, truncation: Truncation | None, fingerprint: str
    ) -> BatchStream:
        """Return the stream of `iterations` batches of indices into `num_examples` examples.

        Args:
            iterations: The number of batches.
            num_examples: The number of examples in the dataset.
            key: The secret key that batches are drawn from.
            truncation: The truncation of every batch. None leaves batches as they were sampled.
            fingerprint: The fingerprint of the mechanism, which a saved state must match.
        """
        return RenewalBatchStream(self.law, iterations, num_examples, key, truncation, fingerprint)


def check_feasible(rate: float, **separation: int) -> None:
    """Refuse a rate that is too large for a separation."""
    ((name, value),) = separation.items()
    if rate * value > 1 + ROUNDING:
        raise ValueError(f"rate is {rate:g}, but with {name} {value} it must be at most 1/{value} = {1 / value:g}.")


def scheme_from(description: Description) -> Scheme:
    """Return the scheme that gave a description.

    >>> scheme_from({"kind": "poisson", "rate": 0.5})
    Poisson(rate=0.5)
    """
    parameters = dict(description)
    return Scheme.of_kind(parameters.pop("kind", None))(**parameters)
