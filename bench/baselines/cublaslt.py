"""cuBLASLt called directly: every algorithm that its heuristics offer for a product, each launchable separately.

The library is the one installed with torch. Its matrices are column-major, so a product of row-major arrays is computed
as its transpose: out^T = b^T · a^T. The constants and the struct come from cublasLt.h (CUDA 13).
"""

from __future__ import annotations

import ctypes
import functools
import glob
import os
import re
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np
from cases import Unavailable

R = {"float32": 0, "float16": 2, "int8": 3, "int32": 10, "bfloat16": 14, "float8_e4m3fn": 28, "float8_e5m2": 29}
COMPUTE_16F, COMPUTE_32F, COMPUTE_32I = 64, 68, 72
DESC_TRANSA, DESC_TRANSB, DESC_A_SCALE, DESC_B_SCALE, DESC_FAST_ACCUM = 3, 4, 17, 18, 25
PREF_MAX_WORKSPACE, PREF_ALIGNMENTS = 1, (5, 6, 7, 8)
WORKSPACE = 64 << 20


class Heuristic(ctypes.Structure):
    _fields_ = (("algo", ctypes.c_uint64 * 8), ("workspace", ctypes.c_size_t), ("state", ctypes.c_int),
                ("waves", ctypes.c_float), ("reserved", ctypes.c_int * 4))  # fmt: skip


def library_path() -> str:
    """The library that torch has loaded, or the one in NVIDIA's package beside it."""
    with open("/proc/self/maps") as maps:
        for line in maps:
            if re.search(r"libcublasLt\.so", line):
                return line.split()[-1]
    for folder in sys.path:
        for found in sorted(glob.glob(os.path.join(folder, "nvidia", "*", "lib", "libcublasLt.so.*"))):
            return found
    raise Unavailable("no libcublasLt beside torch")


@functools.cache
def _library() -> ctypes.CDLL:
    return ctypes.CDLL(library_path())


def call(name: str, *arguments: Any) -> None:
    if code := getattr(_library(), name)(*arguments):
        raise RuntimeError(f"{name}: cublasStatus {code}")


def version() -> int:
    _library().cublasLtGetVersion.restype = ctypes.c_size_t
    return _library().cublasLtGetVersion()


@functools.cache
def _handle() -> ctypes.c_void_p:
    handle = ctypes.c_void_p()
    call("cublasLtCreate", ctypes.byref(handle))
    return handle


def _set(name: str, thing: ctypes.c_void_p, attribute: int, value: Any) -> None:
    call(name, thing, ctypes.c_int(attribute), ctypes.byref(value), ctypes.c_size_t(ctypes.sizeof(value)))


def _layout(dtype: str, rows: int, columns: int, leading: int) -> ctypes.c_void_p:
    layout = ctypes.c_void_p()
    call("cublasLtMatrixLayoutCreate", ctypes.byref(layout), ctypes.c_int(R[dtype]), ctypes.c_uint64(rows),
         ctypes.c_uint64(columns), ctypes.c_int64(leading))  # fmt: skip
    return layout


@dataclass(frozen=True)
class Algorithm:
    words: tuple[int, ...]
    workspace: int

    def __str__(self) -> str:
        return ":".join(f"{word:x}" for word in (*self.words, self.workspace))

    @staticmethod
    def parse(text: str) -> Algorithm:
        *words, workspace = (int(word, 16) for word in text.split(":"))
        return Algorithm(tuple(words), workspace)


class Product:
    """out (m, n) = alpha · a (m, k) @ b + beta · out's like c, row-major; b is (n, k) with ``b_rows``, else (k, n)."""

    def __init__(self, m: int, n: int, k: int, dtype: str, out_dtype: str, *, b_rows: bool, accumulator: str = "f32",
                 alpha: float = 1.0, beta: float = 0.0):  # fmt: skip
        half = accumulator == "f16"
        compute = COMPUTE_32I if dtype == "int8" else COMPUTE_16F if half else COMPUTE_32F
        scale = "int32" if dtype == "int8" else "float16" if half else "float32"
        # The library reads these through a pointer, in the scale's type.
        self.alpha, self.beta = (np.array([value], scale) for value in (alpha, beta))
        self.desc = ctypes.c_void_p()
        call("cublasLtMatmulDescCreate", ctypes.byref(self.desc), ctypes.c_int(compute), ctypes.c_int(R[scale]))
        if b_rows:
            _set("cublasLtMatmulDescSetAttribute", self.desc, DESC_TRANSA, ctypes.c_int32(1))
        if dtype.startswith("float8"):
            _set("cublasLtMatmulDescSetAttribute", self.desc, DESC_FAST_ACCUM, ctypes.c_int8(accumulator == "fast"))
        # The first operand of the transposed product is b.
        self.left = _layout(dtype, k, n, k) if b_rows else _layout(dtype, n, k, n)
        self.right, self.result = _layout(dtype, k, m, k), _layout(out_dtype, n, m, n)

    def algorithms(self, count: int = 64) -> list[Algorithm]:
        """What the heuristics offer, best first by their own estimate."""
        preference, found = ctypes.c_void_p(), ctypes.c_int()
        call("cublasLtMatmulPreferenceCreate", ctypes.byref(preference))
        _set("cublasLtMatmulPreferenceSetAttribute", preference, PREF_MAX_WORKSPACE, ctypes.c_uint64(WORKSPACE))
        results = (Heuristic * count)()
        call("cublasLtMatmulAlgoGetHeuristic", _handle(), self.desc, self.left, self.right, self.result, self.result,
             preference, ctypes.c_int(count), results, ctypes.byref(found))  # fmt: skip
        call("cublasLtMatmulPreferenceDestroy", preference)
        return [Algorithm(tuple(r.algo), r.workspace) for r in results[: found.value] if r.state == 0]

    def bind(self, algorithm: Algorithm, torch: Any) -> Any:
        """A function of (a, b, c, out) that launches on the current stream; c is out where beta is 0."""
        words = (ctypes.c_uint64 * 8)(*algorithm.words)
        workspace = torch.empty(max(algorithm.workspace, 256), dtype=torch.uint8, device="cuda")
        pointer = ctypes.c_void_p
        alpha, beta = pointer(self.alpha.ctypes.data), pointer(self.beta.ctypes.data)
        matmul, handle = _library().cublasLtMatmul, _handle()

        def launch(a: Any, b: Any, c: Any, out: Any) -> None:
            stream = pointer(torch.cuda.current_stream().cuda_stream)
            if code := matmul(handle, self.desc, alpha, pointer(b.data_ptr()), self.left, pointer(a.data_ptr()),
                              self.right, beta, pointer(c.data_ptr()), self.result, pointer(out.data_ptr()),
                              self.result, words, pointer(workspace.data_ptr()),
                              ctypes.c_size_t(algorithm.workspace), stream):  # fmt: skip
                raise RuntimeError(f"cublasLtMatmul: cublasStatus {code}")

        return launch
