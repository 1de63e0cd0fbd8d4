"""Which part of each parameter this process holds."""

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor, nn

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


def is_sharded(model: nn.Module) -> bool:
    """Return whether a model has parameters that are sharded over processes.

    Args:
        model: The model.

    >>> is_sharded(nn.Linear(2, 2))
    False
    """
    return any(_is_part(parameter) for parameter in model.parameters())


def local_part(tensor: Tensor) -> Tensor:
    """Return what this process holds of a tensor: all of it, unless it is sharded.

    Args:
        tensor: The tensor. The part shares its memory.
    """
    return tensor.to_local() if _is_part(tensor) else tensor


def whole_values(tree: Any) -> Any:
    """Return nested values with every sharded tensor gathered on the host. Every process must call this.

    Args:
        tree: Tensors and other values, in lists, tuples and dicts.
    """
    if isinstance(tree, dict):
        return {name: whole_values(value) for name, value in tree.items()}
    if isinstance(tree, list | tuple):
        return type(tree)(whole_values(value) for value in tree)
    return tree.full_tensor().cpu() if _is_part(tree) else tree


class Shards:
    """The parts of some parameters that this process holds: rows of each, one after another in a flat vector.

    Args:
        parameters: The parameters by name. All must be sharded by rows over the same processes, as `fully_shard` does
            over one dimension.
        processes: The number of processes that train the model.
    """

    def __init__(self, parameters: Mapping[str, Tensor], processes: int) -> None:
        self._parameters = {name: _checked(name, parameter, processes) for name, parameter in parameters.items()}
        self.sizes = {name: local_part(parameter).numel() for name, parameter in self._parameters.items()}
        self.columns: list[tuple[int, int]] = []
        """Parts (begin, end) of the flat vector of the whole model that are held here, in order."""
        offset = 0
        for parameter in self._parameters.values():
            begin, end = (offset + row * (parameter.numel() // len(parameter)) for row in _rows(parameter))
            if begin < end:
                self.columns.append((begin, end))
            offset += parameter.numel()

    def from_part(self, name: str, part: Tensor) -> "DTensor":
        """Return a sharded tensor like a parameter.

        Args:
            name: The parameter.
            part: The entries that this process holds.
        """
        return _like(self._parameters[name], part.view_as(local_part(self._parameters[name])))


def restored(whole: Any, like: Any) -> Any:
    """Return nested values with tensors sharded as others are.

    Args:
        whole: What `whole_values` returned.
        like: Nested values of the same form, whose sharded tensors tell which part to take.
    """
    if _is_part(like):
        return _like(like, whole[slice(*_rows(like))].to(like.device, like.dtype).contiguous())
    if isinstance(like, dict):
        return {name: restored(value, like.get(name)) for name, value in whole.items()}
    if isinstance(like, list | tuple):
        return type(like)(restored(value, other) for value, other in zip(whole, like, strict=True))
    return whole


def restored_optimizer(whole: Any, optimizer: torch.optim.Optimizer) -> Any:
    """Return the state of an optimiser, sharded as its parameters are.

    Args:
        whole: The state, with whole tensors.
        optimizer: Its parameters, in the order of the state, tell which part to take.
    """
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]

    def part(value: Any, parameter: Tensor) -> Any:
        like = isinstance(value, Tensor) and value.shape == parameter.shape
        return restored(value, parameter) if like else value

    states = {
        number: {name: part(value, parameters[number]) for name, value in state.items()}
        for number, state in whole["state"].items()
    }
    return {**whole, "state": states}


def _is_part(value: Any) -> "TypeGuard[DTensor]":
    # Sharded tensors take a second to import, and whoever has one has imported them.
    module = sys.modules.get("torch.distributed.tensor")
    return module is not None and isinstance(value, module.DTensor)


def _like(tensor: "DTensor", part: Tensor) -> "DTensor":
    return type(tensor).from_local(
        part, tensor.device_mesh, tensor.placements, run_check=False, shape=tensor.shape, stride=tensor.stride()
    )


def _rows(tensor: "DTensor") -> tuple[int, int]:
    """Return the first row that this process holds, and the row after its last."""
    each = -(-len(tensor) // tensor.device_mesh.size())
    begin = min(tensor.device_mesh.get_local_rank() * each, len(tensor))
    return begin, min(begin + each, len(tensor))


def _checked(name: str, parameter: Tensor, processes: int) -> "DTensor":
    if not _is_part(parameter):
        raise ValueError(
            f"model has the parameter {name!r}, which is not sharded though others are: call fully_shard on the whole "
            "model, or freeze it."
        )
    over_all = parameter.device_mesh.ndim == 1 and parameter.device_mesh.size() == processes
    if not over_all or not parameter.placements[0].is_shard(0):
        raise ValueError(
            f"model has the parameter {name!r}, placed as {parameter.placements} on {parameter.device_mesh}, but it "
            "must be sharded by rows over all processes: call fully_shard without shard_placement_fn, on a mesh of one "
            "dimension."
        )
    begin, end = _rows(parameter)
    if len(local_part(parameter)) != end - begin:
        raise ValueError(f"model has the parameter {name!r}, which is not sharded in equal parts.")
    return parameter
