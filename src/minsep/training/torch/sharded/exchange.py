"""What processes exchange in a backward pass of a sharded model: gradients of single examples, each by shard."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch import distributed as together

from minsep.training.torch.processes import exchanging


class _Exchange:
    """A way to exchange tensors, as `fully_shard` calls it."""

    def allocate(self, size: Sequence[int], *, dtype: torch.dtype, device: torch.device) -> Tensor:
        """Return memory for what is sent or received.

        Args:
            size: Shape of the tensor.
            dtype: Dtype of the tensor.
            device: Device of the tensor.
        """
        return torch.empty(*size, dtype=dtype, device=device)


class _Gather(_Exchange):
    """Gathers the parameters of a module, as `fully_shard` does unless told otherwise."""

    def __call__(self, output_tensor: Tensor, input_tensor: Tensor, group: Any, async_op: bool = False) -> Any:
        """Gather the parameters of one module.

        Args:
            output_tensor: Where the whole parameters are to be.
            input_tensor: The part of the parameters that this process holds.
            group: The processes.
            async_op: Whether to return before the end.
        """
        with exchanging():
            return together.all_gather_single(output_tensor, input_tensor, group=group, async_op=async_op)


class Exchange(_Exchange):
    """Takes the place of the reduce-scatter: adds nothing up, but gives every process its shard of each gradient.

    Each process runs one example of its own. Where `fully_shard` would add up their gradients and scatter the sum, each
    process sends every other one the part that belongs to it, which is as much to send.

    Args:
        model: The sharded model.
    """

    def __init__(self, model: nn.Module) -> None:
        # Not at the top, as only sharded models need it.
        from torch.distributed.fsdp import FSDPModule

        if not hasattr(FSDPModule, "set_reduce_scatter_unused_params"):
            raise ValueError(f"model is sharded, which needs PyTorch 2.13 or newer, but this is {torch.__version__}.")
        self._received: list[tuple[Tensor, Tensor]] = []
        exchange: Any = self
        gather: Any = _Gather()
        for module in model.modules():
            if isinstance(module, FSDPModule):
                module.set_custom_all_gather(gather)
                module.set_custom_reduce_scatter(exchange)
                # Otherwise gradients are divided by the number of processes.
                module.set_gradient_divide_factor(1.0)
                module.set_force_sum_reduction_for_comms(True)
                # Examples may use different parameters, but all processes must send equally much.
                module.set_reduce_scatter_unused_params(True, recurse=False)

    def __call__(
        self, output_tensor: Tensor, input_tensor: Tensor, group: Any, op: Any, async_op: bool = False
    ) -> None:
        """Exchange the gradients of one group of parameters.

        Args:
            output_tensor: Where `fully_shard` expects the sum. Its gradients are views of it, which tell the places.
            input_tensor: The gradients of this process's example, one shard after another.
            group: The processes.
            op: The reduction, which is not used.
            async_op: Whether to return before the end, which is not used.
        """
        received = torch.empty_like(input_tensor)
        with exchanging():
            together.all_to_all_single(received, input_tensor, group=group)
        output_tensor.zero_()
        self._received.append((output_tensor, received.view(group.size(), -1)))

    def rows(self, gradients: dict[str, Tensor]) -> dict[str, Tensor]:
        """Return the received gradients by parameter, one row for the example of each process, and forget them.

        Args:
            gradients: What the backward pass left in each parameter, of which this process holds a part.
        """
        by_memory = {sums.untyped_storage().data_ptr(): rows for sums, rows in self._received}
        places = {name: gradient.untyped_storage().data_ptr() for name, gradient in gradients.items()}
        self._received.clear()
        if set(places.values()) != set(by_memory):
            raise ValueError(
                "model is sharded in a way that hides the gradients of single examples: every module with fully_shard "
                "must run once in a forward pass, without offloading, and with a reduce_dtype equal to the dtype of "
                "the parameters if there is a MixedPrecisionPolicy."
            )
        return {
            name: by_memory[places[name]][:, gradient.storage_offset() : gradient.storage_offset() + gradient.numel()]
            for name, gradient in gradients.items()
        }
