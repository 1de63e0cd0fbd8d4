"""Options that commands share, with the same meaning everywhere.

A group of options is a dataclass. A command that takes one as a parameter gets all of its fields as options, through
`command`, and receives the filled-in group.
"""

import functools
import inspect
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_type_hints

import typer

from minsep.cli.numbers import count, number

TASK, BUDGET, WORK = "The task", "The budget", "The work"


def counting(help: str, **more: Any) -> Any:
    """Return an option that is a whole number: 60000, 60,000 or 6e4."""
    return typer.Option(help=help, parser=count, metavar="INTEGER", **more)


def measuring(help: str, **more: Any) -> Any:
    """Return an option that is a number."""
    return typer.Option(help=help, parser=number, metavar="NUMBER", **more)


Examples = Annotated[int, counting("Number of examples in the dataset.", rich_help_panel=TASK)]
BatchSize = Annotated[float, measuring("Expected number of examples in a batch.", rich_help_panel=TASK)]
Iterations = Annotated[int, counting("Number of training steps.", rich_help_panel=TASK)]
MaxBatchSize = Annotated[
    int | None, counting("Truncate larger batches to this size, and pad smaller ones.", rich_help_panel=TASK)
]
Bands = Annotated[int, counting("Number of diagonals of the strategy matrix.")]
MinSep = Annotated[
    int | None,
    counting(
        "Minimum number of iterations between participations of an example. Default: the bands. For min-sep, "
        "cold-min-sep and cyclic-poisson."
    ),
]
Epsilon = Annotated[float, measuring("Privacy budget epsilon.", rich_help_panel=BUDGET)]
Delta = Annotated[float, measuring("Privacy budget delta.", rich_help_panel=BUDGET)]
NoiseMultiplier = Annotated[float, measuring("Standard deviation of the noise divided by the clip norm.")]
Seed = Annotated[
    int | None,
    typer.Option(help="Seed for a reproducible run. Default: the system's entropy.", rich_help_panel=WORK),
]
Workers = Annotated[
    int | None,
    typer.Option(help="Number of threads. Default: one per core.", rich_help_panel=WORK),
]
Cluster = Annotated[
    str | None,
    typer.Option(
        help="Draw samples on the cluster of this Dask scheduler, such as tcp://127.0.0.1:8786.",
        metavar="ADDRESS",
        rich_help_panel=WORK,
    ),
]
Output = Annotated[Path | None, typer.Option("--output", "-o", help="Write the certificate to this file.")]
ModelSize = Annotated[
    int | None, counting("Number of trainable parameters, for the reserve that is kept for rounding.")
]
Journal = Annotated[
    Path | None,
    typer.Option(
        help="Write down in this file what was drawn; after a crash the same command goes on from there.",
        rich_help_panel=WORK,
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]

SCHEMES = ("min-sep", "cold-min-sep", "poisson", "random-allocation", "cyclic-poisson", "balls-in-bins", "unamplified")
_MOST_EXAMPLES = 10**18
_WITHOUT_MIN_SEP = {
    "poisson": "has no separation",
    "random-allocation": "has no separation",
    "balls-in-bins": "always separates participations by an epoch",
    "unamplified": "always separates participations by an epoch",
}


@dataclass(frozen=True)
class Work:
    """The seed, and where samples are drawn."""

    seed: Seed = None
    workers: Workers = None
    cluster: Cluster = None

    @property
    def compute(self) -> Any:
        """Where samples are drawn."""
        from minsep import Compute

        return Compute(workers=self.workers, cluster=self.cluster)

    def check(self) -> list[Callable[[], object]]:
        """Return the checks of the options."""
        from minsep.core import validation as validate

        checks: list[Callable[[], object]] = []
        if self.seed is not None:
            checks.append(lambda: validate.integer(seed=self.seed, at_least=0))
        if self.workers is not None:
            checks.append(lambda: validate.integer(workers=self.workers, at_least=1))
        if self.cluster is not None:
            checks.append(lambda: self.compute)
        return checks


@dataclass(frozen=True)
class Setting:
    """A mechanism without its noise."""

    examples: Examples
    batch_size: BatchSize
    iterations: Iterations
    bands: Bands = 1
    min_sep: MinSep = None
    scheme: Annotated[str, typer.Option(help=", ".join(SCHEMES[:-1]) + f" or {SCHEMES[-1]}.")] = "min-sep"
    max_batch_size: MaxBatchSize = None

    def mechanism(self, noise_multiplier: float, *more: Callable[[], object]) -> Any:
        """Return the mechanism; problems with any of the options are reported together."""
        from minsep.core import validation as validate

        return self.design(lambda: validate.real(noise_multiplier=noise_multiplier, above=0), *more).with_noise(
            noise_multiplier
        )

    def design(self, *more: Callable[[], object]) -> Any:
        """Return the mechanism without its noise; problems with any of the options are reported together."""
        import minsep
        from minsep.core import validation as validate

        checks: list[Callable[[], object]] = [
            lambda: validate.integer(examples=self.examples, at_least=1, at_most=_MOST_EXAMPLES),
            lambda: validate.real(batch_size=self.batch_size, above=0, at_most=max(self.examples, 1)),
            lambda: validate.integer(iterations=self.iterations, at_least=1),
            lambda: validate.integer(bands=self.bands, at_least=1, at_most=max(self.iterations, 1)),
            lambda: validate.choice(SCHEMES, scheme=self.scheme),
            *more,
        ]
        if self.min_sep is not None:
            checks += [lambda: validate.integer(min_sep=self.min_sep, at_least=1), self._check_min_sep]
        if self.max_batch_size is not None:
            checks.append(lambda: validate.integer(max_batch_size=self.max_batch_size, at_least=1))
        validate.all_of(*checks)
        strategy = minsep.BandedToeplitz.optimal(iterations=self.iterations, bands=self.bands)
        truncation = None if self.max_batch_size is None else minsep.Truncation(self.max_batch_size, self.examples)
        return minsep.Design(strategy, self._scheme(truncation is not None), truncation)

    def _check_min_sep(self) -> None:
        if self.scheme in _WITHOUT_MIN_SEP:
            why = _WITHOUT_MIN_SEP[self.scheme]
            raise ValueError(f"min_sep is {self.min_sep}, but the scheme {self.scheme} {why}: omit it.")

    def _scheme(self, truncated: bool) -> Any:
        import minsep

        if self.examples / self.batch_size > _MOST_EXAMPLES:
            raise ValueError(f"batch_size is {self.batch_size}, but it must not be that small a part of the examples.")
        rate = self.batch_size / self.examples
        epoch = max(round(self.examples / self.batch_size), 1)
        separation = self.bands if self.min_sep is None else self.min_sep
        match self.scheme:
            case "poisson":
                return minsep.Poisson(rate)
            case "random-allocation":
                return minsep.RandomAllocation(epoch)
            case "cyclic-poisson":
                return minsep.CyclicPoisson(rate, separation, "equal" if truncated else "random")
            case "balls-in-bins":
                return minsep.BallsInBins(epoch)
            case "unamplified":
                return minsep.Unamplified(epoch, -(-self.iterations // epoch))
        return minsep.MinSep(rate, separation, "cold" if self.scheme == "cold-min-sep" else "warm")


@dataclass(frozen=True)
class CertifiedSetting:
    """A mechanism without its noise: that of a certificate, or that of the options of `Setting`."""

    examples: Examples
    batch_size: Annotated[float | None, measuring("Expected number of examples in a batch.", rich_help_panel=TASK)] = (
        None
    )
    iterations: Annotated[int | None, counting("Number of training steps.", rich_help_panel=TASK)] = None
    bands: Annotated[int | None, counting("Number of diagonals of the strategy matrix. Default: 1.")] = None
    min_sep: MinSep = None
    scheme: Annotated[
        str | None, typer.Option(help=", ".join(SCHEMES[:-1]) + f" or {SCHEMES[-1]}. Default: min-sep.")
    ] = None
    max_batch_size: MaxBatchSize = None
    certificate: Annotated[
        Path | None,
        typer.Option(help="Draw the batches of this certificate's mechanism, instead of the options of a setting."),
    ] = None
    verify: Annotated[bool, typer.Option(help="Check the certificate first.")] = True

    def design(self, *more: Callable[[], object]) -> Any:
        """Return the mechanism without its noise; problems with any of the options are reported together."""
        import minsep
        from minsep.core import validation as validate

        given = {
            field.name: getattr(self, field.name) for field in fields(Setting) if getattr(self, field.name) is not None
        }
        if self.certificate is None:
            validate.all_of(*(functools.partial(_require, name, given) for name in ("batch_size", "iterations")))
            return Setting(**given).design(*more)
        validate.all_of(
            lambda: validate.integer(examples=self.examples, at_least=1),
            *(functools.partial(_refuse, name, value) for name, value in given.items() if name != "examples"),
            *more,
        )
        return minsep.Mechanism.from_certificate(self.certificate, verify=self.verify).design


def _require(name: str, given: dict[str, Any]) -> None:
    if name not in given:
        raise ValueError(f"{name} is missing: give it, or a certificate.")


def _refuse(name: str, value: Any) -> None:
    raise ValueError(f"{name} is {value}, but the certificate says what is sampled: omit it.")


def budget_checks(**budget: float) -> list[Callable[[], object]]:
    """Return the checks of an epsilon, a delta, or both."""
    from minsep.core import validation as validate

    limits = {"epsilon": None, "delta": 1}
    return [
        functools.partial(validate.real, above=0, below=limits[name], **{name: value}) for name, value in budget.items()
    ]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn every parameter that is a group of options into the group's own options."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    groups = {name: hint for name, hint in hints.items() if inspect.isclass(hint) and is_dataclass(hint)}
    parameters = []
    for name, parameter in signature.parameters.items():
        if name not in groups:
            parameters.append(parameter.replace(annotation=hints[name], kind=inspect.Parameter.KEYWORD_ONLY))
            continue
        group_hints = get_type_hints(groups[name], include_extras=True)
        for field in fields(groups[name]):
            default = inspect.Parameter.empty if field.default is MISSING else field.default
            parameters.append(
                inspect.Parameter(
                    field.name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=group_hints[field.name]
                )
            )

    @functools.wraps(function)
    def with_groups(**options: Any) -> None:
        filled = {
            name: group(**{field.name: options.pop(field.name) for field in fields(group)})
            for name, group in groups.items()
        }
        function(**filled, **options)

    with_groups.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_groups
