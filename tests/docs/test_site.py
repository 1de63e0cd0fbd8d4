"""The site builds without a warning, every page can be reached, links lead somewhere, nothing public is left out."""

import doctest
import hashlib
import importlib.util
import os
import re
import shutil
import subprocess
import sys

import pytest
import yaml
from markdown.extensions.toc import slugify

import minsep
from tests.docs.pages import PAGES, ROOT, name_of, without_code

DOCS = ROOT / "docs"
LINKED = [*PAGES, *(ROOT / name for name in ("CONTRIBUTING.md", "CHANGELOG.md"))]


def tool(name):
    specification = importlib.util.spec_from_file_location(f"docs_{name}", DOCS / "tools" / f"{name}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def build(source, site):
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", site]
    environment = os.environ | {"NO_MKDOCS_2_WARNING": "1"}
    return subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=300, env=environment)


def test_the_site_builds_without_a_warning(tmp_path):
    result = build(ROOT, tmp_path)
    assert result.returncode == 0, result.stderr
    assert "WARNING" not in result.stderr
    pages = list(tmp_path.rglob("*.html"))
    assert len(pages) >= len(PAGES) - 1
    for page in pages:
        text = page.read_text()
        loaded = re.findall(r'<(?:script|img|iframe)[^>]*\bsrc="?([^" >]+)|<link[^>]*\bhref="?([^" >]+)', text)
        assert not [each for each in loaded if re.match("https?:|//", each[0] or each[1])], page
        assert "arithmatex" not in text, page
        assert "doc-symbol-module" not in text, page


def test_a_broken_link_or_a_missing_name_fails_the_build(tmp_path):
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    (tmp_path / "src").symlink_to(ROOT / "src")
    page, reference = tmp_path / "docs" / "cite.md", tmp_path / "docs" / "api" / "schemes.md"
    page.write_text(page.read_text() + "\n[nowhere](faq.md#never-asked)\n")
    reference.write_text(reference.read_text().replace("::: minsep.Poisson\n", ""))
    result = build(tmp_path, tmp_path / "site")
    assert result.returncode != 0
    assert "#never-asked" in result.stderr
    assert "minsep.Poisson is missing" in result.stderr


def nav(entries):
    for entry in entries:
        if isinstance(entry, str):
            yield entry
        else:
            for value in entry.values():
                yield from nav(value if isinstance(value, list) else [value])


def test_every_page_is_in_the_navigation_once():
    listed = list(nav(yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]))
    assert sorted(listed) == sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


def test_every_public_name_is_in_the_reference():
    reference = tool("reference")
    assert reference.public_names() <= reference.documented_names()
    assert len(reference.documented_names()) > 50


def anchors(page):
    headings = re.findall(r"^#+ (.+)$", without_code(page.read_text().replace("`", "")), re.MULTILINE)
    return {slugify(heading, "-") for heading in headings}


def broken_links(page):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        path, _, anchor = target.partition("#")
        if re.match("https?:|mailto:", target):
            continue
        goal = (page.parent / path).resolve() if path else page
        if not goal.exists() or (anchor and (goal.suffix != ".md" or anchor not in anchors(goal))):
            yield target


@pytest.mark.parametrize("page", LINKED, ids=name_of)
def test_links_lead_somewhere(page):
    assert list(broken_links(page)) == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# One\n\n## Two words\n\n[a](#two-words) [b](#three) [c](other.md) `[d](none.md)` [e](page.md#one)\n"
    )
    assert list(broken_links(page)) == ["#three", "other.md"]


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_begins_with_its_title_and_what_it_is_for(page):
    lines = page.read_text().splitlines()
    assert lines[0].startswith("# ")
    assert lines[1] == ""
    assert re.match(r"[A-Z`]|minsep ", lines[2])


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_a_page_names_no_place_on_a_machine(page):
    assert not re.findall(r"(?<![\w.:/])/(?:home|root|work|tmp|Users|mnt)/\S*", page.read_text())


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_formulas_are_in_tex(page):
    text = re.sub(r"\$\$.+?\$\$|\$[^$]+\$", "", without_code(page.read_text()), flags=re.DOTALL)
    assert not re.findall(r"\w\^[-\w(]|\w_\(|\bQED\b", text)


def test_tools_do_what_their_examples_say():
    for name in ("formulas", "doctests", "reference"):
        results = doctest.testmod(tool(name))
        assert results.attempted
        assert not results.failed


def test_formulas_become_mathml():
    formulas = tool("formulas")
    page = '<p><span class="arithmatex">\\(a &lt; \\lvert b \\rvert\\)</span></p><div class="arithmatex">\\[c\\]</div>'
    text = formulas.on_page_content(page)
    assert 'form="prefix">|</mo>' in text
    assert 'form="postfix">|</mo>' in text
    assert 'display="block"' in text
    assert "arithmatex" not in text


def test_an_unknown_command_in_a_formula_is_an_error():
    with pytest.raises(ValueError, match="not known"):
        tool("formulas").mathml(r"\nonsense{x}", block=False)


def test_the_statement_in_the_documentation_is_of_its_certificate():
    certificate = DOCS / "assets" / "default-plan.json"
    made = minsep.statement(certificate, model="the default plan", data="60,000 examples", verify=False, estimate=False)
    shown = (DOCS / "example-statement.md").read_text()
    told = [line for line in made.to_markdown().splitlines() if "verif" not in line.lower()]
    assert [line for line in told if line.startswith("- ") and line not in shown] == []
    assert hashlib.sha256(certificate.read_bytes()).hexdigest() in shown
