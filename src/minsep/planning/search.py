"""The noise that each candidate needs, by estimates; and the certificate of the one that is chosen."""

import math
from collections.abc import Callable, Iterator
from copy import copy
from dataclasses import replace

from minsep.accounting import (
    TYPICAL_SLOPE,
    Calibration,
    Direction,
    Law,
    Prover,
    TunedBudget,
    betting_verifier,
    calibrate,
    calibrate_exactly,
    estimated_noise_multiplier,
    exact_mechanism,
    guessed_noise_multiplier,
    has_exact_curve,
    has_pair,
)
from minsep.core.budget import Budget
from minsep.core.identity import to_digits
from minsep.core.progress import Listener, Progress
from minsep.engine import Compute
from minsep.mechanism import Design
from minsep.planning.candidates import Candidate
from minsep.planning.cutting import reason_not_to_cut
from minsep.planning.margin import RELATIVE_ERROR_OF_A_TIE
from minsep.planning.request import Request

_ROUGH_SAMPLES, _CLOSE_SAMPLES = 1_000, 4_000
_ROUGH_LOG_DELTA, _CLOSE_LOG_DELTA = 0.25, 0.1  # how far estimates may be from the delta that is asked for
_SHRINK_FACTORS = (1.0, 0.7, 0.5, 0.35, 0.25, 0.17, 0.12)
_FIRST_SHRINK_PLACE = 3
_DAMPED_PERIODS = (0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_DAMPING_DIGITS = 7
_RELATIVE_ERROR_OF_THE_RACE = 1.06  # times the lowest error: what rough estimates leave in the race
_EXACT_NOISE_TOLERANCE = 0.002
_SPACING_IN_TYPICAL_LOSSES, _LEAST_SPACING, _MOST_SPACING = 0.04, 1e-4, 4e-3  # a typical loss is that of one step
_MOST_SAMPLED_ITERATIONS = 1_000_000
_LONG_RUN = 10_000  # iterations from which on an estimate takes longer than a guess by bounds
_ITERATIONS_WITH_CURVE = range(500, 3_001)  # where a curve takes less time than the plan, which it comes with
_GUESSED_DIGITS = 2  # of where to look first, so that searches begin at the same place everywhere


class Search:
    """Measures the candidates of one task."""

    def __init__(
        self,
        request: Request,
        seed: int,
        compute: Compute,
        progress: Listener | None,
        found: Callable[[Candidate], None] | None = None,
        curve: bool | None = None,
        tuned: TunedBudget | None = None,
    ) -> None:
        self._request, self._budget, self.seed = request, request.budget, seed
        self._tuned = tuned
        self._curve = request.iterations in _ITERATIONS_WITH_CURVE if curve is None else curve
        self._laws: dict[Direction, Law] = {}
        self._compute, self._progress, self._found = compute, progress, found

    def silent(self) -> "Search":
        """Return the same search, which tells nobody of candidates."""
        silent = copy(self)
        silent._found = None
        return silent

    def estimate_all(self, listed: list[Candidate]) -> list[Candidate]:
        """Return the candidates with the noise that each needs, exact ones first: they show where to look.

        Those that exact accounting cannot serve are skipped.
        """
        known: _Known = {}
        tried = []
        for place, (candidate, design, exact) in enumerate(self._exact_first(listed)):
            self._tell("estimating", candidate.name, place, len(listed))
            apart = candidate.min_sep >= self._request.sizes.longest_separation
            if exact:
                candidate = replace(candidate, exact=True)
                try:
                    needed = exact_mechanism(
                        design,
                        self._budget.epsilon,
                        self._budget.delta,
                        _EXACT_NOISE_TOLERANCE,
                        self._spacing,
                        _nearest(known, apart, candidate),
                    ).noise_multiplier
                except ValueError as error:
                    tried.append(replace(candidate, skipped=str(error).rstrip(".")))
                    continue
            elif not has_pair(design):
                tried.append(replace(candidate, skipped="no accounting is known for it"))
                continue
            elif self._request.iterations > _MOST_SAMPLED_ITERATIONS:
                most = f"{_MOST_SAMPLED_ITERATIONS:,}"
                tried.append(replace(candidate, skipped=f"plans sample runs of at most {most} iterations"))
                continue
            elif reason := reason_not_to_cut(candidate, self._request):
                tried.append(replace(candidate, skipped=reason, cut=True))
                continue
            else:
                guess, slope = _nearest(known, apart, candidate), TYPICAL_SLOPE
                if self._request.iterations >= _LONG_RUN:
                    guess, slope = guessed_noise_multiplier(design, self._budget, guess)
                needed = self._estimate(design, guess, _ROUGH_SAMPLES, _ROUGH_LOG_DELTA, slope=slope)
            known[apart, candidate.is_banded, candidate.bands] = needed
            tried.append(self._measured(candidate, needed))
        return tried

    def _exact_first(self, listed: list[Candidate]) -> Iterator[tuple[Candidate, Design, bool]]:
        """Yield candidates with their designs, each made when it is needed, and whether exact accounting serves it."""
        sampled = []
        for candidate in listed:
            design = candidate.design(self._request)
            if has_exact_curve(design):
                yield candidate, design, True
            else:
                sampled.append((candidate, design, False))
        yield from sampled

    def is_exact(self, candidate: Candidate) -> bool:
        """Return whether exact accounting serves a candidate."""
        return has_exact_curve(candidate.design(self._request))

    def refine(self, tried: list[Candidate]) -> list[Candidate]:
        """Return the candidates, those that are still in the race with a better estimate."""
        most = _RELATIVE_ERROR_OF_THE_RACE * min(map(error_of, tried))
        leading = [candidate for candidate in tried if not candidate.exact and error_of(candidate) <= most]
        for place, candidate in enumerate(leading):
            self._tell("estimating", f"{candidate.name}, again", place, len(leading))
            better = self._closely(candidate, noise_of(candidate))
            tried = [better if one is candidate else one for one in tried]
        return tried

    def tune(self, best: list[Candidate]) -> list[Candidate]:
        """Return candidates with their strategies shrunk by several factors, from a typical one to less error."""
        found: list[Candidate] = []
        for place, candidate in enumerate(best):
            shrunk = self._shrink(candidate, place, len(best))
            found += [one for one in shrunk if one.shrink != 1.0]
        return found

    def _shrink(self, candidate: Candidate, place: int, total: int) -> list[Candidate]:
        known = {0: candidate}

        def measure(step: int) -> float:
            if step not in known:
                shrunk = replace(candidate, shrink=_SHRINK_FACTORS[step])
                self._tell("tuning", f"the strategy of {candidate.name}, factor {shrunk.shrink:g}", place, total)
                near = known[min(known, key=lambda other: abs(other - step))]
                # With amplification the noise follows the sum of the coefficients more than their norm.
                ratio = self._sum_of_coefficients(shrunk) / self._sum_of_coefficients(near)
                known[step] = self._closely(shrunk, noise_of(near) * ratio)
            return error_of(known[step])

        step = _FIRST_SHRINK_PLACE
        for direction in (1, -1):
            while 0 <= step + direction < len(_SHRINK_FACTORS) and measure(step + direction) < measure(step):
                step += direction
        return list(known.values())

    def damp(self, tried: list[Candidate]) -> list[Candidate]:
        """Return candidates whose participations overlap, damped by the best of several factors if that is any."""
        overlapping = [one for one in tried if not one.is_banded]
        found = []
        for place, candidate in enumerate(overlapping):
            self._tell("tuning", f"the strategy of {candidate.name}", place, len(overlapping))
            best = candidate
            for periods in _DAMPED_PERIODS:
                # So that a participation has faded by e^-periods at the next one.
                factor = to_digits(math.exp(-periods / candidate.min_sep), _DAMPING_DIGITS)
                damped = replace(candidate, shrink=factor)
                needed = self._estimate(damped.design(self._request), noise_of(best), _ROUGH_SAMPLES, _ROUGH_LOG_DELTA)
                measured = self._measured(damped, needed)
                if error_of(measured) >= error_of(best):
                    break
                best = measured
            found += [best] if best is not candidate else []
        return found

    def _closely(self, candidate: Candidate, guess: float) -> Candidate:
        needed = self._estimate(candidate.design(self._request), guess, _CLOSE_SAMPLES, _CLOSE_LOG_DELTA)
        return self._measured(candidate, needed)

    def choose(self, tried: list[Candidate]) -> Candidate:
        """Return the best candidate; of those tied with it, the one that is run and then certified with least work."""
        near_best = [
            candidate for candidate in tried if error_of(candidate) <= RELATIVE_ERROR_OF_A_TIE * error_of(tried[0])
        ]
        fewest = min(one.drawn_rows for one in near_best)
        cheapest = [one for one in near_best if one.drawn_rows == fewest]
        return min(cheapest, key=self._work_for_add) if len(cheapest) > 1 else cheapest[0]

    def ties(self, chosen: Candidate, tried: list[Candidate]) -> tuple[Candidate, ...]:
        """Return the candidates of other schemes, separations or bands that the estimates cannot tell from one."""
        own = next((one for one in tried if _same_design(one, chosen)), chosen)
        close = (
            one
            for one in tried
            if error_of(own) / RELATIVE_ERROR_OF_A_TIE <= error_of(one) <= RELATIVE_ERROR_OF_A_TIE * error_of(own)
        )
        best: dict[tuple[str, str, int, int], Candidate] = {}
        for one in close:
            best.setdefault(_design_of(one), one)
        best.pop(_design_of(chosen), None)
        return tuple(best.values())

    def certify(self, tried: list[Candidate]) -> tuple[Candidate, Calibration]:
        """Return the best candidate with a certificate, or the best of those with an exact proof if that is better."""
        best = self.choose(tried)
        found = self._calibrate(best)
        if found.fallback:
            best = Candidate.of(found.mechanism, best.shrink, self._request.workload)
        error = self._request.workload.error(found.mechanism.strategy, found.mechanism.noise_multiplier)
        proven = next((candidate for candidate in tried if candidate.exact), None)
        if proven is not None and proven != best and error_of(proven) < error:
            return proven, self._calibrate_exactly(proven.design(self._request))
        return best, found

    def estimate_at(self, candidate: Candidate, budget: Budget) -> float:
        """Return the noise that a candidate needs at a budget near its own."""
        design = candidate.design(self._request)
        return self._estimate(design, noise_of(candidate), _CLOSE_SAMPLES, _CLOSE_LOG_DELTA, budget)

    def _work_for_add(self, candidate: Candidate) -> float:
        """Return a measure of the work to certify a candidate; 0 where `add` needs no samples."""
        if candidate.exact:
            return 0.0
        prover = Prover(self._budget.epsilon, betting_verifier(self._budget.delta))
        return prover.work_for_add(candidate.design(self._request).with_noise(noise_of(candidate)))

    def _calibrate(self, candidate: Candidate) -> Calibration:
        def tell(event: Progress) -> None:
            if self._progress is not None:
                self._progress(replace(event, stage="certifying", detail=f"{candidate.name}, {event.detail}"))

        budget = self._budget if self._tuned is None else self._tuned.whole
        return calibrate(
            candidate.design(self._request),
            epsilon=budget.epsilon,
            delta=budget.delta,
            trials=None if self._tuned is None else self._tuned.trials,
            attempts=self._request.attempts,
            model_size=self._request.model_size,
            near=candidate.noise_multiplier,
            seed=self.seed,
            curve=self._curve,
            compute=self._compute,
            progress=tell,
        )

    def _calibrate_exactly(self, design: Design) -> Calibration:
        def calibrated(budget: Budget, _: int = 0) -> Calibration:
            return calibrate_exactly(design, budget, self.seed, self._request.model_size)

        return calibrated(self._budget) if self._tuned is None else self._tuned.find(calibrated)

    def _estimate(
        self,
        design: Design,
        guess: float,
        samples: int,
        tolerance: float,
        budget: Budget | None = None,
        slope: float = TYPICAL_SLOPE,
    ) -> float:
        # `remove` is the larger direction wherever we looked; the certificate tests both.
        return estimated_noise_multiplier(
            design,
            budget or self._budget,
            guess,
            samples,
            0,
            slope=slope,
            directions=["remove"],
            tolerance=tolerance,
            laws=self._laws,
            compute=self._compute,
        )

    def _measured(self, candidate: Candidate, noise_multiplier: float) -> Candidate:
        error = self._request.workload.error(candidate.strategy(self._request), noise_multiplier)
        measured = replace(candidate, noise_multiplier=noise_multiplier, error=error)
        if self._found is not None:
            self._found(measured)
        return measured

    @property
    def _spacing(self) -> float:
        """Spacing of privacy losses that is fine enough to rank by."""
        typical = self._budget.epsilon / math.sqrt(self._request.iterations)
        return min(max(_SPACING_IN_TYPICAL_LOSSES * typical, _LEAST_SPACING), _MOST_SPACING)

    def _sum_of_coefficients(self, candidate: Candidate) -> float:
        return float(candidate.strategy(self._request).coefficients.sum())

    def _tell(self, stage: str, detail: str, done: int, total: int) -> None:
        if self._progress is not None:
            self._progress(Progress(stage, f"{detail} ({done + 1} of {total})", done, total))


_Known = dict[tuple[bool, bool, int], float]
"""The noise of candidates: whether they are an epoch apart, whether they are banded, and their bands."""


def _nearest(known: _Known, apart: bool, candidate: Candidate) -> float:
    """Return the noise of what is most like a candidate: an epoch apart or not, and about as many bands."""

    def unlike(key: tuple[bool, bool, int]) -> tuple[bool, bool, int]:
        also_apart, is_banded, bands = key
        return also_apart != apart, is_banded != candidate.is_banded, abs(bands - candidate.bands)

    return to_digits(known[min(known, key=unlike)], _GUESSED_DIGITS) if known else 1.0


def _same_design(one: Candidate, other: Candidate) -> bool:
    return _design_of(one) == _design_of(other) and one.shrink == other.shrink


def _design_of(one: Candidate) -> tuple[str, str, int, int]:
    return one.scheme, one.matrix, one.bands, one.min_sep


def error_of(candidate: Candidate) -> float:
    """Return the error of a candidate that was tried."""
    assert candidate.error is not None
    return candidate.error


def noise_of(candidate: Candidate) -> float:
    """Return the noise multiplier of a candidate that was tried."""
    assert candidate.noise_multiplier is not None
    return candidate.noise_multiplier
