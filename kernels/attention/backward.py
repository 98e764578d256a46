"""Flash attention, backward: gradients of q, k and v, with weights recomputed block by block from log-sum-exp.

    S = q kᵀ,  P = exp2(S · scale - lse),  dP = dout vᵀ,  dS = P ∘ (dP - delta),  delta = row sums of dout ∘ out
    dv = Pᵀ dout,  dk = dSᵀ q · scale,  dq = dS k · scale

A first kernel stores what each row of queries needs of log-sum-exp and delta. Then a block of keys walks the queries of
all heads that share it, in order, with scores transposed: rows are keys, so that P and dS are already the left operands
that dv and dk need. dq is summed either by a third kernel, in which a block of queries walks the keys, at the cost of
two products of seven; or along with dk, where each step adds its part to memory (by the copy engine where there is
one): blocks of keys in turns, or in an order, and so with last bits, that differ from run to run.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError, ResourceError
from kiln.kernels.attention.backward_configs import BackwardPlan, backward_plan
from kiln.kernels.attention.backward_sums import Parts, round_kernel
from kiln.kernels.attention.kernel import Operand, Turns, beside_scores, check_heads, check_sinks, terms_of, visible_of
from kiln.kernels.attention.operands import Heads, is_fetched
from kiln.kernels.attention.scores import At, Bias, Terms, Visible
from kiln.kernels.fast import exp2_flushed
from kiln.kernels.machine import Machine, machine_of
from kiln.kernels.operator import (
    FLOATS,
    INSIDE,
    Spec,
    check_contiguous,
    empty,
    operator,
    output,
    strides,
    tile_side,
    with_float64,
)

LOG2_E: kl.constexpr = kl.constexpr(1.4426950408889634)


@kiln.struct
class Form:
    """M queries and N keys per step; heads of SIZE elements, values of V_SIZE. SCALED: scores are scaled separately
    rather than in the exponent, because terms are applied to them."""

    M: kl.constexpr
    N: kl.constexpr
    SIZE: kl.constexpr
    V_SIZE: kl.constexpr
    SCALED: kl.constexpr = False


@kiln.struct
class Rows:
    """Log-sum-exp to base 2, and delta, of the queries of all heads: ``data`` is (count, padded), with the former in
    the first half of its rows and the latter in the second. A row without a key, or beyond the last, has a log-sum-exp
    of +inf: its weights are exp2(-inf) = 0 in every block."""

    data: Any
    count: Any
    padded: Any


@kiln.jit
def program_place(blocks, heads, turns: Turns):
    """The program's head, counted over all batches, and its block of tokens."""
    program = turns.program(blocks * heads)
    together = turns.together
    first = program // (together * blocks) * together
    count = kl.minimum(heads - first, together)
    rest = program % (together * blocks)
    return first + rest % count, rest // count


@kiln.jit
def weights_of(score, sums, scale, terms: Terms, slope, at, FORM: kl.constexpr):
    """Weights, and the derivative of the terms by the score (None: 1)."""
    if not FORM.SCALED:
        return exp2_flushed(score * scale - sums), None
    score, bend = terms.bent(score, scale, slope, at)
    return exp2_flushed(score * LOG2_E - sums), bend


@kiln.jit
def score_gradients(weight, dweight, delta, bend):
    dscore = weight * (dweight - delta)
    return dscore if bend is None else dscore * bend


# ---- what a row of queries needs -------------------------------------------------------------------------------------
@kiln.jit
def rows_kernel(
    out: Heads,
    dout: Heads,
    lse,
    lse_batch,
    lse_head,
    lse_token,
    rows: Rows,
    dq: Parts | None,
    M: kl.constexpr,
    V_SIZE: kl.constexpr,
):
    """Fills ``rows``, and ``dq`` with zeros for the kernel that adds to it."""
    number = kl.program_id(1)
    batch, head = number // dout.heads, number % dout.heads
    first = kl.program_id(0) * M
    token = first + kl.arange(0, M)
    results, gradients = out.head(number, batch, head, M, V_SIZE), dout.head(number, batch, head, M, V_SIZE)
    INSIDE: kl.constexpr = rows.data.dtype.element_ty
    delta = kl.sum(results.load(first).to(INSIDE) * gradients.load(first).to(INSIDE), axis=1)
    at = lse + head * lse_head
    if results.first is None:
        at += batch.to(kl.int64) * lse_batch + token * lse_token
    else:
        at += (results.first + token) * lse_token
    sums = kl.load(at, mask=token < results.tokens, other=-float("inf")) * LOG2_E
    # Where sums overflowed, weights are NaN.
    sums = kl.where(sums == float("inf"), float("nan"), kl.where(sums == -float("inf"), float("inf"), sums))
    row = number.to(kl.int64) * rows.padded + token
    kl.store(rows.data + row, sums, mask=token < rows.padded)
    kl.store(rows.data + (rows.count // 2).to(kl.int64) * rows.padded + row, delta, mask=token < rows.padded)
    if dq is not None:
        dq.clear(number, first, M)


# ---- dk and dv -------------------------------------------------------------------------------------------------------
@kiln.jit
def queries_that_see(visible: Visible, first, tokens, k_tokens, FORM: kl.constexpr):
    """For the N keys from ``first`` on: the queries from begin to end see some of them; those from common to rare see
    all, so nothing is masked."""
    # Query i sees the keys from i - back to i + ahead.
    ahead = k_tokens - tokens
    begin, common = 0, 0
    end = tokens
    rare = tokens
    if visible.CAUSAL or visible.right is not None:
        if visible.right is not None:
            ahead += visible.right
        begin = kl.minimum(kl.maximum(first - ahead, 0), tokens) // FORM.M * FORM.M
        common = kl.cdiv(kl.maximum(first + FORM.N - 1 - ahead, 0), FORM.M) * FORM.M
        common = kl.maximum(kl.minimum(common, kl.cdiv(tokens, FORM.M) * FORM.M), begin)
    if visible.left is not None:
        back = visible.left - (k_tokens - tokens)
        end = kl.minimum(kl.maximum(first + FORM.N + back, 0), tokens)
        rare = kl.maximum(kl.minimum(first + back + 1, tokens), 0) // FORM.M * FORM.M
        common = kl.maximum(kl.minimum(common, kl.cdiv(end, FORM.M) * FORM.M), begin)
        rare = kl.maximum(rare, common)
    return begin, common, rare, end


@kiln.struct
class Queries:
    """The queries of one head, as a block of keys that begins at ``first`` walks them; ``rows`` in blocks. Sums of dq
    are in ``blocks`` of ``dq``."""

    queries: Any
    gradients: Any
    rows: Any
    number: Any
    heads: Any
    slope: Any
    first: Any
    key: Any
    value: Any
    tokens: Any
    dq: Any
    blocks: Any

    @kiln.jit
    def turn(self, start, visible: Visible, FORM: kl.constexpr):
        """How many blocks of keys add to dq of the queries from ``start`` on before this one: those of later keys."""
        last = self.tokens - 1
        if visible.CAUSAL or visible.right is not None:
            seen = start + FORM.M - 1 + self.tokens - self.queries.tokens
            last = kl.minimum(last, seen if visible.right is None else seen + visible.right)
        return last // FORM.N - self.first // FORM.N

    @kiln.jit
    def step(self, start, dkey, dvalue, scale, terms: Terms, visible: Visible, masks, FORM: kl.constexpr):
        """Adds the contribution of the queries from ``start`` on to dk and dv (and that of the keys to dq, in
        memory)."""
        query = self.queries.load(start)
        sums = self.rows.load([self.number, start]).reshape(FORM.M)
        score = kl.dot(self.key, query.T)
        gradient = self.gradients.load(start)
        delta = self.rows.load([self.heads + self.number, start]).reshape(FORM.M)
        dweight = kl.dot(self.value, gradient.T)
        row, column = start + kl.arange(0, FORM.M), self.first + kl.arange(0, FORM.N)
        head = self.queries
        at = At(head.batch, head.head, row[None, :], column[:, None], head.tokens, self.tokens)
        weight, bend = weights_of(score, sums[None, :], scale, terms, self.slope, at, FORM)
        if masks:
            weight = kl.where(visible.mask(at), weight, 0.0)
        dvalue = kl.dot(weight.to(gradient.dtype), gradient, dvalue)
        dscore = score_gradients(weight, dweight, delta[None, :], bend).to(query.dtype)
        if self.dq is not None:
            # Before dk's product, which runs while this part leaves.
            part = self.dq.product(dscore, self.key)
            dkey = kl.dot(dscore, query, dkey)
            self.dq.add(self.blocks, self.number, start, part, self.turn(start, visible, FORM))
        else:
            dkey = kl.dot(dscore, query, dkey)
        return dkey, dvalue


@kiln.jit
def keys_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    dout: Heads,
    dk: Heads,
    dv: Heads,
    rows: Rows,
    dq,
    scale,
    softmax_scale,
    terms: Terms,
    visible: Visible,
    turns: Turns,
    FORM: kl.constexpr,
):
    """dk and dv of N keys of a head, from M queries per step. Loops that mask are short, and their steps need not begin
    under the one before (num_stages=1)."""
    number, block = program_place(kl.cdiv(k.longest, FORM.N), k.batches * k.heads, turns)
    if dq is not None and dq.turns is not None:
        # The last first: each walks from the first queries that see it, and it is its turn when it gets to a block.
        block = kl.cdiv(k.longest, FORM.N) - 1 - block
    batch, k_head = number // k.heads, number % k.heads
    group = q.heads // k.heads
    first = block * FORM.N
    keys = k.head(number, batch, k_head, FORM.N, FORM.SIZE)
    values = v.head(number, batch, k_head, FORM.N, FORM.V_SIZE)
    tokens = q.head(number, batch, k_head, FORM.M, FORM.SIZE).tokens
    begin, common, rare, end = queries_that_see(visible, first, tokens, keys.tokens, FORM)
    row_blocks = kl.make_tensor_descriptor(rows.data, [rows.count, rows.padded], [rows.padded, 1], [1, FORM.M])
    blocks = None if dq is None else dq.blocks()
    key, value = keys.load(first), values.load(first)
    INSIDE: kl.constexpr = rows.data.dtype.element_ty
    dkey = kl.zeros((FORM.N, FORM.SIZE), INSIDE)
    dvalue = kl.zeros((FORM.N, FORM.V_SIZE), INSIDE)
    heads = q.batches * q.heads
    for head in range(k_head * group, k_head * group + group):
        of_all = batch * q.heads + head
        queries = q.head(of_all, batch, head, FORM.M, FORM.SIZE)
        gradients = dout.head(of_all, batch, head, FORM.M, FORM.V_SIZE)
        slope = terms.slope(batch, head)
        walked = Queries(
            queries, gradients, row_blocks, of_all, heads, slope, first, key, value, keys.tokens, dq, blocks
        )
        if visible.blocks is not None:
            listed = visible.blocks.walk(batch, head, first, FORM.M)
            for at in range(0, listed.common):
                dkey, dvalue = walked.step(listed.key(at), dkey, dvalue, scale, terms, visible, False, FORM)
            for at in kl.range(listed.common, listed.end, num_stages=1):
                dkey, dvalue = walked.step(listed.key(at), dkey, dvalue, scale, terms, visible, True, FORM)
        else:
            MASKS: kl.constexpr = visible.CAUSAL or visible.right is not None
            # Where dq is made, too, steps of wide heads have a branch instead: as fast, and less to compile.
            BRANCH: kl.constexpr = MASKS and dq is not None and FORM.SIZE > 64
            if MASKS and not BRANCH:
                for start in kl.range(begin, common, FORM.M, num_stages=1):
                    dkey, dvalue = walked.step(start, dkey, dvalue, scale, terms, visible, True, FORM)
            for start in range(begin if BRANCH else common, rare, FORM.M):
                masks = start < common if BRANCH else False
                dkey, dvalue = walked.step(start, dkey, dvalue, scale, terms, visible, masks, FORM)
            if visible.left is not None:
                for start in kl.range(rare, end, FORM.M, num_stages=1):
                    dkey, dvalue = walked.step(start, dkey, dvalue, scale, terms, visible, True, FORM)
    dk.head(number, batch, k_head, FORM.N, FORM.SIZE).store(first, dkey * softmax_scale)
    dv.head(number, batch, k_head, FORM.N, FORM.V_SIZE).store(first, dvalue)


# ---- dq --------------------------------------------------------------------------------------------------------------
@kiln.jit
def keys_that_are_seen(visible: Visible, first, q_tokens, k_tokens, FORM: kl.constexpr):
    """For the M queries from ``first`` on: some see the keys from begin to end; all see those from full to common."""
    shift = k_tokens - q_tokens
    begin, full = 0, 0
    common = k_tokens
    end = k_tokens
    if visible.CAUSAL or visible.right is not None:
        ahead = shift if visible.right is None else shift + visible.right
        end = kl.maximum(kl.minimum(k_tokens, first + FORM.M + ahead), 0)
        common = kl.minimum(kl.maximum(first + ahead + 1, 0), k_tokens)
    if visible.left is not None:
        begin = kl.minimum(kl.maximum(first + shift - visible.left, 0), end) // FORM.N * FORM.N
        full = kl.cdiv(kl.maximum(first + FORM.M - 1 + shift - visible.left, 0), FORM.N) * FORM.N
        full = kl.maximum(kl.minimum(full, kl.cdiv(end, FORM.N) * FORM.N), begin)
    common = kl.maximum(common // FORM.N * FORM.N, full)
    return begin, full, common, end


@kiln.struct
class Keys:
    """The keys and values of one head, as a block of its queries walks them; log-sum-exp and delta come from
    ``rows``."""

    keys: Any
    values: Any
    sums: Any
    delta: Any
    slope: Any
    queries: Any
    rows: Any
    query: Any
    gradient: Any

    @kiln.jit
    def step(self, start, dquery, scale, terms: Terms, visible: Visible, MASKED: kl.constexpr, FORM: kl.constexpr):
        """Adds the contribution of the keys from ``start`` on to dq of the queries."""
        key = self.keys.load(start)
        score = kl.dot(self.query, key.T)
        value = self.values.load(start)
        dweight = kl.dot(self.gradient, value.T)
        column, own = start + kl.arange(0, FORM.N), self.queries
        at = At(own.batch, own.head, self.rows[:, None], column[None, :], own.tokens, self.keys.tokens)
        weight, bend = weights_of(score, self.sums[:, None], scale, terms, self.slope, at, FORM)
        if MASKED:
            # Weights of queries that do not exist are zero already; of the others, the last sees the last key.
            weight = kl.where(visible.mask(at), weight, 0.0)
        dscore = score_gradients(weight, dweight, self.delta[:, None], bend).to(key.dtype)
        return kl.dot(dscore, key, dquery)


@kiln.jit
def queries_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    dout: Heads,
    dq: Heads,
    rows: Rows,
    scale,
    softmax_scale,
    terms: Terms,
    visible: Visible,
    turns: Turns,
    FORM: kl.constexpr,
):
    """dq of M queries of a head, from N keys per step."""
    number, block = program_place(kl.cdiv(q.longest, FORM.M), q.batches * q.heads, turns)
    if visible.CAUSAL:
        block = kl.cdiv(q.longest, FORM.M) - 1 - block  # the longest first
    batch, head = number // q.heads, number % q.heads
    k_head = head // (q.heads // k.heads)
    first = block * FORM.M
    queries = q.head(number, batch, head, FORM.M, FORM.SIZE)
    gradients = dout.head(number, batch, head, FORM.M, FORM.V_SIZE)
    keys = k.head(number, batch, k_head, FORM.N, FORM.SIZE)
    values = v.head(number, batch, k_head, FORM.N, FORM.V_SIZE)
    tokens = first + kl.arange(0, FORM.M)
    begin, full, common, end = keys_that_are_seen(visible, first, queries.tokens, keys.tokens, FORM)
    row = rows.data + number.to(kl.int64) * rows.padded + tokens
    sums = kl.load(row, mask=tokens < rows.padded, other=float("inf"))
    delta = kl.load(row + (rows.count // 2).to(kl.int64) * rows.padded, mask=tokens < rows.padded, other=0.0)
    query, gradient = queries.load(first), gradients.load(first)
    walked = Keys(keys, values, sums, delta, terms.slope(batch, head), queries, tokens, query, gradient)
    INSIDE: kl.constexpr = rows.data.dtype.element_ty
    dquery = kl.zeros((FORM.M, FORM.SIZE), INSIDE)
    if visible.blocks is not None:
        listed = visible.blocks.walk(batch, head, first, FORM.N)
        for at in range(0, listed.common):
            dquery = walked.step(listed.key(at), dquery, scale, terms, visible, False, FORM)
        for at in range(listed.common, listed.end):
            dquery = walked.step(listed.key(at), dquery, scale, terms, visible, True, FORM)
    else:
        if visible.left is not None:
            for start in range(begin, full, FORM.N):
                dquery = walked.step(start, dquery, scale, terms, visible, True, FORM)
        for start in range(full, common, FORM.N):
            dquery = walked.step(start, dquery, scale, terms, visible, False, FORM)
        for start in range(common, end, FORM.N):
            dquery = walked.step(start, dquery, scale, terms, visible, True, FORM)
    dq.head(number, batch, head, FORM.M, FORM.SIZE).store(first, dquery * softmax_scale)


# ---- the bias and the sinks ------------------------------------------------------------------------------------------
@kiln.jit
def bias_kernel(
    q: Heads,
    k: Heads,
    v: Heads,
    dout: Heads,
    dbias: Bias,
    rows: Rows,
    scale,
    terms: Terms,
    visible: Visible,
    FORM: kl.constexpr,
):
    """A tile of the bias's gradient: the sum over all scores that it was added to, in the order of batches, heads,
    queries and keys."""
    key_tiles = 1 if dbias.key_stride is None else kl.cdiv(k.tokens, FORM.N)
    own_row, own_key = kl.program_id(0) // key_tiles, kl.program_id(0) % key_tiles
    own_batch, own_head = kl.program_id(2), kl.program_id(1)
    INSIDE: kl.constexpr = rows.data.dtype.element_ty
    total = kl.zeros((FORM.M, FORM.N), INSIDE)
    batches = q.batches if dbias.batch_stride is None else 1
    heads = q.heads if dbias.head_stride is None else 1
    row_steps = kl.cdiv(q.tokens, FORM.M) if dbias.row_stride is None else 1
    key_steps = kl.cdiv(k.tokens, FORM.N) if dbias.key_stride is None else 1
    for number in range(0, batches * heads):
        batch, head = own_batch + number // heads, own_head + number % heads
        k_head = head // (q.heads // k.heads)
        of_all = batch * q.heads + head
        queries = q.head(of_all, batch, head, FORM.M, FORM.SIZE)
        gradients = dout.head(of_all, batch, head, FORM.M, FORM.V_SIZE)
        keys = k.head(of_all, batch, k_head, FORM.N, FORM.SIZE)
        values = v.head(of_all, batch, k_head, FORM.N, FORM.V_SIZE)
        slope = terms.slope(batch, head)
        for row_step in range(0, row_steps):
            first = (own_row + row_step) * FORM.M
            query, gradient = queries.load(first), gradients.load(first)
            tokens = first + kl.arange(0, FORM.M)
            row = rows.data + of_all.to(kl.int64) * rows.padded + tokens
            sums = kl.load(row, mask=tokens < rows.padded, other=float("inf"))
            delta = kl.load(row + (rows.count // 2).to(kl.int64) * rows.padded, mask=tokens < rows.padded, other=0.0)
            for key_step in range(0, key_steps):
                start = (own_key + key_step) * FORM.N
                column = start + kl.arange(0, FORM.N)
                at = At(batch, head, tokens[:, None], column[None, :], q.tokens, k.tokens)
                score = kl.dot(query, keys.load(start).T)
                dweight = kl.dot(gradient, values.load(start).T)
                weight, _ = weights_of(score, sums[:, None], scale, terms, slope, at, FORM)
                weight = kl.where(visible.mask(at), weight, 0.0)
                total += score_gradients(weight, dweight, delta[:, None], None)
    if dbias.row_stride is None:
        total = kl.sum(total, axis=0)[None, :]
    if dbias.key_stride is None:
        total = kl.sum(total, axis=1)[:, None]
    row, key = own_row * FORM.M + kl.arange(0, FORM.M), own_key * FORM.N + kl.arange(0, FORM.N)
    pointers, there = dbias.place(At(own_batch, own_head, row[:, None], key[None, :], q.tokens, k.tokens))
    pointers += kl.zeros(total.shape, kl.int32)
    kl.store(pointers, total.to(dbias.data.dtype.element_ty), mask=there)


@kiln.jit
def sinks_kernel(sinks, dsinks, rows: Rows, batches, heads, BLOCK: kl.constexpr):
    """A sink has a weight in each row but no value, so its gradient comes only from the normalisation."""
    head = kl.program_id(0)
    INSIDE: kl.constexpr = rows.data.dtype.element_ty
    sink = kl.load(sinks + head).to(INSIDE) * LOG2_E
    total = kl.zeros((BLOCK,), INSIDE)
    for number in range(0, batches):
        row = rows.data + (number * heads + head).to(kl.int64) * rows.padded
        for first in range(0, rows.padded, BLOCK):
            token = first + kl.arange(0, BLOCK)
            sums = kl.load(row + token, mask=token < rows.padded, other=float("inf"))
            place = row + (rows.count // 2).to(kl.int64) * rows.padded + token
            delta = kl.load(place, mask=token < rows.padded, other=0.0)
            total -= exp2_flushed(sink - sums) * delta
    kl.store(dsinks + head, kl.sum(total, axis=0).to(dsinks.dtype.element_ty))


# ---- the functions ---------------------------------------------------------------------------------------------------
@dataclass(frozen=True)
class Beside:
    """Gradients requested in addition to those of q, k and v: of a bias, and of sinks."""

    dbias: Any = None
    sinks: Any = None
    dsinks: Any = None

    def launch(
        self,
        factors: list[Heads],
        rows: Rows,
        scale: float,
        terms: Terms,
        visible: Visible,
        form: Form,
        settings: dict[str, Any],
    ) -> None:
        """Launches the kernels for what is requested; ``factors``: q, k, v and dout."""
        q, k = factors[:2]
        if self.dsinks is not None and q.heads:
            sinks_kernel[(q.heads,)](self.sinks, self.dsinks, rows, q.batches, q.heads, BLOCK=256, **settings)
        if self.dbias is not None and 0 not in self.dbias.shape:
            view = Bias.of(self.dbias)
            row_tiles = 1 if view.row_stride is None else kiln.cdiv(q.tokens, form.M)
            key_tiles = 1 if view.key_stride is None else kiln.cdiv(k.tokens, form.N)
            grid = row_tiles * key_tiles, self.dbias.shape[1], self.dbias.shape[0]
            bias_kernel[grid](*factors, view, rows, scale, terms, visible, FORM=form, **settings)


# Combinations of a plan and its terms that did not fit.
_TOO_MUCH: set[Any] = set()


@dataclass(frozen=True)
class Backward:
    """One backward pass: ``operands`` are q, k, v, out, dout, dq, dk and dv. ``scale``: None stands for the default by
    head size. ``turned``: ``visible`` by blocks of keys, with the queries that see them; ``side``: the side of those
    blocks, which tiles divide."""

    operands: dict[str, Operand]
    lse: Any
    lse_strides: tuple[int, ...]
    scale: float | None
    deterministic: bool
    terms: Terms | None
    visible: Visible
    beside: Beside | None = None
    turned: Visible | None = None
    side: int = 0

    @functools.cached_property
    def described(self) -> dict[str, Heads]:
        """The operands as the copy engine would read them."""
        return {name: x.heads() for name, x in self.operands.items()}

    def by_threads(self, *names: str) -> list[Heads]:
        """Operands as threads read them."""
        return [self.operands[name].heads(described=False) for name in names]

    @functools.cached_property
    def machine(self) -> Machine:
        return machine_of(self.described["q"].data)

    @functools.cached_property
    def sizes(self) -> tuple[int, int]:
        """Padded sizes of heads and of values."""
        return tile_side(self.described["q"].size), tile_side(self.described["v"].size)

    @functools.cached_property
    def fetched(self) -> bool:
        """Whether the copy engine can fetch all operands."""
        q, k = self.described["q"], self.described["k"]
        streamed = [x for name, x in self.described.items() if name != "out"]
        return min(q.longest, k.longest) > 0 and all(map(is_fetched, streamed))

    @property
    def knows_turns(self) -> bool:
        """Whether a block of keys can tell how many add to dq before it: not from lists of blocks or lengths that
        vary."""
        return self.turned is None and self.described["q"].starts is None

    def launch(self, plan: BackwardPlan | None = None) -> None:
        """Launches the kernels with a plan, by default one that fits."""
        if plan is not None:
            return self.run(plan)
        # A plan knows little of what terms and masks need: together they may take more registers than a thread has.
        visible, terms = self.visible, self.terms or Terms()
        starts = self.described["q"].starts
        seen = visible.CAUSAL, visible.left is None, visible.right is None, visible.MOD, starts is None
        bent = terms.softcap, terms.slopes is None, beside_scores(self.terms), terms.MOD
        for tried in self.scheduled():
            kind = tried, self.sizes, self.machine, seen, bent
            if kind not in _TOO_MUCH:
                try:
                    return self.run(tried)
                except ResourceError:
                    _TOO_MUCH.add(kind)
        return self.run(self.planned(False))

    def scheduled(self) -> Iterator[BackwardPlan]:
        """Plans with a schedule, each of which takes fewer registers than the one before."""
        plan = self.planned(self.fetched)
        if not plan.schedule:
            return
        yield plan
        if plan.rotated:
            yield dataclasses.replace(plan, rotated=False)
        if plan.atomics:
            yield self.planned(True, alone=True)
        yield self.planned(True, alone=True, crowded=True)

    def planned(self, fetched: bool, alone: bool = False, crowded: bool = False) -> BackwardPlan:
        """``alone``: with dq by its own kernel; ``crowded``: in as few registers as there are plans for."""
        q, k = self.described["q"], self.described["k"]
        terms, visible = self.terms, self.visible
        # The derivative of a cap takes as many registers as scores do; a bias is loaded into as many.
        many = terms is not None and (terms.slopes is not None or visible.left is not None)
        bent = terms is not None and (terms.softcap is not None or terms.MOD is not None)
        crowded |= bent or (terms is not None and terms.bias is not None and (many or not beside_scores(terms)[1]))
        plain = terms is None and visible.left is None
        window = visible.left if terms is None and self.turned is None else None
        # Sums in memory were not tried with varying lengths.
        if alone:
            along = None
        elif self.deterministic:
            along = "in turns" if self.knows_turns else None
        else:
            along = "in any order" if q.starts is None else None
        shape = q.longest, k.longest, self.sizes, q.data.itemsize
        heads = q.batches * q.heads
        sharing = q.heads // max(k.heads, 1)
        about = plain, crowded, along, heads, sharing, window
        plan = backward_plan(*shape, fetched, visible.CAUSAL, self.machine, *about)
        if self.turned is not None and plan.rotated:
            # Walking lists of blocks takes registers that 128 queries per step do not have left.
            plan = dataclasses.replace(plan, m=64)
        if max(self.sizes) > 112 and visible.left is not None and visible.right is not None and not plan.atomics:
            # Nor do both ends of a window leave enough for 64 queries with heads of 128, which spill 200 bytes.
            plan = dataclasses.replace(plan, m=min(plan.m, 48))
        return plan

    def run(self, plan: BackwardPlan) -> None:
        """Launches the kernels of a plan, in order."""
        if plan.in_turns and self.deterministic:
            # Programs wait only for earlier ones: in each round they go the same way.
            plan = dataclasses.replace(plan, in_turns=self.knows_turns, around=0)
        if self.side:
            # Sides of blocks are powers of two.
            sides = {name: getattr(plan, name) for name in ("m", "n", "dq_m", "dq_n")}
            sides = {name: min(self.side, 1 << n.bit_length() - 1) for name, n in sides.items()}
            plan = dataclasses.replace(plan, **sides)
        heads = self.described
        if self.machine.gpu and not (self.fetched and plan.schedule):
            heads = dict(zip(self.operands, self.by_threads(*self.operands), strict=True))
        q, k, v = (heads[name] for name in ("q", "k", "v"))
        scale = 1 / math.sqrt(q.size) if self.scale is None else self.scale
        terms = self.terms or Terms()
        # Where terms are applied to scores, scores are scaled first; otherwise the exponent contains the scale.
        scaled = self.terms is not None
        exponent = scale if scaled else scale * LOG2_E.value
        rows, sums = self.scratch(plan)
        if rows.count:
            self.fill(rows, sums, plan)
        factors = [q, k, v, heads["dout"]]
        if k.longest:
            keys_kernel[(kiln.cdiv(k.longest, plan.n) * k.batches * k.heads,)](
                *factors,
                heads["dk"],
                heads["dv"],
                rows,
                sums,
                exponent,
                scale,
                terms,
                self.turned or self.visible,
                Turns(plan.together, plan.around or None),
                FORM=Form(plan.m, plan.n, *self.sizes, scaled),
                **plan.options(self.machine),
            )
        if self.beside is not None:
            arrays, form = self.by_threads("q", "k", "v", "dout"), Form(64, 64, *self.sizes, scaled)
            self.beside.launch(arrays, rows, exponent, terms, self.visible, form, plan.row_options(self.machine))
        number = q.batches * q.heads
        if not q.longest or not number:
            return
        if sums is not None:
            grid = kiln.cdiv(q.longest, plan.m), number
            round_kernel[grid](sums, heads["dq"], scale, **plan.row_options(self.machine))
        else:
            queries_kernel[(kiln.cdiv(q.longest, plan.dq_m) * number,)](
                *factors,
                heads["dq"],
                rows,
                exponent,
                scale,
                terms,
                self.visible,
                Turns(plan.together, plan.dq_around or None),
                FORM=Form(plan.dq_m, plan.dq_n, *self.sizes, scaled),
                **plan.options(self.machine, dq=True),
            )

    def scratch(self, plan: BackwardPlan) -> tuple[Rows, Parts | None]:
        """Memory for what rows of queries need, and for sums of dq if they are made along with dk."""
        q = self.described["q"]
        number, padded = q.batches * q.heads, kiln.cdiv(max(q.longest, 1), plan.m) * plan.m
        inside = "float64" if q.data.itemsize == 8 else "float32"
        rows = Rows(empty(Spec((2 * number, padded), inside), q.data), 2 * number, padded)
        if not plan.atomics or (self.deterministic and not plan.in_turns):
            return rows, None
        size = self.sizes[0]
        place = empty(Spec((number, padded, size), "float32"), q.data)
        turned = plan.parts_turned(size)
        line = 32 if plan.schedule else plan.m if turned else size
        turns = empty(Spec((number * padded // plan.m,), "int32"), q.data) if self.deterministic else None
        return rows, Parts(place, turns, number * padded * size // line, padded, plan.m, size, turned, line)

    def fill(self, rows: Rows, sums: Parts | None, plan: BackwardPlan) -> None:
        rows_kernel[(kiln.cdiv(rows.padded, plan.rows), rows.count // 2)](
            *self.by_threads("out", "dout"),
            self.lse,
            *self.lse_strides,
            rows,
            sums,
            M=plan.rows,
            V_SIZE=self.sizes[1],
            **plan.row_options(self.machine),
        )


def _specs(q: Any, k: Any, v: Any, *_: Any, **options: Any) -> tuple[Spec, ...]:
    also = (options.get(name) for name in ("bias", "sinks") if options.get(f"d{name}"))
    return tuple(Spec(x.shape, x.dtype) for x in (q, k, v, *also))


def _beside(arrays: dict[str, Any], wanted: dict[str, bool]) -> tuple[Beside, tuple[Any, ...]]:
    """What is requested in addition to dq, dk and dv, and its arrays."""
    made: dict[str, Any] = {}
    for name, array in arrays.items():
        if wanted.get(name):
            if array is None:
                raise ArgumentError(f"d{name}", f"expected {name} where its gradient is asked for, got none")
            made[name] = output(None, Spec(array.shape, array.dtype), array)
    return Beside(made.get("bias"), arrays.get("sinks"), made.get("sinks")), tuple(made.values())


def check_results(q: Any, v: Any, out: Any, dout: Any, lse: Any, lse_shape: tuple[int, ...]) -> None:
    """Refuses arrays that cannot be the results of attention of ``q`` and ``v``, in either order of dimensions."""
    shape = (*q.shape[:-1], v.shape[-1])
    for name, array, expected in (("out", out, shape), ("dout", dout, shape), ("lse", lse, lse_shape)):
        if tuple(array.shape) != expected:
            raise ArgumentError(
                name,
                f"expected shape {expected} (because attention of these arguments gives it), got {tuple(array.shape)}",
            )


@operator(
    outputs=_specs,
    arrays={
        "q": "(batch, queries, heads, size)",
        "k": "(batch, tokens, kv_heads, size)",
        "v": "(batch, tokens, kv_heads, v_size)",
        "out": "(batch, queries, heads, v_size)",
        "lse": "(batch, heads, queries)",
        "dout": "(batch, queries, heads, v_size)",
        "sinks": "(heads)",
        "alibi_slopes": "(heads) or (batch, heads)",
        "bias": "(batch, heads, queries, tokens)",
    },
    types=with_float64(
        q=FLOATS, k="q", v="q", out="q", lse=INSIDE, dout="q", sinks=FLOATS, alibi_slopes=("float32",), bias=FLOATS
    ),
)
def attention_backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    dout: Any,
    *,
    causal: bool = False,
    softmax_scale: float | None = None,
    window: tuple[int, int] | None = None,
    softcap: float = 0.0,
    sinks: Any = None,
    alibi_slopes: Any = None,
    bias: Any = None,
    dbias: bool = False,
    dsinks: bool = False,
    deterministic: bool = True,
    plan: BackwardPlan | None = None,
) -> tuple[Any, ...]:
    """Gradients ``(dq, dk, dv)`` of ``attention``, given the gradient ``dout`` of its result; followed by those of
    ``bias`` and ``sinks`` if ``dbias`` and ``dsinks`` request them.

    ``out`` and ``lse`` are the results of ``attention(…, return_lse=True)``, the other arguments those it was given
    (lse includes the sinks: they are needed only for their own gradient). Sums are float32 (for float64 arrays:
    float64); weights and their gradients are rounded to q's type before they are multiplied, as tensor cores require.
    dk and dv are summed over the heads that share keys, in order. A query that sees no key contributes nothing and gets
    zeros.

    The gradient of the bias is summed over everything that shares an element of it, in order, at the cost of two more
    products.

    Two runs give the same bits, unless ``deterministic=False`` allows dq to be summed by atomics where that is faster.
    ``plan`` replaces the one chosen from the shape.
    """
    batch, queries, heads, _ = q.shape
    if k.shape[0] != batch:
        raise ArgumentError("k", f"expected {batch} sequences (because q has them), got shape {tuple(k.shape)}")
    check_heads(q, k, v, 2)
    check_results(q, v, out, dout, lse, (batch, heads, queries))
    check_sinks(sinks, heads)
    terms = terms_of((batch, heads, queries, k.shape[1]), softcap, alibi_slopes, bias)
    visible = visible_of(causal, window)
    results = tuple(output(None, Spec(x.shape, x.dtype), x) for x in (q, k, v))
    beside, others = _beside({"bias": bias, "sinks": sinks}, {"bias": dbias, "sinks": dsinks})
    names = ("q", "k", "v", "out", "dout", "dq", "dk", "dv")
    operands = dict(zip(names, map(Operand, (q, k, v, out, dout, *results)), strict=True))
    Backward(operands, lse, strides(lse), softmax_scale, deterministic, terms, visible, beside).launch(plan)
    return (*results, *others)


@operator(
    outputs=_specs,
    arrays={
        "q": "(total_q, heads, size)",
        "k": "(total_k, kv_heads, size)",
        "v": "(total_k, kv_heads, v_size)",
        "out": "(total_q, heads, v_size)",
        "lse": "(heads, total_q)",
        "dout": "(total_q, heads, v_size)",
        "cu_seqlens_q": "(batch + 1)",
        "cu_seqlens_k": "(batch + 1)",
        "sinks": "(heads)",
        "alibi_slopes": "(heads) or (batch, heads)",
    },
    types=with_float64(
        q=FLOATS,
        k="q",
        v="q",
        out="q",
        lse=INSIDE,
        dout="q",
        cu_seqlens_q=("int32", "int64"),
        cu_seqlens_k="cu_seqlens_q",
        sinks=FLOATS,
        alibi_slopes=("float32",),
    ),
)
def attention_varlen_backward(
    q: Any,
    k: Any,
    v: Any,
    out: Any,
    lse: Any,
    dout: Any,
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
    dsinks: bool = False,
    deterministic: bool = True,
    plan: BackwardPlan | None = None,
) -> tuple[Any, ...]:
    """``attention_backward`` for concatenated sequences, as ``attention_varlen`` takes them.

    Rows of the gradients that belong to no sequence are not written.
    """
    total, heads, _ = q.shape
    batch = cu_seqlens_q.shape[0] - 1
    if tuple(cu_seqlens_k.shape) != tuple(cu_seqlens_q.shape) or batch < 0:
        raise ArgumentError(
            "cu_seqlens_k",
            f"expected one number more than there are sequences, as in cu_seqlens_q, got shapes "
            f"{tuple(cu_seqlens_q.shape)} and {tuple(cu_seqlens_k.shape)}",
        )
    check_contiguous(cu_seqlens_q=cu_seqlens_q, cu_seqlens_k=cu_seqlens_k)
    check_heads(q, k, v, 1)
    check_results(q, v, out, dout, lse, (heads, total))
    check_sinks(sinks, heads)
    terms = terms_of((batch, heads, total, k.shape[0]), softcap, alibi_slopes, None)
    visible = visible_of(causal, window)
    results = tuple(output(None, Spec(x.shape, x.dtype), x) for x in (q, k, v))
    beside, others = _beside({"sinks": sinks}, {"sinks": dsinks})
    if batch:
        of_queries, of_keys = (False, cu_seqlens_q, max_seqlen_q), (False, cu_seqlens_k, max_seqlen_k)
        places = {"q": of_queries, "k": of_keys, "v": of_keys, "out": of_queries, "dout": of_queries}
        places |= {"dq": of_queries, "dk": of_keys, "dv": of_keys}
        arrays = (q, k, v, out, dout, *results)
        operands = {name: Operand(x, *at) for (name, at), x in zip(places.items(), arrays, strict=True)}
        lse_strides = 0, *strides(lse)
        Backward(operands, lse, lse_strides, softmax_scale, deterministic, terms, visible, beside).launch(plan)
    return (*results, *others)
