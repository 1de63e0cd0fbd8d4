"""The strategy matrix C: its sensitivity, its error, and how to apply its inverse."""

from minsep.core.registry import load_variants
from minsep.strategy.banded_inverse import BandedInverseToeplitz
from minsep.strategy.banded_toeplitz import BandedToeplitz
from minsep.strategy.base import Strategy, strategy_from
from minsep.strategy.buffered_toeplitz import BufferedToeplitz
from minsep.strategy.dense import Dense
from minsep.strategy.gamma_bifr import GammaBIFR
from minsep.strategy.lambda_cgd import LambdaCGD
from minsep.strategy.recipe import Recipe, Setting, recipes
from minsep.strategy.workload import SCHEDULES, Workload

__all__ = [
    "SCHEDULES",
    "BandedInverseToeplitz",
    "BandedToeplitz",
    "BufferedToeplitz",
    "Dense",
    "GammaBIFR",
    "LambdaCGD",
    "Recipe",
    "Setting",
    "Strategy",
    "Workload",
    "recipes",
    "strategy_from",
]

load_variants(__name__)
