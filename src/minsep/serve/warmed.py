"""Imported once, by the process that workers are forked from: what a plan needs is loaded and compiled by then.

A plan of a few steps touches every part of a plan: exact accounting, samples, tuning and the test of a certificate.
"""

import minsep

minsep.plan(200, 20, 20, epsilon=4.0, delta=1e-2, max_bands=4, seed=0, compute=minsep.Compute(workers=1))
