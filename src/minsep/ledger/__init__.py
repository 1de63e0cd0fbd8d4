"""The budget of a dataset, and all that was spent of it: an append-only file that refuses what would exceed."""

from minsep.ledger.accounts import Left
from minsep.ledger.balance import Balance
from minsep.ledger.entry import Entry, Item
from minsep.ledger.file import is_ledger
from minsep.ledger.ledger import Ledger, OverBudgetError
from minsep.ledger.total import Total

__all__ = ["Balance", "Entry", "Item", "Ledger", "Left", "OverBudgetError", "Total", "is_ledger"]
