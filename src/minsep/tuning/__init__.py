"""The best of a secret, random number of private runs, and what it costs."""

from minsep.tuning.procedure import Configuration, Tuning, tune

__all__ = ["Configuration", "Tuning", "tune"]
