"""Examples that belong to several users: the graph, and bounds on how much a user contributes."""

from minsep.attribution.bounding import Bounded, bound_contributions, fixed_batches
from minsep.attribution.graph import AttributionGraph

__all__ = ["AttributionGraph", "Bounded", "bound_contributions", "fixed_batches"]
