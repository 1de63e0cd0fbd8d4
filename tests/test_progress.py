"""How long is left, from rates measured on the way."""

import re
import time

import pytest

from minsep.cli.progress import Bar
from minsep.core.progress import Pace, Progress, left_in_words


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now


def told(*events):
    """Return what a pace says after events, each with the seconds that have passed since the one before."""
    clock = Clock()
    pace = Pace(clock)
    found = []
    for seconds, event in events:
        clock.now += seconds
        found.append(pace.left(event))
    return found


def wealth(done, detail="remove", **more):
    return Progress("testing", detail, done, 16.0, samples=1000, **more)


def candidate(done, total=10, **more):
    return Progress("estimating", f"candidate {done}", done, total, **more)


def test_a_steady_test_is_extrapolated():
    assert told((0, wealth(0.0)), (4, wealth(4.0)), (4, wealth(8.0))) == [None, 12.0, 8.0]


def test_candidates_have_different_names_and_one_pace():
    assert told((0, candidate(0)), (3, candidate(1)), (3, candidate(2))) == [None, 27.0, 24.0]


@pytest.mark.parametrize(
    "events",
    [
        [(0, wealth(0.0)), (0.5, wealth(8.0))],  # the first second
        [(0, wealth(0.0)), (50, wealth(0.0)), (50, wealth(0.01))],  # nothing grows
        [(0, wealth(6.0)), (5, wealth(2.0))],  # it falls
        [(0, wealth(0.0)), (5, wealth(8.0, detail="add"))],  # another test
        [(0, candidate(0)), (5, candidate(3, total=4))],  # another round
        [(0, Progress("estimating", "noise multiplier 1")), (5, Progress("estimating", "noise multiplier 2"))],
    ],
)
def test_nothing_is_said_where_nothing_is_known(events):
    assert told(*events)[-1] is None


def test_what_was_read_from_a_journal_does_not_count():
    replayed = [(0.1, candidate(done, replayed=True)) for done in range(6)]
    assert told(*replayed, (5, candidate(6)), (5, candidate(7))) == [None] * 6 + [20.0, 15.0]


def test_a_test_that_goes_on_is_extrapolated_from_where_it_was():
    assert told((0, wealth(12.0)), (4, wealth(14.0))) == [None, 4.0]


def test_times_are_no_more_exact_than_they_are_known():
    assert left_in_words(0.2) == "about 1 s left"
    assert left_in_words(42.4) == "about 40 s left"
    assert left_in_words(3 * 3600) == "about 3 h left"


def test_lines_say_what_is_left(monkeypatch, capsys):
    clock = Clock()
    monkeypatch.setattr("minsep.cli.progress._SECONDS_BETWEEN_LINES", 0.01)
    with Bar() as bar:
        bar._pace = Pace(clock)
        bar.tell(wealth(0.0))
        clock.now += 10
        bar.tell(wealth(4.0))
        said = ""
        while "s left" not in said:
            time.sleep(0.01)
            said += capsys.readouterr().err
    # On a busy machine the first line may be a while in coming.
    assert re.search("testing remove: 1,000 samples, about [123]?[0-9] s left", said)
