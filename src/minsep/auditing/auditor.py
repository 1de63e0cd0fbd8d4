"""The audit of a training loop against its certificate."""

import os
from dataclasses import replace

import numpy as np

from minsep.accounting import Certificate, accept_certificate
from minsep.attribution import AttributionGraph
from minsep.auditing.canaries import SHARE_OF_CLIPPED, Canaries, CanaryRun, Loop, directions_for
from minsep.auditing.checks import checks_of
from minsep.auditing.gaussian import gaussian_bound
from minsep.auditing.loops import loop_of
from minsep.auditing.outcome import Audit, Point
from minsep.auditing.statistic import Statistic, rules_for
from minsep.auditing.tally import Tally
from minsep.core import validation as validate
from minsep.core.arrays import FloatArray
from minsep.core.progress import Listener, Progress
from minsep.mechanism import Mechanism
from minsep.participation import UserMinSep
from minsep.randomness import Key

_THRESHOLDS_OF_CURVE = 48
_CHANCE_SHARE_OF_BOUND = 0.5  # of the chance of a false alarm; the checks share the rest
_DEFAULT_CANARIES, _DEFAULT_RUNS, _DEFAULT_RUNS_OF_ONE_CANARY = 1024, 16, 256
_RUNS_FOR_ONE_NEARLY_EMPTY, _CANARIES_OF_NEARLY_EMPTY = 8, 2
_LEAST_FAILURE_PROBABILITY = 1e-100  # far above the least p-value of a check, 1e-300


def audit(
    certificate: Certificate | str | os.PathLike[str],
    loop: Loop | str = "torch",
    *,
    runs: int | None = None,
    canaries: int | None = None,
    clip_norm: float = 1.0,
    failure_probability: float = 1e-6,
    seed: int | None = None,
    verify: bool = True,
    progress: Listener | None = None,
) -> Audit:
    """Run a training loop on canaries, and compare what it releases with its certificate.

    The result has a lower bound on the loop's epsilon, from the likelihood ratio of the mechanism, and checks that the
    loop is the certified mechanism. docs/audit.md has the proofs.

    Args:
        certificate: The certificate of the mechanism that the loop should run, or the file that holds it.
        loop: "torch", "jax", "huggingface", "processes" (two processes) or "fsdp2" (a model that two processes share)
            for the adapters of minsep, a function of one `minsep.auditing.CanaryRun`, or the name of such a function as
            "module:function".
        runs: How often to run the loop. None is 16 runs, or 256 if each run has one canary.
        canaries: Number of canaries in each run. A canary in a run is one trial: it is present by a fair coin. With
            `canaries=1` trials are whole runs, and the lower bound assumes only that runs are independent and alike.
            None is 1024 canaries, or 1 where batches are truncated.
        clip_norm: The clip norm of the loop.
        failure_probability: The highest probability with which a correct loop raises an alarm, at least 1e-100. Half of
            it is the chance that the lower bound is too large.
        seed: A seed that makes the coins, and the runs of loops that use their seed, reproducible. None takes the
            system's entropy.
        verify: Whether to draw the samples of the certificate again first. A certificate that does not hold is refused.
        progress: A function that is called with a `Progress` before every run, and before the certificate is verified.

    Examples:
        >>> import minsep
        >>> from minsep.auditing import plain_loop
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=16, bands=2)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.1, min_sep=4), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=4.0, delta=1e-2)
        >>> result = audit(certificate, plain_loop, runs=4, seed=1)
        >>> result.passed, result.trials > 3000, 0.5 < result.lower_bound < 4.0
        (True, True, True)
    """
    function, name = loop_of(loop)
    tell = progress or _nothing
    if verify:
        tell(Progress("verifying", "the certificate"))
    certificate = accept_certificate(certificate, verify=verify).certificate
    mechanism = certificate.mechanism
    failure_probability = validate.real(
        failure_probability=failure_probability, at_least=_LEAST_FAILURE_PROBABILITY, below=1
    )
    clip_norm = validate.real(clip_norm=clip_norm, above=0)
    cut = mechanism.truncation
    if canaries is None:
        canaries = _DEFAULT_CANARIES if cut is None else 1
    canaries = validate.integer(canaries=canaries, at_least=1)
    if runs is None:
        runs = _DEFAULT_RUNS if canaries > 1 else _DEFAULT_RUNS_OF_ONE_CANARY
    runs = validate.integer(runs=runs, at_least=1)
    if cut is not None and canaries > 1:
        raise ValueError(
            f"canaries is {canaries}, but the certificate cuts batches, which ties the canaries of a run together: it "
            "must be 1."
        )
    plan = [canaries] * runs
    if canaries > _CANARIES_OF_NEARLY_EMPTY:
        plan += [_CANARIES_OF_NEARLY_EMPTY] * -(-runs // _RUNS_FOR_ONE_NEARLY_EMPTY)
    of_canaries = {count: _with_users(mechanism, count) for count in set(plan)}
    mechanism = of_canaries[canaries][0]
    key = Key.of(seed)
    trials = round(runs * canaries * SHARE_OF_CLIPPED)
    statistic = Statistic.of(mechanism, trials, key.derive("statistic"))
    bound_chance = _CHANCE_SHARE_OF_BOUND * failure_probability
    rules = rules_for(statistic, trials, certificate.delta, bound_chance)
    tally = Tally(mechanism, statistic)
    directions = directions_for(canaries, key.derive("directions"))
    for number, count in enumerate(plan):
        tell(Progress("auditing", f"run {number + 1:,} of {len(plan):,}", number, len(plan)))
        of_run, each = of_canaries[count]
        nearly_empty = number >= runs
        drawn = Canaries.alone if nearly_empty else Canaries.of_run
        run = CanaryRun(
            of_run,
            drawn(directions, count, key.derive("canaries"), number),
            num_examples=count * each if cut is None else cut.num_examples or 1,
            clip_norm=clip_norm,
            examples_each=each,
            seed=None if seed is None else int(key.derive(f"run {number}").hex(), 16),
            number=number,
        )
        function(run)
        tally.add(run.observed(), nearly_empty=nearly_empty)
    present, absent = tally.log_ratios
    bounds = [rule.bound(present, absent, certificate.delta, bound_chance) for rule in rules]
    checks = tuple(checks_of(tally, failure_probability - bound_chance))
    gaussian = None
    if all(check.passed for check in checks):
        tell(Progress("bounding", "the epsilon of Gaussian noise"))
        sample_seed = int(key.derive("gaussian").hex()[:12], 16)
        gaussian = gaussian_bound(certificate.mechanism, tally, certificate.delta, bound_chance, sample_seed)
    return Audit(
        mechanism=mechanism.name,
        loop=name,
        epsilon=certificate.epsilon,
        delta=certificate.delta,
        lower_bound=max(bounds),
        gaussian_bound=gaussian,
        checks=checks,
        failure_probability=failure_probability,
        bound_failure_probability=bound_chance,
        present=present.size,
        absent=absent.size,
        runs=runs,
        canaries=canaries,
        iterations=mechanism.iterations,
        points=_points(statistic, present, absent),
    )


def _with_users(mechanism: Mechanism, canaries: int) -> tuple[Mechanism, int]:
    """Return the mechanism for as many users as canaries, and the number of examples of each.

    Where batches are truncated, a user has one example, and there are examples besides the canary: nothing changes.
    """
    scheme = mechanism.scheme
    if not isinstance(scheme, UserMinSep) or mechanism.truncation is not None:
        return mechanism, 1
    graph = AttributionGraph.from_lists([[user] for user in range(canaries) for _ in range(scheme.user_bound)])
    return replace(mechanism, scheme=replace(scheme, graph=graph)), scheme.user_bound


def _points(statistic: Statistic, present: FloatArray, absent: FloatArray) -> tuple[Point, ...]:
    """Return false and true positives at thresholds from the rarest to the most common."""
    places = np.unique(np.geomspace(1, statistic.absent.size - 1, _THRESHOLDS_OF_CURVE).astype(int))
    thresholds = np.unique(np.concatenate([statistic.absent[-places], statistic.present[places]]))[::-1]
    return tuple(
        Point(
            float(threshold),
            int(np.count_nonzero(absent > threshold)),
            int(np.count_nonzero(present > threshold)),
            statistic.false_positives(float(threshold)),
            float(np.mean(statistic.present > threshold)),
        )
        for threshold in thresholds
    )


def _nothing(event: Progress) -> None:
    pass
