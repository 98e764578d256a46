"""Attention and its backward on a GPU beside cuDNN, FlashAttention and Triton: `python bench/attention.py`.

    python bench/attention.py --list                                the rows
    python bench/attention.py --csv attention.csv --limit 480       as many rows as fit the time, those not in the file
    python bench/attention.py --rows "D=128 causal; backward"       rows whose name or group has these words
    python bench/attention.py --rows "forward; small" --peers kiln,kiln-tuned --tune --csv tuned.csv
    python bench/attention.py --report attention.csv tuned.csv      what recorded rows say about the requirements

fp16, random normal data. Groups of rows: `forward` and `backward`, B · N = 16384 and H · D = 2048; `grouped`, 32 heads
over 8 of keys; `small`, one sequence of 1 to 8 heads of 64; `flex`, a window of 1024 tokens and ALiBi, B · N = 16384.

Method: measure.py's (graph replay, all arrays rotated past the L2, bursts in balanced order, median; `warm_us` repeats
one set). Bursts last 25 ms, after 100 ms untimed, because near the peak the power limit decides; those of small rows
6 ms, after one replay. Each peer is checked against float64, all heads of the first and of the last set, before it is
timed and once in its graph: Kiln's error may be 1.5 times that of the best peer that multiplies in 16 bits, a peer's
twice.

Peers: torch's cuDNN, FlashAttention-2 (`flash`), `efficient` and, in small rows, `math`, which multiplies in float32;
FlashAttention's kernels for Hopper from the package flash-attn-4 (`cute`), if it is installed; Triton's tutorial
(baselines/triton_attention.py), tuned on rows of 4096 tokens. Kiln and torch take (batch, tokens, heads, size), but
Triton's kernel and torch's flex_attention one head after the other. `kiln-tuned`, with `--tune`, is the fastest plan of
kiln.kernels.attention.configs.candidates; winners are kept in the file given by `--tuned`.

Backward: only the backward pass, through autograd; the forward results exist already. Two and a half times the
forward's operations are counted, whatever a peer recomputes. cuDNN and FlashAttention sum dq with atomics, in an order
that differs from run to run, unless reproducible bits are requested (`-ordered`; torch's cuDNN cannot: "cuDNN SDPA is
not deterministic"); Kiln's bits are reproducible unless it is allowed otherwise (`atomics`).

Flex: `kiln-flex` is Kiln's flex_attention with mods.window or mods.alibi, `kiln` attention(window=…) or
attention(alibi_slopes=…), `kiln-causal` plain causal attention, which in a window's row computes far more scores, and
`flex` torch's flex_attention, compiled.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import math
import pathlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

import beside  # noqa: E402
import measure  # noqa: E402
from beside import COLUMNS, SDPA, Lines, Peer  # noqa: E402
from cases import Unavailable  # noqa: E402
from gemm import Tuned  # noqa: E402

FORWARD_PEERS = ("kiln", "kiln-tuned", "cudnn", "flash", "efficient", "cute", "triton")
SMALL_PEERS = (*FORWARD_PEERS, "math")
# The tutorial's kernel and `efficient` need one key head per query head.
GROUPED_PEERS = ("kiln", "kiln-tuned", "cudnn", "flash", "cute")
BACKWARD_PEERS = ("kiln", "atomics", "cudnn", "flash", "flash-ordered", "cute", "cute-ordered")
FLEX_PEERS = ("kiln", "kiln-flex", "kiln-causal", "flex")
PEERS = tuple(dict.fromkeys(SMALL_PEERS + BACKWARD_PEERS + FLEX_PEERS))
OURS = ("kiln", "kiln-tuned", "kiln-flex", "kiln-causal", "atomics")
GATE = beside.Gate(tuple(name for name in PEERS if name not in (*OURS, "math")), OURS)
WINDOW = 1024
BLOCK = 1 << 26  # scores held in float64 at a time
TUNED = HERE / "results" / "attention_tuned.json"


@dataclass(frozen=True)
class Row:
    group: str
    name: str
    batch: int
    tokens: int
    heads: int
    k_heads: int
    size: int
    causal: bool
    kind: str = ""  # of flex rows: "window" or "alibi"
    left: int | None = None  # how far back queries see

    @property
    def backward(self) -> bool:
        return self.group == "backward"

    @property
    def peers(self) -> tuple[str, ...]:
        return {"forward": FORWARD_PEERS, "small": SMALL_PEERS, "grouped": GROUPED_PEERS, "backward": BACKWARD_PEERS,
                "flex": FLEX_PEERS}[self.group]  # fmt: skip

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """(batch, tokens, heads, size)."""
        return self.batch, self.tokens, self.heads, self.size

    @property
    def key_shape(self) -> tuple[int, int, int, int]:
        return self.batch, self.tokens, self.k_heads, self.size

    @property
    def size_text(self) -> str:
        return "×".join(map(str, self.shape))

    def flops_of(self, peer: str) -> float:
        """A causal row counts half of all scores, and a window those that are in it."""
        scores = self.tokens * self.tokens * (0.5 if self.causal else 1.0)
        if self.left is not None and peer != "kiln-causal" and self.tokens > self.left:
            short = self.left + 1
            scores = self.tokens * short - short * (short - 1) / 2
        products = 5 if self.backward else 2
        return 2.0 * products * self.batch * self.heads * scores * self.size

    def bytes_of(self, peer: str = "") -> int:
        """Bytes of a set: what a launch reads and writes at least."""
        arrays = 4 if self.backward else 2  # of queries: q and out; dout and dq; and as many of keys and values
        rows = self.heads + self.k_heads
        more = 4 * self.heads if self.backward else 0  # log-sum-exp
        return self.batch * self.tokens * (rows * self.size * 2 * arrays + more)

    @property
    def bytes(self) -> int:
        return self.bytes_of()

    @property
    def lasting(self) -> tuple[float, float]:
        """Microseconds of a burst, and of what runs untimed before it."""
        return (6000.0, 0.0) if self.group == "small" else (measure.BURST_US, measure.SETTLE_US)

    def guess_us(self) -> float:
        return 3.0 + max(self.bytes / 4.2e6, self.flops_of("kiln") / 5e8)


def rows(shrink: int = 1) -> list[Row]:
    """All rows. Triton tunes on the first row of each kind, with 4096 tokens. ``shrink`` divides tokens and heads, to
    try the suite without a GPU."""

    def plain(group: str, what: str, size: int, causal: bool, tokens: int, kind: str = "") -> Row:
        name = f"{what} D={size} {'causal' if causal else 'full'} {tokens}"
        heads = 2048 // size
        left = WINDOW if kind == "window" else None
        return Row(group, name, 16384 // tokens, tokens, heads, heads, size, causal, kind, left)

    def few(group: str, batch: int, heads: int, k_heads: int, size: int, causal: bool, tokens: int) -> Row:
        name = f"attention {batch}x{heads}/{k_heads} D={size} {'causal' if causal else 'full'} {tokens}"
        return Row(group, name, batch, tokens, heads, k_heads, size, causal)

    masks = (False, True)
    forward = itertools.product((64, 128), masks, (4096, 1024, 16384))
    found = [plain("forward", "attention", *parts) for parts in forward]
    found += [few("grouped", max(1, 4096 // n), 32, 8, 128, True, n) for n in (512, 1024, 2048, 4096, 8192, 16384)]
    found += [plain("backward", "attention_backward", *p) for p in itertools.product((64, 128), masks, (4096, 16384))]
    found += [
        plain("flex", f"flex_{kind}", size, True, n, kind)
        for kind, size, n in itertools.product(("window", "alibi"), (64, 128), (4096, 8192, 16384))
    ]
    found += [
        few("small", 1, heads, heads, 64, causal, n)
        for heads, causal, n in itertools.product((1, 2, 4, 8), masks, (512, 1024, 2048))
    ]
    if shrink > 1:
        found = [
            dataclasses.replace(
                row,
                batch=max(1, row.batch // shrink),
                left=row.left and row.left // shrink,
                tokens=max(16, row.tokens // shrink),
                heads=max(row.heads // row.k_heads, row.heads // shrink),
                k_heads=max(1, row.k_heads * max(row.heads // row.k_heads, row.heads // shrink) // row.heads),
            )
            for row in found
        ]
    return found


class Bench(beside.SdpaBench):
    gate = GATE

    def __init__(self, row: Row, device: Any, winners: Tuned, rounds: int = 9, burst_us: float | None = None):
        self.row, self.device, self.torch, self.winners = row, device, device.torch, winners
        self.burst_us, self.settle_us = (burst_us, 0.0) if burst_us else row.lasting
        graph_us = min(2000.0, self.burst_us)
        self.plan = measure.plan_of_products(row.guess_us(), row.bytes, device.l2_bytes, rounds, graph_us)
        self.generator = self.torch.Generator(device.device)
        self.generator.manual_seed(0)
        self.q, self.k, self.v = (self.normal(shape) for shape in (row.shape, row.key_shape, row.key_shape))
        self.out = [self.torch.empty_like(q) for q in self.q]
        self.slopes = self.torch.tensor(
            [2.0 ** (-8.0 * (head + 1) / row.heads) for head in range(row.heads)], device=device.device
        )
        self.exact = {i: self._exact(i) for i in {0, self.plan.sets - 1}}

    def normal(self, shape: tuple[int, ...]) -> list[Any]:
        """Random normal values for each set."""
        torch, device = self.torch, self.device.device
        return [
            torch.randn(shape, device=device, dtype=torch.float16, generator=self.generator)
            for _ in range(self.plan.sets)
        ]

    # -- exact results, in float64 -------------------------------------------------------------------------------------
    def heads_first(self, x: Any) -> Any:
        """A sequence (tokens, heads, size) as (heads of queries, tokens, size)."""
        return x.transpose(0, 1).double().repeat_interleave(self.row.heads // x.shape[1], 0)

    def blocks(self) -> Iterator[tuple[slice, int]]:
        """Blocks of queries, and how many keys they see together."""
        row = self.row
        step = max(1, BLOCK // (row.heads * row.tokens))
        for first in range(0, row.tokens, step):
            last = min(row.tokens, first + step)
            yield slice(first, last), last if row.causal else row.tokens

    def weights(self, q: Any, k: Any, part: slice, seen: int) -> Any:
        """The weights of a block of queries, (heads, queries, keys)."""
        torch, row = self.torch, self.row
        score = q[:, part] @ k[:, :seen].transpose(1, 2) / math.sqrt(row.size)
        if row.causal:
            queries = torch.arange(part.start, part.stop, device=q.device)[:, None]
            distance = queries - torch.arange(seen, device=q.device)[None, :]
            if row.kind == "alibi":
                score -= self.slopes.double()[:, None, None] * distance
            hidden = distance < 0
            if row.left is not None:
                hidden |= distance > row.left
            score.masked_fill_(hidden, -math.inf)
        return torch.softmax(score, 2)

    def _exact(self, i: int) -> Any:
        """(batch, tokens, heads, size)."""
        out = self.torch.empty(self.row.shape, dtype=self.torch.float64, device=self.device.device)
        for batch in range(self.row.batch):
            q, k, v = (self.heads_first(x[i][batch]) for x in (self.q, self.k, self.v))
            for part, seen in self.blocks():
                out[batch, part] = (self.weights(q, k, part, seen) @ v[:, :seen]).transpose(0, 1)
        return out

    def error(self, out: Any, i: int, exact: Any) -> float:
        return relative(out, self.exact[i])

    def poison(self, i: int) -> None:
        self.out[i].fill_(math.nan)

    # -- peers ---------------------------------------------------------------------------------------------------------
    def kiln(self, plan: Any = None) -> Peer:
        from kiln.kernels.attention import attention

        row = self.row
        given: dict[str, Any] = {"causal": row.causal, "plan": plan}
        if row.kind == "alibi":
            given["alibi_slopes"] = self.slopes
        elif row.left is not None:
            given |= {"causal": False, "window": (row.left, 0)}

        def launch(i: int) -> None:
            attention(self.q[i], self.k[i], self.v[i], out=self.out[i], **given)

        return Peer(launch, lambda i: self.out[i])

    def kiln_tuned(self) -> Peer:
        import kiln
        from kiln.kernels.attention import configs
        from kiln.kernels.machine import machine_of

        row = self.row
        heads = {"heads": row.batch * row.heads, "share": row.heads // row.k_heads}
        found = configs.candidates(
            row.tokens, row.tokens, (row.size, row.size), 2, row.causal, machine_of(self.q[0]), **heads
        )
        variants = {repr(each): lambda each=each: self.kiln(each) for each in found}
        return self.tuned(f"{row.name} float16 | kiln-tuned {kiln.__version__}", self.winners, variants)

    def kiln_causal(self) -> Peer:
        from kiln.kernels.attention import attention

        def launch(i: int) -> None:
            attention(self.q[i], self.k[i], self.v[i], causal=True, out=self.out[i])

        return Peer(launch, lambda i: self.out[i], "another function", None)

    def kiln_flex(self) -> Peer:
        from kiln.kernels.attention import create_block_mask, flex_attention, mods

        row = self.row
        tokens = (None, None, row.tokens, row.tokens, self.device.device)
        if row.kind == "window":
            mask, terms = create_block_mask(mods.window, *tokens, args=(row.left, 0)), {}
        else:
            mask, terms = create_block_mask(mods.causal, *tokens), {"score_mod": mods.alibi, "args": (self.slopes,)}
        arrays = [[x.transpose(1, 2) for x in of] for of in zip(self.q, self.k, self.v, self.out, strict=True)]

        def launch(i: int) -> None:
            q, k, v, out = arrays[i]
            flex_attention(q, k, v, block_mask=mask, out=out, **terms)

        return Peer(launch, lambda i: self.out[i])

    def flex(self) -> Peer:
        from torch.nn.attention.flex_attention import create_block_mask, flex_attention

        torch, row, slopes = self.torch, self.row, self.slopes

        def causal(batch: Any, head: Any, q: Any, kv: Any) -> Any:
            return q >= kv

        def window(batch: Any, head: Any, q: Any, kv: Any) -> Any:
            return (q >= kv) & (q - kv <= row.left)

        def alibi(score: Any, batch: Any, head: Any, q: Any, kv: Any) -> Any:
            return score + slopes[head] * (kv - q)

        on, tokens = self.device.device, row.tokens
        mask = create_block_mask(window if row.kind == "window" else causal, None, None, tokens, tokens, device=on)
        score_mod = alibi if row.kind == "alibi" else None
        # Compiled for the CPU it needs a C++ compiler; there it shows only that the call is right.
        call = flex_attention
        if self.device.name != "cpu":
            torch.compiler.reset()  # after some shapes of one function, torch compiles no more of them
            call = torch.compile(flex_attention, dynamic=False)
        arrays = [[x.transpose(1, 2).contiguous() for x in of] for of in zip(self.q, self.k, self.v, strict=True)]
        found: list[Any] = [None] * self.plan.sets

        def launch(i: int) -> None:
            found[i] = call(*arrays[i], score_mod=score_mod, block_mask=mask)

        return Peer(launch, lambda i: found[i].transpose(1, 2))

    def sdpa(self, backend: str) -> Peer:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        arrays = [[x.transpose(1, 2) for x in of] for of in zip(self.q, self.k, self.v, strict=True)]
        grouped = self.row.heads != self.row.k_heads
        found: list[Any] = [None] * self.plan.sets

        def launch(i: int) -> None:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                found[i] = self.torch.nn.functional.scaled_dot_product_attention(
                    *arrays[i], is_causal=self.row.causal, enable_gqa=grouped
                )

        return Peer(launch, lambda i: found[i].transpose(1, 2))

    def cute(self) -> Peer:
        from flash_attn.cute.interface import flash_attn_func

        found: list[Any] = [None] * self.plan.sets

        def launch(i: int) -> None:
            result = flash_attn_func(self.q[i], self.k[i], self.v[i], causal=self.row.causal)
            found[i] = result[0] if isinstance(result, tuple) else result

        return Peer(launch, lambda i: found[i])

    def triton(self) -> Peer:
        if self.device.name == "cpu":
            raise Unavailable("Triton is for GPUs")
        from baselines import triton_attention

        arrays = [[x.transpose(1, 2).contiguous() for x in of] for of in zip(self.q, self.k, self.v, strict=True)]
        outs = [self.torch.full_like(q, math.nan) for q, _, _ in arrays]
        triton_attention.tune(self.row.size, self.row.causal)
        launches = [
            triton_attention.attention(q, k, v, self.row.causal, out)
            for (q, k, v), out in zip(arrays, outs, strict=True)
        ]
        return Peer(lambda i: launches[i](), lambda i: outs[i].transpose(1, 2))


def relative(out: Any, exact: Any) -> float:
    """‖out − exact‖ / ‖exact‖, sequence by sequence, because all of it in float64 takes as much memory again."""
    apart = sum(float((got.double() - want).square().sum()) for got, want in zip(out, exact, strict=True))
    return math.sqrt(apart / float(exact.square().sum()))


class BackwardBench(Bench):
    """Gradients of q, k and v. The forward pass runs on the stream that launches are captured on, because autograd runs
    each backward on the stream of its forward."""

    def __init__(self, row: Row, device: Any, *more: Any):
        self.dout: list[Any] = []
        super().__init__(row, device, *more)

    def _exact(self, i: int) -> Any:
        """dq, dk, dv as (batch, tokens, heads, size)."""
        if not self.dout:
            self.dout = self.normal(self.row.shape)
        torch, row = self.torch, self.row
        dq, dk, dv = (torch.zeros(row.shape, dtype=torch.float64, device=self.device.device) for _ in range(3))
        for batch in range(row.batch):
            q, k, v, dout = (self.heads_first(x[i][batch]) for x in (self.q, self.k, self.v, self.dout))
            for part, seen in self.blocks():
                weight = self.weights(q, k, part, seen)
                dv[batch, :seen] += (weight.transpose(1, 2) @ dout[:, part]).transpose(0, 1)
                dweight = dout[:, part] @ v[:, :seen].transpose(1, 2)
                dweight -= (weight * dweight).sum(2, keepdim=True)
                dscore = weight.mul_(dweight).div_(math.sqrt(row.size))
                dq[batch, part] = (dscore @ k[:, :seen]).transpose(0, 1)
                dk[batch, :seen] += (dscore.transpose(1, 2) @ q[:, part]).transpose(0, 1)
        return dq, dk, dv

    def error(self, out: Any, i: int, exact: Any) -> float:
        """The largest error of the three gradients; each is (batch, tokens, heads, size)."""
        found = [relative(got, want) for got, want in zip(out, self.exact[i], strict=True)]
        return math.nan if any(map(math.isnan, found)) else max(found)

    def kiln(self, deterministic: bool = True) -> Peer:
        from kiln.kernels.attention import attention, attention_backward

        row = self.row
        found: list[Any] = [None] * self.plan.sets
        inputs = list(zip(self.q, self.k, self.v, strict=True))
        forward = [attention(*of, causal=row.causal, return_lse=True) for of in inputs]

        def launch(i: int) -> None:
            found[i] = attention_backward(
                *inputs[i], *forward[i], self.dout[i], causal=row.causal, deterministic=deterministic
            )

        return Peer(launch, lambda i: found[i])

    def atomics(self) -> Peer:
        return self.kiln(deterministic=False)

    def sdpa(self, backend: str, ordered: bool = False) -> Peer:
        from torch.nn.attention import SDPBackend, sdpa_kernel

        def forward(*inputs: Any) -> Any:
            with sdpa_kernel(getattr(SDPBackend, backend)):
                return self.torch.nn.functional.scaled_dot_product_attention(*inputs, is_causal=self.row.causal)

        launch, result, *_ = self._differentiated(forward, ordered, heads_first=True)
        return Peer(launch, lambda i: [x.transpose(1, 2) for x in result(i)])

    def _differentiated(self, forward: Callable[..., Any], ordered: bool, heads_first: bool = False) -> Peer:
        """``ordered``: gradients must have the same bits in each run."""
        torch = self.torch
        found: list[Any] = [None] * self.plan.sets

        @contextlib.contextmanager
        def asking() -> Iterator[None]:
            # Otherwise torch would fill every new array with NaN when it is asked for the same bits.
            filled, torch.utils.deterministic.fill_uninitialized_memory = (
                torch.utils.deterministic.fill_uninitialized_memory,
                False,
            )
            torch.use_deterministic_algorithms(ordered)
            try:
                yield
            finally:
                torch.use_deterministic_algorithms(False)
                torch.utils.deterministic.fill_uninitialized_memory = filled

        def turned(x: Any) -> Any:
            return x.transpose(1, 2) if heads_first else x

        leaves, outs = [], []
        stream = getattr(self.device, "capturing_stream", contextlib.nullcontext)
        with stream(), asking():
            for of in zip(self.q, self.k, self.v, strict=True):
                leaves.append([turned(x).detach().requires_grad_() for x in of])
                outs.append(forward(*leaves[-1]))

        def launch(i: int) -> None:
            with asking():
                found[i] = torch.autograd.grad(outs[i], leaves[i], turned(self.dout[i]), retain_graph=True)

        return Peer(launch, lambda i: found[i])

    def flash_ordered(self) -> Peer:
        return self.sdpa("FLASH_ATTENTION", ordered=True)

    def cute(self, ordered: bool = False) -> Peer:
        from flash_attn.cute.interface import flash_attn_func

        def forward(*inputs: Any) -> Any:
            result = flash_attn_func(*inputs, causal=self.row.causal, deterministic=ordered)
            return result[0] if isinstance(result, tuple) else result

        return self._differentiated(forward, ordered)

    def cute_ordered(self) -> Peer:
        return self.cute(ordered=True)


def bench_of(row: Row, device: Any, winners: Tuned, rounds: int = 9) -> Bench:
    kind = BackwardBench if row.backward else Bench
    return kind(row, device, winners, rounds, device.burst_us if device.name == "cpu" else None)


def lines(row: Row, found: dict[str, dict[str, Any]], about: dict[str, Any], sets: int = 0) -> list[dict[str, Any]]:
    """The row's lines of the CSV, one per peer."""
    table = beside.lines("attention", row, found, about, sets, OURS)
    for line in table:
        if line["provider"] == "kiln-causal":
            line["over_best_peer"] = ""
    return table


def told(row: Row, table: Sequence[dict[str, Any]]) -> str:
    parts = [f"{line['provider']} {line['tflops'] or line['status'] + ': ' + line['note']}" for line in table]
    return f"{row.name}: {', '.join(parts)} TFLOPS"


# ---- the report ------------------------------------------------------------------------------------------------------
def report(paths: Sequence[str]) -> list[str]:
    """What recorded rows say about the requirements, as lines of text."""
    entries = beside.read(paths, "attention")
    groups: dict[str, list[str]] = {}
    for row in rows():
        groups.setdefault(row.group, []).append(row.name)

    def others(peers: Lines) -> list[str]:
        return [name for name in peers if name not in OURS]

    def only(*names: str) -> Callable[[Lines], tuple[str, ...]]:
        return lambda peers: names

    def ordered(peers: Lines) -> list[str]:
        return [name for name in peers if name.endswith("-ordered")]

    def of(names: Sequence[str], ours: str, rivals: Callable[[Lines], Any]) -> dict[str, tuple[float, str]]:
        return beside.speeds([entry for entry in entries if entry[0] in names], ours, rivals)

    text: list[str] = []

    def say(what: str, names: Sequence[str], ours: str, rivals: Any, *asked: float | None) -> None:
        text.extend(beside.verdict(what, of(names, ours, rivals), names, *asked))

    forward, grouped, small, flex = (groups[name] for name in ("forward", "grouped", "small", "flex"))
    windows, alibis = ([name for name in flex if name.startswith(kind)] for kind in ("flex_window", "flex_alibi"))
    say("forward over the best peer", forward, "kiln", others, 1.05, 0.97)
    say("grouped heads over the best peer", grouped, "kiln", others, 1.05, 0.97)
    say("backward, atomics, over the best peer", groups["backward"], "atomics", others, 1.03, 0.95)
    say("backward, deterministic, over the best peer", groups["backward"], "kiln", others, 1.03, 0.95)
    say("backward, deterministic, over the best peer that repeats its bits", groups["backward"], "kiln", ordered)
    say("small rows over the best of torch's SDPA", small, "kiln", only(*SDPA), None, 1.2)
    say("small rows over the best peer", small, "kiln", others)
    say("flex: window over torch's flex_attention", windows, "kiln-flex", only("flex"), None, 1.3)
    say("flex: ALiBi over torch's flex_attention", alibis, "kiln-flex", only("flex"), None, 1.3)
    say("flex: window over attention(window=…)", windows, "kiln-flex", only("kiln"), None, 0.9)
    say("flex: ALiBi over plain causal attention", alibis, "kiln-flex", only("kiln-causal"), None, 0.9)
    say("flex: ALiBi over attention(alibi_slopes=…)", alibis, "kiln-flex", only("kiln"))
    tuned = forward + grouped + small
    say("default over tuned plans", tuned, "kiln", only("kiln-tuned"), None, 0.95)
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
        chosen, peers, options, "attention", COLUMNS,
        lambda row, device: bench_of(row, device, winners, options.rounds), lines, told, lambda name: name in OURS,
    )  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
