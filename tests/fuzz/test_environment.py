"""Full disks, folders that cannot be written or are gone, moved clocks, forks, two processes: an error, nothing lost.

Tests may run as root, for whom no folder is read-only by its permissions: a folder that is none stands in for it, and
calls of the system that fail.
"""

import datetime
import errno
import os
import resource
import subprocess
import sys
import textwrap
import threading
import time
import warnings
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

import minsep
from minsep.attribution.edges import write_examples
from minsep.cli.output import Files
from minsep.core.files import check_folder, write_whole
from minsep.training import torch as in_torch
from tests.fuzz.test_command_lines import run
from tests.training.adapters import ADAPTERS, TORCH

MECHANISM = minsep.Mechanism(
    minsep.BandedToeplitz.optimal(iterations=12, bands=3), minsep.MinSep(rate=0.1, min_sep=3), noise_multiplier=1.0
)
POISSON = minsep.Mechanism(minsep.BandedToeplitz.identity(iterations=5), minsep.Unamplified(5, 1), 3.0)


def certificate():
    return minsep.certify(POISSON, epsilon=2.0, delta=1e-2)


def state():
    stream = MECHANISM.noise((2000,), seed=1)
    next(stream)
    return stream.state_dict()


WRITERS = {
    "certificate": lambda path: certificate().save(path),
    "state": lambda path: minsep.save_state(path, state()),
    "kept examples, csv": lambda path: write_examples(path.with_suffix(".csv"), np.arange(9000)),
    "kept examples, parquet": lambda path: write_examples(path.with_suffix(".parquet"), np.arange(9000)),
}


def files_of(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.mark.parametrize("name", WRITERS)
def test_a_full_disk_leaves_the_file_as_it_was(tmp_path, name):
    """A limit on the size of files is what a full disk is: some bytes are written, and then no more."""
    WRITERS[name](tmp_path / "file")
    before = files_of(tmp_path)
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (500, limits[1]))
    try:
        with pytest.raises(OSError, match="too large"):
            WRITERS[name](tmp_path / "file")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert files_of(tmp_path) == before


@pytest.mark.parametrize("call", ["open", "fsync", "replace"])
@pytest.mark.parametrize("problem", [errno.ENOSPC, errno.EROFS, errno.EIO])
def test_a_call_of_the_system_that_fails_leaves_the_file_as_it_was(tmp_path, monkeypatch, call, problem):
    path = tmp_path / "file"
    write_whole(path, b"before")

    def fail(*_, **__):
        raise OSError(problem, os.strerror(problem))

    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        with pytest.raises(OSError, match=os.strerror(problem)):
            write_whole(path, b"after")
    assert files_of(tmp_path) == {"file": b"before"}


def test_a_folder_that_vanished_is_named_and_not_what_came_of_it(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()

    def vanish(file):
        for path in folder.iterdir():
            path.unlink()
        folder.rmdir()
        file.write(b"content")

    with pytest.raises(FileNotFoundError):
        write_whole(folder / "file", vanish)
    assert not folder.exists()


def test_the_name_of_a_file_may_be_as_long_as_the_system_allows(tmp_path):
    name = "n" * 255
    write_whole(tmp_path / name, b"content")
    assert files_of(tmp_path) == {name: b"content"}


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "link").symlink_to(tmp_path / "file")
    write_whole(tmp_path / "link", b"content")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "file").read_bytes() == b"content"


def test_devices_and_pipes_are_not_replaced(tmp_path):
    """As root, `-o /dev/null` would make a file of it for all programs."""
    os.mkfifo(tmp_path / "pipe")
    for check in (lambda path: check_folder(output=path), lambda path: write_whole(path, b"content")):
        with pytest.raises(ValueError, match="is a device or a pipe: it must be a file"):
            check(tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo()
    assert list(tmp_path.iterdir()) == [tmp_path / "pipe"]


def test_a_folder_that_cannot_be_written_is_refused_before_the_work(tmp_path, monkeypatch):
    (tmp_path / "file").touch()
    with pytest.raises(ValueError, match="the folder .* does not exist"):
        check_folder(output=tmp_path / "file" / "certificate.json")

    def read_only(*_, **__):
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr("tempfile.TemporaryFile", read_only)
    (check,) = Files(force=False, output=tmp_path / "certificate.json").checks()
    with pytest.raises(ValueError, match="cannot be written to: Read-only file system"):
        check()


CERTIFY = ["certify", "--examples", "50", "--batch-size", "1", "--iterations", "5", "--bands", "1", "--scheme",
           "unamplified", "--noise-multiplier", "3", "--epsilon", "2", "--delta", "1e-2"]  # fmt: skip


def test_a_certificate_that_cannot_be_written_is_printed(tmp_path, monkeypatch):
    folder = tmp_path / "folder"
    folder.mkdir()
    real = minsep.certify

    def slowly(*arguments, **options):
        folder.rmdir()  # while it is under way
        return real(*arguments, **options)

    monkeypatch.setattr(minsep, "certify", slowly)
    code, out, err = run([*CERTIFY, "--output", str(folder / "certificate.json")])
    assert code == 2
    assert "could not be written: No such file or directory" in err
    assert "Traceback" not in err
    assert minsep.verify(minsep.Certificate.from_json(out[out.index("{\n") :])).holds


def test_standard_output_on_a_full_disk_is_an_error():
    with open("/dev/full", "w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "minsep", "strategy", "--iterations", "5", "--bands", "2", "--json"],
            stdout=full, stderr=subprocess.PIPE, text=True, check=False,
        )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr == "Error: [Errno 28] No space left on device\n"


def test_files_that_vanish_in_between_are_named(tmp_path, monkeypatch):
    path = tmp_path / "certificate.json"
    with pytest.raises(ValueError, match="the file cannot be read: No such file"):
        minsep.Mechanism.from_certificate(path)
    edges = tmp_path / "edges.csv"
    edges.write_text("example,user\na,b\n")
    real = np.loadtxt

    def vanishing(*arguments, **options):
        edges.unlink()
        return real(*arguments, **options)

    monkeypatch.setattr(np, "loadtxt", vanishing)
    with pytest.raises(FileNotFoundError, match="edges.csv"):
        minsep.AttributionGraph.from_edges(edges)


def test_a_clock_that_moves_changes_nothing(monkeypatch):
    before = certificate()
    monkeypatch.setattr(time, "time", lambda: -1e9)

    class Moved(datetime.datetime):
        @classmethod
        def now(cls, tz=None):
            return cls(1970, 1, 1, tzinfo=tz)

    monkeypatch.setattr(import_module("minsep.journal.call"), "datetime", Moved)
    after = certificate()
    assert after.date == "1970-01-01"
    assert after.proofs == before.proofs
    assert minsep.verify(minsep.Certificate.from_json(after.to_json())).holds
    assert list(MECHANISM.batches(20, seed=1))[3].tolist() == list(MECHANISM.batches(20, seed=1))[3].tolist()


def in_a_fork(function):
    """Return what a function returns, or the sentence that it raises, in a forked process."""
    reading, writing = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # JAX and newer Pythons advise against forks at all
        warnings.simplefilter("ignore", RuntimeWarning)
        child = os.fork()
    if child == 0:
        try:
            answer = repr(function())
        except BaseException as error:
            answer = f"{type(error).__name__}: {error}"
        os.write(writing, answer.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as file:
        answer = file.read()
    os.waitpid(child, 0)
    return answer


STREAMS = {
    "batches": lambda: MECHANISM.batches(50),
    "noise": lambda: MECHANISM.noise((4,)),
    "noise with a banded inverse": lambda: minsep.Mechanism(
        minsep.BandedInverseToeplitz.square_root(iterations=12, bands=3), minsep.Poisson(rate=0.1), 1.0
    ).noise((4,)),
    "noise with buffers": lambda: minsep.Mechanism(
        minsep.BufferedToeplitz([0.9, 0.4], [0.2, 0.3], iterations=12), minsep.Poisson(rate=0.1), 1.0
    ).noise((4,)),
    "several users": lambda: minsep.Mechanism(
        minsep.BandedToeplitz.optimal(iterations=12, bands=3),
        minsep.MultiAttributionMinSep(
            0.1, 3, graph=minsep.AttributionGraph.from_lists([[0, 1], [1], [2]]), accept_assumption=True
        ),
        1.0,
    ).batches(3),
}


@pytest.mark.parametrize("name", STREAMS)
def test_a_fork_does_not_draw_what_its_parent_draws(name):
    stream = STREAMS[name]()
    for _ in range(4):
        next(stream)
    assert "forked from it: both would draw the same batches and noise" in in_a_fork(lambda: next(stream))
    saved = stream.state_dict()

    def restored():
        stream.load_state_dict(stream.state_dict())
        return next(stream).tolist()

    # Whoever restores it in the child says that the child is to go on; the parent is to save a state, no more.
    assert in_a_fork(restored) == repr(next(stream).tolist())
    assert in_a_fork(lambda: stream.state_dict()["position"]) == "5"
    stream.load_state_dict(saved)
    assert stream.position == 4


@pytest.mark.parametrize("adapter", ADAPTERS, ids=lambda adapter: adapter.name)
def test_a_forked_training_takes_no_step(adapter):
    trainer = adapter.training(*adapter.arguments(2, "sgd"), MECHANISM, num_examples=20, clip_norm=1.0)
    indices = next(trainer.batches())
    inputs = adapter.array(np.ones((indices.size, 2), dtype=np.float32))
    targets = adapter.array(np.ones((indices.size, 1), dtype=np.float32))
    assert "forked from it" in in_a_fork(lambda: trainer.step(inputs, targets))
    trainer.step(inputs, targets)
    assert trainer.steps == 1


def test_device_noise_is_not_drawn_in_a_fork():
    options = {"num_examples": 20, "clip_norm": 1.0, "noise": "device"}
    trainer = in_torch.PrivateTraining(*TORCH.arguments(2, "sgd"), MECHANISM, **options)
    vector = trainer._flat.clone()
    assert "forked from it" in in_a_fork(lambda: trainer._noise.release_next(vector, 1.0))


def test_an_interrupted_stream_is_restored_where_it_was(monkeypatch):
    stream = MECHANISM.batches(50, seed=1)
    next(stream)
    saved = stream.state_dict()

    def interrupt(*_):
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(stream, "_form", interrupt)
        with pytest.raises(KeyboardInterrupt):
            next(stream)
    with pytest.raises(RuntimeError, match="restore it with load_state_dict"):
        next(stream)
    stream.load_state_dict(saved)
    assert next(stream).tolist() == list(MECHANISM.batches(50, seed=1))[1].tolist()


WRITE = textwrap.dedent(
    """
    import sys, minsep
    path, seed = sys.argv[1], int(sys.argv[2])
    strategy = minsep.BandedToeplitz.optimal(iterations=12, bands=3)
    mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=3), noise_multiplier=1.0)
    stream = mechanism.noise((3000,), seed=seed)
    for row in stream:
        for _ in range(5):
            minsep.save_state(path, stream.state_dict())
    """
)


def test_two_processes_that_write_one_file_leave_one_of_theirs(tmp_path):
    path = tmp_path / "state"
    minsep.save_state(path, MECHANISM.noise((3000,), seed=1).state_dict())
    keys = {MECHANISM.noise((3000,), seed=seed).state_dict()["key"] for seed in (1, 2)}
    seen, ended = [], threading.Event()

    def read():
        while not ended.is_set():
            seen.append(minsep.load_state(path)["key"])

    reader = threading.Thread(target=read)
    reader.start()
    writers = [subprocess.Popen([sys.executable, "-c", WRITE, str(path), str(seed)]) for seed in (1, 2)]
    codes = [writer.wait() for writer in writers]
    ended.set()
    reader.join()
    assert codes == [0, 0]
    assert seen
    assert set(seen) <= keys  # whole at every moment
    assert list(Path(tmp_path).iterdir()) == [path]
    resumed = MECHANISM.noise((3000,))
    resumed.load_state_dict(minsep.load_state(path))
    assert resumed.position == MECHANISM.iterations
