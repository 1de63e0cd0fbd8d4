"""Errors of b-min-sep over those of others: `python -m experiments.heat_maps verified`, or `certified`, `estimated`.

The setting is the paper's: 1,024 iterations, delta 1e-3, 2 to 32 bands, epochs of 128 to 1,024 iterations, epsilon 0.5
to 16, and separations from the bands to the epoch, doubling. All designs are estimated. Those of a scheme that are near
its best are then verified as in the paper, or the best is calibrated with a certificate. Results are added to a file
one by one, so a killed command continues; `--draw` only draws what the file holds.
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, replace
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import typer

import minsep
from experiments.sweep import Record, Setting, read, sweep
from minsep.engine import LOCAL
from minsep.paper.comparison import COMPARED, EPOCHS, EPSILONS, OTHERS, verified_candidate
from minsep.participation import families
from minsep.planning.candidates import Candidate, candidates
from minsep.planning.request import Request
from minsep.planning.search import Search

ITERATIONS, DELTA, MOST_BANDS = 1024, 1e-3, 32
NEAR_BEST = 1.02
"""Designs whose estimated error is at most this many times the least of their scheme are verified."""
SLICE_TOLERANCE = 0.0101
"""One step of the verifier's ladder."""
RESULTS = Path("experiments/results/heat_maps.jsonl")
FIGURES = Path("docs/evidence")

SHARED: Setting = {"iterations": ITERATIONS, "delta": DELTA, "most_bands": MOST_BANDS}


class Numbers(StrEnum):
    """How noise multipliers are found."""

    estimated = "estimated"
    verified = "verified"
    certified = "certified"


IN_WORDS = {
    Numbers.estimated: "estimates at δ, without a guarantee",
    Numbers.verified: "verified as in the paper: powers of 1.01, plain samples, δ/2",
    Numbers.certified: "by certificates",
}


def main(
    numbers: Annotated[Numbers, typer.Argument(help="How noise multipliers are found.")],
    results: Annotated[Path, typer.Option(help="File of JSON lines.")] = RESULTS,
    figures: Annotated[Path, typer.Option(help="Folder of the figure.")] = FIGURES,
    draw: Annotated[bool, typer.Option("--draw", help="Compute nothing: draw what the file holds.")] = False,
) -> None:
    """Fill the grid of the paper's two figures, and draw them."""
    if not draw:
        fill(numbers, results, EPOCHS, EPSILONS)
    picture(read(results), numbers, figures / f"heat-maps-{numbers}.svg")


def fill(
    numbers: Numbers, path: Path, epochs: tuple[int, ...], epsilons: tuple[float, ...], shared: Setting = SHARED
) -> list[Record]:
    """Compute the cells that are not in the file, and return the records of all that were asked for."""
    cells = [
        {"numbers": "estimated", **shared, "epoch": epoch, "epsilon": epsilon}
        for epoch, epsilon in itertools.product(epochs, epsilons)
    ]
    estimated = sweep(cells, _estimate, path)
    if numbers is Numbers.estimated:
        return estimated
    settings = [setting for record in estimated for setting in _chosen(record, numbers)]
    return sweep(settings, _verify if numbers is Numbers.verified else _certify, path)


def _request(setting: Setting) -> Request:
    return Request(setting["epoch"], 1, setting["iterations"], setting["epsilon"], setting["delta"])


def _estimate(setting: Setting) -> dict[str, Any]:
    """Return the designs of a cell, the best of each scheme with better estimates."""
    request = replace(_request(setting), max_bands=setting["most_bands"], schemes=COMPARED)
    search = Search(request, 0, LOCAL, None)
    # With one band nothing needs to be kept apart; the paper begins with two.
    listed = [one for one in candidates(request) if one.bands > 1]
    tried = [one for one in search.estimate_all([one for one in listed if not one.skipped]) if not one.skipped]
    found = [one for scheme in COMPARED for one in search.refine([one for one in tried if one.scheme == scheme])]
    return {"designs": [_as_json(one) for one in found]}


def _as_json(candidate: Candidate) -> dict[str, Any]:
    names = ("scheme", "bands", "min_sep", "noise_multiplier", "error")
    return {name: value for name, value in asdict(candidate).items() if name in names}


def _chosen(record: Record, numbers: Numbers) -> Iterator[Setting]:
    """Yield the designs of a cell that are worth a test: all that are near the best, or the best alone."""
    tried = record["result"]["designs"]
    balls_in_bins = min(one["error"] for one in tried if one["scheme"] == minsep.BallsInBins.kind)
    for scheme in COMPARED:
        designs = [one for one in tried if one["scheme"] == scheme]
        least = min(one["error"] for one in designs)
        if numbers is Numbers.certified and scheme == minsep.MinSep.kind and least > NEAR_BEST * balls_in_bins:
            continue  # with a separation of an epoch it is balls-in-bins, and better
        most = NEAR_BEST * least if numbers is Numbers.verified else least
        for one in designs:
            if one["error"] <= most:
                near = round(one["noise_multiplier"], 4)
                design = {"scheme": scheme, "bands": one["bands"], "min_sep": one["min_sep"], "near": near}
                yield {**record["setting"], "numbers": str(numbers), **design}


def _candidate(setting: Setting) -> Candidate:
    exact = setting["scheme"] == minsep.CyclicPoisson.kind
    return Candidate(
        setting["scheme"], setting["bands"], setting["min_sep"], noise_multiplier=setting["near"], exact=exact
    )


def _verify(setting: Setting) -> dict[str, Any]:
    request, candidate = _request(setting), _candidate(setting)
    if candidate.exact:
        return _with_error(request, candidate, setting["near"])
    found = verified_candidate(candidate, request, Search(request, 0, LOCAL, None), LOCAL)
    return {"noise_multiplier": found.noise_multiplier, "error": found.error}


def _certify(setting: Setting) -> dict[str, Any]:
    request, candidate = _request(setting), _candidate(setting)
    if candidate.exact:
        return _with_error(request, candidate, setting["near"]) | {"samples": 0, "fallback": ""}
    found = minsep.calibrate(
        candidate.design(request), epsilon=request.epsilon, delta=request.delta, near=setting["near"], seed=0
    )
    assert found.certificate.passed
    result = _with_error(request, candidate, found.mechanism.noise_multiplier)
    return result | {"samples": sum(rung.samples for rung in found.rungs), "fallback": found.fallback}


def _with_error(request: Request, candidate: Candidate, noise_multiplier: float) -> dict[str, Any]:
    error = request.workload.error(candidate.strategy(request), noise_multiplier)
    return {"noise_multiplier": noise_multiplier, "error": error}


def best_designs(records: list[Record], numbers: Numbers) -> dict[tuple[int, float], dict[str, dict[str, Any]]]:
    """Return the best design of each scheme for every epoch and epsilon of a file.

    b-min-sep with a separation of an epoch is balls-in-bins, so that counts for both.
    """
    cells: dict[tuple[int, float], list[dict[str, Any]]] = {}
    for record in records:
        setting, result = record["setting"], record["result"]
        if setting["numbers"] == numbers and not result.get("fallback"):
            designs = result["designs"] if numbers is Numbers.estimated else [{**setting, **result}]
            cells.setdefault((setting["epoch"], setting["epsilon"]), []).extend(designs)
    found = {}
    for cell, designs in cells.items():
        designs = designs + [
            {**one, "scheme": minsep.MinSep.kind} for one in designs if one["scheme"] == minsep.BallsInBins.kind
        ]
        found[cell] = {
            scheme: min((one for one in designs if one["scheme"] == scheme), key=lambda one: one["error"])
            for scheme in COMPARED
            if any(one["scheme"] == scheme for one in designs)
        }
    return found


def ratios(records: list[Record], numbers: Numbers, other: str) -> dict[tuple[int, float], float]:
    """Return the mean squared error of b-min-sep over that of another scheme, for every epoch and epsilon."""
    return {
        cell: (best[minsep.MinSep.kind]["error"] / best[other]["error"]) ** 2
        for cell, best in best_designs(records, numbers).items()
        if {minsep.MinSep.kind, other} <= set(best)
    }


def picture(records: list[Record], numbers: Numbers, path: Path) -> None:
    """Draw the two heat maps, with the best design of b-min-sep in each cell."""
    from matplotlib.colors import LinearSegmentedColormap
    from matplotlib.figure import Figure

    from experiments.figures import saved, styled
    from minsep.show import palette

    best = best_designs(records, numbers)
    epochs, epsilons = (sorted({cell[place] for cell in best}) for place in (0, 1))
    colours = LinearSegmentedColormap.from_list("ratios", list(palette.DIVERGING))
    with styled(grid=False):
        figure = Figure(figsize=(13, 4.2), layout="constrained")
        figure.suptitle(
            "Mean squared error of b-min-sep over that of another scheme, below 1 is better; "
            f"n = 1,024, δ = 1e-3\nNoise {IN_WORDS[numbers]}. Below each ratio: bands / b of b-min-sep",
            fontsize=10.5,
            x=0.01,
            ha="left",
        )
        for axes, other in zip(figure.subplots(1, 2), OTHERS, strict=True):
            values = ratios(records, numbers, other)
            table = np.array([[values.get((epoch, eps), np.nan) for eps in epsilons] for epoch in epochs])
            axes.imshow(np.log2(table), cmap=colours, vmin=-1, vmax=1, aspect="auto", origin="lower")
            for (row, column), value in np.ndenumerate(table):
                if (epochs[row], epsilons[column]) in values:
                    one = best[epochs[row], epsilons[column]][minsep.MinSep.kind]
                    text = f"{value:.3f}\n{one['bands']} / {one['min_sep']}"
                    axes.text(column, row, text, ha="center", va="center", fontsize=9)
            axes.set_title(f"Against {families()[other].words}")
            axes.set_xticks(range(len(epsilons)), [f"{epsilon:g}" for epsilon in epsilons])
            axes.set_yticks(range(len(epochs)), [f"{epoch:,}" for epoch in epochs])
            axes.set(xlabel="ε", ylabel="epoch length |D| / B")
            axes.tick_params(length=0)
            axes.spines[:].set_visible(False)
        saved(figure, path)


def repeat_slice(results: Path = RESULTS) -> list[str]:
    """Compute the best b-min-sep design of one cell again, in three ways, and compare with the file of results."""
    committed, lines = read(results), []
    for numbers, compute in ((Numbers.verified, _verify), (Numbers.certified, _certify)):
        best = best_designs(committed, numbers)[512, 4.0][minsep.MinSep.kind]
        record = next(
            record
            for record in committed
            if record["setting"]["numbers"] == numbers and {**record["setting"], **record["result"]} == best
        )
        found = compute(record["setting"])["noise_multiplier"]
        known = record["result"]["noise_multiplier"]
        if abs(found / known - 1) > SLICE_TOLERANCE:
            raise AssertionError(f"The noise is {found:.4f} ({numbers}), but the file says {known:.4f}.")
        lines.append(f"epoch 512, epsilon 4, {numbers}: noise {found:.4f}; {known:.4f} in the file")
    return lines


if __name__ == "__main__":
    typer.run(main)
