"""Descriptor blocks that begin anywhere: before the array, after it, at addresses that the copy engine cannot take.

An H200 ends a launch with an illegal instruction if a box does not begin at a multiple of 16 bytes along its rows, or
if a box to be written begins before its array.
"""

import kiln
import kiln.language as kl
import pytest
from kiln.tools.tensor_descriptor import TensorDescriptor

PLACES = (0, 1, 4, 8, 150, -1, -8, -63, -64, -128, -200)


@kiln.jit
def product(a, b, c, k, a_row, a_column, b_row, b_column, c_row, c_column, SIDE: kl.constexpr, DEPTH: kl.constexpr):
    total = kl.zeros((SIDE, SIDE), kl.float32)
    for i in range(0, k, DEPTH):
        total = kl.dot(a.load([a_row, a_column + i]), b.load([b_row + i, b_column]), total)
    c.store([c_row, c_column], total.to(kl.float16))


def window(torch, array, row, column, height, width):
    """The contents of a block: zero outside the array."""
    block = torch.zeros(height, width, dtype=torch.float64, device="cuda")
    first, last = max(row, 0), min(row + height, array.shape[0])
    left, right = max(column, 0), min(column + width, array.shape[1])
    if last > first and right > left:
        block[first - row : last - row, left - column : right - column] = array[first:last, left:right].double()
    return block


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("which", range(6), ids=["a row", "a column", "b row", "b column", "c row", "c column"])
def test_blocks_begin_anywhere(torch, which, place):
    torch.manual_seed(0)
    a = torch.randint(-1, 2, (200, 264), device="cuda").half()
    b = torch.randint(-1, 2, (256, 200), device="cuda").half()
    around = torch.full((180, 208), 9.0, device="cuda", dtype=torch.float16)
    c = around[20:160, 8:192]
    at = [0] * 6
    at[which] = place
    descriptors = [
        TensorDescriptor.from_tensor(x, block) for x, block in ((a, [128, 64]), (b, [64, 128]), (c, [128] * 2))
    ]
    product[(1,)](*descriptors, 256, *at, 128, 64, num_warps=8)
    exact = window(torch, a, at[0], at[1], 128, 256) @ window(torch, b, at[2], at[3], 256, 128)
    want = torch.full_like(around, 9.0)
    inner = want[20:160, 8:192]
    first, last = max(at[4], 0), min(at[4] + 128, c.shape[0])
    left, right = max(at[5], 0), min(at[5] + 128, c.shape[1])
    if last > first and right > left:
        inner[first:last, left:right] = exact[first - at[4] : last - at[4], left - at[5] : right - at[5]].half()
    assert torch.equal(around, want)
