"""Matrix products on a GPU beside cuBLASLt, torch, Triton and quack: `python bench/gemm.py`.

    python bench/gemm.py --list                                     the rows
    python bench/gemm.py --model                                    the default plans and what the model expects; no GPU
    python bench/gemm.py --rows "linear 16" --csv gemm.csv          rows whose name has these words; several: "a; b"
    python bench/gemm.py --csv gemm.csv --limit 500                 as many rows as fit the time, those not in the file
    python bench/gemm.py --report gemm.csv                          what recorded rows say

Method: measure.py's (graph replay, everything rotated past the L2, bursts in balanced order, median), with bursts of
25 ms after 100 ms untimed where products decide and of 4 ms where memory does: near the peak the chip is at its power
limit, and its clock takes longer than a burst to follow from one peer to the next. Every peer is checked against
float64 before it is timed, on the first and the last set: ‖out − exact‖ / ‖exact‖ at most twice torch's in the same
types. After the race each peer runs alone for `--energy` seconds, and its power, by NVML's counter, times its time
gives joules per operation.

cuBLASLt is called directly; all algorithms that its heuristics offer (up to 64, 64 MB of workspace) are timed, and the
best is its figure. Triton's kernels (baselines/triton_gemm.py) are tuned too, and on `--quack-rows` quack's
(baselines/quack_gemm.py); `--tune` also times Kiln's candidates (the peer kiln-tuned; kiln is the default plan), and
separately the plans that add parts of tiles within the launch (kiln-cut: stream-K, splits that the last program adds).
Winners are kept in the file given by `--tuned`, by row and version, so that a second run tunes nothing.
"""

from __future__ import annotations

import argparse
import csv
import ctypes
import gc
import json
import math
import pathlib
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import measure  # noqa: E402
from cases import Unavailable  # noqa: E402
from measure import quantile, summarize  # noqa: E402
from verdict import geometric_mean  # noqa: E402

Launch = Callable[[Any, Any, Any, Any], None]  # (a, b, c, out) on the current stream

LAYERS = {"qkv": (4096, 6144), "o": (4096, 4096), "gate_up": (4096, 28672), "down": (14336, 4096)}
SQUARES = (512, 1024, 2048, 4096, 8192)
SCALES = ((1, 0), (1, 1), (2, 3), (0.5, 2))
PEERS = ("kiln", "kiln+pdl", "kiln-tuned", "kiln-cut", "cublaslt", "torch", "triton", "quack", "ceiling")
NOT_PEERS = ("kiln", "kiln+pdl", "kiln-tuned", "kiln-cut", "ceiling")
# The requirements of a group: the geometric mean over the best peer of each row, and the minimum of any row.
ASKED = {"decode": (1.10, 0.97), "prefill": (1.05, 0.97), "square": (1.07, 0.97), "fp8": (1.00, 0.0),
         "fp8-f32": (1.00, 0.0)}  # fmt: skip
# Required share of the read ceiling, where a layer of few rows is bound by memory: M ≤ 16.
OF_CEILING = {"gate_up": 0.90, "down": 0.90, "qkv": 0.80, "o": 0.72}
TUNED = HERE / "results" / "gemm_tuned.json"
# Rows that show how quack performs: few rows, two waves, and the peak.
QUACK_ROWS = "linear gate_up 16; linear o 2048; linear qkv 4096; linear gate_up 8192"


@dataclass(frozen=True)
class Row:
    """out (m, n) = alpha · a @ b + beta · c; ``b_rows``: b is stored (n, k), as weights are. ``accumulator``: with
    "fast", tensor cores sum fp8 to about 14 bits; with "f32", peers regularly add in float32."""

    group: str
    name: str
    m: int
    n: int
    k: int
    dtype: str = "float16"
    out_dtype: str = "float16"
    b_rows: bool = True
    alpha: float = 1.0
    beta: float = 0.0
    accumulator: str = "f32"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k

    @property
    def bytes(self) -> int:
        each = 1 if self.dtype.startswith("float8") else 2
        return (self.m + self.n) * self.k * each + self.m * self.n * 2 * (2 if self.beta else 1)

    @property
    def layer(self) -> str:
        return self.name.split()[1]

    @property
    def of_memory(self) -> bool:
        return self.group == "decode" or (self.group.startswith("fp8") and self.m <= 64)

    def guess_us(self) -> float:
        peak = 1.3e9 if self.dtype.startswith("float8") else 6.5e8
        return 1.5 + max(self.bytes / 4.2e6, self.flops / peak)


def rows(dtype: str = "float16", shrink: int = 1) -> list[Row]:
    """All rows; ``shrink`` divides every side, to try the suite without a GPU."""
    found = []
    for m in (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192):
        for layer, (k, n) in LAYERS.items():
            found.append(Row("decode" if m <= 64 else "prefill", f"linear {layer} {m}", m, n, k, dtype, dtype))
    for accumulator in ("f32", "f16") if dtype == "float16" else ("f32",):
        for n in SQUARES:
            for alpha, beta in SCALES:
                name = f"square {n} alpha={alpha:g} beta={beta:g} {accumulator}"
                found.append(Row("square", name, n, n, n, dtype, dtype, False, alpha, beta, accumulator))
    for group, accumulator in (("fp8", "fast"), ("fp8-f32", "f32")):
        for m in (16, 4096):
            for layer, (k, n) in LAYERS.items():
                found.append(Row(group, f"{group} {layer} {m}", m, n, k, "float8_e4m3fn", "bfloat16",
                                 accumulator=accumulator))  # fmt: skip
    if shrink > 1:
        found = [Row(r.group, r.name, max(1, r.m // shrink), max(16, r.n // shrink), max(16, r.k // shrink), r.dtype,
                     r.out_dtype, r.b_rows, r.alpha, r.beta, r.accumulator) for r in found]  # fmt: skip
    return found


def about(row: Row) -> dict[str, Any]:
    """What a plan depends on besides sides and types."""
    return {"accumulator": row.accumulator, "streams": row.b_rows and not row.dtype.startswith("float8"),
            "addends": int(bool(row.beta)), "replaced": bool(row.beta)}  # fmt: skip


def select(every: Sequence[Row], words: str) -> list[Row]:
    """Rows whose name has every word of one of the alternatives, which are separated by semicolons."""
    alternatives = [text.split() for text in words.split(";") if text.split()]
    if not alternatives:
        return list(every)
    return [row for row in every if any(set(wanted) <= {*row.name.split(), row.group} for wanted in alternatives)]


def plan(row: Row, l2_bytes: int, rounds: int, burst_us: float | None = None) -> measure.Plan:
    """Like measure.plan, but the estimated duration also counts the products."""
    us = row.guess_us()
    burst = burst_us or (4000.0 if row.of_memory else 25000.0)
    sets = min(512, max(2, math.ceil(3 * l2_bytes / row.bytes)))
    launches = sets * max(1, math.ceil(1500.0 / us / sets))
    return measure.Plan(sets, launches, max(1, math.ceil(burst / (us * launches))), 0, rounds)


def settle(row: Row, launches: int) -> int:
    """How often a graph of ``launches`` is replayed untimed before a burst, so that the clock settles."""
    return 0 if row.of_memory else math.ceil(measure.SETTLE_US / (row.guess_us() * launches))


# ---- energy ----------------------------------------------------------------------------------------------------------
class Meter:
    """Joules and clocks of device 0, by NVML; every figure is None without NVML."""

    def __init__(self) -> None:
        self.library, self.device = None, ctypes.c_void_p()
        try:
            library = ctypes.CDLL("libnvidia-ml.so.1")
            if library.nvmlInit_v2() == 0 and library.nvmlDeviceGetHandleByIndex_v2(0, ctypes.byref(self.device)) == 0:
                self.library = library
        except OSError:
            pass

    def _read(self, name: str, value: Any, *before: Any) -> int | None:
        if self.library is None or getattr(self.library, name)(self.device, *before, ctypes.byref(value)):
            return None
        return int(value.value)

    def joules(self) -> float | None:
        """Joules since the driver was loaded."""
        read = self._read("nvmlDeviceGetTotalEnergyConsumption", ctypes.c_ulonglong())
        return None if read is None else read / 1e3

    def watts(self, busy: Callable[[], bool]) -> float | None:
        """The mean power while the device is busy. The counter changes about five times a second, so energy and time
        are taken between its first and last observed change."""
        last, moves = self.joules(), []
        while busy():
            now = self.joules()
            if now is not None and now != last:
                moves.append((time.perf_counter(), now))
                last = now
            time.sleep(0.001)
        if len(moves) < 2:
            return None
        (begin, before), (end, after) = moves[0], moves[-1]
        return (after - before) / (end - begin)

    def sm_mhz(self) -> int | None:
        return self._read("nvmlDeviceGetClockInfo", ctypes.c_uint(), ctypes.c_int(1))

    def memory_mhz(self) -> int | None:
        return self._read("nvmlDeviceGetClockInfo", ctypes.c_uint(), ctypes.c_int(2))


# ---- what won before -------------------------------------------------------------------------------------------------
class Tuned:
    """The file of winners: row, peer and version → the variant's name."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.winners: dict[str, str] = json.loads(path.read_text()) if path.exists() else {}

    def get(self, key: str) -> str | None:
        return self.winners.get(key)

    def put(self, key: str, name: str) -> None:
        self.winners[key] = name
        self.path.parent.mkdir(parents=True, exist_ok=True)
        part = self.path.with_suffix(".part")
        part.write_text(json.dumps(self.winners, indent=0, sort_keys=True))
        part.replace(self.path)


# ---- one row ---------------------------------------------------------------------------------------------------------
class Bench:
    """A row on a device: its sets, its exact results, and its peers."""

    def __init__(self, row: Row, device: Any, tuned: Tuned, options: argparse.Namespace):
        self.row, self.device, self.torch, self.tuned, self.options = row, device, device.torch, tuned, options
        burst = device.burst_us if device.name == "cpu" else options.burst
        self.plan = plan(row, device.l2_bytes, options.rounds, burst)
        self.settle = 0 if device.name == "cpu" else settle(row, self.plan.launches)
        torch = self.torch
        generator = torch.Generator(device.device)
        generator.manual_seed(0)

        def normal(*shape: int, dtype: str) -> Any:
            made = torch.empty(self.plan.sets, *shape, dtype=getattr(torch, dtype), device=device.device)
            for i in range(self.plan.sets):  # fp8 has no generator of its own
                values = torch.randn(shape, dtype=torch.float32, device=device.device, generator=generator)
                made[i] = values.to(made.dtype)
            return made

        sides = (row.n, row.k) if row.b_rows else (row.k, row.n)
        self.a, self.b = normal(row.m, row.k, dtype=row.dtype), normal(*sides, dtype=row.dtype)
        self.c = normal(row.m, row.n, dtype=row.out_dtype) if row.beta else None
        self.out = torch.empty(self.plan.sets, row.m, row.n, dtype=getattr(torch, row.out_dtype), device=device.device)
        self.exact = {i: self._exact(i) for i in {0, self.plan.sets - 1}}
        self.allowed: float | None = None
        self.held: list[Any] = []

    def _exact(self, i: int) -> Any:
        b = self.b[i].double()
        product = self.row.alpha * (self.a[i].double() @ (b.T if self.row.b_rows else b))
        return product if self.c is None else product + self.row.beta * self.c[i].double()

    def launch(self, function: Launch, i: int) -> None:
        function(self.a[i], self.b[i], self.out[i] if self.c is None else self.c[i], self.out[i])

    def error(self, function: Launch) -> float:
        """The worst of the checked sets, from poisoned outputs; infinite if an output is not finite."""
        worst = 0.0
        for i, exact in self.exact.items():
            self.out[i].fill_(math.nan)
            self.launch(function, i)
            self.device.synchronize()
            error = float((self.out[i].double() - exact).norm() / exact.norm())
            worst = max(worst, math.inf if math.isnan(error) else error)
        return worst

    def replay(self, function: Launch, launches: int) -> Callable[[], None]:
        def enqueue() -> None:
            for i in range(launches):
                self.launch(function, i % self.plan.sets)

        found = self.device.capture(enqueue)
        self.held.append((found, function))
        return found

    def quick_us(self, function: Launch) -> float:
        """A figure good enough to choose by: the best of three short bursts."""
        launches = max(1, min(self.plan.launches, math.ceil(1000.0 / self.row.guess_us())))
        burst = self.device.burst(self.replay(function, launches), launches, 1)
        self.held.pop()
        return min(burst() for _ in range(3))

    def key(self, peer: str, version: str) -> str:
        return f"{self.row.name} {self.row.dtype} | {peer} {version}"

    def kept(self, peer: str, version: str) -> str | None:
        """The variant that won earlier."""
        return self.tuned.get(self.key(peer, version))

    def best(self, peer: str, version: str, variants: Mapping[str, Callable[[], Launch]]) -> tuple[str, Launch]:
        """The fastest correct variant, or the one that won earlier."""
        kept = self.kept(peer, version)
        if kept in variants:
            return kept, variants[kept]()
        times: dict[str, float] = {}
        why = "no variants"
        for name, make in variants.items():
            try:
                function = make()
                self.launch(function, 0)
                self.device.synchronize()
                times[name] = self.quick_us(function)
            except Unavailable:
                raise
            except Exception as error:  # a variant that does not compile, fit or launch here is skipped
                why = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:200]
                self.device.synchronize()
        order = sorted(times, key=times.__getitem__)
        # Time the first few again: three bursts may have met a slow clock.
        order[:4] = sorted(order[:4], key=lambda name: self.quick_us(variants[name]()))
        for name in order:
            function = variants[name]()
            if self.allowed is None or self.error(function) <= self.allowed:
                self.tuned.put(self.key(peer, version), name)
                return name, function
        raise Unavailable(f"none of {len(variants)} variants works ({why})")

    # -- peers ------------------------------------------------------------------------------

    def peers(self) -> dict[str, Callable[[], tuple[str, Launch]]]:
        """Peer → a function that returns its variant and its launch; torch first, because its error is the measure."""
        found = {"torch": self._torch, "kiln": self._kiln, "kiln+pdl": self._kiln_pdl, "kiln-tuned": self._kiln_tuned,
                 "kiln-cut": self._kiln_cut, "cublaslt": self._cublaslt, "triton": self._triton, "quack": self._quack,
                 "ceiling": self._ceiling}  # fmt: skip
        asked = {"torch", *self.options.peers}
        if not self.options.tune:
            asked -= {"kiln-tuned", "kiln-cut"}
        if not self.row.of_memory:
            asked -= {"ceiling", "kiln+pdl"}
        return {name: make for name, make in found.items() if name in asked}

    def _torch(self) -> tuple[str, Launch]:
        torch, row = self.torch, self.row
        if row.dtype.startswith("float8"):
            one, fast = torch.ones((), device=self.device.device), row.accumulator == "fast"

            def scaled(a: Any, b: Any, _: Any, out: Any) -> None:
                torch._scaled_mm(a, b.T, one, one, out_dtype=out.dtype, use_fast_accum=fast, out=out)

            return "_scaled_mm", scaled
        torch.backends.cuda.matmul.allow_fp16_accumulation = row.accumulator == "f16"
        if row.beta or row.alpha != 1:
            return "addmm", lambda a, b, c, out: torch.addmm(c, a, b, beta=row.beta, alpha=row.alpha, out=out)
        return "mm", lambda a, b, _, out: torch.mm(a, b.T if row.b_rows else b, out=out)

    def _kiln(self, plan: Any = None) -> tuple[str, Launch]:
        from kiln.kernels.gemm import matmul

        row = self.row
        terms: dict[str, Any] = {"accumulator": row.accumulator, "plan": plan}

        def launch(a: Any, b: Any, c: Any, out: Any) -> None:
            given = {"alpha": row.alpha, "beta": row.beta, "c": c} if row.beta else {}
            matmul(a, b.T if row.b_rows else b, out=out, **given, **terms)

        return "" if plan is None else repr(plan), launch

    def _kiln_pdl(self) -> tuple[str, Launch]:
        if self.device.name == "cpu":
            raise Unavailable("launch options are for GPUs")
        from kiln.kernels.machine import launch_options

        _, function = self._kiln()

        def launch(*arrays: Any) -> None:
            with launch_options(pdl=True):
                function(*arrays)

        return "", launch

    def _kiln_tuned(self) -> tuple[str, Launch]:
        import kiln
        from kiln.kernels.gemm import configs
        from kiln.kernels.machine import machine_of

        row = self.row
        found = configs.candidates(row.m, row.n, row.k, row.dtype, machine_of(self.a), **about(row))
        variants = {repr(each): lambda each=each: self._kiln(each)[1] for each in found}
        return self.best("kiln-tuned", kiln.__version__, variants)

    def _kiln_cut(self) -> tuple[str, Launch]:
        import kiln
        from kiln.kernels.gemm import configs
        from kiln.kernels.machine import machine_of

        row, machine = self.row, machine_of(self.a)
        problem = configs.Problem(row.m, row.n, row.k, dtype=row.dtype, **about(row))
        if configs.engine(problem, machine) != "wgmma":
            raise Unavailable("plans that cut tiles are made for wgmma")
        found = configs.cut_plans(problem, machine)[:12]
        if not found:
            raise Unavailable("no tile is worth cutting")
        variants = {repr(each): lambda each=each: self._kiln(each)[1] for each in found}
        return self.best("kiln-cut", kiln.__version__, variants)

    def _cublaslt(self) -> tuple[str, Launch]:
        if self.device.name == "cpu":
            raise Unavailable("cuBLASLt is for GPUs")
        from baselines import cublaslt

        row = self.row
        product = cublaslt.Product(row.m, row.n, row.k, row.dtype, row.out_dtype, b_rows=row.b_rows,
                                   accumulator=row.accumulator, alpha=row.alpha, beta=row.beta)  # fmt: skip
        if kept := self.kept("cublaslt", str(cublaslt.version())):
            return kept, product.bind(cublaslt.Algorithm.parse(kept), self.torch)
        variants = {str(each): lambda each=each: product.bind(each, self.torch) for each in product.algorithms()}
        return self.best("cublaslt", str(cublaslt.version()), variants)

    def _triton(self) -> tuple[str, Launch]:
        if self.device.name == "cpu":
            raise Unavailable("Triton is for GPUs")
        try:
            import triton
            from baselines import triton_gemm as kernels
        except ImportError as error:
            raise Unavailable(f"triton: {error}") from error
        row, variants = self.row, {}
        if row.group == "fp8-f32":
            raise Unavailable("this kernel sums fp8 as tensor cores do")
        for tile in kernels.tiles(row.m, row.n, self.a.element_size()):
            if row.m > 64 or row.dtype.startswith("float8") or tile.m == 64:
                variants[repr(tile)] = kernels.bind_tile(
                    tile, row.m, row.n, row.k, b_rows=row.b_rows, alpha=row.alpha, beta=row.beta,
                    half=row.accumulator == "f16", multiprocessors=self.device.multiprocessors)  # fmt: skip
        if row.m <= 64 and row.b_rows and not row.dtype.startswith("float8"):
            for split in kernels.splits(row.m, row.n, row.k):
                variants[repr(split)] = kernels.bind_split(split, row.m, row.n, row.k, self.torch)
        kept = self.kept("triton", triton.__version__)
        needed = [variants[kept]] if kept in variants else variants.values()
        kernels.compile_ahead(needed, self.a[0], self.b[0], self.out[0] if self.c is None else self.c[0], self.out[0])
        return self.best("triton", triton.__version__, {name: lambda of=of: of for name, of in variants.items()})

    def _quack(self) -> tuple[str, Launch]:
        if self.device.name == "cpu":
            raise Unavailable("quack is for GPUs")
        row = self.row
        if row.accumulator == "f16":
            raise Unavailable("quack has no float16 accumulator")
        if row not in select([row], self.options.quack_rows):
            raise Unavailable("left out of --quack-rows, since each of its configurations takes seconds to compile")
        try:
            from baselines import quack_gemm
        except ImportError as error:
            raise Unavailable(f"quack: {error}") from error
        from importlib.metadata import version

        variants = {str(each): lambda each=each: quack_gemm.bind(each, b_rows=row.b_rows, alpha=row.alpha,
                                                                 beta=row.beta)
                    for each in quack_gemm.configs(row.m)}  # fmt: skip
        return self.best("quack", version("quack-kernels"), variants)

    def _ceiling(self) -> tuple[str, Launch]:
        """Reads the weights and computes nothing."""
        if self.device.name == "cpu":
            raise Unavailable("the ceiling is measured on GPUs")
        import numpy as np
        from baselines import cuda_kernels

        vectors = self.b[0].numel() * self.b.element_size() // 16
        variants = {}
        for unroll, threads, resident, hint in ((1, 512, 0, 0), (2, 256, 0, 0), (4, 128, 0, 0), (4, 256, 0, 0),
                                                (4, 512, 0, 0), (8, 256, 0, 0), (4, 256, 0, 1), (8, 128, 0, 1),
                                                (4, 256, 8, 0), (8, 256, 4, 0), (4, 512, 4, 1)):  # fmt: skip
            name = f"{unroll} loads × {threads} threads, {resident or 'one pass'}{', streaming' if hint else ''}"

            def make(
                unroll: int = unroll, threads: int = threads, resident: int = resident, hint: int = hint
            ) -> Launch:
                defines = {"UNROLL": unroll, "THREADS": threads, "HINT": hint}
                kernel = cuda_kernels.load("read.cu", "read", tuple(sorted(defines.items())))
                grid = -(-vectors // (unroll * threads))
                grid = min(grid, resident * self.device.multiprocessors) if resident else grid
                bound = kernel[(grid,), (threads,)]
                return lambda _, b, __, out: bound(b, out, np.int64(vectors), np.uint32(0xDEADBEEF))

            variants[name] = make
        allowed, self.allowed = self.allowed, None  # it computes nothing that could be checked
        try:
            return self.best("ceiling", "read", variants)
        finally:
            self.allowed = allowed

    # -- measuring --------------------------------------------------------------------------

    def build(self, name: str, make: Callable[[], tuple[str, Launch]]) -> dict[str, Any]:
        found: dict[str, Any] = {"peer": name, "status": "ok", "note": "", "error": ""}
        try:
            found["note"], function = make()
            if name != "ceiling":
                found["error"] = error = self.error(function)
                if name == "torch":
                    self.allowed = measure.allowed_error(error, self.row.out_dtype)
                if self.allowed is not None and not error <= self.allowed:
                    found.update(status="wrong", note=f"error {error:.2e}, allowed {self.allowed:.2e}")
                    return found
            self.launch(function, 0)
            found["replay"] = self.replay(function, self.plan.launches)
            found["burst"] = self.device.burst(found["replay"], self.plan.launches, self.plan.replays, self.settle)
        except Unavailable as error:
            found.update(status="unavailable", note=str(error))
        except Exception as error:  # any exception is this peer's result; the others go on
            found.update(measure.failed(error))
            self.device.synchronize()  # raises if the device is lost
        return found

    def energy(self, replay: Callable[[], None], meter: Meter, us: float) -> dict[str, float]:
        """Joules of one launch, power and clock, from running alone for a while."""
        seconds = self.options.energy
        if meter.joules() is None or not seconds or self.device.name == "cpu":
            return {}
        count = max(1, math.ceil(seconds * 1e6 / (us * self.plan.launches)))
        start, finished = time.perf_counter(), self.torch.cuda.Event()
        for _ in range(count):
            replay()
        finished.record()
        watts = meter.watts(lambda: not finished.query())
        clock = meter.sm_mhz()
        self.device.synchronize()
        spent = time.perf_counter() - start
        if watts is None:
            return {}
        return {"joules": watts * spent / (count * self.plan.launches), "watts": watts, "sm_mhz": clock or 0}

    def run(self, meter: Meter) -> dict[str, dict[str, Any]]:
        found = {name: self.build(name, make) for name, make in self.peers().items()}
        ready = {name: peer for name, peer in found.items() if peer["status"] == "ok"}
        times = measure.race({name: peer["burst"] for name, peer in ready.items()}, self.plan.rounds)
        for name, peer in ready.items():
            peer["times"] = times[name]
            if name != "ceiling":
                peer["energy"] = self.energy(peer["replay"], meter, quantile(sorted(times[name]), 0.5))
        return found


# ---- rows of the file ------------------------------------------------------------------------------------------------
COLUMNS = (
    "family", "kernel", "size", "dtype", "provider", "status", "median_us", "p25_us", "p75_us", "min_us", "max_us",
    "tb_per_s", "tflops", "over_best_peer", "of_ceiling", "joules", "watts", "sm_mhz", "error", "allowed_error",
    "rounds", "sets", "bytes", "note", "gpu", "driver", "cuda", "kiln", "torch", "triton", "quack", "commit", "date",
    "method",
)  # fmt: skip


def lines(row: Row, found: Mapping[str, dict[str, Any]], about: Mapping[str, Any], sets: int,
          allowed: float | None) -> Iterator[dict[str, Any]]:  # fmt: skip
    """The row's lines of the CSV, one per peer."""
    median = {name: summarize(peer["times"]).median for name, peer in found.items() if "times" in peer}
    rivals = [us for name, us in median.items() if name not in NOT_PEERS]
    for name, peer in found.items():
        line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
        line |= {"family": "gemm", "kernel": row.name, "size": f"{row.m}×{row.n}×{row.k}", "dtype": row.dtype,
                 "provider": name, "status": peer["status"], "note": peer["note"], "sets": sets, "bytes": row.bytes,
                 "allowed_error": f"{allowed:.2e}" if allowed else ""}  # fmt: skip
        line |= {key: about[key] for key in COLUMNS if key in about}
        if peer["error"] != "":
            line["error"] = f"{peer['error']:.2e}"
        if name in median:
            times = summarize(peer["times"])
            line |= measure.columns(times)
            line |= {"tb_per_s": f"{row.bytes / times.median / 1e6:.3f}",
                     "tflops": "" if name == "ceiling" else f"{row.flops / times.median / 1e6:.1f}"}  # fmt: skip
            if name.startswith("kiln") and rivals:
                line["over_best_peer"] = f"{min(rivals) / times.median:.3f}"
            if name != "ceiling" and "ceiling" in median:
                line["of_ceiling"] = f"{median['ceiling'] / times.median:.3f}"
            for key, value in peer.get("energy", {}).items():
                line[key] = f"{value:.4g}"
        yield line


def told(row: Row, found: Iterable[Mapping[str, Any]]) -> str:
    """A row's line of output while the suite runs."""
    parts = []
    for line in found:
        if line["status"] == "ok":
            speed = f"{line['tb_per_s']} TB/s" if row.of_memory else f"{line['tflops']} TF"
            parts.append(f"{line['provider']} {float(line['median_us']):.1f} µs ({speed})")
        elif line["status"] != "unavailable":
            parts.append(f"{line['provider']} {line['status']}: {line['note']}")
    ratio = next((line["over_best_peer"] for line in found if line["provider"] == "kiln"), "")
    return f"{row.name}: {', '.join(parts)}{f' — {ratio}×' if ratio else ''}"


# ---- the report ------------------------------------------------------------------------------------------------------
def report(paths: Sequence[str]) -> list[str]:
    """What recorded rows say, as lines of text; if several files have a row, the last counts."""
    groups = {row.name: row for row in rows()}
    found: dict[str, dict[str, dict[str, str]]] = {}
    for path in paths:
        with open(path, newline="", encoding="utf-8") as file:
            fresh: dict[str, dict[str, dict[str, str]]] = {}
            for line in csv.DictReader(file):
                if line["family"] == "gemm":
                    fresh.setdefault(line["kernel"], {})[line["provider"]] = line
            found |= fresh
    text = measure.mixed(line["method"] for peers in found.values() for line in peers.values())
    for group, (mean, least) in ASKED.items():
        of_group = {name: peers for name, peers in found.items() if name in groups and groups[name].group == group}
        for variant in ("kiln", "kiln+pdl", "kiln-tuned", "kiln-cut"):
            ratios = {name: float(peers[variant]["over_best_peer"]) for name, peers in of_group.items()
                      if variant in peers and peers[variant]["over_best_peer"]}  # fmt: skip
            if ratios:
                worst = min(ratios, key=ratios.__getitem__)
                text.append(f"{group} {variant}: {len(ratios)} rows, geometric mean "
                            f"{geometric_mean(ratios.values()):.3f} (asked {mean}), "
                            f"least {ratios[worst]:.3f} (asked {least}): {worst}")  # fmt: skip
        wrong = [f"{name} {peer}" for name, peers in of_group.items() for peer, line in peers.items()
                 if line["status"] in ("wrong", "failed")]  # fmt: skip
        if wrong:
            text.append(f"{group}: wrong or failed: {', '.join(wrong)}")
    for layer, asked in OF_CEILING.items():
        shares = [float(peers[variant]["of_ceiling"]) for name, peers in found.items() for variant in ("kiln",)
                  if name in groups and groups[name].group == "decode" and groups[name].layer == layer
                  and groups[name].m <= 16 and variant in peers and peers[variant]["of_ceiling"]]  # fmt: skip
        if shares:
            text.append(f"{layer}, M ≤ 16: {min(shares):.3f} to {max(shares):.3f} of the read ceiling (asked {asked})")
    both = [(float(peers["kiln"]["median_us"]), float(peers["kiln-tuned"]["median_us"])) for peers in found.values()
            if all(peers.get(name, {}).get("status") == "ok" for name in ("kiln", "kiln-tuned"))]  # fmt: skip
    if both:
        text.append(f"default over tuned plan: {geometric_mean(t / d for d, t in both):.3f} over {len(both)} rows "
                    "(asked 0.95)")  # fmt: skip
    both = [(float(peers["kiln"]["median_us"]), float(peers["kiln-cut"]["median_us"])) for peers in found.values()
            if all(peers.get(name, {}).get("status") == "ok" for name in ("kiln", "kiln-cut"))]  # fmt: skip
    if both:
        text.append(f"default over cut tiles: {geometric_mean(t / d for d, t in both):.3f} over {len(both)} rows; "
                    f"these are faster in {sum(t < d for d, t in both)}")  # fmt: skip
    spent = [(float(peers["kiln"]["joules"]), min(float(p["joules"]) for n, p in peers.items()
             if n not in NOT_PEERS and p["joules"])) for peers in found.values()
             if peers.get("kiln", {}).get("joules") and any(p["joules"] for n, p in peers.items() if n not in NOT_PEERS)
             ]  # fmt: skip
    if spent:
        text.append(f"joules of an operation over the thriftiest peer's: {geometric_mean(k / p for k, p in spent):.3f} "
                    f"over {len(spent)} rows")  # fmt: skip
    return text


def model(every: Iterable[Row]) -> Iterator[str]:
    """The default plans, and what the model predicts for them."""
    from kiln.kernels.gemm import configs
    from kiln.kernels.machine import DEFAULT_GPU

    for row in every:
        problem = configs.Problem(row.m, row.n, row.k, dtype=row.dtype, **about(row))
        if configs.is_streamed(problem, configs.engine(problem, DEFAULT_GPU)):
            yield f"{row.name:34} {configs.plan(problem, DEFAULT_GPU)}"
            continue
        found = configs.ranked(problem, DEFAULT_GPU)[0]
        us = configs.microseconds(found, problem, DEFAULT_GPU)
        yield f"{row.name:34} {us:8.1f} µs {row.flops / us / 1e6:6.0f} TFLOPS  {found}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument(
        "--rows", default="", help='only rows whose name or group has these words; ";" separates alternatives'
    )
    parser.add_argument("--peers", default=",".join(PEERS), help=f"some of {','.join(PEERS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=9, help="bursts of each peer (default: 9)")
    parser.add_argument("--burst", type=float, help="µs per burst (default: 25000, or 4000 for memory-bound rows)")
    parser.add_argument("--energy", type=float, default=0.5, help="seconds for a peer's joules (default: 0.5)")
    parser.add_argument("--tune", action="store_true", help="time Kiln's candidates too")
    parser.add_argument(
        "--tuned", type=pathlib.Path, default=TUNED, help="file of the winning plans (default: %(default)s)"
    )
    parser.add_argument(
        "--quack-rows",
        default=QUACK_ROWS,
        help='as --rows, for tuning quack (default: four representative rows; "": all, half a minute each)',
    )
    parser.add_argument("--csv", help="append rows to this file; skip rows that it already has")
    parser.add_argument("--limit", type=float, default=math.inf, help="start no row after this many seconds")
    parser.add_argument("--dtype", choices=("float16", "bfloat16"), default="float16")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda", help="cpu: try the suite without a GPU")
    parser.add_argument("--shrink", type=int, default=1, help="divide every side, to try the suite")
    parser.add_argument("--list", action="store_true", help="show the rows, run nothing")
    parser.add_argument("--model", action="store_true", help="show the default plans, run nothing")
    parser.add_argument("--report", nargs="+", metavar="CSV", help="summarise recorded rows")
    options = parser.parse_args(arguments)
    chosen = select(rows(options.dtype, options.shrink), options.rows)
    options.peers = options.peers.split(",")
    if unknown := [name for name in options.peers if name not in PEERS]:
        parser.error(f"unknown {', '.join(unknown)} (peers: {', '.join(PEERS)})")
    if not chosen:
        parser.error(f"no row has the words {options.rows!r}")
    if options.report:
        print("\n".join(report(options.report)))
        return 0
    if options.list or options.model:
        for text in model(chosen) if options.model else (f"{row.group:8} {row.name}" for row in chosen):
            print(text)
        return 0
    return _measure(options, chosen)


def _measure(options: argparse.Namespace, chosen: Sequence[Row]) -> int:
    from device import environment, make_device

    method = measure.method_of("gemm")
    done = {(line["kernel"], line["dtype"]) for line in measure.kept(options.csv, COLUMNS, method)}
    device, tuned, meter, start = make_device(options.device), Tuned(options.tuned), Meter(), time.monotonic()
    about = environment(device) | {"method": method}
    broken, left = 0, []
    for row in chosen:
        if (row.name, row.dtype) in done:
            continue
        if time.monotonic() - start > options.limit:
            left.append(row.name)
            continue
        bench = Bench(row, device, tuned, options)
        found = bench.run(meter)
        table = list(lines(row, found, about, bench.plan.sets, bench.allowed))
        print(told(row, table), flush=True)
        broken += any(peer["status"] in ("wrong", "failed") for name, peer in found.items() if name.startswith("kiln"))
        if options.csv:
            measure.append(options.csv, COLUMNS, table)
        del bench, found
        gc.collect()
        if device.name == "cuda":
            device.torch.cuda.empty_cache()
    if left:
        print(f"{len(left)} rows left after {options.limit:.0f} s: {left[0]} …", file=sys.stderr)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
