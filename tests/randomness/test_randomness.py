import numba
import numpy as np
import pytest
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

from minsep.randomness import Key, KeyedWords, add_keyed_normals
from minsep.randomness.philox import normal_pair, philox

FALSE_ALARM = 1e-7


def reference_normals(radius_bits, angle_bits):
    """Box-Muller by NumPy's own functions, from the same bits."""
    u = ((radius_bits >> np.uint64(12)).astype(np.float64) + 0.5) * 2.0**-52
    angle = np.pi / 2 * (angle_bits >> np.uint64(12)).astype(np.float64) * 2.0**-52
    radius = np.sqrt(-2 * np.log(u))
    signs = 1 - 2.0 * (angle_bits & np.uint64(1)), 1 - 2.0 * ((angle_bits >> np.uint64(1)) & np.uint64(1))
    return signs[0] * radius * np.cos(angle), signs[1] * radius * np.sin(angle)


def test_the_kernel_for_accounting_equals_the_transform_it_approximates():
    pair = numba.njit(lambda first, second: normal_pair(first, second))
    words = KeyedWords(Key.from_seed(0)).take(0, 20_000)
    extremes = np.array([0, 2**64 - 1, 2**63, 2**12 - 1, 2**12, 2**63 - 1], dtype=np.uint64)
    for radii, angles in ((words[:10_000], words[10_000:]), (extremes, extremes), (extremes, extremes[::-1])):
        found = np.array([pair(*both) for both in zip(radii, angles, strict=True)]).T
        assert_allclose(found, reference_normals(radii, angles), rtol=1e-13, atol=3e-15)
    assert np.hypot(*pair(np.uint64(0), np.uint64(0))) == pytest.approx(np.sqrt(2 * 53 * np.log(2)))


def test_words_are_addressable_and_keyed():
    words = KeyedWords(Key.from_seed(0))
    whole = words.take(9, 300_001)
    assert_array_equal(words.take(9, 1001, start=250_000), whole[250_000:251_001])
    assert not np.intersect1d(whole, words.take(10, 300_000)).size
    assert not np.intersect1d(whole, KeyedWords(Key.from_seed(1)).take(9, 300_000)).size
    with pytest.raises(ValueError, match="start is 3, but it must be even"):
        words.take(0, 1, start=3)


def test_words_are_aes_in_counter_mode():
    # NIST SP 800-38A, F.5.5: the keystream of AES-256 in counter mode, of the block f0f1...ff under this key.
    key = Key.from_hex("603deb1015ca71be2b73aef0857d77811f352c073b6108d72d9810a30914dff4")
    counter = 0xF0F1F2F3F4F5F6F7F8F9FAFBFCFDFEFF
    words = KeyedWords(key).take(counter >> 64, 2, start=2 * (counter & (2**64 - 1)))
    assert words.astype("<u8").tobytes().hex() == "0bdf7df1591716335e9a8b15c860c502"


def test_purposes_and_seeds_give_other_keys():
    keys = {
        Key.from_seed(0),
        Key.from_seed(1),
        Key.from_seed(0).derive("batches"),
        Key.from_seed(0).derive("noise"),
    }
    assert len(keys) == 4
    assert Key.of(None) != Key.of(None)
    for seed in (-1, 1.5, "1", True):
        with pytest.raises(ValueError, match="seed is .* integer of at least 0"):
            Key.of(seed)
    with pytest.raises(ValueError, match="32 bytes"):
        Key(b"short")


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        # Known answers of the authors' library Random123 for philox4x32-7.
        ((0, 0), 0, (0x0D893F645F6FB709, 0x4F730A484F121F81)),
        ((2**64 - 1, 2**64 - 1), 2**64 - 1, (0x45165E595207DDC2, 0x8C52F6624D8EE751)),
        ((0x85A308D3243F6A88, 0x0370734413198A2E), 0x299F31D0A4093822, (0x190A87F04DFCCABA, 0xB6B5242AC47362BA)),
    ],
)
def test_philox_known_answers(counter, key, expected):
    compiled = numba.njit(lambda position, stream, key: philox(position, stream, key))
    found = compiled(np.uint64(counter[0]), np.uint64(counter[1]), np.uint64(key))
    assert found == expected


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_law_of_the_normals_for_accounting(dtype):
    rows = np.zeros((4, 250_000), dtype=dtype)
    add_keyed_normals(rows[:2], 250_000, 1.0, Key.from_seed(1), stream=5)
    add_keyed_normals(rows[2:], 250_000, 1.0, Key.from_seed(1), stream=6)
    counts, _ = np.histogram(rows.astype(np.float64), stats.norm.ppf(np.linspace(0, 1, 201)))
    assert stats.chisquare(counts).pvalue > FALSE_ALARM
    for other in (np.roll(rows, 1, axis=1), np.roll(rows, 1, axis=0), np.roll(rows, 125_000, axis=1)):
        for one, two in ((rows, other), (rows**2, other**2)):
            assert stats.pearsonr(one.ravel(), two.ravel()).pvalue > FALSE_ALARM
