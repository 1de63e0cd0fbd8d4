"""The noise that each candidate needs, by estimates; and the certificate of the one that is chosen."""

from dataclasses import replace

from minsep.accounting import (
    Calibration,
    Direction,
    Law,
    Prover,
    calibrate,
    calibrate_exactly,
    estimated_noise_multiplier,
    exact_mechanism,
    has_exact_curve,
    has_pair,
    verifier_for,
)
from minsep.engine import Compute
from minsep.mechanism import Design
from minsep.planning.candidates import Candidate
from minsep.planning.task import Task
from minsep.progress import Progress, Report

_SAMPLES, _TUNING_SAMPLES = 2_000, 8_000
_TOLERANCE, _TUNING_TOLERANCE = 0.25, 0.05  # in the logarithm of delta
_SHRINKS = (0.7, 0.5, 0.35, 0.25, 0.17, 0.12)
_AS_GOOD = 1.01  # about what the estimates resolve
_EXACT_TOLERANCE, _SPACING = 0.002, 1e-3


class Search:
    """Measures the candidates of one task."""

    def __init__(self, task: Task, seed: int, compute: Compute, progress: Report | None) -> None:
        self._task, self._budget, self._seed = task, task.budget, seed
        self._laws: dict[Direction, Law] = {}
        self._compute, self._progress = compute, progress

    def estimate_all(self, listed: list[Candidate]) -> list[Candidate]:
        """Return the candidates with the noise that each needs, exact ones first: they show where to look.

        Those that exact accounting cannot serve are skipped.
        """
        designs = {candidate: candidate.design(self._task) for candidate in listed}
        exact = [candidate for candidate, design in designs.items() if has_exact_curve(design)]
        sampled = [candidate for candidate in listed if candidate not in exact]
        known: dict[tuple[bool, int], float] = {}
        tried = []
        for place, candidate in enumerate([*exact, *sampled]):
            self._tell("estimating", candidate.name, place, len(listed))
            design = designs[candidate]
            apart = candidate.min_sep >= self._task.longest_separation
            if candidate in exact:
                candidate = replace(candidate, exact=True)
                try:
                    needed = exact_mechanism(
                        design, self._budget.epsilon, self._budget.delta, _EXACT_TOLERANCE, _SPACING
                    ).noise_multiplier
                except ValueError as error:
                    tried.append(replace(candidate, skipped=str(error).rstrip(".")))
                    continue
            elif not has_pair(design):
                tried.append(replace(candidate, skipped="no accounting is known for it"))
                continue
            else:
                needed = self._estimate(design, _nearest(known, apart, candidate.bands), _SAMPLES, _TOLERANCE)
            known[apart, candidate.bands] = needed
            tried.append(self._measured(candidate, needed))
        return tried

    def tune(self, best: list[Candidate]) -> list[Candidate]:
        """Return candidates, estimated with more samples, and with shrunk strategies as long as the error falls."""
        found = []
        for place, candidate in enumerate(best):
            needed, before = noise_of(candidate), candidate
            for shrink in (1.0, *_SHRINKS):
                self._tell("tuning", f"the strategy of {candidate.name}, factor {shrink:g}", place, len(best))
                shrunk = replace(candidate, shrink=shrink)
                # With amplification the noise follows the sum of the coefficients more than their norm.
                guess = needed * self._sum_of_coefficients(shrunk) / self._sum_of_coefficients(before)
                needed = self._estimate(shrunk.design(self._task), guess, _TUNING_SAMPLES, _TUNING_TOLERANCE)
                previous, before = before, self._measured(shrunk, needed)
                found.append(before)
                if shrink < 1 and error_of(before) > error_of(previous):
                    break
        return found

    def certify(self, tried: list[Candidate]) -> tuple[Candidate, Calibration]:
        """Return the best candidate with a certificate, or the best of those with an exact proof if that is better."""
        near_best = [candidate for candidate in tried if error_of(candidate) <= _AS_GOOD * error_of(tried[0])]
        best = min(near_best, key=self._work_for_add) if len(near_best) > 1 else tried[0]
        found = self._calibrate(best)
        if found.fallback:
            best = Candidate.of(found.mechanism, best.shrink, self._task.workload)
        error = self._task.workload.error(found.mechanism.strategy, found.mechanism.noise_multiplier)
        proven = next((candidate for candidate in tried if candidate.exact), None)
        if proven is not None and proven != best and error_of(proven) < error:
            return proven, calibrate_exactly(proven.design(self._task), self._budget, self._seed)
        return best, found

    def _work_for_add(self, candidate: Candidate) -> float:
        """Return a measure of the work to certify a candidate; 0 where `add` needs no samples."""
        if candidate.exact:
            return 0.0
        prover = Prover(self._budget.epsilon, verifier_for("betting", self._budget.delta))
        return prover.work_for_add(candidate.design(self._task).with_noise(noise_of(candidate)))

    def _calibrate(self, candidate: Candidate) -> Calibration:
        def tell(event: Progress) -> None:
            if self._progress is not None:
                self._progress(replace(event, stage="certifying", detail=f"{candidate.name}, {event.detail}"))

        return calibrate(
            candidate.design(self._task),
            epsilon=self._budget.epsilon,
            delta=self._budget.delta,
            near=candidate.noise_multiplier,
            seed=self._seed,
            compute=self._compute,
            progress=tell,
        )

    def _estimate(self, design: Design, guess: float, samples: int, tolerance: float) -> float:
        # `remove` is the larger direction wherever we looked; the certificate tests both.
        return estimated_noise_multiplier(
            design,
            self._budget,
            guess,
            samples,
            0,
            directions=["remove"],
            tolerance=tolerance,
            laws=self._laws,
            compute=self._compute,
        )

    def _measured(self, candidate: Candidate, noise_multiplier: float) -> Candidate:
        error = self._task.workload.error(candidate.strategy(self._task), noise_multiplier)
        return replace(candidate, noise_multiplier=noise_multiplier, error=error)

    def _sum_of_coefficients(self, candidate: Candidate) -> float:
        return float(candidate.strategy(self._task).coefficients.sum())

    def _tell(self, stage: str, detail: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(Progress(stage, f"{detail} ({done + 1} of {total})", done, total))


def _nearest(known: dict[tuple[bool, int], float], apart: bool, bands: int) -> float:
    """Return the noise of what is most like a candidate: an epoch apart or not, and about as many bands."""
    alike = {size: sigma for (also_apart, size), sigma in known.items() if also_apart == apart}
    others = alike or {size: sigma for (_, size), sigma in known.items()}
    return others[min(others, key=lambda size: abs(size - bands))] if others else 1.0


def error_of(candidate: Candidate) -> float:
    """Return the error of a candidate that was tried."""
    assert candidate.error is not None
    return candidate.error


def noise_of(candidate: Candidate) -> float:
    """Return the noise multiplier of a candidate that was tried."""
    assert candidate.noise_multiplier is not None
    return candidate.noise_multiplier
