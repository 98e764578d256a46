"""The front end: captures a Python function, walks its syntax tree, and emits tile IR.

signature.py   what a kernel is compiled for (plain data)
function.py    a captured function: parameters, source, references to the outside, cache key
source.py      finding the source text of a function
emission.py    the emission that this thread is in: `current()` for the language
emitter.py     the open module: ops, constants, regions, locations
visitor.py     the walk over one function, made of expressions.py, statements.py, loops.py and calls.py
entry.py       `emit`: from a kernel and its parameters to a module
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kiln._kiln import Module
    from kiln.frontend.function import KernelFunction
    from kiln.frontend.signature import Parameter


def emit(
    fn: KernelFunction,
    parameters: list[Parameter],
    name: str | None = None,
    *,
    disjoint: Sequence[bool] = (),
    target: str = "",
) -> Module:
    """The tile IR of kernel `fn` specialised for `parameters` (one for each of its parameters, in order).

    `disjoint`, for each pointer in order: no valid access through another pointer reaches its storage.
    `target`: the row of the target table that kernels see by `kl.target_info`; nothing else here depends on it.
    """
    from kiln.frontend.entry import emit as implementation

    return implementation(fn, parameters, name, disjoint=disjoint, target=target)


def __getattr__(name: str) -> Any:
    if name in ("Parameter", "FlatParameter", "flat_parameters"):
        from kiln.frontend import signature

        return getattr(signature, name)
    if name == "KernelFunction":
        from kiln.frontend.function import KernelFunction

        return KernelFunction
    raise AttributeError(f"module 'kiln.frontend' has no attribute {name!r}")
