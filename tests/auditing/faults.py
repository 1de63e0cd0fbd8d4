"""Training loops with one fault each, in NumPy. `FAULTS` has them by name."""

from dataclasses import replace

import numpy as np

import minsep
from minsep.auditing.canaries import clip


def train(run, *, batches=None, noise=None, clipped=clip, divisor=None):
    """A correct loop, but for what is given: `batches`, rows of `noise`, how gradients are `clipped`, a `divisor`."""
    batches = run.mechanism.batches(run.num_examples, seed=run.seed) if batches is None else batches
    noise = run.mechanism.noise(run.dimension, np.float64, seed=run.seed) if noise is None else noise
    for step, (indices, row) in enumerate(zip(batches, noise, strict=True)):
        gradients = run.examples(step, indices).astype(np.float64)
        total = clipped(gradients, run.clip_norm).sum(axis=0) + run.clip_norm * row
        run.release(step, total / (divisor(indices) if divisor else run.expected_batch))


def less_noise(run, factor=0.9):
    train(run, noise=(factor * row for row in run.mechanism.noise(run.dimension, np.float64, seed=run.seed)))


def uncorrelated_noise(run):
    """As much noise in each step, but independent from step to step."""
    identity = minsep.BandedToeplitz.identity(iterations=run.mechanism.iterations)
    mechanism = replace(run.mechanism, strategy=identity, noise_multiplier=run.mechanism.step_noise)
    train(run, noise=mechanism.noise(run.dimension, np.float64, seed=run.seed))


def noise_of_another_strategy(run):
    """The square root instead of the optimum, with the same bands."""
    strategy = minsep.BandedToeplitz.square_root(
        iterations=run.mechanism.iterations, bands=run.mechanism.strategy.bands
    )
    train(run, noise=replace(run.mechanism, strategy=strategy).noise(run.dimension, np.float64, seed=run.seed))


def no_clipping(run):
    train(run, clipped=lambda gradients, clip_norm: gradients)


def clipping_by_coordinate(run):
    """Entries are bounded instead of norms: harmless for canaries along an axis, except that the bound is doubled."""
    train(run, clipped=lambda gradients, clip_norm: np.clip(gradients, -2 * clip_norm, 2 * clip_norm))


def separation_off_by_one(run):
    scheme = run.mechanism.scheme
    closer = replace(run.mechanism, scheme=replace(scheme, min_sep=scheme.min_sep - 1))
    train(run, batches=closer.batches(run.num_examples, seed=run.seed))


def poisson_batches(run):
    poisson = replace(run.mechanism, scheme=minsep.Poisson(run.mechanism.scheme.rate))
    train(run, batches=poisson.batches(run.num_examples, seed=run.seed))


def cold_start(run):
    """Every example is available in the first step, where a warm start was certified."""
    cold = replace(run.mechanism, scheme=replace(run.mechanism.scheme, start="cold"))
    train(run, batches=cold.batches(run.num_examples, seed=run.seed))


def divisor_of_the_batch(run):
    train(run, divisor=lambda indices: max(indices.size, 1))


def repeated_with_fresh_noise(run):
    """A crash after two thirds of the steps; the run resumes at one third with its batches, and with new noise."""
    n = run.mechanism.iterations
    batches = list(run.mechanism.batches(run.num_examples, seed=run.seed))
    for steps in (range(2 * n // 3), range(n // 3, n)):
        noise = list(run.mechanism.noise(run.dimension, np.float64))
        for step in steps:
            total = clip(run.examples(step, batches[step]).astype(np.float64), run.clip_norm).sum(axis=0)
            run.release(step, (total + run.clip_norm * noise[step]) / run.expected_batch)


def restarted_noise(run):
    """A run that resumes without repeating a step, but begins its noise anew."""
    n = run.mechanism.iterations
    first, again = (list(run.mechanism.noise(run.dimension, np.float64)) for _ in range(2))
    train(run, noise=[*first[: n // 2], *again[: n - n // 2]])


def one_noise_for_all_coordinates(run):
    train(run, noise=(np.full(run.dimension, row[0]) for row in run.mechanism.noise(1, np.float64)))


def fixed_seed(run):
    train(run, noise=run.mechanism.noise(run.dimension, np.float64, seed=0))


def fixed_batches(run):
    train(run, batches=run.mechanism.batches(run.num_examples, seed=0))


def shuffled_batches(run):
    """Batches of one size from a shuffled list of the examples, as usual in training without privacy."""
    n, generator = run.mechanism.iterations, np.random.default_rng(run.seed)
    size = round(run.expected_batch)
    shuffled = np.concatenate(
        [generator.permutation(run.num_examples) for _ in range(n * size // run.num_examples + 1)]
    )
    train(run, batches=[np.unique(shuffled[step * size : (step + 1) * size]) for step in range(n)])


FAULTS = {
    "noise 10 % too small": less_noise,
    "noise not correlated as C says": uncorrelated_noise,
    "noise of another strategy with as many bands": noise_of_another_strategy,
    "clip norm not applied": no_clipping,
    "clip norm doubled": clipping_by_coordinate,
    "separation off by one": separation_off_by_one,
    "Poisson batches under a b-min-sep certificate": poisson_batches,
    "cold start under a certificate of a warm one": cold_start,
    "divisor taken from the data": divisor_of_the_batch,
    "resumed run repeats batches with fresh noise": repeated_with_fresh_noise,
    "resumed run begins its noise anew": restarted_noise,
    "one noise for all coordinates": one_noise_for_all_coordinates,
    "the same noise in every run": fixed_seed,
    "the same batches in every run": fixed_batches,
    "shuffled batches of one size": shuffled_batches,
}
