"""Imported once, by the process that workers are forked from: what estimates need is loaded and compiled by then.

A plan of a few steps touches all of it: exact accounting, samples and tuning. Certificates are not part of it: a page
that has just been opened would wait for them.
"""

import minsep

minsep.plan(200, 20, 20, epsilon=4.0, delta=1e-2, max_bands=4, seed=0, estimate=True, compute=minsep.Compute(workers=1))
