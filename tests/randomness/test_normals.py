"""Normal variates for released noise: against 60 digits, and by their law."""

import math

import numpy as np
import pytest
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.testing import assert_array_equal
from scipy import stats

from minsep.noise.rounding_reserve import NORMAL_ERROR
from minsep.randomness import STRIPE, Key, NormalRows
from minsep.randomness.chacha import fill_blocks, key_words
from minsep.randomness.normals import complete, transform
from tests.oracles.normals import PAIRS, exact_pair

FALSE_ALARM = 1e-7


def blocks_of(words):
    """Words of 64 bits as the words by blocks of a stripe."""
    halves = np.stack([words & np.uint64(0xFFFFFFFF), words >> np.uint64(32)], axis=1).astype(np.uint32)
    return np.ascontiguousarray(halves.reshape(2 * len(words), -1))


def stripe_of(radii, angles, more):
    both = blocks_of(np.concatenate([radii.reshape(4, -1), angles.reshape(4, -1)]).astype(np.uint64))
    out = np.empty(STRIPE)
    incomplete = transform(both, out)
    complete(both, blocks_of(more.reshape(8, -1)), out)
    return incomplete, out.reshape(2, PAIRS)


def words(seed):
    return np.random.default_rng(seed).integers(0, 2**64, PAIRS, dtype=np.uint64)


def test_values_are_as_close_to_exact_ones_as_the_theorem_needs():
    """Within 20 units times the radius of the exact transform at every place of the cells that the words name.

    Radii of every size up to 10.9, near 0 and near 1 alike: those of all bits, of a few, those that need a third word.
    """
    powers = np.array([1 << (k % 64) for k in range(PAIRS)], dtype=np.uint64)
    near_zero, near_one = words(1) % powers, ~(words(2) % powers)
    nothing = np.zeros(PAIRS, dtype=np.uint64)
    worst = 0.0
    for radii in (words(3), near_zero, near_one, nothing + np.uint64(1), ~nothing):
        angles, more = words(4), words(5)
        angles[:8] = [0, 2**64 - 1, 2**63, 2**12 - 1, 2**12, 2**63 - 1, 2**64 - 2**12, 3]
        more[:2] = [0, 2**64 - 1]
        _, found = stripe_of(radii, angles, more)
        for place in range(0, PAIRS, 3):
            for end in (1e-9, 1 - 1e-9):
                x, y, radius = exact_pair(radii[place], angles[place], more[place], end)
                errors = [abs(float(value - exact)) for value, exact in zip(found[:, place], (x, y), strict=True)]
                if radius <= 10.9:
                    worst = max(worst, (max(errors) - 2.0**-68) / radius)
    assert worst < NORMAL_ERROR


@pytest.mark.parametrize(("radius", "most"), [(10.9, 20 * 10.9 * 2.0**-53), (11.9, 7.2e-13), (12.85, 9e-8)])
def test_values_far_out_are_as_close_as_the_theorem_needs(radius, most):
    """Words whose radius is at most this, at both ends of their cell of 2^-138."""
    bits = int(math.exp(-(radius**2) / 2) * 2.0**138) + 1
    more = np.full(PAIRS, bits & (2**64 - 1), dtype=np.uint64)
    radii = np.full(PAIRS, bits >> 74, dtype=np.uint64)
    angles = (words(6) & ~np.uint64(0xFFC)) | np.uint64((bits >> 64 & 0x3FF) << 2)
    _, found = stripe_of(radii, angles, more)
    for place in range(0, PAIRS, 37):
        for end in (1e-9, 1 - 1e-9):
            *exact, size = exact_pair(radii[place], angles[place], more[place], end)
            assert size <= radius + 1e-6
            assert max(abs(float(v - e)) for v, e in zip(found[:, place], exact, strict=True)) < most
    # Every bit of the third word counts.
    assert len({stripe_of(radii, angles, more ^ np.uint64(1 << k))[1][0, 0] for k in range(12)}) > 4


def test_extremes_are_finite_and_reach_beyond_13():
    for radii in (np.zeros(PAIRS, dtype=np.uint64), ~np.zeros(PAIRS, dtype=np.uint64)):
        for angles in (np.zeros(PAIRS, dtype=np.uint64), ~np.zeros(PAIRS, dtype=np.uint64)):
            for more in (np.zeros(PAIRS, dtype=np.uint64), ~np.zeros(PAIRS, dtype=np.uint64)):
                incomplete, found = stripe_of(radii, angles, more)
                assert incomplete == PAIRS
                assert np.isfinite(found).all()
    _, found = stripe_of(np.zeros(PAIRS, dtype=np.uint64), words(0) & ~np.uint64(0xFFC), np.zeros(PAIRS, np.uint64))
    assert np.hypot(*found).min() > 13.0


@pytest.mark.parametrize("scale", [1, 2**-20])
def test_uniform_numbers_have_all_of_their_digits(scale):
    """Small uniform numbers are uniform again when they are stretched: there are no gaps in the tail of the normals."""
    count = 40 * PAIRS
    generator = np.random.default_rng(7)
    size = int(2**64 * scale * 2**-22)  # radii that need a third word
    radii = generator.integers(0, size, count, dtype=np.uint64).reshape(-1, PAIRS)
    parts = [stripe_of(these, *generator.integers(0, 2**64, (2, PAIRS), dtype=np.uint64))[1] for these in radii]
    squares = np.concatenate([np.square(part).sum(axis=0) for part in parts])
    stretched = np.exp(-squares / 2) / (size * 2.0**-64)
    assert stats.kstest(stretched, "uniform").pvalue > FALSE_ALARM


def test_law_of_the_normals():
    """Eight tests of FALSE_ALARM each."""
    rows = np.empty((4, 256, STRIPE))
    for row in range(4):
        NormalRows(Key.from_seed(1)).fill(5 + row, 0, rows[row])
    flat = rows.reshape(4, -1)
    counts, _ = np.histogram(flat, stats.norm.ppf(np.linspace(0, 1, 201)))
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    # Both members of a pair, neighbours, stripes and rows are uncorrelated, in size as well.
    for other in (np.roll(flat, 1, axis=1), np.roll(flat, 1, axis=0), np.roll(flat, PAIRS, axis=1)):
        for one, two in ((flat, other), (flat**2, other**2)):
            assert stats.pearsonr(one.ravel(), two.ravel()).pvalue > FALSE_ALARM


def test_tail_of_the_normals():
    rows, out = NormalRows(Key.from_seed(2)), np.empty((1000, STRIPE))
    beyond = sum(int((np.abs(rows.fill(row, 0, out)) > 4.5).sum()) for row in range(20))
    assert stats.binomtest(beyond, 20 * out.size, 2 * stats.norm.sf(4.5)).pvalue > FALSE_ALARM


def test_a_stripe_does_not_depend_on_those_beside_it():
    rows = NormalRows(Key.from_seed(3))
    together = rows.fill(7, 0, np.empty((70, STRIPE)))
    for stripe in (0, 1, 33, 69):
        assert_array_equal(rows.fill(7, stripe, np.empty((1, STRIPE)))[0], together[stripe])
    assert not np.intersect1d(together, rows.fill(8, 0, np.empty((70, STRIPE)))).size
    assert not np.intersect1d(together, NormalRows(Key.from_seed(4)).fill(7, 0, np.empty((70, STRIPE)))).size


def test_blocks_are_the_vector_of_rfc_8439():
    """Section 2.3.2 names key, nonce and counter 1; a row is the nonce's first eight bytes, a plane the last four."""
    key, nonce = key_words(bytes(range(32))), bytes.fromhex("000000090000004a00000000")
    row, plane = int.from_bytes(nonce[:8], "little"), int.from_bytes(nonce[8:], "little")
    out = np.empty((16, 1), dtype=np.uint32)
    fill_blocks(key, 1, row, plane, out)
    assert (
        out.T.astype("<u4")
        .tobytes()
        .hex()
        .startswith("10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e")
    )


@pytest.mark.parametrize("row", [0, 1, 2**31, 2**32, 2**40 + 7])
def test_blocks_are_those_of_openssl(row):
    secret = np.random.default_rng(row % 100).bytes(32)
    for first, plane, count in ((0, 0, 300), (2**31 - 5, 1, 20), (2**32 - 9, 0, 9)):
        out = np.empty((16, count), dtype=np.uint32)
        fill_blocks(key_words(secret), first, row, plane, out)
        start = first.to_bytes(4, "little") + row.to_bytes(8, "little") + plane.to_bytes(4, "little")
        expected = Cipher(algorithms.ChaCha20(secret, start), None).encryptor().update(bytes(64 * count))
        assert np.ascontiguousarray(out.T).astype("<u4").tobytes() == expected


def test_rows_are_made_of_their_blocks():
    """Columns of stripe 3 of row 5, from OpenSSL's words: radii from the first eight words of a block."""
    secret = Key.from_seed(9).secret
    start = (3 * 128).to_bytes(4, "little") + (5).to_bytes(8, "little") + bytes(4)
    stream = Cipher(algorithms.ChaCha20(secret, start), None).encryptor().update(bytes(64 * 128))
    words = np.frombuffer(stream, dtype="<u8").reshape(128, 8).T
    _, expected = stripe_of(words[:4].reshape(-1), words[4:].reshape(-1), np.zeros(PAIRS, dtype=np.uint64))
    assert_array_equal(NormalRows(Key.from_seed(9)).fill(5, 3, np.empty((1, STRIPE)))[0], expected.ravel())
    with pytest.raises(ValueError, match="but it must have at most 34359738368"):
        NormalRows(Key.from_seed(9)).fill(0, 2**25 - 1, np.empty((2, STRIPE)))
