"""Privacy statements: what certificates say, for a model card, a reviewer or a lawyer."""

from minsep.budget import most_true_positives
from minsep.statements.composition import Composition, compose
from minsep.statements.document import Statement, statement
from minsep.statements.odds import estimated_true_positives

__all__ = [
    "Composition",
    "Statement",
    "compose",
    "estimated_true_positives",
    "most_true_positives",
    "statement",
]
