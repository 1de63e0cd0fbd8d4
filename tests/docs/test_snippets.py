"""The snippets of the documentation run as they stand, next to a certificate of their numbers."""

import re
from pathlib import Path

import pytest

import minsep

DOCS = Path(__file__).parents[2] / "docs"


def snippets(page, section=""):
    """Return the Python blocks of a page, or of one of its sections."""
    text = (DOCS / page).read_text()
    if section:
        text = re.split(r"\n## ", text.split(f"\n## {section}\n", 1)[1])[0]
    return re.findall(r"```python\n(.*?)```", text, re.DOTALL)


PAGES = [
    *((f"training {place}", code) for place, code in enumerate(snippets("training.md", "From a certificate to a run"))),
    *((f"huggingface {place}", code) for place, code in enumerate(snippets("huggingface.md"))),
    *((f"journals {place}", code) for place, code in enumerate(snippets("journals.md"))),
    *((f"audit {place}", code) for place, code in enumerate(snippets("audit.md"))),
    *((f"from-opacus {place}", code) for place, code in enumerate(snippets("from-opacus.md"))),
]


@pytest.fixture(scope="module")
def certificate():
    identity = minsep.BandedToeplitz.identity(iterations=100)
    return minsep.certify(minsep.Mechanism(identity, minsep.Poisson(rate=50 / 2000), 2.0), epsilon=4.0, delta=1e-5)


@pytest.mark.filterwarnings("ignore")  # of other packages
@pytest.mark.parametrize(("name", "code"), PAGES, ids=[name for name, _ in PAGES])
def test_it_runs(name, code, certificate, tmp_path, monkeypatch):
    program = compile(code, name, "exec")
    if code.startswith("# Opacus"):
        return  # what is compared with need not be installed
    monkeypatch.chdir(tmp_path)
    certificate.save("certificate.json")
    exec(program, {"__name__": "__main__"})


def test_every_page_has_snippets():
    assert [name.split()[0] for name, _ in PAGES].count("huggingface") == 3
    assert len(PAGES) == 9
