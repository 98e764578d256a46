"""Kiln's kernel library. ``help(FUNCTION)`` says shapes, types, and what is rounded where.

    from kiln.kernels import rms_norm, matmul, attention

{functions}

One folder per family: ``kernel.py`` holds the kernels and the functions that launch them, ``reference.py`` the same
mathematics in numpy and float64, ``configs.py`` tile sizes and the cases that ``make demo`` shows, ``README.md`` what
is computed and where it rounds. ``views.py`` has the arrays as kernels see them; ``rows.py``, ``flat.py`` and
``machine.py`` choose launches, ``launches.py`` lists them without launching.
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

# name → family, and what it is in one line
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
    "adamw_lists": ("optimizer", "the same for lists that were prepared once"),
    "TensorLists": ("optimizer", "lists of tensors, prepared for adamw_lists"),
    "sum_all": ("reduce", "the sum of all elements"),
    "topk": ("reduce", "the k largest of rows, and where they are"),
    "matmul": ("gemm", "a @ b of matrices or batches, with scale, bias, activation and residual"),
    "linear": ("gemm", "x @ weightᵀ, with what matmul adds to a product"),
    "attention": ("attention", "softmax(q kᵀ · scale) v: causal, windows, softcap, sinks, ALiBi, bias"),
    "attention_varlen": ("attention", "the same of sequences that lie behind one another"),
    "attention_backward": ("attention", "gradients of attention's q, k and v"),
    "attention_varlen_backward": ("attention", "gradients of attention_varlen's q, k and v"),
    "flex_attention": ("attention", "the same of scores and masks that are functions of yours"),
    "create_block_mask": ("attention", "which blocks of keys a mask shows, for flex_attention"),
    "decode_attention": ("attention", "attention of one or a few new tokens over a KV cache, contiguous or paged"),
    "append": ("attention", "RoPE on new queries and keys, and the write of keys and values into a cache"),
    "append_quantized": ("attention", "the same into a cache of eight or four bits an element"),
    "decode_quantized": ("attention", "the same over a cache of eight or four bits an element"),
}

__doc__ = (__doc__ or "").format(functions="\n".join(f"    {name:18} {line}" for name, (_, line) in FUNCTIONS.items()))
__all__ = ["FAMILIES", "FUNCTIONS", *FUNCTIONS]


class FamilyOfOne(ModuleType):
    """A folder that has the name of its function: called, it is that function.

    `from kiln.kernels import softmax` gives the folder where something has imported it, and the function where nothing
    has: both can be called.
    """

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


def __getattr__(name: str) -> Any:
    """A function, imported when it is first asked for."""
    found = FUNCTIONS.get(name)
    if found is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    family = importlib.import_module(f"{__name__}.{found[0]}")
    if name == found[0]:
        return family  # importing it has made it an attribute of this module
    value = globals()[name] = getattr(family, name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})


def call_family(name: str) -> None:
    """Makes the module of a family, which has the name of one of its functions, be called as that function."""
    module = sys.modules[name]
    module.__class__ = FamilyOfOne
    function = getattr(module, name.rpartition(".")[2])
    module.__doc__ = f"{module.__doc__}\n\nCalled, the module is ``{function.__name__}``:\n\n{function.__doc__}"
