"""`minsep ledger`: the budget of a dataset, what was spent of it, and what is left."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from minsep.cli.help import WORK
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
    again: Annotated[
        bool, typer.Option("--again", help="Add what the ledger has an entry of already, because it is run once more.")
    ] = False,
    head: Annotated[
        str | None,
        typer.Option(
            help="Check that the ledger still has the line with this hash, which an earlier call printed: nothing up "
            "to it was lost.",
        ),
    ] = None,
    no_verify: Annotated[
        bool, typer.Option("--no-verify", help="With --add: do not verify the certificate.", rich_help_panel=WORK)
    ] = False,
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

    items, assumptions = _items(add, event)
    if not items:
        entry_only = {
            "name": name or None,
            "delta": None if create else delta,
            "again": again or None,
            "no_verify": no_verify or None,
        }
        for option, value in entry_only.items():
            if value is not None:
                raise ValueError(f"{option} is {value!r}, but it describes a new entry: use --add or --event as well.")
    book = (
        _created(path, dataset, unit, epsilon, delta, examples, adaptive, head)
        if create
        else _opened(
            path, head, dataset=dataset, unit=unit, epsilon=epsilon, examples=examples, adaptive=adaptive or None
        )
    )
    if head is not None:
        say(f"The ledger has the line with this hash: {_line(book, head)}.", to_error=json)
    if items:
        if not again:
            _refuse_repetition(book, items)
        try:
            with Bar("verifying and composing"):
                entry = book.add(
                    items,
                    name=name,
                    verify=not no_verify,
                    delta=None if create else delta,
                    compute=minsep.Compute(workers=workers),
                )
        except OverBudgetError as error:
            say(f"{error}", to_error=True)
            raise typer.Exit(REFUSED) from None
        say(f"Entry {entry.index} was added: {entry.name}.", to_error=json)
        if assumptions:
            say(assumptions, to_error=json)
    with Bar("composing"):
        balance = book.balance()
        _show(balance, json)


def _created(
    path: Path,
    dataset: str | None,
    unit: str | None,
    epsilon: float | None,
    delta: float | None,
    examples: int | None,
    adaptive: bool,
    head: str | None,
) -> Any:
    import minsep

    if head is not None:
        raise ValueError(f"head is {head!r}, but a new ledger has no lines yet: omit it.")
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


def _opened(path: Path, head: str | None, **fixed: Any) -> Any:
    import minsep

    for name, value in fixed.items():
        if value is not None:
            raise ValueError(f"{name} is {value!r}, but a ledger is never changed: omit it, or use --create.")
    return minsep.Ledger.open(path, head=head)


def _line(book: Any, head: str) -> str:
    """Return the line with a hash, in words."""
    found = next((entry for entry in book.entries if entry.hash == head.lower()), None)
    return "the first one" if found is None else f"entry {found.index}, {found.name}"


def _refuse_repetition(book: Any, items: list[Any]) -> None:
    """Refuse what has an entry: whoever calls twice, or before a run that books itself, would spend twice as much."""
    found = next((entry for entry in book.entries if list(entry.items) == items), None)
    if found is not None:
        raise ValueError(
            f"Entry {found.index} of the ledger ({found.name}, {found.date}) is the same: if it is run once more, add "
            "--again."
        )


def _items(add: Path | None, event: Path | None) -> tuple[list[Any], str]:
    """Return what is to be added, and what is taken for granted of it."""
    from minsep.accounting import read_certificate
    from minsep.reading import read_record

    if add is not None and event is not None:
        raise ValueError(
            f"add is {str(add)!r} and event is {str(event)!r}, but an entry is one of them: omit the other."
        )
    if add is not None:
        return [read_certificate(add)], ""
    if event is None:
        return [], ""
    record = read_record(event)
    assumed = "\n".join(f"- {sentence}" for sentence in record.assumptions)
    words = f"{record.name} was read as {record.words}."
    return list(record.runs), f"{words} The entry takes for granted:\n{assumed}" if assumed else words


def _show(balance: Any, json: bool) -> None:
    if json:
        print_json(balance.as_data())
        return
    total, spent = balance.total, balance.spent
    if balance.entries:
        grid = [
            [entry.name, f"{entry.index}", entry.date, entry.kind, f"({epsilon:.4g}, {delta:.4g})"]
            for entry, (epsilon, delta) in zip(balance.entries, balance.costs, strict=True)
        ]
        print_grid("Entries", ["name", "entry", "date", "kind", "alone"], grid)
    rows = {
        "Dataset": total.dataset,
        "Protects": f"each {total.unit}",
        "Total": f"{total.budget}",
        "Spent": "nothing" if spent is None else f"({spent.epsilon:.4g}, {spent.delta:.4g})",
    }
    print_table("Ledger", rows)
    say(balance.left.statement)
    say(balance.promise)
    say(f"The last line has the hash {balance.head}")
