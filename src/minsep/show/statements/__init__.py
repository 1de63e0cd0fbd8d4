"""Privacy statements: what certificates say, for a model card, a reviewer or a lawyer."""

from minsep.core.budget import most_true_positives
from minsep.show.statements.document import Statement, statement
from minsep.show.statements.formats import SUFFIXES, format_of
from minsep.show.statements.ledger_document import LedgerStatement, ledger_statement
from minsep.show.statements.neighbours import ADJACENCIES
from minsep.show.statements.odds import estimated_true_positives

__all__ = [
    "ADJACENCIES",
    "SUFFIXES",
    "LedgerStatement",
    "Statement",
    "estimated_true_positives",
    "format_of",
    "ledger_statement",
    "most_true_positives",
    "statement",
]
