"""What is asked of the planner: one value for Python, the command line, the page, journals and reports."""

import math
from collections.abc import Container, Mapping, Sequence
from dataclasses import KW_ONLY, MISSING, Field, dataclass, field, fields, replace
from functools import cached_property, partial
from textwrap import fill
from typing import TYPE_CHECKING, Any

from minsep.core import validation as validate
from minsep.core.budget import MOST_DELTA, Budget, warn_of_delta
from minsep.core.question import Page, Question, Slider, asked, question_of

# The command line reads the questions before anything is computed, so what takes long to import is imported when used.
if TYPE_CHECKING:
    from minsep.accounting import TunedBudget
    from minsep.attribution import AttributionGraph
    from minsep.participation import Sizes, Truncation
    from minsep.strategy import Workload

TASK, BUDGET, SEARCH = "The task", "The budget", "The search"
DEFAULT_NOISE_MEMORY = 16 << 30
_MOST_TRUNCATED = 2**32 - 1
_USUAL_LAW = "geometric"
_WIDTH = 100  # of docstrings that are made


def _planned() -> tuple[str, ...]:
    from minsep.participation import planned

    return planned()


def _laws() -> tuple[str, ...]:
    from minsep.accounting import LAWS

    return LAWS


def _schedules() -> tuple[str, ...]:
    from minsep.strategy import SCHEDULES

    return SCHEDULES


def _prefix_sums() -> "Workload":
    from minsep.strategy import Workload

    return Workload()


WORKLOAD: Mapping[str, Question] = {
    "momentum": Question(
        "Momentum",
        "Momentum of SGD, from 0, the default, to below 1.",
        TASK,
        page=Page(Slider(0, 0.99, linear=True)),
    ),
    "horizon": Question(
        "Horizon",
        "Number of past steps whose noise still matters, as with weight decay. By default all of them matter.",
        TASK,
        page=Page(Slider(1, 10_000, whole=True)),
    ),
    "schedule": Question(
        "Learning rate",
        "How the learning rate changes over the run. By default it is constant.",
        TASK,
        choices=_schedules,
        page=Page(),
    ),
}
"""What is asked in place of the field `workload`."""


@dataclass(frozen=True)
class Request:
    """A task, a budget, and what is tried for them. Everything is checked, and all problems are reported together.

    What any other field means, and which values it may have, is said once, in its question.

    Args:
        workload: What the optimiser makes of the noise. By default the error is that of prefix sums.
        graph: Who the users of each example are, if that is known.
        attempts: The most plans that are made, of which one is run. They share the chance of an error.

    Examples:
        >>> Request(60_000, 512, 2000, epsilon=4.0, delta=1e-5).sizes.longest_separation
        117
        >>> Request(100, 200, 0, epsilon=4.0, delta=1e-5)
        Traceback (most recent call last):
        ValueError: batch_size is 200, but it must be a finite number above 0 and at most 100, the number of examples.
        iterations is 0, but it must be an integer of at least 1.
    """

    num_examples: int = field(
        metadata=asked(
            Question(
                "Examples",
                "Number of examples in the dataset. More examples hide each of them better.",
                TASK,
                asked_as="examples",
                whole=True,
                at_least=1,
                page=Page(Slider(100, 1e8, whole=True), most=10**12, more=False),
            )
        )
    )
    batch_size: float = field(
        metadata=asked(
            Question(
                "Batch size",
                "Expected number of examples in a batch. Larger batches drown the noise, and cost more privacy a step.",
                TASK,
                above=0,
                page=Page(Slider(1, 1e5, whole=True), more=False),
            )
        )
    )
    iterations: int = field(
        metadata=asked(
            Question(
                "Iterations",
                "Number of training steps.",
                TASK,
                whole=True,
                at_least=1,
                page=Page(Slider(10, 20_000, whole=True), most=200_000, more=False),
            )
        )
    )
    epsilon: float = field(
        metadata=asked(
            Question(
                "Epsilon (ε)",
                "Privacy budget. At most e^ε times the odds for anyone who guesses whether an example was there.",
                BUDGET,
                above=0,
                page=Page(Slider(0.1, 32), most=100, more=False),
            )
        )
    )
    delta: float = field(
        metadata=asked(
            Question(
                "Delta (δ)",
                "The probability that the bound by ε fails. It should be well below one over the number of examples.",
                BUDGET,
                above=0,
                below=MOST_DELTA,
                page=Page(Slider(1e-12, 1e-2, digits=1), least=1e-30, more=False),
            )
        )
    )
    _: KW_ONLY
    trials: float | None = field(
        default=None,
        metadata=asked(
            Question(
                "Runs tried",
                "About how many runs are tried, of which only the best is released: the budget is for all of them. By "
                "default it is for one run.",
                BUDGET,
                at_least=1,
                at_most=1e6,
            )
        ),
    )
    law: str | None = field(
        default=None,
        metadata=asked(
            Question(
                "Distribution of the runs tried",
                "How the number of runs that are tried is distributed, with --trials. By default it is geometric.",
                BUDGET,
                choices=_laws,
            )
        ),
    )
    model_size: int | None = field(
        default=None,
        metadata=asked(
            Question(
                "Model size",
                "Number of trained parameters: it limits the bands by the memory that noise takes, and sizes the "
                "reserve for rounding. By default neither is limited, and the reserve is for 1e10 released values.",
                TASK,
                whole=True,
                at_least=1,
                page=Page(Slider(1e3, 1e11, whole=True), most=10**13, more=False),
            )
        ),
    )
    user_bound: int = field(
        default=1,
        metadata=asked(
            Question(
                "Examples per user",
                "Most examples of one user. The user is protected with all of them; with 1, each example is.",
                TASK,
                whole=True,
                at_least=1,
                page=Page(Slider(1, 64, whole=True), most=1000),
            )
        ),
    )
    max_batch_size: int | None = field(
        default=None,
        metadata=asked(
            Question(
                "Largest batch",
                "Truncate larger batches to this size, and pad smaller ones. By default no batch is truncated.",
                TASK,
                whole=True,
                at_least=1,
                at_most=_MOST_TRUNCATED,
                page=Page(Slider(1, 1e6, whole=True)),
            )
        ),
    )
    max_bands: int = field(
        default=64,
        metadata=asked(
            Question(
                "Most bands",
                "Most diagonals of the strategy matrix: for how many steps noise is correlated.",
                SEARCH,
                whole=True,
                at_least=1,
                page=Page(Slider(1, 1024, whole=True, powers=True), most=1024),
            )
        ),
    )
    min_sep: int | None = field(
        default=None,
        metadata=asked(
            Question(
                "Separation of b-min-sep",
                "Fewest iterations from one participation of an example to its next. By default several are tried.",
                SEARCH,
                whole=True,
                at_least=1,
                page=Page(Slider(1, 1024, whole=True, powers=True)),
            )
        ),
    )
    workload: "Workload" = field(default_factory=_prefix_sums)
    schemes: Sequence[str] = field(
        default_factory=_planned,
        metadata=asked(
            Question(
                "Schemes to try",
                "How batches are sampled. By default all schemes are tried; give several to try several.",
                SEARCH,
                choices=_planned,
                several=True,
                flags=("--scheme",),
                page=Page(),
            )
        ),
    )
    noise_memory: int = field(
        default=DEFAULT_NOISE_MEMORY,
        metadata=asked(
            Question(
                "Noise memory",
                "Most memory for past noise: in bytes, or on the command line in GiB.",
                SEARCH,
                whole=True,
                at_least=1,
                unit=1 << 30,
            )
        ),
    )
    tune: bool = field(
        default=True, metadata=asked(Question("Tuning", "Tune the strategy to the sampling.", SEARCH, switch=True))
    )
    estimate: bool = field(
        default=False,
        metadata=asked(
            Question(
                "Estimate",
                "Only estimate: an answer in seconds, without a certificate. Do not train with it.",
                SEARCH,
                switch=True,
                flags=("--estimate",),
            )
        ),
    )
    graph: "AttributionGraph | None" = field(default=None, repr=False, compare=False)
    attempts: int = 1

    def __post_init__(self) -> None:
        good: set[str] = set()

        def check(one: Field[Any]) -> None:
            question, value = question_of(one), getattr(self, one.name)
            if question is not None and not question.switch and not (value is None and one.default is None):
                object.__setattr__(self, one.name, question.check(one.name, value, **self._limits(one.name, good)))
            good.add(one.name)

        validate.all_of(
            *(partial(check, one) for one in fields(self)),
            lambda: self._check_workload(good),
            lambda: self._check_graph(good),
            lambda: self._check_separation(good),
        )

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> "Request":
        """Return the request with these values, among which those of a workload stand by themselves.

        >>> numbers = {"num_examples": 100, "batch_size": 10, "iterations": 20, "epsilon": 1.0, "delta": 1e-3}
        >>> Request.of(numbers | {"momentum": 0.9}).workload.name
        'SGD with momentum 0.9'
        """
        from minsep.strategy import Workload

        of_workload = {name: value for name, value in values.items() if name in WORKLOAD}
        others = {name: value for name, value in values.items() if name not in WORKLOAD}
        made: list[Any] = [Workload()]
        validate.all_of(
            lambda: made.append(Workload(**of_workload)),
            lambda: made.append(cls(**others, workload=made[-1])),
        )
        request: Request = made[-1]
        return request

    @property
    def values(self) -> dict[str, Any]:
        """The values of all questions, by field: what `of` makes the same request from."""
        return {name: getattr(self.workload if name in WORKLOAD else self, name) for name in questions()}

    @property
    def fields(self) -> dict[str, Any]:
        """All fields by name: what `Request` makes the same request from, and what a journal compares."""
        return {one.name: getattr(self, one.name) for one in fields(self)}

    @cached_property
    def sizes(self) -> "Sizes":
        """What schemes are made from."""
        from minsep.participation import Sizes

        return Sizes(
            self.num_examples,
            self.batch_size,
            self.iterations,
            self.max_batch_size is not None,
            self.user_bound,
            self.graph,
        )

    @property
    def truncation(self) -> "Truncation | None":
        """The truncation of large batches, if there is one."""
        from minsep.participation import Truncation

        return None if self.max_batch_size is None else Truncation(self.max_batch_size, self.num_examples)

    @property
    def budget(self) -> Budget:
        """What is promised."""
        return Budget(self.epsilon, self.delta)

    @cached_property
    def tuned(self) -> "TunedBudget | None":
        """The budget of the best of several runs, if it is asked for that."""
        from minsep.accounting import TunedBudget, trials_of

        return None if self.trials is None else TunedBudget(self.budget, trials_of(self.trials, self.law or _USUAL_LAW))

    def at(self, epsilon: float) -> "Request":
        """Return the same request for one run with another epsilon.

        Args:
            epsilon: The epsilon.
        """
        return replace(self, epsilon=epsilon, trials=None)

    def warn_of_delta(self) -> None:
        """Warn if delta is too large for so many examples, or users where they are known."""
        if self.graph is None:
            warn_of_delta(self.delta, self.num_examples)
        else:
            warn_of_delta(self.delta, self.graph.num_users, "users")

    @property
    def protected(self) -> str:
        """Whose privacy is planned for, in words: nothing where it is that of examples."""
        if self.user_bound == 1:
            return "" if self.graph is None else " for users with one example each"
        return f" for users with at most {self.user_bound} examples each"

    def _limits(self, name: str, good: Container[str]) -> dict[str, Any]:
        """Return the bounds of a field that depend on other ones, as far as those are good."""
        if name == "batch_size" and "num_examples" in good:
            return {"at_most": self.num_examples, "most_is": "the number of examples"}
        if name == "max_batch_size" and "batch_size" in good:
            return {"at_least": math.ceil(self.batch_size)}
        if name == "min_sep" and "num_examples" in good and "batch_size" in good:
            return {"at_most": max(self.sizes.longest_separation, 1), "most_is": "the iterations of an epoch"}
        return {}

    def _check_workload(self, good: Container[str]) -> None:
        from minsep.strategy import Workload

        if not isinstance(self.workload, Workload):
            raise ValueError(f"workload is {self.workload!r}, but it must be a minsep.Workload.")
        if "iterations" in good:
            validate.integer(iterations=self.iterations, at_most=self.workload.most_iterations)

    def _check_graph(self, good: Container[str]) -> None:
        from minsep.attribution import AttributionGraph

        if self.graph is None:
            return
        if not isinstance(self.graph, AttributionGraph):
            raise ValueError(f"graph is {self.graph!r}, but it must be an AttributionGraph such as from_lists gives.")
        if self.num_examples != self.graph.num_examples:
            raise ValueError(
                f"num_examples is {self.num_examples!r}, but the graph has {self.graph.num_examples:,} examples."
            )
        if "user_bound" in good:
            self.graph.check_user_bound(self.user_bound)

    def _check_separation(self, good: Container[str]) -> None:
        from minsep.participation import families, offered

        known = families()
        if self.min_sep is None or "schemes" not in good or any(known[kind].takes_min_sep for kind in self.schemes):
            return
        kinds = " or ".join(kind for kind in offered() if known[kind].takes_min_sep)
        raise ValueError(f"min_sep is {self.min_sep}, but {kinds} is not among the schemes to try: leave it out.")


def questions() -> dict[str, Question]:
    """Return all questions by field, those of a workload in the place of the field `workload`.

    >>> list(questions())[:3]
    ['num_examples', 'batch_size', 'iterations']
    """
    found: dict[str, Question] = {}
    for one in fields(Request):
        question = question_of(one)
        found |= {one.name: question} if question is not None else WORKLOAD if one.name == "workload" else {}
    return found


def default_of(name: str) -> Any:
    """Return the default of a question: `MISSING` if it must be answered, and None if leaving it out says enough.

    >>> default_of("max_bands"), default_of("momentum")
    (64, None)
    """
    if name in WORKLOAD:
        return None
    (one,) = (one for one in fields(Request) if one.name == name)
    return one.default if one.default_factory is MISSING else None


def with_questions(docstring: str) -> str:
    """Return a docstring with the questions of a request at the head of its parameters.

    >>> print(with_questions("Args:\\n    seed: A number.").partition("batch_size")[0])
    Args:
        num_examples: Number of examples in the dataset. More examples hide each of them better.
    <BLANKLINE>
    """
    asked = (f"{name}: {one.help}" for name, one in questions().items() if name not in WORKLOAD)
    entries = [fill(entry, _WIDTH, initial_indent=" " * 4, subsequent_indent=" " * 8) for entry in asked]
    return docstring.replace("Args:", "\n".join(["Args:", *entries]), 1)
