"""Private training in PyTorch: any model without layers that mix examples, any `torch.optim` optimiser."""

try:
    import torch  # noqa: F401
except ModuleNotFoundError as error:
    from minsep.core.install import install_command

    raise ImportError(f"minsep.training.torch needs PyTorch: {install_command('torch')}") from error

from minsep.training.torch.scaling import ScaleThenPrivatize
from minsep.training.torch.training import PrivateTraining

__all__ = ["PrivateTraining", "ScaleThenPrivatize"]
