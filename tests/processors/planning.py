"""A plan with a journal, as a program: `python -m tests.processors.planning JOURNAL` prints its mechanism."""

import sys

import minsep

if __name__ == "__main__":
    plan = minsep.plan(2000, 40, 60, epsilon=2.0, delta=1e-3, max_bands=4, seed=7, journal=sys.argv[1])
    print(plan.mechanism.fingerprint, plan.mechanism.noise_multiplier, plan.certificate.samples)
