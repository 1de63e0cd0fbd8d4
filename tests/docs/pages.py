"""The pages of the documentation, and the blocks of code in them."""

import re
import textwrap
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]

_BLOCK = re.compile(r"(?P<before>[^\n]*)\n(?P<indent> *)```(?P<language>\w+)\n(?P<code>.*?)\n(?P=indent)```", re.DOTALL)
_NOT_RUN = re.compile(r"<!-- not run: (.+) -->")


@dataclass(frozen=True)
class Block:
    """A block of code; `not_run` is the reason that the page gives for not running it, if there is one."""

    page: str
    line: int
    language: str
    code: str
    not_run: str = ""


def name_of(page):
    return page.relative_to(ROOT).as_posix()


def blocks(page, *languages):
    text = "\n" + page.read_text()
    found = []
    for match in _BLOCK.finditer(text):
        reason = _NOT_RUN.fullmatch(match["before"].strip())
        found.append(
            Block(
                page=name_of(page),
                line=text.count("\n", 0, match.start("code")),
                language=match["language"],
                code=textwrap.dedent(match["code"]),
                not_run=reason[1] if reason else "",
            )
        )
    return [block for block in found if not languages or block.language in languages]


def without_code(text):
    """Return a page without its blocks of code and its inline code."""
    text = re.sub(r"^( *)```.*?^\1```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)
