"""`minsep batches`: the batches of a b-min-sep run."""

from pathlib import Path
from typing import Annotated

import typer

from minsep.cli.options import BatchSize, Examples, Iterations, Json, MaxBatchSize, MinSep, Seed
from minsep.cli.output import print_json, print_table


def batches(
    examples: Examples,
    batch_size: BatchSize,
    iterations: Iterations,
    min_sep: MinSep = None,
    max_batch_size: MaxBatchSize = None,
    seed: Seed = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the indices to this .npz file, for its owner alone.")
    ] = None,
    json: Json = False,
) -> None:
    """Draw all batches of a run with b-min-sep sampling, and summarise or save them.

    Example: `minsep batches --examples 60000 --batch-size 512 --iterations 2000 --min-sep 16 -o batches.npz`
    """
    import numpy as np

    from minsep import BandedToeplitz, Mechanism, MinSep, Truncation, _validation, save_state

    examples = _validation.integer(examples=examples, at_least=1)
    separation = 1 if min_sep is None else min_sep
    scheme = MinSep(rate=batch_size / examples, min_sep=separation)
    truncation = None if max_batch_size is None else Truncation(batch_size=max_batch_size)
    identity = BandedToeplitz.identity(iterations=iterations)
    stream = Mechanism(identity, scheme, 1.0, truncation).batches(examples, seed=seed)
    drawn = [batch[batch >= 0] for batch in stream]
    sizes = np.array([batch.size for batch in drawn])
    taking_part = np.bincount(np.concatenate(drawn), minlength=examples)
    summary: dict[str, float | str] = {
        "iterations": iterations,
        "expected_batch_size": scheme.expected_batch_size(examples),
        "sampling_prob": scheme.sampling_prob,
        "mean_batch_size": float(sizes.mean()),
        "smallest_batch": int(sizes.min()),
        "largest_batch": int(sizes.max()),
        "most_participations": int(taking_part.max()),
        "examples_never_used": int((taking_part == 0).sum()),
    }
    if output is not None:
        save_state(output, {"indices": np.concatenate(drawn), "offsets": np.concatenate([[0], sizes.cumsum()])})
        summary["output"] = str(output)
    if json:
        print_json(summary)
        return
    print_table(
        f"b-min-sep batches, {examples:,} examples, separation {separation}",
        {
            "Batches": f"{iterations:,}",
            "Expected batch size": f"{summary['expected_batch_size']:,.1f}",
            "Probability to take part when available": f"{scheme.sampling_prob:.6g}",
            "Batch sizes: mean (smallest to largest)": f"{sizes.mean():,.1f} ({sizes.min():,} to {sizes.max():,})",
            "Most participations of one example": f"{taking_part.max():,}",
            "Examples never used": f"{summary['examples_never_used']:,}",
            **({"Written to": str(output)} if output else {}),
        },
    )
