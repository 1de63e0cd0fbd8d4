"""`minsep plan`: the best mechanism for a task, its certificate and its report."""

import json as json_module
import shlex
import sys
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer

from minsep.cli.certify import proof_rows
from minsep.cli.curves import USUAL_SHARE, WithOrWithoutCurve, check_law, curve_rows, print_prices, tuning_rows
from minsep.cli.epochs import BatchSizes, Epochs, check_epochs, frontier_as_data, print_frontier, read_batch_sizes
from minsep.cli.goal import REFUSED, Goal
from minsep.cli.help import OUTPUT
from minsep.cli.memory import memory_as_data, print_memory
from minsep.cli.options import MOST_EXAMPLES, QUESTIONS, Answers, Force, Journal, Json, Output, Work, command, option
from minsep.cli.output import Files, print_grid, print_table, print_training, report_checks, say
from minsep.cli.progress import Bar
from minsep.core.budget import Budget
from minsep.planning.presets import PRESETS, preset_of
from minsep.planning.request import TASK, default_of

_ROWS_SHOWN = 8
_RELATIVE_ERROR_WORTH_SAYING = 1.05  # than the best by another workload, from where on it is said
_LARGE_NOISE_MULTIPLIER = 10.0
_ANY_BUDGET = {"epsilon": 1.0, "delta": 1e-6}  # while what is wrong with the budget is said already
_OF_THE_GRAPH = ("num_examples", "user_bound", "graph", "attempts")
_OF_THE_TASK = ("num_examples", "batch_size", "iterations", "user_bound")


@command
def plan(
    *,
    preset: Annotated[
        str | None,
        typer.Option(
            help=f"Start from the numbers of a run that was reported, and replace some: {', '.join(PRESETS)}.",
            metavar="TEXT",
            rich_help_panel=TASK,
        ),
    ] = None,
    examples: Annotated[int | None, option(QUESTIONS["num_examples"])] = None,
    batch_size: Annotated[float | None, option(QUESTIONS["batch_size"])] = None,
    iterations: Annotated[int | None, option(QUESTIONS["iterations"])] = None,
    epochs: Epochs = None,
    batch_sizes: BatchSizes = None,
    goal: Goal,
    answers: Answers,
    work: Work,
    edges: Annotated[
        Path | None,
        typer.Option(
            help="Protect users: a .csv or .parquet file of examples and their users, instead of --examples.",
            rich_help_panel=TASK,
        ),
    ] = None,
    user_bound: Annotated[
        str | None,
        typer.Option(
            help="Most examples of one user, who is protected. With --edges several are compared, by default 1,2,4.",
            metavar="INTEGERS",
            rich_help_panel=TASK,
        ),
    ] = None,
    curve: WithOrWithoutCurve = None,
    journal: Journal = None,
    output: Output = None,
    force: Force = False,
    report: Annotated[
        Path | None, typer.Option(help="Write an HTML report to this file.", rich_help_panel=OUTPUT)
    ] = None,
    plot: Annotated[
        Path | None, typer.Option(help="Write a picture to this .png or .svg file.", rich_help_panel=OUTPUT)
    ] = None,
    json: Json = False,
) -> None:
    """Find and certify the strategy, sampling scheme and noise multiplier with the lowest error at (epsilon, delta).

    Example: `minsep plan --examples 60000 --batch-size 512 --iterations 2000 --epsilon 4 --delta 1e-5
    --report plan.html`, to find the batch size `minsep plan --examples 60000 --epochs 10 --epsilon 4 --delta 1e-5`,
    or for users `minsep plan --edges edges.csv --user-bound 1,2 --batch-size 512 --iterations
    2000 --epsilon 4 --delta 1e-5`
    """
    import minsep
    from minsep.core import validation as validate
    from minsep.planning import Request, make_plan

    if preset is not None:
        known = preset_of(preset).values
        examples = known["num_examples"] if examples is None and edges is None else examples
        if epochs is None:
            batch_size = known["batch_size"] if batch_size is None else batch_size
            iterations = known["iterations"] if iterations is None else iterations
        goal = goal.or_else(known["epsilon"], known["delta"])
        answers |= {name: known[name] for name in answers.keys() & known if answers[name] == default_of(name)}
    keeps = not json and not answers["estimate"]
    files = Files(output=output, report=report, plot=plot, journal=journal, force=force, keeps_certificate=keeps)
    asked = {name: value for name, value in answers.items() if value is not None}
    promised: list[Budget] = []
    requests: list[Request] = []

    def check_request() -> None:
        # How many examples of a graph are kept is known once the graph is read.
        numbers: dict[str, Any] = {"num_examples": MOST_EXAMPLES if examples is None else examples}
        numbers |= _sizes(examples, batch_size, iterations, epochs)
        numbers |= {"epsilon": promised[0].epsilon, "delta": promised[0].delta} if promised else _ANY_BUDGET
        requests.append(Request.of(asked | numbers))

    validate.all_of(
        lambda: promised.append(goal.budget()),
        check_request,
        lambda: check_epochs(epochs, batch_size, iterations, batch_sizes, edges),
        lambda: read_batch_sizes(batch_sizes),
        lambda: goal.check_trials(answers["trials"]),
        lambda: check_law(answers["trials"], answers["law"]),
        lambda: _check_examples(examples, edges, answers["max_batch_size"]),
        lambda: _bounds(user_bound, edges),
        lambda: _check_estimate(answers["estimate"], output),
        *files.checks(),
        *report_checks(report, plot),
        *work.check(),
    )
    (request,) = requests
    bounds = _bounds(user_bound, edges)
    of_users = {name: value for name, value in request.fields.items() if name not in _OF_THE_GRAPH}
    curve = True if goal.needs_curve else curve
    how: dict[str, Any] = {"seed": work.seed, "curve": curve, "compute": work.compute, "journal": journal}
    with Bar() as bar, goal.quiet():
        users = frontier = None
        if epochs is not None and batch_size is None:
            fields = {name: value for name, value in request.fields.items() if name not in _OF_THE_TASK}
            frontier = minsep.plan_epochs(
                request.num_examples,
                epochs,
                batch_sizes=read_batch_sizes(batch_sizes),
                user_bound=bounds[0],
                progress=bar.tell,
                **fields,
                **how,
            )
            result = frontier.plan
        elif edges is not None:
            graph = minsep.AttributionGraph.from_edges(edges)
            users = minsep.plan_users(graph, **of_users, user_bounds=bounds, progress=bar.tell, **how)
            result = users.recommended.plan
        else:
            result = make_plan(replace(request, user_bound=bounds[0]), progress=bar.tell, **how)
        files.write_certificate(result.certificate)
        if report is not None or plot is not None:
            from minsep.show.report import plot as draw
            from minsep.show.report import write_report

            bar.show("drawing")
            files.write(
                "report", lambda path: write_report(result, path, command=shlex.join(["minsep", *sys.argv[1:]]))
            )
            files.write("plot", lambda path: draw(result, path))
    if json:
        training = {"training": _lines(result, output, edges)} if result.certified else {}
        print(
            json_module.dumps(
                _as_data(result) | _users_as_data(users) | frontier_as_data(frontier) | training, allow_nan=False
            )
        )
    else:
        if users is not None:
            _print_users(users)
        if preset is not None:
            say(f"{preset}: {PRESETS[preset].what}. Source: {PRESETS[preset].source}.")
        if frontier is not None:
            print_frontier(frontier)
        _print(result, goal.rows(result.certificate) | files.rows(output="Certificate"))
        if files.note:
            print(files.note)
        if files.failed:
            print(result.certificate.to_json())
        elif files.certificate is not None and result.certified:
            print_training(_lines(result, files.certificate, edges))
    files.finish()
    if not (request.estimate or result.certified):
        raise typer.Exit(REFUSED)
    goal.finish(result.certificate)


def _check_estimate(estimate: bool, output: Path | None) -> None:
    if estimate and output is not None:
        raise ValueError(f"output is {output}, but an estimate has no certificate to save: omit output or estimate.")


def _sizes(
    examples: int | None, batch_size: float | None, iterations: int | None, epochs: float | None
) -> dict[str, Any]:
    """Return the batch size and the iterations to check a request with; those of a frontier are made later."""
    from minsep.planning.frontier import iterations_of

    if epochs is not None and examples is not None and batch_size is not None and epochs > 0 and batch_size > 0:
        return {"batch_size": batch_size, "iterations": iterations_of(epochs, examples, batch_size)}
    size = 1.0 if batch_size is None else batch_size
    return {"batch_size": size, "iterations": 1 if iterations is None else iterations}


def _lines(result: Any, output: Path | None, edges: Path | None) -> str:
    """Return the lines that train with the plan."""
    from minsep.training.snippet import training_lines

    names: dict[str, Any] = {} if output is None else {"certificate": str(output)}
    if edges is not None:
        names |= {"edges": str(edges), "user_bound": result.request.user_bound}
    return training_lines(
        result.request.num_examples, result.request.iterations, workload=result.request.workload, **names
    )


def _check_examples(examples: int | None, edges: Path | None, max_batch_size: int | None) -> None:
    if examples is None and edges is None:
        raise ValueError("examples is missing: give the number of examples, or a file of edges to protect users.")
    if examples is not None and edges is not None:
        raise ValueError(f"examples is {examples}, but the file of edges says how many there are: leave it out.")
    if edges is not None and max_batch_size is not None:
        raise ValueError(f"max_batch_size is {max_batch_size}, but with edges no batch is cut: leave it out.")


def _bounds(user_bound: str | None, edges: Path | None) -> list[int]:
    """Read bounds as 1,2,4: several where the examples of each user are known, else one."""
    if user_bound is None:
        return [1] if edges is None else [1, 2, 4]
    try:
        bounds = [int(part) for part in user_bound.split(",")]
    except ValueError:
        raise ValueError(f"user_bound is {user_bound!r}, but it must be numbers such as 1,2,4.") from None
    if edges is None and len(bounds) > 1:
        raise ValueError(f"user_bound is {user_bound!r}, but without edges it must be one number.")
    return bounds


def _users_as_data(users: Any) -> dict[str, Any]:
    if users is None:
        return {}
    names = ("user_bound", "examples_kept", "error_per_example")
    rows = [
        {name: getattr(option, name) for name in names}
        | {"noise_multiplier": option.plan.mechanism.noise_multiplier, "error": option.plan.error}
        for option in users.plans
    ]
    return {"users": rows, "recommended_user_bound": users.recommended.user_bound, "recommendation": users.statement}


def _print_users(users: Any) -> None:
    rows = [
        [
            f"{option.user_bound}" + (" (recommended)" if option is users.recommended else ""),
            f"{option.examples_kept:,}",
            option.plan.chosen.name,
            f"{option.plan.mechanism.noise_multiplier:.4g}",
            f"{option.plan.error:.4g}",
            f"{option.error_per_example:.3g}",
        ]
        for option in users.plans
    ]
    headings = ["examples per user", "examples kept", "mechanism", "noise multiplier", "error", "error per example"]
    print_grid("Bounds on the examples of a user", headings, rows)
    say(users.statement)


def _as_data(result: Any) -> dict[str, Any]:
    fields = ("scheme", "bands", "min_sep", "shrink", "matrix", "noise_multiplier", "error", "skipped")
    wider = {} if result.wider is None else {"wider": _as_data(result.wider) | _cap(result.wider)}
    return (wider | memory_as_data(result)) | {
        "statement": result.statement,
        "fallback": result.fallback,
        "error": result.error,
        "workload": result.request.workload.name,
        "gain_of_tuning": result.gain,
        "headline": result.headline,
        "reason": result.reason,
        "against_dp_sgd": _margin_as_data(result.against_dp_sgd),
        "against_baseline": _margin_as_data(result.against_baseline),
        "tuning": None if result.tuning is None else _tuning_as_data(result.tuning),
        "seed": result.seed,
        "largest_stable_clip_norm": _largest_stable_clip_norm(result),
        "chosen": {field: getattr(result.chosen, field) for field in fields},
        "table": [{field: getattr(candidate, field) for field in fields} for candidate in result.table],
        "certified": result.certified,
        "ties": [{field: getattr(candidate, field) for field in fields} for candidate in result.ties],
        "certificate": None if result.estimated else json_module.loads(result.certificate.to_json()),
    }


def _tuning_as_data(tuning: Any) -> dict[str, Any]:
    return {
        "epsilon": tuning.epsilon,
        "delta": tuning.delta,
        "runs": tuning.trials.mean,
        "law": tuning.trials.name,
        "statement": tuning.statement,
    }


def _margin_as_data(margin: Any) -> dict[str, Any] | None:
    if margin is None:
        return None
    return {
        "mechanism": margin.other.name,
        "its_error": margin.other.error,
        "error": margin.error,
        "saved": margin.saved,
        "certified": margin.certified,
    }


def _cap(result: Any) -> dict[str, Any]:
    return {"max_batch_size": result.request.max_batch_size}


def _print(result: Any, files: dict[str, str]) -> None:
    if result.fallback:
        say(result.fallback)
    tried = [candidate for candidate in result.table if candidate.error is not None]
    rows = [
        [
            f"{candidate.name} (chosen)" if candidate == result.chosen else candidate.name,
            f"{candidate.noise_multiplier:.4g}",
            f"{candidate.error:.4g}",
            f"{candidate.error / result.chosen.error:.3f}",
        ]
        for candidate in _most_telling(tried, result.chosen)
    ]
    more = len(tried) - len(rows)
    title = f"{len(tried)} mechanisms, ranked by estimates" + (f"; {more} more with --json" if more else "")
    print_grid(title, ["mechanism", "noise multiplier", "error", "relative to chosen"], rows)
    print_memory(result)
    if result.reason:
        print(result.reason)
    skipped = [candidate for candidate in result.table if candidate.skipped]
    if skipped:
        say(f"Skipped: {len(skipped)}, such as {skipped[0].name}: {skipped[0].skipped}.")
    summary = {
        "Mechanism": result.chosen.name,
        "Noise multiplier": f"{result.mechanism.noise_multiplier:.5g}",
        f"Error of {result.request.workload.name}": f"{result.error:.5g}",
        **_margins(result),
        "Error saved by tuning": f"{100 * result.gain:.1f} %",
        "Largest stable clip norm of scaled Adam": f"{_largest_stable_clip_norm(result):.3g}",
        **({} if result.estimated else proof_rows(result.certificate) | curve_rows(result.certificate)),
        **tuning_rows(result.tuning),
        **files,
    }
    what, goal = "Estimate" if result.estimated else "Plan", f"{result.request.budget}"
    if result.tuned is not None:
        goal = f"one of about {result.tuned.trials.mean:g} runs, {result.tuned.whole} together"
    print_table(f"{what} for {goal}", summary)
    say(result.statement.removeprefix(result.fallback).lstrip())
    if not result.estimated:
        say(result.certificate.statement)
    if result.tuning is not None:
        say(result.tuning.statement)
        print_prices(
            result.certificate.curve, result.tuning.delta, USUAL_SHARE, result.tuning.trials.success(USUAL_SHARE)
        )
    from minsep.planning import rankings

    other = [found for found in rankings(result) if found.plan_error > _RELATIVE_ERROR_WORTH_SAYING * found.error]
    for found in other[:1]:
        say(f"The ranking depends on the workload. {found.sentence}")
    if result.mechanism.noise_multiplier > _LARGE_NOISE_MULTIPLIER:
        say(
            f"Epsilon {result.request.epsilon:g} at these settings needs a noise multiplier of "
            f"{result.mechanism.noise_multiplier:.3g}; the error of {result.request.workload.name} is "
            f"{result.error:.3g} clip norms, with batches of {result.request.batch_size:g}. "
            "Larger batches, fewer iterations or a larger epsilon help most."
        )


def _margins(result: Any) -> dict[str, str]:
    """Return how a plan compares with DP-SGD, and with the best baseline if that is another one."""
    dp_sgd, baseline = result.against_dp_sgd, result.against_baseline
    rows = {} if dp_sgd is None else {"Against DP-SGD": dp_sgd.words}
    if baseline is not None and (dp_sgd is None or baseline.other != dp_sgd.other):
        rows["Against the best baseline"] = baseline.words
    return rows


def _largest_stable_clip_norm(result: Any) -> float:
    from minsep.training.stability import largest_stable_clip_norm

    return largest_stable_clip_norm(
        result.mechanism, result.mechanism.scheme.expected_batch_size(result.request.num_examples)
    )


def _most_telling(tried: list[Any], chosen: Any) -> list[Any]:
    """Return the best few candidates, the chosen one, and the best of every scheme that is not among them."""
    shown = tried[:_ROWS_SHOWN]
    if chosen in tried and chosen not in shown:
        shown.append(chosen)
    for name in dict.fromkeys(candidate.scheme for candidate in tried):
        if all(candidate.scheme != name for candidate in shown):
            shown.append(next(candidate for candidate in tried if candidate.scheme == name))
    return sorted(shown, key=tried.index)
