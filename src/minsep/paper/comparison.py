"""b-min-sep beside cyclic Poisson and balls-in-bins: the comparison of the paper's figures."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import count

from minsep.accounting import DIRECTIONS, Prover, fixed_sample_verifier
from minsep.core import validation as validate
from minsep.core.progress import Listener, Progress
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.paper.ladder import first_exponent, power
from minsep.participation import BallsInBins, CyclicPoisson, MinSep
from minsep.planning.candidates import Candidate, candidates
from minsep.planning.request import Request
from minsep.planning.search import Search, error_of

OTHERS = (CyclicPoisson.kind, BallsInBins.kind)
PROPOSED = MinSep.kind
COMPARED = (*OTHERS, PROPOSED)
EPSILONS = (0.5, 1.0, 2.0, 4.0, 8.0, 16.0)
EPOCHS = (128, 256, 512, 1024)
_VERIFIED_CANDIDATES = 2  # of each scheme
_DELTA_LIMIT = 0.5  # of the paper's verifier
_SEED = 0


@dataclass(frozen=True)
class Cell:
    """The best candidate of each scheme at one epsilon and one epoch length.

    Attributes:
        epsilon: The epsilon of the budget.
        epoch: The epoch length: the number of examples over the batch size.
        best: The best candidate of each scheme, by the kind of the scheme.
    """

    epsilon: float
    epoch: int
    best: dict[str, Candidate]

    def ratio(self, other: str) -> float:
        """Return the mean squared error of b-min-sep over that of another scheme: below 1 is better.

        Args:
            other: The kind of the other scheme.
        """
        return (error_of(self.best[PROPOSED]) / error_of(self.best[other])) ** 2


@dataclass(frozen=True)
class Comparison:
    """Mean squared errors of three schemes over epsilon and epoch length, by estimates or by the paper's verifier.

    Attributes:
        iterations: The number of steps that `compare` was given.
        delta: The delta that `compare` was given.
        max_bands: The most bands that `compare` was given.
        epsilons: The epsilons that `compare` was given.
        epochs: The epoch lengths that `compare` was given.
        cells: The best designs, one cell for each epoch length and epsilon.
        verified: Whether the designs were calibrated by the paper's verifier.
    """

    iterations: int
    delta: float
    max_bands: int
    epsilons: tuple[float, ...]
    epochs: tuple[int, ...]
    cells: tuple[Cell, ...]
    verified: bool = False

    def ratios(self, other: str) -> list[list[float]]:
        """Return a row for each epoch length, with the ratio to another scheme for each epsilon.

        Args:
            other: The kind of the other scheme, "cyclic-poisson" or "balls-in-bins".
        """
        by_place = {(cell.epoch, cell.epsilon): cell for cell in self.cells}
        return [[by_place[epoch, epsilon].ratio(other) for epsilon in self.epsilons] for epoch in self.epochs]


def compare(
    iterations: int = 1024,
    delta: float = 1e-3,
    *,
    epsilons: Sequence[float] = EPSILONS,
    epochs: Sequence[int] = EPOCHS,
    max_bands: int = 32,
    verified: bool = False,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
) -> Comparison:
    """Compare the errors of b-min-sep, cyclic Poisson and balls-in-bins, each with its best number of bands.

    The defaults are the setting of the paper. Numbers are estimates, not guarantees.

    Args:
        iterations: The number of steps.
        delta: The delta that goes with each epsilon.
        epsilons: The epsilons of the budgets.
        epochs: Epoch lengths: the number of examples over the batch size. b-min-sep takes its best separation up to and
            including the epoch, where it is balls-in-bins. So its ratio to that is at most 1.
        max_bands: The most bands that are tried.
        verified: Whether to calibrate as the paper did: the noise of the best candidates of a scheme is the lowest
            power of 1.01 that the paper's verifier passes, which compares an average of samples with half of delta. So
            a scheme that needs samples pays for its verification, and cyclic Poisson does not.
        compute: Where samples are drawn. It does not change the result.
        journal: A file that holds what was drawn so far. The same call continues from there, after a crash and with any
            `compute`, and ends in the identical comparison.
        progress: A function that is called with how far the comparison is.

    Returns:
        The best designs of each scheme, for each epoch length and epsilon.

    Examples:
        >>> found = compare(64, epsilons=[2.0], epochs=[32], max_bands=4)
        >>> [[round(ratio, 1) for ratio in row] for row in found.ratios("cyclic-poisson")]
        [[0.7]]
    """
    epsilons, epochs = tuple(epsilons), tuple(epochs)
    validate.all_of(
        lambda: validate.integer(iterations=iterations, at_least=2),
        lambda: validate.real(delta=delta, above=0, below=1),
        lambda: validate.integer(max_bands=max_bands, at_least=2),
        *(lambda value=value: validate.real(epsilons=value, above=0) for value in epsilons),
        *(lambda value=value: validate.integer(epochs=value, at_least=2) for value in epochs),
    )
    if verified and delta >= _DELTA_LIMIT:
        raise ValueError(f"delta is {delta:g}, but the paper's verifier shows a delta below {_DELTA_LIMIT} alone.")
    if not epsilons or not epochs:
        raise ValueError("epsilons or epochs is empty, but each needs at least one value.")
    inputs = {
        "iterations": iterations,
        "delta": delta,
        "epsilons": epsilons,
        "epochs": epochs,
        "max_bands": max_bands,
        "verified": verified,
    }
    with begin(journal, "compare", inputs, _SEED, compute, progress) as run:
        cells: list[Cell] = []
        for epoch in epochs:
            for epsilon in epsilons:
                if run.progress is not None:
                    total = len(epochs) * len(epsilons)
                    where = f"epoch length {epoch}, epsilon {epsilon:g} ({len(cells) + 1} of {total})"
                    run.progress(Progress("comparing", where, len(cells), total))
                request = Request(epoch, 1, iterations, epsilon, delta, max_bands=max_bands, schemes=COMPARED)
                cells.append(_cell(request, verified, run))
                run.compute.note(f"epoch length {epoch}, epsilon {epsilon:g} compared")
        found = Comparison(iterations, delta, max_bands, tuple(map(float, epsilons)), epochs, tuple(cells), verified)
        return run.finish(found, f"{len(cells)} settings compared")


def _cell(request: Request, verified: bool, run: Call) -> Cell:
    """Return the best candidates of each scheme for a task."""
    search = Search(request, run.seed, run.compute, None)
    measured = search.estimate_all(
        [candidate for candidate in candidates(request) if not candidate.skipped and candidate.is_banded]
    )
    # b-min-sep with a separation of an epoch is balls-in-bins, so it is measured once and counted for both.
    measured += [replace(one, scheme=PROPOSED) for one in measured if one.scheme == BallsInBins.kind]
    ranked = sorted((one for one in measured if not one.skipped), key=error_of)
    if verified:
        leading = (one for name in COMPARED for one in _first(ranked, name))
        ranked = sorted((verified_candidate(one, request, search, run.compute) for one in leading), key=error_of)
    return Cell(request.epsilon, request.num_examples, {name: _first(ranked, name)[0] for name in COMPARED})


def verified_candidate(candidate: Candidate, request: Request, search: Search, compute: Compute) -> Candidate:
    """Return a candidate with the lowest power of 1.01 as its noise that the verifier of the paper passes.

    That verifier compares the average of plain samples with half of delta. Exact curves need no verifier.
    """
    if candidate.exact:
        return candidate
    design, budget = candidate.design(request), request.budget
    first = first_exponent(search.estimate_at(candidate, replace(budget, delta=budget.delta / 2)))
    prover = Prover(budget.epsilon, fixed_sample_verifier(budget.delta), compute=compute)
    for attempt in count():
        mechanism = design.with_noise(power(first + attempt))
        if all(prover.prove(mechanism, direction, search.seed + attempt).passed for direction in DIRECTIONS):
            sigma = mechanism.noise_multiplier
            error = request.workload.error(candidate.strategy(request), sigma)
            return replace(candidate, noise_multiplier=sigma, error=error)
    raise AssertionError("Some power of 1.01 passes.")


def _first(ranked: list[Candidate], scheme: str) -> list[Candidate]:
    """Return the best few of a scheme."""
    return [one for one in ranked if one.scheme == scheme][:_VERIFIED_CANDIDATES]
