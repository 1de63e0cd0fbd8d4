"""A plan written down, to be made again: as a command, and as lines of Python."""

import shlex
from dataclasses import fields
from typing import Any

from minsep.planning import Request
from minsep.planning.request import WORKLOAD
from minsep.serve.inputs import FIELDS, as_typed, texts_of
from minsep.strategy import Workload


def command_of(request: Request, seed: int | None = None) -> str:
    """Return the command that repeats a plan.

    >>> command_of(Request(1000, 50, 100, 4.0, 1e-5, schemes=["poisson"]), seed=7)
    'minsep plan --examples 1000 --batch-size 50 --iterations 100 --epsilon 4 --delta 1e-5 --scheme poisson \
--seed 7 --output certificate.json --report report.html'
    """
    words = ["minsep", "plan"]
    for name, text in texts_of(request).items():
        field, question = FIELDS[name]
        flag = question.flags[0] if question.flags else "--" + name.replace("_", "-")
        given = request.values[field] if question.several else [text]
        words += [word for one in given for word in (flag, one)]
    if seed is not None:
        words += ["--seed", str(seed)]
    return shlex.join([*words, "--output", "certificate.json", "--report", "report.html"])


def python_of(request: Request, seed: int | None = None) -> str:
    """Return the lines of Python that repeat a plan.

    >>> print(python_of(Request(1000, 50, 100, 4.0, 1e-5, workload=Workload(0.9)), seed=7), end="")
    import minsep
    <BLANKLINE>
    plan = minsep.plan(
        num_examples=1000,
        batch_size=50,
        iterations=100,
        epsilon=4,
        delta=1e-5,
        workload=minsep.Workload(momentum=0.9),
        seed=7,
    )
    print(plan.statement)
    plan.certificate.save("certificate.json")
    """
    changed = [FIELDS[name][0] for name in texts_of(request)]
    arguments = {field: _python(request.values[field]) for field in changed if field not in WORKLOAD}
    workload = [
        f"{one.name}={_python(getattr(request.workload, one.name))}" for one in fields(Workload) if one.name in changed
    ]
    if workload:
        arguments["workload"] = f"minsep.Workload({', '.join(workload)})"
    if seed is not None:
        arguments["seed"] = str(seed)
    lines = [f"    {name}={value}," for name, value in arguments.items()]
    end = [")", "print(plan.statement)", 'plan.certificate.save("certificate.json")', ""]
    return "\n".join(["import minsep", "", "plan = minsep.plan(", *lines, *end])


def _python(value: Any) -> str:
    return as_typed(value) if isinstance(value, int | float) else repr(value)
