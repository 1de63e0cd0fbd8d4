"""The tests that may depend on the processor, under each environment: `python -m tests.processors [NAME...]`."""

import re
import subprocess
import sys
import time
from pathlib import Path

from tests.processors.environments import ENVIRONMENTS, variables

TESTS = Path(__file__).parent.parent
# These look at files, pages and packages, and compute nothing that others do not.
INDEPENDENT = {"api", "docs", "oracles", "packaging", "report", "serve"}


def main() -> None:
    folders = sorted(path for path in TESTS.iterdir() if path.is_dir() and not path.name.startswith("__"))
    chosen = [str(path) for path in folders if path.name not in INDEPENDENT]
    failed = False
    for name in sys.argv[1:] or ENVIRONMENTS:
        command = [sys.executable, "-m", "pytest", "-q", "-n", "2", *chosen, *map(str, TESTS.glob("test_*.py"))]
        began = time.monotonic()
        run = subprocess.run(command, env=variables(name), capture_output=True, text=True, check=False)
        failed = failed or run.returncode != 0
        lines = run.stdout.splitlines()
        print(*(line for line in lines if re.match("FAILED|ERROR", line)), sep="\n", end="")
        print(f"{name}: {lines[-1] if lines else run.stderr} ({time.monotonic() - began:.0f} s)", flush=True)
    sys.exit(failed)


if __name__ == "__main__":
    main()
