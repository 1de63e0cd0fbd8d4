"""A linear model on scattering features, five methods: `python -m experiments.scattering_study --quick`, or with data.

DP-SGD, random allocation, cyclic Poisson, balls-in-bins and b-min-sep train for the same number of epochs. Each has the
same number of trials: four mechanisms, each with the same learning rates and schedules, chosen by the accuracy on
training images kept aside, with noise by estimates. The chosen mechanisms are calibrated with certificates; then fresh
seeds train on all training images and are tested. Results are added to files one by one, so a killed command continues.
"""

import hashlib
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import typer

import minsep
from experiments.image_figures import draw_all
from experiments.scattering import CACHE_HELP, Features, generated_features, load_features
from experiments.softmax import MOMENTUM, Tuning, evaluate, train
from experiments.sweep import Record, Setting, key_of, sweep
from minsep.accounting import estimated_noise_multiplier, exact_mechanism, has_exact_curve

DELTA = 1e-5
EPOCHS = 10
CLIP_NORM = 0.1
RATES = (4.0, 8.0, 16.0, 32.0, 64.0)
"""First learning rates for batches of a 20th of the examples; those of other batches are in proportion to the size."""
REFERENCE, MOST_EXTENSIONS = 20, 4
VALIDATION = 5000
TUNING_SEED = 1000
"""Apart from the seeds that are tested."""
RESULTS, FIGURES = Path("experiments/results"), Path("docs/evidence")
WORKLOADS = {
    "prefix sums": minsep.Workload(),
    "momentum": minsep.Workload(momentum=MOMENTUM),
    "momentum, linear decay": minsep.Workload(momentum=MOMENTUM, schedule="linear-decay"),
    "forgetting": minsep.Workload(horizon=50),
    "single step": minsep.Workload(horizon=1),
}


class Choice(NamedTuple):
    """A sampling scheme and a number of bands; an epoch is the number of examples over the expected batch size."""

    method: str
    epoch: int
    bands: int

    @property
    def min_sep(self) -> int:
        """Half an epoch for b-min-sep, or as many iterations as there are bands if these are more."""
        separations = {
            "b-min-sep": max(self.bands, self.epoch // 2),
            "b-min-sep, b = bands": self.bands,
            "cyclic-poisson": self.bands,
            "balls-in-bins": self.epoch,
        }
        return separations.get(self.method, 1)

    def design(self, epochs: int) -> minsep.Design:
        """Return the strategy and the sampling."""
        rate, iterations = 1 / self.epoch, epochs * self.epoch
        schemes: dict[str, Any] = {
            "dp-sgd": lambda: minsep.Poisson(rate),
            "random-allocation": lambda: minsep.RandomAllocation(self.epoch),
            "cyclic-poisson": lambda: minsep.CyclicPoisson(rate, self.bands),
            "balls-in-bins": lambda: minsep.BallsInBins(self.epoch),
            "b-min-sep": lambda: minsep.MinSep(rate, self.min_sep),
            "b-min-sep, b = bands": lambda: minsep.MinSep(rate, self.min_sep),
        }
        strategy = (
            minsep.BandedToeplitz.identity(iterations=iterations)
            if self.bands == 1
            else minsep.BandedToeplitz.optimal(iterations=iterations, bands=self.bands)
        )
        return minsep.Design(strategy, schemes[self.method]())


UNCORRELATED, CORRELATED = ("dp-sgd", "random-allocation"), ("cyclic-poisson", "balls-in-bins", "b-min-sep")
METHODS = (*UNCORRELATED, *CORRELATED)
PAPERS_METHODS = (*METHODS, "b-min-sep, b = bands")
MECHANISMS: dict[str, tuple[tuple[int, int], ...]] = {
    **dict.fromkeys(UNCORRELATED, ((5, 1), (10, 1), (20, 1), (50, 1))),
    "cyclic-poisson": ((10, 2), (20, 4), (50, 4), (50, 16)),
    "balls-in-bins": ((10, 4), (20, 8), (50, 16), (50, 32)),
    "b-min-sep": ((10, 2), (20, 4), (50, 4), (50, 16)),
}
"""Epochs and bands that each method tries. Balls-in-bins is not amplified within an epoch, and needs more bands."""
PAPERS_EPOCH, PAPERS_EPOCHS = 300, 5
PAPERS = {
    **dict.fromkeys(UNCORRELATED, ((PAPERS_EPOCH, 1),)),
    **dict.fromkeys(PAPERS_METHODS[2:], tuple((PAPERS_EPOCH, bands) for bands in (4, 16, 32, 64))),
}
"""The batches of the paper, a 300th of the examples, for five epochs."""


def choices(methods: tuple[str, ...], papers_batches: bool = False) -> list[Choice]:
    """Return four mechanisms for each method; with the paper's batches, one where noise is not correlated."""
    mechanisms = PAPERS if papers_batches else MECHANISMS
    return [Choice(method, *pair) for method in methods for pair in mechanisms[method]]


def tunings(epoch: int, rates: list[float]) -> list[Tuning]:
    """Return what every mechanism tries."""
    return [Tuning("sgd", rate * REFERENCE / epoch, CLIP_NORM, decay) for rate in rates for decay in (False, True)]


class Study:
    """All runs on one set of features."""

    def __init__(self, features: Features, epochs: int, results: Path) -> None:
        self._features, self._epochs, self._results = features, epochs, results
        self._validation = min(VALIDATION, features.examples // 10)

    def setting(self, choice: Choice, epsilon: float) -> Setting:
        """Return what determines the noise."""
        return {
            "epochs": self._epochs,
            "epoch": choice.epoch,
            "method": choice.method,
            "bands": choice.bands,
            "min_sep": choice.min_sep,
            "epsilon": epsilon,
            "delta": DELTA,
        }

    def noise(self, setting: Setting) -> dict[str, Any]:
        """Estimate the noise that a mechanism needs, and the errors that follow from it: enough to tune with."""
        design = choice_of(setting).design(setting["epochs"])
        budget = minsep.Budget(setting["epsilon"], setting["delta"])
        if has_exact_curve(design):
            sigma = exact_mechanism(design, budget.epsilon, budget.delta).noise_multiplier
        else:
            sigma = estimated_noise_multiplier(design, budget, 1.5, 4000, 0, tolerance=0.1)
        errors = {name: workload.error(design.strategy, sigma) for name, workload in WORKLOADS.items()}
        return {"noise_multiplier": sigma, "errors": errors}

    def certify(self, setting: Setting) -> dict[str, Any]:
        """Calibrate the noise of a mechanism that was chosen, and keep its certificate."""
        design = choice_of(setting).design(setting["epochs"])
        found = minsep.calibrate(design, epsilon=setting["epsilon"], delta=setting["delta"], seed=0)
        if not found.certificate.passed or found.fallback:
            raise SystemExit(f"{setting}: not certified. {found.fallback}")
        name = hashlib.sha256(key_of(setting).encode()).hexdigest()[:16]
        folder = self._results / "certificates"
        folder.mkdir(parents=True, exist_ok=True)
        found.certificate.save(folder / f"{name}.json")
        return {"noise_multiplier": found.mechanism.noise_multiplier, "certificate": f"certificates/{name}.json"}

    def tune(self, noise: Record, rates: list[float]) -> dict[str, Any]:
        """Train all learning rates and schedules at once, and return how each does on images kept aside."""
        tried = tunings(noise["setting"]["epoch"], rates)
        last = self._features.examples
        results = self._run(noise, tried, TUNING_SEED, last - self._validation, (last - self._validation, last))
        return {"tried": [{**asdict(one), **result} for one, result in zip(tried, results, strict=True)]}

    def test(self, noise: Record, tuning: dict[str, Any], seed: int) -> dict[str, Any]:
        """Train one seed on all training images at the settings that were chosen, and test it."""
        examples, every = self._features.examples, len(self._features.targets)
        (result,) = self._run(noise, [Tuning(**tuning)], seed, examples, (examples, every))
        return result

    def _run(
        self, noise: Record, tried: list[Tuning], seed: int, examples: int, judged: tuple[int, int]
    ) -> list[dict[str, float]]:
        setting = noise["setting"]
        design = choice_of(setting).design(setting["epochs"])
        mechanism = design.with_noise(noise["result"]["noise_multiplier"])
        rows, targets = self._features.part(0, examples)
        classes = int(self._features.targets.max()) + 1
        weights = train(
            rows,
            targets,
            classes,
            mechanism.batches(examples, seed=seed),
            iter(mechanism.noise((rows.shape[1] * classes,), seed=seed)),
            mechanism.iterations,
            examples / setting["epoch"],
            tried,
        )
        others, their_targets = self._features.part(*judged)
        return evaluate(others[:], their_targets, weights)


def choice_of(setting: Setting) -> Choice:
    """Return the choice that a setting describes."""
    return Choice(setting["method"], setting["epoch"], setting["bands"])


def run(study: Study, features: str, tried: list[Choice], epsilon: float, seeds: int, results: Path) -> None:
    """Estimate, tune, choose, certify and test at one epsilon, and write four files."""
    noises = sweep([study.setting(choice, epsilon) for choice in tried], study.noise, results / "images_noise.jsonl")
    tuned = tune_all(study, features, noises, results / f"images_{features}_tuning.jsonl")
    best = [(without(setting, "features", "rates"), tuning) for setting, tuning in chosen(tuned)]
    certified = sweep([setting for setting, _ in best], study.certify, results / "images_certificates.jsonl")
    certified_of = {key_of(record["setting"]): record for record in certified}
    sweep(
        [
            {"features": features, **setting, "tuning": tuning, "seed": seed}
            for seed in range(seeds)
            for setting, tuning in best
        ],
        lambda setting: study.test(
            certified_of[key_of(without(setting, "features", "tuning", "seed"))], setting["tuning"], setting["seed"]
        ),
        results / f"images_{features}.jsonl",
    )


def tune_all(study: Study, features: str, noises: list[Record], path: Path) -> list[Record]:
    """Tune all mechanisms alike. While one method does best at the edge of the learning rates, all try more of them."""
    noise_of = {key_of(record["setting"]): record for record in noises}
    tried = [list(RATES)]
    for _ in range(MOST_EXTENSIONS + 1):
        tuned = sweep(
            [{"features": features, **record["setting"], "rates": rates} for rates in tried for record in noises],
            lambda setting: study.tune(noise_of[key_of(without(setting, "features", "rates"))], setting["rates"]),
            path,
        )
        known = [rate for rates in tried for rate in rates]
        best = [tuning["learning_rate"] * setting["epoch"] / REFERENCE for setting, tuning in chosen(tuned)]
        more = [2 * max(known)] * (max(best) >= max(known)) + [min(known) / 2] * (min(best) <= min(known))
        if not more:
            break
        tried.append(more)
    return tuned


def without(setting: Setting, *names: str) -> Setting:
    """Return a setting without some of its names."""
    return {name: value for name, value in setting.items() if name not in names}


def chosen(tuned: list[Record]) -> list[tuple[Setting, dict[str, Any]]]:
    """Return for each method the mechanism and the tuning with the best accuracy on images kept aside."""
    best: dict[str, tuple[float, Setting, dict[str, Any]]] = {}
    for record in tuned:
        method = record["setting"]["method"]
        for one in record["result"]["tried"]:
            if method not in best or one["accuracy"] > best[method][0]:
                tuning = {name: one[name] for name in ("optimiser", "learning_rate", "clip_norm", "decay")}
                best[method] = one["accuracy"], record["setting"], tuning
    return [(setting, tuning) for _, setting, tuning in best.values()]


def main(
    dataset: Annotated[str, typer.Option(help="generated, cifar10 or fashion-mnist.")] = "generated",
    data: Annotated[Path | None, typer.Option(help="Folder of the dataset's files.")] = None,
    cache: Annotated[Path, typer.Option(help=CACHE_HELP)] = Path("features"),
    pool: Annotated[int, typer.Option(help="Places of a square that are averaged, along a side.")] = 2,
    method: Annotated[list[str] | None, typer.Option(help="Method, any number of times. Default: all.")] = None,
    epsilon: Annotated[list[float], typer.Option(help="Epsilon, any number of times.")] = [3.0, 1.0, 8.0],  # noqa: B006
    epochs: Annotated[int, typer.Option(help="Expected participations of an example.")] = EPOCHS,
    papers_batches: Annotated[
        bool, typer.Option("--papers-batches", help="Batches of a 300th of the examples, five epochs, as in the paper.")
    ] = False,
    seeds: int = 10,
    results: Annotated[Path, typer.Option(help="Folder of JSON lines and certificates.")] = RESULTS,
    figures: Annotated[Path, typer.Option(help="Folder of the figures.")] = FIGURES,
    draw: Annotated[bool, typer.Option("--draw", help="Compute nothing: draw what the files hold.")] = False,
    quick: Annotated[bool, typer.Option("--quick", help="A small generated task, in under a minute.")] = False,
) -> None:
    """Train five methods at one privacy each, tune every one of them alike, and draw accuracies and differences."""
    tried = choices(tuple(method or (PAPERS_METHODS if papers_batches else METHODS)), papers_batches)
    epochs = PAPERS_EPOCHS if papers_batches else epochs
    if quick:
        results = figures = Path("results/images-quick")
        dataset, epsilon, epochs, seeds = "generated", [8.0], 3, 2
        tried = [choice for choice in tried if choice.epoch == 10]
    if not draw:
        features = generated_features() if dataset == "generated" else load_features(dataset, data, cache, pool)
        name = dataset if dataset == "generated" else f"{dataset}-pool{pool}"
        name += "" if epochs == EPOCHS else f"-{epochs}-epochs"
        study = Study(features, epochs, results)
        for one in epsilon:
            run(study, name, tried, one, seeds, results)
    draw_all(results, figures)


if __name__ == "__main__":
    typer.run(main)
