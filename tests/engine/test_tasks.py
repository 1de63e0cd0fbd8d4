"""Chunks in tasks, on workers of any kind."""

import os
import pickle
import random
import threading
import time
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from functools import partial
from multiprocessing import get_context

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import minsep
from minsep.accounting.certification import draws
from minsep.accounting.importance.tilted import TiltedLaw
from minsep.accounting.schemes import pair_of
from minsep.engine import Compute, cluster, parcels, run_chunks
from minsep.engine.grouping import Grouping
from minsep.engine.parcels import Done, Missing, OtherVersions, Parcel, run_task, unpacked, versions_here
from minsep.engine.tasks import Pool, run_tasks
from minsep.randomness import Key
from tests.engine import work


def mechanism():
    strategy = minsep.BandedToeplitz.optimal(iterations=200, bands=4)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=4), 1.0)


def tilted():
    return TiltedLaw(pair_of(mechanism(), np.float64), "remove", 2, 1.0)


class Erratic(Pool):
    """Workers that come, go, fail, and finish in any order; time is a number of calls."""

    def __init__(self, seed, failures=0):
        self.random = random.Random(seed)
        self.pending, self.cores_now, self.failures = [], 1, failures

    def cores(self):
        self.cores_now = self.random.choice([1, 1, 2, 3, 7])
        self._finish_some()
        return self.cores_now

    def submit(self, function, *arguments):
        future = Future()
        self.pending.append((future, function, arguments))
        return future

    def _finish_some(self):
        self.random.shuffle(self.pending)
        for _ in range(self.random.randint(1, max(len(self.pending), 1))):
            if not self.pending:
                return
            future, function, arguments = self.pending.pop()
            if not future.set_running_or_notify_cancel():
                continue
            if self.failures and self.random.random() < 0.3:
                self.failures -= 1
                future.set_exception(ChildProcessError("killed"))
            else:
                future.set_result(function(*arguments))

    def repeat_or_raise(self, error, times):
        assert isinstance(error, ChildProcessError)


@given(seed=st.integers(0, 10**6), start=st.integers(0, 5), count=st.integers(0, 60), failures=st.integers(0, 8))
@settings(max_examples=60, deadline=None)
def test_results_come_in_order_whatever_the_workers_do(seed, start, count, failures):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("minsep.engine.tasks._LOOK_SECONDS", 0.0)
        found = list(run_tasks(work.square, start, count, Erratic(seed, failures)))
    assert found == [chunk**2 for chunk in range(start, count)]


@given(
    cores=st.lists(st.sampled_from([1, 2, 3, 10, 100, 300]), min_size=1, max_size=30),
    seconds=st.floats(1e-5, 10.0),
    count=st.integers(1, 10**7),
)
@settings(max_examples=200, deadline=None)
def test_what_a_test_that_ends_early_wastes_is_bounded(cores, seconds, count):
    """At any moment, what is under way is at most half of what was collected, and four chunks a core."""
    grouping, under_way, first = Grouping(), [], 0
    for now in cores:
        total = sum(under_way)
        while first < count and len(under_way) < grouping.tasks(now):
            chunks = grouping.chunks(now, total, count - first)
            assert 1 <= chunks <= count - first
            under_way.append(chunks)
            first, total = first + chunks, total + chunks
        # Those that were sent when there were more cores are still under way.
        assert sum(under_way) <= grouping.collected / 2 + 4 * max(cores)
        done, under_way = under_way[: len(under_way) // 2 + 1], under_way[len(under_way) // 2 + 1 :]
        for chunks in done:
            grouping.collect(chunks, chunks * seconds)


def test_tasks_become_long_enough_and_end_together():
    grouping = Grouping()
    for _ in range(2000):
        grouping.collect(1, 0.01)
    assert grouping.chunks(cores=2, under_way=0, left=10**6) == 20  # 0.2 seconds
    grouping.collected = 10**8
    assert grouping.chunks(cores=1000, under_way=0, left=10**9) == 500  # 5 seconds: 200 tasks a second
    assert grouping.chunks(cores=1000, under_way=0, left=10_000) == 5
    assert grouping.chunks(cores=1000, under_way=0, left=10) == 1


def test_a_parcel_leaves_tables_out():
    law = tilted()
    light = len(Parcel.of(partial(draws._chunk, law, 1.0)).content)
    law.law.log_constant  # noqa: B018 - makes tables
    law.draw_values(Key.from_seed(0), 0, 1.0)
    assert len(pickle.dumps(law)) > 20_000
    assert len(Parcel.of(partial(draws._chunk, law, 1.0)).content) == light < 2_000
    again = pickle.loads(Parcel.of(law).content)
    assert again == law
    np.testing.assert_array_equal(
        again.draw_values(Key.from_seed(0), 3, 1.0), law.draw_values(Key.from_seed(0), 3, 1.0)
    )


def test_a_process_unpacks_a_parcel_once_and_says_if_it_has_none():
    parcel = Parcel.of(partial(work.nap, 0.0))
    here = versions_here()
    parcels._kept.clear()
    assert run_task(here, parcel.digest, None, 0, 2) == Missing()
    answer = run_task(here, parcel.digest, parcel.content, 0, 2)
    assert isinstance(answer, Done)
    assert unpacked(answer.results) == [0, 1]
    first = parcels._kept[parcel.digest]
    assert isinstance(run_task(here, parcel.digest, None, 0, 2), Done)
    run_task(here, parcel.digest, parcel.content, 0, 2)
    assert parcels._kept[parcel.digest] is first
    for more in range(10):
        other = Parcel.of(partial(work.nap, 0.001 * more))
        run_task(here, other.digest, other.content, 0, 1)
    assert run_task(here, parcel.digest, None, 0, 2) == Missing()
    assert run_task(here | {"numpy": "1.0"}, parcel.digest, parcel.content, 0, 2) == OtherVersions(here)


def test_large_work_is_sent_to_each_process_and_not_with_each_task(monkeypatch):
    sent = []

    class Counting(Executor):
        _max_workers = 2

        def submit(self, function, versions, digest, content, first, last):
            sent.append(content is not None)
            if len(sent) == 9:
                parcels._kept.clear()  # as in a new process
            future = Future()
            future.set_result(function(versions, digest, content, first, last))
            return future

    monkeypatch.setattr(parcels, "_MOST_BYTES_IN_A_TASK", 10)
    parcels._kept.clear()
    assert list(Compute(executor=Counting()).run(partial(work.nap, 0.0), 40)) == list(range(40))
    assert sum(sent) == 3
    assert len(sent) == 41


def certificate(compute):
    return minsep.certify(mechanism(), 2.0, 1e-4, seed=3, compute=compute)


ENGINES = ("threads", "process pool", "loky", "executorlib")


def engine(name):
    match name:
        case "threads":
            return ThreadPoolExecutor(2)
        case "process pool":
            return ProcessPoolExecutor(2, get_context("spawn"))
        case "loky":
            return pytest.importorskip("loky").ProcessPoolExecutor(2)
        case _:
            return pytest.importorskip("executorlib").SingleNodeExecutor(
                max_workers=2, block_allocation=True, disable_dependencies=True
            )


@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name == "executorlib" else []) for name in ENGINES]
)
def test_any_executor_gives_the_same_certificate(name):
    expected = certificate(Compute(workers=1))
    assert expected.samples > 20_000
    with engine(name) as executor:
        assert certificate(Compute(executor=executor)) == expected


@pytest.mark.parametrize("module", [parcels, cluster], ids=["parcels", "cluster"])
def test_a_forked_process_has_locks_of_its_own(module):
    with module._lock:
        child = os.fork()
        if child == 0:
            os._exit(0 if module._lock.acquire(blocking=False) else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_chunks_begin_where_they_should():
    for options in ({"workers": 1}, {"workers": 3}):
        assert list(run_chunks(lambda chunk: chunk, 7, start=4, **options)) == [4, 5, 6]
    assert list(Compute(workers=2).run(work.square, 3, 3)) == []


def test_an_executor_that_does_not_say_its_size_is_as_large_as_the_caller_says():
    most, running, lock = 0, 0, threading.Lock()

    class Silent(Executor):
        def submit(self, function, *arguments):
            nonlocal most, running
            future = Future()

            def later():
                nonlocal running
                time.sleep(0.01)
                result = function(*arguments)
                with lock:
                    running -= 1
                future.set_result(result)

            with lock:
                running += 1
                most = max(most, running)
            threading.Thread(target=later).start()
            return future

    assert list(Compute(executor=Silent(), workers=5).run(work.square, 60)) == [chunk**2 for chunk in range(60)]
    assert 5 <= most <= 20


@pytest.mark.parametrize("cluster", ["localhost", "127.0.0.1:8786", "http://127.0.0.1:8786", "tcp://host", 8786, ""])
def test_only_the_address_of_a_scheduler_is_a_cluster(cluster):
    with pytest.raises(ValueError, match=r"^cluster is .* such as 'tcp://127.0.0.1:8786'\.$"):
        Compute(cluster=cluster)


def test_a_cluster_has_its_own_workers():
    with pytest.raises(ValueError, match="workers is 3, but cluster is 'tcp://h:1' and has its own workers: omit one"):
        Compute(workers=3, cluster="tcp://h:1")
    with ThreadPoolExecutor(1) as executor, pytest.raises(ValueError, match="executor is .*: omit one"):
        Compute(executor=executor, cluster="tcp://h:1")
