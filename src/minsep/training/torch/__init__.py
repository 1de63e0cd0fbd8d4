"""Private training in PyTorch: any model without layers that mix examples, any `torch.optim` optimiser."""

from minsep.training.schedule import LinearDecay
from minsep.training.torch.scaling import ScaleThenPrivatize
from minsep.training.torch.training import PrivateTraining

__all__ = ["LinearDecay", "PrivateTraining", "ScaleThenPrivatize"]
