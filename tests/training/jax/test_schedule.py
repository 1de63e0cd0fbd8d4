from numpy.testing import assert_allclose

from minsep.training import LinearDecay
from minsep.training.jax import linear_decay


def test_schedules_agree():
    schedule, decay = linear_decay(0.3, 40), LinearDecay(40)
    assert_allclose([float(schedule(step)) for step in range(40)], [0.3 * decay(step) for step in range(40)], rtol=1e-6)
