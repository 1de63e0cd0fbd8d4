"""Audits of training loops: a lower bound on epsilon, and whether a loop is the mechanism of its certificate.

`minsep.auditing.torch.TorchLoop` and `minsep.auditing.jax.JaxLoop` are the adapters of minsep with options.
"""

from minsep.auditing.auditor import audit
from minsep.auditing.canaries import Canaries, CanaryRun, Loop, plain_loop
from minsep.auditing.checks import Check
from minsep.auditing.outcome import Audit, Point

__all__ = ["Audit", "Canaries", "CanaryRun", "Check", "Loop", "Point", "audit", "plain_loop"]
