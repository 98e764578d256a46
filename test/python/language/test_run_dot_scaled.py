"""kl.dot_scaled against float64: every format, packed along either axis, with and without scales, in batches."""

from __future__ import annotations

import itertools
from typing import Any

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln import knobs
from kiln.errors import CompilationError
from running import evaluate, numpy_type

RNG = np.random.default_rng(23)
F32, F64 = np.float32, np.float64
E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, -0.0, -0.5, -1, -1.5, -2, -3, -4, -6])
FORMATS = ["e2m1", "e4m3", "e5m2", "bf16", "fp16"]
TYPES = {"e4m3": "float8e4nv", "e5m2": "float8e5", "bf16": "bfloat16", "fp16": "float16"}


def operand(form: str, shape: tuple[int, ...], packed: int = -1) -> tuple[np.ndarray, np.ndarray]:
    """An operand as a kernel reads it, and the numbers it represents; e2m1 values are packed in pairs along
    `packed`."""
    if form != "e2m1":
        stored = RNG.standard_normal(shape).astype(numpy_type(TYPES[form]))
        return stored, stored.astype(F64)
    codes = RNG.integers(0, 16, shape)
    pairs = np.moveaxis(codes, packed, -1)
    stored = (pairs[..., 0::2] | pairs[..., 1::2] << 4).astype(np.uint8)
    return np.moveaxis(stored, -1, packed).copy(), E2M1[codes]


def scale(*shape: int) -> np.ndarray:
    return RNG.integers(120, 132, shape).astype(np.uint8)


def spread(scales: np.ndarray, k_axis: int) -> np.ndarray:
    """The scale of each element; K is the last dimension or the one before it."""
    factors = np.repeat(2.0 ** (scales.astype(F64) - 127), 32, -1)
    return factors if k_axis == -1 else np.swapaxes(factors, -1, -2)


def close(got: np.ndarray, a: np.ndarray, b: np.ndarray, acc: Any = 0.0, unit: float = 0.0) -> None:
    """The products are exact; the sum may be off by its own roundings, the result by `unit`."""
    bound = (np.abs(a) @ np.abs(b) + np.abs(acc)) * ((a.shape[-1] + 1) * 2.0**-24 + unit)
    assert np.all(np.abs(got.astype(F64) - (a @ b + acc)) <= bound), np.max(np.abs(got - (a @ b + acc)) / bound)


@pytest.mark.cpu
@pytest.mark.parametrize("scaled", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("left, right", list(itertools.product(FORMATS, FORMATS)))
def test_every_pair_of_formats(left, right, scaled):
    a, x = operand(left, (16, 64))
    b, y = operand(right, (64, 32), -2)
    inputs: dict[str, Any] = {"a": a, "b": b}
    names = ["None", "None"]
    if scaled[0]:
        inputs["sa"], names[0] = scale(16, 2), "sa"
        x = x * spread(inputs["sa"], -1)
    if scaled[1]:
        inputs["sb"], names[1] = scale(32, 2), "sb"
        y = y * spread(inputs["sb"], -2)
    expression = f'kl.dot_scaled(a, {names[0]}, "{left}", b, {names[1]}, "{right}")'
    close(evaluate(expression, ((16, 32), F32), **inputs), x, y)


@pytest.mark.parametrize("pack", [(True, True), (True, False), (False, True), (False, False)])
@pytest.mark.parametrize("left, right", [("e2m1", "e2m1"), ("e2m1", "e4m3"), ("fp16", "e2m1")])
def test_packed_along_either_axis(left, right, pack):
    pack = tuple(packed or form != "e2m1" for packed, form in zip(pack, (left, right), strict=True))
    a, x = operand(left, (32, 128), -1 if pack[0] else -2)
    b, y = operand(right, (128, 64), -2 if pack[1] else -1)
    sa, sb = scale(32, 4), scale(64, 4)
    got = evaluate(
        f'kl.dot_scaled(a, sa, "{left}", b, sb, "{right}", lhs_k_pack={pack[0]}, rhs_k_pack={pack[1]})',
        ((32, 64), F32), a=a, b=b, sa=sa, sb=sb,
    )  # fmt: skip
    close(got, x * spread(sa, -1), y * spread(sb, -2))


def test_every_code_and_every_scale():
    # 32 rows with 64 different scales each; each column of b picks one element of a group.
    codes = np.tile(np.arange(16), (32, 8))
    a = (codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8)
    b = np.zeros((128, 64), np.float16).astype(numpy_type("bfloat16"))
    picked = (np.arange(64) * 2 + np.arange(64) // 32) % 128
    b[picked, np.arange(64)] = 1
    for first in (1, 64, 127, 126 + 64, 252 - 128):
        sa = (first + np.arange(128).reshape(32, 4) % 60).astype(np.uint8)
        got = evaluate('kl.dot_scaled(a, sa, "e2m1", b, None, "bf16")', ((32, 64), F32), a=a, b=b, sa=sa)
        exact = (E2M1[codes] * spread(sa, -1))[:, picked]
        np.testing.assert_array_equal(got, exact.astype(F32))


def test_the_ends_of_the_scales():
    a, b = np.full((16, 32), 0x22, np.uint8), np.eye(64, 16).astype(numpy_type("bfloat16"))
    sa = np.full((16, 2), 127, np.uint8)
    sa[1], sa[2], sa[3] = 0, 255, 254
    got = evaluate('kl.dot_scaled(a, sa, "e2m1", b, None, "bf16")', ((16, 16), F32), a=a, b=b, sa=sa)
    assert (np.diag(got)[[0, 1, 3]] == [1, 2.0**-127, 2.0**127]).all()
    assert np.isnan(got[2]).all() and not np.isnan(np.delete(got, 2, 0)).any()


def test_batches():
    a, x = operand("e2m1", (2, 3, 16, 64))
    b, y = operand("e5m2", (2, 3, 64, 16))
    sa, sb = scale(2, 3, 16, 2), scale(2, 3, 16, 2)
    got = evaluate(
        'kl.dot_scaled(a, sa, "e2m1", b, sb, "e5m2")', ((2, 3, 16, 16), F32), a=a, b=b, sa=sa, sb=sb
    )  # fmt: skip
    close(got, x * spread(sa, -1), y * spread(sb, -2))


@pytest.mark.parametrize("out", ["float32", "float16", "bfloat16"])
def test_an_accumulator_of_each_type(out):
    a, x = operand("e2m1", (16, 64))
    b, y = operand("e2m1", (64, 16), -2)
    acc = (RNG.standard_normal((16, 16)) * 8).astype(numpy_type(out))
    call = f'kl.dot_scaled(a, None, "e2m1", b, None, "e2m1", acc, True, out_dtype=kl.{out})'
    got = evaluate(call, ((16, 16), numpy_type(out)), a=a, b=b, acc=acc)
    close(got.astype(F64), x, y, acc.astype(F64), {"float32": 0, "float16": 2.0**-11, "bfloat16": 2.0**-8}[out])


MISTAKES = [
    ('kl.dot_scaled(a, None, "e3m0", b, None, "e2m1")', "one of 'e2m1', 'e4m3', 'e5m2', 'bf16', 'fp16' as lhs_format"),
    ('kl.dot_scaled(a, None, "e2m1", b, None, "bf16")', "expected a tile of bf16 as rhs"),
    ('kl.dot_scaled(a, None, "e4m3", b, None, "e2m1", lhs_k_pack=False)', "only e2m1 is packed"),
    ('kl.dot_scaled(a, s, "e2m1", b, None, "e2m1")', r"lhs_scale of uint8 in shape \[16, 2\]"),
    ('kl.dot_scaled(a, None, "e2m1", b, None, "e4m3")', r"expected operands \(M, K\) and \(K, N\)"),
    (
        'kl.dot_scaled(a, None, "e2m1", b, None, "e2m1", out_dtype=kl.float64)',
        "expected fp32, fp16 or bf16 as out_dtype",
    ),
    ('kl.dot_scaled(a, None, "e2m1", b, None, "e2m1", kl.zeros((16, 16), kl.float16))', "expected an acc of fp32"),
]


@pytest.mark.parametrize("call, message", MISTAKES, ids=[m for _, m in MISTAKES])
def test_mistakes(call, message):
    a, b, s = np.zeros((16, 32), np.uint8), np.zeros((32, 16), np.uint8), np.zeros((16, 4), np.uint8)
    with pytest.raises(CompilationError, match=message):
        evaluate(call, ((16, 16), F32), a=a, b=b, s=s)


@pytest.mark.cpu  # the test compiles for GPUs that are not present
@pytest.mark.parametrize("row", ["sm_80", "sm_90a"])
@pytest.mark.parametrize(
    "left, right, scaled", [("e2m1", "e4m3", True), ("fp16", "e2m1", True), ("fp16", "e5m2", False)]
)
def test_tensor_cores_multiply(row, left, right, scaled):
    @kiln.jit
    def kernel(a, b, s, c, LEFT: kl.constexpr, RIGHT: kl.constexpr, LP: kl.constexpr, RP: kl.constexpr):
        i, k = kl.arange(0, 64), kl.arange(0, 64)
        scale = kl.load(s + i[:, None] * 2 + kl.arange(0, 2)) if s is not None else None
        x = kl.load(a + i[:, None] * (64 // LP) + kl.arange(0, 64 // LP))
        y = kl.load(b + kl.arange(0, 64 // RP)[:, None] * 64 + i)
        kl.store(c + i[:, None] * 64 + k, kl.dot_scaled(x, scale, LEFT, y, scale, RIGHT))

    types = {**{form: getattr(kl, name) for form, name in TYPES.items()}, "e2m1": kl.uint8}
    packs = [1 + (form == "e2m1") for form in (left, right)]
    with knobs.scope(target=row):
        compiled = kernel.warmup(
            types[left], types[right], kl.uint8 if scaled else None, kl.float32, left, right, *packs
        )
    assert "mma" in compiled.asm["ptx"] and "fma.rn.f32" not in compiled.asm["ptx"]
