"""Options that commands share, with one meaning everywhere."""

from typing import Annotated

import typer

Examples = Annotated[int, typer.Option(help="Number of examples in the dataset.")]
BatchSize = Annotated[int, typer.Option(help="Expected number of examples in a batch.")]
Iterations = Annotated[int, typer.Option(help="Number of training steps.")]
Bands = Annotated[int, typer.Option(help="Number of diagonals of the strategy matrix.")]
MinSep = Annotated[int, typer.Option(help="Iterations from one participation of an example to its next, at least.")]
MaxBatchSize = Annotated[int | None, typer.Option(help="Cut larger batches to this size, and pad smaller ones.")]
Seed = Annotated[int | None, typer.Option(help="Make the run reproducible. Default: the system's entropy.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]
