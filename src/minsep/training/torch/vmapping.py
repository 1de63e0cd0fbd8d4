"""What makes models run under `vmap` that otherwise would not: the same numbers by other operations."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.functional import group_norm, layer_norm, scaled_dot_product_attention
from torch.overrides import TorchFunctionMode

from minsep.training.torch.attention import plain_attention
from minsep.training.torch.recurrent import FUSED, unfused

# Where transformers asks whether all entries of a mask are one, unless it is being traced.
_MODULES_OF_MASKS = ("transformers.masking_utils", "transformers.modeling_attn_mask_utils")


@contextmanager
def vmap_ready() -> Iterator[None]:
    """Enter a block in which attention, masks of Hugging Face models, recurrent layers and autocast work under `vmap`.

    Attention is computed by plain operations, for which there are batching rules. Masks are always applied: whether
    they are trivial cannot be asked for one example among many.
    """
    with ExitStack() as stack:
        stack.enter_context(sdpa_kernel(SDPBackend.MATH))  # for nn.MultiheadAttention
        stack.enter_context(_Substituted())
        for name in _MODULES_OF_MASKS:
            module = sys.modules.get(name)
            if module is not None and hasattr(module, "is_tracing"):
                stack.enter_context(_attribute(module, "is_tracing", _or_transformed(module.is_tracing)))
        yield


@contextmanager
def _attribute(owner: Any, name: str, value: Any) -> Iterator[None]:
    """Enter a block in which an attribute has another value."""
    before = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, before)


class _Substituted(TorchFunctionMode):
    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run a function, or another one that returns the same."""
        kwargs = kwargs or {}
        if func in FUSED and not kwargs:
            return unfused(func, *args)
        if func is scaled_dot_product_attention:
            return plain_attention(*args, **kwargs)
        if func in (layer_norm, group_norm):
            return _normalised(func, *args, **kwargs)
        return func(*args, **kwargs)


def _normalised(func: Any, inputs: Tensor, *rest: Any, **named: Any) -> Tensor:
    """Normalise in the dtype of the weights: the backward pass under `vmap` allows only one dtype."""
    weight = next((value for value in (*rest, *named.values()) if isinstance(value, Tensor)), inputs)
    with torch.autocast(inputs.device.type, enabled=False):
        output: Tensor = func(inputs.to(weight.dtype), *rest, **named)
    return output.to(inputs.dtype)


def _or_transformed(is_tracing: Any) -> Any:
    def answer(tensor: Any = None) -> bool:
        if isinstance(tensor, Tensor) and torch._C._functorch.is_functorch_wrapped_tensor(tensor):
            return True
        return bool(is_tracing(tensor))

    return answer
