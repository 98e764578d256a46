"""What Kiln compiles for every row, without a GPU: `python bench/static.py [FAMILY …] [--only WORDS]`.

Registers and spills from the assembler, accesses and bytes in flight from the machine code, residency from registers,
threads and shared memory. This shows what cannot be fast; only a measurement shows what is.
"""

from __future__ import annotations

import argparse
import contextlib
import pathlib
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent))

import sass
from cases import FAMILIES, Case, family, select
from tools import Tools

# Limits of a Hopper multiprocessor, and the number of multiprocessors of an H200.
REGISTERS, THREADS, BLOCKS, SHARED, MULTIPROCESSORS = 65536, 2048, 32, 227 * 1024, 132


@dataclass(frozen=True)
class Launched:
    """A launch that was compiled and not run."""

    kernel: Any
    blocks: int

    @property
    def cuda(self) -> dict[str, Any]:
        return self.kernel.metadata["cuda"]

    @property
    def resident(self) -> int:
        """Resident blocks per multiprocessor."""
        usage, threads = self.cuda["usage"], self.cuda["threads"]
        # Registers are allocated to warps in units of 256.
        registers = -(-usage["registers"] * 32 // 256) * 256 * (threads // 32)
        # The system reserves 1 KiB of shared memory per block.
        shared = SHARED // (self.cuda["shared_bytes"] + 1024)
        return min(BLOCKS, THREADS // threads, REGISTERS // registers, shared)


@contextlib.contextmanager
def compiling_only(target: str) -> Iterator[list[Launched]]:
    """Inside this block, launches compile for ``target`` and run nothing; the list collects them."""
    from kiln import knobs
    from kiln.runtime.jit import recording

    launched: list[Launched] = []

    def at(function: Any, grid: Any) -> Any:
        def launch(*args: Any, **kwargs: Any) -> Any:
            kernel = function.run(*args, grid=grid, warmup=True, **kwargs)
            sides = grid if isinstance(grid, tuple) else (grid,)
            count = int(np.prod([int(side) for side in sides]))
            launched.append(Launched(kernel, count * kernel.metadata["cuda"]["cluster"]))
            return kernel

        return launch

    # Host arrays stand in for GPU arrays: nothing is launched that would copy them.
    with knobs.scope(target=target, stage_arrays=True), recording(at):
        yield launched


class _Shapes:
    """Makes inputs that only have a shape and a type: untouched memory costs nothing."""

    def __init__(self, dtype: str):
        self.dtype = dtype

    def normal(self, *shape: int) -> Any:
        return np.empty((1, *shape), self.dtype)

    positive = normal

    def full(self, shape: tuple[int, ...], value: float, dtype: str) -> Any:
        return np.full((1, *shape), value, dtype)

    def copies(self, array: Any) -> Any:
        return array[None]


def compile_row(case: Case, target: str, peer: str = "kiln") -> list[Launched]:
    """What Kiln would launch for a row."""
    module = family(case.family)
    arrays = {name: array[0] for name, array in module.inputs(case, _Shapes(case.dtype)).items()} | {"set": 0}
    outs = tuple(np.empty(shape, dtype) for shape, dtype in module.outputs(case))
    made = module.peers(case, Tools(types.SimpleNamespace(name="none", torch=None)))[peer]()
    with compiling_only(target) as launched:
        made.launch(arrays, outs)
    return launched


def line(found: Launched) -> list[str]:
    """One row of the table."""
    cuda, usage = found.cuda, found.cuda["usage"]
    code = sass.read(found.kernel.asm["sass"])
    flight = code.in_flight * cuda["threads"] * found.resident
    waves = found.blocks / (MULTIPROCESSORS * found.resident)
    return [
        f"{cuda['threads'] // 32}" + (f"×{cuda['cluster']}" if cuda["cluster"] > 1 else ""),
        str(found.blocks),
        f"{usage['registers']}",
        str(usage["spill_loads"] + usage["spill_stores"] + usage["stack"]),
        f"{found.resident}",
        f"{waves:.2f}",
        sass.describe(code.loads),
        str(code.rounds),
        sass.describe(code.stores),
        str(code.barriers),
        str(code.instructions),
        str(code.in_flight),
        f"{flight / 1e3:.0f}",
    ]


HEADS = ("row", "warps", "blocks", "regs", "spills", "per SM", "waves", "loads", "rounds", "stores", "barriers", "SASS",
         "B in flight", "KB per SM")  # fmt: skip


def main(arguments: list[str] | None = None) -> int:
    from rich import box
    from rich.console import Console
    from rich.table import Table

    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("families", nargs="*", metavar="FAMILY", choices=[*FAMILIES, []], help=", ".join(FAMILIES))
    parser.add_argument("--only", default="", metavar="WORDS")
    parser.add_argument("--target", default="sm_90a")
    parser.add_argument("--peer", default="kiln", help="kiln or kiln+pdl")
    options = parser.parse_args(arguments)
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False)
    for head in HEADS:
        table.add_column(head, justify="left" if head in ("row", "loads", "stores") else "right", no_wrap=True)
    failed = 0
    for case in select(options.families, options.only):
        try:
            for found in compile_row(case, options.target, options.peer):
                table.add_row(case.name, *line(found))
        except Exception as error:  # a row that does not compile is a result too
            failed += 1
            table.add_row(case.name, f"{type(error).__name__}: {str(error).splitlines()[0][:120]}")
    (Console() if sys.stdout.isatty() else Console(width=220)).print(table)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
