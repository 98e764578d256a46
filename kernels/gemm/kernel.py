"""Matrix products: one kernel over tiles for tensor cores, FMA and the CPU, and one for a few rows against weights.

    out = epilogue(alpha · row_scale · (a @ b) + beta · c + bias) + residual

The tile kernel is the plain loop `total = dot(a's block, b's block, total)`. The schedule, which the plan names
(configs.py), decides how the blocks arrive, by how many warps, and how many tiles a block works through. Where several
programs sum parts of one tile (`splits` of K, or equal shares of the steps of many tiles: stream-K), the sums meet in a
workspace; the program that is last, or a second launch, adds them in order, so the bits are always the same.
"""

from __future__ import annotations

import functools
from typing import Any

import kiln
import kiln.language as kl
from kiln import knobs
from kiln.errors import ArgumentError, ResourceError
from kiln.kernels.counters import zeros
from kiln.kernels.fast import gelu_narrow, sigmoid_narrow
from kiln.kernels.gemm import configs
from kiln.kernels.gemm.configs import Formula, GemmPlan, Problem
from kiln.kernels.gemm.operands import (
    Along,
    Cut,
    Matrix,
    Terms,
    Vector,
    addressed,
    addressed_terms,
    is_fetched,
    matrix,
    vector,
    view,
)
from kiln.kernels.machine import Machine, machine_of
from kiln.kernels.operator import (
    FLOATS,
    FP8,
    Spec,
    Types,
    address,
    empty,
    listed,
    operator,
    output,
    rows_of,
    strides,
    type_name,
)
from kiln.kernels.views import promise


# ---- blocks of a matrix ----------------------------------------------------------------------------------------------
@kiln.jit
def blocks_of(x: Matrix, ROWS: kl.constexpr, COLUMNS: kl.constexpr):
    """The matrix as blocks of ROWS × COLUMNS, along the dimension that is contiguous in memory (else x itself)."""
    if x.column_stride is None:
        if x.batch_stride is None:
            return kl.make_tensor_descriptor(x.data, [x.rows, x.columns], [x.row_stride, 1], [ROWS, COLUMNS])
        return kl.make_tensor_descriptor(
            x.data, [x.batches, x.rows, x.columns], [x.batch_stride, x.row_stride, 1], [1, ROWS, COLUMNS]
        )
    if x.row_stride is None:
        if x.batch_stride is None:
            return kl.make_tensor_descriptor(x.data, [x.columns, x.rows], [x.column_stride, 1], [COLUMNS, ROWS])
        return kl.make_tensor_descriptor(
            x.data, [x.batches, x.columns, x.rows], [x.batch_stride, x.column_stride, 1], [1, COLUMNS, ROWS]
        )
    return x


@kiln.jit
def elements(x: Matrix, batch, row, column, ROWS: kl.constexpr, COLUMNS: kl.constexpr):
    """Pointers to the elements of a block, and the mask of those inside the matrix."""
    rows, columns = (row + kl.arange(0, ROWS))[:, None], (column + kl.arange(0, COLUMNS))[None, :]
    row_stride = 1 if x.row_stride is None else x.row_stride
    column_stride = 1 if x.column_stride is None else x.column_stride
    start = x.data if x.batch_stride is None else x.data + batch.to(kl.int64) * x.batch_stride
    return start + rows * row_stride + columns * column_stride, (rows < x.rows) & (columns < x.columns)


@kiln.jit
def load(x: Matrix, blocks, batch, row, column, ROWS: kl.constexpr, COLUMNS: kl.constexpr, EVICT: kl.constexpr = ""):
    """The block at (row, column), zero outside the matrix."""
    if x.column_stride is None:
        if x.batch_stride is None:
            return blocks.load([row, column], eviction_policy=EVICT)
        return blocks.load([batch, row, column], eviction_policy=EVICT).reshape(ROWS, COLUMNS)
    if x.row_stride is None:
        if x.batch_stride is None:
            return blocks.load([column, row], eviction_policy=EVICT).T
        return blocks.load([batch, column, row], eviction_policy=EVICT).reshape(COLUMNS, ROWS).T
    pointers, inside = elements(x, batch, row, column, ROWS, COLUMNS)
    return kl.load(pointers, mask=inside, other=0, eviction_policy=EVICT)


@kiln.jit
def load_once(x: Matrix, batch, row, column, ROWS: kl.constexpr, COLUMNS: kl.constexpr):
    return load(x, blocks_of(x, ROWS, COLUMNS), batch, row, column, ROWS, COLUMNS)


@kiln.jit
def store(x: Matrix, batch, row, column, value):
    """Writes a block at (row, column); nothing outside the matrix."""
    ROWS: kl.constexpr = value.shape[0]
    COLUMNS: kl.constexpr = value.shape[1]
    value = value.to(x.data.dtype.element_ty)
    if x.column_stride is None:
        if x.batch_stride is None:
            blocks_of(x, ROWS, COLUMNS).store([row, column], value)
        else:
            blocks_of(x, ROWS, COLUMNS).store([batch, row, column], value.reshape(1, ROWS, COLUMNS))
    else:
        pointers, inside = elements(x, batch, row, column, ROWS, COLUMNS)
        kl.store(pointers, value, mask=inside)


@kiln.jit
def load_vector(x: Vector, first, COUNT: kl.constexpr):
    index = first + kl.arange(0, COUNT)
    return kl.load(x.data + index * x.stride, mask=index < x.length, other=0.0).to(kl.float32)


# ---- epilogues: value → value, in float32; NARROW: for results that are rounded to 16 bits or fewer ------------------
@kiln.jit
def identity(x, NARROW: kl.constexpr):
    return x


@kiln.jit
def sigmoid(x, NARROW: kl.constexpr):
    return sigmoid_narrow(x) if NARROW else kl.sigmoid(x)


@kiln.jit
def gelu(x, NARROW: kl.constexpr):
    """x · Φ(x)."""
    return gelu_narrow(x) if NARROW else 0.5 * x * (1.0 + kl.erf(x * 0.7071067811865476))


@kiln.jit
def gelu_tanh(x, NARROW: kl.constexpr):
    """x/2 · (1 + tanh(√(2/π) · (x + 0.044715 x³))); (1 + tanh(u)) / 2 is sigmoid(2u)."""
    return x * sigmoid(1.5957691216057308 * (x + 0.044715 * x * x * x), NARROW)


@kiln.jit
def silu(x, NARROW: kl.constexpr):
    """x · sigmoid(x)."""
    return x * sigmoid(x, NARROW)


@kiln.jit
def swiglu(x, NARROW: kl.constexpr):
    """silu(gate) · up for columns gate, up, gate, up, …; returns half as many."""
    gate, up = kl.split(x.reshape(x.shape[0], x.shape[1] // 2, 2))
    return silu(gate, NARROW) * up


EPILOGUES = {None: identity, "gelu": gelu, "gelu_tanh": gelu_tanh, "silu": silu, "swiglu": swiglu}


@kiln.jit
def finish(total, batch, row, column, to, terms: Terms, out: Matrix, EPILOGUE: kl.constexpr):
    """out = EPILOGUE(alpha · row_scale · total + beta · c + bias) + residual, for the tile at (row, column); written at
    row ``to``, which may be outside out."""
    M: kl.constexpr = total.shape[0]
    N: kl.constexpr = total.shape[1]
    value = total
    if not out.data.dtype.element_ty.is_int():
        value = value.to(kl.float32)
        if terms.alpha is not None:
            value *= terms.alpha
        if terms.row_scale is not None:
            value *= load_vector(terms.row_scale, row, M)[:, None]
        if terms.c is not None:
            addend = load_once(terms.c, batch, row, column, M, N).to(kl.float32)
            value += addend if terms.beta is None else terms.beta * addend
        if terms.bias is not None:
            value += load_vector(terms.bias, column, N)[None, :]
        value = EPILOGUE(value, out.data.dtype.element_ty.primitive_bitwidth <= 16)
        if value.shape[1] != N:
            column = column // N * value.shape[1]
        if terms.residual is not None:
            value += load_once(terms.residual, batch, row, column, M, value.shape[1]).to(kl.float32)
    store(out, batch, to, column, value)


# ---- kernels ---------------------------------------------------------------------------------------------------------
@kiln.jit
def place(tile, tiles_m, tiles_n, SEVERAL: kl.constexpr, GROUP: kl.constexpr):
    """Which of SEVERAL products (batches, splits) the tile belongs to, and its row and column there: down a group of
    GROUP rows first, then right, so that neighbours share what they read. Without a group there is one row of tiles,
    and no division."""
    product = 0
    if SEVERAL:
        product = tile // (tiles_m * tiles_n)
        tile = tile % (tiles_m * tiles_n)
    if not GROUP:
        return product, 0, tile
    per_group = GROUP * tiles_n
    first = tile // per_group * GROUP
    rows = kl.minimum(tiles_m - first, GROUP)
    return product, first + tile % per_group % rows, tile % per_group // rows


@kiln.jit
def share_of(program, steps, cut: Cut, PLAN: kl.constexpr):
    """Stream-K: the program's tile, its steps from first to last, and its part and the number of parts (0: nothing to
    do).

    The first ``cut.whole`` programs have one tile each. The steps of all other tiles, tile after tile, are cut into one
    equal share per worker. A worker's share is the end of a tile that began in earlier shares (visit 0), then the tiles
    that begin in it, the last of which may end in later shares: one program for each.
    """
    worker, visit = (program - cut.whole) % PLAN.workers, (program - cut.whole) // PLAN.workers
    begin = worker * cut.share
    end = kl.minimum(begin + cut.share, cut.steps)
    tile = kl.cdiv(begin, steps) + visit - 1
    start = tile * steps
    first, last = kl.maximum(begin - start, 0), kl.minimum(end - start, steps)
    # The workers with its first and its last step.
    before = start // cut.share
    parts = kl.where(first < last, (start + steps - 1) // cut.share - before + 1, 0)
    whole = program < cut.whole
    return (
        # A program with nothing to do points at an existing tile and writes nothing.
        kl.where(whole, program, kl.where(parts > 0, cut.whole + tile, 0)),
        kl.where(whole, 0, first),
        kl.where(whole, steps, last),
        kl.where(whole, 0, worker - before),
        kl.where(whole, 1, parts),
        before + tile,
    )


@kiln.jit
def partial(cut: Cut, slot, PLAN: kl.constexpr):
    """Pointers to the partial sums of a slot, in the layout in which tensor cores hold sums if they do, so that each
    thread stores its own. A warp has eight rows of eight columns, a thread pairs of columns (otherwise pairs of rows).

    The constants of each register are added last: LLVM takes quadratic time over addresses that differ in more."""
    rows, columns = kl.arange(0, PLAN.m)[:, None], kl.arange(0, PLAN.n)[None, :]
    start = cut.sums + slot.to(kl.int64) * (PLAN.m * PLAN.n)
    if not PLAN.with_tensor_cores:
        return start + rows * PLAN.n + columns
    if PLAN.m >= 64 or not PLAN.with_roles:
        return start + (rows // 8 * (PLAN.n * 8) + rows % 8 * 8) + columns % 8 + columns // 8 * 64
    return start + (columns // 8 * (PLAN.m * 8) + columns % 8 * 8) + rows % 8 + rows // 8 * 64


@kiln.jit
def hand_in(total, part, parts, slot, cut: Cut, PLAN: kl.constexpr):
    """Hands in one part of a tile, whose slots begin at ``slot``. Returns a sum, and whether it is the sum of all
    parts, which it is for the last program.

    No program waits: each part is written, then counted (the atomic releases what was written and acquires what others
    wrote before they were counted), and the program that counts the last part adds. So no order of programs can block,
    and one block may run any of them after any other. Parts are read back and added in order, whichever program does
    it, so the bits are always the same. The counter is left at zero, as it was found.

    The first part of a share's last tile is usually computed last: if all others have arrived, it stays in registers.
    """
    arrived = cut.arrived + slot
    is_last = False
    if PLAN.workers:
        is_last = part < 0
        if part == 0:
            is_last = kl.atomic_add(arrived, 0, sem="acquire") == parts - 1
    if not is_last:
        kl.store(partial(cut, slot + part, PLAN), total)
        is_last = kl.atomic_add(arrived, 1, sem="acq_rel") == parts - 1
        if is_last:
            total = kl.load(partial(cut, slot, PLAN))
    if is_last:
        kl.store(arrived, 0)
        for i in range(1, parts):
            total += kl.load(partial(cut, slot + i, PLAN))
    return total, is_last


@kiln.jit
def matmul_kernel(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    terms: Terms,
    cut: Cut,
    EPILOGUE: kl.constexpr,
    FORMULA: kl.constexpr,
    PLAN: kl.constexpr,
):
    """out = epilogue(a @ b); with splits that a second launch adds, out receives the product of each part of K."""
    matmul_program(kl.program_id(0), a, b, out, terms, cut, EPILOGUE, FORMULA, PLAN)


@kiln.jit
def matmul_program(
    program,
    a: Matrix,
    b: Matrix,
    out: Matrix,
    terms: Terms,
    cut: Cut,
    EPILOGUE: kl.constexpr,
    FORMULA: kl.constexpr,
    PLAN: kl.constexpr,
):
    tiles_m, tiles_n = kl.cdiv(a.rows, PLAN.m), kl.cdiv(b.columns, PLAN.n)
    tile, first, last = program, 0, a.columns
    if PLAN.workers:
        tile, first, last, part, parts, slot = share_of(program, kl.cdiv(a.columns, PLAN.k), cut, PLAN)
        first, last = first * PLAN.k, kl.minimum(last * PLAN.k, a.columns)
    product, row, column = place(tile, tiles_m, tiles_n, FORMULA.batched or PLAN.splits > 1, PLAN.group)
    row, column, batch = row * PLAN.m, column * PLAN.n, product
    if PLAN.splits > 1:
        batch = product // PLAN.splits
        share = kl.cdiv(kl.cdiv(a.columns, PLAN.k), PLAN.splits) * PLAN.k
        part, parts = product % PLAN.splits, PLAN.splits
        slot = (batch * (tiles_m * tiles_n) + tile % (tiles_m * tiles_n)) * PLAN.splits
        first = part * share
        last = kl.minimum(first + share, a.columns)
    a_blocks, b_blocks = blocks_of(a, PLAN.m, PLAN.k), blocks_of(b, PLAN.k, PLAN.n)
    total = kl.zeros((PLAN.m, PLAN.n), FORMULA.accumulator)
    if PLAN.skew:
        span = kl.cdiv(last - first, PLAN.k) * PLAN.k
        late = tile % kl.maximum(span // PLAN.k // PLAN.skew, 1) * (PLAN.k * PLAN.skew)
    for k in range(first, last, PLAN.k):
        if PLAN.skew:
            k = kl.where(k + late < first + span, k + late, k + late - span)
        left = load(a, a_blocks, batch, row, k, PLAN.m, PLAN.k)
        right = load(b, b_blocks, batch, k, column, PLAN.k, PLAN.n, PLAN.evict)
        total = kl.dot(
            left,
            right,
            total,
            input_precision=FORMULA.precision,
            out_dtype=FORMULA.accumulator,
            max_num_imprecise_acc=FORMULA.promoted,
        )
    to = row
    if PLAN.hands_in:
        total = total.to(cut.sums.dtype.element_ty)
        is_whole = parts == 1
        if parts > 1:
            total, is_whole = hand_in(total, part, parts, slot, cut, PLAN)
        # Outside the result nothing is written. Addends are not read there either, unless a producer fetches them
        # before the sum; what it fetches for a tile that another program writes is never used.
        to = kl.where(is_whole, row, a.rows)
        row = row if PLAN.with_roles else to
    elif PLAN.splits > 1:
        row += product * (tiles_m * PLAN.m)
        to = row
    # The copy engine cannot store a block that begins before its array. The compiler cannot see that multiples of a
    # side that is not a power of two begin inside.
    kl.assume(to >= 0)
    kl.assume(column >= 0)
    finish(total, batch, row, column, to, terms, out, EPILOGUE)


@kiln.jit
def add_splits_kernel(partial: Matrix, out: Matrix, terms: Terms, EPILOGUE: kl.constexpr, PLAN: kl.constexpr):
    """out = epilogue(sum of the partial products), split after split; they are stacked by rows, in whole tiles."""
    tiles_n = kl.cdiv(partial.columns, PLAN.sum_n)
    batch, tile = kl.program_id(0) // (out.rows * tiles_n), kl.program_id(0) % (out.rows * tiles_n)
    row, column = tile // tiles_n, tile % tiles_n * PLAN.sum_n
    height = kl.cdiv(out.rows, PLAN.m) * PLAN.m
    first = batch * PLAN.splits * height + row
    total = load_once(partial, 0, first, column, 1, PLAN.sum_n)
    for split in kl.static_range(1, PLAN.splits):
        total += load_once(partial, 0, first + split * height, column, 1, PLAN.sum_n)
    finish(total, batch, row, column, row, terms, out, EPILOGUE)


@kiln.jit
def rows_of_a(a: Matrix):
    return Along(a.data, a.row_stride, a.rows, a.columns)


@kiln.jit
def columns_of_b(b: Matrix):
    return Along(b.data, b.column_stride, b.columns, b.rows)


@kiln.jit
def along_k(vectors: Along, first, k, COUNT: kl.constexpr, ALL: kl.constexpr, EVICT: kl.constexpr, PLAN: kl.constexpr):
    """COUNT vectors from ``first`` on, PLAN.k elements of each from ``k`` on; ALL: that many exist."""
    vector, inner = (first + kl.arange(0, COUNT))[:, None], (k + kl.arange(0, PLAN.k))[None, :]
    promise(ALL, first, COUNT, vectors.count)
    there = vector < vectors.count
    # No promise about k: with a shorter range its sums would be known to fit 32 bits, and addresses be computed anew in
    # each step instead of being advanced (18 of 160 instructions).
    if not PLAN.even:
        there = there & (inner < vectors.length)
    return kl.load(vectors.data + vector * vectors.stride + inner, mask=there, other=0, eviction_policy=EVICT)


@kiln.jit
def gemv_kernel(a: Matrix, b: Matrix, out: Matrix, terms: Terms, EPILOGUE: kl.constexpr, PLAN: kl.constexpr):
    """out = epilogue(a @ b) for PLAN.m rows of a: each column of b is streamed once, 16 bytes per access.

    Each thread sums the products of what it reads; the threads' sums are added at the end.
    """
    VECTOR: kl.constexpr = 128 // b.data.dtype.element_ty.primitive_bitwidth
    column = kl.program_id(0) * PLAN.n
    total = kl.zeros((PLAN.m, PLAN.n, PLAN.k // VECTOR), kl.float32)
    for k in range(0, a.columns, PLAN.k):
        x = along_k(rows_of_a(a), 0, k, PLAN.m, True, "evict_last", PLAN)
        weights = along_k(columns_of_b(b), column, k, PLAN.n, PLAN.even, PLAN.evict, PLAN)
        products = x.to(kl.float32)[:, None, :] * weights.to(kl.float32)[None, :, :]
        total += kl.sum(products.reshape(PLAN.m, PLAN.n, PLAN.k // VECTOR, VECTOR), axis=3)
    finish(kl.sum(total, axis=2), 0, 0, column, 0, terms, out, EPILOGUE)


@kiln.jit
def fragments(x, PLAN: kl.constexpr):
    """A block of vectors along K, as tensor cores take it: (warps, vectors · fold, k / warps / fold).

    A product may sum over K in any order. In this one, the 16 bytes that a thread reads are elements of one vector
    that the same thread holds for the product: four words, each for one of the four lanes that share the vector. So
    threads exchange nothing. Each warp has its part of K; each of its pieces of ``fold`` · 64 bytes becomes ``fold``
    rows.
    """
    VECTORS: kl.constexpr = x.shape[0]
    WORD: kl.constexpr = 32 // x.dtype.primitive_bitwidth
    PIECES: kl.constexpr = PLAN.k // (PLAN.num_warps * PLAN.fold * 16 * WORD)
    x = x.reshape(VECTORS, PLAN.num_warps, PIECES, PLAN.fold, 4, 4, WORD)  # …, lane, word, element
    return kl.trans(x, 1, 0, 3, 2, 5, 4, 6).reshape(PLAN.num_warps, VECTORS * PLAN.fold, PIECES * 16 * WORD)


@kiln.jit
def read_step(a: Matrix, b: Matrix, column, k, PLAN: kl.constexpr):
    """One step of both operands. What b brings leaves the L1 first, so that x stays there for the next columns."""
    x = along_k(rows_of_a(a), 0, k, PLAN.m, False, "evict_last", PLAN)
    return x, along_k(columns_of_b(b), column, k, PLAN.n, PLAN.even, "evict_first", PLAN)


@kiln.jit
def add_step(total, x, weights, FORMULA: kl.constexpr, PLAN: kl.constexpr):
    return kl.dot(
        fragments(x, PLAN),
        kl.trans(fragments(weights, PLAN), 0, 2, 1),
        total,
        input_precision=FORMULA.precision,
        out_dtype=FORMULA.accumulator,
        max_num_imprecise_acc=FORMULA.promoted,
    )


@kiln.jit
def direct_kernel(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    terms: Terms,
    EPILOGUE: kl.constexpr,
    FORMULA: kl.constexpr,
    PLAN: kl.constexpr,
):
    """out = epilogue(a @ b) for at most PLAN.m rows of a: tensor cores multiply what each thread has read from memory.

    Two steps are in registers: one is multiplied while the other arrives. With ``fold``, a row of a or a column of b is
    ``fold`` rows or columns of the product, for different parts of K; the sum is that of the products of equal parts.
    """
    column = kl.program_id(0) * PLAN.n
    total = kl.zeros((PLAN.num_warps, PLAN.m * PLAN.fold, PLAN.n * PLAN.fold), FORMULA.accumulator)
    x_even, b_even = read_step(a, b, column, 0, PLAN)
    x_odd, b_odd = read_step(a, b, column, PLAN.k, PLAN)
    for k in range(2 * PLAN.k, a.columns, 2 * PLAN.k):
        total = add_step(total, x_even, b_even, FORMULA, PLAN)
        x_even, b_even = read_step(a, b, column, k, PLAN)
        total = add_step(total, x_odd, b_odd, FORMULA, PLAN)
        x_odd, b_odd = read_step(a, b, column, k + PLAN.k, PLAN)
    total = add_step(total, x_even, b_even, FORMULA, PLAN)
    total = add_step(total, x_odd, b_odd, FORMULA, PLAN)
    if not total.dtype.is_int():
        total = total.to(kl.float32)
    if PLAN.fold > 1:
        part = kl.arange(0, PLAN.fold)
        total = total.reshape(PLAN.num_warps, PLAN.m, PLAN.fold, PLAN.n, PLAN.fold)
        is_sum = part[None, None, :, None, None] == part[None, None, None, None, :]
        total = kl.sum(kl.sum(kl.where(is_sum, total, 0), axis=4), axis=2)
    total = kl.sum(total.reshape(PLAN.num_warps, PLAN.m * PLAN.n), axis=0).reshape(PLAN.m, PLAN.n)
    finish(total, 0, 0, column, 0, terms, out, EPILOGUE)


# ---- functions -------------------------------------------------------------------------------------------------------
ACCUMULATORS = {"f16": kl.float16, "f32": kl.float32, "fast": kl.float32}
PRECISIONS = ("ieee", "tf32", "tf32x3", "bf16x3", "bf16x6")


RESULTS = (*FLOATS, *FP8)


def _types(a: str, b: str) -> tuple[Types, ...]:
    """The types that operands and terms may have."""
    terms: Any = {"bias": FLOATS, "c": FLOATS, "residual": FLOATS, "row_scale": FLOATS}
    return (
        Types(**{a: FLOATS, b: a}, **terms, out=RESULTS, inside='float32; float16 with accumulator="f16"', result=a),
        Types(
            **{a: FP8, b: FP8},
            **terms,
            out=RESULTS,
            inside='float32; float16 with accumulator="f16"',
            result="bfloat16",
        ),
        Types(
            **{a: ("int8",), b: a}, **terms, out=("int32", *RESULTS), inside="int32; terms in float32", result="int32"
        ),
    )


def _spec(a: Any, lead: tuple[int, ...], n: int, epilogue: str | None, out_dtype: Any) -> Spec:
    """Spec of the result: by default the type of a, unless that is too narrow for sums."""
    name = type_name(a.dtype)
    wide = "int32" if name == "int8" else "bfloat16" if name in FP8 else a.dtype
    return Spec((*lead, n // 2 if epilogue == "swiglu" else n), out_dtype or wide)


def _dtype_name(dtype: Any) -> str:
    """The name of a dtype, or of a numpy class that stands for one."""
    return dtype.__name__ if isinstance(dtype, type) else type_name(dtype)


@functools.lru_cache(maxsize=1024)
def _check(a: Any, epilogue: str | None, accumulator: str, precision: str, n: int, out_dtype: Any) -> None:
    """Raises if there is no such product of operands of this type with n columns."""
    for what, value, allowed in (
        ("epilogue", epilogue, tuple(EPILOGUES)),
        ("accumulator", accumulator, tuple(ACCUMULATORS)),
        ("precision", precision, PRECISIONS),
    ):
        if value not in allowed:
            raise ArgumentError(what, f"expected one of {', '.join(map(str, allowed))}, got {value}")
    left = type_name(a)
    if accumulator == "f16" and left not in ("float16", *FP8):
        raise ArgumentError("accumulator", f"expected f32 (because f16 is for float16 and fp8), got f16 for {left}")
    if accumulator == "fast" and left not in FP8:
        raise ArgumentError("accumulator", f"expected f32 (because fast is for fp8), got fast for {left}")
    if epilogue == "swiglu" and n % 2:
        raise ArgumentError("b", f"expected an even number of columns (because they are pairs), got {n}")
    result = ("int32", *RESULTS) if left == "int8" else RESULTS
    if out_dtype is not None and _dtype_name(out_dtype) not in result:
        raise ArgumentError(
            "out_dtype", f"expected {listed(result)} (because a is {left}), got {_dtype_name(out_dtype)}"
        )


def _terms(
    batches: int,
    shape: tuple[int, int],
    columns: int,
    alpha: float,
    beta: float,
    c: Matrix | None,
    bias: Any,
    residual: Matrix | None,
    row_scale: Any,
) -> Terms:
    """The terms as the kernels take them. Multiplications by 1 or 0 are left out; with beta 0, c is not read."""
    if beta != 0 and c is None:
        raise ArgumentError("c", f"expected a matrix (because beta is {beta}), got None")
    for name, array, length in (("bias", bias, shape[1]), ("row_scale", row_scale, shape[0])):
        if array is not None and tuple(array.shape) != (length,):
            raise ArgumentError(name, f"expected shape ({length},), got {tuple(array.shape)}")
    for name, added, width in (("c", c, shape[1]), ("residual", residual, columns)):
        if added is not None and (added.rows, added.columns) != (shape[0], width):
            raise ArgumentError(
                name, f"expected shape (…, {shape[0]}, {width}), got (…, {added.rows}, {added.columns})"
            )
        if added is not None and added.batches not in (1, batches):
            raise ArgumentError(name, f"expected {batches} batches, or one for all, got {added.batches}")
    return Terms(
        alpha=None if alpha == 1 else float(alpha),
        row_scale=None if row_scale is None else vector(row_scale),
        beta=None if beta in (0, 1) else float(beta),
        c=None if beta == 0 else c,
        bias=None if bias is None else vector(bias),
        residual=residual,
    )


def _problem(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    terms: Terms,
    epilogue: str | None,
    accumulator: str,
    precision: str,
    machine: Machine,
) -> Problem:
    """``out = epilogue(a @ b)`` as plans see it."""
    name = type_name(a.data.dtype)
    along_k = a.column_stride is None and b.row_stride is None
    added = [x for x in (terms.c, terms.residual) if x is not None]
    scattered = machine.gpu and not is_fetched(out)
    apart = [x for x in added if address(x.data) != address(out.data)]
    fetched = [x for x in apart if is_fetched(x)]
    alike = any(x.data.dtype == out.data.dtype for x in fetched)
    return Problem(
        a.rows,
        b.columns,
        a.columns,
        max(a.batches, b.batches),
        name,
        out.data.itemsize,
        accumulator,
        precision,
        streams=along_k and name in FLOATS,
        pairs=epilogue == "swiglu",
        fetched=machine.gpu and (along_k or a.data.itemsize == 2) and is_fetched(a) and is_fetched(b),
        addends=len(added),
        loose=len(added) - len(fetched),
        replaced=alike and not scattered and epilogue != "swiglu",
        vectors=sum(x is not None for x in (terms.bias, terms.row_scale)),
        function=configs.FUNCTIONS[epilogue],
        scattered=scattered,
        scaled=terms.row_scale is not None,
        overwritten=len(apart) < len(added),
    )


# Plans that replace those that a product, with all that happens at the end of its tiles, has no registers for.
_SMALLER: dict[Any, GemmPlan] = {}


def _run(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    terms: Terms,
    epilogue: str | None,
    accumulator: str,
    precision: str,
    splits: int | None,
    plan: GemmPlan | None,
) -> None:
    """Plans and launches ``out = epilogue(a @ b)``."""
    if type_name(out.data.dtype) == "int32" and (epilogue or any(term is not None for term in terms)):
        raise ArgumentError(
            "out", "expected a floating-point type (because sums of int8 are scaled, added to or rounded), got int32"
        )
    if 0 in (a.rows, b.columns, max(a.batches, b.batches)):
        return
    machine = machine_of(a.data)
    problem = _problem(a, b, out, terms, epilogue, accumulator, precision, machine)
    if plan is not None:
        return _launch(a, b, out, terms, epilogue, problem, machine, plan)
    plan = configs.plan(problem, machine, splits)
    if _SMALLER:
        plan = _SMALLER.get((problem, machine, splits, epilogue), plan)
    while True:
        try:
            return _launch(a, b, out, terms, epilogue, problem, machine, plan)
        except ResourceError as error:
            smaller = configs.smaller(plan, problem, machine, splits)
            if smaller is None:
                raise
            knobs.tell("kernels", "%s: tries %s instead of %s", error, smaller, plan)
            plan = _SMALLER[problem, machine, splits, epilogue] = smaller


def _launch(
    a: Matrix,
    b: Matrix,
    out: Matrix,
    terms: Terms,
    epilogue: str | None,
    problem: Problem,
    machine: Machine,
    plan: GemmPlan,
) -> None:
    """Launches a product by a plan."""
    like, m, n, k, batches = a.data, problem.m, problem.n, problem.k, problem.batches
    if not plan.described:
        a, b, out, terms = addressed(a), addressed(b), addressed(out), addressed_terms(terms)
    function = EPILOGUES[epilogue]
    if plan.schedule == "gemv":
        gemv_kernel[(kiln.cdiv(n, plan.n),)](a, b, out, terms, function, plan, **plan.options(machine))
        return
    if plan.group == 0 and m > plan.m:
        raise ArgumentError("plan", f"expected a group of rows (because {m} rows are several of {plan.m}), got {plan}")
    kind = kl.int32 if problem.dtype == "int8" else ACCUMULATORS[problem.accumulator]
    promoted = min(plan.depth, configs.PROMOTED) if problem.promoted else None
    formula = Formula(kind, problem.precision, batches > 1, promoted)
    if plan.schedule == "direct":
        direct_kernel[(kiln.cdiv(n, plan.n),)](a, b, out, terms, function, formula, plan, **plan.options(machine))
        return
    tiles = kiln.cdiv(m, plan.m) * kiln.cdiv(n, plan.n) * batches
    plan, programs, slots, *shares = configs.shares(plan, tiles, k)
    if plan.hands_in:
        wide = "int32" if problem.dtype == "int8" else "float32"
        cut = Cut(empty(Spec((slots * plan.m * plan.n,), wide), like), zeros(slots, like), *shares)
        matmul_kernel[(programs,)](a, b, out, terms, cut, function, formula, plan, **plan.options(machine))
        return
    if plan.splits == 1:
        matmul_kernel[(programs,)](a, b, out, terms, Cut(), function, formula, plan, **plan.options(machine))
        return
    # Rows of partial products begin where the copy engine can store them.
    height, pitch = batches * plan.splits * kiln.cdiv(m, plan.m) * plan.m, kiln.cdiv(n, 4) * 4
    space = empty(Spec((height, pitch), "int32" if problem.dtype == "int8" else "float32"), like)
    partial = view(space, 1, height, n, 0, pitch, 1, plan.described)
    matmul_kernel[(programs,)](a, b, partial, Terms(), Cut(), identity, formula, plan, **plan.options(machine))
    grid = (m * kiln.cdiv(n, plan.sum_n) * batches,)
    add_splits_kernel[grid](
        addressed(partial), addressed(out), addressed_terms(terms), function, plan, **plan.sum_options(machine)
    )


def _matmul_specs(a: Any, b: Any, *, epilogue: str | None = None, out_dtype: Any = None, **_: Any) -> tuple[Spec]:
    batches = a.shape[:-2] if len(a.shape) > 2 else b.shape[:-2]
    return (_spec(a, (*batches, a.shape[-2]), b.shape[-1], epilogue, out_dtype),)


@operator(
    outputs=_matmul_specs,
    arrays={
        "a": "(m, k) or (batch, m, k)",
        "b": "(k, n) or (batch, k, n)",
        "c": "(m, n) or (batch, m, n)",
        "bias": "(n)",
        "residual": "(m, n) or (batch, m, n)",
        "row_scale": "(m)",
        "out": "(m, n) or (batch, m, n)",
    },
    types=_types("a", "b"),
    repeatable=True,
)
def matmul(
    a: Any,
    b: Any,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Any = None,
    bias: Any = None,
    epilogue: str | None = None,
    residual: Any = None,
    row_scale: Any = None,
    accumulator: str = "f32",
    precision: str = "ieee",
    out_dtype: Any = None,
    splits: int | None = None,
    plan: GemmPlan | None = None,
    out: Any = None,
) -> Any:
    """``epilogue(alpha · row_scale · (a @ b) + beta · c + bias) + residual``, rounded once to the type of ``out``.

    ``a`` is (…, M, K) and ``b`` (…, K, N): matrices or batches of them (either may be one matrix for all batches), with
    any strides, so ``b.T`` is fine. ``c`` is shaped like the product, ``residual`` like the result; ``bias`` has N
    elements and ``row_scale`` M. Sums and terms are float32 unless ``accumulator`` says otherwise (int8: int32 sums).

    epilogue     None, "gelu" (by erf), "gelu_tanh", "silu", or "swiglu": silu(gate) · up of columns gate, up, gate, …
    accumulator  "f32"; "f16" for float16 and fp8 operands: faster, rounded along the way; "fast" for fp8 operands:
                 the tensor cores keep the whole sum, to about 14 bits (with "f32" they sum 128 elements of K, and these
                 sums are added in float32)
    precision    for float32 operands: "ieee", or "tf32" and the others of ``kl.dot``
    splits       parts of K that run in parallel and are added in order (chosen from the shape when None)
    plan         a ``GemmPlan`` that replaces the one chosen from the shape
    """
    if a.shape[-1] != b.shape[-2]:
        raise ArgumentError(
            "b", f"expected shape ({a.shape[-1]}, n) (because a has shape {tuple(a.shape)}), got {tuple(b.shape)}"
        )
    if a.ndim == b.ndim == 3 and a.shape[0] != b.shape[0]:
        raise ArgumentError("b", f"expected {a.shape[0]} batches (because a has them), got {b.shape[0]}")
    n = b.shape[-1]
    _check(a.dtype, epilogue, accumulator, precision, n, out_dtype)
    spec = _matmul_specs(a, b, epilogue=epilogue, out_dtype=out_dtype)[0]
    out = output(
        out,
        spec,
        a,
        "out",
        {"a": a, "b": b, "c": c if beta else None, "bias": bias, "residual": residual, "row_scale": row_scale},
        ("c", "residual"),
    )
    left, result = matrix(a), matrix(out)
    terms = _terms(
        result.batches,
        (a.shape[-2], n),
        spec.shape[-1],
        alpha,
        beta,
        None if c is None else matrix(c),
        bias,
        None if residual is None else matrix(residual),
        row_scale,
    )
    _run(left, matrix(b), result, terms, epilogue, accumulator, precision, splits, plan)
    return out


def _linear_specs(
    x: Any, w: Any, bias: Any = None, *, epilogue: str | None = None, out_dtype: Any = None, **_: Any
) -> tuple[Spec]:
    return (_spec(x, x.shape[:-1], w.shape[0], epilogue, out_dtype),)


@operator(
    outputs=_linear_specs,
    arrays={
        "x": "(…, k)",
        "w": "(n, k)",
        "bias": "(n)",
        "c": "(…, n)",
        "residual": "(…, n)",
        "row_scale": "(m)",
        "out": "(…, n)",
    },
    types=_types("x", "w"),
    repeatable=True,
)
def linear(
    x: Any,
    w: Any,
    bias: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 0.0,
    c: Any = None,
    epilogue: str | None = None,
    residual: Any = None,
    row_scale: Any = None,
    accumulator: str = "f32",
    precision: str = "ieee",
    out_dtype: Any = None,
    splits: int | None = None,
    plan: GemmPlan | None = None,
    out: Any = None,
) -> Any:
    """``x @ w.T`` with weights (N, K) and rows ``x`` (…, K); everything else as in ``matmul``.

    The leading dimensions of ``x``, ``c``, ``residual`` and ``out`` count rows, and must be walkable with a single
    stride. ``row_scale`` has one element per row.
    """
    if x.shape[-1] != w.shape[1]:
        raise ArgumentError(
            "w", f"expected shape (n, {x.shape[-1]}) (because x has shape {tuple(x.shape)}), got {tuple(w.shape)}"
        )
    n, k = w.shape
    _check(x.dtype, epilogue, accumulator, precision, n, out_dtype)
    spec = _linear_specs(x, w, epilogue=epilogue, out_dtype=out_dtype)[0]
    out = output(
        out,
        spec,
        x,
        "out",
        {"x": x, "w": w, "c": c if beta else None, "bias": bias, "residual": residual, "row_scale": row_scale},
        ("c", "residual"),
    )
    left = _rows(x, "x")
    terms = _terms(
        1,
        (left.rows, n),
        spec.shape[-1],
        alpha,
        beta,
        None if c is None else _rows(c, "c"),
        bias,
        None if residual is None else _rows(residual, "residual"),
        row_scale,
    )
    step_n, step_k = strides(w)
    _run(
        left,
        view(w, 1, k, n, 0, step_k, step_n),
        _rows(out, "out"),
        terms,
        epilogue,
        accumulator,
        precision,
        splits,
        plan,
    )
    return out


def _rows(array: Any, name: str) -> Matrix:
    rows, row, column = rows_of(array, name)
    return view(array, 1, rows, array.shape[-1], 0, row, column)
