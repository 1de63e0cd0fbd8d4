"""The strategy matrix C: what it costs in privacy, what it gains in error, how to apply its inverse."""

from minsep.strategy.banded_inverse import BandedInverseToeplitz
from minsep.strategy.banded_toeplitz import BandedToeplitz
from minsep.strategy.base import Strategy
from minsep.strategy.dense import Dense

__all__ = ["BandedInverseToeplitz", "BandedToeplitz", "Dense", "Strategy"]
