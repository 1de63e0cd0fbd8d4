"""One of the processes of a `ProcessesLoop`: `python -m minsep.auditing.worker FOLDER RANK PROCESSES`.

It reads runs from its standard input and writes what it has seen of each to its standard output, pickled: both ends are
of one audit.
"""

import os
import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import torch
from torch import distributed, nn

from minsep.auditing.canaries import CanaryRun
from minsep.auditing.torch import Layers, arguments_of, train
from minsep.training.torch import PrivateTraining


def serve(folder: str, rank: int, processes: int) -> None:
    """Train on runs until the input ends.

    Args:
        folder: Where the processes meet.
        rank: The number of this process.
        processes: Number of processes.
    """
    torch.set_num_threads(1)
    replies = os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # whatever is printed must not get between replies
    meeting = (Path(folder) / "meeting").as_uri()
    distributed.init_process_group("gloo", init_method=meeting, rank=rank, world_size=processes)
    while True:
        try:
            run, sharded, checkpoint = pickle.load(sys.stdin.buffer)
        except EOFError:
            os._exit(0)  # at an ordinary exit, threads of gloo that are still running may abort the process
        reply: Any
        try:
            _train(run, sharded, checkpoint)
            reply = run.record
        except Exception:
            reply = traceback.format_exc()
        pickle.dump(reply, replies)
        replies.flush()


def _train(run: CanaryRun, sharded: bool, checkpoint: str | None) -> None:
    n = run.mechanism.iterations
    options: dict[str, Any] = {"num_examples": run.num_examples, "clip_norm": run.clip_norm}
    if not sharded:
        options["micro_batch"] = 64
    trainer = PrivateTraining(*arguments_of(run, _model(run, sharded)), seed=run.seed, **options)
    if checkpoint is not None:
        train(run, trainer, n // 3)
        trainer.save(checkpoint)
        train(run, trainer, 2 * n // 3)
        trainer = PrivateTraining.resume(checkpoint, *arguments_of(run, _model(run, sharded)), **options)
    train(run, trainer, n)


def _model(run: CanaryRun, sharded: bool) -> nn.Module:
    model = Layers(run.dimension)
    if sharded:
        from torch.distributed.fsdp import fully_shard

        for layer in model.layers:
            fully_shard(layer)
        fully_shard(model)
    return model


if __name__ == "__main__":
    serve(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
