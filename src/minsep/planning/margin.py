"""How much better a plan is than another mechanism, like with like."""

from dataclasses import dataclass

from minsep.planning.candidates import Candidate

RELATIVE_ERROR_OF_A_TIE = 1.01
"""Errors within this factor are a tie: closer ones the estimates cannot tell apart."""


@dataclass(frozen=True)
class Margin:
    """The error of a plan beside the error of another mechanism.

    Attributes:
        other: The other mechanism.
        error: The error of the plan: certified if `certified`, and as it was estimated elsewhere.
        certified: Whether the plan's error is certified and the noise of the other mechanism is computed exactly.
    """

    other: Candidate
    error: float
    certified: bool

    @property
    def saved(self) -> float:
        """By which share the plan's error is lower; below 0 if it is higher."""
        assert self.other.error is not None
        return 1 - self.error / self.other.error

    @property
    def is_tie(self) -> bool:
        """Whether the two errors cannot be told apart."""
        return abs(self.saved) < RELATIVE_ERROR_OF_A_TIE - 1

    @property
    def name(self) -> str:
        """The other mechanism, in words; the usual DP-SGD goes without its sampling."""
        return "DP-SGD" if self.other.scheme == "poisson" else self.other.name

    @property
    def short(self) -> str:
        """The comparison, without numbers but the share.

        >>> dp_sgd = Candidate("poisson", bands=1, min_sep=1, noise_multiplier=0.77, error=24.4, exact=True)
        >>> Margin(dp_sgd, 14.1, certified=True).short, Margin(dp_sgd, 24.3, certified=True).short
        ('42 % less error than DP-SGD', 'no better than DP-SGD')
        """
        if self.is_tie:
            return f"no better than {self.name}"
        return f"{100 * abs(self.saved):.0f} % {'less' if self.saved > 0 else 'more'} error than {self.name}"

    @property
    def words(self) -> str:
        """The comparison, with the other mechanism's error and how the two are known.

        >>> Margin(Candidate("min-sep", bands=4, min_sep=8, error=4.0), 3.0, certified=False).words
        '25 % less error than b-min-sep, b = 8, 4 bands (3 instead of 4, by estimates)'
        """
        how = "" if self.certified else ", by estimates"
        tie = ": a tie within 1 %" if self.is_tie else ""
        return f"{self.short} ({self.error:.4g} instead of {self.other.error:.4g}{tie}{how})"
