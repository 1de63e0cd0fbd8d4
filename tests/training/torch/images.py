"""A small convolutional model, images for it, and clipped gradients by a loop over examples."""

import torch
from torch import nn

import minsep

EXAMPLES = 60
CLIP = 0.7
KEPT = 1 - 2**-14  # of the clip norm
cross_entropy = nn.functional.cross_entropy


def mechanism_of(iterations=12, bands=3, rate=0.1, noise_multiplier=0.9, **options):
    strategy = minsep.BandedToeplitz.optimal(iterations=iterations, bands=bands)
    return minsep.Mechanism(strategy, minsep.MinSep(rate=rate, min_sep=bands), noise_multiplier, **options)


def data(seed=0):
    generator = torch.Generator().manual_seed(seed)
    inputs = 3 * torch.randn(EXAMPLES, 1, 6, 6, generator=generator)
    return inputs, torch.randint(0, 3, (EXAMPLES,), generator=generator)


def small_model(seed=0):
    torch.manual_seed(seed)
    return nn.Sequential(nn.Conv2d(1, 2, 3), nn.GroupNorm(1, 2), nn.ReLU(), nn.Flatten(), nn.Linear(32, 3))


def gradient_of_one(model, inputs, targets):
    model.zero_grad()
    cross_entropy(model(inputs[None]), targets[None]).backward()
    return [parameter.grad.clone() for parameter in model.parameters()]


def clipped_by_loop(model, inputs, targets, clip_norm, layers):
    """The sum of clipped gradients, one backward pass an example; `layers` are groups of parameters' positions."""
    total = [torch.zeros_like(parameter) for parameter in model.parameters()]
    for x, y in zip(inputs, targets, strict=True):
        gradient = gradient_of_one(model, x, y)
        for layer in layers:
            norm = torch.cat([gradient[i].flatten() for i in layer]).norm()
            factor = min(1.0, KEPT * clip_norm / len(layers) ** 0.5 / float(norm))
            for i in layer:
                total[i] += factor * gradient[i]
    return torch.cat([part.flatten() for part in total])
