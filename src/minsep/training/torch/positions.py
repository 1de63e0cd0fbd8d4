"""Whether the bits of an example's gradient depend on its position in a micro-batch, and a way in which they do not.

On some processors they do: matrix products round the rows of a block, and those that are left over, in different
orders. Near a kink of the model one bit may change all of a gradient, and one example moves the others of its batch to
other positions. So made-up examples are run at two positions each, and a way of computing is used only if every bit
agrees.

The choice must not depend on private values, or an example could change how all others are rounded. It is a function of
shapes, dtypes, settings of torch and frozen weights alone: examples and trainable parameters are made up.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace
from hashlib import blake2b
from itertools import product
from typing import Any

import torch
from torch import Tensor

from minsep.training.torch.digests import digests_of_rows
from minsep.training.torch.examples import Examples, each, signature
from minsep.training.torch.methods import Gradients, Method, OneByOne, Seeds, Vmapped
from minsep.training.torch.objective import Objective

# What vectors and blocks leave over is a few entries, which may agree by chance: such sizes are run more often, and
# models with few entries too.
_WHOLE = 16
_FEW_ENTRIES = 1 << 12
_DRAWS = {(True, True): 4, (True, False): 16, (False, True): 2, (False, False): 4}  # by (few entries, no rest)
_GOOD_SIZES = (8, 16, 32)  # and multiples
_MOST_ENTRIES_OF_VIEWS = 1 << 26  # of weights that some kernels copy for each example: 256 MiB

# Values that examples may need: probabilities and logarithms need positive numbers, masks and classes some integers.
_FLOATS = ("normal", "positive")
_INTEGERS = ("bits", "ones", "zeros")
_KINDS = tuple(product(_FLOATS, _INTEGERS))


Arguments = tuple[Examples, Examples, Seeds]
"""What a method is given: inputs, targets and seeds of examples."""


class NotRunError(RuntimeError):
    """A method cannot run made-up examples.

    Args:
        reason: Why.
        alone: Made-up examples that run one by one, as arguments of a method; None if there are none.
    """

    def __init__(self, reason: Exception, alone: Arguments | None) -> None:
        super().__init__(str(reason))
        self.reason, self.alone = reason, alone


@dataclass(frozen=True)
class Way:
    """A way to compute gradients.

    Args:
        method: The method.
        size: The number of examples in a micro-batch.
        note: A sentence for the user, if it is another size than the one asked for.
    """

    method: Method
    size: int
    note: str = ""


class Positions:
    """Finds ways of computing in which the bits of a gradient do not depend on the position of its example.

    Args:
        objective: The model and its loss.
        layers: The parameters of each layer whose norms are taken together.
    """

    def __init__(self, objective: Objective, layers: list[list[str]]) -> None:
        self._objective, self._layers = objective, layers
        self._entries = sum(parameter.numel() for parameter in objective.model.parameters())
        self._ways: dict[Any, Way] = {}

    def way(self, asked: Way, inputs: Examples, targets: Examples) -> Way:
        """Return a way in which bits agree: the one asked for if possible, and single examples otherwise.

        Each way is tried once for examples of these shapes and this number of threads. `NotRunError` says that made-up
        examples cannot run.

        Args:
            asked: The method and the size that are preferred.
            inputs: Examples. Their values are not used.
            targets: Their targets.
        """
        if asked.size == 1 or isinstance(asked.method, OneByOne):
            return asked
        key = (asked, *self._conditions(inputs, targets))
        if key not in self._ways:
            kind = self._kind(asked, inputs, targets)
            way = next(way for way in self._candidates(asked) if self._agrees(way, kind, inputs, targets))
            self._ways[key] = replace(way, note=self._note(asked, way))
        return self._ways[key]

    def one_by_one(self, asked: Way, inputs: Examples, targets: Examples, reason: Exception) -> Way:
        """Take micro-batches of one example from now on, where this way would be asked for.

        Args:
            asked: The method and the size that are preferred.
            inputs: Examples. Their values are not used.
            targets: Their targets.
            reason: Why made-up examples cannot run.
        """
        words = str(reason).strip().split("\n")[0].rstrip(".")
        note = (
            "minsep takes examples one by one, which is slower. To see whether gradients depend on the places of "
            f"examples in a micro-batch, it runs made-up examples, which the model or its loss does not take: {words}."
        )
        way = self._ways[(asked, *self._conditions(inputs, targets))] = Way(asked.method, 1, note)
        return way

    def _note(self, asked: Way, chosen: Way) -> str:
        if chosen.size == asked.size:
            return ""
        what = "one by one, which is slower" if chosen.size == 1 else f"{chosen.size} at a time"
        where, advice = "processor", ""
        if self._objective.device.type != "cpu":
            where, advice = "device", " torch.use_deterministic_algorithms(True) may help."
        return (
            f"On this {where}, the last bits of gradients depend on the places of examples in a micro-batch of "
            f"{asked.size}, so that one could affect others. minsep takes examples {what}.{advice}"
        )

    def _conditions(self, inputs: Examples, targets: Examples) -> tuple[Any, ...]:
        """Return all that decides which kernels run."""
        device = self._objective.device.type
        return (
            signature(each(lambda tensor: tensor, inputs)),
            signature(each(lambda tensor: tensor, targets)),
            tuple(layer.training for layer in self._objective.model.modules()),
            torch.is_autocast_enabled(device) and torch.get_autocast_dtype(device),
            torch.get_num_threads(),
            torch.get_float32_matmul_precision(),
        )

    def _candidates(self, asked: Way) -> Iterator[Way]:
        """Yield ways, the best one first. The last one has a single position."""
        larger = dict.fromkeys(-(-asked.size // good) * good for good in _GOOD_SIZES)
        smaller = [1 << exponent for exponent in reversed(range(1, (asked.size - 1).bit_length()))]
        for size in (asked.size, *(size for size in larger if asked.size < size <= 2 * asked.size), *smaller):
            yield Way(asked.method, size)
            if size * self._entries <= _MOST_ENTRIES_OF_VIEWS:
                yield Way(Vmapped(self._objective, apart=True), size)
        yield Way(asked.method, 1)

    def _kind(self, way: Way, inputs: Examples, targets: Examples) -> tuple[str, str]:
        """Return a kind of made-up values with which the model runs, and has gradients that are not all zero."""
        errors: list[Exception] = []
        for kind in _KINDS:
            try:
                with self._objective.standing_in(self._parameters(kind, 0)):
                    norms = self._norms(way.method(*self._examples(kind, 0, way.size, inputs, targets)))
            except Exception as error:  # whatever a model or a loss may raise
                if is_memory(error):
                    raise
                errors.append(error)
                continue
            if bool(norms.isfinite().all()) and bool((norms > 0).any()):
                return kind
        if len(errors) < len(_KINDS):
            raise NotRunError(ValueError("the gradients are zero or not finite"), None)
        raise NotRunError(errors[0], self._alone(inputs, targets))

    def _alone(self, inputs: Examples, targets: Examples) -> Arguments | None:
        """Return a made-up example that runs by itself, if there is one."""
        one_by_one = OneByOne(self._objective)
        for kind in _KINDS:
            examples = self._examples(kind, 0, 1, inputs, targets)
            try:
                one_by_one(*examples)
            except Exception as error:
                if is_memory(error):
                    raise
                continue
            return examples
        return None

    def _agrees(self, way: Way, kind: tuple[str, str], inputs: Examples, targets: Examples) -> bool:
        """Return whether made-up examples have gradients with the same bits at two positions each."""
        if way.size == 1:
            return True
        for draw in range(self._draws(way.size)):
            shift = way.size // 2 if draw % 2 else 1
            here = self._examples(kind, draw, way.size, inputs, targets)
            try:
                with self._objective.standing_in(self._parameters(kind, draw)):
                    bits, of_moved = (self._bits(way.method, examples) for examples in (here, _moved(here, shift)))
            except Exception:  # whatever is raised, this way cannot be gone
                return False
            if not torch.equal(bits, of_moved.roll(-shift, 1)):
                return False
        return True

    def _draws(self, size: int) -> int:
        return _DRAWS[self._objective.size <= _FEW_ENTRIES, size % _WHOLE == 0]

    def _norms(self, gradients: Gradients) -> Tensor:
        # Without the user's autocast, as for examples.
        with torch.autocast(self._objective.device.type, enabled=False):
            norms: Tensor = torch.stack([gradients.norms(names, None) for names in self._layers])
        return norms

    def _bits(self, method: Method, examples: Arguments) -> Tensor:
        """Return the bits of norms, of gradients, and of what the layers return, in a column for each example.

        Gradients alone do not show how outputs are rounded if the loss is piecewise linear, until one is at a kink.
        """
        forward = method if isinstance(method, Vmapped) else Vmapped(self._objective)
        values = torch.stack([digests_of_rows(value) for value in forward.values(*examples)])
        gradients = method(*examples)
        norms = self._norms(gradients)
        with torch.autocast(self._objective.device.type, enabled=False):
            parts = [gradients.bits(names) for names in self._layers]
        bits: Tensor = torch.cat([norms.view(torch.int64), values, *parts])
        return bits

    def _examples(self, kind: tuple[str, str], draw: int, size: int, inputs: Examples, targets: Examples) -> Arguments:
        """Return the arguments of a method for made-up examples."""
        generator = torch.Generator().manual_seed(2 * draw)

        def made_up(tensor: Tensor) -> Tensor:
            return _values(kind, (size, *tensor.shape[1:]), tensor.dtype, generator).to(tensor.device)

        seeds = [blake2b(b"made up %d %d" % (draw, place), digest_size=32).digest() for place in range(size)]
        return each(made_up, inputs), each(made_up, targets), lambda: seeds

    def _parameters(self, kind: tuple[str, str], draw: int) -> dict[str, Tensor]:
        """Return made-up parameters, of a scale at which layers keep the size of what they are given."""
        generator = torch.Generator().manual_seed(2 * draw + 1)

        def made_up(parameter: Tensor) -> Tensor:
            values = _values(kind, parameter.shape, torch.float32, generator)
            columns = values[:1].numel() if values.dim() else 1
            scaled: Tensor = values / max(columns, 1) ** 0.5
            return scaled.to(parameter.device, parameter.dtype)

        return {name: made_up(parameter) for name, parameter in self._objective.parameters.items()}


def _moved(examples: Arguments, shift: int) -> Arguments:
    """Return examples with their seeds, moved by some places. The last ones come first."""
    inputs, targets, seeds = examples
    moved, their_targets = (each(lambda tensor: tensor.roll(shift, 0), tree) for tree in (inputs, targets))
    names = [*seeds()]
    return moved, their_targets, lambda: names[-shift:] + names[:-shift]


def is_memory(error: Exception) -> bool:
    """Return whether an error is for want of memory.

    Args:
        error: The error.
    """
    return isinstance(error, torch.OutOfMemoryError | MemoryError) or "allocate memory" in str(error)


def _values(kind: tuple[str, str], shape: Any, dtype: torch.dtype, generator: torch.Generator) -> Tensor:
    """Return made-up values on the host, other ones for each example if they are not constant."""
    floats, integers = kind
    if dtype.is_floating_point or dtype.is_complex:
        values = (
            torch.randn(shape, generator=generator) if floats == "normal" else torch.rand(shape, generator=generator)
        )
        return values.to(dtype)
    if integers == "bits":
        return torch.randint(2, shape, generator=generator).to(dtype)
    return (torch.ones if integers == "ones" else torch.zeros)(shape, dtype=dtype)
