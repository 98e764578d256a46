"""Promises to the compiler; printing and assertions at compile time and at run time."""

from __future__ import annotations

import builtins
from typing import Any

from .builtin import builtin
from .semantic import debug
from .semantic.build import error
from .semantic.operand import describe, spell
from .values import tensor, unwrap


@builtin
def multiple_of(input: Any, values: Any) -> tensor:
    """A promise: the first element of each run along a dimension is a multiple of the given number.

    >>> stride = kl.multiple_of(stride, 16)
    """
    return debug.hint(input, "divisibility", values, "kl.multiple_of")


@builtin
def max_contiguous(input: Any, values: Any) -> tensor:
    """A promise: along each dimension, the elements of each run of the given length count up by one.

    >>> offsets = kl.max_contiguous(offsets, BLOCK)
    """
    return debug.hint(input, "contiguity", values, "kl.max_contiguous")


@builtin
def max_constancy(input: Any, values: Any) -> tensor:
    """A promise: along each dimension, the elements of each run of the given length are equal.

    >>> flags = kl.max_constancy(flags, 8)
    """
    return debug.hint(input, "constancy", values, "kl.max_constancy")


@builtin
def assume(cond: Any) -> None:
    """A promise: the scalar condition holds. If it does not, the behaviour is undefined; under KILN_CHECK the launch
    fails, as with `device_assert`.

    The compiler uses promises about ranges and multiples, and drops masks that they make true: of all blocks of a loop
    ``for start in range(0, n, 1024)`` if n is a multiple of 1024, or of one block that is promised to be inside.

    >>> kl.assume(n > 0)
    >>> kl.assume(n % 1024 == 0)
    >>> kl.assume((n >= 1024) & (start <= n - 1024))
    """
    debug.assume(cond)


@builtin
def unlikely(cond: Any) -> tensor:
    """Whether any element of the condition is true, for a branch that is rarely needed. It may be taken although none
    is, so it has to be right whenever it is taken, and only cost more.

    For results that are nearly always good enough, and a branch that makes better ones. Where finding out would take
    longer than the branch, it is always taken, and nothing is computed that only it replaces.

    >>> weight = kl.exp2(score - top[:, None])
    >>> if kl.unlikely(weight > 1024.0):
    ...     top = kl.max(score, axis=1)
    ...     weight = kl.exp2(score - top[:, None])
    """
    return debug.unlikely(cond)


@builtin
def debug_barrier() -> None:
    """Orders the program instance's memory accesses before the barrier with those after it.

    >>> kl.debug_barrier()
    """
    debug.barrier()


# Counts prints at compile time: a kernel that prints gets no index entry in the cache, so that it is emitted again.
prints = [0]


@builtin
def static_print(*values: Any, sep: Any = " ", end: Any = "\n", file: Any = None, flush: Any = False) -> None:
    """Prints while the kernel is compiled.

    >>> kl.static_print("block", BLOCK, x.type)
    """
    plain = [spell(v) if isinstance(v, int) and not isinstance(v, bool) else v for v in map(unwrap, values)]
    for name, text in (("sep", unwrap(sep)), ("end", unwrap(end))):
        if not isinstance(text, (str, type(None))):
            got = describe(text)
            raise error(f"expected a constexpr string as {name} of kl.static_print, got {got}", argument=name)
    if unwrap(file) is not None and not hasattr(unwrap(file), "write"):
        raise error(f"expected an open file as file of kl.static_print, got {describe(file)}", argument="file")
    prints[0] += 1
    builtins.print(*plain, sep=unwrap(sep), end=unwrap(end), file=unwrap(file), flush=bool(unwrap(flush)))


@builtin
def static_assert(cond: Any, msg: Any = "") -> None:
    """Fails the compilation with a message unless a condition known at compile time holds.

    >>> kl.static_assert(BLOCK % 16 == 0, "BLOCK must be a multiple of 16")
    """
    value = unwrap(cond)
    if isinstance(value, tensor):
        raise error(
            f"expected a condition known at compile time in kl.static_assert, got a value of type {value.type}",
            hint="use kl.device_assert",
            argument="cond",
        )
    if not value:
        from kiln.errors import StaticAssertionError

        text = unwrap(msg)
        message = f"static assertion failed: {text}" if text else "static assertion failed"
        raise StaticAssertionError(message, argument="cond")


@builtin
def device_print(prefix: Any, *args: Any, hex: Any = False) -> None:
    """Prints values while the kernel runs, each with its program id and coordinates.

    >>> kl.device_print("x", x)
    """
    debug.device_print(prefix, args, hex)


@builtin
def device_assert(cond: Any, msg: Any = "", mask: Any = None) -> None:
    """Fails the launch with a message if the condition is false for an element (where the mask, if given, is true).

    On a GPU the rest of the program may still run, because others may wait for it: a thread whose element failed
    accesses no tile of memory any more, but scalar loads, stores and atomics happen. What a failed launch wrote is not
    defined.

    >>> kl.device_assert(index < n, "index out of range")
    """
    debug.device_assert(cond, msg, mask)
