"""A statement as one HTML page, without scripts."""

from collections.abc import Sequence
from html import escape
from importlib.resources import files

from minsep.show.statements.content import Section, Table

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"


def as_page(title: str, summary: str, sections: Sequence[Section]) -> str:
    """Return the whole page."""
    style = (files("minsep.show.statements") / "assets" / "statement.css").read_text()
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<title>{escape(title)}</title>
<style>{style}</style>
</head>
<body>
<main>
<h1>{escape(title)}</h1>
<p class="summary">{_prose(summary)}</p>
{"".join(map(_section, sections))}
<p class="signature">Name, date and signature</p>
</main>
</body>
</html>
"""


def _section(section: Section) -> str:
    return (
        f"<section><h2>{escape(section.heading)}</h2>"
        + "".join(f"<p>{_prose(paragraph)}</p>" for paragraph in section.paragraphs)
        + ("" if section.table is None else _table(section.table))
        + ("<ul>" + "".join(f"<li>{_prose(item)}</li>" for item in section.items) + "</ul>" if section.items else "")
        + (f"<pre>{escape(section.code)}</pre>" if section.code else "")
        + "</section>\n"
    )


def _table(table: Table) -> str:
    head = "".join(f'<th scope="col">{_prose(heading)}</th>' for heading in table.headings)
    rows = "".join(
        f'<tr><th scope="row">{_prose(row[0])}</th>' + "".join(f"<td>{_prose(cell)}</td>" for cell in row[1:]) + "</tr>"
        for row in table.rows
    )
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if any(table.headings) else ''}<tbody>{rows}</tbody></table>"


def _prose(text: str) -> str:
    parts = escape(text).split("`")
    if len(parts) % 2 == 0:
        return "`".join(parts)
    return "".join(part if place % 2 == 0 else f"<code>{part}</code>" for place, part in enumerate(parts))
