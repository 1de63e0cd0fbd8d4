"""Accounting of the paper's schemes for examples that belong to several users (Algorithms 3 and 4)."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
from numpy.typing import DTypeLike

from minsep.accounting.exact import (
    ExactCurve,
    GaussianCurve,
    GaussianMixtureCurve,
    user_norm_law,
    user_poisson_curve,
)
from minsep.accounting.pairs import MinSepPair, Pair
from minsep.accounting.schemes.base import SchemeAccounting, Support, noise_of_unit_columns
from minsep.mechanism import Design, Mechanism
from minsep.participation import MultiAttributionMinSep


class MultiAttributionAccounting(SchemeAccounting[MultiAttributionMinSep]):
    """With secret coins by the paper's theorem, under its assumptions; with public coins by Gaussian mechanisms."""

    kind = MultiAttributionMinSep.kind
    support = (
        Support(
            '`MultiAttributionMinSep(..., coins="secret")`',
            'as `MinSep`; `block="participated"`: `BandedToeplitz`, `bands <= min_sep`',
            exact="PLD if `min_sep` and the bands are 1",
            sampled="recursion for a user, under the [assumptions](attribution.md) that the certificate says",
        ),
        Support(
            '`MultiAttributionMinSep(..., coins="public")`',
            "any strategy",
            exact="mean of Gaussian mechanisms, an upper bound",
        ),
    )

    def exact_curve(self, mechanism: Mechanism, scheme: MultiAttributionMinSep, spacing: float) -> ExactCurve | None:
        """Return the curve of public coins, and that of Poisson sampling where nothing blocks."""
        strategy, sigma, n = mechanism.strategy, mechanism.noise_multiplier, mechanism.iterations
        if mechanism.truncation is not None:
            return None
        if scheme.coins == "secret":
            if scheme.min_sep > 1 or strategy.bands > 1:
                return None
            return user_poisson_curve(
                noise_of_unit_columns(mechanism), scheme.user_bound, scheme.sampling_prob, n, spacing
            )
        if scheme.block == "sampled" and strategy.bands <= scheme.min_sep:
            squares, probabilities = user_norm_law(scheme.sampling_prob, scheme.user_bound, scheme.min_sep, n)
            return GaussianMixtureCurve(np.sqrt(squares) * (strategy.column_norms.max() / sigma), probabilities)
        sensitivity = scheme.user_bound * strategy.sensitivity(scheme.min_sep, -(-n // scheme.min_sep))
        return GaussianCurve(sensitivity / sigma, upper_bound=True)

    def pair(self, mechanism: Mechanism, scheme: MultiAttributionMinSep, dtype: DTypeLike) -> Pair | None:
        """Return the pair of one user, whose examples are sampled together."""
        strategy = mechanism.strategy
        # The conjecture is false for columns that grow heavier.
        covered = strategy.banded_column is not None and strategy.bands <= scheme.min_sep
        if mechanism.truncation is not None or scheme.coins == "public":
            return None
        if scheme.block == "participated" and not covered:
            return None
        return MinSepPair(
            strategy,
            mechanism.noise_multiplier,
            dtype,
            prob=scheme.sampling_prob,
            min_sep=scheme.min_sep,
            group=scheme.user_bound,
        )

    def fallback(
        self, design: Design, scheme: MultiAttributionMinSep, covers: Callable[[Design], bool]
    ) -> Design | None:
        """Return the same batches, accounted for with public coins."""
        return None if design.truncation is not None else replace(design, scheme=scheme.with_public_coins())
