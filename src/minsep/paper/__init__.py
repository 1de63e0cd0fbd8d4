"""What the b-min-sep paper did, for those who repeat its figures and numbers.

Do not start new work from it: the functions of `minsep` with the same names certify with less noise and fewer samples.
"""

from minsep.paper.comparison import Comparison, compare
from minsep.paper.neighbourhoods import neighbourhood_rule
from minsep.paper.verifier import calibrate, certify

__all__ = ["Comparison", "calibrate", "certify", "compare", "neighbourhood_rule"]
