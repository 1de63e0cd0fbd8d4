"""A hook of mkdocs: formulas in TeX become MathML when the site is built, so that pages need no script to show them."""

import html
import re
from typing import Any

from latex2mathml.converter import convert

_FORMULA = re.compile(r'<(span|div) class="arithmatex">\\([(\[])(.*?)\\[)\]]</\1>', re.DOTALL)

_FENCES = {
    r"\lvert": ("\ue000", "|", "prefix"),
    r"\rvert": ("\ue001", "|", "postfix"),
    r"\lVert": ("\ue002", "‖", "prefix"),
    r"\rVert": ("\ue003", "‖", "postfix"),
    r"\langle": ("\ue004", "⟨", "prefix"),
    r"\rangle": ("\ue005", "⟩", "postfix"),
    r"\lceil": ("\ue006", "⌈", "prefix"),
    r"\rceil": ("\ue007", "⌉", "postfix"),
}
"""Brackets that the converter takes for letters or for operators between two terms."""

_LONG = 45
"""Characters of TeX from which on a formula in a line may be wider than a telephone."""

_SPACING = (
    ("<mo>&#x0002F;</mo>", '<mo lspace="0" rspace="0">/</mo>'),
    ("<mi>&#x0007E;</mi>", "<mo>&#x223C;</mo>"),
    ("<mi>&#x02016;</mi>", "<mo>‖</mo>"),
    ('<mo movablelimits="true">Pr</mo>', "<mi>Pr</mi>"),
    (r"(<mi>(?:log|ln|exp)</mi>)(?!<mo)", r'\1<mspace width="0.17em" />'),
)
"""What TeX sets closer, or further apart, than a browser does."""


def mathml(tex: str, *, block: bool) -> str:
    """Return a formula as MathML.

    >>> mathml("x", block=False)
    '<math xmlns="http://www.w3.org/1998/Math/MathML" display="inline"><mrow><mi>x</mi></mrow></math>'
    """
    source = tex.strip().replace("{aligned}", "{align*}")
    source = re.sub(r"\\[bB]igg?[lr]?(?![a-zA-Z])", "", source)  # drawn too low without a font for mathematics
    for command, (placeholder, _, _) in _FENCES.items():
        source = re.sub(re.escape(command) + r"(?![a-zA-Z])", placeholder, source)
    text = convert(source, display="block" if block else "inline")
    for placeholder, character, form in _FENCES.values():
        bracket = f'<mo stretchy="false" form="{form}">{character}</mo>'
        text = re.sub(f"<m[io]>{placeholder}</m[io]>", bracket, text)
    for pattern, replacement in _SPACING:
        text = re.sub(pattern, replacement, text)
    if "\\" in text or "<mi>&</mi>" in text or re.search("[\ue000-\ue007]", text):
        raise ValueError(f"This formula has a command that is not known to latex2mathml: {tex.strip()}")
    return text


def on_page_content(page_html: str, **_: Any) -> str:
    """Replace every formula of a page."""

    def replaced(match: re.Match[str]) -> str:
        tag, opening, tex = match.groups()
        block = opening == "["
        kind = "formula long" if not block and len(tex) > _LONG else "formula"
        return f'<{tag} class="{kind}">{mathml(html.unescape(tex), block=block)}</{tag}>'

    return _FORMULA.sub(replaced, page_html)
