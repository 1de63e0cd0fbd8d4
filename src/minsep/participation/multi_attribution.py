"""The sampling scheme for examples that belong to several users: Algorithms 3 and 4 of the paper."""

from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Literal

from minsep.attribution.batch_size import MeanBatchSize, mean_batch_size, sampling_prob_for
from minsep.attribution.graph import AttributionGraph
from minsep.core import validation as validate
from minsep.core.identity import Description
from minsep.participation.assumptions import Assumption
from minsep.participation.family import Sizes, Style
from minsep.participation.min_sep import MinSepFamily
from minsep.participation.multi_attribution_stream import AttributionBatchStream, BlockingRule
from minsep.participation.scheme import MOST_ITERATIONS, Scheme
from minsep.participation.stream import BatchStream
from minsep.participation.truncation import Truncation
from minsep.randomness import Key

Block = Literal["sampled", "participated"]
Coins = Literal["secret", "public"]

CONJECTURE = Assumption(
    "blocking-by-participation",
    "It rests on the conjecture that blocking by participation (Algorithm 4) is no less private than its single-user "
    "recursion, which is not proven, and false for some graphs at large sampling probabilities.",
)
SILENT_NEIGHBOURS = Assumption(
    "silent-neighbours",
    "It assumes that the gradients of other users' examples tell nothing about when this user's were sampled, which "
    "holds where no example is shared between users.",
)

# Iterations, in units of min_sep, by which batches that participation blocks are stable (docs/attribution.md).
_SEPARATIONS_UNTIL_SETTLED = 32
_MOST_USER_BOUND = 10_000


@dataclass(frozen=True, eq=False, init=False)
class MultiAttributionMinSep(Scheme):
    """b-min-sep for examples that belong to several users, who are to be protected as users.

    In every iteration each example is sampled with probability `sampling_prob`, independently. The batch is what was
    sampled, without the examples that share a user with one that blocks, which `block` defines.

    - No user takes part twice within `min_sep` iterations; in one iteration a user takes part with up to `user_bound`
      examples.
    - The accounting is that of a cold start, which covers any `burn_in`.
    - The description holds public numbers, so a scheme that is read from one has no graph, and two schemes are equal
      whatever their graphs.

    Args:
        sampling_prob: The probability that an example is sampled in an iteration. Give either this or `expected_batch`.
        min_sep: Number of iterations from one participation of a user to the next, at least.
        graph: Which examples belong to which users. It is for drawing batches only.
        expected_batch: The expected number of examples in a batch, for which the sampling probability is found for the
            graph.
        user_bound: The most examples of one user (k_u). None is the most that a user has in the graph.
        block: Which examples block others. With "sampled" it is any example that was sampled in the last `min_sep - 1`
            iterations, whether it took part or not (Algorithm 3 of the paper). With "participated" it is any example
            that took part in them (Algorithm 4).
        burn_in: The number of batches that are formed and thrown away before the first, so that batches have one
            expected size from the first on. 0 is a cold start. None is a number that follows from `min_sep` and
            `block`.
        coins: What the adversary knows of the sampling. With "secret" the accounting has amplification, by the paper's
            theorem, whose proof has a gap when examples are shared (docs/attribution.md). So it is refused unless
            `accept_assumption=True`, and a certificate says CONDITIONAL first. `UserMinSep` needs no assumption. With
            "public" the accounting is for an adversary who knows every coin: little amplification, no assumption.
        shared: Whether an example may belong to several users. False promises that every example belongs to one user,
            which is checked if there is a graph. Then the proof of Algorithm 3 has no gap, and its accounting assumes
            nothing.
        accept_assumption: Whether to accept an accounting that is not proven.

    Examples:
        >>> graph = AttributionGraph.from_lists([[k, k + 1] for k in range(1000)])
        >>> scheme = MultiAttributionMinSep(expected_batch=20, min_sep=4, graph=graph, accept_assumption=True)
        >>> scheme.user_bound, round(scheme.sampling_prob, 5), round(scheme.expected_batch_size(1000), 6)
        (2, 0.02515, 20.0)
    """

    kind = "multi-attribution-min-sep"
    unit = "user"

    sampling_prob: float
    min_sep: int
    graph: AttributionGraph | None
    user_bound: int
    block: Block
    burn_in: int
    coins: Coins
    shared: bool
    accept_assumption: bool = field(repr=False)

    def __init__(
        self,
        sampling_prob: float | None = None,
        min_sep: int = 1,
        graph: AttributionGraph | None = None,
        *,
        expected_batch: float | None = None,
        user_bound: int | None = None,
        block: Block = "sampled",
        burn_in: int | None = None,
        coins: Coins = "secret",
        shared: bool = True,
        accept_assumption: bool = False,
    ) -> None:
        separation = validate.integer(min_sep=min_sep, at_least=1, at_most=MOST_ITERATIONS)
        validate.choice(("sampled", "participated"), block=block)
        validate.choice(("secret", "public"), coins=coins)
        if graph is not None and not isinstance(graph, AttributionGraph):
            raise ValueError(f"graph is {graph!r}, but it must be an AttributionGraph such as from_lists gives.")
        for name, flag in (("shared", shared), ("accept_assumption", accept_assumption)):
            if not isinstance(flag, bool):
                raise ValueError(f"{name} is {flag!r}, but it must be True or False.")
        if graph is not None and not shared:
            graph.check_one_owner()
        if burn_in is None:
            burn_in = separation - 1 if block == "sampled" else _SEPARATIONS_UNTIL_SETTLED * (separation - 1)
        burn_in = validate.integer(burn_in=burn_in, at_least=0, at_most=MOST_ITERATIONS)
        values = {
            "min_sep": separation,
            "graph": graph,
            "user_bound": _user_bound(user_bound, graph),
            "block": block,
            "burn_in": burn_in,
            "coins": coins,
            "shared": shared,
            "accept_assumption": accept_assumption,
        }
        if (sampling_prob is None) == (expected_batch is None):
            raise ValueError(
                f"sampling_prob is {sampling_prob!r} and expected_batch is {expected_batch!r}, but exactly one of them "
                "must be given."
            )
        if expected_batch is not None:
            if graph is None:
                raise ValueError(f"expected_batch is {expected_batch!r}, but without a graph give sampling_prob.")
            expected = validate.real(expected_batch=expected_batch, above=0)
            found = sampling_prob_for(graph, expected, separation, block == "participated", burn_in)
        else:
            found = validate.real(sampling_prob=sampling_prob, above=0, at_most=1)
        for name, value in {"sampling_prob": found, **values}.items():
            object.__setattr__(self, name, value)
        if self.assumptions and not accept_assumption:
            raise ValueError(
                f"accept_assumption is False, but this accounting is not proven. {self.assumptions[0].sentence} Use "
                "minsep.UserMinSep or coins='public', or say accept_assumption=True."
            )

    @property
    def rate(self) -> float:  # type: ignore[override]
        """Expected fraction of the iterations in which an example takes part, on average over the graph's examples."""
        graph = self._graph_for("the rate of examples")
        return self.mean_batch_size.value / graph.num_examples

    @cached_property
    def mean_batch_size(self) -> MeanBatchSize:
        """Mean number of examples in a batch after the burn-in, and its standard error.

        Exact when what was sampled blocks; else from a simulated run that is always the same.
        """
        graph = self._graph_for("the mean batch size")
        return mean_batch_size(graph, self.sampling_prob, self.min_sep, self.block == "participated", self.burn_in)

    def expected_batch_size(self, num_examples: int) -> float:
        """Return the mean size of a batch: what to divide sums of gradients by.

        Args:
            num_examples: The number of examples in the dataset, which must be that of the graph.
        """
        self.check_examples(num_examples)
        return self.mean_batch_size.value

    def check_examples(self, num_examples: int) -> AttributionGraph:
        """Return the graph, if it has as many examples as the dataset.

        Args:
            num_examples: The number of examples in the dataset.
        """
        graph = self._graph_for("batches")
        if num_examples != graph.num_examples:
            raise ValueError(f"num_examples is {num_examples!r}, but the graph has {graph.num_examples} examples.")
        return graph

    def with_public_coins(self) -> "MultiAttributionMinSep":
        """Return the same batches, accounted for an adversary who knows every coin."""
        return replace(self, coins="public")

    @property
    def assumptions(self) -> tuple[Assumption, ...]:
        """What the accounting takes for granted: nothing where every coin is public."""
        if self.coins == "public":
            return ()
        found = []
        if self.block == "participated":
            found.append(CONJECTURE)
        if self.shared and self.min_sep > 1 and self.user_bound > 1:
            found.append(SILENT_NEIGHBOURS)
        return tuple(found)

    def prefix(self, iterations: int) -> "MultiAttributionMinSep":
        """Return the scheme itself: who blocks whom does not depend on how long a run is.

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
        graph = self.check_examples(num_examples)
        rule = BlockingRule(self.sampling_prob, self.min_sep, self.block == "participated", self.burn_in)
        return AttributionBatchStream(graph, rule, iterations, key, truncation, fingerprint)

    @property
    def name(self) -> str:
        """The scheme with its parameters, in words."""
        return f"b-min-sep of users, b = {self.min_sep}, at most {self.user_bound} examples a user"

    def describe(self) -> Description:
        """Return the scheme as plain data: public numbers, nothing of the graph."""
        return {
            "kind": self.kind,
            "sampling_prob": self.sampling_prob,
            "min_sep": self.min_sep,
            "user_bound": self.user_bound,
            "block": self.block,
            "burn_in": self.burn_in,
            "coins": self.coins,
            "shared": self.shared,
            "accept_assumption": self.accept_assumption,
        }

    def _graph_for(self, purpose: str) -> AttributionGraph:
        if self.graph is None:
            raise ValueError(
                f"graph is None, but {purpose} must come from one: a description holds no graph, so make the scheme "
                "anew with the graph."
            )
        return self.graph


def _user_bound(user_bound: int | None, graph: AttributionGraph | None) -> int:
    if user_bound is None:
        if graph is None:
            raise ValueError("user_bound is None, but without a graph the most examples of a user must be given.")
        user_bound = graph.largest_degree
    bound = validate.integer(user_bound=user_bound, at_least=1, at_most=_MOST_USER_BOUND)
    if graph is not None:
        graph.check_user_bound(bound)
    return bound


class BlockingFamily(MinSepFamily):
    """b-min-sep in which a user's examples block each other: proven where no example has several users."""

    kind = MultiAttributionMinSep.kind
    words = "b-min-sep, blocking within a user"
    place = 60
    style = Style("pale", "cross")
    is_offered = False

    @classmethod
    def scheme(cls, sizes: Sizes, separation: int) -> MultiAttributionMinSep:
        """Return the scheme for users."""
        return MultiAttributionMinSep(
            expected_batch=sizes.batch_size,
            min_sep=separation,
            graph=sizes.graph,
            user_bound=sizes.user_bound,
            shared=False,
        )

    @classmethod
    def name(cls, separation: int) -> str:
        """Return the scheme with its separation, in words."""
        return f"{cls.words}, b = {separation}"

    @classmethod
    def separations(cls, sizes: Sizes, bands: int, min_sep: int | None, epoch_is_tried: bool) -> list[int]:
        """Return the separations of b-min-sep if users have several examples of their own, and else nothing."""
        if sizes.user_bound == 1 or sizes.graph is None or sizes.graph.has_shared_examples:
            return []
        return super().separations(sizes, bands, min_sep, epoch_is_tried)
