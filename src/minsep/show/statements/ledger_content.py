"""The sections of a ledger's statement."""

from collections.abc import Iterator

from dp_accounting import DpEvent

from minsep.accounting import Curve, TuningCertificate
from minsep.ledger import Balance, Entry
from minsep.ledger.accounts import MOST_RUNS, rounded_down
from minsep.mechanism import Mechanism
from minsep.participation import Assumption
from minsep.show.statements import content
from minsep.show.statements.content import Section, Table, rounded_up

_VOUCHED = (
    "Entries without a certificate describe all that was run. Their noise multipliers are relative to the sensitivity "
    "for neighbouring datasets that differ in one {unit}, whose contribution is replaced by zero.",
    "The noise of entries without a certificate is exactly as described: nothing is included for rounding.",
)
_SECRET = (
    "Of each tuning, the list of configurations and the distribution of the number of runs were fixed beforehand, only "
    "the best run was released, and the number of runs is secret."
)


def about(balance: Balance) -> Section:
    """Say which dataset and whose privacy the ledger is about, and what its total promises."""
    total = balance.total
    size = () if total.num_examples is None else (("Examples", f"{total.num_examples:,}"),)
    unit, neighbours, trust = content.protected_rows(total.unit)[:3]
    rows = (
        ("Dataset", total.dataset),
        *size,
        unit,
        neighbours,
        trust,
        ("Output that is protected", "everything that the entries released"),
        ("Total", f"{point(total.epsilon, total.delta)}-DP for all entries together"),
        ("Entries are chosen", "after what earlier ones released" if total.adaptive else "beforehand"),
        ("Created on", total.date),
    )
    return Section("What the ledger is about", (_promise(balance),), Table(("", ""), rows))


def _promise(balance: Balance) -> str:
    if balance.total.adaptive:
        return (
            "The ledger is adaptive: what is run next, and with how much noise, may depend on everything that was "
            "released before. So the epsilons and the deltas of its entries add up, and their sums stay within the "
            "total."
        )
    return (
        "The total holds if the entries were chosen without looking at what earlier ones released. A run may use "
        "earlier results, such as a model to start with, but its privacy may not depend on them. What is proven of the "
        "entries at all epsilons is composed, which costs less than adding up epsilons."
    )


def entries(balance: Balance) -> Section:
    """List the entries, with what each costs alone."""
    if not balance.entries:
        return Section("Entries", ("The ledger has no entries yet.",))
    alone = (
        "as it was charged"
        if balance.total.adaptive
        else "as certified, or else at the delta of the total. Together they cost less than the sum"
    )
    rows = tuple(
        (f"{entry.index}: {entry.name}", f"{entry.kind}, {entry.date}", point(*cost))
        for entry, cost in zip(balance.entries, balance.costs, strict=True)
    )
    return Section(
        "Entries",
        (f"The last column is the epsilon and delta of an entry alone, {alone}.",),
        Table(("entry", "kind and date", "alone"), rows),
    )


def spent_and_left(balance: Balance) -> Section:
    """Say what all entries cost together, and what still fits."""
    total, spent, left = balance.total, balance.spent, balance.left
    rows = (
        ("Total", f"{point(total.epsilon, total.delta)}-DP"),
        ("Spent", "nothing" if spent is None else f"{point(spent.epsilon, spent.delta)}-DP"),
        ("Left for one more run", "nothing" if left.any_run is None else f"{rounded_down(left.any_run)}"),
    )
    again = () if spent is None or left.nothing else (_again(balance),)
    return Section("What is spent, and what is left", (left.statement, *again), Table(("", ""), rows))


def newest(balance: Balance) -> Entry:
    """Return the newest run of a ledger, or its newest entry if it has no run with a certificate."""
    return next((entry for entry in reversed(balance.entries) if entry.certificates), balance.entries[-1])


def _again(balance: Balance) -> str:
    entry = newest(balance)
    count = balance.fits_again(entry)
    often = {0: "cannot be repeated", 1: "could be repeated once"}.get(count, f"could be repeated {count:,} times")
    return f"Entry {entry.index} ({entry.name}) {often}{' or more' if count == MOST_RUNS else ''}."


def meaning(balance: Balance, curve: Curve) -> Section:
    """Say what the entries together mean for an attacker."""
    spent = balance.spent
    assert spent is not None
    words = content.attacker_of(
        balance.total.unit, rounded_up(spent.epsilon), rounded_up(spent.delta), content.times(spent.epsilon)
    )
    return Section("What it means", words, content.attackers(curve))


def composition(balance: Balance) -> str:
    """Say how the entries compose, in a sentence or two."""
    chance = 0.0 if balance.spent is None else balance.spent.curve.chance
    errs = f" Delta includes the chance that a certificate is wrong, {chance:.3g}, once." if chance else ""
    return f"{_promise(balance)}{errs}"


def assumptions(balance: Balance) -> tuple[str, ...]:
    """Return everything that is taken for granted."""
    return tuple(dict.fromkeys(_assumptions(balance)))


def _assumptions(balance: Balance) -> Iterator[str]:
    if len(balance.entries) > 1 and not balance.total.adaptive:
        yield "Whoever chose the entries did not look at what earlier entries released."
    for entry in balance.entries:
        for certificate in entry.certificates:
            yield from content.assumptions(certificate, certificate.mechanism)
        for item in entry.items:
            if isinstance(item, Mechanism):
                yield from (assumption.sentence for assumption in item.scheme.assumptions)
            if isinstance(item, Mechanism | DpEvent):
                yield from (sentence.format(unit=balance.total.unit) for sentence in _VOUCHED)
            if isinstance(item, TuningCertificate):
                yield _SECRET


def not_proven(balance: Balance) -> list[str]:
    """Return what the guarantee rests on that is not proven, in sentences."""
    found: list[Assumption] = []
    for entry in balance.entries:
        for certificate in entry.certificates:
            found += certificate.assumptions
        for item in entry.items:
            found += item.scheme.assumptions if isinstance(item, Mechanism) else ()
    return list(dict.fromkeys(assumption.sentence for assumption in found))


def not_covered(balance: Balance, *, replaced: bool) -> Section:
    """Say what the ledger is not about; `replaced` if the statement is about replacing a unit as well."""
    return Section(
        "What is not covered",
        items=(
            "Uses of the data that are not in this ledger: other runs, statistics, choosing settings by results, and "
            "entries of a second ledger.",
            "A certificate that was made after its run.",
            *content.beyond_privacy(balance.total.unit, replaced=replaced),
        ),
    )


def point(epsilon: float, delta: float) -> str:
    """Return an epsilon and a delta, rounded up."""
    return f"({rounded_up(epsilon)}, {rounded_up(delta)})"
