"""Reports and pictures of plans, comparisons and audits. They need the extra `report`."""

import os
from typing import TYPE_CHECKING

from minsep.core.files import check_folder, write_whole
from minsep.paper import Comparison
from minsep.planning import Plan
from minsep.show.report.files import needing, picture_format

if TYPE_CHECKING:
    from minsep.auditing import Audit

__all__ = ["plot", "plot_audit", "plot_comparison", "write_comparison", "write_report"]


def write_report(plan: Plan, path: str | os.PathLike[str], command: str = "minsep plan ...") -> None:
    """Write a self-contained HTML page about a plan, which opens without a network.

    - It has the answer, the certificate, the privacy curve (an estimate), all candidates that were tried, simulated
      batch sizes and the strategy.
    - The file is written whole or not at all.

    Args:
        plan: What `minsep.plan` returned.
        path: Where the page is written.
        command: The command that reproduces the plan, which the page shows.

    Examples:
        >>> import minsep, tempfile, pathlib
        >>> from minsep.planning import Candidate, Plan, Request
        >>> request = Request(num_examples=2000, batch_size=20, iterations=60, epsilon=2.0, delta=1e-3)
        >>> chosen = Candidate("min-sep", bands=2, min_sep=8, noise_multiplier=1.0, error=4.1)
        >>> mechanism = chosen.design(request).with_noise(1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-3)
        >>> best = Plan(request, chosen, mechanism, certificate, (chosen,), seed=0)  # minsep.plan finds a better one
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "plan.html"
        ...     write_report(best, path)
        ...     print(path.read_text()[:15])
        <!doctype html>
    """
    check_folder(path=path)
    with needing("plotly"):
        from minsep.show.report.page import plan_page
    write_whole(path, plan_page(plan, command).encode())


def plot(plan: Plan, path: str | os.PathLike[str]) -> None:
    """Write a picture of a plan: privacy, errors, batch sizes and strategy.

    Args:
        plan: What `minsep.plan` returned.
        path: Where the picture is written. Its suffix is .png or .svg.

    Examples:
        >>> import minsep, tempfile, pathlib
        >>> from minsep.planning import Candidate, Plan, Request
        >>> request = Request(num_examples=2000, batch_size=20, iterations=60, epsilon=2.0, delta=1e-3)
        >>> chosen = Candidate("min-sep", bands=2, min_sep=8, noise_multiplier=1.0, error=4.1)
        >>> mechanism = chosen.design(request).with_noise(1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-3)
        >>> best = Plan(request, chosen, mechanism, certificate, (chosen,), seed=0)  # minsep.plan finds a better one
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "plan.png"
        ...     plot(best, path)
        ...     print(path.read_bytes()[1:4])
        b'PNG'
    """
    kind = picture_format(path)
    check_folder(path=path)
    with needing("matplotlib"):
        from minsep.show.report.pictures import plan_picture
    write_whole(path, plan_picture(plan, kind))


def write_comparison(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write a self-contained HTML page with the heat maps of a comparison, which opens without a network.

    Args:
        comparison: What `minsep.paper.compare` returned.
        path: Where the page is written.

    Examples:
        >>> import minsep.paper, tempfile, pathlib
        >>> from minsep.paper.comparison import Cell
        >>> from minsep.planning import Candidate
        >>> errors = {"cyclic-poisson": 2.0, "balls-in-bins": 1.6, "min-sep": 1.5}
        >>> best = {name: Candidate(name, 4, 8, noise_multiplier=1.0, error=error) for name, error in errors.items()}
        >>> cell = Cell(epsilon=2.0, epoch=32, best=best)  # minsep.paper.compare(...) measures many
        >>> comparison = minsep.paper.Comparison(64, 1e-3, 4, epsilons=(2.0,), epochs=(32,), cells=(cell,))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "comparison.html"
        ...     write_comparison(comparison, path)
        ...     print("Against cyclic Poisson" in path.read_text())
        True
    """
    check_folder(path=path)
    with needing("plotly"):
        from minsep.show.report.page import comparison_page
    write_whole(path, comparison_page(comparison).encode())


def plot_comparison(comparison: Comparison, path: str | os.PathLike[str]) -> None:
    """Write the two heat maps of a comparison as a picture.

    Args:
        comparison: What `minsep.paper.compare` returned.
        path: Where the picture is written. Its suffix is .png or .svg.

    Examples:
        >>> import minsep.paper, tempfile, pathlib
        >>> from minsep.paper.comparison import Cell
        >>> from minsep.planning import Candidate
        >>> errors = {"cyclic-poisson": 2.0, "balls-in-bins": 1.6, "min-sep": 1.5}
        >>> best = {name: Candidate(name, 4, 8, noise_multiplier=1.0, error=error) for name, error in errors.items()}
        >>> cell = Cell(epsilon=2.0, epoch=32, best=best)  # minsep.paper.compare(...) measures many
        >>> comparison = minsep.paper.Comparison(64, 1e-3, 4, epsilons=(2.0,), epochs=(32,), cells=(cell,))
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "ratios.png"
        ...     plot_comparison(comparison, path)
        ...     print(path.read_bytes()[1:4])
        b'PNG'
    """
    kind = picture_format(path)
    check_folder(path=path)
    with needing("matplotlib"):
        from minsep.show.report.pictures import comparison_picture
    write_whole(path, comparison_picture(comparison, kind))


def plot_audit(audit: "Audit", path: str | os.PathLike[str]) -> None:
    """Write a picture of an audit: false against true positives, under what its certificate allows.

    Args:
        audit: What `minsep.audit` returned.
        path: Where the picture is written. Its suffix is .png or .svg.

    Examples:
        >>> import minsep, tempfile, pathlib
        >>> from minsep.auditing import plain_loop
        >>> identity = minsep.BandedToeplitz.identity(iterations=8)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.2), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=4.0, delta=1e-2)
        >>> result = minsep.audit(certificate, plain_loop, runs=2, canaries=200, seed=0)
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     path = pathlib.Path(folder) / "audit.png"
        ...     plot_audit(result, path)
        ...     print(path.read_bytes()[1:4])
        b'PNG'
    """
    kind = picture_format(path)
    check_folder(path=path)
    with needing("matplotlib"):
        from minsep.show.report.audits import audit_picture
    write_whole(path, audit_picture(audit, kind))
