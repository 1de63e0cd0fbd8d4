"""How large batches should be, for a number of epochs: the frontier that `minsep plan --epochs` prints."""

from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.options import measuring
from minsep.cli.output import print_grid, say
from minsep.planning.request import TASK

Epochs = Annotated[
    float | None,
    measuring(
        "How often each example takes part on average. Without --batch-size, several batch sizes are compared.",
        rich_help_panel=TASK,
    ),
]
BatchSizes = Annotated[
    str | None,
    typer.Option(
        help="With --epochs: the batch sizes to compare, such as 256,512,1024. By default eight are.",
        metavar="INTEGERS",
        rich_help_panel=TASK,
    ),
]


def check_epochs(
    epochs: float | None,
    batch_size: float | None,
    iterations: int | None,
    batch_sizes: str | None,
    edges: Path | None,
) -> None:
    """Refuse numbers that do not say how long the run is, or say it twice."""
    if epochs is None:
        for name, value in (("batch_size", batch_size), ("iterations", iterations)):
            if value is None:
                raise ValueError(f"{name} is missing: give --batch-size and --iterations, or --epochs.")
        if batch_sizes is not None:
            raise ValueError(f"batch_sizes is {batch_sizes!r}, but --epochs is missing: say how long the run is.")
        return
    if iterations is not None:
        raise ValueError(f"epochs is {epochs:g}, but --iterations is {iterations}: omit one.")
    if batch_size is not None and batch_sizes is not None:
        raise ValueError(f"batch_sizes is {batch_sizes!r}, but --batch-size is {batch_size:g}: omit one.")
    if batch_size is None and edges is not None:
        raise ValueError(f"epochs is {epochs:g}, but with --edges one batch size is planned for: give --batch-size.")


def read_batch_sizes(batch_sizes: str | None) -> list[int] | None:
    """Read batch sizes such as 256,512."""
    if batch_sizes is None:
        return None
    try:
        return [int(part.replace("_", "")) for part in batch_sizes.split(",")]
    except ValueError:
        raise ValueError(f"batch_sizes is {batch_sizes!r}, but it must be numbers such as 256,512,1024.") from None


def print_frontier(frontier: Any) -> None:
    """Print what each batch size gives."""
    rows = [
        [
            f"{point.batch_size:,}" + (" (chosen)" if point == frontier.chosen else ""),
            f"{point.iterations:,}",
            point.best.name,
            f"{point.error:.4g}",
            "-" if point.dp_sgd is None else f"{point.dp_sgd.error:.4g}",
            "-" if point.saved is None else f"{100 * point.saved:.0f} %",
        ]
        for point in frontier.points
    ]
    headings = ["batch size", "iterations", "mechanism", "error", "DP-SGD", "saved"]
    print_grid(f"Batch sizes for {frontier.epochs:g} epochs, by quick estimates", headings, rows)
    say(frontier.statement)


def frontier_as_data(frontier: Any) -> dict[str, Any]:
    """Return a frontier as plain data."""
    if frontier is None:
        return {}
    rows = [
        {
            "batch_size": point.batch_size,
            "iterations": point.iterations,
            "scheme": point.best.scheme,
            "bands": point.best.bands,
            "min_sep": point.best.min_sep,
            "noise_multiplier": point.best.noise_multiplier,
            "error": point.error,
            "noise_to_signal": frontier.noise_to_signal(point),
            "error_of_dp_sgd": None if point.dp_sgd is None else point.dp_sgd.error,
        }
        for point in frontier.points
    ]
    return {
        "epochs": frontier.epochs,
        "frontier": rows,
        "chosen_batch_size": frontier.chosen.batch_size,
        "frontier_statement": frontier.statement,
    }
