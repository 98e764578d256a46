"""Unmodified Triton programs on Kiln: in this process, `import triton` gives Kiln with Triton's names and semantics.

    import kiln.as_triton
    kiln.as_triton.install()        # before the program imports triton; or: kiln run --as-triton program.py

names.py      which modules `triton` has here, where their names come from, and why others are missing
finder.py     what `import` finds: modules that look their names up when asked
top.py language.py jit.py autotuner.py driver.py compiler.py …    one file for each module of Triton that differs from
              a module of Kiln by more than its name

Kernels are Kiln's own: `triton.language.load` is `kiln.language.load`. The files of this folder contain only what
differs in Triton: defaults, host-side classes, and queries of compiled kernels and of the machine.
"""

from __future__ import annotations

from kiln.as_triton.names import VERSION

__all__ = ["VERSION", "install", "installed", "uninstall"]


def install(children: bool = False) -> None:
    """From now on `import triton` gives Kiln; with `children`, also in processes that multiprocessing starts. A second
    call does nothing; it is an error if Triton itself is loaded."""
    from kiln.as_triton import finder

    finder.install()
    if children:
        from kiln.as_triton import children as processes

        processes.install()


def uninstall() -> None:
    """Undoes `install`: `import triton` looks for an installed Triton again. Modules already imported keep working."""
    import sys

    from kiln.as_triton import finder

    finder.uninstall()
    if (processes := sys.modules.get("kiln.as_triton.children")) is not None:
        processes.uninstall()


def installed() -> bool:
    """Whether `import triton` gives Kiln in this process."""
    from kiln.as_triton import finder

    return finder.installed()
