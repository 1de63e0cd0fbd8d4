"""The search for the mechanism of least error, and its certificate."""

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

from minsep.accounting import Certificate, not_certified
from minsep.attribution import AttributionGraph
from minsep.core import validation as validate
from minsep.core.progress import Listener
from minsep.engine import LOCAL, Compute
from minsep.journal import Call, begin
from minsep.mechanism import Mechanism
from minsep.planning.candidates import Candidate, candidates
from minsep.planning.cutting import size_that_suffices
from minsep.planning.families import BASELINES, FAMILIES
from minsep.planning.search import Search, error_of, noise_of
from minsep.planning.task import Task
from minsep.strategy import Workload

SCHEMES = tuple(FAMILIES)
_TUNED = 2
_PREFIX_SUMS = Workload()
DEFAULT_NOISE_MEMORY = 16 << 30


@dataclass(frozen=True)
class Plan:
    """The best mechanism for a task, its certificate, and everything that was tried on the way.

    - `task` is what was planned for, `chosen` the candidate that was chosen, and `mechanism` what to run.
    - `certificate` proves the mechanism; that of a plan by estimates alone was refused without a test.
    - `table` is all candidates, the best first; those that were skipped last.
    - `seed` repeats the plan.
    - `fallback` says why the mechanism is another one than the best that was tried; it is empty if it is not.
    - `ties` are candidates whose errors the estimates cannot tell from that of the chosen one.
    - `estimated` says that nothing was tested.
    - `wider` is an estimate of the plan with batches cut at a larger size, where better mechanisms were left out at the
      one requested; elsewhere it is None.
    """

    task: Task
    chosen: Candidate
    mechanism: Mechanism
    certificate: Certificate
    table: tuple[Candidate, ...]
    seed: int
    fallback: str = ""
    ties: tuple[Candidate, ...] = ()
    wider: "Plan | None" = None
    estimated: bool = False

    @property
    def certified(self) -> bool:
        """Whether a certificate proves the mechanism."""
        return self.certificate.passed

    @property
    def error(self) -> float:
        """Root mean squared error of the workload from the plan's noise, for clip norm 1."""
        return self.task.workload.error(self.mechanism.strategy, self.mechanism.noise_multiplier)

    @property
    def baseline(self) -> Candidate:
        """The best of DP-SGD, cyclic Poisson and balls-in-bins with the paper's strategy, as it was estimated."""
        tried = [one for one in self.table if one.error is not None and one.shrink == 1.0]
        return next((one for one in tried if one.scheme in BASELINES), tried[0])

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
        privacy = f"({self.task.epsilon:g}, {self.task.delta:g})-DP{self.task.protected}"
        error = f"a root mean squared error of {self.error:.4g} for {self.task.workload.name}"
        if self.estimated:
            sentence = (
                f"ESTIMATE, not certified: {mechanism} should be about {privacy}, with {error}. Do not train by it."
            )
        else:
            proven = "certified" if self.certified else "not certified"
            sentence = f"Train with {mechanism}: {privacy}, {proven}, with {error}."
        first = f"{self.fallback} " if self.fallback else ""
        return f"{first}{sentence}{self._tied}{self._cut}"

    @property
    def _cut(self) -> str:
        """What the cut of large batches costs, and what a larger size would give."""
        cut = [one for one in self.table if one.cut]
        if not cut:
            return ""
        sentence = f" {len(cut)} mechanisms were left out, as {cut[0].skipped}."
        if self.wider is None:
            return sentence
        return (
            f"{sentence} With batches cut at {self.wider.task.max_batch_size:,}, {self.wider.chosen.name} should have "
            f"an error of about {self.wider.error:.4g} instead of {self.error:.4g}: plan with that size to certify it."
        )

    @property
    def _tied(self) -> str:
        if not self.ties:
            return ""
        names = " and ".join(one.name for one in self.ties[:2])
        return f" The estimates cannot tell it from {names}."


def plan(
    num_examples: int,
    batch_size: float,
    iterations: int,
    epsilon: float,
    delta: float,
    *,
    max_bands: int = 64,
    min_sep: int | None = None,
    schemes: Iterable[str] = SCHEMES,
    max_batch_size: int | None = None,
    user_bound: int = 1,
    graph: AttributionGraph | None = None,
    workload: Workload = _PREFIX_SUMS,
    model_size: int | None = None,
    noise_memory: int = DEFAULT_NOISE_MEMORY,
    tune: bool = True,
    estimate: bool = False,
    attempts: int = 1,
    seed: int | None = None,
    compute: Compute = LOCAL,
    journal: str | os.PathLike[str] | None = None,
    progress: Listener | None = None,
    found: Callable[[Candidate], None] | None = None,
) -> Plan:
    """Find the mechanism of least error for a task at (epsilon, delta), and certify it.

    - Tried are DP-SGD with Poisson sampling and with random allocation, cyclic Poisson, balls-in-bins and b-min-sep,
      with 1, 2, 4, ... up to `max_bands` bands and separations from the bands up to an epoch; `min_sep` fixes the
      separation of b-min-sep.
    - They are ranked by the root mean squared error of the `workload` at the noise that each needs, as estimated:
      prefix sums, unless it says what the optimiser does. Strategies are optimal for it; the best of them are then
      tuned to the sampling (`tune`), and the winner is calibrated with a certificate.
    - The outcome is never worse than the best baseline with an exact proof.
    - `num_examples` is the size of the dataset, `batch_size` the expected number of examples in a batch, and
      `iterations` the number of steps; `epsilon` and `delta` are the budget.
    - `max_batch_size`, if given, cuts larger batches. Where that costs too much of delta, the plan with a larger size
      is beside the one requested, as `wider`.
    - `user_bound` is the most examples of one user; the privacy is the user's. `plan_users` tries several bounds.
    - `graph`, if given, says who the users of each example are. Where no example has several, b-min-sep in which a
      user's examples block each other is tried beside b-min-sep of independent examples: both are proven.
    - `schemes` are the kinds of scheme to try.
    - `estimate` leaves out the certificate: an answer in seconds, to explore, and not to train by.
    - `model_size` (number of parameters) and `noise_memory` (bytes) bound the memory for past noise. The certificate
      covers rounding in a run of a model of this size; by default, in one that releases up to 1e10 values.
    - `attempts` is how many plans are made at most, of which one is run: they share the chance of an error.
    - `seed` makes the certificate reproducible; by default it comes from the system's entropy, and is recorded. The
      choice of the mechanism does not depend on it.
    - `compute` says where samples are drawn, and does not change the result; `progress` is told how far it is, and
      `found` each candidate when its noise is known, and again when it is known better.
    - `journal`, if given, is a file that holds what was drawn and decided so far. The same call goes on from there,
      after a crash and with any `compute`, and ends in the identical plan.

    >>> import minsep
    >>> best = minsep.plan(2000, 100, 100, epsilon=2.0, delta=1e-3, max_bands=4, tune=False, seed=0)
    >>> best.chosen.name
    'b-min-sep, b = 8, 4 bands'
    >>> best.certificate.passed
    True
    """
    task, schemes = _checked(
        lambda: Task(num_examples, batch_size, iterations, epsilon, delta, max_batch_size, user_bound, graph, workload),
        schemes,
        max_bands,
        min_sep,
        model_size,
    )

    def planned(run: Call, task: Task, estimate: bool, told: Callable[[Candidate], None] | None) -> Plan:
        listed = list(candidates(task, schemes, max_bands, min_sep, model_size, noise_memory))
        search = Search(task, run.seed, run.compute, run.progress, attempts, model_size, told)
        return _plan(task, listed, tune, estimate, search)

    inputs = {
        "num_examples": num_examples,
        "batch_size": batch_size,
        "iterations": iterations,
        "epsilon": epsilon,
        "delta": delta,
        "max_bands": max_bands,
        "min_sep": min_sep,
        "schemes": schemes,
        "max_batch_size": max_batch_size,
        "user_bound": user_bound,
        "graph": graph,
        "workload": workload,
        "model_size": model_size,
        "noise_memory": noise_memory,
        "tune": tune,
        "estimate": estimate,
        "attempts": attempts,
    }
    with begin(journal, "plan", inputs, seed, compute, progress) as run:
        best = planned(run, task, estimate, found)
        cut = [one for one in best.table if one.cut]
        if cut:
            # Only an estimate: of two that are tested, one must not be chosen by the outcome.
            wider = planned(run, replace(task, max_batch_size=_sufficient_size(cut, task)), True, None)
            best = replace(best, wider=dated(wider, run.date)) if wider.error < best.error else best
        best = dated(best, run.date)
        return run.finish(best, best.statement)


def dated(made: Plan, date: str) -> Plan:
    """Return a plan with the date on which it was begun."""
    return replace(made, certificate=replace(made.certificate, date=date))


def _plan(task: Task, listed: list[Candidate], tune: bool, estimate: bool, search: Search) -> Plan:
    """Return the plan for a task with these candidates."""
    measured = search.estimate_all([one for one in listed if not one.skipped])
    tried = [one for one in measured if not one.skipped]
    skipped = [one for one in (*listed, *measured) if one.skipped]
    cut = [one for one in skipped if one.cut]
    if not tried and cut:
        raise ValueError(
            f"max_batch_size is {task.max_batch_size}, but {cut[0].skipped}, and no other mechanism is left: it must "
            f"be at least {_sufficient_size(cut, task)}."
        )
    if not tried:
        schemes = tuple(dict.fromkeys(one.scheme for one in listed))
        raise ValueError(
            f"schemes is {schemes!r}, but none of them can be run: {skipped[0].name}: {skipped[0].skipped}."
        )
    tried = search.refine(tried)
    if tune:
        tried += search.tune(_worth_tuning(sorted(tried, key=error_of)))
    tried.sort(key=error_of)
    table = (*tried, *skipped)
    if estimate:
        chosen = search.choose(tried)
        mechanism = chosen.design(task).with_noise(noise_of(chosen))
        untested = not_certified(mechanism, task.budget, search.seed, "the plan is an estimate")
        ties = search.ties(chosen, tried)
        return Plan(task, chosen, mechanism, untested, table, search.seed, ties=ties, estimated=True)
    chosen, found = search.certify(tried)
    ties = search.ties(chosen, tried)
    return Plan(task, chosen, found.mechanism, found.certificate, table, search.seed, found.fallback, ties)


def _sufficient_size(cut: list[Candidate], task: Task) -> int:
    """Return the size at which a cut hardly costs any of these candidates anything."""
    return max(size_that_suffices(one, task) for one in cut)


def _checked(
    make_task: Callable[[], Task],
    schemes: Iterable[str],
    max_bands: int,
    min_sep: int | None,
    model_size: int | None,
) -> tuple[Task, tuple[str, ...]]:
    """Check everything before any work, and report all problems together."""
    made: list[Task] = []
    schemes = tuple(schemes)
    checks: list[Callable[[], object]] = [
        lambda: made.append(make_task()),
        lambda: validate.integer(max_bands=max_bands, at_least=1),
        *(lambda name=name: validate.choice(SCHEMES, scheme=name) for name in schemes),
    ]
    if not schemes:
        checks.append(lambda: validate.choice(SCHEMES, scheme=""))
    if min_sep is not None:
        checks.append(lambda: validate.integer(min_sep=min_sep, at_least=1))
        checks.append(lambda: made and validate.integer(min_sep=min_sep, at_most=max(made[0].longest_separation, 1)))
    if model_size is not None:
        checks.append(lambda: validate.integer(model_size=model_size, at_least=1))
    validate.all_of(*checks)
    return made[0], schemes


def _worth_tuning(ranked: list[Candidate]) -> list[Candidate]:
    """Return the best few that are tunable, and the best with more bands: what is shrunk can have more of them."""
    tunable = [one for one in ranked if one.bands > 1 and not one.exact]
    best = tunable[:_TUNED]
    most = max((one.bands for one in best), default=0)
    more = (one for one in tunable if most < one.bands <= 2 * most)
    return [*best, *list(more)[:1]]
