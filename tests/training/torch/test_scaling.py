import pytest
import torch
from numpy.testing import assert_allclose
from torch import nn

import minsep
from minsep.training.torch import PrivateTraining, ScaleThenPrivatize
from tests.training.torch.images import (
    CLIP,
    EXAMPLES,
    KEPT,
    cross_entropy,
    data,
    gradient_of_one,
    mechanism_of,
    small_model,
)


def test_scale_then_privatize_equals_its_algorithm():
    mechanism, stability, rate, betas, epsilon = mechanism_of(iterations=6), 0.05, 0.03, (0.9, 0.99), 1e-6
    model, (inputs, targets) = small_model(), data()
    reference = small_model()
    optimizer = torch.optim.Adam(model.parameters(), lr=rate, betas=betas, eps=epsilon)
    trainer = PrivateTraining(
        model, cross_entropy, optimizer, mechanism,
        num_examples=EXAMPLES, clip_norm=CLIP, scaling=ScaleThenPrivatize(stability), seed=3,
    )  # fmt: skip
    size = sum(parameter.numel() for parameter in model.parameters())
    first, second = torch.zeros(size), torch.zeros(size)
    for step, (indices, row) in enumerate(zip(trainer.batches(), mechanism.noise(size, seed=3), strict=True), 1):
        scales = 1 / (second.sqrt() + stability)
        total = torch.zeros(size, dtype=torch.float64)
        for i in indices:
            gradient = torch.cat([part.flatten() for part in gradient_of_one(reference, inputs[i], targets[i])])
            scaled = scales * gradient
            total = total + scaled * min(1.0, KEPT * CLIP / float(scaled.norm()))
        noisy = torch.from_numpy(minsep.release(total.numpy(), row, CLIP)).float()
        gradient = noisy / (0.1 * EXAMPLES) / scales
        first = betas[0] * first + (1 - betas[0]) * gradient
        second = betas[1] * second + (1 - betas[1]) * gradient**2
        update = first / (1 - betas[0] ** step) / ((second / (1 - betas[1] ** step)).sqrt() + epsilon)
        with torch.no_grad():
            weights = nn.utils.parameters_to_vector(reference.parameters()) - rate * update
            nn.utils.vector_to_parameters(weights, reference.parameters())
        trainer.step(inputs[indices], targets[indices])
        found = nn.utils.parameters_to_vector(model.parameters()).detach()
        assert_allclose(found, weights, atol=5e-5)
    with pytest.raises(ValueError, match="needs Adam"):
        PrivateTraining(
            model, cross_entropy, torch.optim.SGD(model.parameters(), lr=1.0), mechanism,
            num_examples=EXAMPLES, clip_norm=CLIP, scaling=ScaleThenPrivatize(),
        )  # fmt: skip
