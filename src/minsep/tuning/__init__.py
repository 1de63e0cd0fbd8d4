"""The best of a secret, random number of private runs, and what it costs."""

from minsep.tuning.objective import SecretTrial, tune_objective
from minsep.tuning.procedure import Configuration, Tuning, tune

__all__ = ["Configuration", "SecretTrial", "Tuning", "tune", "tune_objective"]
