"""Which rooms of the house some walks visit: `python docs/tools/walks.py` prints the table of docs/architecture.md.

A room is a folder of the package, and a visit is a call of a function that is defined there. Compiled functions and
what is only imported do not count.
"""

import sys
import threading
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import minsep
from minsep.training.torch import PrivateTraining

ROOT = Path(minsep.__file__).parent
NUMBERS = {"num_examples": 2000, "batch_size": 100, "iterations": 100, "epsilon": 2.0, "delta": 1e-3}
SEEDED: dict[str, Any] = {"seed": 0, "compute": minsep.Compute(workers=1)}


def files_visited(walk: Callable[[], object]) -> list[Path]:
    """Return the files of the functions that a walk calls, in the order of the first calls."""
    visited: dict[str, None] = {}

    def visit(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            visited.setdefault(frame.f_code.co_filename)

    threading.setprofile(visit)
    sys.setprofile(visit)
    try:
        walk()
    finally:
        sys.setprofile(None)
        threading.setprofile(None)  # type: ignore[arg-type]
    return [Path(name).relative_to(ROOT) for name in visited if Path(name).is_relative_to(ROOT)]


def walks() -> dict[str, Callable[[], object]]:
    """Return the walks by name: each ends where it began, and needs nothing but what is made here."""
    certificate = minsep.plan(**NUMBERS, max_bands=4, **SEEDED).certificate
    mechanism = minsep.Mechanism.from_certificate(certificate, verify=False)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = torch.nn.functional.mse_loss
    trainer = PrivateTraining(model, loss, optimizer, mechanism, num_examples=2000, clip_norm=1.0)
    inputs, targets = torch.randn(2000, 3), torch.randn(2000, 1)
    batches = iter(trainer.batches())

    def step() -> None:
        indices = next(batches)
        trainer.step(inputs[indices], targets[indices])

    step()
    return {
        "a plan": lambda: minsep.plan(**NUMBERS, max_bands=4, **SEEDED),
        "a verification": lambda: minsep.verify(certificate),
        "a step": step,
        "an estimate": lambda: minsep.estimate_delta(mechanism, 2.0, samples=4000, **SEEDED),
        "an audit": lambda: minsep.audit(certificate, runs=2, verify=False, seed=0),
    }


def main() -> None:
    """Print the number of files and of rooms of each walk, and the rooms in the order of the first visits."""
    for name, walk in walks().items():
        files = files_visited(walk)
        rooms = dict.fromkeys(str(path.parent) for path in files)
        print(f"{name}: {len(files)} files in {len(rooms)} rooms: {', '.join(rooms)}")


if __name__ == "__main__":
    main()
