"""Accounting of b-min-sep sampling; Poisson sampling and balls-in-bins are forms of it."""

from collections.abc import Callable

from numpy.typing import DTypeLike

from minsep.accounting.exact import ExactCurve, poisson_curve, truncated_poisson_curve
from minsep.accounting.pairs import MinSepPair, Pair, TruncatedPair
from minsep.accounting.schemes.base import SchemeAccounting, SchemeKind, Support, noise_of_unit_columns
from minsep.mechanism import Design, Mechanism
from minsep.participation import CyclicPoisson, MinSep


class MinSepForm(SchemeAccounting[SchemeKind]):
    """The accounting of whatever is b-min-sep sampling in another form."""

    def pair(self, mechanism: Mechanism, scheme: SchemeKind, dtype: DTypeLike) -> Pair | None:
        """Return the paper's recursion: an upper bound where columns overlap, and given the cuts where batches are."""
        form = self.min_sep_form(scheme)
        if form is None:
            return None
        common = (mechanism.strategy, mechanism.noise_multiplier, dtype)
        prob, min_sep, warm = form.sampling_prob, form.min_sep, form.start == "warm"
        cut = mechanism.truncation
        if cut is None:
            return MinSepPair(*common, prob=prob, min_sep=min_sep, warm=warm)
        if cut.num_examples is None or mechanism.strategy.bands > min_sep:
            return None
        return TruncatedPair(
            *common,
            prob=prob,
            min_sep=min_sep,
            warm=warm,
            batch_size=cut.batch_size,
            num_examples=cut.num_examples,
        )

    def exact_curve(self, mechanism: Mechanism, scheme: SchemeKind, spacing: float) -> ExactCurve | None:
        """Return that of Poisson sampling, where the separation and the bands are 1."""
        if scheme.min_sep != 1 or mechanism.strategy.bands != 1:
            return None
        sigma, rate, n = noise_of_unit_columns(mechanism), scheme.rate, mechanism.iterations
        cut = mechanism.truncation
        if cut is None:
            return poisson_curve(sigma, rate, n, spacing)
        if cut.num_examples is None:
            return None
        return truncated_poisson_curve(sigma, rate, n, cut.batch_size, cut.num_examples, spacing)

    def fallback(self, design: Design, scheme: SchemeKind, covers: Callable[[Design], bool]) -> Design | None:
        """Return cyclic Poisson sampling where the bands allow it, and else a fixed order."""
        if design.strategy.bands <= scheme.min_sep:
            cyclic_scheme = CyclicPoisson(scheme.rate, scheme.min_sep, "equal" if design.truncation else "random")
            cyclic = Design(design.strategy, cyclic_scheme, design.truncation)
            if covers(cyclic):
                return cyclic
        return super().fallback(design, scheme, covers)


class MinSepAccounting(MinSepForm[MinSep]):
    """The accounting of the paper, with r-min-sep for more bands than the separation."""

    kind = MinSep.kind
    support = (
        Support(
            "`MinSep(rate, min_sep)`, warm and cold",
            "`bands <= min_sep`",
            exact="PLD if `min_sep` and the bands are 1",
            sampled="main recursion",
            truncated="closed form, or recursion",
        ),
        Support(
            "`MinSep(rate, min_sep)`, `Poisson(rate)`",
            "more bands, banded inverse, dense",
            sampled="r-min-sep recursion: an upper bound; `add` where it is 0",
        ),
    )

    def min_sep_form(self, scheme: MinSep) -> MinSep:
        """Return the scheme."""
        return scheme
