"""Attention and its backward on a GPU beside cuDNN, FlashAttention and Triton: `python bench/attention.py`.

    python bench/attention.py --csv attention.csv                   all rows, appended to a file
    python bench/attention.py --rows "D=128 causal"                 rows whose name has these words
    python bench/attention.py --rows attention_backward             gradients of q, k and v

B · N = 16384, H · D = 2048, fp16, random normal data. Method: see measure.py (graph replay, bursts of 25 ms in turn,
order reversed every round, median); bursts are long because near the peak the power limit decides. Every array is
larger than the L2, except in rows that name sequences, heads and heads of keys (1x32/8), which come from models: the L2
holds some of those. Each peer is checked against float64 on the first and the last queries of a head before it is
timed: at most twice cuDNN's error. Kiln and torch take (batch, tokens, heads, size); Triton's kernel takes one head
after the other.

Backward: only the backward pass, through autograd; the forward results exist already. All gradients of one head are
checked. Two and a half times the forward's operations are counted, whatever a peer recomputes. cuDNN and FlashAttention
sum dq with atomics, in an order that differs from run to run, unless reproducible bits are requested (`-ordered`;
torch's cuDNN cannot: "cuDNN SDPA is not deterministic"); Kiln's bits are reproducible unless it is allowed otherwise
(`atomics`). A line's `over_best_peer` compares with the fastest of all others, and its note compares with the fastest
that is reproducible. Triton's tutorial is left out.

`flash` is FlashAttention-2, as in torch; `cute` is FlashAttention's kernels for Hopper, from the package flash-attn-4,
if it is installed.
"""

from __future__ import annotations

import itertools
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

PEERS = ("kiln", "cudnn", "flash", "cute", "triton")
BACKWARD_PEERS = ("kiln", "atomics", "cudnn", "flash", "flash-ordered", "cute", "cute-ordered")
OWN = ("kiln", "atomics")
CHECKED = 256  # queries from either end
CHUNK = 2048  # queries whose scores are held in float64 at a time
COLUMNS = (
    "family", "kernel", "size", "dtype", "provider", "status", "median_us", "p25_us", "p75_us", "min_us", "max_us",
    "tflops", "over_best_peer", "error", "rounds", "note", "gpu", "driver", "cuda", "kiln", "torch", "triton", "commit",
    "date", "method",
)  # fmt: skip


@dataclass(frozen=True)
class Row:
    size: int
    causal: bool
    tokens: int
    backward: bool = False
    few: tuple[int, int, int] | None = None  # sequences, heads, and heads of keys, instead of those for 16384 tokens

    @property
    def name(self) -> str:
        what = "attention_backward" if self.backward else "attention"
        heads = "" if self.few is None else f" {self.few[0]}x{self.few[1]}/{self.few[2]}"
        return f"{what}{heads} D={self.size} {'causal' if self.causal else 'full'} {self.tokens}"

    @property
    def peers(self) -> tuple[str, ...]:
        if self.backward:
            return BACKWARD_PEERS
        # The tutorial's kernel needs one key head per query head.
        return PEERS if self.few is None else tuple(name for name in PEERS if name != "triton")

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, tokens, heads, size)."""
        if self.few is not None:
            return self.few[0], self.tokens, self.few[1], self.size
        return 16384 // self.tokens, self.tokens, 2048 // self.size, self.size

    @property
    def key_shape(self) -> tuple[int, int, int, int]:
        batch, tokens, heads, size = self.shape
        return batch, tokens, heads if self.few is None else self.few[2], size

    @property
    def flops(self) -> float:
        batch, tokens, heads, size = self.shape
        products = 5 if self.backward else 2
        return 2.0 * products * batch * heads * tokens * tokens * size * (0.5 if self.causal else 1.0)


def rows() -> list[Row]:
    """All rows. Triton tunes on the first row of each kind, with 4096 tokens."""
    forward = itertools.product((64, 128), (False, True), (4096, 1024, 16384))
    backward = itertools.product((64, 128), (False, True), (4096, 16384))
    grouped = [
        Row(128, True, tokens, few=(max(1, 4096 // tokens), 32, 8)) for tokens in (512, 1024, 2048, 4096, 8192, 16384)
    ]
    small = [Row(64, True, tokens, few=(1, heads, heads)) for heads in (1, 4, 8) for tokens in (512, 1024, 2048)]
    plain = [Row(*parts) for parts in forward] + [Row(*parts, backward=True) for parts in backward]
    return plain + grouped + small


class Bench:
    def __init__(self, row: Row, device: Any):
        import torch

        self.row, self.device, self.torch = row, device, torch
        generator = torch.Generator("cuda").manual_seed(0)
        self.q, self.k, self.v = (
            torch.randn(shape, device="cuda", dtype=torch.float16, generator=generator)
            for shape in (row.shape, row.key_shape, row.key_shape)
        )
        self.exact = {first: self._exact(first) for first in (0, row.tokens - CHECKED)}

    def _exact(self, first: int) -> Any:
        """The exact result in float64, for queries from ``first`` on in the last head of the last batch."""
        torch, row = self.torch, self.row
        q, k, v = (x[-1, :, -1].double() for x in (self.q, self.k, self.v))
        score = q[first : first + CHECKED] @ k.T / math.sqrt(row.size)
        if row.causal:
            queries, keys = torch.arange(first, first + CHECKED, device="cuda"), torch.arange(len(k), device="cuda")
            score = score.masked_fill(keys[None, :] > queries[:, None], -math.inf)
        return torch.softmax(score, 1) @ v

    def error(self, out: Any) -> float:
        """``out`` is (batch, tokens, heads, size)."""
        worst = 0.0
        for first, exact in self.exact.items():
            got = out[-1, first : first + CHECKED, -1].double()
            error = float((got - exact).norm() / exact.norm())
            worst = max(worst, math.inf if math.isnan(error) else error)
        return worst

    # -- peers: what launches it, and its result ------------------------------------------------------------------

    def kiln(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        from kiln.kernels.attention import attention

        out = self.torch.full_like(self.q, math.nan)
        return lambda: attention(self.q, self.k, self.v, causal=self.row.causal, out=out), lambda: out

    def _torch(self, backend: str) -> tuple[Callable[[], None], Callable[[], Any]]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads_first = [x.transpose(1, 2) for x in (self.q, self.k, self.v)]
        grouped = self.row.shape != self.row.key_shape
        found: list[Any] = []

        def launch() -> None:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                found[:] = [
                    self.torch.nn.functional.scaled_dot_product_attention(
                        *heads_first, is_causal=self.row.causal, enable_gqa=grouped
                    )
                ]

        return launch, lambda: found[0].transpose(1, 2)

    def cudnn(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        return self._torch("CUDNN_ATTENTION")

    def flash(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        return self._torch("FLASH_ATTENTION")

    def cute(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        from flash_attn.cute.interface import flash_attn_func  # type: ignore[import-not-found]

        found: list[Any] = []

        def launch() -> None:
            result = flash_attn_func(self.q, self.k, self.v, causal=self.row.causal)
            found[:] = [result[0] if isinstance(result, tuple) else result]

        return launch, lambda: found[0]

    def triton(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        from baselines import triton_attention

        heads_first = [x.transpose(1, 2).contiguous() for x in (self.q, self.k, self.v)]
        out = self.torch.full_like(heads_first[0], math.nan)
        return triton_attention.attention(*heads_first, self.row.causal, out), lambda: out.transpose(1, 2)

    def run(self, peers: Sequence[str], rounds: int) -> dict[str, dict[str, Any]]:
        """Measures the row's peers; cuDNN first, because its error is the measure for the others."""
        peers = [name for name in peers if name in self.row.peers]
        found: dict[str, dict[str, Any]] = {}
        allowed = math.inf
        for name in sorted(peers, key=lambda peer: peer != "cudnn"):
            peer: dict[str, Any] = {"status": "ok", "note": "", "error": ""}
            found[name] = peer
            try:
                launch, result = getattr(self, name.replace("-", "_"))()
                launch()
                self.device.synchronize()
                peer["error"] = error = self.error(result())
                if name == "cudnn":
                    allowed = 2 * error
                if not error <= allowed:
                    peer.update(status="wrong", note=f"error {error:.2e}, allowed {allowed:.2e}")
                    continue
                peer["burst"] = measure.graph_burst(self.device, launch, max(3.0, self.row.flops / 5e8))
            except Exception as error:  # any exception is this peer's result; the others go on
                peer.update(measure.failed(error))
        measure.race_ready(found, rounds)
        return found


class BackwardBench(Bench):
    """Gradients of q, k and v. The forward pass runs on the stream that launches are captured on, because autograd runs
    each backward on the stream of its forward."""

    def __init__(self, row: Row, device: Any):
        super().__init__(row, device)
        generator = self.torch.Generator("cuda").manual_seed(1)
        self.dout = self.torch.randn(row.shape, device="cuda", dtype=self.torch.float16, generator=generator)
        self.gradients = self._exact_gradients()

    def _exact_gradients(self) -> tuple[Any, Any, Any]:
        """The exact gradients in float64, for the last head of the last batch."""
        torch, row = self.torch, self.row
        q, k, v, dout = (x[-1, :, -1].double() for x in (self.q, self.k, self.v, self.dout))
        dq, dk, dv = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        keys = torch.arange(row.tokens, device="cuda")
        for first in range(0, row.tokens, CHUNK):
            part = slice(first, first + CHUNK)
            score = q[part] @ k.T / math.sqrt(row.size)
            if row.causal:
                score = score.masked_fill(keys[None, :] > keys[part, None], -math.inf)
            weight = torch.softmax(score, 1)
            dweight = dout[part] @ v.T
            dscore = weight * (dweight - (weight * dweight).sum(1, keepdim=True)) / math.sqrt(row.size)
            dq[part] = dscore @ k
            dk += dscore.T @ q[part]
            dv += weight.T @ dout[part]
        return dq, dk, dv

    def error(self, out: Any) -> float:
        """The largest error of the three gradients; each is (batch, tokens, heads, size)."""
        worst = 0.0
        for got, exact in zip(out, self.gradients, strict=True):
            error = float((got[-1, :, -1].double() - exact).norm() / exact.norm())
            worst = max(worst, math.inf if math.isnan(error) else error)
        return worst

    def kiln(self, deterministic: bool = True) -> tuple[Callable[[], None], Callable[[], Any]]:
        from kiln.kernels.attention import attention, attention_backward

        found: list[Any] = []
        out, lse = attention(self.q, self.k, self.v, causal=self.row.causal, return_lse=True)

        def launch() -> None:
            found[:] = attention_backward(
                self.q, self.k, self.v, out, lse, self.dout, causal=self.row.causal, deterministic=deterministic
            )

        return launch, lambda: found

    def atomics(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        return self.kiln(deterministic=False)

    def _torch(self, backend: str, ordered: bool = False) -> tuple[Callable[[], None], Callable[[], Any]]:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        heads_first = [x.transpose(1, 2) for x in (self.q, self.k, self.v)]

        def forward(*inputs: Any) -> Any:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return self.torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=self.row.causal)

        launch, result = self._differentiated(forward, heads_first, self.dout.transpose(1, 2), ordered)
        return launch, lambda: [x.transpose(1, 2) for x in result()]

    def _differentiated(
        self, forward: Callable[..., Any], inputs: Sequence[Any], dout: Any, ordered: bool
    ) -> tuple[Callable[[], None], Callable[[], Any]]:
        """``ordered``: gradients must have the same bits in each run."""
        torch = self.torch
        found: list[Any] = []

        def asking(launch: Callable[[], Any]) -> Any:
            torch.use_deterministic_algorithms(ordered)
            try:
                return launch()
            finally:
                torch.use_deterministic_algorithms(False)

        with self.device.capturing_stream():
            leaves = [x.detach().requires_grad_() for x in inputs]
            out = asking(lambda: forward(*leaves))

        def launch() -> None:
            found[:] = asking(lambda: torch.autograd.grad(out, leaves, dout, retain_graph=True))

        return launch, lambda: found

    def flash_ordered(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        return self._torch("FLASH_ATTENTION", ordered=True)

    def cute(self, ordered: bool = False) -> tuple[Callable[[], None], Callable[[], Any]]:
        from flash_attn.cute.interface import flash_attn_func

        def forward(*inputs: Any) -> Any:
            result = flash_attn_func(*inputs, causal=self.row.causal, deterministic=ordered)
            return result[0] if isinstance(result, tuple) else result

        return self._differentiated(forward, (self.q, self.k, self.v), self.dout, False)

    def cute_ordered(self) -> tuple[Callable[[], None], Callable[[], Any]]:
        return self.cute(ordered=True)


def bench_of(row: Row, device: Any) -> Bench:
    return BackwardBench(row, device) if row.backward else Bench(row, device)


def lines(row: Row, found: dict[str, dict[str, Any]], about: dict[str, Any]) -> list[dict[str, Any]]:
    """The row's lines of the CSV, one per peer."""
    median = {name: summarize(peer["times"]).median for name, peer in found.items() if "times" in peer}
    rivals = [us for name, us in median.items() if name not in OWN]
    ordered = [us for name, us in median.items() if name.endswith("-ordered")]
    table = []
    for name, peer in found.items():
        line: dict[str, Any] = dict.fromkeys(COLUMNS, "")
        line |= {"family": "attention", "kernel": row.name, "size": "×".join(map(str, row.shape)), "dtype": "float16",
                 "provider": name, "status": peer["status"], "note": peer["note"]}  # fmt: skip
        line |= {key: about[key] for key in COLUMNS if key in about}
        if peer["error"] != "":
            line["error"] = f"{peer['error']:.2e}"
        if name in median:
            times = summarize(peer["times"])
            line |= measure.columns(times) | {"tflops": f"{row.flops / times.median / 1e6:.1f}"}
            if name in OWN and rivals:
                line["over_best_peer"] = f"{min(rivals) / times.median:.3f}"
            if name == "kiln" and ordered:
                line["note"] = f"{min(ordered) / times.median:.3f} of the best that repeats its bits"
        table.append(line)
    return table


def told(row: Row, table: Sequence[dict[str, Any]]) -> str:
    parts = [f"{line['provider']} {line['tflops'] or line['status'] + ': ' + line['note']}" for line in table]
    return f"{row.name}: {', '.join(parts)} TFLOPS"


def main(arguments: Sequence[str] | None = None) -> int:
    everyone = tuple(dict.fromkeys(PEERS + BACKWARD_PEERS))
    parser = beside.make_parser(__doc__, everyone)
    options = parser.parse_args(arguments)
    chosen, peers = beside.choose(parser, options, rows(), everyone)
    return beside.race_rows(
        chosen, peers, options, "attention", COLUMNS, bench_of, lines, told, lambda name: name == "kiln"
    )


if __name__ == "__main__":
    sys.exit(main())
