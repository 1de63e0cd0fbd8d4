"""Whether the contents of tensors have changed, with one wait for the device however many tensors there are.

The bits of a tensor are words of at most 32 bits. Each is multiplied by a secret random odd number that belongs to its
place, and the products are added up modulo 2^64. If one word changes, so does the sum, because an odd factor has an
inverse. If several change, in whatever way that does not depend on the secret numbers, the sum stays with probability
at most 2^-32: where two words differ by d, 0 < |d| < 2^32, at most one in 2^32 odd factors of one of them makes up for
the rest. A long tensor becomes a vector of such sums of its rows, at most three times, with other numbers each time.
"""

from collections.abc import Sequence
from functools import lru_cache
from itertools import accumulate

import numpy as np
import torch
from torch import Tensor

from minsep.training.torch.sharded.shards import local_part

_ROW = 1 << 12
_ROUNDS = 3  # each shortens a vector by a factor of 2^11: enough for 2^45 words
_WORDS_AT_ONCE_ON_HOST, _WORDS_AT_ONCE_ON_DEVICE = 1 << 15, 1 << 22  # as many as caches hold, and many


def digest(tensor: Tensor) -> int | None:
    """Return a number that differs after the content of a tensor has changed, in this process.

    Args:
        tensor: A tensor, or what a process holds of it. A tensor without a content has None.

    >>> digest(torch.zeros(3)) == digest(torch.tensor([0.0, 0.0, 1e-30]))
    False
    >>> digest(torch.tensor([1.0, 2.0])) == digest(torch.tensor([2.0, 1.0]))
    False
    """
    return digests([tensor])[0]


def digests(tensors: Sequence[Tensor]) -> list[int | None]:
    """Return the digests of several tensors, for which the host waits once for each device.

    Args:
        tensors: The tensors, or what a process holds of them.
    """
    words = [_words(tensor) for tensor in tensors]
    found: list[int | None] = [None] * len(words)
    for device in dict.fromkeys(each.device for each in words if each is not None):
        places = [place for place, each in enumerate(words) if each is not None and each.device == device]
        sums = _sums([_shortened(each) for place in places if (each := words[place]) is not None])
        for place, value in zip(places, sums.cpu().tolist(), strict=True):
            found[place] = value
    return found


def digests_of_rows(rows: Tensor) -> Tensor:
    """Return a number for each row of a tensor. Rows with other bits have other numbers, but zero has no sign.

    Args:
        rows: Real numbers, whose first dimension counts rows.

    >>> first, again, other = digests_of_rows(torch.tensor([[1.0, 0.0], [1.0, -0.0], [0.0, 1.0]])).tolist()
    >>> first == again, first == other
    (True, False)
    """
    matrix, odd = rows.detach().reshape(len(rows), -1), _factors(rows.device)
    totals = torch.zeros(len(rows), dtype=torch.int64, device=rows.device)
    columns = _ROW * torch.int32.itemsize // max(matrix.element_size(), torch.int32.itemsize)
    for start in range(0, matrix.shape[1], columns):
        part = matrix[:, start : start + columns]
        words = _words(part + 0.0 if part.is_floating_point() else part)
        assert words is not None
        words = words.view(len(rows), -1)
        totals = odd[-1, 0] * totals + (words * odd[0, : words.shape[1]]).sum(1)
    return totals


def _words(tensor: Tensor) -> Tensor | None:
    """Return the bits of a tensor as integers of at most 32 bits; None for one without a content."""
    if tensor.device.type == "meta":
        return None
    try:
        held = local_part(tensor.detach())
        if held.layout is not torch.strided:
            held = held.to_dense()
        if held.is_quantized:
            held = held.int_repr()
        if held.is_complex():
            held = torch.view_as_real(held.resolve_conj())
        held = held.resolve_neg().reshape(-1)
        size = held.element_size()
        if size < torch.int32.itemsize:
            return held.view(torch.uint8 if size == 1 else torch.int16).to(torch.int32)
        return held.view(torch.int32)
    except RuntimeError:
        return None  # it outlived the transformation that it is of


def _shortened(words: Tensor) -> Tensor:
    """Return at most a row of words."""
    for factors in _factors(words.device):
        if len(words) <= _ROW:
            break
        at_once = _WORDS_AT_ONCE_ON_HOST if words.device.type == "cpu" else _WORDS_AT_ONCE_ON_DEVICE
        whole = len(words) // _ROW * _ROW
        parts = [words[start : min(start + at_once, whole)] for start in range(0, whole, at_once)]
        sums = [(part.view(-1, _ROW) * factors).sum(1) for part in parts]
        rest = words[whole:]
        words = torch.cat([*sums, (rest * factors[: len(rest)]).sum()[None]]).view(torch.int32)
    return words


def _sums(words: list[Tensor]) -> Tensor:
    """Return the sum of each vector of words times its factors."""
    factors, ends = _factors_and_ends(tuple(map(len, words)), words[0].device)
    totals = torch.zeros(len(factors) + 1, dtype=torch.int64, device=factors.device)
    torch.cumsum(torch.cat(words) * factors, 0, out=totals[1:])
    return totals[ends].diff()


@lru_cache(maxsize=4)
def _factors_and_ends(lengths: tuple[int, ...], device: torch.device) -> tuple[Tensor, Tensor]:
    """Return the factors of vectors of words, one after another, and where each begins and the last one ends."""
    last = _factors(device)[-1]
    factors = torch.cat([last[:length] for length in lengths])
    return factors, torch.tensor([0, *accumulate(lengths)], device=device)


@lru_cache
def _factors(device: torch.device) -> Tensor:
    """Return random odd numbers: a row for each round, and one for what is left."""
    drawn = np.random.default_rng().integers(-(1 << 63), (1 << 63) - 1, size=(_ROUNDS + 1, _ROW), endpoint=True)
    return torch.from_numpy(drawn | 1).to(device)
