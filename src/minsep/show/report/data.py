"""What the figures of a report show: pure functions of a plan or a comparison."""

import hashlib
import math
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from minsep.accounting import METHODS_IN_WORDS, Certificate, privacy_curve
from minsep.core.arrays import FloatArray
from minsep.mechanism import Mechanism
from minsep.paper import Comparison
from minsep.participation import families
from minsep.planning import Candidate, Margin, Plan
from minsep.training.stability import largest_stable_clip_norm

# From a quarter of epsilon to twice epsilon: with 35 steps, one of them ends at epsilon.
_CURVE_STEPS = 35
_FEWEST_SAMPLES, _MOST_SAMPLES = 4_000, 20_000
_CURVE_WORK = 12_000_000  # samples times iterations: a few seconds
_MOST_RELATIVE_ERROR = 0.5
_MOST_DRAWN = 30_000_000  # examples plus entries of the batches: a few seconds
_MOST_POINTS = 2_000
_MARGIN_OF_ERRORS = 0.06  # of the highest error in the range


@dataclass(frozen=True)
class Curve:
    """delta over epsilon: the larger of the two directions, with its standard error, and each direction."""

    epsilons: FloatArray
    deltas: FloatArray
    stderrs: FloatArray
    remove: FloatArray
    add: FloatArray
    method: str
    samples: int
    upper_bound: bool

    @property
    def exact(self) -> bool:
        """Whether no samples were needed."""
        return self.samples == 0

    @property
    def shown(self) -> NDArray[np.bool_]:
        """Where the curve can be drawn on a logarithmic scale and its standard error is relatively small."""
        return (self.deltas > 0) & (self.stderrs < _MOST_RELATIVE_ERROR * self.deltas)

    @property
    def words(self) -> str:
        """What the curve is, and how certain."""
        if self.exact:
            return f"Computed {METHODS_IN_WORDS.get(self.method, 'by ' + self.method)}, without samples."
        of_bound = " of an upper bound" if self.upper_bound else ""
        return (
            f"An estimate{of_bound} from {self.samples:,} samples, not a guarantee: the band is two standard errors "
            "to each side." + ("" if self.shown.all() else " The curve is omitted where there are too few samples.")
        )


@dataclass(frozen=True)
class Series:
    """One scheme at its best separation, by the number of bands."""

    scheme: str
    tuned: bool
    candidates: tuple[Candidate, ...]

    @property
    def name(self) -> str:
        """The scheme, and whether its strategy is tuned to the sampling."""
        return families()[self.scheme].words + (", tuned" if self.tuned else "")

    @property
    def bands(self) -> list[int]:
        """Numbers of bands, increasing."""
        return [candidate.bands for candidate in self.candidates]

    @property
    def errors(self) -> list[float]:
        """Root mean squared errors of the workload."""
        return [candidate.error for candidate in self.candidates if candidate.error is not None]

    @property
    def noise_multipliers(self) -> list[float]:
        """The noise multiplier that each candidate needs."""
        return [candidate.noise_multiplier for candidate in self.candidates if candidate.noise_multiplier is not None]


@dataclass(frozen=True)
class BatchSizes:
    """Sizes of the first batches of a simulated run."""

    sizes: NDArray[np.int64]
    """One size per simulated batch; empty if the dataset is too large to simulate."""
    iterations: int
    expected: float
    cut: int | None

    @property
    def every(self) -> int:
        """The plot shows one batch in this many, so that it stays small."""
        return max(1, math.ceil(self.sizes.size / _MOST_POINTS))

    @property
    def words(self) -> str:
        """What was simulated, in a sentence or two."""
        if self.sizes.size == 0:
            return f"Not simulated, because the dataset is large. The expected batch size is {self.expected:,.6g}."
        part = "" if self.sizes.size == self.iterations else f" of the first {self.sizes.size:,} iterations"
        sentence = (
            f"Batches{part} in one simulated run, not yours. The expected size is {self.expected:,.6g}; the sizes "
            f"range from {self.sizes.min():,} to {self.sizes.max():,}, with standard deviation {self.sizes.std():,.3g}."
        )
        if self.cut is not None:
            full = int((self.sizes == self.cut).sum())
            sentence += f" Larger batches are truncated to {self.cut:,} examples: {full:,} had that size."
        return sentence + (f" One in {self.every} is shown." if self.every > 1 else "")


@dataclass(frozen=True)
class Coefficients:
    """First column of the strategy matrix, and that of the paper's choice if it differs."""

    chosen: FloatArray
    paper: FloatArray | None


def key_numbers(plan: Plan) -> list[tuple[str, str, str]]:
    """Return the most important numbers, each with a name, a value and a remark."""
    numbers = [
        ("Privacy", f"ε = {plan.request.epsilon:g}", f"δ = {plan.request.delta:g}"),
        ("Noise multiplier", f"{plan.mechanism.noise_multiplier:.4g}", "standard deviation / clip norm"),
        ("Error", f"{plan.error:.4g}", f"root mean square, {plan.request.workload.name}"),
    ]
    dp_sgd, baseline = plan.against_dp_sgd, plan.against_baseline
    if dp_sgd is not None and dp_sgd.other != plan.chosen:
        numbers.append(("Against DP-SGD", _change(dp_sgd), f"whose error is {dp_sgd.other.error:.4g}"))
    if baseline is not None and (dp_sgd is None or baseline.other != dp_sgd.other):
        numbers.append(("Against the best baseline", _change(baseline), baseline.name))
    return numbers


def _change(margin: Margin) -> str:
    return f"{'-' if margin.saved >= 0 else '+'}{100 * abs(margin.saved):.1f} %"


def gains(plan: Plan) -> list[str]:
    """Return why this plan was chosen, and what it gains over baselines and by tuning the strategy, in sentences."""
    baseline, margin = plan.baseline, plan.against_baseline
    if margin is not None:
        how = (
            "Its error is certified, and the noise of the baseline is computed exactly."
            if margin.certified
            else "Both errors are estimates."
        )
        sentences = [f"Compared with the best baseline, it has {margin.words}. {how}"]
    elif families()[baseline.scheme].is_baseline:
        sentences = ["It is the best of the baselines: no other candidate has a smaller error."]
    else:
        sentences = ["Only b-min-sep was tried, so there is no baseline to compare with."]
    if plan.reason:
        sentences.append(plan.reason)
    if plan.chosen.shrink != 1.0:
        sentences.append(
            f"By estimates, tuning the strategy to the sampling accounts for {100 * plan.gain:.1f} %: its coefficients "
            f"below the diagonal are {plan.chosen.shrink:g} times the paper's, before scaling."
        )
    return sentences


def curve(plan: Plan) -> Curve:
    """Return the privacy curve of the chosen mechanism, from a quarter of epsilon to twice epsilon."""
    return _curve(plan.mechanism, plan.request.epsilon)


@lru_cache(maxsize=4)
def _curve(mechanism: Mechanism, epsilon: float) -> Curve:
    epsilons = epsilon * (0.25 + 1.75 * np.arange(_CURVE_STEPS + 1) / _CURVE_STEPS)
    samples = min(max(_CURVE_WORK // mechanism.iterations, _FEWEST_SAMPLES), _MOST_SAMPLES)
    estimated = privacy_curve(mechanism, epsilons, samples=samples)
    return Curve(
        estimated.epsilons,
        estimated.deltas,
        estimated.stderrs,
        estimated.remove,
        estimated.add,
        estimated.method,
        estimated.samples,
        estimated.upper_bound,
    )


def series(plan: Plan) -> list[Series]:
    """Return the best candidate of each scheme for each number of bands, with the paper's strategies and tuned."""
    best: dict[tuple[str, bool], dict[int, Candidate]] = {}
    for candidate in reversed(
        [candidate for candidate in plan.table if candidate.error is not None and candidate.is_banded]
    ):  # the best is first in the table, so it is kept
        best.setdefault((candidate.scheme, candidate.shrink != 1.0), {})[candidate.bands] = candidate
    chosen = plan.chosen
    if chosen in plan.table and chosen.is_banded:  # so that the plan lies on its own curve
        best[chosen.scheme, chosen.shrink != 1.0][chosen.bands] = chosen
    return [
        Series(scheme, tuned, tuple(by_bands[bands] for bands in sorted(by_bands)))
        for scheme in families()
        for tuned in (False, True)
        if (by_bands := best.get((scheme, tuned)))
    ]


def range_of_errors(plan: Plan) -> tuple[float, float]:
    """Return the range of errors that has the best of every series: a few candidates may be far above it."""
    best = [min(one.errors) for one in series(plan)]
    low, high = min(*best, plan.error), max(*best, plan.error)
    margin = _MARGIN_OF_ERRORS * high
    return max(low - margin, 0.0), high + margin


def errors_outside(plan: Plan) -> list[float]:
    """Return the errors of the series that lie above the range."""
    _, high = range_of_errors(plan)
    return [error for one in series(plan) for error in one.errors if error > high]


def tried(plan: Plan) -> list[Candidate]:
    """Return the candidates that were measured, the best first."""
    return [candidate for candidate in plan.table if candidate.error is not None]


def skipped(plan: Plan) -> list[Candidate]:
    """Return the candidates that were not measured, each with its reason."""
    return [candidate for candidate in plan.table if candidate.skipped]


def batch_sizes(plan: Plan) -> BatchSizes:
    """Return the sizes of the batches of a simulated run."""
    return _batch_sizes(plan.mechanism, plan.request.num_examples, plan.seed)


@lru_cache(maxsize=4)
def _batch_sizes(mechanism: Mechanism, num_examples: int, seed: int) -> BatchSizes:
    expected = mechanism.scheme.expected_batch_size(num_examples)
    steps = int(min(mechanism.iterations, max(0.0, (_MOST_DRAWN - num_examples) / max(expected, 1.0))))
    cut = None if mechanism.truncation is None else mechanism.truncation.batch_size
    sizes = np.zeros(steps, dtype=np.int64)
    if steps:
        # Never the seed itself: a run with that seed would have the same batches.
        simulated = int.from_bytes(hashlib.sha256(f"minsep report {seed}".encode()).digest())
        stream = mechanism.batches(num_examples, seed=simulated)
        for step in range(steps):
            sizes[step] = next(stream).size
    return BatchSizes(sizes, mechanism.iterations, expected, cut)


def coefficients(plan: Plan) -> Coefficients:
    """Return the coefficients of the chosen strategy, and of the paper's if it was tuned."""
    tuned = plan.chosen.shrink != 1.0
    paper = replace(plan.chosen, shrink=1.0).strategy(plan.request).coefficients if tuned else None
    return Coefficients(plan.chosen.strategy(plan.request).coefficients, paper)


def proof_rows(certificate: Certificate) -> list[list[str]]:
    """Return a row for each direction: what it bounds, how that was shown, and with which outcome."""
    questions = {
        "remove": "How much more likely an outcome is with an example than without it",
        "add": "How much more likely an outcome is without an example than with it",
    }
    return [
        [proof.direction, questions[proof.direction], proof.summary(), "passed" if proof.passed else "refused"]
        for proof in certificate.proofs
    ]


def adam(plan: Plan) -> str:
    """Return up to which clip norm Adam by scale-then-privatize is stable, in a sentence."""
    largest = largest_stable_clip_norm(
        plan.mechanism, plan.mechanism.scheme.expected_batch_size(plan.request.num_examples)
    )
    return f"Adam by scale-then-privatize is stable up to clip norm {largest:.3g}, in units of scaled gradients."


def ratios(comparison: Comparison, other: str) -> FloatArray:
    """Return the ratios of mean squared errors: a row for each epoch length, a column for each epsilon."""
    return np.array(comparison.ratios(other))


def widest(comparison: Comparison, others: tuple[str, ...]) -> float:
    """Return the half width of a colour scale of log2 ratios, centred at ratio 1, that several maps share."""
    largest = max(float(np.abs(np.log2(ratios(comparison, other))).max()) for other in others)
    return max(largest, math.log2(1.1))


def certainty(comparison: Comparison) -> str:
    """Return how the noise of a comparison was found and what its numbers are worth, in a sentence."""
    if comparison.verified:
        return "Noise is calibrated by the paper's verifier, in powers of 1.01; the numbers are not guarantees."
    return "Numbers are estimates, not guarantees."


def verdict(comparison: Comparison, other: str) -> str:
    """Return what a heat map says, in a sentence."""
    values = ratios(comparison, other)
    better = int((values < 1).sum())
    return (
        f"Against {families()[other].words}, b-min-sep has a smaller error in {better} of {values.size} settings; its "
        f"mean squared error is {values.min():.3g} to {values.max():.3g} times as large."
    )
