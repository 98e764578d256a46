"""`kiln compile`: a kernel of a Python file, or the file of any stage, to any later stage."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any

from kiln import compiler, errors

EXAMPLES = """examples:
  kiln compile add.py::add --signature "x=*fp32:16, y=*fp32:16, n=i32, BLOCK=1024" --to asm
  kiln compile add.opt.mlir --to object -o add.o      (also writes add.json)
  kiln compile add.py::add --target sm_90a --num-warps 8 --signature "..." --to ptx        (or kgpu, cubin, sass)
  kiln compile add.py::add --signature "..." --disjoint all                 (as a launch of arrays that do not overlap)
  KILN_DUMP=out kiln compile add.py::add --signature "..."
"""


KINDS = ("cpu", "cuda")
STAGE_FILES = ".tile.mlir, .opt.mlir, .cpu.mlir, .kgpu.mlir, .ll, .s, .ptx"


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = verbs.add_parser(
        "compile",
        help="compile a kernel, or resume from the file of a stage",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", help=f"FILE.py::NAME, or the file of a stage ({STAGE_FILES})")
    parser.add_argument("--signature", default="", help='types and values, "x=*fp32:16, n=i32, BLOCK=1024"')
    parser.add_argument(
        "--disjoint",
        metavar="NAMES",
        help="arrays that no other array of a launch overlaps: x,y, or all; where one does, results are undefined "
        "(default: any may; a launch looks)",
    )
    parser.add_argument("--target", help="row of the target table (default: KILN_TARGET, or what the file says)")
    parser.add_argument(
        "--to",
        default="object",
        help="stage: tile, opt, cpu, llvm, asm or object; for a GPU tile, opt, kgpu, llvm, ptx, cubin or sass "
        "(default: the last of the target, by the name object)",
    )
    parser.add_argument("-o", "--output", help="file to write; - for the terminal (default: NAME.EXTENSION; text: -)")
    parser.add_argument("--check", choices=("none", "bounds", "races"), help="checks in the code (KILN_CHECK)")
    parser.add_argument("--num-warps", type=int, metavar="N", help="warps per block, on a GPU (default: 4)")
    parser.add_argument("--cluster", type=int, metavar="N", help="blocks per program, on a GPU (default: 1)")
    parser.add_argument("--maxnreg", type=int, metavar="N", help="maximum registers per thread, on a GPU")
    parser.add_argument("--schedule", metavar="NAME", help="how products are scheduled, on a GPU (default: auto)")
    parser.add_argument("--stages", type=int, metavar="N", help="slots in a schedule's channels")
    parser.add_argument("--consumers", type=int, metavar="N", help="warp groups that multiply in a schedule")
    parser.add_argument(
        "--describe-pointers",
        action=argparse.BooleanOptionalAction,
        help="loads and stores through pointers that walk a box go through descriptors, on a GPU (default: as a launch "
        "has it, in kernels that multiply; in files of a stage: no)",
    )
    parser.add_argument("--pdl", action="store_true", help="programmatic dependent launch, on a GPU")
    parser.add_argument("--single-wave", action="store_true", help="all programs of a launch are resident, on a GPU")
    parser.add_argument("--streaming", action="store_true", help="a launch reads far more than a GPU's L2 holds")
    parser.add_argument("--no-fp-fusion", action="store_true", help="never fuse a product and a sum")
    parser.add_argument("--line-info", action="store_true", help="keep source lines in the code")
    parser.add_argument("--timing", action="store_true", help="print the time of each step to stderr")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compiles and writes; returns the exit code."""
    from kiln import _kiln

    names = [*dict.fromkeys(name for kind in KINDS for name, _, _ in _kiln.stages(kind)), "sass"]
    if options.to not in names:
        near = errors.near_match(options.to, names)
        raise errors.UserError(
            f"unknown stage {options.to!r}: expected one of {', '.join(names)}"
            + (f" (did you mean {near!r}?)" if near else "")
        )
    settings: dict[str, Any] = {"to": "cubin" if options.to == "sass" else options.to}
    if options.target:
        settings["target"] = options.target
    for option in ("num_warps", "cluster", "maxnreg", "schedule", "stages", "consumers"):
        if getattr(options, option) is not None:
            settings[option] = getattr(options, option)
    settings |= {name: True for name in ("pdl", "single_wave", "streaming") if getattr(options, name)}
    if options.describe_pointers is not None:
        settings["describe_pointers"] = options.describe_pointers
    if options.check:
        settings["check"] = options.check
    if options.no_fp_fusion:
        settings["enable_fp_fusion"] = False
    if options.line_info:
        settings["line_info"] = True

    path, colons, kernel = options.input.partition("::")
    if colons:
        # Standard output carries only the requested text: prints of the file, and kl.static_print, go to stderr.
        with contextlib.redirect_stdout(sys.stderr):
            name, artifact = _from_kernel(path, kernel, options.signature, options.disjoint, settings)
    else:
        for option in ("signature", "disjoint"):
            if getattr(options, option):
                raise errors.UserError(f"expected --{option} only with FILE.py::NAME (because {path} determines it)")
        name, artifact = _from_stage(path, settings)
    if options.timing:
        for step, milliseconds in artifact.timings.items():
            print(f"{step:>14} {milliseconds:8.2f} ms", file=sys.stderr)
    if options.to == "sass":
        _write_text(artifact.text("sass"), options.output)
    elif options.to in ("object", "cubin"):
        _write_object(artifact, options.to, options.output, name)
    else:
        _write_text(artifact.output, options.output)
    return 0


def _from_kernel(
    path: str, kernel: str, signature: str, disjoint: str | None, settings: dict[str, Any]
) -> tuple[str, Any]:
    from kiln import _kiln, frontend
    from kiln.cli.signature import parse_disjoint, parse_signature

    function = load_kernel(path, kernel)
    parameters = parse_signature(signature, function)
    apart = parse_disjoint(disjoint, parameters)
    target = compiler.complete(settings)["target"]
    if _kiln.target(target)["kind"] == "cuda":
        settings.setdefault("describe_pointers", function.describes_pointers())
    module = frontend.emit(function, parameters, function.__name__, disjoint=apart, target=target)
    return function.__name__, compiler.compile(module, settings)


def _from_stage(path: str, settings: dict[str, Any]) -> tuple[str, Any]:
    from kiln import _kiln

    if path.endswith(".py"):
        raise errors.UserError(f"expected {path}::NAME (because a file may hold several kernels), got {path}")
    stage = _kiln.stage_of_file(path)
    if stage is None or stage == "object":
        raise errors.UserError(f"expected FILE.py::NAME or a file of a stage ({STAGE_FILES}), got {path}")
    with open(path, encoding="utf-8") as file:
        text = file.read()
    name = os.path.splitext(os.path.basename(path))[0]
    for kind in KINDS:
        for _, extension, _ in _kiln.stages(kind):
            if path.endswith("." + extension):
                name = os.path.basename(path)[: -len(extension) - 1]
    return name, compiler.compile_text(text, stage, settings)


def find_kernel_of(text: str) -> Any:
    """The jit function that FILE.py::NAME or MODULE::NAME names."""
    import importlib

    path, colons, name = text.partition("::")
    if not colons:
        raise errors.UserError(f"expected FILE.py::NAME or MODULE::NAME, got {text}")
    if path.endswith(".py"):
        return load_kernel(path, name)
    try:
        module = importlib.import_module(path)
    except ImportError as problem:
        raise errors.UserError(f"expected FILE.py::NAME or MODULE::NAME, got {path}::{name}: {problem}") from None
    return find_kernel(module, path, name)


def load_kernel(path: str, name: str) -> Any:
    """The jit function `name` of the Python file `path`."""
    return find_kernel(load_module(path), path, name)


def load_module(path: str) -> Any:
    """The Python file `path` as a module."""
    import importlib.util

    if not os.path.isfile(path):
        raise errors.UserError(f"no such file: {path}")
    module_name = os.path.splitext(os.path.basename(path))[0]
    spec = importlib.util.spec_from_file_location(module_name, path)
    if spec is None or spec.loader is None:
        raise errors.UserError(f"expected a Python file, got {path}")
    module = importlib.util.module_from_spec(spec)
    sys.modules[module_name] = module
    # As for `python FILE.py`: the file may import its neighbours.
    sys.path.insert(0, os.path.dirname(os.path.abspath(path)))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.pop(0)
    return module


def find_kernel(module: Any, path: str, name: str) -> Any:
    """The jit function `name` of a module that was imported from `path`."""
    from kiln.frontend.function import KernelFunction

    def innermost(value: Any) -> Any:
        """Autotuned and heuristic kernels hold the function they wrap."""
        while value is not None and not isinstance(value, KernelFunction) and hasattr(value, "fn"):
            value = value.fn
        return value

    function = innermost(getattr(module, name, None))
    if isinstance(function, KernelFunction):
        return function
    kernels = [key for key, value in vars(module).items() if isinstance(innermost(value), KernelFunction)]
    near = errors.near_match(name, kernels)
    raise errors.UserError(
        f"{path} has no kernel {name!r}"
        + (f"; did you mean {near!r}?" if near else f"; it has {', '.join(kernels) or 'none'}")
    )


def _write_object(artifact: Any, stage: str, output: str | None, name: str) -> None:
    extension = "o"
    if "cubin" in artifact.stages:
        extension = "cubin" if artifact.binary.startswith(b"\x7fELF") else "ptx"
    if stage == "cubin" and extension == "ptx":
        raise errors.UserError(
            "expected ptxas (because a cubin is its output), found none: set KILN_PTXAS, install the package "
            "nvidia-cuda-nvcc, or ask for stage ptx"
        )
    path = output or f"{name}.{extension}"
    if path == "-":
        sys.stdout.buffer.write(artifact.binary)
        return
    with open(path, "wb") as file:
        file.write(artifact.binary)
    beside = os.path.splitext(path)[0] + ".json"
    with open(beside, "w", encoding="utf-8") as file:
        file.write(artifact.metadata)
    print(f"{path} {beside}")


def _write_text(text: str, output: str | None) -> None:
    if output is None or output == "-":
        sys.stdout.write(text)
        sys.stdout.flush()
        return
    with open(output, "w", encoding="utf-8") as file:
        file.write(text)
