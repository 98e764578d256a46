"""Kernels for programs in C++ and C: machine code, a typed header and a small source over `libkiln_runtime`.

    from kiln.export import Variant, export_kernel

    variants = [Variant(parse_signature("x=*fp32:16, n=i32, BLOCK=1024", scale), "sm_90a", {"num_warps": 8})]
    export_kernel(scale, variants, "exported")

`kiln export` is the command line over this. Each variant is compiled as a launch from Python compiles it; the exported
launch takes the most special one that fits its arguments, by the rules of every launch (`runtime/launch/Dispatch.h`).
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from kiln import errors
from kiln.export.interface import KEYWORDS, Compiled, make_interface
from kiln.export.text import write_files
from kiln.frontend.function import KernelFunction
from kiln.frontend.signature import Parameter, array_names


@dataclass(frozen=True)
class Variant:
    """The specialisation, target and options of one piece of code.

    parameters   one for each parameter of the kernel, as `kiln.cli.signature.parse_signature` makes them
    target       a row of the target table
    options      launch options: num_warps, cluster, schedule, …
    disjoint     for each array, in order: no other array of a launch overlaps it; the caller promises that
    """

    parameters: Sequence[Parameter]
    target: str
    options: Mapping[str, Any] = field(default_factory=dict)
    disjoint: Sequence[bool] = ()


def variants_of(run: Callable[[], Any], target: str) -> list[tuple[KernelFunction, Variant]]:
    """The launches that library functions would make for the calls in `run()`, with the plans that they would choose:
    each as its kernel and a variant of it. Nothing is launched; the arrays are host arrays of the intended shapes.

    ((kernel, variant),) = variants_of(lambda: matmul(a, b), "sm_90a")
    export_kernel(kernel, [variant], "exported", "matmul")
    """
    from kiln import _kiln
    from kiln.kernels.launches import launches_of
    from kiln.kernels.machine import CPU, DEFAULT_GPU

    where = DEFAULT_GPU if _kiln.target(target)["kind"] == "cuda" else CPU
    return [
        (launch.kernel, Variant(launch.parameters, target, dict(launch.options), launch.disjoint))
        for launch in launches_of(run, where)
    ]


def export_kernel(
    kernel: KernelFunction,
    variants: Sequence[Variant],
    directory: str | os.PathLike[str],
    name: str | None = None,
    namespace: str = "kernels",
) -> list[str]:
    """Compiles the variants and writes what a program builds with into `directory`; the files, in order.

    name        of the class, the C functions and the files (default: the kernel's)
    namespace   of the C++ class
    """
    name = name or kernel.__name__
    for what, text in (("name", name), ("namespace", namespace)):
        if not re.fullmatch(r"[A-Za-z]\w*" if what == "name" else r"[A-Za-z]\w*(::[A-Za-z]\w*)*", text, re.ASCII):
            raise errors.UserError(f"expected a {what} that C++ takes, got {text!r}")
        for keyword in KEYWORDS.intersection(text.split("::")):
            other = "" if what == "namespace" else "; give another with --name"
            raise errors.UserError(f"expected a {what} that is not a keyword of C++, got {keyword!r}{other}")
    if not variants:
        raise errors.UserError("expected at least one signature and target, got none")
    compiled = [_compile(kernel, variant, f"{name}_{index}") for index, variant in enumerate(variants)]
    interface = make_interface(kernel, name, namespace, compiled)
    return write_files(interface, os.fspath(directory))


def _compile(kernel: KernelFunction, variant: Variant, symbol: str) -> Compiled:
    from kiln import _kiln, compiler, frontend
    from kiln.runtime.jit import _compile_options

    try:
        kind = _kiln.target(variant.target)["kind"]
    except ValueError as problem:
        raise errors.UserError(str(problem)) from None
    parameters = list(variant.parameters)
    disjoint = list(variant.disjoint) or [False] * len(array_names(parameters))
    chosen = _compile_options(kernel, variant.options, kind)
    # Linked code needs a unique symbol in the program; code that is loaded at run time stays as a launch compiles it.
    own = symbol if kind == "cpu" else kernel.__name__
    module = frontend.emit(kernel, parameters, own, disjoint=disjoint, target=variant.target)
    artifact = compiler.compile(module, {**chosen, "target": variant.target, "check": "none"})
    metadata = json.loads(artifact.metadata)
    metadata["name"] = kernel.__name__
    extension = "o" if kind == "cpu" else "cubin" if artifact.binary.startswith(b"\x7fELF") else "ptx"
    return Compiled(
        parameters=tuple(parameters),
        target=variant.target,
        options=dict(variant.options),
        disjoint=tuple(disjoint),
        metadata=metadata,
        binary=artifact.binary,
        extension=extension,
    )
