"""`minsep compare`: the error of b-min-sep over that of other schemes."""

from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.options import Json, Workers, counting, measuring
from minsep.cli.output import Files, print_grid, print_json, report_checks
from minsep.cli.progress import Bar


def compare(
    iterations: Annotated[int, counting("Number of training steps.")] = 1024,
    delta: Annotated[float, measuring("Privacy budget delta.")] = 1e-3,
    epsilon: Annotated[
        list[float] | None, typer.Option(help="An epsilon; may be given several times. Default: 0.5, 1, 2, 4, 8, 16.")
    ] = None,
    epoch: Annotated[
        list[int] | None,
        typer.Option(help="Examples over batch size; may be given several times. Default: 128, 256, 512, 1024."),
    ] = None,
    max_bands: Annotated[int, counting("Most diagonals of the strategy matrix to try.")] = 32,
    workers: Workers = None,
    report: Annotated[Path | None, typer.Option(help="Write an HTML page to this file.")] = None,
    plot: Annotated[Path | None, typer.Option(help="Write the heat maps to this .png or .svg file.")] = None,
    json: Json = False,
) -> None:
    """Compare the mean squared errors of b-min-sep, cyclic Poisson and balls-in-bins, by estimates.

    Example: `minsep compare --iterations 1024 --epsilon 1 --epsilon 4 --epoch 256 --plot ratios.svg`
    """
    import minsep
    from minsep import _validation as validate
    from minsep.planning import FAMILIES
    from minsep.planning.comparison import EPOCHS, EPSILONS, OTHERS

    files = Files(report=report, plot=plot)
    validate.all_of(*files.checks(), *report_checks(report, plot))
    with Bar() as bar:
        found = minsep.compare(
            iterations,
            delta,
            epsilons=epsilon or EPSILONS,
            epochs=epoch or EPOCHS,
            max_bands=max_bands,
            compute=minsep.Compute(workers=workers),
            progress=bar.tell,
        )
        if report is not None or plot is not None:
            from minsep.report import plot_comparison, write_comparison

            bar.show("drawing")
            files.write("report", lambda path: write_comparison(found, path))
            files.write("plot", lambda path: plot_comparison(found, path))
    if json:
        print_json(_as_data(found))
        files.finish()
        return
    for other in OTHERS:
        rows = [
            [f"{size:,}", *(f"{ratio:.3f}" for ratio in row)]
            for size, row in zip(found.epochs, found.ratios(other), strict=True)
        ]
        print_grid(
            f"Mean squared error of b-min-sep over that of {FAMILIES[other].words}",
            ["epoch length", *(f"epsilon {value:g}" for value in found.epsilons)],
            rows,
        )
    print(f"Estimates for {iterations:,} iterations, delta {delta:g}, at most {max_bands} bands; below 1 is better.")
    for name, path in files.rows().items():
        print(f"{name}: {path}")
    files.finish()


def _as_data(found: Any) -> dict[str, Any]:
    from minsep.planning import PROPOSED

    cells = [
        {
            "epsilon": cell.epsilon,
            "epoch": cell.epoch,
            "ratios": {other: cell.ratio(other) for other in cell.best if other != PROPOSED},
            "best": {
                name: {
                    "bands": one.bands,
                    "min_sep": one.min_sep,
                    "noise_multiplier": one.noise_multiplier,
                    "error": one.error,
                }
                for name, one in cell.best.items()
            },
        }
        for cell in found.cells
    ]
    return {"iterations": found.iterations, "delta": found.delta, "max_bands": found.max_bands, "cells": cells}
