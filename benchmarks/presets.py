"""Plans for runs that were reported: `python -m benchmarks.presets [NAME ...]`, a line of a table for each.

Each preset is planned and certified in a process of its own, which shows its processor time and its peak of memory.
The error and the noise multiplier of DP-SGD, cyclic Poisson and balls-in-bins stand beside it, as the same plan
estimates them. `--estimate` certifies nothing.
"""

import json
import resource
import subprocess
import sys
import time

import minsep
from minsep.planning import PRESETS, Candidate

OTHERS = {"poisson": "DP-SGD", "cyclic-poisson": "cyclic Poisson", "balls-in-bins": "balls-in-bins"}


def main() -> None:
    names = [word for word in sys.argv[1:] if not word.startswith("--")] or list(PRESETS)
    options = [word for word in sys.argv[1:] if word.startswith("--")]
    if "--one" in options:
        print(json.dumps(_measure(names[0], estimate="--estimate" in options)))
        return
    headings = ["preset", "mechanism", "noise", "error", *OTHERS.values(), "certified", "seconds", "CPU", "MiB"]
    print("| " + " | ".join(headings) + " |")
    print("|---|---|" + "---:|" * (len(headings) - 2))
    for name in names:
        command = [sys.executable, "-m", "benchmarks.presets", name, "--one", *options]
        found = subprocess.run(command, capture_output=True, text=True)
        cells = json.loads(found.stdout) if found.returncode == 0 else [found.stderr.strip().splitlines()[-1]]
        print("| " + " | ".join([name, *cells]) + " |", flush=True)


def _measure(name: str, *, estimate: bool) -> list[str]:
    start = time.perf_counter()
    made = minsep.plan(**PRESETS[name].values, estimate=estimate, seed=1)
    seconds = time.perf_counter() - start
    used = resource.getrusage(resource.RUSAGE_SELF)
    others = [_noise_and_error(made.table, scheme) for scheme in OTHERS]
    return [
        made.chosen.name,
        f"{made.mechanism.noise_multiplier:.4g}",
        f"{made.error:.4g}",
        *others,
        "yes" if made.certified else "no",
        f"{seconds:.0f}",
        f"{used.ru_utime + used.ru_stime:.0f}",
        f"{used.ru_maxrss / 1024:.0f}",
    ]


def _noise_and_error(table: tuple[Candidate, ...], scheme: str) -> str:
    """Return the error of the best candidate of a scheme, and its noise multiplier."""
    found = next((one for one in table if one.scheme == scheme and one.error is not None), None)
    return "-" if found is None else f"{found.error:.4g} ({found.noise_multiplier:.4g})"


if __name__ == "__main__":
    main()
