"""Directions of canaries: orthonormal, of every kind, and the same by every way of computing them."""

import numpy as np
import pytest

from minsep.auditing.directions import Directions
from minsep.randomness import Key


@pytest.mark.parametrize("size", [1, 2, 3, 64, 100, 1024, 2500])
def test_directions_are_orthonormal(size):
    directions = Directions(size, Key.from_seed(size))
    vectors = directions.vectors(np.arange(size))
    np.testing.assert_allclose(vectors @ vectors.T, np.eye(size), atol=1e-12)
    values = np.random.default_rng(0).standard_normal((size, 3))
    np.testing.assert_allclose(directions.along(values), vectors @ values, atol=1e-12)
    np.testing.assert_allclose(directions.back(values), vectors.T @ values, atol=1e-12)
    kept = np.random.default_rng(1).random(size) < 0.5
    np.testing.assert_allclose(directions.shares(kept), (vectors[kept] ** 2).sum(axis=0), atol=1e-12)


def test_directions_have_one_entry_or_many_with_random_signs_in_random_places():
    directions = Directions(1024, Key.from_seed(0))
    vectors = directions.vectors(np.arange(1024))
    entries = (vectors != 0).sum(axis=1)
    assert {int(count): int(number) for count, number in zip(*np.unique(entries, return_counts=True), strict=True)} == {
        1: 2,
        **{2**power: 2**power for power in range(1, 10)},
    }
    dense = vectors[:512]
    assert 0.4 < np.mean(dense[dense != 0] > 0) < 0.6
    in_first_half = np.mean(dense[0, :512] != 0)
    assert 0.35 < in_first_half < 0.65  # of 512 entries: six deviations
    other = Directions(1024, Key.from_seed(1)).vectors(np.arange(1024))
    assert not np.allclose(vectors, other)
