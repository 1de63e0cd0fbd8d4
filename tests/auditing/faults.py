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


def clipping_twice_as_large(run):
    train(run, clipped=lambda gradients, clip_norm: clip(gradients, 2 * clip_norm))


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


def _norms(gradients):
    return np.linalg.norm(gradients, axis=1, keepdims=True)


def _scaled(gradients, sizes, clip_norm):
    """Gradients scaled down so that their sizes, by whatever measure, are at most the clip norm."""
    return gradients / np.maximum(sizes / clip_norm, 1.0)


def clip_values(gradients, clip_norm):
    return np.clip(gradients, -clip_norm, clip_norm)


def clip_by_largest_entry(gradients, clip_norm):
    return _scaled(gradients, np.abs(gradients).max(axis=1, keepdims=True, initial=0), clip_norm)


def clip_by_mean_square(gradients, clip_norm):
    """By the root of the mean square of the entries that are not 0."""
    entries = np.maximum((gradients != 0).sum(axis=1, keepdims=True), 1)
    return _scaled(gradients, _norms(gradients) / entries**0.5, clip_norm)


def clip_by_mean_size(gradients, clip_norm):
    """By the norm that a gradient would have if all of its entries were of their mean size: right if they are."""
    return _scaled(gradients, np.abs(gradients).mean(axis=1, keepdims=True) * gradients.shape[1] ** 0.5, clip_norm)


def clip_layers(gradients, clip_norm, layers=4):
    return np.concatenate([clip(part, clip_norm) for part in np.array_split(gradients, layers, axis=1)], axis=1)


def clip_small_layers(gradients, clip_norm):
    """Each group of four weights to the clip norm, such as the bias of each small layer."""
    return clip_layers(gradients, clip_norm, layers=max(gradients.shape[1] // 4, 1))


def clip_the_first_layers(gradients, clip_norm):
    """The norm of three of four layers, as if the last were frozen, scales all of them."""
    return _scaled(gradients, _norms(gradients[:, : 3 * gradients.shape[1] // 4]), clip_norm)


def clip_from_above(gradients, clip_norm):
    return np.minimum(gradients, clip_norm)


def clip_above(threshold):
    def clipped(gradients, clip_norm):
        return np.where(_norms(gradients) > threshold * clip_norm, clip(gradients, clip_norm), gradients)

    return clipped


def clip_in_half_precision(gradients, clip_norm):
    """The sum of squares overflows, and a factor that is not above 0 is taken for none."""
    with np.errstate(over="ignore"):
        squares = (gradients.astype(np.float16) ** 2).sum(axis=1, keepdims=True, dtype=np.float16).astype(np.float64)
    norms = np.maximum(squares**0.5 / clip_norm, 1.0)
    return gradients / np.where(np.isfinite(norms), norms, 1.0)


def clip_groups(size):
    """Sums of so many gradients at once, to the norm that clipped orthogonal gradients would have."""

    def clipped(gradients, clip_norm):
        moving = gradients[np.any(gradients != 0, axis=1)]
        whole = len(moving) // size * size
        sums = moving[:whole].reshape(-1, size, gradients.shape[1]).sum(axis=1)
        return np.concatenate([clip(sums, clip_norm * size**0.5), clip(moving[whole:], clip_norm)])

    return clipped


def clip_to_a_quantile(gradients, clip_norm):
    """To the median norm of the batch, where that is more."""
    norms = _norms(gradients)
    return clip(gradients, max(clip_norm, np.median(norms))) if norms.size else gradients


def normalise(gradients, clip_norm):
    """Every gradient to the clip norm, also a smaller one."""
    return gradients * clip_norm / np.maximum(_norms(gradients), 1e-12)


def no_noise_on_empty_batches(run):
    batches = list(run.mechanism.batches(run.num_examples, seed=run.seed))
    noise = run.mechanism.noise(run.dimension, np.float64, seed=run.seed)
    train(run, batches=batches, noise=(row * bool(len(batch)) for row, batch in zip(noise, batches, strict=True)))


def no_clipping_of_single_examples(run):
    """A batch of one example loses its first axis, and the norm is that of each entry."""
    train(run, clipped=lambda gradients, clip_norm: (clip if len(gradients) > 1 else clip_values)(gradients, clip_norm))


def no_noise_in_one_coordinate(run):
    def without_last(row):
        return np.append(row[:-1], 0.0)

    train(run, noise=map(without_last, run.mechanism.noise(run.dimension, np.float64, seed=run.seed)))


def layers_that_share_noise(run):
    """Two layers of one shape, each of which begins its noise with the same seed."""
    half = run.dimension // 2
    noise = run.mechanism.noise(half, np.float64, seed=run.seed)
    train(run, noise=(np.append(np.tile(row, 2), np.zeros(run.dimension - 2 * half)) for row in noise))


def noise_that_repeats(run, after=16):
    """A generator with so short a period: the difference of two steps has no noise."""
    rows = run.mechanism.iterations, run.dimension
    standard = np.random.default_rng(run.seed).standard_normal(rows)[np.arange(rows[0]) % after]
    train(run, noise=run.mechanism.noise_multiplier * np.linalg.solve(run.mechanism.strategy.dense(), standard))


def two_coordinates_with_the_same_noise(run):
    def shared(row):
        return np.append(row[:1], row[np.r_[0, 2 : row.size]])

    train(run, noise=map(shared, run.mechanism.noise(run.dimension, np.float64, seed=run.seed)))


def noise_from_the_number_of_the_run(run):
    train(run, noise=run.mechanism.noise(run.dimension, np.float64, seed=run.number))


def one_step_without_noise_in_a_thousand_runs(run):
    unlucky = np.random.default_rng(run.seed).random() < 1e-3
    noise = run.mechanism.noise(run.dimension, np.float64, seed=run.seed)
    train(run, noise=(0 * row if unlucky and step == 0 else row for step, row in enumerate(noise)))


def clip_up_to(most):
    """Larger gradients are left as they are."""

    def clipped(gradients, clip_norm):
        return np.where(_norms(gradients) < most * clip_norm, clip(gradients, clip_norm), gradients)

    return clipped


def with_clipping(clipped):
    return lambda run: train(run, clipped=clipped)


CLIPPING = {
    "clip norm not applied": no_clipping,
    "clip norm doubled": clipping_twice_as_large,
    "entries clipped by value": with_clipping(clip_values),
    "clipping by the largest entry": with_clipping(clip_by_largest_entry),
    "clipping by the mean square of non-zero entries": with_clipping(clip_by_mean_square),
    "clipping by the mean size of entries": with_clipping(clip_by_mean_size),
    "each of four layers clipped to c": with_clipping(clip_layers),
    "each group of four weights clipped to c": with_clipping(clip_small_layers),
    "last layer left out of the norm": with_clipping(clip_the_first_layers),
    "`minimum(g, c)`": with_clipping(clip_from_above),
    "clipping only above 5 c": with_clipping(clip_above(5.0)),
    "clipping only above 1.5 c": with_clipping(clip_above(1.5)),
    "norms in float16": with_clipping(clip_in_half_precision),
    "pairs clipped to c √2": with_clipping(clip_groups(2)),
    "micro-batches of eight clipped to c √8": with_clipping(clip_groups(8)),
    "clipping to the median norm of the batch": with_clipping(clip_to_a_quantile),
    "small gradients scaled up to c": with_clipping(normalise),
    "batches of one example clipped by value": no_clipping_of_single_examples,
}

FAULTS = {
    "noise 10 % too small": less_noise,
    "noise not correlated as C says": uncorrelated_noise,
    "noise of another strategy with as many bands": noise_of_another_strategy,
    **CLIPPING,
    "no noise on empty batches": no_noise_on_empty_batches,
    "no noise in one of all coordinates": no_noise_in_one_coordinate,
    "two layers with the same noise": layers_that_share_noise,
    "noise that repeats after 16 steps": noise_that_repeats,
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


MISSED = {
    "noise 0.3 % too small": lambda run: less_noise(run, 0.997),
    "clip norm 1 % too large": with_clipping(lambda gradients, clip_norm: clip(gradients, 1.01 * clip_norm)),
    "clipping only above 1.15 c": with_clipping(clip_above(1.15)),
    "gradients above 1e5 c not clipped": with_clipping(clip_up_to(1e5)),
    "two of all coordinates with the same noise": two_coordinates_with_the_same_noise,
    "noise from the number of the run": noise_from_the_number_of_the_run,
    "one step without noise in a thousand runs": one_step_without_noise_in_a_thousand_runs,
}
"""Faults that an audit of the usual size does not find."""
