"""Events of dp_accounting, as JSON."""

import json
from typing import Any

from dp_accounting import DpEvent, dp_event

from minsep.accounting import is_named, plain_event, read_event
from minsep.mechanism import Mechanism
from minsep.participation import Poisson, Truncation
from minsep.participation.truncation import MOST_EXAMPLES
from minsep.reading.base import EXACT_NOISE, Format, Run
from minsep.strategy import BandedToeplitz

_MOST_STEPS = 2**31 - 1


class DpEvents(Format):
    """An event of dp_accounting: an object that names its class, with one entry for each field.

    `{"class_name": "PoissonSampledDpEvent", "sampling_probability": 0.01, "event": {"class_name": ...}}` is such an
    object, and `write_event` writes it. dp_accounting 0.5.1 to 0.6 has no JSON of its own. Its `to_named_tuple` comes
    nearest: `json.dumps(event.to_named_tuple())` writes a list of the module, the class and the values of the fields in
    their order, and such lists are read as well.
    """

    kind = "dp-event"
    words = "an event of dp_accounting"
    how = "json.dumps(event.to_named_tuple())"
    assumptions = (
        "The event describes all that was run on the data.",
        "Neighbouring datasets differ in one unit, whose contribution is replaced by zero (REPLACE_SPECIAL), and noise "
        "multipliers are relative to the sensitivity for that.",
        EXACT_NOISE,
    )

    @classmethod
    def recognises(cls, content: Any) -> bool:
        """Whether the content names a class, as an object or as a list does.

        Args:
            content: What the file holds.
        """
        return is_named(content)

    @classmethod
    def read(cls, content: Any) -> tuple[Run, ...]:
        """Return the event, or its mechanism if it is exactly one.

        Args:
            content: What the file holds.
        """
        return (run_of(read_event(content)),)


def run_of(event: DpEvent) -> Run:
    """Return the mechanism that an event describes, if it is exactly one, and else the event.

    An event is one mechanism if it repeats a Gaussian mechanism on all examples, on a Poisson sample, or on a truncated
    Poisson sample.

    Args:
        event: The event.

    Examples:
        >>> from dp_accounting import GaussianDpEvent, LaplaceDpEvent, PoissonSampledDpEvent, SelfComposedDpEvent
        >>> run_of(SelfComposedDpEvent(PoissonSampledDpEvent(0.01, GaussianDpEvent(1.0)), 100)).name
        'DP-SGD, Poisson sampling'
        >>> run_of(LaplaceDpEvent(1.0))
        LaplaceDpEvent(noise_multiplier=1.0)
    """
    step, count = event, 1
    while True:
        match step:
            case dp_event.SelfComposedDpEvent():
                step, count = step.event, count * step.count
            case dp_event.ComposedDpEvent(events=[only]):
                step = only
            case _:
                break
    rate, sizes = 1.0, None
    match step:
        case dp_event.GaussianDpEvent():
            noise = step.noise_multiplier
        case dp_event.PoissonSampledDpEvent(event=dp_event.GaussianDpEvent()):
            rate, noise = step.sampling_probability, step.event.noise_multiplier
        case dp_event.TruncatedSubsampledGaussianDpEvent():
            rate, noise = step.sampling_probability, step.noise_multiplier
            sizes = step.truncated_batch_size, step.dataset_size
        case _:
            return event
    if rate == 0 or noise == 0 or count > _MOST_STEPS or (sizes and max(sizes) > MOST_EXAMPLES):
        return event
    truncation = Truncation(*sizes) if sizes else None
    return Mechanism(BandedToeplitz.identity(iterations=count), Poisson(rate=rate), noise, truncation)


def write_event(event: DpEvent) -> str:
    """Return an event of dp_accounting as JSON, which `read_runs` reads from a file.

    Args:
        event: The event. An event of a class that dp_accounting does not have is refused.

    Examples:
        >>> from dp_accounting import GaussianDpEvent
        >>> write_event(GaussianDpEvent(2.0))
        '{"class_name": "GaussianDpEvent", "noise_multiplier": 2.0}'
    """
    try:
        return json.dumps(plain_event(event), allow_nan=False)
    except RecursionError:
        raise ValueError("event is nested too deeply to be written.") from None
