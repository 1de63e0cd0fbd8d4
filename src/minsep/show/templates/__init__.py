"""The templates of every page, with their styles and scripts. Whatever is filled in is escaped."""

import re
from functools import cache
from typing import Any

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup, escape


def render(name: str, /, **values: Any) -> str:
    """Return a page: a template of this folder, filled in. A value that the template lacks is an error."""
    return _environment().get_template(name).render(values)


@cache
def _environment() -> Environment:
    loader = PackageLoader("minsep.show")
    environment = Environment(
        loader=loader,
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )

    def verbatim(asset: str) -> Markup:
        """Return a style sheet or a script of this folder."""
        return Markup(loader.get_source(environment, asset)[0])

    environment.globals["verbatim"] = verbatim
    environment.filters |= {"number": format, "unbroken": _unbroken, "code": _code, "script_json": _script_json}
    return environment


def _unbroken(text: str) -> Markup:
    """Return text in which no line breaks within a name."""
    return Markup(re.sub(r"b-min-sep|\([^()]*\)-DP", r'<span class="whole">\g<0></span>', str(escape(text))))


def _code(text: str) -> Markup:
    """Return text in which what is between backquotes is code."""
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return Markup("`").join(parts)
    return Markup("").join(
        part if place % 2 == 0 else Markup("<code>{}</code>").format(part) for place, part in enumerate(parts)
    )


def _script_json(text: str) -> Markup:
    """Return JSON for a script element: an opening angle bracket, which could end it, becomes a Unicode escape."""
    return Markup(text.replace("<", "\\u003c"))
