"""Every function of the language documents itself with an example, and each example compiles to valid tile IR."""

from __future__ import annotations

import re
import textwrap

import kiln.language as kl
import pytest
from emitting import emit, kernel_of
from kiln.frontend.function import KernelFunction
from kiln.language import methods
from kiln.language.extra import cuda, libdevice


def multiply(a, b):
    return a * b


def double(a):
    return a * 2


def compare_and_pick(a, b):
    return kl.where(a > b, a, b)


# The names used in the examples: parameters of a kernel, and tiles made before the example.
PARAMETERS = {
    "x_ptr": "*fp32", "y_ptr": "*fp32", "total_ptr": "*fp32", "best_ptr": "*fp32", "least_ptr": "*fp32",
    "flags_ptr": "*i32", "lock_ptr": "*i32", "n": "i32", "K": "i32", "rows": "i32", "pid": "i32", "row": "i32",
    "start": "i32", "stride": "i32", "seed": "i32", "eps": "fp32", "p": "fp32", "grid_m": "i32", "grid_n": "i32",
    "BLOCK": 64, "BLOCK_K": 32, "M": 16, "N": 64, "BM": 16, "BN": 32,
}  # fmt: skip

TILES = """
offsets = kl.arange(0, BLOCK)
x = kl.load(x_ptr + offsets)
y = kl.load(y_ptr + offsets)
z = y
a = x
b = y
total = kl.sum(x, 0)
mean_of_squares = total
matrix = kl.reshape(x, (M, 4))
"""

# Setup for functions whose examples need other names or tiles.
SETUP = {
    "kl.bitonic_merge": "ascending = x\nother = y",
    "kl.broadcast_to": "x = kl.full((M,), 1.0, kl.float32)",
    "kl.cat": "left = x\nright = y",
    "kl.dot": "a = matrix\nb = kl.trans(matrix)\nacc = kl.zeros((M, M), kl.float32)",
    "kl.dot_scaled": (
        "a = kl.zeros((M, 64), kl.float8e4nv)\nb = kl.zeros((64, M), kl.float8e4nv)\nacc = None\n"
        "a_scale = kl.full((M, 2), 127, kl.uint8)\nb_scale = kl.full((M, 2), 127, kl.uint8)"
    ),
    "kl.condition": "i = kl.program_id(0)", "kl.histogram": "x = kl.load(flags_ptr + offsets)",
    "kl.interleave": "even = x\nodd = y",
    "kl.advance": "p = kl.make_block_ptr(x_ptr, (M, N), (N, 1), (pid * BM, 0), (BM, BN), (1, 0))",
    "kl.load_tensor_descriptor": "d = kl.make_tensor_descriptor(x_ptr, (M, N), (N, 1), (BM, BN))",
    "kl.store_tensor_descriptor": (
        "d = kl.make_tensor_descriptor(x_ptr, (M, N), (N, 1), (BM, BN))\ny = kl.zeros((BM, BN), kl.float32)"
    ),
    "kl.max_constancy": "flags = offsets",
    "kl.permute": "x = kl.zeros((2, 4, 8), kl.float32)",
    "kl.trans": "x = matrix", "kl.ravel": "x = matrix",
    "kl.reshape": "x = kl.zeros((M, N), kl.float32)", "kl.view": "x = kl.zeros((N, 2), kl.float32)",
    "kl.squeeze": "column = kl.expand_dims(x, 1)",
    "kl.split": "pairs = kl.join(x, y)",
    "kl.device_assert": "index = offsets",
    "kl.softmax": "scores = matrix",
    "kl.xor_sum": "bits = offsets", "kl.reduce_or": "flags = offsets", "kl.cumsum": "flags = offsets",
    "kl.cumprod": "gates = x",
    "kl.philox_impl": "c0 = offsets\nc1 = 0\nc2 = 0\nc3 = 0\nk0 = seed\nk1 = 0",
    "kl.pair_uniform_to_normal": "u1 = kl.rand(seed, offsets)\nu2 = kl.rand(seed, offsets + n)",
    "kl.umulhi": "x = offsets.to(kl.uint32)",
    "kl.unlikely": "score = matrix\ntop = kl.max(matrix, axis=1)",
}  # fmt: skip


def examples():
    for name in sorted(kl.__all__):
        value = getattr(kl, name)
        if hasattr(value, "__kiln_builtin__") or name in ("range", "static_range", "condition"):
            yield f"kl.{name}", value
    for name, value in sorted(vars(kl.tensor).items()):
        if hasattr(value, "__kiln_builtin__") and not hasattr(kl, name):
            yield f"x.{name}", value
    for value in (methods.desc_load, methods.desc_store, methods.desc_gather, methods.desc_scatter):
        yield f"desc_{value.__name__}", value
    for op in ("add", "min", "max", "and", "or", "xor"):
        yield f"desc_atomic_{op}", getattr(kl.tensor_descriptor, f"atomic_{op}")
    for name in sorted(libdevice.__all__):
        yield f"libdevice.{name}", getattr(libdevice, name)
    for name in ("gdc_launch_dependents", "gdc_wait", "globaltimer", "smid"):
        yield f"cuda.{name}", getattr(cuda, name)


def setup_of(name: str) -> str:
    if name.startswith("desc_"):
        width, element, block = ("BN", "flags_ptr", "(BM, BN)") if "atomic" in name else ("BN", "x_ptr", "(BM, BN)")
        if name in ("desc_gather", "desc_scatter"):
            return (
                "rows = kl.arange(0, 8)\nd = kl.make_tensor_descriptor(x_ptr, (M, N), (N, 1), (1, BN))\n"
                "x = kl.zeros((8, BN), kl.float32)"
            )
        kind = "int32" if "atomic" in name else "float32"
        return (
            f"d = kl.make_tensor_descriptor({element}, (M, N), (N, 1), {block})\ny = kl.zeros((BM, {width}), kl.{kind})"
        )
    if name.startswith("libdevice."):
        return libdevice_setup(name.split(".")[1])
    return SETUP.get(name, "")


def libdevice_setup(name: str) -> str:
    kinds = {"float": "float32", "double": "float64", "half": "float16", "int": "int32", "uint": "uint32",
             "ll": "int64", "ull": "uint64", "longlong": "int64"}  # fmt: skip
    lines = ["n = offsets", "w = x"]
    source = (
        name.split("2")[0] if "2" in name and "exp2" not in name and "log2" not in name and "atan2" not in name else ""
    )
    source = name.split("_as_")[0] if "_as_" in name else source
    if source in kinds:
        lines.append(f"x = x.to(kl.{kinds[source]})")
    elif name in ("popc", "clz", "ffs", "brev", "mulhi", "max", "min", "umax", "umin"):
        lines.append("x = offsets\ny = offsets + 1")
    elif name in ("mul24", "hadd", "rhadd", "sad", "byte_perm", "hiloint2double"):
        lines.append("x = offsets\ny = offsets + 1\nz = offsets\ns = offsets\nhigh = offsets\nlow = offsets")
    elif name == "rcp64h":
        lines.append("x = x.to(kl.float64)")
    elif name in ("llmax", "llmin", "ullmax", "ullmin"):
        lines.append("x = offsets.to(kl.int64)\ny = x + 1")
    return "\n".join(lines)


@pytest.mark.parametrize("name, value", list(examples()), ids=[name for name, _ in examples()])
def test_example_compiles(name, value):
    doc = value.__doc__
    assert doc and ">>> " in doc, f"{name} has no example"
    example = "\n".join(re.findall(r"^ *(?:>>>|\.\.\.) (.*)", doc, re.MULTILINE))
    if example.endswith("..."):
        example = example[: -len("...")] + "pass"
    notes = ", ".join(k if isinstance(v, str) else f"{k}: kl.constexpr" for k, v in PARAMETERS.items())
    code = "\n".join([TILES.strip(), setup_of(name), example])
    kernel = kernel_of(
        f"def kernel({notes}):\n" + textwrap.indent(code, "    "),
        libdevice=libdevice,
        multiply=KernelFunction(multiply),
        double=KernelFunction(double),
        compare_and_pick=KernelFunction(compare_and_pick),
        COSINE=kl.constexpr({(kl.float32,): ("__nv_cosf", kl.float32)}),
    )
    assert "func.func" in emit(kernel, **PARAMETERS)
