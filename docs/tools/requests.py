"""An extension of griffe: a request, and what takes its fields, are shown with them and with what each of them asks."""

import inspect
from typing import Any

import griffe

import minsep
from minsep.planning.request import WORKLOAD, Request, questions

FUNCTION, CLASS = "minsep.planning.planner.plan", "minsep.planning.request.Request"


def asked() -> str:
    """Return what the fields of a request ask, as entries of a section of parameters.

    >>> asked().splitlines()[2]
    '    iterations: Number of training steps.'
    """
    return "\n".join(f"    {name}: {one.help}" for name, one in questions().items() if name not in WORKLOAD)


def parameters(function: Any) -> griffe.Parameters:
    """Return the parameters of a function as it is called, whatever its definition takes."""
    return griffe.Parameters(
        *(
            griffe.Parameter(
                one.name,
                annotation=inspect.formatannotation(one.annotation),
                kind=griffe.ParameterKind(one.kind.description),
                default=None if one.default is one.empty else repr(one.default),
            )
            for one in inspect.signature(function).parameters.values()
        )
    )


class Requests(griffe.Extension):
    """Completes the two as they are read."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Complete an object, if it is one of the two."""
        if obj.docstring is None:
            return
        if obj.path == FUNCTION:
            assert isinstance(obj, griffe.Function)
            obj.parameters = parameters(minsep.plan)
            obj.docstring.value = inspect.getdoc(minsep.plan) or ""
        elif obj.path == CLASS:
            text = inspect.getdoc(Request) or ""
            obj.docstring.value = text.replace("Args:\n", f"Args:\n{asked()}\n", 1)
