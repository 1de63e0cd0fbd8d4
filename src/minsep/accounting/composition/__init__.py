"""The privacy of several runs, and of whatever else was released about the same data."""

from minsep.accounting.composition.compose import Composition, Part, compose
from minsep.accounting.composition.events import CurveAccountant, CurveDpEvent
from minsep.accounting.composition.tuning_certificate import TuningCertificate, read_certificate

__all__ = [
    "Composition",
    "CurveAccountant",
    "CurveDpEvent",
    "Part",
    "TuningCertificate",
    "compose",
    "read_certificate",
]
