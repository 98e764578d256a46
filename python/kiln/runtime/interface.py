"""`kernel[grid](...)`: what jit functions, tuned kernels and heuristics have in common."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import Any

from kiln.frontend.struct import constexpr_fields, is_struct

# Every keyword a launch takes beside the kernel's own parameters. "warmup" comes first: the launcher knows it by place.
LAUNCH_OPTIONS = [
    "warmup",
    "num_warps",
    "num_stages",
    "num_ctas",
    "cluster",
    "maxnreg",
    "enable_fp_fusion",
    "debug",
    "sanitize_overflow",
    "launch_pdl",
    "pdl",
    "single_wave",
    "streaming",
    "schedule",
    "stages",
    "consumers",
    "describe_pointers",
    "launch_cooperative_grid",
    "ptx_options",
    "ir_override",
    "extern_libs",
    "instrumentation_mode",
]


# What some of them must be, as errors say it.
OPTION_KINDS = {
    "num_warps": "a power of two from 1 to 32",
    "num_stages": "a positive integer",
    "num_ctas": "a positive integer",
    "cluster": "a positive integer",
    "maxnreg": "a positive integer",
    "schedule": "one of {schedules}",
    "stages": "a positive integer",
    "consumers": "a positive integer",
    "extern_libs": "a table of libraries and their files, {{'libdevice': path}}",
    "pdl": "True or False",
    "launch_pdl": "True or False",
    "single_wave": "True or False",
    "streaming": "True or False",
    "describe_pointers": "True or False",
}


def is_traced_by_torch() -> bool:
    """Whether torch's compiler is tracing the call, instead of Python running it. (It answers itself.)"""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


class KernelInterface:
    """Something launched as `kernel[grid](*args, **meta)`.

    `run(*args, grid, warmup, **meta)` does the work. A decorator that wraps another one keeps it in `fn`.
    """

    fn: Any
    # Subscripts are launches: without this Python takes them for those of an endless sequence.
    __iter__: Any = None

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def prepare(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """The launch `self[grid](*args, **kwargs)` with all of it bound; nothing is launched.

        `launch()` makes it as often as it is called, `launch(stream=s)` on that stream (torch's, or the driver's number
        of one), `launch(x=other)` or `launch(other)` with other values in the place of some, for that launch alone:
        they have to be of the kind that the code was compiled for. `launch.compiled` is the code, which is not looked
        for again: a switch or a global that changes later, changes nothing.
        """
        raise NotImplementedError

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compiles for these arguments without launching. A type (`kl.float32`) stands for an array of it."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)


def module_attribute(kernel: Any) -> str | None:
    """The name under which a kernel is an attribute of its module, and may be pickled by; None if it is none."""
    module = sys.modules.get(kernel.__module__)
    if getattr(module, kernel.__qualname__, None) is kernel:
        return kernel.__qualname__
    # Decorated anew under a name of its own: `tuned = kiln.autotune(...)(kernel)`.
    return next((name for name, value in list(vars(module).items()) if value is kernel), None) if module else None


class MockTensor:
    """Stands for an array of a type, at an address that is a multiple of 16, where only its type matters."""

    def __init__(self, dtype: Any):
        self.dtype = dtype

    @staticmethod
    def data_ptr() -> int:
        return 0

    @classmethod
    def wrap(cls, value: Any) -> Any:
        """A type of the language or of torch as a tensor of it, in tuples too; anything else as it is."""
        kind = type(value)
        if isinstance(value, tuple):
            known = constexpr_fields(kind) if is_struct(kind) else ()
            items = [item if i < len(known) and known[i] else cls.wrap(item) for i, item in enumerate(value)]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else tuple.__new__(kind, items)
        if (kind.__module__, kind.__name__) in (("kiln.language.types", "dtype"), ("torch", "dtype")):
            return cls(value)
        return value
