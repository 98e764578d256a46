"""Attention whose scores and masks are the caller's functions, as in torch's flex_attention.

    @kiln.jit
    def near(batch, head, q, kv):
        return (q - kv >= 0) & (q - kv <= 1024)

    @kiln.jit
    def falling(score, batch, head, q, kv):
        return score - 0.1 * (q - kv)

    mask = create_block_mask(near, None, None, 4096, 4096, device="cuda")
    y = flex_attention(q, k, v, score_mod=falling, block_mask=mask)

Functions work on tiles: ``q`` is a column of indices, ``kv`` a row. Blocks that a mask excludes are neither loaded nor
multiplied; blocks that it includes wholly have no mask.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import kiln
import kiln.language as kl
from kiln.errors import ArgumentError
from kiln.kernels.attention.backward import Backward, check_results
from kiln.kernels.attention.backward_configs import BackwardPlan
from kiln.kernels.attention.configs import AttentionPlan
from kiln.kernels.attention.kernel import Operand, check_heads, inside, launch
from kiln.kernels.attention.scores import BlockLists, Terms, Visible
from kiln.kernels.machine import machine_of, options
from kiln.kernels.operator import (
    FLOATS,
    INSIDE,
    Spec,
    by_name,
    check_value,
    empty,
    is_array,
    is_integer,
    is_torch,
    on_device,
    operator,
    output,
    strides,
    with_float64,
)
from kiln.runtime.interface import is_traced_by_torch
from kiln.runtime.jit import JITFunction


# ---- which blocks a mask shows ---------------------------------------------------------------------------------------
@kiln.jit
def block_mask_kernel(
    whole,
    partial,
    lists,
    heads,
    queries,
    keys,
    columns,
    args,
    MASK_MOD: kl.constexpr,
    ROWS: kl.constexpr,
    SIDE: kl.constexpr,
    TURNED: kl.constexpr,
):
    """For one block of queries: first the blocks of keys that all of them see, then those that some see. TURNED: for
    one block of keys, blocks of queries."""
    number = kl.program_id(0)
    rows = kl.cdiv(keys if TURNED else queries, ROWS)
    own = (number % rows * ROWS + kl.arange(0, ROWS))[:, None]
    batch, head = number // rows // heads, number // rows % heads
    lists += number.to(kl.int64) * (2 * columns)
    wholes = 0
    parts = 0
    for column in range(0, columns):
        other = (column * SIDE + kl.arange(0, SIDE))[None, :]
        row, key = (other, own) if TURNED else (own, other)
        seen = MASK_MOD(batch, head, kl.minimum(row, queries - 1), kl.minimum(key, keys - 1), *args)
        # On integers & would take the lowest bit.
        kl.static_assert(
            kl.to_tensor(seen).dtype == kl.int1,
            "expected mask_mod to return booleans, such as q >= kv (because it says which keys are seen)",
        )
        # Keys that do not exist are not seen; queries that do not exist see what the others see.
        shown = (seen & (key < keys)) | (row < 0)
        kl.store(lists + column, 0)
        kl.store(lists + columns + column, 0)
        some = kl.max(kl.max((shown & (row < queries)).to(kl.int32), axis=1), axis=0)
        every = kl.min(kl.min((shown | (row >= queries)).to(kl.int32), axis=1), axis=0)
        kl.store(lists + kl.where(every > 0, wholes, columns + parts), column, mask=some > 0)
        wholes += every * some
        parts += some * (1 - every)
    kl.store(whole + number, wholes)
    kl.store(partial + number, parts)


@dataclass(frozen=True)
class BlockMask:
    """The result of ``create_block_mask``. ``shape``: (batch, heads, queries, keys), 1 where all batches or heads are
    alike;
    ``block``: queries and keys per block. Numbers and indices are as in torch's BlockMask."""

    functions: tuple[Any]
    """``mask_mod`` alone: an attribute that has ``__get__``, as jit functions do, torch takes for a descriptor."""
    args: tuple[Any, ...]
    shape: tuple[int, int, int, int]
    block: tuple[int, int]
    full_kv_num_blocks: Any
    kv_num_blocks: Any
    lists: Any
    """(batch, heads, blocks of queries, 2, blocks of keys): those seen whole, and those seen in part."""

    @property
    def mask_mod(self) -> Any:
        return self.functions[0]

    @property
    def full_kv_indices(self) -> Any:
        return self.lists[:, :, :, 0]

    @property
    def kv_indices(self) -> Any:
        return self.lists[:, :, :, 1]

    def sparsity(self) -> float:
        """The percentage of blocks that are skipped."""
        shown = float(self.full_kv_num_blocks.sum() + self.kv_num_blocks.sum())
        return 100.0 * (1.0 - shown / math.prod(self.lists.shape[:3]) / self.lists.shape[4])

    def visible(self) -> Visible:
        lists = self.full_kv_num_blocks, self.kv_num_blocks, self.lists
        return Visible(args=self.args, blocks=_lists_of(lists, self.block), MOD=self.mask_mod)

    @functools.cached_property
    def by_keys(self) -> Visible:
        """The same mask by blocks of keys: which blocks of queries see them. Computed on first use."""
        block = self.block[1], self.block[0]
        lists = block_lists(self.mask_mod, self.args, self.shape, block, self.lists, turned=True)
        return Visible(args=self.args, blocks=_lists_of(lists, block), MOD=self.mask_mod)


def _lists_of(found: tuple[Any, Any, Any], block: tuple[int, int]) -> BlockLists:
    whole, partial, lists = found
    batches, heads, rows, _, columns = lists.shape
    steps = heads * rows if batches > 1 else 0, rows if heads > 1 else 0
    return BlockLists(whole, partial, lists, *steps, columns, *block)


def block_lists(
    mask_mod: Any,
    args: tuple[Any, ...],
    shape: tuple[int, int, int, int],
    block: tuple[int, int],
    like: Any,
    turned: bool = False,
) -> tuple[Any, Any, Any]:
    """For each block of queries, how many blocks of keys are seen wholly and in part, and which; ``turned``: for each
    block of keys, blocks of queries. ``block``: tokens of a block of the former and of the latter."""
    sides = shape[:1:-1] if turned else shape[2:]
    rows, columns = (kiln.cdiv(tokens, side) for tokens, side in zip(sides, block, strict=True))
    whole, partial = (empty(Spec((*shape[:2], rows), "int32"), like) for _ in range(2))
    lists = empty(Spec((*shape[:2], rows, 2, columns), "int32"), like)
    block_mask_kernel[(shape[0] * shape[1] * rows,)](
        whole,
        partial,
        lists,
        shape[1],
        *shape[2:],
        columns,
        tuple(args),
        MASK_MOD=mask_mod,
        ROWS=block[0],
        SIDE=block[1],
        TURNED=turned,
        **(options(num_warps=8) if machine_of(whole).gpu else options()),
    )
    return whole, partial, lists


def check_function(name: str, function: Any, names: str, args: Any) -> None:
    """Refuses what is no jit function of ``names``, and ``args`` besides."""
    if not isinstance(function, JITFunction):
        raise ArgumentError(
            name,
            f"expected a function of ({names}) under @kiln.jit (because it becomes part of a kernel), got "
            f"{type(function).__name__}",
        )
    check_value("args", args, f"a tuple (because {name} is given each)", isinstance(args, (tuple, list)))
    count = len(names.split(", "))
    if not _takes(function.fn, count + len(args)):
        own = inspect.signature(function.fn)
        also = f" and the {len(args)} of args" if len(args) > 0 else ""
        hint = f"pass what {name} takes besides in args" if len(own.parameters) > count else None
        raise ArgumentError(name, f"expected a function of ({names}){also}, got one of {own}", hint)


@functools.lru_cache(maxsize=1024)
def _takes(function: Any, count: int) -> bool:
    """Whether a Python function can be given so many arguments."""
    try:
        inspect.signature(function).bind(*range(count))
    except TypeError:
        return False
    return True


@by_name
def create_block_mask(
    mask_mod: Any,
    B: int | None,
    H: int | None,
    Q_LEN: int,
    KV_LEN: int,
    device: Any = None,
    BLOCK_SIZE: int | tuple[int, int] = 128,
    *,
    args: tuple[Any, ...] = (),
) -> BlockMask:
    """Finds, with a kernel, which blocks of keys each block of queries sees by ``mask_mod(batch, head, q, kv, *args)``.

    ``B``, ``H``: None where the mask is the same for all. ``args``: further arrays and numbers for the function, such
    as the document number of each token. ``device``: torch's, for tensors there; otherwise the results are on the
    device of the first array of ``args``, or numpy arrays.

    Shapes and types; others are refused::

        mask_mod       a function under @kiln.jit whose tile is of bool
        B, H           an integer, at least 1, or None
        Q_LEN, KV_LEN  an integer, at least 1
        BLOCK_SIZE     a power of two from 16 on, or two of them: of queries and of keys
        args           a tuple of arrays and numbers

        inside         indices are int32
        result         a BlockMask, whose numbers and indices of blocks are int32
    """
    if is_traced_by_torch():
        # Under fullgraph=True this ends the compilation with the message; otherwise the call runs outside of the graph.
        import torch

        torch._dynamo.graph_break(
            msg="create_block_mask cannot be part of a compiled graph: call it before, and pass the mask to the"
            " compiled function"
        )
    check_function("mask_mod", mask_mod, "batch, head, q, kv", args)
    block = (BLOCK_SIZE, BLOCK_SIZE) if is_integer(BLOCK_SIZE) else BLOCK_SIZE
    sides = isinstance(block, (tuple, list)) and len(block) == 2 and all(map(_is_side, block))
    check_value(
        "BLOCK_SIZE", BLOCK_SIZE, "a power of two from 16 on, or two of them (because they are sides of tiles)", sides
    )
    for name, number in (("B", B), ("H", H)):
        fits = number is None or (is_integer(number) and number >= 1)
        check_value(name, number, "an integer, at least 1, or None (because masks may be alike for all)", fits)
    for name, number in (("Q_LEN", Q_LEN), ("KV_LEN", KV_LEN)):
        check_value(name, number, "an integer, at least 1", is_integer(number) and number >= 1)
    shape = (B or 1, H or 1, Q_LEN, KV_LEN)
    whole, partial, lists = block_lists(mask_mod, args, shape, block, _like(device, args))
    return BlockMask((mask_mod,), tuple(args), shape, block, whole, partial, lists)


def _is_side(side: Any) -> bool:
    return is_integer(side) and side >= 16 and side & (side - 1) == 0


def _like(device: Any, args: tuple[Any, ...]) -> Any:
    """An array of the library and on the device that results should have."""
    if device is not None:
        import torch

        return torch.empty(0, device=device)
    import numpy

    return next(filter(is_array, args), numpy.empty(0))


# ---- the function ----------------------------------------------------------------------------------------------------
def _specs(query: Any, key: Any, value: Any, *_: Any, return_lse: bool = False, **__: Any) -> tuple[Spec, ...]:
    y = Spec((*query.shape[:3], value.shape[3]), query.dtype)
    return (y, Spec(query.shape[:3], inside(query))) if return_lse else (y,)


@operator(
    outputs=_specs,
    arrays={
        "query": "(batch, heads, queries, size)",
        "key": "(batch, kv_heads, tokens, size)",
        "value": "(batch, kv_heads, tokens, v_size)",
        "out": "(batch, heads, queries, v_size)",
    },
    types=with_float64(query=FLOATS, key="query", value="query", out=FLOATS),
    gradient="kiln.kernels.attention.backward_torch:flex_attention",
)
def flex_attention(
    query: Any,
    key: Any,
    value: Any,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    return_lse: bool = False,
    *,
    args: tuple[Any, ...] = (),
    deterministic: bool = True,
    plan: AttentionPlan | None = None,
    out: Any = None,
) -> Any:
    """Attention of (batch, heads, tokens, size) arrays, with scores that ``score_mod`` computes from q kᵀ · scale.

    ``score_mod(score, batch, head, q, kv, *args)`` is a jit function over tiles: ``q`` is a column of indices, ``kv`` a
    row; with ``args``, indices beyond the last token are clamped to it. A number, a row or a column that it returns
    stands for the scores of the whole tile. ``block_mask``, from ``create_block_mask``,
    says which keys queries see; blocks that no query sees are skipped. ``enable_gqa``: keys may have fewer heads.
    Log-sum-exp is float32 (for float64 arrays: float64) of shape (batch, heads, queries).

    torch differentiates it by query, key and value, also through ``score_mod``, whose derivative by the score is taken
    op by op (`kiln.frontend.derivative` lists the ops); ``args`` get no gradient. ``deterministic``: two runs give the
    same bits of gradients.
    """
    terms, side = _checked(query, key, value, score_mod, block_mask, enable_gqa, args)
    visible = None if block_mask is None else block_mask.visible()
    arrays = {"query": query, "key": key, "value": value}
    out = output(out, Spec((*query.shape[:3], value.shape[3]), query.dtype), query, "out", arrays, ("query",))
    lse = empty(Spec(query.shape[:3], inside(query)), query) if return_lse else None
    if 0 not in query.shape:
        operands = tuple(Operand(x, heads_first=True) for x in (query, key, value, out))
        launch(operands, lse, scale, plan, None, terms, visible, side)
    return (out, lse) if return_lse else out


@operator(
    outputs=lambda query, key, value, *_, **__: tuple(Spec(x.shape, x.dtype) for x in (query, key, value)),
    arrays={
        "query": "(batch, heads, queries, size)",
        "key": "(batch, kv_heads, tokens, size)",
        "value": "(batch, kv_heads, tokens, v_size)",
        "out": "(batch, heads, queries, v_size)",
        "lse": "(batch, heads, queries)",
        "dout": "(batch, heads, queries, v_size)",
    },
    types=with_float64(query=FLOATS, key="query", value="query", out="query", lse=INSIDE, dout="query"),
)
def flex_attention_backward(
    query: Any,
    key: Any,
    value: Any,
    out: Any,
    lse: Any,
    dout: Any,
    score_mod: Callable[..., Any] | None = None,
    block_mask: BlockMask | None = None,
    scale: float | None = None,
    enable_gqa: bool = False,
    *,
    args: tuple[Any, ...] = (),
    deterministic: bool = True,
    plan: BackwardPlan | None = None,
) -> tuple[Any, Any, Any]:
    """Gradients ``(dquery, dkey, dvalue)`` of ``flex_attention``, given the gradient ``dout`` of its result.

    ``out`` and ``lse`` are the results of ``flex_attention(…, return_lse=True)``, the other arguments those it was
    given. The derivative of ``score_mod`` by the score is taken op by op; functions see tiles whose rows are queries or
    keys, so ``q`` and ``kv`` are a column and a row, or a row and a column. Blocks that the mask excludes are skipped.
    """
    terms, side = _checked(query, key, value, score_mod, block_mask, enable_gqa, args)
    check_results(query, value, out, dout, lse, tuple(query.shape[:3]))
    visible, by_keys = (Visible(), None) if block_mask is None else (block_mask.visible(), block_mask.by_keys)
    results = tuple(output(None, Spec(x.shape, x.dtype), x) for x in (query, key, value))
    names = ("q", "k", "v", "out", "dout", "dq", "dk", "dv")
    arrays = (query, key, value, out, dout, *results)
    operands = {name: Operand(x, heads_first=True) for name, x in zip(names, arrays, strict=True)}
    backward = Backward(operands, lse, strides(lse), scale, deterministic, terms, visible, turned=by_keys, side=side)
    backward.launch(plan)
    return results


def _checked(
    query: Any, key: Any, value: Any, score_mod: Any, block_mask: Any, enable_gqa: bool, args: tuple[Any, ...]
) -> tuple[Terms | None, int]:
    """The terms of the scores, and the side of the mask's blocks (0: there is no mask)."""
    batch, heads, queries, _ = query.shape
    if key.shape[0] != batch:
        raise ArgumentError("key", f"expected {batch} sequences (because query has them), got shape {tuple(key.shape)}")
    check_heads(query, key, value, 1)
    if not enable_gqa and key.shape[1] != heads:
        raise ArgumentError(
            "key", f"expected {heads} heads, as query has, got {key.shape[1]}", hint="pass enable_gqa=True"
        )
    terms = None
    if score_mod is not None:
        check_function("score_mod", score_mod, "score, batch, head, q, kv", args)
        terms = Terms(args=tuple(args), MOD=score_mod)
    if block_mask is None:
        return terms, 0
    check_block_mask(block_mask, query, (batch, heads, queries, key.shape[2]))
    return terms, math.gcd(*block_mask.block)


def check_block_mask(mask: Any, query: Any, shape: tuple[int, int, int, int]) -> None:
    if not isinstance(mask, BlockMask):
        raise ArgumentError(
            "block_mask",
            f"expected what kiln.kernels.attention.create_block_mask makes, got "
            f"{'one of torch' if is_torch(mask) else type(mask).__name__}",
        )
    fits = mask.shape[2:] == shape[2:] and all(
        own in (1, whole) for own, whole in zip(mask.shape[:2], shape[:2], strict=True)
    )
    if not fits:
        raise ArgumentError(
            "block_mask",
            f"expected one of (batch, heads, queries, tokens) = {shape}, or 1 for the first two, got {mask.shape}",
        )
    if is_torch(mask.lists) != is_torch(query) or on_device(mask.lists) != on_device(query):
        raise ArgumentError(
            "block_mask", "expected one on query's device, got one elsewhere", hint="pass device= to create_block_mask"
        )
