"""Train with differential privacy: correlated noise, b-min-sep batches, and a certificate for both.

Names are loaded when first used, so that `import minsep` is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from minsep.core.cache import find_cache
from minsep.core.provided import provide

if TYPE_CHECKING:
    __version__: str
    from minsep.accounting import Calibration as Calibration
    from minsep.accounting import Certificate as Certificate
    from minsep.accounting import Composition as Composition
    from minsep.accounting import Curve as Curve
    from minsep.accounting import Estimate as Estimate
    from minsep.accounting import PrivacyCurve as PrivacyCurve
    from minsep.accounting import TuningCertificate as TuningCertificate
    from minsep.accounting import Verification as Verification
    from minsep.accounting import calibrate as calibrate
    from minsep.accounting import certify as certify
    from minsep.accounting import certify_checkpoints as certify_checkpoints
    from minsep.accounting import compose as compose
    from minsep.accounting import estimate_delta as estimate_delta
    from minsep.accounting import estimate_epsilon as estimate_epsilon
    from minsep.accounting import privacy_curve as privacy_curve
    from minsep.accounting import verify as verify
    from minsep.attribution import AttributionGraph as AttributionGraph
    from minsep.attribution import Bounded as Bounded
    from minsep.attribution import bound_contributions as bound_contributions
    from minsep.attribution import fixed_batches as fixed_batches
    from minsep.auditing import Audit as Audit
    from minsep.auditing import audit as audit
    from minsep.core.budget import Budget as Budget
    from minsep.core.state import load_state as load_state
    from minsep.core.state import save_state as save_state
    from minsep.engine import Compute as Compute
    from minsep.ledger import Ledger as Ledger
    from minsep.mechanism import Design as Design
    from minsep.mechanism import Mechanism as Mechanism
    from minsep.noise import release as release
    from minsep.participation import BallsInBins as BallsInBins
    from minsep.participation import CyclicPoisson as CyclicPoisson
    from minsep.participation import MinSep as MinSep
    from minsep.participation import MultiAttributionMinSep as MultiAttributionMinSep
    from minsep.participation import Poisson as Poisson
    from minsep.participation import RandomAllocation as RandomAllocation
    from minsep.participation import Truncation as Truncation
    from minsep.participation import Unamplified as Unamplified
    from minsep.participation import UserMinSep as UserMinSep
    from minsep.planning import Frontier as Frontier
    from minsep.planning import Plan as Plan
    from minsep.planning import UserPlans as UserPlans
    from minsep.planning import plan as plan
    from minsep.planning import plan_epochs as plan_epochs
    from minsep.planning import plan_users as plan_users
    from minsep.planning import rankings as rankings
    from minsep.show.statements import LedgerStatement as LedgerStatement
    from minsep.show.statements import Statement as Statement
    from minsep.show.statements import ledger_statement as ledger_statement
    from minsep.show.statements import statement as statement
    from minsep.strategy import BandedInverseToeplitz as BandedInverseToeplitz
    from minsep.strategy import BandedToeplitz as BandedToeplitz
    from minsep.strategy import BufferedToeplitz as BufferedToeplitz
    from minsep.strategy import Dense as Dense
    from minsep.strategy import GammaBIFR as GammaBIFR
    from minsep.strategy import LambdaCGD as LambdaCGD
    from minsep.strategy import Workload as Workload
    from minsep.tuning import Tuning as Tuning
    from minsep.tuning import tune as tune

_PACKAGE_OF = {
    "Audit": "auditing",
    "AttributionGraph": "attribution",
    "BallsInBins": "participation",
    "BandedInverseToeplitz": "strategy",
    "BandedToeplitz": "strategy",
    "Bounded": "attribution",
    "Budget": "core.budget",
    "BufferedToeplitz": "strategy",
    "Calibration": "accounting",
    "Certificate": "accounting",
    "Composition": "accounting",
    "Compute": "engine",
    "Curve": "accounting",
    "CyclicPoisson": "participation",
    "Dense": "strategy",
    "Design": "mechanism",
    "Estimate": "accounting",
    "Frontier": "planning",
    "GammaBIFR": "strategy",
    "LambdaCGD": "strategy",
    "Ledger": "ledger",
    "LedgerStatement": "show.statements",
    "Mechanism": "mechanism",
    "MinSep": "participation",
    "MultiAttributionMinSep": "participation",
    "Plan": "planning",
    "Poisson": "participation",
    "PrivacyCurve": "accounting",
    "RandomAllocation": "participation",
    "Statement": "show.statements",
    "Truncation": "participation",
    "Tuning": "tuning",
    "TuningCertificate": "accounting",
    "Unamplified": "participation",
    "UserMinSep": "participation",
    "UserPlans": "planning",
    "Verification": "accounting",
    "Workload": "strategy",
    "audit": "auditing",
    "bound_contributions": "attribution",
    "calibrate": "accounting",
    "certify": "accounting",
    "certify_checkpoints": "accounting",
    "compose": "accounting",
    "estimate_delta": "accounting",
    "estimate_epsilon": "accounting",
    "fixed_batches": "attribution",
    "ledger_statement": "show.statements",
    "load_state": "core.state",
    "plan": "planning",
    "plan_epochs": "planning",
    "plan_users": "planning",
    "privacy_curve": "accounting",
    "rankings": "planning",
    "release": "noise",
    "save_state": "core.state",
    "statement": "show.statements",
    "tune": "tuning",
    "verify": "accounting",
}

__all__ = [*sorted(_PACKAGE_OF), "__version__"]

find_cache()
provide("accept_certificate", lambda: import_module("minsep.accounting").accept_certificate)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("minsep")
    if name not in _PACKAGE_OF:
        raise AttributeError(f"module 'minsep' has no attribute {name!r}")
    return getattr(import_module(f"minsep.{_PACKAGE_OF[name]}"), name)


def __dir__() -> list[str]:
    return __all__
