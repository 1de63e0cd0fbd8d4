"""Training in PyTorch: batches and noise of a mechanism, clipped gradients, then a `torch.optim` optimiser."""

import json
import math
import os
from collections.abc import Callable, Iterator, Sized
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np
import torch
from torch import Tensor, nn
from torch import distributed as together
from torch.utils.data import DataLoader, Dataset, default_collate

from minsep.core import validation as validate
from minsep.core.state import State
from minsep.engine import available_cores
from minsep.mechanism import Mechanism
from minsep.noise import NoiseStream
from minsep.noise.grid import MOST_STEPS, refuse_sum
from minsep.training.base import Training
from minsep.training.run import PrivateRun, check_clip_norm, in_turn, refuse_gradient
from minsep.training.stability import warn_if_unstable
from minsep.training.torch.clipping import ClippedSum, Clipping
from minsep.training.torch.collating import Joined
from minsep.training.torch.device_noise import DeviceNoiseStream
from minsep.training.torch.examples import Examples, count_examples
from minsep.training.torch.first_step import FirstStep
from minsep.training.torch.objective import Loss
from minsep.training.torch.processes import Processes, columns_of
from minsep.training.torch.randomness import SeededItems
from minsep.training.torch.remembering import ModelChangedError
from minsep.training.torch.scaling import ScaleThenPrivatize
from minsep.training.torch.sharded.clipping import ShardedSum
from minsep.training.torch.sharded.shards import is_sharded, restored, restored_optimizer, whole_values
from minsep.training.torch.tensors import from_array, to_array
from minsep.training.torch.threads import threads_advice

if TYPE_CHECKING:
    from minsep.accounting import Accepted, Certificate
    from minsep.ledger import Ledger

Noise = Literal["auto", "host", "device"]


class PrivateTraining(Training):
    """A model in private training: batches and noise of a mechanism, clipped gradients, then an optimiser.

    A step passes (sum of clipped gradients + clip norm * row of noise) / expected batch to the optimiser as the
    gradient, also for an empty batch. The noisy sum is rounded to a public grid, as `minsep.release` does. A step
    returns nothing, because losses and norms of a batch are not private.

    Random numbers of the forward pass, such as dropout's, are a function of (secret key, step, index) for each example.
    `torch.manual_seed` has no effect on them. Under `torch.distributed` each process takes its share of a batch and
    holds its part of the noise.

    Args:
        model: Any module without layers that mix or store examples.
        loss: The loss, which is called for one example at a time, as a batch of one.
        optimizer: Any optimiser that steps with one dense gradient. It holds the trainable parameters of the model.
        mechanism: The mechanism that provides batches and noise.
        num_examples: Size of the dataset.
        clip_norm: Bound on the norm of the gradient of one example, over all parameters.
        expected_batch: The public divisor, never the actual batch size. None is the expected batch size of the sampling
            scheme.
        micro_batch: Number of examples in memory at once. The last micro-batch is padded to that size, so a size much
            larger than a batch wastes time. "auto" measures at the first step how many fit into memory. If the last
            bits of gradients depend on the places of examples in a micro-batch of this size, minsep takes another size,
            with a warning.
        clipping: How the gradients of single examples are computed. "vmap" holds the gradient of every example of a
            micro-batch. "ghost" computes norms from layer inputs and output gradients, so that memory does not grow
            with examples times parameters. "auto" is "vmap" up to 256 MiB of gradients.
        per_layer: Whether to clip each of K modules to `clip_norm / sqrt(K)`.
        noise: Where the noise is made. "host" makes noise on the host. "device" makes and keeps the same noise where
            the model is. "auto" is "host" for a model on the CPU, where that is faster, and "device" otherwise.
        scaling: How to scale gradients before they are clipped, for Adam. None leaves them unscaled. A clip norm at
            which the second moments would feed on their own noise gives a warning that names the largest stable one.
        schedule: A factor of the optimiser's learning rates, a function of the step (from 0) alone. None keeps the
            learning rates.
        certificate: A certificate, which must be for this mechanism and must have passed. Both are read from it, not
            verified. None is a run without a certificate.
        verify: Whether to draw the samples of the certificate again, which takes as long as `minsep.verify`. A
            certificate that does not hold is refused.
        ledger: The ledger in which the run is booked, or its file. It is booked when everything else is in order and
            before the first batch is drawn; a run that would exceed the total raises `minsep.ledger.OverBudgetError`.
            It needs a certificate, which is verified first unless that was done already. None books nothing.
        seed: A seed that makes the run reproducible, and is as secret as the data. None takes a key from the operating
            system.

    Examples:
        >>> import minsep
        >>> inputs, targets = torch.randn(500, 4), torch.randint(0, 2, (500,))
        >>> strategy = minsep.BandedToeplitz.optimal(iterations=20, bands=4)
        >>> mechanism = minsep.Mechanism(strategy, minsep.MinSep(rate=0.02, min_sep=10), noise_multiplier=1.0)
        >>> model = nn.Linear(4, 2)
        >>> optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.95)
        >>> trainer = PrivateTraining(
        ...     model, nn.functional.cross_entropy, optimizer, mechanism, num_examples=500, clip_norm=1.0
        ... )
        >>> for indices in trainer.batches():
        ...     trainer.step(inputs[indices], targets[indices])
        >>> trainer.steps
        20
    """

    _encode = staticmethod(to_array)
    _decode = staticmethod(from_array)

    def __init__(
        self,
        model: nn.Module,
        loss: Loss,
        optimizer: torch.optim.Optimizer,
        mechanism: Mechanism,
        *,
        num_examples: int,
        clip_norm: float,
        expected_batch: float | None = None,
        micro_batch: int | Literal["auto"] = 32,
        clipping: Clipping = "auto",
        per_layer: bool = False,
        noise: Noise = "auto",
        scaling: ScaleThenPrivatize | None = None,
        schedule: Callable[[int], float] | None = None,
        certificate: "Certificate | Accepted | None" = None,
        verify: bool = False,
        ledger: "Ledger | str | os.PathLike[str] | None" = None,
        seed: int | None = None,
    ) -> None:
        self.model, self.optimizer = model, optimizer
        self._sharded = is_sharded(model)
        self._clipped: ClippedSum | ShardedSum
        if self._sharded:
            _check_sharded(clipping, noise)
            self._clipped = ShardedSum(model, loss, check_clip_norm(clip_norm), per_layer, together.get_world_size())
        else:
            self._clipped = ClippedSum(model, loss, check_clip_norm(clip_norm), micro_batch, per_layer, clipping)
        _check_optimizer(optimizer, self._clipped, scaling)
        self._scaling, self._schedule, self._per_layer = scaling, schedule, per_layer
        self._processes = Processes(self._clipped.device)
        seed = self._processes.shared_seed(seed)
        self._run = PrivateRun(
            mechanism,
            num_examples=num_examples,
            clip_norm=clip_norm,
            expected_batch=expected_batch,
            certificate=certificate,
            verify=verify,
            ledger=ledger,
            seed=seed,
            size=self._clipped.size,
            rank=self._processes.rank,
            processes=self._processes.count,
        )
        if scaling is not None:
            decay = max(group["betas"][1] for group in optimizer.param_groups)
            warn_if_unstable(mechanism, self._run.clip_norm, self._run.expected_batch, decay)
        self._noise_kind = _kind_of_noise(noise, self._clipped.device, self._sharded)
        self._processes.agree(json.dumps([self._identity(), seed, self._noise_kind]))
        self._columns = (
            self._clipped.columns
            if isinstance(self._clipped, ShardedSum)
            else [self._processes.columns(self._clipped.size)]
        )
        self._noise = self._noise_stream(seed)
        shared = (*model.buffers(),) if self._sharded else (*model.parameters(), *model.buffers())
        self._processes.share_tensors([tensor.data for tensor in shared])
        # In double precision, so that an example changes the sum only by its clipped gradient.
        self._flat = torch.zeros(self._clipped.held, dtype=torch.float64, device=self._clipped.device)
        self._first_step = FirstStep(model, optimizer)
        for group in optimizer.param_groups:
            group.setdefault("initial_lr", group["lr"])
        self._in_ledger(self._run.book)  # last: what was refused before is not booked

    def loader(self, dataset: Dataset[Any], **options: Any) -> DataLoader[Any]:
        """Return a `DataLoader` of the examples of each remaining step. Its workers may read ahead.

        A loop that was left may be entered again: it continues after the last step. The generators of torch, NumPy and
        `random` are seeded from (secret key, step, index) before an item is made and collated, for any number of
        workers. They are restored afterwards. The first item of each batch is made again at the end. If it differs, as
        from a dataset with a generator of its own, it is refused: seed that generator in `__getitem__`, for example
        with `np.random.default_rng(np.random.randint(2**32, size=4))`.

        Args:
            dataset: A dataset that returns pairs of inputs and targets, by index, and has `num_examples` of them. An
                empty batch is (None, None).
            options: The options of `DataLoader`, such as `num_workers`. A `collate_fn` is given one item at a time, in
                a list, so that it cannot mix examples. It must return tensors of the same shapes for all items.

        Examples:
            >>> import minsep
            >>> inputs, targets = torch.randn(50, 4), torch.randint(0, 2, (50,))
            >>> identity = minsep.BandedToeplitz.identity(iterations=5)
            >>> mechanism = minsep.Mechanism(identity, minsep.Poisson(rate=0.02), noise_multiplier=1.0)
            >>> model = nn.Linear(4, 2)
            >>> trainer = PrivateTraining(
            ...     model, nn.functional.cross_entropy, torch.optim.SGD(model.parameters(), lr=0.1), mechanism,
            ...     num_examples=50, clip_norm=1.0,
            ... )
            >>> for some, their_targets in trainer.loader(torch.utils.data.TensorDataset(inputs, targets)):
            ...     trainer.step(some, their_targets)
        """
        if not options.get("in_order", True):
            raise ValueError("in_order is False, but steps must be taken in the order of the batches: omit it.")
        collate = options.pop("collate_fn", None)
        if collate is default_collate:
            collate = None  # it keeps examples apart, and is quicker for all of them
        items = SeededItems(dataset, self._run.example_seeds, collate)
        if isinstance(dataset, Sized) and len(dataset) != self.num_examples:
            raise ValueError(
                f"dataset has {len(dataset):,} examples, but num_examples is {self.num_examples:,}: construct the "
                "training with the size of the dataset."
            )
        # A loader draws a number when it starts, which must not come from the user's generator.
        options.setdefault("generator", torch.Generator())
        sampler: Any = _ReadAhead(self._run)
        return DataLoader(items, batch_sampler=sampler, collate_fn=Joined(collate is not None), **options)

    @in_turn
    def step(self, inputs: Examples, targets: Examples = None) -> None:
        """Train on the examples of the next batch: all of them, and no others.

        An error in the model, the loss or the data leaves the step to be repeated, because nothing was released. A
        model that changes itself in its forward pass ends the run: it holds what it saw, without noise.

        Args:
            inputs: The arguments of the model: a tensor, or a tuple or dict of tensors. Their first dimension counts
                the examples, in the order of the batch. None is an empty batch.
            targets: The second argument of the loss, in the same form as `inputs`. None if the loss needs no targets,
                such as the loss of a Hugging Face model with labels among its inputs.
        """
        examples = count_examples(inputs)
        if targets is not None and count_examples(targets) != examples:
            raise ValueError(
                f"There are {examples} inputs and {count_examples(targets)} targets, but these must be equal in number."
            )
        indices, seeds = self._run.expect(examples), self._run.example_seeds
        self._clipped.objective.refuse_changes()
        scales = None if self._scaling is None else self._scaling.scales(self.optimizer, self._clipped)
        flat = self._flat.zero_()
        try:
            self._clipped.add_to(
                flat, inputs, targets, scales, lambda part: [seeds.of(self.steps, int(i)) for i in indices[part]]
            )
            # Until here nothing was drawn or changed.
            with self._run.step(examples):
                self._release(flat)
                flat.div_(self._run.expected_batch)
                if scales is not None:
                    flat.div_(scales)
                self._update(flat)
        except BaseException as error:
            flat.zero_()  # a sum without noise is left nowhere
            if isinstance(error, ModelChangedError):
                self._run.interrupt()
            raise
        if torch.get_num_threads() < available_cores():
            self._noise.prepare()

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write model, optimiser, batches, noise and certificate to one file that only its owner can read.

        - The file holds the keys of batches and noise. It is as secret as the data.
        - Every process calls this, and the first one writes. The number of processes may change when the run resumes.

        Args:
            path: The file. An interrupted write leaves an existing file of that name unchanged.
        """
        super().save(path)
        self._processes.wait()

    def _content(self) -> State | None:
        noise = self._noise.state_dict()
        noise.pop("columns", None)
        noise["memory"] = self._processes.gather(noise["memory"], self._columns, self._clipped.size)
        model, optimizer = whole_values(dict(self.model.state_dict())), whole_values(self.optimizer.state_dict())
        if self._processes.rank > 0:
            return None
        return {
            "noise": noise,
            "model": model,
            "optimizer": optimizer,
            "micro_batch": self._clipped.micro_batch,
        }

    def _noise_position(self, content: State) -> int:
        return validate.integer(position=content["noise"].get("position"), at_least=0)

    def _restore(self, content: State) -> None:
        noise = content["noise"]
        if self._processes.count > 1:
            noise = {**noise, "columns": [list(part) for part in self._columns]}
            noise["memory"] = np.ascontiguousarray(noise["memory"][:, columns_of(self._columns)])
        self._noise.load_state_dict(noise)
        self.model.load_state_dict(restored(content["model"], dict(self.model.state_dict())))
        self.optimizer.load_state_dict(restored_optimizer(content["optimizer"], self.optimizer))
        # What was measured before is kept, because the size affects how gradients are rounded.
        if self._clipped.micro_batch is None and content["micro_batch"] is not None:
            self._clipped.micro_batch = validate.integer(micro_batch=content["micro_batch"], at_least=1)

    def _in_ledger(self, book: Callable[[], None]) -> None:
        self._processes.first_does(book)

    def _advice(self) -> str:
        return threads_advice() if self._clipped.device.type == "cpu" else ""

    def _identity(self) -> State:
        return self._run.identity(
            "training with torch",
            parameters=[
                [name, list(value.shape), str(value.dtype)] for name, value in self._clipped.parameters.items()
            ],
            per_layer=self._per_layer,
            scaling=None if self._scaling is None else self._scaling.stability,
            optimizer=type(self.optimizer).__name__,
        )

    def _noise_stream(self, seed: int | None) -> NoiseStream | DeviceNoiseStream:
        mechanism, size = self.mechanism, self._clipped.size
        alone = self._processes.count == 1
        if self._noise_kind == "host":
            return mechanism.noise(size, seed=seed, columns=None if alone else self._columns[0])
        columns = None if alone else self._columns
        return DeviceNoiseStream(mechanism, size, self._clipped.device, mechanism.noise_key(seed), columns)

    def _release(self, flat: Tensor) -> None:
        """Set the vector of this process to released sums. Each value is released by the process that has its noise."""
        together = self._processes.count > 1 and not self._sharded
        own = self._processes.sum_of_part(flat) if together else flat
        unit = self._noise.grid.unit(self._run.clip_norm)
        largest = float(own.abs().max())
        if not self._processes.all_true(largest / unit < MOST_STEPS):  # false for NaN
            own.zero_()
            raise refuse_sum(unit) if math.isfinite(largest) else refuse_gradient(self.steps + 1)
        if isinstance(self._noise, DeviceNoiseStream):
            self._noise.release_next(own, self._run.clip_norm)
        else:
            on_host = own.cpu()
            self._noise.release_next(on_host.numpy(), self._run.clip_norm)
            if on_host is not own:
                own.copy_(on_host)
        if together:
            self._processes.share_part(own, flat)

    def _update(self, flat: Tensor) -> None:
        self._clipped.set_gradients(flat)
        if self._schedule is not None:
            for group in self.optimizer.param_groups:
                group["lr"] = group["initial_lr"] * self._schedule(self.steps)
        with self._first_step.checked():
            self.optimizer.step()


class _ReadAhead:
    """A sampler of batches as (step, indices). The run records each batch when it is drawn."""

    def __init__(self, run: PrivateRun) -> None:
        self._run = run

    def __len__(self) -> int:
        return self._run.remaining

    def __iter__(self) -> Iterator[tuple[int, list[int]]]:
        return self._run.read_ahead()


def _check_sharded(clipping: Clipping, noise: Noise) -> None:
    """Refuse options that a sharded model does not support."""
    if clipping != "auto":
        raise ValueError(
            f'clipping is "{clipping}", but with fully_shard every process takes its examples one by one: omit it.'
        )
    if noise == "host":
        raise ValueError('noise is "host", but with fully_shard noise is made by shard: use "device" or omit it.')


def _kind_of_noise(noise: Noise, device: torch.device, sharded: bool) -> Literal["host", "device"]:
    if noise not in get_args(Noise):
        raise ValueError(f'noise is "{noise}", but it must be "auto", "host" or "device".')
    if noise != "auto":
        return noise
    return "host" if device.type == "cpu" and not sharded else "device"


def _check_optimizer(
    optimizer: torch.optim.Optimizer, clipped: ClippedSum | ShardedSum, scaling: ScaleThenPrivatize | None
) -> None:
    if isinstance(optimizer, torch.optim.LBFGS | torch.optim.SparseAdam):
        raise ValueError(
            f"optimizer is {type(optimizer).__name__}, but it must step with one dense gradient, as SGD and Adam do."
        )
    held = {id(parameter) for group in optimizer.param_groups for parameter in group["params"]}
    for name, parameter in clipped.parameters.items():
        if id(parameter) not in held:
            raise ValueError(f"optimizer does not hold the parameter {name!r}: freeze it or pass it to the optimizer.")
    if len(held) != len(clipped.parameters):
        raise ValueError(
            f"optimizer holds {len(held) - len(clipped.parameters)} parameters that are not trainable parameters of "
            "the model, and whose gradients have no noise: pass it "
            "[parameter for parameter in model.parameters() if parameter.requires_grad]."
        )
    if scaling is not None and not isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW):
        raise ValueError(f"optimizer is {type(optimizer).__name__}, but scaling needs Adam or AdamW.")
