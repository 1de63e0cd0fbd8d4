"""A lower limit on the epsilon of a mechanism, with a known chance of an error: the counterpart of a certificate."""

import math

import numpy as np
from scipy.special import logsumexp

from minsep.accounting.estimation.sampling import Sampling
from minsep.accounting.importance import Law
from minsep.accounting.schemes import has_pair
from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.mechanism import Mechanism
from minsep.randomness import Key

_ESTIMATE_SAMPLES, _TEST_SAMPLES = 20_000, 1 << 15
_FEWEST_IN_TAIL = 10
_CANDIDATES = (1.0, 0.995, 0.99, 0.98, 0.96, 0.92, 0.85, 0.7)  # times the estimate
_BETS = np.concatenate([np.geomspace(0.001, 0.5, 16), [0.7, 0.9]])


def epsilon_at_least(mechanism: Mechanism, delta: float, chance: float, seed: int = 0) -> float:
    """Return a number below the epsilon of a mechanism, but for a chance; 0 where none is found.

    The delta at an epsilon is the mean of a value X >= 0 of samples. If it were at most `delta`, then products of
    1 + c (X - delta) / delta, for c in (0, 1), and their average would have a mean of at most 1: an average as large as
    1/q would have a chance of at most q. This needs no bound on X, and no trust in the distribution that is drawn from.

    Args:
        mechanism: The mechanism.
        delta: The delta, above 0 and below 1.
        chance: The highest probability with which the limit is too high.
        seed: Seed of the samples.

    >>> import minsep
    >>> strategy = minsep.BandedToeplitz.optimal(iterations=16, bands=2)
    >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=1.0)
    >>> limit = epsilon_at_least(mechanism, delta=1e-5, chance=1e-6)
    >>> 0.95 < limit / minsep.estimate_epsilon(mechanism, delta=1e-5).value < 1
    True
    """
    delta = validate.real(delta=delta, above=0, below=1)
    chance = validate.real(chance=chance, above=0, below=1)
    if not has_pair(mechanism.design):
        return 0.0
    sampling = Sampling(mechanism, _ESTIMATE_SAMPLES, seed, "auto", whole=True)
    if sampling.upper_bound or (sampling.method == "plain" and delta * _ESTIMATE_SAMPLES < _FEWEST_IN_TAIL):
        return 0.0
    estimate, _ = sampling.epsilon(delta, "remove")
    candidates = np.array(_CANDIDATES) * estimate
    law = sampling.law("remove", float(candidates[1]))
    shown = _log_wealths(law, Key.from_seed(seed).derive("lower limit"), candidates, delta)
    passed = candidates[shown >= math.log(candidates.size / chance)]
    return float(passed.max(initial=0.0))


def _log_wealths(law: Law, key: Key, epsilons: FloatArray, delta: float) -> FloatArray:
    """Return the logarithm of the average product for each epsilon."""
    logs = np.zeros((epsilons.size, _BETS.size))
    for chunk in range(-(-_TEST_SAMPLES // law.samples_in_chunk)):
        log_ratio, log_density = law.draw(key, chunk)
        values = np.exp(log_ratio - log_density) * -np.expm1(np.minimum(epsilons[:, None] - log_ratio, 0.0))
        logs += np.log1p(_BETS * (values / delta - 1)[:, :, None]).sum(axis=1)
    wealths: FloatArray = logsumexp(logs, axis=1) - math.log(_BETS.size)
    return wealths
