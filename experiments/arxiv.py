"""Predict a paper's category from its abstract, private for every author: `python -m experiments.arxiv --quick`.

Users are authors, and a paper belongs to all of its own. Contributions are bounded to `user_bound` papers an author,
every paper runs a b-min-sep process of its own (DP-SGD is the case of one band and b = 1), and a linear model is
trained by Adam with scale-then-privatize. Noise multipliers are certified, without an assumption: docs/attribution.md.
"""

from pathlib import Path
from typing import Annotated, Any

import torch
import typer

import minsep
from experiments.paper_data import generated_papers, load_papers
from experiments.runs import Data, Method, Part, Result, run_all
from minsep.attribution import bound_contributions
from minsep.training.torch import ScaleThenPrivatize

STABILITY = 1e-3


def method_of(bands: int, iterations: int, expected_batch: float, graph: minsep.AttributionGraph) -> Method:
    """Return BandMF with as many bands as iterations between participations; DP-SGD for one."""
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    rate = expected_batch / graph.num_examples
    scheme = minsep.UserMinSep(rate, bands, user_bound=graph.largest_degree, graph=graph)
    return Method("dp-sgd" if bands == 1 else f"b-min-sep-{bands}", strategy, scheme)


class _Kept:
    """The papers that contribution bounding kept, each as often as it did."""

    def __init__(self, rows, kept) -> None:
        self._rows, self._kept = rows, kept

    def __getitem__(self, indices):
        return self._rows[self._kept[indices]]


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
    validation: Annotated[int, typer.Option(help="Training papers kept for choosing the learning rate.")] = 0,
    quick: Annotated[bool, typer.Option("--quick", help="A small generated task, in under a minute.")] = False,
) -> None:
    """Train with several numbers of bands at one privacy each, and write results.jsonl and accuracy.svg."""
    if quick:
        bands, epsilon, iterations, expected_batch = [1, 4], [8.0], 60, 64.0
    name = "generated" if data is None else f"arxiv-{features}"
    folder = output / (f"{name}-papers-quick" if quick else f"{name}-papers")
    papers = generated_papers(4000 if quick else 20_000) if data is None else load_papers(data, features, folder)
    count = len(papers.train) - validation
    if not 0 < count <= len(papers.train):
        raise SystemExit(f"--validation is {validation}, but it must be from 0 to {len(papers.train) - 1}.")
    graph = minsep.AttributionGraph.from_lists(papers.authors[:count])
    bounded = bound_contributions(graph, user_bound, duplicates=True)
    typer.echo(
        f"{bounded.examples.size:,} papers ({bounded.distinct_examples:,} different ones) of {count:,} are kept."
    )

    def build(settings: Result) -> tuple[torch.nn.Module, torch.optim.Optimizer, dict[str, Any]]:
        model = torch.nn.Linear(papers.train.inputs.width, papers.classes)
        torch.nn.init.zeros_(model.weight)
        optimizer = torch.optim.Adam(model.parameters(), lr=settings["learning_rate"])
        return model, optimizer, {"expected_batch": expected_batch, "scaling": ScaleThenPrivatize(STABILITY)}

    shared = {
        "experiment": "arxiv",
        "dataset": name,
        "delta": 1 / 500_000,
        "iterations": iterations,
        "expected_batch": expected_batch,
        "user_bound": user_bound,
        "clip_norm": clip_norm,
    }
    inputs, targets = papers.train.inputs, papers.train.targets
    run_all(
        Data(
            Part(_Kept(inputs, bounded.examples), targets[bounded.examples]),
            papers.test,
            Part(inputs[count:], targets[count:]) if validation else None,
        ),
        build,
        [method_of(number, iterations, expected_batch, bounded.graph) for number in bands],
        shared,
        folder,
        epsilons=epsilon,
        learning_rates=learning_rate,
        seeds=seeds,
    )


if __name__ == "__main__":
    typer.run(main)
