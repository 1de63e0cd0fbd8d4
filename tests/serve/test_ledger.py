"""The ledger beside the plans: what the page shows of it, when it reads it again, and that it never writes it."""

import importlib.util
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import minsep
from minsep.serve import book as books
from minsep.serve.book import Book
from tests.ledger.small import EVENT, create
from tests.serve.conftest import TINY, Served, serving
from tests.serve.conftest import run as run_apart
from tests.serve.test_browser import answered, certified, opened, until
from tests.serve.test_processes import refused

HOSTILE = "<img src=x onerror=window.hostile=1>"


class Here:
    """Works in this process, and counts how often it was asked to."""

    def __init__(self) -> None:
        self.count = 0

    async def __call__(self, work: Callable[..., None], *arguments: Any) -> AsyncIterator[dict[str, Any]]:
        self.count += 1
        sent: list[dict[str, Any]] = []
        try:
            work(sent.append, *arguments)
        except ValueError as error:
            sent.append({"kind": "problem", "problem": str(error)})
        for one in sent:
            yield one


def asked(book: Book) -> dict[str, Any]:
    found: list[dict[str, Any]] = []

    async def ask() -> None:
        found.append(await book.answer())

    run_apart(ask())
    return found[0]


def test_the_answer_is_what_the_ledger_holds(tmp_path, monkeypatch):
    monkeypatch.setattr(books, "messages", here := Here())
    written = create(tmp_path, num_examples=1000)
    written.add(EVENT, name="mean pixel")
    book = Book(Path(written.path))
    answer = asked(book)
    assert (answer["dataset"], answer["num_examples"], answer["head"]) == ("digits", 1000, written.head)
    assert [entry["name"] for entry in answer["entries"]] == ["mean pixel"]
    spent, left = written.spent(), written.left()
    # No number promises too much: what is spent is rounded up, and what is left down.
    assert spent.epsilon <= answer["spent"]["epsilon"] <= spent.epsilon * (1 + 1e-5)
    assert 0.99 * left.any_run.epsilon <= answer["left"]["any_run"]["epsilon"] <= left.any_run.epsilon
    assert answer["left"]["statement"] == left.statement
    assert asked(book) == answer
    assert here.count == 1  # nothing changed
    written.add(EVENT, name="again")
    assert [entry["name"] for entry in asked(book)["entries"]] == ["mean pixel", "again"]
    assert here.count == 2


def test_a_ledger_that_is_damaged_later_is_a_sentence(tmp_path, monkeypatch):
    monkeypatch.setattr(books, "messages", Here())
    written = create(tmp_path)
    written.add(EVENT)
    book, content = Book(Path(written.path)), Path(written.path).read_bytes()
    Path(written.path).write_bytes(content.replace(b"digits", b"DIGITS"))
    assert "line 1 of 2 was edited, or is damaged" in asked(book)["problem"]
    Path(written.path).unlink()
    assert "there is no such file" in asked(book)["problem"]
    Path(written.path).write_bytes(content)
    assert asked(book)["dataset"] == "digits"


def test_without_a_ledger_there_is_no_panel(served: Served):
    found = httpx.get(f"{served.address}/api/ledger", headers=served.headers, timeout=60)
    assert (found.status_code, found.text) == (404, "The server was started without a ledger.")
    assert httpx.get(f"{served.address}/api/form", headers=served.headers, timeout=60).json()["ledger"] is False
    for method in ("POST", "PUT", "DELETE"):  # there is nothing to write
        answer = httpx.request(method, f"{served.address}/api/ledger", headers=served.headers, timeout=60)
        assert answer.status_code == 405


def test_a_server_starts_only_with_a_ledger(tmp_path):
    (tmp_path / "notes.json").write_text("{}")
    create(tmp_path)
    path = tmp_path / "budget.json"
    path.write_bytes(path.read_bytes().replace(b"digits", b"DIGITS"))
    folder = ("--port", "0", "--folder", str(tmp_path / "runs"))
    for name, refusal in (
        ("none.json", "there is no such file"),
        ("notes.json", "that is another kind of file"),
        ("budget.json", "line 1 of 1 was edited"),
    ):
        words = refused(*folder, "--ledger", str(tmp_path / name))
        assert f"Error: --ledger is {str(tmp_path / name)!r}, but" in words
        assert refusal in words
        assert words.count("Error") == 1
    assert not (tmp_path / "runs").exists()


@pytest.fixture(scope="module")
def budgeted(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Served, minsep.Ledger]]:
    folder = tmp_path_factory.mktemp("budgeted")
    book = create(folder, num_examples=1000, epsilon=4.0, delta=1e-4)
    book.add(EVENT, name=f"mean pixel {HOSTILE}")
    with serving(folder / "runs", "--ledger", book.path) as server:
        yield server, book


@pytest.mark.parametrize(("width", "colours"), [(390, "dark"), pytest.param(1280, "light", marks=pytest.mark.slow)])
def test_the_page_shows_the_ledger(
    browser: Any, budgeted: tuple[Served, minsep.Ledger], width: int, colours: str
) -> None:
    server, book = budgeted
    before = Path(book.path).read_bytes()
    with opened(browser, server, TINY | {"schemes": "poisson"}, width=width, colours=colours) as page:
        page.wait_for_selector("#plan-left")
        answered(page)
        assert page.inner_text("#budget-title") == "The budget of digits"
        words = page.inner_text("#budget")
        assert "The total holds if the entries were chosen without looking" in words
        assert book.left().statement in words
        assert book.head in words
        assert f"1: mean pixel {HOSTILE}" in page.inner_text("#budget table")
        assert page.evaluate("window.hostile") is None
        assert page.evaluate("document.documentElement.scrollWidth") <= width
        assert page.is_visible("#budget-link")
    assert Path(book.path).read_bytes() == before


@pytest.mark.slow
def test_axe_finds_nothing(browser: Any, budgeted: tuple[Served, minsep.Ledger]) -> None:
    if importlib.util.find_spec("axe_playwright_python") is None:
        pytest.skip("axe-core is not installed: pip install axe-playwright-python.")
    from axe_playwright_python.sync_playwright import Axe

    server, _ = budgeted
    for colours in ("light", "dark"):
        with opened(browser, server, TINY | {"schemes": "poisson"}, colours=colours, bypass_csp=True) as page:
            page.wait_for_selector("#plan-left")
            answered(page)
            found = Axe().run(page, context="#budget").response["violations"]
            assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []


def test_a_run_planned_with_what_is_left_can_be_booked(browser: Any, budgeted: tuple[Served, minsep.Ledger]) -> None:
    server, book = budgeted
    texts = TINY | {"schemes": "poisson", "examples": "5000", "user_bound": "2"}
    with opened(browser, server, texts) as page:
        page.wait_for_selector("#plan-left")
        page.click("#plan-left")
        assert page.evaluate("document.activeElement.id") == "answer"
        assert (page.input_value("#examples"), page.input_value("#user_bound")) == ("1000", "1")
        epsilon, delta = float(page.input_value("#epsilon")), float(page.input_value("#delta"))
        left = book.left().any_run
        assert 0.99 * left.epsilon <= epsilon <= left.epsilon
        assert 0.99 * left.delta <= delta <= left.delta
        until(page, "!document.getElementById('certify').disabled")
        answered(page)
        run = certified(page).get_attribute("id").removeprefix("run-")
        found = minsep.Certificate.load(server.folder / run / "certificate.json")
        assert (found.epsilon, found.delta, found.num_examples) == (epsilon, delta, 1000)
        book.add(found, name="planned")
        page.evaluate("document.dispatchEvent(new Event('visibilitychange'))")
        until(page, "document.getElementById('budget').innerText.includes('2: planned')")
        assert book.head in page.inner_text("#budget")
