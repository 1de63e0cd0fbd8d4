"""`minsep audit`: whether a training loop is as private as its certificate."""

from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.help import OUTPUT, WORK
from minsep.cli.options import Force, Json, Seed, Verify, command, counting, measuring
from minsep.cli.output import Files, print_grid, print_table, report_checks, say
from minsep.cli.progress import Bar

ALARM = 1


@command
def audit(
    certificate: Annotated[Path, typer.Argument(help="The certificate of the mechanism that the loop should run.")],
    loop: Annotated[
        str, typer.Option(help="torch, jax, huggingface, processes or fsdp2, or your own as module:function.")
    ] = "torch",
    runs: Annotated[
        int | None, counting("How often the loop is run. Default: 16, or 256 with one canary.", rich_help_panel=WORK)
    ] = None,
    canaries: Annotated[
        int | None,
        counting("Canaries in each run. Default: 1024, or 1 if batches are cut.", rich_help_panel=WORK),
    ] = None,
    failure_probability: Annotated[
        float, measuring("Largest probability of an alarm about a correct loop.", rich_help_panel=WORK)
    ] = 1e-6,
    seed: Seed = None,
    verify: Verify = True,
    plot: Annotated[
        Path | None,
        typer.Option(help="Draw false against true positives to this file, .png or .svg.", rich_help_panel=OUTPUT),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Run a training loop on canaries, and compare it with its certificate. Exit 0: no alarm, 1: alarm.

    Example: `minsep audit certificate.json --loop torch`, or `minsep audit certificate.json --loop my_training:loop`
    """
    import minsep
    from minsep.core import validation as validate

    files = Files(plot=plot, force=force)
    validate.all_of(*files.checks(), *report_checks(None, plot), lambda: _check_numbers(runs, canaries))
    with Bar(f"preparing an audit of {loop}") as bar:
        result = minsep.audit(
            certificate,
            loop,
            runs=runs,
            canaries=canaries,
            failure_probability=failure_probability,
            seed=seed,
            verify=verify,
            progress=bar.tell,
        )
    if plot is not None:
        files.write("plot", lambda path: _plot(result, path))
    if json:
        print(result.to_json())
    else:
        _print(result, files)
    files.finish()
    if not result.passed:
        raise typer.Exit(ALARM)


def _check_numbers(runs: int | None, canaries: int | None) -> None:
    from minsep.core import validation as validate

    for name, value in (("runs", runs), ("canaries", canaries)):
        if value is not None:
            validate.integer(at_least=1, **{name: value})


def _plot(result: Any, path: Path) -> None:
    from minsep.show.report import plot_audit

    plot_audit(result, path)


def _print(result: Any, files: Files) -> None:
    rows = {
        "Mechanism": result.mechanism,
        "Loop": result.loop,
        "Trials (runs x canaries)": f"{result.trials:,} ({result.runs:,} x {result.canaries:,})",
        f"Epsilon at delta {result.delta:g}, at least": f"{result.lower_bound:.4g}",
    }
    if result.gaussian_bound is not None:
        rows["The same, if the noise is Gaussian"] = f"{result.gaussian_bound:.4g}"
    rows["Certified, at most"] = f"{result.epsilon:g}"
    print_table("Audit", rows | files.rows())
    print_grid(
        "Checks",
        ["check", "found", "p-value", ""],
        [
            [check.name, check.finding, f"{check.p_value:.2g}", "ok" if check.passed else "ALARM"]
            for check in result.checks
        ],
    )
    say("\n".join([*result.alarms, result.statement]))
