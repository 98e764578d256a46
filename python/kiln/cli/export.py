"""`kiln export`: a kernel for programs in C++ and C; `kiln config`: where what they build with is installed."""

from __future__ import annotations

import argparse
import ast
import contextlib
import os
import sys
from typing import Any

from kiln import errors

EXAMPLES = """examples:
  kiln export add.py::add --signature "x=*fp32:16, y=*fp32:16, n=i32, BLOCK=1024" --target sm_90a -o exported
  kiln export add.py::add --signature "x=*fp32:16, y=*fp32:16, n=i32:16, BLOCK=1024, num_warps=8" \\
      --signature "x=*fp32, y=*fp32, n=i32, BLOCK=1024" --target sm_80 --target sm_90a --target cpu-avx2 -o exported
  kiln export kiln.kernels.norm.kernel::rms_norm_kernel --signature "..." --target cpu-avx2 -o exported

In CMake: add_subdirectory(exported), target_link_libraries(program PRIVATE add), and cmake -Dkiln_DIR=$(kiln config
--cmake-dir). Then `#include "add.hpp"`; add.h is for C and other languages.
"""


def add_parser(verbs: Any) -> None:
    """Adds the verbs to the command line."""
    parser = verbs.add_parser(
        "export",
        help="write machine code, a typed header and a source file for C++ and C",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", help="FILE.py::NAME, or MODULE::NAME")
    parser.add_argument(
        "--signature",
        action="append",
        default=[],
        help='types and values, "x=*fp32:16, n=i32, BLOCK=1024", and launch options: "num_warps=8"; "target=sm_90a" for'
        " one target alone. Given several times, a launch takes the most special that fits its arguments",
    )
    parser.add_argument(
        "--target", action="append", default=[], help="row of the target table (kiln info); may be repeated"
    )
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="folder to write into")
    parser.add_argument("--name", help="name of the class, the functions and the files (default: the kernel's)")
    parser.add_argument("--namespace", default="kernels", help="namespace of the class (default: kernels)")
    parser.add_argument(
        "--disjoint",
        metavar="NAMES",
        help="arrays that no other array of a launch overlaps: x,y, or all; the program promises it (default: any may)",
    )
    parser.set_defaults(run=run)

    config = verbs.add_parser("config", help="show where the headers, library and CMake package for C++ and C are")
    kinds = config.add_mutually_exclusive_group(required=True)
    for option, folder in (("--cmake-dir", "cmake"), ("--include-dir", "include"), ("--library-dir", "lib")):
        kinds.add_argument(option, dest="folder", action="store_const", const=folder)
    config.set_defaults(run=show_folder)


def run(options: argparse.Namespace) -> int:
    """Compiles and writes; returns the exit code."""
    from kiln.cli.compile import find_kernel_of
    from kiln.export import export_kernel

    # Standard output carries only the list of files: prints of the kernel's file, and kl.static_print, go to stderr.
    with contextlib.redirect_stdout(sys.stderr):
        kernel = find_kernel_of(options.input)
        variants = [
            variant
            for signature in options.signature
            for variant in _variants(kernel, signature, options.target, options.disjoint)
        ]
        files = export_kernel(kernel, variants, options.output, options.name, options.namespace)
    print("\n".join(files))
    return 0


def show_folder(options: argparse.Namespace) -> int:
    """Prints a folder of this installation."""
    import kiln

    folder = os.path.join(os.path.dirname(os.path.abspath(kiln.__file__ or "")), options.folder)
    if not os.path.isdir(folder):
        raise errors.UserError(f"this installation has no {folder}: it was built without libkiln_runtime")
    print(folder)
    return 0


def _variants(kernel: Any, signature: str, targets: list[str], disjoint: str | None) -> list[Any]:
    """The variants of a signature, one for each target; it may contain launch options, and a target for itself
    alone."""
    from kiln.cli.signature import parse_disjoint, parse_signature, split
    from kiln.export import Variant
    from kiln.runtime.interface import LAUNCH_OPTIONS

    names = {parameter.name for parameter in kernel.params}
    parts, launch = [], {}
    for part in split(signature):
        name, _, value = (piece.strip() for piece in part.partition("="))
        if name in names or name not in (*LAUNCH_OPTIONS, "target"):
            parts.append(part)
        elif name == "target":
            targets = [value]
        else:
            try:
                launch[name] = ast.literal_eval(value)
            except (ValueError, SyntaxError):
                launch[name] = value  # schedule=pingpong
    if not targets:
        raise errors.UserError(
            "expected --target, or target= in the signature (because machine code is for one), got none"
        )
    parameters = parse_signature(", ".join(parts), kernel)
    apart = tuple(parse_disjoint(disjoint, parameters))
    return [Variant(tuple(parameters), target, launch, apart) for target in targets]
