"""From the numbers of a task to the best mechanism."""

from minsep.planning.by_epsilon import at_epsilons
from minsep.planning.by_workload import Ranking, rankings
from minsep.planning.candidates import Candidate
from minsep.planning.families import BASELINES, FAMILIES, PROPOSED
from minsep.planning.planner import SCHEMES, Plan, plan
from minsep.planning.task import Task
from minsep.planning.users import UserPlan, UserPlans, plan_users

__all__ = [
    "BASELINES",
    "FAMILIES",
    "PROPOSED",
    "SCHEMES",
    "Candidate",
    "Plan",
    "Ranking",
    "Task",
    "UserPlan",
    "UserPlans",
    "at_epsilons",
    "plan",
    "plan_users",
    "rankings",
]
