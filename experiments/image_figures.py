"""What the runs on images show: accuracies, differences to DP-SGD and rank correlations, from the files alone."""

import math
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np
from scipy import stats

from experiments.author_figures import Summary, summary
from experiments.figures import saved, styled
from experiments.sweep import Record, key_of, read
from minsep.show import palette

BASELINE = "dp-sgd"
_DRAWN = ("prefix sums", "momentum", "forgetting")
_LEAST, _SHUFFLES = 3, 20_000
STYLES = {
    BASELINE: ("DP-SGD", palette.style_of("poisson")),
    "random-allocation": ("random allocation", palette.style_of("random-allocation")),
    "cyclic-poisson": ("cyclic Poisson", palette.style_of("cyclic-poisson")),
    "balls-in-bins": ("balls-in-bins", palette.style_of("balls-in-bins")),
    "b-min-sep, b = bands": (
        "b-min-sep, b = bands",
        palette.style_of("min-sep")._replace(colour=palette.PALE, marker="v"),
    ),
    "b-min-sep": ("b-min-sep, b = half an epoch", palette.style_of("min-sep")),
}
TITLES = {
    "cifar10-pool1": "CIFAR-10, 15,552 features",
    "cifar10-pool2": "CIFAR-10, 3,888 features",
    "cifar10-pool2-5-epochs": "CIFAR-10, 3,888 features, the paper's batches",
    "fashion-mnist-pool2": "Fashion-MNIST, 1,296 features",
    "fashion-mnist-pool2-5-epochs": "Fashion-MNIST, 1,296 features, the paper's batches",
    "generated": "Generated",
}


class Place(NamedTuple):
    """A point of the figures: one method at one epsilon."""

    method: str
    epsilon: float


class Correlation(NamedTuple):
    """Rank correlation of a workload's error with the accuracy: -1 is a perfect prediction.

    - `across` is Spearman's over all mechanisms; `within` is the average over mechanisms with equal batches, which is
      what a plan chooses among, weighted by their number.
    - `chance` is how often accuracies shuffled among mechanisms with equal batches predict as well as that.
    """

    epsilon: float
    workload: str
    mechanisms: int
    across: float
    within: float
    chance: float


class StudyRecords(NamedTuple):
    """What the files of a folder hold of one study: its features, its tests, and its mechanisms as they were tuned."""

    features: str
    tests: list[Record]
    points: "list[Prediction]"


def studies(results: Path) -> Iterator[StudyRecords]:
    """Yield the studies of a folder."""
    noises = {key_of(record["setting"]): record for record in read(results / "images_noise.jsonl")}
    for path in sorted(results.glob("images_*_tuning.jsonl")):
        features = path.name.removeprefix("images_").removesuffix("_tuning.jsonl")
        yield StudyRecords(features, read(results / f"images_{features}.jsonl"), predictions(read(path), noises))


def draw_all(results: Path, figures: Path) -> None:
    """Draw all figures that the files of a folder have records for, and print their numbers."""
    for features, tests, points in studies(results):
        if tests:
            for line in in_words(tests):
                print(f"{features}: {line}")
            accuracies(tests, features, figures / f"images-{features}.svg")
        for one in correlations(points):
            print(
                f"{features}, epsilon {one.epsilon:g}, {one.mechanisms} mechanisms, {one.workload}: across batch sizes "
                f"{one.across:+.2f}, within {one.within:+.2f} (by chance {one.chance:.3f})"
            )
        if tests and points:
            scatter(points, features, figures / f"prediction-{features}.svg")


def by_place(tests: list[Record]) -> dict[Place, dict[int, float]]:
    """Return the accuracy of each seed at each point, in percent."""
    values: dict[Place, dict[int, float]] = defaultdict(dict)
    for record in tests:
        setting = record["setting"]
        values[Place(setting["method"], setting["epsilon"])][setting["seed"]] = 100 * record["result"]["accuracy"]
    return dict(values)


def differences(tests: list[Record]) -> dict[Place, Summary]:
    """Return the accuracy minus that of DP-SGD at the same epsilon, with an interval over seeds, in points.

    Seeds share only the order of random numbers, so the interval is Welch's, for two independent sets of runs.
    """
    values = by_place(tests)
    found = {}
    for place, own in values.items():
        base = values.get(Place(BASELINE, place.epsilon), {})
        if place.method != BASELINE and len(own) > 1 and len(base) > 1:
            mine, its = list(own.values()), list(base.values())
            interval = stats.ttest_ind(mine, its, equal_var=False).confidence_interval(0.95)
            found[place] = Summary(float(np.mean(mine) - np.mean(its)), (interval.high - interval.low) / 2, len(own))
    return found


def in_words(tests: list[Record]) -> list[str]:
    """Return one line for each point."""
    other = differences(tests)
    mechanisms = {
        Place(record["setting"]["method"], record["setting"]["epsilon"]): record["setting"] for record in tests
    }
    lines = []
    for place, seeds in sorted(by_place(tests).items(), key=lambda item: (item[0].epsilon, item[0].method)):
        one, setting = summary(list(seeds.values())), mechanisms[place]
        line = f"epsilon {place.epsilon:g}, {place.method}: {one.mean:.2f} ± {one.half:.2f} % ({one.seeds} seeds)"
        if place in other:
            line += f", {other[place].mean:+.2f} ± {other[place].half:.2f} to DP-SGD"
        lines.append(
            f"{line}; epoch of {setting['epoch']} batches, {setting['bands']} bands, b {setting['min_sep']}, "
            f"learning rate {setting['tuning']['learning_rate']:g}"
            + (", decaying" if setting["tuning"]["decay"] else "")
        )
    return lines


def accuracies(tests: list[Record], features: str, path: Path) -> None:
    """Draw accuracy over epsilon, and below it the difference to DP-SGD."""
    from matplotlib.figure import Figure

    values, other = by_place(tests), differences(tests)
    epsilons = sorted({place.epsilon for place in values})
    with styled():
        figure = Figure(figsize=(8, 7), layout="constrained")
        above, below = figure.subplots(2, 1, sharex=True, height_ratios=(3, 2))
        for number, (method, (name, style)) in enumerate(STYLES.items()):
            shift = 1.025 ** (number - 2)  # so that intervals do not hide each other
            for axes, found in (
                (above, {place: summary(list(seeds.values())) for place, seeds in values.items()}),
                (below, other),
            ):
                points = sorted((place.epsilon, one) for place, one in found.items() if place.method == method)
                if points:
                    axes.errorbar(
                        [epsilon * shift for epsilon, _ in points],
                        [one.mean for _, one in points],
                        [one.half for _, one in points],
                        color=style.colour,
                        marker=style.marker,
                        markersize=5,
                        linewidth=1.2,
                        capsize=3,
                        label=name,
                    )
        below.axhline(0, color=STYLES[BASELINE][1].colour, linewidth=1)
        seeds = sorted({len(some) for some in values.values()})
        runs = f"{' or '.join(map(str, seeds))} seeds, 95 % intervals"
        above.set(ylabel="test accuracy (%)", title=f"{TITLES.get(features, features)}; {runs}")
        below.set(xlabel="ε", ylabel="points above DP-SGD")
        below.set_xscale("log", base=2)
        below.set_xticks(epsilons, [f"{epsilon:g}" for epsilon in epsilons])
        below.set_xticks([], minor=True)
        below.set_xlim(epsilons[0] / 1.25, epsilons[-1] * 1.25)
        figure.legend(*above.get_legend_handles_labels(), loc="outside upper center", ncols=3, fontsize=9)
        saved(figure, path)


class Prediction(NamedTuple):
    """One mechanism: its method, its epoch, the errors of workloads, and its best accuracy on images kept aside."""

    method: str
    epoch: int
    epsilon: float
    errors: dict[str, float]
    accuracy: float


def predictions(tuned: list[Record], noises: dict[str, Record]) -> list[Prediction]:
    """Return the mechanisms that were tuned, with errors of what the whole run adds up.

    Mechanisms differ in batch size, so errors are divided by the participations of an example: noise over signal.
    """
    best: dict[str, float] = {}
    for record in tuned:
        key = key_of({name: value for name, value in record["setting"].items() if name not in ("features", "rates")})
        best[key] = max(best.get(key, 0.0), *(one["accuracy"] for one in record["result"]["tried"]))
    points = []
    for key, accuracy in best.items():
        setting = noises[key]["setting"]
        errors = {name: error / setting["epochs"] for name, error in noises[key]["result"]["errors"].items()}
        points.append(Prediction(setting["method"], setting["epoch"], setting["epsilon"], errors, 100 * accuracy))
    return points


def correlations(points: list[Prediction]) -> list[Correlation]:
    """Return rank correlations for every epsilon and workload."""
    found = []
    for epsilon in sorted({point.epsilon for point in points}):
        some = [point for point in points if point.epsilon == epsilon]
        epochs = sorted({one.epoch for one in some})
        groups = [[one for one in some if one.epoch == epoch] for epoch in epochs]
        groups = [group for group in groups if len(group) >= _LEAST]
        if not groups:
            continue
        for workload in some[0].errors:
            within, shuffled, generator = 0.0, np.zeros(_SHUFFLES), np.random.default_rng(0)
            for group in groups:
                errors = _standard_ranks([one.errors[workload] for one in group])
                values = _standard_ranks([one.accuracy for one in group])
                share = len(group) / sum(map(len, groups))
                within += share * float(values @ errors)
                shuffled += share * generator.permuted(np.tile(values, (_SHUFFLES, 1)), axis=1) @ errors
            chance = float(np.mean(shuffled <= within + 1e-12))
            all_errors, all_values = [one.errors[workload] for one in some], [one.accuracy for one in some]
            across = float(_standard_ranks(all_errors) @ _standard_ranks(all_values))
            found.append(Correlation(epsilon, workload, len(some), across, within, chance))
    return found


def _standard_ranks(values: list[float]) -> np.ndarray:
    """Return ranks around zero and of unit norm, whose product is the rank correlation."""
    ranks = stats.rankdata(values) - (len(values) + 1) / 2
    return np.asarray(ranks / max(np.linalg.norm(ranks), 1e-12))


def scatter(points: list[Prediction], features: str, path: Path) -> None:
    """Draw accuracy on images kept aside over the error of each workload, one row an epsilon."""
    from matplotlib.figure import Figure

    epsilons, workloads = sorted({point.epsilon for point in points}), _DRAWN
    ranks = {(one.epsilon, one.workload): one.within for one in correlations(points)}
    least, most = (math.log(end(point.epoch for point in points)) for end in (min, max))
    with styled():
        figure = Figure(figsize=(9, 2.9 * len(epsilons) + 0.7), layout="constrained")
        table = figure.subplots(len(epsilons), len(workloads), squeeze=False, sharey="row")
        for row, epsilon in zip(table, epsilons, strict=True):
            for axes, workload in zip(row, workloads, strict=True):
                for method, (name, style) in STYLES.items():
                    for one in (one for one in points if (one.epsilon, one.method) == (epsilon, method)):
                        axes.scatter(
                            one.errors[workload],
                            one.accuracy,
                            color=style.colour,
                            marker=style.marker,
                            s=20 + 45 * (most - math.log(one.epoch)) / max(most - least, 1e-9),
                            label=None if name in axes.get_legend_handles_labels()[1] else name,
                        )
                rank = ranks.get((epsilon, workload))
                title = f"ε = {epsilon:g}" + ("" if rank is None else f", rank correlation {rank:+.2f}")
                axes.set(xlabel=f"error, {workload}")
                axes.set_title(title, fontsize=10)
            row[0].set_ylabel("accuracy kept aside (%)")
        handles = table[0, 0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=3, fontsize=9)
        figure.suptitle(
            f"{TITLES.get(features, features)}: does the error predict? (Larger marks: larger batches)",
            fontsize=10,
        )
        saved(figure, path)
