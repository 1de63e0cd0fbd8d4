"""The pages in a real Chromium: every plot draws, nothing goes wrong, and nothing goes out."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from minsep.accounting import Certificate
from minsep.planning import Plan
from minsep.show import palette
from minsep.show.report import write_report
from tests.report.test_files import HOSTILE

PLOTS = {
    "plan": ["plot-privacy", "plot-error", "plot-noise-multiplier", "plot-batches", "plot-strategy"],
    "comparison": ["plot-ratios-cyclic-poisson", "plot-ratios-balls-in-bins"],
}
DRAWN = """plot => ({
    id: plot.id,
    traces: plot.querySelectorAll('.main-svg .trace, .main-svg .heatmaplayer image').length,
    shapes: plot.querySelectorAll('.main-svg .trace path[d], .main-svg .heatmaplayer image').length,
    width: plot.querySelector('.main-svg').getBoundingClientRect().width,
    ink: getComputedStyle(plot.querySelector('.main-svg .xtitle')).fill,
    buttons: [...plot.querySelectorAll('.modebar-btn')].map(button => button.dataset.title),
})"""


@contextmanager
def opened(browser: Any, path: Path, colours: str = "light", width: int = 1280) -> Iterator[Any]:
    """Open a page, and see afterwards that there was no error and no request but for the file itself."""
    context = browser.new_context(viewport={"width": width, "height": 900}, color_scheme=colours)
    page = context.new_page()
    problems: list[str] = []
    requests: list[str] = []
    page.on("console", lambda message: problems.append(message.text) if message.type in ("error", "warning") else None)
    page.on("pageerror", lambda error: problems.append(str(error)))
    page.on("request", lambda request: requests.append(request.url))
    page.goto(path.as_uri())
    yield page
    context.close()
    assert problems == []
    assert [url for url in requests if not url.startswith(("data:", "blob:"))] == [path.as_uri()]


def rgb(colour: str) -> str:
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgb({red}, {green}, {blue})"


@pytest.mark.parametrize(
    ("width", "colours"),
    [
        (390, "dark"),
        (1280, "light"),
        pytest.param(390, "light", marks=pytest.mark.slow),
        pytest.param(1280, "dark", marks=pytest.mark.slow),
    ],
)
@pytest.mark.parametrize("name", ["plan", "comparison"])
def test_every_plot_draws(browser: Any, pages: dict[str, Path], name: str, colours: str, width: int) -> None:
    ink = palette.INK if colours == "light" else palette.NIGHT[palette.INK]
    with opened(browser, pages[name], colours, width) as page:
        plots = page.eval_on_selector_all("[data-figure]", f"plots => plots.map({DRAWN})")
        assert [plot["id"] for plot in plots] == PLOTS[name]
        for plot in plots:
            assert plot["traces"] >= 1
            assert plot["shapes"] >= 1
            assert 200 < plot["width"] <= width
            assert plot["ink"] == rgb(ink)
            assert not [title for title in plot["buttons"] if "hare" in title or "loud" in title]
        assert page.evaluate("document.documentElement.scrollWidth") <= width


def wait_for_ink(page: Any, colour: str) -> None:
    """Wait until the plot of the privacy curve is drawn in this ink, some seconds at most."""
    for _ in range(100):
        found = page.evaluate("getComputedStyle(document.querySelector('#plot-privacy .xtitle')).fill")
        if found == rgb(colour):
            return
        page.wait_for_timeout(50)
    raise AssertionError(f"the ink is {found}, not {rgb(colour)}")


def test_plots_answer_to_the_mouse_and_follow_the_colours_and_the_printer(browser: Any, pages: dict[str, Path]) -> None:
    with opened(browser, pages["plan"]) as page:
        page.hover("#plot-strategy .trace path", force=True)
        page.wait_for_selector("#plot-strategy .hoverlayer .hovertext", state="attached")
        page.emulate_media(color_scheme="dark")
        wait_for_ink(page, palette.NIGHT[palette.INK])
        page.evaluate("dispatchEvent(new Event('beforeprint'))")
        wait_for_ink(page, palette.INK)
        page.evaluate("dispatchEvent(new Event('afterprint'))")
        wait_for_ink(page, palette.NIGHT[palette.INK])
        assert page.pdf().startswith(b"%PDF")


def test_the_certificate_can_be_taken_away(browser: Any, pages: dict[str, Path], plan: Plan) -> None:
    with opened(browser, pages["plan"]) as page:
        with page.expect_download() as download:
            page.click("[data-download]")
        taken = Certificate.from_json(Path(download.value.path()).read_text())
        assert download.value.suggested_filename == "certificate.json"
        assert taken.to_json() == plan.certificate.to_json()


def test_hostile_words_stay_words(browser: Any, plan: Plan, tmp_path: Path) -> None:
    write_report(plan, tmp_path / "hostile.html", command=HOSTILE)
    with opened(browser, tmp_path / "hostile.html") as page:
        assert page.evaluate("window.hostile") is None
        assert page.inner_text("#command") == HOSTILE
