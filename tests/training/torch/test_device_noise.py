import copy
import itertools

import numpy as np
import pytest
import torch
from cryptography.hazmat.primitives.ciphers import Cipher, algorithms
from numpy.testing import assert_allclose, assert_array_equal
from scipy import stats

import minsep
from minsep.randomness import STRIPE, Key, NormalRows
from minsep.randomness.chacha import key_words
from minsep.training.torch import PrivateTraining
from minsep.training.torch.device_noise import DeviceNoiseStream, normals
from minsep.training.torch.device_noise.chacha import blocks
from minsep.training.torch.device_noise.normals import DeviceNormals
from minsep.training.torch.memory import peak_memory
from tests.randomness.test_normals import stripe_of
from tests.training.small import arguments, mechanism_of, options, train, weights_of

FALSE_ALARM = 1e-7
SIGMA = 1.7
HOST = torch.device("cpu")

STRATEGIES = [
    *(minsep.BandedToeplitz.optimal(iterations=23, bands=bands) for bands in (1, 2, 3, 5, 12, 23)),
    *(minsep.BandedInverseToeplitz.square_root(iterations=23, bands=bands) for bands in (1, 2, 3, 5, 23)),
    minsep.Dense(np.tril(np.random.default_rng(0).random((70, 70))) + 20 * np.eye(70)),
    minsep.LambdaCGD(0.7, iterations=23),
    minsep.GammaBIFR(0.8, bands=4, iterations=23),
    minsep.BufferedToeplitz([0.95], [0.3], iterations=23),
    minsep.BufferedToeplitz([0.99, 0.6, 0.0], [0.1, 0.3, 0.05], iterations=23),
]

# RFC 8439: section 2.3.2, and the five vectors of appendix A.1: key, counter, nonce, block.
VECTORS = [
    (
        bytes(range(32)),
        1,
        "000000090000004a00000000",
        "10f1e7e4d13b5915500fdd1fa32071c4c7d1f4c733c068030422aa9ac3d46c4e"
        "d2826446079faa0914c2d705d98b02a2b5129cd1de164eb9cbd083e8a2503c4e",
    ),
    (
        bytes(32),
        0,
        "000000000000000000000000",
        "76b8e0ada0f13d90405d6ae55386bd28bdd219b8a08ded1aa836efcc8b770dc7"
        "da41597c5157488d7724e03fb8d84a376a43b8f41518a11cc387b669b2ee6586",
    ),
    (
        bytes(32),
        1,
        "000000000000000000000000",
        "9f07e7be5551387a98ba977c732d080dcb0f29a048e3656912c6533e32ee7aed"
        "29b721769ce64e43d57133b074d839d531ed1f28510afb45ace10a1f4b794d6f",
    ),
    (
        bytes(31) + b"\x01",
        1,
        "000000000000000000000000",
        "3aeb5224ecf849929b9d828db1ced4dd832025e8018b8160b82284f3c949aa5a"
        "8eca00bbb4a73bdad192b5c42f73f2fd4e273644c8b36125a64addeb006c13a0",
    ),
    (
        b"\x00\xff" + bytes(30),
        2,
        "000000000000000000000000",
        "72d54dfbf12ec44b362692df94137f328fea8da73990265ec1bbbea1ae9af0ca"
        "13b25aa26cb4a648cb9b9d1be65b2c0924a66c54d545ec1b7374f4872e99f096",
    ),
    (
        bytes(32),
        0,
        "000000000000000000000002",
        "c2c64d378cd536374ae204b9ef933fcd1a8b2288b3dfa49672ab765b54ee27c7"
        "8a970e0e955c14f3a88e741b97c286f75f8fc299e8148362fa198a39531bed6d",
    ),
]


def mechanism(strategy, sigma=SIGMA):
    return minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), sigma)


def stream_of(strategy, size, seed=3, **more):
    mech = mechanism(strategy)
    return DeviceNoiseStream(mech, size, HOST, mech.noise_key(seed), **more)


def released(stream, size, sums=0.0, clip_norm=1.0):
    row = torch.full((size,), sums, dtype=torch.float64)
    stream.release_next(row, clip_norm)
    return row.numpy()


def rest_of(stream, size):
    return np.array([released(stream, size) for _ in range(stream.iterations - stream.position)]).reshape(-1, size)


def block_bytes(key, counter, nonce):
    words = [counter, *(int.from_bytes(nonce[i : i + 4], "little") for i in (0, 4, 8))]
    inputs = torch.from_numpy(np.array(words, dtype=np.uint32).view(np.int32))[:, None]
    return blocks(key_words(key), inputs).numpy().astype("<i4").tobytes()


@pytest.mark.parametrize(("key", "counter", "nonce", "block"), VECTORS, ids=range(len(VECTORS)))
def test_blocks_are_the_vectors_of_rfc_8439(key, counter, nonce, block):
    assert block_bytes(key, counter, bytes.fromhex(nonce)).hex() == block


def test_blocks_are_those_of_openssl():
    generator = np.random.default_rng(0)
    key, nonce = generator.bytes(32), generator.bytes(12)
    for counter in (0, 1, 2**31 - 1, 2**31, 2**32 - 1):
        start = counter.to_bytes(4, "little") + nonce
        expected = Cipher(algorithms.ChaCha20(key, start), mode=None).encryptor().update(bytes(64))
        assert block_bytes(key, counter, nonce) == expected


def test_rows_and_columns_address_blocks_of_their_own():
    """No block is used twice: beyond 2^32 rows, near the last column, and for neighbours."""
    rows = DeviceNormals(Key.from_seed(0), HOST)
    last = 2**35 - STRIPE
    places = [(0, 0), (1, 0), (0, STRIPE), (2**32, 0), (2**31, 0), (1, STRIPE), (0, last // 2), (0, last)]
    values = {tuple(rows.row(row, (column, column + 8)).tolist()) for row, column in places}
    assert len(values) == len(places)
    with pytest.raises(ValueError, match="at most 34359738368"):
        rows.row(0, (2**35 - 8, 2**35 + 1))


def test_normals_are_those_of_the_host():
    rows, device = NormalRows(Key.from_seed(5)), DeviceNormals(Key.from_seed(5), HOST)
    for row in (0, 3, 2**33):
        expected = rows.fill(row, 2, np.empty((300, STRIPE))).ravel()
        found = device.row(row, (2 * STRIPE, 302 * STRIPE)).numpy()
        assert np.abs(found - expected).max() < 40 * 2.0**-53 * 6


def test_the_extremes_of_the_uniform_numbers_are_those_of_the_host():
    """Words near 0 and near 1, which need a third word, on both sides: up to 13 standard deviations."""
    generator = np.random.default_rng(0)
    half = STRIPE // 2
    radii = np.array([1 << (k % 64) for k in range(half)], dtype=np.uint64)
    radii[half // 2 :] = ~radii[half // 2 :]
    radii[:2] = [0, 2**64 - 1]
    angles, more = generator.integers(0, 2**64, (2, half), dtype=np.uint64)
    incomplete, expected = stripe_of(radii, angles, more)
    assert incomplete > half // 2
    words = np.stack([radii, angles])[None]
    device = DeviceNormals(Key.from_seed(0), HOST)
    device._row_words = lambda row, plane, *_: torch.from_numpy((words, more)[plane].view(np.int64).reshape(1, -1))
    found = device.row(0, (0, STRIPE)).numpy()
    assert np.abs(found - expected.ravel()).max() < 40 * 2.0**-53 * 13
    assert np.abs(found).max() > 9


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
@pytest.mark.parametrize("size", [7, 3000])
def test_releases_are_those_of_the_host(strategy, size):
    """The same numbers, bit for bit, but for one in a hundred million that lies on an edge of the grid: not these."""
    device, host = stream_of(strategy, size), mechanism(strategy).noise(size, seed=3)
    for _ in range(strategy.iterations):
        on_host = np.full(size, 0.3)
        host.release_next(on_host, 2.0)
        assert_array_equal(released(device, size, 0.3, 2.0), on_host)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_host_and_device_read_each_others_states(strategy):
    host, device = mechanism(strategy).noise(5, seed=1), stream_of(strategy, 5, seed=8)
    for _ in range(6):
        next(host)
    device.load_state_dict(host.state_dict())
    back = mechanism(strategy).noise(5)
    back.load_state_dict(device.state_dict())
    rest = rest_of(device, 5)
    assert_array_equal(rest, [minsep.release(np.zeros(5), row, 1.0) for row in host])
    assert_array_equal(rest, [minsep.release(np.zeros(5), row, 1.0) for row in back])


@pytest.mark.parametrize("strategy", STRATEGIES[:4] + STRATEGIES[8:9], ids=repr)
def test_covariance_across_iterations(strategy):
    """Each entry of C X / sigma is standard normal and independent. False alarm: FALSE_ALARM for each strategy."""
    size, n = 20_000, strategy.iterations
    white = strategy.dense() @ rest_of(stream_of(strategy, size), size) / SIGMA
    deviations = np.sqrt(size) * (white @ white.T / size - np.eye(n)) / np.sqrt(1 + np.eye(n))
    assert np.abs(deviations).max() < stats.norm.isf(FALSE_ALARM / (2 * n * n))


@pytest.mark.parametrize("strategy", STRATEGIES, ids=repr)
def test_a_stream_resumes_anywhere(strategy):
    whole = rest_of(stream_of(strategy, 5), 5)
    for position in (0, 1, 4, strategy.iterations // 2, strategy.iterations):
        stream = stream_of(strategy, 5)
        for _ in range(position):
            released(stream, 5)
        resumed = stream_of(strategy, 5, seed=None)
        released(resumed, 5)
        resumed.load_state_dict(stream.state_dict())
        assert_array_equal(rest_of(resumed, 5), whole[position:])


@pytest.mark.parametrize("strategy", [STRATEGIES[3], STRATEGIES[8], STRATEGIES[-1]], ids=repr)
def test_parts_of_the_columns_make_up_the_whole(strategy, monkeypatch):
    size = 3003
    whole = rest_of(stream_of(strategy, size), size)
    monkeypatch.setattr("minsep.training.torch.device_noise.stream._VALUES_AT_ONCE_ON_HOST", 1024)
    first, second = [(0, 5), (100, 1131), (2900, 3003)], [(5, 100), (1131, 2900)]
    for columns in (first, second):
        places = np.concatenate([np.arange(*part) for part in columns])
        assert_array_equal(rest_of(stream_of(strategy, size, columns=columns), places.size), whole[:, places])


@pytest.mark.parametrize(
    ("strategy", "rows"),
    [(STRATEGIES[0], 0), (STRATEGIES[3], 4), (STRATEGIES[9], 0), (STRATEGIES[10], 0), (STRATEGIES[-1], 3)],
    ids=repr,
)
def test_how_many_rows_are_kept(strategy, rows):
    stream = stream_of(strategy, 1000)
    for position in range(strategy.iterations):
        kept = rows if strategy.recurrence().buffers else min(rows, position)
        assert stream.state_dict()["memory"].shape == (kept, 1000)
        released(stream, 1000)
        assert stream.kept_rows == rows


def test_a_banded_inverse_needs_no_memory_but_work_space(monkeypatch):
    monkeypatch.setattr("minsep.training.torch.device_noise.stream._VALUES_AT_ONCE_ON_HOST", 1 << 13)
    size = 1 << 19
    vector = torch.zeros(size, dtype=torch.float64)

    def run(strategy):
        mech = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), SIGMA)
        stream = DeviceNoiseStream(mech, size, HOST, mech.noise_key(0))
        for _ in range(2):
            stream.release_next(vector, 1.0)

    banded = minsep.BandedToeplitz.optimal(iterations=9, bands=9)
    inverse = minsep.BandedInverseToeplitz.square_root(iterations=9, bands=9)
    row = 4 * size
    work_space = peak_memory(lambda: run(inverse), HOST)
    assert work_space < row
    assert 8 * row <= peak_memory(lambda: run(banded), HOST) < 8 * row + 2 * work_space


def test_states_that_do_not_belong_are_refused():
    stream = stream_of(STRATEGIES[3], 6)
    for _ in range(6):
        released(stream, 6)
    state = stream.state_dict()
    for other, message in [
        (stream_of(STRATEGIES[2], 6), "state has mechanism"),
        (stream_of(STRATEGIES[3], 7), "state has size 6, but this stream has 7"),
        (stream_of(STRATEGIES[3], 6, columns=[(0, 3)]), "state has columns"),
    ]:
        with pytest.raises(ValueError, match=message):
            other.load_state_dict(state)
    with pytest.raises(ValueError, match="saved by an older version of minsep"):
        stream.load_state_dict({**state, "stream": "noise", "format": None})
    with pytest.raises(ValueError, match="array of shape"):
        stream.load_state_dict(state | {"position": 2})
    with pytest.raises(ValueError, match="whole numbers"):
        stream.load_state_dict(state | {"memory": state["memory"] * np.nan})
    with pytest.raises(ValueError, match="array of shape"):
        stream.load_state_dict(state | {"memory": state["memory"][:1]})
    with pytest.raises(TypeError, match="cannot be copied or pickled"):
        copy.copy(stream)


def test_bad_input_is_refused():
    with pytest.raises(ValueError, match=r"C\^-1 has rows of norm up to"):
        stream_of(minsep.BandedToeplitz.from_coefficients([1, 2], iterations=40), 3)
    with pytest.raises(ValueError, match="columns is"):
        stream_of(STRATEGIES[0], 9, columns=[(3, 5), (4, 9)])
    stream = stream_of(STRATEGIES[0], 3)
    for vector in (torch.zeros(4, dtype=torch.float64), torch.zeros(3), torch.zeros(3, dtype=torch.bfloat16)):
        with pytest.raises(ValueError, match="sums has shape"):
            stream.release_next(vector, 1.0)
    for value in (torch.nan, torch.inf, 1e20):
        vector = torch.tensor([1.0, value, 2.0], dtype=torch.float64)
        with pytest.raises(ValueError, match="is not finite, or exceeds"):
            stream.release_next(vector, 1.0)
        assert vector.tolist() == [0.0] * 3
    rest_of(stream, 3)
    with pytest.raises(ValueError, match="rows of the noise have already been drawn"):
        released(stream, 3)


def test_an_interrupted_stream_does_not_go_on(monkeypatch):
    stream = stream_of(STRATEGIES[3], 6)
    whole = rest_of(stream_of(STRATEGIES[3], 6), 6)
    for _ in range(4):
        released(stream, 6)
    state = stream.state_dict()
    with monkeypatch.context() as broken:
        broken.setattr(DeviceNormals, "row", lambda *_: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            released(stream, 6)
    for go_on in (lambda: released(stream, 6), stream.state_dict):
        with pytest.raises(RuntimeError, match="interrupted in the middle of a step"):
            go_on()
    stream.load_state_dict(state)
    assert_array_equal(rest_of(stream, 6), whole[4:])


def test_faster_and_less_precise_products_do_not_change_the_noise():
    expected = rest_of(stream_of(STRATEGIES[4], 50), 50)
    before = torch.get_float32_matmul_precision()
    try:
        torch.set_float32_matmul_precision("medium")
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert_array_equal(rest_of(stream_of(STRATEGIES[4], 50), 50), expected)
    finally:
        torch.set_float32_matmul_precision(before)


def test_a_device_that_computes_other_numbers_is_refused(monkeypatch):
    """A device that rounds sums of words instead of wrapping them, stood in for by the one without memory."""
    rows, made = DeviceNormals._row, normals._normals
    monkeypatch.setattr(DeviceNormals, "_row", lambda self, row, columns, device: rows(self, row, columns, HOST))
    monkeypatch.setattr(torch.Tensor, "to", lambda tensor, *_: tensor)
    DeviceNormals(Key.from_seed(0), torch.device("meta"))
    calls = itertools.count()
    monkeypatch.setattr(normals, "_normals", lambda *words: made(*words) * (1 + 1e-14 * (next(calls) % 2)))
    with pytest.raises(RuntimeError, match='computes other random numbers than the host.*noise="host"'):
        DeviceNormals(Key.from_seed(0), torch.device("meta"))


def test_training_resumes_with_identical_weights(tmp_path):
    straight = PrivateTraining(*arguments(), mechanism_of(), seed=7, noise="device", **options())
    train(straight)
    for steps in (3, 5):
        first = PrivateTraining(*arguments(), mechanism_of(), seed=7, noise="device", **options())
        train(first, steps=steps)
        first.save(tmp_path / "run")
        resumed = PrivateTraining.resume(tmp_path / "run", *arguments(), mechanism_of(), noise="device", **options())
        train(resumed)
        assert_array_equal(weights_of(resumed.model), weights_of(straight.model))
    on_host = PrivateTraining.resume(tmp_path / "run", *arguments(), mechanism_of(), noise="host", **options())
    train(on_host)
    assert_array_equal(weights_of(on_host.model), weights_of(straight.model))


def test_training_adds_the_noise_of_the_stream():
    """Without learning from data: the sum of gradients is nothing but noise, which SGD with rate 1 makes visible."""
    mech, loss = mechanism_of(), lambda outputs, _: 0.0 * outputs.sum()
    model = torch.nn.Linear(5, 3)
    before = weights_of(model).copy()
    trainer = PrivateTraining(
        model, loss, torch.optim.SGD(model.parameters(), lr=1.0), mech, seed=7, noise="device", num_examples=40,
        clip_norm=2.0, expected_batch=4.0, micro_batch=1,
    )  # fmt: skip
    train(trainer, steps=1)
    noisy = released(DeviceNoiseStream(mech, before.size, HOST, mech.noise_key(7)), before.size, clip_norm=2.0)
    assert_allclose(before - weights_of(model), noisy / 4.0, atol=1e-6)


def test_the_kind_of_noise_is_chosen_by_the_device():
    with pytest.raises(ValueError, match='noise is "gpu", but it must be "auto", "host" or "device"'):
        PrivateTraining(*arguments(), mechanism_of(), noise="gpu", **options())
    trainer = PrivateTraining(*arguments(), mechanism_of(), **options())
    assert not isinstance(trainer._noise, DeviceNoiseStream)
