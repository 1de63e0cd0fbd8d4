"""A real cluster of processes: workers that are killed and added, a lost scheduler, other versions."""

import os
import random
import re
import sys
import threading
import time
from functools import partial

import numpy as np
import pytest
import typer.testing

import minsep
from minsep.accounting.certification import draws
from minsep.accounting.importance.tilted import TiltedLaw
from minsep.accounting.schemes import pair_of
from minsep.cli.app import app
from minsep.core.install import install_command
from minsep.engine import Compute, cluster
from minsep.randomness import Key
from tests.engine import work

pytest.importorskip("distributed")
from tests.engine.processes import ClusterOfProcesses

# Dask's own clean-up warns of sockets of processes that were killed.
pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def processes(tmp_path_factory):
    started = ClusterOfProcesses(tmp_path_factory.mktemp("cluster"), workers=2)
    yield started
    cluster._forget(started.address)
    started.close()


def mechanism(noise_multiplier=1.8):
    strategy = minsep.BandedToeplitz.optimal(iterations=2000, bands=16)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=512 / 60_000, min_sep=16), noise_multiplier)


def small():
    strategy = minsep.BandedToeplitz.optimal(iterations=200, bands=4)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=4), 1.1)


def test_results_are_those_of_one_process(processes):
    compute, one = Compute(cluster=processes.address), Compute(workers=1)
    estimate = partial(minsep.estimate_delta, mechanism(), 4.0, samples=3000, seed=2)
    assert estimate(compute=compute) == estimate(compute=one)
    expected = minsep.certify(small(), 2.0, 1e-3, seed=3, compute=one)
    assert expected.samples > 0
    assert minsep.certify(small(), 2.0, 1e-3, seed=3, compute=compute) == expected


def test_an_executor_of_dask_is_used_as_its_cluster(processes):
    from distributed import Client

    with Client(processes.address, set_as_default=False) as client, client.get_executor() as executor:
        assert len(set(Compute(executor=executor).run(partial(work.process, 0.005), 60))) >= 2


def test_the_options_of_an_executor_of_dask_are_kept(processes):
    from distributed import Client

    with Client(processes.address, set_as_default=False) as client:
        client.wait_for_workers(2)
        chosen = sorted(client.nthreads())[0]
        with client.get_executor(workers=[chosen], retries=1) as executor:
            used = set(Compute(executor=executor).run(partial(work.process, 0.005), 60))
            assert used == {client.run(os.getpid)[chosen]}
            assert cluster.ClusterPool(client, cluster.options_of(executor)).cores() == 1
        assert cluster.ClusterPool(client).cores() >= 2


def test_a_process_connects_once(processes):
    compute = Compute(cluster=processes.address)
    assert list(compute.run(work.square, 5)) == [0, 1, 4, 9, 16]
    client = cluster.connected(processes.address)
    assert list(Compute(cluster=processes.address).run(work.square, 5, 3)) == [9, 16]
    assert cluster.connected(processes.address) is client


def test_tables_are_made_once_a_worker(processes):
    law = TiltedLaw(pair_of(mechanism(), np.float64), "remove", 3, 1.0)
    draw = partial(draws._chunk, law, 4.0, Key.from_seed(0), 10**9)
    found = list(Compute(cluster=processes.address).run(partial(work.tables_made, draw), 40))
    made = dict(sorted(found))
    assert len(found) == 40
    assert len(made) == 2, "both workers took part"
    assert set(made.values()) == {1}


def test_a_test_that_ends_early_leaves_nothing_behind(processes):
    compute = Compute(cluster=processes.address)
    running = compute.run(partial(work.nap, 0.001), 10**9)
    assert [next(running) for _ in range(300)] == list(range(300))
    running.close()
    client = cluster.connected(processes.address)
    while any(client.processing().values()):
        time.sleep(0.05)


@pytest.mark.slow
def test_work_follows_a_cluster_that_grows_and_shrinks(processes):
    compute = Compute(cluster=processes.address)
    seen = []
    added = None
    for found in compute.run(partial(work.process, 0.01), 2500):
        seen.append(found)
        if len(seen) == 100:
            added = processes.add_worker()
        if added is not None and found == added.pid:
            break
    assert added is not None
    assert added.pid in seen
    processes.kill_worker(added)
    assert list(compute.run(partial(work.nap, 0.002), 300)) == list(range(300))


def survives(processes, times, samples):
    """Draw while workers are killed and replaced, each time after a random number of chunks."""
    law = TiltedLaw(pair_of(mechanism(), np.float64), "remove", 2, 1.0)
    draw = partial(draws.draw_values, law, 4.0, 7, samples)
    expected = list(draw(Compute()))
    chance = random.Random(0)
    moments = set(chance.sample(range(len(expected) - 1), times))
    for place, values in enumerate(draw(Compute(cluster=processes.address))):
        np.testing.assert_array_equal(values, expected[place])
        if place in moments:
            moments.remove(place)
            processes.kill_worker(chance.choice(processes.workers))
            processes.add_worker()
    assert place == len(expected) - 1
    assert not moments


def test_workers_are_killed_in_the_middle(processes):
    survives(processes, times=3, samples=20_000)


@pytest.mark.slow
def test_twenty_workers_are_killed_in_the_middle(tmp_path):
    processes = ClusterOfProcesses(tmp_path, workers=3)
    try:
        survives(processes, times=20, samples=100_000)
    finally:
        cluster._forget(processes.address)
        processes.close()


def other_version(folder, version):
    """Return a folder that makes Python find another version of minsep, if it looks there first."""
    information = folder / f"minsep-{version}.dist-info"
    information.mkdir(parents=True)
    (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: minsep\nVersion: {version}\n")
    return str(folder)


def test_a_worker_of_another_version_is_refused(processes, tmp_path):
    """Also if it joins in the middle."""
    compute = Compute(cluster=processes.address)
    running = compute.run(partial(work.nap, 0.01), 10**6)
    assert next(running) == 0
    other = processes.add_worker(before=other_version(tmp_path / "other", "9.9.9"))
    ours = minsep.__version__
    try:
        with pytest.raises(ValueError, match=rf"^A worker has minsep 9\.9\.9, but this process has minsep {ours}: "):
            list(running)
    finally:
        processes.kill_worker(other)


def test_a_task_that_kills_every_worker_is_given_up(processes, monkeypatch):
    monkeypatch.setattr(cluster, "_MOST_REPEATS", 0)
    more = threading.Event()

    def replace():
        while not more.is_set():
            for dead in [worker for worker in processes.workers if worker.poll() is not None]:
                processes.kill_worker(dead)
                processes.add_worker()
            time.sleep(0.1)

    thread = threading.Thread(target=replace)
    thread.start()
    try:
        with pytest.raises(ChildProcessError, match="died again and again on one task: give each more memory"):
            list(Compute(cluster=processes.address).run(work.die, 1))
    finally:
        more.set()
        thread.join()


def run(*arguments):
    return typer.testing.CliRunner().invoke(app, list(arguments))


def test_the_command_line_certifies_on_a_cluster(processes, tmp_path):
    setting = "--examples 1000 --batch-size 20 --iterations 200 --bands 4 --noise-multiplier 1.1 --epsilon 2"
    files = tmp_path / "cluster.json", tmp_path / "here.json"
    for file, where in zip(files, (["--cluster", processes.address], ["--workers", "1"]), strict=True):
        result = run("certify", *setting.split(), "--delta", "1e-3", "--seed", "1", "--output", str(file), *where)
        assert result.exit_code == 0, result.output
    found, expected = map(minsep.Certificate.load, files)
    assert found.proofs == expected.proofs
    assert found.samples > 0
    verified = run("verify", str(files[0]), "--cluster", processes.address)
    assert verified.exit_code == 0, verified.output


@pytest.mark.parametrize("command", ["plan", "calibrate", "certify", "verify", "delta", "epsilon", "compare"])
def test_every_command_that_draws_takes_a_cluster(command):
    assert "--cluster" in run(command, "--help").output


def test_the_command_line_refuses_what_is_no_cluster():
    setting = "--examples 1000 --batch-size 20 --iterations 200 --bands 4 --noise-multiplier 1.1 --epsilon 2"
    result = run("delta", *setting.split(), "--cluster", "localhost", "--seed", "-1")
    assert "cluster is 'localhost', but it must be the address of a scheduler" in str(result.exception)
    assert "seed is -1" in str(result.exception)
    both = run("delta", *setting.split(), "--cluster", "tcp://127.0.0.1:9", "--workers", "2")
    assert "workers is 2, but cluster is 'tcp://127.0.0.1:9' and has its own workers: omit one." in str(both.exception)


def test_a_lost_scheduler_is_said_with_how_to_go_on(tmp_path):
    processes = ClusterOfProcesses(tmp_path, workers=1)
    compute = Compute(cluster=processes.address)
    try:
        running = compute.run(partial(work.nap, 0.01), 10**6)
        assert next(running) == 0
        processes.kill_scheduler()
        with pytest.raises(ConnectionError, match="is lost: .*the same journal goes on where it was"):
            list(running)
        # The same address works again when there is a scheduler again.
        processes.start_scheduler(port=processes.address.rpartition(":")[2])
        processes.add_worker()
        assert list(compute.run(work.square, 4)) == [0, 1, 4, 9]
    finally:
        cluster._forget(processes.address)
        processes.close()


def test_an_address_where_nobody_listens(monkeypatch):
    monkeypatch.setattr(cluster, "_CONNECT_SECONDS", 0.5)
    refusal = r"^cluster is 'tcp://127.0.0.1:9', but no scheduler answered .*dask scheduler"
    with pytest.raises(ConnectionError, match=refusal):
        list(Compute(cluster="tcp://127.0.0.1:9").run(work.square, 4))


def test_a_cluster_without_workers_is_said(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster, "_ALONE_SECONDS", 0.5)
    processes = ClusterOfProcesses(tmp_path, workers=0)
    try:
        threading.Timer(3.0, processes.add_worker).start()
        with pytest.warns(UserWarning, match="has no workers: start some, as in `dask worker tcp://"):
            assert list(Compute(cluster=processes.address).run(work.square, 4)) == [0, 1, 4, 9]
    finally:
        cluster._forget(processes.address)
        processes.close()


def test_the_extra_is_named_where_it_is_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "distributed", None)
    with pytest.raises(ImportError, match=re.escape(f"cluster needs Dask's distributed: {install_command('cluster')}")):
        list(Compute(cluster="tcp://127.0.0.1:9").run(work.square, 4))
