"""Running a few lines of the language on the CPU, with numpy arrays in and out."""

from __future__ import annotations

import textwrap
from typing import Any

import kiln
import numpy as np
from emitting import kernel_of

NUMPY = {
    "int1": np.bool_, "int8": np.int8, "int16": np.int16, "int32": np.int32, "int64": np.int64,
    "uint8": np.uint8, "uint16": np.uint16, "uint32": np.uint32, "uint64": np.uint64,
    "float16": np.float16, "float32": np.float32, "float64": np.float64,
}  # fmt: skip


def numpy_type(name: str) -> Any:
    if name in NUMPY:
        return NUMPY[name]
    import ml_dtypes

    return {
        "bfloat16": ml_dtypes.bfloat16, "float8e4nv": ml_dtypes.float8_e4m3fn, "float8e5": ml_dtypes.float8_e5m2,
    }[name]  # fmt: skip


def launch(source: str, *arguments: Any, grid: Any = (1,), names: dict[str, Any] | None = None, **meta: Any) -> None:
    """Runs the last function of `source`."""
    kernel = kernel_of(source.replace("@jit", "@kiln.jit"), **(names or {}))
    if not hasattr(kernel, "run"):
        kernel = kiln.jit(kernel.fn)
    kernel[grid](*arguments, **meta)


def load_tile(name: str, array: np.ndarray) -> str:
    """Lines that load a whole array as a tile of its shape."""
    offsets = " + ".join(
        f"kl.arange(0, {side})[{', '.join(':' if i == d else 'None' for i in range(array.ndim))}]"
        f" * {int(np.prod(array.shape[d + 1 :]))}"
        for d, side in enumerate(array.shape)
    )
    return f"{name} = kl.load({name}_ptr + ({offsets}))" if array.ndim else f"{name} = kl.load({name}_ptr)"


def evaluate(expression: str, out: Any, before: str = "", **inputs: np.ndarray | int | float) -> np.ndarray:
    """The value of an expression over tiles loaded from arrays (and scalars); `out` is (shape, dtype)."""
    shape, kind = out
    result = np.full(shape, 77, kind)  # not what any of these tests expects
    arrays = {k: v for k, v in inputs.items() if isinstance(v, np.ndarray)}
    scalars = {k: v for k, v in inputs.items() if not isinstance(v, np.ndarray)}
    lines = [load_tile(name, array) for name, array in arrays.items()]
    lines += textwrap.dedent(before).strip().splitlines()
    lines.append(f"result = {expression}")
    if result.ndim:
        offsets = load_tile("out", result).split("kl.load(")[1][:-1]
        lines.append(f"kl.store({offsets}, result)")
    else:
        lines.append("kl.store(out_ptr, result)")
    parameters = ["out_ptr", *(f"{name}_ptr" for name in arrays), *scalars]
    source = f"def kernel({', '.join(parameters)}):\n" + textwrap.indent("\n".join(lines), "    ")
    launch(source, result, *arrays.values(), *scalars.values())
    return result
