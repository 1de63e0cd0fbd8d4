"""What the runs on papers and authors show: summaries over seeds, and their figure, from the files of results alone."""

import math
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

from scipy import stats

from experiments.figures import saved, styled
from experiments.sweep import Record, read
from minsep.show import palette

COLOURS = {"dp-sgd": palette.GREY, "unamplified": palette.ORANGE, "b-min-sep": palette.BLUE}
IN_WORDS = {
    "dp-sgd": "DP-SGD",
    "unamplified": "BandMF, not amplified",
    "b-min-sep": "BandMF, b-min-sep (b chosen on papers kept aside)",
}
FEATURES = {"minilm": "frozen MiniLM features", "words": "hashed words"}


class Summary(NamedTuple):
    """Mean over seeds of a measure, and half the width of Student's 95 % interval."""

    mean: float
    half: float
    seeds: int


class Place(NamedTuple):
    """A point of the figure."""

    user_bound: int
    epsilon: float
    method: str
    bands: int


def draw_all(results: Path, figures: Path, features: str) -> None:
    """Draw the results of one kind of features."""
    picture(
        read(results / f"papers_{features}.jsonl"), read(results / f"papers_{features}_tuning.jsonl"), features, figures
    )


def summary(values: list[float]) -> Summary:
    """Return the mean and its interval; with one value the interval is unknown.

    >>> summary([1.0, 2.0, 3.0]).mean
    2.0
    """
    mean = sum(values) / len(values)
    if len(values) < 2:
        return Summary(mean, math.nan, 1)
    deviation = math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))
    half = float(stats.t.ppf(0.975, len(values) - 1)) * deviation / math.sqrt(len(values))
    return Summary(mean, half, len(values))


def place_of(setting: dict[str, Any]) -> Place:
    """Return the point that a setting belongs to."""
    return Place(setting["user_bound"], setting["epsilon"], setting["method"], setting["bands"])


def summaries(tests: list[Record], measure: str) -> dict[Place, Summary]:
    """Return the summary of a measure at each point."""
    values: dict[Place, list[float]] = defaultdict(list)
    for record in tests:
        values[place_of(record["setting"])].append(record["result"][measure])
    return {place: summary(some) for place, some in values.items()}


def kept_aside(tuning: list[Record], optimisers: tuple[str, ...] = ("sgd", "adam")) -> dict[Place, float]:
    """Return the least loss on papers kept aside at each point, by any setting of some optimisers."""
    least: dict[Place, float] = {}
    for record in tuning:
        if record["setting"]["optimiser"] in optimisers:
            place = place_of(record["setting"])
            least[place] = min(least.get(place, math.inf), *(one["loss"] for one in record["result"]["tried"]))
    return least


def best_bands(tuning: list[Record]) -> dict[Place, Place]:
    """Return for each point the one with the number of bands that does best on papers kept aside."""
    best: dict[Place, Place] = {}
    losses = kept_aside(tuning)
    for place in losses:
        key = place._replace(bands=0)
        if key not in best or losses[place] < losses[best[key]]:
            best[key] = place
    return best


def picture(tests: list[Record], tuning: list[Record], features: str, folder: Path) -> None:
    """Draw test loss and test accuracy over epsilon, for each bound on the papers of an author."""
    from matplotlib.figure import Figure

    bounds = sorted({record["setting"]["user_bound"] for record in tests})
    best = best_bands(tuning)
    with styled():
        figure = Figure(figsize=(5.2 * len(bounds), 7), layout="constrained")
        table = figure.subplots(2, len(bounds), squeeze=False)
        for row, (measure, label, scale) in enumerate(
            (("loss", "test loss", 1), ("accuracy", "test accuracy (%)", 100))
        ):
            found = summaries(tests, measure)
            for axes, bound in zip(table[row], bounds, strict=True):
                for method, colour in COLOURS.items():
                    points = sorted(
                        (key.epsilon, found[place])
                        for key, place in best.items()
                        if (key.user_bound, key.method) == (bound, method) and place in found
                    )
                    if points:
                        axes.errorbar(
                            [epsilon for epsilon, _ in points],
                            [scale * one.mean for _, one in points],
                            [scale * one.half for _, one in points],
                            color=colour,
                            marker="o",
                            capsize=3,
                            label=IN_WORDS[method],
                        )
                epsilons = sorted({place.epsilon for place in found})
                axes.set_xscale("log", base=2)
                axes.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
                axes.set(
                    xlabel="ε", ylabel=label, title=f"At most {bound} paper{'s' if bound > 1 else ''} of an author"
                )
        seeds = min(one.seeds for one in found.values())
        table[0, 0].legend(fontsize=8)
        figure.suptitle(
            f"Categories of arXiv papers from {FEATURES[features]}; {seeds} seeds, 95 % intervals", fontsize=11
        )
        saved(figure, folder / f"papers-{features}.svg")
