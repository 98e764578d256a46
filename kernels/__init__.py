"""Kiln's kernel library. ``help(FUNCTION)`` says shapes, types, and what is rounded where.

    from kiln.kernels import rms_norm, matmul, attention

{functions}

One folder per family: ``kernel.py`` holds the kernels and the functions that launch them, ``reference.py`` the same
mathematics in numpy and float64, ``cases.py`` what ``make demo`` shows, ``README.md`` what is computed and where it
rounds. ``views.py`` defines arrays as kernels see them; ``rows.py``, ``flat.py`` and ``machine.py`` choose launches,
``launches.py`` lists them without launching.
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

FAMILIES = (
    "elementwise",
    "softmax",
    "norm",
    "rope",
    "activation",
    "embedding",
    "optimizer",
    "reduce",
    "gemm",
    "attention",
)

# name → family, one-line description
FUNCTIONS = {
    "add": ("elementwise", "x + y"),
    "softmax": ("softmax", "softmax of rows"),
    "rms_norm": ("norm", "x / sqrt(mean(x²) + eps) · weight, of rows"),
    "residual_rms_norm": ("norm", "(rms_norm(s), s) with s = x + residual"),
    "layer_norm": ("norm", "(x - mean) / sqrt(variance + eps) · weight + bias, of rows"),
    "rope": ("rope", "rotary position embedding of Q and K"),
    "rope_tables": ("rope", "cosines and sines for rope"),
    "swiglu": ("activation", "silu(gate) · up"),
    "bias_gelu": ("activation", "gelu(x + bias)"),
    "embedding": ("embedding", "rows of a table by index"),
    "adamw": ("optimizer", "one step of AdamW in place, for a tensor or for lists of them"),
    "adamw_lists": ("optimizer", "adamw for lists that were prepared once"),
    "TensorLists": ("optimizer", "lists of tensors, prepared for adamw_lists"),
    "sum_all": ("reduce", "the sum of all elements"),
    "topk": ("reduce", "the k largest of rows, and where they are"),
    "matmul": ("gemm", "a @ b of matrices or batches, with scale, bias, activation and residual"),
    "linear": ("gemm", "x @ weightᵀ, with what matmul adds to a product"),
    "attention": ("attention", "softmax(q kᵀ · scale) v: causal, windows, softcap, sinks, ALiBi, bias"),
    "attention_varlen": ("attention", "attention of concatenated sequences of different lengths"),
    "attention_backward": ("attention", "gradients of attention's q, k and v"),
    "attention_varlen_backward": ("attention", "gradients of attention_varlen's q, k and v"),
    "flex_attention": ("attention", "attention whose scores and masks are functions of yours"),
    "flex_attention_backward": ("attention", "gradients of flex_attention's query, key and value"),
    "create_block_mask": ("attention", "which blocks of keys a mask shows, for flex_attention"),
    "decode_attention": ("attention", "attention of one or a few new tokens over a KV cache, contiguous or paged"),
    "append": ("attention", "RoPE on new queries and keys, and the write of keys and values into a cache"),
    "quantized_cache": ("attention", "the arrays of a KV cache of eight or four bits an element"),
    "append_quantized": ("attention", "append into a cache of eight or four bits an element"),
    "decode_quantized": ("attention", "decode_attention over a cache of eight or four bits an element"),
}

_width = max(map(len, FUNCTIONS))
_lines = [f"    {name:{_width}}  {line}" for name, (_, line) in FUNCTIONS.items()]
__doc__ = (__doc__ or "").format(functions="\n".join(_lines))
__all__ = ["FAMILIES", "FUNCTIONS", *FUNCTIONS]


class _Package(ModuleType):
    """Makes a name shared by a function and its folder refer to the function, whatever was imported before."""

    def __setattr__(self, name: str, value: Any) -> None:
        # Importing a submodule sets it as an attribute of its parent.
        if isinstance(value, ModuleType) and FUNCTIONS.get(name, ("",))[0] == name:
            value = getattr(value, name)
        super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package


def __getattr__(name: str) -> Any:
    """A library function, imported on first use."""
    found = FUNCTIONS.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    family = importlib.import_module(f"{__name__}.{found[0]}")
    value = globals()[name] = getattr(family, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
