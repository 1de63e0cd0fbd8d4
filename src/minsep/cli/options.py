"""Options that commands share, with the same meaning everywhere.

A group of options is a dataclass. A command that takes one as a parameter gets all of its fields as options, through
`command`, and receives the filled-in group. What a request asks, `planning.request` says.
"""

import copy
import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import MISSING, dataclass, fields, is_dataclass
from pathlib import Path
from typing import Annotated, Any, get_args, get_type_hints

import typer
import typer.models

from minsep.cli.help import MECHANISM, OUTPUT, WORK, Command, choices_of, word_of
from minsep.cli.numbers import count, number
from minsep.core.question import Question, renamed
from minsep.planning.request import TASK, default_of, questions

QUESTIONS = questions()


def counting(help: str, *flags: str, **more: Any) -> Any:
    """Return an option that is a whole number: 60000, 60,000 or 6e4."""
    return typer.Option(*flags, help=help, parser=count, metavar="INTEGER", **more)


def measuring(help: str, *flags: str, **more: Any) -> Any:
    """Return an option that is a number."""
    return typer.Option(*flags, help=help, parser=number, metavar="NUMBER", **more)


def option(question: Question) -> Any:
    """Return the option that asks a question."""
    more: dict[str, Any] = {"rich_help_panel": question.group} if question.group else {}
    if question.switch or question.choices is not None:
        return typer.Option(*question.flags, help=question.help, **more)
    if question.unit != 1:
        in_units = _in_units(question.unit)
        return typer.Option(*question.flags, help=question.help, parser=in_units, metavar="NUMBER", **more)
    return (counting if question.whole else measuring)(question.help, *question.flags, **more)


def _in_units(unit: int) -> Callable[[str], int]:
    def amount(text: str) -> int:  # a partial function has no name, which Click asks for
        value = number(text)
        if not math.isfinite(value):
            raise typer.BadParameter(f"{text} is not a finite number.")
        return int(value * unit)

    return amount


def _offered() -> tuple[str, ...]:
    from minsep.participation import offered

    return offered()


Examples = Annotated[int, option(QUESTIONS["num_examples"])]
BatchSize = Annotated[float, option(QUESTIONS["batch_size"])]
Iterations = Annotated[int, option(QUESTIONS["iterations"])]
MaxBatchSize = Annotated[int | None, option(QUESTIONS["max_batch_size"])]
Epsilon = Annotated[float, option(QUESTIONS["epsilon"])]
Delta = Annotated[float, option(QUESTIONS["delta"])]
ModelSize = Annotated[
    int | None,
    counting("Number of trained parameters: it sizes the reserve that is kept for rounding.", rich_help_panel=TASK),
]
Bands = Annotated[int, counting("Number of diagonals of the strategy matrix.", rich_help_panel=MECHANISM)]
MinSep = Annotated[
    int | None,
    counting(
        "Fewest iterations between participations of an example, where the scheme lets you choose. Default: the bands.",
        rich_help_panel=MECHANISM,
    ),
]
Scheme = Annotated[str, typer.Option(help="How batches are sampled.", rich_help_panel=MECHANISM)]
# The same where a file may say it instead.
AnyBatchSize = Annotated[float | None, option(QUESTIONS["batch_size"])]
AnyIterations = Annotated[int | None, option(QUESTIONS["iterations"])]
AnyBands = Annotated[
    int | None, counting("Number of diagonals of the strategy matrix. Default: 1.", rich_help_panel=MECHANISM)
]
AnyScheme = Annotated[
    str | None, typer.Option(help="How batches are sampled. Default: min-sep.", rich_help_panel=MECHANISM)
]
NoiseMultiplier = Annotated[
    float, measuring("Standard deviation of the noise divided by the clip norm.", rich_help_panel=MECHANISM)
]
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
Output = Annotated[
    Path | None,
    typer.Option(
        "--output",
        "-o",
        help="Write the certificate to this file. By default one that passed is kept in certificate.json, or in "
        "certificate-2.json and so on if that exists; with --json it is only printed.",
        rich_help_panel=OUTPUT,
    ),
]
Force = Annotated[bool, typer.Option("--force", help="Replace files that exist.", rich_help_panel=OUTPUT)]
Journal = Annotated[
    Path | None,
    typer.Option(
        help="Write down in this file what was drawn; after a crash the same command goes on from there.",
        rich_help_panel=WORK,
    ),
]
Verify = Annotated[bool, typer.Option(help="Check the certificate first.", rich_help_panel=WORK)]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.", rich_help_panel=OUTPUT)]

MOST_EXAMPLES = 10**18


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
    scheme: Scheme = "min-sep"
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
        from minsep.participation import Sizes, families

        checks: list[Callable[[], object]] = [
            lambda: QUESTIONS["num_examples"].check("examples", self.examples, at_most=MOST_EXAMPLES),
            lambda: QUESTIONS["batch_size"].check(
                "batch_size", self.batch_size, at_most=max(self.examples, 1), most_is="the number of examples"
            ),
            lambda: QUESTIONS["iterations"].check("iterations", self.iterations),
            lambda: validate.integer(bands=self.bands, at_least=1, at_most=max(self.iterations, 1)),
            lambda: validate.choice(_offered(), scheme=self.scheme),
            *more,
        ]
        if self.min_sep is not None:
            checks += [lambda: validate.integer(min_sep=self.min_sep, at_least=1), self._check_min_sep]
        if self.max_batch_size is not None:
            checks.append(lambda: QUESTIONS["max_batch_size"].check("max_batch_size", self.max_batch_size))
        validate.all_of(*checks)
        if self.examples / self.batch_size > MOST_EXAMPLES:
            raise ValueError(f"batch_size is {self.batch_size}, but it must not be that small a part of the examples.")
        strategy = minsep.BandedToeplitz.optimal(iterations=self.iterations, bands=self.bands)
        truncation = None if self.max_batch_size is None else minsep.Truncation(self.max_batch_size, self.examples)
        sizes = Sizes(self.examples, self.batch_size, self.iterations, truncated=truncation is not None)
        separation = self.bands if self.min_sep is None else self.min_sep
        return minsep.Design(strategy, families()[self.scheme].scheme(sizes, separation), truncation)

    def _check_min_sep(self) -> None:
        from minsep.participation import families

        family = families().get(self.scheme)
        if family is not None and family.fixed_separation:
            why = family.fixed_separation
            raise ValueError(f"min_sep is {self.min_sep}, but the scheme {self.scheme} {why}: omit it.")


@dataclass(frozen=True)
class CertifiedSetting:
    """A mechanism without its noise: that of a certificate, or that of the options of `Setting`."""

    examples: Examples
    batch_size: AnyBatchSize = None
    iterations: AnyIterations = None
    bands: AnyBands = None
    min_sep: MinSep = None
    scheme: AnyScheme = None
    max_batch_size: MaxBatchSize = None
    certificate: Annotated[
        Path | None,
        typer.Option(
            help="Draw the batches of this certificate's mechanism, instead of the options of a setting.",
            rich_help_panel=MECHANISM,
        ),
    ] = None
    verify: Verify = True

    def design(self, *more: Callable[[], object]) -> Any:
        """Return the mechanism without its noise; problems with any of the options are reported together."""
        import minsep
        from minsep.core import validation as validate

        given = {
            field.name: getattr(self, field.name) for field in fields(Setting) if getattr(self, field.name) is not None
        }
        if self.certificate is None:
            needed = ("batch_size", "iterations")
            validate.all_of(*(functools.partial(_require, name, given, "a certificate") for name in needed))
            return Setting(**given).design(*more)
        validate.all_of(
            lambda: QUESTIONS["num_examples"].check("examples", self.examples),
            *(functools.partial(_refuse, name, value) for name, value in given.items() if name != "examples"),
            *more,
        )
        return minsep.Mechanism.from_certificate(self.certificate, verify=self.verify).design


@dataclass(frozen=True)
class RecordedSetting:
    """A mechanism: that of the options of `Setting`, or what a file of another library describes."""

    source: Annotated[
        Path | None,
        typer.Option(
            "--from",
            help="Read what was run from this file, instead of the options of a mechanism: the history of an Opacus "
            "accountant, an event of dp_accounting, or a BandMFConfig of jax-privacy, as JSON.",
            rich_help_panel=MECHANISM,
        ),
    ] = None
    examples: Annotated[int | None, option(QUESTIONS["num_examples"])] = None
    batch_size: AnyBatchSize = None
    iterations: AnyIterations = None
    bands: AnyBands = None
    min_sep: MinSep = None
    scheme: AnyScheme = None
    max_batch_size: MaxBatchSize = None
    noise_multiplier: Annotated[
        float | None,
        measuring("Standard deviation of the noise divided by the clip norm.", rich_help_panel=MECHANISM),
    ] = None

    def mechanism(self, *more: Callable[[], object]) -> Any:
        """Return the mechanism of the options; problems with any of them are reported together."""
        from minsep.core import validation as validate

        given = self._given()
        needed = ("examples", "batch_size", "iterations", "noise_multiplier")
        validate.all_of(*(functools.partial(_require, name, given, "a file with --from") for name in needed))
        noise_multiplier = given.pop("noise_multiplier")
        return Setting(**given).mechanism(noise_multiplier, *more)

    def record(self, *more: Callable[[], object]) -> Any:
        """Return what the file describes; problems with any of the options are reported together."""
        from minsep.core import validation as validate
        from minsep.reading import read_record

        validate.all_of(self._check_alone, *more)
        return read_record(self.source or "")

    def _check_alone(self) -> None:
        flags = ", ".join(f"--{name.replace('_', '-')}" for name in self._given())
        if flags:
            raise ValueError(f"source is {str(self.source)!r}, which describes the whole run: omit {flags}.")

    def _given(self) -> dict[str, Any]:
        names = (field.name for field in fields(self) if field.name != "source")
        return {name: value for name in names if (value := getattr(self, name)) is not None}


def _require(name: str, given: dict[str, Any], instead: str) -> None:
    if name not in given:
        raise ValueError(f"{name} is missing: give it, or {instead}.")


def _refuse(name: str, value: Any) -> None:
    raise ValueError(f"{name} is {value}, but the certificate says what is sampled: omit it.")


def budget_checks(**budget: float) -> list[Callable[[], object]]:
    """Return the checks of an epsilon, a delta, or both."""
    return [functools.partial(QUESTIONS[name].check, name, value) for name, value in budget.items()]


class Answers(dict[str, Any]):
    """The answers to the questions of a request, by field: a group of options, of those that a command does not have.

    A parameter of the command with the name of a question takes its place, or a field of another group.
    """


def _asking(taken: set[str]) -> list[inspect.Parameter]:
    """Return an option for each question of a request whose name is not taken."""
    parameters = []
    for field, question in QUESTIONS.items():
        name = question.asked_as or field
        if name in taken:
            continue
        default = default_of(field)
        if question.unit != 1:
            default = f"{default / question.unit:g}"  # typer reads it as if it were typed
        kind: Any = bool if question.switch else str if question.choices else int if question.whole else float
        if question.several:
            kind = list[str]
        kind = kind | None if default is None else kind
        parameters.append(
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=inspect.Parameter.empty if default is MISSING else default,
                annotation=Annotated[kind, option(question)],
            )
        )
    return parameters


def _of_group(group: type) -> list[inspect.Parameter]:
    """Return an option for each field of a group."""
    hints = get_type_hints(group, include_extras=True)
    return [
        inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=inspect.Parameter.empty if field.default is MISSING else field.default,
            annotation=hints[field.name],
        )
        for field in fields(group)
    ]


def command(function: Callable[..., None]) -> Callable[..., None]:
    """Turn every parameter that is a group of options into the group's own options."""
    hints = get_type_hints(function, include_extras=True)
    signature = inspect.signature(function)
    groups: dict[str, list[inspect.Parameter]] = {}
    parameters: list[inspect.Parameter] = []
    for name, parameter in signature.parameters.items():
        hint = hints[name]
        if hint is Answers:
            taken = {field.name for hint in hints.values() if _is_group(hint) for field in fields(hint)}
            groups[name] = _asking(taken | set(signature.parameters))
        elif _is_group(hint):
            groups[name] = _of_group(hint)
        own = [parameter.replace(annotation=hint, kind=inspect.Parameter.KEYWORD_ONLY)]
        parameters += map(_with_word, groups.get(name, own))

    @functools.wraps(function)
    def with_groups(**options: Any) -> None:
        filled = {
            name: hints[name](**{each.name: options.pop(each.name) for each in group}) for name, group in groups.items()
        }
        function(**filled, **options)

    with_groups.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    with_groups.__annotations__ = {parameter.name: parameter.annotation for parameter in parameters}
    return with_groups


def _is_group(hint: Any) -> bool:
    return inspect.isclass(hint) and is_dataclass(hint)


def _with_word(parameter: inspect.Parameter) -> inspect.Parameter:
    """Return a parameter with a word for what it takes, where its option does not say it."""
    kind, info = get_args(parameter.annotation)
    info = copy.copy(info)
    if isinstance(info, typer.models.ArgumentInfo):
        info.metavar = parameter.name.upper()
    elif info.metavar is None:
        info.metavar = word_of(kind)
    return parameter.replace(annotation=Annotated[kind, info])


def in_flags(sentences: str, command: Callable[..., None]) -> str:
    """Return sentences about parameters of a command with the flags that a person types.

    >>> def example(batch_size: Annotated[float, typer.Option()], path: Annotated[str, typer.Argument()]) -> None: ...
    >>> in_flags("batch_size is 0.", example), in_flags("path is 0.", example)
    ('--batch-size is 0.', 'path is 0.')
    """
    flags = {}
    for parameter in inspect.signature(command).parameters.values():
        for info in getattr(parameter.annotation, "__metadata__", ()):
            if isinstance(info, typer.models.OptionInfo):
                declared = (info.default, *(info.param_decls or ()))
                given = [word for word in declared if isinstance(word, str) and word.startswith("--")]
                flags[parameter.name] = (given or ["--" + parameter.name.replace("_", "-")])[0].partition("/")[0]
    flags |= {field: flags[one.asked_as] for field, one in QUESTIONS.items() if one.asked_as in flags}
    return "\n".join(renamed(sentence, flags)[1] for sentence in sentences.splitlines())


class Offering(Command):
    """A command whose help shows the choices of its questions, and the schemes."""

    choices = choices_of(QUESTIONS) | {"scheme": _offered}
