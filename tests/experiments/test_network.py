import numpy as np
import pytest
import torch

import minsep
from experiments import scattering_network as network
from experiments.scattering import Features


@pytest.fixture(scope="module")
def features():
    generator = np.random.default_rng(0)
    targets = generator.integers(0, 10, 150)
    rows = generator.standard_normal((150, network.CHANNELS * network.SIDE**2)) * 0.5
    rows[np.arange(150), targets] += 50
    return Features("generated", rows.astype(np.float16), targets, 50)


def test_a_certified_run_of_the_network_is_a_function_of_its_seed(features, tmp_path):
    design = network.Choice("dp-sgd", 2, 1).design(2)
    path = tmp_path / "certificate.json"
    minsep.calibrate(design, epsilon=8.0, delta=1e-3, seed=0).certificate.save(path)
    setting = {"epochs": 2, "epoch": 2, "learning_rate": 2.0, "decay": True, "seed": 1}
    first, again = (network.train(features, setting, path, 100, (100, 150)) for _ in range(2))
    assert first["accuracy"] == again["accuracy"]


def test_the_network_has_the_size_that_is_published():
    assert sum(parameter.numel() for parameter in network.network().parameters()) == 62_794
    assert network.network()(torch.zeros(2, network.CHANNELS, network.SIDE, network.SIDE)).shape == (2, 10)


def test_the_best_on_images_kept_aside_is_chosen():
    tuned = [
        {"setting": {"learning_rate": rate, "decay": True, "seed": 0}, "result": {"accuracy": accuracy}}
        for rate, accuracy in ((1.0, 0.2), (2.0, 0.6), (4.0, 0.5))
    ]
    assert network.chosen(tuned) == {"learning_rate": 2.0, "decay": True}
