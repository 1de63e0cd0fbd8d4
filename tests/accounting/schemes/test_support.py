import subprocess
import sys
from pathlib import Path

DOCS = Path(__file__).parents[3] / "docs" / "support.md"


def test_the_page_shows_what_the_code_supports():
    """In a process of its own, where no test has added a scheme."""
    program = [sys.executable, "-m", "minsep.accounting.schemes"]
    table = subprocess.run(program, capture_output=True, text=True, check=True).stdout
    assert table.count("\n") > 8
    assert table in DOCS.read_text()
