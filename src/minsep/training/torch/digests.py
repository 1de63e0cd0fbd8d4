"""Whether the content of a tensor has changed."""

import torch
from torch import Tensor

from minsep.training.torch.sharded.shards import local_part

_INTEGER_OF_BYTES = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def digest(tensor: Tensor) -> tuple[int, int]:
    """Return sums of a tensor's bits: any one changed entry changes the first of them.

    Args:
        tensor: A tensor, or what a process holds of it.

    >>> digest(torch.zeros(3)) == digest(torch.tensor([0.0, 0.0, 1e-30]))
    False
    """
    held = local_part(tensor.detach()).contiguous().flatten()
    if held.is_complex():
        held = torch.view_as_real(held).flatten()
    bits = held.view(_INTEGER_OF_BYTES[held.element_size()])
    return int(bits.sum(dtype=torch.int64)), int(bits[::2].sum(dtype=torch.int64))
