"""Creating and reshaping tiles: result types, the IR, and what is rejected."""

from __future__ import annotations

import pytest
from emitting import body, type_of
from kiln.errors import CompilationError


@pytest.mark.parametrize(
    "expression, result",
    [
        ("kl.arange(0, 96)", "<[96], int32>"),
        ("kl.full((2, 3), 7, kl.int8)", "<[2, 3], int8>"),
        ("kl.full((4,), n, None)", "<[4], int32>"),
        ("kl.full((), 7, kl.int8)", "int8"),
        ("kl.zeros_like(x)", "<[4, 8], fp32>"),
        ("x[:, None, :]", "<[4, 1, 8], fp32>"),
        ("x[None]", "<[1, 4, 8], fp32>"),
        ("kl.unsqueeze(x, 0)", "<[1, 4, 8], fp32>"),
        ("kl.unsqueeze(x, 2)", "<[4, 8, 1], fp32>"),
        ("kl.unsqueeze(x, -1)", "<[4, 1, 8], fp32>"),
        ("kl.squeeze(x[:, None, :], 1)", "<[4, 8], fp32>"),
        ("kl.squeeze(x[:, :, None], -1)", "<[4, 8], fp32>"),
        ("kl.to_tensor(1)", "int32"),
        ("kl.to_tensor(x)", "<[4, 8], fp32>"),
        ("n[None, None]", "<[1, 1], int32>"),
        ("n[None, None, :]", "<[1, 1], int32>"),
        ("kl.expand_dims(x, (0, -1))", "<[1, 4, 8, 1], fp32>"),
        ("x.reshape(8, 4)", "<[8, 4], fp32>"),
        ("x.reshape((2, 16))", "<[2, 16], fp32>"),
        ("x.view([32])", "<[32], fp32>"),
        ("kl.ravel(x)", "<[32], fp32>"),
        ("x.T", "<[8, 4], fp32>"),
        ("kl.trans(x, 1, 0)", "<[8, 4], fp32>"),
        ("kl.permute(x[None], (2, 0, 1))", "<[8, 1, 4], fp32>"),
        ("kl.join(x, x)", "<[4, 8, 2], fp32>"),
        ("kl.join(n, n)", "<[2], int32>"),
        ("kl.split(kl.join(x, x))[1]", "<[4, 8], fp32>"),
        ("kl.split(kl.join(n, n))[1]", "int32"),
        ("kl.interleave(x, x)", "<[4, 16], fp32>"),
        ("kl.cat(x, x)", "<[8, 8], fp32>"),
        ("kl.cat(x, x, dim=1)", "<[4, 16], fp32>"),
        ("kl.broadcast_to(x[None], (3, 4, 8))", "<[3, 4, 8], fp32>"),
        ("kl.broadcast_to(n, 4, 8)", "<[4, 8], int32>"),
        ("x + kl.arange(0, 8)", "<[4, 8], fp32>"),
        ("x + kl.arange(0, 4)[:, None]", "<[4, 8], fp32>"),
        ("kl.broadcast(x, n)[1]", "<[4, 8], int32>"),
        ("kl.gather(x, kl.zeros((4, 2), kl.int32), 1)", "<[4, 2], fp32>"),
        ("kl.flip(x)", "<[4, 8], fp32>"),
        ("kl.flip(x, 0)", "<[4, 8], fp32>"),
        ("kl.sort(x, descending=True)", "<[4, 8], fp32>"),
        ("kl.topk(x, 2)", "<[4, 2], fp32>"),
        ("kl.histogram(kl.arange(0, 8), 4)", "<[4], int32>"),
        ("kl.sum(x, keep_dims=True).item()", "fp32"),
        ("kl.where(n > 0, x, 0.0)", "<[4, 8], fp32>"),
        ("kl.where(x > 0, n, 1)", "<[4, 8], int32>"),
        ("kl.dot(x, x.T)", "<[4, 4], fp32>"),
        ("kl.dot(x[None], x.T[None])", "<[1, 4, 4], fp32>"),
        ("kl.dot(x.to(kl.float16), x.to(kl.float16).T, out_dtype=kl.float16)", "<[4, 4], fp16>"),
        ("kl.dot(x.to(kl.int8), x.to(kl.int8).T)", "<[4, 4], int32>"),
    ],
)
def test_the_type_of_the_result(expression, result):
    assert type_of(expression, before="x = kl.full((4, 8), 1.0, kl.float32)", n="i32") == result


@pytest.mark.parametrize(
    "code, message, hint",
    [
        ("kl.arange(0, n)", "expected a constexpr integer as the end of kl.arange, got int32", "kl.constexpr"),
        ("kl.arange(0, 37)", "expected a side of 2^k * m with m odd and at most 31", "use 38 and a mask"),
        ("kl.arange(4, 4)", "expected an end of kl.arange above its start", None),
        ("kl.zeros((n, 4), kl.float32)", "expected constexpr sides", "kl.constexpr"),
        ("kl.zeros((2048, 1024), kl.float32)", "at most 1048576 elements", "smaller tiles"),
        ("kl.zeros((4,), 3)", "expected a type such as kl.float32, got 3", None),
        ("kl.full((4,), 1, None)", "expected a dtype for kl.full", "dtype=kl.float32"),
        ("v + kl.arange(0, 8)", "differ in dimension 0: 4 and 8", "x[:, None] and y[None, :]"),
        ("v.reshape(8)", "expected a shape of 4 elements", None),
        ("kl.broadcast_to(v, (8,))", "only sides of 1 do", None),
        ("kl.squeeze(v, 0)", "expected side 0 to be 1 in kl.squeeze, got 4", None),
        ("kl.unsqueeze(v, 2)", "expected a dim of kl.unsqueeze in [-1, 1], got 2", None),
        ("kl.expand_dims(v, 5)", "expected an axis of kl.expand_dims in [-2, 2)", None),
        ("v.T", "expected a tile of rank 2 or more to transpose", "x[:, None]"),
        ("kl.permute(v, (1,))", "expected a permutation of [0]", None),
        ("kl.split(v)", "expected a last side of 2 in kl.split", "reshape"),
        ("kl.join(v, v.to(kl.int32))", "expected two tiles of one type in kl.join", None),
        ("kl.cat(v, v[:, None])", "expected tiles of one type and rank in kl.cat", None),
        ("v[0]", "a tile's elements are not addressable", "kl.gather"),
        ("v[n]", "a tile's elements are not addressable", "kl.gather"),
        ("v[:, :]", "expected at most 1 ':'", None),
        ("kl.gather(v, v, 0)", "expected integer indices", None),
        ("kl.gather(v, kl.arange(0, 4)[:, None], 0)", "of one rank in kl.gather", None),
        ("kl.histogram(v, 8)", "expected integers in a tile of rank 1", None),
        ("kl.sort(v[:, None], 0)", "expected the last dimension in kl.sort", "kl.permute"),
        ("kl.topk(v, 9)", "expected k of kl.topk between 1 and 4", None),
        ("kl.dot(v, v)", "expected a tile of rank 2 or more as first operand of kl.dot", "kl.sum(x * y)"),
        ("kl.dot(v[:, None], v[:, None])", "where K is 1 and 4", None),
        ("kl.dot(v[:, None], v[None, :].to(kl.float16))", "expected operands of one type in kl.dot", ".to(kl.float32)"),
        ("kl.dot(v[:, None], v[None, :], out_dtype=kl.bfloat16)", "got bf16", ".to(kl.bfloat16)"),
        ("kl.dot(v[:, None], v[None, :], acc=v)", "expected an acc of type <[4, 4], fp32>", "kl.zeros((4, 4)"),
        ("kl.dot(v[:, None], v[None, :], input_precision='fp8')", "expected one of 'ieee'", None),
        ("kl.dot(v[:, None], v[None, :], input_precision='ieee', allow_tf32=True)", "got both", "drop allow_tf32"),
        ("v.item()", "expected a tile of one element", "kl.sum"),
    ],
)
def test_what_is_refused_and_why(code, message, hint):
    with pytest.raises(CompilationError) as caught:
        body(f"v = kl.full((4,), 1.0, kl.float32)\nw = {code}", n="i32")
    assert message in caught.value.message
    if hint is None:
        return
    assert hint in (caught.value.hint or "")


def test_the_caret_is_under_the_argument_at_fault():
    with pytest.raises(CompilationError) as caught:
        body("v = kl.arange(0, n)", n="i32")
    lines = str(caught.value).splitlines()
    caret = lines[2]
    assert lines[1][caret.index("^")] == "n"


def test_identities_emit_nothing():
    text = body(
        "v = kl.arange(0, 8)\nv = v.reshape(8).permute((0,))\nkl.store(p + v, kl.broadcast_to(v, (8,)))", p="*i32"
    )
    assert "reshape" not in text and "trans" not in text and "broadcast" not in text


def test_promises_become_hints():
    text = body(
        "v = kl.max_contiguous(kl.multiple_of(kl.arange(0, 8) + n, 8), 8)\nkl.store(p + v, v)", p="*i32", n="i32"
    )
    assert "divisibility = array<i64: 8>" in text and "contiguity = array<i64: 8>" in text


def test_dot_carries_its_precision():
    text = body("x = kl.full((16, 16), 1.0, kl.float32)\ny = kl.dot(x, x, input_precision='tf32x3')")
    assert "precision = #tile<precision tf32x3>" in text
    assert "precision" not in body("x = kl.full((16, 16), 1.0, kl.float32)\ny = kl.dot(x, x)")
