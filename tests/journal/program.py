"""A small call with a journal: what certify and the others do, without their work."""

from dataclasses import dataclass
from functools import partial

import numpy as np

from minsep.core.arrays import FloatArray
from minsep.core.plain import from_plain, to_plain
from minsep.engine import LOCAL
from minsep.journal import begin
from minsep.randomness import Key, KeyedWords

CHUNKS = 12


def draw(seed, fold, drawn, chunk):
    drawn.add(fold, chunk)
    return KeyedWords(Key.from_seed(seed).derive(f"fold {fold}")).take(chunk, 4) / 2.0**64


class Drawn:
    """Which chunks were drawn; that is no part of what makes two computations the same."""

    fingerprint = "any"

    def __init__(self, then=lambda count: None):
        self.chunks, self._then = [], then

    def add(self, fold, chunk):
        self.chunks.append((fold, chunk))
        self._then(len(self.chunks))


@dataclass(frozen=True)
class Sums:
    """The state of a fold."""

    count: int
    sums: FloatArray


def step(state, values):
    return Sums(state.count + 1, state.sums + np.array([values.sum(), 1 / 3 * (values**2).sum()]))


def program(journal, seed=None, *, folds=3, size=1, stop_at=None, drawn=None, compute=LOCAL, progress=None):
    """Fold some chunks several times, with a decision after each; `stop_at` is the chunk at which it crashes."""
    drawn = drawn or Drawn()

    def crashing(state, values):
        if stop_at is not None and len(drawn.chunks) > stop_at:
            raise KeyboardInterrupt
        return step(state, values)

    with begin(journal, "program", {"folds": folds, "size": size}, seed, compute, progress) as run:
        outcome = []
        for fold in range(folds):
            scale = run.compute.remember(
                partial(remembered, run.seed, fold, drawn), to_plain, partial(from_plain, float), "scale"
            )
            work = partial(draw, run.seed, fold, drawn)
            enough = CHUNKS - 3 * fold
            folded = run.compute.fold(
                work,
                CHUNKS,
                Sums(0, np.zeros(2)),
                crashing,
                lambda state, enough=enough: state.count >= enough,
                f"fold {fold}",
            )
            run.compute.note(f"fold {fold} ended after {folded.count} chunks")
            outcome += [folded.count, scale * float(folded.sums[0]), float(folded.sums[1])]
        return run.finish((run.seed, run.date, tuple(outcome)), "done")


def remembered(seed, fold, drawn, compute):
    return 1.0 + fold + seed % 7
