"""Every public name documents all its parameters, and has an example that runs."""

import inspect
import re
from dataclasses import is_dataclass

import pytest

import minsep
import minsep.auditing.huggingface
import minsep.auditing.jax
import minsep.auditing.processes
import minsep.auditing.torch
import minsep.paper
import minsep.reading
import minsep.show.report
import minsep.training.huggingface
import minsep.training.jax
import minsep.training.torch

PUBLIC = {name: getattr(minsep, name) for name in minsep.__all__ if name != "__version__"}
for module in (
    minsep.paper,
    minsep.reading,
    minsep.show.report,
    minsep.training.torch,
    minsep.training.jax,
    minsep.training.huggingface,
):
    PUBLIC |= {f"{module.__name__}.{name}": getattr(module, name) for name in module.__all__}
PUBLIC |= {
    "minsep.auditing.Canaries": minsep.auditing.Canaries,
    "minsep.auditing.CanaryRun": minsep.auditing.CanaryRun,
    "minsep.auditing.plain_loop": minsep.auditing.plain_loop,
    "minsep.auditing.torch.TorchLoop": minsep.auditing.torch.TorchLoop,
    "minsep.auditing.jax.JaxLoop": minsep.auditing.jax.JaxLoop,
    "minsep.auditing.huggingface.HuggingFaceLoop": minsep.auditing.huggingface.HuggingFaceLoop,
    "minsep.auditing.processes.ProcessesLoop": minsep.auditing.processes.ProcessesLoop,
}
RESULTS = (
    "Audit",
    "Bounded",
    "Calibration",
    "Certificate",
    "Composition",
    "Estimate",
    "LedgerStatement",
    "Plan",
    "PrivacyCurve",
    "Statement",
    "UserPlans",
    "Verification",
    "minsep.paper.Comparison",
    "minsep.reading.Record",
    "minsep.training.jax.NoiseState",
)
"""Values that functions return: their functions have the examples."""


def functions():
    for name, thing in PUBLIC.items():
        if not inspect.isclass(thing):
            yield name, thing, thing.__doc__
            continue
        yield name, thing, thing.__doc__
        for method_name, member in inspect.getmembers(thing):
            if method_name.startswith("_") or not (inspect.isfunction(member) or inspect.ismethod(member)):
                continue
            if (member.__module__ or "").startswith("minsep"):
                yield f"{name}.{method_name}", member, f"{member.__doc__} {thing.__doc__}"


def parameters(thing):
    if is_dataclass(thing) and thing.__name__ in RESULTS:
        return []
    try:
        names = inspect.signature(thing).parameters
    except ValueError:
        return []
    return [name for name in names if name not in ("self", "cls", "args", "kwargs")]


def has_entry(name, text):
    """Whether a docstring has an entry for a parameter, as in `    epsilon: The budget.`"""
    return re.search(rf"^ +(\*\*)?{name}: \S", text or "", re.MULTILINE) is not None


def undocumented():
    return {
        name: missing
        for name, thing, text in functions()
        if (missing := [each for each in parameters(thing) if not has_entry(each, text)])
    }


def test_every_parameter_is_documented():
    assert undocumented() == {}


@pytest.mark.parametrize("name", [name for name in PUBLIC if name not in RESULTS])
def test_every_public_name_has_an_example(name):
    thing = PUBLIC[name]
    texts = [thing.__doc__ or ""]
    if inspect.isclass(thing):
        texts += [getattr(member, "__doc__", None) or "" for _, member in inspect.getmembers(thing)]
    assert any(">>>" in text for text in texts)
