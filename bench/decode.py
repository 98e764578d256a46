"""Decoding over a cache on a GPU, beside cuDNN, FlashAttention-2 and FlashInfer: `python bench/decode.py`.

    python bench/decode.py --csv decode.csv --limit 150      as many rows as fit the time, those not in the file
    python bench/decode.py --rows "B=8 4096"                 rows whose name or group has these words
    python bench/decode.py --peers kiln,kiln-tuned --tune --csv tuned.csv
    python bench/decode.py --report decode.csv tuned.csv     what recorded rows say about the requirements

One query per sequence, 32 heads over 8 heads of 128 (`grouped`) and 8 over 8 (`mha`), fp16, random normal data. Kiln's
cache is contiguous, paged (pages of 16 in no order) or quantised, FlashInfer's contiguous (pages of 16 in order) or
paged like ours, torch's contiguous (`math`, which multiplies in float32, and `efficient` only where heads are equal in
number). A peer that is not installed is `unavailable`. A launch of `kiln-late` waits for the one before it to end.
`kiln-tuned`, with `--tune`, is the fastest plan of
kiln.kernels.attention.decode_configs.candidates for the contiguous cache; winners are kept in the file given by
`--tuned`.

Method: measure.py's (graph replay, all arrays rotated past the L2, peers in balanced order, median; `warm_us` repeats
one set). Each peer is checked against float64, all sequences of the first and the last set, before it is timed and once
in its graph: Kiln's error may be 1.5 times that of the best peer that multiplies in 16 bits, a peer's twice. Quantised
caches are checked against their decoded values, the last sequence of the first set, and have no peer: 2e-3.
"""

from __future__ import annotations

import functools
import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import beside  # noqa: E402
import measure  # noqa: E402
from beside import COLUMNS, SDPA, Lines, Peer  # noqa: E402
from gemm import Tuned  # noqa: E402

GROUPED_PEERS = (
    "kiln", "kiln-late", "kiln-paged", "kiln-int8", "kiln-int4", "kiln-tuned", "cudnn", "flash", "flashinfer",
    "flashinfer-paged",
)  # fmt: skip
PEERS = tuple(dict.fromkeys(GROUPED_PEERS + SDPA))
OURS = tuple(name for name in PEERS if name.startswith("kiln"))
QUANTIZED = ("kiln-int8", "kiln-int4")
GATE = beside.Gate(tuple(name for name in PEERS if name not in (*OURS, "math")), OURS, QUANTIZED)
PAGE = 16
SIZE = 128
TUNED = HERE / "results" / "decode_tuned.json"
MOST_US = 7.3  # of one sequence of 4096 tokens
LONG = 1 << 18  # cached tokens of all sequences from which quantised caches must be much faster


@dataclass(frozen=True)
class Row:
    batch: int
    tokens: int
    heads: int = 32
    k_heads: int = 8

    @property
    def name(self) -> str:
        return f"decode B={self.batch} {self.tokens} {self.heads}/{self.k_heads}"

    @property
    def group(self) -> str:
        return "mha" if self.heads == self.k_heads else "grouped"

    @property
    def size_text(self) -> str:
        return f"{self.batch}×{self.tokens}×{self.k_heads}×{SIZE}"

    @property
    def peers(self) -> tuple[str, ...]:
        return PEERS if self.group == "mha" else GROUPED_PEERS

    def bytes(self, bits: int = 16) -> int:
        """Bytes of the cache, which is read once."""
        beside = {16: 0, 8: 4, 4: 10}[bits]
        return self.batch * self.tokens * self.k_heads * (2 * SIZE * bits // 8 + beside)

    def bytes_of(self, peer: str) -> int:
        return self.bytes(int(peer[-1]) if peer in QUANTIZED else 16)

    def flops_of(self, peer: str) -> float:
        return 0.0  # memory decides


def rows(shrink: int = 1) -> list[Row]:
    """``shrink`` divides tokens, to try the suite without a GPU."""
    grouped = [Row(b, t) for b in (1, 8, 64) for t in (512, 4096, 32768) if b * t <= 1 << 18]
    found = grouped + [Row(1, t, 8, 8) for t in (512, 1024, 2048)]
    return found if shrink == 1 else [replace(row, tokens=max(PAGE, row.tokens // shrink)) for row in found]


class Bench(beside.SdpaBench):
    """The caches of a row: enough of them to exceed the L2."""

    gate = GATE
    burst_us, settle_us = 4000.0, 0.0

    def __init__(self, row: Row, device: Any, winners: Tuned, rounds: int = 9):
        self.row, self.device, self.torch, self.winners = row, device, device.torch, winners
        torch, on = self.torch, device.device
        self.burst_us = device.burst_us
        self.plan = measure.plan(row.bytes(), row.bytes(), device.l2_bytes, rounds, device.graph_us, device.burst_us)
        generator = torch.Generator(on)
        generator.manual_seed(0)

        def normal(*shape: int) -> Any:
            return torch.randn(shape, device=on, dtype=torch.float16, generator=generator)

        self.q = [normal(row.batch, row.heads, SIZE) for _ in range(self.plan.sets)]
        shape = row.batch, row.tokens, row.k_heads, SIZE
        self.caches = [(normal(*shape), normal(*shape)) for _ in range(self.plan.sets)]
        self.out = [torch.full_like(q, math.nan) for q in self.q]
        self.lengths = torch.full((row.batch,), row.tokens, device=on, dtype=torch.int32)
        self._exact: dict[int, Any] = {}

    # -- exact results, in float64 -------------------------------------------------------------------------------------
    def one(self, q: Any, k: Any, v: Any) -> Any:
        """Of a sequence: q (heads, size), k and v (tokens, heads of keys, size)."""
        torch = self.torch
        q = q.double().view(self.row.k_heads, -1, SIZE)
        k, v = k.double().transpose(0, 1), v.double().transpose(0, 1)
        return (torch.softmax(q @ k.transpose(1, 2) / math.sqrt(SIZE), 2) @ v).flatten(0, 1)

    def exact(self, i: int) -> Any:
        """(batch, heads, size)."""
        if i not in self._exact:
            k, v = self.caches[i]
            self._exact[i] = self.torch.stack([self.one(self.q[i][b], k[b], v[b]) for b in range(self.row.batch)])
        return self._exact[i]

    def error(self, out: Any, i: int, exact: Any) -> float:
        """``exact``: the result of the last sequence of the first set, or "row"."""
        if not isinstance(exact, str):
            if i > 0:  # decoding every set's cache on the host would take seconds
                return 0.0 if bool(out.isfinite().all()) else math.inf
            out, want = out[-1], exact
        else:
            want = self.exact(i)
        return float((out.double() - want).norm() / want.norm())

    def poison(self, i: int) -> None:
        self.out[i].fill_(math.nan)

    # -- peers ---------------------------------------------------------------------------------------------------------
    def own(self, launch: Callable[[int], None], exact: Any = "row") -> Peer:
        return Peer(launch, lambda i: self.out[i], "", exact)

    def kiln(self, plan: Any = None) -> Peer:
        from kiln.kernels.attention import decode_attention

        def launch(i: int) -> None:
            decode_attention(self.q[i], *self.caches[i], self.lengths, plan=plan, out=self.out[i])

        return self.own(launch)

    def kiln_late(self) -> Peer:
        from kiln.kernels.machine import launch_options

        peer = self.kiln()

        def launch(i: int) -> None:
            with launch_options(pdl=False):
                peer.launch(i)

        return peer._replace(launch=launch)

    def kiln_tuned(self) -> Peer:
        import kiln
        from kiln.kernels.attention import decode_configs
        from kiln.kernels.machine import machine_of

        row = self.row
        group = row.heads // row.k_heads
        found = decode_configs.candidates(row.batch, row.k_heads, group, 1, SIZE, 2, row.tokens, machine_of(self.q[0]))
        variants = {repr(each): lambda each=each: self.kiln(each) for each in found}
        return self.tuned(f"{row.name} float16 | kiln-tuned {kiln.__version__}", self.winners, variants)

    @functools.cached_property
    def pages(self) -> tuple[list[Any], Any]:
        """The caches as pages in random order, and their table."""
        torch, row, on = self.torch, self.row, self.device.device
        pages = row.tokens // PAGE
        table = torch.randperm(row.batch * pages, device=on).view(row.batch, pages)
        shape = row.batch * pages, PAGE, row.k_heads, SIZE
        order = table.flatten().argsort()
        caches = [tuple(x.view(shape)[order].contiguous() for x in pair) for pair in self.caches]
        return caches, table.to(torch.int32)

    def kiln_paged(self) -> Peer:
        from kiln.kernels.attention import decode_attention

        caches, table = self.pages

        def launch(i: int) -> None:
            decode_attention(self.q[i], *caches[i], self.lengths, block_table=table, out=self.out[i])

        return self.own(launch)

    def _flashinfer(self, caches: Any, table: Any, page: int) -> Peer:
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper

        torch, row, on = self.torch, self.row, self.device.device
        workspace = torch.zeros(128 << 20, dtype=torch.uint8, device=on)
        # Its documentation recommends tensor cores for groups of four and more.
        wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=row.heads >= 4 * row.k_heads)
        first = torch.arange(row.batch + 1, device=on, dtype=torch.int32) * table.shape[1]
        full = torch.full((row.batch,), page, device=on, dtype=torch.int32)
        types = {"q_data_type": torch.float16, "kv_data_type": torch.float16}
        wrapper.plan(first, table.flatten(), full, row.heads, row.k_heads, SIZE, page, **types)

        def launch(i: int) -> None:
            wrapper.run(self.q[i], caches[i], out=self.out[i])

        return self.own(launch)

    def flashinfer(self) -> Peer:
        row, pages = self.row, self.row.batch * self.row.tokens // PAGE
        shape = pages, PAGE, row.k_heads, SIZE
        table = self.torch.arange(pages, device=self.device.device, dtype=self.torch.int32).view(row.batch, -1)
        # As pages in order: shares of a sequence are whole pages, so a single page for all tokens would not be divided.
        return self._flashinfer([tuple(x.view(shape) for x in pair) for pair in self.caches], table, PAGE)

    def flashinfer_paged(self) -> Peer:
        caches, table = self.pages
        return self._flashinfer(caches, table, PAGE)

    def _quantized(self, bits: int) -> Peer:
        from kiln.kernels.attention import append_quantized, decode_quantized, quantized_cache

        row, made = self.row, []
        for q, (k, v) in zip(self.q, self.caches, strict=True):
            cache = quantized_cache(row.batch, row.tokens, row.k_heads, SIZE, bits, q)
            recent = {"k_recent": cache.k_recent, "v_recent": cache.v_recent}
            # Keys stand in for queries: only the cache contents are wanted.
            append_quantized(k, k, v, *cache[:4], self.lengths, **recent)
            made.append((q, cache, recent))

        def launch(i: int) -> None:
            q, cache, recent = made[i]
            decode_quantized(q, *cache[:4], self.lengths, out=self.out[i], **recent)

        k, v = (x[-1] for x in self._meaning(made[0][1], bits))
        return self.own(launch, self.one(self.q[0][-1], k, v))

    def _meaning(self, cache: Any, bits: int) -> Any:
        """The last sequence's keys and values, decoded."""
        from kiln.kernels.attention import quantized_reference as reference

        last: list[Any] = [None if x is None else x[-1:].cpu().numpy() for x in cache]
        if bits == 4:
            last[2:4] = [x.view("uint16") for x in last[2:4]]
        return self.torch.from_numpy(reference.decoded_cache(*last, [self.row.tokens])).to(self.device.device)

    def kiln_int8(self) -> Peer:
        return self._quantized(8)

    def kiln_int4(self) -> Peer:
        return self._quantized(4)

    def sdpa(self, backend: str) -> Peer:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        row = self.row
        found: list[Any] = [None] * self.plan.sets
        heads_first = [tuple(x.transpose(1, 2) for x in pair) for pair in self.caches]

        def launch(i: int) -> None:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                found[i] = self.torch.nn.functional.scaled_dot_product_attention(
                    self.q[i][:, :, None], *heads_first[i], enable_gqa=row.heads != row.k_heads
                )

        return Peer(launch, lambda i: found[i][:, :, 0])


def lines(row: Row, found: dict[str, dict[str, Any]], about: dict[str, Any], sets: int = 0) -> list[dict[str, Any]]:
    """The row's lines of the CSV, one per peer."""
    return beside.lines("decode", row, found, about, sets, OURS)


def told(row: Row, table: Sequence[dict[str, Any]]) -> str:
    parts = [f"{line['provider']} {line['median_us'] or line['status'] + ': ' + line['note']}" for line in table]
    return f"{row.name}: {', '.join(parts)} µs"


# ---- the report ------------------------------------------------------------------------------------------------------
def report(paths: Sequence[str]) -> list[str]:
    """What recorded rows say about the requirements, as lines of text."""
    entries = beside.read(paths, "decode")
    every = rows()
    grouped, mha = ([row.name for row in every if row.group == group] for group in ("grouped", "mha"))
    long = [row.name for row in every if row.batch * row.tokens >= LONG]
    names = grouped + mha

    def others(peers: Lines) -> list[str]:
        return [name for name in peers if name not in OURS]

    def only(*rivals: str) -> Callable[[Lines], tuple[str, ...]]:
        return lambda peers: rivals

    text: list[str] = []

    def say(what: str, of: Sequence[str], ours: str, rivals: Any, *asked: float | None) -> None:
        found = beside.speeds([entry for entry in entries if entry[0] in of], ours, rivals)
        text.extend(beside.verdict(what, found, of, *asked))

    say("decode over the best peer", grouped, "kiln", others, 1.10)
    one = Row(1, 4096).name
    found = [us for name, peers in entries if name == one and (us := beside.median_us(peers, "kiln")) is not None]
    if found:
        state = "holds" if found[-1] <= MOST_US else "FALLS SHORT"
        text.append(f"{state:11} {one}: {found[-1]:.2f} µs (asked {MOST_US})")
    else:
        text.append(f"{'missing':11} {one}")
    say("launches that begin early over others", names, "kiln", only("kiln-late"))
    say("paged over contiguous", names, "kiln-paged", only("kiln"), None, 1 / 1.03)
    say("INT8 over f16, long caches", long, "kiln-int8", only("kiln"), None, 1.7)
    say("INT4 over f16, long caches", long, "kiln-int4", only("kiln"), None, 3.0)
    say("INT8 over f16, all", names, "kiln-int8", only("kiln"), None, 1.0)
    say("INT4 over f16, all", names, "kiln-int4", only("kiln"), None, 1.0)
    say("8 heads over the best of torch's SDPA", mha, "kiln", only(*SDPA), None, 1.2)
    say("8 heads over the best peer", mha, "kiln", others)
    say("default over tuned plans", names, "kiln", only("kiln-tuned"), None, 0.95)
    return [*beside.origins(entries), *text, *beside.errors(entries, GATE)]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = beside.make_parser(__doc__, PEERS)
    beside.add_tuning(parser, TUNED)
    options = parser.parse_args(arguments)
    if options.report:
        print("\n".join(report(options.report)))
        return 0
    chosen, peers = beside.choose(parser, options, rows(options.shrink), PEERS)
    if options.list:
        print("\n".join(f"{row.group:8} {row.name}" for row in chosen))
        return 0
    winners = Tuned(options.tuned)
    return beside.race_rows(
        chosen, peers, options, "decode", COLUMNS,
        lambda row, device: Bench(row, device, winners, options.rounds), lines, told, lambda name: name in OURS,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
