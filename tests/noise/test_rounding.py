"""The theorem of docs/rounding.md: densities in small dimensions, probabilities of cells, and the cost of a run."""

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import integrate, stats

import minsep
from minsep.core.budget import Budget
from minsep.noise import rounding_reserve
from minsep.noise.grid import SMOOTHING
from minsep.noise.rounding_reserve import Reserve, rounding_cost

STRATEGY = minsep.BandedToeplitz.optimal(iterations=2000, bands=16)


def density_on_the_grid(matrix, step, smoothing, x):
    """Density of rows on the grid plus smoothing, at noise multiplier 1: a sum over the points of the grid near x."""
    n = len(matrix)
    reach = int(8 * smoothing / step) + 2
    near = [np.arange(math.floor(v / step) - reach, math.floor(v / step) + reach + 1) * step for v in x]
    total = 0.0
    for point in itertools.product(*near):
        w, chance = np.array(point), 1.0
        for t in range(n):
            mean = (matrix[t] @ w - matrix[t, t] * w[t]) / matrix[t, t]
            edges = matrix[t, t] * (w[t] + mean + step * np.array([-0.5, 0.5]))
            chance *= stats.norm.cdf(edges[1]) - stats.norm.cdf(edges[0])
        total += chance * stats.norm.pdf((np.asarray(x) - w) / smoothing).prod() / smoothing**n
    return total


def density_without_a_grid(matrix, step, smoothing, x):
    """Density of C^-1 (Z + c U) plus smoothing, with U uniform on a cell: an integral over the cell."""
    n = len(matrix)
    inverse = np.linalg.inv(matrix)
    law = stats.multivariate_normal(np.zeros(n), inverse @ inverse.T + smoothing**2 * np.eye(n))
    nodes, weights = np.polynomial.legendre.leggauss(6)
    return sum(
        np.prod([weights[k] / 2 for k in places])
        * law.pdf(np.asarray(x) - inverse @ (np.diag(matrix) * step / 2 * nodes[list(places)]))
        for places in itertools.product(range(6), repeat=n)
    )


def bound(matrix, step, smoothing):
    """The bound of Lemma 3."""
    n, sums = len(matrix), np.abs(matrix).sum(axis=0).max() * np.abs(matrix).sum(axis=1).max()
    squared = smoothing**2 / (1 + smoothing**2 * sums)
    one = 2 * sum(math.exp(-2 * math.pi**2 * squared * k**2 / step**2) for k in range(1, 20))
    return (1 + one) ** n - 1


@pytest.mark.parametrize(("ratio", "seen"), [(0.3, 1e-2), (0.5, 1e-3), (0.7, 1e-5)])
def test_smoothing_hides_the_grid_in_one_dimension_as_the_lemma_says(ratio, seen):
    """The bound is attained up to a little in one dimension, where the step is small beside the noise."""
    matrix, step = np.array([[1.0]]), 0.05
    found = [
        density_on_the_grid(matrix, step, ratio * step, [x]) / density_without_a_grid(matrix, step, ratio * step, [x])
        - 1
        for x in np.linspace(-1.5, -1.5 + step, 9)
    ]
    most = bound(matrix, step, ratio * step)
    assert seen < np.abs(found).max() < most * (1 + 1e-6)
    assert np.abs(found).max() > 0.9 * most


@pytest.mark.parametrize("coefficients", [[1.0, 0.6], [1.0, 0.8, 0.5]])
def test_smoothing_hides_the_grid_in_more_dimensions(coefficients):
    """Where the step is so coarse that its effect is seen, it is below the bound; wherever the row and the past lie."""
    n = len(coefficients)
    matrix = minsep.BandedToeplitz.from_coefficients(coefficients, iterations=n).dense()
    step, worst = 0.6, 0.0
    smoothing = 0.55 * step
    generator = np.random.default_rng(0)
    for _ in range(4 if n > 2 else 12):
        x = generator.uniform(-2, 2, n)
        ratio = density_on_the_grid(matrix, step, smoothing, x) / density_without_a_grid(matrix, step, smoothing, x)
        worst = max(worst, abs(ratio - 1))
    assert 1e-6 < worst < bound(matrix, step, smoothing)


def test_with_the_smoothing_that_is_used_the_grid_is_hidden_to_the_last_digit():
    matrix = minsep.BandedToeplitz.from_coefficients([1.0, 0.6], iterations=2).dense()
    step = 0.3
    for x in ([0.1, -0.7], [1.9, 0.05]):
        ratio = density_on_the_grid(matrix, step, SMOOTHING * step, x) / density_without_a_grid(
            matrix, step, SMOOTHING * step, x
        )
        assert abs(ratio - 1) < 1e-11


def test_cells_under_errors_of_the_variates():
    """Lemma 5: an interval whose edge moves by e changes its probability by at most a relative e (1/l + a + l)."""
    for a, width, e in itertools.product((0.0, 0.3, 2.0, 9.0), (1e-3, 0.1, 0.67), (1e-9, 1e-6)):
        exact = stats.norm.cdf(-a) - stats.norm.cdf(-a - width)
        inner = integrate.quad(stats.norm.pdf, a - e, a, epsabs=0)[0]
        assert inner / exact <= e * (1 / width + a + width) * math.exp(a * e) * (1 + 1e-6)


def test_the_cost_is_that_of_the_documentation():
    """Twice x for a run of 16 bands: docs/rounding.md has these figures."""
    for values, most in ((1e9, 6e-5), (1e10, 2e-4), (1e12, 2e-3)):
        x, beta = rounding_cost(STRATEGY, values, chance=1e-15)
        assert 0.9 * most / 2 < 2 * x <= most
        assert beta < 1e-15 + 1e-18
    for strategy in (minsep.BandedToeplitz.identity(iterations=10), minsep.Dense(np.eye(10))):
        assert rounding_cost(strategy, 1e9, 1e-15)[0] < rounding_cost(STRATEGY, 1e9, 1e-15)[0]


def test_the_cost_grows_as_the_root_of_the_values():
    x = [rounding_cost(STRATEGY, values, 1e-15)[0] for values in (1e9, 1e11, 1e13)]
    assert x[1] / x[0] == pytest.approx(10, rel=0.01)
    assert x[2] / x[1] == pytest.approx(10, rel=0.01)
    assert rounding_cost(STRATEGY, 1e11, 1e-30)[0] > x[1]
    # Few values cost no less than a moment of limited order shows.
    assert rounding_cost(STRATEGY, 1, 1e-15)[0] == pytest.approx(rounding_cost(STRATEGY, 1e4, 1e-15)[0], rel=1e-3)


def test_the_chance_of_the_theorem_covers_a_walk_of_bounded_steps():
    """Chernoff's bound against the walk itself: log likelihood ratios of many cells whose probabilities are off.

    Relative errors u of standard deviation v, the same under both laws up to a tilt: the log ratio has mean v^2/2 and
    variance v^2 a draw. With N draws, x must be exceeded with a chance of at most beta: the normal tail is below it.
    """
    for values in (1e8, 1e10):
        chance = 1e-9
        x, _ = rounding_cost(STRATEGY, values, chance)
        variance = values / 2 * sum(error.variance for error in rounding_reserve._relative_errors(STRATEGY, values))
        assert stats.norm.sf((x - variance / 2) / math.sqrt(variance)) < chance


@pytest.mark.parametrize("buffers", [1, 3])
def test_the_error_of_buffers_is_below_its_bound(buffers):
    """Lemma 7: buffers in float64 beside the same ones in exact fractions, for rows as a run makes them."""
    strategy = minsep.BufferedToeplitz.optimal(iterations=400, buffers=buffers)
    recurrence = strategy.recurrence()
    law, steps = recurrence.buffers, 3000.0
    bound = rounding_reserve._error_of_buffers(strategy, law, steps) * 2.0**-53
    generator = np.random.default_rng(0)
    exact, held = [Fraction(0)] * buffers, np.zeros(buffers)
    decays, weights = (list(map(Fraction, numbers.tolist())) for numbers in (law.decays, law.weights))
    worst = 0.0
    for _ in range(strategy.iterations):
        total = 0.0
        for weight, buffer in zip(law.weights.tolist(), held.tolist(), strict=True):
            total += weight * buffer
        truth = sum(w * b for w, b in zip(weights, exact, strict=True))
        worst = max(worst, abs(float(Fraction(total) - truth)))
        row = float(np.rint(total + steps * law.of_normals * generator.standard_normal()))
        held = law.decays * held + row
        exact = [decay * buffer + Fraction(row) for decay, buffer in zip(decays, exact, strict=True)]
        # Denominators would grow without end; what is cut is far below a rounding error of float64.
        exact = [Fraction(round(value * 2**200), 2**200) for value in exact]
    assert bound / 1e4 < worst < bound


@pytest.mark.parametrize("values", [4, 100, 10_000, 1_000_000])
def test_radii_are_hardly_ever_larger_on_average(values):
    """Lemma 8, banded inverse: the mean of squared radii over values, in pairs or one of each pair."""
    radius = rounding_reserve._typical_radius(values)
    if radius < 11.9:
        for pairs in (values / 2, values):
            assert stats.gamma.logsf(pairs * radius**2 / 2, pairs) <= -100 * (1 - 1e-9)
    assert radius > math.sqrt(2)
    assert rounding_reserve._typical_radius(1) == 11.9


def test_a_row_of_a_banded_inverse_is_as_near_as_the_proof_says():
    """The mean square of the errors of rows beside sums in extended precision, in units of the bound."""
    strategy = minsep.BandedInverseToeplitz.square_root(iterations=60, bands=6)
    n = strategy.noise_coefficients
    z = np.random.default_rng(0).standard_normal((60, 500))
    rows = sum(c * np.roll(z, lag, axis=0) for lag, c in enumerate(n))[6:]
    exact = sum(np.longdouble(c) * np.roll(z, lag, axis=0).astype(np.longdouble) for lag, c in enumerate(n))[6:]
    error = np.sqrt(np.mean((rows - exact).astype(np.float64) ** 2))
    assert error < (23 + n.size) * 2.0**-53 * np.abs(n).sum() * math.sqrt(2)


def test_a_banded_inverse_costs_about_what_rows_cost():
    for strategy in (minsep.LambdaCGD(0.95, 2000), minsep.BandedInverseToeplitz.optimal(iterations=2000, bands=16)):
        for values in (1e9, 1e12):
            assert rounding_cost(strategy, values, 1e-15)[0] < 1.5 * rounding_cost(STRATEGY, values, 1e-15)[0]
    # With few values the worst radius counts.
    assert rounding_cost(minsep.LambdaCGD(0.95, 2000), 1, 1e-15)[0] >= rounding_cost(STRATEGY, 1, 1e-15)[0]


def test_buffers_cost_no_more_than_rows():
    buffered = minsep.BufferedToeplitz.optimal(iterations=2000, buffers=4)
    assert rounding_cost(buffered, 1e9, 1e-15)[0] < 1.2 * rounding_cost(STRATEGY, 1e9, 1e-15)[0]
    long = minsep.BufferedToeplitz([1 - 1e-6], [0.01], iterations=2000)
    assert rounding_cost(long, 1e9, 1e-15)[0] < 10 * rounding_cost(STRATEGY, 1e9, 1e-15)[0]


def test_runs_about_which_nothing_is_proven_are_refused():
    for values in (0, -1, math.nan):
        with pytest.raises(ValueError, match="values is"):
            rounding_cost(STRATEGY, values, 1e-15)
    with pytest.raises(ValueError, match="nothing is proven about rounding in so long a run"):
        rounding_cost(STRATEGY, 1e26, 1e-15)
    growing = minsep.BandedToeplitz.from_coefficients([1, 2], iterations=400)
    with pytest.raises(ValueError, match=r"C\^-1 has rows of norm up to .*e\+"):
        rounding_cost(growing, 1e6, 1e-15)


def test_a_reserve_is_what_the_theorem_needs():
    for budget, values in itertools.product((Budget(0.5, 1e-3), Budget(4.0, 1e-5), Budget(8.0, 1e-9)), (10**9, 10**12)):
        reserve = Reserve.of(STRATEGY, budget, values)
        left = reserve.left(budget)
        chance = rounding_reserve._SHARE * budget.delta / (1 + math.exp(budget.epsilon))
        x, beta = rounding_cost(STRATEGY, values, chance)
        assert left.epsilon + 2 * x <= budget.epsilon
        assert math.exp(x) * left.delta + beta * (1 + math.exp(left.epsilon + 2 * x)) <= budget.delta
        assert reserve.delta < 0.01 * budget.delta
        assert reserve.suffices(STRATEGY, budget)
        assert not Reserve(10 * values, reserve.epsilon, reserve.delta).suffices(STRATEGY, budget)
        assert not Reserve(values, reserve.epsilon / 2, reserve.delta).suffices(STRATEGY, budget)
        assert not Reserve(values, reserve.epsilon, reserve.delta / 2).suffices(STRATEGY, budget)
    assert Reserve(0, 0.0, 0.0).suffices(STRATEGY, budget)
    assert not Reserve(0, 0.1, 0.0).suffices(STRATEGY, budget)


def test_budgets_that_rounding_uses_up_are_refused():
    with pytest.raises(
        ValueError, match=r"epsilon is 0.0001 .* loses 0.0.* of epsilon and .* of delta to rounding: state model_size"
    ):
        Reserve.of(STRATEGY, Budget(1e-4, 1e-5), 10**10)
    with pytest.raises(ValueError, match="all of delta to rounding: .* an epsilon from 0.001 to 30"):
        Reserve.of(STRATEGY, Budget(60.0, 1e-5), 10**10)
