"""Accounting of cyclic Poisson sampling."""

from numpy.typing import DTypeLike

from minsep.accounting.exact import ExactCurve, LargestCurve, poisson_curve, truncated_poisson_curve
from minsep.accounting.pairs import CyclicPair, Pair
from minsep.accounting.schemes.base import SchemeAccounting, Support, noise_of_unit_columns
from minsep.mechanism import Mechanism
from minsep.participation import CyclicPoisson


class CyclicPoissonAccounting(SchemeAccounting[CyclicPoisson]):
    """Exact for an adversary who knows the part of an example; sampled for one who does not."""

    kind = CyclicPoisson.kind
    needs_samples = False
    support = (
        Support(
            "`CyclicPoisson(rate, cycle)`",
            "`bands <= cycle`",
            exact="PLD, for an adversary who knows the part",
            sampled='`parts="random"`, unknown to the adversary',
            truncated='PLD, `parts="equal"`',
        ),
    )

    def exact_curve(self, mechanism: Mechanism, scheme: CyclicPoisson, spacing: float) -> ExactCurve | None:
        """Return the curve of as many sampled Gaussians as the part with the most turns has."""
        if mechanism.strategy.bands > scheme.cycle:
            return None
        sigma, prob = noise_of_unit_columns(mechanism), scheme.sampling_prob
        turns = -(-mechanism.iterations // scheme.cycle)
        cut = mechanism.truncation
        if cut is None:
            return poisson_curve(sigma, prob, turns, spacing, upper_bound=True)
        if cut.num_examples is None or scheme.parts != "equal":
            return None
        # Parts have one of two sizes, and which is worse for privacy is not known beforehand.
        sizes = {max(cut.num_examples // scheme.cycle, 1), -(-cut.num_examples // scheme.cycle)}
        return LargestCurve(
            tuple(truncated_poisson_curve(sigma, prob, turns, cut.batch_size, size, spacing) for size in sizes)
        )

    def pair(self, mechanism: Mechanism, scheme: CyclicPoisson, dtype: DTypeLike) -> Pair | None:
        """Return the pair of an adversary who does not know the part."""
        if mechanism.truncation is not None or scheme.parts != "random" or mechanism.strategy.bands > scheme.cycle:
            return None
        return CyclicPair(
            mechanism.strategy, mechanism.noise_multiplier, dtype, prob=scheme.sampling_prob, cycle=scheme.cycle
        )
