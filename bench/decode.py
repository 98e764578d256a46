"""Decoding over a cache on a GPU, beside cuDNN, FlashAttention-2 and FlashInfer: `python bench/decode.py`.

    python bench/decode.py --csv decode.csv                  all rows, appended to a file
    python bench/decode.py --rows "B=8 4096"                 rows whose name has these words

One query per sequence, 32 heads over 8 heads of 128 (and 8 over 8), fp16, random normal data. Kiln's cache is
contiguous, paged (pages of 16 in no order) or quantised, FlashInfer's contiguous (pages of 16 in order) or paged
like ours, cuDNN's and FlashAttention's contiguous. If FlashInfer is not installed, its lines say so. Method:
measure.py's (graph replay, all arrays rotated past the L2, peers in turn, order reversed every round, median). Each
peer is checked against float64 before it is timed, quantised caches against their decoded values.
"""

from __future__ import annotations

import math
import pathlib
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import beside  # noqa: E402
import measure  # noqa: E402
from measure import summarize  # noqa: E402

PEERS = ("kiln", "kiln-paged", "kiln-int8", "kiln-int4", "cudnn", "flash", "flashinfer", "flashinfer-paged")
PAGE = 16
SIZE = 128
COLUMNS = (
    "family", "kernel", "size", "dtype", "provider", "status", "median_us", "p25_us", "p75_us", "min_us", "max_us",
    "tb_per_s", "over_best_peer", "over_kiln", "error", "rounds", "note", "gpu", "driver", "cuda", "kiln", "torch",
    "commit", "date", "method",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    batch: int
    tokens: int
    heads: int = 32
    k_heads: int = 8

    @property
    def name(self) -> str:
        return f"decode B={self.batch} {self.tokens} {self.heads}/{self.k_heads}"

    def bytes(self, bits: int = 16) -> int:
        """Bytes of the cache, which is read once."""
        beside = {16: 0, 8: 4, 4: 10}[bits]
        return self.batch * self.tokens * self.k_heads * (2 * SIZE * bits // 8 + beside)


def rows() -> list[Row]:
    grouped = [Row(b, t) for b in (1, 8, 64) for t in (512, 4096, 32768) if b * t <= 1 << 18]
    return grouped + [Row(1, t, 8, 8) for t in (512, 1024, 2048)]


class Bench:
    """The caches of a row: enough of them to exceed the L2."""

    def __init__(self, row: Row, device: Any):
        import torch

        self.row, self.device, self.torch = row, device, torch
        self.plan = measure.plan(row.bytes(), row.bytes(), device.l2_bytes)
        generator = torch.Generator("cuda").manual_seed(0)

        def normal(*shape: int) -> Any:
            return torch.randn(shape, device="cuda", dtype=torch.float16, generator=generator)

        self.q = [normal(row.batch, row.heads, SIZE) for _ in range(self.plan.sets)]
        shape = row.batch, row.tokens, row.k_heads, SIZE
        self.caches = [(normal(*shape), normal(*shape)) for _ in range(self.plan.sets)]
        self.out = [torch.full_like(q, math.nan) for q in self.q]
        self._paged: Any = None
        self.kept: list[Any] = []  # arrays that graphs refer to only by address
        self.lengths = torch.full((row.batch,), row.tokens, device="cuda", dtype=torch.int32)

    def exact(self, k: Any, v: Any) -> Any:
        """The exact result for the last sequence, in float64; k and v (tokens, heads, size)."""
        torch, group = self.torch, self.row.heads // self.row.k_heads
        k, v = (x.double().repeat_interleave(group, 1) for x in (k, v))
        score = torch.einsum("hd,thd->ht", self.q[0][-1].double(), k) / math.sqrt(SIZE)
        return torch.einsum("ht,thd->hd", torch.softmax(score, 1), v)

    # -- peers: what launches it with one set, its result of the first, and the keys and values that it is over --------
    def kiln(self) -> Any:
        from kiln.kernels.attention import decode_attention

        def launch(i: int) -> None:
            decode_attention(self.q[i], *self.caches[i], self.lengths, out=self.out[i])

        return launch, lambda: self.out[0], self.caches[0]

    def _pages(self) -> Any:
        """The caches as pages in random order, and their table."""
        if self._paged is None:
            torch, row = self.torch, self.row
            pages = row.tokens // PAGE
            table = torch.randperm(row.batch * pages, device="cuda").view(row.batch, pages)
            shape = row.batch * pages, PAGE, row.k_heads, SIZE
            order = table.flatten().argsort()
            caches = [tuple(x.view(shape)[order].contiguous() for x in pair) for pair in self.caches]
            self._paged = caches, table.to(torch.int32)
        return self._paged

    def kiln_paged(self) -> Any:
        from kiln.kernels.attention import decode_attention

        caches, table = self._pages()

        def launch(i: int) -> None:
            decode_attention(self.q[i], *caches[i], self.lengths, block_table=table, out=self.out[i])

        return launch, lambda: self.out[0], self.caches[0]

    def _flashinfer(self, caches: Any, table: Any, page: int) -> Any:
        from flashinfer import BatchDecodeWithPagedKVCacheWrapper

        torch, row = self.torch, self.row
        workspace = torch.zeros(128 << 20, dtype=torch.uint8, device="cuda")
        # Its documentation recommends tensor cores for groups of four and more.
        wrapper = BatchDecodeWithPagedKVCacheWrapper(workspace, "NHD", use_tensor_cores=row.heads >= 4 * row.k_heads)
        first = torch.arange(row.batch + 1, device="cuda", dtype=torch.int32) * table.shape[1]
        full = torch.full((row.batch,), page, device="cuda", dtype=torch.int32)
        types = {"q_data_type": torch.float16, "kv_data_type": torch.float16}
        wrapper.plan(first, table.flatten(), full, row.heads, row.k_heads, SIZE, page, **types)

        def launch(i: int) -> None:
            wrapper.run(self.q[i], caches[i], out=self.out[i])

        return launch, lambda: self.out[0], self.caches[0]

    def flashinfer(self) -> Any:
        row, pages = self.row, self.row.batch * self.row.tokens // PAGE
        shape = pages, PAGE, row.k_heads, SIZE
        table = self.torch.arange(pages, device="cuda", dtype=self.torch.int32).view(row.batch, -1)
        # As pages in order: shares of a sequence are whole pages, so a single page for all tokens would not be divided.
        return self._flashinfer([tuple(x.view(shape) for x in pair) for pair in self.caches], table, PAGE)

    def flashinfer_paged(self) -> Any:
        return self._flashinfer(*self._pages(), PAGE)

    def _quantized(self, bits: int) -> Any:
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

        return launch, lambda: self.out[0], self._meaning(made[0][1], bits)

    def _meaning(self, cache: Any, bits: int) -> Any:
        """The last sequence's keys and values, decoded."""
        from kiln.kernels.attention import quantized_reference as reference

        last = [None if x is None else x[-1:].cpu().numpy() for x in cache]
        if bits == 4:
            last[2:4] = [x.view("uint16") for x in last[2:4]]
        return self.torch.from_numpy(reference.decoded_cache(*last, [self.row.tokens])).cuda()

    def kiln_int8(self) -> Any:
        return self._quantized(8)

    def kiln_int4(self) -> Any:
        return self._quantized(4)

    def _torch(self, backend: str) -> Any:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        row, found = self.row, [None] * self.plan.sets
        heads_first = [tuple(x.transpose(1, 2) for x in pair) for pair in self.caches]

        def launch(i: int) -> None:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                found[i] = self.torch.nn.functional.scaled_dot_product_attention(
                    self.q[i][:, :, None], *heads_first[i], enable_gqa=row.heads != row.k_heads
                )

        return launch, lambda: found[0][:, :, 0], self.caches[0]

    def cudnn(self) -> Any:
        return self._torch("CUDNN_ATTENTION")

    def flash(self) -> Any:
        return self._torch("FLASH_ATTENTION")

    def run(self, peers: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
        found: dict[str, dict[str, Any]] = {}
        for name in peers:
            peer: dict[str, Any] = {"status": "ok", "note": "", "error": ""}
            found[name] = peer
            try:
                launch, result, (k, v) = getattr(self, name.replace("-", "_"))()
                launch(0)
                self.device.synchronize()
                exact = self.exact(k[-1], v[-1])
                peer["error"] = error = float((result()[-1].double() - exact).norm() / exact.norm())
                # Weights are rounded to 16 bits, and so is the result.
                if not error <= 2e-3:
                    peer.update(status="wrong", note=f"error {error:.2e}, allowed 2e-3")
                    continue
                self.kept.append(launch)
                peer["burst"] = self._burst(launch)
            except ImportError as error:
                peer.update(status="skipped", note=str(error))
            except Exception as error:  # any exception is this peer's result; the others go on
                peer.update(measure.failed(error))
        measure.race_ready(found, rounds)
        return found

    def _burst(self, launch: Callable[[int], None]) -> Callable[[], float]:
        plan = self.plan

        def enqueue() -> None:
            for i in range(plan.launches):
                launch(i % plan.sets)

        return self.device.burst(self.device.capture(enqueue), plan.launches, plan.replays)


def lines(row: Row, found: dict[str, dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
    """The row's lines of the CSV, one per peer."""
    median = {name: summarize(peer["times"]).median for name, peer in found.items() if "times" in peer}
    rivals = [us for name, us in median.items() if not name.startswith("kiln")]
    table = []
    for name, peer in found.items():
        line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
        size = f"{row.batch}×{row.tokens}×{row.k_heads}×{SIZE}"
        line |= {"family": "decode", "kernel": row.name, "size": size, "dtype": "float16", "provider": name,
                 "status": peer["status"], "note": peer["note"]}  # fmt: skip
        line |= {key: about[key] for key in COLUMNS if key in about}
        if peer["error"] != "":
            line["error"] = f"{peer['error']:.2e}"
        if name in median:
            times = summarize(peer["times"])
            bits = int(name[-1]) if name.startswith("kiln-int") else 16
            line |= measure.columns(times) | {"tb_per_s": f"{row.bytes(bits) / times.median / 1e6:.2f}"}
            if name.startswith("kiln") and rivals:
                line["over_best_peer"] = f"{min(rivals) / times.median:.3f}"
            if name.startswith("kiln-") and "kiln" in median:
                line["over_kiln"] = f"{median['kiln'] / times.median:.3f}"
        table.append(line)
    return table


def told(row: Row, table: Sequence[dict[str, Any]]) -> str:
    parts = [f"{line['provider']} {line['median_us'] or line['status'] + ': ' + line['note']}" for line in table]
    return f"{row.name}: {', '.join(parts)} µs"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = beside.make_parser(__doc__, PEERS)
    options = parser.parse_args(arguments)
    chosen, peers = beside.choose(parser, options, rows(), PEERS)
    return beside.race_rows(
        chosen, peers, options, "decode", COLUMNS, Bench, lines, told, lambda name: name.startswith("kiln")
    )


if __name__ == "__main__":
    sys.exit(main())
