"""The modules of Kiln's `triton`, the modules that provide their names, and why some names are missing."""

from __future__ import annotations

VERSION = "3.6.0"
"""The release of Triton whose names and semantics Kiln follows; `triton.__version__`."""

MODULES: dict[str, tuple[str, ...]] = {
    "triton": ("kiln.as_triton.top",),
    "triton.errors": ("kiln.as_triton.errors",),
    "triton.knobs": ("kiln.as_triton.knobs",),
    "triton.profiler": ("kiln.as_triton.profiler",),
    "triton.testing": ("kiln.as_triton.testing", "kiln.testing"),
    "triton.language": ("kiln.as_triton.language", "kiln.language"),
    "triton.language.core": ("kiln.as_triton.language", "kiln.language.core", "kiln.language"),
    "triton.language.standard": ("kiln.language.standard",),
    "triton.language.math": ("kiln.language.math",),
    "triton.language.random": ("kiln.language.random",),
    "triton.language.target_info": ("kiln.language.target_info",),
    "triton.language.extra": ("kiln.language.extra",),
    "triton.language.extra.libdevice": ("kiln.language.extra.libdevice",),
    "triton.language.extra.cuda": ("kiln.as_triton.extra", "kiln.language.extra.cuda"),
    "triton.language.extra.cuda.libdevice": ("kiln.language.extra.libdevice",),
    # The CPU's device library has the same names as CUDA's; Triton's fork for CPUs calls it this.
    "triton.language.extra.cpu": ("kiln.language.extra.libdevice",),
    "triton.language.extra.cpu.libdevice": ("kiln.language.extra.libdevice",),
    "triton.runtime": ("kiln.as_triton.runtime",),
    "triton.runtime.jit": ("kiln.as_triton.jit",),
    "triton.runtime.autotuner": ("kiln.as_triton.autotuner",),
    "triton.runtime.driver": ("kiln.as_triton.driver",),
    "triton.runtime.errors": ("kiln.as_triton.errors",),
    "triton.runtime.cache": ("kiln.as_triton.cache",),
    "triton.runtime._allocation": ("kiln.as_triton.allocation",),
    "triton.runtime._async_compile": ("kiln.as_triton.async_compile",),
    "triton.compiler": ("kiln.as_triton.compiler",),
    "triton.compiler.compiler": ("kiln.as_triton.compiler",),
    "triton.compiler.errors": ("kiln.as_triton.errors",),
    "triton.backends": ("kiln.as_triton.backends",),
    "triton.backends.compiler": ("kiln.as_triton.backends",),
    "triton.backends.driver": ("kiln.as_triton.backends",),
    "triton.tools": (),
    "triton.tools.tensor_descriptor": ("kiln.tools.tensor_descriptor",),
    "triton.tools.mxfp": ("kiln.as_triton.mxfp",),
    "triton.tools.ragged_tma": ("kiln.as_triton.ragged_tma",),
}
"""Module of Triton → the modules that provide its names; the first that has a name wins."""

SHADOWED = {"triton.runtime.driver"}
"""Modules that are only reachable by import: as an attribute, the name is one of Triton's objects."""

ABSENT_MODULES = {
    "triton.experimental": "Gluon and its kin lay out tiles by hand, which Kiln's compiler does itself",
    "triton.profiler": "of Triton's profiler there are only the marks that programs leave for it",
    "triton.instrumentation": "it instruments Triton's own compiler",
    "triton._C": "it is Triton's compiler; Kiln has its own",
    "triton._internal_testing": "it is for the tests of Triton itself",
    "triton.runtime.interpreter": "kernels are compiled for the CPU, which needs no interpreter",
    "triton.runtime.build": "Kiln builds no C at run time",
    "triton.tools.compile": "`kiln export` makes C++ of kernels ahead of time",
    "triton.tools.link": "`kiln export` makes C++ of kernels ahead of time",
    "triton.tools.disasm": "`kernel.asm['sass']` is the machine code, as `kiln explain` shows it",
    "triton.tools.build_extern": "libdevice is there: tl.extra.libdevice",
    "triton.tools.triton_to_gluon_translater": "Gluon lays out tiles by hand, which Kiln's compiler does itself",
    "triton.ops": "Triton has dropped it itself, in release 3.0",
    "triton.compiler.code_generator": "Kiln's front end takes its place; it has no such interface",
    "triton.backends.nvidia": "Kiln has no backends in Python",
    "triton.backends.amd": "Kiln has no AMD target",
    "triton.language.semantic": "what names mean is decided in kiln.language.semantic, which has no such interface",
    "triton.language.extra.hip": "Kiln has no AMD target",
}
"""Module → why Kiln does not have it; its submodules are missing for the same reason."""

_REMOTE, _LOCAL = ("RedisRemoteCacheBackend", "RemoteCacheBackend"), "compiled kernels are kept on this machine alone"

ABSENT_NAMES = {
    "triton.language": {
        "_experimental_make_tensor_descriptor": "Triton calls it make_tensor_descriptor since 3.4",
        "_experimental_descriptor_load": "use tl.make_tensor_descriptor(...).load since Triton 3.4",
        "_experimental_descriptor_store": "use tl.make_tensor_descriptor(...).store since Triton 3.4",
        "tanh": "it is tl.extra.libdevice.tanh",
        "pow": "it is tl.extra.libdevice.pow",
        "any": "it is tl.reduce_or",
        "ones": "use tl.full(shape, 1, dtype)",
        "matmul": "it is tl.dot",
    },
    "triton.runtime": dict.fromkeys(_REMOTE, _LOCAL),
    "triton.runtime.cache": dict.fromkeys((*_REMOTE, "RemoteCacheManager"), _LOCAL),
    "triton.testing": {
        "nvsmi": "Kiln asks the driver, not nvidia-smi: triton.runtime.driver.active.utils.get_device_properties",
        "set_gpu_clock": "Kiln changes no setting of a GPU",
        "cuda_memcheck": "use KILN_CHECK=bounds on the CPU",
    },
}
"""Module → name → why Kiln does not have it."""


def why_no_module(name: str) -> str:
    """Why Kiln has no module of that name."""
    parts = name.split(".")
    for end in range(len(parts), 1, -1):
        reason = ABSENT_MODULES.get(".".join(parts[:end]))
        if reason:
            return reason
    return f"no module of Triton {VERSION} that Kiln takes the place of"


def why_no_name(module: str, name: str) -> str:
    """Why a module lacks a name; empty if no reason is recorded."""
    return ABSENT_NAMES.get(module, {}).get(name, "")
