"""The adapters of frameworks, as the conformance test sees them: each trains the same linear model."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import jax.numpy as jnp
import numpy as np
import optax
import torch
from numpy.typing import NDArray
from torch import nn

from minsep.training import jax as in_jax
from minsep.training import torch as in_torch
from minsep.training.base import Training


@dataclass(frozen=True)
class Adapter:
    """One framework, with a linear model (weights, then a bias) under the squared error.

    - `name`: what checkpoints call the framework.
    - `training`: the class under test.
    - `arguments(features, optimizer)` returns the arguments before the mechanism, for a new model with `start` weights.
      The optimiser is "sgd" with learning rate 1, or "adam" with 0.1.
    - `array`: makes an array of NumPy one of the framework.
    - `parameters`: returns the parameters of a training as one flat vector in float64.
    - `names`: under which names of its identity a checkpoint refuses another "model" and another "optimizer".
    """

    name: str
    training: type[Training]
    arguments: Callable[[int, str], tuple[Any, ...]]
    array: Callable[[NDArray[Any]], Any]
    parameters: Callable[[Any], NDArray[np.float64]]
    names: dict[str, str]


def start(features):
    """Initial weights and bias."""
    return np.linspace(-0.5, 0.5, features, dtype=np.float32)[None], np.array([0.25], dtype=np.float32)


def _torch_arguments(features, optimizer):
    model = nn.Linear(features, 1)
    for parameter, value in zip(model.parameters(), start(features), strict=True):
        parameter.data = torch.from_numpy(value)
    make = {
        "sgd": lambda parameters: torch.optim.SGD(parameters, lr=1.0),
        "adam": lambda parameters: torch.optim.Adam(parameters, lr=0.1),
    }
    return model, nn.functional.mse_loss, make[optimizer](model.parameters())


def _squared_error(parameters, x, y):
    weights, bias = parameters
    return jnp.sum((weights @ x + bias - y) ** 2)


def _jax_arguments(features, optimizer):
    return start(features), _squared_error, {"sgd": optax.sgd(1.0), "adam": optax.adam(0.1)}[optimizer]


TORCH = Adapter(
    name="torch",
    training=in_torch.PrivateTraining,
    arguments=_torch_arguments,
    array=torch.from_numpy,
    parameters=lambda trainer: nn.utils.parameters_to_vector(trainer.model.parameters()).detach().double().numpy(),
    names={"model": "parameters", "optimizer": "optimizer"},
)

JAX = Adapter(
    name="jax",
    training=in_jax.PrivateTraining,
    arguments=_jax_arguments,
    array=np.asarray,
    parameters=lambda trainer: np.concatenate([np.ravel(leaf) for leaf in trainer.parameters]).astype(np.float64),
    names={"model": "leaves", "optimizer": "leaves"},
)

ADAPTERS = (TORCH, JAX)
