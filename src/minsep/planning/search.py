"""The noise that each candidate needs, by estimates; and the certificate of the one that is chosen."""

import math
from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace

from minsep.accounting.calibration import Calibration, Rung, calibrate, exact_noise_multiplier, level_of_tests
from minsep.accounting.certification import certify
from minsep.accounting.convexity import add_bound
from minsep.accounting.direction_tests import Progress
from minsep.accounting.estimates import Drawn
from minsep.accounting.pairs import Direction, MinSepPair
from minsep.accounting.proposals import shifted_proposals
from minsep.accounting.reduction import reduced
from minsep.accounting.search import estimated_noise_multiplier
from minsep.mechanism import Mechanism
from minsep.planning.candidates import Candidate
from minsep.planning.task import Task

_SAMPLES, _TUNING_SAMPLES = 2_000, 8_000
_TOLERANCE, _TUNING_TOLERANCE = 0.25, 0.05  # in the logarithm of delta
_SHRINKS = (0.7, 0.5, 0.35, 0.25, 0.17, 0.12)
_AS_GOOD = 1.01  # about what the estimates resolve
_EXACT_TOLERANCE, _SPACING = 0.002, 1e-3


@dataclass(frozen=True)
class PlanProgress:
    """Where a plan is: the stage, how much of it is done, and what is at hand."""

    stage: str
    done: int
    total: int
    detail: str
    test: Progress | None = None


Report = Callable[[PlanProgress], None]


class Search:
    """Measures the candidates of one task."""

    def __init__(
        self, task: Task, seed: int, workers: int | None, executor: Executor | None, progress: Report | None
    ) -> None:
        self._task, self._seed = task, seed
        self._proposals: dict[Direction, Drawn] = {}
        self._workers, self._executor, self._progress = workers, executor, progress

    def estimate_all(self, listed: list[Candidate]) -> list[Candidate]:
        """Return the candidates with the noise that each needs, exact ones first: they show where to look.

        Those that exact accounting cannot serve are skipped.
        """
        exact = [one for one in listed if one.exact]
        sampled = [one for one in listed if not one.exact]
        known: dict[tuple[bool, int], float] = {}
        tried = []
        for place, one in enumerate([*exact, *sampled]):
            self._tell("estimating", place, len(listed), one.name)
            mechanism = self._mechanism(one)
            if one.exact:
                budget = self._task.epsilon, self._task.delta
                try:
                    proven = exact_noise_multiplier(mechanism, *budget, _EXACT_TOLERANCE, _SPACING)
                except ValueError as error:
                    tried.append(replace(one, skipped=str(error).rstrip(".")))
                    continue
                needed = proven.noise_multiplier
            else:
                needed = self._estimate(mechanism, _nearest(known, one), _SAMPLES, _TOLERANCE)
            known[one.scheme == "balls-in-bins", one.bands] = needed
            tried.append(self._measured(one, needed))
        return tried

    def tune(self, best: list[Candidate]) -> list[Candidate]:
        """Return candidates, estimated with more samples, and with shrunk strategies as long as the error falls."""
        found = []
        for place, one in enumerate(best):
            assert one.noise_multiplier is not None
            needed, before = one.noise_multiplier, one
            for shrink in (1.0, *_SHRINKS):
                self._tell("tuning the strategy", place, len(best), f"{one.name}, factor {shrink:g}")
                shrunk = replace(one, shrink=shrink)
                # With amplification the noise follows the sum of the coefficients more than their norm.
                guess = needed * self._sum_of_coefficients(shrunk) / self._sum_of_coefficients(before)
                needed = self._estimate(self._mechanism(shrunk), guess, _TUNING_SAMPLES, _TUNING_TOLERANCE)
                previous, before = before, self._measured(shrunk, needed)
                found.append(before)
                if shrink < 1 and error_of(before) > error_of(previous):
                    break
        return found

    def certify(self, tried: list[Candidate]) -> tuple[Candidate, Calibration]:
        """Return the best candidate with a certificate, or the best of those with an exact proof if that is better."""
        near_best = [one for one in tried if error_of(one) <= _AS_GOOD * error_of(tried[0])]
        best = min(near_best, key=self._bound_of_add) if len(near_best) > 1 else tried[0]
        found = self._calibrate(best)
        if found.fallback:
            best = Candidate.of(found.mechanism, best.shrink)
        proven = next((one for one in tried if one.exact), None)
        if proven is not None and proven != best and error_of(proven) < found.mechanism.root_mean_squared_error:
            return proven, self._proven(proven)
        return best, found

    def _proven(self, one: Candidate) -> Calibration:
        """Return a candidate with an exact proof, at the level that a test before it leaves."""
        epsilon, delta = self._task.epsilon, self._task.delta
        mechanism = exact_noise_multiplier(self._mechanism(one), epsilon, level_of_tests(delta))
        certificate = certify(mechanism, epsilon, delta, seed=self._seed)
        return Calibration(mechanism, certificate, epsilon, delta, (Rung(mechanism.noise_multiplier, True, 0),))

    def _bound_of_add(self, one: Candidate) -> float:
        """Return W for `add`, as a measure of the work to certify a candidate; 0 where no samples are needed."""
        assert one.noise_multiplier is not None
        mechanism = self._mechanism(one).with_noise_multiplier(one.noise_multiplier)
        pair, shift = reduced(mechanism, self._task.epsilon, self._task.delta, "add")
        if one.exact or not isinstance(pair, MinSepPair) or math.exp(-shift.epsilon) <= pair.no_participation:
            return 0.0
        if add_bound(pair, shift.epsilon) <= shift.level(self._task.delta):
            return 0.0
        bounds = (proposal.log_bound(shift.epsilon) for proposal in shifted_proposals(pair, shift.epsilon))
        return math.exp(min(bounds, default=0.0))

    def _calibrate(self, one: Candidate) -> Calibration:
        start = self._mechanism(one)

        def tell(noise_multiplier: float, state: Progress | None) -> None:
            self._tell("certifying", 0, 1, f"{one.name}, noise multiplier {noise_multiplier:.4f}", state)

        return calibrate(
            start.strategy,
            start.scheme,
            self._task.epsilon,
            self._task.delta,
            start.truncation,
            near=one.noise_multiplier,
            seed=self._seed,
            workers=self._workers,
            executor=self._executor,
            progress=tell,
        )

    def _estimate(self, mechanism: Mechanism, guess: float, samples: int, tolerance: float) -> float:
        # `remove` is the larger direction wherever we looked; the certificate tests both.
        return estimated_noise_multiplier(
            mechanism,
            self._task.epsilon,
            self._task.delta,
            guess,
            samples,
            0,
            directions=["remove"],
            tolerance=tolerance,
            proposals=self._proposals,
            workers=self._workers,
            executor=self._executor,
        )

    def _mechanism(self, one: Candidate) -> Mechanism:
        strategy = one.strategy(self._task.iterations)
        return Mechanism(strategy, self._task.scheme(one.scheme, one.min_sep), 1.0, self._task.truncation)

    def _measured(self, one: Candidate, noise_multiplier: float) -> Candidate:
        error = noise_multiplier * math.sqrt(one.strategy(self._task.iterations).mean_squared_error)
        return replace(one, noise_multiplier=noise_multiplier, error=error)

    def _sum_of_coefficients(self, one: Candidate) -> float:
        return float(one.strategy(self._task.iterations).coefficients.sum())

    def _tell(self, stage: str, done: int, total: int, detail: str, test: Progress | None = None) -> None:
        if self._progress is not None:
            self._progress(PlanProgress(stage, done, total, detail, test))


def _nearest(known: dict[tuple[bool, int], float], one: Candidate) -> float:
    """Return the noise of what is most like a candidate: the same scheme, or else one that is not balls-in-bins."""
    alike = {bands: sigma for (in_bins, bands), sigma in known.items() if in_bins == (one.scheme == "balls-in-bins")}
    others = alike or {bands: sigma for (_, bands), sigma in known.items()}
    return others[min(others, key=lambda bands: abs(bands - one.bands))] if others else 1.0


def error_of(one: Candidate) -> float:
    """Return the error of a candidate that was tried."""
    assert one.error is not None
    return one.error
