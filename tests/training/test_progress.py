"""Progress of a training run: what it says, when, and that it changes nothing."""

import sys

import numpy as np
import pytest

from minsep.training.progress import with_progress

BATCHES = [np.arange(3) + step for step in range(100)]


class Clock:
    """A clock that every step moves on."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def told(capsys, seconds, done=0, take=None):
    clock, taken = Clock(), []
    for indices in with_progress(iter(BATCHES[done:]), done, 100, clock):
        taken.append(indices)
        clock.now += seconds
        if len(taken) == take:
            break
    return taken, capsys.readouterr()


def test_outside_of_a_terminal_a_line_comes_every_ten_seconds(capsys):
    taken, said = told(capsys, 1.0)
    assert all(one is other for one, other in zip(taken, BATCHES, strict=True))
    assert said.out == ""
    lines = said.err.splitlines()
    assert lines[0] == "[10 s] training step 11 of 100, about 2 min left"
    assert lines[1].startswith("[20 s] training step 21 of 100, about 80 s left")
    assert lines[-1] == "trained 100 steps in 100 s"
    assert len(lines) == 10


def test_a_resumed_run_counts_from_where_it_was(capsys):
    _, said = told(capsys, 1.0, done=60)
    assert said.err.splitlines()[0] == "[10 s] training step 71 of 100, about 30 s left"
    assert said.err.splitlines()[-1] == "trained 40 steps in 40 s"


def test_a_terminal_has_one_line_that_is_cleared_in_the_end(capsys, monkeypatch):
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    _, said = told(capsys, 0.5, take=20)
    assert "\r\x1b[Ktraining step 2 of 100" in said.err
    assert said.err.endswith("\r\x1b[K")
    assert "\n" not in said.err


@pytest.mark.parametrize(("seconds", "said"), [([4.0, 1.0], True), ([1.0, 1.0], False)])
def test_threads_that_slow_training_down_are_named_with_the_remedy(seconds, said, monkeypatch):
    torch = pytest.importorskip("torch")
    from minsep.training.torch import threads

    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        monkeypatch.setattr(threads, "_seconds", lambda: seconds[torch.get_num_threads() == 1])
        advice = threads.threads_advice()
        assert torch.get_num_threads() == 2
        assert advice == (
            "On this machine, 2 threads of torch take 4 times as long as one for small products: if steps are slow, "
            "call torch.set_num_threads(1) before training."
            if said
            else ""
        )
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        assert threads.threads_advice() == ""
    finally:
        torch.set_num_threads(before)
