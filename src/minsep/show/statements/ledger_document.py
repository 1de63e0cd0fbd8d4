"""The statement of a ledger: what was spent of a dataset's budget, by what, and what is left."""

import os
import shlex
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import version
from pathlib import Path
from typing import Any

from minsep.accounting import Curve
from minsep.core.validation import choice
from minsep.engine import LOCAL, Compute
from minsep.ledger import Balance, Ledger
from minsep.show.statements import content, ledger_content, neighbours
from minsep.show.statements.content import Section, Table
from minsep.show.statements.formats import Formatted
from minsep.show.statements.ledger_content import point
from minsep.show.statements.markdown import plain
from minsep.show.statements.model_card import card, conclusion, main_rows
from minsep.show.statements.registry import Facts, Todo, as_registry_entry, attackers, domain


@dataclass(frozen=True)
class LedgerStatement(Formatted):
    """What a ledger lists, what its entries guarantee together, and what is left of the budget.

    Attributes:
        balance: What the ledger holds.
        verified: Whether its certificates were verified for this statement.
        adjacency: Which datasets the statement is about, beside those that ledgers call neighbours.
    """

    balance: Balance
    verified: bool
    adjacency: str = "zero-out"

    @property
    def title(self) -> str:
        """The first line."""
        return f"Privacy ledger: {self.balance.total.dataset}"

    @cached_property
    def curve(self) -> Curve | None:
        """What is proven of all entries together at every epsilon; None if there are none."""
        return self.balance.curve

    @property
    def unit(self) -> str:
        """Whose privacy it is: an example or a user."""
        return self.balance.total.unit

    @property
    def for_other_neighbours(self) -> str:
        """The guarantee for other neighbours in a sentence, if the statement is about them."""
        spent = self.balance.spent
        if spent is None or self.curve is None:
            return ""
        return neighbours.sentence(self.adjacency, self.curve, spent.epsilon, spent.delta, self.unit)

    @property
    def summary(self) -> str:
        """What is guaranteed, and of which total."""
        total, spent, count = self.balance.total, self.balance.spent, len(self.balance.entries)
        of = f"The total for {total.dataset} is {point(total.epsilon, total.delta)}-DP."
        if spent is None:
            return f"Nothing is spent of this ledger, which protects {content.people(self.unit)}. {of}"
        what = "The entry of this ledger is" if count == 1 else f"The {count} entries of this ledger are together"
        start = "CONDITIONAL on the assumptions below that are not proven. " if self.conditional else ""
        chosen = (
            "even if each was chosen after what earlier ones released"
            if total.adaptive
            else "if they were chosen without looking at what earlier ones released"
        )
        condition = "" if count == 1 else f", {chosen}"
        other = f" {self.for_other_neighbours}" if self.for_other_neighbours else ""
        unverified = "" if self.verified else " Not verified for this statement."
        return (
            f"{start}{what} {point(spent.epsilon, spent.delta)}-differentially private for "
            f"{content.people(self.unit)}{condition}. {of}{other}{unverified}"
        )

    @property
    def conditional(self) -> bool:
        """Whether the guarantee rests on something that is not proven."""
        return bool(ledger_content.not_proven(self.balance))

    @cached_property
    def sections(self) -> tuple[Section, ...]:
        """All sections, in their order."""
        balance, spent = self.balance, self.balance.spent
        sections = [
            ledger_content.about(balance),
            ledger_content.entries(balance),
            ledger_content.spent_and_left(balance),
        ]
        if spent is not None and self.curve is not None:
            sections.append(ledger_content.meaning(balance, self.curve))
            other = neighbours.section(self.adjacency, self.curve, spent.epsilon, spent.delta, self.unit)
            sections += [other] if other is not None else []
        assumed = ledger_content.assumptions(balance)
        sections += [Section("Assumptions", items=assumed)] if assumed else []
        sections += [
            ledger_content.not_covered(balance, replaced=self.adjacency == "replace-one"),
            self._check(),
        ]
        certificates = [one for entry in balance.entries for one in entry.certificates]
        return (*sections, *([content.versions(certificates)] if certificates else []))

    @property
    def commands(self) -> str:
        """The commands that check the ledger, one a line."""
        name = shlex.quote(Path(self.balance.path).name)
        return f"minsep ledger {name} --head {self.balance.head}\nminsep statement {name}"

    def _check(self) -> Section:
        verified = (
            "All entries were checked for this statement, and all certificates verified."
            if self.verified
            else "The certificates were not verified for this statement."
        )
        rows = tuple((f"entry {entry.index}", entry.hash) for entry in self.balance.entries[:-1])
        return Section(
            "How to check it",
            (
                f"{verified} Anybody who has the ledger can do the same, without the data: the check verifies every "
                f"certificate and composes all entries again. It needs minsep {version('minsep')}.",
                "Each line of the ledger holds the hash of the line before. A ledger that has the last of these hashes "
                "has lost and changed none of these entries.",
            ),
            Table(("line of the ledger", "SHA-256"), (*rows, ("the last one", self.balance.head))),
            code=self.commands,
        )

    def as_data(self) -> dict[str, Any]:
        """Return the statement as plain data."""
        balance = self.balance
        curve = self.curve
        return {
            "title": self.title,
            "summary": self.summary,
            "ledger": balance.as_data(),
            "verified": self.verified,
            "conditional": self.conditional,
            "adjacency": self.adjacency,
            "for_other_neighbours": self.for_other_neighbours or None,
            "attacker": None
            if curve is None
            else [
                {"false_positives": rate, "most_true_positives": curve.true_positives(rate)}
                for rate in content.FALSE_POSITIVES
            ],
            "assumptions": list(ledger_content.assumptions(balance)),
            "not_covered": list(ledger_content.not_covered(balance, replaced=self.adjacency == "replace-one").items),
        }

    def to_registry(self) -> str:
        """Return an entry for the OpenDP deployments registry as YAML. What only the curator knows says TODO."""
        spent, curve = self._spent("an entry of the registry")
        balance, total = self.balance, self.balance.total
        entries = [
            f"Entry {entry.index} of the ledger, {entry.name} ({entry.kind}, {entry.date}), costs {point(*cost)} alone."
            for entry, cost in zip(balance.entries, balance.costs, strict=True)
        ]
        notes = [
            f"The ledger {Path(balance.path).name} lists everything that was booked. The hash of its last line is "
            f"{balance.head}. Its certificates were {'verified' if self.verified else 'not verified'} for this entry.",
            "Anybody who has the ledger can check it without the data, with the command `minsep statement`.",
            *(f"Assumption: {item}" for item in ledger_content.assumptions(balance)),
        ]
        facts = Facts(
            name="",
            description=f"All that was released of {plain(total.dataset)} with differential privacy.",
            domain=domain(total.num_examples, total.dataset),
            product=Todo("check it", "Machine learning model"),
            unit=total.unit,
            epsilon=spent[0],
            delta=spent[1],
            details=[plain(self.summary), *attackers(curve)],
            several=len(balance.entries) > 1,
            post_processing="Whatever is computed from what the entries released.",
            composition=[plain(ledger_content.composition(balance))],
            mechanisms=[plain(one) for one in entries],
            notes=[plain(one) for one in notes],
        )
        return as_registry_entry(facts)

    def to_model_card(self) -> str:
        """Return the block of a model card for the README of a repository on Hugging Face, as Markdown."""
        (epsilon, delta), curve = self._spent("a model card")
        total = self.balance.total
        rows = [
            *main_rows(epsilon, delta, self.unit, curve),
            ("Dataset", total.dataset),
            ("Total of its ledger", point(total.epsilon, total.delta)),
            *(
                (f"Entry {entry.index}", f"{entry.name} ({entry.kind}, {entry.date}), alone {point(*cost)}")
                for entry, cost in zip(self.balance.entries, self.balance.costs, strict=True)
            ),
            ("Hash of the ledger's last line", self.balance.head),
        ]
        return card(
            self.summary,
            list(map(plain, [*ledger_content.not_proven(self.balance), ledger_content.composition(self.balance)])),
            rows,
            f"{conclusion(epsilon, delta, self.unit)} The guarantee covers what the ledger lists. It does not cover "
            "other uses of the same data, such as choosing settings by results, other runs, or evaluation.",
            "Anybody who has the ledger can check it, without the data. `minsep statement` lists all assumptions.",
            self.commands,
        )

    def _spent(self, what: str) -> tuple[tuple[float, float], Curve]:
        spent = self.balance.spent
        if spent is None or self.curve is None:
            raise ValueError(f"ledger is {self.balance.path!r}, but {what} needs at least one entry.")
        return (spent.epsilon, spent.delta), self.curve


def ledger_statement(
    ledger: Ledger | str | os.PathLike[str],
    *,
    adjacency: str = "zero-out",
    verify: bool = True,
    compute: Compute = LOCAL,
) -> LedgerStatement:
    """Return the statement of a ledger: what it lists, what that guarantees together, and what is left.

    Args:
        ledger: The ledger, or its file. One that was damaged, or whose entries do not hold, is an error.
        adjacency: Which datasets the statement is about, as for `minsep.statement`.
        verify: Whether to verify the certificates. If they are not verified, the statement says so.
        compute: Where samples are drawn, which does not change the result.

    Examples:
        >>> import minsep, os, tempfile
        >>> path = os.path.join(tempfile.mkdtemp(), "budget.json")
        >>> book = minsep.Ledger.create(path, dataset="digits", epsilon=4.0, delta=1e-5)
        >>> print(ledger_statement(path).summary)
        Nothing is spent of this ledger, which protects every example. The total for digits is (4, 1e-05)-DP.
    """
    choice(neighbours.ADJACENCIES, adjacency=adjacency)
    book = ledger if isinstance(ledger, Ledger) else Ledger.open(ledger)
    return LedgerStatement(book.verify(certificates=verify, compute=compute), verify, adjacency)
