import builtins
import os
import re
import sys
from dataclasses import replace
from html import unescape
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

import minsep
from minsep.core.install import install_command
from minsep.paper import Comparison
from minsep.participation import families
from minsep.planning import Plan
from minsep.show import palette
from minsep.show.report import plot, plot_comparison, write_comparison, write_report
from minsep.training.snippet import training_lines

HOSTILE = "</script><script>window.hostile=1</script><img src=x onerror='window.hostile=1'>\"&"


class Links(HTMLParser):
    """Collects what a page would load, and counts its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.links: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "srcset", "action", "data")]


def refused(plan: Plan) -> Plan:
    """The plan, with a certificate that did not pass."""
    certificate = minsep.certify(plan.mechanism, 0.01, 1e-9, max_samples=1000, seed=0)
    assert not certificate.passed
    return replace(plan, certificate=certificate)


@pytest.mark.parametrize("name", ["plan", "comparison"])
def test_pages_load_nothing(pages: dict[str, Path], name: str) -> None:
    text = pages[name].read_text()
    found = Links(text)
    assert found.links == ["data:,"]
    assert "default-src 'none'" in text
    style = text[text.index("<style>") : text.index("</style>")]
    assert "url(" not in style
    assert "@import" not in style
    assert text.count("plotly.js v") == 1


def test_whatever_comes_from_outside_is_escaped(plan: Plan, tmp_path: Path) -> None:
    table = (*plan.table, replace(plan.table[-1], skipped=HOSTILE))
    certificate = replace(plan.certificate, versions={"minsep": HOSTILE, HOSTILE: "1"})
    changed = replace(plan, table=table, certificate=certificate)
    write_report(plan, tmp_path / "plain.html")
    write_report(changed, tmp_path / "hostile.html", command=HOSTILE)
    plain, hostile = (Links((tmp_path / name).read_text()) for name in ("plain.html", "hostile.html"))
    assert hostile.tags.count("script") == plain.tags.count("script")
    assert "img" not in hostile.tags
    assert HOSTILE not in (tmp_path / "hostile.html").read_text()


def test_a_report_ends_with_the_lines_that_train(plan: Plan, pages: dict[str, Path], tmp_path: Path) -> None:
    lines = training_lines(plan.request.num_examples, plan.request.iterations, workload=plan.request.workload)
    text = pages["plan"].read_text()
    shown = text[text.index('<pre id="training"') :]
    assert unescape(shown[shown.index(">") + 1 : shown.index("</pre>")]) == lines
    assert "is stable up to clip norm" in shown
    write_report(refused(plan), tmp_path / "refused.html")
    assert "Train with this plan" not in (tmp_path / "refused.html").read_text()


def test_the_title_of_a_report_is_its_answer(plan: Plan, pages: dict[str, Path]) -> None:
    text = pages["plan"].read_text()
    heading = plan.headline[0].upper() + plan.headline[1:]
    assert f"<title>{heading}</title>" in text
    assert unescape(text[text.index("<h1>") : text.index("</h1>")]).replace("\u00a0", " ").count("DP-SGD") == 1


def test_only_a_certified_plan_has_a_certified_point(plan: Plan, pages: dict[str, Path], tmp_path: Path) -> None:
    promises = ("The guarantee is the certified point", "with its certified noise")
    assert all(promise in pages["plan"].read_text() for promise in promises)
    write_report(refused(plan), tmp_path / "refused.html")
    assert not any(promise in (tmp_path / "refused.html").read_text() for promise in promises)


def test_an_interrupted_write_leaves_the_old_file(plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "plan.html"
    path.write_text("old")

    def fail(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "replace", fail)
    monkeypatch.setattr(Path, "replace", fail)
    with pytest.raises(KeyboardInterrupt):
        write_report(plan, path)
    assert path.read_text() == "old"
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("suffix", ["png", "svg"])
def test_pictures(plan: Plan, comparison: Comparison, tmp_path: Path, suffix: str) -> None:
    starts = {"png": b"\x89PNG", "svg": b"<?xml"}
    for draw, what in ((plot, plan), (plot_comparison, comparison)):
        first, second = tmp_path / f"first.{suffix}", tmp_path / f"second.{suffix}"
        draw(what, first)  # type: ignore[operator]
        draw(what, second)  # type: ignore[operator]
        assert first.read_bytes().startswith(starts[suffix])
        assert first.read_bytes() == second.read_bytes()


def test_a_picture_says_how_its_comparison_was_calibrated(comparison: Comparison, tmp_path: Path) -> None:
    texts = {}
    for verified in (False, True):
        path = tmp_path / f"{verified}.svg"
        plot_comparison(replace(comparison, verified=verified), path)
        texts[verified] = path.read_text()
    assert "estimates" in texts[False]
    assert "estimates" not in texts[True]
    assert "calibrated by the paper's verifier" in texts[True]


def test_other_suffixes_and_folders_are_refused_at_once(plan: Plan, comparison: Comparison, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"but its suffix must be .png or .svg."):
        plot(plan, tmp_path / "plan.gif")
    with pytest.raises(ValueError, match=r"but its suffix must be .png or .svg."):
        plot_comparison(comparison, tmp_path / "ratios")
    for write, what in ((write_report, plan), (write_comparison, comparison)):
        with pytest.raises(ValueError, match="does not exist"):
            write(what, tmp_path / "nowhere" / "page.html")  # type: ignore[operator]


@pytest.mark.parametrize(("package", "module"), [("plotly", "interactive"), ("matplotlib", "pictures")])
def test_a_missing_extra_is_one_sentence(
    plan: Plan, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, package: str, module: str
) -> None:
    real = builtins.__import__

    def without(name: str, *rest: Any, **named: Any) -> Any:
        if name.partition(".")[0] == package:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    users = (f"minsep.show.plots.{module}", "minsep.show.report.page", "minsep.show.report.pictures")
    for loaded in [name for name in sys.modules if name in users]:
        monkeypatch.delitem(sys.modules, loaded)
    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(ImportError, match=re.escape(f"need {package}: {install_command('report')}")):
        write_report(plan, tmp_path / "a.html") if package == "plotly" else plot(plan, tmp_path / "a.png")


def _luminance(colour: str) -> float:
    channels = [int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)]
    linear = [value / 12.92 if value <= 0.04045 else ((value + 0.055) / 1.055) ** 2.4 for value in channels]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(one: str, other: str) -> float:
    high, low = sorted([_luminance(one), _luminance(other)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def test_colours_have_contrast_by_day_and_by_night() -> None:
    style = (files("minsep.show.templates") / "report.css").read_text()
    themes = [dict(re.findall(r"--(\w+): (#\w{6});", part)) for part in style.split("prefers-color-scheme: dark")[:2]]
    assert {"paper", "ink", "quiet", "accent", "good", "bad"} <= set(themes[0]) & set(themes[1])
    for theme, shade in zip(themes, (lambda colour: colour, palette.NIGHT.__getitem__), strict=True):
        for name in ("ink", "quiet", "accent", "good", "bad"):
            assert contrast(theme[name], theme["paper"]) >= 4.5, name
        for colour in (palette.INK, palette.QUIET):
            assert contrast(shade(colour), theme["paper"]) >= 4.5
        for colour in (*(style.colour for style in map(palette.style_of, families())), palette.PALE):
            assert contrast(shade(colour), theme["paper"]) >= 2.9, colour
        for colour in palette.DIVERGING:
            assert contrast(shade(palette.INK), shade(colour)) >= 4.5, colour
