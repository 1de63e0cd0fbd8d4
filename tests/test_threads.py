"""Threads that share a stream take turns: what it hands out is handed out once, and nothing is lost."""

import contextlib
import threading
import time

import numpy as np
import pytest

import minsep
from minsep.attribution import AttributionGraph
from minsep.core import state
from minsep.noise.grid import Grid

THREADS = 4
STRATEGY = minsep.BandedToeplitz.optimal(iterations=40, bands=4)
MECHANISM = minsep.Mechanism(STRATEGY, minsep.MinSep(rate=0.05, min_sep=4), 1.0, minsep.Truncation(8))
GRAPH = AttributionGraph.from_lists([[k // 2] for k in range(200)])
OF_USERS = minsep.Mechanism(STRATEGY, minsep.UserMinSep(rate=0.05, min_sep=4, user_bound=2, graph=GRAPH), 1.0)


def in_threads(work):
    """Run a function in several threads at once; return what they returned, and raise what one of them raised."""
    results, errors = [], []
    together = threading.Barrier(THREADS)

    def run():
        together.wait()
        try:
            results.append(work())
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    if errors:
        raise errors[0]
    return results


def slowly(function):
    """Return a function that lets other threads go first, before it begins and when it has ended."""

    def slow(*arguments):
        time.sleep(1e-4)
        result = function(*arguments)
        time.sleep(1e-4)
        return result

    return slow


def noise():
    stream = MECHANISM.noise(5, seed=1)
    stream._window.make = slowly(stream._window.make)
    return stream


def batches(mechanism=MECHANISM):
    stream = mechanism.batches(200, seed=1)
    stream._form = slowly(stream._form)
    return stream


@pytest.mark.parametrize("make", [noise, batches, lambda: batches(OF_USERS)], ids=["noise", "batches", "users"])
def test_what_a_stream_yields_is_handed_out_once(make):
    shared = make()
    found = in_threads(lambda: list(shared))
    handed_out = [one for own in found for one in own]
    assert shared.position == len(handed_out) == STRATEGY.iterations
    assert sorted(one.tolist() for one in handed_out) == sorted(one.tolist() for one in make())
    assert in_threads(lambda: list(shared)) == [[]] * THREADS


def test_rows_that_are_released_by_several_threads_are_those_of_one():
    shared, alone = noise(), noise()
    found = []

    def work():
        for _ in range(STRATEGY.iterations // THREADS):
            sums = np.zeros(5)
            shared.release_next(sums, clip_norm=1.0)
            found.append(sums)

    in_threads(work)
    expected = [minsep.release(np.zeros(5), row, clip_norm=1.0) for row in alone]
    assert sorted(map(tuple, found)) == sorted(map(tuple, expected))
    with pytest.raises(ValueError, match="All 40 rows of the noise have already been drawn"):
        shared.release_next(np.zeros(5), clip_norm=1.0)


def test_a_row_is_released_by_one_thread_only(monkeypatch):
    monkeypatch.setattr(Grid, "unit", slowly(Grid.unit))
    for row in MECHANISM.noise(5):
        released = []

        def work(row=row, released=released):
            with contextlib.suppress(ValueError):
                released.append(minsep.release(np.zeros(5), row, clip_norm=1.0))

        in_threads(work)
        assert len(released) == 1


@pytest.mark.parametrize("make", [noise, batches], ids=["noise", "batches"])
def test_a_state_that_is_saved_while_others_draw_is_one_of_the_stream(make):
    shared, states, done = make(), [], threading.Event()

    def save():
        while not done.is_set():
            states.append(shared.state_dict())

    saving = threading.Thread(target=save)
    saving.start()
    whole = [one.tolist() for one in shared]
    done.set()
    saving.join()
    assert len(states) > 1
    for saved in states[:: len(states) // 20 + 1]:
        resumed = make()
        resumed.load_state_dict(saved)
        assert [one.tolist() for one in resumed] == whole[saved["position"] :]


@pytest.mark.parametrize("make", [noise, batches], ids=["noise", "batches"])
def test_a_stream_is_not_used_before_its_state_is_whole(make, monkeypatch):
    shared = make()
    first = [next(shared).tolist() for _ in range(3)]
    saved = make().state_dict()
    name = "_start" if make is noise else "_begin"
    monkeypatch.setattr(shared, name, lambda *_: (_ for _ in ()).throw(MemoryError))
    with pytest.raises(MemoryError):
        shared.load_state_dict(saved | {"key": "00" * 32})
    with pytest.raises(RuntimeError, match="interrupted in the middle of a step"):
        next(shared)
    monkeypatch.undo()
    shared.load_state_dict(saved)
    assert [next(shared).tolist() for _ in range(3)] == first


def test_a_lock_that_another_thread_held_does_not_stop_a_forked_process(monkeypatch):
    stream = MECHANISM.batches(200, seed=1)
    saved = stream.state_dict()
    held, enough = threading.Event(), threading.Event()

    def hold():
        with stream._guard.turn:
            held.set()
            enough.wait(10)

    holding = threading.Thread(target=hold)
    holding.start()
    assert held.wait(10)
    monkeypatch.setattr(state.os, "getpid", lambda: 10**9)
    with pytest.raises(RuntimeError, match="forked from it"):
        next(stream)
    stream.load_state_dict(saved)
    assert next(stream).tolist() == next(MECHANISM.batches(200, seed=1)).tolist()
    enough.set()
    holding.join()
