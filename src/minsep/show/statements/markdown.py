"""A statement as Markdown."""

from collections.abc import Sequence

from minsep.show.statements.content import Section, Table

_SPECIAL = str.maketrans({mark: f"\\{mark}" for mark in "\\`*_<>[]|"})


def as_markdown(title: str, summary: str, sections: Sequence[Section]) -> str:
    """Return the whole text."""
    parts = [f"# {_plain(title)}", f"**{_plain(summary)}**"]
    for section in sections:
        parts.append(f"## {_plain(section.heading)}")
        parts += [_plain(paragraph) for paragraph in section.paragraphs]
        if section.table is not None:
            parts.append(_table(section.table))
        if section.items:
            parts.append("\n".join(f"- {_plain(item)}" for item in section.items))
        if section.code:
            parts.append(f"```bash\n{section.code}\n```")
    parts.append("Name, date and signature: ________________________________")
    return "\n\n".join(parts) + "\n"


def _table(table: Table) -> str:
    rows = [table.headings, tuple("---" for _ in table.headings), *table.rows]
    return "\n".join("| " + " | ".join(map(_plain, row)) + " |" for row in rows)


def _plain(text: str) -> str:
    """Return text that Markdown shows as it is; only code in backquotes stays code."""
    parts = " ".join(text.split()).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts).translate(_SPECIAL)
    return "".join(part.translate(_SPECIAL) if place % 2 == 0 else f"`{part}`" for place, part in enumerate(parts))
