import optax
import pytest
from numpy.testing import assert_allclose

from experiments.schedule import linear_decay


def test_the_learning_rate_falls_to_a_twentieth_between_a_quarter_and_three_quarters_of_the_run():
    factor = linear_decay(1500)
    assert [factor(step) for step in (0, 375, 1125, 1499)] == [1.0, 1.0, 0.05, 0.05]
    assert factor(750) == pytest.approx(0.525)


def test_optax_has_the_same_schedule():
    factor, schedule = linear_decay(40), optax.linear_schedule(0.3, 0.3 / 20, 40 // 2, 40 // 4)
    assert_allclose(
        [float(schedule(step)) for step in range(40)], [0.3 * factor(step) for step in range(40)], rtol=1e-6
    )
