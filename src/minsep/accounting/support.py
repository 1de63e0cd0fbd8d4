"""Which mechanisms can be accounted for, and how."""

import numpy as np
from numpy.typing import DTypeLike

from minsep import _validation as validate
from minsep.accounting.pairs import BallsInBinsPair, CyclicPair, MinSepPair, Pair, TruncatedPair
from minsep.attribution import MultiAttributionMinSep
from minsep.mechanism import Mechanism
from minsep.participation import BallsInBins, CyclicPoisson, MinSep, Poisson
from minsep.strategy import BandedToeplitz

_LEAST_NOISE = 1e-6  # below it likelihood ratios are no numbers, and there is no privacy to account for

SUPPORTED = (
    "Unamplified with any strategy, not truncated: exact",
    "Poisson (or MinSep with min_sep 1) with 1 band: exact, also truncated",
    "CyclicPoisson with bands <= cycle: exact, also truncated when parts are equal; sampled when parts are random",
    "BallsInBins with any strategy: sampled, also truncated when bands <= epoch",
    "MinSep with bands <= min_sep: sampled, also truncated",
    "MinSep or Poisson with more bands, not truncated: sampled, as an upper bound",
    "MultiAttributionMinSep with public coins, not truncated: exact, as an upper bound",
    "MultiAttributionMinSep, not truncated, like MinSep: sampled; block 'participated' with BandedToeplitz of bands <= "
    "min_sep only",
    "truncated always means with the truncation's num_examples",
)


def pair_of(mechanism: Mechanism, dtype: DTypeLike) -> Pair:
    """Return the dominating pair to sample from."""
    strategy, scheme, truncation = mechanism.strategy, mechanism.scheme, mechanism.truncation
    common = (strategy, validate.real(noise_multiplier=mechanism.noise_multiplier, above=_LEAST_NOISE), dtype)
    if truncation is None:
        match scheme:
            case Poisson():
                return MinSepPair(*common, prob=scheme.rate)
            case MinSep():
                warm = scheme.start == "warm"
                return MinSepPair(*common, prob=scheme.sampling_prob, min_sep=scheme.min_sep, warm=warm)
            case MultiAttributionMinSep(coins="secret") if _covered(mechanism, scheme):
                prob, group = scheme.sampling_prob, scheme.user_bound
                return MinSepPair(*common, prob=prob, min_sep=scheme.min_sep, group=group)
            case BallsInBins():
                return BallsInBinsPair(*common, cycle=scheme.epoch)
            case CyclicPoisson(parts="random") if strategy.bands <= scheme.cycle:
                return CyclicPair(*common, prob=scheme.sampling_prob, cycle=scheme.cycle)
    elif truncation.num_examples is not None and strategy.bands <= scheme.min_sep:
        match scheme:
            case Poisson() | BallsInBins() | MinSep():
                return TruncatedPair(
                    *common,
                    prob=scheme.sampling_prob,
                    min_sep=scheme.min_sep,
                    warm=not isinstance(scheme, MinSep) or scheme.start == "warm",
                    batch_size=truncation.batch_size,
                    num_examples=truncation.num_examples,
                )
    raise unsupported(mechanism, "sampled")


def samples_can_be_drawn(mechanism: Mechanism) -> bool:
    """Whether there is a pair to sample from."""
    try:
        pair_of(mechanism, np.float64)
    except ValueError:
        return False
    return True


def _covered(mechanism: Mechanism, scheme: MultiAttributionMinSep) -> bool:
    """Whether theorem or conjecture cover the strategy: the latter is false for columns that grow heavier."""
    strategy = mechanism.strategy
    toeplitz = isinstance(strategy, BandedToeplitz) and strategy.bands <= scheme.min_sep
    return scheme.block == "sampled" or toeplitz


def tiltable(pair: Pair) -> Pair:
    """Return the same pair in the form that has tilted proposals, where there is one."""
    if isinstance(pair, BallsInBinsPair) and pair.strategy.bands <= pair.cycle:
        return MinSepPair(pair.strategy, pair.noise_multiplier, pair.dtype, prob=1.0, min_sep=pair.cycle, warm=True)
    return pair


def unsupported(mechanism: Mechanism, how: str) -> ValueError:
    """Return the error for a mechanism that cannot be accounted for in this way."""
    parts = [repr(mechanism.strategy), repr(mechanism.scheme)]
    if mechanism.truncation is not None:
        parts.append(repr(mechanism.truncation))
    return ValueError(
        f"mechanism is {' with '.join(parts)}, but that has no {how} accounting; supported are: "
        + "; ".join(SUPPORTED)
        + "."
    )
