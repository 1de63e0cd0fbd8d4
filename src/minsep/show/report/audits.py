"""The picture of an audit, by matplotlib."""

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from minsep.auditing import Audit
from minsep.auditing.bound import least_probability
from minsep.core.arrays import FloatArray
from minsep.core.budget import most_true_positives
from minsep.show import palette
from minsep.show.plots.pictures import STYLE, picture_bytes

_CONFIDENCE = 0.99


def audit_picture(audit: Audit, kind: str) -> bytes:
    """Return the picture of an audit: false against true positives, with both axes logarithmic."""
    # Beyond the simulated values there is nothing to compare the loop with.
    points = [point for point in audit.points if point.certified_true > 0 and point.certified_false > 0]
    false, true = np.array([[point.false, point.true] for point in points]).T
    certified_false, certified_true = np.array([[point.certified_false, point.certified_true] for point in points]).T
    with matplotlib.rc_context({**STYLE, "axes.grid.axis": "both"}):
        figure = Figure(figsize=(7.5, 5.6), layout="constrained")
        axes = figure.subplots()
        least = 0.5 / max(audit.absent, 1)
        rates = np.geomspace(least, 1.0, 400)
        axes.plot(
            rates,
            [most_true_positives(rate, audit.epsilon, audit.delta) for rate in rates],
            color=palette.ORANGE,
            linewidth=2,
            label=f"most that ({audit.epsilon:g}, {audit.delta:g})-DP allows",
        )
        axes.plot(
            np.maximum(certified_false, least),
            certified_true,
            color=palette.BLUE,
            linewidth=1.5,
            label="the certified mechanism, simulated",
        )
        low, high = _limits(true, audit.present, len(points))
        left, right = _limits(false, audit.absent, len(points))
        axes.fill(
            np.concatenate([np.maximum(right, least), np.maximum(left, least)[::-1]]),
            np.concatenate([low, high[::-1]]),
            color=palette.BAND,
            label=f"the loop, confidence band {_CONFIDENCE:.0%}",
        )
        axes.plot(
            np.maximum(false / max(audit.absent, 1), least),
            true / max(audit.present, 1),
            ".",
            color=palette.INK,
            markersize=4,
            label=f"the loop, {audit.trials:,} trials",
        )
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlim(least, 1.0)
        axes.set_ylim(max(float(certified_true.min()) / 3, least), 1.1)
        axes.set(
            title=f"Epsilon at delta {audit.delta:g}: at least {audit.lower_bound:.3g} (audit), at most "
            f"{audit.epsilon:g} (certificate){'' if audit.passed else ', ALARM'}",
            xlabel="false positives: canary absent",
            ylabel="true positives: canary present",
        )
        axes.legend(loc="lower right")
        return picture_bytes(figure, kind)


def _limits(counts: FloatArray, total: int, points: int) -> tuple[FloatArray, FloatArray]:
    """Return confidence limits of Clopper and Pearson that hold for all points and both axes together."""
    chance = (1 - _CONFIDENCE) / (4 * points)
    return least_probability(counts, total, chance), 1 - least_probability(total - counts, total, chance)
