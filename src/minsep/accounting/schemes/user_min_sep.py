"""Accounting of b-min-sep sampling for users with several examples, each sampled independently."""

from collections.abc import Callable
from dataclasses import replace

from numpy.typing import DTypeLike

from minsep.accounting.exact import ExactCurve, GaussianCurve, user_poisson_curve
from minsep.accounting.pairs import Pair, UserPair
from minsep.accounting.pairs.states import count_states
from minsep.accounting.schemes.base import Support, noise_of_unit_columns
from minsep.accounting.schemes.min_sep import MinSepForm
from minsep.mechanism import Design, Mechanism
from minsep.participation import MinSep, UserMinSep

MOST_EXAMPLES, MOST_STATES = 4, 2_500
"""Most examples of a user whose likelihood ratio is computed exactly, and most states of those that are blocked."""


class UserMinSepAccounting(MinSepForm[UserMinSep]):
    """The sum of independent b-min-sep vectors, exactly; with public coins the Gaussian mechanism."""

    kind = UserMinSep.kind
    support = (
        Support(
            "`UserMinSep(rate, min_sep, user_bound)`, warm and cold",
            "`bands <= min_sep <= iterations`, `user_bound` up to 4 (`min_sep` up to 70 if it is 3, and 23 if it is 4)",
            exact="PLD if `min_sep` and the bands are 1, with any `user_bound`",
            sampled="recursion over the blocked examples of a user",
            truncated="as `MinSep`, if `user_bound` is 1",
        ),
        Support(
            '`UserMinSep(..., coins="public")`',
            "any strategy",
            exact="Gaussian mechanism of the largest sensitivity, an upper bound",
        ),
    )

    def min_sep_form(self, scheme: UserMinSep) -> MinSep | None:
        """Return the sampling of single examples, if a user has one."""
        return scheme.for_examples if scheme.user_bound == 1 and scheme.coins == "secret" else None

    def exact_curve(self, mechanism: Mechanism, scheme: UserMinSep, spacing: float) -> ExactCurve | None:
        """Return the curve of public coins, and that of Poisson sampling where nothing is kept apart."""
        strategy, n = mechanism.strategy, mechanism.iterations
        if scheme.coins == "public":
            if mechanism.truncation is not None:
                return None
            largest = strategy.sensitivity(scheme.min_sep, -(-n // scheme.min_sep))
            return GaussianCurve(scheme.user_bound * largest / mechanism.noise_multiplier, upper_bound=True)
        if scheme.user_bound == 1:
            return super().exact_curve(mechanism, scheme, spacing)
        if scheme.min_sep > 1 or strategy.bands > 1 or mechanism.truncation is not None:
            return None
        sigma = noise_of_unit_columns(mechanism)
        return user_poisson_curve(sigma, scheme.user_bound, scheme.sampling_prob, n, spacing)

    def pair(self, mechanism: Mechanism, scheme: UserMinSep, dtype: DTypeLike) -> Pair | None:
        """Return the pair of a user."""
        if scheme.user_bound == 1:
            return super().pair(mechanism, scheme, dtype)
        strategy = mechanism.strategy
        apart = strategy.bands <= scheme.min_sep <= mechanism.iterations
        if scheme.coins == "public" or mechanism.truncation is not None or not apart:
            return None
        if scheme.user_bound > MOST_EXAMPLES or count_states(scheme.user_bound, scheme.min_sep) > MOST_STATES:
            return None
        return UserPair(
            strategy,
            mechanism.noise_multiplier,
            dtype,
            prob=scheme.sampling_prob,
            min_sep=scheme.min_sep,
            warm=scheme.start == "warm",
            user_bound=scheme.user_bound,
        )

    def obstacle(self, mechanism: Mechanism, scheme: UserMinSep) -> str:
        """Return in a sentence why a mechanism has no pair, and what would have one."""
        bound, separation, bands = scheme.user_bound, scheme.min_sep, mechanism.strategy.bands
        otherwise = "or account with coins='public'"
        if bound == 1 or scheme.coins == "public":
            return ""
        if mechanism.truncation is not None:
            cut = mechanism.truncation.batch_size
            return f"truncation cuts batches at {cut}, but user_bound is {bound}: leave it out, or use user_bound=1."
        if bound > MOST_EXAMPLES:
            most = f"but it must be at most {MOST_EXAMPLES}"
            return f"user_bound is {bound}, {most} for sampled accounting: bound contributions again, {otherwise}."
        if not bands <= separation <= mechanism.iterations:
            between = f"from the bands, {bands}, to the iterations, {mechanism.iterations}"
            return f"min_sep is {separation}, but with user_bound {bound} it must be {between}, {otherwise}."
        most_apart = max(b for b in range(1, separation) if count_states(bound, b) <= MOST_STATES)
        return f"min_sep is {separation}, but with user_bound {bound} it must be at most {most_apart}, {otherwise}."

    def fallback(self, design: Design, scheme: UserMinSep, covers: Callable[[Design], bool]) -> Design | None:
        """Return the same batches, accounted for with public coins."""
        return None if design.truncation is not None else replace(design, scheme=replace(scheme, coins="public"))
