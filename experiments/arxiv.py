"""Predict a paper's category, private for every author: `python -m experiments.arxiv --quick`, or with `--data`.

Users are authors, and a paper belongs to all of its own. Contributions are bounded to one or two papers an author. A
linear model on frozen features is trained by DP-SGD, by BandMF in fixed batches without amplification, and by BandMF
with b-min-sep batches. Noise multipliers are calibrated with certificates, without an assumption (docs/attribution.md).
For each method, bound and epsilon the optimiser, learning rate, schedule and clip norm are chosen by the loss on papers
kept aside; then fresh seeds are trained and tested. Results are added to files one by one, so a killed command goes on.
"""

import itertools
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from functools import cache, cached_property
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np
import typer

import minsep
from experiments.author_figures import draw_all, summary
from experiments.paper_data import Papers, features_of, generated_papers, load_papers
from experiments.softmax import Tuning, evaluate, train
from experiments.sweep import Record, Setting, sweep
from minsep.accounting import estimated_noise_multiplier, has_exact_curve
from minsep.core.budget import Budget

DELTA = 1 / 500_000
BANDS = (2, 4, 8, 16, 32)
EPSILONS = (1.0, 2.0, 4.0, 8.0, 16.0)
USER_BOUNDS = (1, 2)
RESULTS, FIGURES = Path("experiments/results"), Path("docs/evidence")
KEPT_ASIDE = {"words": (5_000, 10_000), "minilm": (1_000, 1_500)}
"""By how many of the papers kept aside settings are chosen, and on how many of the rest they are tested.

An encoder takes its time, so there are fewer of its features."""
TUNING_SEED = 1000
"""Apart from the seeds that are tested."""

SGD = [(rate / clip, clip) for clip in (0.1, 0.5, 2.0) for rate in (0.05, 0.15, 0.5, 1.5)]
"""Learning rates and clip norms, each with a constant learning rate and with one that decreases."""
ADAM = [(rate, ratio) for rate in (0.003, 0.01, 0.03, 0.1) for ratio in (0.1, 0.3, 0.9)]
"""Learning rates, and clip norms in units of the largest at which Adam's second moments are stable (docs/adam.md)."""
TRIALS = {"sgd": 2 * len(SGD), "adam": len(ADAM)}
"""How many settings of each optimiser are tried, for every method alike."""

LADDER = (1.03, 1.06, 1.12)
"""Noise that is tested, in units of the estimate: a coarse ladder, so that some seconds are enough for each."""
_ESTIMATE_SAMPLES, _ESTIMATE_TOLERANCE = 2_000, 0.1


class Method(NamedTuple):
    """A way to sample and to correlate noise; unamplified BandMF finds its own number of bands."""

    name: str
    bands: int


def methods(bands: tuple[int, ...] = BANDS) -> list[Method]:
    """Return the methods of the paper."""
    return [Method("dp-sgd", 1), Method("unamplified", 0), *(Method("b-min-sep", number) for number in bands)]


@dataclass(frozen=True)
class Kept:
    """The training papers that one bound on an author's papers keeps."""

    papers: Papers
    user_bound: int
    expected_batch: int
    iterations: int

    @cached_property
    def bounded(self) -> minsep.Bounded:
        """What the bound keeps, with copies where there is room."""
        graph = minsep.AttributionGraph.from_lists([self.papers.authors[row] for row in self.papers.train])
        return minsep.bound_contributions(graph, self.user_bound, duplicates=True)

    @property
    def rows(self) -> np.ndarray:
        """Rows of the papers, some more than once."""
        return self.papers.train[self.bounded.examples]

    @cached_property
    def fixed(self) -> tuple[int, int, np.ndarray]:
        """The largest separation, then the fewest participations, at which fixed batches exist, and those batches."""
        graph = self.bounded.graph

        def batches(min_sep: int, participations: int) -> np.ndarray | None:
            try:
                return minsep.fixed_batches(graph, self.iterations, self.expected_batch, min_sep, participations)
            except ValueError:
                return None

        most = graph.num_examples // self.expected_batch
        separation = next(b for b in range(most, 0, -1) if batches(b, self.iterations) is not None)
        fewest = -(-self.iterations // separation)
        for participations in itertools.count(fewest):
            found = batches(separation, participations)
            if found is not None:
                return separation, participations, found
        raise AssertionError("Some number of participations is enough.")

    def design(self, method: Method) -> tuple[minsep.BandedToeplitz, Any]:
        """Return the strategy and the scheme of a method."""
        if method.name == "unamplified":
            separation, participations, _ = self.fixed
            strategy = minsep.BandedToeplitz.optimal(iterations=self.iterations, bands=separation)
            return strategy, minsep.Unamplified(separation, participations)
        rate = self.expected_batch / self.bounded.graph.num_examples
        scheme = minsep.UserMinSep(rate, method.bands, self.user_bound, graph=self.bounded.graph)
        return minsep.BandedToeplitz.optimal(iterations=self.iterations, bands=method.bands), scheme

    def batches(self, mechanism: minsep.Mechanism, method: Method, seed: int) -> Iterator[np.ndarray]:
        """Return the batches of a run."""
        if method.name == "unamplified":
            return iter(self.fixed[2])
        return iter(mechanism.batches(self.bounded.graph.num_examples, seed=seed))


def calibrated(design: minsep.Design, budget: Budget) -> minsep.Mechanism:
    """Return a design with noise that is certified: the least by an exact curve, or 3 % above the estimate."""
    if has_exact_curve(design):
        return minsep.calibrate(design, epsilon=budget.epsilon, delta=budget.delta, seed=0).mechanism
    estimate = estimated_noise_multiplier(
        design,
        budget,
        guess=2.0,
        samples=_ESTIMATE_SAMPLES,
        seed=0,
        directions=["remove"],
        tolerance=_ESTIMATE_TOLERANCE,
        laws={},
    )
    for place, factor in enumerate(LADDER):
        mechanism = design.with_noise(estimate * factor)
        certificate = minsep.certify(mechanism, budget.epsilon, budget.delta, attempts=len(LADDER), seed=place)
        if certificate.passed:
            return mechanism
    raise SystemExit(f"No noise up to {LADDER[-1]} times the estimate, {estimate:.4g}, was certified for {design}.")


class Study:
    """All runs on one set of papers with one kind of features."""

    def __init__(self, papers: Papers, features: str, name: str, cache: Path, batch: int, iterations: int) -> None:
        aside = np.concatenate([papers.validation, papers.test])
        choosing, testing = KEPT_ASIDE[features]
        choosing = min(choosing, papers.validation.size)
        papers = replace(papers, validation=aside[:choosing], test=aside[choosing : choosing + testing])
        self._papers, self._features, self._name, self._cache = papers, features, name, cache
        self._kept = {bound: Kept(papers, bound, batch, iterations) for bound in USER_BOUNDS}
        self._shared = {"dataset": name, "iterations": iterations, "expected_batch": batch, "delta": DELTA}

    def settings(self, chosen: list[Method], bounds: list[int], epsilons: list[float]) -> list[Setting]:
        """Return one setting for each combination."""
        return [
            {**self._shared, "user_bound": bound, "method": method.name, "bands": method.bands, "epsilon": epsilon}
            for bound, method, epsilon in itertools.product(bounds, chosen, epsilons)
        ]

    def noise(self, setting: Setting) -> dict[str, Any]:
        """Calibrate the noise of a method with a certificate."""
        kept = self._kept[setting["user_bound"]]
        strategy, scheme = kept.design(_method(setting))
        mechanism = calibrated(minsep.Design(strategy, scheme), Budget(setting["epsilon"], setting["delta"]))
        return {
            "examples": int(kept.bounded.graph.num_examples),
            "different_examples": int(kept.bounded.distinct_examples),
            "noise_multiplier": mechanism.noise_multiplier,
            "bands": strategy.bands,
            "min_sep": scheme.min_sep,
            "participations": getattr(scheme, "participations", None),
            "prefix_sum_error": mechanism.root_mean_squared_error,
            "step_noise": mechanism.step_noise,
        }

    def tune(self, noise: Record, optimiser: str) -> dict[str, Any]:
        """Train all settings of an optimiser at once, and return how each does on papers kept aside."""
        stable = noise["setting"]["expected_batch"] / noise["result"]["step_noise"]
        if optimiser == "sgd":
            tunings = [Tuning("sgd", rate, clip, decay) for rate, clip in SGD for decay in (False, True)]
        else:
            tunings = [Tuning("adam", rate, ratio * stable) for rate, ratio in ADAM]
        results = self._run(noise, tunings, TUNING_SEED, self._papers.validation)
        return {"tried": [{**asdict(one), **result} for one, result in zip(tunings, results, strict=True)]}

    def test(self, noise: Record, tuning: dict[str, Any], seed: int) -> dict[str, Any]:
        """Train one seed at the settings that were chosen, and test it."""
        (result,) = self._run(noise, [Tuning(**tuning)], seed, self._papers.test)
        return result

    def _run(self, noise: Record, tunings: list[Tuning], seed: int, rows: np.ndarray) -> list[dict[str, float]]:
        setting, method = noise["setting"], _method(noise["setting"])
        kept = self._kept[setting["user_bound"]]
        mechanism = minsep.Mechanism(*kept.design(method), noise["result"]["noise_multiplier"])
        features, classes = self._matrix(setting["user_bound"]), self._papers.classes
        weights = train(
            features[kept.rows],
            self._papers.targets[kept.rows],
            classes,
            kept.batches(mechanism, method, seed),
            iter(mechanism.noise((features.shape[1] * classes,), seed=seed)),
            setting["iterations"],
            setting["expected_batch"],
            tunings,
        )
        return evaluate(features[rows], self._papers.targets[rows], weights)

    @cache  # noqa: B019 (one study a command)
    def _matrix(self, user_bound: int) -> Any:
        used = self._kept[user_bound].rows, self._papers.validation, self._papers.test
        return features_of(self._papers, self._features, np.unique(np.concatenate(used)), self._cache)


def _method(setting: Setting) -> Method:
    return Method(setting["method"], setting["bands"])


def run(study: Study, features: str, settings: list[Setting], seeds: int, results: Path) -> None:
    """Calibrate the noise of all settings, then choose and test for each, and write three files."""
    for noise in sweep(settings, study.noise, results / "papers_noise.jsonl"):
        choose_and_test(study, features, noise, seeds, results)


def choose_and_test(study: Study, features: str, noise: Record, seeds: int, results: Path) -> None:
    """Choose optimiser, learning rate, schedule and clip norm on papers kept aside, and test fresh seeds with them."""
    setting = {**noise["setting"], "features": features}
    tuned = sweep(
        [{**setting, "optimiser": name, "trials": trials} for name, trials in TRIALS.items()],
        lambda one: study.tune(noise, one["optimiser"]),
        results / f"papers_{features}_tuning.jsonl",
        _silent,
    )
    chosen = least_loss(tuned)
    tested = sweep(
        [{**setting, "tuning": chosen, "seed": seed} for seed in range(seeds)],
        lambda one: study.test(noise, one["tuning"], one["seed"]),
        results / f"papers_{features}.jsonl",
        _silent,
    )
    loss, accuracy = (summary([record["result"][name] for record in tested]) for name in ("loss", "accuracy"))
    where = ", ".join(f"{name} {setting[name]}" for name in ("user_bound", "method", "bands", "epsilon"))
    print(f"{where}: loss {loss.mean:.4f}, accuracy {accuracy.mean:.2%}, {chosen}", flush=True)


def _silent(line: str) -> None:
    """Say nothing: one line for all seeds is enough."""


def least_loss(tuned: list[Record]) -> dict[str, Any]:
    """Return the optimiser, learning rate, schedule and clip norm of least loss on the papers kept aside."""
    best = min((one for record in tuned for one in record["result"]["tried"]), key=lambda one: one["loss"])
    return {name: best[name] for name in ("optimiser", "learning_rate", "clip_norm", "decay")}


def main(
    data: Annotated[Path | None, typer.Option(help="Parquet file of papers; without it, a generated set.")] = None,
    features: Annotated[
        str, typer.Option(help="words (TF-IDF, hashed) or minilm (frozen sentence encoder).")
    ] = "words",
    cache: Annotated[Path, typer.Option(help="Folder for the encoder's vectors.")] = Path("results/cache"),
    results: Annotated[Path, typer.Option(help="Folder of JSON lines.")] = RESULTS,
    figures: Annotated[Path, typer.Option(help="Folder of the figures.")] = FIGURES,
    bands: Annotated[list[int], typer.Option(help="Bands of b-min-sep, any number of times.")] = list(BANDS),  # noqa: B006
    epsilon: Annotated[list[float], typer.Option(help="Epsilon, any number of times.")] = list(EPSILONS),  # noqa: B006
    user_bound: Annotated[list[int], typer.Option(help="1 or 2 papers of an author, or both.")] = list(USER_BOUNDS),  # noqa: B006
    expected_batch: int = 256,
    iterations: int = 1000,
    seeds: int = 10,
    draw: Annotated[bool, typer.Option("--draw", help="Compute nothing: draw what the files hold.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small generated task, in under a minute.")] = False,
) -> None:
    """Train several methods at one privacy each, tune every one of them alike, and draw losses and accuracies."""
    if quick:
        results, figures = Path("results/papers-quick"), Path("results/papers-quick")
        bands, epsilon, user_bound, iterations, expected_batch, seeds = [4], [8.0], [1, 2], 60, 64, 2
    if not draw:
        papers = generated_papers() if data is None else load_papers(data)
        study = Study(papers, features, "generated" if data is None else "arxiv", cache, expected_batch, iterations)
        run(study, features, study.settings(methods(tuple(bands)), user_bound, epsilon), seeds, results)
    draw_all(results, figures, features)


if __name__ == "__main__":
    typer.run(main)
