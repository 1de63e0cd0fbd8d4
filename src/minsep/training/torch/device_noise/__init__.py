"""Noise that is made where the gradients are, by integer operations and matrix products on tensors."""

from minsep.training.torch.device_noise.stream import DeviceNoiseStream

__all__ = ["DeviceNoiseStream"]
