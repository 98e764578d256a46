"""Runs programs in a process whose CUDA driver is test/runtime/FakeCuda.cpp: a driver without a GPU.

A process chooses its driver once, so each program needs its own process. The program finds `np`, `kiln`, `kl`, `fake`
(the library, through ctypes), `launches()` (all launches so far, as text) and `on_launch(function)`.
"""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import textwrap

ROOT = pathlib.Path(__file__).resolve().parents[3]

PRELUDE = '''
import ctypes
import numpy as np
import kiln
import kiln.language as kl
from kiln import errors, knobs

import os
fake = ctypes.CDLL(knobs.libcuda) if os.path.exists(knobs.libcuda) else ctypes.CDLL(None)
if os.path.exists(knobs.libcuda):
    fake.fakeLog.restype = ctypes.c_char_p

class Launch(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("grid", ctypes.c_uint * 3), ("block", ctypes.c_uint * 3),
                ("cluster", ctypes.c_uint), ("shared", ctypes.c_uint), ("programmatic", ctypes.c_int),
                ("arguments", ctypes.c_void_p), ("bytes", ctypes.c_size_t), ("stream", ctypes.c_void_p),
                ("device", ctypes.c_int)]

Callback = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.POINTER(Launch))

def on_launch(function):
    """`function(launch, words)` runs as the kernel; `words` are the packed arguments, 8 bytes each."""
    def call(pointer):
        launch = pointer.contents
        block = ctypes.string_at(launch.arguments, launch.bytes) if launch.bytes else b""
        function(launch, np.frombuffer(block.ljust(-(-len(block) // 8) * 8, b"\\0"), np.uint64))
        return 0
    on_launch.kept = Callback(call)
    fake.fakeSetLaunch(on_launch.kept)

def launches():
    return [line for line in fake.fakeLog().decode().splitlines() if line.startswith("cuLaunchKernelEx")]

def memory(address, count, dtype):
    size = count * np.dtype(dtype).itemsize
    return np.frombuffer((ctypes.c_char * size).from_address(int(address)), dtype)

class CudaArray:
    """An array in the fake device's memory, as other libraries describe theirs."""
    def __init__(self, values, stream=None):
        values = np.asarray(values)
        address = ctypes.c_ulonglong()
        fake.cuMemAlloc_v2(ctypes.byref(address), ctypes.c_size_t(values.nbytes + 16))
        self.values = memory(address.value, values.size, values.dtype)
        self.values[:] = values.ravel()
        self.__cuda_array_interface__ = {"data": (address.value, False), "typestr": values.dtype.str,
                                         "shape": values.shape, "version": 3, "stream": stream}
'''


# Both operands are the same array, which keeps the number of arguments small.
SQUARE = """
@kiln.jit
def square(a, c, n, k, stride, out):
    i = kl.program_id(0) * 64 + kl.arange(0, 64)
    total = kl.zeros((64, 64), kl.float32)
    for at in range(0, k, 32):
        d = at + kl.arange(0, 32)
        x = kl.load(a + i[:, None] * stride + d[None, :], mask=(i[:, None] < n) & (d[None, :] < k), other=0.0)
        total = kl.dot(x, x.T, total)
    kl.store(c + i[:, None] * out + i[None, :], total, mask=(i[:, None] < n) & (i[None, :] < n))
"""

# The same with two arrays and tiles in groups of eight rows: each program divides by the height of its group.
GROUPED = """
@kiln.jit
def grouped(a, c, m, n, k, stride, out):
    tiles, across = kl.cdiv(m, 64), kl.cdiv(n, 64)
    group = kl.program_id(0) // (8 * across)
    height = min(tiles - group * 8, 8)
    row = group * 8 + kl.program_id(0) % (8 * across) % height
    i = row * 64 + kl.arange(0, 64)
    j = kl.program_id(0) % (8 * across) // height * 64 + kl.arange(0, 64)
    total = kl.zeros((64, 64), kl.float32)
    for at in range(0, k, 32):
        d = at + kl.arange(0, 32)
        x = kl.load(a + i[:, None] * stride + d[None, :], mask=(i[:, None] < m) & (d[None, :] < k), other=0.0)
        y = kl.load(a + j[None, :] * stride + d[:, None], mask=(j[None, :] < n) & (d[:, None] < k), other=0.0)
        total = kl.dot(x, y, total)
    kl.store(c + i[:, None] * out + j[None, :], total, mask=(i[:, None] < m) & (j[None, :] < n))
"""

# A kernel for programs that need one.
DOUBLE = """
@kiln.jit
def double(x, out, n, BLOCK: kl.constexpr):
    at = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + at, kl.load(x + at, mask=at < n) * 2, mask=at < n)
"""


def library() -> pathlib.Path | None:
    build = os.environ.get("KILN_BUILD", "build")
    found = ROOT / build / "test" / "runtime" / "libkiln_fake_cuda.so"
    return found if found.exists() else None


def run(folder: pathlib.Path, program: str, before: str = "", **environment: str) -> str:
    """Runs the program, after the text `before`; returns what it printed. An error in it fails the test with its
    traceback."""
    path = folder / "program.py"
    path.write_text(PRELUDE + before + textwrap.dedent(program))
    clean = {name: value for name, value in os.environ.items() if name not in ("KILN_TARGET", "KILN_STAGE_ARRAYS")}
    result = subprocess.run(
        [sys.executable, str(path)],
        env={**clean, "KILN_LIBCUDA": str(library()), **environment},
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout
