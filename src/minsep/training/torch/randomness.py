"""Random numbers of examples in PyTorch: in the forward pass of a micro-batch, and in a loader."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any, Self

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import Dataset, IterableDataset

from minsep.training.randomness import ExampleSeeds, numpy_and_python_kept, seed_numpy_and_python
from minsep.training.torch.digests import digests
from minsep.training.torch.processes import refuse_exchange

# Random operations that vmap turns into one whose first dimension is the examples of a micro-batch.
_DRAWN_WITH_EXAMPLES_FIRST = {
    "bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "native_dropout", "normal",
    "normal_", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random_", "uniform_",
}  # fmt: skip
_DRAWN_IN_TURN = "multinomial"  # vmap puts the rows of all examples below each other
_DRAWN_ONE_BY_ONE = "randperm"  # vmap calls it once for each example, in their order
# These have their own generators, whose states cannot be compared.
_DRAWN_BY_OWN_GENERATORS = {"_cudnn_rnn", "miopen_rnn", "_lstm_mps"}


class DrawsOfExamples(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A block in which every example of a micro-batch under `vmap(..., randomness="different")` draws its own numbers.

    The numbers are a function of the example's seed and of how many draws it made before, for dropout and for any other
    random operation of torch. Operations whose numbers cannot be drawn separately for each example are refused.

    Args:
        seeds: Function that returns the seeds of the examples. It is called at the first random operation.
    """

    def __init__(self, seeds: Callable[[], Sequence[bytes]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seeds_when_needed = seeds
        self._seeds: Sequence[bytes] = ()
        self._draws = 0
        self._permutations = 0

    def __enter__(self) -> Self:
        self._before = torch.get_rng_state()
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, kind: Any, *rest: Any) -> None:
        super().__exit__(kind, *rest)  # type: ignore[no-untyped-call]
        if kind is None and not torch.equal(self._before, torch.get_rng_state()):
            raise _refusal("an operation of its own")

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation; if it is random, example by example."""
        kwargs = kwargs or {}
        refuse_exchange(func)
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        _refuse_generator(func, kwargs)
        self._seeds = self._seeds or self._seeds_when_needed()
        name = func.overloadpacket.__name__
        device = _device(args, kwargs)
        before = _state(device)
        if device.type == "cpu" and not torch.equal(before, self._before):
            raise _refusal("an operation of its own")
        try:
            if name == _DRAWN_ONE_BY_ONE:
                turn, place = divmod(self._permutations, len(self._seeds))
                self._permutations += 1
                self._seed(device, place, f"permutation {turn}")
                return func(*args, **kwargs)
            if name in _DRAWN_WITH_EXAMPLES_FIRST or name == _DRAWN_IN_TURN:
                return self._in_parts(func, args, kwargs, device)
            result = func(*args, **kwargs)
            if name in _DRAWN_BY_OWN_GENERATORS or not torch.equal(before, _state(device)):
                raise _refusal(str(func))
            return result
        finally:
            _set_state(device, before)

    def _in_parts(self, func: Any, args: Any, kwargs: Any, device: torch.device) -> Any:
        """Draw for one example after the other, each with its part of the arguments."""
        draw, self._draws = f"draw {self._draws}", self._draws + 1
        count = len(self._seeds)
        tensors = [value for value in args if isinstance(value, Tensor)]
        dimensions = max((value.dim() for value in tensors), default=0)
        in_turn = func.overloadpacket.__name__ == _DRAWN_IN_TURN
        sizes = [len(value) for value in tensors if value.dim() == dimensions > 0]
        sizes += [value[0] for value in args if isinstance(value, list | tuple | torch.Size) and len(value) > 0]
        rows = max(sizes, default=0) // count if in_turn else 1
        if rows == 0 or max(sizes, default=0) != rows * count:
            raise _refusal(str(func))

        def part(value: Any, place: int) -> Any:
            if isinstance(value, Tensor):
                # An argument with fewer dimensions, or with a single row, is the same for all examples.
                own = value.dim() == dimensions and len(value) == rows * count
                return value[place * rows : (place + 1) * rows] if own else value
            if isinstance(value, list | tuple | torch.Size):
                return [1, *value[1:]]
            return value

        results = []
        for place in range(count):
            self._seed(device, place, draw)
            results.append(func(*(part(value, place) for value in args), **kwargs))
        if func.overloadpacket.__name__.endswith("_"):
            return args[0]
        if isinstance(results[0], tuple):
            return tuple(torch.cat(parts) for parts in zip(*results, strict=True))
        return torch.cat(results)

    def _seed(self, device: torch.device, place: int, what: str) -> None:
        seed = int.from_bytes(blake2b(what.encode(), key=self._seeds[place], digest_size=8).digest(), "big")
        if device.type == "cpu":
            torch.default_generator.manual_seed(seed)
        else:
            module = torch.get_device_module(device)
            with module.device(device):
                module.manual_seed(seed)


class SeededExample(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """A block for a single example, which draws from generators that are seeded for it alone.

    Unlike `DrawsOfExamples` it allows every random operation, also in a forward pass that is repeated by checkpointing.
    Generators that examples would share are refused.

    Args:
        seeds: Function that returns the seed of the example, in a list.
    """

    def __init__(self, seeds: Callable[[], Sequence[bytes]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seeds = seeds

    def __enter__(self) -> Self:
        self._kept = torch_kept()
        self._kept.__enter__()
        number = int.from_bytes(blake2b(b"alone", key=self._seeds()[0], digest_size=8).digest(), "big")
        _seed_torch(number)
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *reason: Any) -> None:
        super().__exit__(*reason)  # type: ignore[no-untyped-call]
        self._kept.__exit__(*reason)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, unless it draws from its own generator or exchanges tensors with other processes."""
        kwargs = kwargs or {}
        refuse_exchange(func)
        _refuse_generator(func, kwargs)
        return func(*args, **kwargs)


def _refuse_generator(func: Any, kwargs: Any) -> None:
    if torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is not None:
        raise ValueError(
            f"The model or its loss calls {func} with its own generator, which examples would share: omit the "
            "generator, and every example draws its own numbers."
        )


def _refusal(operation: str) -> ValueError:
    return ValueError(
        f"The model or its loss draws random numbers in {operation}, which cannot draw separately for each example: "
        "use torch.nn.functional.dropout, torch.rand or similar functions, or switch it off."
    )


@contextmanager
def torch_kept() -> Iterator[None]:
    """Restore torch's generators at the end of a block, on the host and on all devices in use."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    with torch.random.fork_rng(devices):
        yield


class SeededItems(Dataset[Any]):
    """The items of a dataset. The generators of torch, NumPy and `random` are seeded before each item is made.

    Args:
        dataset: The dataset. It must have `__getitem__` by index.
        seeds: The seeds of the examples.
        collate: Function that makes a batch of one of each item, in a list of one, with the generators of that item.
            None leaves the items as they are.
    """

    def __init__(
        self, dataset: Dataset[Any], seeds: ExampleSeeds, collate: Callable[[list[Any]], Any] | None = None
    ) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise ValueError(f"dataset is a {type(dataset).__name__}, but it must have __getitem__ by index.")
        self._dataset, self._seeds, self._collate = dataset, seeds, collate

    def __getitems__(self, batch: tuple[int, list[int]]) -> list[Any]:
        """Return the items of a batch.

        Args:
            batch: (step, indices).
        """
        step, indices = batch
        items = []
        with torch_kept(), numpy_and_python_kept():
            for index in indices:
                items.append(self._item(step, index))
            if items and not _same(items[0], self._item(step, indices[0])):
                raise ValueError(
                    f"dataset or its collate_fn returns another item {indices[0]} when asked again: it draws from a "
                    "generator of its own, or remembers other items, which would reveal each other. Draw from torch, "
                    "np.random or random in __getitem__, which are seeded for each item."
                )
        return items

    def _item(self, step: int, index: int) -> Any:
        _seed_all(self._seeds.of(step, index))
        item = self._dataset[index]
        return item if self._collate is None else self._collate([item])


def _same(one: Any, other: Any) -> bool:
    """Return whether two items have the same tensors, arrays, numbers and text. Other objects are not compared."""
    if type(one) is not type(other):
        return False
    if isinstance(one, Tensor):
        return one.shape == other.shape and digests([one])[0] == digests([other])[0]
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_same(one[name], other[name]) for name in one)
    if isinstance(one, list | tuple):
        return len(one) == len(other) and all(map(_same, one, other))
    if isinstance(one, np.ndarray | np.generic) and not one.dtype.hasobject:
        return bool(one.shape == other.shape and one.tobytes() == other.tobytes())
    return not isinstance(one, int | float | complex | str | bytes) or repr(one) == repr(other)


def _seed_all(seed: bytes) -> None:
    _seed_torch(int.from_bytes(seed[:8], "big"))
    seed_numpy_and_python(seed)


def _seed_torch(number: int) -> None:
    torch.default_generator.manual_seed(number)
    if torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        torch.cuda.manual_seed_all(number)


def _device(args: Any, kwargs: Any) -> torch.device:
    tensor = next((value for value in args if isinstance(value, Tensor)), None)
    if tensor is not None:
        return tensor.device
    return torch.device(kwargs.get("device") or "cpu")


def _state(device: torch.device) -> Tensor:
    if device.type == "cpu":
        return torch.get_rng_state()
    state: Tensor = torch.get_device_module(device).get_rng_state(device)
    return state


def _set_state(device: torch.device, state: Tensor) -> None:
    if device.type == "cpu":
        torch.set_rng_state(state)
    else:
        torch.get_device_module(device).set_rng_state(state, device)
