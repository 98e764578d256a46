"""`kiln bench`: runs the benchmarks of a checkout (folder `bench/`); an installed package does not contain them."""

from __future__ import annotations

import pathlib
import sys
from typing import Any

USAGE = """usage: kiln bench [-h] [options] [FAMILY ...]

Measures kernels on this GPU beside other libraries. The benchmarks are no part of the installed package: they are run
in a checkout of Kiln, the current directory or the one this package was built in, which then lists the options.
They need torch, and rich and matplotlib: kiln[report].
"""


def add_parser(verbs: Any) -> None:
    """Adds the verb to the list that `kiln --help` shows; its options are those of bench/suite.py."""
    parser = verbs.add_parser("bench", help="measure kernels on this GPU beside other libraries", add_help=False)
    parser.set_defaults(run=lambda _: main([]))


def folder() -> pathlib.Path | None:
    """The folder of the benchmarks: of the checkout that this file belongs to, else of the current directory."""
    checkout = pathlib.Path(__file__).resolve().parents[3]
    for root in (checkout, pathlib.Path.cwd()):
        if (root / "bench" / "suite.py").exists():
            return root / "bench"
    return None


def main(arguments: list[str]) -> int:
    """Runs the suite; returns the exit code."""
    found = folder()
    asked = not {"-h", "--help"}.isdisjoint(arguments)
    if found is None and asked:
        print(USAGE, end="")
        return 0
    if found is None:
        print("kiln bench: no bench/ here; the benchmarks are run from a checkout of Kiln", file=sys.stderr)
        return 2
    sys.path.insert(0, str(found))
    try:
        import suite  # type: ignore[import-not-found]

        return suite.main(arguments)
    except ImportError as error:
        if asked:
            print(USAGE, end="")
            return 0
        print(f"kiln bench: {error} (it needs torch, and rich and matplotlib: kiln[report])", file=sys.stderr)
        return 2
