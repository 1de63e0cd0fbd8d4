"""Laws of the participation vector by enumeration, straight from the definitions of the schemes.

Nothing here uses the renewal form that the library samples from.
"""

from itertools import product

import minsep
from minsep.participation import Scheme

Law = dict[tuple[int, ...], float]


def participation_law(scheme: Scheme, iterations: int) -> Law:
    """Return the probability of every participation vector of one example (index 0 of one, when order matters)."""
    match scheme:
        case minsep.Poisson(rate=rate):
            law = {x: _coin_flips(x, rate) for x in product((0, 1), repeat=iterations)}
        case minsep.CyclicPoisson(cycle=cycle):
            law = _mixture(
                (1 / cycle, _on_turns(scheme.sampling_prob, cycle, phase, iterations)) for phase in range(cycle)
            )
        case minsep.BallsInBins(epoch=epoch):
            law = _mixture((1 / epoch, _on_turns(1.0, epoch, phase, iterations)) for phase in range(epoch))
        case minsep.RandomAllocation(epoch=epoch):
            law = _allocation(epoch, iterations)
        case minsep.MinSep():
            law = _min_sep(scheme, iterations)
        case minsep.Unamplified(min_sep=min_sep):
            law = _on_turns(1.0, min_sep, 0, iterations)
    return {x: probability for x, probability in law.items() if probability > 0}


def _min_sep(scheme: minsep.MinSep, iterations: int) -> Law:
    """Algorithms 1 and 2 of the paper: a Markov chain of the iterations for which an example is still barred."""
    p, b = scheme.sampling_prob, scheme.min_sep
    barred = {0: 1.0}
    if scheme.start == "warm":
        stay = 1 / (1 + (b - 1) * p)
        barred = {0: stay} | dict.fromkeys(range(1, b), (1 - stay) / max(b - 1, 1))
    states: dict[tuple[tuple[int, ...], int], float] = {((), s): weight for s, weight in barred.items()}
    for _ in range(iterations):
        after: dict[tuple[tuple[int, ...], int], float] = {}
        for (x, state), weight in states.items():
            if state > 0:
                moves = [((*x, 0), state - 1, 1.0)]
            else:
                moves = [((*x, 0), 0, 1 - p), ((*x, 1), b - 1, p)]
            for vector, new_state, probability in moves:
                after[vector, new_state] = after.get((vector, new_state), 0.0) + weight * probability
        states = after
    law: Law = {}
    for (x, _state), weight in states.items():
        law[x] = law.get(x, 0.0) + weight
    return law


def _allocation(epoch: int, iterations: int) -> Law:
    """One place in every epoch, each with equal chances; places beyond the run are not seen."""
    epochs = -(-iterations // epoch)
    law: Law = {}
    for places in product(range(epoch), repeat=epochs):
        times = {k * epoch + place for k, place in enumerate(places)}
        x = tuple(int(i in times) for i in range(iterations))
        law[x] = law.get(x, 0.0) + epoch**-epochs
    return law


def _on_turns(probability: float, cycle: int, phase: int, iterations: int) -> Law:
    law: Law = {}
    for x in product((0, 1), repeat=iterations):
        if all(i % cycle == phase for i, part in enumerate(x) if part):
            law[x] = _coin_flips(x[phase::cycle], probability)
    return law


def _coin_flips(x: tuple[int, ...], probability: float) -> float:
    return probability ** sum(x) * (1 - probability) ** (len(x) - sum(x))


def _mixture(parts) -> Law:  # type: ignore[no-untyped-def]
    law: Law = {}
    for weight, part in parts:
        for x, probability in part.items():
            law[x] = law.get(x, 0.0) + weight * probability
    return law
