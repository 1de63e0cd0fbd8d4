"""What is proven of the best of a secret, random number of runs: docs/tuning.md."""

import json
import math
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from minsep.accounting.certification import Certificate, Verification
from minsep.accounting.certification import verify as check
from minsep.accounting.composition.runs import check_runs
from minsep.accounting.curves import Curve, Trials, budgets_of, mean_curve, trials_of
from minsep.core import validation as validate
from minsep.core.budget import Budget
from minsep.core.files import write_whole
from minsep.core.plain import from_plain, to_plain
from minsep.engine import LOCAL, Compute

FORMAT = 1
_MARK = "tuning"  # the field that shows what a file is, with its format
_SAME_DIGITS = 1e-5
_DIGITS = 5


@dataclass(frozen=True)
class TuningCertificate:
    """What is proven of the best of a secret, random number of runs.

    Each run draws its configuration at random from a public list, and every configuration has a certificate.

    Attributes:
        certificates: The certificates of the configurations, each once.
        weights: How often a run has each of them, relative to the others.
        trials: The distribution of the number of runs.
        epsilon: The epsilon of the whole tuning.
        delta: The delta of the whole tuning.

    Examples:
        >>> import minsep
        >>> identity = minsep.BandedToeplitz.identity(iterations=1000)
        >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.01), noise_multiplier=1.0)
        >>> certificate = minsep.certify(mechanism, epsilon=2.0, delta=1e-5)
        >>> whole = TuningCertificate.of([certificate], trials=10)
        >>> print(whole.statement)
        The best of about 10 runs (geometric) is (2.6841, 1e-05)-DP, for a list of configurations and a distribution of the number of runs that are fixed beforehand, if only the best run is released and the number of runs stays secret.
        >>> together = minsep.compose([whole, certificate], delta=1e-5)
        >>> round(together.epsilon, 2)
        3.49
    """  # noqa: E501

    certificates: tuple[Certificate, ...]
    weights: tuple[float, ...]
    trials: Trials
    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        if not self.certificates or len(self.certificates) != len(self.weights):
            raise ValueError(
                f"weights has {len(self.weights)} numbers for {len(self.certificates)} certificates: give one for each."
            )
        for weight in self.weights:
            validate.real(weight=weight, above=0)
        Budget(self.epsilon, self.delta)

    @classmethod
    def of(
        cls,
        certificates: Sequence[Certificate],
        *,
        trials: float | Trials = 10,
        law: str = "geometric",
        delta: float | None = None,
        weights: Sequence[float] | None = None,
    ) -> "TuningCertificate":
        """Return what is proven of the best of a random number of runs with these certificates.

        Args:
            certificates: The certificate of each configuration. The same one may be there several times.
            trials: The expected number of runs, or a distribution such as `minsep.accounting.NegativeBinomial`.
            law: The distribution, by name: "geometric", "logarithmic", "poisson" or "binomial".
            delta: The delta of the whole tuning. By default it is the largest certified one.
            weights: How often a run has each configuration, relative to the others. By default all are alike.
        """
        listed = list(certificates)
        if not listed or not all(isinstance(one, Certificate) for one in listed):
            raise ValueError("certificates is not a list of minsep.Certificate with at least one of them.")
        shares = [1.0] * len(listed) if weights is None else list(weights)
        if len(shares) != len(listed):
            raise ValueError(f"weights has {len(shares)} numbers for {len(listed)} certificates: give one for each.")
        summed: dict[str, tuple[Certificate, float]] = {}
        for one, share in zip(listed, shares, strict=True):
            known, before = summed.get(text := one.to_json(), (one, 0.0))
            summed[text] = known, before + validate.real(weight=share, above=0)
        check_runs([one for one, _ in summed.values()], verify=False)
        delta = validate.real(delta=max(one.delta for one in listed) if delta is None else delta, above=0, below=1)
        distribution = trials_of(trials, law)
        curve = mean_curve([(one.curve, share) for one, share in summed.values()]).tuned(distribution)
        epsilon = max(_rounded_up(curve.epsilon(delta)), 1e-6)
        firsts, parts = zip(*summed.values(), strict=True)
        return cls(firsts, parts, distribution, epsilon, delta)

    @cached_property
    def curve(self) -> Curve:
        """What is proven of the whole tuning at every epsilon."""
        return self.curve_of_a_run.tuned(self.trials)

    @cached_property
    def curve_of_a_run(self) -> Curve:
        """What is proven of one run, which draws its configuration at random."""
        check_runs(self.certificates, verify=False)
        curves = [(one.curve, weight) for one, weight in zip(self.certificates, self.weights, strict=True)]
        return mean_curve(curves)

    @property
    def budget(self) -> Budget:
        """The epsilon and delta of the whole tuning."""
        return Budget(self.epsilon, self.delta)

    @property
    def name(self) -> str:
        """What it is, in a few words."""
        names = list(dict.fromkeys(one.mechanism.name for one in self.certificates))
        more = "" if len(names) == 1 else f" and {len(names) - 1} more"
        return f"the best of about {self.trials.mean:g} runs of {names[0]}{more}"

    @property
    def unit(self) -> str:
        """Whose privacy it is."""
        return self.certificates[0].unit

    @property
    def adjacency(self) -> str:
        """Which datasets are neighbours: those in which one unit's gradients are zero or not."""
        return self.certificates[0].adjacency

    @property
    def num_examples(self) -> int | None:
        """The number of examples that the certificates were made for, where that is known."""
        return next((one.num_examples for one in self.certificates if one.num_examples is not None), None)

    @property
    def statement(self) -> str:
        """The guarantee of the whole tuning, in words."""
        assumed = dict.fromkeys(each.sentence for one in self.certificates for each in one.assumptions)
        first = f"CONDITIONAL. {' '.join(assumed)} If that holds: t" if assumed else "T"
        return (
            f"{first}he best of about {self.trials.mean:g} runs ({self.trials.name}) is {self.budget}, for a list of "
            "configurations and a distribution of the number of runs that are fixed beforehand, if only the best run "
            "is released and the number of runs stays secret."
        )

    def verify(self, *, reproduce: bool = False, compute: Compute = LOCAL) -> Verification:
        """Check all certificates with their curves, and that the epsilon follows from them.

        Args:
            reproduce: Whether to repeat the provers as well, as for `minsep.verify`.
            compute: Where samples are drawn.
        """
        try:
            needed = self.curve.epsilon(self.delta)
        except Exception as error:  # whatever forged certificates may lead to
            return Verification(False, f"The tuning does not hold: {validate.shortened(str(error))}")
        if needed > self.epsilon * (1 + _SAME_DIGITS):
            return Verification(
                False, f"The tuning does not hold: its epsilon is {self.epsilon:g}, but the curves prove {needed:.6g}."
            )
        caveats: list[str] = []
        for one in self.certificates:
            result = check(one, reproduce=reproduce, compute=compute)
            if not result.holds:
                return result
            caveats += result.caveats
        caveats.append("Not checked: that only the best run was released, and that the number of runs is secret.")
        return Verification(True, self.statement, tuple(dict.fromkeys(caveats)))

    def to_json(self) -> str:
        """Return the guarantee and all certificates as JSON."""
        content = {
            _MARK: FORMAT,
            "statement": self.statement,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "trials": to_plain(self.trials),
            "weights": list(self.weights),
            "certificates": [json.loads(one.to_json()) for one in self.certificates],
        }
        return json.dumps(content, indent=2, allow_nan=False)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file, whole or not at all.

        Args:
            path: The path of the file.
        """
        write_whole(path, (self.to_json() + "\n").encode())

    @classmethod
    def from_json(cls, text: str) -> "TuningCertificate":
        """Read what `to_json` returned; whether it holds is for `verify` to say.

        Args:
            text: The text.
        """
        try:
            content = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ValueError(f"This is not the certificate of a tuning: {error}.") from None
        if not isinstance(content, dict) or _MARK not in content:
            raise ValueError("This is not the certificate of a tuning: it does not say so.")
        if content[_MARK] != FORMAT:
            raise ValueError(
                f"The certificate of a tuning has format {validate.in_short(content[_MARK])}, but this version of "
                f"minsep reads format {FORMAT}."
            )
        try:
            return cls(
                tuple(Certificate.from_json(json.dumps(one)) for one in content["certificates"]),
                from_plain(tuple[float, ...], content["weights"], "weights"),
                from_plain(Trials, content["trials"], "trials"),  # type: ignore[type-abstract]
                from_plain(float, content["epsilon"], "epsilon"),
                from_plain(float, content["delta"], "delta"),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ValueError(
                f"The certificate of the tuning does not hold: {validate.shortened(str(error)).rstrip('.')}."
            ) from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> "TuningCertificate":
        """Read a file that `save` wrote; whether it holds is for `verify` to say.

        Args:
            path: The path of the file.
        """
        try:
            with open(path, "rb") as file:
                text = file.read().decode()
        except OSError as error:
            raise ValueError(
                f"certificate is {os.fspath(path)!r}, but the file cannot be read: {error.strerror}."
            ) from None
        except UnicodeDecodeError:
            raise ValueError(f"The file {os.fspath(path)!r} is not the certificate of a tuning.") from None
        try:
            return cls.from_json(text)
        except ValueError as error:
            raise ValueError(f"{validate.shortened(os.fspath(path))}: {error}") from None

    @property
    def promised(self) -> tuple[Budget, ...]:
        """The budget of the whole tuning, as one of a curve."""
        return budgets_of((self.epsilon, self.delta))


def read_certificate(path: str | os.PathLike[str]) -> Certificate | TuningCertificate:
    """Return what a file certifies: a run, or a tuning.

    Args:
        path: The path of the file.
    """
    try:
        with open(path, "rb") as file:
            start: Any = file.read(256)
    except OSError:
        start = b""
    return TuningCertificate.load(path) if f'"{_MARK}"'.encode() in start else Certificate.load(path)


def _rounded_up(epsilon: float) -> float:
    """Return an epsilon with few digits that is at least this one, so that every processor finds about the same."""
    if epsilon <= 0:
        return 0.0
    step = 10.0 ** (math.floor(math.log10(epsilon)) + 1 - _DIGITS)
    return float(f"{math.ceil(epsilon / step) * step:.{_DIGITS}g}")
