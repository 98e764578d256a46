"""The target a kernel is compiled for: `kl.target_info`, under Triton's names. The answers are compile-time constants:
an `if` on them compiles only the branch taken. Outside a kernel, the functions describe the target a launch would use.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from kiln.frontend.emission import active
from kiln.frontend.function import constexpr_function


class Target(NamedTuple):
    """A row of the target table."""

    name: str
    """sm_90a, cpu, …"""
    backend: str
    """cuda or cpu."""
    arch: Any
    """90 for sm_90a; for the CPU, the name of the row."""
    warp_size: int
    """Threads in a warp; 1 on the CPU, where one thread runs an instance."""


@constexpr_function
def current_target() -> Target:
    """The target the kernel is compiled for.

    >>> kl.static_assert(kl.target_info.current_target().backend != "hip")
    """
    from kiln import _kiln, compiler
    from kiln.runtime.metadata import TargetMetadata

    emitter = active()
    name = (emitter.target if emitter is not None else "") or compiler.complete()["target"]
    row = TargetMetadata(_kiln.target(name))
    return Target(row.name, row.backend, row.arch, row.warp_size)


@constexpr_function
def is_cuda() -> bool:
    """Whether the kernel is compiled for an NVIDIA GPU.

    >>> kl.static_assert(not kl.target_info.is_cuda() or BLOCK >= 32)
    """
    return current_target().backend == "cuda"


@constexpr_function
def is_cpu() -> bool:
    """Whether the kernel is compiled for the CPU.

    >>> BLOCK_K = 64 if kl.target_info.is_cpu() else 32
    """
    return current_target().backend == "cpu"


@constexpr_function
def is_hip() -> bool:
    """False: Kiln has no AMD target.

    >>> kl.static_assert(not kl.target_info.is_hip())
    """
    return False


is_hip_cdna3 = is_hip_cdna4 = is_hip


@constexpr_function
def cuda_capability_geq(major: int, minor: int = 0) -> bool:
    """Whether the kernel is compiled for an NVIDIA GPU of at least this compute capability.

    >>> kl.static_print(kl.target_info.cuda_capability_geq(9, 0))
    """
    target = current_target()
    return target.backend == "cuda" and divmod(target.arch, 10) >= (major, minor)
