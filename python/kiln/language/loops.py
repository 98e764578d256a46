"""What `for` and `while` run over in a kernel: ranges and conditions with hints for the compiler."""

from __future__ import annotations

import builtins
from typing import Any

from .semantic.operand import constexpr_int
from .values import constexpr, unwrap


class range:
    """A counted loop, with hints for the compiler.

    num_stages           how many iterations may have loads in flight, overriding the launch option; with 0 and 1, an
                         iteration's loads are issued in the iteration itself
    loop_unroll_factor   how many iterations to unroll
    flatten              this loop and the loops in it may be merged into one, so that loads of the next iteration start
                         before this one ends (for the loop over the tiles of a persistent kernel)
    warp_specialize      loads may be moved to dedicated warps
    disallow_acc_multi_buffer   keeps the accumulator of a product in the loop in one buffer, not in several in turn
    disable_licm         does not hoist loop-invariant code

    >>> for k in kl.range(0, K, BLOCK_K, num_stages=3): ...
    """

    def __init__(
        self,
        arg1: Any,
        arg2: Any = None,
        step: Any = None,
        num_stages: Any = None,
        loop_unroll_factor: Any = None,
        disallow_acc_multi_buffer: Any = False,
        flatten: Any = False,
        warp_specialize: Any = False,
        disable_licm: Any = False,
    ):
        one = unwrap(arg2) is None
        self.start = constexpr(0) if one else arg1
        self.end = arg1 if one else arg2
        self.step = constexpr(1) if unwrap(step) is None else step
        self.num_stages = unwrap(num_stages)
        self.loop_unroll_factor = unwrap(loop_unroll_factor)
        self.disallow_acc_multi_buffer = bool(unwrap(disallow_acc_multi_buffer))
        self.flatten = bool(unwrap(flatten))
        self.warp_specialize = bool(unwrap(warp_specialize))
        self.disable_licm = bool(unwrap(disable_licm))

    def __iter__(self) -> Any:
        from kiln.errors import UsageError

        raise UsageError("kl.range works only in the loops of a kernel", hint="use range")

    __next__ = __iter__


class static_range:
    """A loop that is fully unrolled at compile time; its bounds and its index are constexpr.

    >>> for i in kl.static_range(4): ...
    """

    def __init__(self, arg1: Any, arg2: Any = None, step: Any = None):
        one = unwrap(arg2) is None
        self.start = constexpr(0) if one else arg1
        self.end = arg1 if one else arg2
        self.step = constexpr(1) if unwrap(step) is None else step
        for name, value in (("start", self.start), ("end", self.end), ("step", self.step)):
            constexpr_int(value, f"the {name} of kl.static_range")

    def __iter__(self) -> Any:
        bounds = (unwrap(self.start), unwrap(self.end), unwrap(self.step))
        return (constexpr(i) for i in builtins.range(*bounds))


class condition:
    """The condition of a `while` loop, with hints for the compiler.

    >>> while kl.condition(i < n, disable_licm=True): ...
    """

    __kiln_builtin__ = True  # kernels call it, with their values

    def __init__(self, arg1: Any, disable_licm: Any = False):
        self.condition = arg1
        self.disable_licm = bool(unwrap(disable_licm))
