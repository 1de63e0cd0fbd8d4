"""b-min-sep sampling for users with several examples."""

from dataclasses import dataclass, field
from typing import Literal

from minsep.attribution import AttributionGraph
from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.min_sep import MinSep
from minsep.participation.poisson import Poisson
from minsep.participation.renewal import RenewalLaw
from minsep.participation.scheme import IndependentScheme, Scheme
from minsep.participation.stream import BatchStream
from minsep.participation.truncation import Truncation
from minsep.randomness import Key

_MOST_USER_BOUND = 10_000


@dataclass(frozen=True, eq=False)
class UserMinSep(IndependentScheme):
    """b-min-sep sampling that protects users, each of whom has at most `user_bound` examples, shared or not.

    Every example takes part as in `MinSep`, by coins of its own. So the examples of other users tell nothing about
    when this user's take part, and the privacy of a user is exactly that of a sum of `user_bound` independent b-min-sep
    vectors. No assumption is made: docs/attribution.md has the proof.

    Args:
        rate: Expected fraction of the iterations in which an example takes part, as in `MinSep`.
        min_sep: Number of iterations from one participation of an example to the next, at least, as in `MinSep`.
        user_bound: The most examples of one user (k_u). An example may belong to several users. Bound contributions
            first, by `minsep.bound_contributions`.
        start: How sampling begins, as in `MinSep`.
        coins: What the adversary knows of the sampling. With "public" the accounting is for an adversary who knows
            every coin: no amplification, in closed form.
        graph: Which examples belong to which users, to be checked: no user may have more examples than `user_bound`,
            and the dataset must have as many examples as the graph. It is not part of the description.

    Examples:
        >>> scheme = UserMinSep(rate=512 / 60_000, min_sep=16, user_bound=2)
        >>> scheme.unit, round(scheme.expected_batch_size(60_000))
        ('user', 512)
        >>> graph = AttributionGraph.from_lists([[0, 1], [1], [1, 2]])
        >>> UserMinSep(rate=0.1, min_sep=2, user_bound=2, graph=graph)  # doctest: +NORMALIZE_WHITESPACE
        Traceback (most recent call last):
        ValueError: user_bound is 2, but user 1 has 3 examples: bound contributions first, by
        minsep.bound_contributions.
    """

    kind = "user-min-sep"
    unit = "user"

    rate: float
    min_sep: int
    user_bound: int
    start: Literal["warm", "cold"] = "warm"
    coins: Literal["secret", "public"] = "secret"
    graph: AttributionGraph | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        bound = validate.integer(user_bound=self.user_bound, at_least=1, at_most=_MOST_USER_BOUND)
        validate.choice(("secret", "public"), coins=self.coins)
        if self.graph is not None and not isinstance(self.graph, AttributionGraph):
            raise ValueError(f"graph is {self.graph!r}, but it must be an AttributionGraph such as from_lists gives.")
        examples = self.for_examples
        for name, value in (("rate", examples.rate), ("min_sep", examples.min_sep), ("user_bound", bound)):
            object.__setattr__(self, name, value)
        if self.graph is not None:
            self.graph.check_user_bound(bound)

    @classmethod
    def of(cls, scheme: Scheme, user_bound: int, graph: AttributionGraph | None = None) -> "UserMinSep":
        """Return the same sampling of examples, for the privacy of users.

        Args:
            scheme: Poisson or b-min-sep sampling; others are refused.
            user_bound: The most examples of one user.
            graph: Which examples belong to which users, to be checked.

        Examples:
            >>> UserMinSep.of(Poisson(rate=0.1), user_bound=2).min_sep
            1
        """
        if not isinstance(scheme, Poisson | MinSep):
            raise ValueError(
                f"user_bound is {user_bound}, but the privacy of {scheme.name} is not known for users with several "
                "examples: use b-min-sep or Poisson sampling."
            )
        start = scheme.start if isinstance(scheme, MinSep) else "warm"
        return cls(scheme.rate, scheme.min_sep, user_bound, start, graph=graph)

    @property
    def for_examples(self) -> MinSep:
        """The same sampling, for the privacy of single examples."""
        return MinSep(self.rate, self.min_sep, self.start)

    @property
    def sampling_prob(self) -> float:  # type: ignore[override]
        """Probability of taking part when available."""
        return self.for_examples.sampling_prob

    @property
    def law(self) -> RenewalLaw:
        """Law of one example's participation times."""
        return self.for_examples.law

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
        if self.graph is not None and num_examples != self.graph.num_examples:
            raise ValueError(f"num_examples is {num_examples!r}, but the graph has {self.graph.num_examples} examples.")
        return super().batches(iterations, num_examples, key, truncation, fingerprint)

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        most = "one example" if self.user_bound == 1 else f"at most {self.user_bound} examples"
        details = [f"{most} a user", *(["public coins"] if self.coins == "public" else [])]
        return f"{self.for_examples.name}, {', '.join(details)}"

    def describe(self) -> Description:
        """Return the scheme as plain data: public numbers, nothing of the graph."""
        return {
            "kind": self.kind,
            "rate": self.rate,
            "min_sep": self.min_sep,
            "user_bound": self.user_bound,
            "start": self.start,
            "coins": self.coins,
        }
