"""The page in a real Chromium: every control, from the first number to the saved certificate."""

import importlib.util
import itertools
import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from typer.testing import CliRunner

from minsep.cli.app import app
from tests.serve.conftest import TINY, Served

PLOTS = ["plot-epsilon", "plot-bands", "plot-separation", "plot-memory", "plot-attacker"]
HERE = Path(__file__).parent
PATIENT = 120_000  # milliseconds: other work may be on the machine
BOUND = "async (numbers) => (await import('/assets/attacker.js')).truePositives(...numbers)"
SLOW = {"examples": "60000", "batch_size": "512", "iterations": "2000", "epsilon": "4", "delta": "1e-5"}
EXACT = TINY | {"schemes": "poisson,cyclic-poisson"}


@contextmanager
def opened(
    browser: Any, served: Served, texts: dict[str, str], *, width: int = 1280, colours: str = "light", **more: Any
) -> Iterator[Any]:
    """Open the page, and see afterwards that there was no error and no request to anywhere else."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours, **more)
    context.set_default_timeout(PATIENT)
    page = watched(context.new_page(), served)
    page.goto(f"{served.link}&{urlencode(texts)}")
    yield page
    context.close()
    assert page.problems == []


@pytest.fixture(autouse=True)
def nothing_under_way(served: Served) -> Iterator[None]:
    """End what a test has left under way."""
    yield
    for run in httpx.get(f"{served.address}/api/runs", headers=served.headers, timeout=60).json():
        if run["state"] in ("queued", "running"):
            httpx.post(f"{served.address}/api/runs/{run['id']}/cancel", headers=served.headers, timeout=60)


def watched(page: Any, served: Served) -> Any:
    page.problems = []

    def console(message: Any) -> None:
        # The browser itself reports every refused request; the page shows what was refused.
        if message.type in ("error", "warning") and "status of 4" not in message.text:
            page.problems.append(message.text)

    def request(sent: Any) -> None:
        if not sent.url.startswith((served.address + "/", "data:", "blob:")):
            page.problems.append(f"request to {sent.url}")

    page.on("console", console)
    page.on("pageerror", lambda error: page.problems.append(str(error)))
    page.on("request", request)
    return page


def answered(page: Any) -> None:
    page.wait_for_selector("#under-way.done", state="attached")


def until(page: Any, condition: str) -> None:
    """Wait until an expression holds; Playwright's own way of waiting is forbidden by the page's policy."""
    for _ in range(PATIENT // 100):
        if page.evaluate(condition):
            return
        page.wait_for_timeout(100)
    raise AssertionError(f"{condition} does not hold")


def holds(page: Any, name: str, text: str) -> None:
    """Wait until the address has a text for a field."""
    until(page, f"(new URLSearchParams(location.search).get({name!r}) ?? '') === {text!r}")


@pytest.mark.parametrize(("width", "colours"), [(390, "dark"), pytest.param(1280, "light", marks=pytest.mark.slow)])
def test_the_page_answers_and_every_plot_draws(browser: Any, served: Served, width: int, colours: str) -> None:
    with opened(browser, served, TINY | {"model_size": "1e6"}, width=width, colours=colours) as page:
        answered(page)
        until(page, "document.querySelectorAll('#plot-attacker .main-svg .trace').length > 0")
        assert "token" not in page.url
        assert "should be about (4, 0.001)-DP" in page.inner_text("#sentence")
        assert page.inner_text("#kind") == "Estimate"
        assert "do not train with it" in page.inner_text("#remark")
        for name in PLOTS:
            assert page.locator(f"#{name} .main-svg .trace").count() >= 1, name
            assert page.inner_text(f"#{name.replace('plot', 'caption')}")
        assert page.locator("#ranking-table tr.chosen").count() == 1
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_a_field_and_its_slider_are_one_and_the_address_is_the_plan(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT) as page:
        answered(page)
        for name in ("examples", "batch_size", "iterations", "epsilon", "delta", "model_size", "max_batch_size"):
            if not page.is_visible(f"#{name}"):
                page.click("#more > summary")
            before = page.input_value(f"#{name}")
            page.focus(f"#{name}-slider")
            for _ in range(3):
                page.keyboard.press("ArrowRight")
            after = page.input_value(f"#{name}")
            assert after != before
            holds(page, name, after)
            assert page.get_attribute(f"#{name}-slider", "aria-valuetext") == after
            page.fill(f"#{name}", before)
            holds(page, name, before)
        page.fill("#epsilon", "3")
        page.select_option("#schedule", "cosine")
        page.fill("#momentum", "0.5")
        answered(page)
        assert page.inner_text("#more > summary") == "More options (4 set)"
        shared = page.evaluate("location.href")
        page.goto("about:blank")
        page.goto(shared)
        answered(page)
        assert page.evaluate("location.href") == shared
        assert page.input_value("#epsilon") == "3"
        assert page.input_value("#schedule") == "cosine"
        assert page.input_value("#momentum") == "0.5"
        assert not page.is_checked("[name=scheme][value=min-sep]")
        assert "momentum 0.5" in page.inner_text("#numbers")


def test_nothing_is_certified_before_it_is_checked(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT) as page:
        answered(page)
        page.fill("#delta", "lots")
        assert page.is_disabled("#certify")
        until(page, "document.getElementById('delta-problem').textContent !== ''")
        # What was accepted stands beside its field no more, long before anything is estimated.
        page.route("**/api/estimate", lambda route: route.fulfill(body=""))
        page.fill("#delta", "1e-4")
        assert page.is_disabled("#certify")
        until(page, "!document.getElementById('certify').disabled")
        assert page.inner_text("#delta-problem") == ""
        page.unroute("**/api/estimate")


def test_the_task_in_a_line_follows_what_is_typed(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT) as page:
        answered(page)
        page.fill("#examples", "1,500")
        assert page.inner_text("#about") == "1,500 examples, batches of 50, 50 iterations"
        page.fill("#iterations", "some")
        assert page.inner_text("#about") == "1,500 examples, batches of 50, \u2013 iterations"
        page.fill("#iterations", "50")
        answered(page)


@pytest.mark.parametrize("width", [390, 1280])
def test_nothing_moves_and_headlines_stand_for_a_while(browser: Any, served: Served, width: int) -> None:
    context = browser.new_context(viewport={"width": width, "height": 900})
    context.set_default_timeout(PATIENT)
    page = watched(context.new_page(), served)
    page.add_init_script(path=HERE / "watch.js")
    page.goto(f"{served.link}&{urlencode(TINY | {'examples': '20000', 'batch_size': '200', 'iterations': '400'})}")
    answered(page)
    page.wait_for_timeout(500)
    assert page.evaluate("window.shift") < 0.1
    headlines = page.evaluate("window.headlines")
    assert "should be about" in headlines[-1][1]
    moments = [moment for moment, text in headlines[:-1] if text.startswith("So far")]
    assert all(later - earlier > 1900 for earlier, later in itertools.pairwise(moments))
    assert page.problems == []
    context.close()


def test_presets_fill_in_the_form(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT) as page:
        answered(page)
        # The estimates of the presets are not for a test: what is asked for stays unanswered.
        page.route("**/api/estimate", lambda route: route.abort())
        for label, examples in (
            ("An image classifier", "60000"),
            ("CIFAR-10", "50000"),
            ("A LoRA fine-tune", "20000"),
            ("The paper's production case", "14745600"),
        ):
            page.select_option("#preset", label=label)
            assert page.input_value("#examples") == examples
            holds(page, "examples", examples)
            assert page.inner_text("#preset-help")
        page.fill("#examples", "12345")
        assert page.eval_on_selector("#preset", "select => select.selectedOptions[0].text") == "Your own numbers"
        page.problems.clear()  # of the requests that the test itself aborted


def test_errors_sit_beside_their_fields_with_their_labels(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT) as page:
        answered(page)
        page.fill("#batch_size", "2000")
        page.fill("#delta", "lots")
        until(page, "document.getElementById('delta-problem').textContent !== ''")
        assert page.inner_text("#delta-problem") == (
            "Delta (δ) is 'lots', but it is not a number: write it as 1024, 1,024 or 1e-5."
        )
        assert page.get_attribute("#delta", "aria-invalid") == "true"
        assert page.is_disabled("#certify")
        page.fill("#delta", "1e-3")
        until(page, "document.getElementById('batch_size-problem').textContent !== ''")
        words = page.inner_text("#batch_size-problem")
        numbers = [
            "--examples",
            "1000",
            "--batch-size",
            "2000",
            "--iterations",
            "50",
            "--epsilon",
            "4",
            "--delta",
            "1e-3",
        ]
        result = CliRunner().invoke(app, ["plan", *numbers])
        assert str(result.exception) == words.replace("Batch size", "--batch-size")
        assert "at most 1,000" in words
        page.fill("#batch_size", "50")
        until(page, "document.getElementById('batch_size-problem').textContent === ''")
        answered(page)
        assert not page.is_disabled("#certify")


def test_a_change_cancels_what_is_under_way(browser: Any, served: Served) -> None:
    with opened(browser, served, SLOW) as page:
        until(page, "document.getElementById('sentence').textContent.startsWith('So far')")
        assert page.inner_text("#kind") == "Estimating"
        page.click("#more > summary")
        for kind in ("random-allocation", "balls-in-bins", "min-sep"):
            page.uncheck(f"[name=scheme][value={kind}]")
        page.fill("#iterations", "100")
        answered(page)
        assert "100 iterations" in page.inner_text("#about")
        assert page.inner_text("#sentence").startswith("Cyclic Poisson")
        assert page.inner_text("#kind") == "Estimate"


def test_a_task_that_takes_long_asks_first(browser: Any, served: Served) -> None:
    long = TINY | {"examples": "100000", "iterations": "40000", "batch_size": "100", "delta": "1e-7", "max_bands": "64"}
    with opened(browser, served, long) as page:
        page.wait_for_selector("#question:not([hidden])")
        assert "would take about" in page.inner_text("#question-words")
        until(page, "document.getElementById('sentence').textContent.includes('-DP')")
        assert "b-min-sep" not in page.inner_text("#sentence")  # what needs no samples is there all the same
        page.click("#certify")
        page.wait_for_selector("#ask[open]")
        assert "Go on?" in page.inner_text("#ask-words")
        page.keyboard.press("Escape")
        page.wait_for_selector("#ask", state="hidden")
        page.goto(f"{served.address}/?{urlencode(EXACT)}")
        answered(page)


def certified(page: Any) -> Any:
    """Certify what is in the form, and wait until that is done."""
    page.click("#certify")
    page.wait_for_selector("#runs-list .run:first-child .under-way, #runs-list .run:first-child .chip.good")
    page.wait_for_selector("#runs-list .run:first-child .chip.good")
    return page.locator("#runs-list .run:first-child")


def test_from_the_first_number_to_the_saved_certificate(browser: Any, served: Served, tmp_path: Path) -> None:
    with opened(browser, served, EXACT, permissions=["clipboard-read", "clipboard-write"]) as page:
        answered(page)
        page.fill("#epsilon", "2")
        page.click("#more > summary")
        for scheme in ("cyclic-poisson", "min-sep"):
            page.locator(f"[name=scheme][value={scheme}]").set_checked(scheme == "min-sep")
        answered(page)
        run = certified(page)
        with page.expect_download() as download:
            run.get_by_text("Download the certificate").click()
        assert download.value.suggested_filename == "certificate.json"
        path = tmp_path / "certificate.json"
        download.value.save_as(path)
        outcome = CliRunner().invoke(app, ["verify", str(path)])
        assert outcome.exit_code == 0, outcome.output
        assert json.loads(path.read_text())["epsilon"] == 2.0
        run.get_by_text("Copy the command").click()
        until(page, "document.querySelector('#runs-list .run button.small').textContent === 'Copied'")
        command = page.evaluate("navigator.clipboard.readText()")
        assert command.startswith("minsep plan --examples 1000 --batch-size 50")
        with page.expect_popup() as popup:
            run.get_by_role("link", name="Report").click()
        report = popup.value
        report.wait_for_selector("#plot-privacy .main-svg")
        assert "certified" in report.inner_text("header")
        # The report has no origin: it can call nothing here.
        assert report.evaluate("fetch('/api/runs').then(() => 'answered', () => 'refused')") == "refused"
        report.close()
        page.problems.clear()


def test_cancel_reload_and_two_windows(browser: Any, served: Served) -> None:
    with opened(browser, served, SLOW) as page:
        until(page, "document.getElementById('sentence').textContent.startsWith('So far')")
        page.click("#certify")
        page.wait_for_selector("#runs-list .run:first-child progress")
        page.click("#certify")  # a second one waits for the first
        until(page, "document.querySelectorAll('#runs-list progress').length === 2")
        until(page, "document.querySelector('#runs-list .run').innerText.includes('waiting for 1 other run')")
        page.reload()
        until(page, "document.querySelectorAll('#runs-list progress').length === 2")
        other = watched(page.context.new_page(), served)
        other.goto(f"{served.address}/?{urlencode(EXACT)}")
        until(other, "document.querySelectorAll('#runs-list progress').length === 2")
        other.locator("#runs-list .run:nth-child(2)").get_by_text("Cancel").click()
        other.locator("#runs-list .run:nth-child(1)").get_by_text("Cancel").click()
        for window in (page, other):
            until(window, "document.querySelectorAll('#runs-list progress').length === 0")
            chips = window.locator("#runs-list .chip").all_inner_texts()
            assert chips[:2] == ["cancelled", "cancelled"]
        before = page.locator("#runs-list .run").count()
        page.locator("#runs-list .run:nth-child(1)").get_by_text("Delete").click()
        until(page, f"document.querySelectorAll('#runs-list .run').length === {before - 1}")
        assert page.is_hidden("#ask")  # nothing was certified
        answered(other)
        assert other.problems == []


def test_a_certified_run_is_deleted_only_after_a_question(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT | {"schemes": "poisson"}) as page:
        answered(page)
        run = certified(page)
        name = run.get_attribute("id")
        run.get_by_text("Delete").click()
        page.wait_for_selector("#ask[open]")
        assert page.inner_text("#ask-words").startswith("Delete the certified run (4, 0.001)-DP for 1,000 examples")
        assert page.evaluate("document.activeElement.textContent") == "Keep it"
        page.keyboard.press("Enter")
        page.wait_for_selector("#ask", state="hidden")
        assert page.evaluate("document.activeElement.textContent") == "Delete"
        assert page.locator(f"#{name}").count() == 1
        page.keyboard.press("Enter")
        page.get_by_role("button", name="Delete it").click()
        page.wait_for_selector(f"#{name}", state="detached")
        assert page.evaluate("document.activeElement.id") == "runs"


@pytest.mark.slow
def test_two_plans_side_by_side(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT | {"schemes": "poisson"}) as page:
        answered(page)
        certified(page)
        page.fill("#epsilon", "8")
        answered(page)
        first = page.locator("#runs-list .run").count()
        page.click("#certify")
        until(page, f"document.querySelectorAll('#runs-list .run').length === {first + 1}")
        until(page, "document.querySelectorAll('#runs-list progress').length === 0")
        boxes = page.locator("#runs-list .compare input")
        boxes.nth(0).check()
        boxes.nth(1).check()
        rows = page.locator("#comparison tr.differs").all_inner_texts()
        assert any(row.startswith("Epsilon (ε)") for row in rows)
        assert any(row.startswith("noise multiplier") for row in rows)
        assert not any(row.startswith("Delta (δ)") for row in rows)
        page.get_by_label("Only what differs").check()
        assert page.locator("#comparison tr.same").count() == 0


def test_the_plots_are_linked(browser: Any, served: Served) -> None:
    with opened(browser, served, TINY) as page:
        answered(page)
        page.wait_for_selector("#plot-bands .ytitle")
        assert page.inner_html("#plot-bands .ytitle") == "error"
        ticks = [float(text) for text in page.locator("#plot-epsilon .ytick text").all_text_contents()]
        assert len(ticks) >= 3
        assert ticks == sorted(ticks)
        assert "recommended" in page.inner_text("#ranking-table tbody tr:first-child")
        assert "recommended" in page.inner_text("#ranking-words")
        page.get_by_text("Noise", exact=True).click()
        until(page, "document.querySelector('#plot-bands .ytitle').textContent === 'noise multiplier'")
        page.evaluate("document.getElementById('plot-epsilon').emit('plotly_click', {points: [{x: 8}]})")
        until(page, "document.getElementById('epsilon').value === '8'")
        holds(page, "epsilon", "8")
        answered(page)
        assert "ε = 8" in page.inner_text("#numbers")
        ink = "getComputedStyle(document.querySelector('#plot-bands .xtitle')).fill"
        light = page.evaluate(ink)
        page.emulate_media(color_scheme="dark")
        until(page, f"{ink} !== '{light}'")


def test_the_attackers_curve_is_the_bound(browser: Any, served: Served) -> None:
    """The most true positives of any test: by its two linear constraints, the other one read from the mirror image."""
    with opened(browser, served, EXACT) as page:
        for epsilon, delta in ((0.5, 1e-5), (4.0, 1e-3), (10.0, 0.1)):
            for share in (1e-6, 1e-3, 0.01, 0.1, 0.5, 0.9):
                found = page.evaluate(BOUND, [share, epsilon, delta])
                low, high = 0.0, 1.0  # the largest with  tp <= e^eps fp + delta  and  1 - fp <= e^eps (1 - tp) + delta
                for _ in range(60):
                    tried = (low + high) / 2
                    allowed = (
                        tried <= math.exp(epsilon) * share + delta
                        and 1 - share <= math.exp(epsilon) * (1 - tried) + delta
                    )
                    low, high = (tried, high) if allowed else (low, tried)
                assert found == pytest.approx(low, abs=1e-9)
        answered(page)


@pytest.mark.parametrize("colours", ["dark", pytest.param("light", marks=pytest.mark.slow)])
def test_axe_finds_nothing(browser: Any, served: Served, colours: str) -> None:
    if importlib.util.find_spec("axe_playwright_python") is None:
        pytest.skip("axe-core is not installed: pip install axe-playwright-python.")
    from axe_playwright_python.sync_playwright import Axe

    with opened(browser, served, TINY | {"model_size": "1e6"}, colours=colours, bypass_csp=True) as page:
        answered(page)
        page.wait_for_selector("#plot-attacker .main-svg .trace")
        for details in page.locator("details").all():
            details.evaluate("one => { one.open = true; }")
        found = Axe().run(page).response["violations"]
        assert [(rule["id"], [node["html"][:200] for node in rule["nodes"]]) for rule in found] == []


def test_keyboard_alone(browser: Any, served: Served) -> None:
    with opened(browser, served, EXACT) as page:
        answered(page)
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.className") == "skip"
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "answer"
        assert page.is_enabled("#certify")  # to go to another place is no change of the task
        page.keyboard.press("Tab")
        assert page.evaluate("document.activeElement.id") == "certify"
        outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
        assert outline == "solid"
        page.keyboard.press("Enter")
        page.wait_for_selector("#runs-list .run:first-child .chip.good")
        assert page.evaluate("document.activeElement.id") == "certify"


def test_hostile_addresses_stay_words(browser: Any, served: Served) -> None:
    hostile = "<img src=x onerror=window.hostile=1>"
    with opened(browser, served, EXACT | {"examples": hostile, "schemes": hostile, hostile: hostile}) as page:
        until(page, "Boolean(document.getElementById('examples-problem')?.textContent)")
        assert page.evaluate("window.hostile") is None
        assert hostile[:20] in page.inner_text("#examples-problem")


def test_without_the_token_there_is_no_page(browser: Any, served: Served) -> None:
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"{served.address}/?examples=500")
    assert "needs its token" in page.inner_text("h1")
    page.fill("#token", served.token)
    page.click("button")
    page.wait_for_selector("#examples")
    assert page.url == f"{served.address}/?examples=500"
    context.close()
