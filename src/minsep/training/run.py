"""What a private run keeps besides its model in any framework: its batches, its steps and its certificate."""

import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from functools import wraps
from typing import TYPE_CHECKING, Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from minsep.core import validation as validate
from minsep.core.state import State, Turns, Uncopyable, check_process, envelope
from minsep.mechanism import Mechanism
from minsep.noise.grid import LEAST_CLIP_NORM, MOST_CLIP_NORM
from minsep.randomness import Key
from minsep.training.booking import Booking, Resumed
from minsep.training.randomness import ExampleSeeds

# Accounting takes seconds to import, and a run without a certificate does not need it.
if TYPE_CHECKING:
    from minsep.accounting import Accepted, Certificate
    from minsep.ledger import Ledger

Indices = NDArray[np.int64]
Method = TypeVar("Method", bound=Callable[..., Any])

# 2: randomness of single examples under a separate key. 3: noise on a grid. 4: tuples and dicts by name.
_FORMAT = 4

_INTERRUPTED = "The training was interrupted in the middle of a step: resume it from its checkpoint."

# Gradients are clipped below the clip norm by this fraction, more than rounding changes a norm (docs/rounding.md).
CLIP_MARGIN = 2.0**-14


class PrivateRun(Uncopyable):
    """The batches of a mechanism and the current step of a run. Every batch is trained on once, in order.

    An interrupted step cannot be continued.

    Args:
        mechanism: The mechanism that provides batches and noise.
        num_examples: Size of the dataset.
        clip_norm: Bound on the norm of the gradient of one example.
        expected_batch: Public divisor of the sums. None is the expected batch size of the sampling scheme.
        certificate: A certificate, which must be for this mechanism and must have passed, or have been accepted
            already. None is a run without a certificate.
        verify: Whether to draw the samples of the certificate again.
        ledger: The ledger in which `book` books the run, or its file. None books nothing.
        seed: A seed that makes the run reproducible, and is as secret as the data. None takes a key from the operating
            system.
        size: Number of trainable parameters. A certificate must cover the rounding of so many values in each step.
        rank: The number of this process. It takes every `processes`-th example of a batch, starting with example
            `rank`.
        processes: The number of all processes.
    """

    def __init__(
        self,
        mechanism: Mechanism,
        *,
        num_examples: int,
        clip_norm: float,
        expected_batch: float | None,
        certificate: "Certificate | Accepted | None",
        verify: bool,
        ledger: "Ledger | Resumed | str | os.PathLike[str] | None" = None,
        seed: int | None,
        size: int,
        rank: int = 0,
        processes: int = 1,
    ) -> None:
        if not isinstance(mechanism, Mechanism):
            raise ValueError(f"mechanism is {mechanism!r}, but it must be a minsep.Mechanism.")
        self.mechanism = mechanism
        self.clip_norm = check_clip_norm(clip_norm)
        if expected_batch is None:
            expected_batch = mechanism.scheme.expected_batch_size(num_examples)
        self.expected_batch = validate.real(expected_batch=expected_batch, above=0)
        self._verify, self._size = verify, size
        if certificate is None and verify:
            raise ValueError("verify is True, but there is no certificate to verify: pass one, or omit verify.")
        self.certificate = None if certificate is None else self._checked(certificate)
        self.steps = 0
        self.is_first = rank == 0
        self._share = slice(rank, None, processes)
        self._stream = mechanism.batches(num_examples, seed=seed)
        verified = verify or _is_accepted(certificate)
        self._booking = Booking(ledger, self.certificate, self.num_examples, not verified)
        self.example_seeds = ExampleSeeds(Key.of(seed).derive("examples"))
        self._waiting: deque[Indices] = deque()
        self._readers = 0
        self._interrupted = False
        self._process = os.getpid()
        self._turns = Turns()

    @property
    def turn(self) -> AbstractContextManager[Any]:
        """What a thread holds while it draws a batch, takes a step or saves the run."""
        return self._turns.lock

    @property
    def num_examples(self) -> int:
        """Size of the dataset."""
        return self._stream.num_examples

    def book(self) -> None:
        """Book the run in its ledger, if it has one, before its first batch. One that cannot be booked is refused."""
        self._booking.book(self.certificate)

    def book_resumed(self) -> None:
        """Check that a run that resumes is booked in its ledger, if it was given one."""
        self._booking.book_resumed(self.certificate)

    def identity(self, kind: str, **more: object) -> State:
        """Return what a checkpoint of this run must match.

        Args:
            kind: Kind of training, with the name of the framework.
            more: Everything else that must match, in plain data.
        """
        return envelope(
            kind,
            self.mechanism.fingerprint,
            format=_FORMAT,
            num_examples=self.num_examples,
            clip_norm=self.clip_norm,
            expected_batch=self.expected_batch,
            **more,
        )

    def batches(self) -> Iterator[Indices]:
        """Yield the remaining batches. Each must be trained on before the next is drawn."""
        while (batch := self._next_batch()) is not None:
            yield batch

    def read_ahead(self) -> Iterator[tuple[int, list[int]]]:
        """Yield (step, indices) of the remaining steps, for a loader that draws several batches before a step.

        Batches that an earlier reader drew but that were not trained on are drawn again. From then on, the earlier
        reader is refused.
        """
        with self.turn:
            self._readers += 1
            reader = self._readers
            self._waiting.clear()
            if self._stream.position != self.steps:
                self._stream.load_state_dict({**self._stream.state_dict(), "position": self.steps})
        while True:
            with self.turn:
                if reader != self._readers:
                    raise RuntimeError("A newer loader was started: take the batches only from that one.")
                step, batch = self._stream.position, self._draw()
            if batch is None:
                return
            yield step, batch.tolist()

    @property
    def remaining(self) -> int:
        """Number of steps that remain."""
        return self._stream.iterations - self.steps

    def expect(self, examples: int) -> Indices:
        """Return the indices of the examples of the next step. The step may still be repeated.

        Args:
            examples: How many examples the step was given. It must be the size of the batch.
        """
        check_process(self._process)
        if self._interrupted:
            raise RuntimeError(_INTERRUPTED)
        if not self._waiting:
            raise RuntimeError("No batch was drawn for this step: take the examples from batches().")
        indices = self._waiting[0]
        if examples != indices.size:
            raise ValueError(
                f"Step {self.steps + 1} was given {examples} examples, but its batch has {indices.size}: pass all "
                "examples of the batch, and no others."
            )
        return indices

    def interrupt(self) -> None:
        """End the run: neither may its step be repeated, nor its state be saved."""
        self._interrupted = True

    @contextmanager
    def step(self, examples: int) -> Iterator[Indices]:
        """Enter the next step, and yield the indices of its examples. From here on it cannot be repeated.

        Args:
            examples: How many examples the step was given. It must be the size of the batch.
        """
        indices = self.expect(examples)
        self._interrupted = True
        yield indices
        self._waiting.popleft()
        self.steps += 1
        self._interrupted = False

    def state_dict(self) -> State:
        """Return the state of the run after its last step. Batches that were read ahead are not part of it."""
        if self._interrupted:
            raise RuntimeError(_INTERRUPTED)
        return {
            "batches": {**self._stream.state_dict(), "position": self.steps},
            "examples": self.example_seeds.key.hex(),
            "certificate": None if self.certificate is None else self.certificate.to_json(),
            "booking": self._booking.identifier,
        }

    def load_state_dict(self, state: State) -> None:
        """Continue as the run that gave this state would.

        Args:
            state: What `state_dict` returned. A certificate in it is checked again.
        """
        certificate = None if state["certificate"] is None else _read_certificate(state["certificate"])
        if certificate is not None and certificate != self.certificate:
            certificate = self._checked(certificate)
        self._stream.load_state_dict(state["batches"])
        self.example_seeds = ExampleSeeds(Key.from_hex(state["examples"]))
        self.certificate = certificate or self.certificate
        self._booking.identifier = state.get("booking")
        self.steps = self._stream.position
        self._waiting.clear()
        self._interrupted = False
        self._process = os.getpid()

    def _checked(self, certificate: "Certificate | Accepted") -> "Certificate":
        """Return the certificate of this run; one that no run of this mechanism and size may rely on is refused."""
        from minsep.accounting import Accepted, Certificate, accept_certificate

        given = certificate.certificate if isinstance(certificate, Accepted) else certificate
        if not isinstance(given, Certificate):
            raise ValueError(f"certificate is {given!r}, but it must be a minsep.Certificate.")
        check_covers(given, self.mechanism, self._size)
        if self._verify or not isinstance(certificate, Accepted):
            accept_certificate(given, verify=self._verify, accept_assumption=True)
        return given

    def _next_batch(self) -> Indices | None:
        with self.turn:
            if self._interrupted:
                raise RuntimeError(_INTERRUPTED)
            if self._waiting:
                raise RuntimeError(
                    f"The batch of step {self.steps + 1} was drawn but not trained on: call step() with its examples "
                    "before the next batch is drawn. If the loop was left in between, resume the training from its "
                    "checkpoint."
                )
            return self._draw()

    def _draw(self) -> Indices | None:
        batch = next(self._stream, None)
        if batch is None:
            return None
        mine: Indices = batch[self._share]
        self._waiting.append(mine)
        return mine


def in_turn(method: Method) -> Method:
    """Return a method of a training that one thread at a time runs: a step has a batch and a row of noise of its own.

    Args:
        method: The method of a training, whose `_run` is a `PrivateRun`.
    """

    @wraps(method)
    def alone(self: Any, *arguments: Any, **options: Any) -> Any:
        with self._run.turn:
            return method(self, *arguments, **options)

    return cast(Method, alone)


def check_clip_norm(clip_norm: float) -> float:
    """Return the clip norm as a number.

    Args:
        clip_norm: The clip norm. It must be finite, and large enough for norms not to underflow in single precision.
    """
    return validate.real(clip_norm=clip_norm, above=LEAST_CLIP_NORM, at_most=MOST_CLIP_NORM)


def check_covers(certificate: "Certificate", mechanism: Mechanism, size: int) -> None:
    """Refuse a certificate that is for another mechanism, or that does not cover so large a model.

    Args:
        certificate: The certificate.
        mechanism: The mechanism that is run.
        size: Number of trainable parameters.
    """
    if _plain(certificate.description) != _plain(mechanism.describe()):
        raise ValueError("certificate is for another mechanism: certify the mechanism that is run.")
    released = size * mechanism.iterations
    if released > certificate.reserve.values:
        raise ValueError(
            f"certificate keeps a reserve for rounding in a run that releases {certificate.reserve.values:.4g} values, "
            f"but this one releases {released:.4g} ({size:,} parameters, {mechanism.iterations:,} times): certify it "
            f"with model_size={size}."
        )
    if certificate.unit == "user" and getattr(mechanism.scheme, "graph", None) is None:
        raise ValueError(
            "certificate protects users, but the scheme has no graph: use from_certificate with graph, so that no user "
            "has more examples than were accounted for."
        )


def refuse_gradient(step: int) -> ValueError:
    """Return the error for a gradient that is not finite: clipping cannot bound it.

    Args:
        step: Number of the step, from 1.
    """
    return ValueError(
        f"Step {step} has an example whose gradient is not finite: nothing of the step was released. Fix the model or "
        "the data and start a new run, or resume this one if nothing that it did after its checkpoint was released."
    )


def _read_certificate(text: str) -> "Certificate":
    from minsep.accounting import Certificate

    return Certificate.from_json(text)


def _is_accepted(certificate: "Certificate | Accepted | None") -> bool:
    if certificate is None:
        return False
    from minsep.accounting import Accepted

    return isinstance(certificate, Accepted)


def _plain(description: Any) -> Any:
    return json.loads(json.dumps(description))
