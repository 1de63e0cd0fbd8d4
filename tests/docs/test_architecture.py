"""The lines that an auditor of certificates has to read, as docs/architecture.md counts them."""

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ACCOUNTING = ROOT / "src/minsep/accounting"
NEAR = 0.05  # a count may be off by so much before the page is out of date


def lines_of(folder, *, only=(), without=()):
    files = [path for path in (ACCOUNTING / folder).glob("*.py") if path.stem not in without]
    return sum(len(path.read_text().splitlines()) for path in files if not only or path.stem in only)


COUNTS = {
    "checker.py": lines_of("certification", only=["checker"]),
    "certification": lines_of("certification", only=["certificate", "claims", "draws", "proofs"])
    + lines_of("../core", only=["plain"]),
    "curve": lines_of("certification", only=["curve_checker", "curve_proof", "levels", "errors"]),
    "pairs": lines_of("pairs"),
    "importance": lines_of("importance", without=["adapted", "mixed", "leaping", "choice"]),
    "schemes": lines_of("schemes"),
    "exact": lines_of("exact"),
    "reduction": lines_of("reduction") + lines_of("sequential"),
    "curves": lines_of("curves", without=["composed", "prices", "trials", "tuned"]),
}


def test_the_counts_of_the_page_are_those_of_the_code():
    page = (ROOT / "docs/architecture.md").read_text()
    rows = [int(count) for count in re.findall(r"^\| [^|]* \| (\d+) \|$", page, re.MULTILINE)]
    *parts, together = rows
    assert sum(parts) == together
    for stated, counted in zip(parts, COUNTS.values(), strict=True):
        assert abs(stated - counted) <= NEAR * counted, (stated, counted)
