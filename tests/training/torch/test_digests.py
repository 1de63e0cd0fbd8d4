"""A digest changes with any content; the host waits for it once, however many tensors there are."""

import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from minsep.training.torch.digests import _ROW, digest, digests

DTYPES = [torch.float64, torch.float32, torch.bfloat16, torch.int64, torch.int8, torch.bool, torch.complex64]


def changed(tensor, **entries):
    other = tensor.clone()
    for place, value in entries.items():
        other[int(place[1:])] = value
    return other


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("size", [5, 3 * _ROW + 7])
def test_one_changed_entry_is_seen(dtype, size):
    before = torch.zeros(size).to(dtype)
    assert digest(before) == digest(before.clone())
    for place in (0, 3, size - 1):
        assert digest(changed(before, **{f"p{place}": 1})) != digest(before)


@pytest.mark.parametrize("dtype", [torch.int64, torch.int32, torch.float32], ids=str)
@pytest.mark.parametrize("size", [5, 3 * _ROW + 7])
def test_changes_that_keep_the_sum_of_bits_are_seen(dtype, size):
    before = torch.arange(10, size + 10).to(dtype)
    assert digest(changed(before, p0=9, p2=13)) != digest(before)  # usage[0] -= 1, usage[2] += 1
    assert digest(before.flip(0)) != digest(before)
    assert digest(before.roll(_ROW if size > _ROW else 2)) != digest(before)
    assert digest(changed(before, p1=-before[1], p3=-before[3])) != digest(before)  # two highest bits


def test_moves_of_a_random_entry_are_seen():
    """A digest that misses a change with probability 2^-30 misses one of these with probability below 1e-6."""
    generator = np.random.default_rng(0)
    for _ in range(200):
        size = int(generator.integers(2, 3 * _ROW))
        before = torch.from_numpy(generator.integers(0, 100, size))
        after = before.clone()
        first, second = generator.choice(size, 2, replace=False)
        after[first] -= 1
        after[second] += 1
        assert digest(after) != digest(before)


def test_layouts_without_plain_memory_have_digests():
    dense = torch.eye(3)
    other = changed(dense, p0=2.0)
    assert digest(dense.to_sparse()) != digest(other.to_sparse())
    assert digest(dense[:, 0]) != digest(other[:, 0])
    assert digest((1j * dense).conj()) != digest(1j * dense)
    assert digest(torch.zeros(0)) == digest(torch.zeros(0))
    assert digest(torch.zeros(3, device="meta")) is None


class Waits(TorchDispatchMode):
    """Counts what makes the host wait for a device: a number that it asks for, and a copy to it."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func.overloadpacket.__name__ in ("_local_scalar_dense", "item", "equal", "nonzero")
        return func(*args, **(kwargs or {}))


def test_the_host_does_not_wait_for_each_tensor():
    tensors = [torch.randn(size) for size in (1, 20, 3 * _ROW)]
    with Waits() as waits:
        found = digests(tensors)
    assert waits.count == 0  # one copy to the host brings all of them
    assert found == [digest(tensor) for tensor in tensors]
