"""What a guarantee for zero-out means if other datasets are neighbours."""

import math

from minsep.accounting import Curve
from minsep.show.statements.content import Section, attackers, rounded_up

ADJACENCIES = ("zero-out", "replace-one", "add-or-remove")
"""The definitions of neighbouring datasets that a statement can be about."""

Guarantee = tuple[float, float]
"""Epsilon and delta."""


def guarantee(adjacency: str, curve: Curve, epsilon: float, delta: float) -> Guarantee | None:
    """Return what a guarantee for zero-out is worth for neighbours of a kind; None if nothing is proven.

    If one unit replaces another, that is the least epsilon at the same delta that the curve proves. Where the curve
    carries no delta so small, epsilon doubles and delta becomes (1 + e^epsilon) delta.
    """
    if adjacency != "replace-one":
        return epsilon, delta
    try:
        return curve.replacing().epsilon(delta), delta
    except ValueError:
        doubled = (1 + math.exp(min(epsilon, 700.0))) * delta
        return (2 * epsilon, doubled) if doubled < 1 else None


def sentence(adjacency: str, curve: Curve, epsilon: float, delta: float, unit: str) -> str:
    """Return the guarantee for other neighbours in a sentence; nothing for zero-out."""
    if adjacency == "zero-out":
        return ""
    found = guarantee(adjacency, curve, epsilon, delta)
    if found is None:
        return f"{_if(adjacency, unit)}, nothing is proven."
    return (
        f"{_if(adjacency, unit)}, the guarantee is ({rounded_up(found[0])}, {rounded_up(found[1])})-differential "
        "privacy."
    )


def section(adjacency: str, curve: Curve, epsilon: float, delta: float, unit: str) -> Section | None:
    """Return what a statement says of other neighbours; nothing for zero-out."""
    if adjacency == "zero-out":
        return None
    first = sentence(adjacency, curve, epsilon, delta, unit)
    if adjacency == "replace-one":
        found = guarantee(adjacency, curve, epsilon, delta)
        table = None if found is None else attackers(curve.replacing())
        return Section(_if(adjacency, unit), (first, _how(unit, curve, epsilon, delta, found)), table)
    article = "a" if unit == "user" else "an"
    return Section(
        _if(adjacency, unit),
        (
            first,
            f"The numbers are those for zeroing out, because {article} {unit} whose gradients are zero adds nothing to "
            f"any sum, exactly as if it were not there. This holds if the number of {unit}s is public, so nothing in "
            "the run may be computed from the number in the dataset:",
        ),
        items=(
            f"The sampling rate is a constant, not an expected batch size divided by the number of {unit}s.",
            "Sums of gradients are divided by a constant, not by the number of examples in the batch.",
            "The size to which batches are truncated, the number of iterations and the learning rates are constants.",
        ),
    )


def _if(adjacency: str, unit: str) -> str:
    return f"If one {unit} " + ("replaces another" if adjacency == "replace-one" else "is added or removed")


def _how(unit: str, curve: Curve, epsilon: float, delta: float, found: Guarantee | None) -> str:
    steps = f"Replacing one {unit} by another is two steps: one is zeroed out, and then the other takes its place. "
    if found is None or found[1] != delta:
        return steps + (
            "The proofs carry no delta that small for both steps, so epsilon doubles, and delta is multiplied by "
            "1 + exp(epsilon)."
        )
    doubled = (1 + math.exp(min(epsilon, 700.0))) * delta
    steps += "The certified curve bounds both steps together, for every way to share epsilon between them. "
    if doubled >= 1:
        return steps + "Doubling epsilon at the certified point alone would prove nothing."
    return steps + (
        f"At delta {rounded_up(doubled)} it proves epsilon {rounded_up(curve.replacing().epsilon(doubled))}, where "
        f"doubling epsilon at the certified point alone gives {rounded_up(2 * epsilon)}."
    )
