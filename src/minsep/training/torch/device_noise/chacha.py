"""The block function of ChaCha20 (RFC 8439) in integer operations on tensors, many blocks at a time.

A block is 16 words of 32 bits, which RFC 8439 writes as a matrix of 4 x 4. Here each row of that matrix is a tensor of
4 x blocks, so one operation serves the four columns, or the four diagonals, of all blocks. Words are int32: their sums
are modulo 2^32, and right shifts are made logical by a mask.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from minsep.randomness.chacha import CONSTANTS, DOUBLE_ROUNDS


def blocks(key: Sequence[int], inputs: Tensor) -> Tensor:
    """Return blocks of the generator: words by blocks, of int32.

    Args:
        key: Eight words.
        inputs: Four words for each block (counter, then nonce), words by blocks, of int32.

    >>> zeros = blocks([0] * 8, torch.zeros(4, 1, dtype=torch.int32))
    >>> hex(int(zeros[0, 0]))  # the first words of the first vector of RFC 8439, appendix A.1: 76 b8 e0 ad
    '-0x521f478a'
    >>> (-0x521F478A).to_bytes(4, "little", signed=True).hex()
    '76b8e0ad'
    """
    fixed = torch.tensor(
        [_signed(int(word)) for part in (CONSTANTS, key) for word in part], dtype=torch.int32, device=inputs.device
    )
    start = torch.cat([fixed[:, None].expand(-1, inputs.shape[1]), inputs])
    a, b, c, d = start.clone().view(4, 4, -1)
    for _ in range(DOUBLE_ROUNDS):
        _quarter_rounds(a, b, c, d)
        b, c, d = b.roll(-1, 0), c.roll(-2, 0), d.roll(-3, 0)
        _quarter_rounds(a, b, c, d)
        b, c, d = b.roll(1, 0), c.roll(2, 0), d.roll(3, 0)
    return torch.cat([a, b, c, d]).add_(start)


def _quarter_rounds(a: Tensor, b: Tensor, c: Tensor, d: Tensor) -> None:
    """Mix four words, for all columns and blocks, in place."""
    for first, second, third, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        first.add_(second)
        third.bitwise_xor_(first)
        turned = (third >> (32 - turn)).bitwise_and_((1 << turn) - 1)
        third.bitwise_left_shift_(turn).bitwise_or_(turned)


def _signed(word: int) -> int:
    """Return the number in [-2^31, 2^31) with the bits of a word."""
    return word - (1 << 32) if word >> 31 else word
