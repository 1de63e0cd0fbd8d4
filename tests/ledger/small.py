"""Ledgers and certificates that are quick to make and to check."""

import functools

from dp_accounting import GaussianDpEvent

import minsep

EVENT = GaussianDpEvent(10.0)


@functools.cache
def certificate(noise_multiplier=1.0, epsilon=2.5, delta=1e-6, iterations=1000, num_examples=None):
    identity = minsep.BandedToeplitz.identity(iterations=iterations)
    mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier)
    return minsep.certify(mechanism, epsilon=epsilon, delta=delta, num_examples=num_examples)


@functools.cache
def sampled(seed):
    """Return a certificate that was proven with samples."""
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
    scheme = minsep.MinSep(rate=0.1, min_sep=4)
    found = minsep.calibrate(strategy, scheme, epsilon=2.0, delta=1e-2, seed=seed).certificate
    assert found.passed
    assert found.samples
    return found


def create(folder, **options):
    options = {"dataset": "digits", "epsilon": 4.0, "delta": 1e-5} | options
    return minsep.Ledger.create(folder / "budget.json", **options)
