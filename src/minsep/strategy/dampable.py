"""Toeplitz strategies whose participations can be made to overlap less."""

from abc import abstractmethod

from minsep.strategy.toeplitz import Toeplitz


class Dampable(Toeplitz):
    """A strategy of a kind that is closed under multiplication of coefficient k by the k-th power of a factor."""

    @abstractmethod
    def damped(self, factor: float) -> "Dampable":
        """Return the strategy with coefficient k of C and of C^-1 times the k-th power of a factor, rescaled to norm 1.

        Participations of one example then overlap less, which amplification by sampling rewards: see docs/planning.md.

        Args:
            factor: The factor, above 0 and at most 1.
        """
