"""From the numbers of a task to the best mechanism."""

from minsep.planning.candidates import Candidate
from minsep.planning.comparison import Comparison, compare
from minsep.planning.planner import Plan, plan
from minsep.planning.search import PlanProgress
from minsep.planning.task import Task

__all__ = ["Candidate", "Comparison", "Plan", "PlanProgress", "Task", "compare", "plan"]
