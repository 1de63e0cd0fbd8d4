"""Names for the arrays that functions pass to each other."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
IntegerArray = NDArray[np.int64]
BooleanArray = NDArray[np.bool_]
Words = NDArray[np.uint64]
Rows = NDArray[np.floating[Any]]
"""Rows of single or double precision."""
