"""`minsep bound`: keep examples so that no user has too many of them."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from minsep.cli.help import OUTPUT
from minsep.cli.options import Force, Json, command
from minsep.cli.output import Files, print_json, print_table
from minsep.cli.progress import Bar


@command
def bound(
    edges: Annotated[
        Path,
        typer.Argument(
            help="Edges, .csv or .parquet: the columns example and user, or else the first two. Text ids need names."
        ),
    ],
    user_bound: Annotated[int, typer.Option(help="Maximum number of kept examples per user (k_u).")],
    duplicates: Annotated[
        bool, typer.Option("--duplicates", help="Keep copies of an example while all of its users have room.")
    ] = False,
    neighbourhood_bound: Annotated[
        int | None,
        typer.Option(help="Maximum number of kept examples that share a user with one, including itself (k_e)."),
    ] = None,
    order: Annotated[
        Literal["ascending", "random"],
        typer.Option(help="ascending: examples with few neighbours first, which keeps most; or random."),
    ] = "ascending",
    seed: Annotated[int, typer.Option(help="Seed of ties and of the random order in which examples are tried.")] = 0,
    output: Annotated[
        Path | None,
        typer.Option(
            "--output",
            "-o",
            help="Write the ids of the kept examples to this .csv or .parquet file.",
            rich_help_panel=OUTPUT,
        ),
    ] = None,
    force: Force = False,
    json: Json = False,
) -> None:
    """Bound contributions: keep examples, greedily in an order, so that no user has more than a given number.

    Example: `minsep bound edges.csv --user-bound 2 -o kept.parquet`
    """
    from minsep import AttributionGraph, bound_contributions
    from minsep.attribution.edges import check_format, write_examples
    from minsep.core import validation as validate

    files = Files(output=output, force=force)
    validate.all_of(*files.checks(), *([] if output is None else [lambda: check_format(output)]))
    with Bar(f"bounding the contributions of {edges}"):
        graph = AttributionGraph.from_edges(edges)
        bounded = bound_contributions(
            graph,
            user_bound,
            duplicates=duplicates,
            neighbourhood_bound=neighbourhood_bound,
            order=order,
            seed=seed,
        )
        kept = bounded.graph.example_ids
        assert kept is not None
        files.write("output", lambda path: write_examples(path, kept))
    summary: dict[str, Any] = bounded.summary()
    if json:
        print_json(summary | ({"output": str(output)} if files.rows() else {}))
        files.finish()
        return
    rows = {
        "Examples kept": f"{summary['examples_kept']:,} of {summary['examples_before']:,}",
        "Different examples kept": f"{summary['distinct_examples_kept']:,}",
        "Edges kept": f"{summary['edges_kept']:,} of {summary['edges_before']:,}",
        "Users with a kept example": f"{summary['users_kept']:,} of {summary['users_before']:,}",
        "Most kept examples of one user": f"{summary['most_examples_of_a_user']:,}",
        "Examples sharing a user with an example: mean (largest)": (
            f"{summary['mean_neighbourhood']:.2f} ({summary['largest_neighbourhood']:,})"
        ),
        **files.rows(),
    }
    print_table(f"Contributions bounded to {user_bound} examples per user", rows)
    files.finish()
