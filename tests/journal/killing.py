"""Kills calibrations at random moments and lets them go on, in processes of their own: run by test_killing.

Each is forked from this process, which has compiled everything and calibrated once without an interruption.
"""

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

import minsep
from minsep.journal import compute as journal_compute


def calibrate(journal: Path, workers: int) -> str:
    strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=2)
    scheme, compute = minsep.MinSep(rate=0.1, min_sep=4), minsep.Compute(workers=workers)
    found = minsep.calibrate(strategy, scheme, epsilon=2.0, delta=1e-2, journal=journal, compute=compute)
    return json.dumps([found.certificate.to_json(), repr(found.rungs)])


def lines_of(journal: Path) -> int:
    return journal.read_bytes().count(b"\n")


def kill(child: int, journal: Path, lines: int, delay: float) -> bool:
    """Kill a process a moment after its journal has so many lines; return whether it was still running."""
    while lines_of(journal) < lines:
        if os.waitpid(child, os.WNOHANG) != (0, 0):
            return False
        time.sleep(0.001)
    time.sleep(delay)
    os.kill(child, signal.SIGKILL)
    return os.WIFSIGNALED(os.waitpid(child, 0)[1])


def killed_at_times(folder: Path, outcomes: int, kills: int, seed: int) -> dict[str, object]:
    """Return the outcome without a kill, those of calibrations that were killed some times each, and when."""
    moments = random.Random(seed)
    whole = folder / "whole.journal"
    expected = calibrate(whole, 1)
    found, lines_at_kills = [], []
    for number in range(outcomes):
        journal, outcome = folder / f"{number}.journal", folder / f"{number}.json"
        # The seed and the date are those of the whole one: only its first line is kept.
        journal.write_bytes(whole.read_bytes().splitlines(keepends=True)[0])
        targets = sorted(moments.randint(1, lines_of(whole) - 1) for _ in range(kills))
        while not outcome.exists():
            workers = moments.choice([1, 2])
            child = os.fork()
            if child == 0:
                text = calibrate(journal, workers)
                part = outcome.with_suffix(".part")
                part.write_text(text)
                part.rename(outcome)
                os._exit(0)
            if targets:
                if kill(child, journal, targets.pop(0), moments.uniform(0.0, 0.02)):
                    lines_at_kills.append(lines_of(journal))
            else:
                os.waitpid(child, 0)
        found.append(outcome.read_text())
    return {"expected": expected, "found": found, "lines_at_kills": lines_at_kills}


if __name__ == "__main__":
    # A state for every chunk, so that the file of an interrupted calibration must be that of a whole one. Not at
    # import: doctests load this module into the process of other tests.
    journal_compute._SECONDS = journal_compute._SHARE = 0.0
    folder, *numbers = sys.argv[1:]
    print(json.dumps(killed_at_times(Path(folder), *map(int, numbers))))
