"""A state or checkpoint that was changed is refused in a sentence, or restores what the original does."""

import io
import json
import tempfile
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import strategies as st

import minsep
from tests.fuzz.mutations import (
    Case,
    Originals,
    as_text,
    assert_sentences,
    changed_data,
    damaged_bytes,
    fuzz,
    memory_limit,
    refused_in_a_sentence,
)
from tests.test_state import MECHANISMS

DRAWN = 13


def streams():
    """Return a stream of batches and one of noise for every mechanism, by name."""
    for name, mechanism in MECHANISMS.items():
        yield f"batches, {name}", lambda mechanism=mechanism: mechanism.batches(200, seed=1)
        yield f"noise, {name}", lambda mechanism=mechanism: mechanism.noise((6,), seed=1)


MAKE = dict(streams())


def drawn(stream):
    for _ in range(DRAWN):
        next(stream)
    return stream


def file_of(state):
    with tempfile.TemporaryDirectory() as folder:
        minsep.save_state(Path(folder, "state"), state)
        return Path(folder, "state").read_bytes()


STATES = [drawn(make()).state_dict() for make in MAKE.values()]
REST = [np.concatenate([np.ravel(row) for row in drawn(make())]) for make in MAKE.values()]
FILES = Originals(file_of(state) for state in STATES)
PLAIN = Originals(
    {name: value for name, value in state.items() if not isinstance(value, np.ndarray)} for state in STATES
)


def check_restored(state, number):
    """A state that is accepted goes on as the original does, unless its key or its position is another."""
    stream = list(MAKE.values())[number]()
    with refused_in_a_sentence():
        stream.load_state_dict(state)
        if state["key"] == STATES[number]["key"] and state["position"] == DRAWN:
            rest = np.concatenate([np.ravel(row) for row in stream])
            assert np.array_equal(rest, REST[number]) or "memory" in state  # another memory is another past


def check_file(content, number):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder, "state")
        path.write_bytes(content)
        with refused_in_a_sentence():
            state = minsep.load_state(path)
            original = STATES[number]
            assert isinstance(state, dict)
            if all(np.array_equal(state.get(name), value) for name, value in original.items()):
                state.update(original)
            return state
    return None


@fuzz(damaged_bytes(FILES), quick=150, slow=2000)
def test_damaged_states_are_refused_or_unharmed(case):
    number, content = case
    state = check_file(content, number)
    if state is not None:
        # The archive has checksums: whatever is accepted is one of the originals, read as it was.
        assert any(
            state.keys() == original.keys() and all(np.array_equal(state[name], original[name]) for name in original)
            for original in STATES
        ), state
        check_restored(state, number)


@fuzz(changed_data(PLAIN), quick=150, slow=2000)
def test_changed_states_are_refused_or_restored(case):
    number, plain = case
    arrays = {name: value for name, value in STATES[number].items() if isinstance(value, np.ndarray)}
    file = io.BytesIO()
    np.savez(file, allow_pickle=False, plain=np.array(as_text(plain)), **arrays)
    state = check_file(file.getvalue(), number)
    if state is not None:
        check_restored(state, number)


def header(text):
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


def archive(members, compression=zipfile.ZIP_STORED):
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", compression) as target:
        for name, content in members:
            target.writestr(name, content)
    return file.getvalue()


PLAIN_MEMBER = ("plain.npy", zipfile.ZipFile(io.BytesIO(FILES[0])).read("plain.npy"))


@st.composite
def absurd_archives(draw):
    """Return archives whose arrays promise what is not there."""
    shape = draw(
        st.sampled_from(
            ["()", "(0,)", "(10**12,)", "(2**62, 8)", "(-1,)", "(-1, -8)", "(1,", "'a'", "(True,)", "(1.5,)"]
        )
    )
    dtype = draw(
        st.sampled_from(["'<f8'", "'|O'", "'<U999999999'", "'<f99'", "[('a', '|O')]", "'V1000000000'", "None", "'<i4'"])
    )
    text = draw(
        st.sampled_from(
            [f"{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}", "{" * 5000, "(" * 60_000, "", "1"]
        )
    ).replace("10**12", str(10**12)).replace("2**62", str(2**62))  # fmt: skip
    content = header(text.encode()) + draw(st.binary(max_size=64))
    members = [PLAIN_MEMBER, ("memory.npy", content)]
    if draw(st.booleans()):
        members[1] = ("plain.npy", content)
    compression = draw(st.sampled_from([zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_LZMA]))
    chosen = draw(st.sampled_from([members, members[1:], members[::-1]]))
    names = [name for name, _ in chosen]
    if len(set(names)) < len(names):
        chosen = chosen[1:]
    return Case(0, archive(chosen, compression), f"{text[:100]} {names}")


@fuzz(absurd_archives(), quick=60, slow=500)
def test_absurd_arrays_are_refused_without_being_allocated(case):
    number, content = case
    with memory_limit():
        state = check_file(content, number)
    if state is not None:
        check_restored(state, number)


def test_a_header_that_promises_terabytes_is_refused(tmp_path):
    text = b"{'descr': '<f8', 'fortran_order': False, 'shape': (1000000000000,), }"
    (tmp_path / "state").write_bytes(archive([PLAIN_MEMBER, ("memory.npy", header(text))]))
    with memory_limit(), pytest.raises(ValueError, match="does not contain a state of minsep"):
        minsep.load_state(tmp_path / "state")


def test_a_compressed_state_is_refused_before_it_is_unpacked(tmp_path):
    (tmp_path / "state").write_bytes(archive([("plain.npy", bytes(1 << 28))], zipfile.ZIP_DEFLATED))
    with memory_limit(1 << 26), pytest.raises(ValueError, match="does not contain a state of minsep"):
        minsep.load_state(tmp_path / "state")


@pytest.mark.parametrize("plain", ["[1]", "1", "null", "[" * 100_000, '{"a":' * 5000, "9" * 5000, '"key"'])
def test_plain_data_that_is_no_object_is_refused(tmp_path, plain):
    np.savez(tmp_path / "state.npz", plain=np.array(plain))
    with pytest.raises(ValueError, match="does not contain a state of minsep"):
        minsep.load_state(tmp_path / "state.npz")


def test_an_array_cannot_take_the_place_of_plain_data(tmp_path):
    np.savez(tmp_path / "state.npz", plain=np.array(json.dumps({"version": 1})), version=np.arange(3))
    with pytest.raises(ValueError, match="does not contain a state of minsep"):
        minsep.load_state(tmp_path / "state.npz")
    stream = next(iter(MAKE.values()))()
    with pytest.raises(ValueError, match="The state has version array") as refusal:
        stream.load_state_dict({**STATES[0], "version": np.arange(3)})
    assert_sentences(refusal.value)
