"""`kiln explain`: the work of a kernel's launch, and the code that the compiler made for it."""

from __future__ import annotations

import argparse
import contextlib
import os
import sys
from typing import Any

from kiln import errors

EXAMPLES = """examples:
  kiln explain add.py::add --signature "x=*fp32:16, y=*fp32:16, n=i32, BLOCK=1024" --target sm_90a --grid 977 \\
      --values "n=1000000"
  kiln explain gemm.py::matmul --signature "..." --target sm_90a --num-warps 8 --html gemm.html
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = verbs.add_parser(
        "explain",
        help="explain a kernel's speed",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", help="FILE.py::NAME, or MODULE::NAME")
    parser.add_argument("--signature", default="", help='types and values, "x=*fp32:16, n=i32, BLOCK=1024"')
    parser.add_argument("--disjoint", metavar="NAMES", help="arrays that no other overlaps: x,y, or all")
    parser.add_argument("--target", help="row of the target table (default: KILN_TARGET, else this machine's)")
    parser.add_argument("--grid", default="1", help="program instances, 977 or 8,16 (default: one)")
    parser.add_argument("--values", default="", help='integers of the launch, "n=1000000" (default: 4096 each)')
    parser.add_argument("--machine", help="GPU whose peaks the roofline uses: H200, H100, A100, … (default: by target)")
    for option, text in (
        ("num-warps", "warps per block"), ("cluster", "blocks per program"), ("maxnreg", "most registers per thread"),
        ("stages", "slots of the channels of a schedule"), ("consumers", "groups of warps that multiply"),
    ):  # fmt: skip
        parser.add_argument(f"--{option}", type=int, metavar="N", help=f"{text}, on a GPU")
    parser.add_argument("--schedule", metavar="NAME", help="how products are scheduled, on a GPU (default: auto)")
    parser.add_argument("--json", action="store_true", help="print everything as JSON")
    parser.add_argument("--html", metavar="FILE", help="write one page with the layouts drawn")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compiles, prints; returns the exit code."""
    from kiln import explain, knobs
    from kiln.cli.compile import find_kernel_of
    from kiln.cli.signature import parse_disjoint, parse_signature
    from kiln.runtime.jit import compile_kernel

    grid, values = _grid(options.grid), _values(options.values)
    settings = {
        option: getattr(options, option)
        for option in ("num_warps", "cluster", "maxnreg", "schedule", "stages", "consumers")
        if getattr(options, option) is not None
    }
    with knobs.scope(), contextlib.redirect_stdout(sys.stderr):
        # Loaded before the target is switched, because a file may launch its kernels when it is imported.
        function = find_kernel_of(options.input)
        if options.target:
            knobs.target = options.target
        parameters = parse_signature(options.signature, function)
        disjoint = parse_disjoint(options.disjoint, parameters)
        from kiln import compiler

        gpu = compiler.is_gpu(compiler.complete()["target"] or "")
        made = compile_kernel(function, parameters, settings, disjoint, -2 if gpu else -1)
        report = explain.compiled(made, grid, values, options.machine)
    if options.html:
        with open(options.html, "w", encoding="utf-8") as file:
            file.write(report.html())
        print(os.path.abspath(options.html))
    if options.json:
        print(report.json())
    elif not options.html:
        print(report)
    return 0


def _grid(text: str) -> tuple[int, ...]:
    try:
        return tuple(int(side) for side in text.split(","))
    except ValueError:
        raise errors.UserError(f"expected --grid of 1 to 3 numbers such as 977 or 8,16, got {text!r}") from None


def _values(text: str) -> dict[str, int]:
    values: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = item.partition("=")
        try:
            values[name.strip()] = int(value)
        except ValueError:
            equals = ""
        if not equals:
            raise errors.UserError(f'expected --values such as "n=1000000, m=64", got {item!r}')
    return values
