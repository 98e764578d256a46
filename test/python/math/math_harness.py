"""Compiles one-operation MLIR functions through kiln-expand-math into a shared library and calls them on arrays.

Needs kiln-opt and what the LLVM packages install. The library is linked with nothing else, so that a call into libm or
libgcc is a link error.
"""

from __future__ import annotations

import ctypes
import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np

ROOT = Path(__file__).resolve().parents[3]
LANES = 16

DTYPES: dict[str, np.dtype] = {
    "f64": np.dtype(np.float64),
    "f32": np.dtype(np.float32),
    "f16": np.dtype(np.float16),
    "bf16": np.dtype(ml_dtypes.bfloat16),
    "f8E4M3FN": np.dtype(ml_dtypes.float8_e4m3fn),
    "f8E5M2": np.dtype(ml_dtypes.float8_e5m2),
    "i64": np.dtype(np.int64),
    "i32": np.dtype(np.int32),
    "i16": np.dtype(np.int16),
    "i8": np.dtype(np.int8),
    "i1": np.dtype(np.bool_),
}
NARROW = ("f16", "bf16", "f8E4M3FN", "f8E5M2")
MARCH = {"cpu-avx512": "x86-64-v4", "cpu-avx2": "x86-64-v3", "cpu-sse": "x86-64-v2"}


def find_tool(name: str) -> str | None:
    return shutil.which(f"{name}-22") or shutil.which(f"/usr/lib/llvm-22/bin/{name}")


def tool(name: str) -> str:
    if found := find_tool(name):
        return found
    raise FileNotFoundError(f"{name} of LLVM 22 (Debian packages mlir-22-tools, clang-22, llvm-22)")


def kiln_opt() -> str:
    build = Path(os.environ.get("KILN_BUILD_DIR", ROOT / "build"))
    return str(build / "compiler" / "tools" / "kiln-opt")


@dataclass(frozen=True)
class Function:
    """`body` computes %r (or %r0, %r1) from %a0, %a1, ... ; VEC(t) stands for the type over t in the shape being
    compiled, SPLAT(c) for a constant of it."""

    name: str
    operands: tuple[str, ...]
    results: tuple[str, ...]
    body: str

    def text(self, shape: str) -> str:
        """`shape` is a vector shape such as "16" or "4x4", or "" for scalars."""

        def of(t: str) -> str:
            return f"vector<{shape}x{t}>" if shape else t

        def memory(t: str) -> str:
            return {"bf16": "i16", "f16": "i16", "f8E4M3FN": "i8", "f8E5M2": "i8", "i1": "i8"}.get(t, t)

        lanes = int(np.prod([int(k) for k in shape.split("x")])) if shape else 1
        flat = (lambda t: f"vector<{lanes}x{t}>") if shape else (lambda t: t)
        names = [f"%p{i}" for i in range(len(self.operands))] + [f"%q{i}" for i in range(len(self.results))]
        lines = [f"func.func @{self.name}({', '.join(f'{n}: !llvm.ptr' for n in names)}, %n: i64) {{"]
        lines += ["  %zero = arith.constant 0 : i64", f"  %step = arith.constant {lanes} : i64"]
        lines.append("  scf.for %i = %zero to %n step %step : i64 {")

        def address(pointer: str, t: str) -> None:
            lines.append(
                f"    {pointer}a = llvm.getelementptr {pointer}[%i] : (!llvm.ptr, i64) -> !llvm.ptr, {memory(t)}"
            )

        for k, t in enumerate(self.operands):
            address(f"%p{k}", t)
            m = memory(t)
            lines.append(f"    %l{k} = llvm.load %p{k}a {{alignment = 1 : i64}} : !llvm.ptr -> {flat(m)}")
            value = f"%l{k}"
            if shape and "x" in shape:
                lines.append(f"    %s{k} = vector.shape_cast {value} : {flat(m)} to {of(m)}")
                value = f"%s{k}"
            if t == "i1":
                lines.append(f"    %a{k} = arith.trunci {value} : {of(m)} to {of(t)}")
            elif m != t:
                lines.append(f"    %a{k} = arith.bitcast {value} : {of(m)} to {of(t)}")
            else:
                lines[-1] = lines[-1].replace(value + " =", f"%a{k} =")
        body = re.sub(r"SPLAT\((.*?)\)", r"dense<\1>" if shape else r"\1", self.body)
        lines.append("    " + re.sub(r"VEC\((.*?)\)", lambda m: of(m[1]), body))
        for k, t in enumerate(self.results):
            address(f"%q{k}", t)
            m = memory(t)
            value = f"%r{k}" if len(self.results) > 1 else "%r"
            if t == "i1":
                lines.append(f"    %m{k} = arith.extui {value} : {of(t)} to {of(m)}")
                value = f"%m{k}"
            elif m != t:
                lines.append(f"    %m{k} = arith.bitcast {value} : {of(t)} to {of(m)}")
                value = f"%m{k}"
            if shape and "x" in shape:
                lines.append(f"    %f{k} = vector.shape_cast {value} : {of(m)} to {flat(m)}")
                value = f"%f{k}"
            lines.append(f"    llvm.store {value}, %q{k}a {{alignment = 1 : i64}} : {flat(m)}, !llvm.ptr")
        return "\n".join([*lines, "  }", "  return", "}"])


def run(command: list[str], text: str) -> str:
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}\n{done.stderr[:4000]}")
    return done.stdout


def expanded(functions: list[Function], target: str, shape: str) -> str:
    module = "\n".join(f.text(shape) for f in functions)
    return run([kiln_opt(), f"--kiln-set-target=target={target}", "--kiln-expand-math"], module)


class Library:
    """The functions compiled for one target, unless `folder` has them; call(name, *arrays) applies one elementwise."""

    def __init__(
        self,
        functions: list[Function],
        target: str,
        folder: Path,
        shape: str = str(LANES),
        optimize: str = "-O1",
    ) -> None:
        self.functions = {f.name: f for f in functions}
        self.lanes = int(np.prod([int(k) for k in shape.split("x")])) if shape else 1
        self.path = folder / f"{target}-{shape or 'scalar'}.so"
        if not self.path.exists():
            self._compile(functions, target, shape, optimize)
        self.loaded = ctypes.CDLL(str(self.path))

    def _compile(self, functions: list[Function], target: str, shape: str, optimize: str) -> None:
        text = run(
            [
                tool("mlir-opt"),
                "--convert-scf-to-cf",
                "--convert-vector-to-llvm",
                "--convert-to-llvm",
                "--reconcile-unrealized-casts",
            ],
            expanded(functions, target, shape),
        )
        ir = self.path.with_suffix(".ll")
        ir.write_text(run([tool("mlir-translate"), "--mlir-to-llvmir"], text))
        flags = [optimize, f"-march={MARCH[target]}", "-fPIC", "-shared", "-nostdlib", "-Wl,-z,defs"]
        run([tool("clang"), "-Wno-override-module", *flags, "-o", str(self.path), str(ir)], "")

    def __call__(self, name: str, *arrays: np.ndarray) -> np.ndarray | tuple[np.ndarray, ...]:
        function = self.functions[name]
        count = len(arrays[0])
        padded = -(-count // self.lanes) * self.lanes
        inputs = []
        for array, t in zip(arrays, function.operands, strict=True):
            assert array.dtype == DTYPES[t], (name, array.dtype, t)
            full = np.ones(padded, array.dtype)
            full[:count] = array
            inputs.append(full)
        outputs = [np.zeros(padded, DTYPES[t]) for t in function.results]
        pointers = [ctypes.c_void_p(a.ctypes.data) for a in (*inputs, *outputs)]
        getattr(self.loaded, name)(*pointers, ctypes.c_int64(padded))
        results = tuple(o[:count] for o in outputs)
        return results if len(results) > 1 else results[0]


def host_targets() -> list[str]:
    """Rows of the target table that this machine can run, widest first."""
    flags = Path("/proc/cpuinfo").read_text()
    rows = [("cpu-avx512", "avx512vl"), ("cpu-avx2", "f16c"), ("cpu-sse", "sse4_2")]
    return [name for name, flag in rows if flag in flags]


def ulp_error(result: np.ndarray, exact: np.ndarray) -> np.ndarray:
    """|result - exact| in units of the last place of `exact` in result's type; inf where only one is NaN or inf.

    `exact` has more precision than result. An exact value that rounds to infinity must be infinity.
    """
    dtype = result.dtype
    wide = np.longdouble if dtype == np.float64 else np.float64
    info = np.finfo(dtype)
    exact = exact.astype(wide)
    got = result.astype(wide)
    rounded = exact.astype(dtype)
    with np.errstate(all="ignore"):
        exponent = np.frexp(np.abs(exact))[1] - 1
        exponent = np.clip(exponent, info.minexp, info.maxexp - 1)
        unit = np.ldexp(wide(1), exponent - info.nmant)
        error = np.abs(got - exact) / unit
        # Beyond the largest number, both it and infinity are acceptable if the exact value is within two steps.
        same = (np.isnan(result) & np.isnan(exact)) | (result == rounded)
        beyond = np.isinf(result) & ~np.isinf(exact) & (np.sign(got) == np.sign(exact))
        limit = wide(info.max) + 0 * exact
        error = np.where(beyond, np.abs(limit - np.abs(exact)) / unit, error)
        error = np.where(np.isinf(exact) & ~np.isinf(result), np.inf, error)
        error = np.where(same & ~(np.isfinite(exact) & np.isfinite(got)), 0, error)
        error = np.where(np.isnan(result) != np.isnan(exact), np.inf, error)
    return error
