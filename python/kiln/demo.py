"""``make demo``: runs every case of the kernel library, checks it against float64, and shows speed in a table.

Runs on the GPU if there is one. Times are then the GPU's own, and caches are as the previous run left them.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import inspect
import sys
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from kiln.kernels import FAMILIES
from kiln.kernels.case import Case

# The relative error allowed in the norm of an output: a few roundings of its type, plus float32's error growth over a
# sum.
ROUNDOFF = {"float64": 2.0**-53, "float32": 2.0**-24, "float16": 2.0**-11, "bfloat16": 2.0**-8}


def cases() -> Iterator[tuple[str, Case]]:
    for family in FAMILIES:
        for case in importlib.import_module(f"kiln.kernels.{family}.cases").CASES:
            yield family, case


def relative_error(out: Any, exact: Any) -> float:
    import numpy as np

    out = np.asarray(out, np.float64)
    exact = np.asarray(exact, np.float64)
    norm = float(np.linalg.norm(exact))
    return float(np.linalg.norm(out - exact)) / (norm or 1.0)


def check(case: Case, out: Any, exact: Any) -> tuple[bool, float]:
    """Whether every output is within the bound for its type, and the largest relative error."""
    outs = out if isinstance(out, tuple) else (out,)
    exacts = exact if isinstance(exact, tuple) else (exact,)
    worst, good = 0.0, len(outs) == len(exacts)
    for one, other in zip(outs, exacts, strict=False):
        error = relative_error(one, other)
        unit = ROUNDOFF.get(str(one.dtype))
        bound = 0.0 if unit is None else 4 * unit + 8 * case.length**0.5 * ROUNDOFF["float32"]
        good &= error <= bound
        worst = max(worst, error)
    return good, worst


def again(case: Case, inputs: dict[str, Any], out: Any) -> Callable[[], Any]:
    """The timed run. It reuses the outputs of the first run where the function takes `out`, since a GPU waits while the
    host allocates."""
    if "out" in inspect.signature(case.run).parameters:
        return lambda: case.run(**inputs, out=out)
    return lambda: case.run(**inputs)


def speed(case: Case, milliseconds: float) -> str:
    if case.flops:
        return f"{case.flops / milliseconds / 1e6:.1f} GFLOP/s"
    return f"{case.bytes / milliseconds / 1e6:.1f} GB/s"


def to_device(inputs: dict[str, Any]) -> dict[str, Any]:
    """The inputs with their arrays in the GPU's memory."""
    import numpy as np

    from kiln.kernels.device_array import DeviceArray

    return {name: DeviceArray.of(x) if isinstance(x, np.ndarray) else x for name, x in inputs.items()}


def to_host(out: Any) -> Any:
    if isinstance(out, tuple):
        return tuple(to_host(one) for one in out)
    return out.numpy() if hasattr(out, "__cuda_array_interface__") else out


COLUMNS = ("kernel", "size", "correct", "error", "time", "speed")


class Plain:
    """The table without the package rich, as in a bare wheel: prints each row as soon as it is measured."""

    WIDTHS = (-20, -36, 7, 9, 12, 16)

    def __init__(self, title: str):
        print(title)
        self.add(*COLUMNS)

    def __enter__(self) -> Plain:
        return self

    def __exit__(self, *raised: object) -> None: ...

    def doing(self, what: str) -> None: ...

    def add(self, *cells: str) -> None:
        texts = (cell.ljust(-width) if width < 0 else cell.rjust(width)
                 for cell, width in zip(cells, self.WIDTHS, strict=True))  # fmt: skip
        print(" ".join(texts).rstrip(), flush=True)


class Rich:
    """The table with the package rich: progress on a terminal, then the whole table."""

    def __init__(self, title: str):
        from rich.console import Console
        from rich.table import Table

        # A pipe or a log has no width, so use the width that the table needs.
        self.console = Console() if sys.stdout.isatty() else Console(width=120)
        self.status = self.console.status("")
        self.table = Table(title=title)
        for column in COLUMNS:
            self.table.add_column(column, justify="left" if column in ("kernel", "size") else "right", no_wrap=True)

    def __enter__(self) -> Rich:
        self.status.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self.status.stop()
        self.console.print(self.table)

    def doing(self, what: str) -> None:
        self.status.update(what)

    def add(self, *cells: str) -> None:
        self.table.add_row(*(f"[red]{cell}[/red]" if cell == "NO" else cell for cell in cells))


def main(arguments: Sequence[str] | None = None) -> int:
    import numpy as np

    import kiln
    import kiln.cuda
    from kiln import knobs
    from kiln.testing import do_bench

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", choices=("cpu", "cuda"), help="where to run (default: the GPU if there is one)")
    parser.add_argument("--only", default="", help="only kernels with this in their name")
    options = parser.parse_args(arguments)
    device = options.device or ("cuda" if kiln.cuda.is_available() else "cpu")
    if device == "cuda":
        where = f"{kiln.cuda.get_device_properties(0).name} ({kiln.cuda.target(0)})"
    else:
        where = f"target {knobs.target}"
    failures = 0
    table = Rich if importlib.util.find_spec("rich") else Plain
    with table(f"Kiln {kiln.__version__} on {where}") as shown:
        for family, case in cases():
            if options.only not in case.name:
                continue
            shown.doing(f"{family}: {case.name} {case.size}")
            inputs = case.inputs(np.random.default_rng(0))
            exact = case.reference(**inputs)
            if device == "cuda":
                inputs = to_device(inputs)
            try:
                out = case.run(**inputs)
                good, error = check(case, to_host(out), exact)
            except kiln.errors.InternalError as problem:
                failures += 1
                shown.add(case.name, case.size, "NO", str(problem).splitlines()[0][:60], "", "")
                continue
            failures += not good
            milliseconds = do_bench(again(case, inputs, out), warmup=10, rep=60)
            shown.add(case.name, case.size, "yes" if good else "NO", f"{error:.1e}", f"{milliseconds:.3f} ms",
                      speed(case, milliseconds))  # fmt: skip
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
