"""What a ledger is about: a dataset, whose privacy, and how much of it may be spent in all."""

from dataclasses import asdict, dataclass
from typing import Any

from minsep.core import validation as validate
from minsep.core.budget import Budget

FORMAT = 1
"""The format of the ledgers of this version, which their first line names."""
UNITS = ("example", "user")
_ADJACENCY = "zero-out"
_LONGEST_NAME = 1000


@dataclass(frozen=True)
class Total:
    """What the first line of a ledger says. It never changes.

    Attributes:
        dataset: The name of the dataset.
        unit: Whose privacy is protected: "example" or "user".
        epsilon: The epsilon of all entries together.
        delta: The delta of all entries together.
        num_examples: Size of the dataset, if the ledger says so.
        adaptive: Whether entries may be chosen after what earlier ones released.
        adjacency: Which datasets are neighbours.
        date: The day on which the ledger was created.
    """

    dataset: str
    unit: str
    epsilon: float
    delta: float
    num_examples: int | None
    adaptive: bool
    date: str
    adjacency: str = _ADJACENCY

    def __post_init__(self) -> None:
        name_of(dataset=self.dataset)
        if not self.dataset:
            raise ValueError("dataset is empty, but the ledger must name its dataset.")
        validate.choice(UNITS, unit=self.unit)
        validate.choice((_ADJACENCY,), adjacency=self.adjacency)
        budget = Budget(self.epsilon, self.delta)
        object.__setattr__(self, "epsilon", budget.epsilon)
        object.__setattr__(self, "delta", budget.delta)
        if self.num_examples is not None:
            number = validate.integer(num_examples=self.num_examples, at_least=1)
            object.__setattr__(self, "num_examples", number)
        if not isinstance(self.adaptive, bool):
            raise ValueError(f"adaptive is {validate.in_short(self.adaptive)}, but it must be True or False.")

    @property
    def budget(self) -> Budget:
        """The epsilon and delta of all entries together."""
        return Budget(self.epsilon, self.delta)

    def to_content(self) -> dict[str, Any]:
        """Return the content of the first line."""
        return {"ledger": FORMAT, **asdict(self)}

    @classmethod
    def from_content(cls, content: dict[str, Any]) -> "Total":
        """Read the content of a first line; one that no version wrote is refused in one sentence."""
        found = content.get("ledger")
        if found != FORMAT:
            raise ValueError(f"it has format {validate.in_short(found)}, and this version of minsep reads {FORMAT}")
        try:
            return cls(**{name: value for name, value in content.items() if name != "ledger"})
        except (TypeError, ValueError) as error:
            raise ValueError(f"its first line is invalid: {validate.shortened(str(error)).rstrip('.')}") from None


def name_of(**parameter: object) -> str:
    """Return a name: one line of text."""
    ((name, value),) = parameter.items()
    if not isinstance(value, str) or len(value) > _LONGEST_NAME or not value.isprintable():
        raise ValueError(
            f"{name} is {validate.in_short(value)}, but it must be one line of up to {_LONGEST_NAME:,} characters."
        )
    return value
