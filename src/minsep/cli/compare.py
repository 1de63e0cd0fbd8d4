"""`minsep compare`: the error of b-min-sep relative to that of other schemes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.help import OUTPUT
from minsep.cli.options import Cluster, Force, Journal, Json, Workers, command, counting, measuring
from minsep.cli.output import Files, print_grid, print_json, report_checks, say
from minsep.cli.progress import Bar


@command
def compare(
    iterations: Annotated[int, counting("Number of training steps.")] = 1024,
    delta: Annotated[float, measuring("Privacy budget delta.")] = 1e-3,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="An epsilon; may be given several times. Default: 0.5, 1, 2, 4, 8, 16.")
    ] = None,
    epoch: Annotated[
        list[int] | None,
        typer.Option(help="Examples divided by batch size; may be given several times. Default: 128, 256, 512, 1024."),
    ] = None,
    max_bands: Annotated[int, counting("Maximum number of diagonals of the strategy matrix.")] = 32,
    verified: Annotated[
        bool,
        typer.Option("--verified", help="Calibrate as the paper did: its verifier at delta/2, powers of 1.01."),
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    journal: Journal = None,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML page to this file.", rich_help_panel=OUTPUT)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write the heat maps to this .png or .svg file.", rich_help_panel=OUTPUT)
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Estimate and compare the mean squared errors of b-min-sep, cyclic Poisson and balls-in-bins.

    Example: `minsep compare --iterations 1024 --epsilon 1 --epsilon 4 --epoch 256 --plot ratios.svg`
    """
    from minsep import Compute, paper
    from minsep.core import validation as validate
    from minsep.paper.comparison import EPOCHS, EPSILONS, OTHERS
    from minsep.participation import families

    files = Files(report=report, plot=plot, journal=journal, force=force)
    validate.all_of(*files.checks(), *report_checks(report, plot))
    with Bar() as bar:
        comparison = paper.compare(
            iterations,
            delta,
            epsilons=epsilon or EPSILONS,
            epochs=epoch or EPOCHS,
            max_bands=max_bands,
            verified=verified,
            compute=Compute(workers=workers, cluster=cluster),
            journal=journal,
            progress=bar.tell,
        )
        if report is not None or plot is not None:
            from minsep.show.report import plot_comparison, write_comparison

            bar.show("drawing")
            files.write("report", lambda path: write_comparison(comparison, path))
            files.write("plot", lambda path: plot_comparison(comparison, path))
    if json:
        print_json(_as_data(comparison))
        files.finish()
        return
    for other in OTHERS:
        rows = [
            [f"{size:,}", *(f"{ratio:.3f}" for ratio in row)]
            for size, row in zip(comparison.epochs, comparison.ratios(other), strict=True)
        ]
        print_grid(
            f"Mean squared error of b-min-sep over that of {families()[other].words}",
            ["epoch length", *(f"epsilon {value:g}" for value in comparison.epsilons)],
            rows,
        )
    how = "Calibrated by the paper's verifier" if verified else "Estimates"
    say(f"{how} for {iterations:,} iterations, delta {delta:g}, at most {max_bands} bands; below 1 is better.")
    for name, path in files.rows().items():
        print(f"{name}: {path}")
    files.finish()


def _as_data(comparison: Any) -> dict[str, Any]:
    from minsep.paper.comparison import PROPOSED

    cells = [
        {
            "epsilon": cell.epsilon,
            "epoch": cell.epoch,
            "ratios": {other: cell.ratio(other) for other in cell.best if other != PROPOSED},
            "best": {
                name: {
                    "bands": candidate.bands,
                    "min_sep": candidate.min_sep,
                    "noise_multiplier": candidate.noise_multiplier,
                    "error": candidate.error,
                }
                for name, candidate in cell.best.items()
            },
        }
        for cell in comparison.cells
    ]
    return {
        "iterations": comparison.iterations,
        "delta": comparison.delta,
        "max_bands": comparison.max_bands,
        "verified": comparison.verified,
        "cells": cells,
    }
