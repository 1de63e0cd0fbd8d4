"""`minsep batches`: the batches of a run."""

import csv
import io
import json as json_module
from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.help import OUTPUT
from minsep.cli.options import CertifiedSetting, Force, Json, Seed, command
from minsep.cli.output import Files, print_json, print_table
from minsep.cli.progress import Bar

FORMATS = (".npz", ".csv", ".jsonl", ".parquet")


@command
def batches(
    setting: CertifiedSetting,
    seed: Seed = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the indices to this file, readable only by its owner: .npz (indices, offsets), .csv or "
            ".parquet (rows of iteration and index), or .jsonl (one list per line).",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Draw all batches of a run with any of the sampling schemes, and summarise or save them.

    Example: `minsep batches --examples 60000 --batch-size 512 --iterations 2000 --min-sep 16 -o batches.npz`, or
    `minsep batches --examples 60000 --certificate certificate.json -o batches.npz`
    """
    import numpy as np

    files = Files(output=output, force=force)
    mechanism = setting.design(*files.checks(), lambda: _check_format(output)).with_noise(1.0)
    examples, scheme = setting.examples, mechanism.scheme
    with Bar("drawing batches"):
        drawn = list(mechanism.batches(examples, seed=seed))
        sizes = np.array([batch.size for batch in drawn])
        taking_part = np.bincount(np.concatenate(drawn), minlength=examples)
        files.write("output", lambda path: _write(path, drawn))
    summary: dict[str, float | str] = {
        "scheme": scheme.name,
        "iterations": mechanism.iterations,
        "expected_batch_size": scheme.expected_batch_size(examples),
        "sampling_prob": scheme.sampling_prob,
        "mean_batch_size": float(sizes.mean()),
        "smallest_batch": int(sizes.min()),
        "largest_batch": int(sizes.max()),
        "most_participations": int(taking_part.max()),
        "examples_never_used": int((taking_part == 0).sum()),
    }
    if json:
        print_json(summary | ({"output": str(output)} if files.rows() else {}))
    else:
        print_table(
            f"Batches of {examples:,} examples, {scheme.name}",
            {
                "Batches": f"{mechanism.iterations:,}",
                "Expected batch size": f"{summary['expected_batch_size']:,.1f}",
                "Probability of taking part when available": f"{scheme.sampling_prob:.6g}",
                "Batch sizes: mean (smallest to largest)": f"{sizes.mean():,.1f} ({sizes.min():,} to {sizes.max():,})",
                "Most participations of one example": f"{taking_part.max():,}",
                "Examples never used": f"{summary['examples_never_used']:,}",
                **files.rows(),
            },
        )
    files.finish()


def _check_format(path: Path | None) -> None:
    if path is None:
        return
    if path.suffix.lower() not in FORMATS:
        raise ValueError(f"output is {str(path)!r}, but its suffix must be {', '.join(FORMATS[:-1])} or {FORMATS[-1]}.")
    if path.suffix.lower() == ".parquet":
        from minsep.attribution.edges import pyarrow_modules

        pyarrow_modules()


def _write(path: Path, drawn: list[Any]) -> None:
    import numpy as np

    from minsep.core.files import write_whole
    from minsep.core.state import save_state

    sizes = np.array([batch.size for batch in drawn])
    indices = np.concatenate(drawn)
    numbers = np.repeat(np.arange(sizes.size), sizes)
    match path.suffix.lower():
        case ".npz":
            save_state(path, {"indices": indices, "offsets": np.concatenate([[0], sizes.cumsum()])})
        case ".jsonl":
            lines = (json_module.dumps(batch.tolist()) + "\n" for batch in drawn)
            write_whole(path, lambda file: file.writelines(line.encode() for line in lines), private=True)
        case ".csv":
            text = io.StringIO(newline="")
            writer = csv.writer(text)
            writer.writerow(["iteration", "index"])
            writer.writerows(zip(numbers.tolist(), indices.tolist(), strict=True))
            write_whole(path, text.getvalue().encode(), private=True)
        case ".parquet":
            from minsep.attribution.edges import pyarrow_modules

            pyarrow, parquet = pyarrow_modules()
            table = pyarrow.table({"iteration": numbers, "index": indices})
            write_whole(path, lambda file: parquet.write_table(table, file), private=True)
