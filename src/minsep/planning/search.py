"""The noise that each candidate needs, by estimates; and the certificate of the one that is chosen."""

from collections.abc import Callable
from concurrent.futures import Executor
from dataclasses import dataclass, replace
from math import sqrt

from minsep.accounting.calibration import Calibration, calibrate, exact_noise_multiplier
from minsep.accounting.certificates import Progress
from minsep.accounting.search import estimated_noise_multiplier
from minsep.mechanism import Mechanism
from minsep.planning.candidates import Candidate
from minsep.planning.task import Task

_SAMPLES, _TUNING_SAMPLES = 2_000, 6_000
_SHRINKS = (0.85, 0.7, 0.55, 0.4, 0.25)
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
        self._workers, self._executor, self._progress = workers, executor, progress

    def estimate_all(self, listed: list[Candidate]) -> list[Candidate]:
        """Return the candidates with the noise that each needs, exact ones first: they show where to look."""
        exact = [one for one in listed if one.exact]
        sampled = [one for one in listed if not one.exact]
        known: dict[tuple[bool, int], float] = {}
        tried = []
        for place, one in enumerate([*exact, *sampled]):
            self._tell("estimating", place, len(listed), one.name)
            mechanism = self._mechanism(one)
            if one.exact:
                budget = self._task.epsilon, self._task.delta
                proven = exact_noise_multiplier(mechanism, *budget, _EXACT_TOLERANCE, _SPACING)
                needed = proven.noise_multiplier
            else:
                needed = self._estimate(mechanism, _nearest(known, one), _SAMPLES)
            known[one.scheme == "balls-in-bins", one.bands] = needed
            tried.append(self._measured(one, needed))
        return tried

    def tune(self, best: list[Candidate]) -> list[Candidate]:
        """Return the best candidates with shrunk strategies: smaller factors as long as the error falls."""
        found = []
        tunable = [one for one in best if one.bands > 1 and not one.exact]
        for place, one in enumerate(tunable):
            assert one.noise_multiplier is not None
            needed = self._estimate(self._mechanism(one), one.noise_multiplier, _TUNING_SAMPLES)
            least = self._measured(one, needed)
            for shrink in _SHRINKS:
                self._tell("tuning the strategy", place, len(tunable), f"{one.name}, factor {shrink:g}")
                smaller = replace(one, shrink=shrink)
                needed = self._estimate(self._mechanism(smaller), needed, _TUNING_SAMPLES)
                measured = self._measured(smaller, needed)
                found.append(measured)
                if error_of(measured) > error_of(least):
                    break
                least = measured
        return found

    def certify(self, tried: list[Candidate]) -> tuple[Candidate, Calibration]:
        """Return the best candidate with a certificate, or the best of those with an exact proof if that is better."""
        best = tried[0]
        found = self._calibrate(best)
        proven = next((one for one in tried if one.exact), None)
        if proven is not None and proven != best and error_of(proven) < found.mechanism.root_mean_squared_error:
            return proven, self._calibrate(proven)
        return best, found

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
            seed=self._seed,
            workers=self._workers,
            executor=self._executor,
            progress=tell,
        )

    def _estimate(self, mechanism: Mechanism, guess: float, samples: int) -> float:
        # `remove` is the larger direction wherever we looked; the certificate tests both.
        return estimated_noise_multiplier(
            mechanism,
            self._task.epsilon,
            self._task.delta,
            guess,
            samples,
            0,
            directions=["remove"],
            tolerance=0.25,
            workers=self._workers,
            executor=self._executor,
        )

    def _mechanism(self, one: Candidate) -> Mechanism:
        strategy = one.strategy(self._task.iterations)
        return Mechanism(strategy, self._task.scheme(one.scheme, one.min_sep), 1.0, self._task.truncation)

    def _measured(self, one: Candidate, noise_multiplier: float) -> Candidate:
        error = noise_multiplier * sqrt(one.strategy(self._task.iterations).mean_squared_error)
        return replace(one, noise_multiplier=noise_multiplier, error=error)

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
