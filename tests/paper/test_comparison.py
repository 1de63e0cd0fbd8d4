"""The comparison of the paper's figures, by estimates and by its verifier."""

import math

import pytest

import minsep
from minsep import paper
from minsep.planning import Request


def test_comparison_has_the_ratios_of_its_cells():
    found = paper.compare(64, 1e-3, epsilons=[1.0, 8.0], epochs=[16, 32], max_bands=4)
    ratios = found.ratios("balls-in-bins")
    assert len(ratios) == 2
    assert all(len(row) == 2 for row in ratios)
    # b-min-sep with a separation of an epoch is balls-in-bins, so up to the error of the estimates it is no worse.
    assert max(max(row) for row in ratios) < 1.1
    with pytest.raises(ValueError, match="epochs is 1, but"):
        paper.compare(64, epochs=[1])


def test_a_verified_comparison_has_powers_that_the_papers_verifier_passes():
    found = paper.compare(64, 1e-2, epsilons=[2.0], epochs=[32], max_bands=4, verified=True)
    estimated = paper.compare(64, 1e-2, epsilons=[2.0], epochs=[32], max_bands=4)
    best = found.cells[0].best["min-sep"]
    power = math.log(best.noise_multiplier) / math.log(1.01)
    assert power == pytest.approx(round(power), abs=1e-3)  # to six digits
    request = Request(32, 1, 64, 2.0, 1e-2)
    mechanism = best.design(request).with_noise(best.noise_multiplier)
    # The verifier compares with delta/2, so the noise is that of half the delta, up to the spread of its average.
    assert minsep.estimate_delta(mechanism, 2.0, samples=50_000).value < 0.6e-2
    lower = mechanism.with_noise_multiplier(best.noise_multiplier / 1.01**4)
    assert minsep.estimate_delta(lower, 2.0, samples=50_000).value > 0.5e-2
    assert found.verified
    assert found.cells[0].ratio("cyclic-poisson") > estimated.cells[0].ratio("cyclic-poisson")
    assert found.cells[0].best["cyclic-poisson"] == estimated.cells[0].best["cyclic-poisson"]
