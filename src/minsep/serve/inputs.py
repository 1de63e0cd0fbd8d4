"""What a person types: read, bounded, and turned into a plan, a command and lines of Python."""

import math
import shlex
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from functools import partial
from typing import Any, cast

from minsep.core import numbers
from minsep.core import validation as validate
from minsep.planning import Task
from minsep.planning.candidates import candidates
from minsep.planning.planner import DEFAULT_NOISE_MEMORY
from minsep.strategy import Workload

SCHEMES = ("poisson", "random-allocation", "cyclic-poisson", "balls-in-bins", "min-sep")
SAMPLED = ("balls-in-bins", "min-sep")
"""Schemes whose noise is estimated from samples: most of the work of a plan."""
_FIELD_OF = {"num_examples": "examples", "scheme": "schemes"}
_LONGEST = 40
_MOST_ITERATIONS, _MOST_BANDS, _MOST_EXAMPLES = 200_000, 1024, 1000
_SECONDS = 1.5e-4  # for one iteration of one candidate, estimated from samples on one core
_TINY = 1e-6
_SLOWER = 4.0  # below a tiny delta
_MOST_LOG_STATES = 20.0  # for ever, and yet a number


class InputError(ValueError):
    """Problems with what was typed, by field."""

    def __init__(self, problems: Mapping[str, str]) -> None:
        super().__init__("\n".join(problems.values()))
        self.problems = dict(problems)


@dataclass(frozen=True)
class Inputs:
    """The numbers of a task and what is tried for it, within bounds.

    - `examples`, `batch_size`, `iterations`, `epsilon` and `delta` are those of `minsep plan`.
    - `model_size` is the number of parameters, for the memory that noise takes.
    - `user_bound`, `max_batch_size`, `max_bands`, `min_sep`, `momentum`, `horizon` and `schedule` are those of
      `minsep plan`.
    - `schemes` are the kinds of scheme to try.

    >>> Inputs.read({"examples": "60,000", "batch_size": "512", "iterations": "2e3", "epsilon": "4", "delta": "1e-5"})
    Inputs(examples=60000, batch_size=512.0, iterations=2000, epsilon=4.0, delta=1e-05, model_size=None, \
user_bound=1, max_batch_size=None, max_bands=64, min_sep=None, momentum=0.0, horizon=None, schedule='constant', \
schemes=('poisson', 'random-allocation', 'cyclic-poisson', 'balls-in-bins', 'min-sep'))
    """

    examples: int
    batch_size: float
    iterations: int
    epsilon: float
    delta: float
    model_size: int | None = None
    user_bound: int = 1
    max_batch_size: int | None = None
    max_bands: int = 64
    min_sep: int | None = None
    momentum: float = 0.0
    horizon: float | None = None
    schedule: str = "constant"
    schemes: tuple[str, ...] = SCHEMES

    @classmethod
    def read(cls, texts: Mapping[str, object]) -> "Inputs":
        """Read what was typed; all problems are reported together, each with its field."""
        problems: dict[str, str] = {}
        values: dict[str, Any] = {}
        known = {field.name for field in fields(cls)}
        for name, text in texts.items():
            if name not in known:
                problems[str(name)[:_LONGEST]] = f"{str(name)[:_LONGEST]} is not an input of a plan: omit it."
                continue
            try:
                value = _read(name, text)
            except ValueError as error:
                problems[name] = str(error)
                continue
            if value is not None:
                values[name] = value
        for name in ("examples", "batch_size", "iterations", "epsilon", "delta"):
            if name not in values and name not in problems:
                problems[name] = f"{name} is missing: give it."
        problems |= _by_field(*_bounds(values))
        if problems:
            raise InputError(problems)
        inputs = cls(**values)
        problems = _by_field(lambda: inputs.task, *_bounds_of_separation(inputs))
        if problems:
            raise InputError(problems)
        return inputs

    @property
    def workload(self) -> Workload:
        """What the optimiser makes of the noise."""
        return Workload(self.momentum, self.horizon, cast(Any, self.schedule))

    @property
    def task(self) -> Task:
        """The task that is planned for."""
        return Task(
            self.examples,
            self.batch_size,
            self.iterations,
            self.epsilon,
            self.delta,
            self.max_batch_size,
            self.user_bound,
            workload=self.workload,
        )

    @property
    def options(self) -> dict[str, Any]:
        """The arguments of `minsep.plan`."""
        return {
            "num_examples": self.examples,
            "batch_size": self.batch_size,
            "iterations": self.iterations,
            "epsilon": self.epsilon,
            "delta": self.delta,
            "max_bands": self.max_bands,
            "min_sep": self.min_sep if "min-sep" in self.schemes else None,
            "schemes": self.schemes,
            "user_bound": self.user_bound,
            "max_batch_size": self.max_batch_size,
            "model_size": self.model_size,
            "workload": self.workload,
        }

    @property
    def texts(self) -> dict[str, str]:
        """What differs from the defaults, as one would type it: the address of the plan."""
        changed = {
            field.name: getattr(self, field.name)
            for field in fields(self)
            if getattr(self, field.name) != field.default
        }
        return {name: ",".join(value) if name == "schemes" else _text(value) for name, value in changed.items()}

    @property
    def seconds(self) -> float:
        """About how long the estimates take on one core; what is computed exactly counts for nothing."""
        tried = candidates(self.task, self.schemes, self.max_bands, self.min_sep, self.model_size, DEFAULT_NOISE_MEMORY)
        sampled = [one for one in tried if one.scheme in SAMPLED and not one.skipped]
        count = sum(_states(one.min_sep, self.user_bound) for one in sampled)
        return _SECONDS * (_SLOWER if self.delta < _TINY else 1.0) * count * self.iterations

    def command(self, seed: int | None = None) -> str:
        """Return the command that repeats the plan.

        >>> Inputs(1000, 50, 100, 4.0, 1e-5, schemes=("poisson",)).command(seed=7)
        'minsep plan --examples 1000 --batch-size 50 --iterations 100 --epsilon 4 --delta 1e-05 --scheme poisson \
--seed 7 --output certificate.json --report report.html'
        """
        words = ["minsep", "plan"]
        for name, text in self.texts.items():
            if name == "schemes":
                words += [word for scheme in self.schemes for word in ("--scheme", scheme)]
            elif name != "min_sep" or "min-sep" in self.schemes:
                words += ["--" + name.replace("_", "-"), text]
        if seed is not None:
            words += ["--seed", str(seed)]
        return shlex.join([*words, "--output", "certificate.json", "--report", "report.html"])

    def python(self, seed: int | None = None) -> str:
        """Return the lines of Python that repeat the plan.

        >>> print(Inputs(1000, 50, 100, 4.0, 1e-5, momentum=0.9).python(seed=7), end="")
        import minsep
        <BLANKLINE>
        plan = minsep.plan(
            num_examples=1000,
            batch_size=50,
            iterations=100,
            epsilon=4,
            delta=1e-05,
            workload=minsep.Workload(momentum=0.9),
            seed=7,
        )
        print(plan.statement)
        plan.certificate.save("certificate.json")
        """
        workload = [f"{name}={_python(value)}" for name, value in _changed(self.workload).items()]
        arguments = {
            "num_examples" if name == "examples" else name: _python(getattr(self, name))
            for name in self.texts
            if name not in ("momentum", "horizon", "schedule") and (name != "min_sep" or "min-sep" in self.schemes)
        }
        if workload:
            arguments["workload"] = f"minsep.Workload({', '.join(workload)})"
        if seed is not None:
            arguments["seed"] = str(seed)
        lines = [f"    {name}={value}," for name, value in arguments.items()]
        return "\n".join(
            [
                "import minsep",
                "",
                "plan = minsep.plan(",
                *lines,
                ")",
                "print(plan.statement)",
                'plan.certificate.save("certificate.json")',
                "",
            ]
        )


def _states(separation: int, user_bound: int) -> float:
    """Return how much longer an iteration takes for a user of several examples: each waits by itself."""
    if user_bound == 1:
        return 1.0
    ways = math.lgamma(separation + user_bound + 1) - math.lgamma(separation + 1) - math.lgamma(user_bound + 1)
    return math.exp(min(ways, _MOST_LOG_STATES)) / 4


def _changed(workload: Workload) -> dict[str, Any]:
    return {
        field.name: getattr(workload, field.name)
        for field in fields(workload)
        if getattr(workload, field.name) != field.default
    }


def _text(value: object) -> str:
    return f"{value:.15g}" if isinstance(value, float) else str(value)


def _python(value: object) -> str:
    return _text(value) if isinstance(value, int | float) else repr(value)


def _read(name: str, text: object) -> Any:
    """Read one field; None if it was left empty."""
    if not isinstance(text, str) or len(text) > 200:
        raise ValueError(f"{name} must be a text of at most 200 characters.")
    text = text.strip()
    if name == "schemes":
        return tuple(dict.fromkeys(part.strip() for part in text.split(",") if part.strip()))
    if not text:
        return None
    if name == "schedule":
        return text
    reader = numbers.number if name in ("batch_size", "epsilon", "delta", "momentum", "horizon") else numbers.count
    if len(text) > _LONGEST:
        raise ValueError(f"{name} is {text[:_LONGEST]!r}..., but it must be a number of at most {_LONGEST} characters.")
    try:
        return reader(text)
    except ValueError as error:
        raise ValueError(f"{name} is {error}".replace(" is not a", ", but it is not a", 1)) from None


def _bounds(values: dict[str, Any]) -> list[Callable[[], object]]:
    """Return the bounds of this page: beyond them the command line is the better place."""
    limits: dict[str, Callable[[Any], object]] = {
        "examples": lambda value: validate.integer(examples=value, at_least=1, at_most=10**12),
        "batch_size": lambda value: validate.real(batch_size=value, above=0),
        "iterations": lambda value: validate.integer(iterations=value, at_least=1, at_most=_MOST_ITERATIONS),
        "epsilon": lambda value: validate.real(epsilon=value, above=0, at_most=100),
        "delta": lambda value: validate.real(delta=value, at_least=1e-30, below=1),
        "model_size": lambda value: validate.integer(model_size=value, at_least=1, at_most=10**13),
        "user_bound": lambda value: validate.integer(user_bound=value, at_least=1, at_most=_MOST_EXAMPLES),
        "max_bands": lambda value: validate.integer(max_bands=value, at_least=1, at_most=_MOST_BANDS),
        "min_sep": lambda value: validate.integer(min_sep=value, at_least=1),
        "momentum": lambda value: validate.real(momentum=value, at_least=0, below=1),
        "horizon": lambda value: validate.real(horizon=value, at_least=1),
        "schedule": lambda value: validate.choice(("constant", "linear-decay", "cosine"), schedule=value),
        "schemes": _check_schemes,
    }
    return [partial(limits[name], value) for name, value in values.items() if name in limits]


def _check_schemes(schemes: tuple[str, ...]) -> None:
    for scheme in schemes or ("",):
        validate.choice(SCHEMES, schemes=scheme)


def _bounds_of_separation(inputs: Inputs) -> list[Callable[[], object]]:
    if inputs.min_sep is None or "min-sep" not in inputs.schemes:
        return []
    most = max(int(inputs.examples / inputs.batch_size + 1e-9), 1)
    return [lambda: validate.integer(min_sep=inputs.min_sep, at_least=1, at_most=most)]


def _by_field(*checks: Callable[[], object]) -> dict[str, str]:
    """Run all checks, and return what is wrong by field: a sentence begins with the name of its parameter."""
    problems: dict[str, str] = {}
    for check in checks:
        try:
            check()
        except ValueError as error:
            problems |= by_field(str(error))
    return problems


def by_field(sentences: str) -> dict[str, str]:
    """Return sentences by the field that each is about; those about no field are under an empty name.

    >>> by_field("num_examples is 0, but it must be an integer of at least 1.\\nIt cannot be planned.")
    {'examples': 'examples is 0, but it must be an integer of at least 1.', '': 'It cannot be planned.'}
    """
    known = {field.name for field in fields(Inputs)}
    problems: dict[str, str] = {}
    for sentence in sentences.splitlines():
        name = sentence.partition(" ")[0]
        field = _FIELD_OF.get(name, name)
        if field in known:
            problems[field] = field + sentence.removeprefix(name)
        else:
            problems[""] = f"{problems[''] + ' ' if '' in problems else ''}{sentence}"
    return problems
