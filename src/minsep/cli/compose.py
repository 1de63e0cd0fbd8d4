"""`minsep compose`: several runs and other releases on the same data together."""

from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.certify import say_assumptions
from minsep.cli.curves import attacker_rows
from minsep.cli.help import OUTPUT, WORK
from minsep.cli.options import Cluster, Force, Json, Workers, command, counting, measuring
from minsep.cli.output import Files, print_grid, print_table, say
from minsep.cli.progress import Bar
from minsep.core.files import write_whole
from minsep.core.validation import shortened
from minsep.planning.request import BUDGET


@command
def compose(
    certificates: Annotated[
        list[Path] | None,
        typer.Argument(
            help="Certificates of runs and tunings on the same data. Name a file twice if it is for two runs."
        ),
    ] = None,
    event: Annotated[
        list[Path] | None,
        typer.Option(
            help="What else happened to the data, as `minsep certify --from` reads it: a history of Opacus, a "
            "configuration of jax-privacy, or an event of dp_accounting. Give several to compose several."
        ),
    ] = None,
    times: Annotated[int, counting("How many runs each named certificate is for.")] = 1,
    delta: Annotated[
        float | None,
        measuring("Delta of everything together (default: the sum of the certified deltas).", rich_help_panel=BUDGET),
    ] = None,
    accept_other_num_examples: Annotated[
        bool,
        typer.Option(
            "--accept-other-examples", help="Compose certificates that were made for different numbers of examples."
        ),
    ] = False,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="Do not verify the certificates.", rich_help_panel=WORK)
    ] = False,
    workers: Workers = None,
    cluster: Cluster = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the result to this JSON file.", rich_help_panel=OUTPUT)
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Compose runs and other releases on the same data: how private they are together.

    Example: `minsep compose first.json second.json --delta 2e-5`, or `minsep compose monthly.json --times 12`
    """
    import minsep
    from minsep.accounting import read_certificate
    from minsep.core import validation as validate
    from minsep.reading import read_record

    paths, files = certificates or [], Files(output=output, force=force)
    validate.all_of(
        lambda: validate.integer(times=times, at_least=1),
        lambda: _check(paths, event or [], delta),
        *files.checks(),
    )
    compute = minsep.Compute(workers=workers, cluster=cluster)
    records = [read_record(path) for path in event or []]
    with Bar("reading") as bar:
        read = {path: read_certificate(path) for path in dict.fromkeys(paths)}
        for path, one in read.items():
            if not no_verify and (isinstance(one, minsep.TuningCertificate) or one.passed):
                bar.show(f"verifying {path}")
                result = (
                    minsep.verify(one, compute=compute)
                    if isinstance(one, minsep.Certificate)
                    else one.verify(compute=compute)
                )
                if not result.holds:
                    raise ValueError(f"{path}: {result.reason}")
        bar.show("composing")
        items: list[Any] = [read[path] for path in paths] * times
        items += [run for record in records for run in record.runs]
        try:
            together = minsep.compose(items, delta, verify=False, accept_other_num_examples=accept_other_num_examples)
        except ValueError as error:
            sentence = str(error).replace("accept_other_num_examples=True", "--accept-other-examples")
            raise ValueError(sentence) from error
    files.write("output", lambda path: write_whole(path, (together.to_json() + "\n").encode()))
    if json:
        print(together.to_json())
    else:
        _print(together, {one.to_json(): path for path, one in read.items()}, files.rows())
    for record in records:
        say_assumptions(record, json)
    files.finish()


def _check(certificates: list[Path], events: list[Path], delta: float | None) -> None:
    if not certificates and not events:
        raise ValueError(
            "certificates is empty: name the certificates of the runs, or give another release by --event."
        )
    if events and delta is None:
        raise ValueError("delta is missing: an event has no certified delta, so say how large delta may be.")


def _print(together: Any, paths: dict[str, Path], files: dict[str, str]) -> None:
    rows = []
    for part in together.parts:
        one = part.certificate or part.tuning
        name = shortened(part.name) if one is None else f"{paths[one.to_json()].name}: {part.name}"
        budget = ["-", "-"] if one is None else [f"{one.epsilon:g}", f"{one.delta:g}"]
        rows.append([name, f"{part.count:,}", *budget])
    print_grid("Runs and releases on the same data", ["what", "times", "epsilon of each", "delta of each"], rows)
    certified = [part for part in together.parts if part.certificates]
    sums = {"Sum of the epsilons": f"{together.sum_of_epsilons:.6g}"} if len(certified) == len(together.parts) else {}
    rows_together = {
        **sums,
        "Epsilon of all together": f"{together.epsilon:.6g}",
        "Delta of all together": f"{together.delta:g}",
        **attacker_rows(together.curve),
    }
    print_table("All together", rows_together | files)
    say(together.statement)
