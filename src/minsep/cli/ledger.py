"""`minsep ledger`: the budget of a dataset, what was spent of it, and what is left."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from minsep.cli.numbers import number
from minsep.cli.options import Json, Workers, command
from minsep.cli.output import print_grid, print_json, print_table, say
from minsep.cli.progress import Bar

REFUSED = 1


@command
def ledger(
    path: Annotated[Path, typer.Argument(help="The file of the ledger.", metavar="FILE")],
    create: Annotated[bool, typer.Option("--create", help="Create the ledger.")] = False,
    dataset: Annotated[str | None, typer.Option(help="With --create: the name of the dataset.", metavar="TEXT")] = None,
    unit: Annotated[
        Literal["example", "user"] | None,
        typer.Option(help="With --create: whose privacy is protected (default: example)."),
    ] = None,
    epsilon: Annotated[
        float | None,
        typer.Option(parser=number, metavar="NUMBER", help="With --create: the epsilon of all entries together."),
    ] = None,
    delta: Annotated[
        float | None,
        typer.Option(
            parser=number,
            metavar="NUMBER",
            help="With --create: the delta of all entries together. With --add or --event: the delta that an adaptive "
            "ledger is charged.",
        ),
    ] = None,
    examples: Annotated[
        int | None, typer.Option(help="With --create: size of the dataset, to refuse certificates for another size.")
    ] = None,
    adaptive: Annotated[
        bool,
        typer.Option(
            "--adaptive",
            help="With --create: entries may be chosen after what earlier ones released. Epsilons and deltas add up.",
        ),
    ] = False,
    add: Annotated[Path | None, typer.Option("--add", help="Add this certificate.")] = None,
    event: Annotated[
        Path | None,
        typer.Option("--event", help="Add what this file of another library describes, as `minsep certify --from`."),
    ] = None,
    name: Annotated[str, typer.Option(help="What the new entry is, in words.", metavar="TEXT")] = "",
    workers: Workers = None,
    json: Json = False,
) -> None:
    """Show a ledger, create it or add to it. Exit 0: done, 1: the entry would exceed the total.

    Example: `minsep ledger budget.json --create --dataset digits --epsilon 8 --delta 1e-5`, then `minsep ledger
    budget.json --add certificate.json --name "first model"` before each run, and `minsep ledger budget.json` to see
    what is left
    """
    import minsep
    from minsep.ledger import OverBudgetError

    book = (
        _created(path, dataset, unit, epsilon, delta, examples, adaptive)
        if create
        else _opened(path, dataset=dataset, unit=unit, epsilon=epsilon, examples=examples, adaptive=adaptive or None)
    )
    items, assumptions = _items(add, event)
    if not items:
        for option, value in {"name": name or None, "delta": None if create else delta}.items():
            if value is not None:
                raise ValueError(f"{option} is {value!r}, but it describes a new entry: use --add or --event as well.")
    else:
        try:
            with Bar("verifying and composing"):
                entry = book.add(
                    items, name=name, delta=None if create else delta, compute=minsep.Compute(workers=workers)
                )
        except OverBudgetError as error:
            say(f"{error}", to_error=True)
            raise typer.Exit(REFUSED) from None
        say(f"Entry {entry.index} was added: {entry.name}.", to_error=json)
        if assumptions:
            say(assumptions, to_error=json)
    with Bar("composing"):
        _show(book, json)


def _created(
    path: Path,
    dataset: str | None,
    unit: str | None,
    epsilon: float | None,
    delta: float | None,
    examples: int | None,
    adaptive: bool,
) -> Any:
    import minsep

    if dataset is None or epsilon is None or delta is None:
        given = {"dataset": dataset, "epsilon": epsilon, "delta": delta}
        missing = ", ".join(f"--{name}" for name, value in given.items() if value is None)
        raise ValueError(f"create needs the dataset and the total: add {missing}.")
    return minsep.Ledger.create(
        path,
        dataset=dataset,
        unit=unit or "example",
        epsilon=epsilon,
        delta=delta,
        num_examples=examples,
        adaptive=adaptive,
    )


def _opened(path: Path, **fixed: Any) -> Any:
    import minsep

    for name, value in fixed.items():
        if value is not None:
            raise ValueError(f"{name} is {value!r}, but a ledger is never changed: omit it, or use --create.")
    return minsep.Ledger.open(path)


def _items(add: Path | None, event: Path | None) -> tuple[list[Any], str]:
    """Return what is to be added, and what is taken for granted of it."""
    from minsep.reading import read_record

    if add is not None and event is not None:
        raise ValueError(
            f"add is {str(add)!r} and event is {str(event)!r}, but an entry is one of them: omit the other."
        )
    if add is not None:
        return [add], ""
    if event is None:
        return [], ""
    record = read_record(event)
    assumed = "\n".join(f"- {sentence}" for sentence in record.assumptions)
    words = f"{record.name} was read as {record.words}."
    return list(record.runs), f"{words} The entry takes for granted:\n{assumed}" if assumed else words


def _show(book: Any, json: bool) -> None:
    total, entries, spent, left = book.total, book.entries, book.spent(), book.left()
    if json:
        print_json(
            {
                "dataset": total.dataset,
                "unit": total.unit,
                "epsilon": total.epsilon,
                "delta": total.delta,
                "num_examples": total.num_examples,
                "adaptive": total.adaptive,
                "entries": [
                    {
                        "index": entry.index,
                        "name": entry.name,
                        "kind": entry.kind,
                        "date": entry.date,
                        "booking": entry.booking,
                        "alone": None if (alone := _alone(entry)) is None else list(alone),
                        "hash": entry.hash,
                    }
                    for entry in entries
                ],
                "spent": None if spent is None else {"epsilon": spent.epsilon, "delta": spent.delta},
                "left": {"epsilon": left.epsilon, "delta": left.delta, "mu": left.mu},
                "head": book.head,
            }
        )
        return
    if entries:
        grid = [[entry.name, f"{entry.index}", entry.date, entry.kind, _cost(entry)] for entry in entries]
        print_grid("Entries", ["name", "entry", "date", "kind", "alone"], grid)
    rows = {
        "Dataset": total.dataset,
        "Protects": f"each {total.unit}",
        "Total": f"{total.budget}",
        "Spent": "nothing" if spent is None else f"({spent.epsilon:.4g}, {spent.delta:.4g})",
        "Last hash": book.head[:16],
    }
    print_table("Ledger", rows)
    say(left.statement)
    if total.adaptive:
        say("Epsilons and deltas add up, so entries may be chosen after what earlier ones released.")
    else:
        say("The total holds if the entries were chosen without looking at what earlier ones released.")


def _alone(entry: Any) -> tuple[float, float] | None:
    """Return the epsilon and delta of an entry alone, if they are known without composing."""
    if entry.charge is not None:
        return entry.charge.epsilon, entry.charge.delta
    if len(entry.certificates) == len(entry.items) == 1:
        return entry.certificates[0].epsilon, entry.certificates[0].delta
    return None


def _cost(entry: Any) -> str:
    alone = _alone(entry)
    return "" if alone is None else f"({alone[0]:g}, {alone[1]:g})"
