"""What passes through layers during a forward pass under `vmap`: inputs are recorded, perturbations added."""

from collections.abc import Mapping, Sequence
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

Call = tuple[str, torch.Size, torch.dtype]
"""A call of a layer: its name, and shape and dtype of its output for one example."""


class UsedElsewhere(Exception):  # noqa: N818 it asks for another attempt
    """A parameter is used outside its layer: what the layer sees is not its whole gradient.

    Args:
        name: The parameter.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self.name = name


class Recorder(TorchFunctionMode):
    """A block in which calls of layers are recorded, and uses of their parameters elsewhere are refused.

    Args:
        layers: The layers by their names.
        owners: The name of each parameter and the names of the layers that may use it, by the identity of the
            parameter.
        perturbations: What is added to the outputs of the layers, in the order of their calls. The gradients of the
            perturbations are those of the outputs. None adds nothing.
    """

    def __init__(
        self,
        layers: Mapping[str, nn.Module],
        owners: Mapping[int, tuple[str, set[str]]],
        perturbations: Sequence[Tensor] | None,
    ) -> None:
        super().__init__()
        self._layers, self._owners, self._perturbations = layers, owners, perturbations
        self._inside: list[str] = []
        self.calls: list[Call] = []
        self.inputs: list[Tensor] = []
        self.versions: list[int] = []

    def __enter__(self) -> Self:
        self._handles = []
        for name, layer in self._layers.items():
            # Hooks of the user run outside: before ours enters, and after it leaves.
            self._handles.append(layer.register_forward_pre_hook(self._enter(name)))
            self._handles.append(layer.register_forward_hook(self._leave(name), with_kwargs=True, prepend=True))
        super().__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *reason: Any) -> None:
        super().__exit__(*reason)  # type: ignore[no-untyped-call]
        for handle in self._handles:
            handle.remove()

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, and refuse a parameter that it uses outside its layers."""
        result = func(*args, **(kwargs or {}))
        for value in _tensors((args, kwargs or {})):
            owner = self._owners.get(id(value))
            if owner is not None and not (self._inside and self._inside[-1] in owner[1]) and _tensors(result):
                raise UsedElsewhere(owner[0])
        return result

    def _enter(self, name: str) -> Any:
        def enter(layer: nn.Module, args: Any) -> None:
            self._inside.append(name)

        return enter

    def _leave(self, name: str) -> Any:
        def leave(layer: nn.Module, args: Any, kwargs: Any, output: Tensor) -> Tensor | None:
            self._inside.pop()
            given = args[0] if args else kwargs["input" if "input" in kwargs else "x"]
            self.inputs.append(given)
            self.versions.append(_version(given))
            self.calls.append((name, output.shape, output.dtype))
            if self._perturbations is None:
                return None
            if len(self.calls) > len(self._perturbations):
                raise RuntimeError(f"The layer {name!r} is called more often than for the example before.")
            return output + self._perturbations[len(self.calls) - 1]

        return leave


def _version(tensor: Tensor) -> int:
    """Return the number of changes in place of the tensor beneath all transformations."""
    while torch._C._functorch.is_functorch_wrapped_tensor(tensor):
        tensor = torch._C._functorch.get_unwrapped(tensor)
    return tensor._version


def _tensors(tree: Any) -> list[Tensor]:
    if isinstance(tree, Tensor):
        return [tree]
    if isinstance(tree, dict):
        tree = tuple(tree.values())
    return [tensor for part in tree for tensor in _tensors(part)] if isinstance(tree, list | tuple) else []
