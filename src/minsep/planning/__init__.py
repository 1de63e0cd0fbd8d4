"""From the numbers of a task to the best mechanism.

Names are loaded when first used, so that the command line can read what a request asks without computing anything.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from minsep.planning.by_epsilon import at_epsilons as at_epsilons
    from minsep.planning.by_workload import Ranking as Ranking
    from minsep.planning.by_workload import rankings as rankings
    from minsep.planning.candidates import Candidate as Candidate
    from minsep.planning.frontier import BatchSizePoint as BatchSizePoint
    from minsep.planning.frontier import Frontier as Frontier
    from minsep.planning.frontier import plan_epochs as plan_epochs
    from minsep.planning.margin import Margin as Margin
    from minsep.planning.memory import MemoryPoint as MemoryPoint
    from minsep.planning.memory import memory_frontier as memory_frontier
    from minsep.planning.planner import Plan as Plan
    from minsep.planning.planner import make_plan as make_plan
    from minsep.planning.planner import plan as plan
    from minsep.planning.presets import PRESETS as PRESETS
    from minsep.planning.presets import Preset as Preset
    from minsep.planning.presets import preset_of as preset_of
    from minsep.planning.request import Request as Request
    from minsep.planning.users import UserPlan as UserPlan
    from minsep.planning.users import UserPlans as UserPlans
    from minsep.planning.users import plan_users as plan_users

_MODULE_OF = {
    "BatchSizePoint": "frontier",
    "Candidate": "candidates",
    "Frontier": "frontier",
    "Margin": "margin",
    "MemoryPoint": "memory",
    "PRESETS": "presets",
    "Plan": "planner",
    "Preset": "presets",
    "Ranking": "by_workload",
    "Request": "request",
    "UserPlan": "users",
    "UserPlans": "users",
    "at_epsilons": "by_epsilon",
    "make_plan": "planner",
    "memory_frontier": "memory",
    "plan": "planner",
    "plan_epochs": "frontier",
    "plan_users": "users",
    "preset_of": "presets",
    "rankings": "by_workload",
}

__all__ = sorted(_MODULE_OF)


def __getattr__(name: str) -> Any:
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'minsep.planning' has no attribute {name!r}")
    return getattr(import_module(f"minsep.planning.{_MODULE_OF[name]}"), name)
