"""Conversion of PyTorch tensors to NumPy and back, bit by bit."""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

# NumPy lacks some of torch's dtypes (bfloat16, eight-bit floats): their bits are kept as integers.
_INTEGER_OF_BYTES = {1: torch.uint8, 2: torch.int16}


def to_array(value: Any) -> tuple[NDArray[Any], str] | None:
    """Return a tensor as a NumPy array and the name of its dtype; None for any other value.

    Args:
        value: A tensor, on any device.

    >>> array, dtype = to_array(torch.tensor([1.0, 2.0], dtype=torch.bfloat16))
    >>> from_array(array, dtype)
    tensor([1., 2.], dtype=torch.bfloat16)
    """
    if not isinstance(value, Tensor):
        return None
    tensor = value.detach().cpu().contiguous()
    name = str(tensor.dtype).removeprefix("torch.")
    if not hasattr(np, name):
        tensor = tensor.view(_INTEGER_OF_BYTES[tensor.dtype.itemsize])
    return tensor.numpy(), name


def from_array(array: NDArray[Any], name: str) -> Tensor:
    """Return the tensor that `to_array` was given, on the host.

    Args:
        array: The NumPy array.
        name: The name of the dtype. One that torch does not know is refused.
    """
    dtype = getattr(torch, name, None)
    if not isinstance(dtype, torch.dtype):
        raise ValueError(f"The checkpoint holds a tensor of dtype {name!r}, which torch does not know.")
    return torch.from_numpy(np.ascontiguousarray(array).reshape(array.shape)).view(dtype)
