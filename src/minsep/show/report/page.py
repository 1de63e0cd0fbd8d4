"""A self-contained HTML page. All external text is escaped."""

import json
import re
from collections.abc import Iterable, Sequence
from html import escape
from importlib.resources import files
from typing import Any

import numpy as np
from plotly.offline import get_plotlyjs

from minsep.paper.comparison import OTHERS, Comparison
from minsep.planning import FAMILIES, Candidate, Plan, rankings
from minsep.show import palette
from minsep.show.report import data, figures
from minsep.training.snippet import training_lines

# The browser itself refuses every request to the network.
_POLICY = (
    "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:; "
    "base-uri 'none'; form-action 'none'"
)


def plan_page(plan: Plan, command: str) -> str:
    """Return the report of a plan."""
    task = plan.task
    numbers = "".join(
        f'<div><dt>{escape(name)}</dt><dd><span class="value">{escape(value)}</span>'
        f'<span class="remark">{_prose(remark)}</span></dd></div>'
        for name, value, remark in data.key_numbers(plan)
    )
    cut = "" if task.max_batch_size is None else f", truncated to {task.max_batch_size:,}"
    header = (
        f'<p class="eyebrow">A plan for {task.num_examples:,} examples, batches of {task.batch_size:g}{cut}, '
        f"{task.iterations:,} iterations</p>"
        f"<h1>{_prose(_capital(plan.chosen.name))}</h1>"
        f'<p class="answer">{_prose(plan.statement)}</p>'
        + "".join(f"<p>{_prose(sentence)}</p>" for sentence in data.gains(plan))
        + f'<dl class="numbers">{numbers}</dl>'
    )
    sections = [
        _section("Certificate", _certificate(plan)),
        _section("Privacy", _privacy(plan)),
        _section("Noise and error of all candidates", _search(plan)),
        _section("Batch sizes", _batches(plan)),
        _section("Strategy", _strategy(plan)),
        _section("Reproduce this plan", _again(plan, command)),
        *([_section("Train with this plan", _training(plan))] if plan.certified else []),
    ]
    return _page(f"Plan: {plan.chosen.name}", header, sections, plan.certificate.versions.get("minsep", ""))


def comparison_page(comparison: Comparison) -> str:
    """Return the heat maps of a comparison as a page."""
    header = (
        f'<p class="eyebrow">{comparison.iterations:,} iterations, δ = {comparison.delta:g}, at most '
        f"{comparison.max_bands} bands</p><h1>{_prose('b-min-sep compared with cyclic Poisson and balls-in-bins')}</h1>"
        + '<p class="answer">'
        + _prose(
            "Mean squared error of prefix sums with b-min-sep divided by that of another scheme, each at its best "
            "number of bands and b-min-sep at its best separation. Below 1, b-min-sep is better. "
            + (
                "Noise is calibrated by the paper's verifier, in powers of 1.01. These are no guarantees either."
                if comparison.verified
                else "Numbers are estimates, not guarantees."
            )
        )
        + "</p>"
    )
    limit = data.widest(comparison, OTHERS)
    maps = "".join(
        f"<div><h2>Against {escape(FAMILIES[other].words)}</h2>"
        + _figure(
            f"ratios-{other}",
            figures.ratio_map(comparison, other, limit),
            data.verdict(comparison, other),
            _table(
                ["epoch length", *(f"ε = {epsilon:g}" for epsilon in comparison.epsilons)],
                [
                    [f"{epoch:,}", *(f"{ratio:.3f}" for ratio in row)]
                    for epoch, row in zip(comparison.epochs, data.ratios(comparison, other), strict=True)
                ],
            ),
            tall=True,
        )
        + "</div>"
        for other in OTHERS
    )
    cells = [
        [
            f"{cell.epoch:,}",
            f"{cell.epsilon:g}",
            candidate.name,
            f"{candidate.noise_multiplier:.4g}",
            f"{candidate.error:.4g}",
        ]
        for cell in comparison.cells
        for candidate in cell.best.values()
    ]
    best = _table(["epoch length", "ε", "mechanism", "noise multiplier", "error"], cells)
    sections = [f'<section class="pair">{maps}</section>', _section("The best of each scheme", _details(best))]
    return _page("b-min-sep compared with other schemes", header, sections, "")


def _certificate(plan: Plan) -> str:
    certificate = plan.certificate
    if plan.estimated:
        return (
            '<p class="status refused">An estimate, not certified</p>'
            "<p>Nothing here is proven. Plan without <code>--estimate</code> before you train.</p>"
        )
    condition = "CONDITIONAL: " if certificate.conditional else ""
    status = (
        f'<p class="status">✓ {condition}Certified</p>'
        if certificate.passed
        else '<p class="status refused">✗ Not certified</p>'
    )
    rows = [
        [proof.direction, proof.question, proof.summary, "passed" if proof.passed else "refused"]
        for proof in data.proofs(certificate)
    ]
    return (
        f"{status}<p>{_prose(certificate.statement)}</p>"
        + _table(["direction", "what is bounded", "how it was shown", "outcome"], rows, text=True)
        + "<p>Anyone can check it: save the certificate and run <code>minsep verify certificate.json</code>. "
        "It contains no personal data.</p>"
        '<p><button type="button" data-download="certificate" data-name="certificate.json">Download the certificate'
        '</button><button type="button" data-copy="certificate">Copy</button></p>'
        "<details><summary>The certificate as JSON</summary>"
        f'<pre class="long" tabindex="0" id="certificate">{escape(certificate.to_json())}</pre></details>'
    )


def _privacy(plan: Plan) -> str:
    curve = data.curve(plan)
    rows = [
        [f"{epsilon:.4g}", f"{remove:.3g}", f"{add:.3g}", "not resolved" if np.isinf(stderr) else f"{stderr:.1g}"]
        for epsilon, remove, add, stderr in zip(curve.epsilons, curve.remove, curve.add, curve.stderrs, strict=True)
    ]
    return "<p>How δ falls as ε grows, for the mechanism of this plan.</p>" + _figure(
        "privacy",
        figures.privacy(plan),
        curve.words,
        _table(["ε", "δ, remove", "δ, add", "standard error of the larger"], rows),
    )


def _search(plan: Plan) -> str:
    tried, skipped = data.tried(plan), data.skipped(plan)
    all_series = data.series(plan)
    introduction = (
        f"<p>{len(tried):,} mechanisms at ({plan.task.epsilon:g}, {plan.task.delta:g})-DP, each scheme with its best "
        f"separation. The error is the root mean square of {escape(plan.task.workload.name)} for clip norm 1: smaller "
        "is better. The star is the plan, with certified noise; the others are computed where possible and otherwise "
        "estimated.</p>"
    )
    parts = []
    for quantity, title in (("error", "Error"), ("noise_multiplier", "Noise multiplier")):
        caption = "; ".join(
            f"{series.name}: {min(series.errors if quantity == 'error' else series.noise_multipliers):.4g}"
            for series in all_series
        )
        parts.append(
            f"<div><h3>{title}</h3>"
            + _figure(quantity.replace("_", "-"), figures.by_bands(plan, quantity), f"Least of each: {caption}.", "")
            + "</div>"
        )
    table = _table(
        ["mechanism", "bands", "separation", "noise multiplier", "error", "how it is known"],
        [_candidate_row(candidate) for candidate in tried],
        chosen={tried.index(plan.chosen)} if plan.chosen in tried else set(),
    )
    text = (
        introduction + f'<div class="pair">{"".join(parts)}</div>' + _details(table, f"All {len(tried):,} mechanisms")
    )
    by_workload = [
        [found.workload.name, found.best.name, f"{found.error:.4g}", f"{found.plan_error:.4g}"]
        for found in rankings(plan)
    ]
    text += (
        "<h3>By other workloads</h3><p>Which mechanism is best depends on what the optimiser makes of the noise. With "
        "a short horizon, noise of long ago does not matter, and independent noise may be best.</p>"
        + _table(["workload", "best of those tried", "its error", "error of the plan"], by_workload, text=True)
    )
    if skipped:
        rows = [[candidate.name, candidate.skipped] for candidate in skipped]
        text += _details(_table(["mechanism", "reason"], rows, text=True), f"{len(skipped):,} skipped, with reasons")
    return text


def _candidate_row(candidate: Candidate) -> list[str]:
    kind = "computed" if candidate.exact else "estimate"
    return [
        candidate.name,
        f"{candidate.bands:,}",
        f"{candidate.min_sep:,}",
        f"{candidate.noise_multiplier:.4g}",
        f"{candidate.error:.4g}",
        kind,
    ]


def _batches(plan: Plan) -> str:
    batch_sizes = data.batch_sizes(plan)
    if batch_sizes.sizes.size == 0:
        return f"<p>{escape(batch_sizes.words)}</p>"
    quantiles = [0, 5, 25, 50, 75, 95, 100]
    values = np.percentile(batch_sizes.sizes, quantiles)
    rows = [[f"{quantile} %", f"{value:,.6g}"] for quantile, value in zip(quantiles, values, strict=True)]
    return _figure("batches", figures.batches(plan), batch_sizes.words, _table(["share of batches", "at most"], rows))


def _strategy(plan: Plan) -> str:
    coefficients = data.coefficients(plan)
    words = (
        "The first column of the strategy matrix C, of norm 1. The noise comes from its inverse: later iterations "
        "partly cancel the noise of earlier ones."
    )
    headings, columns = ["iterations back", "coefficient"], [coefficients.chosen]
    if coefficients.paper is not None:
        headings.append("the paper's choice")
        columns.append(coefficients.paper)
    rows = [[str(place), *(f"{value:.5f}" for value in row)] for place, row in enumerate(zip(*columns, strict=True))]
    return _figure("strategy", figures.strategy(plan), words, _table(headings, rows))


def _again(plan: Plan, command: str) -> str:
    versions = ", ".join(f"{name} {value}" for name, value in plan.certificate.versions.items())
    return (
        f'<pre class="wrap" id="command">{escape(command)}</pre>'
        '<p><button type="button" data-copy="command">Copy</button></p>'
        f'<p class="quiet">Seed of the certificate: {plan.seed}. Fingerprint of the mechanism: '
        f"<code>{escape(plan.mechanism.fingerprint[:16])}</code>. Made with {escape(versions)}.</p>"
    )


def _training(plan: Plan) -> str:
    task = plan.task
    lines = training_lines(
        task.num_examples,
        task.iterations,
        workload=task.workload,
        user_bound=None if task.graph is None else task.user_bound,
    )
    return (
        "<p>Download the certificate, and put your data and your model in the place of those made up here.</p>"
        f'<pre id="training" tabindex="0">{escape(lines)}</pre>'
        '<p><button type="button" data-copy="training">Copy</button></p>'
        f"<p>{_prose(data.adam(plan))}</p>"
    )


def _section(title: str, content: str) -> str:
    return f"<section><h2>{escape(title)}</h2>{content}</section>"


def _figure(name: str, figure: Any, words: str, table: str, *, tall: bool = False) -> str:
    # An opening angle bracket could end the script element; JSON allows it as a Unicode escape.
    drawn = figure.to_json().replace("<", "\\u003c")
    return (
        f'<figure><div class="plot{" tall" if tall else ""}" id="plot-{name}" data-figure="figure-{name}" role="img" '
        f'aria-label="{escape(words)}"></div><script type="application/json" id="figure-{name}">{drawn}</script>'
        f"<figcaption>{_prose(words)}</figcaption>{_details(table)}</figure>"
    )


def _details(table: str, summary: str = "The numbers") -> str:
    return f"<details><summary>{escape(summary)}</summary>{table}</details>" if table else ""


def _table(
    headings: Sequence[str], rows: Iterable[Sequence[str]], *, text: bool = False, chosen: Iterable[int] = ()
) -> str:
    """Return a table: the first column names its row, the others are numbers unless they are text."""
    kind = "" if text else ' class="number"'
    first, *others = headings
    head = f'<th scope="col">{escape(first)}</th>' + "".join(
        f'<th scope="col"{kind}>{escape(heading)}</th>' for heading in others
    )
    body = "".join(
        f'<tr{" class=chosen" if place in chosen else ""}><th scope="row">{escape(row[0])}</th>'
        + "".join(
            f'<td{kind} data-heading="{escape(heading)}">{escape(value)}</td>'
            for heading, value in zip(others, row[1:], strict=True)
        )
        + "</tr>"
        for place, row in enumerate(rows)
    )
    return (
        f'<div class="scroll{" words" if text else ""}" tabindex="0" role="region" aria-label="Table">'
        f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table></div>"
    )


def _prose(text: str) -> str:
    """Return escaped text in which no line breaks within a name."""
    return re.sub(r"b-min-sep|\([^()]*\)-DP", r'<span class="whole">\g<0></span>', escape(text))


def _capital(name: str) -> str:
    """Return a name as a heading; b-min-sep stays as it is."""
    return name if name.startswith("b-") else name[0].upper() + name[1:]


def _page(title: str, header: str, sections: Iterable[str], version: str) -> str:
    assets = files("minsep.show.report") / "assets"
    style, script = ((assets / name).read_text(encoding="utf-8") for name in ("page.css", "page.js"))
    made = f"Made by minsep {escape(version)}." if version else "Made by minsep."
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        f'<meta http-equiv="Content-Security-Policy" content="{_POLICY}">'
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f'<title>{escape(title)}</title><link rel="icon" href="data:,"><style>{style}</style></head><body>'
        f"<header>{header}</header><main>{''.join(sections)}</main>"
        f"<footer><p>{made} This page needs no network.</p>"
        "<noscript><p>The plots need JavaScript; the tables hold their numbers.</p></noscript></footer>"
        f'<script type="application/json" id="night">{json.dumps(palette.NIGHT)}</script>'
        f"<script>{get_plotlyjs()}</script><script>{script}</script></body></html>\n"
    )
