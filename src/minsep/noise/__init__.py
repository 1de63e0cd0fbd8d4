"""Correlated noise: streams of the rows of C^-1 Z, and the one way to release them."""

from minsep.noise.releases import NoiseRow, release
from minsep.noise.stream import NoiseStream

__all__ = ["NoiseRow", "NoiseStream", "release"]
