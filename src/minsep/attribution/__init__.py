"""Examples that belong to several users: the graph, contribution bounding, and b-min-sep sampling on it."""

from minsep.attribution.bounding import Bounded, bound_contributions, fixed_batches, neighbourhood_rule
from minsep.attribution.graph import AttributionGraph
from minsep.attribution.scheme import MultiAttributionMinSep, assumptions
from minsep.attribution.stream import AttributionBatchStream

__all__ = [
    "AttributionBatchStream",
    "AttributionGraph",
    "Bounded",
    "MultiAttributionMinSep",
    "assumptions",
    "bound_contributions",
    "fixed_batches",
    "neighbourhood_rule",
]
