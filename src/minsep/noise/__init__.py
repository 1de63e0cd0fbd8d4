"""Correlated noise: streams of the rows of C^-1 Z."""

from minsep.noise.stream import NoiseStream

__all__ = ["NoiseStream"]
