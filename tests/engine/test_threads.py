import threading

import pytest

from minsep.engine import in_threads


def test_results_are_in_the_order_of_the_tasks_and_cores_share_them(monkeypatch):
    monkeypatch.setattr("minsep.engine.threads.available_cores", lambda: 4)
    meeting = threading.Barrier(4, timeout=30)

    def work(number):
        if number < 4:
            meeting.wait()  # passes only if four threads are at work
        return number**2

    assert in_threads(work, range(100)) == [number**2 for number in range(100)]
    assert in_threads(work, []) == []


@pytest.mark.parametrize("cores", [1, 3])
def test_an_error_in_a_task_is_raised(cores, monkeypatch):
    monkeypatch.setattr("minsep.engine.threads.available_cores", lambda: cores)
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda number: 1 // (number - 7), range(20))
