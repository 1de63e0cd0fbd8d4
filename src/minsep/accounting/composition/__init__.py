"""The privacy of several runs, and of whatever else was released about the same data."""

from minsep.accounting.composition.compose import Composition, Part, check_runs, compose
from minsep.accounting.composition.events import CurveAccountant, CurveDpEvent

__all__ = ["Composition", "CurveAccountant", "CurveDpEvent", "Part", "check_runs", "compose"]
