import subprocess
import sys

import pytest

import minsep

STRATEGY = minsep.BandedToeplitz.optimal(iterations=100, bands=4)
SCHEME = minsep.MinSep(rate=0.02, min_sep=10)


def test_a_mechanism_is_a_value():
    one = minsep.Mechanism(STRATEGY, SCHEME, 0.8)
    assert one == minsep.Mechanism(
        minsep.BandedToeplitz.optimal(iterations=100, bands=4), minsep.MinSep(0.02, 10), noise_multiplier=0.8
    )
    assert one != one.with_noise_multiplier(0.9)
    assert one.with_noise_multiplier(0.9).with_noise_multiplier(0.8) == one
    assert one != minsep.Mechanism(STRATEGY, SCHEME, 0.8, minsep.Truncation(batch_size=9))
    assert len({one, minsep.Mechanism(STRATEGY, SCHEME, 0.8)}) == 1
    assert one.iterations == 100
    assert one.root_mean_squared_error == pytest.approx(0.8 * STRATEGY.mean_squared_error**0.5)


def test_the_fingerprint_is_the_same_on_every_machine():
    """Golden value: a change of it means that states saved before can no longer be resumed."""
    strategy = minsep.BandedToeplitz.from_coefficients([4, 3], iterations=10)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.125, min_sep=4), noise_multiplier=1.5)
    assert mechanism.fingerprint == "f182c84e12fc5dce1018a12449a092155945d05c0a0b2d09914deb4a2cfa9798"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((STRATEGY, SCHEME, 0.0), "noise_multiplier is 0.0, .* above 0"),
        ((STRATEGY, SCHEME, float("inf")), "noise_multiplier is inf, .* finite"),
        ((STRATEGY, SCHEME, None), "noise_multiplier is None"),
        (([1.0, 0.5], SCHEME, 1.0), "strategy is .* must be a Strategy such as minsep.BandedToeplitz"),
        ((STRATEGY, 0.1, 1.0), "scheme is 0.1, .* must be a Scheme such as minsep.MinSep"),
        (
            (STRATEGY, SCHEME, 1.0, 2048),
            "truncation is 2048, .* must be a Truncation such as minsep.Truncation",
        ),
    ],
)
def test_bad_input_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        minsep.Mechanism(*arguments)


def test_importing_is_light():
    heavy = "torch", "jax", "matplotlib", "plotly", "dask", "numba", "scipy", "dp_accounting"
    code = f"import sys, minsep; print([name for name in {heavy} if name in sys.modules], sorted(dir(minsep)))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed == f"[] {sorted(minsep.__all__)}\n"


def test_unknown_names_are_unknown():
    with pytest.raises(AttributeError, match="no attribute 'Posson'"):
        _ = minsep.Posson
