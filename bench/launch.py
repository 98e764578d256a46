"""What a launch costs the host: `python bench/launch.py`.

    python bench/launch.py                      every row, on the GPU where torch sees one, else on the CPU target
    python bench/launch.py --rows ten,prepared  some of them
    python bench/launch.py --rows first         a kernel's first launch in a new process, whose code is in the cache
    python bench/launch.py --json launch.json   what was measured, as data
    python bench/launch.py --ask                fails if a row costs more than required

Each call is timed separately, with garbage collection off; the cost of reading the clock is subtracted. Calls begin 20
µs apart, enough for a GPU to finish: the driver takes twice as long while the GPU lags behind. Rows take turns in
bursts, in reversed order every round, and the device is waited for between bursts. A figure is the median over all
calls, and the 99th percentile. Kernels have one program that does nothing; those of the library have one row.

`driver` is `cuLaunchKernelEx` alone, in a loop of C++, with the argument block of the row `ten`: the unavoidable
minimum. On the CPU target it is the device's own launch. `over` is what a row costs beyond the row that it is compared
with.

`first`: in separate processes that have loaded torch (else numpy) and made their arrays, and that find code and
bytecode left by another process. `import` is that of kiln, its language and a file with the kernel; `launch` the call,
of which `lookup` finds the artifact by the sources and checks it, `load` has the driver take it (on the CPU target,
links it). `library` is the first call of `rms_norm`, its import not counted.
"""

from __future__ import annotations

import argparse
import gc
import importlib.util
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import kiln  # noqa: E402
import kiln.language as kl  # noqa: E402
from measure import quantile  # noqa: E402

BURST = 200  # calls; a GPU's queue holds a thousand launches
GAP = 20_000  # nanoseconds between the starts of two calls


@dataclass
class Row:
    """`base`: the row that this one is compared with; `asked`: how many µs more it may cost."""

    name: str
    what: str
    call: Callable[[], Any] | None
    base: str = ""
    asked: float | None = None
    burst: Callable[[int], list[int]] | None = None  # replaces `call`: returns the nanoseconds of each of n calls


@dataclass
class Figure:
    name: str
    what: str
    median: float  # µs
    p99: float
    least: float
    calls: int
    base: str = ""
    over: float | None = None
    asked: float | None = None


@kiln.jit
def two_descriptors(x, y, n, BLOCK: kl.constexpr):
    if n < 0:
        y.store([0, 0], x.load([0, 0]))


@kiln.struct
class Pair:
    """Two arrays with their sizes: worth four arguments."""

    data: Any
    stride: Any
    columns: Any
    scale: Any


@kiln.jit
def of_structs(x: Pair, y: Pair, n, BLOCK: kl.constexpr):
    if n < 0:
        kl.store(y.data, kl.load(x.data) * x.scale + y.scale + x.stride + x.columns + y.stride + y.columns)


@kiln.jit
def of_fields(x, xs, xc, xf, y, ys, yc, yf, n, BLOCK: kl.constexpr):
    if n < 0:
        kl.store(y, kl.load(x) * xf + yf + xs + xc + ys + yc)


def shared_kernels(jit: Any, language: Any) -> Any:
    """`baselines/launched.py` for one of the two languages."""
    path = HERE / "baselines" / "launched.py"
    spec = importlib.util.spec_from_file_location(f"launched_for_{language.__name__.partition('.')[0]}", path)
    assert spec is not None and spec.loader is not None
    module: Any = importlib.util.module_from_spec(spec)
    module.jit, module.tl = jit, language
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


class Arrays:
    """Where the arrays are: torch's on a GPU or on the CPU, numpy's without torch."""

    def __init__(self) -> None:
        try:
            import torch
        except ImportError:
            torch = None  # type: ignore[assignment]
        self.torch: Any = torch
        self.gpu = torch is not None and torch.cuda.is_available()
        self.name = "numpy" if torch is None else torch.cuda.get_device_name() if self.gpu else "torch on the CPU"

    def zeros(self, *shape: int, dtype: str = "float32") -> Any:
        if self.torch is None:
            import numpy as np

            return np.zeros(shape, dtype)
        return self.torch.zeros(shape, dtype=getattr(self.torch, dtype), device="cuda" if self.gpu else "cpu")

    def wait(self) -> None:
        if self.gpu:
            self.torch.cuda.synchronize()


# Calls write these out, as programs do: for a call with a star, Python makes a list, a tuple and a dictionary, which
# takes as long as much of a launch (row `starred`).
SCALARS = (48, 17, 33, 5, 0.5, 0.25)


def launches(arrays: Arrays) -> list[Row]:
    from kiln.tools.tensor_descriptor import TensorDescriptor

    kernels = shared_kernels(kiln.jit, kl)
    ten, nineteen = kernels.ten, kernels.nineteen
    a, b, c, d, e, h = (arrays.zeros(64) for _ in range(6))
    one = (1,)
    prepared = ten.prepare(a, b, c, d, *SCALARS, grid=one, BLOCK=64)
    x, y = arrays.zeros(64, 64, dtype="float16"), arrays.zeros(64, 64, dtype="float16")
    left, right = TensorDescriptor.from_tensor(x, [64, 64]), TensorDescriptor.from_tensor(y, [64, 64])
    configs = [kiln.Config({"BLOCK": 64}, num_warps=warps) for warps in (1, 2)]
    tuned = kiln.autotune(configs, key=["i", "j"], do_bench=lambda launch, quantiles: [1.0, 1.0, 1.0])(ten)

    def driver(count: int) -> list[int]:
        return prepared.time_driver(count, GAP if arrays.gpu else 0)

    return [
        Row("driver", "the driver alone, 10 arguments", None, burst=driver),
        Row("prepared", "a prepared launch", prepared, "driver", 0.3),
        Row("replaced", "a prepared launch with another array", lambda: prepared(a=e), "driver"),
        Row("ten", "10 arguments", lambda: ten[one](a, b, c, d, 48, 17, 33, 5, 0.5, 0.25, BLOCK=64), "driver", 0.8),
        Row("starred", "10 arguments, six by a star", lambda: ten[one](a, b, c, d, *SCALARS, BLOCK=64), "driver"),
        Row(
            "options",
            "10 arguments, launch options",
            lambda: ten[one](a, b, c, d, 48, 17, 33, 5, 0.5, 0.25, BLOCK=64, num_warps=1, num_stages=3, num_ctas=1),
            "driver",
        ),
        Row(
            "tuned",
            "10 arguments through autotune",
            lambda: tuned[one](a, b, c, d, 48, 17, 33, 5, 0.5, 0.25),
            "options",
            0.4,
        ),
        Row(
            "nineteen",
            "19 arguments",
            lambda: nineteen[one](a, b, c, d, e, h, 48, 17, 33, 5, 64, 7, 9, 11, 128, 0.5, 0.25, 0.125, 2.0, BLOCK=64),
            "driver",
            1.2,
        ),
        Row("descriptors", "two descriptors", lambda: two_descriptors[one](left, right, 5, BLOCK=64), "driver", 1.5),
        Row(
            "fields", "two structs by their fields", lambda: of_fields[one](a, 48, 17, 0.5, b, 33, 5, 0.25, 7, BLOCK=64)
        ),
        Row(
            "structs",
            "two structs",
            lambda: of_structs[one](Pair(a, 48, 17, 0.5), Pair(b, 33, 5, 0.25), 7, BLOCK=64),
            "fields",
            0.3,
        ),
    ]


def library(arrays: Arrays) -> list[Row]:
    """Functions of the library, compared with launching their kernel alone and with torch's functions."""
    from kiln.kernels import rows as policy
    from kiln.kernels.gemm import matmul
    from kiln.kernels.machine import machine_of
    from kiln.kernels.norm import rms_norm
    from kiln.kernels.norm.kernel import ONE_EXCHANGE_BYTES, rms_norm_kernel
    from kiln.kernels.softmax import softmax
    from kiln.kernels.views import rows_view, vector_view

    n = 1024
    x, weight, y = arrays.zeros(1, n), arrays.zeros(n), arrays.zeros(1, n)
    left, right, product = arrays.zeros(16, 64), arrays.zeros(64, 16), arrays.zeros(16, 16)
    machine = machine_of(x)
    plan = policy.plan(1, n, 4, 1, machine, 1, ONE_EXCHANGE_BYTES)
    meta, views = plan.meta(1, n, machine), (rows_view(x), vector_view(weight), rows_view(y))
    found = [
        Row(
            "rms_norm kernel",
            "its launch, with views",
            lambda: rms_norm_kernel[(1,)](*views, 1e-6, CAST_BEFORE=False, **meta),
        ),
        Row("rms_norm out", "rms_norm(x, w, out=y)", lambda: rms_norm(x, weight, out=y), "rms_norm kernel", 1.5),
        Row("rms_norm", "rms_norm(x, w)", lambda: rms_norm(x, weight)),
        Row("softmax out", "softmax(x, out=y)", lambda: softmax(x, out=y), "rms_norm kernel", 1.5),
        Row("softmax", "softmax(x)", lambda: softmax(x)),
        Row("matmul out", "matmul(a, b, out=c)", lambda: matmul(left, right, out=product), "rms_norm kernel", 1.5),
        Row("matmul", "matmul(a, b)", lambda: matmul(left, right)),
    ]
    torch = arrays.torch
    if torch is None:
        return found
    by_name = {row.name: row for row in found}
    for name, what, call in (
        ("rms_norm", "F.rms_norm(x, (n,), w)", lambda: torch.nn.functional.rms_norm(x, (n,), weight, 1e-6)),
        ("softmax", "torch.softmax(x, -1)", lambda: torch.softmax(x, -1)),
        ("matmul", "torch.matmul(a, b)", lambda: torch.matmul(left, right)),
    ):
        found.append(Row(f"torch {name}", what, call))
        by_name[name].base, by_name[name].asked = f"torch {name}", 0.0
    found.append(Row("torch empty", "torch.empty_like(x)", lambda: torch.empty_like(x)))
    return found


def triton_rows(arrays: Arrays) -> list[Row]:
    if not arrays.gpu:
        return []
    try:
        import triton
        import triton.language as tl
    except ImportError:
        return []
    kernels = shared_kernels(triton.jit, tl)
    a, b, c, d, e, h = (arrays.zeros(64) for _ in range(6))
    configs = [triton.Config({"BLOCK": 64}, num_warps=warps) for warps in (1, 2)]
    tuned = triton.autotune(configs, key=["i", "j"], do_bench=lambda launch, quantiles: [1.0, 1.0, 1.0])(kernels.ten)
    return [
        Row("triton nothing", "no arguments", lambda: kernels.nothing[(1,)](BLOCK=64)),
        Row("triton ten", "10 arguments", lambda: kernels.ten[(1,)](a, b, c, d, 48, 17, 33, 5, 0.5, 0.25, BLOCK=64)),
        Row(
            "triton nineteen",
            "19 arguments",
            lambda: kernels.nineteen[(1,)](
                a, b, c, d, e, h, 48, 17, 33, 5, 64, 7, 9, 11, 128, 0.5, 0.25, 0.125, 2.0, BLOCK=64
            ),
        ),
        Row("triton tuned", "10 arguments through autotune", lambda: tuned[(1,)](a, b, c, d, 48, 17, 33, 5, 0.5, 0.25)),
    ]


FIRST_KERNEL = """
import kiln
import kiln.language as kl


@kiln.jit
def add(x, y, out, n, BLOCK: kl.constexpr):
    i = kl.program_id(0) * BLOCK + kl.arange(0, BLOCK)
    kl.store(out + i, kl.load(x + i, mask=i < n) + kl.load(y + i, mask=i < n), mask=i < n)
"""
FIRST_PROGRAM = """
import json, sys, time
clock = time.perf_counter
sys.path.insert(0, sys.argv[1])
try:
    import torch
    place = "cuda" if torch.cuda.is_available() else "cpu"
    x, y, out = (torch.ones(4096, device=place) for _ in range(3))
    rows, weight = torch.ones(64, 1024, device=place), torch.ones(1024, device=place)
    wait = torch.cuda.synchronize if place == "cuda" else lambda: None
except ImportError:
    import numpy as np
    x, y, out = (np.ones(4096, np.float32) for _ in range(3))
    rows, weight = np.ones((64, 1024), np.float32), np.ones(1024, np.float32)
    wait = lambda: None
wait()
spent = {"import": -clock()}
from first_kernel import add
spent["import"] += clock()

from kiln import _kiln
from kiln.runtime import cache

def part(owner, name, of):
    inner = getattr(owner, name)
    def outer(*args, **kwargs):
        start = clock()
        try:
            return inner(*args, **kwargs)
        finally:
            spent[of] = spent.get(of, 0.0) + clock() - start
    setattr(owner, name, outer)

part(cache.Lookup, "__init__", "lookup")
part(cache.Lookup, "by_source", "lookup")
part(_kiln, "load", "load")
start = clock()
add[(4,)](x, y, out, 4096, 1024)
spent["launch"] = clock() - start
found = {**spent, "compiler": "kiln._compiler" in sys.modules}
wait()
if not float(out[4095]) == 2.0:
    raise SystemExit("wrong result")
from kiln.kernels.norm import rms_norm
start = clock()
rms_norm(rows, weight)
found["library"] = clock() - start
wait()
print(json.dumps(found))
"""


def first_launch(runs: int = 9) -> dict[str, float]:
    """Medians in milliseconds over processes; the first one compiles and does not count."""
    found: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "first_kernel.py").write_text(FIRST_KERNEL)
        # As in an installed package: Python's bytecode exists.
        env = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
        env |= {"KILN_CACHE": f"{folder}/cache", "PYTHONPYCACHEPREFIX": f"{folder}/bytecode"}
        for _ in range(runs + 1):
            run = subprocess.run([sys.executable, "-c", FIRST_PROGRAM, folder], capture_output=True, text=True, env=env)
            if run.returncode:
                raise SystemExit(f"first launch: {run.stderr.strip()[-2000:]}")
            found.append(json.loads(run.stdout))
    if any(each["compiler"] for each in found[1:]):
        raise SystemExit("expected a first launch of cached code to load no compiler")
    names = ("import", "launch", "lookup", "load", "library")
    return {name: 1e3 * quantile(sorted(each[name] for each in found[1:]), 0.5) for name in names}


FIRST_ASKED = {"launch": 3.0, "lookup": 1.0}


def show_first(first: dict[str, float]) -> str:
    said = []
    for name, ms in first.items():
        asked = FIRST_ASKED.get(name)
        verdict = "" if asked is None else f" (asked {asked:.0f}: {'yes' if ms <= asked else 'NO'})"
        said.append(f"{name} {ms:.2f}{verdict}")
    return f"first launch of cached code in a new process, ms: {', '.join(said)}"


def timed(call: Callable[[], Any], count: int, gap: int = 0) -> list[int]:
    """Nanoseconds of each of ``count`` calls, including the clock's own cost, started `gap` apart."""
    clock = time.perf_counter_ns
    times, start = [0] * count, 0
    for i in range(count):
        end = start + gap
        start = clock()
        while start < end:
            start = clock()
        call()
        times[i] = clock() - start
    return times


def clock_cost() -> float:
    """Nanoseconds that `timed` shows for nothing: a call of a lambda, and the clock."""
    return float(sorted(timed(lambda: None, 4000))[2000])


def measure_rows(rows: list[Row], arrays: Arrays, rounds: int, burst: int) -> list[Figure]:
    for row in rows:  # compiles; a library call is recorded when it is made the second time
        for _ in range(4):
            if row.call is not None:
                row.call()
        arrays.wait()
    overhead = clock_cost()
    times: dict[str, list[float]] = {row.name: [] for row in rows}
    gc.collect()
    gc.disable()
    try:
        for turn in range(rounds):
            for row in rows if turn % 2 == 0 else rows[::-1]:
                if row.burst is not None:
                    times[row.name] += row.burst(burst)
                else:
                    assert row.call is not None
                    timed(row.call, 3)
                    times[row.name] += [
                        max(each - overhead, 1.0) for each in timed(row.call, burst, GAP if arrays.gpu else 0)
                    ]
                arrays.wait()
    finally:
        gc.enable()
    figures = {}
    for row in rows:
        ordered = sorted(times[row.name])
        median, p99 = quantile(ordered, 0.5) / 1e3, quantile(ordered, 0.99) / 1e3
        figures[row.name] = Figure(
            row.name, row.what, median, p99, ordered[0] / 1e3, len(ordered), row.base, asked=row.asked
        )
    for figure in figures.values():
        if figure.base in figures:
            figure.over = figure.median - figures[figure.base].median
    return list(figures.values())


def show(figures: list[Figure]) -> str:
    lines = [f"{'row':18} {'what':36} {'median':>7} {'p99':>7} {'least':>7}  over"]
    for figure in figures:
        over = ""
        if figure.over is not None:
            over = f"{figure.over:+.2f} over {figure.base}"
            if figure.asked is not None:
                over += f", asked {figure.asked:+.1f}: {'yes' if figure.over <= figure.asked else 'NO'}"
        lines.append(
            f"{figure.name:18} {figure.what:36} {figure.median:7.2f} {figure.p99:7.2f} {figure.least:7.2f}"
            f"  {over}".rstrip()
        )
    return "\n".join(lines)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", help="comma-separated names of rows; the rows that they are compared with run too")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--burst", type=int, default=BURST, help="calls of a row in one round")
    parser.add_argument("--json", metavar="FILE", help="write the results to FILE")
    parser.add_argument("--ask", action="store_true", help="fail if a row exceeds its limit")
    parser.add_argument("--no-peers", action="store_true", help="measure only Kiln")
    options = parser.parse_args(argv)
    arrays = Arrays()
    first: dict[str, float] = {}
    chosen = options.rows.split(",") if options.rows else None
    if chosen is None or "first" in chosen:
        first = first_launch(min(9, options.rounds))
        print(show_first(first), flush=True)
    if chosen == ["first"]:
        return int(options.ask and any(first[name] > ms for name, ms in FIRST_ASKED.items()))
    rows = [*launches(arrays), *library(arrays)]
    if not options.no_peers:
        rows += triton_rows(arrays)
    else:
        rows = [row for row in rows if not row.name.startswith("torch")]
    if chosen is not None:
        wanted = set(chosen) - {"first"}
        unknown = wanted - {row.name for row in rows}
        if unknown:
            parser.error(f"expected names of rows ({', '.join(row.name for row in rows)}), got {', '.join(unknown)}")
        wanted |= {row.base for row in rows if row.name in wanted}
        rows = [row for row in rows if row.name in wanted]
    figures = measure_rows(rows, arrays, options.rounds, options.burst)
    print(f"host cost of a call, µs, median and 99th percentile of {figures[0].calls} calls: {arrays.name}")
    print(show(figures), flush=True)
    if options.json:
        measured = {"device": arrays.name, "first": first, "rows": [asdict(figure) for figure in figures]}
        pathlib.Path(options.json).write_text(json.dumps(measured, indent=1) + "\n")
    dear = [f"first {name}" for name, ms in FIRST_ASKED.items() if first and first[name] > ms]
    dear += [f.name for f in figures if f.over is not None and f.asked is not None and f.over > f.asked]
    if options.ask and dear:
        print(f"more than asked: {', '.join(dear)}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
