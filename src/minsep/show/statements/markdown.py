"""A statement as Markdown."""

from collections.abc import Sequence

from minsep.show.statements.content import Section, Table

_SPECIAL = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_<>[]|"})


def as_markdown(title: str, summary: str, sections: Sequence[Section]) -> str:
    """Return the whole text."""
    parts = [f"# {plain(title)}", f"**{plain(summary)}**"]
    for section in sections:
        parts.append(f"## {plain(section.heading)}")
        parts += [plain(paragraph) for paragraph in section.paragraphs]
        if section.table is not None:
            parts.append(table(section.table))
        if section.items:
            parts.append("\n".join(f"- {plain(item)}" for item in section.items))
        if section.code:
            parts.append(f"```bash\n{section.code}\n```")
    parts.append("Name, date and signature: ________________________________")
    return "\n\n".join(parts) + "\n"


def table(content: Table) -> str:
    """Return a table."""
    rows = [content.headings, tuple("---" for _ in content.headings), *content.rows]
    return "\n".join("| " + " | ".join(map(plain, row)) + " |" for row in rows)


def plain(text: str) -> str:
    """Return text that Markdown shows as it is; only code in backquotes stays code."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts).translate(_SPECIAL)
    return "".join(part.translate(_SPECIAL) if place % 2 == 0 else f"`{part}`" for place, part in enumerate(parts))
