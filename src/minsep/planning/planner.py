"""The search for the mechanism with the lowest error, and its certificate."""

import inspect
import math
import os
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, fields, replace
from functools import cached_property, wraps
from typing import ParamSpec

from minsep.accounting import Certificate, TunedBudget, TuningCertificate, not_certified
from minsep.core.budget import Budget
from minsep.core.progress import Listener
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.mechanism import Mechanism
from minsep.participation import families
from minsep.planning.candidates import Candidate, candidates
from minsep.planning.cutting import size_that_suffices
from minsep.planning.margin import RELATIVE_ERROR_OF_A_TIE, Margin
from minsep.planning.request import Request, with_questions
from minsep.planning.search import Search, error_of, noise_of

_CANDIDATES_TUNED = 2


@dataclass(frozen=True)
class Plan:
    """The best mechanism for a task, its certificate, and everything that was tried on the way.

    Attributes:
        request: What was planned for.
        chosen: The candidate that was chosen.
        mechanism: The mechanism to run.
        certificate: The proof of the mechanism. The certificate of a plan by estimates alone was refused without a
            test.
        table: All candidates, the best first and those that were skipped last.
        seed: The seed that repeats the plan.
        fallback: Why the mechanism is another one than the best that was tried. It is empty if it is not.
        ties: Candidates that are tied with the chosen one within the error of estimates.
        wider: An estimate of the plan with batches truncated to a larger size, where better mechanisms were left out at
            the requested size. Elsewhere it is None.
        estimated: Whether nothing was tested.
        beyond: Candidates whose noise needs more memory than was requested, as they were estimated.
        tuned: The budget for the best of several runs, if it was asked for that. The request and the certificate are
            about one of them then.
    """

    request: Request
    chosen: Candidate
    mechanism: Mechanism
    certificate: Certificate
    table: tuple[Candidate, ...]
    seed: int
    fallback: str = ""
    ties: tuple[Candidate, ...] = ()
    wider: "Plan | None" = None
    estimated: bool = False
    beyond: tuple[Candidate, ...] = ()
    tuned: TunedBudget | None = None

    @property
    def certified(self) -> bool:
        """Whether a certificate proves the mechanism."""
        return self.certificate.passed

    @cached_property
    def tuning(self) -> TuningCertificate | None:
        """What is proven of the best of several runs, if it was asked for that and is certified."""
        if self.tuned is None or not self.certified:
            return None
        return TuningCertificate.of([self.certificate], trials=self.tuned.trials, delta=self.tuned.whole.delta)

    @property
    def error(self) -> float:
        """Root mean squared error of the workload from the plan's noise, for clip norm 1."""
        return self.request.workload.error(self.mechanism.strategy, self.mechanism.noise_multiplier)

    @property
    def baseline(self) -> Candidate:
        """The best of DP-SGD, cyclic Poisson and balls-in-bins with the paper's strategy, as it was estimated."""
        tried = [one for one in self.table if one.error is not None and one.shrink == 1.0 and one.is_banded]
        known = families()
        return next((one for one in tried if known[one.scheme].is_baseline), tried[0])

    @property
    def against_dp_sgd(self) -> Margin | None:
        """How the plan compares with DP-SGD with Poisson sampling. None if that was not tried."""
        dp_sgd = next((one for one in self.table if one.scheme == "poisson" and one.error is not None), None)
        return None if dp_sgd is None else self._against(dp_sgd)

    @property
    def against_baseline(self) -> Margin | None:
        """How the plan compares with the best baseline. None if none was tried, or the plan is that baseline."""
        baseline = self.baseline
        if not families()[baseline.scheme].is_baseline or self._is(baseline):
            return None
        return self._against(baseline)

    def _against(self, other: Candidate) -> Margin:
        certified = self.certified and other.exact
        return Margin(other, self.error if certified else error_of(self.chosen), certified)

    def _is(self, candidate: Candidate) -> bool:
        return candidate.name == self.chosen.name

    @property
    def headline(self) -> str:
        """The answer in a few words: how the plan compares with DP-SGD, or else with the best baseline."""
        at = f"at epsilon {self._whole.epsilon:g}{self._of_runs}"
        margin = self.against_dp_sgd or self.against_baseline
        if margin is None:
            return f"{self.chosen.name} {at}"
        if self._is(margin.other):
            return f"{margin.name} is best {at}"
        estimated = " (estimate)" if self.estimated else ""
        return f"{margin.short} {at}{estimated}"

    @property
    def reason(self) -> str:
        """Why another mechanism than the one with the lowest estimate was chosen, and where correlation does not help.

        It is empty if there is nothing to explain.
        """
        tried = [one for one in self.table if one.error is not None]
        sentences = []
        if not self.chosen.is_correlated and any(one.is_correlated for one in tried):
            sentences.append("Correlated noise does not help here: independent noise is as good or better.")
        lower = 100 * (1 - error_of(tried[0]) / error_of(self.chosen))
        if lower > 0 and not self._is(tried[0]) and not self.fallback:
            first = f"{tried[0].name} has {lower:.1f} % less error by estimates"
            sentences.append(
                f"{first}: tied within 1 %, and the chosen mechanism is cheapest to {self._cheap_in(tried[:1])}."
                if self._near_best(self.chosen)
                else f"{first}, but its certificate needs more noise: the chosen mechanism has less error once proven."
            )
        return " ".join(sentences)

    def _near_best(self, candidate: Candidate) -> bool:
        return error_of(candidate) <= RELATIVE_ERROR_OF_A_TIE * error_of(self.table[0])

    @property
    def gain(self) -> float:
        """By which share tuning the strategy to the sampling lowered the estimated error; 0 if it did not."""
        tried = [one for one in self.table if one.error is not None]
        best = min(one.error or 0.0 for one in tried)
        untuned = min(one.error or 0.0 for one in tried if one.shrink == 1.0)
        return 1 - best / untuned

    @property
    def statement(self) -> str:
        """The answer in a sentence or two; a fallback is said first."""
        mechanism = f"{self.chosen.name} and noise multiplier {self.mechanism.noise_multiplier:.4g}"
        privacy = f"{self._whole}{self.request.protected}{self._of_runs}"
        error = f"a root mean squared error of {self.error:.4g} for {self.request.workload.name}"
        if self.estimated:
            sentence = (
                f"ESTIMATE, not certified: {mechanism} should be about {privacy}, with {error}. Do not train with it."
            )
        else:
            proven = "certified" if self.certified else "not certified"
            sentence = f"Train with {mechanism}: {privacy}, {proven}, with {error}."
        first = f"{self.fallback} " if self.fallback else ""
        return f"{first}{sentence}{self._tied}{self._cut}"

    @property
    def _whole(self) -> Budget:
        """What was asked for."""
        return self.request.budget if self.tuned is None else self.tuned.whole

    @property
    def _of_runs(self) -> str:
        return "" if self.tuned is None else f" for the best of about {self.tuned.trials.mean:g} runs"

    @property
    def _cut(self) -> str:
        """What the cut of large batches costs, and what a larger size would give."""
        cut = [one for one in self.table if one.cut]
        if not cut:
            return ""
        sentence = f" {len(cut)} mechanisms were left out, as {cut[0].skipped}."
        if self.wider is None:
            return sentence
        size = self.wider.request.max_batch_size
        return (
            f"{sentence} With batches cut at {size:,}, {self.wider.chosen.name} should have "
            f"an error of about {self.wider.error:.4g} instead of {self.error:.4g}: plan with that size to certify it."
        )

    @property
    def _tied(self) -> str:
        if not self.ties:
            return ""
        shown = self.ties[:2]
        names = " and ".join(one.name for one in shown)
        sentence = f" It is tied with {names} within estimation error (1 %)"
        # The choice was between those near the best, by how much work it is to certify them.
        cheapest = not self.fallback and all(map(self._near_best, (self.chosen, *shown)))
        return f"{sentence}, and cheapest to {self._cheap_in(shown)}." if cheapest else f"{sentence}."

    def _cheap_in(self, others: Sequence[Candidate]) -> str:
        """What a choice among tied candidates was made by: draws of noise, where they differ, or else certificates."""
        return "run" if any(one.drawn_rows > self.chosen.drawn_rows for one in others) else "certify"


def make_plan(
    request: Request,
    *,
    seed: int | None = None,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
    found: Callable[[Candidate], None] | None = None,
    curve: bool | None = None,
) -> Plan:
    """Find the mechanism with the lowest error for a request, and certify it.

    This is `minsep.plan` with its numbers in one value.

    Args:
        request: The task, the budget and what is tried.
        seed: As for `minsep.plan`.
        compute: As for `minsep.plan`.
        journal: As for `minsep.plan`.
        progress: As for `minsep.plan`.
        found: As for `minsep.plan`.
        curve: As for `minsep.plan`.
    """

    asked, tuned = request, request.tuned
    if tuned is not None:
        request = request.at(tuned.of_one.epsilon)

    def planned(run: Call, request: Request, told: Callable[[Candidate], None] | None) -> Plan:
        search = Search(request, run.seed, run.compute, run.progress, told, curve, tuned)
        # What is too large for the memory may be estimated too, to show what more memory would buy.
        listed = [one for one in candidates(request) if (one.skipped and not one.too_large) or one.exists(request)]
        return _plan(request, listed, search)

    request.warn_of_delta()
    with begin(journal, "plan", {**asked.fields, "curve": curve}, seed, compute, progress) as run:
        best = planned(run, request, found)
        cut = [one for one in best.table if one.cut]
        if cut:
            # Only an estimate: of two that are tested, one must not be chosen by the outcome.
            larger = replace(request, max_batch_size=_sufficient_size(cut, request), estimate=True)
            wider = planned(run, larger, None)
            best = replace(best, wider=dated(wider, run.date)) if wider.error < best.error else best
        if tuned is not None:
            certified = best.request if best.estimated else best.request.at(best.certificate.epsilon)
            best = replace(best, request=certified, tuned=tuned)
        best = dated(best, run.date)
        return run.finish(best, best.statement)


@dataclass(frozen=True)
class _Arguments(Request):
    """The arguments of `plan`: the fields of a request, and how it is worked on."""

    _: KW_ONLY
    seed: int | None = None
    compute: Compute = LOCAL
    journal: str | os.PathLike[str] | None = None
    progress: Listener | None = None
    found: Callable[[Candidate], None] | None = None
    curve: bool | None = None

    def __post_init__(self) -> None:
        pass  # the request is checked when it is made

    @property
    def request(self) -> Request:
        """The request alone."""
        return Request(**{one.name: getattr(self, one.name) for one in fields(Request)})


Parameters = ParamSpec("Parameters")


def _taking(
    arguments: Callable[Parameters, _Arguments],
) -> Callable[[Callable[[_Arguments], Plan]], Callable[Parameters, Plan]]:
    """Turn a function of arguments into one of their fields; those that ask a question are documented by its help."""

    def decorate(function: Callable[[_Arguments], Plan]) -> Callable[Parameters, Plan]:
        @wraps(function)
        def of_fields(*values: Parameters.args, **named: Parameters.kwargs) -> Plan:
            return function(arguments(*values, **named))

        of_fields.__doc__ = with_questions(inspect.getdoc(function) or "")
        signature = inspect.signature(arguments).replace(return_annotation=Plan)
        of_fields.__signature__ = signature  # type: ignore[attr-defined]
        return of_fields

    return decorate


@_taking(_Arguments)
def plan(arguments: _Arguments) -> Plan:
    """Find the mechanism with the lowest error for a task at (epsilon, delta), and certify it.

    - The planner tries DP-SGD with Poisson sampling and with random allocation, cyclic Poisson, balls-in-bins and
      b-min-sep, with 1, 2, 4, ... bands and separations from the bands up to an epoch.
    - It ranks them by the root mean squared error of the workload at the noise that each needs, as estimated.
      Strategies are optimal for the workload. The best of them are then tuned to the sampling, and the winner is
      calibrated with a certificate.
    - The outcome is never worse than the best baseline with an exact proof.
    - Where truncating batches costs too much of delta, `wider` of the plan is an estimate of the plan with a larger
      size.

    Args:
        workload: What the optimiser makes of the noise. By default the error is that of prefix sums.
        graph: Who the users of each example are, if that is known. Where no example has several users, b-min-sep in
            which a user's examples block each other is tried beside b-min-sep of independent examples: both are proven.
            `minsep.plan_users` tries several bounds on the examples of a user.
        attempts: The most plans that are made, of which one is run. They share the chance of an error.
        seed: A number that makes the certificate reproducible. By default it comes from the system's entropy, and is
            recorded. The choice of the mechanism does not depend on it.
        compute: Where samples are drawn. It does not change the result.
        journal: A file that holds what was drawn and decided so far. The same call continues from there, after a crash
            and with any `compute`, and ends in the identical plan.
        progress: A function that is called with how far the plan is.
        found: A function that is called with each candidate when its noise is known, and again when it is known better.
        curve: Whether to prove delta at other epsilons as well, as for `minsep.certify`. By default that is done for
            runs of 500 to 3,000 iterations, where it takes less time than the plan.

    Returns:
        The mechanism, its certificate, and all candidates that were tried.

    Examples:
        >>> import minsep
        >>> best = minsep.plan(2000, 100, 100, epsilon=2.0, delta=1e-3, max_bands=4, tune=False, seed=0)
        >>> best.chosen.name
        'b-min-sep, b = 8, 4 bands'
        >>> best.certificate.passed
        True
    """
    return make_plan(
        arguments.request,
        seed=arguments.seed,
        compute=arguments.compute,
        journal=arguments.journal,
        progress=arguments.progress,
        found=arguments.found,
        curve=arguments.curve,
    )


def dated(made: Plan, date: str) -> Plan:
    """Return a plan with the date on which it was begun."""
    return replace(made, certificate=replace(made.certificate, date=date))


def _plan(request: Request, listed: list[Candidate], search: Search) -> Plan:
    """Return the plan for a request with these candidates."""
    measured = search.estimate_all([one for one in listed if not one.skipped])
    tried = [one for one in measured if not one.skipped]
    skipped = [one for one in (*listed, *measured) if one.skipped]
    cut = [one for one in skipped if one.cut]
    if not tried and cut:
        raise ValueError(
            f"max_batch_size is {request.max_batch_size}, but {cut[0].skipped}, and no other mechanism is left: it "
            f"must be at least {_sufficient_size(cut, request)}."
        )
    if not tried and (large := [one for one in listed if one.too_large]):
        raise _refuse_memory(request, large)
    if not tried:
        schemes = ", ".join(dict.fromkeys(one.scheme for one in listed))
        raise ValueError(f"schemes is {schemes}, but none of them can be run: {skipped[0].name}: {skipped[0].skipped}.")
    if request.tune:
        tried += search.damp(tried)
    tried = search.refine(tried)
    if request.tune:
        tried += search.tune(_worth_tuning(sorted(tried, key=error_of)))
    tried.sort(key=error_of)
    table = (*tried, *skipped)
    beyond = _beyond(request, listed, search)
    if request.estimate:
        chosen = search.choose(tried)
        mechanism = chosen.design(request).with_noise(noise_of(chosen))
        untested = not_certified(mechanism, request.budget, search.seed, "the plan is an estimate")
        ties = search.ties(chosen, tried)
        return Plan(request, chosen, mechanism, untested, table, search.seed, ties=ties, estimated=True, beyond=beyond)
    chosen, found = search.certify(tried)
    ties = search.ties(chosen, tried)
    certificate = replace(found.certificate, num_examples=request.num_examples)
    return Plan(request, chosen, found.mechanism, certificate, table, search.seed, found.fallback, ties, beyond=beyond)


def _beyond(request: Request, listed: list[Candidate], search: Search) -> tuple[Candidate, ...]:
    """Return estimates of the candidates whose noise needs more memory than there is."""
    silent = search.silent()
    large = [replace(one, skipped="") for one in listed if one.too_large]
    found = [one for one in silent.estimate_all(large) if not one.skipped]
    if request.tune:
        found += silent.damp(found)
        found += silent.tune(_worth_tuning(sorted(found, key=error_of)))
    return tuple(sorted(found, key=error_of))


def _refuse_memory(request: Request, large: list[Candidate]) -> ValueError:
    """Return the error for a memory that is too small for the noise of every candidate."""
    least = min(large, key=lambda one: one.noise_bytes)
    needed = least.noise_bytes * (request.model_size or 0)
    return ValueError(
        f"noise_memory is {request.noise_memory:,} bytes, but it must be at least {needed:,} ({_gib_above(needed)}): "
        f"the noise of {least.name} needs that for a model of {request.model_size:,} parameters."
    )


def _gib_above(number: int) -> str:
    """Return a number of bytes in GiB, with three digits and rounded up, as the command line can be given it."""
    value = number / 2**30
    digit = 10.0 ** (math.floor(math.log10(value)) - 2)
    return f"{math.ceil(value / digit) * digit:.6g} GiB"


def _sufficient_size(cut: list[Candidate], request: Request) -> int:
    """Return the size at which a cut hardly costs any of these candidates anything."""
    return max(size_that_suffices(one, request) for one in cut)


def _worth_tuning(ranked: list[Candidate]) -> list[Candidate]:
    """Return the best few that are tunable, and the best with more bands: what is shrunk can have more of them."""
    tunable = [one for one in ranked if one.bands > 1 and one.is_banded and not one.exact]
    best = tunable[:_CANDIDATES_TUNED]
    most = max((one.bands for one in best), default=0)
    more = (one for one in tunable if most < one.bands <= 2 * most)
    return [*best, *list(more)[:1]]
