"""An extension of griffe: a request, and what takes its fields, are shown with them and with what each of them asks."""

import inspect
import re
from typing import Any

import griffe

import minsep
from minsep.planning.request import Request, with_questions

_MODULES = re.compile(r"\b(?:\w+\.)+(?=\w)")
FUNCTION, CLASS = "minsep.planning.planner.plan", "minsep.planning.request.Request"


def parameters(function: Any) -> griffe.Parameters:
    """Return the parameters of a function as it is called, whatever its definition takes."""
    return griffe.Parameters(
        *(
            griffe.Parameter(
                one.name,
                annotation=_MODULES.sub("", inspect.formatannotation(one.annotation)).replace("'", ""),
                kind=griffe.ParameterKind(one.kind.description),
                default=_default(one.default),
            )
            for one in inspect.signature(function).parameters.values()
        )
    )


def _default(value: Any) -> str | None:
    """Return a default as one would type it: nothing if there is none, and dots for what is made anew each time."""
    if value is inspect.Parameter.empty:
        return None
    return repr(value) if value is None or isinstance(value, bool | int | float) else "..."


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
            obj.docstring.value = with_questions(inspect.getdoc(Request) or "")
