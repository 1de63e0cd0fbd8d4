"""The base of training in all frameworks: the state of the run, and checkpoints from which it resumes."""

import os
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from minsep.core import validation as validate
from minsep.core.state import State
from minsep.mechanism import Mechanism
from minsep.training.booking import Resumed
from minsep.training.certified import certified_mechanism
from minsep.training.checkpoint import Array, load_checkpoint, save_checkpoint
from minsep.training.progress import with_progress
from minsep.training.run import Indices, PrivateRun, in_turn

if TYPE_CHECKING:
    from minsep.accounting import Certificate
    from minsep.attribution import AttributionGraph


class Training(ABC):
    """A model in private training, in any framework.

    An adapter of a framework sets `_run` in its constructor, and implements `step` and the methods for checkpoints: the
    identity, the content, the step of the noise in a content, and the conversion of arrays to NumPy.
    """

    _run: PrivateRun

    @classmethod
    def from_certificate(
        cls,
        certificate: "Certificate | str | os.PathLike[str]",
        *arguments: Any,
        verify: bool = True,
        graph: "AttributionGraph | None" = None,
        accept_assumption: bool = False,
        accept_other_num_examples: bool = False,
        **options: Any,
    ) -> Self:
        """Return the training whose mechanism is that of a certificate: its scheme, strategy, noise and truncation.

        Args:
            certificate: The certificate, or the file that holds it. One that did not pass is refused.
            arguments: The positional arguments of the constructor before `mechanism`.
            verify: Whether to draw the samples of the certificate again, which takes as long as `minsep.verify`. A
                certificate that does not hold is refused. `verify=False` skips this check.
            graph: The graph that says which examples belong to which users. It is required if the certificate protects
                users, and is refused if a user has more examples than the certificate allows.
            accept_assumption: Whether to accept a conditional certificate, which rests on something that is not proven.
            accept_other_num_examples: Whether to accept a certificate that was made for another number of examples. The
                guarantee is the same, but batches have another size than was planned.
            options: The other arguments of the constructor, such as `num_examples`, `clip_norm` and `ledger`. If there
                is a graph, `num_examples` must be its number of examples. If batches are truncated, it must match the
                truncation.
        """
        accepted, mechanism = certified_mechanism(
            certificate,
            options.get("num_examples"),
            verify=verify,
            graph=graph,
            accept_assumption=accept_assumption,
            accept_other_num_examples=accept_other_num_examples,
        )
        return cls(*(*arguments, mechanism), **{**options, "certificate": accepted})

    @property
    def steps(self) -> int:
        """Number of steps taken."""
        return self._run.steps

    @property
    def num_examples(self) -> int:
        """Size of the dataset."""
        return self._run.num_examples

    @property
    def mechanism(self) -> Mechanism:
        """The mechanism that provides the batches and the noise."""
        return self._run.mechanism

    @property
    def certificate(self) -> "Certificate | None":
        """The certificate of the mechanism's privacy, if one was given."""
        return self._run.certificate

    def batches(self, *, progress: bool = False) -> Iterator[Indices]:
        """Yield the indices of the examples of each remaining step. Call `step` once for each of them.

        Args:
            progress: Whether to tell on standard error how many steps are taken and how long the others still take: in
                one line in a terminal, and elsewhere every ten seconds. It does not change the run. With several
                processes, the first one tells.
        """
        batches = self._run.batches()
        if not progress or not self._run.is_first:
            return batches
        if advice := self._advice():
            print(advice, file=sys.stderr)
        return with_progress(batches, self.steps, self.mechanism.iterations)

    def _advice(self) -> str:
        """Return a sentence about what slows the run down on this machine, or nothing."""
        return ""

    def seeds(self, indices: Indices) -> NDArray[np.uint32]:
        """Return seeds for the random draws of the examples in the next step: one row of two words per example.

        - A seed is a function of (secret key, step, index), so the draws of an example reveal nothing about the others.
        - A row seeds `np.random.default_rng(row)`. It is also a key for `jax.random` with threefry, the default. Under
          `vmap`, draws with "rbg" keys depend on the other examples.

        Args:
            indices: The examples, by their indices in the dataset.
        """
        return self._run.example_seeds.words(self.steps, indices)

    @abstractmethod
    def step(self, inputs: Any, targets: Any) -> None:
        """Train on the examples of the next batch: all of them, and no others.

        Args:
            inputs: An array, or a tree of arrays. Their first dimension counts the examples, in the order of the batch.
            targets: An array, or a tree of arrays, with the same first dimension.
        """

    @in_turn
    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model, optimiser, batches, noise and certificate to one file that only its owner can read.

        The file holds the keys of batches and noise. It is as secret as the data.

        Args:
            path: The file. An interrupted write leaves an existing file of that name unchanged.
        """
        content = self._content()
        if content is not None:
            save_checkpoint(path, self._identity(), {"run": self._run.state_dict(), **content}, self._encode)

    @classmethod
    def resume(cls, path: str | os.PathLike[str], *arguments: Any, **options: Any) -> Self:
        """Return the training that wrote a checkpoint. It continues with bit-identical results.

        - A checkpoint of another mechanism, number of examples, clip norm, expected batch or model is refused, and the
          error names the difference.
        - With `ledger`, nothing new is booked: the checkpoint holds the identifier of the entry.
        - The noise is that of the saved run, and so are the random draws of the examples (augmentation, dropout). If
          data, loss, model, schedule or a setting of the optimiser have changed, never release anything that the saved
          run produced after the checkpoint: the difference of the two runs holds no noise.

        Args:
            path: The file that `save` wrote.
            arguments: The positional arguments of the constructor, the same as in the saved run.
            options: The other arguments of the constructor, the same as in the saved run.
        """
        if options.get("ledger") is not None:
            options = {**options, "ledger": Resumed(options["ledger"])}
        training = cls(*arguments, **options)
        content = load_checkpoint(path, training._identity(), training._decode)
        try:
            training._continue(content)
        except (ValueError, MemoryError):
            raise
        except Exception as error:  # whatever a damaged content may lead to
            reason = validate.shortened(str(error))
            raise ValueError(f"The checkpoint {os.fspath(path)!r} does not fit this training: {reason}") from None
        training._in_ledger(training._run.book_resumed)
        return training

    def _in_ledger(self, book: Callable[[], None]) -> None:
        """Book the run: in one of several processes."""
        book()

    def _continue(self, content: State) -> None:
        self._run.load_state_dict(content["run"])
        position = self._noise_position(content)
        if position != self.steps:
            raise ValueError(f"The checkpoint is of step {self.steps}, but its noise is of step {position}.")
        self._restore(content)

    @abstractmethod
    def _identity(self) -> State:
        """Return what a checkpoint of this training must match, in plain data."""

    @abstractmethod
    def _content(self) -> State | None:
        """Return what restores model, optimiser and noise; None in a process that does not write the file."""

    @abstractmethod
    def _noise_position(self, content: State) -> int:
        """Return the number of steps that the noise of a content was drawn for."""

    @abstractmethod
    def _restore(self, content: State) -> None:
        """Set model, optimiser and noise to those of a content."""

    @staticmethod
    @abstractmethod
    def _encode(value: Any) -> tuple[Array, str] | None:
        """Return an array of the framework as a NumPy array and the name of its dtype; None for any other value."""

    @staticmethod
    @abstractmethod
    def _decode(array: Array, name: str) -> Any:
        """Return the array of the framework for a NumPy array and the name of a dtype."""
