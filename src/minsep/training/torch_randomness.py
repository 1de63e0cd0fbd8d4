"""Randomness of examples in PyTorch: in the forward pass of a micro-batch, and on their way through a loader."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from hashlib import blake2b
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.data import Dataset, IterableDataset

from minsep.training.randomness import ExampleSeeds, numpy_and_python_kept, seed_numpy_and_python

# Random operations of which vmap makes one with the examples of a micro-batch in its first dimension.
_BATCHED = {
    "bernoulli", "bernoulli_", "cauchy_", "exponential_", "geometric_", "log_normal_", "multinomial", "native_dropout",
    "normal", "normal_", "poisson", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "random_",
    "uniform_",
}  # fmt: skip
_ONE_BY_ONE = "randperm"  # vmap calls it once for each example, in their order


class DrawsOfExamples(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Within it, every example of a micro-batch under `vmap(..., randomness="different")` draws its own numbers.

    They are a function of the example's seed and of how many draws it made before, for dropout as for any other random
    operation of torch. `seeds` is called when the first one comes.
    """

    def __init__(self, seeds: Callable[[], Sequence[bytes]]) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._seeds_when_needed = seeds
        self._seeds: Sequence[bytes] = ()
        self._draws = 0
        self._permutations = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run an operation, and a random one example by example."""
        kwargs = kwargs or {}
        if torch.Tag.nondeterministic_seeded not in func.tags:
            return func(*args, **kwargs)
        if kwargs.get("generator") is not None:
            raise ValueError(
                f"The model or its loss calls {func} with a generator of its own, which examples would share: leave "
                "the generator out, and every example has its own numbers."
            )
        self._seeds = self._seeds or self._seeds_when_needed()
        name = func.overloadpacket.__name__
        device = _device(args, kwargs)
        if name == _ONE_BY_ONE:
            turn, place = divmod(self._permutations, len(self._seeds))
            self._permutations += 1
            self._seed(device, place, f"permutation {turn}")
            return func(*args, **kwargs)
        if name in _BATCHED:
            return self._in_rows(func, args, kwargs, device)
        before = _state(device)
        result = func(*args, **kwargs)
        if not torch.equal(before, _state(device)):
            raise ValueError(
                f"The model or its loss draws random numbers by {func}, in which they cannot be given to each example "
                "by itself: use torch.nn.functional.dropout, torch.rand and their like, or switch it off."
            )
        return result

    def _in_rows(self, func: Any, args: Any, kwargs: Any, device: torch.device) -> Any:
        draw, self._draws = f"draw {self._draws}", self._draws + 1
        count = len(self._seeds)
        dimensions = max((value.dim() for value in args if isinstance(value, Tensor)), default=0)

        def row(value: Any, place: int) -> Any:
            if isinstance(value, Tensor):
                # One of fewer dimensions is the same for all examples.
                return value[place : place + 1] if value.dim() == dimensions and len(value) == count else value
            if isinstance(value, list | tuple | torch.Size):
                return [1, *value[1:]]
            return value

        results = []
        for place in range(count):
            self._seed(device, place, draw)
            results.append(func(*(row(value, place) for value in args), **kwargs))
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
            torch.get_device_module(device).manual_seed(seed)


@contextmanager
def torch_kept(device: torch.device | None = None) -> Iterator[None]:
    """Leave torch's generators as they were, on the host and on a device (default: on all that are in use)."""
    devices = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    if device is not None:
        devices = [device.index or 0] if device.type == "cuda" else []
    with torch.random.fork_rng(devices):
        yield


class SeededItems(Dataset[Any]):
    """The items of a dataset, each made with generators of torch, NumPy and `random` that were seeded for it.

    A batch is asked for as (step, indices); what comes is (seed of the batch, items).
    """

    def __init__(self, dataset: Dataset[Any], seeds: ExampleSeeds) -> None:
        if isinstance(dataset, IterableDataset) or not hasattr(dataset, "__getitem__"):
            raise ValueError(f"dataset is a {type(dataset).__name__}, but it must have __getitem__ by index.")
        self._dataset, self._seeds = dataset, seeds

    def __getitems__(self, batch: tuple[int, list[int]]) -> tuple[bytes, list[Any]]:
        """Return the items of a batch."""
        step, indices = batch
        items = []
        with torch_kept(), numpy_and_python_kept():
            for index in indices:
                _seed_all(self._seeds.of(step, index))
                items.append(self._dataset[index])
        return self._seeds.of_batch(step), items


class SeededCollate:
    """A collate function that knows of empty batches, with generators seeded for the step."""

    def __init__(self, collate: Callable[[list[Any]], Any]) -> None:
        self._collate = collate

    def __call__(self, batch: tuple[bytes, list[Any]]) -> Any:
        """Return the items of a batch as one; (None, None) for none."""
        seed, items = batch
        if not items:
            return None, None
        with torch_kept(), numpy_and_python_kept():
            _seed_all(seed)
            return self._collate(items)


def _seed_all(seed: bytes) -> None:
    torch.manual_seed(int.from_bytes(seed[:8], "big"))
    seed_numpy_and_python(seed)


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
