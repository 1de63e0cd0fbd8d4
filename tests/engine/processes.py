"""A cluster of processes on this machine, whose members can be added and killed."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]


class ClusterOfProcesses:
    """A Dask scheduler and workers of one thread, each a process of its own without a nanny."""

    def __init__(self, folder, workers=2, port=0):
        self._folder = Path(folder)
        self._log = open(self._folder / "log", "ab")  # noqa: SIM115
        self.workers = []
        self.start_scheduler(port)
        for _ in range(workers):
            self.add_worker()

    def start_scheduler(self, port=0):
        file = self._folder / "scheduler.json"
        file.unlink(missing_ok=True)
        options = ("--host", "127.0.0.1", "--port", str(port), "--scheduler-file", str(file), "--no-dashboard")
        self.scheduler = self._start("dask_scheduler", *options)
        while not file.exists() or not file.read_text().endswith("}"):
            assert self.scheduler.poll() is None, "the scheduler did not start"
            time.sleep(0.05)
        self.address = json.loads(file.read_text())["address"]

    def add_worker(self, threads=1, **environment):
        options = ("--host", "127.0.0.1", "--no-nanny", "--no-dashboard", "--memory-limit", "0")
        times = ("--nthreads", str(threads), "--death-timeout", "20")
        worker = self._start("dask_worker", self.address, *options, *times, **environment)
        self.workers.append(worker)
        return worker

    def kill_worker(self, worker):
        self.workers.remove(worker)
        _kill(worker)

    def kill_scheduler(self):
        _kill(self.scheduler)

    def close(self):
        for process in (*self.workers, self.scheduler):
            _kill(process)
        self._log.close()

    def _start(self, module, *options, **environment):
        paths = [environment.pop("before", None), str(ROOT), os.environ.get("PYTHONPATH")]
        return subprocess.Popen(
            [sys.executable, "-m", f"distributed.cli.{module}", *options],
            env=os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, paths)), "OMP_NUM_THREADS": "1"} | environment,
            stdout=self._log,
            stderr=self._log,
            cwd=self._folder,
        )


def _kill(process):
    if process.poll() is None:
        process.send_signal(signal.SIGKILL)
    process.wait()
