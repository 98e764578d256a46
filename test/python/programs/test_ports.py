"""Spellings that ported programs use: methods, attributes of types, optional arguments, loads, blocks, libdevice."""

from collections import namedtuple
from fractions import Fraction

import kiln
import kiln.language as kl
import numpy as np
import pytest
from kiln.language.extra import libdevice

rng = np.random.default_rng(0)


def F(*shape):
    return rng.standard_normal(shape).astype(np.float32)


@kiln.jit
def k_methods(x, y, M: kl.constexpr, N: kl.constexpr):
    """doc string"""
    o = kl.arange(0, M)[:, None] * N + kl.arange(0, N)
    v = kl.load(x + o)
    a = v.sum(axis=1, keep_dims=True)
    b = kl.max(v, axis=-1, keep_dims=True)
    c = v.to(kl.float32, bitcast=False).abs().sqrt()
    d = kl.sum(v)
    e = v.max(0)[None, :]
    f: kl.constexpr = M + N
    g = kl.cast(v, kl.float64).to(kl.float32)
    h = v.argmax(axis=1)
    r = v.reshape(M * N).reshape([M, N]).trans(1, 0).T
    s = v.reshape((N, M)).trans()
    kl.store(y + o, a + b + c + d + e + f + g + h[:, None] + r + s)


def test_methods():
    x = F(8, 16)
    y = np.zeros_like(x)
    k_methods[(1,)](x, y, 8, 16)
    w = (
        x.sum(1, keepdims=True)
        + x.max(1, keepdims=True)
        + np.sqrt(abs(x))
        + x.sum()
        + x.max(0)
        + 24
        + x
        + x.argmax(1)[:, None]
        + x
        + x.reshape(16, 8).T
    )
    assert np.allclose(y, w, atol=1e-4)


@kiln.jit
def k_revrange(y, n, B: kl.constexpr):
    s = 0
    for i in range(n - 1, -1, -1):
        s = s * 3 + i
    for i in kl.range(n, 0, -2):
        s += i
    for _ in range(0):
        s = 7
    for j in range(5, n, 3):
        s += j
    kl.store(y, s)


def test_revrange():
    y = np.zeros(2, np.int32)
    k_revrange[(1,)](y, 7, 4)
    s = 0
    for i in range(6, -1, -1):
        s = s * 3 + i
    for i in range(7, 0, -2):
        s += i
    for j in range(5, 7, 3):
        s += j
    assert y.tolist()[0] == s, (y, s)


@kiln.jit
def k_shortcircuit(x, b, y, FLAG: kl.constexpr, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o)
    if b is not None and FLAG:
        v += kl.load(b + o)
    if (b is None) or (not FLAG):
        v -= 1
    z = kl.load(b + o) if b is not None else 0.0
    v = v + z
    if FLAG:
        w = v * 2
    else:
        w = v
    kl.store(y + o, w)


def test_shortcircuit():
    x = F(8)
    b = F(8)
    y = np.zeros(8, np.float32)
    k_shortcircuit[(1,)](x, None, y, True, 8)
    assert np.allclose(y, (x - 1) * 2)
    k_shortcircuit[(1,)](x, b, y, True, 8)
    assert np.allclose(y, (x + b + b) * 2)
    k_shortcircuit[(1,)](x, b, y, False, 8)
    assert np.allclose(y, (x - 1 + b))


@kiln.jit
def k_introspect(x, y, N: kl.constexpr):
    kl.static_assert(x.dtype.element_ty == kl.float16)
    kl.static_assert(x.dtype.is_ptr())
    kl.static_assert(x.dtype.element_ty.is_fp16())
    kl.static_assert(x.dtype.element_ty.is_floating())
    kl.static_assert(x.dtype.element_ty.primitive_bitwidth == 16)
    kl.static_assert(y.type.element_ty.is_int())
    v = kl.load(x + kl.arange(0, N))
    kl.static_assert(v.shape[0] == N)
    kl.static_assert(len(v.shape) == 1)
    kl.static_assert(v.numel == N)
    kl.static_assert(v.dtype.primitive_bitwidth <= 16 and v.type.scalar == kl.float16)
    kl.static_assert(isinstance(N, kl.constexpr))
    kl.static_assert(not isinstance(v, kl.constexpr))
    kl.static_assert(v.dtype.name == "fp16")
    k: kl.constexpr = kl.constexpr(3) * N // 2**2
    kl.store(y, k)
    kl.store(y + 1, v.shape[0].value)


def test_introspect():
    y = np.zeros(2, np.int32)
    k_introspect[(1,)](F(8).astype(np.float16), y, 8)
    assert y.tolist() == [6, 8]


P = namedtuple("P", ["a", "b"])


@kiln.jit
def k_named(p, y, N: kl.constexpr):
    o = kl.arange(0, N)
    kl.store(y + o, kl.load(p.a + o) + p.b)


def test_named():
    x = F(8)
    y = np.zeros(8, np.float32)
    k_named[(1,)](P(x, 3), y, 8)
    assert np.allclose(y, x + 3)


@kiln.jit
def k_tupleslice(xs, y, N: kl.constexpr):
    o = kl.arange(0, N)
    first, *rest = xs
    kl.store(y + o, kl.load(rest[-1] + o) + kl.load(first + o) * 0)


def test_star_unpack():
    x = F(8)
    y = np.zeros(8, np.float32)
    k_tupleslice[(1,)]((x, x, x + 1), y, 8)
    assert np.allclose(y, x + 1)


@kiln.jit
def k_tupleslice2(xs, y, N: kl.constexpr):
    o = kl.arange(0, N)
    acc = kl.zeros([N], kl.float32)
    for i in kl.static_range(len(xs[1:])):
        acc += kl.load(xs[1:][i] + o)
    kl.store(y + o, acc)


def test_tupleslice():
    x = F(8)
    y = np.zeros(8, np.float32)
    k_tupleslice2[(1,)]((x, x * 2, x + 1), y, 8)
    assert np.allclose(y, x * 2 + x + 1)


@kiln.jit
def k_foriter(xs, y, N: kl.constexpr):
    o = kl.arange(0, N)
    acc = kl.zeros([N], kl.float32)
    for p in xs:
        acc += kl.load(p + o)
    kl.store(y + o, acc)


def test_for_over_tuple():
    x = F(8)
    y = np.zeros(8, np.float32)
    k_foriter[(1,)]((x, x * 2, x + 1), y, 8)
    assert np.allclose(y, x + x * 2 + x + 1)


@kiln.jit
def k_zip(xs, ws, y, N: kl.constexpr):
    o = kl.arange(0, N)
    acc = kl.zeros([N], kl.float32)
    for i, (p, w) in enumerate(zip(xs, ws)):  # noqa: B905
        acc += kl.load(p + o) * w * (i + 1)
    kl.store(y + o, acc)


def test_for_zip():
    x = F(8)
    y = np.zeros(8, np.float32)
    k_zip[(1,)]((x, x * 2, x + 1), (1.0, 2.0, 3.0), y, 8)
    assert np.allclose(y, x + x * 8 + (x + 1) * 9)


@kiln.constexpr_function
def log2c(n):
    return n.bit_length() - 1


@kiln.jit
def k_cf(y, N: kl.constexpr):
    for i in kl.static_range(log2c(N)):
        kl.store(y + i, i + 1)


def test_constexpr_function():
    y = np.zeros(4, np.int32)
    k_cf[(1,)](y, 8)
    assert y.tolist() == [1, 2, 3, 0]


@kiln.jit
def k_math(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o)
    r = (
        kl.exp(v)
        + kl.exp2(v)
        + kl.log(v)
        + kl.log2(v)
        + kl.sqrt(v)
        + kl.rsqrt(v)
        + kl.sin(v)
        + kl.cos(v)
        + kl.sigmoid(v)
        + kl.floor(v)
        + kl.ceil(v)
        + kl.fma(v, v, v)
        + kl.erf(v)
        + kl.clamp(v, 0.1, 0.5)
        + kl.math.exp(v)
        + libdevice.tanh(v)
        + libdevice.pow(v, 2.5)
        + libdevice.log1p(v)
        + libdevice.expm1(v)
        + kl.abs(v)
        + kl.div_rn(v, 3.0)
        + kl.fdiv(v, 2.0)
        + libdevice.round(v)
        + libdevice.trunc(v)
        + libdevice.atan2(v, v)
        + libdevice.fast_expf(v)
        + libdevice.rsqrt(v)
    )
    kl.store(y + o, r)


def test_maths():
    import math

    x = (rng.random(64) + 0.05).astype(np.float32)
    y = np.zeros(64, np.float32)
    k_math[(1,)](x, y, 64)
    v = x.astype(np.float64)
    erf = np.vectorize(math.erf)
    w = (
        np.exp(v)
        + np.exp2(v)
        + np.log(v)
        + np.log2(v)
        + np.sqrt(v)
        + 1 / np.sqrt(v)
        + np.sin(v)
        + np.cos(v)
        + 1 / (1 + np.exp(-v))
        + np.floor(v)
        + np.ceil(v)
        + v * v
        + v
        + erf(v)
        + np.clip(v, 0.1, 0.5)
        + np.exp(v)
        + np.tanh(v)
        + v**2.5
        + np.log1p(v)
        + np.expm1(v)
        + v
        + v / 3
        + v / 2
        + np.round(v)
        + np.trunc(v)
        + np.arctan2(v, v)
        + np.exp(v)
        + 1 / np.sqrt(v)
    )
    assert np.allclose(y, w, rtol=1e-5), abs(y - w).max()


@kiln.jit
def k_misc(x, y, z, M: kl.constexpr, N: kl.constexpr):
    o = kl.arange(0, M)[:, None] * N + kl.arange(0, N)[None, :]
    v = kl.load(x + o)
    kl.store(y + o, kl.flip(v, 1) + kl.flip(v, 0))
    idx = (kl.arange(0, M)[:, None] + kl.arange(0, N)[None, :]) % M
    g = kl.gather(v, idx, 0)
    kl.store(z + o, g)


def test_flip_gather():
    x = F(4, 8)
    y = np.zeros_like(x)
    z = np.zeros_like(x)
    k_misc[(1,)](x, y, z, 4, 8)
    assert np.allclose(y, x[:, ::-1] + x[::-1])
    idx = (np.arange(4)[:, None] + np.arange(8)) % 4
    assert (z == np.take_along_axis(x, idx, 0)).all()


@kiln.jit
def k_catview(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    a = kl.load(x + o)
    b = a * 2
    c = kl.cat(a, b, can_reorder=True)
    kl.store(y + kl.arange(0, 2 * N), c.view([2 * N]))


def test_catview():
    x = F(8)
    y = np.zeros(16, np.float32)
    k_catview[(1,)](x, y, 8)
    assert (np.sort(y) == np.sort(np.concatenate([x, 2 * x]))).all()


@kiln.jit
def k_swz(y, I: kl.constexpr, J: kl.constexpr, G: kl.constexpr):
    p = kl.program_id(0)
    i, j = kl.swizzle2d(p // J, p % J, I, J, G)
    kl.store(y + i * J + j, p)


def test_swz():
    y = np.full((5, 4), -1, np.int32)
    k_swz[(20,)](y, 5, 4, 2)
    assert sorted(y.ravel()) == list(range(20))
    assert y[0, 0] == 0 and y[1, 0] == 1


@kiln.jit
def k_rand(y, seed, N: kl.constexpr):
    o = kl.arange(0, N)
    _, _, _, bits = kl.randint4x(seed, o)
    kl.static_assert(bits.dtype == kl.int32 or bits.dtype == kl.uint32)
    kl.store(y + o, kl.randn(seed, o))
    kl.store(y + N + o, kl.rand(seed, o.to(kl.uint32)))
    e, f, g, h = kl.rand4x(seed, o, n_rounds=7)
    kl.store(y + 2 * N + o, e + f + g + h)


def test_rands():
    N = 4096
    y = np.zeros((3, N), np.float32)
    k_rand[(1,)](y, 42, N)
    assert (
        abs(y[0].mean()) < 0.1
        and abs(y[0].std() - 1) < 0.1
        and abs(y[1].mean() - 0.5) < 0.03
        and abs(y[2].mean() - 2) < 0.05
    )


# load forms
@kiln.jit
def k_loads(x, y, n, N: kl.constexpr):
    o = kl.arange(0, N)
    a = kl.load(x + o, o < n, 0.0, cache_modifier=".cg", eviction_policy="evict_last", volatile=False)
    b = kl.load(x + o, mask=o < n, other=-1)
    c = kl.load(x + o, mask=(o < n) & (o > 2), other=b)
    kl.load(x + o, o < n)
    kl.store(y + o, a + b + c, o < n, cache_modifier=".wt", eviction_policy="")


def test_loads():
    x = F(16)
    y = np.zeros(16, np.float32)
    k_loads[(1,)](x, y, 10, 16)
    o = np.arange(16)
    assert np.allclose(y, np.where(o < 10, 3 * x, 0))


# while with tile carry, nested loops with break/continue
@kiln.jit
def k_newton(x, y, N: kl.constexpr):
    o = kl.arange(0, N)
    v = kl.load(x + o)
    r = v * 0 + 1.0
    it = 0
    err = kl.max(kl.abs(r * r - v))
    while err > 1e-5 and it < 50:
        r = 0.5 * (r + v / r)
        err = kl.max(kl.abs(r * r - v) / v)
        it += 1
        if it == 49:
            continue
    for i in range(3):
        for j in range(4):
            if j == 2:
                break
            if i == 1:
                continue
            r += 1
    kl.store(y + o, r)


def test_newton():
    x = (rng.random(64) * 10 + 0.1).astype(np.float32)
    y = np.zeros(64, np.float32)
    k_newton[(1,)](x, y, 64)
    assert np.allclose(y, np.sqrt(x) + 4, rtol=1e-4)


@kiln.jit
def k_bp(x, y, n, m, B: kl.constexpr, PAD: kl.constexpr):
    p = kl.make_block_ptr(x, (n, m), (m, 1), (0, 0), (B, B), (1, 0))
    q = kl.make_block_ptr(y, (B, B), (B, 1), (0, 0), (B, B), (1, 0))
    p = (
        kl.advance(p, (B // 2, 0)).advance((0, B // 2))
        if False
        else kl.advance(kl.advance(p, (B // 2, 0)), (0, B // 2))
    )
    v = kl.load(p, boundary_check=(0, 1), padding_option=PAD)
    kl.store(q, v)


def test_bp_padding():
    x = F(10, 11)
    for pad in ("zero", "nan", ""):
        y = np.full((8, 8), 5, np.float32)
        k_bp[(1,)](x, y, 10, 11, 8, pad)
        w = np.full((8, 8), np.nan if pad == "nan" else 0, np.float32)
        w[:6, :7] = x[4:, 4:]
        assert np.array_equal(y, w, equal_nan=True), pad


@kiln.jit
def k_desc3(x, y, A, B, C, a: kl.constexpr, b: kl.constexpr, c: kl.constexpr):
    d = kl.make_tensor_descriptor(x, [A, B, C], [B * C, C, 1], [a, b, c])
    e = kl.make_tensor_descriptor(y, shape=[A, B, C], strides=[B * C, C, 1], block_shape=[a, b, c])
    i, j, k = kl.program_id(0) * a, kl.program_id(1) * b, kl.program_id(2) * c
    v = kl.load_tensor_descriptor(d, [i, j, k])
    e.store([i, j, k], v * 2)


def test_desc3():
    x = F(5, 6, 8)
    y = np.zeros_like(x)
    k_desc3[(3, 2, 2)](x, y, 5, 6, 8, 2, 4, 4)
    assert (y == 2 * x).all()


@kiln.jit
def k_desc_atomic(x, N: kl.constexpr):
    d = kl.make_tensor_descriptor(x, [N, N], [N, 1], [N, N])
    d.atomic_add([0, 0], kl.full([N, N], 1.0, kl.float32))


def test_desc_atomic():
    x = np.zeros((16, 16), np.float32)
    k_desc_atomic[(3,)](x, 16)
    assert (x == 3).all()


@kiln.jit
def k_desc_gather(x, i, y, M, K: kl.constexpr, R: kl.constexpr):
    d = kl.make_tensor_descriptor(x, [M, K], [K, 1], [1, K])
    rows = kl.load(i + kl.arange(0, R))
    v = d.gather(rows, 0)
    kl.store(y + kl.arange(0, R)[:, None] * K + kl.arange(0, K), v)


def test_desc_gather():
    x = F(20, 16)
    i = rng.integers(0, 20, 8).astype(np.int32)
    y = np.zeros((8, 16), np.float32)
    k_desc_gather[(1,)](x, i, y, 20, 16, 8)
    assert (y == x[i]).all()


@kiln.jit(do_not_specialize=["n"], debug=True, noinline=False)
def k_jitargs(y, n):
    kl.store(y, n)


@kiln.jit(noinline=True)
def noinl(x):
    return x + 1


@kiln.jit
def k_noinl(y):
    kl.store(y, noinl(kl.load(y)))


def test_jitargs():
    y = np.zeros(1, np.int32)
    k_jitargs[(1,)](y, 16)
    assert y[0] == 16
    k_noinl[(1,)](y)
    assert y[0] == 17


@kiln.jit
def k_types(y):
    a = kl.full((), 3, kl.int8)
    b = a * 100
    kl.store(y, b.to(kl.int32))
    c = kl.full((), 200, kl.uint8) + kl.full((), 100, kl.uint8)
    kl.store(y + 1, c.to(kl.int32))
    d = (kl.full((), -1, kl.int32).to(kl.uint32) >> 28).to(kl.int32)
    kl.store(y + 2, d)
    e = kl.full((), 2.7, kl.float32).to(kl.int32)
    f = kl.full((), -2.7, kl.float32).to(kl.int32)
    kl.store(y + 3, e * 10 + f)
    kl.store(y + 4, kl.full((), 1e10, kl.float32).to(kl.int32) if False else 0)
    g = 5.0 % 3.0
    h = kl.full((), -5.5, kl.float32) % 3.0
    kl.store(y + 5, (h * 10).to(kl.int32))
    i = -kl.full((), -7, kl.int32) // 2
    kl.store(y + 6, i + g.to(kl.int32) if not isinstance(g, kl.constexpr) else i + 2)
    kl.store(y + 7, (~kl.full((), 5, kl.int32)) | (3 & 6) ^ 1)


def test_types_():
    y = np.zeros(8, np.int32)
    k_types[(1,)](y)
    assert y.tolist() == [44, 44, 15, 18, 0, -25, 5, (~5) | ((3 & 6) ^ 1)]


@kiln.jit
def k_nested_tuple(y):
    t = ((1, 2), (3, (4, 5)))
    a, (b, (c, d)) = t
    kl.store(y, a[0] + a[1] * 10 + b * 100 + c * 1000 + d * 10000)
    u = t + ((6,),)  # noqa: RUF005
    kl.store(y + 1, len(u) + u[2][0])


def test_nested_tuples():
    y = np.zeros(2, np.int32)
    k_nested_tuple[(1,)](y)
    assert y.tolist() == [54321, 9], y


@kiln.jit
def k_dynif(x, y, n, N: kl.constexpr):
    p = kl.program_id(0)
    o = kl.arange(0, N)
    if p == 0:
        v = kl.load(x + o)
        s = v * 2
    elif p < n:
        s = kl.load(x + o) + p
    else:
        s = kl.zeros([N], kl.float32)
    kl.store(y + p * N + o, s)


def test_dynif():
    x = F(16)
    y = np.zeros((4, 16), np.float32)
    k_dynif[(4,)](x, y, 3, 16)
    assert np.allclose(y, np.stack([2 * x, x + 1, x + 2, 0 * x]))


@kiln.jit
def k_walrus(y, n):
    if (m := n + 1) > 3:
        kl.store(y, m)
    lst = [1, 2, 3]
    kl.store(y + 1, lst[1])
    kl.store(y + 2, sum([1, 2]) if False else 3)


def test_walrus():
    y = np.zeros(3, np.int32)
    k_walrus[(1,)](y, 5)
    assert y.tolist() == [6, 2, 3]


@kiln.jit
def k_while_true(y):
    i = 0
    while True:
        i += 1
        if i > 10:
            break
    kl.store(y, i)


def test_while_true():
    y = np.zeros(1, np.int32)
    k_while_true[(1,)](y)
    assert y[0] == 11


@kiln.jit
def k_annot(y, n: "kl.int64", m: kl.constexpr = 5, p: int = 3):
    kl.store(y, n + m + p)


def test_annot():
    y = np.zeros(1, np.int64)
    k_annot[(1,)](y, 2)
    assert y[0] == 10


@kiln.jit
def k_ptrs_array(ptrs, y, N: kl.constexpr):
    for i in range(3):
        p = kl.load(ptrs + i).to(kl.pointer_type(kl.float32))
        kl.store(y + i * N + kl.arange(0, N), kl.load(p + kl.arange(0, N)))


@pytest.mark.cpu  # addresses of the host, in memory
def test_ptr_array():
    xs = [F(8) for _ in range(3)]
    y = np.zeros((3, 8), np.float32)
    k_ptrs_array[(1,)](np.array([x.ctypes.data for x in xs], np.uint64), y, 8)
    assert (y == np.stack(xs)).all()


@kiln.jit
def k_reduce_custom(x, y, M: kl.constexpr, N: kl.constexpr):
    v = kl.load(x + kl.arange(0, M)[:, None] * N + kl.arange(0, N))
    kl.store(y + kl.arange(0, M), kl.reduce(v, 1, _mul, keep_dims=False))
    kl.store(y + M, kl.reduce(kl.ravel(v), 0, _mul))
    kl.store(y + M + 1, kl.reduce(v, None, _mul))


@kiln.jit
def _mul(a, b):
    return a * b


def test_reduce_custom():
    x = F(4, 8)
    y = np.zeros(6, np.float32)
    k_reduce_custom[(1,)](x, y, 4, 8)
    assert np.allclose(y, [*x.prod(1), x.prod(), x.prod()], rtol=1e-4)


@kiln.jit
def k_red_ops(x, y, N: kl.constexpr):
    v = kl.load(x + kl.arange(0, N))
    kl.store(y, kl.xor_sum(v, 0))
    kl.store(y + 1, kl.reduce_or(v, 0))
    kl.store(y + 2, kl.sum((v > 3).to(kl.int32)))
    kl.store(y + 3, kl.sum(v > 3))
    kl.store(y + 4, kl.max(v, 0))
    kl.store(y + 5, kl.min(v))
    kl.store(y + 6, kl.sum(v.to(kl.int8)).to(kl.int32))


def test_red_ops():
    x = rng.integers(0, 100, 64).astype(np.int32)
    y = np.zeros(7, np.int32)
    k_red_ops[(1,)](x, y, 64)
    assert y.tolist() == [
        np.bitwise_xor.reduce(x),
        np.bitwise_or.reduce(x),
        (x > 3).sum(),
        (x > 3).sum(),
        x.max(),
        x.min(),
        x.sum(),
    ], y


# ---- types, functions and jit functions given as arguments are constexprs
@kl.constexpr
def largest(type):
    # Annotated parameters of Triton programs expect a constexpr, which `.value` unwraps.
    kind = type.value
    return 2 ** (kind.int_bitwidth - 1) - 1 if kind.is_int_signed() else float("inf")


@kiln.constexpr_function
def above(n):
    return 1 << n.bit_length()


@kiln.jit
def convert(x, type):
    return x.to(type.value)


@kiln.jit
def twice(x):
    return x * 2


@kiln.jit
def apply(function: kl.constexpr, x):
    return function.value(x) + function(x)


@kiln.jit
def k_constants(x, y, z, N: kl.constexpr, TYPE: kl.constexpr, FUNCTION: kl.constexpr):
    i = kl.arange(0, above(N - 1))
    local: kl.constexpr = kl.int32
    v = convert(kl.load(x + i), TYPE) + convert(1.75, local) + convert(0.5, x.dtype.element_ty)
    kl.store(y + i, kl.minimum(v.to(TYPE.value), largest(TYPE)))
    kl.store(z, largest(kl.int16))
    kl.store(z + 1, FUNCTION(3) + apply(twice, 100) + apply(FUNCTION, 1000))
    kl.store(z + 2, isinstance(TYPE, kl.constexpr) and TYPE == kl.float64 and TYPE.is_fp64())


def test_types_and_functions_as_constants():
    x, y, z = F(16), np.zeros(16), np.zeros(3, np.int32)
    k_constants[(1,)](x, y, z, 16, kl.float64, twice)
    np.testing.assert_array_equal(y, x.astype(np.float64) + 1.5)
    assert z.tolist() == [2**15 - 1, 6 + 400 + 4000, 1]


def test_redefining_a_constexpr_function_recompiles():
    namespace = {"kl": kl, "kiln": kiln}
    text = "@kiln.jit\ndef kernel(y):\n    kl.store(y, one() + other())\n"
    define = "@kiln.constexpr_function\ndef one():\n    return {}\n@kl.constexpr\ndef other():\n    return {}\n"
    exec(define.format(1, 10), namespace)
    namespace["kernel"] = kernel = kiln.jit(source=text)(_defined(text, namespace))
    y = np.zeros(1, np.int32)
    kernel[(1,)](y)
    assert y[0] == 11
    exec(define.format(2, 10), namespace)
    kernel[(1,)](y)
    assert y[0] == 12
    exec(define.format(2, 20), namespace)
    kernel[(1,)](y)
    assert y[0] == 22


def _defined(text, namespace):
    exec(text.replace("@kiln.jit\n", ""), namespace)
    return namespace["kernel"]


@kiln.jit
def k_range_hints(y, n):
    total = 0
    for i in range(0, n, num_stages=2, loop_unroll_factor=2):
        total += i
    kl.store(y, total)


def test_pythons_range_takes_the_hints_of_kl_range():
    y = np.zeros(1, np.int32)
    compiled = k_range_hints[(1,)](y, 7)
    assert y[0] == 21 and "tile.num_stages = 2" in compiled.asm["tile"]


# ---- what programs import from tl.standard
@kiln.jit
def k_standard(x, y, z, N: kl.constexpr):
    i = kl.arange(0, N)
    v = kl.load(x + i)
    steps: kl.constexpr = kl.standard._log2(v.shape[0])
    kl.store(y, steps + kl.standard._is_power_of_two(N))
    kl.store(y + 1, kl.reduce(i, 0, kl.standard._sum_combine))
    best, where = kl.reduce((v, i), 0, kl.standard._argmax_combine_tie_break_left)
    _, last = kl.reduce((v, i), 0, kl.standard._argmin_combine_tie_break_left)
    kl.store(y + 2, where + 100 * last)
    top = kl.reduce(v, 0, kl.standard._elementwise_max) == best
    kl.store(y + 3, top & (kl.standard.sum(kl.standard.zeros([N], kl.int32)) == 0))
    wide = kl.sum(i.to(kl.int8), dtype=kl.standard._pick_sum_dtype(kl.int8, None))
    kl.store(y + 4, kl.standard._get_flip_dim(-1, (4, 5)) + (wide.dtype == kl.int32))
    kl.store(z + i, kl.standard.sort(kl.standard.flip(v)))


def test_helpers_of_the_core():
    assert kl.core._unwrap_if_constexpr(kl.constexpr(3)) == kl.core._constexpr_to_value(3) == 3
    assert kl.core.CONSTEXPR_0.value == 0


def test_helpers_of_the_standard_library():
    x = np.array([3, -1, 7, 7, -1, 0, 2, 5], np.float32)
    y, z = np.zeros(5, np.int32), np.zeros(8, np.float32)
    k_standard[(1,)](x, y, z, 8)
    assert y.tolist() == [4, 28, 102, 1, 2]
    assert z.tolist() == sorted(x.tolist())


# ---- constexprs of other numbers, and of no number
HALF, THREE, YES = kl.constexpr(Fraction(1, 2)), kl.constexpr(np.int16(3)), kl.constexpr(np.bool_(True))


class Setting:
    scale = 4

    def __repr__(self):
        return "a setting"


@kiln.jit
def k_numbers(y, SCALE: kl.constexpr, SETTING: kl.constexpr):
    kl.store(y, kl.load(y) * HALF + THREE + YES + SCALE + SETTING.scale)


@kiln.jit
def k_object(y, SETTING: kl.constexpr):
    kl.store(y, kl.load(y) + SETTING)


def test_constants_of_other_classes():
    y = np.full(1, 10, np.float32)
    k_numbers[(1,)](y, Fraction(1, 4), Setting())
    assert y[0] == 5 + 3 + 1 + 0.25 + 4
    with pytest.raises(kiln.errors.CompilationError, match=r"right operand of \+, got a Setting"):
        k_object[(1,)](y, Setting())
