"""Products by a pointer-based kernel, unchanged and with descriptors derived from its pointers: `python
bench/pointers.py`.

    python bench/pointers.py --csv pointers.csv                     all rows, appended to a file
    python bench/pointers.py --rows "columns 4096"                  rows whose name has these words
    python bench/pointers.py --compile sm_90a                       registers and remarks of each peer; no GPU

One kernel, Triton's matrix product tutorial without its assumptions about the grid, in three variants: `pointers`
unchanged, `described` with the launch option `describe_pointers`, and `descriptors`, the same kernel written with
tensor descriptors, which `described` should match. Fp16, f32 sums, tiles of 128x256x64, two groups of four warps.
Method: see measure.py (graph replay, bursts of 25 ms in balanced order, each after 100 ms untimed, median). A peer is
checked against float64 in 256 rows before it is timed.

`describe_pointers` stays the default for kernels that multiply as long as `described` is nowhere slower than
`pointers`, and within 1 % of `descriptors`.
"""

from __future__ import annotations

import itertools
import json
import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import beside  # noqa: E402
import kiln  # noqa: E402
import kiln.language as kl  # noqa: E402
import measure  # noqa: E402
from measure import summarize  # noqa: E402

PEERS = ("pointers", "described", "descriptors")
CHECKED = 256
TILE = {"BM": 128, "BN": 256, "BK": 64, "GROUP": 8}
COLUMNS = (
    "family", "kernel", "size", "dtype", "provider", "status", "median_us", "p25_us", "p75_us", "min_us", "max_us",
    "tflops", "error", "rounds", "note", "gpu", "driver", "cuda", "kiln", "torch", "commit", "date", "method",
)  # fmt: skip


@kiln.jit
def by_pointers(a_ptr, b_ptr, c_ptr, M, N, K, stride_am, stride_ak, stride_bk, stride_bn, stride_cm, stride_cn,
                BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr, GROUP: kl.constexpr):  # fmt: skip
    """Rows and columns wrap around, and are masked at the end."""
    pid = kl.program_id(axis=0)
    num_pid_m = kl.cdiv(M, BM)
    num_pid_n = kl.cdiv(N, BN)
    num_pid_in_group = GROUP * num_pid_n
    group_id = pid // num_pid_in_group
    first_pid_m = group_id * GROUP
    group_size_m = min(num_pid_m - first_pid_m, GROUP)
    pid_m = first_pid_m + ((pid % num_pid_in_group) % group_size_m)
    pid_n = (pid % num_pid_in_group) // group_size_m
    offs_am = (pid_m * BM + kl.arange(0, BM)) % M
    offs_bn = (pid_n * BN + kl.arange(0, BN)) % N
    offs_k = kl.arange(0, BK)
    a_ptrs = a_ptr + (offs_am[:, None] * stride_am + offs_k[None, :] * stride_ak)
    b_ptrs = b_ptr + (offs_k[:, None] * stride_bk + offs_bn[None, :] * stride_bn)
    accumulator = kl.zeros((BM, BN), dtype=kl.float32)
    for k in range(0, kl.cdiv(K, BK)):
        a = kl.load(a_ptrs, mask=offs_k[None, :] < K - k * BK, other=0.0)
        b = kl.load(b_ptrs, mask=offs_k[:, None] < K - k * BK, other=0.0)
        accumulator = kl.dot(a, b, accumulator)
        a_ptrs += BK * stride_ak
        b_ptrs += BK * stride_bk
    c = accumulator.to(c_ptr.dtype.element_ty)
    offs_cm = pid_m * BM + kl.arange(0, BM)
    offs_cn = pid_n * BN + kl.arange(0, BN)
    c_ptrs = c_ptr + stride_cm * offs_cm[:, None] + stride_cn * offs_cn[None, :]
    c_mask = (offs_cm[:, None] < M) & (offs_cn[None, :] < N)
    kl.store(c_ptrs, c, mask=c_mask)


@kiln.jit
def by_descriptors(a_ptr, b_ptr, c_ptr, M, N, K, stride_a, stride_b, stride_c, COLUMNS: kl.constexpr,
                   BM: kl.constexpr, BN: kl.constexpr, BK: kl.constexpr, GROUP: kl.constexpr):  # fmt: skip
    """The same product with descriptors; COLUMNS: b is stored column by column."""
    a = kl.make_tensor_descriptor(a_ptr, [M, K], [stride_a, 1], [BM, BK])
    if COLUMNS:
        b = kl.make_tensor_descriptor(b_ptr, [N, K], [stride_b, 1], [BN, BK])
    else:
        b = kl.make_tensor_descriptor(b_ptr, [K, N], [stride_b, 1], [BK, BN])
    c = kl.make_tensor_descriptor(c_ptr, [M, N], [stride_c, 1], [BM, BN])
    pid = kl.program_id(axis=0)
    num_pid_in_group = GROUP * kl.cdiv(N, BN)
    first_pid_m = pid // num_pid_in_group * GROUP
    group_size_m = min(kl.cdiv(M, BM) - first_pid_m, GROUP)
    row = (first_pid_m + ((pid % num_pid_in_group) % group_size_m)) * BM
    column = (pid % num_pid_in_group) // group_size_m * BN
    total = kl.zeros((BM, BN), dtype=kl.float32)
    for k in range(0, kl.cdiv(K, BK)):
        right = b.load([column, k * BK]).T if COLUMNS else b.load([k * BK, column])
        total = kl.dot(a.load([row, k * BK]), right, total)
    c.store([row, column], total.to(c_ptr.dtype.element_ty))


@dataclass(frozen=True)
class Row:
    m: int
    n: int
    k: int
    columns: bool

    @property
    def name(self) -> str:
        return f"product {'columns' if self.columns else 'rows'} {self.m}x{self.n}x{self.k}"

    @property
    def flops(self) -> float:
        return 2.0 * self.m * self.n * self.k


def rows() -> list[Row]:
    """Squares, a linear layer, and sides that no tile divides."""
    sides = ((4096, 4096, 4096), (8192, 8192, 8192), (1024, 28672, 4096), (4000, 4104, 4024))
    return [Row(*parts, columns) for columns, parts in itertools.product((False, True), sides)]


class Bench:
    def __init__(self, row: Row, device: Any):
        import torch

        self.row, self.device, self.torch = row, device, torch
        generator = torch.Generator("cuda").manual_seed(0)

        def random(*shape: int) -> Any:
            return torch.randn(shape, device="cuda", dtype=torch.float16, generator=generator)

        self.a = random(row.m, row.k)
        self.b = random(row.n, row.k).T if row.columns else random(row.k, row.n)
        self.exact = self.a[-CHECKED:].double() @ self.b.double()

    def error(self, out: Any) -> float:
        error = float((out[-CHECKED:].double() - self.exact).norm() / self.exact.norm())
        return math.inf if math.isnan(error) else error

    def launch(self, peer: str) -> tuple[Callable[[], None], Any]:
        a, b, row = self.a, self.b, self.row
        c = self.torch.full((row.m, row.n), math.nan, device="cuda", dtype=self.torch.float16)
        grid = (math.ceil(row.m / TILE["BM"]) * math.ceil(row.n / TILE["BN"]),)
        if peer == "descriptors":
            stride = b.stride(1) if row.columns else b.stride(0)

            def run() -> None:
                by_descriptors[grid](a, b, c, row.m, row.n, row.k, a.stride(0), stride, c.stride(0), row.columns,
                                     **TILE, num_warps=8)  # fmt: skip
        else:

            def run() -> None:
                by_pointers[grid](a, b, c, row.m, row.n, row.k, *a.stride(), *b.stride(), *c.stride(), **TILE,
                                  num_warps=8, describe_pointers=peer == "described")  # fmt: skip

        return run, c

    def run(self, peers: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name in peers:
            peer: dict[str, Any] = {"status": "ok", "note": "", "error": ""}
            found[name] = peer
            try:
                launch, out = self.launch(name)
                launch()
                self.device.synchronize()
                peer["error"] = error = self.error(out)
                if not error <= 2 * measure.ROUNDOFF["float16"]:
                    peer.update(status="wrong", note=f"error {error:.2e}")
                    continue
                peer["burst"] = measure.graph_burst(self.device, launch, self.row.flops / 5e8)
            except Exception as error:  # any exception is this peer's result; the others go on
                peer.update(measure.failed(error))
        measure.race_ready(found, rounds)
        return found


def lines(row: Row, found: dict[str, dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
    """The row's lines of the CSV, one per peer."""
    table = []
    for name, peer in found.items():
        line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
        line |= {"family": "pointers", "kernel": row.name, "size": f"{row.m}×{row.n}×{row.k}", "dtype": "float16",
                 "provider": name, "status": peer["status"], "note": peer["note"]}  # fmt: skip
        line |= {key: about[key] for key in COLUMNS if key in about}
        if peer["error"] != "":
            line["error"] = f"{peer['error']:.2e}"
        if "times" in peer:
            times = summarize(peer["times"])
            line |= measure.columns(times) | {"tflops": f"{row.flops / times.median / 1e6:.1f}"}
        table.append(line)
    return table


def compiled(row: Row, peer: str, target: str) -> Any:
    """The peer's code for a row, without a GPU."""
    from kiln import compiler, frontend
    from kiln.cli.signature import parse_signature

    known = {name: f"{name}=i32{':16' if value % 16 == 0 else ''}" for name, value in
             (("M", row.m), ("N", row.n), ("K", row.k))}  # fmt: skip
    inner = row.k if row.columns else row.n
    strides = [row.k, inner, row.n]
    arrays = "a_ptr=*fp16:16, b_ptr=*fp16:16, c_ptr=*fp16:16, " + ", ".join(known.values())
    spelled = [f"i32:{max(d for d in (1, 4, 8, 16) if stride % d == 0)}" for stride in strides]
    tile = ", ".join(f"{name}={value}" for name, value in TILE.items())
    if peer == "descriptors":
        kernel = by_descriptors
        numbers = "stride_a={}, stride_b={}, stride_c={}".format(*spelled) + f", COLUMNS={row.columns}"
    else:
        kernel = by_pointers
        order = ("1", spelled[1]) if row.columns else (spelled[1], "1")
        numbers = f"stride_am={spelled[0]}, stride_ak=1, stride_bk={order[0]}, stride_bn={order[1]}, " \
            f"stride_cm={spelled[2]}, stride_cn=1"  # fmt: skip
    module = frontend.emit(kernel, parse_signature(f"{arrays}, {numbers}, {tile}", kernel), kernel.__name__,
                           disjoint=[True] * 3)  # fmt: skip
    options = {"target": target, "num_warps": 8, "describe_pointers": peer == "described"}
    return compiler.compile(module, options)


def told_of_code(row: Row, peer: str, target: str) -> str:
    artifact = compiled(row, peer, target)
    cuda = json.loads(artifact.metadata)["cuda"]
    usage = cuda.get("usage") or {}
    notes = [d["message"] for d in artifact.diagnostics if d["severity"] == "remark"]
    roles, maps = "roles" if cuda.get("roles") else "no roles", len(cuda.get("tensor_maps", []))
    registers, spilt = usage.get("registers", "?"), usage.get("spill_stores", "?")
    code = f"{roles}, {maps} maps, {registers} registers, {spilt} bytes spilt"
    return f"{row.name}: {peer}: {code}; {'; '.join(notes)}"


def told(row: Row, table: Sequence[dict[str, Any]]) -> str:
    parts = [f"{line['provider']} {line['tflops'] or line['status'] + ': ' + line['note']}" for line in table]
    return f"{row.name}: {', '.join(parts)} TFLOPS"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = beside.make_parser(__doc__, PEERS)
    parser.add_argument("--compile", metavar="TARGET", help="show what each peer compiles to; run nothing")
    options = parser.parse_args(arguments)
    chosen, peers = beside.choose(parser, options, rows(), PEERS)
    if options.compile:
        for row, peer in itertools.product(chosen, peers):
            print(told_of_code(row, peer, options.compile), flush=True)
        return 0
    return beside.race_rows(chosen, peers, options, "pointers", COLUMNS, Bench, lines, told, lambda name: True)


if __name__ == "__main__":
    sys.exit(main())
