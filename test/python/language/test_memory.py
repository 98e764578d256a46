"""Loads, stores, block pointers, descriptors, atomics: shapes, types, options in the IR, and what is refused."""

from __future__ import annotations

import re

import pytest
from emitting import body, type_of
from kiln.errors import CompilationError

POINTERS = {"p": "*fp32", "h": "*fp16", "q": "*i32", "b": "*i1", "c": "*kfp32", "n": "i32", "wide": "i64"}
BLOCK = "bp = kl.make_block_ptr(p, (n, 64), (64, 1), (0, 0), (16, 32), (1, 0))\n"
DESC = "d = kl.make_tensor_descriptor(p, (n, 64), (64, 1), (16, 32))\n"
TILE = "i = kl.arange(0, 8)\nm = i < n\n"


@pytest.mark.parametrize(
    "expression, result",
    [
        ("kl.load(p)", "fp32"),
        ("kl.load(p + i)", "<[8], fp32>"),
        ("kl.load(h + i, mask=m, other=0)", "<[8], fp16>"),
        ("kl.load(p, mask=n > 0, other=1)", "fp32"),
        ("kl.load(p + i[:, None], mask=m[None, :])", "<[8, 8], fp32>"),
        ("kl.load(p[None, None, :])", "<[1, 1], fp32>"),
        ("kl.load(b + i)", "<[8], int1>"),
        ("(p + i).load()", "<[8], fp32>"),
        ("kl.atomic_add(p + i, 1)", "<[8], fp32>"),
        ("kl.atomic_cas(q, 0, 1)", "int32"),
        ("kl.atomic_xchg(q + i, i, mask=m)", "<[8], int32>"),
    ],
)
def test_the_result_type_of_loads(expression, result):
    assert type_of(expression, before="i = kl.arange(0, 8); m = i < n", **POINTERS) == result


def test_a_mask_and_other_become_operands():
    text = body(TILE + "kl.store(p + i, kl.load(p + i, mask=m, other=n))", **POINTERS)
    assert "tile.load %6 mask %2 other" in text
    assert "arith.sitofp" in text  # other is converted to the element type


def test_options_become_attributes():
    text = body(
        TILE
        + "x = kl.load(p + i, cache_modifier='.cg', eviction_policy='evict_last', volatile=True)\n"
        + "kl.store(p + i, x, cache_modifier='.wt', eviction_policy='evict_first')",
        **POINTERS,
    )
    for attr in ("cache cg", "evict evict_last", "isVolatile", "cache wt", "evict evict_first"):
        assert attr in text


def test_prefetches_take_pointers_and_a_mask():
    text = body(
        TILE + "kl.prefetch(p + i, mask=m)\nkl.prefetch(c)\nkl.prefetch(b + i[:, None], m[None, :])", **POINTERS
    )
    for kinds in (
        "tensor<8x!tile.ptr<f32>> mask tensor<8xi1>",
        "!tile.ptr<f32>",
        "tensor<8x8x!tile.ptr<i1>> mask tensor<8x8xi1>",
    ):
        assert re.search(rf"tile\.prefetch %\w+( mask %\d+)? : {re.escape(kinds)}", text), text


def test_bools_are_bytes_in_memory():
    text = body(TILE + "kl.store(b + i, kl.load(b + i) & m)", **POINTERS)
    assert (
        text.count("tile.ptr_cast") == 2
        and "tensor<8xi8>" in text
        and "arith.cmpi ne" in text
        and "arith.extui" in text
    )


def test_stored_values_are_converted_and_broadcast():
    text = body(TILE + "kl.store(h + i, 1.5)\nkl.store(p + i[:, None] + i, m)", **POINTERS)
    assert "tensor<8xf16>" in text and "arith.uitofp" in text and "tensor<8x8xf32>" in text


def test_block_pointers():
    text = body(
        BLOCK
        + "x = kl.load(bp, boundary_check=(1, 0), padding_option='nan')\nbp = kl.advance(bp, (0, 32))\n"
        + "kl.store(bp, x, boundary_check=(0,))",
        **POINTERS,
    )
    assert "tile.make_block_ptr" in text and "order = array<i32: 1, 0>" in text and "tile.advance" in text
    assert "boundary = array<i32: 0, 1>" in text and "padding = #tile<padding nan>" in text


def test_descriptors():
    text = body(DESC + "x = d.load([n, 0])\nd.store([n, 32], x + d.shape[0])", **POINTERS)
    assert text.count("tile.desc_load") == 1 and text.count("tile.desc_store") == 1
    assert "tile.make_desc %arg0" in text and "arith.sitofp" in text


def test_a_descriptor_passes_through_calls_and_arguments():
    source = "d.store([0, 0], d.load([1, 0]) * 2)"
    text = body(source, d="tensordesc<fp16[8,16]>")
    assert "%arg0: !tile.ptr<f16>" in text and "%arg4: i64" in text
    assert "tile.make_desc %arg0, shape[%arg1, %arg2] strides[%arg3, %c1_i64" in text


def test_atomics_on_a_descriptor_are_one_op():
    text = body(
        "d = kl.make_tensor_descriptor(q, (n, 64), (64, 1), (16, 32))\nd.atomic_add([n, 0], d.load([0, 0]))", **POINTERS
    )
    assert "tile.desc_reduce add" in text


@pytest.mark.parametrize(
    "call, kind",
    [
        ("kl.atomic_add(p + i, 1.0)", "fadd acq_rel gpu"),
        ("kl.atomic_add(q + i, 1, sem='relaxed', scope='sys')", "add relaxed sys"),
        ("kl.atomic_max(p + i, 1.0, sem='acquire', scope='cta')", "fmax acquire cta"),
        ("kl.atomic_min(q + i, 1, sem='release')", "min release gpu"),
        ("kl.atomic_max(q.to(kl.pointer_type(kl.uint32)) + i, 1)", "umax acq_rel gpu"),
        ("kl.atomic_and(q + i, 1)", "and acq_rel gpu"),
        ("kl.atomic_or(q + i, 1)", "or acq_rel gpu"),
        ("kl.atomic_xor(q + i, 1)", "xor acq_rel gpu"),
        ("kl.atomic_xchg(p + i, 1)", "xchg acq_rel gpu"),
    ],
)
def test_atomics_name_kind_order_and_scope(call, kind):
    assert f"tile.atomic_rmw {kind}" in body(TILE + call, **POINTERS)


@pytest.mark.parametrize(
    "code, message, hint",
    [
        ("kl.load(n)", "expected a pointer or a tile of pointers in kl.load, got int32", "x_ptr + offsets"),
        ("kl.load(3)", "expected a pointer or a tile of pointers in kl.load, got 3", None),
        ("kl.load(p + i, other=0.0)", "expected a mask in kl.load", None),
        ("kl.load(p + i, mask=i)", "expected a mask of bools in kl.load, got <[8], int32>", "offsets < n"),
        ("kl.load(p, mask=m)", "expected a scalar mask in kl.load", "kl.arange(0, N)"),
        ("kl.load(p + i, mask=kl.arange(0, 4) < n)", "got [4]", None),
        ("kl.load(p + i, boundary_check=(0,))", "only with block pointers", "mask="),
        ("kl.load(p + i, cache_modifier='.xx')", "expected one of '.ca'", None),
        ("kl.load(p + i, eviction_policy='soon')", "as eviction_policy, got 'soon'", None),
        ("kl.store(c + i, 1.0)", "got a const one", None),
        ("kl.store(p, kl.load(p + i))", "expected a scalar value in kl.store", "kl.arange(0, N)"),
        ("kl.store(p + i, kl.zeros((8, 8), kl.float32))", "that broadcasts to the pointers' shape [8]", "both axes"),
        ("kl.store(p + i, 1.0, mask=n)", "expected a mask of bools in kl.store", None),
        ("kl.store(p + i, (1, 2))", "expected a number or a tensor as value of kl.store", None),
        ("kl.prefetch(n)", "expected a pointer or a tile of pointers in kl.prefetch, got int32", "x_ptr + offsets"),
        ("kl.prefetch(p + i, mask=i)", "expected a mask of bools in kl.prefetch, got <[8], int32>", "offsets < n"),
        ("kl.prefetch(p, mask=m)", "expected a scalar mask in kl.prefetch", "kl.arange(0, N)"),
        (
            BLOCK + "kl.prefetch(bp)",
            "expected a plain pointer in kl.prefetch (because it takes one for every",
            "stride",
        ),
        (DESC + "kl.prefetch(d)", "got a tensor descriptor", None),
        (BLOCK + "kl.load(bp, mask=m)", "expected no mask and no other", "boundary_check"),
        (BLOCK + "kl.load(bp, boundary_check=(2,))", "expected dimensions in [0, 2)", None),
        (BLOCK + "kl.load(bp, boundary_check=(1, 1))", "each dimension once", None),
        (BLOCK + "kl.store(bp, kl.zeros((16, 16), kl.float32))", "the block's shape [16, 32]", None),
        (BLOCK + "w = bp + 1", "got a block pointer", "kl.advance"),
        (BLOCK + "kl.advance(bp, (wide, 0))", "expected 32-bit offsets", ".to(kl.int32)"),
        (BLOCK + "kl.advance(bp, (1,))", "expected 2 offsets in kl.advance", None),
        ("kl.advance(p, (1,))", "expected a block pointer in kl.advance", "ptr + n"),
        ("kl.make_block_ptr(p, (n,), (1, 1), (0, 0), (16, 32), (1, 0))", "shape to have one entry per dimension", None),
        ("kl.make_block_ptr(p, (n, n), (1, 1), (0, 0), (16, 32), (1, 1))", "expected a permutation of [0, 1]", None),
        ("kl.make_tensor_descriptor(p, (n, n), (n, n), (16, 32))", "expected 1 as last stride", "kl.constexpr"),
        ("kl.make_tensor_descriptor(p, (n, n), (n, 1), (16, 2))", "rows of 16 bytes or more", None),
        (DESC + "d.load([0])", "expected 2 offsets", None),
        (DESC + "d.store([0, 0], i)", "the block's shape [16, 32]", None),
        (DESC + "d.atomic_or([0, 0], 1.0)", "expected one of int32, uint32, int64, uint64", None),
        (DESC + "kl.load(d)", "got a tensor descriptor", "desc.load"),
        ("kl.atomic_or(h + i, 1.0)", "expected integers in kl.atomic_or", None),
        ("kl.atomic_and(p + i, 1)", "expected integers in kl.atomic_and", None),
        ("kl.atomic_add(b + i, 1)", "expected integers of 32 or 64 bits", None),
        ("kl.atomic_add(q + i, 1, sem='strict')", "as sem, got 'strict'", None),
        ("kl.atomic_add(q + i, 1, scope='world')", "as scope, got 'world'", None),
        ("kl.program_id(3)", "expected axis 0, 1 or 2", None),
        ("kl.program_id(n)", "expected a constexpr integer as the axis", None),
    ],
)
def test_what_is_refused_and_why(code, message, hint):
    with pytest.raises(CompilationError) as caught:
        body(TILE + code, **POINTERS)
    assert message in caught.value.message
    assert hint is None or hint in (caught.value.hint or "")
