"""Flash attention, forward: scores never reach memory; a block of queries walks the keys with a running maximum.

Exponentials are powers of two: the scale carries log2(e). The schedule decides how blocks arrive and how products and
softmax overlap; `scores.py` says which terms apply to scores and which keys are seen.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError, ResourceError
from kiln.kernels.attention.configs import AttentionPlan, prefill_plan
from kiln.kernels.attention.operands import PITCH, Head, Heads, heads_of, is_fetched
from kiln.kernels.attention.scores import At, Bias, Terms, Visible
from kiln.kernels.attention.shares import Shares
from kiln.kernels.counters import zeros
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import machine_of
from kiln.kernels.operator import (
    FLOATS,
    Spec,
    address,
    check_contiguous,
    empty,
    is_integer,
    operator,
    output,
    tile_side,
    with_float64,
)

LOG2_E = 1.4426950408889634
POWERS_OF_TWO: kl.constexpr = kl.constexpr(LOG2_E)
SLACK: kl.constexpr = kl.constexpr(8.0)  # weights may be up to 2^SLACK
# Or, without a look at the maximum, as long as the sum of a part of a row is at most this: float16 reaches 65504. Where
# it is more, a part of up to 64 weights has one above 2^SLACK.
MOST: kl.constexpr = kl.constexpr(16384.0)
LOWEST: kl.constexpr = kl.constexpr(-3e38)  # a row's maximum before it has seen a key: any score is far above it


# ---- the kernel ------------------------------------------------------------------------------------------------------
@kiln.struct
class Turns:
    """``together`` heads, whose keys and values fit a cache, take turns. Programs go to ``around`` processors per
    round, and every second round is reversed (None: none is)."""

    together: Any
    around: Any = None

    @kiln.jit
    def program(self, count):
        number = kl.program_id(0)
        if self.around is None:
            return number
        row = number // self.around
        # The last round may be shorter.
        end = kl.minimum((row + 1) * self.around, count)
        return kl.where(row % 2 == 1, row * self.around + end - 1 - number, number)


@kiln.struct
class Form:
    """M queries and N keys per step; heads of SIZE elements, values of V_SIZE; sums of rows in PARTS. LAST_FIRST: the
    last queries come first, since they have the most keys. SCALED: scores are scaled separately, not in the exponent.
    PACK: rows are queries of PACK heads that share keys, the first head's rows first. GUESS: the maximum so far is
    tried before that of a block is computed."""

    M: kl.constexpr
    N: kl.constexpr
    SIZE: kl.constexpr
    V_SIZE: kl.constexpr
    PARTS: kl.constexpr = 1
    LAST_FIRST: kl.constexpr = False
    SCALED: kl.constexpr = False
    PACK: kl.constexpr = 1
    GUESS: kl.constexpr = True

    @kiln.jit
    def place(self, blocks, heads, turns):
        """The program's head, counted over all batches, and its block of queries. ``turns``: None if heads follow one
        another."""
        if turns is None:
            number, block = kl.program_id(0) // blocks, kl.program_id(0) % blocks
            return number, blocks - 1 - block if self.LAST_FIRST else block
        program = turns.program(blocks * heads)
        together = turns.together
        first = program // (together * blocks) * together
        count = kl.minimum(heads - first, together)
        rest = program % (together * blocks)
        block = rest // count
        return first + rest % count, blocks - 1 - block if self.LAST_FIRST else block

    @kiln.jit
    def rows(self, first, head):
        """The query of each row, and its head: a number, or a tile too."""
        if self.PACK == 1:
            return first + kl.arange(0, self.M), head
        number = kl.arange(0, self.M)
        return first + number % (self.M // self.PACK), head + number // (self.M // self.PACK)

    @kiln.jit
    def start(self, sinks, heads, lean, shares, INSIDE: kl.constexpr):
        """The initial maximum and sum of rows: without any key, or of a sink's logit, which counts in one share."""
        if sinks is None:
            return kl.full((self.M,), LOWEST, INSIDE), kl.zeros((self.M, self.PARTS), INSIDE)
        sink = kl.load(sinks + heads)
        if lean is not None:
            sink = sink.to(INSIDE) + lean
        if shares is not None:
            sink = kl.where(shares.part() == 0, sink, -float("inf"))
        first = kl.where(kl.arange(0, self.PARTS)[None, :] == 0, 1.0, 0.0)
        top = kl.zeros((self.M,), INSIDE) + sink.to(INSIDE) * POWERS_OF_TWO
        top = kl.where(top < LOWEST, LOWEST, top)  # NaN stays
        return top, kl.zeros((self.M, self.PARTS), INSIDE) + first

    @kiln.jit
    def weigh(self, score, top, exponent, ahead):
        """Weights of a block of scores, the correction of the sums before it, and what weights are relative to. That is
        the maximum, or an older one that is at most SLACK below it, so that usually nothing has to be corrected.
        ``ahead``: added to all exponents of the block (None: 0); maxima then grow from block to block."""
        highest = kl.max(score, axis=1) * exponent
        if ahead is None:
            new_top = kl.where(highest > top + SLACK, highest, top)
        else:
            new_top = kl.maximum(top, highest + ahead)
        base = new_top if ahead is None else new_top - ahead
        return exp2_flushed(score * exponent - base[:, None]), exp2_flushed(top - new_top), new_top

    @kiln.jit
    def take(self, score, top, total, sums, exponent, ahead):
        """Weights of a block of scores, with maxima, sums of weights and sums of values that match them. Usually no
        score is far above those before, and weights relative to the maximum so far are good enough."""
        weight = exp2_flushed(score * exponent - top[:, None])
        added = self.row_sums(weight)
        if ahead is not None or not self.GUESS or kl.unlikely(added > MOST):
            weight, correction, top = self.weigh(score, top, exponent, ahead)
            total = total * correction[:, None] + self.row_sums(weight)
            sums *= correction[:, None]
        else:
            total += added
        return weight, top, total, sums

    @kiln.jit
    def row_sums(self, x):
        """Sums of rows in PARTS parts, of every PARTS-th pair of columns: four threads share a row of a product this
        way, and need not exchange in each step."""
        if self.PARTS == 1:
            return kl.sum(x, axis=1)[:, None]
        pairs: kl.constexpr = x.shape[1] // (2 * self.PARTS)
        return kl.sum(kl.sum(x.reshape(x.shape[0], pairs, self.PARTS, 2), axis=3), axis=1)

    @kiln.jit
    def write(self, result: Head, lse, queries: Head, first, rows, heads, top, total, sums, lean):
        """Stores a block's results from ``first`` on, and log-sum-exp of its rows."""
        share = 1.0 / kl.where(total == 0.0, 1.0, total)
        result.store(first, sums * share[:, None])
        if lse is not None:
            # Natural logarithm; a row with no key gives -inf.
            q = queries.array
            of_head = queries.number if self.PACK == 1 else queries.batch * q.heads + heads
            at = of_head * q.tokens + (rows if queries.first is None else queries.first + rows)
            value = (top + kl.log2(total)) * 0.6931471805599453
            kl.store(lse + at, value if lean is None else value - lean, mask=rows < queries.tokens)


@kiln.jit
def attention_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    y: Heads,
    lse,
    scale,
    sinks,
    terms: Terms,
    visible: Visible,
    turns,
    shares,
    PLAN: kl.constexpr,
):
    """y = softmax(terms(q kᵀ · scale)) v over the visible keys; lse = log Σ exp, including the sink."""
    M: kl.constexpr = PLAN.M
    TOKENS: kl.constexpr = PLAN.M // PLAN.PACK
    tiles = q.heads if PLAN.PACK == 1 else q.heads // PLAN.PACK
    blocks = kl.cdiv(q.longest, TOKENS)
    number, block = PLAN.place(blocks, q.batches * tiles, turns)
    batch, head = number // tiles, number % tiles if PLAN.PACK == 1 else number % tiles * PLAN.PACK
    k_head = head // (q.heads // k.heads)
    first = block * TOKENS
    kl.assume(first >= 0)  # the copy engine cannot store a block that begins before its array
    queries = q.head(number, batch, head, M, PLAN.SIZE, PLAN.PACK)
    result = y.head(number, batch, head, M, PLAN.V_SIZE, PLAN.PACK)
    keys = k.head(number, batch, k_head, PLAN.N, PLAN.SIZE)
    values = v.head(number, batch, k_head, PLAN.N, PLAN.V_SIZE)
    # Functions often lower scores by the distance: then the first step has the greatest, and others guess right.
    NEAREST: kl.constexpr = terms.MOD is not None
    walk = visible.walk(batch, head, first, queries.tokens, keys.tokens, TOKENS, PLAN.N, NEAREST)
    if shares is not None:
        walk, count = shares.of(walk)
    rows, heads = PLAN.rows(first, head)
    of_row = heads if PLAN.PACK == 1 else heads[:, None]
    slope = terms.slope(batch, of_row)
    exponent = POWERS_OF_TWO if PLAN.SCALED else scale
    query = queries.load(first)
    INSIDE: kl.constexpr = kl.float64 if q.data.dtype.element_ty == kl.float64 else kl.float32
    # Causal slopes count distances from the block's first query, so that near keys keep their digits; the sinks and
    # log-sum-exp account for the part that rows leave out.
    tilt = terms.tilt(slope, PLAN.N)
    origin = first + keys.tokens - queries.tokens
    lean = None if tilt is None else slope * (rows - first).to(kl.float32)
    top, total = PLAN.start(sinks, heads, lean, shares, INSIDE)
    sums = kl.zeros((M, PLAN.V_SIZE), INSIDE)
    if k.step is not None:
        key = keys.load(walk.key(walk.begin))
    for step in range(walk.begin, walk.end, walk.STEP):
        start = walk.key(step)
        if k.step is None:
            key = keys.load(start)
        score = kl.dot(query, key.T)
        value = values.load(start)
        if k.step is not None:
            # No producer fetches ahead: the next step's keys are in flight during what follows.
            key = keys.load(walk.key(step + walk.STEP))
        at = At(batch, of_row, rows[:, None], start + kl.arange(0, PLAN.N)[None, :], queries.tokens, keys.tokens)
        masks = walk.masks(step)
        if PLAN.SCALED:
            score = terms.of(score, scale, slope, at, masks, tilt)
        if masks:
            score = visible.of(score, at, walk.cuts(start))
        ahead = None if tilt is None else slope * (start - origin).to(kl.float32) * exponent
        weight, top, total, sums = PLAN.take(score, top, total, sums, exponent, ahead)
        sums = kl.dot(weight.to(value.dtype), value, sums)
    total = kl.sum(total, axis=1)
    to = first
    if shares is not None:
        top, total, sums, is_last = shares.hand_in(number * blocks + block, count, top, total, sums)
        # Only the last program writes: outside the sequence nothing is written.
        to = kl.where(is_last, first, queries.tokens)
        kl.assume(to >= 0)
        rows += to - first
    PLAN.write(result, lse, queries, to, rows, heads, top, total, sums, lean)


# ---- the functions that launch it ------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Operand:
    """An array and how `heads_of` should view it."""

    array: Any
    heads_first: bool = False
    starts: Any = None
    longest: int | None = None

    def heads(self, described: bool = True) -> Heads:
        return heads_of(self.array, described, self.heads_first, self.starts, self.longest)


def beside_scores(terms: Terms | None) -> tuple[int, bool]:
    """Bytes read per score, and whether they are read as vectors; otherwise each element needs an address."""
    bias = None if terms is None else terms.bias
    if bias is None or bias.row_stride is None or bias.key_stride is None:
        return 0, True
    steps = (bias.batch_stride or 0, bias.head_stride or 0, bias.row_stride)
    vectors = bias.key_stride == 1 and not any(step % PITCH for step in steps) and not address(bias.data) % PITCH
    return bias.data.itemsize, vectors


def shares_of(tiles: int, plan: AttentionPlan, form: Form, like: Any) -> Shares:
    """Memory for the shares of ``tiles`` blocks of queries."""
    rows = tiles * plan.splits * form.M
    sums, statistics = (empty(Spec((rows * width,), inside(like)), like) for width in (form.V_SIZE, 2))
    return Shares(sums, statistics, zeros(tiles, like), plan.splits)


# Tiles that took more than a processor has, with what their code depends on.
_TOO_MUCH: set[Any] = set()


def launch(
    operands: tuple[Operand, ...],
    lse: Any,
    scale: float | None,
    plan: AttentionPlan | None = None,
    sinks: Any = None,
    terms: Terms | None = None,
    visible: Visible | None = None,
    side: int = 0,
) -> None:
    """Launches the kernel for matching q, k, v and y. ``side``: the side of a mask's blocks, which tiles divide."""
    q, k, v, y = arrays = tuple(x.heads() for x in operands)
    visible = visible or Visible()
    machine, causal = machine_of(q.data), visible.CAUSAL
    scale = 1 / math.sqrt(q.size) if scale is None else scale
    sizes = tile_side(q.size), tile_side(v.size)
    # Queries that results overwrite are not fetched ahead.
    fetched = y.data is not q.data and all(map(is_fetched, arrays))
    tokens = q.longest, k.longest if visible.left is None else min(k.longest, q.longest + visible.left)
    if plan is None:
        beside, fits = beside_scores(terms)
        # Heads that share keys and see the same of them can be rows of one tile.
        group = q.heads // k.heads if q.starts is None and visible.blocks is None else 1

        def planned(ahead: bool, widest: int = 128, turns: bool = True) -> AttentionPlan:
            shape = *tokens, sizes, q.data.itemsize
            kind = "some" if terms is not None or visible.right is not None else ""
            sloped = terms is not None and terms.slopes is not None
            if sloped and causal:
                kind = "tilt"
            elif terms is not None and terms.softcap is not None:
                kind = "capped"
            elif sloped:
                kind = "sloped"
            known = kind, q.batches * q.heads, q.heads // k.heads, visible.left, widest, turns, q.starts is not None
            return prefill_plan(*shape, ahead, causal or side > 0, machine, side, beside, group, *known)

        # A plan knows little of what terms and masks need: together they may exceed a processor's resources. Then steps
        # without a guess may do, groups without turns, steps of fewer keys, or fewer groups, whose threads have more
        # registers.
        seen = causal, visible.left is None, visible.right is None, visible.blocks is None, visible.MOD
        bent = None if terms is None else (terms.softcap is None, terms.slopes is None, terms.MOD)
        about = machine, sizes, q.data.itemsize, q.starts is None, sinks is None, lse is None, seen, bent, beside
        tries = ((128, True, True), (128, True, False), (128, False, False), (96, False, False), (0, False, False))
        for widest, turns, guess in tries:
            plan = planned(fetched and fits, widest, turns)
            plan = dataclasses.replace(plan, guess=plan.guess and guess)
            if plan.schedule != "attention":
                break
            tile = about, plan.m, plan.n, plan.consumers, plan.splits > 1, plan.in_turn, plan.guess
            if tile in _TOO_MUCH:
                continue
            try:
                return launch(operands, lse, scale, plan, sinks, terms, visible, side)
            except ResourceError:
                _TOO_MUCH.add(tile)
        else:
            plan = planned(False)
    if (q.heads // k.heads) % plan.pack or plan.m % plan.pack or (plan.pack > 1 and (visible.blocks or q.starts)):
        raise ArgumentError("plan", f"expected heads that share keys in one tile, got pack={plan.pack}")
    if side and (side % plan.m or side % plan.n):
        raise ArgumentError("plan", f"expected tiles that divide blocks of {side}, got {plan.m} by {plan.n}")
    if plan.splits < 1 or (plan.splits > 1 and (visible.blocks is not None or q.starts is not None)):
        several = ", or several without a block mask and concatenated sequences"
        raise ArgumentError("plan", f"expected splits=1{several}, got {plan.splits}")
    if machine.gpu and plan.schedule != "attention":
        q, k, v, y = (x.heads(described=False) for x in operands)
    # The greatest product has the greatest score, unless terms are applied, or the scale is negative or zero.
    scaled = terms is not None or not scale > 0
    # Most block masks are nearly causal.
    form = Form(plan.m, plan.n, *sizes, plan.parts, causal or visible.blocks is not None, scaled, plan.pack, plan.guess)
    tiles = kiln.cdiv(q.longest, plan.m // plan.pack) * q.batches * (q.heads // plan.pack)
    attention_kernel[(tiles, plan.splits) if plan.splits > 1 else (tiles,)](
        q,
        k,
        v,
        y,
        lse,
        scale if scaled else scale * LOG2_E,
        sinks,
        Terms() if terms is None else terms._replace(CAUSAL=causal),
        visible,
        Turns(plan.together, plan.around or None) if plan.together > 1 or plan.around else None,
        shares_of(tiles, plan, form, q.data) if plan.splits > 1 else None,
        PLAN=form,
        **plan.options(machine),
    )


# ---- checks ----------------------------------------------------------------------------------------------------------
def check_heads(q: Any, k: Any, v: Any, heads_at: int) -> None:
    """Checks that all forms of attention make of q, k and v; ``heads_at``: the dimension that counts heads."""
    if k.shape[-1] != q.shape[-1]:
        raise ArgumentError(
            "k", f"expected heads of {q.shape[-1]} elements (because q has them), got shape {tuple(k.shape)}"
        )
    if tuple(v.shape[:-1]) != tuple(k.shape[:-1]):
        raise ArgumentError(
            "v",
            f"expected a value for each key of k, of shape {tuple(k.shape[:-1])} and a size, got shape "
            f"{tuple(v.shape)}",
        )
    if q.shape[-1] == 0 or v.shape[-1] == 0:
        raise ArgumentError("q", f"expected heads of at least one element, got shape {tuple(q.shape)}")
    heads, k_heads = q.shape[heads_at], k.shape[heads_at]
    if k_heads == 0 or heads % k_heads:
        raise ArgumentError(
            "k", f"expected a number of heads that divides q's {heads} (grouped queries), got {k_heads}"
        )


def check_sinks(sinks: Any, heads: int) -> None:
    if sinks is not None:
        if tuple(sinks.shape) != (heads,):
            raise ArgumentError("sinks", f"expected shape ({heads},) (one per head of q), got {tuple(sinks.shape)}")
        check_contiguous(sinks=sinks)


def terms_of(shape: tuple[int, int, int, int], softcap: float, slopes: Any, bias: Any) -> Terms | None:
    """``shape``: (batch, heads, queries, keys)."""
    if not 0 <= softcap < math.inf:
        raise ArgumentError("softcap", f"expected a positive finite number, or 0 for none, got {softcap}")
    stride, view = None, None
    if slopes is not None:
        if tuple(slopes.shape) not in (shape[1:2], shape[:2]):
            raise ArgumentError(
                "alibi_slopes", f"expected shape {shape[1:2]} or {shape[:2]}, got {tuple(slopes.shape)}"
            )
        check_contiguous(alibi_slopes=slopes)
        stride = shape[1] if len(slopes.shape) == 2 else 0
    if bias is not None:
        if any(side not in (1, whole) for side, whole in zip(bias.shape, shape, strict=True)):
            raise ArgumentError("bias", f"expected shape {shape}, or 1 for some of it, got {tuple(bias.shape)}")
        view = Bias.of(bias)
    if softcap == 0 and slopes is None and bias is None:
        return None
    return Terms(softcap or None, slopes, stride, view)


def visible_of(causal: bool, window: Any) -> Visible:
    if window is None:
        return Visible(CAUSAL=bool(causal))
    pair = tuple(window) if hasattr(window, "__iter__") else ()
    if len(pair) != 2 or not all(map(is_integer, pair)):
        raise ArgumentError("window", f"expected a pair (left, right) of numbers of tokens, got {window!r}")
    left, right = map(int, pair)
    if min(left, right) < -1:
        raise ArgumentError("window", f"expected numbers of tokens, -1 for all there are, got {window!r}")
    causal = bool(causal) or right == 0
    # Keeps sums of positions within 32 bits: no sequence is longer.
    left, right = (None if n == -1 else min(n, 1 << 29) for n in (left, right))
    return Visible(left, None if causal else right, CAUSAL=causal)


# ---- the functions ---------------------------------------------------------------------------------------------------
def inside(x: Any) -> str:
    """The type of sums."""
    return "float64" if x.itemsize == 8 else "float32"


def _specs(q: Any, k: Any, v: Any, *, return_lse: bool = False, **_: Any) -> tuple[Spec, ...]:
    y = Spec((*q.shape[:3], v.shape[3]), q.dtype)
    return (y, Spec((q.shape[0], q.shape[2], q.shape[1]), inside(q))) if return_lse else (y,)


@operator(
    outputs=_specs,
    arrays={
        "q": "(batch, queries, heads, size)",
        "k": "(batch, tokens, kv_heads, size)",
        "v": "(batch, tokens, kv_heads, v_size)",
        "sinks": "(heads)",
        "alibi_slopes": "(heads) or (batch, heads)",
        "bias": "(batch, heads, queries, tokens)",
        "out": "(batch, queries, heads, v_size)",
    },
    types=with_float64(q=FLOATS, k="q", v="q", sinks=FLOATS, alibi_slopes=("float32",), bias=FLOATS, out=FLOATS),
    repeatable=True,
    gradient="kiln.kernels.attention.backward_torch:attention",
)
def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
    alibi_slopes: Any = None,
    bias: Any = None,
    return_lse: bool = False,
    deterministic: bool = True,
    plan: AttentionPlan | None = None,
    out: Any = None,
) -> Any:
    """``softmax(q kᵀ · scale) v`` for (batch, tokens, heads, size) arrays; with ``return_lse`` also log-sum-exp.

    The last query is aligned with the last key: ``causal`` shows query i the keys up to ``i + tokens - queries``, and
    ``window=(left, right)`` those from ``left`` before that position to ``right`` after it (-1: all). ``softcap`` c
    turns scores into c · tanh(score / c); then ``bias`` is added (sides of 1 are broadcast), and ``alibi_slopes`` times
    the distance of query and key is subtracted. ``sinks`` are logits, one per head, of an extra key without a value.

    Log-sum-exp is float32 of shape (batch, heads, tokens) and includes the sink. A query that sees no key gives zeros
    and -inf. Scores and sums are float32 (float64 for float64 arrays, except scale, softcap and slopes); weights are
    rounded to V's type before the second product, as tensor cores require; results are rounded once. ``plan`` replaces
    the one chosen from the shape.

    torch differentiates it by q, k, v, bias and sinks (`attention_backward`). ``deterministic``: two runs give the same
    bits of gradients; without it they may be faster.
    """
    batch, queries, heads, _ = q.shape
    if k.shape[0] != batch:
        raise ArgumentError("k", f"expected {batch} sequences (because q has them), got shape {tuple(k.shape)}")
    check_heads(q, k, v, 2)
    check_sinks(sinks, heads)
    terms = terms_of((batch, heads, queries, k.shape[1]), softcap, alibi_slopes, bias)
    visible = visible_of(causal, window)
    inputs = {"q": q, "k": k, "v": v, "sinks": sinks, "alibi_slopes": alibi_slopes, "bias": bias}
    out = output(out, Spec((*q.shape[:3], v.shape[3]), q.dtype), q, "out", inputs, ("q",))
    lse = empty(Spec((batch, heads, queries), inside(q)), q) if return_lse else None
    if 0 not in q.shape:
        launch(tuple(map(Operand, (q, k, v, out))), lse, softmax_scale, plan, sinks, terms, visible)
    return (out, lse) if return_lse else out


def _ragged_specs(q: Any, k: Any, v: Any, *_: Any, return_lse: bool = False, **__: Any) -> tuple[Spec, ...]:
    y = Spec((*q.shape[:2], v.shape[2]), q.dtype)
    return (y, Spec((q.shape[1], q.shape[0]), inside(q))) if return_lse else (y,)


@operator(
    outputs=_ragged_specs,
    repeatable=True,
    gradient="kiln.kernels.attention.backward_torch:attention_varlen",
    arrays={
        "q": "(total_q, heads, size)",
        "k": "(total_k, kv_heads, size)",
        "v": "(total_k, kv_heads, v_size)",
        "cu_seqlens_q": "(batch + 1)",
        "cu_seqlens_k": "(batch + 1)",
        "sinks": "(heads)",
        "alibi_slopes": "(heads) or (batch, heads)",
        "out": "(total_q, heads, v_size)",
    },
    types=with_float64(
        q=FLOATS,
        k="q",
        v="q",
        cu_seqlens_q=("int32", "int64"),
        cu_seqlens_k="cu_seqlens_q",
        sinks=FLOATS,
        alibi_slopes=("float32",),
        out=FLOATS,
    ),
)
def attention_varlen(
    q: Any,
    k: Any,
    v: Any,
    cu_seqlens_q: Any,
    cu_seqlens_k: Any,
    max_seqlen_q: int,
    max_seqlen_k: int,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
    alibi_slopes: Any = None,
    return_lse: bool = False,
    deterministic: bool = True,
    plan: AttentionPlan | None = None,
    out: Any = None,
) -> Any:
    """``attention`` for concatenated sequences: sequence i has the queries from ``cu_seqlens_q[i]`` to ``cu_seqlens_q[i
    + 1]``, and keys likewise.

    The kernel reads these from memory, so other lengths compile nothing, as long as none exceeds ``max_seqlen_q`` and
    ``max_seqlen_k``. A sequence that does, or that lies outside the arrays, stops the kernel on the CPU; on a GPU this
    is not checked. Nothing after a sequence is read into it. Log-sum-exp has the shape (heads, total_q); rows that
    belong to no sequence are not written. torch differentiates it by q, k, v and sinks (`attention_varlen_backward`).
    """
    for name, array, most in (("q", cu_seqlens_q, max_seqlen_q), ("k", cu_seqlens_k, max_seqlen_k)):
        if tuple(array.shape) != tuple(cu_seqlens_q.shape) or array.shape[0] == 0:
            raise ArgumentError(
                f"cu_seqlens_{name}",
                f"expected one number more than there are sequences, in both alike, got shapes "
                f"{tuple(cu_seqlens_q.shape)} and {tuple(cu_seqlens_k.shape)}",
            )
        check_contiguous(**{f"cu_seqlens_{name}": array})
        if most < 0:
            raise ArgumentError(f"max_seqlen_{name}", f"expected a number of tokens, got {most}")
    total, heads, _ = q.shape
    batch = cu_seqlens_q.shape[0] - 1
    check_heads(q, k, v, 1)
    check_sinks(sinks, heads)
    terms = terms_of((batch, heads, total, k.shape[0]), softcap, alibi_slopes, None)
    visible = visible_of(causal, window)
    inputs = {"q": q, "k": k, "v": v, "sinks": sinks, "alibi_slopes": alibi_slopes}
    inputs |= {"cu_seqlens_q": cu_seqlens_q, "cu_seqlens_k": cu_seqlens_k}
    out = output(out, Spec((total, heads, v.shape[2]), q.dtype), q, "out", inputs, ("q",))
    lse = empty(Spec((heads, total), inside(q)), q) if return_lse else None
    if 0 not in q.shape and batch and max_seqlen_q:
        queries, keys = (False, cu_seqlens_q, max_seqlen_q), (False, cu_seqlens_k, max_seqlen_k)
        pairs = (q, queries), (k, keys), (v, keys), (out, queries)
        launch(tuple(Operand(x, *at) for x, at in pairs), lse, softmax_scale, plan, sinks, terms, visible)
    return (out, lse) if return_lse else out
