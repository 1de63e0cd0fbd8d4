"""A run that is killed goes on from its last saved state as if nothing had happened."""

import os
import signal
import stat
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import minsep

RUN = textwrap.dedent(
    """
    import sys, minsep
    from tests.test_state import MECHANISMS
    resume = sys.argv[2] == "resume"
    for name, mechanism in MECHANISMS.items():
        path = f"{sys.argv[1]}/{name}"
        batches, noise = mechanism.batches(200, seed=1), mechanism.noise((6,), seed=1)
        if resume:
            batches.load_state_dict(minsep.load_state(path + " batches"))
            noise.load_state_dict(minsep.load_state(path + " noise"))
        for indices, row in zip(batches, noise):
            print(name, indices.tolist(), row.tobytes().hex(), flush=True)
            minsep.save_state(path + " noise", noise.state_dict())
            minsep.save_state(path + " batches", batches.state_dict())
            if batches.position == 13 and not resume:
                break
    print("saved", flush=True)
    if not resume:
        sys.stdin.read()
    """
)
BANDED = minsep.BandedToeplitz.optimal(iterations=40, bands=5)
MECHANISMS = {
    "min-sep": minsep.Mechanism(BANDED, minsep.MinSep(rate=0.05, min_sep=8), 1.0),
    "cold": minsep.Mechanism(BANDED, minsep.MinSep(rate=0.05, min_sep=8, start="cold"), 1.0, minsep.Truncation(9)),
    "poisson": minsep.Mechanism(
        minsep.BandedInverseToeplitz.square_root(iterations=40, bands=4), minsep.Poisson(rate=0.05), 1.0
    ),
    "buffered": minsep.Mechanism(
        minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=40), minsep.BallsInBins(epoch=8), 1.0
    ),
    "cyclic": minsep.Mechanism(minsep.Dense(BANDED.dense()), minsep.CyclicPoisson(rate=0.05, cycle=8), 1.0),
    "balls-in-bins": minsep.Mechanism(BANDED, minsep.BallsInBins(epoch=8), 1.0),
    "random allocation": minsep.Mechanism(
        minsep.BandedToeplitz.identity(iterations=40), minsep.RandomAllocation(epoch=8), 1.0
    ),
    "unamplified": minsep.Mechanism(
        minsep.BandedToeplitz.identity(iterations=40), minsep.Unamplified(min_sep=8, participations=5), 1.0
    ),
}


def test_kill_and_resume(tmp_path):
    def run(mode):
        command = [sys.executable, "-c", RUN, str(tmp_path), mode]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    first = run("start")
    before = list(iter(first.stdout.readline, "saved\n"))
    os.kill(first.pid, signal.SIGKILL)
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    after, _ = run("resume").communicate(timeout=60)
    lines = before + after.splitlines(keepends=True)
    for name, mechanism in MECHANISMS.items():
        streams = zip(mechanism.batches(200, seed=1), mechanism.noise((6,), seed=1), strict=True)
        whole = [f"{name} {indices.tolist()} {row.tobytes().hex()}\n" for indices, row in streams]
        assert [line for line in lines if line.startswith(f"{name} [")] == whole
        assert sum(line.startswith(f"{name} [") for line in before) == 13


def state():
    strategy = minsep.BandedToeplitz.optimal(iterations=10, bands=3)
    mechanism = minsep.Mechanism(strategy, minsep.Poisson(rate=0.1), noise_multiplier=1.0)
    stream = mechanism.noise((4,))
    next(stream)
    return stream.state_dict()


def test_files_are_for_their_owner_alone(tmp_path):
    path = tmp_path / "noise.state"
    path.touch(mode=0o644)
    minsep.save_state(path, state())
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["noise.state"]


def test_an_interrupted_save_keeps_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "noise.state"
    old = state()
    minsep.save_state(path, old)
    monkeypatch.setattr(os, "fsync", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        minsep.save_state(path, state())
    assert minsep.load_state(path)["key"] == old["key"]
    assert [file.name for file in tmp_path.iterdir()] == ["noise.state"]


def test_loading_executes_nothing(tmp_path):
    path = tmp_path / "evil.npz"
    np.savez(path, plain=np.array([print], dtype=object))
    files = {"pickled": path.read_bytes(), "empty": b"", "text": b"{}", "cut": path.read_bytes()[:100]}
    np.savez(path, other=np.zeros(1))
    files["another"] = path.read_bytes()
    np.save(tmp_path / "array.npy", np.zeros(3))
    files["array"] = (tmp_path / "array.npy").read_bytes()
    for content in files.values():
        path.write_bytes(content)
        with pytest.raises(ValueError, match="does not contain a state of minsep"):
            minsep.load_state(path)


def test_a_file_that_cannot_be_written_is_named_as_it_was_asked_for(tmp_path):
    path = tmp_path / "missing" / "run.checkpoint"
    with pytest.raises(FileNotFoundError) as refused:
        minsep.save_state(path, {"format": 1})
    assert refused.value.filename == str(path)
    assert ".partial" not in str(refused.value)
