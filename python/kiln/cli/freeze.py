"""`kiln freeze`: all that launches inside declared domains ask for, compiled into a bundle for KILN_FROZEN."""

from __future__ import annotations

import argparse
import contextlib
import sys
from typing import Any

EXAMPLES = """examples:
  kiln freeze add.py::add --domain "T=fp16|bf16, x=*T, y=*T, n=0..100000, BLOCK=1024" --target sm_90a -o bundle
  kiln freeze add.py::add --domain "..." --overlap x,y --target cpu --jobs 4 -o bundle    (x and y may be one array)
  KILN_FROZEN=bundle python serve.py

A domain names for each parameter what it may be: arrays *fp16, integers 0..4096, values 64|128, None, tuples. The same
bundle may be given again: it grows. Bundles are for the sources, tools and Python version they were made with.
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the command line."""
    parser = verbs.add_parser(
        "freeze",
        help="compile everything that the declared launches need into a bundle",
        epilog=EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("input", help="FILE.py::NAME, or MODULE::NAME")
    parser.add_argument("--domain", action="append", required=True, help="arguments, launch options; may be repeated")
    parser.add_argument("--overlap", action="append", default=[], metavar="NAMES", help="arrays that may overlap: x,y")
    parser.add_argument("--target", action="append", required=True, help="row of the target table; may be repeated")
    parser.add_argument("--jobs", type=int, default=1, metavar="N", help="parallel compiles (default: 1)")
    parser.add_argument("-o", "--output", required=True, metavar="DIR", help="the bundle")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    """Compiles; returns the exit code."""
    from kiln.cli.compile import find_kernel_of
    from kiln.freeze import Domain, freeze

    with contextlib.redirect_stdout(sys.stderr):
        kernel = find_kernel_of(options.input)
        overlap = [[part.strip() for part in group.split(",")] for group in options.overlap]
        domains = [Domain(kernel, text, overlap) for text in options.domain]
        done = freeze(domains, options.output, options.target, options.jobs)
    name = options.input.partition("::")[2]
    print(f"{options.output}: {done.variants} variants of {name}, {done.compiled} compiled now")
    return 0
