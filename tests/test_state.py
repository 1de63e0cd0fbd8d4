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
    import sys, numpy as np, minsep
    strategy = minsep.BandedToeplitz.optimal(iterations=40, bands=5)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.05, min_sep=8), noise_multiplier=1.0)
    batches, noise = mechanism.batches(200, seed=1), mechanism.noise((6,), seed=1)
    folder, resume = sys.argv[1], sys.argv[2] == "resume"
    if resume:
        batches.load_state_dict(minsep.load_state(folder + "/batches"))
        noise.load_state_dict(minsep.load_state(folder + "/noise"))
    for indices, row in zip(batches, noise):
        print(indices.tolist(), row.tobytes().hex(), flush=True)
        minsep.save_state(folder + "/noise", noise.state_dict())
        minsep.save_state(folder + "/batches", batches.state_dict())
        if batches.position == 13 and not resume:
            print("saved", flush=True)
            sys.stdin.read()
    """
)


def test_kill_and_resume(tmp_path):
    def run(mode):
        return subprocess.Popen(
            [sys.executable, "-c", RUN, str(tmp_path), mode],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip

    first = run("start")
    before = []
    for line in first.stdout:
        if line == "saved\n":
            os.kill(first.pid, signal.SIGKILL)
            break
        before.append(line)
    first.communicate()
    assert first.returncode == -signal.SIGKILL
    after, _ = run("resume").communicate(timeout=60)

    strategy = minsep.BandedToeplitz.optimal(iterations=40, bands=5)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.05, min_sep=8), noise_multiplier=1.0)
    whole = [
        f"{indices.tolist()} {row.tobytes().hex()}\n"
        for indices, row in zip(mechanism.batches(200, seed=1), mechanism.noise((6,), seed=1), strict=True)
    ]
    assert before + after.splitlines(keepends=True) == whole


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
    with pytest.raises(ValueError, match="allow_pickle"):
        minsep.load_state(path)
    np.savez(path, other=np.zeros(1))
    with pytest.raises(ValueError, match="does not hold a state"):
        minsep.load_state(path)
