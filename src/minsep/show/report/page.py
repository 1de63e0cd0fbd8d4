"""The pages of reports: what their templates show."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from markupsafe import Markup
from plotly.offline import get_plotlyjs

from minsep.core.numbers import in_bytes
from minsep.paper.comparison import OTHERS, Comparison
from minsep.planning import Candidate, Plan, rankings
from minsep.planning.memory import memory_frontier
from minsep.show import palette
from minsep.show.plots import HeatMap, Plot
from minsep.show.plots.interactive import drawn
from minsep.show.report import data, figures
from minsep.show.templates import render
from minsep.training.snippet import training_lines


@dataclass(frozen=True)
class Table:
    """Rows of cells: the first names its row, the others are numbers unless they are `text`; one may be `chosen`."""

    headings: Sequence[str]
    rows: Sequence[Sequence[str]]
    text: bool = False
    chosen: int | None = None


@dataclass(frozen=True)
class Figure:
    """A plot, if there is one, with what it shows in words and in numbers."""

    name: str
    plot: Plot | HeatMap | None
    words: str
    table: Table | None = None
    tall: bool = False

    def to_json(self) -> str:
        """Return what Plotly draws."""
        return "" if self.plot is None else str(drawn(self.plot).to_json())


def plan_page(plan: Plan, command: str) -> str:
    """Return the report of a plan."""
    return _page(
        "plan.html",
        plan=plan,
        request=plan.request,
        certificate=plan.certificate,
        heading=_capital(plan.headline),
        mechanism=_capital(plan.chosen.name),
        gains=data.gains(plan),
        key_numbers=data.key_numbers(plan),
        proofs=Table(
            ["direction", "what is bounded", "how it was shown", "outcome"],
            data.proof_rows(plan.certificate),
            text=True,
        ),
        privacy=_privacy(plan),
        costs=[("Error", _by_bands(plan, "error")), ("Noise multiplier", _by_bands(plan, "noise_multiplier"))],
        tried=_tried(plan),
        memory=_memory(plan),
        workloads=_workloads(plan),
        skipped=Table(
            ["mechanism", "reason"],
            [[candidate.name, candidate.skipped] for candidate in data.skipped(plan)],
            text=True,
        ),
        batches=_batches(plan),
        strategy=_strategy(plan),
        command=command,
        training=_training(plan) if plan.certified else None,
    )


def comparison_page(comparison: Comparison) -> str:
    """Return the heat maps of a comparison as a page."""
    return _page(
        "comparison.html",
        comparison=comparison,
        certainty=data.certainty(comparison),
        maps=[_ratios(comparison, other) for other in OTHERS],
        best=_best(comparison),
    )


def _page(template: str, **values: Any) -> str:
    return render(template, night=palette.NIGHT, plotly=Markup(get_plotlyjs()), **values)


def _privacy(plan: Plan) -> Figure:
    curve = data.curve(plan)
    rows = [
        [f"{epsilon:.4g}", f"{remove:.3g}", f"{add:.3g}", "not resolved" if np.isinf(stderr) else f"{stderr:.1g}"]
        for epsilon, remove, add, stderr in zip(curve.epsilons, curve.remove, curve.add, curve.stderrs, strict=True)
    ]
    table = Table(["ε", "δ, remove", "δ, add", "standard error of the larger"], rows)
    words = curve.words + (" The guarantee is the certified point." if plan.certified and not curve.exact else "")
    return Figure("privacy", figures.privacy(plan), words, table)


def _by_bands(plan: Plan, quantity: str) -> Figure:
    least = "; ".join(
        f"{series.name}: {min(series.errors if quantity == 'error' else series.noise_multipliers):.4g}"
        for series in data.series(plan)
    )
    words = f"Lowest point of each curve: {least}."
    outside = data.errors_outside(plan) if quantity == "error" else []
    if outside:
        words += f" Above the plot: {len(outside)}, with errors up to {max(outside):.4g}."
    return Figure(quantity.replace("_", "-"), figures.by_bands(plan, quantity), words)


def _tried(plan: Plan) -> Table:
    tried = data.tried(plan)
    return Table(
        ["mechanism", "bands", "separation", "noise multiplier", "error", "how it is known"],
        [
            [
                candidate.name,
                f"{candidate.bands:,}" if candidate.is_banded else "dense",
                f"{candidate.min_sep:,}",
                *_cost(candidate),
                "computed" if candidate.exact else "estimate",
            ]
            for candidate in tried
        ],
        chosen=tried.index(plan.chosen) if plan.chosen in tried else None,
    )


def _memory(plan: Plan) -> Table | None:
    """Return the frontier of error against the memory of noise, if the size of the model is known."""
    points = memory_frontier(plan)
    if not points:
        return None
    return Table(
        ["mechanism", "memory", "rows drawn a step", "error", "fits"],
        [
            [
                point.candidate.name,
                in_bytes(point.noise_bytes),
                f"{point.drawn_rows}",
                f"{point.candidate.error:.4g}",
                "yes" if point.fits else "no",
            ]
            for point in points
        ],
        chosen=next((place for place, one in enumerate(points) if one.candidate.name == plan.chosen.name), None),
    )


def _workloads(plan: Plan) -> Table:
    return Table(
        ["workload", "best of those tried", "its error", "error of the plan's mechanism"],
        [
            [found.workload.name, found.best.name, f"{found.error:.4g}", f"{found.plan_error:.4g}"]
            for found in rankings(plan)
        ],
        text=True,
    )


def _batches(plan: Plan) -> Figure:
    batch_sizes = data.batch_sizes(plan)
    if batch_sizes.sizes.size == 0:
        return Figure("batches", None, batch_sizes.words)
    quantiles = [0, 5, 25, 50, 75, 95, 100]
    values = np.percentile(batch_sizes.sizes, quantiles)
    rows = [[f"{quantile} %", f"{value:,.6g}"] for quantile, value in zip(quantiles, values, strict=True)]
    return Figure("batches", figures.batches(plan), batch_sizes.words, Table(["share of batches", "at most"], rows))


def _strategy(plan: Plan) -> Figure:
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
    return Figure("strategy", figures.strategy(plan), words, Table(headings, rows))


def _training(plan: Plan) -> dict[str, str]:
    request = plan.request
    user_bound = None if request.graph is None else request.user_bound
    lines = training_lines(request.num_examples, request.iterations, workload=request.workload, user_bound=user_bound)
    return {"lines": lines, "stability": data.adam(plan)}


def _ratios(comparison: Comparison, other: str) -> Figure:
    table = Table(
        ["epoch length", *(f"ε = {epsilon:g}" for epsilon in comparison.epsilons)],
        [
            [f"{epoch:,}", *(f"{ratio:.3f}" for ratio in row)]
            for epoch, row in zip(comparison.epochs, data.ratios(comparison, other), strict=True)
        ],
    )
    words = data.verdict(comparison, other)
    return Figure(f"ratios-{other}", figures.ratios(comparison, other), words, table, tall=True)


def _best(comparison: Comparison) -> Table:
    return Table(
        ["epoch length", "ε", "mechanism", "noise multiplier", "error"],
        [
            [f"{cell.epoch:,}", f"{cell.epsilon:g}", candidate.name, *_cost(candidate)]
            for cell in comparison.cells
            for candidate in cell.best.values()
        ],
    )


def _cost(candidate: Candidate) -> list[str]:
    return [f"{candidate.noise_multiplier:.4g}", f"{candidate.error:.4g}"]


def _capital(name: str) -> str:
    """Return a name as a heading; b-min-sep stays as it is."""
    return name if name.startswith("b-") else name[0].upper() + name[1:]
