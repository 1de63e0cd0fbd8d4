"""What is filled into a template is escaped, and nothing may be missing."""

import re
from importlib.resources import files

import pytest
from jinja2 import UndefinedError

from minsep.show.templates import render

HOSTILE = "<script>`x`</script>"


def test_values_are_escaped_in_text_in_attributes_and_by_filters() -> None:
    page = render("statement.html", title=HOSTILE, summary=HOSTILE, sections=[])
    assert "<script>" not in page
    assert "&lt;script&gt;<code>x</code>&lt;/script&gt;" in page
    form = render("token.html", query=[('"><b>', "'><b>")], again='"><b>')
    assert "<b>" not in form


def test_a_value_that_is_missing_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="summary"):
        render("statement.html", title="", sections=[])


@pytest.mark.parametrize(
    "name", [file.name for file in files("minsep.show.templates").iterdir() if file.name.endswith(".html")]
)
def test_no_template_marks_what_it_is_given_as_safe(name: str) -> None:
    text = (files("minsep.show.templates") / name).read_text(encoding="utf-8")
    assert re.findall(r"\|\s*safe|autoescape", text) == []
