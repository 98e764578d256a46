"""`kernel[grid](...)`: the interface that jit functions, tuned kernels and heuristics share."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

from kiln.frontend.struct import constexpr_fields, is_struct

if TYPE_CHECKING:
    from kiln.frontend.signature import Parameter

# Switches that compiled code depends on; a launch notices when one changes.
CODE_SWITCHES = ("target", "check", "device_assert", "line_info", "ptxas", "libdevice")

# Every keyword a launch takes besides the kernel's own parameters. "warmup" must be first: the launcher relies on it.
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


# The values that some of them take, as error messages describe them.
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


class CodeRequest(NamedTuple):
    """What a launcher asks its owner for when a key is new to it."""

    parameters: list[Parameter]  # specialised
    options: dict[str, Any]  # those of the launch
    key: bytes
    disjoint: list[bool]  # by array: no other overlaps its storage
    device: int  # the GPU's number, -1 for the CPU, -2 if nothing will run
    prefix: str  # what `revalidate` gave the launch, on the same thread


def answering(compile: Callable[[CodeRequest], Any]) -> Callable[..., Any]:
    """`compile` as launchers call it: with a request's fields, in order."""
    return lambda *fields: compile(CodeRequest(*fields))


def is_traced_by_torch() -> bool:
    """Whether torch's compiler is tracing the call, instead of Python running it. (torch supplies the answer.)"""
    torch = sys.modules.get("torch")
    return torch is not None and torch.compiler.is_dynamo_compiling()


class KernelInterface:
    """Something launched as `kernel[grid](*args, **meta)`.

    `run(*args, grid, warmup, **meta)` does the work. A decorator that wraps another one keeps it in `fn`.
    """

    fn: Any
    # Without this, Python would treat `__getitem__` as the sequence protocol and iterate for ever.
    __iter__: Any = None

    def run(self, *args: Any, grid: Any, warmup: bool = False, **kwargs: Any) -> Any:
        raise NotImplementedError

    def __getitem__(self, grid: Any) -> Callable[..., Any]:
        return lambda *args, **kwargs: self.run(*args, grid=grid, warmup=False, **kwargs)

    def prepare(self, *args: Any, grid: Any, **kwargs: Any) -> Any:
        """Binds the launch `self[grid](*args, **kwargs)` without making it.

        Each `launch()` makes it; `launch(stream=s)` does so on that stream (torch's, or the driver's handle as a
        number); `launch(x=other)` or `launch(other)` replaces some values for that launch only, by values of the kind
        that the code was compiled for. `launch.compiled` is the code. It is not looked up again: later changes of
        switches or globals have no effect.
        """
        raise NotImplementedError

    def warmup(self, *args: Any, grid: Any = (1,), **kwargs: Any) -> Any:
        """Compiles for these arguments without launching. A type (`kl.float32`) stands for an array of that type."""
        return self.run(*args, grid=grid, warmup=True, **kwargs)


def module_attribute(kernel: Any) -> str | None:
    """The name under which a kernel is an attribute of its module, and can be pickled; None if there is none."""
    module = sys.modules.get(kernel.__module__)
    if getattr(module, kernel.__qualname__, None) is kernel:
        return kernel.__qualname__
    # It may have been decorated under another name: `tuned = kiln.autotune(...)(kernel)`.
    return next((name for name, value in list(vars(module).items()) if value is kernel), None) if module else None


class MockTensor:
    """Stands for an array of a type where only the type matters; its address is a multiple of 16."""

    def __init__(self, dtype: Any):
        self.dtype = dtype

    @staticmethod
    def data_ptr() -> int:
        return 0

    @classmethod
    def wrap(cls, value: Any) -> Any:
        """Replaces a type of the language or of torch by a mock tensor, in tuples too; anything else is unchanged."""
        kind = type(value)
        if isinstance(value, tuple):
            known = constexpr_fields(kind) if is_struct(kind) else ()
            items = [item if i < len(known) and known[i] else cls.wrap(item) for i, item in enumerate(value)]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else tuple.__new__(kind, items)
        if (kind.__module__, kind.__name__) in (("kiln.language.types", "dtype"), ("torch", "dtype")):
            return cls(value)
        return value
