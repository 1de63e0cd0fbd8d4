"""Predict a paper's category from its abstract, private for every author: `python -m experiments.arxiv --quick`.

Users are authors, and a paper belongs to all of its own. Contributions are bounded to `user_bound` papers an author,
batches are of multi-attribution b-min-sep (DP-SGD is the case of one band and b = 1), and a linear model is trained by
Adam with scale-then-privatize. Noise multipliers are certified; docs/attribution.md says what the theorem assumes.
"""

import time
from pathlib import Path
from typing import Annotated

import torch
import typer

import minsep
from experiments.paper_data import Papers, generated_papers, load_papers
from experiments.runs import Method, Result, Results, evaluate, plot, train, versions
from minsep.attribution import bound_contributions
from minsep.training.torch import PrivateTraining, ScaleThenPrivatize

STABILITY = 1e-3


def method_of(bands: int, iterations: int, expected_batch: float, graph: minsep.AttributionGraph) -> Method:
    """Return BandMF with as many bands as iterations between participations; DP-SGD for one."""
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    scheme = minsep.MultiAttributionMinSep(expected_batch=expected_batch, min_sep=bands, graph=graph)
    return Method("dp-sgd" if bands == 1 else f"b-min-sep-{bands}", strategy, scheme)


def run_once(papers: Papers, kept: torch.Tensor, method: Method, settings: Result, folder: Path) -> Result:
    """Calibrate, train and evaluate one run."""
    begin = time.monotonic()
    mechanism, certificate = method.calibrated(settings["epsilon"], settings["delta"], folder / "certificates")
    calibration = time.monotonic() - begin
    torch.manual_seed(settings["seed"])
    model = torch.nn.Linear(papers.train.width, papers.classes)
    torch.nn.init.zeros_(model.weight)
    optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
    arguments = (model, torch.nn.functional.cross_entropy, optimizer, mechanism)
    options = {
        "num_examples": len(kept),
        "clip_norm": settings["clip_norm"],
        "expected_batch": settings["expected_batch"],
        "scaling": ScaleThenPrivatize(STABILITY),
    }
    label = f"{method.name} epsilon {settings['epsilon']:g} rate {settings['learning_rate']:g} seed {settings['seed']}"
    checkpoint = folder / f"{label.replace(' ', '-')}.checkpoint"
    if checkpoint.exists():
        trainer = PrivateTraining.resume(checkpoint, *arguments, **options)
    else:
        trainer = PrivateTraining(*arguments, certificate=certificate, seed=settings["seed"], **options)
    speed = train(trainer, _Kept(papers.train, kept), papers.train_targets[kept], checkpoint, label)
    return {
        **settings,
        "noise_multiplier": mechanism.noise_multiplier,
        "sampling_prob": mechanism.scheme.sampling_prob,
        "examples": len(kept),
        "calibration_seconds": round(calibration, 2),
        **speed,
        **evaluate(model, papers.test, papers.test_targets),
        "versions": versions(),
    }


class _Kept:
    """The papers that contribution bounding kept, each as often as it did."""

    def __init__(self, rows, kept) -> None:
        self._rows, self._kept = rows, kept

    def __getitem__(self, indices):
        return self._rows[self._kept[indices].numpy()]


def main(
    data: Annotated[Path | None, typer.Option(help="Parquet file of papers; without it, a generated set.")] = None,
    features: Annotated[
        str, typer.Option(help="words (TF-IDF, hashed) or minilm (frozen sentence encoder).")
    ] = "words",
    output: Annotated[Path, typer.Option(help="Folder for results, certificates and the plot.")] = Path("results"),
    bands: Annotated[list[int], typer.Option(help="Bands and b, any number of times; 1 is DP-SGD.")] = [1, 4, 8],  # noqa: B006
    epsilon: Annotated[list[float], typer.Option(help="Epsilon, any number of times.")] = [2.0, 8.0],  # noqa: B006
    learning_rate: Annotated[list[float], typer.Option(help="Learning rate; the best of several counts.")] = [0.03],  # noqa: B006
    clip_norm: Annotated[float, typer.Option(help="Norm of a gradient after the scaling.")] = 100.0,
    user_bound: Annotated[int, typer.Option(help="Most papers of an author.")] = 2,
    expected_batch: float = 256.0,
    iterations: int = 1000,
    seeds: int = 1,
    quick: Annotated[bool, typer.Option("--quick", help="A small generated task, in under a minute.")] = False,
) -> None:
    """Train with several numbers of bands at one privacy each, and write results.jsonl and accuracy.svg."""
    if quick:
        bands, epsilon, iterations, expected_batch = [1, 4], [8.0], 60, 64.0
    name = "generated" if data is None else f"arxiv-{features}"
    folder = output / (f"{name}-papers-quick" if quick else f"{name}-papers")
    papers = generated_papers(4000 if quick else 20_000) if data is None else load_papers(data, features, folder)
    graph = minsep.AttributionGraph.from_lists(papers.authors)
    bounded = bound_contributions(graph, user_bound, duplicates=True)
    kept = torch.from_numpy(bounded.examples)
    typer.echo(
        f"{len(kept):,} papers ({bounded.distinct_examples:,} different ones) of {graph.num_examples:,} are kept."
    )
    results = Results(folder / "results.jsonl")
    for seed in range(seeds):
        for target in epsilon:
            for number in bands:
                chosen = method_of(number, iterations, expected_batch, bounded.graph)
                for rate in learning_rate:
                    settings = {
                        "experiment": "arxiv",
                        "dataset": name,
                        "delta": 1 / 500_000,
                        "iterations": iterations,
                        "expected_batch": expected_batch,
                        "user_bound": user_bound,
                        "clip_norm": clip_norm,
                        "method": chosen.name,
                        "bands": number,
                        "epsilon": target,
                        "learning_rate": rate,
                        "seed": seed,
                    }
                    if not results.has(settings):
                        results.add(run_once(papers, kept, chosen, settings, folder))
                        typer.echo(f"{chosen.name}, epsilon {target:g}: {results.lines[-1]['accuracy']:.2%}")
    plot(results.lines, folder / "accuracy.svg", name)
    typer.echo(f"Results and plot are in {folder}.")


if __name__ == "__main__":
    typer.run(main)
