"""Options that commands share, with one meaning everywhere."""

from pathlib import Path
from typing import Annotated

import typer

Examples = Annotated[int, typer.Option(help="Number of examples in the dataset.")]
BatchSize = Annotated[int, typer.Option(help="Expected number of examples in a batch.")]
Iterations = Annotated[int, typer.Option(help="Number of training steps.")]
Bands = Annotated[int, typer.Option(help="Number of diagonals of the strategy matrix.")]
MinSep = Annotated[
    int | None,
    typer.Option(help="Iterations from one participation of an example to its next, at least. Default: the bands."),
]
SchemeName = Annotated[str, typer.Option(help="min-sep, cold-min-sep, poisson, cyclic-poisson or balls-in-bins.")]
MaxBatchSize = Annotated[int | None, typer.Option(help="Cut larger batches to this size, and pad smaller ones.")]
NoiseMultiplier = Annotated[float, typer.Option(help="Standard deviation of the noise over the clip norm.")]
Epsilon = Annotated[float, typer.Option(help="Privacy budget epsilon.")]
Delta = Annotated[float, typer.Option(help="Privacy budget delta.")]
Seed = Annotated[int | None, typer.Option(help="Make the run reproducible. Default: the system's entropy.")]
Workers = Annotated[int | None, typer.Option(help="Number of threads. Default: as many as there are cores.")]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the certificate to this file.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
