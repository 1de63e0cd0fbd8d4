"""The `BandMFConfig` of jax-privacy."""

from typing import Any, Literal

import numpy as np

from minsep.core import validation as validate
from minsep.core.validation import in_short
from minsep.mechanism import Mechanism
from minsep.participation import CyclicPoisson, Poisson, Scheme, Truncation
from minsep.reading.base import EXACT_NOISE, Format, Run
from minsep.strategy import BandedToeplitz

_MARKS = {"iterations", "strategy"}
_REQUIRED = _MARKS | {"expected_participations", "noise_multiplier"}
_PRIVACY_DEPENDS_ON = _REQUIRED | {"truncated_batch_size", "num_examples", "column_normalize"}
_OTHERS = {"l2_clip_norm", "rescale_to_unit_norm", "normalize_by"}


class JaxPrivacy(Format):
    """A `BandMFConfig` of jax-privacy 2.3 (read at commit 8967688 of 20 August 2026), as a JSON object of its fields.

    - `iterations`: the number of iterations.
    - `strategy`: the first column of C. jax-privacy multiplies the noise by the column's norm, which is the same as
      scaling C to unit column norm, as minsep does. Negative coefficients are refused.
    - `expected_participations`: how often an example takes part in the run, on average. Divided by the iterations, it
      is minsep's `rate`. An example takes part in its group's turn with probability
      `expected_participations * bands / iterations`, which is minsep's `sampling_prob`.
    - `noise_multiplier`: the standard deviation of Z divided by the sensitivity of the sum, for C scaled to unit column
      norm: minsep's noise multiplier. None means that the configuration is not calibrated, and it is refused.
    - `num_examples`: with None, examples are divided into groups at random, as in `CyclicPoisson(parts="random")`. With
      a number they are shuffled and divided equally, which is accounted for as `parts="equal"`, whose groups are
      public. With one band there is one group, and sampling is Poisson.
    - `truncated_batch_size`: a larger batch is truncated to a uniformly random subset, as by `Truncation`. jax-privacy
      leaves examples out so that groups have one size. minsep leaves none out, so here `num_examples` must be a
      multiple of the bands.
    - `column_normalize`: rescales every column of C, so that C is not Toeplitz. It is refused.
    - `l2_clip_norm`, `rescale_to_unit_norm`, `normalize_by`: scales of the gradient and the noise together, on which
      privacy does not depend.

    The noise multiplier is read, and the epsilon that it was calibrated for is not recorded. Version 2.2 and earlier
    called the class `BandMFExecutionPlanConfig`, with other fields, and are refused.
    """

    kind = "jax-privacy"
    words = "a BandMFConfig of jax-privacy"
    how = "json.dumps(dataclasses.asdict(config), default=lambda array: array.tolist())"
    assumptions = (
        "The run used the batches of the plan's batch_selection_strategy, each once and in order, and the plan's "
        "clipped_grad and noise_addition_transform.",
        "Neighbouring datasets differ in one example, whose gradients are replaced by zero.",
        EXACT_NOISE,
    )

    @classmethod
    def recognises(cls, content: Any) -> bool:
        """Whether the content has iterations and a strategy.

        Args:
            content: What the file holds.
        """
        return isinstance(content, dict) and content.keys() >= _MARKS

    @classmethod
    def read(cls, content: Any) -> tuple[Run, ...]:
        """Return the mechanism.

        Args:
            content: What the file holds.
        """
        wrong = (_REQUIRED - content.keys()) | (content.keys() - _PRIVACY_DEPENDS_ON - _OTHERS)
        if wrong:
            raise ValueError(
                f"it has missing or unexpected fields ({in_short(', '.join(sorted(wrong)))}), but it must be a "
                "BandMFConfig of jax-privacy 2.3."
            )
        if content["noise_multiplier"] is None:
            raise ValueError("noise_multiplier is null, but it must be a number: call the configuration's calibrate.")
        if content.get("column_normalize", False) is not False:
            raise ValueError(
                f"column_normalize is {in_short(content['column_normalize'])}, but it must be false: columns that are "
                "rescaled one by one make no Toeplitz matrix."
            )
        iterations = validate.integer(iterations=content["iterations"], at_least=1, at_most=2**31 - 1)
        strategy = BandedToeplitz.from_coefficients(_numbers(content["strategy"]), iterations=iterations)
        participations = validate.real(
            expected_participations=content["expected_participations"], above=0, at_most=iterations // strategy.bands
        )
        num_examples = _optional(num_examples=content.get("num_examples"))
        size = _optional(truncated_batch_size=content.get("truncated_batch_size"))
        truncation = None if size is None else _truncation(size, num_examples, strategy.bands)
        noise = validate.real(noise_multiplier=content["noise_multiplier"], above=0)
        parts: Literal["random", "equal"] = "random" if num_examples is None else "equal"
        scheme = _scheme(participations / iterations, strategy.bands, parts)
        return (Mechanism(strategy, scheme, noise, truncation),)


def _scheme(rate: float, bands: int, parts: Literal["random", "equal"]) -> Scheme:
    return Poisson(rate) if bands == 1 else CyclicPoisson(rate, bands, parts)


def _numbers(strategy: Any) -> np.ndarray[Any, np.dtype[np.float64]]:
    if not isinstance(strategy, list) or not all(type(value) in (int, float) for value in strategy):
        raise ValueError(f"strategy is {in_short(strategy)}, but it must be a list of numbers.")
    return np.array([validate.real(strategy=value) for value in strategy])


def _optional(**parameter: Any) -> int | None:
    ((name, value),) = parameter.items()
    return None if value is None else validate.integer(at_least=1, **{name: value})


def _truncation(batch_size: int, num_examples: int | None, bands: int) -> Truncation:
    if num_examples is None:
        raise ValueError("num_examples is null, but truncated batches need the number of examples.")
    if num_examples % bands:
        kept = num_examples - num_examples % bands
        raise ValueError(
            f"num_examples is {num_examples}, but with {bands} bands and truncated batches it must be a multiple of "
            f"them, such as {kept}: jax-privacy leaves out the others."
        )
    return Truncation(batch_size, num_examples)
