"""What the accounting of one scheme consists of. Every scheme has a file beside this one."""

from abc import ABC
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, TypeVar

from numpy.typing import DTypeLike

from minsep.accounting.exact import ExactCurve
from minsep.accounting.pairs import Pair
from minsep.core.registry import Registered
from minsep.mechanism import Design, Mechanism
from minsep.participation import MinSep, Scheme, Unamplified

SchemeKind = TypeVar("SchemeKind", bound=Scheme)


@dataclass(frozen=True)
class Support:
    """One row of the table of what is supported, as docs/support.md shows it and refusals say it."""

    scheme: str
    strategies: str
    exact: str = ""
    sampled: str = ""
    truncated: str = ""

    def __str__(self) -> str:
        ways = {"exact": self.exact, "sampled": self.sampled, "truncated": self.truncated}
        words = f"{self.scheme} with {self.strategies} ({', '.join(name for name, how in ways.items() if how)})"
        return words.replace("`", "")


class SchemeAccounting(ABC, Registered, Generic[SchemeKind]):
    """How mechanisms with one kind of scheme are accounted for: a subclass has the `kind` of its scheme.

    A subclass overrides what its scheme has. What a method is not able to do it answers with None, and the mechanism is
    refused: by `obstacle` if that knows why, and else with `support`.
    """

    support: ClassVar[tuple[Support, ...]]
    """What is supported, in words."""

    needs_samples: ClassVar[bool] = True
    """Whether plans estimate its noise from samples, which is most of their work."""

    def exact_curve(self, mechanism: Mechanism, scheme: SchemeKind, spacing: float) -> ExactCurve | None:
        """Return the privacy curve that needs no samples; `spacing` is that of privacy losses in a distribution."""
        return None

    def pair(self, mechanism: Mechanism, scheme: SchemeKind, dtype: DTypeLike) -> Pair | None:
        """Return the dominating pair to sample from, in the form that has the best laws to draw from."""
        return None

    def obstacle(self, mechanism: Mechanism, scheme: SchemeKind) -> str:
        """Return in a sentence why a mechanism has no pair, and what would have one; empty if there is no short way."""
        return ""

    def min_sep_form(self, scheme: SchemeKind) -> MinSep | None:
        """Return the scheme as b-min-sep sampling, if it is: bounds on truncation are known for that."""
        return None

    def fallback(self, design: Design, scheme: SchemeKind, covers: Callable[[Design], bool]) -> Design | None:
        """Return a design with the same strategy and batch sizes that has an exact curve.

        The default is a fixed order, whose curve is Gaussian.

        Args:
            covers: Whether the exact curve of a design carries the delta that is needed.
        """
        if design.truncation is not None:
            return None
        return Design(design.strategy, Unamplified(scheme.min_sep, -(-design.iterations // scheme.min_sep)))


def accounting_of(scheme: Scheme) -> SchemeAccounting[Any]:
    """Return the accounting of a scheme; one that nobody accounts for has none of its parts.

    A class that only inherits its `kind` may draw other batches, so it has none either.
    """
    kinds: Mapping[str, type[SchemeAccounting[Any]]] = SchemeAccounting.variants()
    own = scheme.is_variant() and scheme.kind in kinds
    return kinds[scheme.kind]() if own else _NOTHING


def supported() -> list[Support]:
    """Return what is supported, of all schemes, in the order of their names."""
    kinds: Mapping[str, type[SchemeAccounting[Any]]] = SchemeAccounting.variants()
    return sorted((row for accounting in kinds.values() for row in accounting.support), key=lambda row: row.scheme)


class _Nothing(SchemeAccounting[Scheme]):
    support = ()


_NOTHING = _Nothing()


def noise_of_unit_columns(mechanism: Mechanism) -> float:
    """Return the noise multiplier, less what columns read from a description exceed 1 by in their last digits."""
    return mechanism.noise_multiplier / max(1.0, float(mechanism.strategy.column_norms.max()))
