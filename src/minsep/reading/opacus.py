"""The history of an Opacus accountant."""

from typing import Any

from minsep.core import validation as validate
from minsep.core.validation import in_short
from minsep.mechanism import Mechanism
from minsep.participation import Poisson
from minsep.reading.base import EXACT_NOISE, Format, Run
from minsep.strategy import BandedToeplitz

ACCOUNTANTS = ("prv", "rdp", "gdp")
_FIELDS = {"history", "mechanism"}
_MOST_ENTRIES, _MOST_STEPS = 10_000, 2**31 - 1


class Opacus(Format):
    """The `state_dict` of an accountant of Opacus, as version 1.6 writes it.

    `history` has one entry `[noise_multiplier, sample_rate, steps]` for every change of the noise multiplier or the
    sample rate. `mechanism` names the accountant, and does not change what was run. Each entry becomes a mechanism
    of independent noise and Poisson sampling. Opacus and minsep give the noise multiplier the same meaning: the
    standard deviation of the noise divided by the clip norm.
    """

    kind = "opacus"
    words = "the history of an Opacus accountant"
    how = "json.dumps(privacy_engine.accountant.state_dict())"
    assumptions = (
        "Every batch was drawn by Poisson sampling, which is Opacus's default. The history does not say so, and "
        "batches of a shuffling loader (poisson_sampling=False) are not covered.",
        "The history holds every step of the run.",
        "Neighbouring datasets differ in one example, whose gradients are replaced by zero. Opacus adds or removes the "
        "example; for Poisson sampling with a fixed rate the numbers are the same.",
        EXACT_NOISE,
    )

    @classmethod
    def recognises(cls, content: Any) -> bool:
        """Whether the content has a history.

        Args:
            content: What the file holds.
        """
        return isinstance(content, dict) and "history" in content

    @classmethod
    def read(cls, content: Any) -> tuple[Run, ...]:
        """Return a mechanism for each entry of the history.

        Args:
            content: What the file holds.
        """
        if content.keys() != _FIELDS:
            raise ValueError(
                f"it has the fields {in_short(sorted(content))}, but the state of an accountant has exactly 'history' "
                "and 'mechanism'."
            )
        validate.choice(ACCOUNTANTS, mechanism=content["mechanism"])
        history = content["history"]
        if not isinstance(history, list) or not 1 <= len(history) <= _MOST_ENTRIES:
            raise ValueError(
                f"history is {in_short(history)}, but it must be a list of 1 to {_MOST_ENTRIES:,} entries "
                "[noise multiplier, sample rate, steps]."
            )
        return tuple(_mechanism(entry, place) for place, entry in enumerate(history, 1))


def _mechanism(entry: Any, place: int) -> Mechanism:
    if not isinstance(entry, list) or len(entry) != 3:
        raise ValueError(
            f"entry {place} of the history is {in_short(entry)}, but it must be [noise multiplier, sample rate, steps]."
        )
    noise_multiplier, sample_rate, steps = entry
    try:
        noise = validate.real(noise_multiplier=noise_multiplier, above=0)
        rate = validate.real(sample_rate=sample_rate, above=0, at_most=1)
        iterations = validate.integer(steps=steps, at_least=1, at_most=_MOST_STEPS)
    except ValueError as error:
        raise ValueError(f"in entry {place} of the history {error}") from None
    return Mechanism(BandedToeplitz.identity(iterations=iterations), Poisson(rate=rate), noise)
