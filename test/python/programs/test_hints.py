"""Untrue hints cost only speed on the CPU: no access leaves the memory that it should touch."""

import ctypes
import mmap

import kiln
import kiln.language as kl
import numpy as np
import pytest


@kiln.jit
def copy_kernel(x, y, n, BLOCK: kl.constexpr):
    offsets = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    # As in persistent matmuls: rows outside the matrix read row 0, so the hint is untrue in the last block.
    rows = kl.max_contiguous(kl.multiple_of(kl.where(offsets < n, offsets, 0), BLOCK), BLOCK)
    kl.store(y + offsets, kl.load(x + rows), mask=offsets < n)


@pytest.mark.cpu
def test_an_untrue_hint_reads_nothing_outside():
    """The array ends at the end of readable memory."""
    page = mmap.PAGESIZE
    memory = mmap.mmap(-1, 2 * page)
    address = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    if ctypes.CDLL(None).mprotect(ctypes.c_void_p(address + page), page, 0):
        raise OSError("mprotect failed")
    x = np.frombuffer(memory, np.float32)[page // 4 - 40 : page // 4]
    x[:] = np.arange(40)
    y = np.zeros(40, np.float32)
    copy_kernel[(2,)](x, y, 40, BLOCK=32)
    assert (y == np.arange(40)).all()
