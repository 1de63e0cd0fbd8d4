"""Several processes under audit, which share batches and noise, and with FSDP2 also the model."""

import os
import pickle
import shutil
import subprocess
import sys
import tempfile
import weakref
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from typing import IO, Any, ClassVar, cast

import torch  # noqa: F401 # whoever lacks it should hear so before the first run

from minsep.auditing.canaries import CanaryRun, is_resumed
from minsep.core import validation as validate

_SECONDS = 600


@dataclass(frozen=True)
class ProcessesLoop:
    """A loop that trains with `minsep.training.torch.PrivateTraining` in several processes on this machine.

    The processes start with the first run and end with the loop. They meet by gloo, on the CPU.

    Args:
        processes: Number of processes.
        sharded: Whether the processes share the model too, by `torch.distributed.fsdp.fully_shard`.
        resume_every: Of so many runs, one on average is interrupted and resumed from its checkpoint, so that some steps
            are repeated. A coin of each run decides. 0 is never.

    Examples:
        >>> ProcessesLoop(sharded=True)
        ProcessesLoop(processes=2, sharded=True, resume_every=4)
    """

    worker: ClassVar[str] = "minsep.auditing.worker"
    """The module that every process runs."""

    processes: int = 2
    sharded: bool = False
    resume_every: int = 4
    _running: list["subprocess.Popen[bytes]"] = field(default_factory=list, init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        validate.integer(processes=self.processes, at_least=1)

    def __call__(self, run: CanaryRun) -> None:
        """Take a run from its first step to its last.

        Args:
            run: The run, which provides the mechanism and the examples, and records what the loop releases.
        """
        if not self._running:
            self._start()
        with tempfile.TemporaryDirectory() as folder:
            resumed = is_resumed(run, self.resume_every)
            job = pickle.dumps((run, self.sharded, str(Path(folder) / "run.checkpoint") if resumed else None))
            try:
                for process in self._running:
                    assert process.stdin is not None
                    process.stdin.write(job)
                    process.stdin.flush()
                for record in self._records():
                    run.add_record(*record)
            except BaseException:
                _stop(self._running)
                raise

    def _start(self) -> None:
        folder = tempfile.mkdtemp()
        paths = os.pathsep.join(path for path in sys.path if path)
        for rank in range(self.processes):
            command = [sys.executable, "-m", self.worker, folder, str(rank), str(self.processes)]
            environment = {**os.environ, "PYTHONPATH": paths}
            self._running.append(
                subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
            )
        weakref.finalize(self, _stop, self._running)
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)

    def _records(self) -> Sequence[Any]:
        """Return what every process has seen. An error of one of them is raised at once: the others may wait for it."""
        records, pending = [], {_output(process).fileno(): process for process in self._running}
        while pending:
            ready = wait(list(pending), timeout=_SECONDS)
            if not ready:
                raise RuntimeError(f"The processes of the audit did not finish a run in {_SECONDS} seconds.")
            for number in ready:
                process = pending.pop(cast(int, number))
                try:
                    record = pickle.load(_output(process))
                except EOFError:
                    raise RuntimeError(f"A process of the audit ended with exit code {process.wait()}.") from None
                if isinstance(record, str):
                    raise RuntimeError(f"A process of the audit failed:\n{record}")
                records.append(record)
        return records


def _output(process: "subprocess.Popen[bytes]") -> IO[bytes]:
    assert process.stdout is not None
    return process.stdout


def _stop(running: list["subprocess.Popen[bytes]"]) -> None:
    """End processes, which wait for a run or for each other."""
    while running:
        process = running.pop()
        process.kill()
        for stream in (process.stdin, process.stdout):
            if stream is not None:
                stream.close()
        process.wait()
