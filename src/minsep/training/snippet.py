"""The lines that train with a certificate, to copy from the command line or the report."""

import json

from minsep.strategy import Workload

_SCHEDULES = {
    "constant": "",
    "linear-decay": "lambda step: 1 - step / {iterations}",
    "cosine": "lambda step: (1 + math.cos(math.pi * step / {iterations})) / 2",
}


def training_lines(
    num_examples: int,
    iterations: int,
    *,
    certificate: str = "certificate.json",
    workload: Workload | None = None,
    user_bound: int | None = None,
    edges: str = "edges.csv",
) -> str:
    """Return about a dozen lines of Python that train a small model on made-up data, to be replaced by your own.

    Args:
        num_examples: Size of the dataset; with users, after contributions were bounded.
        iterations: Number of steps.
        certificate: The file that holds the certificate.
        workload: Momentum and schedule that were planned for. None is plain SGD.
        user_bound: Most examples of one user, if users are protected.
        edges: The file of examples and their users, if users are protected.

    >>> print(training_lines(500, 20).splitlines()[0])
    import torch
    """
    workload = workload or Workload()
    schedule = _SCHEDULES[workload.schedule].format(iterations=iterations)
    users = user_bound is not None
    options = [
        "num_examples=len(inputs)",
        "clip_norm=1.0",
        *(["graph=bounded.graph"] if users else []),
        *([f"schedule={schedule}"] if schedule else []),
    ]
    momentum = f", momentum={workload.momentum:g}" if workload.momentum else ""
    lines = [
        *(["import math", ""] if "math." in schedule else []),
        "import torch",
        *(["import minsep"] if users else []),
        "from minsep.training.torch import PrivateTraining",
        "",
    ]
    lines += ["torch.set_num_threads(1)  # the fastest for a model this small: remove it for a large one"]
    if users:
        lines += [
            f"graph = minsep.AttributionGraph.from_edges({json.dumps(edges)})",
            f"bounded = minsep.bound_contributions(graph, user_bound={user_bound})",
            "# Your examples number bounded.examples, in this order:",
        ]
    lines += [
        f"inputs, targets = torch.randn({num_examples}, 8), torch.randint(2, ({num_examples},))  # your data",
        "model = torch.nn.Linear(8, 2)  # your model",
        f"optimizer = torch.optim.SGD(model.parameters(), lr=0.1{momentum})",
        "trainer = PrivateTraining.from_certificate(",
        f"    {json.dumps(certificate)}, model, torch.nn.functional.cross_entropy, optimizer,",
        f"    {', '.join(options)},",
        ")",
        "for indices in trainer.batches(progress=True):",
        "    trainer.step(inputs[indices], targets[indices])",
        'torch.save(model.state_dict(), "model.pt")',
    ]
    return "\n".join(lines) + "\n"
