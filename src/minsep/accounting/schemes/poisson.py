"""Accounting of Poisson sampling: b-min-sep with b = 1."""

from minsep.accounting.schemes.base import Support
from minsep.accounting.schemes.min_sep import MinSepForm
from minsep.participation import MinSep, Poisson


class PoissonAccounting(MinSepForm[Poisson]):
    """Exact by a privacy loss distribution for independent noise; else the recursion of b-min-sep."""

    kind = Poisson.kind
    needs_samples = False
    support = (
        Support(
            "`Poisson(rate)`",
            "1 band",
            exact="PLD",
            sampled="as `MinSep(rate, 1)`",
            truncated="PLD, as published",
        ),
    )

    def min_sep_form(self, scheme: Poisson) -> MinSep:
        """Return b-min-sep with b = 1."""
        return MinSep(rate=scheme.rate, min_sep=1)
