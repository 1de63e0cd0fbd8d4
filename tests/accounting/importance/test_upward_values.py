import math

import numpy as np
import pytest

from minsep.accounting.importance import upward_values


def test_values_are_rounded_upward():
    ratios = np.array([-1.0, 0.9999999, 1.0, 1.5, 5.0])
    up = upward_values("remove", 2, ratios, np.zeros(5), 1.0, 1e-6)
    assert (up >= np.maximum(np.exp(ratios) - math.e, 0)).all()
    up = upward_values("add", 2, -ratios, np.zeros(5), 1.0, 1e-6)
    assert (up >= np.maximum(1 - np.exp(1.0 - ratios), 0)).all()


@pytest.mark.parametrize("direction", ["remove", "add"])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_what_is_not_known_never_counts_as_no_loss(direction, bad):
    fine = np.zeros(3)
    spoilt = np.array([0.0, bad, 0.0])
    assert np.isnan(upward_values(direction, 2, spoilt, fine, 0.5, 1e-6)[1])
    far = fine + 9 if direction == "remove" else fine - 9
    assert not np.isfinite(upward_values(direction, 2, far, spoilt, 0.5, 1e-6)[1])
